"""The table that is explored: as it was read, and as the methods take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._typing import Floats, Indices, Ints
from knoll.comparison.fitting import content_order, drawn_rows
from knoll.comparison.scaled import read_rows, scale_rows
from knoll.comparison.subsample import MixedRows
from knoll.exceptions import BadData
from knoll.explanation.columns import AnyColumn, Columns, NumberColumn, columns_of
from knoll.models import Preparation
from knoll.tables.table import Table

if TYPE_CHECKING:
    from knoll.comparison import Comparison

__all__ = ["MOST_DRAWN", "Source"]

MOST_DRAWN = 5_000_000  # rows that are sent to the page
SAMPLE = 2_000  # rows of previews and of what is only estimated


@dataclass(frozen=True, eq=False)
class Source:
    """A table, its scaled rows, and how they came about.

    `X` is what `knoll.compare` takes for the same rows, with `options`; `opened` is the Python line that opens it.
    """

    name: str
    X: Any
    table: Table | None
    values: Floats  # (n, d) complete numbers in units of the table
    scaling: Preparation
    points: Floats  # (n, d) scaled
    mixed: MixedRows | None = None
    column_names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    ids: Any = None
    notes: tuple[str, ...] = ()
    opened: str = "Session.open(X)"
    seed: int = 0
    n_jobs: int | None = None

    @classmethod
    def read(
        cls,
        X: Any,
        *,
        name: str = "the table",
        opened: str = "Session.open(X)",
        seed: int = 0,
        n_jobs: int | None = None,
        **options: Any,
    ) -> Source:
        """Read and scale a table; `options` are those of `knoll.compare` for that."""
        how: dict[str, Any] = {key: options.pop(key) for key in ("scale", "metric") if key in options}
        rows = read_rows(X, n_jobs=n_jobs, **options)
        missing = options.get("missing")
        made = scale_rows(rows, missing=missing, **how)
        ids = getattr(X, "index", None) if hasattr(X, "iloc") else None if rows.table is None else rows.table.ids
        if ids is not None and rows.table is not None and len(ids) != len(rows.points):
            ids = np.asarray(ids)[rows.table.rows]
        return cls(
            name,
            X,
            rows.table,
            rows.points,
            made.scaling,
            made.points,
            made.mixed,
            rows.columns,
            {**options, **how},
            None if ids is None else np.asarray(ids),
            () if rows.table is None else rows.table.notes,
            opened,
            seed,
            n_jobs,
        )

    @classmethod
    def of(cls, found: Comparison, name: str = "the table") -> Source:
        """Return the table of a comparison, scaled as it was there."""
        if found.X is None:
            raise BadData("this comparison has no rows: it was made without them.")
        scaling, table = found.scaling, found.table
        mixed = None
        if scaling.encoding == "scores":
            from knoll.comparison.encoding import encoded_rows

            assert table is not None
            encoded = encoded_rows(table, "model")
            mixed = MixedRows(scaling.with_codes().apply(encoded), scaling.n_numbers)
        ids = found.index if found.index is not None else None if table is None else table.ids
        X = found.X if table is None else table
        options = {"scale": scaling.scale, "metric": "cosine" if scaling.unit_rows else None}
        return cls(
            name,
            X,
            table,
            found.X,
            scaling,
            scaling.apply(found.X),
            mixed,
            tuple(found.profile.columns),
            options,
            None if ids is None else np.asarray(ids),
            found.notes,
            "found.explore(show=False)",
            found.seed,
        )

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def columns(self) -> Columns:
        """Every column that can be described, those that are not clustered on included."""
        own = self.table if self.table is not None else self.values
        try:
            return columns_of(own, None if self.table is not None else self.column_names)
        except BadData:  # a single value in every column
            return Columns((), dict.fromkeys(self.column_names, "a single value"), len(self))

    def column(self, name: str) -> AnyColumn:
        """Return a described column."""
        for found in self.columns.described:
            if found.name == name:
                return found
        raise BadData(f"there is no column {name!r} that can be used here.")

    @cached_property
    def order(self) -> Indices:
        """The rows sorted by content."""
        return content_order(self.points)

    def sample(self, size: int = SAMPLE) -> Ints:
        """Return some rows, drawn by the seed, in order of their content."""
        return drawn_rows(self.order, size, self.seed)

    @cached_property
    def drawn(self) -> Ints | None:
        """The rows that the page draws; None is all of them."""
        n = len(self)
        return None if n <= MOST_DRAWN else np.sort(self.sample(MOST_DRAWN))

    def id(self, row: int) -> str:
        """Return what identifies a row."""
        return str(row if self.ids is None else self.ids[row])

    def cells(self, row: int, most: int | None = None) -> list[dict[str, str]]:
        """Return the values of a row as text."""
        shown = self.columns.described[:most]
        return [{"column": column.name, "value": column.text(row)} for column in shown]

    def subset(self, rows: Ints) -> Source:
        """Return some of the rows, scaled by themselves."""
        return Source.read(self._taken(rows), name=self.name, seed=self.seed, n_jobs=self.n_jobs, **self.options)

    def _taken(self, rows: Ints) -> Any:
        """Return some of the rows as `knoll.compare` takes them."""
        own = self.table
        if own is None:
            return np.asarray(self.X)[rows]
        others = own.others
        if others is not None:
            others = others.take(rows if others.num_rows == len(own.X) else own.rows[rows])
        return replace(
            own,
            X=own.X[rows],
            rows=own.rows[rows],
            ids=None if own.ids is None else own.ids[rows],
            truth=None if own.truth is None else own.truth[rows],
            others=others,
            mixed=None if own.mixed is None else own.mixed.rows(rows),
        )

    def facts(self) -> dict[str, Any]:
        """Return the table as the page sees it."""
        return {
            "name": self.name,
            "n": len(self),
            "drawn": len(self) if self.drawn is None else len(self.drawn),
            "notes": list(self.notes),
            "columns": [*map(self._column, self.columns.described), *self._others()],
            "axes": self._axes(),
            "frozen": False,
        }

    def _column(self, column: AnyColumn) -> dict[str, Any]:
        known = ~column.missing
        found: dict[str, Any] = {
            "name": column.name,
            "type": column.type,
            "used": column.used,
            "reason": column.reason,
            "missing": int((~known).sum()),
            "min": None,
            "max": None,
            "levels": [],
            "axes": [at for at, name in enumerate(self.scaling.names) if _belongs(name, column.name)],
        }
        if isinstance(column, NumberColumn):
            ends = float(column.values[known].min()), float(column.values[known].max())
            found |= {"min": ends[0], "max": ends[1], "ends": [column.format(end) for end in ends]}
        else:
            found |= {"levels": list(column.levels)}
        return found

    def _others(self) -> Sequence[dict[str, Any]]:
        empty: dict[str, Any] = {"used": False, "missing": 0, "min": None, "max": None, "levels": [], "axes": []}
        return [{"name": name, "type": "", "reason": why, **empty} for name, why in self.columns.others.items()]

    def _axes(self) -> list[dict[str, Any]]:
        """Return the name of each scaled column, and what makes a point the value of a plain number again."""
        out = []
        for at, name in enumerate(self.scaling.names):
            direct = name in self.column_names and not self.scaling.unit_rows
            center, spread = self.scaling.units(at) if direct else (None, None)
            out.append({"name": name, "column": name if direct else None, "center": center, "spread": spread})
        return out


def _belongs(axis: str, column: str) -> bool:
    return axis == column or axis.startswith(f"{column}=") or axis in (f"log({column})", f"log1p({column})")
