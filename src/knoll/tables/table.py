"""A table that has been read: the numbers that methods take, and how they came about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.mixed_table import MixedTable
from knoll._format import plural
from knoll.tables.schema import Schema

__all__ = ["NOT_REQUESTED", "Table"]

NOT_REQUESTED = "not requested"  # why a column is left out when others are named


@dataclass(frozen=True)
class Table:
    """The columns of a file that can be clustered on, as numbers.

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
        What the user should know about how the file was read.
    schema : Schema or None
        The types of all columns of the file; None where every number was taken as it is.
    mixed : MixedTable or None
        The used columns by type, with missing values, before they were encoded as X.
    others : pyarrow.Table or None
        The cells of all rows in columns that are left out, for descriptions of clusters.
    """

    name: str
    X: NDArray[np.float64]
    columns: tuple[str, ...]
    left_out: dict[str, str]
    rows: NDArray[np.int64]
    ids: NDArray[Any] | None = None
    truth: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()
    schema: Schema | None = None
    mixed: MixedTable | None = None
    others: Any = None

    @property
    def n_columns(self) -> int:
        """The number of columns of the file that are used."""
        return len(self.columns) if self.schema is None else len(self.schema.used)

    @property
    def used(self) -> str:
        """How many columns are used, for people: "9 columns", or "used 9 of 11 columns"."""
        if self.schema is None:
            return plural(self.n_columns, "column")
        others = sum(reason != NOT_REQUESTED for reason in self.left_out.values())
        if not others:
            return plural(self.n_columns, "column")
        return f"used {self.n_columns} of {plural(self.n_columns + others, 'column')}"
