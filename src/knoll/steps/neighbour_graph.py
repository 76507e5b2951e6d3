"""The graph of nearest neighbours: links ½[d_ij ≤ r_i] + ½[d_ij ≤ r_j], r_i the distance to the k-th row.

A row counts itself. Rows at exactly r_i are all neighbours, so contents decide, not the order of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll import _core
from knoll.exceptions import BadData, CostError

__all__ = ["given_links", "graph_of", "link_rows", "neighbours_of"]

Floats = NDArray[np.float64]

_MOST = 2**28  # links of a graph, at most
_BLOCK = 2**21  # distances at a time


def neighbours_of(points: NDArray[Any], k: int, threads: int, owner: str) -> tuple[Any, Floats]:
    """Find the neighbours of each row: a sparse matrix of ones, and the radius of each row, (n,)."""
    n = len(points)
    index = _core.Index(points, 0.0, "euclidean", 2.0, "auto", threads)
    radius = np.empty(n)
    left, asked = np.arange(n), min(k + 1, n)
    parts: list[tuple[NDArray[Any], NDArray[Any]]] = []
    links = 0
    while len(left):
        later = []
        height = max(1, _BLOCK // asked)
        for begin in range(0, len(left), height):
            some = left[begin : begin + height]
            distances, near = np.empty((len(some), asked)), np.empty((len(some), asked), dtype=np.int64)
            queries = points if len(some) == n else points[some]
            index.knn(queries.astype(np.float64, copy=False), asked, distances, near, threads)
            radius[some] = distances[:, k - 1]
            whole = (distances[:, -1] > radius[some]) | (asked == n)  # all ties are in sight
            row, column = np.nonzero((distances <= radius[some][:, None]) & whole[:, None])
            parts.append((some[row], near[row, column]))
            links += len(row)
            later.append(some[~whole])
            if links > _MOST:
                raise CostError(
                    f"{owner}: the graph of {k} neighbours has more than {_MOST} links, since rows repeat. "
                    "Drop repeated rows, or use affinity='rbf'."
                )
        left = np.concatenate(later) if later else np.empty(0, dtype=np.intp)
        asked = min(4 * asked, n)
    rows, columns = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    ones = np.ones(len(rows))
    return scipy.sparse.csr_array((ones, (rows, columns)), shape=(n, n)), radius


def graph_of(neighbours: Any) -> Any:
    """½(C + Cᵀ) as compressed rows with sorted columns."""
    graph = scipy.sparse.csr_array((neighbours + neighbours.T) * 0.5)
    graph.sum_duplicates()
    return graph


def link_rows(queries: NDArray[Any], points: NDArray[Any], radius: Floats, k: int, threads: int) -> Any:
    """Make the rows of links of other points by the same rule, (q, n), columns sorted."""
    n = len(points)
    index = _core.Index(points, 0.0, "euclidean", 2.0, "auto", threads)
    parts = []
    height = max(1, _BLOCK // n)
    for begin in range(0, len(queries), height):
        some = np.ascontiguousarray(queries[begin : begin + height], dtype=np.float64)
        own, near = np.empty((len(some), k)), np.empty((len(some), k), dtype=np.int64)
        index.knn(some, k, own, near, threads)
        squares = np.zeros((len(some), n))
        for j in range(points.shape[1]):  # the one distance (docs/decisions/0003)
            squares += np.square(some[:, j, None] - points[None, :, j])
        distances = np.sqrt(squares)
        parts.append(scipy.sparse.csr_array(0.5 * (distances <= own[:, -1:]) + 0.5 * (distances <= radius)))
    return scipy.sparse.csr_array(scipy.sparse.vstack(parts))


def given_links(distances: Any, k: int, radius: Floats | None, owner: str) -> tuple[Any, Floats]:
    """Read neighbours from a sparse matrix of distances: the k smallest entries of each row, and all that tie.

    With the `radius` of the fit's rows (columns), links of other rows are made by the rule of both sides.
    """
    rows = scipy.sparse.csr_array(distances, dtype=np.float64)
    counts = np.diff(rows.indptr)
    if (counts < k).any():
        at = int(np.argmax(counts < k))
        raise BadData(
            f"{owner}: {k} neighbors are required for each row, but row {at} has {counts[at]} distances only. "
            "Give a graph of more neighbours, or a smaller n_neighbors."
        )
    of = np.repeat(np.arange(rows.shape[0]), counts)
    order = np.lexsort((rows.data, of))
    own = rows.data[order][rows.indptr[:-1] + k - 1]  # (q,)
    forward = rows.data <= own[of]
    if radius is None:
        near = forward
        data = np.ones(int(near.sum()))
    else:
        backward = rows.data <= radius[rows.indices]
        near = forward | backward
        data = 0.5 * forward[near] + 0.5 * backward[near]
    return scipy.sparse.csr_array((data, (of[near], rows.indices[near])), shape=rows.shape), own
