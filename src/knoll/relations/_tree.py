"""Shared by the relations of the density tree: dense mutual reachability, heights of pairs, cuts, nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform

from knoll._typing import Floats, Ints
from knoll.density.tree import DensityTree
from knoll.relations._common import squared_distances


def level_of(X: Floats, min_samples: int | None) -> int:
    """Return minPts, by default twice the number of columns, at most the number of rows."""
    return min(2 * X.shape[1] if min_samples is None else int(min_samples), len(X))


def core_distances(distances: Floats, level: int) -> Floats:
    """Return the distance of the minPts-th nearest row of each row, itself included, from all distances."""
    return np.partition(distances, level - 1, axis=1)[:, level - 1]


def mutual_reachability(X: Floats, level: int) -> Floats:
    """Compute m of eq. 7.1 for all pairs, (n, n); the diagonal is 0."""
    distances = np.sqrt(squared_distances(X, X))
    core = core_distances(distances, level)
    m = np.maximum(distances, np.maximum(core, core[:, None]))
    np.fill_diagonal(m, 0.0)
    return m


def single_linkage_heights(m: Floats) -> Floats:
    """Compute u by SciPy: the height at which single linkage over m joins two rows, (n, n)."""
    heights: Floats = squareform(cophenet(linkage(squareform(m, checks=False), "single")))
    return heights


def heights_between(order: Ints, bars: Floats) -> Floats:
    """Compute u(x, y), the largest bar after the first of the two rows up to the second (eq. 7.14), (n, n)."""
    n = len(order)
    sorted_u = np.zeros((n, n))
    for i in range(n - 1):
        sorted_u[i, i + 1 :] = np.maximum.accumulate(bars[i + 1 :])
    u = np.empty((n, n))
    u[np.ix_(order, order)] = sorted_u + sorted_u.T
    return u


def radii(tree: DensityTree, most: int) -> list[float]:
    """Return positive heights at which a cut changes, evenly spaced if there are more than `most`, and midpoints."""
    heights = np.unique(np.concatenate([tree.bars_[1:], tree.core_distances_]))
    heights = heights[heights > 0]
    if not len(heights):
        return [1.0]
    between = (heights[:-1] + heights[1:]) / 2
    chosen = np.unique(np.linspace(0, len(heights) - 1, min(most, len(heights))).astype(np.int64))
    return np.unique(np.concatenate([heights[chosen], between[chosen[chosen < len(between)]]])).tolist()


def distinct_tree(X: Floats, level: int) -> tuple[DensityTree, Floats, Floats]:
    """Return the tree of the distinct rows, weighted by their repetitions, these weights, and u of all pairs."""
    rows, counts = np.unique(X, axis=0, return_counts=True)
    weights = counts.astype(np.float64)
    tree = DensityTree(level, n_jobs=1).fit(rows, sample_weight=weights)
    return tree, weights, heights_between(tree.order_, tree.bars_)


def joins(bars: Floats) -> Iterator[tuple[float, int, int, int]]:
    """Yield joins of neighbouring intervals by ascending height: the height, first, middle and end positions."""
    n = len(bars)
    first, end = list(range(n)), list(range(1, n + 1))  # of the interval that begins at, or ends before, a position
    for middle in (1 + np.argsort(bars[1:], kind="stable")).tolist():
        a, b = first[middle - 1], end[middle]
        yield float(bars[middle]), a, middle, b
        end[a], first[b - 1] = b, a


def split_sizes(order: Ints, bars: Floats) -> list[list[int]]:
    """Return the sizes of all components that merge at each node of the tree."""
    found: dict[tuple[float, int], list[int]] = {}  # (height, first position) → sizes; a node absorbs those before it
    for height, a, middle, b in joins(bars):
        left = found.pop((height, a), [middle - a])
        right = found.pop((height, middle), [b - middle])
        found[height, a] = left + right
    return list(found.values())
