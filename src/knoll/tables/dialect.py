"""How a text is written: encoding, delimiter, decimal mark, names; guessed from its first lines.

Lines end at a line feed, a carriage return, or both, and nowhere else: form feeds, U+0085 and U+2028 are ordinary
characters. The first line has the names of the columns unless all its cells are numbers or missing values; then it is a
row, unless the caller decides otherwise or expects names that are on it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow.csv

from knoll.exceptions import BadData
from knoll.tables.formats import READABLE, check_format
from knoll.tables.limits import check_width
from knoll.tables.reading import BY_CONTENTS, Reading

__all__ = ["NULL_VALUES", "NUMBER", "SPACE", "Dialect", "distinct_names"]

NULL_VALUES = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", "#N/A"]
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
SPACE = " \t\r\n\xa0"  # around a name or a number; other characters belong to it

_LEVELS = 1 << 20  # different texts in a block
_LINES = 50  # that the guess is made from
_LINE = 1 << 6  # lines that a block of the reader takes at least, where lines are long
_ROW_NAMES = "row.names"
_SHORT_HEADER = f"the first line has one name too few: the first column has the names of rows; --id {_ROW_NAMES}"
_DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True)
class Dialect:
    """What the parser of a text needs to know.

    Attributes
    ----------
    encoding, delimiter, decimal : str
        "utf-8", "latin-1" or "utf-16"; what separates cells; the decimal mark.
    names : tuple of str
        The columns, each with a name of its own.
    header : int
        The lines before the first row.
    quoted : bool
        Whether cells may be quoted, and so have several lines.
    longest : int
        The characters of the longest row of the sample.
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
    def guess(cls, sample: bytes, name: str, reading: Reading = BY_CONTENTS, expected: Collection[str] = ()) -> Dialect:
        """Guess from the first lines of a text what `reading` does not say; `expected` are names of columns."""
        lines, encoding = _decoded(sample, name)
        delimiter = _delimiter([line for line in lines if line.strip(SPACE)][:_LINES])
        blank = next(number for number, line in enumerate(lines) if line.strip(SPACE))
        check_width(lines[blank].count(delimiter) + 1, name)
        rows = _parsed(lines[blank:], delimiter, name)
        first, height = rows[0]
        cells = [row for row, _ in rows]
        bare = all(NUMBER.fullmatch(cell) or cell in NULL_VALUES for cell in first)
        by_contents = not bare or (len(expected) > 0 and set(expected) <= set(first))
        named = by_contents if reading.header is None else reading.header
        short = named and len(cells) > 2 and {len(row) for row in cells[1:]} == {len(first) + 1}
        if short:
            first = [_ROW_NAMES, *first]
        if len(rows) == 1 and named:
            lack = "rows" if bare else "numbers"
            raise BadData(f"{name} has one line and no {lack}: a table has a line of names and then rows.")
        return cls(
            encoding,
            delimiter,
            "," if delimiter != "," and _decimal_comma(cells[1:] or cells) else ".",
            tuple(distinct_names(first if named else [""] * len(first))),
            blank + height if named else 0,
            b'"' in sample,
            max(max(map(len, lines)), *(sum(map(len, row)) + len(row) for row in cells)),
            _SHORT_HEADER if short else "" if named or reading.header is not None else _no_names(first),
        )

    def block(self, least: int) -> int:
        """Return the bytes that should be parsed at a time: `least`, or enough for some of the longest rows."""
        return max(least, _LINE * self.longest)

    def options(
        self, block: int, types: Mapping[str, Any], *, threads: bool = False, only: Sequence[str] | None = None
    ) -> tuple[pyarrow.csv.ReadOptions, pyarrow.csv.ParseOptions, pyarrow.csv.ConvertOptions]:
        """Return pyarrow's options; `types` are those of some columns, `only` the columns to read.

        Text comes as dictionaries, so that each different text is parsed once.
        """
        return (
            pyarrow.csv.ReadOptions(
                column_names=list(self.names), skip_rows=self.header, encoding=self.encoding,
                block_size=self.block(block), use_threads=threads,
            ),
            pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=self.quoted),
            pyarrow.csv.ConvertOptions(
                null_values=NULL_VALUES, decimal_point=self.decimal, column_types=dict(types),
                include_columns=None if only is None else list(only), auto_dict_encode=True,
                auto_dict_max_cardinality=_LEVELS,
            ),
        )  # fmt: skip


def _decoded(sample: bytes, name: str) -> tuple[list[str], str]:
    """Return the lines of a sample, at least one of which is not blank, and its encoding."""
    check_format(sample, name)
    if b"\x00" in sample and not sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadData(f"{name} cannot be read. Supported formats: {READABLE}.")
    encoding = _encoding(sample)
    text = sample.decode(encoding, errors="replace").lstrip("\ufeff")
    if not text.strip(SPACE):
        raise BadData(f"{name} is empty.")
    return list(io.StringIO(text, newline="")), encoding


def _parsed(lines: Sequence[str], delimiter: str, name: str) -> list[tuple[list[str], int]]:
    """Return the cells of the first rows and the number of the line that each ends on."""
    try:
        rows = list(islice(_rows(lines, delimiter), _LINES))
    except csv.Error as error:
        reason = str(error)
        if "field limit" in reason:
            most = csv.field_size_limit()
            reason = f"a cell has more than {most} characters. Shorten it, or leave that column out"
        raise BadData(f"{name} cannot be read: {reason}.") from None
    if not rows:
        raise BadData(f"{name} is empty.")
    return rows


def distinct_names(names: Sequence[str]) -> list[str]:
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
        if error.start < len(sample) - 4:  # a character cut at the end of the sample proves nothing
            return "latin-1"
    return "utf-8"


def _delimiter(lines: Sequence[str]) -> str:
    """Choose what splits the lines into the same number of cells, and into the most."""
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
