"""Mean, covariance and density against exact rational arithmetic and 50-digit decimals."""

from __future__ import annotations

import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from knoll import Gaussian
from knoll.exceptions import CollapsedComponentWarning

U = 2.0**-53


def exact_moments(X, weights=None):
    """μ and Σ of eq. 1.4 and 1.5 as fractions."""
    n, d = X.shape
    rows = [[Fraction(float(value)) for value in row] for row in X]
    w = [Fraction(1)] * n if weights is None else [Fraction(float(value)) for value in weights]
    mass = sum(w)
    mean = [sum(wi * row[j] for wi, row in zip(w, rows)) / mass for j in range(d)]
    covariance = [
        [sum(wi * (row[i] - mean[i]) * (row[j] - mean[j]) for wi, row in zip(w, rows)) / mass for j in range(d)]
        for i in range(d)
    ]
    return mean, covariance


def fit(X, weights=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedComponentWarning)
        return Gaussian().fit(X, sample_weight=weights)


RNG = np.random.default_rng(0)
CASES = {
    "plain": (RNG.normal(size=(60, 3)), None),
    "weighted": (RNG.normal(size=(60, 3)), RNG.random(60)),
    "far away": (RNG.normal(size=(60, 3)) + 1e9, None),
    "far away, weighted": (
        RNG.normal(size=(60, 2)) * [1, 1e-6] + [1e9, 1e3],
        RNG.random(60) * 10.0 ** RNG.integers(-9, 9, 60),
    ),
    "one outlier": (np.vstack([RNG.normal(size=(60, 2)), [[1e12, -1e12]]]), None),
    "outlier first": (np.vstack([[[1e12, -1e12]], RNG.normal(size=(60, 2))]), None),
    "large": (RNG.normal(size=(60, 2)) * 1e150, None),
    "small": (RNG.normal(size=(60, 2)) * 1e-150, None),
    "lattice": (RNG.integers(-2, 3, size=(60, 2)).astype(float), None),
    "two rows": (RNG.normal(size=(2, 2)), None),
    "float32": (RNG.normal(size=(60, 3)).astype(np.float32) + np.float32(100), None),
}


@pytest.mark.parametrize("name", CASES)
def test_moments_against_fractions(name):
    X, weights = CASES[name]
    model = fit(X, weights)
    mean, covariance = exact_moments(X, weights)
    unit = 2.0**-24 if X.dtype == np.float32 else U
    sigma = np.array([float(covariance[j][j]) ** 0.5 for j in range(X.shape[1])])
    for j, exact in enumerate(mean):
        # rounded once where it is stored, and to 64 units of σ by the sums
        assert abs(float(Fraction(float(model.mean_[j])) - exact)) <= unit * abs(float(exact)) + 64 * U * sigma[j]
    for i, row in enumerate(covariance):
        for j, exact in enumerate(row):
            error = abs(float(Fraction(float(model.covariance_[i, j])) - exact))
            assert error <= (64 * U + unit) * sigma[i] * sigma[j]


def test_log_density_against_decimals():
    X = np.random.default_rng(1).normal(size=(40, 2)) @ [[1.0, 0.9], [0.0, 0.1]] + 5
    model = fit(X)
    (a, b), (_, c) = model.covariance_
    with localcontext() as context:
        context.prec = 50
        a, b, c = (Decimal(float(v)) for v in (a, b, c))
        det, two_pi = a * c - b * b, Decimal("6.2831853071795864769252867665590057683943387987502")
        for row, got in zip(X, model.score_samples(X)):
            x, y = (Decimal(float(v)) - Decimal(float(m)) for v, m in zip(row, model.mean_))
            quadratic = (c * x * x - 2 * b * x * y + a * y * y) / det
            exact = -(2 * two_pi.ln() + det.ln() + quadratic) / 2
            condition = float(a * c / det)
            assert abs(Decimal(float(got)) - exact) <= Decimal(32 * U * condition * (1 + float(quadratic)))


def late(n, light, heavy, count):
    """Rows of little weight, then a few heavy ones."""
    return np.where(np.arange(n) < n - count, light, heavy)


WEIGHTS = {
    "a few heavy rows last": lambda rng, n: late(n, 1e-300, 1e300, 20),
    "one heavy row last": lambda rng, n: np.append(late(n - 1, 1e-300, 1e10, 1), 1e300),
    "of any size": lambda rng, n: 10.0 ** rng.uniform(-300, 300, size=n),
    "light half first": lambda rng, n: np.where(np.arange(n) < n // 2, 1e-250, 1e250) * rng.uniform(1e-50, 1, size=n),
}


@pytest.mark.parametrize("n", [40, 5000])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_three_hundred_orders_apart_cost_no_digits(name, n):
    """Neither in one array nor in blocks, the first of which may have the light rows alone."""
    for seed in range(8 if n < 100 else 1):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2)) * 10.0 ** rng.uniform(-5, 5, size=2) + [0.0, 1000.0]
        weights = WEIGHTS[name](rng, n)
        model = fit(X, weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapsedComponentWarning)
            cuts = [n // 3, n // 2]
            blocks = Gaussian().fit_blocks(lambda: zip(np.split(X, cuts), np.split(weights, cuts)))  # noqa: B023
        for attribute in ("mean_", "covariance_", "weight_", "whitener_", "log_det_"):
            np.testing.assert_array_equal(getattr(blocks, attribute), getattr(model, attribute), err_msg=attribute)
        _, covariance = exact_moments(X, weights)
        sigma = np.sqrt([float(covariance[j][j]) for j in range(2)])
        error = (model.covariance_ - np.array(covariance, dtype=float)) / np.outer(sigma, sigma)
        assert np.abs(error).max() < 1e-13


@pytest.mark.parametrize("far", [1e3, 1e14, 1e100])
def test_far_rows_that_come_first_cost_no_digits(far):
    X = np.random.default_rng(3).normal([0.0, 1000.0], size=(5000, 2))
    X[:300] *= far
    _, covariance = exact_moments(X)
    sigma = np.sqrt([float(covariance[j][j]) for j in range(2)])
    error = (fit(X).covariance_ - np.array(covariance, dtype=float)) / np.outer(sigma, sigma)
    assert np.abs(error).max() < 7.7e-12  # (1 + 4²) · 4096 · 2⁻⁵³: an origin four σ off, plain sums over a cell


def test_a_block_without_weights_counts_each_row_once_beside_any_weights():
    X = np.random.default_rng(5).normal(size=(9000, 2))
    weights = np.append(np.ones(4096), np.full(4904, 1e300))
    blocks = Gaussian().fit_blocks(lambda: [X[:4096], (X[4096:], weights[4096:])])
    model = fit(X, weights)
    for attribute in ("mean_", "covariance_", "weight_"):
        np.testing.assert_array_equal(getattr(blocks, attribute), getattr(model, attribute))
