"""Output files of the commands: none is overwritten by accident; labels are written as CSV or Parquet."""

from __future__ import annotations

import csv
import glob
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

    from knoll._typing import Floats


def check_outputs(
    *paths: Path | None, force: bool, inputs: Sequence[str | Path] = (), also: Sequence[Path | None] = ()
) -> None:
    """Refuse, before any work is done, to replace a file without --force, or an input of the command at all.

    Two outputs of one name are refused too, and an output with the name of one of `also`, which the command writes for
    itself. An input may be a pattern of names.
    """
    outputs = [path for path in paths if path is not None]
    for path in outputs:
        if str(path) == STANDARD:
            continue
        if path.is_dir():
            raise click.ClickException(f"{path} is a folder. Give the name of a file.")
        check_new(path, force)
        if path.exists() and any(path.samefile(file) for each in inputs for file in _files_of(each)):
            raise click.ClickException(f"{path} is an input of this command. Choose another name.")
    outputs += [path for path in also if path is not None]
    names: set[str] = set()
    for path in outputs:
        if os.path.realpath(path) in names:
            raise click.ClickException(f"{path} is named for two outputs. Give each its own name.")
        names.add(os.path.realpath(path))


def _files_of(name: str | Path) -> list[str]:
    """Return the files that there are of an input; a name that exists is no pattern."""
    name = os.fspath(name)
    return (
        [name] if os.path.exists(name) else [file for file in glob.glob(name, recursive=True) if os.path.exists(file)]
    )


def check_new(path: Path, force: bool) -> None:
    """Refuse to replace a file without --force."""
    if path.is_file() and not force:
        raise click.ClickException(f"{path} already exists. Choose another name, or replace it with --force.")


FORMS = ("csv", "parquet", "geojson")
FORMS_BY_SUFFIX = {".parquet": "parquet", ".pq": "parquet", ".geojson": "geojson"}


class LabelsFile:
    """A table of labels, written piece by piece: CSV, Parquet or GeoJSON, by the name of the file or by `form`."""

    def __init__(self, file: IO[bytes], path: Path, form: str | None = None) -> None:
        self._file, self._form = file, form or FORMS_BY_SUFFIX.get(path.suffix.lower(), "csv")
        self._writer: Any = None
        self.rows = 0

    def write(
        self, ids: Any, id_name: str, values: Mapping[str, NDArray[np.generic]], degrees: Floats | None = None
    ) -> None:
        """Append rows: their ids, then their values; GeoJSON needs longitude and latitude, (n, 2)."""
        import pyarrow as pa

        if id_name in values:
            raise click.ClickException(f"the column {id_name!r} of --id has the name of an output column. Rename it.")
        if self._form == "geojson":
            self._write_points(ids, id_name, values, degrees)
            return
        table = pa.table({id_name: ids, **{name: pa.array(value) for name, value in values.items()}})
        if self._writer is None:
            self._writer = self._opened(table.schema)
        self._writer.write_table(table)
        self.rows += table.num_rows

    def _write_points(self, ids: Any, id_name: str, values: Mapping[str, Any], degrees: Floats | None) -> None:
        from knoll.tables.geojson import WITHOUT, PointsFile

        if degrees is None:
            raise click.ClickException(WITHOUT)
        self._writer = self._writer or PointsFile(self._file)
        self._writer.write(ids, id_name, values, degrees)
        self.rows = self._writer.rows

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
