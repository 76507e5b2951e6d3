"""The types of a table's columns: found once, applied to other tables, kept in files.

A `Schema` is plain data and needs no library to be read; applying it to a table needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from knoll._common.mixed_table import MixedTable, blocks_of
from knoll._format import listed
from knoll.exceptions import BadData
from knoll.tables.positions import Position, pairs_of

__all__ = ["CATEGORICAL", "DEGREES", "NUMERIC", "OMITTED", "Column", "Schema"]

DEGREES = ("latitude", "longitude")
NUMERIC = ("number", "date", "time", *DEGREES)
CATEGORICAL = ("boolean", "category")
OMITTED = ("id", "text", "constant", "empty", "label", "duplicate", "mixed", "ignored", "other")
LOGS = ("", "log", "log1p")
_MOST_LEVELS = 100_000  # of a file


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        Its name.
    type : str
        "number", "date", "time", "latitude", "longitude", "boolean" or "category"; of a column that is left out "id",
        "text", "constant", "empty", "label", "duplicate", "mixed", "ignored" or "other".
    format : str
        How a cell is written. Of a number: the decimal mark and what separates thousands, such as ".,", or nothing if
        it is plain; of a date: "iso" or a format of `strptime`.
    unit : str
        "%" or a currency; of a latitude or longitude "°"; of a date "days since 1970-01-01", of a time "hours".
    categories : tuple of str
        The levels, sorted; of a Boolean the false one first.
    sentinels : tuple of str
        Values that stand for a missing one, such as "-999" or "n/a".
    log : {"", "log", "log1p"}
        The logarithm that is taken.
    reason : str
        Why the column is left out; empty if it is used.
    note : str
        What the user should know about how it is read, such as an order of day and month that was guessed.
    """

    name: str
    type: str
    format: str = ""
    unit: str = ""
    categories: tuple[str, ...] = ()
    sentinels: tuple[str, ...] = ()
    log: str = ""
    reason: str = ""
    note: str = ""

    @property
    def used(self) -> bool:
        """Whether it is clustered on."""
        return not self.reason

    @property
    def plain_number(self) -> bool:
        """Whether it is read as it is: a number or degrees without a format, a sentinel or a logarithm."""
        return self.type in ("number", *DEGREES) and not (self.format or self.sentinels or self.log)

    @property
    def encoded(self) -> tuple[str, ...]:
        """The names of its columns in the encoded matrix."""
        if self.type == "category" and len(self.categories) > 2:
            return tuple(f"{self.name}={level}" for level in self.categories)
        if self.type in CATEGORICAL:
            return (self.name if self.type == "boolean" else f"{self.name}={self.categories[-1]}",)
        return (f"{self.log}({self.name})" if self.log else self.name,)


@dataclass(frozen=True)
class Schema:
    """The columns of a table, with their types; `apply` makes arrays of a table that has them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from knoll.tables import recognise
    >>> table = pa.table({"paid": ["€1,200", "€80", "n/a", "€40"], "city": ["Rome", "Oslo", "Rome", "Oslo"]})
    >>> schema = recognise(table)
    >>> [(column.name, column.type, column.unit) for column in schema.columns]
    [('paid', 'number', '€'), ('city', 'category', '')]
    >>> rows = schema.apply(pa.table({"city": ["Rome", "Bonn"], "paid": ["€7", None]}))
    >>> rows.numeric.tolist(), rows.codes.tolist(), rows.levels[0].tolist()
    ([[7.0], [nan]], [[1], [-1]], ['Oslo', 'Rome'])
    """

    columns: tuple[Column, ...]

    @property
    def numeric(self) -> tuple[Column, ...]:
        """The used columns that are numbers."""
        return tuple(column for column in self.columns if column.used and column.type in NUMERIC)

    @property
    def categorical(self) -> tuple[Column, ...]:
        """The used columns that are categories."""
        return tuple(column for column in self.columns if column.used and column.type in CATEGORICAL)

    @property
    def used(self) -> tuple[Column, ...]:
        """The numbers, then the categories: the order of the encoded matrix."""
        return self.numeric + self.categorical

    @property
    def left_out(self) -> dict[str, str]:
        """The other columns, with the reasons."""
        return {column.name: column.reason for column in self.columns if not column.used}

    @property
    def levels(self) -> tuple[int, ...]:
        """The number of levels of each category."""
        return tuple(len(column.categories) for column in self.categorical)

    @property
    def level_arrays(self) -> tuple[NDArray[Any], ...]:
        """The levels of each category."""
        return tuple(np.array(column.categories, dtype=object) for column in self.categorical)

    @property
    def blocks(self) -> tuple[slice, ...]:
        """The encoded columns of each category."""
        return blocks_of(len(self.numeric), self.levels)

    @property
    def encoded(self) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return tuple(name for column in self.used for name in column.encoded)

    @property
    def sources(self) -> tuple[str, ...]:
        """For each encoded column the name of its column in the table."""
        return tuple(column.name for column in self.used for _ in column.encoded)

    @property
    def is_plain(self) -> bool:
        """Whether every used column is a plain number, so that a list of names is complete."""
        return all(column.plain_number and column.type == "number" for column in self.used)

    @property
    def positions(self) -> tuple[Position, ...]:
        """The pairs of latitude and longitude among the numbers, none of them fitted."""
        at = {column.name: j for j, column in enumerate(self.numeric)}
        degrees = ([column.name for column in self.numeric if column.type == each] for each in DEGREES)
        return tuple(Position(at[up], at[across]) for up, across in pairs_of(*degrees))

    def only_used(self) -> Schema:
        """Return the schema without the columns that are left out."""
        return Schema(self.used)

    def apply(self, table: Any) -> MixedTable:
        """Convert the used columns of a table, found by their names.

        Parameters
        ----------
        table : table
            A pyarrow table, a data frame, or anything with ``__arrow_c_stream__``.

        Returns
        -------
        MixedTable
            A missing value or a sentinel is NaN or −1, and so is a category that the schema does not have. A cell that
            is neither missing nor of the column's type is an error that names it.
        """
        from knoll.tables.frames import arrow_table

        found = arrow_table(table)
        self.check_names(found.column_names)
        return self.taken({column.name: found[column.name] for column in self.used}, found.num_rows)

    def taken(self, cells: dict[str, Any], n: int) -> MixedTable:
        """Convert the used columns among `cells`, and remove numbers from them, so that each is in memory once."""
        from knoll.tables.columns import write_numbers
        from knoll.tables.conversion import category_codes, is_numbers, numeric_values

        codes = np.empty((n, len(self.categorical)), np.int32)  # (n, q)
        for j, column in enumerate(self.categorical):
            codes[:, j] = category_codes(column, cells[column.name])
        numeric = np.empty((n, len(self.numeric)), order="F")  # (n, p) pages are used when they are written
        plain = []
        for j, column in enumerate(self.numeric):
            found = cells.pop(column.name)
            if column.plain_number and is_numbers(found.type):
                plain.append((found.chunks, numeric[:, j]))
            else:
                numeric[:, j] = numeric_values(column, found)
            del found
        write_numbers(plain)
        return MixedTable(numeric, codes, self.level_arrays)

    def check_names(self, names: list[str], where: str = "the table") -> None:
        """Refuse a table without one of the used columns."""
        for column in self.used:
            if column.name not in names:
                raise BadData(f"{where} has no column {column.name!r}. It has: {listed(names)}.")

    # ---- in a file -------------------------------------------------------------------------------------------------

    def plain(self) -> list[dict[str, Any]]:
        """Return it as JSON values; what is empty is left out."""
        return [
            {key: list(value) if isinstance(value, tuple) else value for key, value in vars(column).items() if value}
            for column in self.columns
        ]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read the result of `plain`, from an untrusted file."""
        if not isinstance(plain, list) or not all(isinstance(entry, dict) for entry in plain):
            raise BadData("the types of the columns must be a list of mappings.")
        found = cls(tuple(_column(entry) for entry in plain))
        if len({column.name for column in found.columns}) != len(plain):
            raise BadData("the types of the columns have a name twice.")
        return found


_NAMES = tuple(field.name for field in fields(Column))
_TUPLES = ("categories", "sentinels")


def _column(entry: Mapping[str, Any]) -> Column:
    """Read one column, trusting nothing."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    wrong = [key for key, value in values.items() if key not in _NAMES or isinstance(value, tuple) != (key in _TUPLES)]
    texts = [text for value in values.values() for text in (value if isinstance(value, tuple) else (value,))]
    if wrong or not {"name", "type"} <= set(values) or not all(isinstance(text, str) for text in texts):
        raise BadData(f"the entry {str(dict(entry))[:60]} is no type of a column.")
    column = Column(**values)
    levels = column.categories
    good = (
        column.type in NUMERIC + CATEGORICAL + OMITTED
        and column.used == (column.type not in OMITTED)
        and column.log in LOGS
        and len(set(levels)) == len(levels) <= _MOST_LEVELS
        and (column.type != "category" or len(levels) >= 1)
        and (column.type != "boolean" or len(levels) == 2)
        and (column.type not in ("number", *DEGREES) or _is_number_format(column.format))
    )
    if not good:
        raise BadData(f"the type of column {column.name!r:.60} makes no sense.")
    return column


def _is_number_format(text: str) -> bool:
    return text == "" or (text[0] in ".," and text[1:] in ("", ".", ",", " ", "'") and text[0] != text[1:])
