"""Box 3, k-means: alternate on J(μ, r) = Σ_c Σ_{i∈Γ_c} ‖x_i − μ_c‖²   (eq. 3.4)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import frozen, nearest_mean, squared_distances


class KMeansState(NamedTuple):
    """The partition and its means after an E or an M step."""

    step: str  # "E step" or "M step"
    iteration: int  # M steps done
    mu: Floats  # (k, d)
    labels: Ints  # (n,): r_ic = 1 for c = labels[i]
    objective: float  # J of this μ and these labels
    converged: bool


def kmeans(X: ArrayLike, mu: ArrayLike, *, max_iter: int = 1000) -> Iterator[KMeansState]:
    """Box 3, "k-means" (eq. 3.3, 3.4).

    Parameters
    ----------
    X : (n, d) array
        The points.
    mu : (k, d) array
        The start, k ≤ n.
    max_iter : int
        At most so many M steps.

    Yields
    ------
    KMeansState
        After every E step and every M step. The last is an E step: every point is with its closest mean. It
        is the one that changed no label, unless ``max_iter`` came first.

    Notes
    -----
    Ties go to the lowest index. A mean is rounded once, whatever the order of the rows. A cluster
    without points has no mean by eq. 3.3; here it keeps the one it had. The answer is a fixed point of the
    alternation, which need not be a local minimum over partitions (docs/theory/errata.md item 19).

    Examples
    --------
    >>> from knoll.reference import kmeans, run
    >>> state = run(kmeans([[0.0], [2.0], [10.0], [12.0]], mu=[[0.0], [2.0]]))
    >>> state.mu.tolist(), state.labels.tolist(), state.objective
    ([[1.0], [11.0]], [0, 0, 1, 1], 4.0)
    """
    points = check.points(X)
    max_iter = check.count(max_iter, "max_iter", "It bounds the number of M steps.")
    return frozen(_kmeans(points, check.means(mu, points), max_iter))


def _kmeans(X: Floats, mu: Floats, max_iter: int) -> Iterator[KMeansState]:
    rows, labels = np.arange(len(X)), np.full(len(X), -1, dtype=np.int64)
    d2 = squared_distances(X, mu)  # (n, k)
    for t in itertools.count():
        before, labels = labels, d2.argmin(axis=1).astype(np.int64)  # eq. 3.2 as ε → 0
        converged = np.array_equal(labels, before)
        yield KMeansState("E step", t, mu, labels, math.fsum(d2[rows, labels]), converged)
        if converged or t == max_iter:
            return

        mu = mu.copy()
        for c in np.unique(labels):
            mu[c] = nearest_mean(X[labels == c])  # eq. 3.3
        d2 = squared_distances(X, mu)
        yield KMeansState("M step", t + 1, mu, labels, math.fsum(d2[rows, labels]), False)
