"""Is there any structure? The likelihood ratio of a mixture against data without clusters, by draws from such data.

Two kinds of data have no clusters in any sense: rows uniform over a box along the principal axes, and rows of one
Gaussian. Against each the statistic is the log-likelihood of a mixture less that of the null, and its distribution
under the null comes from sets drawn from the null and treated alike (McLachlan 1987).
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

__all__ = ["DRAWS", "LEVEL", "describe", "essential", "null_tests"]


DRAWS = 19  # so that a statistic above all of them has p = 1/20
LEVEL = 0.05
_ROWS = 800  # at most so many are drawn and looked at
_MODELS = {"uniform": "a uniform box", "gaussian": "one Gaussian"}
_FLAT = 1e-10  # of the largest variance: an axis with less has no extent


def essential(points: Floats) -> Floats:
    """Turn rows that do not fill their space onto the principal axes that they do fill; others are left alone."""
    moved = points - points.mean(axis=0)
    moved[:, points.min(axis=0) == points.max(axis=0)] = 0.0  # the mean of equal numbers may be rounded
    values, axes = eigh(inner(moved, moved) / len(points))
    kept = values > _FLAT * max(float(values[-1]), 1e-300)
    return points if kept.all() else times(moved, axes[:, kept])


def null_tests(points: Floats, model: Any, seed: int) -> tuple[Null, ...]:
    """Compare a mixture of the model's kind with both nulls."""
    m, d = points.shape
    rng = np.random.default_rng([seed, 13])
    if m > _ROWS:
        points = points[np.sort(rng.permutation(m)[:_ROWS])]
        m = _ROWS
    k = max(2, int(model.n_components))
    kind = COVARIANCE_TYPES[model.covariance_type].free_type or model.covariance_type
    while k > 2 and COVARIANCE_TYPES[kind].own_matrices and k * (d + 1) > m / 2:
        k -= 1
    centre = points.mean(axis=0)
    values, axes = eigh(covariance_of(points))
    axes = axes * np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(d)])
    turned = times(points - centre, axes)
    low, high = turned.min(axis=0), turned.max(axis=0)
    spread = np.sqrt(np.maximum(values, 0))

    def mixture(rows: Floats) -> float:
        fitted = GaussianMixture(k, covariance_type=kind, n_init=2, random_state=seed).fit(rows)
        return float(fitted.score(rows)) * len(rows)

    def gaussian_ratio(rows: Floats) -> float:
        single = GaussianMixture(1, covariance_type=kind, random_state=seed).fit(rows)
        return mixture(rows) - float(single.score(rows)) * len(rows)

    def uniform_ratio(rows: Floats) -> float:
        along = times(rows - centre, axes)
        extent = np.maximum(along.max(axis=0) - along.min(axis=0), 1e-300)
        return mixture(rows) + len(rows) * float(np.log(extent).sum())

    tests = []
    for name, ratio in (("uniform", uniform_ratio), ("gaussian", gaussian_ratio)):
        observed = ratio(points)
        if k == model.n_components:  # EM may have ended lower than it did before
            observed += max(0.0, float(model.score(points)) * m - mixture(points))
        drawn = np.empty(DRAWS)
        for at in range(DRAWS):
            inside = rng.uniform(low, high, size=(m, d)) if name == "uniform" else rng.normal(size=(m, d)) * spread
            drawn[at] = ratio(times(inside, axes.T) + centre)
        p_value = (1 + int((drawn >= observed).sum())) / (DRAWS + 1)
        tests.append(Null(name, observed, drawn, p_value))
    return tuple(tests)


def describe(null: Null) -> str:
    """Say in words what a test found."""
    side = "more than in any of" if null.p_value <= LEVEL + 1e-12 else "within the range of"
    ratio = f"{null.statistic:.0f}" if math.isfinite(null.statistic) else "∞"
    drawn = f"{side} {len(null.statistics)} such sets"
    return f"a mixture is {ratio} better than {_MODELS[null.name]} in log-likelihood, {drawn}"
