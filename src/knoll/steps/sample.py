"""One look over blocks: how many rows, how large, and a uniform sample of them that no cut between blocks changes.

Each row has a number of its own, a function of (seed, its place); the rows with the smallest numbers are the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.exceptions import BadData
from knoll.steps.assignment import Blocks
from knoll.steps.blocks import Block
from knoll.steps.scaling import largest_of, present_rows
from knoll.validation import refuse_not_finite

__all__ = ["Survey", "survey"]

_SHUFFLE = 5  # rng::Purpose::shuffle


@dataclass(frozen=True)
class Survey:
    """What a look over all blocks found."""

    rows: int
    largest: float  # of the rows of weight > 0
    largest_absent: float  # of those of weight 0
    largest_weight: float
    sample: Block


def survey(blocks: Blocks, estimator: Any, seed: int, size: int) -> Survey:
    """Pass over the blocks once; keep at most `size` rows of weight > 0."""
    row, largest, largest_absent, largest_weight = 0, 0.0, 0.0, 0.0
    kept: list[tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64] | None]] = []
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
            keys = np.empty(n)
            _core.fill_normal(seed, _SHUFFLE, row, keys, 1)
            here = np.arange(n) if block.weights is None else np.flatnonzero(block.weights > 0)
            if len(here) > size:
                here = here[np.argpartition(keys[here], size - 1)[:size]]
            weights = None if block.weights is None else block.weights[here]
            kept = [_smallest([*kept, (keys[here], block.points[here], weights)], size)]
        row += n
    if largest_weight == 0:
        name = type(estimator).__name__
        raise BadData(f"{name}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    columns = block.points.shape[1]
    sample = Block(kept[0][1], kept[0][2]) if kept else Block(np.empty((0, columns), block.points.dtype), None)
    return Survey(row, largest, largest_absent, largest_weight, sample)


def _smallest(
    parts: list[tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64] | None]], size: int
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64] | None]:
    keys = np.concatenate([part[0] for part in parts])
    points = np.concatenate([part[1] for part in parts])
    weights = None
    if any(part[2] is not None for part in parts):
        weights = np.concatenate([np.ones(len(part[0])) if part[2] is None else part[2] for part in parts])
    if len(keys) <= size:
        return keys, points, weights
    few = np.argpartition(keys, size - 1)[:size]
    return keys[few], points[few], None if weights is None else weights[few]
