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
