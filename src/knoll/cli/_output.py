"""What the commands that fit and label have in common: files that are not overwritten, labels, sizes for people."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from knoll.cli._files import STANDARD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LabelsFile", "header_option", "listed", "read_columns", "refuse_existing", "refuse_file", "size", "some"]


def refuse_existing(*paths: Path | None, force: bool, inputs: Sequence[str | Path] = ()) -> None:
    """Refuse, before any work is done, to replace a file unless that is asked for, or an input of the command at all.

    Two outputs in one place are refused too.
    """
    given = [path for path in paths if path is not None]
    for path in given:
        if str(path) == STANDARD:
            continue
        if path.is_dir():
            raise click.ClickException(f"{path} is a folder. Give the name of a file.")
        refuse_file(path, force)
        if any(path.exists() and os.path.exists(each) and path.samefile(each) for each in inputs):
            raise click.ClickException(f"{path} is an input of this command. Choose another name.")
    if len({os.path.realpath(path) for path in given}) < len(given):
        raise click.ClickException(f"{given[0]} cannot hold both outputs. Give each a name of its own.")


def refuse_file(path: Path, force: bool) -> None:
    """Refuse to replace a file unless that is asked for."""
    if path.is_file() and not force:
        raise click.ClickException(f"{path} is there already. Choose another name, or replace it with --force.")


def header_option(command: Any) -> Any:
    """Add --header and --no-header to a command that reads a table."""
    option = click.option(
        "--header/--no-header", default=None,
        help="Whether the first line of a text file has the names of the columns. If not given, it has unless all of "
        "its cells are numbers.",
    )  # fmt: skip
    return option(command)


def read_columns(text: str | None) -> list[str] | None:
    """Read names of columns with commas between them; a name that has a comma itself stands in quotes."""
    if text is None:
        return None
    from knoll.tables.dialect import SPACE

    names = [name.strip(SPACE) for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not any(names):
        raise click.UsageError(
            "--columns is empty. Name some, such as --columns height,width, or leave it out for all."
        )
    return names


class LabelsFile:
    """A table of labels that grows: CSV or Parquet, by the name of the file or by `form`."""

    def __init__(self, file: IO[bytes], path: Path, form: str | None = None) -> None:
        parquet = path.suffix.lower() in (".parquet", ".pq")
        self._file, self._form = file, form or ("parquet" if parquet else "csv")
        self._writer: Any = None
        self.rows = 0

    def write(self, names: Any, id_name: str, values: Mapping[str, NDArray[np.generic]]) -> None:
        """Append rows: what names each, then its values."""
        import pyarrow as pa

        if id_name in values:
            raise click.ClickException(f"the column {id_name!r} of --id has the name of a column of the output.")
        table = pa.table({id_name: names, **{name: pa.array(value) for name, value in values.items()}})
        if self._writer is None:
            self._writer = self._opened(table.schema)
        self._writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()

    def _opened(self, schema: Any) -> Any:
        if self._form == "parquet":
            import pyarrow.parquet

            return pyarrow.parquet.ParquetWriter(self._file, schema)
        import pyarrow.csv

        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(schema.names)  # pyarrow would put every name into quotes
        self._file.write(header.getvalue().encode())
        return pyarrow.csv.CSVWriter(self._file, schema, write_options=pyarrow.csv.WriteOptions(include_header=False))


def listed(things: Sequence[str], most: int = 12) -> str:
    """Return the first of some things, and how many more there are."""
    more = f" and {len(things) - most} more" if len(things) > most else ""
    return ", ".join(things[:most]) + more


def some(count: int, what: str) -> str:
    """Return a number of things in words: 1 cluster, 2 clusters."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def size(nbytes: int) -> str:
    """Return a number of bytes as a person reads it."""
    if nbytes < 1000:
        return f"{nbytes} bytes"
    power = 1 if nbytes < 999_500 else 2 if nbytes < 999_500_000 else 3
    return f"{nbytes / 1000**power:.3g} {('kB', 'MB', 'GB')[power - 1]}"
