"""Gower's distance of rows of numbers and categories, over the columns that both have   (eq. 5.14)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.reference import _check as check


def gower(
    X: ArrayLike, codes: ArrayLike, *, ranges: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Floats:
    """Gower's distance of every pair of rows (eq. 5.14).

    The mean, over the columns that both rows have, of |x − y| / range for numbers and of [z ≠ z'] for categories. The
    numbers are divided by their ranges first, as (x − low) / range, so that a distance is a sum of rounded differences.

    Parameters
    ----------
    X : (n, p) array
        The numbers, NaN where one is missing.
    codes : (n, q) array of whole numbers
        The levels of the categories, −1 where one is missing.
    ranges : (p,) array, optional
        The ranges of the numeric columns; by default those of X. A column of range 0 counts, and differs by 0.
    weights : (p + q,) array, optional
        The weights of the columns in the mean, numbers first; by default 1.

    Returns
    -------
    ndarray of shape (n, n)
        Distances from 0 to 1. Two rows that have no column in common are 1 apart; rows of which both have no value at
        all are equal, and 0 apart.

    Examples
    --------
    >>> from knoll.reference import gower
    >>> gower([[0.0], [1.0], [float("nan")]], [[0], [1], [1]]).tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    points, levels = check.mixed_rows(X, codes)
    n, p = points.shape
    seen = ~np.isnan(points)
    lows = np.where(seen, points, np.inf).min(axis=0, initial=np.inf)
    if ranges is None:
        extents = np.where(seen, points, -np.inf).max(axis=0, initial=-np.inf) - lows
    else:
        extents = np.array(ranges, dtype=np.float64)
    units = (points - lows) / np.where(extents > 0, extents, 1.0)
    each = np.ones(p + levels.shape[1]) if weights is None else np.array(weights, dtype=np.float64)
    total, mass = np.zeros((n, n)), np.zeros((n, n))
    for unit, weight in zip(units.T, each[:p], strict=True):
        both = ~np.isnan(unit)[:, None] & ~np.isnan(unit)
        total[both] += (weight * np.abs(unit[:, None] - unit))[both]
        mass[both] += weight
    for level, weight in zip(levels.T, each[p:], strict=True):
        both = (level[:, None] >= 0) & (level >= 0)
        total += weight * (both & (level[:, None] != level))
        mass += weight * both
    distances = np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), 1.0)
    empty = ~seen.any(axis=1) & (levels < 0).all(axis=1)
    distances[np.ix_(empty, empty)] = 0.0
    return distances
