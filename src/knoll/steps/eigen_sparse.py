"""The largest eigenpairs of a sparse symmetric M with eigenvalues in [−1, 1], where they crowd near one.

A product with a sparse matrix costs less than keeping a basis orthogonal, so a block method should make few steps, each
with an operator that spreads the crowd. Two are at hand (docs/decisions/0016-spectral.md): the inverse of (1 + δ)I − M,
where its factor fills little, as that of a chain or a sheet does; else Chebyshev's polynomials of M, which need no more
than products. Both leave the eigenvectors and their order as they are, and M itself judges values and residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg
from numpy.typing import NDArray

from knoll import _core
from knoll.steps.eigen import Apply, Eigenpairs, top_eigenpairs
from knoll.steps.small import one_thread
from knoll.steps.stoppable import stoppable

__all__ = ["SparseMatrix", "sparse_eigenpairs"]

Floats = NDArray[np.float64]
Hook = Callable[[int, float, float], None]

_GUARD = 2  # columns beyond the wanted ones: operators that spread the crowd need few
_LOOK = 4  # applications of M itself before another operator is thought of
_SHIFT = 1e-6  # δ
_BALL = 2000  # rows whose factor tells how the whole would fill
_FILL = 30.0  # entries of a factor in a row: chains and sheets have up to 25 in a ball, three dimensions 40 and more
_GROWTH = 5.0  # how far a filter lifts the eigenvalue one, as a logarithm
_DEGREES = (20, 400)  # of a filter
_STAGE = 40  # applications of a filter before a better one is made: a new one begins with few vectors


class SparseMatrix:
    """M = SAS as compressed rows, in an order in which linked rows lie near each other; products are the core's."""

    def __init__(self, matrix: Any, scale: Floats, threads: int) -> None:
        rows: Any = scipy.sparse.csr_array(matrix)
        self.n, self.threads = rows.shape[0], threads
        self.order = scipy.sparse.csgraph.reverse_cuthill_mckee(rows, symmetric_mode=True)
        self.place = np.empty_like(self.order)
        self.place[self.order] = np.arange(self.n)
        rows = rows[self.order]
        counts = np.diff(rows.indptr)
        self._begin = rows.indptr.astype(np.int64)
        self._column = self.place[rows.indices].astype(np.int32)
        self._value = rows.data * np.repeat(scale[self.order], counts) * scale[rows.indices]

    def times(self, B: Floats) -> Floats:
        """M·B, rows and columns in the order of `order`."""
        out = np.empty(B.shape)
        _core.sparse_times(self._begin, self._column, self._value, B, out, self.threads)
        return out

    def filtered(self, B: Floats, cut: float, degree: int) -> Floats:
        """Apply Chebyshev's polynomial that is small on [−1, cut] and 1 at 1, in the same order."""
        out = np.empty(B.shape)
        _core.sparse_chebyshev(self._begin, self._column, self._value, cut, degree, B, out, self.threads)
        return out

    def system(self, shift: float) -> Any:
        """(1 + shift)I − M."""
        shape = (self.n, self.n)
        own = scipy.sparse.csr_array((self._value, self._column, self._begin), shape=shape)
        return scipy.sparse.csc_array(scipy.sparse.eye_array(self.n) * (1 + shift) - own)


def sparse_eigenpairs(
    M: SparseMatrix,
    k: int,
    *,
    first: Floats,
    tol: float,
    loose: int,
    max_applications: int,
    seed: int,
    threads: int,
    hook: Hook | None = None,
) -> tuple[Eigenpairs, str]:
    """Find the k largest pairs beside `first`, whose eigenvalue is one, and tell what was applied beside M.

    Some products with M come first: clusters that are well apart need no more. Applications of a filter and of the
    inverse count as those of M do.
    """
    first = first[M.order]
    options: dict[str, Any] = {
        "first": first,
        "tol": tol,
        "loose": loose,
        "above": 1.0,
        "seed": seed,
        "threads": threads,
        "guard": _GUARD,
    }
    pairs = top_eigenpairs(M.times, M.n, k, max_applications=min(_LOOK, max_applications), hook=hook, **options)
    note = ""
    if not pairs.converged and pairs.applications < max_applications:
        options["judge"] = M.times
        if _fill(M, first) <= _FILL:
            note, pairs = "shift and invert", _by_inverse(M, k, pairs, max_applications, hook, options)
        else:
            note, pairs = "Chebyshev's filter", _by_filter(M, k, pairs, max_applications, hook, options)
    return replace(pairs, vectors=pairs.vectors[M.place], images=pairs.images[M.place]), note


def _fill(M: SparseMatrix, first: Floats) -> float:
    """Tell how many entries a row of the factor has, by a ball of rows in the heaviest component."""
    system = M.system(_SHIFT)
    if M.n > _BALL:
        inside = np.flatnonzero(first[:, 0])
        ball = scipy.sparse.csgraph.breadth_first_order(
            system, int(inside[len(inside) // 2]), directed=False, return_predecessors=False
        )[:_BALL]
        ball.sort()
        system = scipy.sparse.csc_array(system[ball][:, ball])
    return float(_factor(system).nnz) / 2 / system.shape[0]


def _factor(system: Any) -> Any:
    """Factorise a symmetric positive definite matrix; its library's bits, too, must not depend on threads."""
    with one_thread():
        return scipy.sparse.linalg.splu(
            system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, panel_size=1, options={"SymmetricMode": True}
        )


def _by_inverse(
    M: SparseMatrix, k: int, begun: Eigenpairs, most: int, hook: Hook | None, options: dict[str, Any]
) -> Eigenpairs:
    """Go on with ((1 + δ)I − M)⁻¹, whose largest eigenvalues are far apart where M's crowd near one."""
    factor = stoppable(lambda: _factor(M.system(_SHIFT)))  # some 8 µs a row: seconds for a million

    def apply(B: Floats) -> Floats:
        with one_thread():
            return np.ascontiguousarray(factor.solve(B))

    return _go_on(apply, M, k, begun, most, hook, options)


def _by_filter(
    M: SparseMatrix, k: int, begun: Eigenpairs, most: int, hook: Hook | None, options: dict[str, Any]
) -> Eigenpairs:
    """Go on with Chebyshev's polynomials of M, and after many steps with a better one.

    The j-th value of a projection is never above the j-th eigenvalue, so a cut at the last of them lies below all that
    are wanted. The nearer it is to them, the higher a degree lifts them equally far.
    """
    pairs = begun
    while not pairs.converged and pairs.applications < most:
        last_value = float(pairs.values[-1]) if len(pairs.values) == k else -1.0
        below = min(max(1 - last_value, 1e-14), 1.99)
        degree = int(np.clip(np.ceil(_GROWTH / np.sqrt(2 * below)), *_DEGREES))

        def apply(B: Floats, cut: float = 1 - below, degree: int = degree) -> Floats:
            return M.filtered(B, cut, degree)

        pairs = _go_on(apply, M, k, pairs, min(pairs.applications + _STAGE, most), hook, options)
    return pairs


def _go_on(
    apply: Apply, M: SparseMatrix, k: int, begun: Eigenpairs, most: int, hook: Hook | None, options: dict[str, Any]
) -> Eigenpairs:
    """Begin with the vectors so far and apply something else; applications add up."""
    before = begun.applications
    told = None if hook is None else lambda count, total, worst: hook(before + count, total, worst)
    found = top_eigenpairs(apply, M.n, k, start=begun.vectors, max_applications=most - before, hook=told, **options)
    return replace(found, applications=before + found.applications)
