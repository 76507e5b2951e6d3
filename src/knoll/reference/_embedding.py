"""What boxes 5 and 6 share: Gaussian kernel, top eigenvectors with fixed signs, and the partition step."""

from __future__ import annotations

import numpy as np

from knoll._typing import Floats, Ints
from knoll.exceptions import BadData
from knoll.reference._common import run, squared_distances
from knoll.reference._kmeans import _kmeans

# The partition step tries this many farthest-first starts.
N_STARTS = 8

# A degree below this is made of kernels near the end of float64, where they have lost their digits.
NO_NEIGHBOUR = 1e-300


def gaussian_kernel(X: Floats, sigma: float, zero_diagonal: bool) -> Floats:
    """exp(−‖x_i − x_j‖² / 2σ²)   (eq. 4.8)."""
    with np.errstate(over="ignore", under="ignore"):  # far apart for this σ: the kernel is 0
        K: Floats = np.exp(-squared_distances(X, X) / (2 * sigma * sigma))
    if zero_diagonal:
        np.fill_diagonal(K, 0)
        alone = K.sum(axis=1) < NO_NEIGHBOUR
        if alone.any():
            raise BadData(
                f"row {int(np.argmax(alone))} of X has no neighbour at sigma={sigma!r} and a zero diagonal. "
                "Take a larger sigma, or zero_diagonal=False."
            )
    return K


def top_eigenvectors(M: Floats, k: int) -> tuple[Floats, Floats]:
    """The k largest eigenvalues of M, largest first, and their vectors (n, k), first large entry positive."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    values, vectors = values[::-1][:k].copy(), vectors[:, ::-1][:, :k].copy()
    size = np.abs(vectors)
    first = (size >= (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)  # not the largest: rounding decides among equals
    vectors *= np.sign(vectors[first, np.arange(k)])
    return values, vectors


def scaled_rows(Y: Floats, d: Floats, row_scaling: str) -> Floats:
    """The rows of Y as they are, of length one (a zero row stays), or over √d_i."""
    if row_scaling == "unit":
        length = np.sqrt(np.square(Y).sum(axis=1, keepdims=True))
        return np.divide(Y, length, out=np.zeros_like(Y), where=length > 0)
    return Y / np.sqrt(d)[:, None] if row_scaling == "degree" else Y


def partition(Y: Floats, k: int, starts: list[list[int]] | None) -> tuple[Ints, float]:
    """Box 3 on the rows of Y from every start: labels of the least J, numbered by lowest row, and that J."""
    if starts is None:
        starts = [farthest_first(Y, k, first) for first in range(0, len(Y), -(-len(Y) // N_STARTS))]
    best = min((run(_kmeans(Y, Y[start], max_iter=1000)) for start in starts), key=lambda state: state.objective)
    _, first_row, inverse = np.unique(best.labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first_row))[inverse].astype(np.int64), best.objective


def farthest_first(Y: Floats, k: int, first: int) -> list[int]:
    """K rows: ``first``, then again and again the row farthest from those chosen (ties: the lowest index)."""
    chosen, d2 = [first], squared_distances(Y, Y)
    while len(chosen) < k:
        chosen.append(int(d2[:, chosen].min(axis=1).argmax()))
    return chosen
