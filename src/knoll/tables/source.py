"""A table that is open for reading: pieces of it, or all of it.

A source yields Arrow tables. `pieces` turns each into numbers; `read` concatenates them first, which copies nothing, so
that the array of numbers is made once. Columns that are requested by name must be numbers, and are converted while they
are read. Without names the types of all columns must be known first, and a text has no types before its last line:
then the source yields one table. `read_typed` and `typed_pieces` are the same for columns of any type.
"""

from __future__ import annotations

import contextlib
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from knoll._common.mixed_table import MixedTable
from knoll._format import listed
from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.columns import as_written, decoded, matrix, reason_unused
from knoll.tables.conversion import texts_of
from knoll.tables.recognition import Rules, typed_cells
from knoll.tables.schema import Schema
from knoll.tables.table import NOT_REQUESTED, Table

__all__ = [
    "NOT_REQUESTED",
    "Piece",
    "Request",
    "Table",
    "TableSource",
    "in_memory",
    "reporting",
    "slices",
    "type_notes",
]

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
class Request:
    """What a source should yield."""

    columns: Sequence[str] | None  # these, as numbers; None: all columns, of the type that all rows have
    labels: Sequence[str] = ()  # ids and classes; of a text, as they are written
    whole: bool = False  # whether all tables will be in memory at once
    texts: Sequence[str] = ()  # columns of any type beside those; of a text, as they are written
    any_type: bool = False  # whether the columns have the type that all rows have, instead of being numbers

    @property
    def names(self) -> list[str] | None:
        """All columns that are needed, each once; None: all there are."""
        return None if self.columns is None else list(dict.fromkeys([*self.columns, *self.texts, *self.labels]))

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
        What the user should know about how it is read.
    excluded : mapping
        Columns that are used only if they are requested, and the reason.
    is_text : bool
        Whether ids and classes come as text, whatever they mean.
    decimal : {".", ","}
        The decimal mark of a text.
    sparse : sparse array or None
        The numbers, where the file has a sparse matrix.
    """

    name: str
    head: pa.Table
    tables: Callable[[Request], Iterator[pa.Table]]
    notes: tuple[str, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    is_text: bool = False
    decimal: str = "."
    sparse: Any = None

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

    def ids(self, name: str) -> NDArray[Any]:
        """Read what identifies the rows, and nothing else."""
        self._check_names([name])
        return self._labels(pa.concat_tables(list(self._tables(Request([], [name], any_type=True))))[name])

    def typed_pieces(self, schema: Schema, ids: str | None = None) -> Iterator[tuple[Piece, int]]:
        """Yield the rows of the columns of a schema, encoded, and in how many a category is unknown."""
        labels = [] if ids is None else [ids]
        self._check_names([*(column.name for column in schema.used), *labels])
        numbers = [column.name for column in schema.used if column.plain_number]
        texts = [column.name for column in schema.used if not column.plain_number]
        row = 0
        for table in self._tables(Request(numbers, labels, texts=texts)):
            for name in numbers:
                self._check_usable(name, table, may_be_empty=True)
            rows = self._applied(schema, table, row)
            unknown = sum(int((rows.codes[:, j] < 0).sum()) - _nulls(table[each.name], each.sentinels)
                          for j, each in enumerate(schema.categorical))  # fmt: skip
            yield Piece(row, rows.encode(), None if ids is None else decoded(table[ids], self.name)), unknown
            row += table.num_rows
        if row == 0:
            raise BadData(f"{self.name} has no rows.")

    def _applied(self, schema: Schema, table: pa.Table, first: int) -> MixedTable:
        """Apply a schema to rows from `first` on; an error names the row of the file."""
        try:
            return schema.apply(table)
        except BadData as error:
            message = re.sub(r"but row (\d+) has", lambda found: f"but row {first + int(found[1])} has", str(error))
            raise BadData(f"{self.name}: {message}") from None

    def read_typed(
        self,
        columns: Sequence[str] | None = None,
        ids: str | None = None,
        truth: str | None = None,
        rules: Rules | None = None,
    ) -> Table:
        """Read all rows; without `columns` every column whose type can be clustered on, in the order of the file."""
        rules = Rules() if rules is None else rules
        labels = [name for name in (ids, truth) if name is not None]
        self._check_names([*(columns or ()), *labels])
        rules = replace(rules, requested=columns, decimal=self.decimal, excluded=self.excluded, where=self.name)
        rules.check(self.columns)
        wanted = set(self.columns if columns is None else columns).difference(labels)
        features = [name for name in self.columns if name in wanted]
        request = Request(None if columns is None else features, labels, whole=True, any_type=True)
        table = pa.concat_tables(list(self._tables(request)) or [self.head.slice(0, 0)])
        if table.num_rows == 0:
            raise BadData(f"{self.name} has no rows.")
        cells = {name: self._column(name, table) for name in features}
        kept, n = {name: table[name] for name in labels}, table.num_rows
        del table  # so that a column is freed when its numbers are converted
        chosen = {name: type_ for name, type_ in rules.types.items() if name in wanted}
        schema, rows = typed_cells(cells, n, replace(rules, types=chosen))
        return self._typed_table(schema, rows, cells, kept, ids, truth)

    def _typed_table(
        self,
        schema: Schema,
        rows: MixedTable,
        cells: Mapping[str, Any],
        labels: Mapping[str, Any],
        ids: str | None,
        truth: str | None,
    ) -> Table:
        """Encode the rows; the reasons for columns that are left out are in the order of the file."""
        reasons = schema.left_out
        others = set(self.columns).difference((column.name for column in schema.columns), (ids, truth))
        left_out = {
            name: reasons.get(name, NOT_REQUESTED) for name in self.columns if name in others or name in reasons
        }
        if not schema.used:
            shown = "; ".join(f"{name!r} is {reason}" for name, reason in list(left_out.items())[:5])
            raise BadData(f"{self.name} has no column to cluster on ({shown}).")
        return Table(
            self.name,
            rows.encode(),
            schema.encoded,
            left_out,
            np.arange(len(rows)),
            None if ids is None else self._labels(labels[ids]),
            None if truth is None else self._labels(labels[truth], null_values=True),
            (*self.notes, *type_notes(schema)),
            schema,
            rows,
            pa.table({name: cells[name] for name in reasons if name in cells}),
        )

    def _tables(self, request: Request) -> Iterator[pa.Table]:
        with reporting(self.name):
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


def _nulls(cells: pa.ChunkedArray, sentinels: tuple[str, ...]) -> int:
    """Return how many cells of a category are missing, rather than unknown."""
    return int((texts_of(cells, sentinels).index < 0).sum())


def type_notes(schema: Schema) -> list[str]:
    """Return what the user should know about the types: guesses, sentinels, categories, single values."""
    notes = [column.note for column in schema.used if column.note]
    far = [
        f"{' and '.join(numbers)} in {c.name}" for c in schema.numeric if (numbers := _sentinel_numbers(c.sentinels))
    ]
    if far:
        notes.append(f"taken as missing: {listed(far)}")
    if logs := [column.name for column in schema.used if column.log]:
        notes.append(f"logarithms are taken of: {listed(logs)}")
    if dates := [column.name for column in schema.used if column.type == "date"]:
        notes.append(f"dates, as numbers of days: {listed(dates)}")
    if categories := [f"{c.name} ({len(c.categories)})" for c in schema.categorical]:
        notes.append(f"categories, with their number of levels: {listed(categories)}")
    return notes


def _sentinel_numbers(sentinels: tuple[str, ...]) -> list[str]:
    return [text for text in sentinels if text.lstrip("-").isdigit()]


def in_memory(table: pa.Table, name: str, notes: tuple[str, ...] = (), excluded: Mapping[str, str] = {}) -> TableSource:
    """Make a source of a table that has been read."""
    return TableSource(name, table, lambda request: slices(table, request), notes, excluded)


def slices(table: pa.Table, request: Request) -> Iterator[pa.Table]:
    """Cut a table into pieces of the size of a request."""
    rows = table.num_rows if request.whole else request.rows(len(request.names or table.column_names))
    for begin in range(0, table.num_rows, max(rows, 1)):
        yield table.slice(begin, rows)


@contextlib.contextmanager
def reporting(name: str) -> Iterator[None]:
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
