"""Two groups of rows against each other, by `knoll.explain`; the stability of the clusters that are shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._common.cancel import raise_if_cancelled
from knoll._typing import Bools, Floats, Ints
from knoll.base import collect_warnings
from knoll.exceptions import BadData
from knoll.explanation.columns import AnyColumn, NumberColumn
from knoll.explanation.engine import explained
from knoll.explanation.profiles import ColumnProfile
from knoll.explanation.result import Cluster, ExampleRow, Explanation
from knoll.explanation.stability import cluster_stability

if TYPE_CHECKING:
    from knoll.explorer.session import Group, Session

__all__ = ["compare_groups", "explanation_of", "stability"]

_BARS = 24  # of a histogram
_LEVELS = 12
_SKETCH = 0.9  # fidelity of a tree below which it is called a sketch
_RESAMPLES, _HALF, _SECONDS = 10, 5_000, 10.0  # refits for the stability, their rows, and how long they may take
NO_TEST = (
    "No p-values: where the clusters were found in these columns, a test would use the same rows twice. "
    "An effect is a difference of shares, from 0 (alike) to 1 (separated)."
)


def explanation_of(session: Session, first: Bools, second: Bools, names: dict[int, str], depth: int = 4) -> Explanation:
    """Explain the rows of one group (0) against those of another (1)."""
    rows = np.flatnonzero(first | second)
    labels = np.where(first[rows], 0, 1).astype(np.int64)
    source, n = session.source, len(rows)
    read = source.columns.take(rows, n) if n < len(source) else source.columns
    if not read.described:
        raise BadData("every column has a single value, so nothing can be compared.")
    ids = np.arange(len(source))[rows] if source.ids is None else source.ids[rows]
    points = source.points if n == len(source) else source.points[rows]
    found = explained(
        labels,
        read,
        weights=np.ones(n),
        names=names,
        ids=ids,
        depth=depth,
        resamples=0,
        seed=source.seed,
        points=points,
    )
    return _of_all_rows(found, rows)


def _of_all_rows(found: Explanation, rows: Ints) -> Explanation:
    """Number example rows as in the whole table."""

    def of_all(examples: tuple[ExampleRow, ...]) -> tuple[ExampleRow, ...]:
        return tuple(replace(one, row=int(rows[one.row])) for one in examples)

    clusters = tuple(
        replace(one, typical=of_all(one.typical), border=of_all(one.border), unusual=of_all(one.unusual))
        for one in found.clusters
    )
    return replace(found, clusters=clusters)


def compare_groups(session: Session, a: Group | None = None, b: Group = "rest", depth: int = 4) -> dict[str, Any]:
    """Compare two groups: columns by effect, distributions, a tree with its fidelity, example rows."""
    a = "selection" if a is None else a
    first = session.rows(a)
    second = session.rows(b, first)
    if not second.any() or not (second & ~first).any():
        raise BadData("the second group has no rows that are not in the first, so there is nothing to compare with.")
    names = {0: _called(session, a), 1: _called(session, b)}
    if names[0] == names[1]:
        names = {0: f"A: {names[0]}", 1: f"B: {names[1]}"}
    found = explanation_of(session, first, second & ~first, names, depth)
    cluster = found[0]
    ranked = sorted(cluster.columns, key=lambda one: (-one.effect, not one.used))
    described = {column.name: column for column in session.source.columns.described}
    facts = [_column(described[one.column], one, first, second & ~first) for one in ranked if one.column in described]
    return {
        "a": {"name": names[0], "size": int(first.sum())},
        "b": {"name": names[1], "size": int((second & ~first).sum())},
        "columns": facts,
        "rules": _rules(cluster),
        "fidelity": found.fidelity,
        "sketch": found.fidelity < _SKETCH,
        "sql": found.to_sql(use_names=True),
        "python": found.to_python(),
        "sentence": str(replace(cluster, label=-1)),  # its name is enough
        "examples": {role: _examples(cluster, role) for role in ("typical", "border", "unusual")},
        "notes": [*found.notes, NO_TEST],
    }


def _called(session: Session, group: Group) -> str:
    if isinstance(group, str):
        return "selection" if group == "selection" else "the other rows"
    chosen = group.get("clusters", [group.get("cluster")])
    notes = session.answer.notes
    return ", ".join(
        "noise" if one < 0 else (notes[one].name if one in notes else "") or f"cluster {one}" for one in chosen
    )


def _rules(cluster: Cluster) -> list[dict[str, Any]]:
    return [{"text": one.text, "coverage": one.coverage, "precision": one.precision} for one in cluster.rules]


def _examples(cluster: Cluster, role: str) -> list[dict[str, Any]]:
    return [
        {"row": one.row, "id": str(one.id), "reason": one.reason, "cells": one.cells} for one in getattr(cluster, role)
    ]


def _column(column: AnyColumn, found: ColumnProfile, first: Bools, second: Bools) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "column": found.column,
        "type": found.type,
        "used": found.used,
        "effect": found.effect,
        "distinctive": found.distinctive,
        "direction": found.direction,
        "text": found.text,
        "details": found.details,
        "a": None if found.quartiles is None else list(found.quartiles),
        "b": None if found.others is None else list(found.others),
        "levels": [{"value": one.value, "a": one.share, "b": one.others} for one in found.levels[:_LEVELS]],
        "edges": [],
        "ends": [],
        "counts_a": [],
        "counts_b": [],
    }
    if isinstance(column, NumberColumn):
        edges, counts = _histograms(column.values, (first, second))
        facts |= {"edges": edges, "counts_a": counts[0], "counts_b": counts[1]}
        facts["ends"] = [column.format(edge) for edge in (edges[0], edges[-1])] if edges else []
    return facts


def _histograms(values: Floats, groups: Sequence[Bools]) -> tuple[list[float], list[list[int]]]:
    """Count values in equal ranges between the 0.1th and 99.9th percentile; what lies beyond is in the end bars."""
    own = [values[group & np.isfinite(values)] for group in groups]
    both = np.concatenate(own)
    if not len(both):
        return [], [[], []]
    low, high = np.quantile(both, [0.001, 0.999])
    if not high > low:
        low, high = float(both.min()), float(both.max())
    edges = np.linspace(low, high, _BARS + 1) if high > low else np.array([low, low + 1.0])
    return edges.tolist(), [np.histogram(np.clip(one, edges[0], edges[-1]), edges)[0].tolist() for one in own]


def stability(session: Session) -> list[dict[str, Any]]:
    """Return the mean Jaccard index of each cluster of the shown answer, of refits of its method to random halves."""
    answer, source, fits = session.answer, session.source, session.fits
    if answer.origin == "given" or answer.by_hand:
        raise BadData("stability is that of a method's answer; this one was given, or edited by hand.")
    if answer.origin == "recommended" and answer.parameters.get("n_components") not in (None, len(answer.sizes())):
        raise BadData("the clusters of this answer are joined components; a refit would not join the same ones.")
    from knoll.explorer.methods import method_of, usual

    method, begun = method_of(answer.method), time.perf_counter()
    default = usual(method)
    parameters = {**default, **{name: value for name, value in answer.parameters.items() if name in default}}
    rows_of = fits.rows_of(method)

    def fit(rows: Ints) -> Ints | None:
        raise_if_cancelled()
        if time.perf_counter() - begun > _SECONDS:
            return None
        share = len(rows) / len(source)
        counted = {
            name: max(2, round(value * share))
            for name, value in parameters.items()
            if name in ("min_samples", "min_cluster_size") and isinstance(value, int)
        }
        with collect_warnings():
            return np.asarray(fits.estimator(method, {**parameters, **counted}).fit(rows_of[rows]).labels_)

    found, _ = cluster_stability(fit, answer.labels, source.order, _RESAMPLES, source.seed, _HALF)
    return [{"label": label, "jaccard": found.get(label)} for label in answer.sizes()]
