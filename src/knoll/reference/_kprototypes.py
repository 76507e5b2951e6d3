"""k-prototypes: minimise Σ_i Σ_j (x_ij − m_cj)² + γ Σ_j [z_ij ≠ mode_cj], over what is observed   (eq. 3.18)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import frozen


class KPrototypesState(NamedTuple):
    """The clusters after an assignment."""

    iteration: int  # updates done
    means: Floats  # (k, p)
    modes: Ints  # (k, q)
    labels: Ints  # (n,)
    objective: float  # eq. 3.18
    converged: bool


def kprototypes(
    X: ArrayLike, codes: ArrayLike, means: ArrayLike, modes: ArrayLike, gamma: float, *, max_iter: int = 1000
) -> Iterator[KPrototypesState]:
    """k-prototypes with partial distances (eq. 3.18).

    Parameters
    ----------
    X : (n, p) array
        The numbers, NaN where one is missing.
    codes : (n, q) array of whole numbers
        The levels of the categories, −1 where one is missing.
    means, modes : (k, p) and (k, q) arrays
        The start.
    gamma : float
        What a category that differs costs.
    max_iter : int
        At most so many updates.

    Yields
    ------
    KPrototypesState
        After every assignment; the last one changes no label.

    Examples
    --------
    >>> from knoll.reference import kprototypes, run
    >>> X, codes = [[0.0], [1.0], [float("nan")], [9.0]], [[0], [0], [1], [1]]
    >>> run(kprototypes(X, codes, [[0.0], [9.0]], [[0], [1]], 1.0)).labels.tolist()
    [0, 0, 1, 1]
    """
    points, levels = check.mixed_rows(X, codes)
    gamma = check.not_negative(gamma, "gamma", "It is what a category that differs costs.")
    start = np.array(means, dtype=np.float64, ndmin=2), np.array(modes, dtype=np.int64, ndmin=2)
    return frozen(_kprototypes(points, levels, *start, gamma, max_iter))


def _kprototypes(
    X: Floats, codes: Ints, means: Floats, modes: Ints, gamma: float, max_iter: int
) -> Iterator[KPrototypesState]:
    labels = np.full(len(X), -1)
    for t in itertools.count():
        before = labels
        squares = np.nansum(np.square(X[:, None] - means), axis=2)  # what is missing counts for nothing
        differ = ((codes[:, None] != modes) & (codes[:, None] >= 0)).sum(axis=2)
        distances = squares + gamma * differ  # (n, k)
        labels = distances.argmin(axis=1)
        converged = bool((labels == before).all())
        yield KPrototypesState(t, means, modes, labels, float(distances.min(axis=1).sum()), converged)
        if converged or t == max_iter:
            return
        means, modes = means.copy(), modes.copy()
        for c in np.unique(labels):
            for j, column in enumerate(X[labels == c].T):
                if not np.isnan(column).all():
                    means[c, j] = np.nanmean(column)
            for j, column in enumerate(codes[labels == c].T):
                if (column >= 0).any():
                    modes[c, j] = np.bincount(column[column >= 0]).argmax()  # ties to the lowest
