"""The leading eigenpairs of an affinity: the choice of operator and solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knoll._common.sparse import is_sparse
from knoll._typing import Floats, Ints
from knoll.kernels.operators import CachedOperator
from knoll.spectral import embed
from knoll.spectral.affinity import OWNER, Affinity
from knoll.spectral.eigen import Hook
from knoll.spectral.graph import Components, near_components, sparse_components
from knoll.spectral.route import APPROXIMATE, Route, choose_route

_SMALL_GRAPH = 256  # rows up to which LAPACK takes a graph whole
_SMALL = 512  # and the matrix of a kernel
_WHOLE = 2400  # rows up to which LAPACK takes a matrix whole where a block method fails: a few seconds
_PER_APPLICATION = 16  # rows of a matrix: LAPACK takes n of them in the time of n/16 applications


@dataclass(frozen=True)
class EigenRequest:
    """The eigenpairs to solve for, and the limits of the solver."""

    pairs: int
    clusters: int  # the pairs of so many components are wanted too
    solver: str | None  # eigen_solver
    operator: str
    tol: float
    max_applications: int
    seed: int
    threads: int
    gap: bool = True  # whether the eigenvalue after the pairs is needed even where components give all of them
    hook: Hook | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments that every solver takes."""
        names = ("tol", "max_applications", "seed", "threads", "hook")
        return {name: getattr(self, name) for name in names}

    def pairs_for(self, labels: Ints) -> int:
        """Return how many pairs a graph with these components needs."""
        return max(self.pairs, min(int(labels.max()) + 1, self.clusters))


@dataclass(frozen=True)
class EigenResult:
    """The pairs, the components of the graph, and the route by which A was applied."""

    spectrum: embed.Spectrum
    components: Components
    route: Route
    power: int = 0  # the operator is A over 2^power


def operator_for(requested: str, solver: str | None, pairs: int, n: int) -> str:
    """Return the operator to plan for: LAPACK, and most of the spectrum, need the matrix."""
    return "stored" if requested == "auto" and (solver == "dense" or pairs + 9 >= n // 2) else requested


def solves_whole(solver: str | None, pairs: int, n: int) -> bool:
    """Return whether LAPACK takes a stored matrix whole."""
    return solver == "dense" or n <= _SMALL or pairs + 9 >= n // 2


def solve(affinity: Affinity, w: Floats, request: EigenRequest) -> EigenResult:
    """Solve for the leading eigenpairs by the route that suits the affinity.

    Where components of the graph are almost disconnected, eigenvalues crowd at one and no number of applications
    separates them. Matrices that LAPACK can take whole are then taken whole, after as many applications as that costs.
    """
    n, most = len(w), request.max_applications
    enough = max(32, n // _PER_APPLICATION)
    rescue = request.operator not in APPROXIMATE and n <= _WHOLE and enough <= most
    first = replace(request, max_applications=enough) if rescue else request
    result = _of_graph(affinity, w, first) if affinity.graph is not None else _of_kernel(affinity, w, first)
    if rescue and not result.spectrum.converged:
        result = _whole(result, w, request)
    m = request.pairs_for(result.components.labels)
    return replace(result, spectrum=embed.with_isolated_rows(result.spectrum, result.components.labels, m))


def _whole(result: EigenResult, w: Floats, request: EigenRequest) -> EigenResult:
    """Solve again by LAPACK, on the matrix of the operator itself."""
    route, labels, before = result.route, result.components.labels, result.spectrum.applications
    matrix = route.operator.rows(np.arange(len(w)))
    spectrum, components = embed.dense_spectrum(matrix, labels, w, request.pairs_for(labels), request.threads)
    reason = f"{route.reason}; LAPACK took the matrix whole, since {before} applications separated no eigenvalues"
    spectrum = replace(spectrum, applications=before + 1)
    return replace(result, spectrum=spectrum, components=components, route=replace(route, reason=reason))


def _of_graph(affinity: Affinity, w: Floats, request: EigenRequest) -> EigenResult:
    operator = affinity.graph_operator(request.threads)
    matrix = operator.matrix
    labels = sparse_components(matrix)
    m = request.pairs_for(labels)
    if request.solver == "dense" or operator.n <= _SMALL_GRAPH or m + 8 >= operator.n // 2:
        whole = matrix.toarray() if is_sparse(matrix) else matrix
        spectrum, components = embed.dense_spectrum(whole, labels, w, m, request.threads)
    else:
        options = request.options() | {"gap": request.gap}
        spectrum, components = embed.sparse_spectrum(operator, matrix, labels, m, **options)
    return EigenResult(spectrum, components, Route("stored", "the graph is stored", operator), affinity.power)


def _of_kernel(affinity: Affinity, w: Floats, request: EigenRequest) -> EigenResult:
    assert affinity.kernel is not None
    n, threads, rows = len(w), request.threads, affinity.points
    whole = bool(affinity.params.zero_diagonal)
    name = operator_for(request.operator, request.solver, request.pairs, n)
    route = choose_route(affinity.kernel, rows, name, threads, whole=whole, owner=OWNER)
    matrix, power = None, 0
    if isinstance(route.operator, CachedOperator):
        matrix, power = route.operator.matrix, route.operator.power
        if whole:
            matrix = matrix.copy()
            np.fill_diagonal(matrix, 0.0)
        labels = sparse_components(matrix)
    else:
        labels = near_components(rows, route.cutoff, threads)
    operator = affinity.without_diagonal(route.operator, threads)
    route = replace(route, operator=operator, sketch="none" if whole else route.sketch)
    m = request.pairs_for(labels)
    if matrix is not None and solves_whole(request.solver, m, n):
        spectrum, components = embed.dense_spectrum(matrix, labels, w, m, threads)
    else:
        options = request.options() | {"gap": request.gap}
        spectrum, components = embed.kernel_spectrum(route, rows, affinity.sigma or 0.0, labels, w, m, **options)
        if spectrum.note:
            route = replace(route, reason=f"{route.reason} ({spectrum.note})")
        elif route.sketch == "cholesky":
            route = replace(route, reason=f"{route.reason} (which was refused: the kernel is not of low rank)")
    return EigenResult(spectrum, components, route, power)
