"""NJW spectral clustering, step by step: degrees, components, eigenpairs of D^-½AD^-½, rows, extension (eq. 4.18).

A weight of w stands for w equal rows: degrees are d = A w, the operator is M = SAS with S = √(w/d), and a copy of row i
has the embedding v_i/√w_i. With functions f_i = v_i/√(w_i d_i) the eigenproblem is A(w∘f) = λ d∘f.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.linalg import eigh, inner, times
from knoll._common.rescale import exponent_of, times_power
from knoll._common.sparse import is_sparse
from knoll._typing import Bools, Floats, Ints
from knoll.kernels.operators import Operator
from knoll.spectral.eigen import (
    GUARD,
    Eigenpairs,
    Hook,
    SparseMatrix,
    random_block,
    signed,
    sparse_eigenpairs,
    top_eigenpairs,
)
from knoll.spectral.graph import NO_LINK, Components, heaviest, inverse_roots, known_vectors
from knoll.spectral.low_rank import Sketch, by_cholesky, by_finufft
from knoll.spectral.route import Route

VANISHING = 1e-10  # an eigenvalue below this has no extension: it would be divided by rounding
_LEAST_WEIGHT = 2.0**-500  # of the largest: w_i d_i ≥ w_i² A_ii must stay within float64
_LINKS = 200  # of a row up to which a product costs less than a step of the solver


@dataclass(frozen=True)
class Spectrum(Eigenpairs):
    """The largest eigenpairs of M by the exact operator, with the degrees that the extension needs."""

    following: float | None  # the next eigenvalue; NaN where there is none, None where it was not computed
    degrees: Floats  # (n,)
    note: str  # on the solver


def scale_weights(weights: Floats) -> tuple[Floats, int]:
    """Divide weights > 0 by a power of two, so that the largest is in [1, 2); also return the power.

    A common factor cancels in √(w/d), but w d is of the order of w². Scaling by a power of two is exact, so weights
    that differ by such a factor give the same bits.
    """
    power = exponent_of(weights) - 1
    return np.maximum(times_power(weights, -power), _LEAST_WEIGHT), power


# ---- eigenpairs ----------------------------------------------------------------------------------------------------


def kernel_spectrum(
    route: Route,
    points: NDArray[Any],
    sigma: float,
    labels: Ints,
    weights: Floats,
    m: int,
    *,
    tol: float,
    max_applications: int,
    seed: int,
    threads: int,
    gap: bool = True,
    hook: Hook | None = None,
) -> tuple[Spectrum, Components]:
    """Solve for m pairs with products only: a start where there is one, then block Krylov with the exact operator."""
    operator, n = route.operator, route.operator.n
    known = not gap and int(labels.max()) + 1 >= m  # components give all pairs
    sketch = None if known else _sketch(route, points, sigma, weights, min(m + 1, n) + GUARD, m + 1, tol, seed, threads)
    note = "" if sketch is None else sketch.note
    if sketch is None:
        degrees = operator.apply(weights[:, None])[:, 0]
        start = None
    else:
        # random columns, so that no eigenvector is orthogonal to the start
        functions = np.hstack([sketch.functions, random_block(n, 2, seed)])
        images = operator.apply(np.hstack([weights[:, None], weights[:, None] * functions]))
        degrees = images[:, 0].copy()
        start = (functions, images[:, 1:])
    found = heaviest(labels, degrees, weights)
    first = known_vectors(found, degrees, weights, m + 1)
    scale = inverse_roots(weights, degrees)  # (n, 1): √(w/d)
    many, unknown = _wanted(found, first, m, gap)

    def apply(B: Floats) -> Floats:
        return scale * operator.apply(scale * B)

    basis = image = None
    if start is not None and unknown:
        basis, image = _deflated(start[0], start[1], first, scale, weights, degrees, threads)
        if basis.shape[1] < unknown:
            basis = image = None
    pairs = top_eigenpairs(
        apply,
        n,
        unknown,
        first=first,
        start=basis,
        applied=image,
        tol=tol,
        loose=1 if many > m else 0,
        above=1.0,
        max_applications=0 if route.approximate else max_applications,
        seed=seed,
        threads=threads,
        hook=None if hook is None else lambda i, total, worst: hook(i + 1, first.shape[1] + total, worst),
    )
    return joined(first, pairs, m, degrees, note, many > m), found


def _sketch(
    route: Route,
    points: NDArray[Any],
    sigma: float,
    weights: Floats,
    p: int,
    k: int,
    tol: float,
    seed: int,
    threads: int,
) -> Sketch | None:
    match route.sketch:
        case "cholesky":
            core = getattr(route.operator, "core", None)
            return None if core is None else by_cholesky(core, len(points), weights, p, threads)
        case "finufft":
            return by_finufft(points, sigma, weights, p, k, tol, seed, threads)
    return None


def _deflated(
    functions: Floats, applied: Floats, first: Floats, scale: Floats, weights: Floats, degrees: Floats, threads: int
) -> tuple[Floats, Floats]:
    """Turn f and A(w∘f) into an orthonormal basis orthogonal to `first` and its image under M, without applying M."""
    basis = np.sqrt(weights * degrees)[:, None] * functions
    image = scale * applied
    size = np.sqrt(np.einsum("ij,ij->j", basis, basis))
    kept = size > 0
    basis, image = basis[:, kept] / size[kept], image[:, kept] / size[kept]
    for _ in range(2):
        share = inner(first, basis, threads)
        basis, image = basis - times(first, share, threads), image - times(first, share, threads)  # M·first = first
        weight, vectors = eigh(inner(basis, basis, threads))
        kept = weight > 1e-9 * weight[-1]
        rotation = vectors[:, kept] / np.sqrt(weight[kept])
        basis, image = times(basis, rotation, threads), times(image, rotation, threads)
    return basis, image


def dense_spectrum(matrix: Floats, labels: Ints, weights: Floats, m: int, threads: int) -> tuple[Spectrum, Components]:
    """Solve a small matrix whole, by LAPACK, component by component."""
    n = len(matrix)
    degrees = times(matrix, weights[:, None], threads)[:, 0]
    found = heaviest(labels, degrees, weights)
    scale = inverse_roots(weights, degrees)
    M = scale * matrix * scale.T
    first = known_vectors(found, degrees, weights, n)
    values, vectors = [np.ones(first.shape[1])], [first]
    for c in range(found.count):
        rows = np.flatnonzero(found.labels == c)
        if len(rows) == 1:
            continue
        own, basis = eigh(M[np.ix_(rows, rows)])
        basis, lead = _beside(basis, first[rows, np.flatnonzero(found.order == c)[0]])
        block = np.zeros((n, len(rows) - 1))
        block[rows] = basis
        values.append(np.minimum(np.delete(own, lead), 1.0))  # rounding must not put it before another component's one
        vectors.append(block)
    every, columns = np.concatenate(values), np.hstack(vectors)
    order = np.argsort(-every, kind="stable")
    following = float(every[order[m]]) if len(order) > m else np.nan
    kept = order[:m]
    V = np.ascontiguousarray(columns[:, kept])
    V *= signed(V)
    images = times(M, V, threads)
    residuals = np.sqrt(np.square(images - V * every[kept]).sum(axis=0))
    return Spectrum(every[kept], V, images, residuals, 1, True, following, degrees, "LAPACK"), found


def _beside(basis: Floats, known: Floats) -> tuple[Floats, int]:
    """Leave a known eigenvector, √d, out of an orthonormal basis of eigenvectors; return the others, and its column.

    Where an eigenvalue is nearly 1, too, the basis has √d as a mixture of columns. A reflection makes one column of
    that mixture; it mixes only columns of equal eigenvalues, and the others stay orthogonal to √d.
    """
    shares = basis.T @ known
    lead = int(np.argmax(np.abs(shares)))
    shares[lead] += np.copysign(np.linalg.norm(shares), shares[lead])
    reflected = basis - np.outer(basis @ shares, (2.0 / (shares @ shares)) * shares)
    return np.delete(reflected, lead, axis=1), lead


def sparse_spectrum(
    operator: Operator,
    matrix: Any,
    labels: Ints,
    m: int,
    *,
    tol: float,
    max_applications: int,
    seed: int,
    threads: int,
    gap: bool = True,
    hook: Hook | None = None,
) -> tuple[Spectrum, Components]:
    """Solve for a stored graph; one with few links by the sparse solver."""
    n = operator.n
    weights = np.ones(n)
    degrees = operator.apply(weights[:, None])[:, 0]
    found = heaviest(labels, degrees, weights)
    first = known_vectors(found, degrees, weights, m + 1)
    scale = inverse_roots(weights, degrees)
    many, unknown = _wanted(found, first, m, gap)
    options: dict[str, Any] = {
        "first": first,
        "tol": tol,
        "loose": 1 if many > m else 0,
        "max_applications": max_applications,
        "seed": seed,
        "threads": threads,
        "hook": hook,
    }
    if unknown and is_sparse(matrix) and matrix.nnz <= _LINKS * n:
        pairs, note = sparse_eigenpairs(SparseMatrix(matrix, scale[:, 0], threads), unknown, **options)
    else:
        pairs, note = top_eigenpairs(lambda B: scale * operator.apply(scale * B), n, unknown, above=1.0, **options), ""
    return joined(first, pairs, m, degrees, note, many > m), found


def _wanted(found: Components, first: Floats, m: int, gap: bool) -> tuple[int, int]:
    """Return how many pairs are wanted, the one after the m-th for the gap, and how many of them to solve for.

    Where the components give all m pairs, only the gap is left to solve for, and only on request.
    """
    many = min(m + 1, int(np.count_nonzero(found.labels >= 0)))
    return many, 0 if first.shape[1] >= m and not gap else max(0, many - first.shape[1])


def joined(first: Floats, pairs: Eigenpairs, m: int, degrees: Floats, note: str, more: bool) -> Spectrum:
    """Put the known eigenvectors before those found; the one after the m-th gives the gap, if there are `more`."""
    values = np.concatenate([np.ones(first.shape[1]), pairs.values])
    vectors, images = np.hstack([first, pairs.vectors]), np.hstack([first, pairs.images])
    residuals = np.concatenate([np.zeros(first.shape[1]), pairs.residuals])
    following = float(values[m]) if len(values) > m else None if more else np.nan
    vectors, images = vectors[:, :m], images[:, :m]
    signs = signed(vectors)
    return Spectrum(
        values=values[:m],
        vectors=vectors * signs,
        images=images * signs,
        residuals=residuals[:m],
        applications=1 + pairs.applications,  # one for the degrees
        converged=pairs.converged,
        following=following,
        degrees=degrees,
        note=note,
    )


def with_isolated_rows(spectrum: Spectrum, labels: Ints, m: int) -> Spectrum:
    """Add the eigenvectors of eigenvalue zero of rows without links (label −1), where links give no m pairs."""
    alone = np.flatnonzero(labels < 0)
    if not len(alone):
        return spectrum
    if len(spectrum.values) == m and m and spectrum.values[-1] >= 0:
        after = spectrum.following
        return spectrum if after is None or after >= 0 else replace(spectrum, following=0.0)  # NaN, too
    block = np.zeros((len(labels), min(len(alone), m + 1)))
    block[alone[: block.shape[1]], np.arange(block.shape[1])] = 1.0
    none = np.zeros(block.shape[1])
    values = np.concatenate([spectrum.values, none])
    order = np.argsort(-np.minimum(values, 1.0), kind="stable")
    kept = order[:m]
    return replace(
        spectrum,
        values=values[kept],
        vectors=np.ascontiguousarray(np.hstack([spectrum.vectors, block])[:, kept]),
        images=np.ascontiguousarray(np.hstack([spectrum.images, np.zeros_like(block)])[:, kept]),
        residuals=np.concatenate([spectrum.residuals, none])[kept],
        following=float(values[order[m]]) if len(order) > m else np.nan,
    )


# ---- rows of the embedding -----------------------------------------------------------------------------------------


def scaled_rows(Y: Floats, degrees: Floats, row_scaling: str) -> Floats:
    """Return rows as they are, of length one (a zero row stays), or over √d_i."""
    if row_scaling == "unit":
        length = np.sqrt(np.einsum("ij,ij->i", Y, Y))[:, None]
        return np.divide(Y, length, out=np.zeros_like(Y), where=length > 0)
    if row_scaling == "degree":
        root = np.sqrt(degrees)[:, None]
        return np.divide(Y, root, out=np.zeros_like(Y), where=root > 0)
    return Y


def coefficients(spectrum: Spectrum, weights: Floats) -> Floats:
    """Return [E | w], (n, m+1): links times it give embedding and degree; E = w∘f/λ, 0 where λ vanishes."""
    root = np.sqrt(weights * spectrum.degrees)[:, None]
    f = np.divide(spectrum.vectors, root, out=np.zeros_like(spectrum.vectors), where=root > 0)
    safe = spectrum.values > VANISHING
    E = weights[:, None] * f * np.where(safe, 1 / np.where(safe, spectrum.values, 1.0), 0.0)
    return np.hstack([E, weights[:, None]])


def extended(sums: Floats, row_scaling: str) -> tuple[Floats, Bools]:
    """Turn A(q, X)·[E | w] into embedded rows (Nyström); also return which rows have a link to a cluster."""
    degrees = sums[:, -1]
    linked = degrees >= NO_LINK
    root = np.sqrt(np.where(linked, degrees, 1.0))[:, None]
    Y = np.where(linked[:, None], sums[:, :-1] / root, 0.0)
    return scaled_rows(Y, np.where(linked, degrees, 0.0), row_scaling), linked & (Y != 0).any(axis=1)


def extension_at_rows(spectrum: Spectrum, weights: Floats, row_scaling: str) -> Floats:
    """Return the extension at the training rows from the last exact application: M v/(λ√w)."""
    safe = spectrum.values > VANISHING
    Y = spectrum.images * np.where(safe, 1 / np.where(safe, spectrum.values, 1.0), 0.0) / np.sqrt(weights)[:, None]
    return scaled_rows(Y, spectrum.degrees, row_scaling)


# ---- diagnostics of a partition --------------------------------------------------------------------------------------


def cut_terms(operator: Operator, labels: NDArray[Any], k: int, weights: Floats, degrees: Floats) -> Floats:
    """Compute for each cluster links(V_c, V_c), links(V_c, V) (eq. 4.10) and its term of kernel k-means' trace: (3, k).

    Rows count by weight. The trace is Σ_c (Σ_ij u_i A_ij u_j)/Σ_i u_i over the cluster with u = w/d (eq. 4.6).
    """
    n = operator.n
    inside = np.zeros((n, 2 * k))
    inside[np.arange(n), labels] = weights
    own = np.divide(weights, degrees, out=np.zeros(n), where=degrees >= NO_LINK)
    inside[np.arange(n), k + labels] = own
    links = inside * operator.apply(inside)  # (n, 2k)
    volume = np.bincount(labels, weights=weights * degrees, minlength=k)
    mass = np.bincount(labels, weights=own, minlength=k)
    trace = np.divide(links[:, k:].sum(axis=0), mass, out=np.zeros(k), where=mass > 0)
    return np.stack([links[:, :k].sum(axis=0), volume, trace])


def leading(spectrum: Spectrum, m: int) -> Spectrum:
    """Keep the first m pairs; the next eigenvalue follows them."""
    if m >= len(spectrum.values):
        return spectrum
    return replace(spectrum.first(m), following=float(spectrum.values[m]))
