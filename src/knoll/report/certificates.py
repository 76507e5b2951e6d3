"""Every relation, certified on the tour's data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knoll import datasets
from knoll._typing import Floats
from knoll.exceptions import KnollError
from knoll.relations import Certificate, Precondition, Relation

DATA = ("x1500", "circles", "banana", "iris")

# Limits for dense eigenproblems and the slow reference, below those of the relations themselves
_MAX_ROWS = {
    "trace-relaxation": 250,
    "spectral-kernel-is-graph": 200,
    "normalized-cut-is-kernel-kmeans": 500,
    "spectral-is-dbscan": 500,
    "gaussian-to-heaviside": 500,
    "spectral-on-the-tree": 500,
}


@dataclass(frozen=True)
class Certified:
    """One relation and its certificates, one for each data set."""

    relation: Relation
    certificates: dict[str, Certificate]  # data set → certificate
    rows: dict[str, tuple[int, int]]  # data set → rows used, rows in total


def certified(relation: Relation, data: tuple[str, ...] = DATA) -> Certified:
    """Certify a relation on named data sets, on evenly spaced rows of large ones."""
    found, rows = {}, {}
    for name in data:
        X = datasets.load(name).X
        most = min(_MAX_ROWS.get(relation.name, len(X)), relation.most_rows or len(X), len(X))
        rows[name] = (most, len(X))
        sample = X if most == len(X) else X[np.linspace(0, len(X) - 1, most).astype(np.int64)]
        found[name] = certify(relation, np.ascontiguousarray(sample))
        if most < len(X):
            note = f"measured on {most} evenly spaced rows of {len(X)}"
            found[name] = replace(found[name], notes=(*found[name].notes, note))
    return Certified(relation, found, rows)


def certify(relation: Relation, X: Floats, **parameters: Any) -> Certificate:
    """Certify a relation; data that it refuses does not meet its preconditions."""
    try:
        return relation.certify(X, **parameters)
    except KnollError as error:
        refused = Precondition("the data fits", False, str(error))
        return Certificate(relation.name, relation.statement, checks=(), preconditions=(refused,))
