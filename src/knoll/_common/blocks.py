"""Blocks of rows, re-cut along the global grid, so that no result depends on how the data was passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._typing import Floats
from knoll.exceptions import BadData, InvalidParameter
from knoll.validation import check_points, check_weights

__all__ = ["Block", "BlockSource", "regrid"]


class Block(NamedTuple):
    """Consecutive rows and their weights (None: every row counts once)."""

    points: NDArray[Any]  # (m, d)
    weights: Floats | None  # (m,)

    def rows(self, begin: int, end: int | None) -> Block:
        """Return the rows [begin, end)."""
        return Block(self.points[begin:end], None if self.weights is None else self.weights[begin:end])


def regrid(blocks: Iterable[Block], grain: int) -> Iterator[Block]:
    """Re-cut blocks so that each but the last has a multiple of `grain` rows; keeps little more than one in memory."""
    pending: list[Block] = []
    rows = 0
    for block in blocks:
        pending.append(block)
        rows += len(block.points)
        if rows < grain:
            continue
        joined, pending, cut = _join(pending), [], rows // grain * grain
        yield joined.rows(0, cut)
        rows -= cut
        if rows:
            remainder = joined.rows(cut, None)
            weights = None if remainder.weights is None else remainder.weights.copy()
            pending = [Block(remainder.points.copy(), weights)]
    if pending:
        yield _join(pending)


def _join(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    points = np.concatenate([block.points for block in blocks])
    if all(block.weights is None for block in blocks):
        return Block(points, None)
    weights = [np.ones(len(block.points)) if block.weights is None else block.weights for block in blocks]
    return Block(points, np.concatenate(weights))


class BlockSource:
    """The user's blocks, validated one by one and re-cut along the grid, in as many passes as needed.

    `make_blocks` returns a fresh iterable of arrays, or of pairs (array, sample_weight), at each call. The dtype of
    the first block is that of the fit.
    """

    def __init__(self, make_blocks: Callable[[], Iterable[Any]], estimator: Any) -> None:
        self._owner = type(estimator).__name__
        if not callable(make_blocks):
            raise InvalidParameter(
                f"{self._owner}: make_blocks must be a callable that returns a fresh iterator of arrays, "
                f"got {make_blocks!r:.60}. For a list of arrays: fit_blocks(lambda: arrays)."
            )
        self._make, self._estimator = make_blocks, estimator
        self._last: Any = None  # what the last call returned: an iterator returned twice is used up
        self._rows: int | None = None  # of a whole pass
        self.dtype: Any = None

    def __call__(self) -> Iterator[Block]:
        """Start a pass."""
        return regrid(self._checked(), _core.GRAIN)

    def first(self) -> Block:
        """Return the first rows: a whole cell of the grid, or all there are."""
        block = next(self(), None)
        if block is None:
            raise BadData(f"{self._owner}: make_blocks() gave no rows. Give at least one block with one row.")
        return block

    def _checked(self) -> Iterator[Block]:
        blocks = self._make()
        if blocks is self._last and iter(blocks) is blocks:
            raise InvalidParameter(
                f"{self._owner}: make_blocks returned the same iterator twice, and it was used up. "
                "Return a fresh one each time: a generator function, or lambda: open_again()."
            )
        self._last = blocks
        row = 0
        for number, item in enumerate(blocks):
            X, sample_weight = self._pair(item, number)
            if getattr(X, "ndim", None) == 2 and X.shape[0] == 0:
                continue
            points = check_points(X, estimator=self._estimator, reset=row == 0, finite=False)
            weights = check_weights(sample_weight, len(points), owner=self._owner, first_row=row, nonzero=False)
            self.dtype = points.dtype if row == 0 else self.dtype
            row += len(points)
            yield Block(points, weights)
        if self._rows is not None and row != self._rows:
            raise BadData(
                f"{self._owner}: make_blocks gave {self._rows} rows at first and {row} the next time. "
                "It must give the same blocks at each call."
            )
        self._rows = row

    def _pair(self, item: Any, number: int) -> tuple[Any, Any]:
        if not isinstance(item, tuple):
            return item, None
        if len(item) != 2:
            raise BadData(
                f"{self._owner}: block {number} is a tuple of {len(item)}. "
                "Give an array, or a pair (array, sample_weight)."
            )
        return item
