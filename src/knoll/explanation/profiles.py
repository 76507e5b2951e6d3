"""What sets a cluster apart in one column: quartiles and shares in the cluster and elsewhere, and one effect size.

The effect of a column on a cluster is a difference of two shares, so that it means the same for numbers and for
categories, and does not change under any increasing function of the column such as a logarithm:

    effect = max over R of  | P(x in R | cluster) − P(x in R | other rows) |

where R is an interval of a number (Kuiper's statistic) or a set of levels of a category (the total variation distance).
It is 0 if the column has the same distribution in the cluster as elsewhere, and 1 if R separates the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll._format import share
from knoll._typing import Floats
from knoll.explanation.columns import AnyColumn, CategoryColumn, NumberColumn
from knoll.explanation.groups import Groups, of_others

__all__ = ["ColumnProfile", "LevelShare", "profiles_of"]

_LEAST_EFFECT = 0.2  # of a column that counts as setting a cluster apart
_CHANCE = 2.0  # times √(1/n₁ + 1/n₂): effects of random groups are smaller (of Kuiper's statistic 99 %)
_ONE_SIDED = 0.8  # of the effect: then the range has one end only
_LEVELS = 3  # of a category that are named
_MISSING = 0.2  # difference of the shares of missing values that is mentioned


@dataclass(frozen=True)
class LevelShare:
    """A level of a category: its share in the cluster and in the other rows."""

    value: str
    share: float
    others: float

    @property
    def lift(self) -> float | None:
        """How many times as frequent the level is in the cluster as in the other rows; None if they have none."""
        return self.share / self.others if self.others > 0 else None


@dataclass(frozen=True)
class ColumnProfile:
    """One column in one cluster, compared with all other rows.

    Attributes
    ----------
    column, type : str
        The column and its type: "number", "date", "time", "boolean" or "category".
    used : bool
        Whether the clustering used the column.
    effect : float
        From 0 (the same distribution as elsewhere) to 1 (separated).
    distinctive : bool
        Whether the effect is at least 0.2, and more than random groups of these sizes would show.
    direction : str
        Of a number: "high", "low", "medium" (between two bounds) or "extreme" (outside of them); else empty.
    quartiles, others : tuple of 3 floats, or None
        The quartiles of the cluster and of the other rows.
    bounds : tuple of 2 floats, or None
        The range that sets the cluster apart; an end that is open is None.
    share, share_others : float
        The share of the rows with a value in that range, or at the levels that are more frequent in the cluster.
    levels : tuple of LevelShare
        Of a category: the levels, those that gain most in the cluster first.
    missing, missing_others : float
        The shares of missing values.
    text : str
        The same in words, such as "spend €1,240 (others €310)".
    """

    column: str
    type: str
    used: bool
    effect: float
    distinctive: bool
    direction: str
    quartiles: tuple[float, float, float] | None
    others: tuple[float, float, float] | None
    bounds: tuple[float | None, float | None] | None
    share: float
    share_others: float
    levels: tuple[LevelShare, ...]
    missing: float
    missing_others: float
    text: str
    details: str = ""


def profiles_of(column: AnyColumn, groups: Groups) -> list[ColumnProfile]:
    """Compare every group with the other rows in one column."""
    known = ~column.missing
    sizes = groups.sizes
    absent = groups.counts(np.zeros(len(known), np.int64), 1, column.missing)  # (g, 1)
    gaps = absent[:, 0] / sizes
    size_others = of_others(sizes[:, None])[:, 0]
    gaps_others = of_others(absent)[:, 0] / np.where(size_others > 0, size_others, 1.0)
    make = _of_numbers if isinstance(column, NumberColumn) else _of_levels
    if not known.any():
        return []
    found = make(column, groups, known)  # type: ignore[arg-type]
    return [_profile(column, facts, float(gaps[g]), float(gaps_others[g])) for g, facts in enumerate(found)]


def _profile(column: AnyColumn, facts: dict[str, Any], missing: float, missing_others: float) -> ColumnProfile:
    text, details = _describe(column, facts)
    if abs(missing - missing_others) >= _MISSING:
        details += f"; missing in {share(missing)}, others {share(missing_others)}"
    return ColumnProfile(
        column=column.name, type=column.type, used=column.used, missing=missing, missing_others=missing_others,
        text=text, details=details, **facts,
    )  # fmt: skip


def _distinctive(effect: float, here: float, others: float) -> bool:
    """Whether an effect is more than that of random groups of so many rows."""
    if not (here > 0 and others > 0):
        return False
    return bool(effect >= max(_LEAST_EFFECT, _CHANCE * np.sqrt(1 / here + 1 / others)))


# ---- numbers ---------------------------------------------------------------------------------------------------------


def quartiles(counts: Floats, values: Floats) -> tuple[float, float, float] | None:
    """Return the quartiles of values with these counts; where one falls between two values, their mean."""
    total = counts.sum()
    if not total > 0:
        return None
    cumulative = np.cumsum(counts) / total
    out = []
    for q in (0.25, 0.5, 0.75):
        tolerance = 1e-12
        at = int(np.searchsorted(cumulative, q - tolerance))
        above = at
        if abs(cumulative[at] - q) <= tolerance:
            above = at + 1 + int(np.argmax(counts[at + 1 :] > 0))
        out.append(float(values[at] / 2 + values[above] / 2) if above != at else float(values[at]))
    return out[0], out[1], out[2]


def _of_numbers(column: NumberColumn, groups: Groups, known: Any) -> list[dict[str, Any]]:
    bins = column.bins
    counts = groups.counts(np.maximum(bins.at, 0), len(bins.lower), known)  # (g, bins)
    found = []
    for here, others in zip(counts, of_others(counts), strict=True):
        facts = _interval(here, others, bins.lower, bins.upper) | {"levels": ()}
        found.append(facts | {"quartiles": quartiles(here, bins.middle), "others": quartiles(others, bins.middle)})
    return found


def _interval(here: Floats, others: Floats, lower: Floats, upper: Floats) -> dict[str, Any]:
    """Find the range in which the cluster has most, compared with the other rows."""
    n, m = float(here.sum()), float(others.sum())
    facts: dict[str, Any] = {
        "effect": 0.0, "distinctive": False, "direction": "", "bounds": None, "share": 1.0, "share_others": 1.0,
    }  # fmt: skip
    if not (n > 0 and m > 0):
        return facts
    gain = np.r_[0.0, np.cumsum(here) / n - np.cumsum(others) / m]  # (bins + 1,)
    gain[-1] = 0.0
    low, high = int(np.argmin(gain)), int(np.argmax(gain))
    effect = float(gain[high] - gain[low])
    one = max(gain[high], -gain[low])
    if one >= _ONE_SIDED * effect:
        effect = float(one)
        low, high = (0, high) if gain[high] >= -gain[low] else (low, len(here))
    inside, (begin, end) = low < high, (min(low, high), max(low, high))
    shares = [float(counts[begin:end].sum() / size) for counts, size in ((here, n), (others, m))]
    bounds = (
        None if begin == 0 else _between(upper[begin - 1], lower[begin]),
        None if end == len(here) else _between(upper[end - 1], lower[end]),
    )
    direction = "low" if bounds[0] is None else "high" if bounds[1] is None else "medium" if inside else "extreme"
    if not inside:
        shares = [1 - portion for portion in shares]
    facts |= {"effect": effect, "distinctive": _distinctive(effect, n, m), "direction": direction}
    return facts | {"bounds": bounds, "share": shares[0], "share_others": shares[1]}


def _between(low: float, high: float) -> float:
    return float(low / 2 + high / 2)


# ---- categories ------------------------------------------------------------------------------------------------------


def _of_levels(column: CategoryColumn, groups: Groups, known: Any) -> list[dict[str, Any]]:
    counts = groups.counts(np.where(known, column.codes, 0), len(column.levels), known)  # (g, levels)
    return [_levels(here, others, column.levels) for here, others in zip(counts, of_others(counts), strict=True)]


def _levels(here: Floats, others: Floats, names: Sequence[str]) -> dict[str, Any]:
    n, m = float(here.sum()), float(others.sum())
    p, q = here / max(n, 1e-300), others / max(m, 1e-300)
    gain = p - q
    # of many rare levels some gain by chance: only those beyond two standard errors count
    pooled = (here + others) / max(n + m, 1e-300)
    error = np.sqrt(pooled * (1 - pooled) * (1 / max(n, 1e-300) + 1 / max(m, 1e-300)))
    more = (gain > 0) & (gain > 2 * error)
    both = n > 0 and m > 0
    effect = float(gain[more].sum()) if both else 0.0
    order = sorted(range(len(names)), key=lambda at: (-gain[at], names[at]) if both else (-p[at], names[at]))
    return {
        "effect": effect, "distinctive": _distinctive(effect, n, m), "direction": "", "quartiles": None, "others": None,
        "bounds": None, "share": float(p[more].sum()), "share_others": float(q[more].sum()),
        "levels": tuple(LevelShare(names[at], float(p[at]), float(q[at])) for at in order if p[at] > 0 or q[at] > 0),
    }  # fmt: skip


# ---- text ------------------------------------------------------------------------------------------------------------


def _describe(column: AnyColumn, facts: dict[str, Any]) -> tuple[str, str]:
    """Return a profile in words, short and in full."""
    if isinstance(column, NumberColumn):
        return _describe_numbers(column, facts)
    return _describe_levels(column, facts)


def _describe_numbers(column: NumberColumn, facts: dict[str, Any]) -> tuple[str, str]:
    if facts["quartiles"] is None:
        return f"{column.name} missing", "no value"
    write = column.format
    q1, median, q3 = map(write, facts["quartiles"])
    if facts["others"] is None:
        return f"{column.name} {median}", f"median {median}, half between {q1} and {q3}"
    o1, other, o3 = map(write, facts["others"])
    short = f"{column.name} {median} (others {other})"
    return short, f"median {median}, half between {q1} and {q3}; others {other}, {o1} to {o3}"


def _describe_levels(column: CategoryColumn, facts: dict[str, Any]) -> tuple[str, str]:
    levels: Sequence[LevelShare] = facts["levels"]
    if not levels:
        return f"{column.name} missing", "no value"
    alone = facts["effect"] == 0 and all(level.others == 0 for level in levels)
    gained = [level for level in levels if level.share > level.others][:_LEVELS] or list(levels[:1])
    clauses = [_one_level(level, alone) for level in gained]
    return f"{column.name} {clauses[0]}", ", ".join(clauses)


def _one_level(level: LevelShare, alone: bool) -> str:
    others = "" if alone else f" (others {share(level.others)})"
    return f"{level.value} {share(level.share)}{others}"
