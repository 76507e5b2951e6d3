"""Entropy, mutual information, and what is made of them:

AMI = (MI − E[MI]) / (average(H_true, H_pred) − E[MI])      adjusted for chance
NMI = MI / average(H_true, H_pred)
homogeneity = MI / H_true,  completeness = MI / H_pred,  and their weighted harmonic mean, the V-measure
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from knoll._typing import Ints
from knoll.exceptions import BadData, InvalidParameter
from knoll.metrics._contingency import Sizes, Table, tabulate
from knoll.metrics._expected import excess, expectation, log_share
from knoll.metrics._labels import refuse_masked

AVERAGES = ("arithmetic", "geometric", "max", "min")


def adjusted_mutual_info_score(
    labels_true: Any,
    labels_pred: Any,
    *,
    average_method: str = "arithmetic",
    sample_weight: Any = None,
    noise: str = "cluster",
) -> float:
    """Compare two labellings by the information they share, beyond what chance would give.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows.
    average_method : {"arithmetic", "geometric", "max", "min"}, default="arithmetic"
        How the two entropies are averaged in the denominator.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Returns
    -------
    float
        1 for equal partitions, 0 on average for random ones of the same sizes.

    Notes
    -----
    Where nothing can vary the score follows scikit-learn: 1 if both labellings are one cluster, 0 if only one
    is, 0 if only one is all singletons: no permutation shares more or less than another. With ``"min"`` the last
    is 0/0, and scikit-learn's answer is left to rounding.

    References
    ----------
    Vinh, Epps and Bailey, Information theoretic measures for clusterings comparison, JMLR 11 (2010).

    Examples
    --------
    >>> from knoll.metrics import adjusted_mutual_info_score
    >>> adjusted_mutual_info_score([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> round(adjusted_mutual_info_score([0, 0, 1, 1, 2, 2], [0, 0, 1, 2, 2, 2]), 6)
    0.502361
    """
    _check_average(average_method)
    table = tabulate(labels_true, labels_pred, sample_weight, noise)
    k_true, k_pred, n = table.rows.n_clusters, table.cols.n_clusters, table.n
    if k_true == k_pred == int(table.times.sum()):
        return 1.0  # each cluster of one is a cluster of the other: equal partitions
    if k_true == 1 or k_pred == 1:
        return 0.0
    if n in (k_true, k_pred):  # all singletons: MI is the same for every permutation
        return 0.0

    h_true, h_pred = _entropy(table.rows, n), _entropy(table.cols, n)
    mean_G, mean_T = expectation(table.rows, table.cols, n)
    average = _average(h_true, h_pred, average_method)
    if average < 0.5 * math.log(n):
        return (_n_mutual_info(table) - mean_G) / (n * average - mean_G)
    # With S = Σ size·log size, n·H = n log n − S: the large n log n drops out of both differences, and
    # nothing is lost when almost every cluster is a singleton.
    s_true = _sum_x_log_x(table.rows.size, table.rows.times)
    s_pred = _sum_x_log_x(table.cols.size, table.cols.times)
    s_both = _sum_x_log_x(table.count, table.times)
    if average_method == "max":
        s = max(s_true, s_pred)
    elif average_method == "min":
        s = min(s_true, s_pred)
    else:
        s = 0.5 * (s_true + s_pred)
    if average_method == "geometric":  # √(hk) = (h + k)/2 − (√h − √k)²/2
        s -= 0.5 * n * (math.sqrt(h_true) - math.sqrt(h_pred)) ** 2
    return (s_both - mean_T) / (s - mean_T)


def normalized_mutual_info_score(
    labels_true: Any,
    labels_pred: Any,
    *,
    average_method: str = "arithmetic",
    sample_weight: Any = None,
    noise: str = "cluster",
) -> float:
    """Return NMI = MI / average(H_true, H_pred): the share of the information that two labellings have in common.

    It is not adjusted for chance: it grows with the numbers of labels, see :func:`adjusted_mutual_info_score`.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows.
    average_method : {"arithmetic", "geometric", "max", "min"}, default="arithmetic"
        How the two entropies are averaged in the denominator.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Returns
    -------
    float
        From 0 to 1: exactly 1 for equal partitions, one cluster against one cluster included, and 0 where one
        labelling tells nothing about the other.

    Examples
    --------
    >>> from knoll.metrics import normalized_mutual_info_score
    >>> normalized_mutual_info_score([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> round(normalized_mutual_info_score([0, 0, 1, 1], [0, 0, 1, 2]), 6)
    0.8
    """
    _check_average(average_method)
    shared = _share(tabulate(labels_true, labels_pred, sample_weight, noise))
    if shared.nested_true and shared.nested_pred:
        return 1.0
    return _ratio(shared.mi, _average(shared.h_true, shared.h_pred, average_method))


def homogeneity_completeness_v_measure(
    labels_true: Any, labels_pred: Any, *, beta: float = 1.0, sample_weight: Any = None, noise: str = "cluster"
) -> tuple[float, float, float]:
    """Return whether each cluster holds one class, whether each class is in one cluster, and a mean of the two.

    Homogeneity is MI/H(classes), completeness MI/H(clusters), and the V-measure (1 + β)hc/(βh + c).

    Parameters
    ----------
    labels_true : array-like of shape (n,)
        The classes.
    labels_pred : array-like of shape (n,)
        The clusters.
    beta : float, default=1.0
        The weight of completeness; below 1 homogeneity counts more.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Returns
    -------
    homogeneity, completeness, v_measure : float
        From 0 to 1; homogeneity is exactly 1 where no cluster holds two classes, completeness where no class is in
        two clusters.

    References
    ----------
    Rosenberg and Hirschberg, V-Measure: a conditional entropy-based external cluster evaluation measure, EMNLP (2007).

    Examples
    --------
    >>> from knoll.metrics import homogeneity_completeness_v_measure
    >>> h, c, v = homogeneity_completeness_v_measure([0, 0, 1, 1], [0, 0, 1, 2])
    >>> round(h, 6), round(c, 6), round(v, 6)
    (1.0, 0.666667, 0.8)
    """
    number = isinstance(beta, numbers.Real) and not isinstance(beta, bool)
    if not number or not 0 <= beta < math.inf:
        raise InvalidParameter(f"beta must be a finite number >= 0, got {beta!r}. 1 weighs both alike.")
    shared = _share(tabulate(labels_true, labels_pred, sample_weight, noise))
    h = 1.0 if shared.nested_pred else _ratio(shared.mi, shared.h_true)
    c = 1.0 if shared.nested_true else _ratio(shared.mi, shared.h_pred)
    v = (1 + beta) * h * c / (beta * h + c) if h * c > 0 else 0.0
    return h, c, min(v, 1.0)


def homogeneity_score(
    labels_true: Any, labels_pred: Any, *, sample_weight: Any = None, noise: str = "cluster"
) -> float:
    """Return MI/H(classes): 1 where each cluster holds rows of one class.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        The classes and the clusters of the same rows.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Examples
    --------
    >>> from knoll.metrics import homogeneity_score
    >>> homogeneity_score([0, 0, 1, 1], [0, 0, 1, 2])
    1.0
    """
    return homogeneity_completeness_v_measure(labels_true, labels_pred, sample_weight=sample_weight, noise=noise)[0]


def completeness_score(
    labels_true: Any, labels_pred: Any, *, sample_weight: Any = None, noise: str = "cluster"
) -> float:
    """Return MI/H(clusters): 1 where the rows of each class are in one cluster.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        The classes and the clusters of the same rows.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Examples
    --------
    >>> from knoll.metrics import completeness_score
    >>> completeness_score([0, 0, 1, 1], [0, 0, 0, 0])
    1.0
    """
    return homogeneity_completeness_v_measure(labels_true, labels_pred, sample_weight=sample_weight, noise=noise)[1]


def v_measure_score(
    labels_true: Any, labels_pred: Any, *, beta: float = 1.0, sample_weight: Any = None, noise: str = "cluster"
) -> float:
    """Return the weighted harmonic mean of homogeneity and completeness, (1 + β)hc/(βh + c).

    With β = 1 it is the normalized mutual information with the arithmetic mean.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        The classes and the clusters of the same rows.
    beta : float, default=1.0
        The weight of completeness; below 1 homogeneity counts more.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Examples
    --------
    >>> from knoll.metrics import v_measure_score
    >>> round(v_measure_score([0, 0, 1, 1], [0, 0, 1, 2]), 6)
    0.8
    """
    return homogeneity_completeness_v_measure(
        labels_true, labels_pred, beta=beta, sample_weight=sample_weight, noise=noise
    )[2]


def mutual_info_score(
    labels_true: Any, labels_pred: Any, *, sample_weight: Any = None, noise: str = "cluster"
) -> float:
    """Return MI = Σ_ij (n_ij/n) log(n·n_ij / (a_i b_j)), in nats.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same rows.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Examples
    --------
    >>> from knoll.metrics import mutual_info_score
    >>> round(mutual_info_score([0, 0, 1, 1], [0, 0, 1, 1]), 6)
    0.693147
    """
    table = tabulate(labels_true, labels_pred, sample_weight, noise)
    return _n_mutual_info(table) / table.n


def entropy(labels: Any, *, sample_weight: Any = None, noise: str = "cluster") -> float:
    """Return H = −Σ_i (a_i/n) log(a_i/n), in nats.

    Parameters
    ----------
    labels : array-like of shape (n,)
        One label per row.
    sample_weight : array-like of shape (n,), default=None
        Whole numbers: how often each row counts. 0 leaves it out.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, see :func:`contingency`.

    Examples
    --------
    >>> from knoll.metrics import entropy
    >>> round(entropy([0, 0, 1, 1]), 6)
    0.693147
    """
    table = tabulate(labels, labels, sample_weight, noise)
    return _entropy(table.rows, table.n)


def expected_mutual_info(row_sizes: Any, col_sizes: Any) -> float:
    """Return E[MI] over all permutations of two labellings with these cluster sizes, in nats.

    Parameters
    ----------
    row_sizes, col_sizes : array-like of int
        The sizes of the clusters of either labelling; both sum to n.

    Examples
    --------
    >>> from knoll.metrics import expected_mutual_info
    >>> round(expected_mutual_info([2, 2], [2, 2]), 6)
    0.231049
    """
    rows, cols = _check_sizes(row_sizes, "row_sizes"), _check_sizes(col_sizes, "col_sizes")
    n, n_cols = int(rows.size.sum()), int(cols.size.sum())
    if n != n_cols:
        raise BadData(f"row_sizes sum to {n} and col_sizes to {n_cols}. Both must count the same rows.")
    return expectation(rows, cols, n)[0] / n


def _check_sizes(sizes: Any, name: str) -> Sizes:
    wrong = f"{name} must be a list of whole numbers >= 1, got {{}}. Give one size for each cluster."
    refuse_masked(sizes, name)
    try:
        array = np.asarray(sizes)
    except ValueError as error:
        raise BadData(wrong.format("rows of different lengths")) from error
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array) or int(array.min()) < 1:
        raise BadData(wrong.format(repr(sizes)))
    total = float(array.astype(np.float64).sum())
    if total > 2.0**62:
        raise BadData(f"{name} must sum to at most 2**62, got {total!r}. Divide the sizes by a common factor.")
    size = array.astype(np.int64)
    return Sizes(size, np.ones_like(size))


def _check_average(average_method: Any) -> None:
    if not isinstance(average_method, str) or average_method not in AVERAGES:
        known = ", ".join(map(repr, AVERAGES))
        raise InvalidParameter(f"average_method must be one of {known}, got {average_method!r}.")


class _Shared(NamedTuple):
    """Information, and what is known without rounding: whether clusters of one labelling lie in those of the other."""

    mi: float
    h_true: float
    h_pred: float
    nested_true: bool
    nested_pred: bool


def _share(table: Table) -> _Shared:
    cells, n = int(table.times.sum()), table.n
    return _Shared(
        mi=max(_n_mutual_info(table) / n, 0.0),
        h_true=_entropy(table.rows, n),
        h_pred=_entropy(table.cols, n),
        nested_true=cells == table.rows.n_clusters,
        nested_pred=cells == table.cols.n_clusters,
    )


def _ratio(shared: float, whole: float) -> float:
    """Return the share of an entropy, which rounding must not take above 1."""
    return min(shared / whole, 1.0) if whole > 0 else 0.0


def _average(h: float, k: float, method: str) -> float:
    if method == "min":
        return min(h, k)
    if method == "max":
        return max(h, k)
    return 0.5 * (h + k) if method == "arithmetic" else math.sqrt(h) * math.sqrt(k)


def _entropy(sizes: Sizes, n: int) -> float:
    return abs(float(np.sum(sizes.times * (sizes.size / n) * log_share(sizes.size, n))))  # abs: no -0.0


def _sum_x_log_x(size: Ints, times: Ints) -> float:
    return float(np.sum(times * xlogy(size, size)))


def _n_mutual_info(table: Table) -> float:
    """Return n·MI = Σ g(n_ij) over all cells, g as in `_expected`; the empty ones contribute Σ (n_ij − m_ij)."""
    m = table.row_size * (table.col_size / table.n)
    if table.n < 2**31:
        surplus = table.count * table.n - table.row_size * table.col_size  # exact: below 2⁶²
        empty = float(np.sum(table.times * (surplus / table.n)))
    else:  # beyond int64: Python's integers
        product = table.row_size.astype(object) * table.col_size.astype(object)
        exact = table.count.astype(object) * table.n - product
        empty = int(np.sum(exact * table.times.astype(object))) / table.n
        surplus = exact.astype(np.float64)
    return float(np.sum(table.times * excess(m, surplus / table.n))) + empty
