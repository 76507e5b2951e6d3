"""A person's file becomes points: numeric columns are taken, and what is left out is left out with its reason."""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from knoll.exceptions import BadData, InvalidParameter
from knoll.tables.binary import arrow_reader, parquet_table
from knoll.tables.dialect import NUMBER, Dialect, refuse_wide
from knoll.tables.formats import refuse_archive

__all__ = ["MISSING", "Table", "complete", "read_table"]

MISSING = ("error", "drop", "median")

_LOOK = 1 << 16  # bytes of a text that its dialect is guessed from; more where a line is longer
_BLOCK = 1 << 20  # bytes of a text that pyarrow parses at a time; more where a line is longer
_CELLS = 1 << 20  # numbers converted at a time
_PIECE = 1 << 24  # bytes unpacked at a time
_BOMB = (1 << 26, 300)  # bytes, and times the size of the file: no table of that size is packed so tightly
_PLAINLY = "save it as CSV, or take fewer of its rows"  # where a format cannot be unpacked by itself
_ROW_NUMBER = re.compile(r"(unnamed: ?\d+|id|index|row|rowid|row_id|no|nr|)", re.IGNORECASE)
FAULTS = (  # what readers of formats raise where a file is not what it claims to be
    pa.ArrowException, OSError, ValueError, TypeError, MemoryError, EOFError, RuntimeError, KeyError, OverflowError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
_BESIDE = b"beside"  # of a column that was an array of its own, next to the table
_NOTE = b"note"  # of a table: what the user should know about the way it was read
_MOSTLY = 0.9  # of a text column's cells: with so many numbers the others are slips, and are named


@dataclass(frozen=True)
class Table:
    """The numeric part of a file.

    Attributes
    ----------
    name : str
        Where it comes from, for people.
    X : ndarray of shape (n, d)
        The numbers; NaN where one is missing.
    columns : tuple of str
        Their names.
    left_out : dict
        The other columns and why they were left out.
    rows : ndarray of shape (n,)
        The row of the file, from 0, that each row of X was.
    ids, truth : ndarray of shape (n,) or None
        What identifies a row; a class it is known to have.
    notes : tuple of str
        What the user should know about the way the file was read.
    """

    name: str
    X: NDArray[np.float64]
    columns: tuple[str, ...]
    left_out: dict[str, str]
    rows: NDArray[np.int64]
    ids: NDArray[Any] | None = None
    truth: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()


def read_table(
    source: str | Path,
    *,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    truth: str | None = None,
    header: bool | None = None,
) -> Table:
    """Read CSV or TSV (plain, .gz, .zst), Parquet, Feather, NPY or NPZ; "-" is standard input.

    The contents tell the format, not the name. Without `columns` every numeric column is taken. `header` says whether
    the first line of a text has names; None finds out (`Dialect.of`).
    """
    name = "standard input" if str(source) == "-" else str(source)
    asked = [wanted for wanted in (*(columns or ()), ids, truth) if wanted is not None]
    table = _arrow(_bytes(source, name), name, header, asked, ids)
    if table.num_rows == 0:
        raise BadData(f"{name} has no rows.")
    for wanted in asked:
        if wanted not in table.column_names:
            raise no_column(name, wanted, table.column_names, notes_of(table))
        if pa.types.is_binary(table[wanted].type):
            raise BadData(f"{name}: column {wanted!r} has text in more than one encoding. Save the file as UTF-8.")
    taken: list[str] = []
    left_out: dict[str, str] = {}
    for column in table.column_names:
        if column in (ids, truth):
            continue
        if columns is not None and column not in columns:
            left_out[column] = "not asked for"
            continue
        beside = (table.schema.field(column).metadata or {}).get(_BESIDE)
        reason = _unusable(column, table[column], asked=columns is not None)
        if reason is None and columns is None and beside is not None:
            reason = f"an array beside {beside.decode()}; name it in --columns to use it, or in --truth"
        if reason is None:
            taken.append(column)
        elif columns is not None:
            raise BadData(f"{name}: column {column!r} cannot be used: {reason}.")
        else:
            left_out[column] = reason
    if not taken:
        reasons = "; ".join(f"{column!r} is {reason}" for column, reason in list(left_out.items())[:5])
        raise BadData(f"{name} has no numeric column to cluster ({reasons}).")
    X = _matrix(table, taken)
    return Table(
        name,
        X,
        tuple(taken),
        left_out,
        np.arange(len(X)),
        None if ids is None else _plain(table[ids], name),
        None if truth is None else _plain(table[truth], name),
        notes_of(table),
    )


def complete(table: Table, missing: str = "error") -> tuple[Table, str]:
    """Do something about missing values, and say what: refuse, drop those rows, or fill in the column's median."""
    if missing not in MISSING:
        raise InvalidParameter(f"missing must be one of {', '.join(MISSING)}, got {missing!r}.")
    gaps = ~np.isfinite(table.X)
    if not gaps.any():
        return table, ""
    row, column = (int(first) for first in np.argwhere(gaps)[0])
    count = int(gaps.sum())
    where = f"{count} missing value{'s' * (count > 1)} in {int(gaps.any(axis=1).sum())} of {len(table.X)} rows"
    if missing == "error":
        raise BadData(
            f"{table.name} has {where}, the first in row {row + 1}, column {table.columns[column]!r}. "
            "Use --missing drop (leave those rows out) or --missing median (fill in the column's median)."
        )
    if missing == "drop":
        keep = ~gaps.any(axis=1)
        if not keep.any():
            raise BadData(f"{table.name}: every row has a missing value, so none is left. Use --missing median.")
        kept = replace(
            table,
            X=table.X[keep],
            rows=table.rows[keep],
            ids=None if table.ids is None else table.ids[keep],
            truth=None if table.truth is None else table.truth[keep],
        )
        return kept, f"{where}: those rows were left out"
    X = table.X.copy()
    for j, name in enumerate(table.columns):
        if gaps[:, j].all():
            raise BadData(f"{table.name}: column {name!r} has no value at all. Leave it out with --columns.")
        X[gaps[:, j], j] = np.median(X[~gaps[:, j], j])
    return replace(table, X=X), f"{where}: filled in with the column's median"


# ---- bytes → columns -----------------------------------------------------------------------------------------------


def _bytes(source: str | Path, name: str) -> pa.Buffer:
    """Read it all, and undo gzip and Zstandard."""
    with opened(source, name) as file:
        try:
            plain = str(source) != "-" and stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = mapped(file) if plain else copied(file)
        except (OSError, ValueError) as error:
            raise unreadable(error, name) from None
    start = data[:4].to_pybytes()
    for magic, codec in ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd")):
        if start.startswith(magic):
            try:
                return _unpacked(data, codec, name)
            except OSError as error:
                raise BadData(f"{name} looks like {codec} and cannot be unpacked: {error}.") from None
    return data


def mapped(file: IO[bytes]) -> pa.Buffer:
    """Return the bytes of a plain file, loaded as they are used; by its number, as not every name can be encoded."""
    try:
        with pa.memory_map(f"/dev/fd/{file.fileno()}") as whole:
            return whole.read_buffer()
    except (OSError, pa.ArrowInvalid):  # an empty file, or a system without /dev/fd
        return copied(file)


def copied(file: IO[bytes]) -> pa.Buffer:
    """Read all bytes into memory of Arrow's own: its threads may release that after Python has ended, too."""
    out = pa.BufferOutputStream()
    while piece := file.read(_PIECE):
        out.write(piece)
    return out.getvalue()


@contextlib.contextmanager
def opened(source: str | Path, name: str) -> Iterator[IO[bytes]]:
    """Open a file, or standard input for "-", to be read from its beginning."""
    if str(source) == "-":
        if sys.stdin is None:
            raise BadData("standard input is closed. Open it, or name a file.")
        yield sys.stdin.buffer
        return
    try:
        file = open(source, "rb")  # noqa: SIM115  (closed below; only opening it may fail here)
    except FileNotFoundError:
        raise BadData(f"There is no file {name}.") from None
    except (OSError, ValueError) as error:
        raise unreadable(error, name) from None
    with file:
        yield file


def unreadable(error: Exception, name: str) -> BadData:
    """Say that the system does not let us read a file."""
    return BadData(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.")


def _unpacked(data: pa.Buffer, codec: str, name: str) -> pa.Buffer:
    """Unpack piece by piece, so that a small file that unpacks to a huge one is found out on the way."""
    stream, out, total = pa.CompressedInputStream(pa.BufferReader(data), codec), pa.BufferOutputStream(), 0
    while piece := stream.read(_PIECE):
        total += len(piece)
        refuse_bomb(total, data.size, name)
        out.write(piece)
    return out.getvalue()


def refuse_bomb(unpacked: int, packed: int | None, name: str, remedy: str = "unpack it first") -> None:
    """Refuse what would take too much memory, or far more than the size of its file (`packed`) lets expect."""
    room = _room()
    if unpacked > room:
        raise BadData(
            f"{name} unpacks to more than {room / 1e9:.2g} GB, half of the memory that is free. "
            "Take fewer rows, or the columns you need."
        )
    least, times = _BOMB
    if packed is not None and unpacked > least and unpacked > times * packed:
        raise BadData(
            f"{name} unpacks to more than {times} times its size, which no table does. If it is one, {remedy}."
        )


def _room() -> int:
    """Half of the memory that is free."""
    try:
        text = Path("/proc/meminfo").read_text()
        return int(re.findall(r"MemAvailable:\s*(\d+) kB", text)[0]) * 512
    except (OSError, IndexError):
        return 1 << 32


def _arrow(
    data: pa.Buffer, name: str, header: bool | None = None, known: Sequence[str] = (), ids: str | None = None
) -> pa.Table:
    start = data[:6].to_pybytes()
    try:
        if start.startswith(b"PAR1"):
            return parquet_table(data, name, partial(refuse_bomb, packed=data.size, name=name, remedy=_PLAINLY))
        if start.startswith(b"ARROW1"):
            refuse = partial(refuse_bomb, packed=data.size, name=name, remedy=_PLAINLY)
            reader = arrow_reader(pa.BufferReader(data), name, refuse, whole=True)
            return sound(reader.read_all())
        if start == b"\x93NUMPY":
            return _from_array(np.load(pa.BufferReader(data), allow_pickle=False), name)
        if start.startswith(b"PK"):
            return _from_npz(data, name)
    except FAULTS as error:
        raise damaged(error, name) from None
    return _from_text(data, name, header, known, ids)


def damaged(error: Exception, name: str) -> BadData:
    """Say in one line that a file is damaged; what was said already is left as it is."""
    if isinstance(error, BadData):
        return error
    if "allow_pickle" in str(error) or "Python objects" in str(error):  # reading them could run anything
        return BadData(f"{name} holds Python objects, and a table here is of numbers. Save it with a numeric dtype.")
    return BadData(f"{name} is damaged: {' '.join(str(error).split())[:200].rstrip('.')}.")


def sound(table: pa.Table) -> pa.Table:
    """Return a table whose buffers lead nowhere outside."""
    table.validate(full=True)
    return table.replace_schema_metadata(None)  # notes are ours


def _from_npz(data: pa.Buffer, name: str) -> pa.Table:
    with zipfile.ZipFile(pa.BufferReader(data)) as parts:
        refuse_archive(parts.namelist(), name)
        refuse_bomb(sum(part.file_size for part in parts.infolist()), data.size, name)
    with np.load(pa.BufferReader(data), allow_pickle=False) as arrays:
        named = {key: array for key in arrays.files if isinstance(array := arrays[key], np.ndarray)}
    wide = [key for key, array in named.items() if array.ndim == 2]
    if not wide:
        raise BadData(f"{name} has no array of two dimensions. It has: {_listed(list(named))}.")
    key = "X" if "X" in wide else wide[0]
    table = _from_array(named[key], name)
    for other, array in named.items():  # labels and the like, one entry a row
        if other != key and array.ndim == 1 and len(array) == table.num_rows and other not in table.column_names:
            field = pa.field(other, (column := _column(array, name)).type, metadata={_BESIDE: key})
            table = table.append_column(field, column)
    others = [f"{other} {named[other].shape}" for other in wide if other != key]
    note = f"array {key} {named[key].shape} was taken, not {_listed(others)}; the one called X has precedence"
    return noted(table, note if others else "")


def _from_array(array: NDArray[Any], name: str) -> pa.Table:
    refuse_shape(array, name)
    if array.dtype.names:
        refuse_wide(len(array.dtype.names), name)
        return pa.table({field: _column(array[field].reshape(-1), name) for field in array.dtype.names})
    if array.size == 0:
        raise BadData(f"{name} has no {'columns' if len(array) else 'rows'}: its array is of shape {array.shape}.")
    columns = (array[:, None] if array.ndim == 1 else array).T
    refuse_wide(len(columns), name)
    return pa.table({f"column {j + 1}": _column(column, name) for j, column in enumerate(columns)})


def refuse_shape(array: NDArray[Any], name: str) -> None:
    """Refuse an array that is no table, be it of numbers or of records."""
    most = 1 if array.dtype.names and array.shape[1:] != (1,) else 2
    if not 1 <= array.ndim <= most:
        what = "array of records" if array.dtype.names else "array"
        raise BadData(f"{name} holds an {what} of {array.ndim} dimensions; a table has {('one', 'two')[most - 1]}.")


def _column(values: NDArray[Any], name: str) -> pa.Array:
    """Hand a column over to Arrow, in this machine's order of bytes."""
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    try:
        return pa.array(native)
    except (pa.ArrowException, TypeError, ValueError):
        raise BadData(f"{name} holds values of kind {values.dtype}, and a table here is of real numbers.") from None


def _from_text(
    data: pa.Buffer, name: str, header: bool | None, known: Sequence[str], ids: str | None = None
) -> pa.Table:
    sample = _sample(data)
    dialect = Dialect.of(sample, name, cut=len(sample) < data.size, header=header, known=known)
    if ids not in dialect.names:
        return noted(parsed(data, dialect, name), dialect.note)
    table = parsed(data, dialect, name, text=[ids])
    column = _as_written(table[ids])
    return noted(table.set_column(table.column_names.index(ids), ids, column), dialect.note)


def _as_written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return bytes as text, or as numbers if those are written so: 7 and 7.5 are some, 007 and 7.0 are text.

    What is no UTF-8 stays bytes.
    """
    try:
        column = pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return column
    for kind in (pa.int64(), pa.float64()):
        with contextlib.suppress(pa.ArrowInvalid):
            found = pc.cast(column, kind)
            if pc.all(pc.equal(pc.cast(found, pa.string()), column)).as_py() in (None, True):
                return found
    return column


def noted(table: pa.Table, note: str) -> pa.Table:
    """Attach a note to a table."""
    return table.replace_schema_metadata({_NOTE: note.encode(errors="backslashreplace")} if note else None)


def notes_of(table: pa.Table) -> tuple[str, ...]:
    """Return the note of a table, if it has one."""
    note = (table.schema.metadata or {}).get(_NOTE)
    return () if note is None else (note.decode(),)


def no_column(name: str, wanted: str, names: Sequence[str], notes: Sequence[str] = ()) -> InvalidParameter:
    """Say that a column is not there, which are, and why that may be."""
    hints = "".join(f" Note: {note}." for note in notes)
    return InvalidParameter(f"{name} has no column {wanted!r}. It has: {_listed(names)}.{hints}")


def parsed(data: pa.Buffer, dialect: Dialect, name: str, text: Sequence[str] = ()) -> pa.Table:
    """Read a text whose dialect is known; the columns `text` as they are written, as bytes."""

    def parse(threads: bool) -> pa.Table:
        return pa.csv.read_csv(
            pa.BufferReader(data),
            read_options=dialect.read_options(block_size=dialect.block(_BLOCK), use_threads=threads),
            parse_options=dialect.parse_options(),
            convert_options=dialect.convert_options(text=text),
        )

    try:
        return parse(threads=True)
    except pa.ArrowInvalid:
        try:
            return parse(threads=False)  # one thread counts the lines, and can say which one does not fit
        except pa.ArrowInvalid as error:
            raise BadData(f"{name}: {_told(str(error), dialect.block(_BLOCK))}") from None
    except UnicodeError as error:
        raise undecodable(error, name) from None


def undecodable(error: UnicodeError, name: str) -> BadData:
    """Say that a text is not in the encoding of its beginning."""
    return BadData(f"{name} is not all of one encoding ({error}). Save it as UTF-8.")


def _sample(data: pa.Buffer) -> bytes:
    """Return the beginning: some lines of it, however long they are."""
    look = _LOOK
    while True:
        sample: bytes = data[:look].to_pybytes()
        if look >= data.size or sample.count(b"\n") > 2:
            return sample
        look *= 8


def _told(message: str, block: int) -> str:
    """Say in our words which line does not fit; `block` are the bytes that were parsed at a time."""
    if "straddling" in message:
        return f"a line is longer than {block} bytes, or a quotation mark is never closed. Mend it."
    found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message)
    if found:
        return f"line {found[1]} has {found[3]} cells where {found[2]} are expected. Fix that line."
    return message.splitlines()[0][:200].rstrip(".") + "."


# ---- columns → numbers -----------------------------------------------------------------------------------------------


def _unusable(name: str, column: pa.ChunkedArray, *, asked: bool) -> str | None:
    """Say why a column is not used, or None."""
    kind = column.type
    if pa.types.is_nested(kind):
        return f"of kind {kind}"
    if column.null_count == len(column):
        return "empty"
    if pa.types.is_boolean(kind):
        return "true or false, not a number; write it as 0 and 1 to use it"
    if pa.types.is_temporal(kind):
        return "a date or time"
    if pa.types.is_dictionary(kind):
        return _text_reason(column) if _is_text(kind.value_type) else "a category, not a number"
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        if pa.types.is_binary(kind):
            return "text in more than one encoding; save the file as UTF-8 to use it"
        return _text_reason(column) if _is_text(kind) else f"of kind {kind}"
    if not asked and _ROW_NUMBER.fullmatch(name.strip()) and pa.types.is_integer(kind) and _counts_rows(column):
        return "a row number by the look of it; name it in --columns to use it"
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _text_reason(column: pa.ChunkedArray) -> str:
    slips = pa.chunked_array([_no_numbers(chunk) for chunk in column.chunks], pa.bool_())
    share = 1 - (pc.sum(slips).as_py() or 0) / max(len(column) - column.null_count, 1)
    if share < _MOSTLY:
        return "text"
    row = pc.index(pc.fill_null(slips, False), True).as_py()
    return f"text, though {share:.0%} of its cells are numbers: row {row + 1} has {column[row].as_py()!r:.60}"


def _no_numbers(chunk: pa.Array) -> pa.Array:
    """Tell which cells are no numbers; of texts that are kept once, each is looked at once."""
    if isinstance(chunk, pa.DictionaryArray):
        return _no_numbers(chunk.dictionary).take(chunk.indices)
    return pc.invert(pc.match_substring_regex(chunk, f"^\\s*{NUMBER.pattern}\\s*$"))


def _counts_rows(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return False
    steps = np.diff(column.to_numpy())
    return bool(len(steps) == 0 or (steps == 1).all())


def _matrix(table: pa.Table, columns: Sequence[str]) -> NDArray[np.float64]:
    """Return columns as one array, filled piece by piece: beside it and the table only one piece is in memory."""
    X = np.empty((table.num_rows, len(columns)))
    for j, column in enumerate(columns):
        row = 0
        for chunk in table[column].chunks:
            for begin in range(0, len(chunk), _CELLS):
                piece = numbers(chunk.slice(begin, _CELLS))
                X[row : row + len(piece), j] = piece
                row += len(piece)
    return X


def numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column as float64, NaN where a value is missing."""
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def unfolded(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Write out texts that are kept once each, if there is room for them."""
    if not pa.types.is_dictionary(column.type):
        return column
    if _is_text(column.type.value_type):
        lengths = [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
        refuse_bomb(sum(pc.sum(pc.cast(each, pa.int64())).as_py() or 0 for each in lengths), None, name)
    return column.cast(column.type.value_type)


def _plain(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    return np.asarray(unfolded(column, name).to_numpy())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
