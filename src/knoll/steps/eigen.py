"""The largest eigenpairs of a symmetric operator: block Krylov, thick restart, full reorthogonalisation.

The operator is known only by its products M·B with a block B. A block finds repeated eigenvalues with their
multiplicity, where a single vector would find one of each. Eigenvectors that are known beforehand (√d of a graph, one
for each of its components) are deflated. Products with an n-long side are the core's, whose bits do not depend on
threads; LAPACK sees small matrices only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.steps.small import eigh

__all__ = [
    "Apply",
    "Eigenpairs",
    "inner",
    "most_columns",
    "orthonormal",
    "random_block",
    "rayleigh_ritz",
    "signed",
    "times",
    "top_eigenpairs",
]

Floats = NDArray[np.float64]
Apply = Callable[[Floats], Floats]

GUARD = 8  # columns beyond the wanted ones: the more, the larger the gap that convergence sees
_BASIS_BYTES = 1 << 30  # of the basis and its image
_DEPENDENT = 1e-13  # a direction this small beside its block is rounding
_SURE = 1e-3  # a projection that takes less, and a Gram matrix that is better conditioned, lose no digits that count
_OF_THE_GAP = 0.02
_PURPOSE = 7  # the core's number for the directions that a solver begins with
_LEAST = 4  # applications after which a random column shows what a start left out, however good its own pairs are
_ROUNDING = 2.0**-46  # a residual below this share of the operator's size cannot be told from rounding


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues, largest first, with their unit vectors, images and certificates."""

    values: Floats  # (m,)
    vectors: Floats  # (n, m)
    images: Floats  # (n, m): M·vectors, as the last application gave it
    residuals: Floats  # (m,): ‖M v − λ v‖; an eigenvalue of M lies within it of λ
    applications: int  # blocks that M was applied to
    converged: bool

    def first(self, k: int) -> Eigenpairs:
        """Keep the k largest."""
        return Eigenpairs(
            self.values[:k],
            self.vectors[:, :k],
            self.images[:, :k],
            self.residuals[:k],
            self.applications,
            self.converged,
        )


# ---- products with an n-long side ----------------------------------------------------------------------------------


def inner(a: Floats, b: Floats, threads: int = 1) -> Floats:
    """AᵀB of tall A (n, p) and B (n, m)."""
    out = np.empty((a.shape[1], b.shape[1]))
    _core.tall_inner(a, b, out, threads)
    return out


def times(a: Floats, c: Floats, threads: int = 1) -> Floats:
    """A·C of tall A (n, p) and small C (p, m)."""
    out = np.empty((a.shape[0], c.shape[1]))
    _core.tall_times(a, np.ascontiguousarray(c), out, threads)
    return out


def orthonormal(block: Floats, against: list[Floats], threads: int = 1) -> Floats:
    """Return an orthonormal basis of the block's part that is orthogonal to what is given; dependent columns go.

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
        weight, turn = eigh(inner(block, block, threads))
        kept = weight > _DEPENDENT * weight[-1]
        block = times(block, turn[:, kept] / np.sqrt(weight[kept]), threads)
        if lost < _SURE and weight[0] > _SURE * weight[-1]:
            break
    return block


def _unit(block: Floats) -> Floats:
    size = _norms(block)
    return block[:, size > 0] / size[size > 0]


def rayleigh_ritz(basis: Floats, image: Floats, threads: int = 1) -> Eigenpairs:
    """Take the best eigenpairs of M that an orthonormal basis and its image M·basis hold, with their residuals."""
    values, turn = _largest_first(inner(basis, image, threads))
    vectors, images = times(basis, turn, threads), times(image, turn, threads)
    return Eigenpairs(values, vectors, images, _norms(images - vectors * values), 1, True)


def signed(vectors: Floats) -> Floats:
    """Turn signs so that the first entry among the largest is positive: rounding decides which is *the* largest."""
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
    hook: Callable[[int, float, float], None] | None = None,
) -> Eigenpairs:
    """Find the k largest eigenvalues of M that belong to vectors orthogonal to `first`, and their vectors.

    Parameters
    ----------
    apply : callable
        B (n, b) → M·B (n, b), M symmetric.
    n, k : int
        Size of M, and how many pairs; k is at most n − (columns of `first`).
    first : (n, c), optional
        Orthonormal eigenvectors that are known already; everything happens in their orthogonal complement.
    start : (n, s), optional
        Approximate eigenvectors. Random columns join them, two at least, and some applications are made however good
        the start is: it may have left an eigenvector out.
    applied : (n, s), optional
        M·start where it is known: saves the first application. The caller vouches that the start, orthonormal and
        orthogonal to `first`, leaves no larger eigenvalue out.
    tol : float
        Stop when ‖M v − λ v‖ ≤ tol for the first k − loose pairs.
    judge : callable, optional
        Another operator with the same eigenvectors in the same order, of which M is an inverse or a polynomial, say:
        values, images, residuals and the end are then by it.
    loose : int
        Pairs at the end of the k that only tell the gap: √tol or 2 % of the gap are enough for their residual.
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
        Told after each application: its number, the sum of the k largest values so far, the largest residual.

    Returns
    -------
    Eigenpairs
        k pairs, largest first; `converged` tells whether all are within their tolerance.
    """
    known = np.empty((n, 0)) if first is None else first
    free = n - known.shape[1]
    k = min(k, free)
    block = min(free, k + guard)
    if k == 0:
        return Eigenpairs(np.empty(0), np.empty((n, 0)), np.empty((n, 0)), np.empty(0), 0, True)
    limits = np.where(np.arange(k) < k - loose, tol, max(tol, np.sqrt(tol)))
    firm = k - loose
    begun, began, count = _begin(apply, n, block, known, start, applied, seed, threads)
    most = most_columns(n, free, block)
    grown, imaged = _Columns(begun, most), _Columns(began, most)
    least = _LEAST if start is not None and applied is None else 0
    small = inner(begun, began, threads)  # (m, m): basisᵀ M basis
    del begun, began
    while True:
        basis, image = grown.filled, imaged.filled
        values, turn = _largest_first(small)
        wanted = min(k, len(values))
        lead = min(len(values), block)
        vectors, images = times(basis, turn[:, :lead], threads), times(image, turn[:, :lead], threads)
        rest = images - vectors * values[:lead]
        left = _norms(rest)
        if judge is None:
            seen = Eigenpairs(values[:wanted], vectors[:, :wanted], images[:, :wanted], left[:wanted], count, False)
        else:
            seen = rayleigh_ritz(vectors[:, :wanted], judge(vectors[:, :wanted]), threads)
        if loose and wanted == k and (firm or above is not None):
            gap = (seen.values[firm - 1] if firm else above) - seen.values[firm]
            limits[firm:] = max(tol, np.sqrt(tol), _OF_THE_GAP * gap)
        floor = _ROUNDING * max(abs(values[0]), abs(values[-1])) if judge is None else _ROUNDING
        worst = float((seen.residuals / np.maximum(limits[:wanted], floor)).max())
        done = worst <= 1 and wanted == k and count >= least
        if hook is not None:
            hook(count, float(seen.values.sum()), float(seen.residuals[: max(1, wanted - loose)].max()))
        if done or count >= max_applications:
            break
        if basis.shape[1] + block > most:  # thick restart: the best half stays
            keep = min(basis.shape[1], max(lead, most // 2 - block))
            basis = grown.restart(times(basis, turn[:, :keep], threads))
            image = imaged.restart(times(image, turn[:, :keep], threads))
            small = np.diag(values[:keep])
        new = orthonormal(rest[:, left > 0], [known, basis], threads)
        if not new.shape[1]:  # an invariant subspace, too small to hold k pairs
            new = orthonormal(random_block(n, block, seed + count + 1), [known, basis], threads)[
                :, : free - basis.shape[1]
            ]
            if not new.shape[1]:
                break
        more = apply(new)
        count += 1
        side = inner(basis, more, threads)
        small = np.block([[small, side], [side.T, inner(new, more, threads)]])
        grown.append(new)
        imaged.append(more)
    return replace(seen, applications=count, converged=done)


class _Columns:
    """Columns (n, m) that grow in place: a copy of all of them for each new block would cost more than the block."""

    def __init__(self, block: Floats, most: int) -> None:
        self._most, self._count = most, 0
        self._room = np.empty((len(block), max(block.shape[1], min(most, 4 * block.shape[1]))))
        self.append(block)

    @property
    def filled(self) -> Floats:
        """The columns so far."""
        return self._room[:, : self._count]

    def append(self, block: Floats) -> None:
        """Add columns at the end."""
        count = self._count + block.shape[1]
        if count > self._room.shape[1]:
            wider = np.empty((len(block), max(count, min(2 * self._room.shape[1], self._most))))
            wider[:, : self._count] = self.filled
            self._room = wider
        self._room[:, self._count : count] = block
        self._count = count

    def restart(self, block: Floats) -> Floats:
        """Begin again with these columns."""
        self._count = 0
        self.append(block)
        return self.filled


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
    """Choose how many columns the basis may have: what a gigabyte holds, between 4 and 16 blocks."""
    fits = _BASIS_BYTES // (16 * n)
    return int(min(free, max(4 * block, min(fits, 16 * block))))


def _largest_first(small: Floats) -> tuple[Floats, Floats]:
    values, turn = eigh((small + small.T) / 2)
    return values[::-1].copy(), turn[:, ::-1].copy()


def _norms(block: Floats) -> Floats:
    return np.sqrt(np.einsum("ij,ij->j", block, block))
