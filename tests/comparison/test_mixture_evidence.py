"""A mixture as a witness: valleys between components, whether it is true, and which components are one cluster."""

from __future__ import annotations

import numpy as np
import pytest

from knoll import GaussianMixture
from knoll.comparison.density_modes import kernel_estimate, squared_distances
from knoll.comparison.mixture_evidence import (
    _by_density_drops,
    _merged_components,
    _n_parameters,
    _precisions,
    _saddles,
    assess_mixture,
    fit_mixtures,
)


def weigh(X, model):
    return assess_mixture(X, model, kernel_estimate(squared_distances(X), X.shape[1]), 0)


def pair(apart: float, n: int = 300, d: int = 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, d))
    X[n:, 0] += apart
    return X


def held(means, variances) -> GaussianMixture:
    """A mixture in the line with these very parameters."""
    k = len(means)
    X = np.concatenate([np.random.default_rng(0).normal(m, np.sqrt(v), size=50) for m, v in zip(means, variances)])
    model = GaussianMixture(
        k,
        means_init=np.array(means, dtype=float)[:, None],
        weights_init=np.full(k, 1 / k),
        precisions_init=1 / np.array(variances, dtype=float)[:, None, None],
        max_iter=0,
    )
    return model.fit(X[:, None])


@pytest.mark.parametrize("apart", [0.5, 1.9, 2.5, 4.0])
def test_the_pass_between_two_components_is_the_lowest_place_of_the_density(apart):
    model = held([0.0, apart], [1.0, 1.0])
    line = np.linspace(0, apart, 2001)[:, None]
    low = model.score_samples(line).min()
    _, depth = _saddles(model)
    ends = model.score_samples(model.means_).min()
    assert depth[0, 1] == pytest.approx(max(0.0, ends - low), abs=2e-3)
    assert (depth[0, 1] > 1e-3) == (apart > 2.0)  # two equal Gaussians have one top up to two deviations apart


def test_components_without_a_deep_valley_are_joined():
    assert _by_density_drops(held([0.0, 2.5, 12.0], [1.0, 1.0, 1.0]), 1.5).tolist() in ([0, 0, 1], [1, 1, 0])


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_precisions_of_every_type_and_their_count(kind):
    X = pair(5.0, d=3)
    model = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    inverse = np.linalg.inv(_precisions(model))
    for c in range(2):
        near = np.cov(X[model.labels_ == c], rowvar=False)
        assert np.allclose(inverse[c], near, atol=0.35)
    bic = -2 * model.score(X) * len(X) + _n_parameters(model, 3) * np.log(len(X))
    assert model.bic(X) == pytest.approx(bic)


def test_components_that_share_their_centre_are_one_cluster():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=(300, 2)), 6 * rng.normal(size=(100, 2))]
    model = GaussianMixture(2, random_state=0).fit(X)
    assert _merged_components(model, X).tolist() == [0, 0]


def test_a_true_mixture_is_trusted_with_a_shallow_valley():
    X = pair(3.4, 400)
    model, curve = fit_mixtures(X, (2, 3, 4), {}, 0, None)
    found = weigh(X, model)
    assert (model.n_components, found.count, found.trusted) == (2, 2, True)
    assert curve.chosen == 2
    assert "is consistent with a mixture of" in found.reason


def test_gaussians_that_tile_a_box_are_an_approximation():
    X = np.random.default_rng(0).uniform(size=(800, 2))
    model = GaussianMixture(6, random_state=0).fit(X)
    found = weigh(X, model)
    assert found.count == 1
    assert not found.trusted
    assert found.goodness_of_fit < -2
    assert "is only an approximation" in found.reason


def test_one_gaussian_is_enough():
    X = np.random.default_rng(0).normal(size=(300, 4))
    model, curve = fit_mixtures(X, (2, 3), {}, 0, None)
    assert (model.n_components, weigh(X, model).count) == (1, 1)
    assert "1 spherical component " in curve.reason


@pytest.mark.filterwarnings("ignore::knoll.exceptions.KnollWarning")
def test_bic_joins_what_a_bad_start_has_split():
    """k-means cuts long clusters across; the fits with more components betray where they belong together."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(200, 3)) * [9, 1, 1] + [0, 7 * i, 0] for i in range(3)])
    model, _ = fit_mixtures(X, tuple(range(2, 9)), {}, 0, None)
    least = GaussianMixture(3, covariance_type="tied", means_init=[[0, 0, 0], [0, 7, 0], [0, 14, 0]]).fit(X).bic(X)
    assert model.n_components == 3
    assert model.bic(X) <= least + 10


def test_settings_by_hand_are_kept():
    model, curve = fit_mixtures(pair(6.0), (2, 3), {"n_components": 5, "covariance_type": "diag", "tol": 1e-2}, 0, None)
    assert (model.n_components, model.covariance_type, model.tol) == (5, "diag", 1e-2)
    assert curve.x.tolist() == [5.0]
