"""A cluster that lost all its points begins anew at the point farthest from its centre (docs/theory/03-kmeans.md).

A point is all its copies: rows of equal coordinates move together, so a weight stays a number of repetitions. Of
equally far points the one with the lexicographically smallest coordinates moves, so the order of the rows plays no
part. A cluster keeps at least one of its points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.steps.assignment import Blocks, add_sums, assign, no_sums
from knoll.steps.blocks import Block
from knoll.steps.sparse import dense_rows, is_sparse

__all__ = ["Moved", "relocate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Moved:
    """The exact sums of the clusters after the moves, and what the search took."""

    sums: NDArray[np.int64]
    distances: int
    rechecks: int


@dataclass(frozen=True)
class _Far:
    """Distinct points off their centres, the farthest first, of equally far ones the lexicographically smallest."""

    points: NDArray[Any]  # (m, d)
    d2: Floats  # (m,)
    labels: NDArray[np.int32]  # (m,)
    copies: Ints  # (m,): rows that are this point
    rows: list[Ints]  # (m,): which, in their block; what was merged has none


def relocate(blocks: Blocks, centers: Floats, empty: NDArray[np.bool_], threads: int) -> Moved | None:
    """Give each empty cluster a far point; None where no point is off its centre, or none can be spared."""
    k, d = centers.shape
    far: _Far | None = None
    only: tuple[NDArray[np.int32], _Far] | None = None  # one block is not searched twice
    left = np.zeros(k, dtype=np.int64)  # rows that count, per cluster
    spent = np.zeros(2, dtype=np.int64)
    for block in blocks():
        labels, found, counted = _search(block, centers, threads)
        spent += counted
        left += np.bincount(labels if block.weights is None else labels[block.weights > 0], minlength=k)
        far, only = (found, (labels, found)) if far is None else (_merge(far, found, k), None)

    goes: dict[bytes, int] = {}  # a point and the cluster that it moves to
    assert far is not None
    candidates = iter(range(len(far.copies)))
    for cluster in np.flatnonzero(empty).tolist():
        for place in candidates:
            label, copies = far.labels[place], far.copies[place]
            if left[label] > copies:
                left[label] -= copies
                goes[_key(far.points[place])] = cluster
                break
    if not goes:
        return None

    sums = no_sums(k, d)
    for block in blocks():
        if only is not None:
            labels, found = only
        else:
            labels, found, counted = _search(block, centers, threads)
            spent += counted
        for point, rows in zip(found.points, found.rows):
            cluster = goes.get(_key(point), -1)
            if cluster >= 0:
                labels[rows] = cluster
        add_sums(block, labels, sums, threads)
    return Moved(sums, int(spent[0]), int(spent[1]))


def _search(block: Block, centers: Floats, threads: int) -> tuple[NDArray[np.int32], _Far, tuple[int, int]]:
    """Assign the rows of a block, and find its k farthest points.

    No more can be needed: each cluster but the empty ones may have to keep one of them.
    """
    n, k = block.points.shape[0], len(centers)
    labels, d2 = np.empty(n, dtype=np.int32), np.empty(n)
    counted = assign(block.points, centers, labels, d2, threads)
    rows = _farthest(block.points, block.weights, d2, k, threads)
    first = np.array([some[0] for some in rows], dtype=np.int64)
    copies = np.array([len(some) for some in rows], dtype=np.int64)
    return labels, _Far(dense_rows(block.points, first), d2[first], labels[first], copies, rows), counted


def _farthest(points: Any, weights: Floats | None, d2: Floats, k: int, threads: int) -> list[Ints]:
    """Return the rows of each of the k farthest distinct points, or of fewer if there are no more."""
    rows, ends = np.empty(points.shape[0], dtype=np.int64), np.empty(k, dtype=np.int64)
    if is_sparse(points):
        if not points.has_canonical_format:  # the core walks along columns that rise
            points = points.copy()
            points.sum_duplicates()
        parts = points.data, points.indices, points.indptr.astype(points.indices.dtype, copy=False), points.shape[1]
        count = _core.farthest_points_csr(*parts, weights, d2, rows, ends, threads)
    else:
        count = _core.farthest_points(points, weights, d2, rows, ends, threads)
    return np.split(rows[: ends[count - 1]], ends[: count - 1]) if count else []


def _merge(a: _Far, b: _Far, k: int) -> _Far:
    """Join what two blocks have; a point of both has the copies of both."""
    points, d2 = np.concatenate([a.points, b.points]), np.concatenate([a.d2, b.d2])
    labels, copies = np.concatenate([a.labels, b.labels]), np.concatenate([a.copies, b.copies])
    places = _farthest(points, None, d2, k, 1)
    first = np.array([some[0] for some in places], dtype=np.int64)
    joined = np.array([copies[some].sum() for some in places], dtype=np.int64)
    return _Far(points[first], d2[first], labels[first], joined, [])


def _key(point: NDArray[Any]) -> bytes:
    return (point + 0.0).tobytes()  # −0 is 0
