"""The largest eigenpairs of a symmetric operator: block Krylov, thick restart, full reorthogonalisation.

The operator is known only by its products M·B with a block B. A block finds repeated eigenvalues with their
multiplicity, where a single vector would find one of each. Eigenvectors that are known beforehand (√d of a graph, one
for each of its components) are deflated. Products with an n-long side are the core's, whose bits do not depend on
threads.

A product with a sparse matrix costs less than keeping a basis orthogonal. Where eigenvalues crowd near one, the method
should then make few steps, each with an operator that separates them better (docs/decisions/0016-spectral.md): the
inverse of (1 + δ)I − M, where its factor fills little, as that of a chain or a sheet does; else Chebyshev polynomials
of M, which need products only. Both keep the eigenvectors and their order. M itself gives values and residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

from knoll import _core
from knoll._common.interrupt import interruptible
from knoll._common.linalg import eigh, inner, times
from knoll._typing import Floats

Apply = Callable[[Floats], Floats]
Hook = Callable[[int, float, float], None]  # number of the application, sum of the values, largest residual

GUARD = 8  # columns beyond the wanted ones: the more, the larger the gap that convergence sees
_BASIS_BYTES = 1 << 30  # of the basis and its image
_DEPENDENT = 1e-13  # a direction this small beside its block is rounding
_SURE = 1e-3  # a projection that takes less, and a Gram matrix that is better conditioned, lose no digits that count
_OF_THE_GAP = 0.02
_PURPOSE = 7  # the core's number for the directions that a solver begins with
_LEAST = 4  # applications after which a random column shows what a start left out, however good its own pairs are
_ROUNDING = 2.0**-46  # a residual below this share of the operator's size is rounding
GUARD_SPARSE = 2  # columns beyond the wanted ones: operators that separate the eigenvalues need few
_PLAIN = 4  # applications of M itself before another operator is considered
_SHIFT = 1e-6  # δ
_BALL = 2000  # rows whose factor shows how much the whole would fill
_FILL = 30.0  # entries of a factor in a row: chains and sheets have up to 25 in a ball, three dimensions 40 and more
_GROWTH = 5.0  # how far a filter lifts the eigenvalue one, as a logarithm
_DEGREES = (20, 400)  # of a filter
_STAGE = 40  # applications of a filter before a better one is made: a new one begins with few vectors


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues, largest first, with their unit vectors, images and certificates."""

    values: Floats  # (m,)
    vectors: Floats  # (n, m)
    images: Floats  # (n, m): M·vectors, as the last application gave it
    residuals: Floats  # (m,): ‖M v − λ v‖; an eigenvalue of M lies within it of λ
    applications: int  # blocks that M was applied to
    converged: bool

    def first(self, k: int) -> Self:
        """Keep the k largest."""
        return replace(
            self,
            values=self.values[:k],
            vectors=self.vectors[:, :k],
            images=self.images[:, :k],
            residuals=self.residuals[:k],
        )


# ---- products with an n-long side ----------------------------------------------------------------------------------


def orthonormal(block: Floats, against: list[Floats], threads: int = 1) -> Floats:
    """Return an orthonormal basis of the block, projected to the complement of `against`; dependent columns go.

    Projection and Gram matrix; a second time where cancellation lost digits in the first.
    """
    block = _unit(block)
    for _ in range(2):
        lost = 0.0
        for basis in against:
            if basis.shape[1] and block.shape[1]:
                share = inner(basis, block, threads)
                lost = max(lost, float(np.abs(share).max()))
                block = block - times(basis, share, threads)
        block = _unit(block)
        if not block.shape[1]:
            return block
        weight, rotation = eigh(inner(block, block, threads))
        kept = weight > _DEPENDENT * weight[-1]
        block = times(block, rotation[:, kept] / np.sqrt(weight[kept]), threads)
        if lost < _SURE and weight[0] > _SURE * weight[-1]:
            break
    return block


def _unit(block: Floats) -> Floats:
    size = _norms(block)
    return block[:, size > 0] / size[size > 0]


def rayleigh_ritz(basis: Floats, image: Floats, threads: int = 1) -> Eigenpairs:
    """Return the Ritz pairs of M in an orthonormal basis with image M·basis, and their residuals."""
    values, rotation = _largest_first(inner(basis, image, threads))
    vectors, images = times(basis, rotation, threads), times(image, rotation, threads)
    return Eigenpairs(values, vectors, images, _norms(images - vectors * values), 1, True)


def signed(vectors: Floats) -> Floats:
    """Return signs that make the first entry among the largest positive: rounding decides which is *the* largest."""
    if not vectors.size:
        return np.ones(vectors.shape[1])
    size = np.abs(vectors)
    first = (size >= (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    signs: Floats = np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return signs


# ---- the method ----------------------------------------------------------------------------------------------------


def top_eigenpairs(
    apply: Apply,
    n: int,
    k: int,
    *,
    first: Floats | None = None,
    start: Floats | None = None,
    applied: Floats | None = None,
    tol: float = 1e-8,
    judge: Apply | None = None,
    loose: int = 0,
    guard: int = GUARD,
    above: float | None = None,
    max_applications: int = 300,
    seed: int = 0,
    threads: int = 1,
    hook: Hook | None = None,
) -> Eigenpairs:
    """Find the k largest eigenvalues of M with eigenvectors orthogonal to `first`, and these vectors.

    Parameters
    ----------
    apply : callable
        B (n, b) → M·B (n, b), M symmetric.
    n, k : int
        Size of M, and how many pairs; k is at most n − (columns of `first`).
    first : (n, c), optional
        Orthonormal eigenvectors that are known; the method works in their orthogonal complement.
    start : (n, s), optional
        Approximate eigenvectors. Random columns join them, two at least, and a few applications are made however good
        the start is: it may have left an eigenvector out.
    applied : (n, s), optional
        M·start where it is known: saves the first application. The caller vouches that the start, orthonormal and
        orthogonal to `first`, leaves no larger eigenvalue out.
    tol : float
        Stop when ‖M v − λ v‖ ≤ tol for the first k − loose pairs.
    judge : callable, optional
        Another operator with the same eigenvectors in the same order, of which M is an inverse or a polynomial, for
        example: values, images, residuals and convergence are then those of it.
    loose : int
        Pairs at the end of the k that only give the gap: √tol or 2 % of the gap are enough for their residual.
    guard : int
        Columns of a block beyond the wanted ones.
    above : float, optional
        The eigenvalue of `first`, where the gap may be the one below it.
    max_applications : int
        Blocks that M is applied to, at most.
    seed : int
        Of the random columns.
    threads : int
        Of the tall products.
    hook : callable, optional
        Called after each application with its number, the sum of the k largest values so far, the largest residual.

    Returns
    -------
    Eigenpairs
        k pairs, largest first; `converged`: all are within their tolerance.
    """
    known = np.empty((n, 0)) if first is None else first
    free = n - known.shape[1]
    k = min(k, free)
    block = min(free, k + guard)
    if k == 0:
        return Eigenpairs(np.empty(0), np.empty((n, 0)), np.empty((n, 0)), np.empty(0), 0, True)
    basis, image, count = _begin(apply, n, block, known, start, applied, seed, threads)
    space = _Subspace(basis, image, most_columns(n, free, block), threads)
    del basis, image
    least = _LEAST if start is not None and applied is None else 0
    while True:
        values, vectors, images = space.ritz(block)
        wanted, lead = min(k, len(values)), vectors.shape[1]
        residual = images - vectors * values[:lead]
        norms = _norms(residual)
        if judge is None:
            seen = Eigenpairs(values[:wanted], vectors[:, :wanted], images[:, :wanted], norms[:wanted], count, False)
            floor = _ROUNDING * max(abs(values[0]), abs(values[-1]))
        else:
            seen = rayleigh_ritz(vectors[:, :wanted], judge(vectors[:, :wanted]), threads)
            floor = _ROUNDING
        limits = np.maximum(_limits(seen.values, k, loose, tol, above), floor)
        done = float((seen.residuals / limits).max()) <= 1 and wanted == k and count >= least
        if hook is not None:
            hook(count, float(seen.values.sum()), float(seen.residuals[: max(1, wanted - loose)].max()))
        if done or count >= max_applications:
            break
        space.restart_if_full(block, lead)
        new = orthonormal(residual[:, norms > 0], [known, space.basis], threads)
        if not new.shape[1]:  # an invariant subspace of fewer than k pairs
            new = orthonormal(random_block(n, block, seed + count + 1), [known, space.basis], threads)
            new = new[:, : free - space.basis.shape[1]]
            if not new.shape[1]:
                break
        space.append(new, apply(new))
        count += 1
    return replace(seen, applications=count, converged=done)


def _limits(values: Floats, k: int, loose: int, tol: float, above: float | None) -> Floats:
    """Return the largest accepted residual of each pair: tol, and less strict ones for the `loose` last."""
    firm = k - loose
    last = max(tol, np.sqrt(tol))
    if loose and len(values) == k and (firm or above is not None):
        gap = (values[firm - 1] if firm else above) - values[firm]
        last = max(last, _OF_THE_GAP * gap)
    return np.where(np.arange(len(values)) < firm, tol, last)


class _Subspace:
    """An orthonormal basis that grows, its image under M, and the projection basisᵀ M basis."""

    def __init__(self, basis: Floats, image: Floats, most: int, threads: int) -> None:
        self._basis, self._image = _Columns(basis, most), _Columns(image, most)
        self._most, self._threads = most, threads
        self._projection = inner(basis, image, threads)  # (m, m)

    @property
    def basis(self) -> Floats:
        """The basis, (n, m)."""
        return self._basis.filled

    def ritz(self, lead: int) -> tuple[Floats, Floats, Floats]:
        """Return all Ritz values, largest first, and the first `lead` Ritz vectors with their images."""
        self._values, self._rotation = _largest_first(self._projection)
        rotation = self._rotation[:, :lead]
        vectors, images = (times(columns.filled, rotation, self._threads) for columns in (self._basis, self._image))
        return self._values, vectors, images

    def restart_if_full(self, block: int, lead: int) -> None:
        """Restart with the best half of the Ritz vectors, `lead` at least, where a block would not fit."""
        size = self.basis.shape[1]
        if size + block <= self._most:
            return
        keep = min(size, max(lead, self._most // 2 - block))
        for columns in (self._basis, self._image):
            columns.restart(times(columns.filled, self._rotation[:, :keep], self._threads))
        self._projection = np.diag(self._values[:keep])

    def append(self, new: Floats, image: Floats) -> None:
        """Add orthonormal columns and their image."""
        side = inner(self.basis, image, self._threads)
        corner = inner(new, image, self._threads)
        self._projection = np.block([[self._projection, side], [side.T, corner]])
        self._basis.append(new)
        self._image.append(image)


class _Columns:
    """Columns (n, m) that grow in place: a copy of all of them for each new block would cost more than the block."""

    def __init__(self, block: Floats, most: int) -> None:
        self._most, self._count = most, 0
        self._buffer = np.empty((len(block), max(block.shape[1], min(most, 4 * block.shape[1]))))
        self.append(block)

    @property
    def filled(self) -> Floats:
        """The columns so far."""
        return self._buffer[:, : self._count]

    def append(self, block: Floats) -> None:
        """Add columns at the end."""
        count = self._count + block.shape[1]
        if count > self._buffer.shape[1]:
            wider = np.empty((len(block), max(count, min(2 * self._buffer.shape[1], self._most))))
            wider[:, : self._count] = self.filled
            self._buffer = wider
        self._buffer[:, self._count : count] = block
        self._count = count

    def restart(self, block: Floats) -> None:
        """Begin again with these columns."""
        self._count = 0
        self.append(block)


def _begin(
    apply: Apply,
    n: int,
    block: int,
    known: Floats,
    start: Floats | None,
    applied: Floats | None,
    seed: int,
    threads: int,
) -> tuple[Floats, Floats, int]:
    """Make the first orthonormal basis and its image."""
    free = n - known.shape[1]
    if start is None:
        basis = orthonormal(random_block(n, block, seed), [known], threads)[:, :free]
        return basis, apply(basis), 1
    if applied is not None:
        return start, applied, 0
    more = max(2, block - start.shape[1])
    basis = orthonormal(np.hstack([start, random_block(n, more, seed)]), [known], threads)[:, :free]
    return basis, apply(basis), 1


def random_block(n: int, columns: int, seed: int) -> Floats:
    """Fill (n, columns) with normal numbers of a seed."""
    out = np.empty(n * columns)
    _core.fill_normal(seed % 2**64, _PURPOSE, 0, out, 1)
    return out.reshape(n, columns)


def most_columns(n: int, free: int, block: int) -> int:
    """Return the largest number of columns of the basis: a gigabyte of them, between 4 and 16 blocks."""
    fits = _BASIS_BYTES // (16 * n)
    return int(min(free, max(4 * block, min(fits, 16 * block))))


def _largest_first(small: Floats) -> tuple[Floats, Floats]:
    values, rotation = eigh((small + small.T) / 2)
    return values[::-1].copy(), rotation[:, ::-1].copy()


def _norms(block: Floats) -> Floats:
    return np.sqrt(np.einsum("ij,ij->j", block, block))


# ---- sparse matrices -------------------------------------------------------------------------------------------------


class SparseMatrix:
    """M = SAS as compressed rows, in an order in which linked rows lie near each other; products are the core's."""

    def __init__(self, matrix: Any, scale: Floats, threads: int) -> None:
        rows: Any = scipy.sparse.csr_array(matrix)
        self.n, self.threads = rows.shape[0], threads
        self.order = scipy.sparse.csgraph.reverse_cuthill_mckee(rows, symmetric_mode=True)
        self.position = np.empty_like(self.order)
        self.position[self.order] = np.arange(self.n)
        rows = rows[self.order]
        counts = np.diff(rows.indptr)
        self._begin = rows.indptr.astype(np.int64)
        self._column = self.position[rows.indices].astype(np.int32)
        self._value = rows.data * np.repeat(scale[self.order], counts) * scale[rows.indices]

    def times(self, B: Floats) -> Floats:
        """M·B, rows and columns in the order of `order`."""
        out = np.empty(B.shape)
        _core.sparse_times(self._begin, self._column, self._value, B, out, self.threads)
        return out

    def filtered(self, B: Floats, cut: float, degree: int) -> Floats:
        """Apply the Chebyshev polynomial that is small on [−1, cut] and 1 at 1, in the same order."""
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
    """Find the k largest pairs beside `first`, whose eigenvalue is one; also name the operator applied beside M.

    A few products with M come first: well separated clusters need no more. Applications of a filter and of the inverse
    count as those of M do.
    """
    first = first[M.order]
    options: dict[str, Any] = {
        "first": first,
        "tol": tol,
        "loose": loose,
        "above": 1.0,
        "seed": seed,
        "threads": threads,
        "guard": GUARD_SPARSE,
    }
    pairs = top_eigenpairs(M.times, M.n, k, max_applications=min(_PLAIN, max_applications), hook=hook, **options)
    note = ""
    if not pairs.converged and pairs.applications < max_applications:
        options["judge"] = M.times
        if _fill(M, first) <= _FILL:
            note, pairs = "shift and invert", _by_inverse(M, k, pairs, max_applications, hook, options)
        else:
            note, pairs = "Chebyshev's filter", _by_filter(M, k, pairs, max_applications, hook, options)
    return replace(pairs, vectors=pairs.vectors[M.position], images=pairs.images[M.position]), note


def _fill(M: SparseMatrix, first: Floats) -> float:
    """Estimate the entries in a row of the factor from a ball of rows in the heaviest component."""
    system = M.system(_SHIFT)
    if M.n > _BALL:
        inside = np.flatnonzero(first[:, 0])
        ball = scipy.sparse.csgraph.breadth_first_order(
            system, int(inside[len(inside) // 2]), directed=False, return_predecessors=False
        )[:_BALL]
        ball.sort()
        system = scipy.sparse.csc_array(system[ball][:, ball])
    return _Factor(system).entries / float(system.shape[0])


class _Factor:
    """A symmetric positive definite matrix, factorised in an order of little fill."""

    def __init__(self, system: Any) -> None:
        # SuperLU's minimum degree order; its factors are dropped: their bits depend on the threads of its BLAS
        order = scipy.sparse.linalg.spilu(
            system,
            drop_tol=1.0,
            fill_factor=1,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        ).perm_c
        self.position = order  # of each row in the factor
        self.order = np.argsort(order)
        rows = scipy.sparse.csr_array(system)[self.order][:, self.order]
        self._core = _core.SparseCholesky(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
        self.entries = self._core.entries + len(order)

    def solve(self, B: Floats) -> Floats:
        """Return the solution for each column of B."""
        out = np.ascontiguousarray(B[self.order])
        self._core.solve(out)
        return out[self.position]


def _by_inverse(
    M: SparseMatrix, k: int, begun: Eigenpairs, most: int, hook: Hook | None, options: dict[str, Any]
) -> Eigenpairs:
    """Continue with ((1 + δ)I − M)⁻¹, whose largest eigenvalues are far apart where those of M crowd near one."""
    factor = interruptible(lambda: _Factor(M.system(_SHIFT)))  # about 8 µs a row: seconds for a million
    return _continue(factor.solve, M, k, begun, most, hook, options)


def _by_filter(
    M: SparseMatrix, k: int, begun: Eigenpairs, most: int, hook: Hook | None, options: dict[str, Any]
) -> Eigenpairs:
    """Continue with a Chebyshev polynomial of M, and after many steps with a better one.

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

        pairs = _continue(apply, M, k, pairs, min(pairs.applications + _STAGE, most), hook, options)
    return pairs


def _continue(
    apply: Apply, M: SparseMatrix, k: int, begun: Eigenpairs, most: int, hook: Hook | None, options: dict[str, Any]
) -> Eigenpairs:
    """Begin with the vectors so far and apply another operator; applications add up."""
    before = begun.applications
    shifted = None if hook is None else lambda count, total, worst: hook(before + count, total, worst)
    found = top_eigenpairs(apply, M.n, k, start=begun.vectors, max_applications=most - before, hook=shifted, **options)
    return replace(found, applications=before + found.applications)
