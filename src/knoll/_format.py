"""Numbers, sizes and lists for people: shared by the terminal, the report and messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knoll._typing import Floats

_WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: 1 cluster, 2 clusters."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def byte_size(nbytes: int) -> str:
    """Return a number of bytes with three digits: 312 MB."""
    if nbytes < 1000:
        return f"{nbytes} bytes"
    power = 1 if nbytes < 999_500 else 2 if nbytes < 999_500_000 else 3
    return f"{nbytes / 1000**power:.3g} {('kB', 'MB', 'GB')[power - 1]}"


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_bytes(text: str) -> int:
    """Turn a size such as 500MB or 4GB into bytes; raise ValueError where it is none."""
    number = text.strip().upper().rstrip("KMGTB")
    unit = text.strip().upper()[len(number) :]
    try:
        size = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        size = -1.0
    if not 0 < size < 2**63:
        raise ValueError(f"{text!r} is not a size. Write 500MB or 4GB.")
    return int(size)


def duration(seconds: float) -> str:
    """Return a time with two digits: 12 s, 6.7 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"


def percent(share: float) -> str:
    """Return a share of less than all: two digits, and never 100 %."""
    return f"{min(99, round(100 * share))} %" if share >= 0.1 else f"{100 * share:.2g} %"


def share(fraction: float) -> str:
    """Return a share from nothing to all as whole percent; a small one is never 0 %, one below all never 100 %."""
    if fraction <= 0 or fraction >= 1:
        return "100 %" if fraction >= 1 else "0 %"
    return "< 1 %" if fraction < 0.005 else "> 99 %" if fraction >= 0.995 else f"{100 * fraction:.0f} %"


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with few digits, spaces between thousands and a true minus sign; a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == int(value) and abs(value) < 1e4:
        return str(int(value)).replace("-", "−")
    if 1e4 <= abs(value) < 1e7:
        return thousands(float(f"{value:.{digits}g}"))
    return f"{value:.{digits}g}".replace("-", "−")


def thousands(value: float) -> str:
    """Return a whole number with spaces between thousands, from five digits on."""
    if abs(value) < 10_000:
        return f"{value:.0f}".replace("-", "−")
    return f"{value:,.0f}".replace(",", "\u202f").replace("-", "−")


def two_digits(value: float) -> str:
    """Return a score with two decimals; no minus before a zero."""
    return f"{round(float(value), 2) + 0.0:.2f}".replace("-", "−")


def number_word(count: int) -> str:
    """Return a small number as a word."""
    return _WORDS[count] if count < len(_WORDS) else str(count)


# ---- the values of a column ----------------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1)
_DIGITS = 2  # of the interquartile range of a column that are shown beside its leading one
_MOST_DECIMALS = 6
_MANY = 1e15  # a number with so many digits, or a range below its inverse, is shown with an exponent
_ONE_DAY = 1.0


@dataclass(frozen=True)
class ColumnFormat:
    """How the values of one column are written: as many digits as distinguish its rows, in the form it came in.

    Attributes
    ----------
    type : {"number", "date", "time"}
        Dates are days since 1970-01-01, times of day hours.
    decimals : int or None
        Digits after the decimal mark; None is four significant digits with an exponent.
    unit : str
        A currency, "%" or "°".
    marks : str
        The decimal mark and, if the column has one, the separator of thousands, such as ".,".
    pattern : str
        Of a date: a format of `strftime`; empty for ISO.
    clock : bool
        Whether a date is written with the time of day.
    """

    type: str = "number"
    decimals: int | None = 0
    unit: str = ""
    marks: str = ""
    pattern: str = ""
    clock: bool = False

    def __call__(self, value: float | None) -> str:
        """Return a value of the column as text; a dash if there is none."""
        if value is None or not math.isfinite(value):
            return "–"
        if self.type == "date":
            return self._date(value)
        if self.type == "time":
            minutes = round(60 * value)
            return f"{minutes // 60:02d}:{minutes % 60:02d}"
        return self._with_unit(self._number(value))

    def exact(self, value: float) -> str:
        """Return a bound between values, with as many digits as it has."""
        if self.type == "date":
            return replace(self, clock=abs(value - round(value)) > 1 / 86400)(value)
        if self.type == "time" or self.decimals is None or not 1e-9 < abs(value) < _MANY:
            return self(value) if self.decimals is not None else self._with_unit(number(value, 12))
        digits = len(f"{value:.12f}".rstrip("0").partition(".")[2])
        return replace(self, decimals=max(digits, self.decimals) if digits else 0)(value)

    def _number(self, value: float) -> str:
        if self.decimals is None:
            return number(value)
        text = f"{abs(value):,.{self._decimals(value)}f}"
        whole, _, decimals = text.partition(".")
        separator = self.marks[1:] or ("\u202f" if len(whole) > 5 else "")  # from five digits on
        text = whole.replace(",", separator) + (f"{self.marks[:1] or '.'}{decimals}" if decimals else "")
        return f"−{text}" if value < 0 and any(digit in text for digit in "123456789") else text

    def _decimals(self, value: float) -> int:
        """Return the decimals of a value: one more for the mean of two whole numbers."""
        assert self.decimals is not None
        return 1 if self.decimals == 0 and abs(value) < 100 and (2 * value) % 2 == 1 else self.decimals

    def _with_unit(self, text: str) -> str:
        if not self.unit:
            return text
        if self.unit == "°":
            return f"{text}°"
        sign, digits = ("−", text[1:]) if text.startswith("−") else ("", text)
        return f"{text} {self.unit}" if self.unit == "%" or self.unit[0].isalpha() else f"{sign}{self.unit}{digits}"

    def _date(self, days: float) -> str:
        try:
            moment = _EPOCH + timedelta(days=round(days * 1440) / 1440 if self.clock else math.floor(days))
        except OverflowError:
            return "–"
        text = moment.strftime(self.pattern) if self.pattern else moment.date().isoformat()
        return f"{text} {moment:%H:%M}" if self.clock and "%H" not in self.pattern else text


def column_format(
    values: Floats, type: str = "number", unit: str = "", marks: str = "", weights: Floats | None = None
) -> ColumnFormat:
    """Choose how the values of a column are written; `marks` is the format it came in.

    A weight of w counts as w values.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll._format import column_format
    >>> column_format(np.array([5.1, 4.9, 6.3, 5.85]))(-2.776e-14), column_format(np.array([3.0, 21, 8]))(21.0)
    ('0.00', '21')
    >>> column_format(np.array([120.5, 43042.25]), unit="€", marks=".,")(43042.25)
    '€43,042'
    """
    import numpy as np  # the texts of the command line need none of it

    known = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(known)
    known = known[finite]
    if type == "date":
        pattern = "" if marks in ("", "iso") else marks
        return ColumnFormat(type, pattern=pattern, clock=bool(len(known) and np.ptp(known) < 3 * _ONE_DAY))
    if type == "time":
        return ColumnFormat(type)
    share = None if weights is None else weights[finite]
    return ColumnFormat(type, _decimals_of(known, share, unit), unit, marks)


def _decimals_of(known: Floats, weights: Floats | None, unit: str) -> int | None:
    """Return the decimals that resolve the interquartile range, and no more than the values have."""
    import numpy as np

    if not len(known) or not known.any():
        return 0
    low, high = _quartiles(known, weights)
    size = float(np.abs(known).max())
    extent = high - low or float(known.max() / 2 - known.min() / 2) or size
    if size >= _MANY or not extent > 1 / _MANY:
        return None
    wanted = _DIGITS - math.floor(math.log10(extent))
    if wanted > _MOST_DECIMALS:
        return None
    decimals = _written_decimals(known, max(0, wanted))
    return (2 if extent < 100 and decimals else 0) if unit not in ("", "%", "°") else decimals


def _quartiles(known: Floats, weights: Floats | None) -> tuple[float, float]:
    """Return the smallest values with a quarter, and three quarters, of the weight at or below them."""
    import numpy as np

    if weights is None:
        low, high = np.quantile(known, [0.25, 0.75], method="inverted_cdf")
        return float(low), float(high)
    order = np.argsort(known)
    shares = np.cumsum(weights[order]) / weights.sum()
    low, high = known[order[np.minimum(np.searchsorted(shares, [0.25, 0.75]), len(known) - 1)]]
    return float(low), float(high)


def _written_decimals(known: Floats, most: int) -> int:
    """Return how many decimals the values have, if that is less than `most`."""
    least = _decimals_up_to(known[:1000], 0, most)  # no fewer than those of some values
    return _decimals_up_to(known, least, most)


def _decimals_up_to(values: Floats, least: int, most: int) -> int:
    import numpy as np

    for decimals in range(least, most):
        scaled = values * 10.0**decimals
        if (np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(1.0, np.abs(scaled))).all():
            return decimals
    return most
