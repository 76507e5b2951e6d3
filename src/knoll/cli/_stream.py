"""Fits of tables that exceed the memory: read in blocks, in as many passes as the method needs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll._format import byte_size, parse_bytes
from knoll.cli._options import parse_columns
from knoll.registry import METHODS

if TYPE_CHECKING:
    from knoll.tables import Reading

__all__ = ["ScaledBlocks", "StreamedTable", "parse_size", "streamed"]

_NUMBER = 8  # bytes of a number in memory


@dataclass(frozen=True)
class StreamedTable:
    """A table in blocks: validated rows, and how it is read."""

    name: str
    blocks: Any  # a TableBlocks
    size: int  # bytes in memory
    limit: int | None  # None: an option reads it in blocks, whatever its size is

    @property
    def note(self) -> str:
        """What the user should know."""
        why = "" if self.limit is None else f"{_more_than(self.size, self.limit)}: "
        return f"{why}read in blocks. Columns that are numbers in the first rows are used, categories are not"

    def passes(self, estimator: Any, threads: int, engine: Any = None) -> Any:
        """Return passes over the rows as they are; refuse numbers that are missing."""
        from knoll._common.passes import refuse_not_finite_rows
        from knoll.engines import open_passes

        found = open_passes(self.blocks, estimator, threads, engine)
        refuse_not_finite_rows(found, estimator)
        return found

    def scaled(self, preparation: Any) -> ScaledBlocks:
        """Return the blocks, scaled; what `fit_blocks` takes."""
        return ScaledBlocks(self.blocks, preparation)


@dataclass(frozen=True)
class ScaledBlocks:
    """Rows of a table, each block scaled as it is read, here or by a worker."""

    table: Any  # a TableBlocks
    preparation: Any

    @property
    def parts(self) -> Any:
        """The files."""
        return self.table.parts

    @property
    def columns(self) -> Any:
        """The columns."""
        return self.table.columns

    def __call__(self) -> Iterator[Any]:
        """Yield the rows of all files."""
        return (self.preparation.apply(block) for block in self.table())

    def part(self, number: int) -> Iterator[Any]:
        """Yield the rows of one file."""
        return (self.preparation.apply(block) for block in self.table.part(number))


def streamed(
    data: str,
    columns: str | None,
    reading: Reading,
    memory: int | None,
    estimator: Any,
    whole: list[str],
    forced: str | None = None,
) -> StreamedTable | None:
    """Open a table in blocks where it exceeds `memory`, half of what is free by default; None: it does not.

    `whole` has the options of the command that need all rows in memory, `forced` is one that needs blocks.
    """
    from knoll import blocks
    from knoll._system import free_memory

    files = [data] if os.path.isfile(data) else [] if os.path.exists(data) else sorted(glob.glob(data))
    if not files and forced is None:
        return None
    if not files:
        raise click.ClickException(f"{forced} reads files, and {data} is none. Name a file or a pattern.")
    limit = free_memory() // 2 if memory is None else memory
    size = sum(map(_size, files))
    if size <= limit and len(files) == 1 and files[0] == data and forced is None:
        return None
    why = f"{data} takes {_more_than(size, limit)}" if forced is None else f"{forced} reads {data} in blocks"
    if not hasattr(estimator, "fit_blocks"):
        others = [
            m.short or m.name for m in METHODS.values() if m.estimator and hasattr(m.estimator_class(), "fit_blocks")
        ]
        raise click.ClickException(
            f"{why}, and {estimator.__name__} needs all rows at once. Fit a sample and predict the others, or take "
            f"{', '.join(others)}, which read blocks."
        )
    if whole:
        verb, remedy = ("and is read in blocks, which", "raise --memory") if forced is None else ("which", forced)
        raise click.ClickException(f"{why}, {verb} {', '.join(whole)} cannot be. Leave it out, or {remedy}.")
    rows = blocks.open(data, parse_columns(columns), **vars(reading))
    return StreamedTable(data, rows, size, limit if forced is None else None)


def _more_than(size: int, limit: int) -> str:
    return f"{byte_size(size)} in memory, more than {byte_size(limit)}"


def parse_size(_: Any, __: Any, text: str | None) -> int | None:
    """Turn 4GB into bytes."""
    if text is None:
        return None
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _size(path: str) -> int:
    """Estimate the bytes of a table in memory: by its metadata, else by the file."""
    if Path(path).suffix.lower() in (".parquet", ".pq"):
        import pyarrow as pa
        import pyarrow.parquet

        try:
            with open(path, "rb") as file:  # a name that is no text is none for pyarrow
                facts = pyarrow.parquet.read_metadata(file)
        except (pa.ArrowException, OSError):
            return os.path.getsize(path)  # the reader reports what is wrong
        return int(_NUMBER * facts.num_rows * facts.num_columns)
    return os.path.getsize(path)
