"""Short names of clusters, from the columns that set them apart: "high spend, few visits"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from knoll.explanation.columns import AnyColumn, CategoryColumn, NumberColumn
from knoll.explanation.profiles import ColumnProfile
from knoll.tables.positions import is_latitude

__all__ = ["proposed_names"]

_COLUMNS = 2  # in a name, more where two clusters would have the same
_LONGEST = 28  # characters of a column's name or a level
_NOISE = "noise"
_HEADINGS = {  # of a latitude or not, and a direction
    (True, "high"): "north", (True, "low"): "south", (False, "high"): "east", (False, "low"): "west",
}  # fmt: skip
_FALSE = ("false", "no", "n", "f", "off", "0", "nein", "non", "nee", "falsch", "não", "faux")


def proposed_names(
    labels: Sequence[int], traits: Sequence[Sequence[ColumnProfile]], columns: Mapping[str, AnyColumn]
) -> list[str]:
    """Return a name for each cluster, no two of them the same; `traits` are in order of their effects."""
    words = [_distinct([_adjective(trait, columns[trait.column]) for trait in found]) for found in traits]
    lengths = [_COLUMNS] * len(labels)
    while True:
        names = [
            _NOISE if label < 0 else _joined(found[:length]) or f"cluster {label}"
            for label, found, length in zip(labels, words, lengths, strict=True)
        ]
        longer = [at for at, name in enumerate(names) if names.count(name) > 1 and lengths[at] < min(len(words[at]), 4)]
        if not longer:
            return _numbered(names)
        for at in longer:
            lengths[at] += 1


def _distinct(words: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(words))


def _joined(words: Sequence[tuple[str, str]]) -> str:
    """Join words such as ("high", "spend"); those with the same adjective share it."""
    out: dict[str, list[str]] = {}
    for adjective, noun in words:
        out.setdefault(adjective, []).append(noun)
    clauses = [
        f"{adjective} {' and '.join(nouns)}" if adjective else ", ".join(nouns) for adjective, nouns in out.items()
    ]
    return ", ".join(clauses)


def _numbered(names: list[str]) -> list[str]:
    """Distinguish names that are still the same by a number."""
    taken = set(names)
    out: list[str] = []
    for name in names:
        unique, number = name, 2
        while unique in out:
            unique, number = f"{name} ({number})", number + 1
            if unique in taken and unique not in out:
                continue
        out.append(unique)
    return out


def _adjective(trait: ColumnProfile, column: AnyColumn) -> tuple[str, str]:
    name = short_name(trait.column)
    if isinstance(column, CategoryColumn):
        return _level(trait, column, name)
    if column.format.unit == "°" and trait.direction in ("high", "low"):
        return "", _HEADINGS[is_latitude(trait.column), trait.direction]
    if column.type in ("date", "time"):
        adjectives = {"high": "late", "low": "early", "medium": "medium", "extreme": "early or late"}
    elif _countable(column, name):
        adjectives = {"high": "many", "low": "few", "medium": "some", "extreme": "few or many"}
    else:
        adjectives = {"high": "high", "low": "low", "medium": "medium", "extreme": "extreme"}
    return adjectives.get(trait.direction, ""), name


def _countable(column: NumberColumn, name: str) -> bool:
    """Whether a column is a count by its values and its name: whole numbers from 0 on, a plural."""
    known = column.values[~column.missing]
    return (
        column.whole and not column.format.unit and bool(known.min() >= 0) and re.search(r"[^su]s$", name) is not None
    )


def _level(trait: ColumnProfile, column: CategoryColumn, name: str) -> tuple[str, str]:
    best = trait.levels[0].value
    if column.type == "boolean":
        return ("no", name) if best.lower() in _FALSE else ("", name)
    return "", f"{name} {_cut(best)}"


def short_name(column: str) -> str:
    """Return the name of a column as words, without a unit in brackets.

    Examples
    --------
    >>> from knoll.explanation.naming import short_name
    >>> short_name("sepal length (cm)"), short_name("lastPurchase_date"), short_name("GDP")
    ('sepal length', 'last purchase date', 'GDP')
    """
    bare = re.sub(r"\s*[(\[][^)\]]*[)\]]\s*$", "", column).strip() or column
    spaced = re.sub(r"(?<=[a-zà-ÿ])(?=[A-Z])", " ", re.sub(r"[_.\s]+", " ", bare)).strip() or column
    words = [word.lower() if re.fullmatch(r"[A-Z][a-zà-ÿ]+", word) else word for word in spaced.split()]
    return _cut(" ".join(words))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"
