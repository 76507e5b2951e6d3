"""Scratch space of a fit larger than memory: arrays in a file without a name.

The file has no name in its folder, so that it is gone with the process however that ends, a kill included.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knoll._format import byte_size
from knoll._typing import Floats, Ints
from knoll.exceptions import CostError, InvalidParameter

__all__ = ["NumberedRows", "RowStore", "Scratch"]

_AT_ONCE = 1 << 30  # bytes that one call of the system reads or writes: Linux takes less than 2^31


class Scratch:
    """A file that arrays are appended to and read from; use it in a `with` statement."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.size = folder, 0
        try:
            self._file: Any = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise InvalidParameter(
                f"scratch: no file can be made in {folder}: {error.strerror}. Name a folder that can be written to."
            ) from None

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the space back."""
        self._file.close()

    def append(self, array: NDArray[Any]) -> int:
        """Write an array, and return where it begins."""
        begin = self.size
        whole: Any = np.ascontiguousarray(array)
        data = memoryview(whole).cast("B") if array.size else memoryview(b"")
        try:
            self._file.seek(begin)
            while len(data):
                data = data[self._file.write(data[:_AT_ONCE]) :]
        except OSError as error:
            raise CostError(
                f"the scratch folder {self.folder} cannot take more than {byte_size(self.size)}: {error.strerror}. "
                "Name a folder with more room: scratch=."
            ) from None
        self.size = begin + array.nbytes
        return begin

    def read(self, begin: int, into: Any) -> None:
        """Fill a contiguous array of NumPy with what was written at `begin`."""
        if not into.size:
            return
        data = memoryview(into).cast("B")
        self._file.seek(begin)
        while len(data):
            count = self._file.readinto(data[:_AT_ONCE])
            if not count:
                raise CostError(f"the scratch file in {self.folder} is shorter than what was written to it.")
            data = data[count:]


class NumberedRows(NamedTuple):
    """Rows, their numbers in the table, which increase, and their weights (None: every row counts once)."""

    numbers: Ints  # (m,)
    points: NDArray[Any]  # (m, d)
    weights: Floats | None  # (m,)

    def where(self, mask: NDArray[np.bool_]) -> NumberedRows:
        """Return the rows where the mask is true."""
        taken = np.flatnonzero(mask)
        if len(taken) == len(mask):
            return self
        weights = None if self.weights is None else self.weights[taken]
        return NumberedRows(self.numbers[taken], self.points.take(taken, axis=0), weights)


class _Extent(NamedTuple):
    rows: int
    first: int  # number of the first row, where numbers follow each other; else −1
    weighted: bool
    begin: int  # of numbers, points, weights, one after the other


class RowStore:
    """Rows on scratch, in the order of their numbers; so many at a time are written at least."""

    def __init__(self, scratch: Scratch, columns: int, dtype: Any, least: int = 1) -> None:
        self._scratch, self._columns, self.dtype, self._least = scratch, columns, np.dtype(dtype), least
        self._extents: list[_Extent] = []
        self._waiting: list[NumberedRows] = []
        self.rows = self._written = 0

    def append(self, rows: NumberedRows) -> None:
        """Add rows, which come after those before; `flush` ends it."""
        if not len(rows.numbers):
            return
        self._waiting.append(rows)
        self.rows += len(rows.numbers)
        if self.rows - self._written >= self._least:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            self._write(_joined(self._waiting))
            self._waiting = []

    def _write(self, rows: NumberedRows) -> None:
        m = len(rows.numbers)
        first = int(rows.numbers[0])
        follow = int(rows.numbers[-1]) - first == m - 1  # they increase: such numbers need not be written
        begin = self._scratch.size
        if not follow:
            self._scratch.append(rows.numbers.astype(np.int64, copy=False))
        self._scratch.append(rows.points.astype(self.dtype, copy=False))
        if rows.weights is not None:
            self._scratch.append(rows.weights)
        self._extents.append(_Extent(m, first if follow else -1, rows.weights is not None, begin))
        self._written += m

    def chunks(self, least: int) -> Iterator[NumberedRows]:
        """Yield the rows as they were written, joined to at least so many at a time."""
        joined: list[_Extent] = []
        for extent in self._extents:
            joined.append(extent)
            if sum(each.rows for each in joined) >= least:
                yield self._load(joined)
                joined = []
        if joined:
            yield self._load(joined)

    def whole(self) -> NumberedRows:
        """Return all rows."""
        return self._load(self._extents)

    def _load(self, extents: list[_Extent]) -> NumberedRows:
        n = sum(extent.rows for extent in extents)
        numbers, points = np.empty(n, dtype=np.int64), np.empty((n, self._columns), dtype=self.dtype)
        weights = np.ones(n) if any(extent.weighted for extent in extents) else None
        row = 0
        for m, first, weighted, begin in extents:
            here = slice(row, row + m)
            if first >= 0:
                numbers[here] = np.arange(first, first + m)
            else:
                self._scratch.read(begin, numbers[here])
                begin += 8 * m
            self._scratch.read(begin, points[here])
            if weighted and weights is not None:
                self._scratch.read(begin + points[here].nbytes, weights[here])
            row += m
        return NumberedRows(numbers, points, weights)


def _joined(parts: list[NumberedRows]) -> NumberedRows:
    """Join rows; those without weights count once beside those with."""
    if len(parts) == 1:
        return parts[0]
    numbers, points = (np.concatenate([part[field] for part in parts]) for field in (0, 1))
    if all(part.weights is None for part in parts):
        return NumberedRows(numbers, points, None)
    weights = [np.ones(len(part.numbers)) if part.weights is None else part.weights for part in parts]
    return NumberedRows(numbers, points, np.concatenate(weights))
