"""Shared by several relations: distances, starting centres, comparisons of partitions, suppressed warnings."""

from __future__ import annotations

import numpy as np

from knoll._common.seeding import kmeans_plus_plus, multiset
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.exceptions import BadData

quiet = collect_warnings  # of estimators: a certificate reports its preconditions instead


def count_unique_rows(X: Floats) -> int:
    """Count the unique rows."""
    return len(np.unique(X, axis=0))


def coarser(fine: Ints, coarse: Ints) -> bool:
    """Whether every cluster of `fine` is contained in one cluster of `coarse`."""
    pairs = np.unique(np.stack([fine, coarse]), axis=1)
    return pairs.shape[1] == len(np.unique(fine))


def same_partition(a: Ints, b: Ints) -> bool:
    """Whether two labellings are the same partition; noise (−1) must be noise in both."""
    return bool(np.array_equal(a == -1, b == -1)) and coarser(a, b) and coarser(b, a)


def shifted_to_zero(X: Floats) -> Floats:
    """Shift columns far from zero towards it without rounding: distances keep all their bits.

    Where all values of a column are within a factor of two of each other, the difference of any two is a float64.
    """
    low, high = X.min(axis=0), X.max(axis=0)  # (d,)
    up, down = (low > 0) & (high <= 2 * low), (high < 0) & (low >= 2 * high)
    moved: Floats = X - np.where(up, low, np.where(down, high, 0.0))
    return moved


def squared_distances(X: Floats, Y: Floats) -> Floats:
    """Compute all squared distances, (len(X), len(Y)), column by column as the core does."""
    square = np.zeros((len(X), len(Y)))
    for x, y in zip(X.T, Y.T, strict=True):
        square += np.square(x[:, None] - y)
    return square


def start_centers(X: Floats, k: int, seed: int, owner: str) -> Floats:
    """Draw k rows by k-means++, the common start of both sides of a relation."""
    unique = count_unique_rows(X)
    if k > unique:
        raise BadData(f"{owner}: n_clusters={k}, but X has only {unique} unique rows. Use n_clusters <= {unique}.")
    rows = kmeans_plus_plus(X, multiset(X), k, seed)
    return np.ascontiguousarray(X[rows])
