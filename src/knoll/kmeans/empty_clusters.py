"""A cluster that lost all its points begins anew at the point farthest from its centre (docs/theory/03-kmeans.md).

A point is all its copies: rows of equal coordinates move together, so a weight stays a number of repetitions. Of
equally far points the one with the lexicographically smallest coordinates moves, so the order of the rows does
not matter. A cluster keeps at least one of its points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.exact_sums import ExactSums
from knoll._common.passes import Passes, Run
from knoll._common.sparse import dense_rows, is_sparse
from knoll._typing import Bools, Floats, Ints, Labels
from knoll.kmeans.assignment import Memory, assign, cluster_sums, own_distances


@dataclass(frozen=True)
class Moves:
    """Rows of one block, and the clusters that they move to."""

    block: Block
    rows: Ints  # (m,)
    to: Labels  # (m,)


@dataclass(frozen=True)
class Moved:
    """What the search took, and the moves: as such where a memory has the sums, else the exact sums after them."""

    distances: int
    rechecks: int
    moves: Moves | None = None
    sums: ExactSums | None = None

    def merge(self, other: Moved) -> Moved:
        """Add what another block has; neither is changed."""
        assert self.sums is not None
        assert other.sums is not None
        spent = self.distances + other.distances, self.rechecks + other.rechecks
        return Moved(*spent, sums=self.sums.merge(other.sums))


@dataclass(frozen=True)
class _Far:
    """Distinct points off their centres, the farthest first, of equally far ones the lexicographically smallest."""

    points: NDArray[Any]  # (m, d)
    d2: Floats  # (m,)
    labels: Labels  # (m,)
    copies: Ints  # (m,): rows that are this point
    rows: Ints  # (Σ copies): which, in their block, point by point; what was merged has none

    def moved(self, goes: dict[int, int]) -> tuple[Ints, Labels]:
        """Return the rows that move, and where to; `goes` maps the positions of points to clusters."""
        ends = np.cumsum(self.copies)
        positions = np.array(sorted(goes), dtype=np.int64)
        rows = [self.rows[ends[position] - self.copies[position] : ends[position]] for position in positions.tolist()]
        to = np.array([goes[position] for position in positions.tolist()], dtype=np.int32)
        return np.concatenate([*rows, np.empty(0, dtype=np.int64)]), np.repeat(to, self.copies[positions])


def relocate(passes: Passes, centers: Floats, empty: Bools, memory: Memory | None = None) -> Moved | None:
    """Give each empty cluster a far point; None where no point is off its centre, or none can be spared.

    A memory is that of the only block, which was assigned to these centres.
    """
    if memory is not None:
        block, threads, k = passes.first(), passes.threads, len(centers)
        d2 = own_distances(block.points, centers, memory.labels, threads)
        far = _far(block, memory.labels, d2, k, threads)
        goes = _choose(far, _count(block, memory.labels, k), empty)
        return Moved(len(d2), 0, moves=Moves(block, *far.moved(goes))) if goes else None

    found = passes.total(_farthest_of_block, centers)
    goes = _choose(found.far, found.left, empty)
    if not goes:
        return None
    to = {_content(found.far.points[position]): cluster for position, cluster in goes.items()}
    moved = passes.total(_move, _Move(centers, to))
    return Moved(found.distances + moved.distances, found.rechecks + moved.rechecks, sums=moved.sums)


@dataclass(frozen=True)
class _Found:
    """The far points of some blocks, how many rows of weight > 0 their clusters have, and what the search took."""

    far: _Far
    left: Ints  # (k,)
    distances: int
    rechecks: int

    def merge(self, other: _Found) -> _Found:
        """Join what two sets of blocks have; neither is changed."""
        far = _merge(self.far, other.far, len(self.left))
        spent = self.distances + other.distances, self.rechecks + other.rechecks
        return _Found(far, self.left + other.left, *spent)


@dataclass(frozen=True)
class _Move:
    """Points, by their contents, and the clusters that they move to."""

    centers: Floats
    to: dict[bytes, int]


def _farthest_of_block(block: Block, centers: Floats, run: Run) -> _Found:
    labels, far, spent = _search(block, centers, run.threads)
    return _Found(replace(far, rows=far.rows[:0]), _count(block, labels, len(centers)), *spent)


def _move(block: Block, move: _Move, run: Run) -> Moved:
    """Assign the rows of a block, but for the points that move."""
    labels, far, spent = _search(block, move.centers, run.threads)
    here = {position: move.to.get(_content(point), -1) for position, point in enumerate(far.points)}
    rows, to = far.moved({position: cluster for position, cluster in here.items() if cluster >= 0})
    labels[rows] = to
    return Moved(*spent, sums=cluster_sums(block, labels, len(move.centers), run.threads))


def _choose(far: _Far, left: Ints, empty: Bools) -> dict[int, int]:
    """Choose a point for each empty cluster, by its position; `left` counts the rows of weight > 0 of each cluster."""
    goes: dict[int, int] = {}
    left = left.copy()
    candidates = iter(zip(far.labels.tolist(), far.copies.tolist(), strict=True))
    position = 0
    for cluster in np.flatnonzero(empty).tolist():
        for label, copies in candidates:
            position += 1
            if left[label] > copies:
                left[label] -= copies
                goes[position - 1] = cluster
                break
    return goes


def _count(block: Block, labels: Labels, k: int) -> Ints:
    return np.bincount(labels if block.weights is None else labels[block.weights > 0], minlength=k)


def _search(block: Block, centers: Floats, threads: int) -> tuple[Labels, _Far, tuple[int, int]]:
    """Assign the rows of a block, and find its far points."""
    n = block.points.shape[0]
    labels, d2 = np.empty(n, dtype=np.int32), np.empty(n)
    counted = assign(block.points, centers, labels, d2, threads)
    return labels, _far(block, labels, d2, len(centers), threads), counted


def _far(block: Block, labels: Labels, d2: Floats, k: int, threads: int) -> _Far:
    """Find the k farthest points of a block.

    No more can be needed: each cluster but the empty ones may have to keep one of them.
    """
    rows, copies = _farthest(block.points, block.weights, d2, k, threads)
    first = rows[np.cumsum(copies) - copies]
    return _Far(dense_rows(block.points, first), d2[first], labels[first], copies, rows)


def _farthest(points: Any, weights: Floats | None, d2: Floats, k: int, threads: int) -> tuple[Ints, Ints]:
    """Return the rows of the k farthest distinct points, or of fewer if there are no more, and how many each has."""
    rows, ends = np.empty(points.shape[0], dtype=np.int64), np.empty(k, dtype=np.int64)
    if is_sparse(points):
        if not points.has_canonical_format:  # the core needs columns that rise
            points = points.copy()
            points.sum_duplicates()
        arrays = points.data, points.indices, points.indptr.astype(points.indices.dtype, copy=False), points.shape[1]
        count = _core.farthest_points_csr(*arrays, weights, d2, rows, ends, threads)
    else:
        count = _core.farthest_points(points, weights, d2, rows, ends, threads)
    return rows[: ends[count - 1] if count else 0], np.diff(ends[:count], prepend=0)


def _merge(a: _Far, b: _Far, k: int) -> _Far:
    """Join what two blocks have; a point of both has the copies of both."""
    points, d2 = np.concatenate([a.points, b.points]), np.concatenate([a.d2, b.d2])
    labels, copies = np.concatenate([a.labels, b.labels]), np.concatenate([a.copies, b.copies])
    positions, times = _farthest(points, None, d2, k, 1)
    starts = np.cumsum(times) - times
    first = positions[starts]
    joined = np.add.reduceat(copies[positions], starts) if len(starts) else copies[:0]
    return _Far(points[first], d2[first], labels[first], joined, copies[:0])


def _content(point: NDArray[Any]) -> bytes:
    return (point + 0.0).tobytes()  # −0 is 0
