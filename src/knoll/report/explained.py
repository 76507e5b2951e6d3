"""An explanation of clusters as plain values for the template: cards, a table side by side, and columns not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knoll._format import column_format, number, plural, share
from knoll.explanation import Cluster, ColumnProfile, ExampleRow, Explanation
from knoll.explanation.columns import AnyColumn, NumberColumn

if TYPE_CHECKING:
    from knoll.comparison import Comparison

__all__ = ["explained_view", "writers"]

MOST_CARDS = 12  # clusters; the summary has all
_TRAITS = 5  # columns of a card
_RULES = 2
_CELLS = 6  # columns of the rows of a card
_LEVELS = 8  # of a category that was not used
_COLUMNS = 30  # of the table side by side
_STRONG = 0.6  # effect that is shaded strongly
_STABLE, _FAIR = 0.85, 0.6  # Jaccard index (Hennig 2007)


def explained_view(found: Explanation, paint: Mapping[int, str]) -> dict[str, Any]:
    """Return what the page shows; `paint` has the class of the colour of each cluster."""
    clusters = [one for one in found.clusters if one.label >= 0]
    largest = sorted(clusters, key=lambda one: (-one.size, one.label))[:MOST_CARDS]
    noise = [one for one in found.clusters if one.label < 0]
    shown = largest + noise
    heads = [
        {"name": one.name, "label": _label(one), "colour": paint[one.label], "share": share(one.share)} for one in shown
    ]
    return {
        "headline": found.headline(), "fidelity": share(found.fidelity), "depth": found.depth,
        "cards": [_card(one, paint[one.label]) for one in shown], "more": len(clusters) - len(largest),
        "heads": heads, "rows": _side_by_side(shown, used=True), "others": _side_by_side(shown, used=False),
        "crossed": _crossed(shown), "sql": found.to_sql(), "python": found.to_python(), "notes": found.notes,
        "several": len(found.clusters) > 1, "described": any(not one.used for one in shown[0].columns),
    }  # fmt: skip


def _label(cluster: Cluster) -> str:
    return "noise" if cluster.label < 0 else str(cluster.label)


def _card(cluster: Cluster, colour: str) -> dict[str, Any]:
    traits = [one for one in cluster.traits if one.used] or list(cluster.traits)
    return {
        "label": _label(cluster), "name": cluster.name, "colour": colour, "size": cluster.size,
        "share": share(cluster.share), "stability": _stability(cluster.stability),
        "traits": [_trait(one) for one in traits[:_TRAITS]], "more_traits": max(0, len(traits) - _TRAITS),
        "rules": [
            {"conditions": rule.conditions, "coverage": _kept_together(share(rule.coverage)),
             "precision": _kept_together(share(rule.precision))}
            for rule in cluster.rules[:_RULES]
        ],
        "more_rules": max(0, len(cluster.rules) - _RULES),
        "examples": [
            (title, _examples(rows))
            for title, rows in (("Typical rows", cluster.typical), ("Near another cluster", cluster.border),
                                ("Unusual rows", cluster.unusual))
            if rows
        ],
    }  # fmt: skip


def _stability(value: float | None) -> str:
    if value is None:
        return ""
    level = "stable" if value >= _STABLE else "fairly stable" if value >= _FAIR else "unstable"
    return f"{level} in refits ({value:.2f})"


def _examples(rows: Sequence[ExampleRow]) -> dict[str, Any]:
    columns = list(rows[0].cells)[:_CELLS]
    return {
        "columns": columns, "reasons": any(row.reason for row in rows),
        "rows": [(str(row.id)[:60], [row.cells[name] for name in columns], row.reason) for row in rows],
    }  # fmt: skip


def _trait(profile: ColumnProfile) -> dict[str, Any]:
    found: dict[str, Any] = {
        "column": profile.column, "details": _kept_together(profile.details), "used": profile.used,
        "box": None, "bars": None,
    }  # fmt: skip
    if profile.quartiles is not None and profile.others is not None:
        found["box"] = _box(profile.quartiles, profile.others)
    elif profile.levels:
        best = profile.levels[0]
        found["bars"] = [round(100 * best.share, 1), round(100 * best.others, 1)]
    return found


def _kept_together(text: str) -> str:
    """Keep a number and its percent sign on one line."""
    return text.replace(" %", "\u00a0%")


def _box(here: Sequence[float], others: Sequence[float]) -> list[list[float]] | None:
    """Return the quartiles of the cluster and of the others as positions from 3 to 97."""
    low, high = min(*here, *others), max(*here, *others)
    extent = high / 2 - low / 2
    if not extent > 0:
        return None
    return [[round(3 + 94 * ((value / 2 - low / 2) / extent), 1) for value in one] for one in (here, others)]


# ---- tables ----------------------------------------------------------------------------------------------------------


def _side_by_side(clusters: Sequence[Cluster], used: bool) -> list[dict[str, Any]]:
    """Return for each column a cell for each cluster, the columns that set clusters apart first."""
    names = [one.column for one in clusters[0].columns if one.used == used]
    effect = {name: max(_of(cluster, name).effect for cluster in clusters) for name in names}
    best = sorted(names, key=lambda name: -effect[name])[:_COLUMNS]
    return [
        {"column": name, "cells": [_cell(_of(cluster, name)) for cluster in clusters]} for name in names if name in best
    ]


def _of(cluster: Cluster, name: str) -> ColumnProfile:
    return next(one for one in cluster.columns if one.column == name)


def _cell(profile: ColumnProfile) -> dict[str, str]:
    if profile.quartiles is not None:
        head, _, interval = profile.details.partition(", half between ")
        text, small = head.removeprefix("median "), interval.partition(";")[0].replace(" and ", " to ")
    elif profile.levels:
        most = max(profile.levels, key=lambda level: level.share)
        text, small = most.value, share(most.share)
    else:
        text, small = "–", ""
    return {"text": text, "small": small, "shade": _shade(profile)}


def _shade(profile: ColumnProfile) -> str:
    if not profile.distinctive:
        return "usual"
    strength = 2 if profile.effect >= _STRONG else 1
    return (
        f"{'below' if profile.direction == 'low' else 'above' if profile.direction == 'high' else 'marked'}-{strength}"
    )


def _crossed(clusters: Sequence[Cluster]) -> list[dict[str, Any]]:
    """Cross-tabulate the categories that were not used with the clusters: shares of each cluster's rows."""
    found = []
    for name in (one.column for one in clusters[0].columns if not one.used and one.quartiles is None):
        shares = [{level.value: level.share for level in _of(cluster, name).levels} for cluster in clusters]
        total: dict[str, float] = {}
        for cluster, one in zip(clusters, shares, strict=True):
            for value, portion in one.items():
                total[value] = total.get(value, 0.0) + portion * cluster.size
        levels = sorted(total, key=lambda value: (-total[value], value))
        rows = [
            (value, [(share(one.get(value, 0.0)), min(10, round(10 * one.get(value, 0.0)))) for one in shares])
            for value in levels[:_LEVELS]
        ]
        more = len(levels) - len(rows)
        if rows:
            found.append({"column": name, "rows": rows, "more": plural(more, "more level") if more > 0 else ""})
    return found


# ---- formats of encoded columns --------------------------------------------------------------------------------------


def writers(comparison: Comparison, X: NDArray[Any], used: Sequence[AnyColumn]) -> list[Any]:
    """Return for each encoded column of the table what writes its values: digits that fit it, shares of levels."""
    known = {column.name: column for column in used}
    schema = None if comparison.table is None else comparison.table.schema
    if schema is None:
        return [_writer(known.get(name), X[:, j]) for j, name in enumerate(comparison.profile.columns)]
    out: list[Any] = []
    for column in schema.used:
        if column.type in ("boolean", "category"):
            out += [share] * len(column.encoded)
        else:  # a logarithm has digits of its own
            out.append(_writer(None if column.log else known.get(column.name), X[:, len(out)]))
    return out


def _writer(column: AnyColumn | None, values: NDArray[Any]) -> Any:
    if isinstance(column, NumberColumn):
        return column.format
    finite = values[np.isfinite(values)]
    return column_format(finite) if len(finite) else number
