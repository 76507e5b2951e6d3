"""The graph of nearest neighbours: links ½[d_ij ≤ r_i] + ½[d_ij ≤ r_j], r_i the distance to the k-th row.

A row counts itself. Rows at exactly r_i are all neighbours, so contents decide, not the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll import _core
from knoll.exceptions import BadData, CostError
from knoll.places import merged
from knoll.steps.sparse import is_sparse

__all__ = ["given_links", "graph_of", "link_rows", "neighbours_of"]

Floats = NDArray[np.float64]

_MOST = 2**28  # links of a graph, at most
_BLOCK = 2**21  # distances at a time


def neighbours_of(points: NDArray[Any], k: int, threads: int, owner: str) -> tuple[Any, Floats]:
    """Find the neighbours of each row: a sparse matrix of ones, and the radius of each row, (n,)."""
    rows = _Rows.of(points, threads)
    links, radius = _nearest(rows, rows, k, threads, owner)
    return _spread(links, rows, rows), radius if rows.which is None else radius[rows.which]


@dataclass(frozen=True)
class _Rows:
    """Points of which many may be equal: each once, where that pays, with the number of rows there."""

    points: Floats  # (m, d)
    which: NDArray[np.int64] | None  # (n,) the point of each row; None: the rows are the points
    times: Floats | None  # (m,)

    @classmethod
    def of(cls, points: NDArray[Any], threads: int) -> _Rows:
        places = merged(points, threads)
        if places is None:
            return cls(np.ascontiguousarray(points, dtype=np.float64), None, None)
        return cls(np.ascontiguousarray(points[places.first], dtype=np.float64), places.which, places.times)

    def index(self, threads: int) -> Any:
        return _core.Index(self.points, 0.0, "euclidean", 2.0, "auto", threads)


def _spread(links: Any, rows: _Rows, columns: _Rows) -> Any:
    """Give the links of points to all rows that are there."""
    links = links if rows.which is None else links[rows.which]
    return links if columns.which is None else links[:, columns.which]


def _nearest(asking: _Rows, rows: _Rows, k: int, threads: int, owner: str) -> tuple[Any, Floats]:
    """Find the points that hold the k nearest rows, and all that tie with the last: ones, (q, m); the radius, (q,)."""
    queries, index, n = asking.points, rows.index(threads), len(rows.points)
    radius = np.empty(len(queries))
    left, asked = np.arange(len(queries)), min(k + 1, n)
    parts: list[tuple[NDArray[Any], NDArray[Any]]] = []
    links = 0.0
    while len(left):
        later = []
        height = max(1, _BLOCK // asked)
        for begin in range(0, len(left), height):
            some = left[begin : begin + height]
            distances, near = np.empty((len(some), asked)), np.empty((len(some), asked), dtype=np.int64)
            index.knn(queries if len(some) == len(queries) else queries[some], asked, distances, near, threads)
            radius[some] = _reach(distances, near, rows.times, k)
            whole = (distances[:, -1] > radius[some]) | (asked == n)  # all ties are in sight
            row, column = np.nonzero((distances <= radius[some][:, None]) & whole[:, None])
            parts.append((some[row], near[row, column]))
            links += _count(asking.times, some[row], rows.times, near[row, column])
            later.append(some[~whole])
            if links > _MOST:
                raise CostError(
                    f"{owner}: the graph of {k} neighbours has more than {_MOST} links, since rows repeat. "
                    "Drop repeated rows, or use affinity='rbf'."
                )
        left = np.concatenate(later) if later else np.empty(0, dtype=np.intp)
        asked = min(4 * asked, n)
    return _ones(parts, (len(queries), n)), radius


def _reach(distances: Floats, near: NDArray[np.int64], times: Floats | None, k: int) -> Floats:
    """Read off the distance within which k rows lie."""
    if times is None:
        return distances[:, k - 1]
    at = np.argmax(np.cumsum(times[near], axis=1) >= k, axis=1)
    return distances[np.arange(len(at)), at]


def _count(own: Floats | None, rows: NDArray[Any], other: Floats | None, columns: NDArray[Any]) -> float:
    """Count the links between rows that stand for these pairs of points."""
    if own is None and other is None:
        return len(rows)
    return float(np.sum((1.0 if own is None else own[rows]) * (1.0 if other is None else other[columns])))


def graph_of(neighbours: Any) -> Any:
    """½(C + Cᵀ) as compressed rows with sorted columns."""
    graph = scipy.sparse.csr_array((neighbours + neighbours.T) * 0.5)
    graph.sum_duplicates()
    return graph


def link_rows(queries: NDArray[Any], points: NDArray[Any], radius: Floats, k: int, threads: int, owner: str) -> Any:
    """Make the rows of links of other points by the same rule, (q, n), columns sorted."""
    asking, rows = _Rows.of(queries, threads), _Rows.of(points, threads)
    if rows.which is not None:  # equal rows have one radius
        own = np.empty(len(rows.points))
        own[rows.which] = radius
        radius = own
    forward, _ = _nearest(asking, rows, k, threads, owner)
    both = scipy.sparse.csr_array((forward + _around(asking.points, rows.points, radius, threads)) * 0.5)
    links = scipy.sparse.csr_array(_spread(both, asking, rows))
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
        # asked for in powers of two: little is asked in vain
        size = np.ceil(np.log2(np.maximum(counts, 1))).astype(int)
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
