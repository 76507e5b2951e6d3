"""Text: CSV, TSV and their relatives. The first lines determine the dialect; pyarrow parses them and all others."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.csv

from knoll.exceptions import BadData
from knoll.tables.dialect import Dialect
from knoll.tables.input import Input
from knoll.tables.reading import Reading
from knoll.tables.source import Request, TableSource

__all__ = ["open_text"]

_SAMPLE = 1 << 16  # bytes that the dialect is guessed from; more where a line is longer,
_LONGEST = 1 << 26  # but no more than this
_BLOCK = 1 << 20  # bytes parsed at a time, more where a line is longer; pyarrow reads about thirty blocks ahead

Types = Mapping[str, pa.DataType]


def open_text(data: Input, reading: Reading, expected: Sequence[str]) -> TableSource:
    """Guess the dialect from the first lines."""
    sample, ended = _sample(data)
    head, dialect = _first_rows(sample, ended, data.name, reading, expected)

    def tables(request: Request) -> Iterator[pa.Table]:
        labels = dict.fromkeys(request.labels, pa.string())
        if request.columns is None or request.any_type:
            yield _parse(data.random_access, dialect, data.name, labels, only=request.names, head=head)
        else:
            texts = dict.fromkeys(request.texts, pa.string())
            types = {**texts, **labels, **dict.fromkeys(request.columns, pa.float64())}
            yield from _gathered(_parse_blocks(data, dialect, types), request.rows(len(types)))

    notes = (dialect.note,) if dialect.note else ()
    return TableSource(data.name, head, tables, notes, is_text=True, decimal=dialect.decimal)


def _parse(
    opened: Callable[[], pa.NativeFile],
    dialect: Dialect,
    name: str,
    types: Types,
    threads: bool = True,
    only: Sequence[str] | None = None,
    head: pa.Table | None = None,
) -> pa.Table:
    """Parse all lines; the types of columns other than `types` are found from every row.

    First those of the `head` are tried: if all rows have them, no block of text has to wait in memory for the last one.
    """

    def parse(threads: bool, types: Types = types) -> pa.Table:
        return pa.csv.read_csv(opened(), *dialect.options(_BLOCK, types, threads=threads, only=only))

    with _reporting(dialect, name):
        if head is not None and threads:
            with contextlib.suppress(pa.ArrowInvalid):
                return parse(True, {**_types_of(head), **types})
        if threads:
            with contextlib.suppress(pa.ArrowInvalid):
                return parse(threads=True)
        return parse(threads=False)  # a single thread counts the lines, and can name the one that does not fit


def _types_of(head: pa.Table) -> Types:
    """Return the types of columns that all rows probably have; a column that is empty so far has none."""
    return {field.name: field.type for field in head.schema if not pa.types.is_null(field.type)}


def _parse_blocks(data: Input, dialect: Dialect, types: Types) -> Iterator[pa.RecordBatch]:
    """Parse these columns alone, block by block."""
    with _reporting(dialect, data.name):
        yield from pa.csv.open_csv(data.stream(), *dialect.options(_BLOCK, types, only=list(types)))


def _gathered(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Join small batches to tables of so many rows: each costs a call of the model."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(each.num_rows for each in pending) >= rows:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


# ---- the first lines -------------------------------------------------------------------------------------------------


def _sample(data: Input) -> tuple[bytes, bool]:
    """Return some lines of the beginning, however long they are, and whether that is all."""
    size = _SAMPLE
    while True:
        sample = data.read(size)
        if len(sample) < size:
            return sample, True
        if size >= _LONGEST or sample.count(b"\n") > 2:
            return sample, False
        size *= 2


def _first_rows(
    sample: bytes, ended: bool, name: str, reading: Reading, expected: Sequence[str]
) -> tuple[pa.Table, Dialect]:
    """Parse the lines of a sample; fewer of them where it ends in a quoted cell of several lines."""
    lines = sample if ended else _without_last(sample, 1) or sample
    error: BadData | None = None
    count = 1
    while error is None or lines:
        try:
            dialect = Dialect.guess(lines, name, reading, expected)
            head = _parse(partial(pa.BufferReader, lines), dialect, name, {}, threads=False)
            return head, replace(dialect, quoted=b'"' in sample)
        except BadData as failure:
            error = error or failure
        lines = b"" if ended else _without_last(lines, count)
        count *= 2
    raise error


def _without_last(sample: bytes, count: int) -> bytes:
    """Drop so many lines from the end."""
    end = len(sample)
    for _ in range(count):
        end = max(sample.rfind(b"\n", 0, end), sample.rfind(b"\r", 0, end), 0)
    wide = sample.startswith((b"\xff\xfe", b"\xfe\xff"))  # UTF-16: cut before the character of two bytes
    return sample[: end - end % 2 if wide else end]


# ---- messages --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _reporting(dialect: Dialect, name: str) -> Iterator[None]:
    """Turn pyarrow's errors into ours."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise BadData(f"{name}: {_message(str(error), dialect)}") from None
    except UnicodeError as error:
        raise BadData(f"{name} has text in more than one encoding ({error}). Save it as UTF-8.") from None


def _message(error: str, dialect: Dialect) -> str:
    """Return which cell or line cannot be read."""
    if "straddling" in error:
        return f"a line is longer than {dialect.block(_BLOCK)} bytes, or a quotation mark is never closed. Fix it."
    if found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", error):
        return f"line {found[1]} has {found[3]} cells where {found[2]} are expected. Fix that line."
    if found := re.search(r"column #(\d+): .*invalid UTF8 data", error):
        return f"column {dialect.names[int(found[1])]!r} has text in more than one encoding. Save the file as UTF-8."
    found = re.search(r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to double: invalid value '(.*)'", error)
    if found:
        column, line, value = dialect.names[int(found[1])], found[2], found[3]
        where = f"line {line}" if line else "a line"
        return f"{where} has {value!r:.60} in column {column!r}, where a number is needed. Fix that cell."
    return error.splitlines()[0][:200].rstrip(".") + "."
