"""Genie: single linkage that joins the smallest cluster first while cluster sizes are too unequal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.exceptions import InvalidParameter
from knoll.reference import _check as check
from knoll.reference._common import frozen, squared_distances


class GenieState(NamedTuple):
    """A partition into k clusters."""

    k: int
    gini: float  # Σ_{i<j} |n_i − n_j| / ((k − 1) n) of the numbers of rows
    labels: Ints  # (n,) numbered by their lowest rows


def genie(X: ArrayLike, min_pts: int, gini: float = 0.3) -> Iterator[GenieState]:
    """Genie on the minimum spanning tree of mutual reachability m, for every number of clusters.

    Clusters are joined along the edges of the tree in ascending order. While the Gini index of their sizes exceeds the
    threshold, a cluster of the smallest size is joined along its first edge instead. Edges are ordered by m, then by
    distance, then by coordinates. Equal rows are together from the beginning (Gagolewski et al. 2016).

    Parameters
    ----------
    X : (n, d) array
        The points.
    min_pts : int
        The level minPts of the core distances; 1 is Genie as published.
    gini : float
        The threshold of the Gini index, from 0 to 1; 1 is single linkage.

    Yields
    ------
    GenieState
        From as many clusters as there are distinct rows to one.

    Examples
    --------
    >>> from knoll.reference import genie
    >>> [state.labels.tolist() for state in genie([[0.0], [1.0], [5.0], [5.5]], min_pts=1) if state.k <= 2]
    [[0, 0, 1, 1], [0, 0, 0, 0]]
    """
    points = check.points(X)
    threshold = float(gini)
    if not 0 <= threshold <= 1:
        raise InvalidParameter(f"gini must be from 0 to 1, got {gini!r}. 0.3 is the authors' choice.")
    return frozen(_genie(points, check.clusters(check.level(min_pts), len(points)), threshold))


def _genie(X: Floats, min_pts: int, threshold: float) -> Iterator[GenieState]:
    rows, inverse, sizes = np.unique(X, axis=0, return_inverse=True, return_counts=True)  # in order of coordinates
    edges, labels = _spanning_tree(X, rows, min_pts), np.arange(len(rows))
    while True:
        size = np.bincount(labels, sizes)
        index = _gini(size[size > 0].astype(np.float64))
        yield GenieState(len(edges) + 1, index, _numbered(labels[inverse.ravel()]))
        if not edges:
            return
        least = size[size > 0].min()
        forced = [e for e in edges if least in (size[labels[e[0]]], size[labels[e[1]]])]
        a, b = (forced if index > threshold else edges)[0]
        edges.remove((a, b))
        labels[labels == labels[b]] = labels[a]


def _spanning_tree(X: Floats, rows: Floats, min_pts: int) -> list[tuple[int, int]]:
    """The edges of the minimum spanning tree of distinct rows, in ascending order (Kruskal's algorithm)."""
    c = np.sort(np.sqrt(squared_distances(rows, X)), axis=1)[:, min_pts - 1]
    distances = np.sqrt(squared_distances(rows, rows))
    m = np.maximum(distances, np.maximum(c, c[:, None]))
    pairs = [(m[i, j], distances[i, j], i, j) for i in range(len(rows)) for j in range(i + 1, len(rows))]
    tree, component = [], np.arange(len(rows))
    for _, _, i, j in sorted(pairs):
        if component[i] != component[j]:
            component[component == component[j]] = component[i]
            tree.append((i, j))
    return tree


def _gini(sizes: Floats) -> float:
    return float(np.abs(sizes[:, None] - sizes).sum() / 2 / max(len(sizes) - 1, 1) / sizes.sum())


def _numbered(labels: Ints) -> Ints:
    """The same partition, numbered by the lowest rows."""
    numbers = {label: i for i, label in enumerate(dict.fromkeys(labels.tolist()))}
    return np.array([numbers[label] for label in labels.tolist()])
