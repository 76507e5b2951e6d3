"""Columns of a table: the type that a column of texts has, and the encoding of mixed types as one matrix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from knoll._typing import Floats, Labels

_MISSING = ["", "na", "n/a", "nan", "null", "none", "?", "-", "--"]
_BOOLEANS = [("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"), ("off", "on"), ("nein", "ja"), ("non", "oui")]
_NUMBERS = [("", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'")]
_DATES = [
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m.%d.%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%m.%d.%y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y",
]  # fmt: skip
_CLOCKS = ["", " %H:%M", " %H:%M:%S"]


def column_type(cells: Sequence[str]) -> tuple[str, list[float]]:
    """Return the type of a column of texts, and its values: NaN for a missing number, −1 for a missing category.

    The first type whose rule all cells follow is taken: a single value, two words for false and true, numbers in one
    format, dates in one format, times of day, and categories of at most 100 levels on two rows each, on average. Other
    columns are identifiers, where every text is different, or text; they have no values.

    Parameters
    ----------
    cells : sequence of str
        The texts.

    Returns
    -------
    type : str
        "number", "date", "time", "boolean", "category", "constant", "empty", "id" or "text".
    values : list of float
        Numbers; days since 1970-01-01; hours; 0 and 1; the position among the sorted levels.

    Examples
    --------
    >>> from knoll.reference import column_type
    >>> column_type(["€1,200", "n/a", "€80"])
    ('number', [1200.0, nan, 80.0])
    >>> column_type(["red", "blue", "red", "red"])
    ('category', [1, 0, 1, 1])
    """
    texts = [cell.strip() for cell in cells]
    known = [text for text in texts if text.lower() not in _MISSING]
    levels = sorted(set(known))
    if len(levels) < 2:
        return ("constant" if levels else "empty"), []
    for pair in _BOOLEANS:
        if {level.lower() for level in levels} == set(pair):
            return "boolean", [pair.index(text.lower()) if text in levels else -1 for text in texts]
    rules: list[tuple[str, Callable[[str, Any], float | None], Sequence[Any]]] = [
        ("number", _number, _NUMBERS), ("date", _days, _DATES), ("time", _hours, [""]),
    ]  # fmt: skip
    for name, parse, formats in rules:
        for form in formats:
            found = {level: parse(level, form) for level in levels}
            values = {level: value for level, value in found.items() if value is not None}
            if len(values) == len(levels):
                return name, [values.get(text, np.nan) for text in texts]
    if len(levels) <= 100 and 2 * len(levels) <= len(known):
        return "category", [levels.index(text) if text in levels else -1 for text in texts]
    return ("id" if len(levels) == len(known) else "text"), []


def _number(text: str, form: tuple[str, str]) -> float | None:
    """Read a number with a decimal mark, separators of thousands, and a sign of a currency or a percent sign."""
    decimal, thousands = form[0] or ".", form[1]
    bare = re.sub(r"[€$£¥%]|EUR|USD", "", text).strip()
    sign = -1.0 if re.match(r"[(−-]", bare) else 1.0
    bare = re.sub(r"^[(+−-]\s*|\)$", "", bare)
    whole = rf"(\d+|[1-9]\d{{0,2}}({re.escape(thousands)}\d{{3}})+)" if thousands else r"\d+"
    if not re.fullmatch(rf"({whole}({re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)([eE][+-]?\d+)?", bare):
        return None
    return sign * float((bare.replace(thousands, "") if thousands else bare).replace(decimal, "."))


def _days(text: str, form: str) -> float | None:
    for clock in _CLOCKS:
        try:
            return (datetime.strptime(text, form + clock) - datetime(1970, 1, 1)).total_seconds() / 86400
        except ValueError:
            continue
    return None


def _hours(text: str, form: str) -> float | None:
    days = _days(f"1970-01-01 {text}", "%Y-%m-%d")
    return None if days is None else round(days * 86400) / 3600


def encode_mixed(numeric: Floats, codes: Labels, levels: Sequence[int]) -> Floats:
    """Standardise numbers and encode categories so that each counts as one number.

    Level l of a category is the unit vector e_l, or 0 and 1 where there are two levels, less the mean and divided by
    √(1 − Σ pₗ²), where pₗ is the share of level l; with two levels by √(p₀ p₁). Then the mean squared distance of two
    rows over one category is 2, as it is over one standardised number.

    Parameters
    ----------
    numeric : ndarray of shape (n, p)
        Numbers, none of them missing.
    codes : ndarray of shape (n, q)
        Levels of categories, none of them missing.
    levels : sequence of int
        The number of levels of each category.

    Returns
    -------
    ndarray of shape (n, columns)
        Numbers, then a column per level; one for both of two levels.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.reference import encode_mixed
    >>> X = encode_mixed(np.array([[1.0], [3.0]]), np.array([[0], [1]]), [2])
    >>> X
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    blocks = [(numeric - numeric.mean(axis=0)) / numeric.std(axis=0)]
    for code, count in zip(codes.T, levels):
        block = np.eye(count)[code]  # (n, levels)
        share = block.mean(axis=0)
        width = np.sqrt(1 - (share**2).sum())
        if count == 2:
            block, share, width = block[:, 1:], share[1:], np.sqrt(share.prod())
        blocks.append((block - share) / width)
    return np.hstack(blocks)
