"""Which type each column of a table has, by its cells.

| type | recognised by |
|---|---|
| number | numbers; text that is a number with a currency, percent sign, separators of thousands or a decimal comma |
| latitude, longitude | two columns of numbers with these names, in the range of degrees |
| date, time | dates and times; text in one of `DATE_FORMATS`, all cells in the same |
| boolean | true and false; two words that mean them; 0 and 1, beside columns of another type |
| category | text with at most 100 levels, on average on two rows or more; whole numbers in a column named as a code |
| left out | identifiers, free text, single values, classes, nearly empty columns, what repeats other columns |

The order of rows does not matter. `knoll.reference.column_type` has the rules in plain Python.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knoll._common.mixed_table import MixedTable
from knoll._format import listed
from knoll._typing import Bools, Floats
from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.cells import (
    BOOLEANS,
    DATE_FORMATS,
    Texts,
    date_pattern,
    loose_dates,
    loose_numbers,
    matches,
    number_formats,
    parse_dates,
    parse_numbers,
    parse_times,
    units_of,
)
from knoll.tables.combined import LOG_RULES, combined
from knoll.tables.conversion import ENCODINGS, is_numbers, is_texts, levels_of, numeric_values, texts_of
from knoll.tables.frames import arrow_table
from knoll.tables.schema import Column, Schema

__all__ = ["Rules", "recognise", "typed", "typed_cells"]

_LEVELS = 100  # of a category that is recognised,
_MOST_LEVELS = 1000  # and of one that is requested
_MOSTLY = 0.9  # of the cells: with so many numbers or dates the others are slips, and are named
_NEARLY_EMPTY = 0.95  # of the cells are missing: the column is left out,
_MANY = 20  # in a table of so many rows
_CODES = (3, 20)  # levels of a column of codes
_SENTINELS = (-99.0, -999.0, -9999.0, -99999.0, -999999.0, 999.0, 9999.0, 99999.0, 999999.0)
_ID = re.compile(
    r"(?i:(.*[_\s.-])?(id|ids|key|uuid|guid|no|nr|num|number|index|row|rowid)|unnamed: ?\d+|)|.*[a-z](Id|ID|Key|Nr|No)"
)
_ROW_NUMBER = re.compile(r"(unnamed: ?\d+|id|index|row|rowid|row_id|no|nr|)", re.IGNORECASE)
_CODE = re.compile(r"(.*[_\s.-])?(code|type|category|cat|group|region|zone|segment|kind|status)", re.IGNORECASE)
_CLASSES = re.compile(r"class|classes|target|targets|label|labels|ground[ _-]?truth|truth|y_true", re.IGNORECASE)
TYPES = ("number", "category", "boolean", "date", "time", "latitude", "longitude", "ignore")


@dataclass(frozen=True)
class Rules:
    """What the user decides about columns.

    Attributes
    ----------
    types : mapping
        Types by column: "number", "category", "boolean", "date", "date:FORMAT" (of `strptime`), "time", "latitude",
        "longitude" (in degrees), "ignore".
    log : sequence of str, "auto" or "mixed"
        Columns whose logarithm is taken; "auto" takes those that are skewed, and are not any more afterwards; "mixed"
        does so in tables with categories or missing values.
    ignore : sequence of str
        Columns that are left out.
    requested : sequence of str or None
        Columns to use, and no others: what looks like an identifier or like classes is used, too.
    decimal : {".", ","}
        The decimal mark of the file.
    excluded : mapping
        Columns that are used only if they are requested, with the reason.
    where : str
        The name of the table, for messages.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    log: Sequence[str] | str = ()
    ignore: Collection[str] = ()
    requested: Sequence[str] | None = None
    decimal: str = "."
    excluded: Mapping[str, str] = field(default_factory=dict)
    where: str = "the table"

    def check(self, names: Sequence[str]) -> None:
        """Refuse names that the table does not have, and types that there are not."""
        logs = () if isinstance(self.log, str) else self.log
        for option, columns in (("types", self.types), ("log", logs), ("ignore", self.ignore)):
            for name in columns:
                if name not in names:
                    raise InvalidParameter(f"{option}: {self.where} has no column {name!r}. It has: {listed(names)}.")
        for name, text in self.types.items():
            if text.partition(":")[0] not in TYPES or (":" in text and not text.startswith("date:%")):
                raise InvalidParameter(
                    f"types: {name!r} cannot be {text!r}. Choose from: {', '.join(TYPES)}; a date may have a format, "
                    "such as date:%d/%m/%Y."
                )
        if isinstance(self.log, str) and self.log not in LOG_RULES:
            raise InvalidParameter(f"log must be names of columns or 'auto', got {self.log!r}.")


def recognise(table: Any, rules: Rules | None = None) -> Schema:
    """Find the type of each column.

    Parameters
    ----------
    table : table
        A pyarrow table, a data frame, or anything with ``__arrow_c_stream__``.
    rules : Rules, optional
        What the user decides.

    Returns
    -------
    Schema
        A column for each of the table's.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from knoll.tables import recognise
    >>> cells = {"share": ["12 %", "7 %", "12 %"], "when": ["24.12.2025", "1.1.2026", "3.2.2026"]}
    >>> [(c.type, c.unit, c.format) for c in recognise(pa.table(cells)).columns]
    [('number', '%', '.'), ('date', 'days since 1970-01-01', '%d.%m.%Y')]
    """
    return typed(table, rules)[0]


def typed(table: Any, rules: Rules | None = None) -> tuple[Schema, MixedTable]:
    """Find the types, and convert the columns that are used."""
    found = arrow_table(table)
    return typed_cells({name: found[name] for name in found.column_names}, found.num_rows, rules)


def typed_cells(cells: dict[str, Any], n: int, rules: Rules | None = None) -> tuple[Schema, MixedTable]:
    """Find the types, and convert the columns that are used; numbers are removed from `cells` as they are converted."""
    rules = Rules() if rules is None else rules
    for name, column in cells.items():
        if pa.types.is_float16(column.type):  # for which Arrow has few functions
            cells[name] = pc.cast(column, pa.float32())
        elif pa.types.is_dictionary(column.type) and column.num_chunks > 1:  # each different text is parsed once
            cells[name] = pa.chunked_array([column.unify_dictionaries().combine_chunks()])
    rules.check(list(cells))
    schema = Schema(tuple(_column(name, column, rules) for name, column in cells.items()))
    if not any(column.used for column in schema.columns):
        schema = _constants_only(schema, cells)
    return combined(schema, schema.taken(cells, n), rules)


def _constants_only(schema: Schema, table: Mapping[str, Any]) -> Schema:
    """Use constant numbers where there is nothing else: the caller knows what to report."""
    constant = [
        Column(column.name, "number") if column.type == "constant" and is_numbers(table[column.name].type) else column
        for column in schema.columns
    ]
    return Schema(tuple(constant))


def _column(name: str, cells: pa.ChunkedArray, rules: Rules) -> Column:
    if name in rules.ignore:
        return Column(name, "ignored", reason="ignored by request")
    if name in rules.types:
        return _as_requested(name, cells, rules.types[name], rules)
    requested = rules.requested is not None
    if rules.requested is not None and name not in rules.requested:
        return Column(name, "ignored", reason="not requested")
    if not requested and name in rules.excluded:
        return Column(name, "other", reason=rules.excluded[name])
    column = _by_content(name, cells, rules, requested)
    if requested and not column.used:
        raise BadData(f"{rules.where}: column {name!r} cannot be used: {column.reason}.")
    return column


def _by_content(name: str, cells: pa.ChunkedArray, rules: Rules, requested: bool) -> Column:
    """Recognise a column that nothing is decided about."""
    dtype = cells.type
    if pa.types.is_nested(dtype):
        return Column(name, "other", reason=f"of type {dtype}")
    if cells.null_count == len(cells):
        return Column(name, "empty", reason="empty")
    stored = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    if pa.types.is_binary(stored) or pa.types.is_large_binary(stored) or pa.types.is_fixed_size_binary(stored):
        return Column(name, "other", reason=ENCODINGS)
    if is_numbers(dtype):
        return _of_numbers(name, cells, requested)
    if pa.types.is_temporal(dtype):
        return _of_times(name, cells, requested)
    if pa.types.is_dictionary(dtype) or pa.types.is_boolean(dtype) or is_texts(dtype):
        try:
            texts = texts_of(cells)
        except BadData as error:
            return Column(name, "other", reason=str(error))
        return _of_texts(name, texts, rules, requested, declared=not is_texts(dtype))
    return Column(name, "other", reason=f"of type {dtype}")


def _classes(name: str, distinct: int, known: int) -> Column | None:
    """Return a column that looks like known classes."""
    if _CLASSES.fullmatch(name.strip()) and 2 <= distinct <= 50 and 2 * distinct <= known:
        reason = (
            f"looks like known classes; use --truth {name} to compare with them, or name it in --types or --columns"
        )
        return Column(name, "label", reason=reason)
    return None


def _nearly_empty(name: str, missing: int, n: int) -> Column | None:
    if n >= _MANY and missing > _NEARLY_EMPTY * n:
        share = min(99.9, round(100 * missing / n, 1))
        return Column(name, "empty", reason=f"{share:g} % of its values are missing; name it in --columns to use it")
    return None


def _constant(name: str, value: Any) -> Column:
    value = value + 0.0 if isinstance(value, float) else value  # −0 is 0
    return Column(name, "constant", reason=f"a single value, {value!r:.40}")


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _of_numbers(name: str, cells: pa.ChunkedArray, requested: bool) -> Column:
    if requested:
        return Column(name, "number", sentinels=_sentinels(cells))
    if (sparse := _nearly_empty(name, cells.null_count, len(cells))) is not None:
        return sparse
    whole = pa.types.is_integer(cells.type)
    named = whole or bool(_CLASSES.fullmatch(name.strip()))
    distinct = pc.count_distinct(cells).as_py() if named and _special(name) else 0
    known = len(cells) - cells.null_count
    if whole and distinct == len(cells) and _ID.fullmatch(name.strip()):
        return _identifier(name, cells)
    if distinct and (label := _classes(name, distinct, known)) is not None:
        return label
    if whole and _CODE.fullmatch(name.strip()) and _CODES[0] <= distinct <= _CODES[1] and 5 * distinct <= known:
        levels = levels_of(texts_of(cells))
        return Column(name, "category", categories=levels, note=f"{name}: {distinct} codes, taken as categories")
    least, most = pc.min_max(cells).as_py().values()
    if least == most and len(cells) > 1:
        return _constant(name, least)
    return Column(name, "number", sentinels=_sentinels(cells, least, most))


def _special(name: str) -> bool:
    return any(pattern.fullmatch(name.strip()) for pattern in (_ID, _CODE, _CLASSES))


def _identifier(name: str, cells: pa.ChunkedArray) -> Column:
    least, most = pc.min_max(cells).as_py().values()
    if _ROW_NUMBER.fullmatch(name.strip()) and most - least == len(cells) - 1:
        return Column(name, "id", reason="apparently a row number; name it in --columns to use it")
    return Column(name, "id", reason="an identifier, different in every row; name it in --columns to use it")


def _sentinels(cells: pa.ChunkedArray, least: Any = None, most: Any = None) -> tuple[str, ...]:
    """Return numbers such as -999 that are far from all others; the least and the largest may be known."""
    if least is None:
        least, most = pc.min_max(cells).as_py().values()
    if not {float(least), float(most)} & set(_SENTINELS):
        return ()
    return _far_nines(numeric_values(Column("", "number"), cells))


def _far_nines(values: Floats) -> tuple[str, ...]:
    """Return the sentinels among numbers, each on two rows at least.

    One below 0 is the only number below 0; one above is twice as far from the others as these are apart.
    """
    values = values[np.isfinite(values)]
    others = values[~np.isin(values, _SENTINELS)]
    if len(others) < 2:
        return ()
    low, high = float(others.min()), float(others.max())
    found = [x for x in _SENTINELS if (low >= 0 if x < 0 else x - high > 2 * (high - low))]
    return tuple(str(int(x)) for x in found if (values == x).sum() >= 2)


# ---- dates -----------------------------------------------------------------------------------------------------------

_DAYS = "days since 1970-01-01"


def _of_times(name: str, cells: pa.ChunkedArray, requested: bool) -> Column:
    if not requested and (sparse := _nearly_empty(name, cells.null_count, len(cells))) is not None:
        return sparse
    least, most = pc.min_max(cells.cast(_countable(cells.type))).as_py().values()
    if least == most and len(cells) > 1:
        return _constant(name, str(cells.drop_null()[0].as_py()))
    if pa.types.is_time(cells.type):
        return Column(name, "time", unit="hours")
    return Column(name, "date", unit="days" if pa.types.is_duration(cells.type) else _DAYS, format="iso")


def _countable(dtype: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(dtype) or pa.types.is_time32(dtype) else pa.int64()


def _date_formats(values: pa.Array) -> list[tuple[str, Bools]]:
    """Return the formats that some of the texts have, and which texts; equal ones in two orders are both there."""
    found = []
    for form in DATE_FORMATS:
        which = matches(values, date_pattern(form))
        if which.any() and np.isfinite(parse_dates(values.filter(pa.array(which)), form)).any():
            found.append((form, np.isfinite(parse_dates(values, form))))
    return found


def _swapped(form: str) -> str:
    return form.replace("%d", "%_").replace("%m", "%d").replace("%_", "%m")


def _of_dates(name: str, texts: Texts) -> Column | None:
    """Recognise dates: one format for all cells; the reason where there are several."""
    loose = loose_dates(texts.values)
    if texts.share(loose) < _MOSTLY:
        return None
    formats = _date_formats(texts.values)
    whole = [form for form, which in formats if which.all()]
    if whole:
        note = ""
        if len(whole) > 1 and whole[1] == _swapped(whole[0]):
            note = (
                f"{name}: read as {_order(whole[0])}; {_order(whole[1])} is possible, too: "
                f"--types {name}=date:{whole[1]}"
            )
        return Column(name, "date", format=whole[0], unit=_DAYS, note=note)
    covered = np.any([which for _, which in formats], axis=0) if formats else np.zeros(len(texts.values), bool)
    if texts.share(covered) < _MOSTLY or (_is_category(texts) and not covered.all()):
        return None
    if covered.all():
        return Column(name, "mixed", reason=f"dates in several formats: {_examples(texts, formats)}; write them in one")
    share = _share(texts.share(covered))
    return Column(name, "mixed", reason=f"text, though {share} of its cells are dates: {texts.example(~covered)}")


def _order(form: str) -> str:
    names = {"%d": "day", "%m": "month", "%Y": "year", "%y": "year"}
    return "/".join(names[token] for token in re.findall(r"%[dmYy]", form))


def _examples(texts: Texts, formats: list[tuple[str, Bools]]) -> str:
    """Return a cell of each format, each cell once."""
    shown: list[str] = []
    taken = np.zeros(len(texts.values), dtype=bool)
    for _, which in formats:
        if (which & ~taken).any():
            shown.append(texts.example(which & ~taken))
        taken |= which
    return ", ".join(shown[:3])


def _share(share: float) -> str:
    return f"{min(99, int(100 * share))}%"


# ---- text ------------------------------------------------------------------------------------------------------------


def _of_texts(name: str, texts: Texts, rules: Rules, requested: bool, declared: bool) -> Column:
    """Recognise a column of text; `declared` is one that a library calls a category or Boolean."""
    n, known, distinct = len(texts.index), texts.known, len(texts.values)
    if known == 0:
        return Column(name, "empty", reason="empty")
    if not requested and (sparse := _nearly_empty(name, n - known, n)) is not None:
        return sparse
    if distinct == 1 and n > 1:
        return _constant(name, texts.values[0].as_py())
    if not requested and (label := _classes(name, distinct, known)) is not None:
        return label
    levels = _boolean_levels(texts) if distinct <= 8 else None
    if levels is not None:
        return Column(name, "boolean", categories=levels, sentinels=texts.sentinels)
    if not declared and (column := _of_written(name, texts, rules.decimal)) is not None:
        return replace(column, sentinels=(*texts.sentinels, *column.sentinels)) if column.used else column
    if _is_category(texts) or (declared and distinct <= _MOST_LEVELS):
        return Column(name, "category", categories=levels_of(texts), sentinels=texts.sentinels)
    return _other_text(name, texts)


def _of_written(name: str, texts: Texts, decimal: str) -> Column | None:
    """Recognise numbers, dates and times; among few texts, such as "1", "2" and "3+", slips make a category."""
    amount = _of_amounts(name, texts, decimal)
    if amount is not None and amount.type != "mixed":
        return amount
    other = _of_dates(name, texts) or _of_clocks(name, texts)
    return other if other is not None or _is_category(texts) else amount


def _is_category(texts: Texts) -> bool:
    return len(texts.values) <= _LEVELS and 2 * len(texts.values) <= texts.known


def _boolean_levels(texts: Texts) -> tuple[str, ...] | None:
    values = {text.lower() for text in texts.values.to_pylist()}
    return next((pair for pair in BOOLEANS if values == set(pair)), None)


def _of_amounts(name: str, texts: Texts, decimal: str) -> Column | None:
    """Recognise numbers that are written with signs and separators; the reason where some cells are none."""
    loose = loose_numbers(texts.values)
    if texts.share(loose) < 1 - _MOSTLY:
        return None
    forms = number_formats(texts.values, decimal) if loose.all() else []
    if forms:
        return _amount(name, texts, forms)
    numbers = np.isfinite(_best_parse(texts.values, decimal))
    share = texts.share(numbers)
    if share < _MOSTLY:
        return _mixture(name, texts, numbers) if share >= 1 - _MOSTLY else None
    remedy = f"--types {name}=number takes such cells as missing"
    reason = f"text, though {_share(share)} of its cells are numbers: {texts.example(~numbers)}; {remedy}"
    return Column(name, "mixed", reason=reason)


def _mixture(name: str, texts: Texts, numbers: Bools) -> Column:
    """Return a column in which many, but not most, of the cells are numbers."""
    share = _share(texts.share(numbers))
    examples = f"{texts.example(numbers)}, {texts.example(~numbers)}"
    return Column(name, "mixed", reason=f"text and numbers mixed ({share} numbers: {examples})")


def _amount(name: str, texts: Texts, forms: list[str]) -> Column:
    units = units_of(texts.values, forms[0])
    if len(units) > 1:
        return Column(name, "other", reason=f"amounts in several units: {', '.join(units[:5])}; convert them to one")
    note, form = "", forms[0]
    if form[1:] and any(other == form[1:] for other in forms):  # 43,042 may be 43042 or 43.042
        cell = texts.values.filter(pa.array(matches(texts.values, re.escape(form[1:]))))[0].as_py()
        note = f"{name}: {cell!r} is read as {parse_numbers(pa.array([cell], pa.large_string()), form)[0]:.15g}"
    values = parse_numbers(texts.values, form)
    if len(np.unique(values)) == 1:
        return _constant(name, texts.values[0].as_py())
    far = _far_nines(texts.per_row(values))
    return Column(name, "number", format=form or ".", unit=units[0] if units else "", sentinels=far, note=note)


def _best_parse(values: pa.Array, decimal: str) -> Floats:
    """Return the numbers in the format that most texts have."""
    forms = ("", ".,", ",", ",.") if decimal == "." else (",", ",.", "", ".,")
    return max((parse_numbers(values, form) for form in forms), key=lambda found: int(np.isfinite(found).sum()))


def _of_clocks(name: str, texts: Texts) -> Column | None:
    return Column(name, "time", unit="hours") if bool(np.isfinite(parse_times(texts.values)).all()) else None


def _other_text(name: str, texts: Texts) -> Column:
    """Return why a text with many values is not used."""
    distinct, known = len(texts.values), texts.known
    lengths = pc.utf8_length(texts.values).to_numpy(zero_copy_only=False)
    sentences = matches(texts.values, r"\S+\s+\S+\s+\S+\s+\S+")
    if sentences.mean() > 0.5 or lengths.mean() > 60:
        return Column(name, "text", reason="free text")
    if distinct == known:
        return Column(name, "id", reason="an identifier, a different text in every row")
    reason = f"text with {distinct} different values; --types {name}=category takes up to {_MOST_LEVELS}"
    return Column(name, "text", reason=reason)


# ---- requested types -------------------------------------------------------------------------------------------------


def _as_requested(name: str, cells: pa.ChunkedArray, text: str, rules: Rules) -> Column:
    """Return the column as the user wants it, or raise an error with the reason."""
    chosen, _, form = text.partition(":")
    if chosen == "ignore":
        return Column(name, "ignored", reason="ignored by request")
    if pa.types.is_nested(cells.type):
        raise BadData(f"{rules.where}: column {name!r} cannot be a {chosen}: it is of type {cells.type}.")
    if cells.null_count == len(cells):
        raise BadData(f"{rules.where}: column {name!r} cannot be a {chosen}: it is empty.")
    makers = {"category": _category, "boolean": _boolean, "date": _date, "time": _date}
    made = makers.get(chosen, _number)  # degrees become a position when all columns are known
    try:
        return made(name, cells, form or chosen, rules)
    except (_Refusal, BadData) as refusal:
        raise BadData(f"{rules.where}: column {name!r} cannot be a {chosen}: {str(refusal).rstrip('.')}.") from None


class _Refusal(Exception):
    """Why a column cannot have a type."""


def _category(name: str, cells: pa.ChunkedArray, form: str, rules: Rules) -> Column:
    texts = texts_of(cells)
    if not 1 <= len(texts.values) <= _MOST_LEVELS:
        raise _Refusal(f"it has {len(texts.values)} levels, {_MOST_LEVELS} at most. Join rare ones, or leave it out")
    return Column(name, "category", categories=levels_of(texts), sentinels=texts.sentinels)


def _boolean(name: str, cells: pa.ChunkedArray, form: str, rules: Rules) -> Column:
    texts = texts_of(cells)
    levels = _boolean_levels(texts) or levels_of(texts)
    if len(levels) != 2:
        raise _Refusal(f"it has {len(levels)} values ({listed(levels, 4)}), not 2")
    return Column(name, "boolean", categories=levels, sentinels=texts.sentinels)


def _number(name: str, cells: pa.ChunkedArray, form: str, rules: Rules) -> Column:
    """Take a column as numbers; words among them become sentinels."""
    if pa.types.is_temporal(cells.type):
        raise _Refusal("it has dates. Take it as a date")
    if not is_texts(cells.type):
        if is_numbers(cells.type) or pa.types.is_boolean(cells.type):
            return Column(name, "number", sentinels=_sentinels(cells) if is_numbers(cells.type) else ())
        raise _Refusal(f"it is of type {cells.type}")
    texts = texts_of(cells)
    forms = ("", ".,", ",", ",.", ". ", ", ", ".'", ",'") if rules.decimal == "." else (",", ",.", "", ".,")
    parsed = {each: np.isfinite(parse_numbers(texts.values, each)) for each in forms}
    best = max(forms, key=lambda each: int(texts.counts[parsed[each]].sum()))
    slips = ~parsed[best]
    if texts.share(slips) > 0.5:
        raise _Refusal(f"{texts.example(slips)}, and so do most cells")
    if slips.sum() > 100:
        raise _Refusal(f"{int(slips.sum())} different cells are no numbers; {texts.example(slips)}")
    sentinels = tuple(sorted({*texts.sentinels, *texts.values.filter(pa.array(slips)).to_pylist()}))
    count = int(texts.counts[slips].sum())
    note = f"{name}: {count} cells are no numbers and count as missing; {texts.example(slips)}" if count else ""
    return Column(name, "number", format=best or ".", sentinels=sentinels, note=note)


def _date(name: str, cells: pa.ChunkedArray, form: str, rules: Rules) -> Column:
    """Take a column as dates or times of day, in the format that is given or found."""
    if pa.types.is_temporal(cells.type):
        return _of_times(name, cells, requested=True)
    texts = texts_of(cells)
    if form == "time":
        wrong = np.isnan(parse_times(texts.values))
        found: Column | None = Column(name, "time", unit="hours")
    elif form == "date":
        found, wrong = _of_dates(name, texts), ~loose_dates(texts.values)
        if found is not None and not found.used:
            raise _Refusal(found.reason)
        wrong = wrong if found is None else np.zeros(len(wrong), dtype=bool)
    else:
        wrong = np.isnan(parse_dates(texts.values, form))
        found = Column(name, "date", format=form, unit=_DAYS)
    if found is None or wrong.any():
        raise _Refusal(texts.example(wrong if wrong.any() else ~wrong))
    return replace(found, sentinels=texts.sentinels)
