"""Box 4, weighted kernel k-means: alternate on J(r) = Σ_c Σ_{i∈Γ_c} w_i ‖φ(x_i) − m_c‖²   (eq. 4.1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import frozen


class KernelKMeansState(NamedTuple):
    """The partition after an E or an M step; the means live in F and are never seen."""

    step: str  # "M step" or "E step"
    iteration: int  # E steps done
    labels: Ints  # (n,)
    s: Floats  # (k,) total weight of each cluster that the means were made from
    d2: Floats  # (n, k) squared distances ‖φ(x_i) − m_c‖², eq. 4.20
    objective: float  # J of these labels about these means
    converged: bool


def weighted_kernel_kmeans(
    K: ArrayLike, labels: ArrayLike, w: ArrayLike | None = None, *, max_iter: int = 1000
) -> Iterator[KernelKMeansState]:
    """Box 4, "Weighted kernel k-means" (eq. 4.1 to 4.3).

    Parameters
    ----------
    K : (n, n) array
        The kernel matrix, symmetric: K_ij = κ(x_i, x_j).
    labels : (n,) integers
        The start: a partition into 0 … k−1. It replaces the box's "initial m_c", which live in F and
        cannot be handed over (docs/theory/errata.md item 26).
    w : (n,) array, optional
        Weights ≥ 0, ones by default. A row of weight 0 gets a label and moves nothing.
    max_iter : int
        At most so many E steps.

    Yields
    ------
    KernelKMeansState
        After every M step (the first makes the means of the start) and every E step. The last is an E step
        that changed no label, unless ``max_iter`` came first.

    Notes
    -----
    Ties go to the lowest index. A cluster left without weight keeps the mean it had, as in box 3. Where K
    is not positive semi-definite (the Heaviside kernel is not) there is no F: J may rise and the labels may
    go round in a circle until ``max_iter``; K + σW⁻¹ with σ large enough prevents both and keeps the order of
    partitions (docs/theory/errata.md item 24).

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.reference import run, weighted_kernel_kmeans
    >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> run(weighted_kernel_kmeans(X @ X.T, labels=[0, 1, 1, 1])).labels
    array([0, 0, 1, 1])
    """
    kernel = check.gram(K)
    start = check.start_labels(labels, len(kernel))
    weights = check.row_weights(w, start)
    max_iter = check.count(max_iter, "max_iter", "It bounds the number of E steps.")
    return frozen(_weighted_kernel_kmeans(kernel, start, weights, max_iter))


def _weighted_kernel_kmeans(K: Floats, labels: Ints, w: Floats, max_iter: int) -> Iterator[KernelKMeansState]:
    n, k = len(K), int(labels.max()) + 1
    rows, s, G, q = np.arange(n), np.zeros(k), np.zeros((n, k)), np.zeros(k)
    for t in itertools.count():
        for c in range(k):
            i = np.flatnonzero((labels == c) & (w > 0))
            if len(i):
                s[c] = w[i].sum()
                G[:, c] = (K[:, i] * w[i]).sum(axis=1) / s[c]  # φᵀ(x)m_c, m_c as in eq. 4.2
                q[c] = (w[i] * G[i, c]).sum() / s[c]  # m_cᵀm_c
        d2 = np.diagonal(K)[:, None] - 2 * G + q  # (n, k) eq. 4.20
        J = math.fsum(w * d2[rows, labels])
        yield KernelKMeansState("M step", t, labels, s.copy(), d2, J, False)

        before, labels = labels, d2.argmin(axis=1).astype(np.int64)
        converged = np.array_equal(labels, before)
        J = math.fsum(w * d2[rows, labels])
        yield KernelKMeansState("E step", t + 1, labels, s.copy(), d2, J, converged)
        if converged or t + 1 == max_iter:
            return
