"""Parquet and Arrow files of anybody's: how much they unpack to is found out before anything is unpacked.

Arrow (the second version of Feather) writes before each packed buffer how long it is unpacked, and no reader lets it
grow longer: those numbers are added up. Parquet tells the rows; texts stay in the dictionary that they are kept in, and
columns within columns, of which a row may have any number of values, are not read. An Arrow file is read from front to
back, never by the places that its footer names, so that what was added up is what is read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from knoll.exceptions import BadData
from knoll.tables.dialect import refuse_wide

__all__ = ["arrow_reader", "parquet_file", "parquet_table", "refuse_twins"]

_NUMBER = 8  # bytes of a number that a cell becomes
_HEADERS = 3, 2  # of a message: rows, a dictionary  (Arrow's Message.fbs)

Refuse = Callable[[int], None]  # hears how many bytes there would be


def parquet_file(source: Any, name: str, refuse: Refuse | None) -> pyarrow.parquet.ParquetFile:
    """Open a Parquet file; where all of it will be read, hold what it claims to have against `refuse`."""
    first = pyarrow.parquet.ParquetFile(source)
    facts, schema = first.metadata, first.schema_arrow
    refuse_wide(facts.num_columns, name)
    refuse_twins(schema, name)
    if refuse is not None:
        groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
        refuse(_NUMBER * max(facts.num_rows, sum(group.num_rows for group in groups)) * facts.num_columns)
        refuse(sum(group.total_byte_size for group in groups))
    text = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    return pyarrow.parquet.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20, read_dictionary=text)


def parquet_table(data: pa.Buffer, name: str, refuse: Refuse) -> pa.Table:
    """Read a Parquet file, columns within columns left empty."""
    file = parquet_file(pa.BufferReader(data), name, refuse)
    schema = file.schema_arrow
    flat = file.read(columns=[field.name for field in schema if not pa.types.is_nested(field.type)])
    rows = file.metadata.num_rows
    if flat.num_columns and flat.num_rows != rows:
        raise ValueError(f"it claims {rows} rows and has {flat.num_rows}")
    columns = [pa.nulls(rows, each.type) if pa.types.is_nested(each.type) else flat[each.name] for each in schema]
    return pa.table(columns, names=schema.names)


def arrow_reader(source: Any, name: str, refuse: Refuse, *, whole: bool) -> pa.RecordBatchReader:
    """Open an Arrow file whose batches, all together or each by itself, unpack to what `refuse` lets pass."""
    total = 0
    for rows, fields, size in _batches(pa.ipc.MessageReader.open_stream(_after_magic(source))):
        here = max(size, _NUMBER * rows * fields)
        total = total + here if whole else here
        refuse(total)
    reader = pa.ipc.open_stream(_after_magic(source))
    refuse_wide(len(reader.schema), name)
    refuse_twins(reader.schema, name)
    return reader


def refuse_twins(schema: pa.Schema, name: str) -> None:
    """Refuse a table in which a name does not tell which column is meant."""
    for column in schema.names:
        if schema.names.count(column) > 1:
            raise BadData(f"{name} has two columns named {column!r}. Give each a name of its own.")


def _after_magic(source: Any) -> Any:
    source.seek(8)  # "ARROW1" and two zeros; a stream of messages follows, and ends before the footer
    return source


def _batches(messages: pa.ipc.MessageReader) -> Iterator[tuple[int, int, int]]:
    """Yield rows, columns and unpacked bytes of each message that has any."""
    try:
        for message in messages:
            root = _Record(message.metadata.to_pybytes())
            body = message.body
            if root.byte(1) in _HEADERS and body is not None:
                batch = root.record(2) if root.byte(1) == _HEADERS[0] else root.record(2).record(1)
                packed = batch.has(3)
                sizes = [_unpacked(body, offset, length, packed) for offset, length in batch.pairs(2)]
                yield batch.long(0), len(batch.pairs(1)), sum(sizes)
    except (struct.error, IndexError) as error:
        raise ValueError(f"its table of buffers makes no sense ({error})") from None


def _unpacked(body: pa.Buffer, offset: int, length: int, packed: bool) -> int:
    """Return how long a buffer is: a packed one says so first, −1 where it was not worth packing."""
    if not packed or length < 8:
        return length
    (size,) = struct.unpack("<q", body[offset : offset + 8].to_pybytes())
    return length if size < 0 else int(size)


class _Record:
    """A table of FlatBuffers, just as much as is needed to read numbers by their place."""

    def __init__(self, data: bytes, at: int | None = None) -> None:
        self._data = data
        self._at: int = self._read("<I", 0) if at is None else at
        self._fields = self._at - self._read("<i", self._at)

    def _read(self, form: str, at: int) -> Any:
        if at < 0:
            raise IndexError(at)
        return struct.unpack_from(form, self._data, at)[0]

    def _place(self, field: int) -> int:
        """Return where a field lies, 0 where it is not there."""
        if 4 + 2 * field >= self._read("<H", self._fields):
            return 0
        offset = self._read("<H", self._fields + 4 + 2 * field)
        return self._at + offset if offset else 0

    def has(self, field: int) -> bool:
        return self._place(field) > 0

    def byte(self, field: int) -> int:
        return int(self._read("<B", place)) if (place := self._place(field)) else 0

    def long(self, field: int) -> int:
        return int(self._read("<q", place)) if (place := self._place(field)) else 0

    def record(self, field: int) -> _Record:
        place = self._place(field)
        return _Record(self._data, place + self._read("<I", place))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a row of structures of two numbers."""
        if not (place := self._place(field)):
            return []
        start = place + self._read("<I", place)
        count = self._read("<I", start)
        return [struct.unpack_from("<qq", self._data, start + 4 + 16 * i) for i in range(count)]
