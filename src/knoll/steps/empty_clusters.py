"""A cluster that lost all its points begins anew at the point farthest from its centre (docs/theory/03-kmeans.md).

A point is all its copies: rows of equal coordinates move together, so a weight stays a number of repetitions. Of
equally far points the one with the lexicographically smallest coordinates moves, so the order of the rows plays no
part. A cluster keeps at least one of its points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knoll.steps.assignment import Blocks, add_sums, assign, no_sums
from knoll.steps.blocks import Block
from knoll.steps.sparse import dense_rows

__all__ = ["Moved", "relocate"]


@dataclass(frozen=True)
class Moved:
    """The exact sums of the clusters after the moves, and what the search took."""

    sums: NDArray[np.int64]
    distances: int
    rechecks: int


@dataclass
class _Far:
    """A point that may move."""

    d2: float  # to its centre
    label: int
    rows: int  # its copies


def relocate(blocks: Blocks, centers: NDArray[np.float64], empty: NDArray[np.bool_], threads: int) -> Moved | None:
    """Give each empty cluster a far point; None where no point is off its centre, or none can be spared."""
    k, d = centers.shape
    far: dict[tuple[float, ...], _Far] = {}  # distinct points by their coordinates
    left = np.zeros(k, dtype=np.int64)  # rows that count, per cluster
    spent = np.zeros(2, dtype=np.int64)
    for block in blocks():
        labels, d2, counted = _labels(block, centers, threads)
        spent += counted
        present = np.ones(len(labels), dtype=bool) if block.weights is None else block.weights > 0
        left += np.bincount(labels[present], minlength=k)
        for point, found in _farthest(block, d2, labels, present, k).items():
            if point in far:
                far[point].rows += found.rows
            else:
                far[point] = found

    moves: list[tuple[tuple[float, ...], _Far, int]] = []
    candidates = iter(sorted(far.items(), key=lambda item: (-item[1].d2, item[0])))
    for cluster in np.flatnonzero(empty).tolist():
        for point, found in candidates:
            if left[found.label] > found.rows:
                left[found.label] -= found.rows
                moves.append((point, found, cluster))
                break
    if not moves:
        return None

    sums = no_sums(k, d)
    for block in blocks():
        labels, d2, counted = _labels(block, centers, threads)
        spent += counted
        moved = labels.copy()
        for point, found, cluster in moves:
            near = np.flatnonzero((d2 == found.d2) & (labels == found.label))
            moved[near[(dense_rows(block.points, near) == point).all(axis=1)]] = cluster
        add_sums(block, moved, sums, threads)
    return Moved(sums, int(spent[0]), int(spent[1]))


def _labels(
    block: Block, centers: NDArray[np.float64], threads: int
) -> tuple[NDArray[np.int32], NDArray[np.float64], tuple[int, int]]:
    n = block.points.shape[0]
    labels, d2 = np.empty(n, dtype=np.int32), np.empty(n)
    return labels, d2, assign(block.points, centers, labels, d2, threads)


def _farthest(
    block: Block, d2: NDArray[np.float64], labels: NDArray[np.int32], present: NDArray[np.bool_], k: int
) -> dict[tuple[float, ...], _Far]:
    """Find the k farthest distinct points of a block: each cluster but the empty ones may have to keep one of them."""
    off = np.flatnonzero(present & (d2 > 0))
    size = k
    while True:
        rows = off
        if size < len(off):
            least = np.partition(d2[off], len(off) - size)[len(off) - size]
            rows = off[d2[off] >= least]
        far: dict[tuple[float, ...], _Far] = {}
        for row, point in zip(rows, dense_rows(block.points, rows).tolist()):
            found = far.setdefault(tuple(point), _Far(float(d2[row]), int(labels[row]), 0))
            found.rows += 1
        if len(far) >= k or len(rows) == len(off):
            best = sorted(far.items(), key=lambda item: (-item[1].d2, item[0]))[:k]
            return dict(best)
        size *= 4  # many copies: look further
