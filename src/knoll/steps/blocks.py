"""Blocks of rows, re-cut along the global grid, so that no result depends on how the data was handed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "regrid"]


class Block(NamedTuple):
    """Some consecutive rows and their weights (None: every row counts once)."""

    points: NDArray[Any]  # (m, d)
    weights: NDArray[np.float64] | None  # (m,)

    def rows(self, begin: int, end: int | None) -> Block:
        """Return the rows [begin, end)."""
        return Block(self.points[begin:end], None if self.weights is None else self.weights[begin:end])


def regrid(blocks: Iterable[Block], grain: int) -> Iterator[Block]:
    """Re-cut blocks so that each but the last has a whole multiple of `grain` rows; holds little more than one."""
    held: list[Block] = []
    rows = 0
    for block in blocks:
        held.append(block)
        rows += len(block.points)
        if rows < grain:
            continue
        joined, held, cut = _join(held), [], rows // grain * grain
        yield joined.rows(0, cut)
        rows -= cut
        if rows:
            rest = joined.rows(cut, None)
            held = [Block(rest.points.copy(), None if rest.weights is None else rest.weights.copy())]
    if held:
        yield _join(held)


def _join(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    points = np.concatenate([block.points for block in blocks])
    if all(block.weights is None for block in blocks):
        return Block(points, None)
    weights = [np.ones(len(block.points)) if block.weights is None else block.weights for block in blocks]
    return Block(points, np.concatenate(weights))
