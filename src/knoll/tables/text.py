"""A table larger than memory, piece by piece: the same files as `_table` reads, but only the columns that are wanted.

CSV (plain, .gz, .zst, from standard input), Parquet, Arrow and NPY come in pieces of some megabytes. What cannot be
read in pieces (NPZ, binary formats from a pipe) is read whole.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from knoll.exceptions import BadData
from knoll.tables import columns as tables
from knoll.tables.binary import arrow_reader, parquet_file
from knoll.tables.dialect import Dialect

__all__ = ["Piece", "Stream", "open_stream"]

_LOOK = 1 << 16  # bytes of a text that its dialect is guessed from; more where a line is longer,
_LONGEST = 1 << 26  # but no more than this
_TEXT = 1 << 20  # bytes of a text at a time; pyarrow reads some thirty such blocks ahead
_CUTS = 100  # lines that a quoted cell may have
_ROWS = 1 << 16
_CELLS = 1 << 22  # at most so many numbers at a time
_CODECS = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))


@dataclass(frozen=True)
class Piece:
    """Some rows, one after the other."""

    first: int  # the row of the file, from 0, that they begin with
    X: NDArray[np.float64]  # (m, d), NaN where a number is missing
    ids: pa.Array | pa.ChunkedArray | None


@dataclass(frozen=True)
class Stream:
    """A table that is about to be read.

    Attributes
    ----------
    name : str
        Where it comes from, for people.
    look : pyarrow.Table
        Its first rows, with all columns.
    pieces : callable
        Given the names of columns, which must be numbers, and one that may be anything, or None, yields tables.
    notes : tuple of str
        What the user should know about the way it is read.
    """

    name: str
    look: pa.Table
    pieces: Callable[[Sequence[str], str | None], Iterator[pa.Table]]
    notes: tuple[str, ...] = ()

    def numeric(self) -> list[str]:
        """Return the columns that `read_table` would take, by the look of the first rows."""
        names: list[str] = self.look.column_names
        return [name for name in names if tables._unusable(name, self.look[name], asked=False) is None]

    def read(self, columns: Sequence[str], ids: str | None = None) -> Iterator[Piece]:
        """Yield the rows of these columns, in this order, with what names each row."""
        names: list[str] = self.look.column_names
        for wanted in (*columns, ids):
            if wanted is not None and wanted not in names:
                raise tables.no_column(self.name, wanted, names, self.notes)
        row = 0
        for table in self.pieces(columns, ids):
            for column in columns:
                reason = tables._unusable(column, table[column], asked=True)
                if reason is not None and reason != "empty":
                    raise BadData(f"{self.name}: column {column!r} cannot be used: {reason}.")
            X = np.column_stack([_numbers(table[column]) for column in columns])
            yield Piece(row, X, None if ids is None else tables.unfolded(table[ids], self.name))
            row += len(X)
        if row == 0:
            raise BadData(f"{self.name} has no rows.")


@contextlib.contextmanager
def open_stream(source: str, header: bool | None = None, known: Sequence[str] = ()) -> Iterator[Stream]:
    """Open a file ("-" is standard input, a name may be that of a data set) to be read in pieces.

    `header` and `known` tell what the first line of a text may be, as for `Dialect.of`.
    """
    name = "standard input" if source == "-" else source
    if source != "-" and not Path(source).exists():
        yield _embedded(source)
        return
    with tables.opened(source, name) as file:
        try:
            stream = _opened(file, source, name, partial(_text, header=header, known=known))
        except OSError as error:
            raise tables.unreadable(error, name) from None
        yield stream


def _opened(file: Any, source: str, name: str, text: Callable[[Any, Any, str], Stream]) -> Stream:
    """Find out what the file is, by its first bytes."""
    start = file.read(8)
    whole: Any = _Rest(start, file)
    if codec := next((codec for magic, codec in _CODECS if start.startswith(magic)), None):
        unpacked = pa.CompressedInputStream(pa.PythonFile(whole, mode="r"), codec)
        start = _unpacked(unpacked, 8, name, codec)
        whole = _Rest(start, _Unpacker(unpacked, name, codec))
    plain = file if not codec and source != "-" and Path(source).is_file() else None
    if start.startswith((b"PAR1", b"ARROW1", b"PK", b"\x93NUMPY")):
        return _binary(start, plain, whole, name)
    return text(whole, plain, name)


def _embedded(source: str) -> Stream:
    from knoll import datasets

    if source not in datasets.names():
        raise BadData(f"There is no file {source}.")
    data = datasets.load(source)
    return _in_memory(pa.table(dict(zip(data.feature_names, data.X.T.copy()))), source)


def _in_memory(table: pa.Table, name: str) -> Stream:
    return Stream(name, table, lambda columns, ids: iter(_cut(table, columns)), tables.notes_of(table))


def _cut(table: pa.Table, columns: Sequence[str]) -> Iterator[pa.Table]:
    rows = _rows(len(columns))
    for begin in range(0, table.num_rows, rows):
        yield table.slice(begin, rows)


def _rows(d: int) -> int:
    return max(1, min(_ROWS, _CELLS // max(d, 1)))


# ---- binary formats --------------------------------------------------------------------------------------------------


def _binary(start: bytes, file: Any, whole: Any, name: str) -> Stream:
    """Read a format by its first bytes, piece by piece where there is a plain file."""
    try:
        if file is not None and start.startswith(b"PAR1"):
            return _parquet(file, name)
        if file is not None and start.startswith(b"ARROW1"):
            return _arrow(file, name)
        if file is not None and start.startswith(b"\x93NUMPY"):
            return _npy(file, name)
    except tables.FAULTS as error:
        raise tables.damaged(error, name) from None
    return _in_memory(tables._arrow(tables.copied(whole), name), name)


def _parquet(source: Any, name: str) -> Stream:
    file = parquet_file(source, name, None)

    def pieces(columns: Sequence[str], ids: str | None) -> Iterator[pa.Table]:
        wanted = list(dict.fromkeys([*columns, *([] if ids is None else [ids])]))
        batches = file.iter_batches(batch_size=_rows(len(columns)), columns=wanted, use_threads=False)
        yield from _told_damage((pa.Table.from_batches([batch]) for batch in batches), name)

    flat = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
    look = next(file.iter_batches(batch_size=100, columns=flat, use_threads=False), None)
    return Stream(name, file.schema_arrow.empty_table() if look is None else pa.Table.from_batches([look]), pieces)


def _arrow(file: Any, name: str) -> Stream:
    data = tables.mapped(file)

    def opened() -> pa.RecordBatchReader:
        refuse = partial(tables.refuse_bomb, packed=None, name=name)
        return arrow_reader(pa.BufferReader(data), name, refuse, whole=False)

    def pieces(columns: Sequence[str], ids: str | None) -> Iterator[pa.Table]:
        for table in _told_damage((tables.sound(pa.Table.from_batches([batch])) for batch in opened()), name):
            yield from _cut(table, columns)

    reader = opened()
    look = next(iter(reader), None)
    table = reader.schema.empty_table() if look is None else pa.Table.from_batches([look])
    return Stream(name, tables.sound(table).slice(0, 100), pieces)


def _npy(file: Any, name: str) -> Stream:
    array = np.load(file.name, mmap_mode="r", allow_pickle=False)
    tables.refuse_shape(array, name)

    def pieces(columns: Sequence[str], ids: str | None) -> Iterator[pa.Table]:
        rows = _rows(max(array.size // max(len(array), 1), 1))
        for begin in range(0, len(array), rows):
            yield tables._from_array(np.asarray(array[begin : begin + rows]), name)

    return Stream(name, tables._from_array(np.asarray(array[:100]), name), pieces)


def _told_damage(found: Iterator[pa.Table], name: str) -> Iterator[pa.Table]:
    try:
        yield from found
    except tables.FAULTS as error:
        raise tables.damaged(error, name) from None


# ---- text ------------------------------------------------------------------------------------------------------------


def _text(whole: Any, plain: Any, name: str, header: bool | None, known: Sequence[str]) -> Stream:
    """Guess the dialect from the first lines, as `read_table` does, and read on with the kinds of columns held fast."""
    sample, ended = _sample(whole)
    look, dialect = _first_rows(sample, ended, name, header, known)
    block = dialect.block(_TEXT)

    def pieces(columns: Sequence[str], ids: str | None) -> Iterator[pa.Table]:
        kinds: dict[str, Any] = {**({} if ids is None else {ids: pa.string()}), **dict.fromkeys(columns, pa.float64())}
        try:
            reader = pa.csv.open_csv(
                _native(plain) or pa.PythonFile(_Rest(sample, whole), mode="r"),
                read_options=dialect.read_options(block_size=block, use_threads=False),  # then an error knows its line
                parse_options=dialect.parse_options(),
                convert_options=dialect.convert_options(kinds),
            )
            yield from _gathered(reader, _rows(len(columns)))
        except pa.ArrowInvalid as error:
            raise BadData(f"{name}: {_told(str(error), dialect.names, block)}") from None
        except UnicodeError as error:
            raise tables.undecodable(error, name) from None

    return Stream(name, look, pieces, (dialect.note,) if dialect.note else ())


def _native(plain: Any) -> pa.NativeFile | None:
    """Open a plain file once more without Python, whose end the threads of a reader might outlive."""
    if plain is None:
        return None
    try:
        file = pa.OSFile(f"/dev/fd/{plain.fileno()}")
        file.seek(0)
    except OSError:  # a system without /dev/fd
        return None
    return file


def _sample(whole: Any) -> tuple[bytes, bool]:
    """Read the beginning: some lines of it, however long they are; and whether that is all."""
    sample, ended = b"", False
    while not ended and len(sample) < _LONGEST and sample.count(b"\n") <= 2:
        want = max(_LOOK, len(sample))
        more = whole.read(want)
        sample, ended = sample + more, len(more) < want
    return sample, ended


def _first_rows(
    sample: bytes, ended: bool, name: str, header: bool | None, known: Sequence[str]
) -> tuple[pa.Table, Dialect]:
    """Read the whole lines of a sample; where its end falls into a quoted cell of several lines, fewer of them."""
    seen = sample if ended else _without_last_line(sample) or sample
    told: BadData | None = None
    for _ in range(1 if ended else _CUTS):
        try:
            dialect = Dialect.of(seen, name, cut=False, header=header, known=known)
            return tables.parsed(tables.copied(io.BytesIO(seen)), dialect, name), replace(
                dialect, quoted=b'"' in sample
            )
        except BadData as error:
            told = told or error
            seen = _without_last_line(seen)
            if not seen:
                break
    assert told is not None
    raise told


def _without_last_line(sample: bytes) -> bytes:
    end = max(sample.rfind(b"\n"), sample.rfind(b"\r"))
    wide = sample.startswith((b"\xff\xfe", b"\xfe\xff"))  # UTF-16: cut before the letter of two bytes
    return sample[: max(end - end % 2 if wide else end, 0)]


def _gathered(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Join small batches to tables of so many rows: a model may have to be unfolded for each."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(each.num_rows for each in pending) >= rows:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


def _told(message: str, names: Sequence[str], block: int) -> str:
    """Say in our words which cell or line cannot be read."""
    found = re.search(r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to double: invalid value '(.*)'", message)
    if found:
        column, line, value = found.groups()
        where = f"line {line}" if line else "a line"
        return f"{where} has {value!r:.60} in column {names[int(column)]!r}, where a number is needed. Fix that cell."
    return tables._told(message, block)


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    if column.null_count == len(column):  # a column without any value may be of no kind
        return np.full(len(column), np.nan)
    return tables.numbers(column)


# ---- bytes that were looked at ---------------------------------------------------------------------------------------


class _Rest(io.RawIOBase):
    """A file whose first bytes have been read already."""

    def __init__(self, start: bytes, rest: Any) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read so many bytes; fewer only at the end."""
        if size is None or size < 0:
            got, self._start = self._start + self._rest.read(), b""
            return got
        got, self._start = self._start[:size], self._start[size:]
        while len(got) < size and (more := self._rest.read(size - len(got))):
            got += more
        return got


class _Unpacker:
    """A compressed stream whose damage is told as such."""

    def __init__(self, stream: Any, name: str, codec: str) -> None:
        self._stream, self._name, self._codec = stream, name, codec

    def read(self, size: int = -1, /) -> bytes:
        return _unpacked(self._stream, None if size < 0 else size, self._name, self._codec)


def _unpacked(stream: Any, size: int | None, name: str, codec: str) -> bytes:
    try:
        data: bytes = stream.read(size)
    except OSError as error:
        raise BadData(f"{name} looks like {codec} and cannot be unpacked: {error}.") from None
    return data
