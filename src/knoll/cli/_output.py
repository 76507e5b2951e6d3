"""Output files of the commands: none is overwritten by accident; labels are written as CSV or Parquet."""

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


def check_outputs(*paths: Path | None, force: bool, inputs: Sequence[str | Path] = ()) -> None:
    """Refuse, before any work is done, to replace a file without --force, or an input of the command at all.

    Two outputs of one name are refused too.
    """
    outputs = [path for path in paths if path is not None]
    for path in outputs:
        if str(path) == STANDARD:
            continue
        if path.is_dir():
            raise click.ClickException(f"{path} is a folder. Give the name of a file.")
        check_new(path, force)
        if any(path.exists() and os.path.exists(each) and path.samefile(each) for each in inputs):
            raise click.ClickException(f"{path} is an input of this command. Choose another name.")
    if len({os.path.realpath(path) for path in outputs}) < len(outputs):
        raise click.ClickException(f"{outputs[0]} is named for two outputs. Give each its own name.")


def check_new(path: Path, force: bool) -> None:
    """Refuse to replace a file without --force."""
    if path.is_file() and not force:
        raise click.ClickException(f"{path} already exists. Choose another name, or replace it with --force.")


class LabelsFile:
    """A table of labels, written piece by piece: CSV or Parquet, by the name of the file or by `form`."""

    def __init__(self, file: IO[bytes], path: Path, form: str | None = None) -> None:
        parquet = path.suffix.lower() in (".parquet", ".pq")
        self._file, self._form = file, form or ("parquet" if parquet else "csv")
        self._writer: Any = None
        self.rows = 0

    def write(self, ids: Any, id_name: str, values: Mapping[str, NDArray[np.generic]]) -> None:
        """Append rows: their ids, then their values."""
        import pyarrow as pa

        if id_name in values:
            raise click.ClickException(f"the column {id_name!r} of --id has the name of an output column. Rename it.")
        table = pa.table({id_name: ids, **{name: pa.array(value) for name, value in values.items()}})
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
