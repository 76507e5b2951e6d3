"""Gower's distance of rows of numbers and categories, over the columns that both have   (eq. 5.14)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.reference import _check as check


def gower(X: ArrayLike, codes: ArrayLike, *, ranges: ArrayLike | None = None) -> Floats:
    """Gower's distance of every pair of rows (eq. 5.14).

    The mean, over the columns that both rows have, of |x − y| / range for numbers and of [z ≠ z'] for categories.

    Parameters
    ----------
    X : (n, p) array
        The numbers, NaN where one is missing.
    codes : (n, q) array of whole numbers
        The levels of the categories, −1 where one is missing.
    ranges : (p,) array, optional
        The ranges of the numeric columns; by default those of X. A column of range 0 counts, and differs by 0.

    Returns
    -------
    ndarray of shape (n, n)
        Distances from 0 to 1. Two rows that have no column in common are 1 apart, and a row is 0 from itself.

    Examples
    --------
    >>> from knoll.reference import gower
    >>> gower([[0.0], [1.0], [float("nan")]], [[0], [1], [1]]).tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    points, levels = check.mixed_rows(X, codes)
    if ranges is None:
        empty = np.isnan(points).all(axis=0)
        filled = np.where(empty, 0.0, points)
        extents = np.nanmax(filled, axis=0) - np.nanmin(filled, axis=0)
    else:
        extents = np.array(ranges, dtype=np.float64)
    total, count = np.zeros((len(points), len(points))), np.zeros((len(points), len(points)))
    for column, extent in zip(points.T, extents, strict=True):
        both = ~np.isnan(column)[:, None] & ~np.isnan(column)
        total[both] += (np.abs(column[:, None] - column) / (extent if extent > 0 else 1.0))[both]
        count += both
    for level in levels.T:
        both = (level[:, None] >= 0) & (level >= 0)
        total += both & (level[:, None] != level)
        count += both
    distances = np.where(count > 0, total / np.where(count > 0, count, 1.0), 1.0)
    np.fill_diagonal(distances, 0.0)
    return distances
