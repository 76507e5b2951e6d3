"""knoll.compare: it ends in a recommendation whose labels are its own candidate's, whatever the table."""

from __future__ import annotations

from typing import Any

import numpy as np

import knoll
from fuzz.case import Case, Family, Rng
from fuzz.laws import permuted
from fuzz.tables import Table
from knoll.exceptions import KnollError

_METHODS = ("gaussian-mixture", "kmeans", "kernel-kmeans", "spectral", "dbscan", "mean-shift")


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw methods, numbers of clusters and a scaling; the budget is small."""
    some = list(rng.choice(_METHODS, size=rng.integers(1, 4), replace=False))
    return {
        "methods": [str(name) for name in some],
        "k": list(range(2, 2 + int(rng.integers(1, 4)))),
        "scale": str(rng.choice(["standard", "standard", "robust", "none"])),
        "seed": int(rng.integers(1000)),
        "budget": 5.0,
        "n_jobs": 1,
    }


def _compare(case: Case, X: Any) -> Any:
    try:
        return knoll.compare(X, **case.parameters)
    except KnollError as error:
        return error


def the_answer_is_whole(case: Case, model: Any) -> str | None:
    """Every method has a candidate or a failure; labels are those of the recommended one."""
    found = _compare(case, case.input())
    if isinstance(found, KnollError):
        few = len(case.X) <= max(case.parameters["k"])
        return f"ordinary data is refused: {found}" if case.ordinary and not few else None
    missing = set(case.parameters["methods"]) - set(found.candidates) - {failure.method for failure in found.failures}
    if missing:
        return f"nothing is said of {sorted(missing)}"
    if case.ordinary and found.failures:
        return f"{found.failures[0].method} failed: {found.failures[0].reason}"
    method = found.recommendation.method
    expected = np.zeros(len(case.X), dtype=int) if method is None else found.candidates[method].labels
    if not np.array_equal(found.labels, expected):
        return "labels are not those of the recommended method"
    found.summary()
    return None if repr(found) else "repr is empty"


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same recommendation."""
    if not case.ordinary or len(case.X) < 6 or case.table.shape not in ("cloud", "blobs"):
        return None
    _, X, _ = permuted(case)
    one, two = _compare(case, case.X), _compare(case, X)
    if isinstance(one, KnollError) or isinstance(two, KnollError):
        return None if type(one) is type(two) else "only one order is refused"
    if one.recommendation.method != two.recommendation.method:
        return f"recommended {one.recommendation.method}, then {two.recommendation.method}"
    return None


FAMILY = Family(
    name="compare",
    estimator=None,
    parameters=parameters,
    weighted=False,
    most_rows=40,
    most_columns=4,
    laws=(the_answer_is_whole, the_order_of_rows_does_not_matter),
)
