"""Partitions of a density tree into exactly k clusters: Genie, and the best centres of the tree's ultrametric.

Both are nested, so one pass serves every k. Equal rows count as one point of their joint weight, so they are never
separated and a weight equals a number of repetitions. No order of the rows changes a partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.rescale import exponent_of, times_power
from knoll._common.unique_rows import find_unique_rows
from knoll._typing import Floats, Ints, Labels
from knoll.density.reachability import edges_of_links, root_of
from knoll.exceptions import InvalidParameter
from knoll.neighbors.index import CoreParameter

if TYPE_CHECKING:
    from knoll.density.tree import DensityTree


class Centers(NamedTuple):
    """The best k centres of a tree's ultrametric u."""

    labels: Ints  # (n,) the nearest centre of each row, of several the one of the most saving
    rows: Ints  # (k,) the centres; that of label c is rows[c]
    cost: float  # Σ w u(x, nearest centre)^power, or the largest distance


@dataclass(frozen=True)
class DistinctTree:
    """The distinct rows of a tree; equal rows are one leaf."""

    points: NDArray[Any]  # (m, d)
    index: Ints  # (m,) the first row that equals each
    inverse: Ints  # (n,) the distinct row of each row
    weights: Floats  # (m,)
    core: Floats  # (m,) core distances
    order: Ints  # (m,) in the order of the tree
    bars: Floats  # (m,)

    def labels(self, distinct: Ints) -> Ints:
        """Return the labels of all rows, numbered by their lowest rows."""
        return number_by_rows(distinct[self.inverse])

    def check_numbers(self, numbers: list[int]) -> list[int]:
        """Refuse numbers of clusters larger than that of distinct rows."""
        for k in numbers:
            if k > len(self.index):
                raise InvalidParameter(
                    f"DensityTree: k={k} is larger than the {len(self.index)} distinct rows of X. Take a smaller k."
                )
        return numbers


def ordering(points: Any, n: int) -> NDArray[Any]:
    """Return a table of n rows whose lexicographic order decides ties: the points, or numbers where there are none."""
    return points if isinstance(points, np.ndarray) else np.arange(float(n))[:, None]


def distinct_tree(tree: DensityTree) -> DistinctTree:
    """Merge the equal rows of a tree; where it has no dense points, all rows are taken for distinct."""
    points = ordering(tree.points_, len(tree.order_))
    unique = find_unique_rows(points, tree._threads())
    weights = unique.counts
    if tree.fit_weights_ is not None:  # in ascending order, so that the sum does not depend on the rows
        by_weight = np.lexsort((tree.fit_weights_, unique.inverse))
        weights = np.bincount(unique.inverse[by_weight], tree.fit_weights_[by_weight]).astype(np.float64)
    first = np.zeros(len(tree.order_), dtype=bool)
    first[np.unique(unique.inverse[tree.order_], return_index=True)[1]] = True
    kept = np.flatnonzero(first)
    # the largest bar since the row kept before
    bars = np.maximum.reduceat(tree.bars_[: kept[-1] + 1], np.append(0, kept[:-1] + 1))
    order = unique.inverse[tree.order_[kept]]
    return DistinctTree(
        np.ascontiguousarray(points[unique.index]),
        unique.index,
        unique.inverse,
        weights,
        tree.core_distances_[unique.index],
        order,
        bars,
    )


def number_by_rows(labels: Ints) -> Ints:
    """Number the clusters by their lowest rows; −1 stays."""
    found, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.full(len(found), -1)
    clusters = np.flatnonzero(found >= 0)
    number[clusters[np.argsort(first[clusters])]] = np.arange(len(clusters))
    return np.asarray(number[inverse.ravel()])


# ---- Genie -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GenieHierarchy:
    """Partitions for every k: the first m − k joins."""

    distinct: DistinctTree
    order: Ints  # (m,) distinct rows, clusters are intervals
    steps: Ints  # (m,) the number of the join of a row and the one before it

    def labels(self, k: int) -> Ints:
        """Return the labels of k clusters."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.cumsum(self.steps >= len(self.order) - k)
        return self.distinct.labels(found)


def genie_hierarchy(tree: DensityTree, gini: float) -> GenieHierarchy:
    """Join clusters along the minimum spanning tree; the smallest first where the Gini index exceeds the threshold."""
    distinct = distinct_tree(tree)
    edges = spanning_edges(tree, distinct)
    order, steps = np.empty((2, len(distinct.weights)), dtype=np.int64)
    _core.genie(*edges, distinct.weights, float(gini), order, steps, tree._threads())
    return GenieHierarchy(distinct, order, steps)


def spanning_edges(tree: DensityTree, distinct: DistinctTree) -> tuple[Labels, Labels]:
    """Return the edges of the minimum spanning tree of the distinct rows, ascending by height, distance, coordinates.

    Where distances are equal, which of several edges the search finds depends on timing and on the order of the rows.
    Then the search is run again, by one thread on sorted rows.
    """
    if tree.edges_ is not None:
        return _forest(distinct.inverse[tree.edges_].astype(np.int32), len(distinct.weights))
    name, power = tree._core_metric()
    distinct = replace(distinct, core=distinct.core * tree.alpha)  # of the order of max(c, d/α)
    starts, near = _rows_within_core(tree, distinct)
    options = (distinct.core, name, power)
    edges = tree._spanning_tree()
    if edges is not None:
        kept = _simple(distinct.inverse[edges].astype(np.int32))
        found = _core.reachability_edges(distinct.points, *options, kept, starts, near, tree._threads())
        if not found["ties"]:
            return np.array(found["a"], np.int32), np.array(found["b"], np.int32)
    kept = _simple(_edges_of_sorted_rows(tree, distinct))
    starts, near = _rows_by_search(distinct, name, power, tree._threads())
    found = _core.reachability_edges(distinct.points, *options, kept, starts, near, tree._threads())
    return np.array(found["a"], np.int32), np.array(found["b"], np.int32)


def _edges_of_sorted_rows(tree: DensityTree, distinct: DistinctTree) -> Labels:
    """Return a minimum spanning tree of the distinct rows that depends on neither their order nor timing."""
    m = len(distinct.weights)
    sort = np.lexsort(distinct.points.T[::-1]).astype(np.int32)
    rows, mass = np.ascontiguousarray(distinct.points[sort]), np.ascontiguousarray(distinct.weights[sort])
    links = np.empty(m, dtype=np.int32)
    order, bars, core = np.empty(m, np.int64), np.empty(m), np.empty(m)
    near = np.empty((m, 0), np.int32)
    _core.density_tree(
        rows, tree._level(), mass, *tree._core_metric(), order, bars, core, near, 1, "auto", links, tree.alpha
    )
    return sort[edges_of_links(links)]


def _forest(edges: Labels, n: int) -> tuple[Labels, Labels]:
    """Leave out edges that close a cycle once equal rows are one."""
    up = list(range(n))
    kept = []
    for e, (a, b) in enumerate(edges.tolist()):
        if (a := root_of(up, a)) != (b := root_of(up, b)):
            up[a] = b
            kept.append(e)
    return np.ascontiguousarray(edges[kept, 0]), np.ascontiguousarray(edges[kept, 1])


def _simple(edges: Labels) -> Labels:
    """Leave out edges between equal rows."""
    return np.ascontiguousarray(edges[edges[:, 0] != edges[:, 1]])


def _rows_within_core(tree: DensityTree, distinct: DistinctTree) -> tuple[Ints, Labels]:
    """Return the distinct rows within the core distance of each, as compressed rows."""
    if tree.neighbors_ is None or tree.alpha != 1:
        return _rows_by_search(distinct, *tree._core_metric(), tree._threads())
    near = distinct.inverse[tree.neighbors_[distinct.index]].astype(np.int32)
    return np.arange(len(near) + 1) * near.shape[1], near.ravel()


def _rows_by_search(distinct: DistinctTree, metric: str, power: CoreParameter, threads: int) -> tuple[Ints, Labels]:
    """Return all distinct rows within the core distance of each: more and more nearest rows, until one is farther."""
    m = len(distinct.weights)
    index = _core.Index(distinct.points, 0.0, metric, power, "auto", threads)
    open_, k = np.arange(m), 8
    rows: list[Ints] = []
    found: list[Ints] = []
    while len(open_):
        k = min(2 * k, m)
        distances, near = np.empty((len(open_), k)), np.empty((len(open_), k), dtype=np.int64)
        index.knn(np.ascontiguousarray(distinct.points[open_]), k, distances, near, threads)
        inside = distances <= distinct.core[open_, None]
        done = ~inside[:, -1] | (k == m)
        rows.append(np.repeat(open_[done], inside[done].sum(axis=1)))
        found.append(near[done][inside[done]])
        open_ = open_[~done]
    of, near = np.concatenate(rows), np.concatenate(found)
    starts = np.append(0, np.cumsum(np.bincount(of, minlength=m)))
    return starts, near[np.argsort(of, kind="stable")].astype(np.int32)


# ---- centres ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CenterHierarchy:
    """Best centres for every k: the first k of `ranked`."""

    distinct: DistinctTree
    ranked: Ints  # (m,) distinct rows, by what a centre there saves
    above: Ints  # (m,) by distinct row: the one whose cluster it is in before it becomes a centre, itself for the first
    costs: Floats  # (m,) with 1, 2, … centres

    def at(self, k: int) -> Centers:
        """Return the best k centres."""
        is_center = np.zeros(len(self.ranked), dtype=bool)
        is_center[self.ranked[:k]] = True
        nearest = np.where(is_center, np.arange(len(self.ranked)), self.above)
        while not is_center[nearest].all():
            nearest = nearest[nearest]
        labels = self.distinct.labels(nearest)
        rows = np.empty(k, dtype=np.int64)
        centers = self.distinct.index[self.ranked[:k]]
        rows[labels[centers]] = centers
        return Centers(labels, rows, float(self.costs[k - 1]))


def center_hierarchy(tree: DensityTree, power: float) -> CenterHierarchy:
    """Rank the distinct rows as centres: k-means of the ultrametric for power 2, k-median 1, k-center infinity."""
    distinct = distinct_tree(tree)
    m = len(distinct.bars)
    shift = exponent_of(distinct.bars[1:]) if m > 1 else 0  # heights to a power must not overflow
    ranked, above, saved = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m)
    bars = times_power(distinct.bars, -shift)
    weights = distinct.weights[distinct.order]
    _core.tree_centers(
        bars, weights, distinct.points, distinct.order, float(power), ranked, above, saved, tree._threads()
    )
    later = np.append(saved[ranked[1:]], 0.0)  # what further centres save
    if np.isinf(power):
        costs = times_power(later, shift)
    else:
        with np.errstate(over="ignore", under="ignore"):
            costs = np.cumsum(later[::-1])[::-1] * np.exp2(power * shift)
    by_row = np.empty(m, dtype=np.int64)
    by_row[distinct.order] = distinct.order[np.where(above < 0, np.arange(m), above)]
    return CenterHierarchy(distinct, distinct.order[ranked], by_row, costs)
