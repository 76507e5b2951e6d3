"""How a text is written: encoding, what parts cells, decimal mark, names; guessed from its first lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.csv

from knoll.exceptions import BadData

__all__ = ["ABSENT", "MOST_COLUMNS", "NUMBER", "Dialect", "distinct", "refuse_wide"]

ABSENT = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", "#N/A"]
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
MOST_COLUMNS = 50_000  # more are a table that lies on its side

_LINES = 50  # that are looked at
_DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True)
class Dialect:
    """What the reader of a text must be told.

    Attributes
    ----------
    encoding, delimiter, decimal : str
        "utf-8", "latin-1" or "utf-16"; what parts cells; what parts a number from its fraction.
    names : tuple of str
        The columns, each with a name of its own.
    header : int
        The lines before the first row.
    quoted : bool
        Whether cells may be quoted, and so have several lines.
    longest : int
        The letters of the longest line that was looked at.
    """

    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    header: int
    quoted: bool
    longest: int

    @classmethod
    def of(cls, sample: bytes, name: str, *, cut: bool) -> Dialect:
        """Guess from the beginning of a text; `cut` where its last line may go on."""
        if not sample.strip():
            raise BadData(f"{name} is empty.")
        if b"\x00" in sample and not sample.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise BadData(f"{name} is no table that can be read here: CSV, TSV, Parquet, Feather, NPY and NPZ can.")
        encoding = _encoding(sample)
        every = sample.decode(encoding, errors="replace").lstrip("\ufeff").splitlines()
        lines = [line for line in (every[:-1] if cut else every) if line.strip()]
        if not lines:
            raise BadData(f"{name} is no table that can be read here: its first line has no end.")
        delimiter = _delimiter(lines[:_LINES])
        refuse_wide(lines[0].count(delimiter) + 1, name)
        try:
            cells = [row for row in csv.reader(lines[:_LINES], delimiter=delimiter) if row]
        except csv.Error as error:
            raise BadData(f"{name} is no table that can be read here: {error}.") from None
        bare = all(NUMBER.fullmatch(cell.strip()) or cell.strip() in ABSENT for cell in cells[0])
        if len(cells) == 1 and not bare:
            raise BadData(f"{name} has one line and no numbers: a table has a line of names and then rows.")
        return cls(
            encoding,
            delimiter,
            "," if delimiter != "," and _decimal_comma(cells[1:] or cells) else ".",
            tuple(distinct(["" if bare else cell.strip() for cell in cells[0]])),
            0 if bare else _header_lines(every),
            b'"' in sample,
            max(map(len, lines)),
        )

    # ---- for pyarrow -----------------------------------------------------------------------------------------------

    def read_options(self, **more: Any) -> pyarrow.csv.ReadOptions:
        """Return names, header and encoding as options; `more` are others."""
        return pyarrow.csv.ReadOptions(
            column_names=list(self.names), skip_rows=self.header, encoding=self.encoding, **more
        )

    def parse_options(self) -> pyarrow.csv.ParseOptions:
        """Return what parts cells as options."""
        return pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=self.quoted)

    def convert_options(self, kinds: Mapping[str, Any] | None = None) -> pyarrow.csv.ConvertOptions:
        """Return what a number looks like as options; with `kinds`, those columns alone, each of its kind."""
        some = {} if kinds is None else {"include_columns": list(kinds), "column_types": dict(kinds)}
        return pyarrow.csv.ConvertOptions(
            null_values=ABSENT, strings_can_be_null=kinds is None, decimal_point=self.decimal, **some
        )


def refuse_wide(columns: int, name: str) -> None:
    """Refuse a table with more columns than anybody means to give."""
    if columns > MOST_COLUMNS:
        raise BadData(
            f"{name} has {columns} columns; at most {MOST_COLUMNS} are taken. "
            "If rows and columns have changed places, turn it round; else keep the columns that matter."
        )


def distinct(names: Sequence[str]) -> list[str]:
    """Give columns without a name their number, and columns with the same name another."""
    out: dict[str, None] = {}
    for j, name in enumerate(names):
        chosen = name or f"column {j + 1}"
        while chosen in out:
            chosen += "'"
        out[chosen] = None
    return list(out)


def _encoding(sample: bytes) -> str:
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 4:  # a letter cut at the end of the sample proves nothing
            return "latin-1"
    return "utf-8"


def _delimiter(lines: Sequence[str]) -> str:
    """Choose what parts the lines into the same number of cells, and into most of them."""
    best, most = ",", (0.0, 1.0)
    for delimiter in _DELIMITERS:
        try:
            counts = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:  # a cell without end: not this one
            continue
        usual = max(set(counts), key=counts.count)
        agree = counts.count(usual) / len(counts)
        if usual > 1 and (agree, usual) > most:
            best, most = delimiter, (agree, float(usual))
    return best


def _decimal_comma(rows: Sequence[Sequence[str]]) -> bool:
    cells = [cell.strip() for row in rows for cell in row]
    return sum(bool(re.fullmatch(r"[+-]?\d+,\d+", cell)) for cell in cells) > sum("." in cell for cell in cells)


def _header_lines(lines: Sequence[str]) -> int:
    """Count the lines up to and with the header: blank ones before it too."""
    return next(number for number, line in enumerate(lines) if line.strip()) + 1
