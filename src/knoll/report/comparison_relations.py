"""The arrows between the methods of a comparison, certified on its rows, within a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knoll import relations
from knoll.exceptions import KnollError
from knoll.registry import METHODS
from knoll.relations import Certificate, Precondition, Relation

if TYPE_CHECKING:
    from knoll.comparison import Comparison

__all__ = ["Related", "related"]

_MOST_ROWS = 300
_MOST_NUMBERS = 10_000  # rows times columns: what a dense computation takes a moment for


@dataclass(frozen=True)
class Related:
    """One arrow, its certificate on this data, and how alike the answers at its ends are."""

    source: str
    target: str
    certificate: Certificate
    agreement: float


def related(comparison: Comparison, scaled: NDArray[np.float64], seconds: float) -> tuple[list[Related], str]:
    """Certify the relations whose two methods gave an answer, and say on what, and what there was no time for.

    `scaled` are the rows as the methods saw them, or evenly chosen ones of them.
    """
    begun = time.perf_counter()
    most = min(_MOST_ROWS, max(60, _MOST_NUMBERS // scaled.shape[1]), len(scaled))
    whole = most == comparison.profile.n_rows
    sample = np.ascontiguousarray(scaled[np.linspace(0, len(scaled) - 1, most).astype(np.int64)])
    given = _parameters(comparison, whole)
    found, late = [], []
    for name, source, target in _between(comparison.candidates):
        relation = relations.get(name)
        if time.perf_counter() - begun > seconds:
            late.append(name)
            continue
        i, j = (comparison.agreement.methods.index(end) for end in (source, target))
        alike = float(comparison.agreement.matrix[i, j])
        found.append(Related(source, target, _certify(relation, sample, given), alike))
    told = "Certified on all rows." if whole else f"Certified on {most} rows, evenly chosen among those drawn above."
    if late:
        told += f" There was no time for {', '.join(late)}; knoll relate takes it."
    return found, told


def _between(methods: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return (relation, method, other method) of the relations whose two methods are both there."""
    there = set(methods)
    return [
        (relation, method.name, other)
        for method in METHODS.values()
        for relation, other in method.related
        if {method.name, other} <= there
    ]


def _certify(relation: Relation, X: NDArray[np.float64], given: Mapping[str, Any]) -> Certificate:
    try:
        return relation.certify(X, **{name: value for name, value in given.items() if name in relation.parameters})
    except KnollError as error:
        refused = Precondition("the data fits", False, str(error))
        return Certificate(relation.name, relation.statement, checks=(), preconditions=(refused,))


def _parameters(comparison: Comparison, whole: bool) -> dict[str, Any]:
    """Take k from the answers; scales too where all rows are measured, since a sample lies further apart."""
    found = comparison.candidates
    numbers = [found[name].n_clusters for name in ("kmeans", "gaussian-mixture", "spectral") if name in found]
    k = max(2, numbers[0]) if numbers else 2
    given: dict[str, Any] = {"n_clusters": min(k, 8), "n_components": min(k, 8), "random_state": comparison.seed}
    if whole:
        for method in (METHODS[name] for name in found):
            chosen = found[method.name].parameters
            given |= {name: chosen[name] for name in method.scales if name in chosen}
    return given
