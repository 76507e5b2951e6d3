"""The adjusted Rand index: (pairs agreeing − expected) / (most possible − expected), in exact integers."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    table = tabulate(labels_true, labels_pred, sample_weight, noise)
    n = table.n
    both = _sum_of_squares(table.count, table.times)
    first = _sum_of_squares(table.rows.size, table.rows.times)
    second = _sum_of_squares(table.cols.size, table.cols.times)
    # ordered pairs of different rows: together in both, in the first only, in the second only, in neither
    tt, tf, ft, ff = both - n, first - both, second - both, n * n - first - second + both
    if tf == 0 and ft == 0:
        return 1.0
    return 2 * (tt * ff - tf * ft) / ((tt + tf) * (tf + ff) + (tt + ft) * (ft + ff))


def _sum_of_squares(size: Ints, times: Ints) -> int:
    top = int(size.max())
    if top * top * int(times.sum()) < 2**63:
        return int(np.sum(size * size * times))
    return sum(s * s * t for s, t in zip(size.tolist(), times.tolist()))
