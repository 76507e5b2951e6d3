"""Starts for k centres: the data as a multiset of rows, greedy k-means++ and random rows (docs/decisions/0009).

A random choice sees contents and weights only. Equal rows count together, and the distinct rows are in an order that
their contents decide; so for one seed neither the order of the rows nor "weight or repetition" changes what is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll import _core
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData, InvalidParameter, InvalidType

# How the number of a draw is packed: restart, step and trial in 16, 32 and 16 bits.
_MOST_RESTARTS, _MOST_CENTERS, _MOST_TRIALS = 2**16, 2**32, 2**16


@dataclass(frozen=True)
class Multiset:
    """The distinct rows of weight > 0, in an order of their contents.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        For each distinct row the lowest index that it has in X.
    weights : ndarray of shape (m,)
        The weights of all rows equal to it, summed exactly and rounded once.
    """

    rows: Ints
    weights: Floats


def multiset(X: Any, weights: Floats | None = None, threads: int = 1) -> Multiset:
    """Gather equal rows and order the distinct ones by content.

    0.0 and -0.0 are equal. A row of weight 0 is absent. A float64 table and its float32 copy (unless rounding makes
    rows equal), rows of a sparse matrix, all rows times a power of two, and rows without their constant columns
    have one order.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), float64 or float32
        Finite values in any layout.
    weights : ndarray of shape (n,), optional
        Finite and >= 0; None counts every row once.
    threads : int, default 1
        How many threads may work; the result does not depend on it.

    Returns
    -------
    Multiset

    Examples
    --------
    >>> import numpy as np
    >>> from knoll._common.seeding import multiset
    >>> distinct = multiset(np.array([[1.0], [5.0], [1.0]]), np.array([2.0, 1.0, 0.5]))
    >>> sorted(zip(distinct.rows.tolist(), distinct.weights.tolist()))
    [(0, 2.5), (1, 1.0)]
    """
    suffix, points = _points(X)
    n = X.shape[0]
    rows, total = np.empty(n, dtype=np.int64), np.empty(n)
    count = getattr(_core, f"unique_rows{suffix}")(*points, weights, rows, total, None, threads)
    if not count:
        raise BadData("No row has a weight > 0, so there is none to draw. Give a row a weight > 0.")
    if weights is not None and not np.isfinite(total[:count]).all():
        raise BadData("The weights of equal rows add up to more than the largest float64. Divide all weights by 1e10.")
    if count < n:
        rows, total = rows[:count].copy(), total[:count].copy()
    return Multiset(rows, total)


def kmeans_plus_plus(
    X: Any,
    rows: Multiset,
    k: int,
    seed: int,
    *,
    restart: int = 0,
    n_trials: int | None = None,
    threads: int = 1,
) -> Ints:
    """Choose k rows by greedy k-means++.

    The first row is drawn by weight. For each further one `n_trials` candidates are drawn with probability ∝ w·D², D
    being the distance to the nearest row chosen so far, and the candidate that lowers Σ w·D² most is taken. When fewer
    than k distinct rows exist (or the others lie at a distance whose square is 0), the others come from `random_rows`.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), float64 or float32
        The points, as passed to `multiset`.
    rows : Multiset
        What `multiset` returned for them.
    k : int
        How many rows to choose.
    seed : int
        A number of 64 bits; all draws are a function of it, of `restart` and of the contents.
    restart : int, default 0
        The number of the run among several of one seed.
    n_trials : int, optional
        Candidates for each row after the first; by default 2 + ⌊log k⌋.
    threads : int, default 1
        How many threads may work; the result does not depend on it.

    Returns
    -------
    ndarray of shape (k,)
        Indices of rows of X.

    References
    ----------
    .. [1] D. Arthur and S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007.
    .. [2] E. Raff, "Exact acceleration of k-means++ and k-means‖", IJCAI 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll._common.seeding import kmeans_plus_plus, multiset
    >>> X = np.array([[0.0], [0.1], [10.0], [10.1]])
    >>> chosen = kmeans_plus_plus(X, multiset(X), 2, seed=0)
    >>> sorted((X[chosen, 0] > 5).tolist())
    [False, True]
    """
    _check_draw(k, restart)
    trials = 2 + int(math.log(k)) if n_trials is None else n_trials
    if not 1 <= trials < _MOST_TRIALS:
        raise InvalidParameter(f"n_trials must be >= 1 and < {_MOST_TRIALS}, got {trials}. None chooses 2 + log(k).")
    suffix, points = _points(X)
    chosen = np.empty(k, dtype=np.int64)
    plus_plus = getattr(_core, f"kmeans_plus_plus{suffix}")
    plus_plus(*points, rows.rows, rows.weights, seed, restart, trials, True, chosen, threads)
    return rows.rows[chosen]


def random_rows(rows: Multiset, k: int, seed: int, *, restart: int = 0) -> Ints:
    """Draw k distinct rows by weight, without replacement.

    When k is larger than their number, all are drawn, then all again.

    Parameters
    ----------
    rows : Multiset
        What `multiset` returned for the data.
    k : int
        How many rows to draw.
    seed : int
        A number of 64 bits; all draws are a function of it, of `restart` and of the contents.
    restart : int, default 0
        The number of the run among several of one seed.

    Returns
    -------
    ndarray of shape (k,)
        Indices of rows of X.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll._common.seeding import multiset, random_rows
    >>> sorted(random_rows(multiset(np.eye(3)), 3, seed=0).tolist())
    [0, 1, 2]
    """
    _check_draw(k, restart)
    chosen = np.empty(k, dtype=np.int64)
    _core.random_rows(rows.weights, seed, restart, chosen)
    return rows.rows[chosen]


def _check_draw(k: int, restart: int) -> None:
    if not 1 <= k < _MOST_CENTERS:
        raise InvalidParameter(f"k must be >= 1 and < 2**32, got {k}. Choose at least one row.")
    if not 0 <= restart < _MOST_RESTARTS:
        raise InvalidParameter(f"restart must be >= 0 and < {_MOST_RESTARTS}, got {restart}. Take another seed.")


def _points(X: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the suffix of the core's functions for the type of X, and the arrays that they take."""
    if X.dtype not in (np.float64, np.float32):
        raise InvalidType(f"X must be float64 or float32, got {X.dtype}. Convert it with X.astype(float).")
    if isinstance(X, np.ndarray):
        return "", (X,)
    if not X.has_canonical_format:  # the core needs columns that rise
        X = X.copy()
        X.sum_duplicates()
    return "_csr", (X.data, X.indices, X.indptr, X.shape[1])
