"""Neighbourhoods by blocks, where there is no index: distance matrices, sparse features, any other metric.

Each function returns rows of the graph "within ε", a block at a time, of at most about 32 MB of distances.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from knoll._common.rescale import directions, exponent_of, times_power
from knoll._common.sparse import is_sparse
from knoll._typing import Bools, Floats, Ints
from knoll.density.core_graph import NeighbourBlock, Neighbourhoods
from knoll.exceptions import BadData
from knoll.neighbors.distances import metric_distances

_BLOCK = 2**22  # distances in a block
_EPS = 2.0**-53


def of_matrix(distances: NDArray[Any], eps: float) -> Neighbourhoods:
    """Neighbourhoods from a matrix of distances, row by row."""
    n, m = distances.shape
    return Neighbourhoods(
        n, _BLOCK // max(m, 1), lambda begin, end: within(begin, distances[begin:end].astype(np.float64), eps)
    )


def of_graph(graph: Any, eps: float, *, own: bool) -> Neighbourhoods:
    """Neighbourhoods from a sparse graph of distances: what is not stored is far.

    With `own` the graph is of the rows among themselves, and each is its own neighbour, stored or not.
    """
    n = graph.shape[0]
    graph = csr_array(graph)

    def make(begin: int, end: int) -> NeighbourBlock:
        low, high = graph.indptr[begin], graph.indptr[end]
        near = np.asarray(graph.indices[low:high], dtype=np.int64)
        distances = np.asarray(graph.data[low:high], dtype=np.float64)
        of = np.repeat(np.arange(end - begin), np.diff(graph.indptr[begin : end + 1]))
        kept = distances <= eps
        if own:
            kept &= near != of + begin
            of, near, distances = of[kept], near[kept], distances[kept]
            itself = np.arange(end - begin)
            of, near = np.concatenate([of, itself]), np.concatenate([near, itself + begin])
            distances = np.concatenate([distances, np.zeros(end - begin)])
            order = np.argsort(of, kind="stable")
            of, near, distances = of[order], near[order], distances[order]
        else:
            of, near, distances = of[kept], near[kept], distances[kept]
        starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=end - begin))]).astype(np.int64)
        return NeighbourBlock(begin, starts, near, distances)

    return Neighbourhoods(n, _BLOCK // 64, make)


def by_metric(
    queries: Any, points: Any, eps: float, metric: str | Callable[..., float], options: dict[str, Any]
) -> Neighbourhoods:
    """Neighbourhoods under any metric that scikit-learn's pairwise_distances knows, or a callable."""
    if is_sparse(queries):  # differences of float32 may leave it
        queries, points = (a.astype(np.float64).tocsr() for a in (queries, points))

    def make(begin: int, end: int) -> NeighbourBlock:
        # beyond float64 a distance is infinite, and so > ε
        return within(begin, metric_distances(queries[begin:end], points, metric, options, "DBSCAN"), eps)

    return Neighbourhoods(queries.shape[0], _BLOCK // max(points.shape[0], 1), make)


def of_sparse_directions(queries: Any, points: Any, eps: float) -> Neighbourhoods:
    """Neighbourhoods of sparse rows by the cosine distance 1 − xᵀy/(‖x‖‖y‖), with the core's rounding for dense rows.

    Equal rows are 0 apart. A row of zeros has no direction: it is 1 from every other row.
    """
    (left, left_norms, left_rows), (right, right_norms, right_rows) = (_directions(a) for a in (queries, points))
    names: dict[bytes, int] = {}
    own, others = (np.array([names.setdefault(row, len(names)) for row in rows]) for rows in (left_rows, right_rows))

    def make(begin: int, end: int) -> NeighbourBlock:
        lengths = left_norms[begin:end, None] * right_norms
        products = (left[begin:end] @ right.T).toarray()
        cosines = np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        distances = np.clip(1 - cosines, 0.0, 2.0)
        distances[own[begin:end, None] == others] = 0.0
        return within(begin, distances, eps)

    return Neighbourhoods(left.shape[0], _BLOCK // max(right.shape[0], 1), make)


def _directions(rows: Any) -> tuple[csr_array, Floats, list[bytes]]:
    """Rescale each extreme row by a power of two; also return its norm then, and its content."""
    plain = csr_array(rows, dtype=np.float64, copy=True)
    plain.sum_duplicates()
    plain.eliminate_zeros()
    starts = plain.indptr
    contents = [plain.indices[a:b].astype(np.int64).tobytes() + plain.data[a:b].tobytes() for a, b in pairwise(starts)]
    plain = directions(plain)
    norms = np.sqrt(plain.multiply(plain).tocsr() @ np.ones(plain.shape[1]))  # added in the order of the columns
    return plain, norms, contents


def pairs_within(points: NDArray[Any], eps: float) -> Bools:
    """Return which rows are within ε of each other, by the one distance in units of ε: (n, n)."""
    exponent = exponent_of(eps)
    square = np.zeros((len(points), len(points)))
    with np.errstate(over="ignore", under="ignore"):  # beyond float64 is beyond ε, and far below it is nothing
        for column in np.asarray(points, dtype=np.float64).T:
            square += np.square(times_power(column[:, None] - column, -exponent))
    return np.asarray(np.sqrt(square) <= times_power(eps, -exponent))


def of_sparse_features(queries: Any, points: Any, eps: float) -> Neighbourhoods:
    """Euclidean neighbourhoods of sparse rows: ‖x‖² + ‖y‖² − 2xᵀy, and where that is too close to ε², differences.

    The expanded form errs by less than (m + 4) units of rounding of ‖x‖² + ‖y‖², m the most entries of a row; within
    twice that of ε² the pair is decided by the one distance.
    """
    exponent = exponent_of(eps)  # ε near one: squares neither vanish nor overflow, unless they are far beyond it
    eps = float(times_power(eps, -exponent))
    left, right = (_rescaled(a, exponent) for a in (queries, points))
    left_norms, right_norms = (np.asarray(a.multiply(a).sum(axis=1)).ravel() for a in (left, right))
    longest = max(int(np.diff(a.indptr).max(initial=0)) for a in (left, right))
    slack = 2 * (longest + 8) * _EPS

    def exact(rows: Ints, columns: Ints) -> Floats:
        squares = np.empty(len(rows))
        step = max(1, _BLOCK // max(left.shape[1], 1))
        for at in range(0, len(rows), step):
            chunk = slice(at, at + step)
            squares[chunk] = _one_distance(left[rows[chunk]].toarray(), right[columns[chunk]].toarray())
        return np.sqrt(squares)

    def make(begin: int, end: int) -> NeighbourBlock:
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = left_norms[begin:end, None] + right_norms
            squared = sizes - 2.0 * (left[begin:end] @ right.T).toarray()
            close = ~(np.abs(squared - eps * eps) > slack * (sizes + eps * eps))
        i, j = np.nonzero(close)
        distances = np.sqrt(np.maximum(squared, 0.0))
        distances[i, j] = exact(begin + i, j)
        return within(begin, distances, eps)

    return Neighbourhoods(left.shape[0], _BLOCK // max(right.shape[0], 1), make, exact)


def within(begin: int, distances: Floats, eps: float) -> NeighbourBlock:
    """Return the entries within ε in rows of distances."""
    of, near = np.nonzero(distances <= eps)
    starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(distances)))]).astype(np.int64)
    return NeighbourBlock(begin, starts, near, distances[of, near])


def _rescaled(points: Any, exponent: int) -> Any:
    rows = csr_array(points, dtype=np.float64)
    near = times_power(rows, -exponent)
    if not np.isfinite(near.data).all():
        raise BadData(
            f"DBSCAN: |X| goes up to {np.abs(rows.data).max():.3g}, too far beyond eps for float64 to hold both. "
            "Drop the far rows, or give dense rows."
        )
    return near


def _one_distance(left: Floats, right: Floats) -> Floats:
    """Σ_j (x_j − y_j)² of pairs of rows, added for j = 0 … d−1 (docs/decisions/0003)."""
    total = np.zeros(len(left))
    for j in range(left.shape[1]):
        with np.errstate(over="ignore"):
            difference = left[:, j] - right[:, j]
            total += difference * difference
    return total
