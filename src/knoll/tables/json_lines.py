"""JSON lines: an object per line, whose keys are the columns."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.json

from knoll.exceptions import BadData
from knoll.tables.input import Input
from knoll.tables.limits import check_unpacked, check_width
from knoll.tables.source import TableSource, in_memory
from knoll.tables.spreadsheet import column_of

__all__ = ["is_json_lines", "open_json_lines"]

_SAMPLE = 1 << 16  # bytes that show whether a line is an object
_BLOCK = 1 << 24  # bytes parsed at a time: more than a line has
_MOST = 1 << 28  # bytes of a file whose columns have several types
_OBJECT = re.compile(rb"\s*\{")


def is_json_lines(data: Input) -> bool:
    """Whether the first line that is not blank is an object, all of it."""
    sample = data.read(_SAMPLE).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not _OBJECT.match(sample):
        return False
    line, _, after = sample.partition(b"\n")
    try:
        whole = isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return len(sample) > _SAMPLE // 2 and not after  # a line longer than the sample
    return whole


def open_json_lines(data: Input) -> TableSource:
    """Read all lines; a column with values of several types becomes text."""
    try:
        options = pyarrow.json.ReadOptions(block_size=_BLOCK)
        table = pyarrow.json.read_json(data.random_access(), read_options=options)
    except pa.ArrowInvalid as error:
        if "changed from" not in str(error):
            raise BadData(f"{data.name}: {_message(str(error))}") from None
        table = _of_objects(data)
    check_width(table.num_columns, data.name)
    return in_memory(table, data.name)


def _message(error: str) -> str:
    return f"a line is no JSON object ({' '.join(error.split())[:120].rstrip('.')}). Fix it."


def _of_objects(data: Input) -> pa.Table:
    """Read line by line in Python."""
    check_unpacked(8 * data.size, None, data.name)
    if data.size > _MOST:
        raise BadData(f"{data.name} has a column with values of several types. Write them in one type.")
    names: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(data.random_access().read().decode("utf-8-sig").splitlines()):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise BadData(f"{data.name}: line {number + 1} is no JSON object. Fix that line.")
            rows.append(row)
            names.update(dict.fromkeys(row))
    return pa.table({name: column_of([row.get(name) for row in rows]) for name in names})
