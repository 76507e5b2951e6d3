"""Numbers, sizes and lists for people: shared by the terminal, the report and messages."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def duration(seconds: float) -> str:
    """Return a time with two digits: 12 s, 6.7 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"


def percent(share: float) -> str:
    """Return a share of less than all: two digits, and never 100 %."""
    return f"{min(99, round(100 * share))} %" if share >= 0.1 else f"{100 * share:.2g} %"


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
