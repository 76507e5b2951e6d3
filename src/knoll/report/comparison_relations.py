"""The relations between the methods of a comparison, certified on its rows within a time limit."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll import relations
from knoll._typing import Floats
from knoll.registry import METHODS
from knoll.relations import Certificate
from knoll.report.certificates import certify

if TYPE_CHECKING:
    from knoll.comparison import Comparison

_MAX_ROWS = 300
_MAX_NUMBERS = 10_000  # rows times columns


@dataclass(frozen=True)
class Related:
    """One relation, its certificate on this data, and the agreement of the two methods' answers."""

    source: str
    target: str
    certificate: Certificate
    agreement: float


def related(comparison: Comparison, scaled: Floats, seconds: float) -> tuple[list[Related], str]:
    """Certify the relations whose two methods have an answer; also return a note on the rows and on what was omitted.

    `scaled` are the rows as the methods saw them, or a subset.
    """
    begun = time.perf_counter()
    most = min(_MAX_ROWS, max(60, _MAX_NUMBERS // scaled.shape[1]), len(scaled))
    whole = most == comparison.profile.n_rows
    sample = np.ascontiguousarray(scaled[np.linspace(0, len(scaled) - 1, most).astype(np.int64)])
    parameters = _parameters(comparison, whole)
    found, late = [], []
    for name, source, target in _between(comparison.candidates):
        relation = relations.get(name)
        if time.perf_counter() - begun > seconds:
            late.append(name)
            continue
        i, j = (comparison.agreement.methods.index(end) for end in (source, target))
        accepted = {key: value for key, value in parameters.items() if key in relation.parameters}
        agreement = float(comparison.agreement.matrix[i, j])
        found.append(Related(source, target, certify(relation, sample, **accepted), agreement))
    note = "Certified on all rows." if whole else f"Certified on {most} evenly spaced rows of those shown above."
    if late:
        note += f" Omitted because of the time limit: {', '.join(late)}; use knoll relate for them."
    return found, note


def _between(methods: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return (relation, method, other method) for the relations between these methods."""
    present = set(methods)
    return [
        (relation, method.name, other)
        for method in METHODS.values()
        for relation, other in method.related
        if {method.name, other} <= present
    ]


def _parameters(comparison: Comparison, whole: bool) -> dict[str, Any]:
    """Take k from the answers; scales, too, if all rows are used, since a sample is less dense."""
    found = comparison.candidates
    numbers = [found[name].n_clusters for name in ("kmeans", "gaussian-mixture", "spectral") if name in found]
    k = max(2, numbers[0]) if numbers else 2
    parameters: dict[str, Any] = {"n_clusters": min(k, 8), "n_components": min(k, 8), "random_state": comparison.seed}
    if whole:
        for method in (METHODS[name] for name in found):
            chosen = found[method.name].parameters
            parameters |= {name: chosen[name] for name in method.scales if name in chosen}
    return parameters
