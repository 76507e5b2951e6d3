"""Box 5, NJW-SC: the relaxed weighted kernel k-means problem   max Tr(YᵀW^½KW^½Y), YᵀY = I   (eq. 4.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import frozen
from knoll.reference._embedding import gaussian_kernel, partition, scaled_rows, top_eigenvectors


class SpectralState(NamedTuple):
    """What the steps of box 5 have made so far; what is still to come has size 0, labels are −1."""

    step: str
    K: Floats  # (n, n)
    w: Floats  # (n,) the diagonal of W
    eigenvalues: Floats  # (k,) largest first
    Y: Floats  # (n, k) the embedding, rows scaled as requested
    labels: Ints  # (n,)
    objective: float  # k-means' J of the rows of Y; NaN before the partition


def njw_spectral(
    X: ArrayLike,
    k: int,
    sigma: float,
    *,
    row_scaling: str = "none",
    zero_diagonal: bool = False,
    starts: Sequence[Sequence[int]] | None = None,
) -> Iterator[SpectralState]:
    """Box 5, "NJW-SC" (eq. 4.6, 4.8, 4.9).

    Parameters
    ----------
    X : (n, d) array
        The points.
    k : int
        The number of clusters, k ≤ n.
    sigma : float
        The width σ of the Gaussian kernel. The box uses it and forgets it among its inputs
        (docs/theory/errata.md item 26).
    row_scaling : {"none", "unit", "degree"}
        "none": the eigenvectors as they are, the box as printed. "unit": rows of length one, as Ng, Jordan
        and Weiss have it. "degree": rows divided by √d_i, as scikit-learn has it (item 23).
    zero_diagonal : bool
        Ng, Jordan and Weiss set K_ii = 0; the box does not. A row whose kernels to all others then sum to less
        than 1e-300 has no neighbour and is refused.
    starts : lists of k row indices, optional
        Starts of the partition step. None: farthest-first starts from up to 8 evenly spaced rows.

    Yields
    ------
    SpectralState
        After each of the box's four steps.

    Notes
    -----
    The partition step, which the box leaves open, is box 3 on the rows of Y from every start; the smallest
    J wins. Clusters are numbered by their lowest row. Signs of the eigenvectors are fixed: the first entry
    among the largest is positive. Where eigenvalues k and k + 1 are equal (k below the number of components of
    the kernel matrix, for example) the k eigenvectors are any k of a larger space: neither embedding nor
    labels are then a property of X, and a k of at least the number of components, or a larger σ, makes them one.

    Examples
    --------
    >>> from knoll.reference import njw_spectral, run
    >>> run(njw_spectral([[0.0], [1.0], [9.0], [10.0]], k=2, sigma=1.0)).labels
    array([0, 0, 1, 1])
    """
    points = check.points(X)
    k, sigma = check.clusters(k, len(points)), check.width(sigma)
    check.choice(row_scaling, "row_scaling", ("none", "unit", "degree"))
    zero_diagonal = check.flag(zero_diagonal, "zero_diagonal")
    rows = check.start_rows(starts, k, len(points))
    return frozen(_njw_spectral(points, k, sigma, row_scaling, zero_diagonal, rows))


def _njw_spectral(
    X: Floats, k: int, sigma: float, row_scaling: str, zero_diagonal: bool, starts: list[list[int]] | None
) -> Iterator[SpectralState]:
    n, none, nan = len(X), np.empty(0), float("nan")
    no_labels = np.full(n, -1, dtype=np.int64)

    K = gaussian_kernel(X, sigma, zero_diagonal)  # (n, n) eq. 4.8
    yield SpectralState("Kernel matrix step", K, none, none, np.empty((n, 0)), no_labels, nan)

    w = 1 / K.sum(axis=1)  # eq. 4.9: W⁻¹ = diag(K1)
    yield SpectralState("Weights matrix step", K, w, none, np.empty((n, 0)), no_labels, nan)

    root_w = np.sqrt(w)
    eigenvalues, Y = top_eigenvectors(root_w[:, None] * K * root_w, k)  # of W^½KW^½
    Y = scaled_rows(Y, 1 / w, row_scaling)
    yield SpectralState("Eigendecomposition step", K, w, eigenvalues, Y, no_labels, nan)

    labels, objective = partition(Y, k, starts)
    yield SpectralState("Partition step", K, w, eigenvalues, Y, labels, objective)
