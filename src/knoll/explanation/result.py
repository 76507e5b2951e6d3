"""What an explanation consists of: plain data, with a text, a table and HTML for people."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knoll._format import plural, share, thousands
from knoll._typing import Ints
from knoll.exceptions import InvalidParameter
from knoll.explanation.columns import AnyColumn
from knoll.explanation.profiles import ColumnProfile
from knoll.explanation.rules import Rule, python_source, sql_case, sql_name
from knoll.explanation.tree import Leaf, Node, leaves_of, predict

__all__ = ["Cluster", "ExampleRow", "Explanation", "named"]

_SHOWN = 3  # columns and rules of a cluster in a text
_MOST_SHOWN = 20  # clusters in a text


@dataclass(frozen=True)
class ExampleRow:
    """A row of a cluster.

    Attributes
    ----------
    row : int
        Its position in the table, from 0.
    id : Any
        What identifies it: its id, the index of a data frame, or its position.
    value : float
        Typical: the distance to the centre. Border: the distance to its own cluster over that to the next one.
        Unusual: how far its values are from those of the cluster, in standard deviations.
    reason : str
        Border: which cluster is near. Unusual: the value that is rare. Else empty.
    cells : dict
        Its values as text, by column.
    """

    row: int
    id: Any
    value: float
    reason: str
    cells: dict[str, str]


@dataclass(frozen=True)
class Cluster:
    """One cluster, or the noise, and its profile.

    Attributes
    ----------
    label : int
        Its number; −1 is noise.
    name : str
        A proposed name, or the one that was set.
    size : float
        Its rows; their weight, if rows have weights.
    share : float
        Its share of all rows.
    columns : tuple of ColumnProfile
        Every column that can be described, compared with the other rows, in the order of the table.
    rules : tuple of Rule
        The paths of the decision tree that lead to it.
    coverage, precision : float
        The share of its rows that the tree gives to it, and the share of the rows that the tree gives to it which
        belong to it; the latter is NaN if there are none.
    typical, border, unusual : tuple of ExampleRow
        Rows nearest to its centre, near another cluster, and with rare values.
    stability : float or None
        The mean Jaccard index with its best match in refits to random halves; None if nothing was refitted.
    """

    label: int
    name: str
    size: float
    share: float
    columns: tuple[ColumnProfile, ...]
    rules: tuple[Rule, ...]
    coverage: float
    precision: float
    typical: tuple[ExampleRow, ...]
    border: tuple[ExampleRow, ...]
    unusual: tuple[ExampleRow, ...]
    stability: float | None

    @property
    def traits(self) -> tuple[ColumnProfile, ...]:
        """The columns that set it apart, the largest effect first; those that the clustering used before others."""
        found = [profile for profile in self.columns if profile.distinctive]
        return tuple(sorted(found, key=lambda profile: (not profile.used, -profile.effect)))

    def __str__(self) -> str:
        """Return a line: number, name, size and the columns that set it apart."""
        number = "" if self.label < 0 else f"{self.label} "
        rows = f"{thousands(self.size)} rows ({share(self.share)})"
        traits = "; ".join(trait.text for trait in self.traits[:_SHOWN]) or "no column sets it apart"
        return f"{number}{self.name}: {rows}. {traits}"


@dataclass(frozen=True)
class Explanation:
    """What the clusters of a table are; see `knoll.explain`.

    Attributes
    ----------
    clusters : tuple of Cluster
        By label; noise is the last.
    n_rows : int
        The rows of the table.
    fidelity : float
        The share of the rows whose cluster the decision tree gives again.
    depth : int
        The levels of the tree.
    left_out : dict
        Columns that are not described, and why.
    notes : tuple of str
        What was sampled.
    """

    clusters: tuple[Cluster, ...]
    n_rows: int
    fidelity: float
    depth: int
    left_out: dict[str, str]
    notes: tuple[str, ...]
    tree: Node = field(repr=False)
    labels: Ints = field(repr=False)  # (g,) of the groups of the tree
    used: tuple[AnyColumn, ...] = field(repr=False)  # that the tree may split on

    def __getitem__(self, label: int) -> Cluster:
        """Return the cluster with a label."""
        for cluster in self.clusters:
            if cluster.label == label:
                return cluster
        known = ", ".join(str(cluster.label) for cluster in self.clusters)
        raise InvalidParameter(f"there is no cluster {label!r}. There are: {known}.")

    @property
    def names(self) -> dict[int, str]:
        """The name of each cluster."""
        return {cluster.label: cluster.name for cluster in self.clusters}

    # ---- the tree ----------------------------------------------------------------------------------------------------

    def rules(self) -> list[str]:
        """Return the decision tree as sentences, one for each of its paths."""
        names = self.names
        return [f"{names[rule.label]}: {rule}" for cluster in self.clusters for rule in cluster.rules]

    def to_sql(self, *, dialect: str = "standard", table: str | None = None, use_names: bool = False) -> str:
        """Return the decision tree as SQL.

        Parameters
        ----------
        dialect : {"standard", "mysql", "bigquery"}, default="standard"
            How names and texts are quoted.
        table : str, default=None
            A table to select from; None returns the expression ``CASE WHEN … END`` alone.
        use_names : bool, default=False
            Whether it yields the names of the clusters instead of their numbers.

        Returns
        -------
        str
            It gives every row a cluster, also where a column is NULL. Columns are those of the table: numbers as
            numbers, dates as dates or as texts in ISO format, categories as they are stored.
        """
        case = sql_case(self.tree, self.used, self.labels, self.names if use_names else None, dialect)
        if table is None:
            return case
        return f"SELECT *,\n{case} AS cluster\nFROM {sql_name(table, dialect)}"

    def to_python(self, function: str = "cluster") -> str:
        """Return the decision tree as the source of a Python function of a row, a mapping of column names to values."""
        return python_source(self.tree, self.used, self.labels, function)

    def predict_rules(self) -> Ints:
        """Return the label that the decision tree gives to each row of the table that was explained."""
        n = len(self.used[0].missing) if self.used else self.n_rows
        return np.asarray(self.labels[predict(self.tree, self.used, n)])

    # ---- for people --------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Return the clusters and the rules as text."""
        lines = [self.headline()]
        for cluster in self.clusters[:_MOST_SHOWN]:
            lines.append(f"  {cluster}")
            lines += [f"      if {rule}" for rule in cluster.rules[:2]]
        if len(self.clusters) > _MOST_SHOWN:
            lines.append(f"  and {len(self.clusters) - _MOST_SHOWN} more")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def headline(self) -> str:
        """Return one sentence on the clusters and the rules."""
        found = sum(cluster.label >= 0 for cluster in self.clusters)
        noise = " and noise" if found < len(self.clusters) else ""
        begin = f"{plural(found, 'cluster')}{noise} of {thousands(self.n_rows)} rows"
        if isinstance(self.tree, Leaf):
            return f"{begin}; no rule separates them" if len(self.clusters) > 1 else begin
        rules = f"{plural(len(leaves_of(self.tree)), 'rule')} of at most {plural(self.depth, 'condition')}"
        return f"{begin}; {rules} give {share(self.fidelity)} of the rows their cluster"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = "".join(_html_row(cluster) for cluster in self.clusters[:_MOST_SHOWN])
        more = len(self.clusters) - _MOST_SHOWN
        notes = [*([f"and {more} more clusters"] if more > 0 else []), *self.notes]
        return (
            f"<p>{html.escape(self.headline())}.</p>"
            '<table><thead><tr><th style="text-align:left">cluster</th><th style="text-align:right">rows</th>'
            '<th style="text-align:left">what sets it apart</th><th style="text-align:left">rule</th></tr></thead>'
            f"<tbody>{rows}</tbody></table>" + "".join(f"<p>{html.escape(note)}</p>" for note in notes)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, numbers and texts, as JSON has them."""
        return {
            "n_rows": self.n_rows, "fidelity": self.fidelity, "depth": self.depth, "left_out": dict(self.left_out),
            "notes": list(self.notes), "sql": self.to_sql(), "python": self.to_python(),
            "clusters": [_cluster_dict(cluster) for cluster in self.clusters],
        }  # fmt: skip

    def to_frame(self) -> Any:
        """Return a data frame of pandas with a row for each cluster and column."""
        try:
            import pandas as pd
        except ImportError:
            raise InvalidParameter("to_frame needs pandas. Run: pip install pandas") from None
        rows = [_frame_row(cluster, profile) for cluster in self.clusters for profile in cluster.columns]
        return pd.DataFrame(rows, columns=_FRAME)


def named(explanation: Explanation, names: Mapping[int, str]) -> Explanation:
    """Return the explanation with other names of clusters."""
    from dataclasses import replace

    changed = tuple(replace(cluster, name=names.get(cluster.label, cluster.name)) for cluster in explanation.clusters)
    return replace(explanation, clusters=changed)


def _html_row(cluster: Cluster) -> str:
    left, right = ' style="text-align:left"', ' style="text-align:right"'
    number = "" if cluster.label < 0 else f"{cluster.label} "
    traits = "<br>".join(html.escape(trait.text) for trait in cluster.traits[:_SHOWN]) or "–"
    rules = "<br>".join(html.escape(str(rule)) for rule in cluster.rules[:2]) or "–"
    return (
        f"<tr><th{left}>{number}{html.escape(cluster.name)}</th>"
        f"<td{right}>{thousands(cluster.size)} ({share(cluster.share)})</td>"
        f"<td{left}>{traits}</td><td{left}>{rules}</td></tr>"
    )


_FRAME = [
    "cluster", "name", "column", "type", "used", "effect", "distinctive", "direction", "q25", "median", "q75",
    "others_q25", "others_median", "others_q75", "level", "share", "others_share", "lift", "missing", "others_missing",
    "text",
]  # fmt: skip


def _frame_row(cluster: Cluster, profile: ColumnProfile) -> dict[str, Any]:
    nothing = (None, None, None)
    q25, median, q75 = profile.quartiles or nothing
    o25, other, o75 = profile.others or nothing
    level = profile.levels[0] if profile.levels else None
    return {
        "cluster": cluster.label, "name": cluster.name, "column": profile.column, "type": profile.type,
        "used": profile.used, "effect": profile.effect, "distinctive": profile.distinctive,
        "direction": profile.direction, "q25": q25, "median": median, "q75": q75, "others_q25": o25,
        "others_median": other, "others_q75": o75, "level": level and level.value, "share": level and level.share,
        "others_share": level and level.others, "lift": level and level.lift, "missing": profile.missing,
        "others_missing": profile.missing_others, "text": profile.text,
    }  # fmt: skip


def _cluster_dict(cluster: Cluster) -> dict[str, Any]:
    return {
        "label": cluster.label, "name": cluster.name, "size": _number(cluster.size), "share": cluster.share,
        "stability": cluster.stability, "coverage": cluster.coverage, "precision": _number(cluster.precision),
        "traits": [trait.column for trait in cluster.traits],
        "columns": [_profile_dict(profile) for profile in cluster.columns],
        "rules": [
            {"text": rule.text, "conditions": list(rule.conditions), "coverage": rule.coverage,
             "precision": rule.precision, "rows": _number(rule.rows)}
            for rule in cluster.rules
        ],
        **{role: [_row_dict(row) for row in getattr(cluster, role)] for role in ("typical", "border", "unusual")},
    }  # fmt: skip


_LEVELS = 10  # of a category in a file


def _profile_dict(profile: ColumnProfile) -> dict[str, Any]:
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(profile).items()}
    levels = [
        {"value": level.value, "share": level.share, "others": level.others, "lift": level.lift}
        for level in profile.levels[:_LEVELS]
    ]
    return found | {"levels": levels}


def _row_dict(row: ExampleRow) -> dict[str, Any]:
    identifier = row.id.item() if isinstance(row.id, np.generic) else row.id
    plain = identifier if isinstance(identifier, str | int | float | bool | None) else str(identifier)
    return {"row": row.row, "id": plain, "value": row.value, "reason": row.reason, "cells": dict(row.cells)}


def _number(value: float) -> float | int | None:
    """Return a weight as an integer if it is whole; NaN as None."""
    if value != value:
        return None
    return int(value) if value == int(value) else value
