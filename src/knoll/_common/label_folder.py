"""Labels in files, one for each block of input: all of them, or none."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from knoll._typing import Bools, Ints
from knoll.exceptions import InvalidParameter

__all__ = ["LabelFolder"]


class LabelFolder:
    """A folder that appears with all its files when the `with` block succeeds, and does not when it fails.

    form "npy": labels as int64; "parquet": columns `label` and `core`.
    """

    def __init__(self, path: Path, form: str) -> None:
        self.path, self._form = path, form
        self._target = Path(os.path.abspath(path))
        self._lengths: list[int] = []
        self._number = self._left = 0  # of the file, and how many of its rows are still to come
        self._file: Any = None
        if form not in ("npy", "parquet"):
            raise InvalidParameter(f"form must be 'npy' or 'parquet', got {form!r}.")
        if form == "parquet" and importlib.util.find_spec("pyarrow") is None:
            raise InvalidParameter("form='parquet' needs pyarrow, which is not installed: pip install \"knoll[cli]\".")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InvalidParameter(f"labels: {path} already exists. Name a folder that is empty or does not exist.")
        self._made = self._target.with_name(f".{self._target.name}.{secrets.token_hex(8)}.part")

    def __enter__(self) -> LabelFolder:
        try:
            self._made.mkdir(parents=True)
        except OSError as error:
            raise self._unwritable(error) from None
        return self

    def _unwritable(self, error: OSError) -> InvalidParameter:
        return InvalidParameter(f"labels: {self.path} cannot be written: {error.strerror}. Name another folder.")

    def __exit__(self, error: Any, *_: object) -> None:
        try:
            if self._file is not None:  # labels did not come to their end
                with contextlib.suppress(Exception):
                    self._file.close()
            if error is None:
                if self._target.exists():
                    self._target.rmdir()  # empty: `os.replace` takes that for an obstacle on Windows
                os.replace(self._made, self._target)
        except OSError as reason:
            raise self._unwritable(reason) from None
        finally:
            shutil.rmtree(self._made, ignore_errors=True)

    def begin(self, lengths: list[int]) -> None:
        """Say how many rows each block has."""
        self._lengths = lengths
        self._left = lengths[0]

    def write(self, labels: Ints, core: Bools) -> None:
        """Append the labels of the next rows."""
        while len(labels):
            count = min(self._left, len(labels))
            try:
                self._write(labels[:count], core[:count])
            except OSError as error:
                raise self._unwritable(error) from None
            labels, core = labels[count:], core[count:]

    def _write(self, labels: Ints, core: Bools) -> None:
        """Append to the file of one block, and close it when it is whole."""
        if self._file is None:
            self._file = self._opened()
        self._append(labels, core)
        self._left -= len(labels)
        if self._left:
            return
        self._file.close()
        self._file = None
        self._number += 1
        self._left = self._lengths[self._number] if self._number < len(self._lengths) else 0

    def _opened(self) -> Any:
        path = self._made / f"part-{self._number:05d}.{self._form}"
        if self._form == "npy":
            file = path.open("wb")
            header = {"descr": "<i8", "fortran_order": False, "shape": (self._left,)}
            np.lib.format.write_array_header_1_0(file, header)
            return file
        import pyarrow as pa
        import pyarrow.parquet

        return pyarrow.parquet.ParquetWriter(path, pa.schema([("label", pa.int64()), ("core", pa.bool_())]))

    def _append(self, labels: Ints, core: Bools) -> None:
        if self._form == "npy":
            self._file.write(np.ascontiguousarray(labels, dtype="<i8").data)
            return
        import pyarrow as pa

        self._file.write_table(pa.table({"label": labels, "core": core}))
