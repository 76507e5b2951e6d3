"""Columns of a table: which of them are numbers, why the others are not used, and the numbers as an array."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from knoll.exceptions import BadData
from knoll.tables.dialect import NULL_VALUES, NUMBER
from knoll.tables.limits import check_unpacked

__all__ = [
    "array_column",
    "as_written",
    "check_distinct",
    "decoded",
    "matrix",
    "reason_unused",
    "write_numbers",
]

_CELLS = 1 << 17  # numbers converted at a time
_CHUNKS = 64  # after which freed memory goes back to the system
_ROW_NUMBER = re.compile(r"(unnamed: ?\d+|id|index|row|rowid|row_id|no|nr|)", re.IGNORECASE)
_MOSTLY = 0.9  # of a text column's cells: with so many numbers the others are slips, and are named


def reason_unused(name: str, column: pa.ChunkedArray, *, requested: bool) -> str | None:
    """Return why a column is not used, or None if it is."""
    dtype = column.type
    if pa.types.is_nested(dtype):
        return f"of type {dtype}"
    if column.null_count == len(column):
        return "empty"
    if pa.types.is_boolean(dtype):
        return "true or false, not a number; write it as 0 and 1 to use it"
    if pa.types.is_temporal(dtype):
        return "a date or time"
    if pa.types.is_dictionary(dtype) and not pa.types.is_binary(dtype.value_type):
        return _text_reason(column) if _is_text(dtype.value_type) else "a category, not a number"
    if not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype)):
        if pa.types.is_binary(dtype) or pa.types.is_dictionary(dtype):
            return "text in more than one encoding; save the file as UTF-8 to use it"
        return _text_reason(column) if _is_text(dtype) else f"of type {dtype}"
    if not requested and _ROW_NUMBER.fullmatch(name.strip()) and pa.types.is_integer(dtype) and _counts_rows(column):
        return "apparently a row number; name it in --columns to use it"
    return None


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def _text_reason(column: pa.ChunkedArray) -> str:
    slips = pa.chunked_array([_not_numbers(chunk) for chunk in column.chunks], pa.bool_())
    share = 1 - (pc.sum(slips).as_py() or 0) / max(len(slips) - slips.null_count, 1)
    if share < _MOSTLY:
        return "text"
    row = pc.index(pc.fill_null(slips, False), True).as_py()
    return f"text, though {share:.0%} of its cells are numbers: row {row + 1} has {column[row].as_py()!r:.60}"


def _not_numbers(chunk: pa.Array) -> pa.Array:
    """Return which cells are no numbers, null where one is missing; of a dictionary each text is matched once."""
    if isinstance(chunk, pa.DictionaryArray):
        return _not_numbers(chunk.dictionary).take(chunk.indices)
    return pc.invert(pc.match_substring_regex(_with_nulls(chunk), f"^\\s*{NUMBER.pattern}\\s*$"))


def _with_nulls(column: Any) -> Any:
    """Return text with null for what stands for a missing value."""
    missing = pc.is_in(column, value_set=pa.array(NULL_VALUES, column.type))
    return pc.if_else(missing, pa.scalar(None, column.type), column)


def _counts_rows(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return False
    steps = np.diff(column.to_numpy())
    return bool(len(steps) == 0 or (steps == 1).all())


def matrix(table: pa.Table, columns: Sequence[str]) -> NDArray[np.float64]:
    """Return columns as one array, NaN where a value is missing; besides it and the table only a piece is in memory."""
    X = np.empty((table.num_rows, len(columns)))
    row = 0
    for batch in table.select(columns).to_batches(max_chunksize=max(1, _CELLS // max(1, len(columns)))):
        for j, chunk in enumerate(batch.columns):  # the rows of X stay in the cache while all columns are written
            X[row : row + len(chunk), j] = _numbers(chunk)
        row += batch.num_rows
    return X


def write_numbers(columns: Sequence[tuple[list[pa.Array | None], NDArray[np.float64]]]) -> None:
    """Write chunks of columns into arrays, NaN where a value is missing; a chunk is freed when it is written.

    First the first chunks of all columns: they were read together, and lie together in memory.
    """
    rows = [0] * len(columns)
    for k in range(max((len(chunks) for chunks, _ in columns), default=0)):
        for j, (chunks, out) in enumerate(columns):
            if k < len(chunks):
                values = _numbers(chunks[k])
                out[rows[j] : rows[j] + len(values)] = values
                rows[j] += len(values)
                chunks[k] = None
        if k % _CHUNKS == 0:
            pa.default_memory_pool().release_unused()


def _numbers(column: pa.Array) -> NDArray[np.float64]:
    if column.null_count == len(column):  # of any type
        return np.full(len(column), np.nan)
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


# ---- ids and classes -------------------------------------------------------------------------------------------------


def as_written(column: pa.ChunkedArray, null_values: bool) -> pa.ChunkedArray:
    """Return text as numbers if it is written so: 7 and 7.5 are numbers, 007 and 7.0 stay text."""
    if null_values:
        column = _with_nulls(column)
    for dtype in (pa.int64(), pa.float64()):
        with contextlib.suppress(pa.ArrowInvalid):
            found = pc.cast(column, dtype)
            if pc.all(pc.equal(pc.cast(found, pa.string()), column)).as_py() in (None, True):
                return found
    return column


def decoded(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Write out the values of a dictionary, if there is memory for them."""
    if not pa.types.is_dictionary(column.type):
        return column
    if _is_text(column.type.value_type):
        lengths = [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
        check_unpacked(sum(pc.sum(pc.cast(each, pa.int64())).as_py() or 0 for each in lengths), None, name)
    return column.cast(column.type.value_type)


# ---- columns of other libraries --------------------------------------------------------------------------------------


def array_column(values: NDArray[Any], name: str) -> pa.Array:
    """Convert a NumPy column to Arrow, in this machine's order of bytes."""
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    try:
        return pa.array(native)
    except (pa.ArrowException, TypeError, ValueError):
        raise BadData(f"{name} contains values of dtype {values.dtype}; a table must have real numbers.") from None


def check_distinct(names: Sequence[str], name: str) -> None:
    """Refuse a table in which a name is not unique."""
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise BadData(f"{name} has two columns named {column!r}. Rename one of them.")
        seen.add(column)
