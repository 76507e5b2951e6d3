"""The paper's table of complexities, compared with counted evaluations (docs/theory/errata.md, item 27)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.relations._common import count_unique_rows
from knoll.relations._density import bandwidth, density_scale
from knoll.relations._kernel import sigma_of
from knoll.relations._work import FAST, REFERENCE, Run, Scales, Seen
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation

_STRIDES = (8, 4, 2, 1)  # nested samples: every eighth row, every fourth, …
_LEAST = 64  # rows, so that every eighth of them can be clustered
_REFERENCE_ROWS, _FAST_ROWS = 256, 2048  # at most, so that a certificate takes a few seconds
_CLUSTERS = (1, 2, 4)
# The exponents of a pure power come out exact. A factor log n would add about 1/ln n, at least 0.13 for up to 2048
# rows, and a term of higher order more: both are detected, and a term of lower order is tolerated.
_TOLERANCE = 0.05


@dataclass(frozen=True)
class Cost:
    """One row of the table: the complexities, and the powers of n, k and T in the number of evaluations.

    One evaluation takes d operations for a distance or a kernel, d² for a Mahalanobis distance; so d is in no count.
    """

    algorithm: str
    paper: str
    corrected: str  # by the errata; otherwise the same
    powers: Mapping[str, int]
    repeats: int = 1  # evaluations of the fast path per evaluation of the reference, at most
    matrix_free: bool = False  # the fast path stores no matrix, so each of T products evaluates it

    @property
    def fast_powers(self) -> Mapping[str, int]:
        """The powers for the fast path."""
        return {**self.powers, "T": 1} if self.matrix_free else self.powers


TABLE = (
    # a pass is repeated where sums about distant centres would be imprecise
    Cost("EM-GMM", "O(nd²kT + d^2.807 kT)", "O(nd²kT + d^2.807 kT)", {"n": 1, "k": 1, "T": 1}, repeats=2),
    # distances that are nearly equal are computed a second time
    Cost("k-means", "O(ndkT)", "O(ndkT)", {"n": 1, "k": 1, "T": 1}, repeats=2),
    Cost("spectral clustering", "O(n²d)", "O(n²d + n²kT_eig)", {"n": 2}, matrix_free=True),
    # core points, graph and border points: distances are not stored, so that memory is linear in n
    Cost("DBSCAN", "O(n²d)", "O(n²d)", {"n": 2}, repeats=3),
    # blocks are padded to four rows, and a sample of pairs decides their layout
    Cost("climbing DBSCAN", "nothing", "O(n²dT)", {"n": 2, "T": 1}, repeats=3),
    Cost("Mean Shift", "O(n²dT)", "O(n²dT)", {"n": 2, "T": 1}, repeats=3),
)


class ComplexityTable(Relation):
    """The cost of each algorithm: exponents of its count on nested samples of the data."""

    name: ClassVar = "complexity-table"
    source: ClassVar = "the paper's complexities"
    target: ClassVar = "counted evaluations"
    statement: ClassVar = (
        "The reference evaluates as many distances and kernels as the table of complexities lists, once that has the "
        "iterations of an eigensolver and the rounds of DBSCAN's climb; the fast path evaluates no more."
    )
    formula: ClassVar = "EM-GMM, k-means: nkT;  spectral: n², or n²T_eig without a matrix;  DBSCAN: n²;  climbs: n²T"
    _defaults: ClassVar = {"eps": None, "min_samples": None, "bandwidth": None, "sigma": None, "random_state": 0}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        few, many = _sample(X, _REFERENCE_ROWS), _sample(X, _FAST_ROWS)
        preconditions = _enough(X, few)
        if not all(condition.holds for condition in preconditions):
            return self._certificate(checks=(), preconditions=preconditions)
        eps, level = density_scale(many, parameters["eps"], parameters["min_samples"])
        h, sigma = bandwidth(many, parameters["bandwidth"]), sigma_of(many, parameters["sigma"])
        scales = Scales(eps, level, h, sigma, int(parameters["random_state"]))
        checks: list[Check] = []
        numbers: dict[str, Any] = {"ε": eps, "minPts": level, "bandwidth": h, "σ": sigma}
        notes = []
        if len(few) < len(X):
            notes.append(f"Counted on {len(few)} (reference) and {len(many)} (fast path) rows of {len(X)}.")
        for cost in TABLE:
            found, measured = _measured(cost, few, many, scales)
            checks += found
            numbers |= measured
            if cost.paper != cost.corrected:
                notes.append(f"{cost.algorithm}: the paper says {cost.paper}; it is {cost.corrected} (errata item 27).")
        return self._certificate(checks=tuple(checks), preconditions=preconditions, numbers=numbers, notes=tuple(notes))


def _enough(X: Floats, few: Floats) -> tuple[Precondition, ...]:
    unique, wanted = count_unique_rows(few[:: _STRIDES[0]]), max(_CLUSTERS)
    rows, enough = len(X) >= _LEAST, unique >= wanted
    return (
        Precondition(f"at least {_LEAST} rows, to see growth", rows, "" if rows else f"got {len(X)}"),
        Precondition(
            f"at least {wanted} unique rows among every eighth of them",
            enough, "" if enough else f"got {unique}: shuffle the rows",
        ),
    )  # fmt: skip


def _measured(cost: Cost, few: Floats, many: Floats, scales: Scales) -> tuple[list[Check], dict[str, Any]]:
    """Count one algorithm's evaluations, by the reference and by the fast path."""
    name, powers, fast_powers = cost.algorithm, cost.powers, cost.fast_powers
    slow, slow_seconds = _ladder(REFERENCE[name], few, scales, powers)
    fast, fast_seconds = _ladder(FAST[name], many, scales, fast_powers)
    found = exponents(slow, powers)
    shares = {seen.n: seen.count / _stated(seen, fast_powers) for seen in fast}  # the last run on n rows
    top = [seen for seen in fast if seen.n == len(many)]
    share = max(seen.count / _stated(seen, fast_powers) for seen in top)
    checks = [
        Check(f"{name}: difference of the exponents of the reference's count and of {_formula(powers)}",
              max(abs(found[v] - powers[v]) for v in found), _TOLERANCE),
        Check(f"{name}: the fast path's count over {_formula(fast_powers)}", share, float(cost.repeats)),
    ]  # fmt: skip
    if cost.matrix_free and (growth := exponents(top, {"T": 1})):  # the term that the paper omits
        checks.append(Check(f"{name}: difference of the exponent of T_eig and 1", abs(growth["T"] - 1), _TOLERANCE))
    fitted = " ".join(f"{v}^{exponent:.2f}" for v, exponent in found.items())
    saved = ", ".join(f"{value:.2g}" for value in shares.values())
    return checks, {
        f"{name}, paper": cost.paper,
        f"{name}, reference": f"{fitted}, {slow_seconds:.2g} s",
        f"{name}, fast path's share of {_formula(fast_powers)}": f"{saved} at n/8 … n, {fast_seconds:.2g} s",
    }


def exponents(seen: list[Seen], powers: Mapping[str, int]) -> dict[str, float]:
    """Fit log count = c + Σ_v p_v log v by least squares; a constant variable has no exponent."""
    columns = {v: np.log([float(getattr(s, v)) for s in seen]) for v in powers}
    columns = {v: column for v, column in columns.items() if np.ptp(column) > 0}
    counts = np.log([s.count for s in seen])
    fitted, *_ = np.linalg.lstsq(np.stack([np.ones(len(seen)), *columns.values()], axis=1), counts, rcond=None)
    return dict(zip(columns, fitted[1:].tolist(), strict=True))


def _ladder(run: Run, rows: Floats, scales: Scales, powers: Mapping[str, int]) -> tuple[list[Seen], float]:
    """Run on nested samples, with several k if k matters; also return the seconds of the largest run."""
    seen: list[Seen] = []
    seconds = 0.0
    for stride in _STRIDES:
        x = np.ascontiguousarray(rows[::stride])
        for k in _CLUSTERS if "k" in powers else (2,):
            begun = time.perf_counter()
            seen += run(x, k, scales)
            seconds = time.perf_counter() - begun
    return seen, seconds


def _sample(X: Floats, most: int) -> Floats:
    """Return at most so many evenly spaced rows, centered for precision."""
    rows = X if len(X) <= most else X[np.linspace(0, len(X) - 1, most).astype(np.int64)]
    return np.ascontiguousarray(rows - rows.mean(axis=0))


def _stated(seen: Seen, powers: Mapping[str, int]) -> float:
    return math.prod(float(getattr(seen, v)) ** power for v, power in powers.items())


def _formula(powers: Mapping[str, int]) -> str:
    return "".join(v + {1: "", 2: "²"}[power] for v, power in powers.items())
