"""Open a file, find out its format by its first bytes, and read it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from knoll.tables.binary import READERS
from knoll.tables.input import open_input
from knoll.tables.json_lines import is_json_lines, open_json_lines
from knoll.tables.source import TableSource, reading
from knoll.tables.table import Table
from knoll.tables.text import open_text

__all__ = ["open_table", "read_table"]


@contextlib.contextmanager
def open_table(path: str | Path, *, header: bool | None = None, expected: Sequence[str] = ()) -> Iterator[TableSource]:
    """Open a file, or standard input for "-", to be read in pieces or whole.

    `header`: whether the first line of a text has the names of the columns. Where it is None the contents decide:
    a line of numbers has names if the `expected` ones are all on it.
    """
    name = "standard input" if str(path) == "-" else str(path)
    with open_input(path, name) as data:
        open_format = next((reader for magic, reader in READERS if data.start.startswith(magic)), None)
        if open_format is None and is_json_lines(data):
            open_format = open_json_lines
        if open_format is None:
            source = open_text(data, header, expected)
        else:
            with reading(name):
                source = open_format(data)
        yield source


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    truth: str | None = None,
    header: bool | None = None,
) -> Table:
    """Read all rows of a file; without `columns` every numeric column."""
    expected = [name for name in (*(columns or ()), ids, truth) if name is not None]
    with open_table(path, header=header, expected=expected) as source:
        return source.read(columns, ids, truth)
