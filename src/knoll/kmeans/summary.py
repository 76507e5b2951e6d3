"""A summary of blocks: how many rows, how large, and a uniform sample of them that no cut between blocks changes.

Each row has a random number, a function of (seed, its position); the rows with the smallest numbers are the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.rescale import largest_of, present_rows
from knoll.exceptions import BadData
from knoll.kmeans.assignment import Blocks
from knoll.validation import refuse_not_finite

_SHUFFLE = 5  # rng::Purpose::shuffle


@dataclass(frozen=True)
class BlockSummary:
    """What one pass over all blocks found."""

    rows: int
    largest: float  # of the rows of weight > 0
    largest_absent: float  # of those of weight 0
    largest_weight: float
    sample: Block


def summarize_blocks(blocks: Blocks, estimator: Any, seed: int, size: int) -> BlockSummary:
    """Pass over the blocks once; keep at most `size` rows of weight > 0."""
    row, largest, largest_absent, largest_weight = 0, 0.0, 0.0, 0.0
    kept: list[_Ranked] = []
    for block in blocks():
        n = len(block.points)
        high = largest_of(block.points)
        if not np.isfinite(high):
            refuse_not_finite(block.points, estimator, first_row=row)
        present = present_rows(block)
        if present.points.shape[0] < n:
            largest_absent = max(largest_absent, high)
            high = largest_of(present.points)
        largest = max(largest, high)
        largest_weight = max(largest_weight, 1.0 if block.weights is None else float(block.weights.max()))
        if size:
            ranks = np.empty(n)
            _core.fill_normal(seed, _SHUFFLE, row, ranks, 1)
            here = np.arange(n) if block.weights is None else np.flatnonzero(block.weights > 0)
            if len(here) > size:
                here = here[np.argpartition(ranks[here], size - 1)[:size]]
            weights = None if block.weights is None else block.weights[here]
            kept = [_smallest([*kept, _Ranked(ranks[here], block.points[here], weights)], size)]
        row += n
    if largest_weight == 0:
        name = type(estimator).__name__
        raise BadData(f"{name}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    columns = block.points.shape[1]
    sample = Block(kept[0].points, kept[0].weights) if kept else Block(np.empty((0, columns), block.points.dtype), None)
    return BlockSummary(row, largest, largest_absent, largest_weight, sample)


class _Ranked(NamedTuple):
    """Rows with the random numbers by which they are chosen."""

    ranks: NDArray[np.float64]  # (m,)
    points: NDArray[Any]  # (m, d)
    weights: NDArray[np.float64] | None  # (m,)


def _smallest(samples: list[_Ranked], size: int) -> _Ranked:
    """Join samples and keep the rows of smallest rank."""
    ranks = np.concatenate([sample.ranks for sample in samples])
    points = np.concatenate([sample.points for sample in samples])
    weights = None
    if any(sample.weights is not None for sample in samples):
        ones = [np.ones(len(sample.ranks)) if sample.weights is None else sample.weights for sample in samples]
        weights = np.concatenate(ones)
    if len(ranks) <= size:
        return _Ranked(ranks, points, weights)
    few = np.argpartition(ranks, size - 1)[:size]
    return _Ranked(ranks[few], points[few], None if weights is None else weights[few])
