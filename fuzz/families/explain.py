"""knoll.explain: rules, shares and texts of random labels on random tables; counted again by their definition."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np

import knoll
from fuzz.case import Case, Family, Rng
from fuzz.exact import agrees
from fuzz.laws import integer_weights, permuted, repeated
from fuzz.mixed_tables import draw_mixed_table, numeric_columns
from fuzz.tables import Table
from knoll.exceptions import KnollError

_TEXTS = ("it's", 'a"b', "", "ünder", "null", "x\\y", "<b>", "two words", "%s", "None", "7.0")


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw labels, by the columns or not, and options."""
    n, k = len(table.X), int(rng.integers(1, 6))
    labels = rng.integers(-1 if rng.random() < 0.3 else 0, k, size=n)
    column = np.nan_to_num(table.X[:, rng.integers(table.X.shape[1])].astype(np.float64))
    if rng.random() < 0.6 and len(np.unique(column)) > 1:
        labels = np.where(rng.random(n) < 0.9, np.searchsorted(np.unique(column), column) % k, labels)
    return {"labels": labels, "depth": int(rng.integers(0, 5)), "rows": int(rng.choice([0, 2, 5]))}


def _frame(case: Case, X: Any = None) -> Any:
    """Return the table as a data frame whose categories are texts."""
    import pandas as pd

    X = case.X if X is None else X
    columns: dict[str, Any] = {}
    for j in range(X.shape[1]):
        if j in case.table.categorical:
            texts = [None if v != v else _TEXTS[int(v) % len(_TEXTS)] + "·" * (int(v) // len(_TEXTS)) for v in X[:, j]]
            columns[f"c'{j}"] = pd.Series(texts, dtype=object)
        else:
            columns[f"x{j}"] = X[:, j]
    return pd.DataFrame(columns)


def _explained(case: Case, X: Any = None, labels: Any = None, weights: Any = None) -> Any:
    p = case.parameters
    try:
        return knoll.explain(
            p["labels"] if labels is None else labels, _frame(case, X), sample_weight=weights, depth=p["depth"],
            rows=p["rows"],
        )  # fmt: skip
    except KnollError as error:
        return error


def what_is_reported_is_counted(case: Case, model: Any) -> str | None:
    """Sizes, shares, fidelity, coverage and precision are those of the rows; names differ; it is JSON."""
    found = _explained(case, weights=case.weights)
    if isinstance(found, KnollError):
        return None if "no column that can be described" in str(found) or not case.ordinary else str(found)
    reported = found.to_dict()
    if json.loads(json.dumps(reported, allow_nan=False)) != reported:
        return "to_dict changes through JSON"
    if len(set(found.names.values())) != len(found.names):
        return f"names {found.names}"
    labels, mass, again = case.parameters["labels"][case.present], case.mass[case.present], found.predict_rules()
    if sorted(found.names) != sorted(set(labels.tolist())):
        return f"clusters {sorted(found.names)} of the labels {sorted(set(labels.tolist()))}"
    total = _total(mass)
    for cluster in found.clusters:
        own, covered = labels == cluster.label, again == cluster.label
        size, both, assigned = (_total(mass[rows]) for rows in (own, own & covered, covered))
        if not _close(cluster.size, size) or not _close(cluster.share, size / total):
            return f"cluster {cluster.label} has size {cluster.size!r}, share {cluster.share!r}"
        if not _close(cluster.coverage, both / size) or (assigned and not _close(cluster.precision, both / assigned)):
            return f"cluster {cluster.label}: coverage {cluster.coverage!r}, precision {cluster.precision!r}"
    right = _total(mass[again == labels])
    if not _close(found.fidelity, right / total):
        return f"fidelity is {found.fidelity!r}, counted {float(right / total)!r}"
    if found.depth > case.parameters["depth"]:
        return f"{found.depth} levels of {case.parameters['depth']}"
    return None if repr(found) and found._repr_html_() else "no text"


def _total(mass: Any) -> Fraction:
    return sum(map(Fraction, mass.tolist()), Fraction(0))


def _close(value: float, exact: Fraction) -> bool:
    """|value − exact| ≤ 10⁻⁹ exact + 2 · 2^−1074: a share of unlike weights may be below float64."""
    return bool(np.isfinite(value)) and agrees(value, exact, 1e-9)


def rules_in_python_are_the_tree(case: Case, model: Any) -> str | None:
    """The source of the rules gives every row what the tree gives it."""
    found = _explained(case)
    if isinstance(found, KnollError):
        return None
    namespace: dict[str, Any] = {}
    exec(compile(found.to_python(), "rules", "exec"), namespace)
    rows = _frame(case).astype(object).where(lambda frame: frame.notna(), None).to_dict("records")
    mine = np.array([namespace["cluster"](row) for row in rows])
    wrong = np.flatnonzero(mine != found.predict_rules())
    return f"row {wrong[0]}: {mine[wrong[0]]}, by the tree {found.predict_rules()[wrong[0]]}" if len(wrong) else None


def _types(found: Any) -> Any:
    """Which columns are described and used, and as what."""
    return found.left_out, sorted((p.column, p.type, p.used) for c in found.clusters for p in c.columns)


def _facts(found: Any) -> Any:
    """What neither order nor repetition may change: all but the rows that are shown, and sums to twelve digits."""
    if isinstance(found, KnollError):
        return type(found)
    clusters = [
        (c.label, c.name, c.columns and [(p.column, round(p.effect, 9), p.text) for p in c.columns], round(c.share, 9))
        for c in found.clusters
    ]
    return clusters, found.to_sql(), round(found.fidelity, 9), found.left_out


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give what repeated rows give; types are recognised before weights count, so no row is absent."""
    if not integer_weights(case) or not case.present.all():
        return None
    times = case.mass.astype(int)
    one = _explained(case, weights=case.weights)
    two = _explained(case, repeated(case), np.repeat(case.parameters["labels"], times))
    if isinstance(one, KnollError) or isinstance(two, KnollError) or _types(one) != _types(two):
        return None  # types of columns, and which of them are used, are recognised by counts of rows
    return None if _facts(one) == _facts(two) else f"{_first_difference(_facts(one), _facts(two))}"


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same rules, effects and names."""
    order, X, weights = permuted(case)
    one = _explained(case, weights=case.weights)
    two = _explained(case, X, case.parameters["labels"][order], weights)
    return None if _facts(one) == _facts(two) else f"{_first_difference(_facts(one), _facts(two))}"


def _first_difference(a: Any, b: Any) -> str:
    if isinstance(a, tuple | list) and isinstance(b, tuple | list) and len(a) == len(b):
        for x, y in zip(a, b):
            if x != y:
                return _first_difference(x, y)
    return f"{a!r:.150} and {b!r:.150}"


def units_of_columns_do_not_matter(case: Case, model: Any) -> str | None:
    """Doubled numbers have the same effects and the same rows in every rule."""
    X = case.X.copy()
    numeric = numeric_columns(case.table)
    if X.dtype.kind != "f" or not case.ordinary or not len(numeric):
        return None
    X[:, numeric] *= 2.0**20
    one, two = _explained(case), _explained(case, X)
    if isinstance(one, KnollError) or isinstance(two, KnollError) or one.left_out != two.left_out:
        return None
    return None if abs(one.fidelity - two.fidelity) < 1e-9 else f"fidelity {one.fidelity!r} and {two.fidelity!r}"


def distances_of_points_are_numbers(case: Case, model: Any) -> str | None:
    """Typical rows by the distances of any finite points; 2^p times the points have 2^p times the distances.

    The second where neither squares of differences nor their sums leave float64: for ordinary points, whose differences
    are 0 or above 2^−100. Of rows at one distance either may be shown.
    """
    points = np.nan_to_num(case.X.astype(np.float64))
    found = _distances(case, points)
    if found is None:
        return None
    if not np.isfinite(found).all():
        return f"distances {found}"
    if not case.ordinary:
        return None
    p = int(case.rng(3).choice([-800, -300, 300, 900]))
    again = _distances(case, np.ldexp(points, p))
    return None if np.array_equal(again, np.ldexp(found, p)) else f"2^{p} points: {again} for {np.ldexp(found, p)}"


def _distances(case: Case, points: Any) -> Any:
    """Return the distances of the typical rows of all clusters."""
    try:
        found = knoll.explain(case.parameters["labels"], _frame(case), points=points, rows=3)
    except KnollError:
        return None
    return np.array([row.value for cluster in found.clusters for row in cluster.typical])


FAMILY = Family(
    name="explain",
    estimator=None,
    parameters=parameters,
    table=draw_mixed_table,
    forms=("C",),
    most_rows=60,
    most_columns=5,
    laws=(
        what_is_reported_is_counted,
        rules_in_python_are_the_tree,
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        units_of_columns_do_not_matter,
        distances_of_points_are_numbers,
    ),
)
