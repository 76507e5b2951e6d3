"""Tables in blocks: files, many files, or an Arrow stream, larger than memory, for `fit_blocks`.

    rows = knoll.blocks.open("parts/*.parquet", columns=["height", "width"])
    model = knoll.KMeans(8, random_state=0).fit_blocks(rows)

It is the reader of the command line: the same formats, types of columns and messages. Nothing is kept of a file but
where it is, and each pass reads it again, some megabytes at a time.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knoll._format import listed
from knoll.exceptions import BadData, InvalidParameter, InvalidType
from knoll.tables.reading import Reading

if TYPE_CHECKING:
    from knoll.tables.source import TableSource

__all__ = ["TableBlocks", "open"]

_ROWS_AT_ONCE = 1 << 23  # bytes of a memory-mapped array
_WILDCARDS = "*?["


def open(
    source: Any, columns: Sequence[str] | None = None, weight: str | None = None, *, header: bool | None = None
) -> TableBlocks:
    """Open a table to be read in blocks, as often as a fit needs.

    Parameters
    ----------
    source : str, path, sequence of those, or object with `__arrow_c_stream__`
        A file in any format that the command line reads (Parquet, Arrow, NPY, CSV and others), a pattern such as
        "part-*.parquet", or several; their rows follow each other in the order of the names. An Arrow stream is
        a table or a query of polars, DuckDB or pyarrow, whose batches are read again in each pass.
    columns : sequence of str, optional
        The columns to read. By default those that hold numbers in the first rows.
    weight : str, optional
        A column of sample weights; it is not among the columns.
    header : bool, optional
        Whether the first line of each text file has the names of the columns. By default it has unless all of its
        cells are numbers.

    Returns
    -------
    TableBlocks
        What `fit_blocks` takes: a callable that starts a pass.

    Examples
    --------
    >>> import numpy as np
    >>> import knoll
    >>> from tempfile import TemporaryDirectory
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/part-0.npy", X[:600])
    ...     np.save(f"{folder}/part-1.npy", X[600:])
    ...     model = knoll.KMeans(3, random_state=0).fit_blocks(knoll.blocks.open(f"{folder}/part-*.npy"))
    >>> bool((model.cluster_centers_ == knoll.KMeans(3, random_state=0).fit(X).cluster_centers_).all())
    True
    """
    sources = _sources(source, Reading(header=header))
    with sources[0].open(()) as first:
        names = first.numeric_columns() if columns is None else [str(name) for name in columns]
        names = [name for name in names if name != weight]
        if not names:
            raise BadData(
                f"{first.name} has no numeric column to cluster on. It has: {listed(first.columns)}. Name those to "
                "read, or encode them as numbers."
            )
    wanted = names if weight is None else [*names, weight]
    for one in sources:
        one.check(wanted, sources[0].name)
    return TableBlocks(tuple(sources), tuple(names), weight)


@dataclass(frozen=True)
class TableBlocks:
    """Rows of files or of a stream, in blocks; a call starts a pass.

    Attributes
    ----------
    parts : tuple
        The files, in the order of their rows.
    columns : tuple of str
        The columns that are read.
    weight : str or None
        The column of sample weights.
    """

    parts: tuple[Any, ...]
    columns: tuple[str, ...]
    weight: str | None = None

    def __call__(self) -> Iterator[Any]:
        """Yield arrays, or pairs (array, sample_weight)."""
        for number in range(len(self.parts)):
            yield from self.part(number)

    def part(self, number: int) -> Iterator[Any]:
        """Yield those of one file."""
        wanted = self.columns if self.weight is None else (*self.columns, self.weight)
        for X in self.parts[number].blocks(wanted):
            yield X if self.weight is None else (X[:, :-1], X[:, -1])


# ---- where rows come from ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A file, as it was when it was opened."""

    name: str
    state: tuple[int, int]  # bytes, and when it was written
    reading: Reading

    @classmethod
    def of(cls, path: str, reading: Reading) -> _File:
        return cls(path, _state(path), reading)

    def open(self, expected: Sequence[str]) -> Any:
        """Open it by the reader of tables."""
        from knoll.tables import open_table

        return open_table(self.name, reading=self.reading, expected=expected)

    def check(self, wanted: Sequence[str], first: str) -> None:
        """Refuse a file without the columns of the first."""
        with self.open(wanted) as source:
            _check_columns(source, wanted, first)

    def blocks(self, wanted: Sequence[str]) -> Iterator[NDArray[Any]]:
        """Yield the rows of these columns; refuse a file that is written to meanwhile."""
        self._check_same()
        array = _mapped(self.name)
        if array is not None and list(wanted) == [f"column {j + 1}" for j in range(array.shape[1])]:
            n, rows = len(array), max(1, _ROWS_AT_ONCE // array[:1].nbytes)
            del array
            for begin in range(0, n, rows):  # each mapped by itself: what was read counts as memory while it is mapped
                self._check_same()
                yield np.load(self.name, mmap_mode="r", allow_pickle=False)[begin : begin + rows]
        else:
            with self.open(wanted) as source:
                yield from _pieces(source, wanted)
        self._check_same()

    def _check_same(self) -> None:
        if _state(self.name) != self.state:
            raise BadData(
                f"{self.name} has changed since it was opened. A fit reads its rows several times, and they must stay "
                "as they are: write to another file, or open it again."
            )


@dataclass(frozen=True)
class _Stream:
    """An object that makes a new Arrow stream on each request."""

    table: Any
    name: str = "the stream"

    def open(self, expected: Sequence[str]) -> Any:
        """Request the first batch."""
        import contextlib

        return contextlib.nullcontext(_stream_source(self))

    def check(self, wanted: Sequence[str], first: str) -> None:
        """Refuse a stream without these columns."""
        _check_columns(_stream_source(self), wanted, first)

    def blocks(self, wanted: Sequence[str]) -> Iterator[NDArray[Any]]:
        """Yield the rows of these columns."""
        yield from _pieces(_stream_source(self), wanted)


def _sources(source: Any, reading: Reading) -> list[Any]:
    """Find the files, or the stream."""
    if hasattr(source, "__arrow_c_stream__"):
        import pyarrow as pa

        if isinstance(source, pa.RecordBatchReader):
            raise InvalidParameter(
                "a RecordBatchReader can be read once, and a fit reads its rows several times. Give the table or the "
                "query that makes it, or write it to a file."
            )
        return [_Stream(source)]
    if isinstance(source, str | os.PathLike):
        return [_File.of(name, reading) for name in _matching(os.fspath(source))]
    if isinstance(source, Sequence) and source and all(isinstance(each, str | os.PathLike) for each in source):
        return [_File.of(name, reading) for each in source for name in _matching(os.fspath(each))]
    raise InvalidType(
        f"a path, a pattern, several of them, or an object with __arrow_c_stream__ is needed, got {source!r:.60}."
    )


def _matching(path: Any) -> list[str]:
    """Return the files of a pattern, by name; a path that exists is no pattern, whatever its letters are."""
    path = os.fsdecode(path)
    if os.path.exists(path) or not any(each in path for each in _WILDCARDS):
        return [path]
    found = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
    if not found:
        raise BadData(f"No file matches {path!r}. Check the folder and the pattern.")
    return found


def _state(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise BadData(f"There is no file {path}.") from None
    return found.st_size, found.st_mtime_ns


def _check_columns(source: TableSource, wanted: Sequence[str], first: str) -> None:
    missing = [name for name in wanted if name not in source.columns]
    if missing and source.name != first:
        raise BadData(
            f"{source.name} has no column {missing[0]!r}, which {first} has. It has: {listed(source.columns)}. "
            "All files must have the same columns."
        )
    source._check_names(wanted)


def _pieces(source: TableSource, wanted: Sequence[str]) -> Iterator[NDArray[Any]]:
    """Yield the rows of a source; one with columns and no rows has none to yield."""
    if source.head.num_rows:
        yield from (piece.X for piece in source.pieces(wanted))


def _mapped(path: str) -> NDArray[Any] | None:
    """Map an array of numbers in two dimensions; None: the file is none."""
    if Path(path).suffix.lower() != ".npy":
        return None
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None  # the reader reports what is wrong
    return array if array.ndim == 2 and array.dtype in (np.float64, np.float32) and array.size else None


def _stream_source(stream: _Stream) -> TableSource:
    import pyarrow as pa

    from knoll.tables.source import Request, TableSource, slices

    def batches() -> Iterator[pa.Table]:
        reader = pa.RecordBatchReader.from_stream(stream.table)
        yield reader.schema.empty_table()
        yield from (pa.Table.from_batches([batch]) for batch in reader if batch.num_rows)

    def tables(request: Request) -> Iterator[pa.Table]:
        for batch in batches():
            yield from slices(batch if request.names is None else batch.select(request.names), request)

    start = batches()
    empty = next(start)
    return TableSource(stream.name, next(start, empty).slice(0, 100), tables)
