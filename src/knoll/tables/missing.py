"""Missing values: an error, rows that are dropped, or medians and most frequent categories that are filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from knoll._typing import Bools, Floats
from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.mixed import block_fill

if TYPE_CHECKING:
    from knoll.tables.table import Table

__all__ = ["FALLBACK", "MISSING", "MissingValues", "fill_missing"]

MISSING = ("error", "drop", "median")
MODELLED = "methods for mixed tables use what a row has; others take the mean of the column"
MODEL = "model"  # missing values stay: the encoding of a table, or a method, has an answer to them
FALLBACK = "median"  # of "model", for methods without a model of missing values


@dataclass
class MissingValues:
    """What is done about missing values, piece by piece, and how many there were so far.

    Infinite values count as missing. The rule "model" leaves them in. `medians` are filled in; None computes those of
    the rows at hand. `blocks` are the columns that encode a category: together they are one value, and the most
    frequent category is filled in.
    """

    rule: str
    name: str
    columns: Sequence[str]
    medians: Sequence[float] | None = None
    values: int = 0
    rows: int = 0
    infinite: int = 0  # of the values, such as 1e309 or inf
    blocks: Sequence[slice] = ()

    def __post_init__(self) -> None:
        if self.rule not in (*MISSING, MODEL):
            raise InvalidParameter(f"missing must be one of {', '.join(MISSING)}, got {self.rule!r}.")

    def apply(self, X: Floats, first: int = 0) -> tuple[Floats, Bools]:
        """Return rows without missing values, and which rows of X they are; `first` is the number of row 0."""
        gaps = ~np.isfinite(X)
        complete: Bools = np.logical_not(gaps.any(axis=1))
        if complete.all():
            return X, complete
        self.values += int(gaps[:, self._heads()].sum()) if self.blocks else int(gaps.sum())
        self.infinite += int(np.isinf(X).sum())
        self.rows += int((~complete).sum())
        if self.rule == "error":
            row, column = (int(index) for index in np.argwhere(gaps)[0])
            raise BadData(
                f"{self.name} has {self.found(first + len(X))}, the first in row {first + row + 1}, "
                f"column {self.columns[column]!r}. Use --missing drop (leave out such rows) or --missing median "
                f"(fill in the median{' or the most frequent category' if self.blocks else ''} of the column)."
                f"{self.reason()}"
            )
        if self.rule == "drop":
            return X[complete], complete
        if self.rule == MODEL:
            return X, np.ones(len(X), dtype=bool)
        return np.where(gaps, self._medians(X, gaps), X), np.ones(len(X), dtype=bool)

    def found(self, n_rows: int) -> str:
        """Return how many values were missing in the rows so far."""
        return f"{self.values} missing value{'s' * (self.values > 1)} in {self.rows} of {n_rows} rows"

    def reason(self) -> str:
        """Return a sentence on values that are numbers in the file, and missing all the same."""
        return f" Infinite, or beyond float64: {self.infinite} of these values." if self.infinite else ""

    def _medians(self, X: Floats, gaps: Bools) -> Sequence[float]:
        if self.medians is not None:
            return self.medians
        for name, empty in zip(self.columns, np.asarray(gaps.all(axis=0)), strict=True):
            if empty:
                raise BadData(f"{self.name}: column {name!r} has no values. Leave it out with --columns.")
        first = self.blocks[0].start if self.blocks else X.shape[1]
        medians = [float(np.median(values[~gap])) for values, gap in zip(X.T[:first], gaps.T[:first])]
        return [*medians, *(level for block in self.blocks for level in block_fill(X[:, block]).tolist())]

    def _heads(self) -> list[int]:
        """Return the numbers, and the first column of each block."""
        return [*range(self.blocks[0].start), *(block.start for block in self.blocks)]


def fill_missing(table: Table, rule: str = "error") -> tuple[Table, str]:
    """Return a table without missing values, and what was done about them, for people.

    The rule "model" leaves missing values to the methods: they are in `table.mixed`, and X has medians and most
    frequent categories for them.
    """
    schema, modelled = table.schema, rule == "model"
    rule = FALLBACK if modelled else rule
    if schema is None:
        missing = MissingValues(rule, table.name, table.columns)
    else:
        missing = MissingValues(rule, table.name, schema.sources, blocks=schema.blocks)
    X, keep = missing.apply(table.X)
    if not missing.values:
        return table, ""
    found = missing.found(len(table.X))
    if rule == "median":
        filled = "the median of the column" + (", or its most frequent category" if missing.blocks else "")
        text = MODELLED if modelled else f"filled in with {filled}"
        return replace(table, X=X), f"{found}: {text}{_remark(missing)}"
    if not len(X):
        raise BadData(f"{table.name}: every row has a missing value, so none is left. Use --missing median.")
    kept = replace(
        table,
        X=X,
        rows=table.rows[keep],
        ids=None if table.ids is None else table.ids[keep],
        truth=None if table.truth is None else table.truth[keep],
        mixed=None if table.mixed is None else table.mixed.rows(keep),
    )
    return kept, f"{found}: these rows were left out{_remark(missing)}"


def _remark(missing: MissingValues) -> str:
    return f"; {missing.infinite} of these values infinite, or beyond float64" if missing.infinite else ""
