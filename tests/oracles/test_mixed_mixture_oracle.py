"""MixedMixture beside the reference, step by step; densities beside numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from knoll import GaussianMixture, MixedMixture
from knoll._common.mixed_table import MixedTable
from knoll.gaussian.covariance import COVARIANCE_TYPES, Moments
from knoll.mixture import mixed_em as em
from knoll.reference import em_mixed

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.KnollWarning")


def table(n=60, p=3, q=2, levels=3, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=n)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + 3 * group[:, None]
    codes = np.where(rng.random((n, q)) < 0.7, group[:, None], rng.integers(levels, size=(n, q)))
    X[rng.random(X.shape) < missing] = np.nan
    codes[rng.random(codes.shape) < missing] = -1
    return X, codes


def together(X, codes):
    return np.column_stack([X, np.where(codes < 0, np.nan, codes)])


@pytest.mark.parametrize("k", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("p", "q"), [(3, 2), (1, 0), (0, 3), (4, 1)])
def test_steps_equal_the_reference(k, missing, p, q):
    X, codes = table(n=150, p=p, q=q, missing=missing, seed=k)
    rng = np.random.default_rng(1)
    mu = 2 + 2 * rng.normal(size=(k, p))
    root = rng.normal(size=(k, p, p)) + 4 * np.eye(p)
    Sigma, pi = root @ root.transpose(0, 2, 1), rng.dirichlet(np.ones(k))
    theta = [rng.dirichlet(np.ones(3), size=k) for _ in range(q)]
    states = list(zip(range(4), em_mixed(X, codes, pi, mu, Sigma, theta, tol=0.0)))

    levels = tuple(np.arange(3.0) for _ in range(q))
    units = em.Units(np.zeros(p, dtype=np.int64), np.zeros(p), np.zeros(p, dtype=np.int64))
    rows = em.arrange(MixedTable(X, codes.astype(np.int32), levels), None, units)
    shape = COVARIANCE_TYPES["full"].blank().update(Moments(np.ones(k), mu, Sigma, np.ones(p))) if p else None
    state = em.MixedState(pi, shape, np.vstack([one.T for one in theta]) if q else np.zeros((0, k)))
    shares = [np.bincount(column[column >= 0], minlength=3) / (column >= 0).sum() for column in codes.T]
    prior = em.Prior.of(1.0, k, np.concatenate(shares) if q else np.zeros(0))
    for _, expected in states:
        resp, log_prob = np.empty((len(X), k)), np.empty(len(X))
        em.expect(rows, state, 1, resp=resp, log_prob=log_prob)
        np.testing.assert_allclose(resp, expected.lam, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(log_prob.sum(), expected.log_likelihood, rtol=1e-10)
        np.testing.assert_allclose(state.weights, expected.pi, rtol=1e-9, atol=1e-12)
        if p:
            np.testing.assert_allclose(state.covariance.means, expected.mu, rtol=1e-7, atol=1e-8)
            np.testing.assert_allclose(state.covariance.covariances_, expected.Sigma, rtol=1e-6, atol=1e-7)
        if q:
            np.testing.assert_allclose(state.probabilities, np.vstack([t.T for t in expected.theta]), rtol=1e-8)
        state, report = em.step(rows, state, 2, reg=np.zeros(p), deviations=np.ones(p), prior=prior)
        np.testing.assert_allclose(report.objective * len(X), expected.objective, rtol=1e-10)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_density_of_a_row_with_a_missing_number_is_the_integral(covariance_type):
    X, codes = table(n=300, p=2, q=1)
    rows = together(X, codes)
    model = MixedMixture(2, categorical_features=[2], covariance_type=covariance_type, random_state=0).fit(rows)
    grid = np.linspace(-60, 60, 24_001)
    for row in rows[:10]:
        full = np.where(np.isnan(row), [0.5, 0.5, 1.0], row)
        line = np.repeat(full[None], len(grid), axis=0)
        line[:, 0] = grid
        missing = full.copy()
        missing[0] = np.nan
        integral = np.exp(model.score_samples(line)).sum() * (grid[1] - grid[0])
        np.testing.assert_allclose(np.exp(model.score_samples(missing[None]))[0], integral, rtol=1e-6)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_density_of_a_row_with_a_missing_category_is_the_sum(covariance_type):
    X, codes = table(n=300, p=2, q=2)
    rows = together(X, codes)
    model = MixedMixture(3, categorical_features=[2, 3], covariance_type=covariance_type, random_state=0).fit(rows)
    for row in rows[:10]:
        each = np.repeat(row[None], 3, axis=0)
        each[:, 3] = model.categories_[1]
        missing = row.copy()
        missing[3] = np.nan
        total = np.exp(model.score_samples(each)).sum()
        np.testing.assert_allclose(np.exp(model.score_samples(missing[None]))[0], total, rtol=1e-12)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_density_and_conditional_means_by_scipy(covariance_type):
    X, codes = table(n=200, p=3, q=1, missing=0.25)
    rows = together(X, codes)
    model = MixedMixture(2, categorical_features=[3], covariance_type=covariance_type, random_state=0).fit(rows)
    shape = COVARIANCE_TYPES[covariance_type]
    Sigma = shape.as_matrices(model.covariances_, 2, 3)
    theta, filled, resp = model.category_probabilities_[0], model.impute(rows), model.predict_proba(rows)
    for i, row in enumerate(rows):
        seen = ~np.isnan(row[:3])
        joint, means = np.log(model.weights_), np.repeat(row[None, :3], 2, axis=0)
        for c in range(2):
            if seen.any():
                joint[c] += multivariate_normal(model.means_[c][seen], Sigma[c][np.ix_(seen, seen)]).logpdf(
                    row[:3][seen]
                )
            if row[3] == row[3]:
                joint[c] += np.log(theta[c, int(row[3])])
            S, away = Sigma[c], (row[:3] - model.means_[c])[seen]
            shift = S[np.ix_(~seen, seen)] @ np.linalg.solve(S[np.ix_(seen, seen)], away) if seen.any() else 0.0
            means[c, ~seen] = model.means_[c][~seen] + shift
        np.testing.assert_allclose(model.score_samples(row[None])[0], np.logaddexp.reduce(joint), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(filled[i, :3], resp[i] @ means, rtol=1e-8, atol=1e-10)
        if row[3] != row[3]:
            assert filled[i, 3] == (resp[i] @ theta).argmax()


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_without_missing_values_are_a_gaussian_mixture_to_the_bit(covariance_type, dtype, weighted):
    X = table(n=400, missing=0.0)[0].astype(dtype)
    weights = np.arange(400.0) % 3 if weighted else None
    mixed, gaussian = (
        Model(3, covariance_type=covariance_type, random_state=0, n_init=2).fit(X, sample_weight=weights)
        for Model in (MixedMixture, GaussianMixture)
    )
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_", "labels_", "lower_bounds_"):
        a, b = getattr(mixed, name), getattr(gaussian, name)
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name
    for method in ("predict", "predict_proba", "score_samples"):
        a, b = getattr(mixed, method)(X), getattr(gaussian, method)(X)
        assert a.dtype == b.dtype, method
        assert a.tobytes() == b.tobytes(), method
    np.testing.assert_allclose([mixed.bic(X), mixed.aic(X)], [gaussian.bic(X), gaussian.aic(X)], rtol=1e-12)
    np.testing.assert_allclose(mixed.icl(X), gaussian.icl(X), rtol=1e-6)
    assert mixed.n_iter_ == gaussian.n_iter_
