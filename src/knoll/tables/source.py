"""A table that is open for reading: pieces of it, or all of it.

A source yields Arrow tables. `pieces` turns each into numbers; `read` concatenates them first, which copies nothing, so
that the array of numbers is made once. Columns that are requested by name must be numbers, and are converted while they
are read. Without names the types of all columns must be known first, and a text has no types before its last line:
then the source yields one table.
"""

from __future__ import annotations

import contextlib
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from knoll._format import listed
from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.columns import as_written, decoded, matrix, reason_unused

__all__ = ["NOT_REQUESTED", "Piece", "Request", "Table", "TableSource", "in_memory", "reading", "slices"]

NOT_REQUESTED = "not requested"  # why a column is left out when others are named

_ROWS = 1 << 16
_CELLS = 1 << 22  # at most so many numbers at a time
_FAULTS = (  # what readers of formats raise where a file is not what it claims to be
    pa.ArrowException, OSError, ValueError, TypeError, MemoryError, EOFError, RuntimeError, KeyError, OverflowError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """Consecutive rows."""

    first: int  # the row of the file, from 0, that they begin with
    X: NDArray[np.float64]  # (m, d), NaN where a number is missing
    ids: pa.ChunkedArray | None  # (m,)


@dataclass(frozen=True)
class Table:
    """The numeric columns of a file.

    Attributes
    ----------
    name : str
        Where it comes from, for people.
    X : ndarray of shape (n, d)
        The numbers; NaN where one is missing.
    columns : tuple of str
        Their names.
    left_out : dict
        The other columns and why they were left out.
    rows : ndarray of shape (n,)
        The row of the file, from 0, that each row of X was.
    ids, truth : ndarray of shape (n,) or None
        What identifies a row; a class it is known to have.
    notes : tuple of str
        What the user should know about the way the file was read.
    """

    name: str
    X: NDArray[np.float64]
    columns: tuple[str, ...]
    left_out: dict[str, str]
    rows: NDArray[np.int64]
    ids: NDArray[Any] | None = None
    truth: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """What a source should yield."""

    columns: Sequence[str] | None  # these, as numbers; None: all columns, of the type that all rows have
    labels: Sequence[str] = ()  # ids and classes; of a text, as they are written
    whole: bool = False  # whether all tables will be in memory at once

    @property
    def names(self) -> list[str] | None:
        """All columns that are needed, each once; None: all there are."""
        return None if self.columns is None else list(dict.fromkeys([*self.columns, *self.labels]))

    def rows(self, width: int) -> int:
        """Return how many rows of a table with so many columns are a piece."""
        return max(1, min(_ROWS, _CELLS // max(width, 1)))


@dataclass(frozen=True)
class TableSource:
    """A table that is open for reading.

    Attributes
    ----------
    name : str
        Where it comes from, for people.
    head : pyarrow.Table
        Its first rows, with all columns.
    tables : callable
        Yields Arrow tables for a `Request`.
    notes : tuple of str
        What the user should know about the way it is read.
    excluded : mapping
        Columns that are used only if they are requested, and the reason.
    is_text : bool
        Whether ids and classes come as text, whatever they mean.
    """

    name: str
    head: pa.Table
    tables: Callable[[Request], Iterator[pa.Table]]
    notes: tuple[str, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    is_text: bool = False

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(self.head.column_names)

    def numeric_columns(self) -> list[str]:
        """Return the columns that `read` would use, judged by the first rows."""
        return [name for name in self.columns if self._reason(name, self.head) is None]

    def pieces(self, columns: Sequence[str], ids: str | None = None) -> Iterator[Piece]:
        """Yield the rows of these columns, in this order, with what identifies each row."""
        labels = [] if ids is None else [ids]
        self._check_names([*columns, *labels])
        row = 0
        for table in self._tables(Request(columns, labels)):
            for column in columns:
                self._check_usable(column, table, may_be_empty=True)
            yield Piece(row, matrix(table, columns), None if ids is None else decoded(table[ids], self.name))
            row += table.num_rows
        if row == 0:
            raise BadData(f"{self.name} has no rows.")

    def read(self, columns: Sequence[str] | None = None, ids: str | None = None, truth: str | None = None) -> Table:
        """Read all rows; without `columns` every numeric column. Their order is that of the file."""
        labels = [name for name in (ids, truth) if name is not None]
        self._check_names([*(columns or ()), *labels])
        wanted = set(self.columns if columns is None else columns).difference(labels)
        features = [name for name in self.columns if name in wanted]
        request = Request(None if columns is None else features, labels, whole=True)
        table = pa.concat_tables(list(self._tables(request)) or [self.head.slice(0, 0)])
        if table.num_rows == 0:
            raise BadData(f"{self.name} has no rows.")
        others = set(self.columns).difference(wanted, labels)
        left_out = dict.fromkeys((name for name in self.columns if name in others), NOT_REQUESTED)
        for name in features:
            if columns is not None:
                self._check_usable(name, table)
            elif (reason := self._reason(name, table)) is not None:
                left_out[name] = reason
        used = [name for name in features if name not in left_out]
        if not used:
            reasons = "; ".join(f"{name!r} is {reason}" for name, reason in list(left_out.items())[:5])
            raise BadData(f"{self.name} has no numeric column to cluster ({reasons}).")
        return Table(
            self.name,
            matrix(table, used),
            tuple(used),
            left_out,
            np.arange(table.num_rows),
            None if ids is None else self._labels(table[ids]),
            None if truth is None else self._labels(table[truth], null_values=True),
            self.notes,
        )

    def _tables(self, request: Request) -> Iterator[pa.Table]:
        with reading(self.name):
            yield from self.tables(request)

    def _check_names(self, names: Sequence[str]) -> None:
        known = set(self.columns)
        for name in names:
            if name not in known:
                hints = "".join(f" Note: {note}." for note in self.notes)
                raise InvalidParameter(f"{self.name} has no column {name!r}. It has: {listed(self.columns)}.{hints}")

    def _check_usable(self, name: str, table: pa.Table, may_be_empty: bool = False) -> None:
        reason = reason_unused(name, self._column(name, table), requested=True)
        if reason is not None and not (may_be_empty and reason == "empty"):
            raise BadData(f"{self.name}: column {name!r} cannot be used: {reason}.")

    def _reason(self, name: str, table: pa.Table) -> str | None:
        return reason_unused(name, self._column(name, table), requested=False) or self.excluded.get(name)

    def _column(self, name: str, table: pa.Table) -> pa.ChunkedArray:
        """Return a column; one that is not read, such as a nested one, as the first rows show it."""
        return (table if table.schema.get_field_index(name) >= 0 else self.head)[name]

    def _labels(self, column: pa.ChunkedArray, null_values: bool = False) -> NDArray[Any]:
        found = as_written(column, null_values) if self.is_text else decoded(column, self.name)
        return np.asarray(found.to_numpy())


def in_memory(table: pa.Table, name: str, notes: tuple[str, ...] = (), excluded: Mapping[str, str] = {}) -> TableSource:
    """Make a source of a table that has been read."""
    return TableSource(name, table, lambda request: slices(table, request), notes, excluded)


def slices(table: pa.Table, request: Request) -> Iterator[pa.Table]:
    """Cut a table into pieces of the size of a request."""
    rows = table.num_rows if request.whole else request.rows(len(request.names or table.column_names))
    for begin in range(0, table.num_rows, max(rows, 1)):
        yield table.slice(begin, rows)


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Report in one line that a file is damaged."""
    try:
        yield
    except (BadData, InvalidParameter):
        raise
    except _FAULTS as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):  # reading them could run anything
            message = f"{name} contains Python objects instead of numbers. Save it with a numeric dtype."
        else:
            message = f"{name} is damaged: {' '.join(str(error).split())[:200].rstrip('.')}."
        raise BadData(message) from None
