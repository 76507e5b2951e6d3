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
from knoll.steps.sparse import is_sparse

__all__ = ["given_links", "graph_of", "link_rows", "neighbours_of"]

Floats = NDArray[np.float64]

_MOST = 2**28  # links of a graph, at most
_BLOCK = 2**21  # distances at a time


def neighbours_of(points: NDArray[Any], k: int, threads: int, owner: str) -> tuple[Any, Floats]:
    """Find the neighbours of each row: a sparse matrix of ones, and the radius of each row, (n,)."""
    index = _core.Index(points, 0.0, "euclidean", 2.0, "auto", threads)
    return _nearest(index, len(points), points.astype(np.float64, copy=False), k, threads, owner)


def _nearest(index: Any, n: int, queries: Floats, k: int, threads: int, owner: str) -> tuple[Any, Floats]:
    """Find the k nearest of n indexed rows, and all that tie with the last: (q, n) of ones, and the radius, (q,)."""
    radius = np.empty(len(queries))
    left, asked = np.arange(len(queries)), min(k + 1, n)
    parts: list[tuple[NDArray[Any], NDArray[Any]]] = []
    links = 0
    while len(left):
        later = []
        height = max(1, _BLOCK // asked)
        for begin in range(0, len(left), height):
            some = left[begin : begin + height]
            distances, near = np.empty((len(some), asked)), np.empty((len(some), asked), dtype=np.int64)
            index.knn(queries if len(some) == len(queries) else queries[some], asked, distances, near, threads)
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
    return _ones(parts, (len(queries), n)), radius


def graph_of(neighbours: Any) -> Any:
    """½(C + Cᵀ) as compressed rows with sorted columns."""
    graph = scipy.sparse.csr_array((neighbours + neighbours.T) * 0.5)
    graph.sum_duplicates()
    return graph


def link_rows(queries: NDArray[Any], points: NDArray[Any], radius: Floats, k: int, threads: int, owner: str) -> Any:
    """Make the rows of links of other points by the same rule, (q, n), columns sorted."""
    queries = np.ascontiguousarray(queries, dtype=np.float64)
    index = _core.Index(points, 0.0, "euclidean", 2.0, "auto", threads)
    forward, _ = _nearest(index, len(points), queries, k, threads, owner)
    links = scipy.sparse.csr_array((forward + _around(queries, points, radius, threads)) * 0.5)
    links.sort_indices()
    return links


def _around(queries: Floats, points: NDArray[Any], radius: Floats, threads: int) -> Any:
    """Mark the rows whose radius a query is within, (q, n) of ones.

    The rows ask for queries, not the queries for rows: a row knows how far it reaches. Rows of about the same radius
    ask together, first how many queries are within the largest of these radii, then for that many.
    """
    index = _core.Index(queries, 0.0, "euclidean", 2.0, "auto", threads)
    classes = np.where(radius > 0, np.frexp(radius)[1], np.iinfo(np.int32).min)
    parts: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for which in np.unique(classes):
        rows = np.flatnonzero(classes == which)
        counts = np.empty(len(rows))
        index.count(points[rows].astype(np.float64, copy=False), radius[rows].max(), np.inf, None, counts, threads)
        size = np.ceil(np.log2(np.maximum(counts, 1))).astype(
            int
        )  # asked for in powers of two: little is asked in vain
        size[counts == 0] = -1
        for power in np.unique(size[size >= 0]):
            asked = min(2 ** int(power), len(queries))
            group, height = rows[size == power], max(1, _BLOCK // asked)
            for begin in range(0, len(group), height):
                some = group[begin : begin + height]
                distances, near = np.empty((len(some), asked)), np.empty((len(some), asked), dtype=np.int64)
                index.knn(points[some].astype(np.float64, copy=False), asked, distances, near, threads)
                row, column = np.nonzero(distances <= radius[some][:, None])
                parts.append((near[row, column], some[row]))
    return _ones(parts, (len(queries), len(points)))


def _ones(parts: list[tuple[NDArray[Any], NDArray[Any]]], shape: tuple[int, int]) -> Any:
    """Put ones at pairs of (row, column), each of which is there once."""
    rows, columns = (np.concatenate([np.empty(0, np.int64), *(part[side] for part in parts)]) for side in (0, 1))
    return scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def given_links(distances: Any, k: int, radius: Floats | None, owner: str) -> tuple[Any, Floats]:
    """Read neighbours from a matrix of distances: the k smallest entries of each row, and all that tie.

    What a sparse matrix does not store is too far; in a dense one a zero is a distance like any other.
    With the `radius` of the fit's rows (columns), links of other rows are made by the rule of both sides.
    """
    if is_sparse(distances):
        rows = scipy.sparse.csr_array(distances, dtype=np.float64)
    else:
        (q, n), every = distances.shape, np.asarray(distances, dtype=np.float64).ravel()
        rows = scipy.sparse.csr_array((every, np.tile(np.arange(n), q), np.arange(0, q * n + 1, n)), shape=(q, n))
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
