"""Box 6, NJW-SC, graph version: the relaxed normalized cut   max Tr(Z̃ᵀD^-½AD^-½Z̃), Z̃ᵀZ̃ = I   (eq. 4.18)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import frozen
from knoll.reference._embedding import gaussian_kernel, partition, scaled_rows, top_eigenvectors


class SpectralGraphState(NamedTuple):
    """What the steps of box 6 have made so far; what is still to come has size 0, labels are −1."""

    step: str
    A: Floats  # (n, n) the similarity matrix of the complete graph
    d: Floats  # (n,) the diagonal of D
    eigenvalues: Floats  # (k,) largest first
    Z: Floats  # (n, k) the embedding Z̃, rows scaled as requested
    labels: Ints  # (n,)
    objective: float  # k-means' J of the rows of Z̃; NaN before the partition
    ncut: float  # eq. 4.12 of the labels; NaN before the partition


def njw_spectral_graph(
    X: ArrayLike,
    k: int,
    sigma: float,
    *,
    row_scaling: str = "none",
    zero_diagonal: bool = False,
    starts: Sequence[Sequence[int]] | None = None,
) -> Iterator[SpectralGraphState]:
    """Box 6, "NJW-SC, Graph version" (eq. 4.12, 4.18, 4.19).

    Parameters
    ----------
    X, k, sigma, row_scaling, zero_diagonal, starts
        As in :func:`njw_spectral`.

    Yields
    ------
    SpectralGraphState
        After each of the box's four steps.

    Notes
    -----
    The matrix is that of box 5 under other names, so embedding and labels are too (and no more unique, where
    eigenvalues k and k + 1 are equal). The discrete problems
    are not the same: the partition of least normalized cut may differ from the best one of box 4's problem
    (docs/theory/errata.md item 22).

    Examples
    --------
    >>> from knoll.reference import njw_spectral_graph, run
    >>> run(njw_spectral_graph([[0.0], [1.0], [9.0], [10.0]], k=2, sigma=1.0)).labels
    array([0, 0, 1, 1])
    """
    points = check.points(X)
    k, sigma = check.clusters(k, len(points)), check.width(sigma)
    check.choice(row_scaling, "row_scaling", ("none", "unit", "degree"))
    zero_diagonal = check.flag(zero_diagonal, "zero_diagonal")
    rows = check.start_rows(starts, k, len(points))
    return frozen(_njw_spectral_graph(points, k, sigma, row_scaling, zero_diagonal, rows))


def _njw_spectral_graph(
    X: Floats, k: int, sigma: float, row_scaling: str, zero_diagonal: bool, starts: list[list[int]] | None
) -> Iterator[SpectralGraphState]:
    n, none, nan = len(X), np.empty(0), float("nan")
    no_labels = np.full(n, -1, dtype=np.int64)

    A = gaussian_kernel(X, sigma, zero_diagonal)  # (n, n)
    yield SpectralGraphState("Graph step", A, none, none, np.empty((n, 0)), no_labels, nan, nan)

    d = A.sum(axis=1)  # eq. 4.19: D = diag(A1)
    yield SpectralGraphState("Weights matrix step", A, d, none, np.empty((n, 0)), no_labels, nan, nan)

    eigenvalues, Z = top_eigenvectors(A / np.sqrt(d)[:, None] / np.sqrt(d), k)  # of D^-½AD^-½
    Z = scaled_rows(Z, d, row_scaling)
    yield SpectralGraphState("Eigendecomposition step", A, d, eigenvalues, Z, no_labels, nan, nan)

    labels, objective = partition(Z, k, starts)
    yield SpectralGraphState("Partition step", A, d, eigenvalues, Z, labels, objective, _ncut(A, d, labels))


def _ncut(A: Floats, d: Floats, labels: Ints) -> float:
    """(1/k) Σ_c links(V_c, V∖V_c) / links(V_c, V)   (eq. 4.10 to 4.12)."""
    clusters = [labels == c for c in np.unique(labels)]
    return float(np.mean([A[np.ix_(V, ~V)].sum() / d[V].sum() for V in clusters]))
