"""Agglomerative clustering in which only neighbours in a graph may merge."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.metrics.pairwise import paired_distances

from knoll import _core
from knoll._typing import Floats, Ints
from knoll.base import warn_caller
from knoll.exceptions import BadData, DisconnectedGraphWarning, InvalidParameter
from knoll.hierarchy.linkages import OWNER, Metric, rescaled, shares, ward_heights
from knoll.hierarchy.merges import MergeTree
from knoll.neighbors.distances import metric_distances

_CHUNK = 1 << 16  # pairs whose distances are computed at a time


def symmetric_graph(connectivity: Any, n: int) -> Any:
    """Return the graph as compressed rows, each link in both directions and no loops."""
    graph: Any = scipy.sparse.csr_array(connectivity)
    if graph.shape != (n, n):
        raise BadData(f"{OWNER}: Wrong shape for connectivity matrix: {graph.shape} when X has {n} rows.")
    graph = graph + graph.T
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph


def graph_tree_of(
    X: NDArray[Any],
    weights: Floats | None,
    graph: Any,
    linkage: str,
    metric: Metric,
    most: int,
    threads: int,
) -> tuple[MergeTree, int]:
    """Merge neighbours, at most so many times; also return the number of components that the graph has."""
    n_components, component = connected_components(graph, directed=False)
    edges = np.stack(scipy.sparse.triu(graph, k=1).nonzero(), axis=1).astype(np.int64)  # (e, 2)
    if n_components > 1:
        warn_caller(
            f"{OWNER}: the number of connected components of the connectivity matrix is {n_components} > 1. Completing "
            "it to avoid stopping the tree early: the closest rows of every two components are linked.",
            DisconnectedGraphWarning,
        )
        edges = np.concatenate([edges, _closest_pairs(X, component, n_components, metric)])
    if metric == "precomputed":
        order = np.arange(len(X))
    else:
        order = np.lexsort(X.T[::-1])  # ties by coordinates, as without a graph
    rank = np.empty(len(X), np.int64)
    rank[order] = np.arange(len(X))
    tree = MergeTree(np.empty((most, 2), np.int64), np.empty(most))
    masses = None if weights is None else weights[order]
    if linkage == "ward":
        scaling, points, masses = rescaled(X[order].astype(np.float64), masses)
        _core.link_graph(points, masses, rank[edges], None, linkage, tree.children, tree.heights, threads)
        return MergeTree(tree.children, ward_heights(tree.heights, scaling)).of_rows(order, len(X)), n_components
    costs = _edge_distances(X, edges, metric)
    nothing = np.zeros((len(X), 0))
    _core.link_graph(nothing, shares(masses), rank[edges], costs, linkage, tree.children, tree.heights, threads)
    return tree.of_rows(order, len(X)), n_components


def _edge_distances(X: NDArray[Any], edges: Ints, metric: Metric) -> Floats:
    """Compute the distance along each edge."""
    if metric == "precomputed":
        return np.asarray(X[edges[:, 0], edges[:, 1]], dtype=np.float64)
    costs = np.empty(len(edges))
    for begin in range(0, len(edges), _CHUNK):
        rows = edges[begin : begin + _CHUNK]
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                costs[begin : begin + _CHUNK] = paired_distances(X[rows[:, 0]], X[rows[:, 1]], metric=metric)
        except ValueError as error:
            raise InvalidParameter(f"{OWNER}: metric {metric!r} cannot be computed: {error}") from None
    if not np.isfinite(costs).all():
        raise BadData(f"{OWNER}: the distances of metric={metric!r} are not all finite.")
    return costs


def _closest_pairs(X: NDArray[Any], component: Any, n_components: int, metric: Metric) -> Ints:
    """Find the closest rows of every two components, all pairs of them where several are equally close."""
    found = [np.empty((0, 2), np.int64)]
    members = [np.flatnonzero(component == c) for c in range(n_components)]
    for c in range(n_components):
        for other in range(c):
            found.append(_closest(X, members[other], members[c], metric))
    return np.concatenate(found)


def _closest(X: NDArray[Any], first: Ints, second: Ints, metric: Metric) -> Ints:
    if metric == "precomputed":
        distances = X[np.ix_(first, second)]
    else:
        distances = metric_distances(X[first], X[second], metric, {}, OWNER)
    i, j = np.nonzero(distances == distances.min())
    return np.sort(np.stack([first[i], second[j]], axis=1), axis=1).astype(np.int64)
