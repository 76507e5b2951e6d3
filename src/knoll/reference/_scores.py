"""Scores of clusters by their points: silhouettes, and density-based validity   (eq. 5.15 to 5.19)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.reference import _check as check
from knoll.reference._common import squared_distances


def silhouette(X: ArrayLike, labels: ArrayLike) -> Floats:
    """The silhouette (b − a)/max(a, b) of every row; 0 for a row that is alone in its cluster.

    Parameters
    ----------
    X : (n, d) array
        The points.
    labels : (n,) array
        Their clusters, at least two.

    Returns
    -------
    ndarray of shape (n,)
        From −1 to 1: a is the mean distance to the others of the cluster, b the least mean distance to another one.

    Examples
    --------
    >>> from knoll.reference import silhouette
    >>> silhouette([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]).round(3).tolist()
    [0.895, 0.882, 0.882, 0.895]
    """
    points, names = _labelled(X, labels)
    D = np.sqrt(squared_distances(points, points))
    s = np.zeros(len(points))
    for i, own in enumerate(names):
        others = (names == own) & (np.arange(len(points)) != i)
        if others.any():
            a = _mean(D[i, others])
            b = min(_mean(D[i, names == c]) for c in np.unique(names) if c != own)
            s[i] = (b - a) / max(a, b) if max(a, b) > 0 else 0.0
    return s


def dbcv(X: ArrayLike, labels: ArrayLike) -> float:
    """Density-based clustering validation of Moulavi et al. (2014); −1 is noise   (eq. 5.15 to 5.19).

    Parameters
    ----------
    X : (n, d) array
        The points.
    labels : (n,) array of whole numbers
        Their clusters, at least two of two rows or more. A cluster of one row counts as noise.

    Returns
    -------
    float
        From −1 to 1.

    Examples
    --------
    >>> from knoll.reference import dbcv
    >>> X = [[0.0], [1.0], [2.0], [3.0], [20.0], [21.0], [22.0], [23.0]]
    >>> round(dbcv(X, [0, 0, 0, 0, 1, 1, 1, 1]), 4)
    0.9368
    """
    points, names = _labelled(X, labels)
    D = np.sqrt(squared_distances(points, points))
    rank = np.argsort(np.lexsort(points.T[::-1]))  # edges that tie in every length go by the coordinates of their ends
    clusters = [rows for c in np.unique(names) if c != -1 and len(rows := np.flatnonzero(names == c)) > 1]
    if len(clusters) < 2:
        raise BadData(f"dbcv needs two clusters of two rows or more, got {len(clusters)}.")
    c = np.zeros(len(points))
    for rows in clusters:
        c[rows] = [_core_distance(D[i, rows[rows != i]], points.shape[1]) for i in rows]
    m = np.maximum(np.maximum.outer(c, c), D)
    sparseness, inside = zip(*(_tree(rows, m, D, rank) for rows in clusters), strict=True)
    terms = []
    for k, rows in enumerate(clusters):
        others = np.concatenate([inside[j] for j in range(len(clusters)) if j != k])
        separation = float(m[np.ix_(inside[k], others)].min())
        larger = max(separation, sparseness[k])
        terms.append(len(rows) * ((separation - sparseness[k]) / larger if larger > 0 else 0.0))
    return math.fsum(terms) / len(points)


def _core_distance(distances: Floats, d: int) -> float:
    """(Σ r^−d / (n − 1))^(−1/d) over the others of a cluster, in units of the least; 0 beside an equal one (5.15)."""
    least = float(distances.min())
    if least == 0:
        return 0.0
    return float(least * (math.fsum((least / distances) ** d) / len(distances)) ** (-1 / d))


def _tree(rows: Any, m: Floats, D: Floats, rank: Any) -> tuple[float, Any]:
    """Kruskal's tree of a cluster: its longest edge inside, and the rows inside (eq. 5.17)."""
    pairs = [(i, j) for i in rows for j in rows if rank[i] < rank[j]]
    component = {i: i for i in rows}
    tree, degree = [], dict.fromkeys(rows, 0)
    for i, j in sorted(pairs, key=lambda e: (m[e], D[e], rank[e[0]], rank[e[1]])):
        if component[i] != component[j]:
            joined = component[i]
            component = {r: component[j] if of == joined else of for r, of in component.items()}
            tree.append((i, j))
            degree[i], degree[j] = degree[i] + 1, degree[j] + 1
    inside = [i for i in rows if degree[i] > 1]
    edges = [e for e in tree if degree[e[0]] > 1 and degree[e[1]] > 1]
    return float(max(m[e] for e in edges or tree)), np.array(inside or list(rows))


def _mean(values: Floats) -> float:
    return math.fsum(values) / len(values)


def _labelled(X: ArrayLike, labels: ArrayLike) -> tuple[Floats, Any]:
    points, names = check.points(X), np.asarray(labels)
    if names.shape != (len(points),):
        raise BadData(f"labels has shape {names.shape} for {len(points)} rows. Give one label for each row.")
    if len(np.unique(names)) < 2:
        raise BadData("labels has one cluster. A score of clusters needs at least two.")
    return points, names
