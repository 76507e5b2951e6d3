"""The leading eigenpairs of an affinity: which operator multiplies, which solver asks it, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll.steps import operators
from knoll.steps import spectral as steps
from knoll.steps.affinity import OWNER, Source
from knoll.steps.graph_parts import Components, near_components, sparse_components
from knoll.steps.scipy_eigen import scipy_spectrum
from knoll.steps.sparse import is_sparse

__all__ = ["Demand", "Solved", "route_wish", "solve", "takes_whole"]

Floats = NDArray[np.float64]

_SMALL_GRAPH = 256  # rows up to which LAPACK takes a graph whole
_SMALL = 512  # and the matrix of a kernel
_WHOLE = 2400  # rows up to which LAPACK takes a matrix whole where a block method fails: some seconds
_PER_APPLICATION = 16  # rows of a matrix: LAPACK takes n of them in the time of n/16 applications


@dataclass(frozen=True)
class Demand:
    """What is asked of the solver."""

    pairs: int  # eigenpairs
    clusters: int  # at least as many pairs as components are wanted, up to this number
    solver: str | None  # eigen_solver
    operator: str
    tol: float
    max_applications: int
    seed: int
    threads: int
    gap: bool = True  # whether the eigenvalue after the pairs must be known even where components give all of them
    hook: steps.Hook | None = None

    def options(self) -> dict[str, Any]:
        """Return what every solver takes."""
        names = ("tol", "max_applications", "seed", "threads", "hook")
        return {name: getattr(self, name) for name in names}

    def pairs_for(self, labels: NDArray[np.int64]) -> int:
        """Tell how many pairs a graph with these components needs."""
        return max(self.pairs, min(int(labels.max()) + 1, self.clusters))


@dataclass(frozen=True)
class Solved:
    """The pairs, the parts of the graph, and the operator that gave them."""

    spectrum: steps.Spectrum
    parts: Components
    operator: Any
    route: str
    reason: str
    cutoff: float = 0.0
    power: int = 0  # the operator is A over 2^power


def route_wish(operator: str, solver: str | None, pairs: int, n: int) -> str:
    """Tell which operator is wished for: LAPACK, and most of the spectrum, need the matrix."""
    return "stored" if operator == "auto" and (solver == "dense" or pairs + 9 >= n // 2) else operator


def takes_whole(solver: str | None, pairs: int, n: int) -> bool:
    """Tell whether LAPACK takes a stored matrix whole."""
    return solver == "dense" or (solver not in ("arpack", "lobpcg") and (n <= _SMALL or pairs + 9 >= n // 2))


def solve(source: Source, w: Floats, demand: Demand) -> Solved:
    """Solve for the leading eigenpairs by the route that suits the affinity.

    Where parts of the graph hang together by next to nothing, eigenvalues crowd at one and no number of applications
    parts them. Matrices that LAPACK can take whole are then taken whole, after as many applications as that costs.
    """
    n, most = len(w), demand.max_applications
    own = demand.solver not in ("arpack", "lobpcg") and demand.operator not in ("cholesky", "finufft")
    enough = max(32, n // _PER_APPLICATION)
    rescued = own and n <= _WHOLE and enough <= most
    asked = replace(demand, max_applications=enough) if rescued else demand
    solved = _of_graph(source, w, asked) if source.graph is not None else _of_kernel(source, w, asked)
    if rescued and not solved.spectrum.converged:
        solved = _whole(solved, w, demand)
    m = demand.pairs_for(solved.parts.labels)
    return replace(solved, spectrum=steps.with_lone_rows(solved.spectrum, solved.parts.labels, m))


def _whole(solved: Solved, w: Floats, demand: Demand) -> Solved:
    """Solve again by LAPACK, on the matrix of the operator itself."""
    matrix, labels, before = solved.operator.rows(np.arange(len(w))), solved.parts.labels, solved.spectrum.applications
    spectrum, parts = steps.dense_spectrum(matrix, labels, w, demand.pairs_for(labels), demand.threads)
    spectrum = replace(spectrum, applications=before + 1)
    reason = f"{solved.reason}; LAPACK took the matrix whole, since {before} applications parted no eigenvalues"
    return replace(solved, spectrum=spectrum, parts=parts, reason=reason)


def _of_graph(source: Source, w: Floats, demand: Demand) -> Solved:
    operator = source.graph_operator(demand.threads)
    matrix = operator.matrix
    labels = sparse_components(matrix)
    m = demand.pairs_for(labels)
    if demand.solver in ("arpack", "lobpcg"):
        spectrum, parts = scipy_spectrum(demand.solver, operator, labels, w, m, **demand.options())
    elif demand.solver == "dense" or operator.n <= _SMALL_GRAPH or m + 8 >= operator.n // 2:
        whole = matrix.toarray() if is_sparse(matrix) else matrix
        spectrum, parts = steps.dense_spectrum(whole, labels, w, m, demand.threads)
    else:
        spectrum, parts = steps.sparse_spectrum(operator, matrix, labels, m, gap=demand.gap, **demand.options())
    return Solved(spectrum, parts, operator, "stored", "the graph is there", power=source.power)


def _of_kernel(source: Source, w: Floats, demand: Demand) -> Solved:
    assert source.kernel is not None
    n, threads, rows = len(w), demand.threads, source.points
    wish = route_wish(demand.operator, demand.solver, demand.pairs, n)
    whole = bool(source.wish.zero_diagonal)
    route = operators.choose(source.kernel, rows, wish, threads, whole=whole, owner=OWNER)
    reason = route.reason
    operator = source.without_diagonal(route.operator, threads)
    matrix = None
    if isinstance(route.operator, operators.Stored):
        matrix = route.operator.matrix
        if whole:
            matrix = matrix.copy()
            np.fill_diagonal(matrix, 0.0)
        labels = sparse_components(matrix)
    else:
        labels = near_components(rows, route.cutoff, threads)
    m = demand.pairs_for(labels)
    if demand.solver in ("arpack", "lobpcg"):
        spectrum, parts = scipy_spectrum(demand.solver, operator, labels, w, m, **demand.options())
    elif matrix is not None and takes_whole(demand.solver, m, n):
        spectrum, parts = steps.dense_spectrum(matrix, labels, w, m, threads)
    else:
        exact = replace(route, operator=operator, sketch="none" if whole else route.sketch)
        options = demand.options() | {"gap": demand.gap}
        spectrum, parts = steps.kernel_spectrum(exact, rows, source.sigma or 0.0, labels, w, m, **options)
        if spectrum.note:
            reason += f" ({spectrum.note})"
        elif exact.sketch == "cholesky":
            reason += " (which was refused: the kernel is not of low rank)"
    power = route.operator.power if isinstance(route.operator, operators.Stored) else 0
    return Solved(spectrum, parts, operator, route.name, reason, route.cutoff, power)
