"""Cells that are text: numbers with signs and separators, words for true and false, dates and times.

All functions take the distinct texts of a column, so that a text is matched once however often it occurs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from knoll._typing import Bools, Floats, Ints

__all__ = [
    "BOOLEANS",
    "DATE_FORMATS",
    "MISSING_WORDS",
    "TRUTH",
    "Texts",
    "date_pattern",
    "is_text",
    "loose_dates",
    "loose_numbers",
    "matches",
    "number_formats",
    "parse_dates",
    "parse_numbers",
    "parse_times",
    "units_of",
]

MISSING_WORDS = (
    "", "na", "n/a", "n.a.", "nan", "null", "none", "?", "-", "--", "---", ".", "#n/a", "#n/a n/a", "#na", "<na>",
    "(null)", "nil", "missing", "not available", "k.a.", "#value!", "#div/0!", "#ref!", "#name?", "#null!", "nat",
)  # fmt: skip
BOOLEANS = (  # words for false and true
    ("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"), ("off", "on"), ("0", "1"), ("nein", "ja"),
    ("non", "oui"), ("no", "sí"), ("no", "si"), ("nee", "ja"), ("falsch", "wahr"), ("não", "sim"), ("faux", "vrai"),
)  # fmt: skip
TRUTH = {word: truth for pair in BOOLEANS for truth, word in enumerate(pair)}

_SPACE = "[\\s\u00a0\u202f]"
_CURRENCY = (
    "[€$£¥₹₩₽₺₴฿₪¢]|(?:US|A|C|NZ|HK)\\$|(?i:eur|usd|gbp|chf|jpy|sek|nok|dkk|pln|czk|huf|inr|cny|rub|kr|fr|rs|zł)\\.?"
)
_SEPARATORS = {"": "", " ": "[ \u00a0\u202f]", "'": "['’]", ".": "\\.", ",": ","}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d{1,9})?))?"
_TOKENS = {
    "%Y": r"(?P<year>\d{4})", "%y": r"(?P<year>\d{2})", "%m": r"(?P<month>\d{1,2})", "%d": r"(?P<day>\d{1,2})",
    "%b": r"(?P<name>[A-Za-z]{3,9})\.?", "%H": r"(?P<hour>\d{1,2})", "%M": r"(?P<minute>\d{2})",
    "%S": r"(?P<second>\d{2})",
}  # fmt: skip
DATE_FORMATS = (  # that are recognised; where day and month may be swapped, both orders follow each other
    "iso", "%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m.%d.%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%m.%d.%y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y",
)  # fmt: skip


# ---- distinct texts --------------------------------------------------------------------------------------------------


def is_text(dtype: pa.DataType) -> bool:
    """Whether cells of this type are text."""
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype))


@dataclass(frozen=True)
class Texts:
    """The distinct texts of a column, without space at their ends, and which of them each row has."""

    values: pa.Array  # (u,) strings, none of them missing
    index: NDArray[np.int32]  # (n,), −1 where the value is missing
    sentinels: tuple[str, ...]  # that stand for a missing value, as they are written

    @classmethod
    def of(cls, column: pa.ChunkedArray, sentinels: tuple[str, ...] = ()) -> Texts:
        """Find them in a column of text, or of a dictionary of texts."""
        values, index = _encoded(column)
        trimmed = pc.utf8_trim_whitespace(values)
        missing = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(MISSING_WORDS)).to_numpy(zero_copy_only=False)
        if sentinels:
            missing |= pc.is_in(trimmed, value_set=pa.array(sentinels)).to_numpy(zero_copy_only=False)
        used = np.bincount(index[index >= 0], minlength=len(values)) > 0  # a dictionary may have more than these rows
        kept = used & ~missing
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        index = np.append(number, np.int32(-1))[index]  # −1 takes the last entry
        missing_texts = sorted({text for text in trimmed.filter(pa.array(used & missing)).to_pylist() if text})
        return cls(trimmed.filter(pa.array(kept)), index, tuple(missing_texts))

    @cached_property
    def counts(self) -> Ints:
        """How many rows have each."""
        return np.bincount(self.index[self.index >= 0], minlength=len(self.values)).astype(np.int64)

    @property
    def known(self) -> int:
        """How many rows have a value."""
        return int((self.index >= 0).sum())

    def share(self, which: Bools) -> float:
        """Return the share of the rows with a value that have one of these texts."""
        return float(self.counts[which].sum()) / max(self.known, 1)

    def per_row(self, numbers: Floats) -> Floats:
        """Return the number of each row, NaN where the value is missing."""
        return np.append(numbers, np.nan)[self.index]

    def example(self, which: Bools) -> str:
        """Return the first row that has one of these texts, from 1, and the text."""
        row = int(np.append(which, False)[self.index].argmax())
        return f"row {row + 1} has {self.values[int(self.index[row])].as_py()!r:.60}"


def _encoded(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return distinct texts and, per row, which of them it has, −1 for none."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return pa.array([], pa.string()), np.empty(0, np.int32)
    values = column.chunk(0).dictionary
    if pa.types.is_boolean(values.type):
        values = pc.if_else(values, "true", "false")
    codes = [pc.fill_null(pc.cast(chunk.indices, pa.int32()), -1).to_numpy() for chunk in column.chunks]
    index = np.concatenate(codes).astype(np.int32, copy=False)
    nulls = pc.is_null(values).to_numpy(zero_copy_only=False)
    if nulls.any():  # a dictionary may have a null of its own
        index = np.where(np.append(nulls, False)[index], np.int32(-1), index)
        values = pc.fill_null(values.cast(pa.large_string()), "")
    return values.cast(pa.large_string()), index


def matches(values: pa.Array, pattern: str) -> Bools:
    """Return which texts match."""
    found: Bools = pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False)
    return found


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _number_pattern(form: str) -> str:
    """Return the pattern of a number with a decimal mark and separators of thousands, such as ".,"."""
    decimal, thousands = _SEPARATORS[form[:1] or "."], _SEPARATORS[form[1:]]
    whole = rf"\d+|[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+" if thousands else r"\d+"
    return (
        rf"^(?P<sign>[(+\-−]?){_SPACE}*(?P<before>{_CURRENCY})?{_SPACE}*(?P<inner>[+\-−]?){_SPACE}*"
        rf"(?P<number>(?:(?:{whole})(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?)"
        rf"{_SPACE}*(?P<after>%|{_CURRENCY})?{_SPACE}*\)?$"
    )


_ORDER = {  # of the formats that are tried; a text such as 43,042 fits two of them
    ".": ("", ".,", ",", ",.", ". ", ", ", ".'", ",'"),
    ",": (",", ",.", "", ".,", ", ", ". ", ",'", ".'"),
}


def loose_numbers(values: pa.Array) -> Bools:
    """Return which texts might be numbers in some format."""
    before = rf"(?:{_CURRENCY}|[+\-−]|{_SPACE})*"
    number = rf"[\d.,](?:[\d.,'’]|{_SPACE})*(?:[eE][+-]?\d+)?"
    return matches(values, rf"^[(]?{before}{number}(?:%|{_CURRENCY})?{_SPACE}*\)?$")


def number_formats(values: pa.Array, decimal: str = ".") -> list[str]:
    """Return the formats in which all texts are numbers, the one to take first; `decimal` is the mark of the file."""
    return [form for form in _ORDER[decimal] if bool(matches(values, _number_pattern(form)).all())]


def parse_numbers(values: pa.Array, form: str) -> Floats:
    """Return the texts as numbers, NaN where one is none."""
    found = pc.extract_regex(values, _number_pattern(form))
    number = pc.struct_field(found, "number")
    if form[1:]:
        number = pc.replace_substring_regex(number, _SEPARATORS[form[1:]], "")
    if form[:1] == ",":
        number = pc.replace_substring(number, ",", ".")
    out = np.array(pc.cast(number, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    negative = np.zeros(len(values), dtype=bool)
    for name in ("sign", "inner"):
        signs = pc.is_in(pc.struct_field(found, name), value_set=pa.array(["-", "−", "("], pa.large_string()))
        negative |= signs.to_numpy(zero_copy_only=False)
    return np.where(negative, -out, out)


def units_of(values: pa.Array, form: str) -> list[str]:
    """Return the signs beside the numbers, each once."""
    found = pc.extract_regex(values, _number_pattern(form))
    signs = [pc.unique(pc.struct_field(found, name)).to_pylist() for name in ("before", "after")]
    return sorted({sign.rstrip(".").upper() for sign in (*signs[0], *signs[1]) if sign})


# ---- dates -----------------------------------------------------------------------------------------------------------


def loose_dates(values: pa.Array) -> Bools:
    """Return which texts might be dates in some format."""
    return matches(values, r"^[A-Za-z]{0,9}\.? ?\d{1,4}[-/., ]+\w{1,9}\.?[-/., ]*\d{0,4}(?:[ T]\d.*)?$")


def date_pattern(form: str) -> str:
    """Return the pattern of a date; a time of day may follow."""
    if form == "iso":
        zone = r"(?P<zone>Z|[+-]\d{2}:?\d{2})?"
        return rf"^(?P<year>\d{{4}})-(?P<month>\d{{2}})-(?P<day>\d{{2}})(?:[T ]{_CLOCK}{zone})?$"
    tokens = re.split(r"(%[A-Za-z])", form)
    body = "".join(_TOKENS.get(token, re.escape(token)) for token in tokens)
    return rf"^{body}$" if "%H" in form else rf"^{body}(?:[T ]{_CLOCK})?$"


def parse_dates(values: pa.Array, form: str) -> Floats:
    """Return the texts as days since 1970-01-01, NaN where one is no date of the calendar."""
    found = pc.extract_regex(values, date_pattern(form))
    names = {found.type.field(i).name for i in range(found.type.num_fields)}

    def field(name: str, default: float) -> Floats:
        if name not in names:
            return np.full(len(values), default)
        text = pc.struct_field(found, name)
        text = pc.if_else(pc.equal(text, ""), str(int(default)), pc.replace_substring(text, ",", "."))
        return np.array(pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)

    year, day = field("year", 1970), field("day", 1)
    month = field("month", 1) if "name" not in names else _month_numbers(pc.struct_field(found, "name"))
    if "%y" in form:
        year = np.where(year <= 68, year + 2000, year + 1900)  # as POSIX has it
    seconds = 3600 * field("hour", 0) + 60 * field("minute", 0) + field("second", 0)
    known = (
        np.isfinite(year + month + day + seconds) & (month >= 1) & (month <= 12) & (day >= 1) & (field("hour", 0) < 25)
    )
    months = np.where(known, (year - 1970) * 12 + month - 1, 0).astype(np.int64).astype("datetime64[M]")
    begin, end = (each.astype("datetime64[D]").astype(np.int64) for each in (months, months + 1))
    known &= begin + day - 1 < end
    total = (begin + day - 1) * 86400 + seconds - (_offsets(found) if "zone" in names else 0)
    return np.where(known, total / 86400, np.nan)


def parse_times(values: pa.Array) -> Floats:
    """Return times of day as hours."""
    found = pc.extract_regex(values, rf"^{_CLOCK}$")
    fields = []
    for name in ("hour", "minute", "second"):
        text = pc.struct_field(found, name)
        text = pc.if_else(pc.equal(text, ""), "0", pc.replace_substring(text, ",", "."))
        fields.append(np.array(pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64))
    seconds = 3600 * fields[0] + 60 * fields[1] + fields[2]
    good = (fields[0] <= 24) & (fields[1] < 60) & (fields[2] < 61)
    return np.where(good, seconds / 3600, np.nan)


def _month_numbers(names: pa.Array) -> Floats:
    known = {name: float(number + 1) for number, name in enumerate(_MONTHS)}
    return np.array([known.get((name or "")[:3].lower(), np.nan) for name in names.to_pylist()], dtype=np.float64)


def _offsets(found: pa.StructArray) -> Floats:
    """Return the seconds that zones are ahead of UTC."""
    zones = pc.struct_field(found, "zone").to_pylist()
    return np.array([_offset(zone) for zone in zones], dtype=np.float64)


def _offset(zone: str | None) -> float:
    if not zone or zone == "Z":
        return 0.0
    digits = zone[1:].replace(":", "")
    seconds = 3600.0 * int(digits[:2]) + 60.0 * int(digits[2:])
    return -seconds if zone[0] == "-" else seconds
