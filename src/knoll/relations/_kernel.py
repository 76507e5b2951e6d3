"""Shared by the kernel relations: dense kernel matrices, random partitions, and separating planes."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from knoll import _core
from knoll._common.linalg import eigh
from knoll._typing import Bools, Floats, Ints
from knoll.kernels import Gaussian
from knoll.relations._common import quiet
from knoll.scales import estimate_sigma


def sigma_of(X: Floats, value: float | None) -> float:
    """Return the width, by default estimated from the data."""
    if value is not None:
        return float(value)
    with quiet():
        return float(estimate_sigma(X))


def similarities(X: Floats, sigma: float) -> Floats:
    """Return A = exp(−‖x_i − x_j‖²/2σ²), (n, n)."""
    return Gaussian(sigma).tile(X, X)


def top_eigenpairs(M: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the k + 1 largest eigenvalues (as many as there are), largest first, and the vectors of the first k."""
    values, vectors = eigh((M + M.T) / 2)
    return values[::-1][: k + 1], vectors[:, ::-1][:, :k]


def indicator(labels: Ints, weights: Floats) -> Floats:
    """Return Y of eq. 4.5: Y_ic = √(w_i / s_c) where row i is in cluster c, (n, k); its columns are orthonormal."""
    used, labels = np.unique(labels, return_inverse=True)  # an empty cluster has no column
    k = len(used)
    Y = np.zeros((len(labels), k))
    Y[np.arange(len(labels)), labels] = np.sqrt(weights)
    return Y / np.sqrt(np.bincount(labels, weights, k))


def trace(M: Floats, labels: Ints, weights: Floats) -> float:
    """Return Tr YᵀMY of a partition."""
    Y = indicator(labels, weights)
    return float(np.sum(Y * (M @ Y)))


def random_partitions(n: int, k: int, count: int, seed: int) -> list[Ints]:
    """Draw partitions into k clusters, none of them empty: random labels, and stripes of the rows."""
    draws = np.empty(n * count)
    _core.fill_normal(seed, _core.PURPOSE_SAMPLE, 0, draws, 1)
    out = []
    for t, row in enumerate(draws.reshape(count, n)):
        order = np.argsort(row, kind="stable")
        labels = np.empty(n, dtype=np.int64)
        labels[order] = np.arange(n) * k // n if t % 2 else np.arange(n) % k  # equal shares, in random order
        if t % 2 and n > 2 * k:  # and uneven ones
            labels[order[: n // 2]] = 0
            labels[order[n // 2 :]] = np.arange(n - n // 2) % k
        out.append(labels)
    return out


def margin(points: Floats, first: Bools) -> float:
    """Return the largest margin t of a plane wᵀx = b, |w|_∞ ≤ 1, between two sets: > 0 iff they are separable."""
    n, d = points.shape
    center = points.mean(axis=0)
    scale = float(np.abs(points - center).max()) or 1.0
    side = np.where(first, 1.0, -1.0)[:, None]
    # maximise t subject to side_i (wᵀx_i − b) ≥ t, |w_j| ≤ 1
    rows = np.hstack([-side * (points - center) / scale, side, np.ones((n, 1))])
    bounds = [(-1.0, 1.0)] * d + [(None, None), (None, 1.0)]
    found = linprog(np.r_[np.zeros(d + 1), -1.0], A_ub=rows, b_ub=np.zeros(n), bounds=bounds, method="highs")
    return float(found.x[-1]) if found.status == 0 and found.x is not None else 0.0
