"""Products, eigenvalues and singular values whose bits do not depend on the threads of a BLAS.

A BLAS adds in another order for another number of threads, and can be limited for the whole process only, which would
change the limits of the caller's other threads. Its threads also wait for each other by spinning: on a machine with
other work an eigenproblem of 300 rows took half a second instead of a hundredth (docs/decisions/0016-spectral.md).
So what is large enough to be threaded is computed by the core, on one thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from knoll import _core
from knoll._typing import Floats

_SMALL = 64  # rows: OpenBLAS takes threads for products of more than 64³ multiplications
_BLOCK = 32  # reflections that are applied at once


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


def eigh(matrix: Floats, last: int | None = None) -> tuple[Floats, Floats]:
    """Return eigenvalues, smallest first, and eigenvectors of a symmetric matrix; with `last` the largest ones only.

    Entries are of the order of one. A = QTQᵀ with a tridiagonal T, whose eigenpairs LAPACK finds by relatively robust
    representations, a method without products of matrices, so without threads.
    """
    n = len(matrix)
    chosen = None if last is None else (n - last, n - 1)
    if n <= _SMALL:
        return scipy.linalg.eigh(matrix, subset_by_index=chosen)
    diagonal, off_diagonal, tau = np.empty(n), np.empty(n - 1), np.empty(n - 1)
    reflectors = np.empty((n - 1, n))
    _core.tridiagonalise(matrix, diagonal, off_diagonal, tau, reflectors)
    values, vectors = _tridiagonal(diagonal, off_diagonal, chosen)
    return values, _reflected(reflectors, tau, vectors)


def _tridiagonal(diagonal: Floats, off_diagonal: Floats, chosen: tuple[int, int] | None) -> tuple[Floats, Floats]:
    """Return the chosen eigenpairs; many tiny entries beside the diagonal may defeat stemr, then all by QL steps."""
    select: dict[str, Any] = {} if chosen is None else {"select": "i", "select_range": chosen}
    try:
        return scipy.linalg.eigh_tridiagonal(diagonal, off_diagonal, lapack_driver="stemr", **select)
    except np.linalg.LinAlgError:
        found = scipy.linalg.eigh_tridiagonal(diagonal, off_diagonal, lapack_driver="stev")
        values, vectors = (np.asarray(one, np.float64) for one in found)
        first, last = chosen or (0, len(diagonal) - 1)
        return values[first : last + 1], vectors[:, first : last + 1]


def _reflected(reflectors: Floats, tau: Floats, vectors: Floats) -> Floats:
    """Return H_0 H_1 … H_{n−2}·vectors, a block of reflections at a time: their product is I − V T Vᵀ.

    T is upper triangular: column j is −τ_j T Vᵀv_j above τ_j (Schreiber and Van Loan, 1989).
    """
    out = np.ascontiguousarray(vectors)
    for begin in reversed(range(0, len(tau), _BLOCK)):
        end = min(begin + _BLOCK, len(tau))
        V = reflectors[begin:end, begin:].T  # (n − begin, block): the entries before are zeros
        products, T = inner(V, V), np.diag(tau[begin:end])
        for j in range(1, end - begin):
            T[:j, j] = -T[j, j] * (T[:j, :j] * products[:j, j]).sum(axis=1)
        out[begin:] -= times(V, times(T, inner(V, out[begin:])))
    return out


def svd(matrix: Floats) -> tuple[Floats, Floats, Floats]:
    """Return U (m, r), the singular values, largest first, and Vᵀ (r, k) of a small matrix, r = min(m, k).

    A large one has the eigenpairs (u, v)/√2 of [[0, A], [Aᵀ, 0]], whose values are ± the singular values.
    """
    m, k = matrix.shape
    if max(m, k) <= _SMALL // 2:
        return scipy.linalg.svd(matrix, full_matrices=False)
    both = np.zeros((m + k, m + k))
    both[:m, m:], both[m:, :m] = matrix, matrix.T
    values, vectors = (found[..., ::-1] for found in eigh(both, min(m, k)))
    positive = values > 1e-12 * max(values[0], np.finfo(np.float64).tiny)
    left, right = (_completed(np.sqrt(2.0) * side[:, positive], len(values)) for side in (vectors[:m], vectors[m:]))
    return left, np.where(positive, values, 0.0), right.T


def _completed(columns: Floats, count: int) -> Floats:
    """Add orthonormal columns, so that there are `count`."""
    missing = count - columns.shape[1]
    if missing == 0:
        return columns
    complement = np.eye(len(columns)) - times(columns, columns.T)
    return np.hstack([columns, eigh(complement, missing)[1]])
