"""From what the user gives to the rows that methods take: the table is read, its columns are encoded and scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll._typing import Floats, Indices
from knoll.comparison.encoding import encoded_rows, prepared, with_gaps_marked
from knoll.comparison.fitting import content_order
from knoll.comparison.subsample import MixedRows
from knoll.exceptions import BadData, InvalidParameter
from knoll.models import Preparation
from knoll.tables.missing import FALLBACK
from knoll.tables.table import Table as TypedTable
from knoll.tables.typed import as_table
from knoll.validation import check_points

__all__ = ["Read", "Scaled", "read_rows", "scale_rows"]


@dataclass(frozen=True)
class Read:
    """A table that was read, in its own units."""

    table: TypedTable | None  # None where X was an array of numbers
    points: Floats  # (n, d) complete numbers
    columns: tuple[str, ...]
    encoded: Floats | None  # with NaN for missing values; None for a table of complete numbers


@dataclass(frozen=True)
class Scaled:
    """The same rows as methods take them."""

    order: Indices  # (n,) by content
    scaling: Preparation
    points: Floats  # (n, d) scaled
    mixed: MixedRows | None  # with categories and missing values, if there are any


def read_rows(
    X: Any,
    *,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    log: Sequence[str] | str | None = None,
    ignore: Sequence[str] | None = None,
    missing: str | None = None,
    n_jobs: int | None = None,
) -> Read:
    """Read an array or a table; the arguments are those of `knoll.compare`."""
    table = as_table(X, columns, types, log, ignore, missing)
    points = check_points(X if table is None else table.X, n_jobs=n_jobs)
    names = _columns(X, columns, points.shape[1]) if table is None else table.columns
    return Read(table, points, names, None if table is None else encoded_rows(table, missing or "model"))


def scale_rows(read: Read, *, scale: str = "auto", metric: str | None = None, missing: str | None = None) -> Scaled:
    """Scale the columns; the arguments are those of `knoll.compare`."""
    table, points = read.table, read.points
    cosine = _directions(points, metric, table, scale)
    if read.encoded is None:
        order = content_order(points)
        scaling = _scaling(points, read.columns, scale, table, missing, cosine)
        found = Scaled(order, scaling, scaling.apply(points), None)
    else:
        assert table is not None
        order = content_order(with_gaps_marked(read.encoded))
        found = Scaled(order, *prepared(read.encoded, order, table, scale, missing or "model"))
    _refuse_overflow(found.points, found.scaling.names, scale)
    return found


def _refuse_overflow(scaled: Floats, columns: tuple[str, ...], scale: str) -> None:
    """Refuse a column that spans more than float64 can hold once it is scaled."""
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.flatnonzero(~np.isfinite(np.ptp(scaled, axis=0)))  # also of the distances of its rows
    if len(wide):
        other = "divide the column by 1024" if scale == "standard" else 'use scale="standard"'
        raise BadData(
            f"column {columns[wide[0]]!r} spans more than float64 can hold under scale={scale!r}. "
            f"Leave out the rows that are so far away, or {other}."
        )


def _scaling(
    points: Floats, columns: tuple[str, ...], scale: str, rows: TypedTable | None, missing: str | None, cosine: bool
) -> Preparation:
    """Compute the scales; of a table with its types, and with what was done about missing values."""
    if cosine:
        return Preparation.fit(points, columns, scale="common" if scale == "auto" else scale, unit_rows=True)
    if rows is None:
        return Preparation.fit(points, columns, scale=scale)
    rule = missing or "model"
    return Preparation.fit(
        points, columns, scale=scale, missing=FALLBACK if rule == "model" else rule, schema=rows.schema
    )


_UNIT = 1e-3  # how far from 1 the length of a row may be, as float16 keeps it


def _directions(points: Floats, metric: str | None, rows: TypedTable | None, scale: str) -> bool:
    """Whether rows are compared by their directions."""
    if metric not in (None, "euclidean", "cosine"):
        raise InvalidParameter(f"metric must be 'euclidean' or 'cosine', got {metric!r}.")
    numbers = rows is None or rows.schema is None or rows.schema.is_plain
    if metric == "cosine" and not numbers:
        raise InvalidParameter(
            "metric='cosine' compares rows of complete numbers; this table has columns of other types. Leave them out."
        )
    if metric is not None or scale != "auto" or not numbers or points.shape[1] < 2:
        return metric == "cosine"
    lengths = np.sqrt(np.square(np.clip(points, -2.0, 2.0)).sum(axis=1))
    return bool((np.abs(lengths - 1.0) <= _UNIT).all())


def _columns(X: Any, columns: Sequence[str] | None, d: int) -> tuple[str, ...]:
    names = getattr(X, "columns", range(d)) if columns is None else columns
    names = tuple(str(name) for name in names)
    if len(names) != d:
        raise InvalidParameter(f"columns has {len(names)} names for {d} columns. Give one for each.")
    return names
