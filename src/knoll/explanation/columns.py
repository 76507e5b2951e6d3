"""The columns of a table as explanations need them: numbers and codes, in the units of the table, with their formats.

A column that was left out of the clustering is described, too, as far as it has a type: known classes, categories with
many levels, columns that the user ignored. Identifiers, single values and free text have nothing to describe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np

from knoll._format import ColumnFormat, column_format, plural
from knoll._typing import Bools, Floats, Ints
from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.frames import arrow_table, is_frame
from knoll.tables.schema import DEGREES, NUMERIC, Column, Schema
from knoll.tables.table import Table

__all__ = ["BINS", "CategoryColumn", "Columns", "NumberColumn", "columns_of"]

BINS = 4096  # quartiles and effects are exact for no more different values than this
MOST_LEVELS = 200  # of a category, the most frequent; the others count as one
OTHER = "(other)"  # what these are called
_FREE_TEXT = 1000  # levels from which a column is free text,
_COVERED = 0.2  # unless its most frequent levels have this share of the rows
_DESCRIBED = ("text", "label", "ignored", "mixed", "constant")  # types of columns that were left out


@dataclass(frozen=True)
class Bins:
    """The different values of a column in ascending order; of more than `BINS` of them, ranges of equal counts."""

    at: Ints  # (n,) the bin of each row, −1 where a value is missing
    lower: Floats  # (bins,) the smallest value of each bin
    middle: Floats
    upper: Floats

    @classmethod
    def of(cls, values: Floats) -> Bins:
        """Number the values of a column."""
        order = np.argsort(values)  # NaN come last
        ordered = values[order[: np.count_nonzero(~np.isnan(values))]]
        if not len(ordered):  # values in rows of weight 0 alone
            return cls(np.full(len(values), -1, dtype=np.int64), ordered, ordered, ordered)
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])  # positions at which a value occurs first
        if len(first) > BINS:
            steps = np.linspace(0, len(ordered), BINS, endpoint=False).astype(np.int64)
            first = np.unique(first[np.searchsorted(first, steps, side="right") - 1])
        ends = np.r_[first[1:], len(ordered)]
        last, lower = ends - 1, ordered[first]
        at = np.full(len(values), -1, dtype=np.int64)
        at[order[: len(ordered)]] = np.repeat(np.arange(len(first)), ends - first)
        return cls(at, lower, ordered[(first + last) // 2], ordered[last])


@dataclass(frozen=True)
class NumberColumn:
    """Numbers, dates (days since 1970-01-01) or times (hours); NaN where one is missing."""

    name: str
    type: str
    values: Floats  # (n,)
    format: ColumnFormat
    used: bool = True
    reason: str = ""  # why it was left out of the clustering
    sentinels: tuple[float, ...] = ()  # values of the table that stand for a missing one
    whole: bool = False  # whether all values are whole numbers

    @cached_property
    def missing(self) -> Bools:
        """Which values are missing."""
        return np.isnan(self.values)

    @cached_property
    def bins(self) -> Bins:
        """The different values, numbered."""
        return Bins.of(self.values)

    def take(self, rows: Any) -> NumberColumn:
        """Return some of the rows."""
        return replace(self, values=self.values[rows])

    def text(self, row: int) -> str:
        """Return a cell as text."""
        return self.format(float(self.values[row]))

    def plain(self, row: int) -> float | int | str | None:
        """Return a cell as JSON has it; a date as text."""
        value = float(self.values[row])
        if not np.isfinite(value):
            return None
        return self.format(value) if self.type != "number" else int(value) if self.whole else value


@dataclass(frozen=True)
class CategoryColumn:
    """Levels of a category; −1 where one is missing."""

    name: str
    type: str  # "boolean" or "category"
    codes: Ints  # (n,)
    levels: tuple[str, ...]
    used: bool = True
    reason: str = ""
    sentinels: tuple[str, ...] = ()
    literal: str = "text"  # how a level is written in a program: "text", "number" or "boolean"
    n_levels: int = 0  # of the table, if some were joined as "(other)"
    padded: bool = False  # whether cells have space at their ends, or nothing else: what the reader takes off

    @property
    def missing(self) -> Bools:
        """Which values are missing."""
        return np.asarray(self.codes < 0)

    def take(self, rows: Any) -> CategoryColumn:
        """Return some of the rows."""
        return replace(self, codes=self.codes[rows])

    def text(self, row: int) -> str:
        """Return a cell as text."""
        return "–" if self.codes[row] < 0 else self.levels[self.codes[row]]

    def plain(self, row: int) -> str | None:
        """Return a cell as JSON has it."""
        return None if self.codes[row] < 0 else self.levels[self.codes[row]]


AnyColumn = NumberColumn | CategoryColumn


@dataclass(frozen=True)
class Columns:
    """The columns that can be described, and why the others cannot."""

    described: tuple[AnyColumn, ...]
    others: dict[str, str]
    n_rows: int

    @property
    def used(self) -> tuple[AnyColumn, ...]:
        """The columns that the clustering used."""
        return tuple(column for column in self.described if column.used)

    def take(self, rows: Any, n_rows: int) -> Columns:
        """Return some of the rows, as if there had been no others."""
        return Columns(tuple(column.take(rows) for column in self.described), self.others, n_rows)

    def weighted(self, weights: Floats) -> Columns:
        """Choose the digits of the columns again, by the weights of the rows."""
        return replace(self, described=tuple(_formatted(column, weights) for column in self.described))


def _formatted(column: AnyColumn, weights: Floats) -> AnyColumn:
    if isinstance(column, CategoryColumn):
        return column
    old = column.format
    marks = old.marks or old.pattern
    return replace(column, format=column_format(column.values, column.type, old.unit, marks, weights))


def columns_of(table: Any, names: Sequence[str] | None = None, used: Sequence[str] | None = None) -> Columns:
    """Read any table: an array, a data frame, or what knoll has read itself.

    Parameters
    ----------
    table : array-like of shape (n, d), data frame, Arrow table, mapping of columns, or Table
        The rows.
    names : sequence of str, optional
        Names of the columns of an array.
    used : sequence of str, optional
        The columns that the clustering used; None takes those that it would use.
    """
    if isinstance(table, Table):
        found = _of_read(table)
    elif isinstance(table, dict) or (is_frame(table) and find_spec("pyarrow") is not None):
        found = _of_frame(table)
    else:
        found = _of_array(table, names)
    if used is not None:
        found = _with_used(found, [str(name) for name in used])
    if not found.described:
        reasons = "; ".join(f"{name!r}: {reason}" for name, reason in list(found.others.items())[:5])
        raise BadData(f"the table has no column that can be described ({reasons}).")
    return found


def _with_used(found: Columns, used: Sequence[str]) -> Columns:
    names = [column.name for column in found.described]
    for name in used:
        if name not in names and name not in found.others:
            raise InvalidParameter(f"used: the table has no column {name!r}. It has: {', '.join(names)}.")
    described = (
        replace(column, used=column.name in used, reason="" if column.name in used else column.reason or "not used")
        for column in found.described
    )
    return replace(found, described=tuple(described))


# ---- arrays ----------------------------------------------------------------------------------------------------------


def _of_array(table: Any, names: Sequence[str] | None) -> Columns:
    rows = np.asarray(table)
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise BadData(
            f"table must be a data frame or rows and columns of numbers, got shape {rows.shape} of {rows.dtype}."
        )
    if names is None:
        names = [str(name) for name in getattr(table, "columns", range(rows.shape[1]))]
    if len(names) != rows.shape[1]:
        raise InvalidParameter(f"columns has {len(names)} names for {rows.shape[1]} columns. Give one for each.")
    described, others = [], {}
    for name, values in zip(names, rows.T, strict=True):
        column = _number(Column(str(name), "number"), values)
        if column is None:
            others[str(name)] = "a single value"
        else:
            described.append(column)
    return Columns(tuple(described), others, len(rows))


def _number(
    column: Column, values: Any, used: bool = True, reason: str = "", sentinels: tuple[str, ...] = ()
) -> NumberColumn | None:
    """Return a column of numbers in the units of the table; None if it has a single value."""
    numbers = np.array(values, dtype=np.float64)
    if column.log:
        with np.errstate(over="ignore"):
            numbers = (np.exp if column.log == "log" else np.expm1)(numbers)
    numbers[np.isinf(numbers)] = np.nan
    known = numbers[~np.isnan(numbers)]
    if not len(known) or (known == known[0]).all():
        return None
    whole = bool((known == np.rint(known)).all())
    if column.log and not whole:  # exp(log(x)) is x up to the last bits
        rounded = np.rint(known)
        whole = bool((np.abs(known - rounded) <= 1e-9 * np.abs(known)).all())
        numbers = np.rint(numbers) if whole else numbers
    marks = column.format
    column_type = "number" if column.type in DEGREES else column.type
    form = column_format(numbers, column_type, column.unit, marks)
    missing = tuple(float(text) for text in sentinels if _is_number(text))
    return NumberColumn(column.name, column_type, numbers, form, used, reason, missing, whole)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- tables ----------------------------------------------------------------------------------------------------------


def _of_frame(table: Any) -> Columns:
    """Recognise the types of a table's columns, those of the columns that are left out included."""
    import pyarrow as pa

    from knoll.tables.recognition import typed

    cells = pa.table(table) if isinstance(table, dict) else arrow_table(table)
    schema, rows = typed(cells)
    return _merged(schema, rows, cells, dict(schema.left_out), cells.column_names)


def _of_read(table: Table) -> Columns:
    """Describe a table that knoll has read."""
    n = len(table.X)
    if table.schema is None or table.mixed is None:
        return _of_array(table.X, table.columns)
    rows = table.mixed
    cells = table.others if table.others is None or table.others.num_rows == n else table.others.take(table.rows)
    names = [column.name for column in table.schema.columns]
    found = _merged(table.schema, rows, cells, table.left_out, names)
    if table.truth is None:
        return found
    known = _levels_column("known classes", np.asarray(table.truth).astype(str), "known classes of the rows")
    return replace(found, described=(*found.described, *([known] if isinstance(known, CategoryColumn) else [])))


def _merged(schema: Schema, rows: Any, cells: Any, reasons: dict[str, str], names: Sequence[str]) -> Columns:
    """Join the columns that are used with those that are left out, in the order of the table."""
    numbers = dict(zip((column.name for column in schema.numeric), rows.numeric.T, strict=True))
    codes = dict(zip((column.name for column in schema.categorical), rows.codes.T, strict=True))
    stored = {} if cells is None else {name: cells[name] for name in cells.column_names}
    described: list[AnyColumn] = []
    others = {name: reason for name, reason in reasons.items() if name not in names}
    for column in schema.columns:
        found: AnyColumn | str | None
        if column.name in numbers:
            found = _number(column, numbers[column.name], sentinels=column.sentinels)
        elif column.name in codes:
            known = stored.get(column.name)
            literal = _guessed_literal(column.categories) if known is None else _literal(known)
            found = _category(column, codes[column.name], literal, padded=known is not None and _is_padded(known))
        elif column.type in _DESCRIBED and column.name in stored:
            found = _left_out(column, stored[column.name])
        else:
            found = column.reason
        if found is None or isinstance(found, str):
            others[column.name] = found or "a single value"
        else:
            described.append(found)
    return Columns(tuple(described), others, len(rows))


def _left_out(column: Column, cells: Any) -> AnyColumn | str | None:
    """Describe a column that is not clustered on by its own type, whatever it was left out for."""
    import pyarrow as pa

    from knoll.tables.recognition import Rules, typed

    if column.type == "constant":
        return column.reason
    try:
        schema, rows = typed(pa.table({column.name: cells}), Rules(requested=[column.name]))
        own = schema.columns[0]
        if own.type in NUMERIC:
            return _number(own, rows.numeric[:, 0], False, column.reason, own.sentinels)
        return _category(
            own, rows.codes[:, 0], _literal(cells), used=False, reason=column.reason, padded=_is_padded(cells)
        )
    except BadData:
        return _texts(column, cells)


def _texts(column: Column, cells: Any) -> CategoryColumn | str:
    """Describe a column of texts by the most frequent ones."""
    from knoll.tables.conversion import texts_of

    try:
        texts = texts_of(cells, column.sentinels)
    except BadData:
        return column.reason
    levels = np.asarray(texts.values.to_pylist(), dtype=object).astype(str)
    index = np.asarray(texts.index)
    return _frequent(column.name, levels, np.where(index < 0, -1, index), column.reason, _literal(cells))


def _levels_column(name: str, values: Any, reason: str) -> CategoryColumn | str:
    levels, codes = np.unique(values, return_inverse=True)
    return _frequent(name, levels, codes.astype(np.int64), reason, "text")


def _frequent(name: str, levels: Any, codes: Ints, reason: str, literal: str) -> CategoryColumn | str:
    """Keep the most frequent levels, the others as one; free text is not described."""
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    order = sorted(range(len(levels)), key=lambda at: (-counts[at], levels[at]))[:MOST_LEVELS]
    if (counts > 0).sum() < 2:
        return reason
    if len(levels) > _FREE_TEXT and counts[order].sum() < _COVERED * len(codes):
        return f"{reason}; {plural(len(levels), 'different text')}"
    kept = sorted(order, key=lambda at: levels[at])
    return _joined(name, "category", levels, codes, kept, reason, literal)


def _joined(
    name: str, type: str, levels: Any, codes: Ints, kept: list[int], reason: str, literal: str, used: bool = False
) -> CategoryColumn:
    """Renumber the levels that are kept; the others become one more level."""
    more = len(kept) < len(levels)
    number = np.full(len(levels) + 1, len(kept) if more else -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    number[-1] = -1  # a missing value takes the last entry
    names = tuple(str(levels[at]) for at in kept) + ((OTHER,) if more else ())
    return CategoryColumn(
        name, type, number[codes], names, used, reason, literal=literal, n_levels=len(levels) if more else 0
    )


def _category(
    column: Column, codes: Any, literal: str, used: bool = True, reason: str = "", padded: bool = False
) -> CategoryColumn | None:
    codes = np.asarray(codes, dtype=np.int64)
    counts = np.bincount(codes[codes >= 0], minlength=len(column.categories))
    if (counts > 0).sum() < 2:
        return None
    order = sorted(range(len(counts)), key=lambda at: (-counts[at], at))[:MOST_LEVELS]
    found = _joined(column.name, column.type, column.categories, codes, sorted(order), reason, literal, used)
    return replace(found, sentinels=column.sentinels, padded=padded)


def _guessed_literal(levels: Sequence[str]) -> str:
    """Return how a program writes a level, where the cells are not kept: whole numbers are numbers."""
    if tuple(levels) == ("false", "true"):
        return "boolean"
    return "number" if all(level.lstrip("-").isdecimal() for level in levels) else "text"


def _literal(cells: Any) -> str:
    """Return how a program writes a level of a column: by the type that the table stores."""
    import pyarrow as pa

    dtype = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    if pa.types.is_boolean(dtype):
        return "boolean"
    return "number" if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) else "text"


def _is_padded(cells: Any) -> bool:
    """Whether texts of a column are blank, or have space at their ends."""
    import pyarrow.compute as pc

    from knoll.tables.conversion import is_texts

    if not is_texts(cells.type):
        return False
    texts = pc.unique(cells.cast("string"))
    return bool(pc.any(pc.or_(pc.equal(texts, ""), pc.not_equal(texts, pc.utf8_trim_whitespace(texts)))).as_py())
