"""A column of a known type becomes numbers or codes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from knoll._typing import Floats, Labels
from knoll.exceptions import BadData
from knoll.tables.cells import BOOLEANS, TRUTH, Texts, is_text, parse_dates, parse_numbers, parse_times
from knoll.tables.columns import matrix

if TYPE_CHECKING:
    from knoll.tables.schema import Column

__all__ = [
    "ENCODINGS",
    "category_codes",
    "check_encoding",
    "is_numbers",
    "is_texts",
    "levels_of",
    "logarithm",
    "numeric_values",
    "temporal_values",
    "texts_of",
]


ENCODINGS = "text in more than one encoding; save the file as UTF-8 to use it"


def is_texts(dtype: pa.DataType) -> bool:
    """Whether a column has text, in a dictionary or not."""
    return is_text(dtype.value_type) if pa.types.is_dictionary(dtype) else is_text(dtype)


def is_numbers(dtype: pa.DataType) -> bool:
    """Whether a column has numbers."""
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype))


def numeric_values(column: Column, cells: pa.ChunkedArray) -> Floats:
    """Return a column of type number, date or time, NaN where a value is missing."""
    if cells.null_count == len(cells):
        return np.full(len(cells), np.nan)
    values = _of_texts(column, cells) if is_texts(cells.type) else _of_values(column, cells)
    return logarithm(values, column.log) if column.log else values


def logarithm(values: Floats, log: str) -> Floats:
    """Return logarithms; a number that has none counts as missing."""
    least = 0.0 if log == "log" else -1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        out: Floats = (np.log if log == "log" else np.log1p)(np.where(values > least, values, np.nan))
    return out


def _of_texts(column: Column, cells: pa.ChunkedArray) -> Floats:
    check_encoding(cells)
    texts = Texts.of(cells, column.sentinels)
    if column.type == "date":
        parsed = parse_dates(texts.values, column.format or "iso")
    elif column.type == "time":
        parsed = parse_times(texts.values)
    else:
        parsed = parse_numbers(texts.values, column.format)
        for sentinel in _numbers(column.sentinels):
            parsed[parsed == sentinel] = np.inf  # NaN marks what could not be read
    wrong = np.isnan(parsed)
    if wrong.any():
        written = f" as {column.format}" if column.type == "date" and column.format != "iso" else ""
        raise BadData(f"column {column.name!r} is a {column.type}{written}, but {texts.example(wrong)}. Fix that cell.")
    return texts.per_row(np.where(np.isinf(parsed), np.nan, parsed) if column.sentinels else parsed)


def _of_values(column: Column, cells: pa.ChunkedArray) -> Floats:
    dtype = cells.type
    if pa.types.is_temporal(dtype):
        if column.type == "number" and not pa.types.is_duration(dtype):
            raise BadData(f"column {column.name!r} is a number, but the table has dates in it.")
        return temporal_values(cells)
    if not (is_numbers(dtype) or pa.types.is_boolean(dtype)) or column.type != "number":
        raise BadData(f"column {column.name!r} is a {column.type}, but the table has values of type {dtype} in it.")
    values = matrix(pa.table({"x": cells}), ["x"])[:, 0]
    for sentinel in _numbers(column.sentinels):
        values[values == sentinel] = np.nan
    return values


def _numbers(sentinels: tuple[str, ...]) -> list[float]:
    """Return the sentinels that are numbers."""
    found = []
    for text in sentinels:
        try:
            found.append(float(text))
        except ValueError:
            continue
    return found


def temporal_values(cells: pa.ChunkedArray) -> Floats:
    """Return dates as days since 1970-01-01, times of day as hours, durations as days."""
    dtype = cells.type
    if pa.types.is_date(dtype):
        days = cells.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
        return np.array(days.to_numpy(), dtype=np.float64)
    unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[dtype.unit]
    whole = cells.cast(pa.int32() if pa.types.is_time32(dtype) else pa.int64())
    counts = np.array(pc.cast(whole, pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return counts / unit / (3600 if pa.types.is_time(dtype) else 86400)


# ---- categories ------------------------------------------------------------------------------------------------------


def texts_of(cells: pa.ChunkedArray, sentinels: tuple[str, ...] = ()) -> Texts:
    """Return the values of any column as texts: 3 and 3.0 are "3", true is "true"."""
    check_encoding(cells)
    dtype = cells.type
    if pa.types.is_dictionary(dtype) and not is_texts(dtype):
        cells, dtype = cells.cast(dtype.value_type), dtype.value_type
    if pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        cells = pc.cast(cells, pa.float64(), safe=False)
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, pa.float64()), cells)
        whole = pc.equal(cells, pc.floor(cells))
        if pc.all(whole).as_py() in (None, True) and (pc.max(pc.abs(cells)).as_py() or 0) < 2**53:
            cells = pc.cast(cells, pa.int64(), safe=False)
    if pa.types.is_boolean(dtype):
        cells = pc.if_else(cells, "true", "false")
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        raise BadData("it has bytes, not text")
    return Texts.of(cells if is_texts(cells.type) else cells.cast(pa.string()), sentinels)


def check_encoding(cells: pa.ChunkedArray) -> None:
    """Refuse text that is not UTF-8, on which no function of Arrow could be called."""
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        raise BadData(ENCODINGS) from None


def levels_of(texts: Texts) -> tuple[str, ...]:
    """Return the different texts, sorted; whole numbers by size."""
    found = set(texts.values.to_pylist())
    if all(re.fullmatch(r"-?\d{1,18}", text, re.ASCII) for text in found):
        return tuple(sorted(found, key=lambda text: (int(text), text)))
    return tuple(sorted(found))


def category_codes(column: Column, cells: pa.ChunkedArray) -> Labels:
    """Return which level each row has, −1 for none of them."""
    if cells.null_count == len(cells):
        return np.full(len(cells), -1, dtype=np.int32)
    texts = texts_of(cells, column.sentinels)
    fold = column.type == "boolean"
    if fold and column.categories in BOOLEANS:
        return _codes_of(texts, TRUTH, fold)  # a table may write yes and no as true and false
    known = {level.lower() if fold else level: code for code, level in enumerate(column.categories)}
    return _codes_of(texts, known, fold)


def _codes_of(texts: Texts, known: dict[str, int], fold: bool) -> NDArray[np.int32]:
    """Return the codes; 3.0 is the level 3 where there is no level 3.0."""
    folded = [text.lower() if fold else text for text in texts.values.to_pylist()]
    codes = [known.get(text, known.get(re.sub(r"^(-?\d+)\.0+$", r"\1", text), -1)) for text in folded]
    return np.array([*codes, -1], dtype=np.int32)[texts.index]  # a missing value takes the last entry
