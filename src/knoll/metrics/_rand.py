"""Scores by pairs of rows, counted in exact integers: Rand's index, adjusted or not, and Fowlkes and Mallows'."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Ints
from knoll.metrics._contingency import tabulate


def adjusted_rand_score(
    labels_true: Any, labels_pred: Any, *, sample_weight: Any = None, noise: str = "cluster"
) -> float:
    """Compare two labellings by the pairs of rows they put together.

    With the numbers of pairs together in both, C = Σ n_ij(n_ij−1)/2, in the first, A = Σ a_i(a_i−1)/2, and in the
    second, B = Σ b_j(b_j−1)/2, and with the chance M = AB / (n(n−1)/2),

        ARI = (C − M) / ((A + B)/2 − M):

    1 for equal partitions, 0 on average for random ones of the same sizes. The sums are exact integers of any
    size, and the quotient is rounded once.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Returns
    -------
    float
        Between -0.5 and 1. Where both labellings are one cluster, or both all singletons, it is 1.

    References
    ----------
    Hubert and Arabie, Comparing partitions, Journal of Classification 2 (1985).

    Examples
    --------
    >>> from knoll.metrics import adjusted_rand_score
    >>> adjusted_rand_score([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> adjusted_rand_score([0, 0, 1, 1], [0, 1, 0, 1])
    -0.5
    """
    tt, tf, ft, ff = _count_pairs(labels_true, labels_pred, sample_weight, noise)
    if tf == 0 and ft == 0:
        return 1.0
    return 2 * (tt * ff - tf * ft) / ((tt + tf) * (tf + ff) + (tt + ft) * (ft + ff))


def rand_score(labels_true: Any, labels_pred: Any, *, sample_weight: Any = None, noise: str = "cluster") -> float:
    """Return the share of the pairs of rows that both labellings put together, or both keep apart.

    It is not adjusted for chance: random labellings score well above 0, see :func:`adjusted_rand_score`.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Returns
    -------
    float
        From 0 to 1; 1 for equal partitions, and where there is one row. Counted in integers, rounded once.

    Examples
    --------
    >>> from knoll.metrics import rand_score
    >>> round(rand_score([0, 0, 1, 1], [0, 0, 1, 2]), 6)
    0.833333
    """
    tt, tf, ft, ff = _count_pairs(labels_true, labels_pred, sample_weight, noise)
    pairs = tt + tf + ft + ff
    return (tt + ff) / pairs if pairs else 1.0


def fowlkes_mallows_score(
    labels_true: Any, labels_pred: Any, *, sample_weight: Any = None, noise: str = "cluster"
) -> float:
    """Return the geometric mean of precision and recall over pairs of rows, TP / √((TP + FP)(TP + FN)).

    TP pairs are together in both labellings, FP in the second alone, FN in the first alone.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Returns
    -------
    float
        From 0 to 1; 0 where no pair is together in both. TP²/((TP + FP)(TP + FN)) is a quotient of integers.

    References
    ----------
    Fowlkes and Mallows, A method for comparing two hierarchical clusterings, Journal of the American Statistical
    Association 78 (1983).

    Examples
    --------
    >>> from knoll.metrics import fowlkes_mallows_score
    >>> fowlkes_mallows_score([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    >>> round(fowlkes_mallows_score([0, 0, 1, 1], [0, 0, 1, 2]), 6)
    0.707107
    """
    tt, tf, ft, _ = _count_pairs(labels_true, labels_pred, sample_weight, noise)
    return math.sqrt(tt * tt / ((tt + tf) * (tt + ft))) if tt else 0.0


def pair_confusion_matrix(
    labels_true: Any, labels_pred: Any, *, sample_weight: Any = None, noise: str = "cluster"
) -> NDArray[Any]:
    """Count the ordered pairs of different rows by whether each labelling puts them together.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Returns
    -------
    ndarray of shape (2, 2)
        Entry (i, j): i = 1 where the first puts the pair together, j = 1 where the second does. They sum to n(n − 1).
        int64; Python's integers (dtype object) where one does not fit.

    Examples
    --------
    >>> from knoll.metrics import pair_confusion_matrix
    >>> pair_confusion_matrix([0, 0, 1, 1], [0, 0, 1, 2])
    array([[8, 0],
           [2, 2]])
    """
    tt, tf, ft, ff = _count_pairs(labels_true, labels_pred, sample_weight, noise)
    return np.array([[ff, ft], [tf, tt]], dtype=np.int64 if max(tt, tf, ft, ff) < 2**63 else object)


class _Pairs(NamedTuple):
    """Ordered pairs of different rows, by whether they are together in the first and in the second labelling."""

    tt: int
    tf: int
    ft: int
    ff: int


def _count_pairs(labels_true: Any, labels_pred: Any, sample_weight: Any, noise: str) -> _Pairs:
    table = tabulate(labels_true, labels_pred, sample_weight, noise)
    n = table.n
    both = _sum_of_squares(table.count, table.times)
    first = _sum_of_squares(table.rows.size, table.rows.times)
    second = _sum_of_squares(table.cols.size, table.cols.times)
    return _Pairs(both - n, first - both, second - both, n * n - first - second + both)


def _sum_of_squares(size: Ints, times: Ints) -> int:
    top = int(size.max())
    if top * top * int(times.sum()) < 2**63:
        return int(np.sum(size * size * times))
    return sum(s * s * t for s, t in zip(size.tolist(), times.tolist()))
