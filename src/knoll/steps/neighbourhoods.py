"""Neighbourhoods by blocks, where no index can help: distance matrices, sparse features, any other metric.

Each maker returns rows of the graph "within ε", a block at a time, of at most some 32 MB of distances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import pairwise_distances

from knoll.exceptions import BadData, InvalidParameter
from knoll.steps.dbscan import Neighbourhoods, Rows

__all__ = ["by_metric", "of_graph", "of_matrix", "of_sparse_features", "rows_of"]

_BLOCK = 2**22  # distances in a block
_EPS = 2.0**-53


def of_matrix(distances: NDArray[Any], eps: float) -> Neighbourhoods:
    """Neighbourhoods from a matrix of distances, row by row."""
    n, m = distances.shape
    return Neighbourhoods(
        n, _BLOCK // max(m, 1), lambda begin, end: rows_of(begin, distances[begin:end].astype(np.float64), eps)
    )


def of_graph(graph: Any, eps: float, *, own: bool) -> Neighbourhoods:
    """Neighbourhoods from a sparse graph of distances: what is not stored is far.

    With `own` the graph is of the rows among themselves, and each is its own neighbour, stored or not.
    """
    n = graph.shape[0]
    graph = csr_array(graph)

    def make(begin: int, end: int) -> Rows:
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
        return Rows(begin, starts, near, distances)

    return Neighbourhoods(n, _BLOCK // 64, make)


def by_metric(
    queries: Any, points: Any, eps: float, metric: str | Callable[..., float], options: dict[str, Any]
) -> Neighbourhoods:
    """Neighbourhoods under any metric that scikit-learn's pairwise_distances knows, or a callable."""
    blank = (
        tuple(np.asarray(abs(a).sum(axis=1)).ravel() == 0 for a in (queries, points)) if metric == "cosine" else None
    )

    def make(begin: int, end: int) -> Rows:
        try:
            distances = pairwise_distances(queries[begin:end], points, metric=metric, **options)
        except (ValueError, TypeError) as error:
            raise InvalidParameter(f"DBSCAN: metric {metric!r} cannot be computed: {error}") from None
        distances = np.asarray(distances, dtype=np.float64)
        if blank is not None:  # no direction: as far from itself as a copy of it, which is not at all
            distances[np.ix_(blank[0][begin:end], blank[1])] = 0.0
        return rows_of(begin, distances, eps)

    return Neighbourhoods(queries.shape[0], _BLOCK // max(points.shape[0], 1), make)


def of_sparse_features(queries: Any, points: Any, eps: float) -> Neighbourhoods:
    """Euclidean neighbourhoods of sparse rows: ‖x‖² + ‖y‖² − 2xᵀy, and where that is too close to ε², differences.

    The expanded form errs by less than (m + 4) units of rounding of ‖x‖² + ‖y‖², m the most entries of a row; within
    twice that of ε² the pair is decided by the one distance.
    """
    power = -math.frexp(eps)[1]  # ε near one: squares neither vanish nor overflow, unless they are far beyond it
    eps = math.ldexp(eps, power)
    left, right = (_scaled(a, power) for a in (queries, points))
    left_norms, right_norms = (np.asarray(a.multiply(a).sum(axis=1)).ravel() for a in (left, right))
    longest = max(int(np.diff(a.indptr).max(initial=0)) for a in (left, right))
    slack = 2 * (longest + 8) * _EPS

    def exact(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        squares = np.empty(len(rows))
        step = max(1, _BLOCK // max(left.shape[1], 1))
        for at in range(0, len(rows), step):
            some = slice(at, at + step)
            squares[some] = _one_distance(left[rows[some]].toarray(), right[columns[some]].toarray())
        return np.sqrt(squares)

    def make(begin: int, end: int) -> Rows:
        sizes = left_norms[begin:end, None] + right_norms
        with np.errstate(over="ignore", invalid="ignore"):
            squared = sizes - 2.0 * (left[begin:end] @ right.T).toarray()
            close = ~(np.abs(squared - eps * eps) > slack * (sizes + eps * eps))
        i, j = np.nonzero(close)
        distances = np.sqrt(np.maximum(squared, 0.0))
        distances[i, j] = exact(begin + i, j)
        return rows_of(begin, distances, eps)

    return Neighbourhoods(left.shape[0], _BLOCK // max(right.shape[0], 1), make, exact)


def rows_of(begin: int, distances: NDArray[np.float64], eps: float) -> Rows:
    """Return what is within ε in some rows of distances."""
    of, near = np.nonzero(distances <= eps)
    starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(distances)))]).astype(np.int64)
    return Rows(begin, starts, near, distances[of, near])


def _scaled(points: Any, power: int) -> Any:
    rows = csr_array(points, dtype=np.float64)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(rows.data, power)
    if not np.isfinite(scaled).all():
        raise BadData(
            f"DBSCAN: |X| goes up to {np.abs(rows.data).max():.3g}, too far beyond eps for float64 to hold both. "
            "Drop the far rows, or give dense rows."
        )
    return csr_array((scaled, rows.indices, rows.indptr), shape=rows.shape)


def _one_distance(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_j (x_j − y_j)² of pairs of rows, added for j = 0 … d−1 (docs/decisions/0003)."""
    total = np.zeros(len(left))
    for j in range(left.shape[1]):
        with np.errstate(over="ignore"):
            difference = left[:, j] - right[:, j]
            total += difference * difference
    return total
