"""knoll.compare: it ends in a recommendation whose labels are its own candidate's, whatever the table."""

from __future__ import annotations

from typing import Any

import numpy as np

import knoll
from fuzz.case import Case, Family, Rng
from fuzz.laws import permuted
from fuzz.tables import Table
from knoll.exceptions import KnollError
from knoll.registry import compared
from knoll.tables.frames import is_frame

_OWN_NUMBER = {"dbscan", "hdbscan", "mean-shift"}  # methods that may find one cluster or none


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw methods, numbers of clusters and a scaling; the budget is small."""
    methods = list(rng.choice(compared(), size=rng.integers(1, 4), replace=False))
    return {
        "methods": [str(name) for name in methods],
        "k": list(range(2, 2 + int(rng.integers(1, 4)))),
        "scale": str(rng.choice(["auto", "standard", "robust", "common", "none"])),
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
        few = (
            len(np.unique(case.X, axis=0)) <= max(case.parameters["k"])
            or set(case.parameters["methods"]) <= _OWN_NUMBER
        )
        return f"ordinary data is refused: {found}" if case.ordinary and not few else None
    missing = set(case.parameters["methods"]) - set(found.candidates) - {failure.method for failure in found.failures}
    if missing:
        return f"nothing is reported of {sorted(missing)}"
    failed = [one for one in found.failures if one.reason != "it found fewer than two clusters"]
    if case.ordinary and failed:
        return f"{failed[0].method} failed: {failed[0].reason}"
    if not np.array_equal(found.labels, found.candidates[found.recommendation.method].labels):
        return "labels are not those of the recommended method"
    if found.labels.max() < 1 or found.verdict != "clusters" or not 0.0 <= found.confidence <= 1.0:
        return f"{found.labels.max() + 1} clusters, verdict {found.verdict}, confidence {found.confidence}"
    table = case.input()
    scaled = found.scaling.apply(table if is_frame(table) else case.X)  # a frame may lose columns of one value
    for one in (*found.candidates.values(), *(other.candidate for other in found.alternatives)):
        if not np.array_equal(one.model.predict(scaled), one.labels):
            return f"predict of {one.method} does not give its labels"
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
