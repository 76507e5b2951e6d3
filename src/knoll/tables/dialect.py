"""How a text is written: encoding, what separates cells, decimal mark, names; guessed from its first lines.

Lines end at a line feed, a carriage return, or both, and nowhere else: form feeds, U+0085 and U+2028 are letters like
others. The first line has the names of the columns unless all its cells are numbers or missing values; then it is a
row, except where the caller says otherwise or looks for names that are on it.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow.csv

from knoll.exceptions import BadData
from knoll.tables.formats import READABLE, refuse_format

__all__ = ["ABSENT", "MOST_COLUMNS", "NUMBER", "SPACE", "Dialect", "distinct", "refuse_wide"]

ABSENT = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", "#N/A"]
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
MOST_COLUMNS = 50_000  # more are a table that lies on its side

_LINES = 50  # that are looked at
SPACE = " \t\r\n\xa0"  # around a name or a number; other characters belong to it
_LINE = 1 << 6  # lines that a block of the reader has room for, where lines are long
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
        The letters of the longest row that was looked at.
    note : str
        What the user should know about the guess.
    """

    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    header: int
    quoted: bool
    longest: int
    note: str = ""

    @classmethod
    def of(
        cls, sample: bytes, name: str, *, cut: bool, header: bool | None = None, known: Collection[str] = ()
    ) -> Dialect:
        """Guess from the beginning of a text; `cut` where its last line may go on.

        `header` says whether the first line has names. Where it is None the contents decide: a line of numbers has
        names if those that the caller looks for, `known`, are all on it.
        """
        if not sample.removeprefix(codecs.BOM_UTF8).strip():
            raise BadData(f"{name} is empty.")
        refuse_format(sample, name)
        if b"\x00" in sample and not sample.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise BadData(f"{name} cannot be read. Supported formats: {READABLE}.")
        encoding = _encoding(sample)
        text = sample.decode(encoding, errors="replace").lstrip("\ufeff")
        every = list(io.StringIO(text, newline=""))
        lines = every[:-1] if cut else every
        blank = next((number for number, line in enumerate(lines) if line.strip(SPACE)), None)
        if blank is None:
            raise BadData(f"{name} cannot be read: its first line has no end.")
        delimiter = _delimiter([line for line in lines[blank:] if line.strip(SPACE)][:_LINES])
        refuse_wide(lines[blank].count(delimiter) + 1, name)
        try:
            rows = list(islice(_rows(lines[blank:], delimiter), _LINES))
        except csv.Error as error:
            if "field limit" in str(error):
                most = csv.field_size_limit()
                told = f"a cell has more than {most} characters. Shorten it, or leave that column out"
                raise BadData(f"{name} cannot be read: {told}.") from None
            raise BadData(f"{name} cannot be read: {error}.") from None
        if not rows:
            raise BadData(f"{name} is empty.")
        if cut and len(rows) > 2:
            rows.pop()  # its quoted cell may go on
        first, height = rows[0]
        cells = [row for row, _ in rows]
        bare = all(NUMBER.fullmatch(cell) or cell in ABSENT for cell in first)
        named = header if header is not None else not bare or (len(known) > 0 and set(known) <= set(first))
        if len(rows) == 1 and named:
            lack = "rows" if bare else "numbers"
            raise BadData(f"{name} has one line and no {lack}: a table has a line of names and then rows.")
        return cls(
            encoding,
            delimiter,
            "," if delimiter != "," and _decimal_comma(cells[1:] or cells) else ".",
            tuple(distinct(first if named else [""] * len(first))),
            blank + height if named else 0,
            b'"' in sample,
            max(max(map(len, lines)), *(sum(map(len, row)) + len(row) for row in cells)),
            "" if named or header is not None else _no_names(first),
        )

    # ---- for pyarrow -----------------------------------------------------------------------------------------------

    def read_options(self, **more: Any) -> pyarrow.csv.ReadOptions:
        """Return names, header and encoding as options; `more` are others."""
        return pyarrow.csv.ReadOptions(
            column_names=list(self.names), skip_rows=self.header, encoding=self.encoding, **more
        )

    def block(self, least: int) -> int:
        """Return the bytes that a reader should take at a time: as many as `least`, or room for the longest rows."""
        return max(least, _LINE * self.longest)

    def parse_options(self) -> pyarrow.csv.ParseOptions:
        """Return what parts cells as options."""
        return pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=self.quoted)

    def convert_options(
        self, kinds: Mapping[str, Any] | None = None, text: Collection[str] = ()
    ) -> pyarrow.csv.ConvertOptions:
        """Return what a number looks like as options; with `kinds`, those columns alone, each of its kind.

        The columns `text` are read as they are written, as bytes.
        """
        some: dict[str, Any] = {"column_types": dict.fromkeys(text, pyarrow.binary())}
        if kinds is not None:
            some = {"include_columns": list(kinds), "column_types": dict(kinds)}
        return pyarrow.csv.ConvertOptions(
            null_values=ABSENT, strings_can_be_null=kinds is None, decimal_point=self.decimal, **some
        )


def refuse_wide(columns: int, name: str) -> None:
    """Refuse a table with more columns than anybody means to give."""
    if columns > MOST_COLUMNS:
        raise BadData(
            f"{name} has {columns} columns; at most {MOST_COLUMNS} are taken. "
            "If rows and columns are swapped, transpose the table; else keep the columns that matter."
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


def _rows(lines: Sequence[str], delimiter: str) -> Iterator[tuple[list[str], int]]:
    """Yield the cells of each row, blank ones left out, and the number of the line that it ends on."""
    reader = csv.reader(lines, delimiter=delimiter)
    for row in reader:
        cells = [cell.strip(SPACE) for cell in row]
        if len(cells) > 1 or any(cells):
            yield cells, reader.line_num


def _no_names(first: Sequence[str]) -> str:
    shown = ", ".join(first[:5]) + (", …" if len(first) > 5 else "")
    return f"no column names found: the first line ({shown}) is all numbers and counts as a row; if not, add --header"


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
