"""Excel workbooks (.xlsx): the first sheet, whose first row that is not blank has the names of the columns."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from knoll._format import listed
from knoll.exceptions import BadData
from knoll.tables.dialect import distinct_names
from knoll.tables.input import Input
from knoll.tables.limits import check_unpacked, check_width
from knoll.tables.source import TableSource, in_memory

__all__ = ["column_of", "open_workbook"]


def open_workbook(data: Input) -> TableSource:
    """Read the first sheet that has cells."""
    try:
        import openpyxl
    except ImportError:
        raise BadData(
            f'{data.name} is an Excel workbook; reading it needs openpyxl. Run: pip install "knoll[formats]"'
        ) from None
    content = data.random_access().read()
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        check_unpacked(sum(member.file_size for member in members.infolist()), data.size, data.name)
    with contextlib.closing(openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)) as book:
        for sheet in book.worksheets:
            rows = [list(row) for row in _filled_rows(sheet)]
            if rows:
                return _source(rows, sheet.title, book.sheetnames, data)
    raise BadData(f"{data.name} is empty.")


def _filled_rows(sheet: Any) -> Iterator[Sequence[Any]]:
    for row in sheet.iter_rows(values_only=True):
        if any(cell is not None for cell in row):
            yield row


def _source(rows: list[list[Any]], title: str, sheets: Sequence[str], data: Input) -> TableSource:
    width = max(len(row) for row in rows)
    check_width(width, data.name)
    rows = [row + [None] * (width - len(row)) for row in rows]
    bare = all(cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool)) for cell in rows[0])
    names = distinct_names([""] * width if bare else ["" if cell is None else str(cell).strip() for cell in rows[0]])
    cells = rows if bare else rows[1:]
    if not cells:
        raise BadData(f"{data.name} has one line and no numbers: a table has a line of names and then rows.")
    columns = {name: column_of([row[j] for row in cells]) for j, name in enumerate(names)}
    others = [sheet for sheet in sheets if sheet != title]
    notes = (f"sheet {title!r} was taken, not {listed(others, 5)}",) if others else ()
    return in_memory(pa.table(columns), data.name, notes)


def column_of(cells: Sequence[Any]) -> pa.ChunkedArray:
    """Return a column; cells of several types become text, as they would be in a CSV."""
    try:
        return pa.chunked_array([pa.array(cells)])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        texts = [None if cell is None else str(cell) for cell in cells]
        return pa.chunked_array([pa.array(texts, pa.string())])
