"""What several relations need: silence, a start, and how one partition lies in another."""

from __future__ import annotations

import numpy as np

from knoll._common.seeding import kmeans_plus_plus, multiset
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.exceptions import BadData

__all__ = ["brought_near", "coarser", "quiet", "same_partition", "separate_rows", "start_centers"]


quiet = collect_warnings  # of estimators: a certificate says in its preconditions what matters here


def separate_rows(X: Floats) -> int:
    """Count the different rows."""
    return len(np.unique(X, axis=0))


def coarser(fine: Ints, coarse: Ints) -> bool:
    """Tell whether every cluster of `fine` lies within one cluster of `coarse`."""
    pairs = np.unique(np.stack([fine, coarse]), axis=1)
    return pairs.shape[1] == len(np.unique(fine))


def same_partition(a: Ints, b: Ints) -> bool:
    """Tell whether two labellings part the rows alike; noise (−1) must be noise in both."""
    return bool(np.array_equal(a == -1, b == -1)) and coarser(a, b) and coarser(b, a)


def brought_near(X: Floats) -> Floats:
    """Move columns that lie far from zero close to it, without rounding: no distance changes by a bit.

    Where all values of a column are within a factor of two of each other, the difference of any two is a float64.
    """
    low, high = X.min(axis=0), X.max(axis=0)  # (d,)
    up, down = (low > 0) & (high <= 2 * low), (high < 0) & (low >= 2 * high)
    moved: Floats = X - np.where(up, low, np.where(down, high, 0.0))
    return moved


def start_centers(X: Floats, k: int, seed: int, owner: str) -> Floats:
    """Draw k rows by k-means++: the common start of both sides of a relation."""
    different = separate_rows(X)
    if k > different:
        raise BadData(f"{owner}: n_clusters={k}, but only {different} rows differ. Take n_clusters ≤ {different}.")
    rows = kmeans_plus_plus(X, multiset(X), k, seed)
    return np.ascontiguousarray(X[rows])
