"""SciPy's eigensolvers on the same operator: ARPACK and LOBPCG, with the known eigenvectors deflated."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse.linalg
from numpy.typing import NDArray

from knoll._common.linalg import eigh, inner, times
from knoll._typing import Floats
from knoll.kernels.operators import Operator
from knoll.spectral import embed
from knoll.spectral.eigen import GUARD, Eigenpairs, Hook, random_block, rayleigh_ritz
from knoll.spectral.graph import Components, heaviest, inverse_roots, known_vectors

__all__ = ["scipy_spectrum"]


def scipy_spectrum(
    solver: str,
    operator: Operator,
    labels: NDArray[np.int64],
    weights: Floats,
    m: int,
    *,
    tol: float,
    max_applications: int,
    seed: int,
    threads: int,
    hook: Hook | None = None,
) -> tuple[embed.Spectrum, Components]:
    """Solve for m pairs by "arpack" or "lobpcg"; one more application of the operator gives the residuals."""
    n = operator.n
    degrees = operator.apply(weights[:, None])[:, 0]
    found = heaviest(labels, degrees, weights)
    first = known_vectors(found, degrees, weights, m + 1)
    scale = inverse_roots(weights, degrees)
    many = min(m + 1, n - int(np.count_nonzero(found.labels < 0)))
    unknown = max(0, many - first.shape[1])
    count = 0

    def apply(B: Floats) -> Floats:
        nonlocal count
        count += 1
        block = B.reshape(n, -1)
        return np.asarray(scale * operator.apply(np.ascontiguousarray(scale * block))).reshape(B.shape)

    def deflated(B: Floats) -> Floats:  # moves the known eigenvalues from 1 to −1
        block = B.reshape(n, -1)
        return apply(B) - 2 * times(first, inner(first, block, threads), threads).reshape(B.shape)

    if unknown == 0:
        pairs = Eigenpairs(np.empty(0), np.empty((n, 0)), np.empty((n, 0)), np.empty(0), 0, True)
        return embed.joined(first, pairs, m, degrees, solver), found
    vectors: Any
    if unknown + GUARD >= (n - first.shape[1]) // 5:  # too close to the whole spectrum for either: LOBPCG refuses
        vectors = eigh(deflated(np.eye(n)))[1][:, ::-1][:, :unknown]
    elif solver == "arpack":
        linear: Any = scipy.sparse.linalg.LinearOperator((n, n), matvec=deflated, matmat=deflated, dtype=np.float64)
        start = random_block(n, 1, seed)[:, 0]
        try:
            _, vectors = scipy.sparse.linalg.eigsh(
                linear, k=unknown, which="LA", v0=start, tol=tol / 10, maxiter=20 * max_applications
            )
        except scipy.sparse.linalg.ArpackNoConvergence as stopped:
            vectors = np.hstack([stopped.eigenvectors, random_block(n, unknown, seed)])[:, :unknown]
    else:
        with warnings.catch_warnings():
            # LOBPCG warns of columns beyond the wanted ones, and only the filters of the process can stop that. They
            # are changed where this solver is requested, nowhere else; the residuals show what did not converge.
            warnings.simplefilter("ignore", UserWarning)
            _, vectors = scipy.sparse.linalg.lobpcg(
                apply,
                random_block(n, unknown + GUARD, seed),
                Y=first,
                tol=tol / 10,
                maxiter=max_applications,
                largest=True,
            )
    basis, _ = np.linalg.qr(vectors)
    pairs = rayleigh_ritz(np.ascontiguousarray(basis), apply(np.ascontiguousarray(basis)), threads).first(unknown)
    limits = np.where(np.arange(unknown) < unknown - (1 if many > m else 0), tol, np.sqrt(tol))
    done = bool((pairs.residuals <= np.maximum(limits, 1e-12)).all())
    pairs = Eigenpairs(pairs.values, pairs.vectors, pairs.images, pairs.residuals, count, done)
    if hook is not None:
        hook(count, float(first.shape[1] + pairs.values.sum()), float(pairs.residuals.max()))
    return embed.joined(first, pairs, m, degrees, solver), found
