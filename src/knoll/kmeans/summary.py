"""A summary of blocks for k-means: how many rows, how large, how heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll._common.blocks import Block
from knoll._common.passes import Passes, Run, refuse_not_finite_rows
from knoll._common.rescale import largest_of, present_rows
from knoll._common.sparse import column_ends
from knoll.exceptions import BadData


@dataclass(frozen=True)
class BlockSummary:
    """What one pass over all blocks finds."""

    rows: int
    present: int  # rows of weight > 0
    largest: float  # of those
    largest_absent: float  # of the rows of weight 0
    lightest: float  # of the weights > 0
    heaviest: float

    def merge(self, other: BlockSummary) -> BlockSummary:
        """Join what two sets of blocks have; NaN is larger than any number."""
        return BlockSummary(
            self.rows + other.rows,
            self.present + other.present,
            float(np.maximum(self.largest, other.largest)),
            float(np.maximum(self.largest_absent, other.largest_absent)),
            min(self.lightest, other.lightest),
            max(self.heaviest, other.heaviest),
        )


def summarize_blocks(passes: Passes, estimator: Any) -> BlockSummary:
    """Pass over the blocks once; refuse numbers that are not finite, and rows of which none counts."""
    found = passes.total(_summarize, None)
    if not np.isfinite([found.largest, found.largest_absent]).all():
        refuse_not_finite_rows(passes, estimator)
    if found.present == 0:
        name = type(estimator).__name__
        raise BadData(f"{name}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    return found


def _summarize(block: Block, _: None, run: Run) -> BlockSummary:
    n = len(block.points)
    present = present_rows(block)
    weights, largest = present.weights, largest_of(present.points)
    absent = len(present.points) < n
    light, heavy = (1.0, 1.0) if weights is None else (weights.min(initial=np.inf), weights.max(initial=0.0))
    largest_absent = largest_of(block.points) if absent else 0.0
    return BlockSummary(n, len(present.points), largest, largest_absent, float(light), float(heavy))


def ends_of_blocks(block: Block, _: None, run: Run) -> Block:
    """Return the least and the largest value of each column as two rows, which have the ends of all."""
    points = np.array(column_ends(block.points))
    return Block(points, None if block.weights is None else np.ones(2))
