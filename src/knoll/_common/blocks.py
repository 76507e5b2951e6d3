"""Blocks of rows: those of the user, validated, and how they are re-cut along the global grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Floats
from knoll.exceptions import BadData, InvalidParameter
from knoll.validation import check_points, check_weights

__all__ = ["Block", "BlockSource", "join_blocks", "regrid"]


class Block(NamedTuple):
    """Consecutive rows and their weights (None: every row counts once)."""

    points: NDArray[Any]  # (m, d)
    weights: Floats | None  # (m,)

    def rows(self, begin: int, end: int | None) -> Block:
        """Return the rows [begin, end)."""
        return Block(self.points[begin:end], None if self.weights is None else self.weights[begin:end])

    def copy(self) -> Block:
        """Return the same rows in memory of their own."""
        return Block(self.points.copy(), None if self.weights is None else self.weights.copy())


def regrid(blocks: Iterable[Block], grain: int, size: int = 0) -> Iterator[Block]:
    """Re-cut blocks so that each but the last has a multiple of `grain` rows; keeps little more than one in memory.

    Blocks of fewer than `size` bytes are joined with the next ones. What waits is a copy: a reader may fill one array
    again and again. Blocks without rows are left out.
    """
    pending: list[Block] = []
    rows = 0
    for block in blocks:
        if not len(block.points):
            continue
        rows += len(block.points)
        if rows < grain or rows * block.points[0].nbytes < size:
            pending.append(block.copy())
            continue
        joined, cut = join_blocks([*pending, block]), rows // grain * grain
        yield joined.rows(0, cut)
        rows -= cut
        pending = [joined.rows(cut, None).copy()] if rows else []
    if pending:
        yield join_blocks(pending)


def join_blocks(blocks: list[Block]) -> Block:
    """Concatenate blocks; rows without weights count once beside rows with."""
    if len(blocks) == 1:
        return blocks[0]
    points = np.concatenate([block.points for block in blocks])
    if all(block.weights is None for block in blocks):
        return Block(points, None)
    weights = [np.ones(len(block.points)) if block.weights is None else block.weights for block in blocks]
    return Block(points, np.concatenate(weights))


class BlockSource:
    """The user's blocks, validated one by one, in as many passes as needed.

    `make_blocks` returns a fresh iterable of arrays, or of pairs (array, sample_weight), at each call. The dtype of
    the first block is that of the fit.
    """

    def __init__(self, make_blocks: Callable[[], Iterable[Any]], estimator: Any, owner: str = "") -> None:
        self._owner = owner or type(estimator).__name__
        if not callable(make_blocks):
            raise InvalidParameter(
                f"{self._owner}: make_blocks must be a callable that returns a fresh iterator of arrays, "
                f"got {make_blocks!r:.60}. For a list of arrays: fit_blocks(lambda: arrays)."
            )
        self.make_blocks, self._estimator = make_blocks, estimator
        self.names = getattr(make_blocks, "columns", None)  # of the columns, where the blocks are those of a table
        self._last: Any = None  # what the last call returned: an iterator returned twice is used up
        self._rows: int | None = None  # of a whole pass
        self.dtype: Any = None

    def require_rows(self) -> None:
        """Read the first block, which has the columns and the dtype; refuse a source without rows."""
        head = getattr(self.make_blocks, "head", None)  # rows that are elsewhere: one of them is enough
        if head is None:
            found = next(self(), None)
        elif (found := head()) is not None:
            self.dtype = check_points(found, estimator=self._estimator, finite=False).dtype
        if found is None:
            raise BadData(f"{self._owner}: make_blocks() gave no rows. Give at least one block with one row.")

    def __call__(self) -> Iterator[Block]:
        """Start a pass."""
        blocks = self.make_blocks()
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
