"""Tests for structure: the likelihood ratio of a mixture against data without clusters, by parametric bootstrap.

Two null models have no clusters: a uniform distribution on a box along the principal axes, and a single Gaussian. The
statistic is the log-likelihood of a mixture minus that of the null model, and its null distribution comes from samples
of the null model that are fitted in the same way (McLachlan 1987).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from knoll._common.linalg import covariance_of, eigh, inner, times
from knoll._typing import Floats
from knoll.comparison.result import Null
from knoll.gaussian.covariance import COVARIANCE_TYPES
from knoll.mixture.estimator import GaussianMixture

DRAWS = 19  # a statistic above all of them has p = 1/20
LEVEL = 0.05
_ROWS = 800  # at most, of each sample
_MODELS = {"uniform": "a uniform box", "gaussian": "one Gaussian"}
_FLAT = 1e-10  # of the largest variance: an axis with less is degenerate


def without_flat_axes(points: Floats) -> Floats:
    """Project rows with a singular covariance onto the principal axes of positive variance; others are unchanged."""
    centered = points - points.mean(axis=0)
    centered[:, points.min(axis=0) == points.max(axis=0)] = 0.0  # the mean of equal numbers may be rounded
    values, axes = eigh(inner(centered, centered) / len(points))
    kept = values > _FLAT * max(float(values[-1]), 1e-300)
    return points if kept.all() else times(centered, axes[:, kept])


def null_tests(points: Floats, model: Any, seed: int) -> tuple[Null, ...]:
    """Test a mixture of the model's covariance type against both null models."""
    m, d = points.shape
    rng = np.random.default_rng([seed, 13])
    if m > _ROWS:
        points = points[np.sort(rng.permutation(m)[:_ROWS])]
        m = _ROWS
    k = max(2, int(model.n_components))
    covariance_type = COVARIANCE_TYPES[model.covariance_type].free_type or model.covariance_type
    while k > 2 and COVARIANCE_TYPES[covariance_type].own_matrices and k * (d + 1) > m / 2:
        k -= 1
    center = points.mean(axis=0)
    values, axes = eigh(covariance_of(points))
    axes = axes * np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(d)])
    rotated = times(points - center, axes)
    low, high = rotated.min(axis=0), rotated.max(axis=0)
    std = np.sqrt(np.maximum(values, 0))

    def mixture(rows: Floats) -> float:
        fitted = GaussianMixture(k, covariance_type=covariance_type, n_init=2, random_state=seed).fit(rows)
        return float(fitted.score(rows)) * len(rows)

    def gaussian_ratio(rows: Floats) -> float:
        single = GaussianMixture(1, covariance_type=covariance_type, random_state=seed).fit(rows)
        return mixture(rows) - float(single.score(rows)) * len(rows)

    def uniform_ratio(rows: Floats) -> float:
        along = times(rows - center, axes)
        extent = np.maximum(along.max(axis=0) - along.min(axis=0), 1e-300)
        return mixture(rows) + len(rows) * float(np.log(extent).sum())

    tests = []
    for name, ratio in (("uniform", uniform_ratio), ("gaussian", gaussian_ratio)):
        observed = ratio(points)
        if k == model.n_components:  # EM may reach a lower optimum than before
            observed += max(0.0, float(model.score(points)) * m - mixture(points))
        drawn = np.empty(DRAWS)
        for at in range(DRAWS):
            sample = rng.uniform(low, high, size=(m, d)) if name == "uniform" else rng.normal(size=(m, d)) * std
            drawn[at] = ratio(times(sample, axes.T) + center)
        p_value = (1 + int((drawn >= observed).sum())) / (DRAWS + 1)
        tests.append(Null(name, observed, drawn, p_value))
    return tuple(tests)


def describe(null: Null) -> str:
    """Describe the result of a test."""
    side = "more than in any of" if null.p_value <= LEVEL + 1e-12 else "within the range of"
    ratio = f"{null.statistic:.0f}" if math.isfinite(null.statistic) else "∞"
    drawn = f"{side} {len(null.statistics)} samples of it"
    return f"the log-likelihood of a mixture exceeds that of {_MODELS[null.name]} by {ratio}, {drawn}"
