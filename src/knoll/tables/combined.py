"""Types of several columns together: copies, one-hot columns, dates that repeat a number, positions, logarithms."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._common.mixed_table import MixedTable
from knoll._typing import Bools, Floats, Ints
from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.conversion import logarithm
from knoll.tables.positions import in_radians, is_latitude, is_longitude, pairs_of, possible
from knoll.tables.schema import DEGREES, Column, Schema

if TYPE_CHECKING:
    from knoll.tables.recognition import Rules

__all__ = ["LOG_RULES", "combined", "logarithm_for"]

_COPY_ROWS = 10  # rows from which two equal columns are no coincidence
LOG_RULES = ("auto", "mixed")
_LOG_SKEWNESS = 0.3  # (q₉₀ + q₁₀ − 2 q₅₀) / (q₉₀ − q₁₀) beyond which a logarithm is considered
_SAME_ORDER = 0.995  # rank correlation of a date and a number with the same meaning
_ORDER_ROWS = 20  # rows from which that is no coincidence
_EXPECTED = 10  # rows with two of the columns that exclude each other
_FIRST = 2000  # rows that distinguish most columns
_NEARLY = 0.9  # rank correlation of some rows, from which all are compared
_FALSE_TRUE = ("0", "1")


def combined(schema: Schema, rows: MixedTable, rules: Rules) -> tuple[Schema, MixedTable]:
    """Settle what no column shows alone; the rows lose the columns that are left out."""
    schema, rows = _with_indicators(schema, rows, rules)
    kept = set(rules.types) | set(rules.requested or ())
    for repeated in (_copies, _one_hot, _dates_again):
        reasons = {name: reason for name, reason in repeated(schema, rows).items() if name not in kept}
        schema, rows = _without(schema, rows, reasons, "duplicate")
    schema = _with_positions(schema, rows, rules)
    return _with_logarithms(schema, rows, rules)


def _without(schema: Schema, rows: MixedTable, reasons: dict[str, str], type: str) -> tuple[Schema, MixedTable]:
    """Leave out columns."""
    if not reasons:
        return schema, rows
    numeric = [j for j, column in enumerate(schema.numeric) if column.name not in reasons]
    codes = [j for j, column in enumerate(schema.categorical) if column.name not in reasons]
    columns = (Column(c.name, type, reason=reasons[c.name]) if c.name in reasons else c for c in schema.columns)
    return Schema(tuple(columns)), rows.columns(np.array(numeric, np.int64), np.array(codes, np.int64))


# ---- Booleans written as numbers -------------------------------------------------------------------------------------


def _with_indicators(schema: Schema, rows: MixedTable, rules: Rules) -> tuple[Schema, MixedTable]:
    """Take columns of 0 and 1 as Booleans, beside other columns: as numbers each of them would be two dense regions."""
    binary = [
        j for j, column in enumerate(schema.numeric)
        if column.plain_number and column.name not in rules.types and _is_binary(rows.numeric[:, j])
    ]  # fmt: skip
    if not binary or len(binary) == len(schema.used):
        return schema, rows
    values = {schema.numeric[j].name: rows.numeric[:, j] for j in binary}
    columns = tuple(
        Column(c.name, "boolean", categories=_FALSE_TRUE) if c.name in values else c for c in schema.columns
    )
    made = Schema(columns)
    known = dict(zip((column.name for column in schema.categorical), rows.codes.T, strict=True))
    codes = [known[c.name] if c.name in known else _codes(values[c.name]) for c in made.categorical]
    others = [j for j in range(len(schema.numeric)) if j not in binary]
    table = MixedTable(rows.numeric[:, others], np.column_stack(codes).astype(np.int32), made.level_arrays)
    return made, table


def _is_binary(values: Floats) -> bool:
    if not _zeros_and_ones(values[:_FIRST]).all():
        return False
    return bool((values == 0).any() and (values == 1).any() and _zeros_and_ones(values).all())


def _zeros_and_ones(values: Floats) -> Bools:
    return np.asarray((values == 0) | (values == 1) | np.isnan(values))


def _codes(values: Floats) -> Ints:
    return np.where(np.isfinite(values), values, -1).astype(np.int64)


# ---- columns that repeat what others have ----------------------------------------------------------------------------


def _copies(schema: Schema, rows: MixedTable) -> dict[str, str]:
    """Return the columns that equal an earlier one; a few rows distinguish most columns."""
    n = len(rows)
    if n < _COPY_ROWS:
        return {}
    columns = [*rows.numeric.T, *rows.codes.T]
    names = [column.name for column in schema.used]
    sample = np.unique(np.linspace(0, n - 1, 64).astype(np.int64))
    seen: dict[tuple[Any, ...], list[int]] = {}
    copies: dict[str, str] = {}
    order = {column.name: at for at, column in enumerate(schema.columns)}
    for j in sorted(range(len(names)), key=lambda j: order[names[j]]):
        number = j < len(schema.numeric)
        levels = () if number else schema.used[j].categories
        key = (number, levels, columns[j][sample].tobytes())
        first = next((i for i in seen.get(key, ()) if np.array_equal(columns[i], columns[j], equal_nan=True)), None)
        if first is not None:
            copies[names[j]] = f"the same values as {names[first]!r}"
        seen.setdefault(key, []).append(j)
    return copies


def _one_hot(schema: Schema, rows: MixedTable) -> dict[str, str]:
    """Return Booleans that together are one category: names that begin alike, never two of them true.

    Their combinations would decide a clustering; the category in one column would not.
    """
    groups: dict[str, list[int]] = {}
    for j, column in enumerate(schema.categorical):
        stem = re.match(r"(.+)[_=.:\s-]", column.name)
        if column.type == "boolean" and stem is not None:
            groups.setdefault(stem[1], []).append(j)
    found: dict[str, str] = {}
    for group, members in groups.items():
        if len(members) > 1 and _exclusive(rows.codes[:, members] == 1):
            names = [schema.categorical[j].name for j in members]
            reason = f"one of {len(names)} columns that encode {group!r}; give it in one column to use it"
            found |= dict.fromkeys(names, reason)
    return found if len(found) < len(schema.used) else {}


def _exclusive(true: Bools) -> bool:
    """Whether no row has two, and that is no coincidence: each has one, or many with two would be expected."""
    each = true.sum(axis=1)
    if len(true) < _COPY_ROWS or (each > 1).any():
        return False
    shares = true.mean(axis=0)
    expected = len(true) * (shares.sum() ** 2 - (shares**2).sum()) / 2  # pairs in rows, of independent columns
    return bool((each == 1).all() or expected >= _EXPECTED)


def _dates_again(schema: Schema, rows: MixedTable) -> dict[str, str]:
    """Return dates that order the rows as a number does, such as the date of the last of so many days."""
    columns = list(zip(schema.numeric, rows.numeric.T, strict=True))
    found: dict[str, str] = {}
    for date, days in columns:
        if date.type != "date":
            continue
        for other, values in columns:
            if other.type == "number" and _same_order(days, values):
                found[date.name] = f"it orders the rows as {other.name!r} does; name it in --columns to use it"
                break
    return found


def _same_order(a: Floats, b: Floats) -> bool:
    """Whether two columns order all rows alike, or in reverse; some rows distinguish most columns."""
    sample = np.unique(np.linspace(0, len(a) - 1, min(len(a), _FIRST)).astype(np.int64))
    if len(sample) < len(a) and abs(_rank_correlation(a[sample], b[sample])) < _NEARLY:
        return False
    return abs(_rank_correlation(a, b)) >= _SAME_ORDER


def _rank_correlation(a: Floats, b: Floats) -> float:
    """Return Spearman's correlation of the rows in which both are known; 0 for few rows."""
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < _ORDER_ROWS:
        return 0.0
    ranks = [_ranks(values[both]) for values in (a, b)]
    deviations = [rank - rank.mean() for rank in ranks]
    size = float(np.sqrt((deviations[0] ** 2).sum() * (deviations[1] ** 2).sum()))
    return float(deviations[0] @ deviations[1]) / size if size > 0 else 0.0


def _ranks(values: Floats) -> Floats:
    """Return ranks; equal values have the mean of theirs."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[index])


# ---- positions and logarithms ----------------------------------------------------------------------------------------


def _with_positions(schema: Schema, rows: MixedTable, rules: Rules) -> Schema:
    """Recognise pairs of latitude and longitude, by what the user requests or by names and ranges."""
    values = {column.name: rows.numeric[:, j] for j, column in enumerate(schema.numeric) if column.type == "number"}
    wanted = [[name for name in values if rules.types.get(name) == each] for each in DEGREES]
    logs = () if isinstance(rules.log, str) else rules.log
    free = [name for name in values if name not in rules.types and name not in logs]
    named = [[name for name in free if is_one(name)] for is_one in (is_latitude, is_longitude)]
    for own, other in ((0, 1), (1, 0)):
        if wanted[own] and not wanted[other] + named[other]:
            raise BadData(
                f"{rules.where}: column {wanted[own][0]!r} is a {DEGREES[own]}; name the {DEGREES[other]}, too."
            )
    types: dict[str, str] = {}
    notes: dict[str, str] = {}
    for up, across in pairs_of(wanted[0] + named[0], wanted[1] + named[1]):
        requested = [name for name in (up, across) if name in wanted[0] + wanted[1]]
        reason = _no_position(values[up], values[across], up, across, bool(requested))
        if reason and requested:
            raise BadData(f"{rules.where}: column {requested[0]!r} cannot be a {rules.types[requested[0]]}: {reason}.")
        if reason:
            notes[up] = f"{up} and {across} are taken as plain numbers: {reason}"
        else:
            types |= {up: DEGREES[0], across: DEGREES[1]}
    return Schema(
        tuple(
            replace(c, type=types[c.name], unit="°") if c.name in types else replace(c, note=notes.get(c.name, c.note))
            for c in schema.columns
        )
    )


def _no_position(latitude: Floats, longitude: Floats, up: str, across: str, requested: bool) -> str:
    """Return why two columns are not degrees of latitude and longitude; "" if they are."""
    if not possible(latitude, longitude):
        swapped = f"; they would be if {up} and {across} were swapped" if possible(longitude, latitude) else ""
        return f"they are not degrees, from −90 to 90 and from −180 to 180{swapped}"
    if not requested and in_radians(latitude, longitude):
        return f"they look like radians; if they are degrees: --types {up}=latitude,{across}=longitude"
    return ""


def _with_logarithms(schema: Schema, rows: MixedTable, rules: Rules) -> tuple[Schema, MixedTable]:
    """Take logarithms of the columns that are named or, with "auto", of those that are skewed."""
    if not rules.log or (rules.log == "mixed" and not schema.categorical and np.isfinite(rows.numeric).all()):
        return schema, rows
    chosen: dict[str, str] = {}
    known = {column.name: j for j, column in enumerate(schema.numeric) if column.type == "number"}
    for name in known if rules.log in LOG_RULES else rules.log:
        if name not in known:
            raise InvalidParameter(f"log: column {name!r} of {rules.where} is no number that is used.")
        log = _logarithm_of(rows.numeric[:, known[name]], name, rules)
        if log:
            chosen[name] = log
    for name, log in chosen.items():
        rows.numeric[:, known[name]] = logarithm(rows.numeric[:, known[name]], log)
    return Schema(tuple(replace(c, log=chosen.get(c.name, "")) for c in schema.columns)), rows


def _logarithm_of(values: Floats, name: str, rules: Rules) -> str:
    """Return which logarithm is taken of a column: log, log(1 + x) where there are zeros, or none."""
    if rules.log in LOG_RULES:
        return logarithm_for(values)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ""
    if finite.min() < 0:
        row = int(np.nanargmin(np.where(np.isfinite(values), values, np.nan)))
        raise BadData(
            f"log: {rules.where}, column {name!r}: row {row + 1} has {values[row]:g}, which has no logarithm."
        )
    return "log" if finite.min() > 0 else "log1p"


def logarithm_for(values: Floats) -> str:
    """Return the logarithm that takes at least half of the skewness of a column that is skewed; "" if there is none."""
    finite = values[np.isfinite(values)]
    if not len(finite) or finite.min() < 0:
        return ""
    deciles = np.quantile(
        finite, [0.1, 0.5, 0.9]
    )  # whatever the order of rows; those of logarithms are their logarithms
    log = "log" if finite.min() > 0 else "log1p"
    usual, logged = _skewness(deciles), _skewness(logarithm(deciles, log))
    return log if usual > _LOG_SKEWNESS and abs(logged) <= 0.5 * usual else ""


def _skewness(deciles: Floats) -> float:
    """Return the skewness of the first, the fifth and the ninth decile, from −1 to 1."""
    low, middle, high = deciles
    return float((high + low - 2 * middle) / (high - low)) if high > low else 0.0
