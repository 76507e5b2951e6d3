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
from knoll._common.sparse import is_sparse
from knoll._common.unique_rows import merge_equal_rows
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData, CostError

_MOST = 2**28  # links of a graph, at most
_BLOCK = 2**21  # distances at a time
_RADII = 8  # groups of rows of similar radius
_FARTHEST = float(np.finfo(np.float64).max)


def neighbours_of(points: NDArray[Any], k: int, threads: int, owner: str) -> tuple[Any, Floats]:
    """Find the neighbours of each row: a sparse matrix of ones, and the radius of each row, (n,)."""
    rows = _Rows.of(points, threads)
    links, radius = _nearest(rows, rows, k, threads, owner)
    return _to_rows(links, rows, rows), radius if rows.inverse is None else radius[rows.inverse]


@dataclass(frozen=True)
class _Rows:
    """Points of which many may be equal: the distinct ones with their counts, where merging pays."""

    points: Floats  # (m, d)
    inverse: Ints | None  # (n,) the point of each row; None: the rows are the points
    counts: Floats | None  # (m,)

    @classmethod
    def of(cls, points: NDArray[Any], threads: int) -> _Rows:
        unique = merge_equal_rows(points, threads)
        if unique is None:
            return cls(np.ascontiguousarray(points, dtype=np.float64), None, None)
        return cls(np.ascontiguousarray(points[unique.index], dtype=np.float64), unique.inverse, unique.counts)

    def index(self, threads: int) -> Any:
        return _core.Index(self.points, 0.0, "euclidean", 2.0, "auto", threads)


def _to_rows(links: Any, rows: _Rows, columns: _Rows) -> Any:
    """Turn links of distinct points into links of all rows."""
    links = links if rows.inverse is None else links[rows.inverse]
    return links if columns.inverse is None else links[:, columns.inverse]


def _nearest(queries: _Rows, rows: _Rows, k: int, threads: int, owner: str) -> tuple[Any, Floats]:
    """Find the k nearest rows, and all that tie with the last: a matrix of ones, (q, m), and the radius, (q,)."""
    points, index, n = queries.points, rows.index(threads), len(rows.points)
    radius = np.empty(len(points))
    left, n_near = np.arange(len(points)), min(k + 1, n)
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = []
    links = 0.0
    while len(left):
        later = []
        height = max(1, _BLOCK // n_near)
        for begin in range(0, len(left), height):
            chunk = left[begin : begin + height]
            distances, near = _knn(index, points if len(chunk) == len(points) else points[chunk], n_near, threads)
            radius[chunk] = _reach(distances, near, rows.counts, k)
            complete = (distances[:, -1] > radius[chunk]) | (n_near == n)  # all ties are among them
            row, column = np.nonzero((distances <= radius[chunk][:, None]) & complete[:, None])
            pairs.append((chunk[row], near[row, column]))
            links += _count(queries.counts, chunk[row], rows.counts, near[row, column])
            later.append(chunk[~complete])
            if links > _MOST:
                raise CostError(
                    f"{owner}: the graph of {k} neighbours has more than {_MOST} links, since rows repeat. "
                    "Drop repeated rows, or use affinity='rbf'."
                )
        left = np.concatenate(later) if later else np.empty(0, dtype=np.intp)
        n_near = min(4 * n_near, n)
    return _ones(pairs, (len(points), n)), radius


def _knn(index: Any, points: Floats, n_near: int, threads: int) -> tuple[Floats, Ints]:
    """Find the nearest rows; distances beyond float64 tie at its largest number, so that a radius is finite."""
    distances, near = np.empty((len(points), n_near)), np.empty((len(points), n_near), dtype=np.int64)
    index.knn(points, n_near, distances, near, threads)
    return np.minimum(distances, _FARTHEST, out=distances), near


def _reach(distances: Floats, near: Ints, counts: Floats | None, k: int) -> Floats:
    """Return the distance within which k rows lie."""
    if counts is None:
        return distances[:, k - 1]
    at = np.argmax(np.cumsum(counts[near], axis=1) >= k, axis=1)
    return distances[np.arange(len(at)), at]


def _count(own: Floats | None, rows: NDArray[Any], other: Floats | None, columns: NDArray[Any]) -> float:
    """Count the links between rows, copies included, of these pairs of distinct points."""
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
    others, rows = _Rows.of(queries, threads), _Rows.of(points, threads)
    if rows.inverse is not None:  # equal rows have one radius
        own = np.empty(len(rows.points))
        own[rows.inverse] = radius
        radius = own
    forward, _ = _nearest(others, rows, k, threads, owner)
    both = scipy.sparse.csr_array((forward + _around(others.points, rows.points, radius, threads)) * 0.5)
    links = scipy.sparse.csr_array(_to_rows(both, others, rows))
    links.sort_indices()
    return links


def _around(queries: Floats, points: NDArray[Any], radius: Floats, threads: int) -> Any:
    """Mark the rows whose radius a query is within, (q, n) of ones.

    Rows of similar radius have an index of their own, so that few of them are within the largest of these radii and not
    within their own. First they are counted for each query, then that many are searched for.
    """
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for rows in np.array_split(np.argsort(radius, kind="stable"), min(_RADII, len(points))):
        index = _core.Index(np.ascontiguousarray(points[rows], np.float64), 0.0, "euclidean", 2.0, "auto", threads)
        counts = _count_within(index, queries, float(radius[rows[-1]]), len(rows), threads)
        # in powers of two, so that few searches are made and little is found in vain
        size = np.where(counts > 0, np.ceil(np.log2(np.maximum(counts, 1))), -1)
        for power in np.unique(size[size >= 0]):
            n_near, group = min(2 ** int(power), len(rows)), np.flatnonzero(size == power)
            height = max(1, _BLOCK // n_near)
            for begin in range(0, len(group), height):
                chunk = group[begin : begin + height]
                distances, near = _knn(index, queries[chunk], n_near, threads)
                row, column = np.nonzero(distances <= radius[rows][near])
                pairs.append((chunk[row], rows[near[row, column]]))
    return _ones(pairs, (len(queries), len(points)))


def _count_within(index: Any, queries: Floats, radius: float, n: int, threads: int) -> Floats:
    """Count the points of an index within a radius of each query: all n within one beyond the largest number."""
    counts = np.full(len(queries), float(n))
    if radius < _FARTHEST:
        # distances that are subnormal were rounded to a unit, which the core compares without that rounding
        index.count(queries, np.nextafter(radius, _FARTHEST), np.inf, None, counts, threads)
    return counts


def _ones(pairs: list[tuple[NDArray[Any], NDArray[Any]]], shape: tuple[int, int]) -> Any:
    """Build the matrix with ones at these pairs (rows, columns), each of which occurs once."""
    rows, columns = (np.concatenate([np.empty(0, np.int64), *(pair[side] for pair in pairs)]) for side in (0, 1))
    return scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def precomputed_links(distances: Any, k: int, radius: Floats | None, owner: str) -> tuple[Any, Floats]:
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
