"""Every relation, certified on the tour's data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from knoll import datasets
from knoll.exceptions import KnollError
from knoll.relations import Certificate, Precondition, Relation

__all__ = ["DATA", "Certified", "certified"]

DATA = ("x1500", "circles", "banana", "iris")

# Rows that a dense eigenproblem or the slow reference is given here; the relation itself takes more.
_MOST_ROWS = {
    "trace-relaxation": 250,
    "spectral-kernel-is-graph": 200,
    "normalized-cut-is-kernel-kmeans": 500,
    "spectral-is-dbscan": 500,
    "gaussian-to-heaviside": 500,
}


@dataclass(frozen=True)
class Certified:
    """One relation and its certificates, one for each data set."""

    relation: Relation
    certificates: dict[str, Certificate]  # data set → certificate
    rows: dict[str, tuple[int, int]]  # data set → rows measured, rows there are


def certified(relation: Relation, data: tuple[str, ...] = DATA) -> Certified:
    """Certify a relation on data sets by name, on evenly spaced rows where it would take long."""
    found, rows = {}, {}
    for name in data:
        X = datasets.load(name).X
        most = min(_MOST_ROWS.get(relation.name, len(X)), len(X))
        rows[name] = (most, len(X))
        sample = X if most == len(X) else X[np.linspace(0, len(X) - 1, most).astype(np.int64)]
        found[name] = _certify(relation, np.ascontiguousarray(sample))
        if most < len(X):
            told = f"measured on {most} evenly spaced rows of {len(X)}"
            found[name] = replace(found[name], notes=(*found[name].notes, told))
    return Certified(relation, found, rows)


def _certify(relation: Relation, X: NDArray[np.float64]) -> Certificate:
    try:
        return relation.certify(X)
    except KnollError as error:
        refused = Precondition("the data fits", False, str(error))
        return Certificate(relation.name, relation.statement, checks=(), preconditions=(refused,))
