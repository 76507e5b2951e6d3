"""How well an answer explains a table with categories: the completed likelihood of its clusters, penalised as in BIC.

Density alone cannot distinguish clusters from combinations of categories: rows of one combination lie together, and
nothing lies between. For a partition with clusters of n_c rows, numbers that are Gaussian and categories that are
independent within a cluster, the criterion (ICL: Biernacki, Celeux and Govaert 2000) is

    Σ_c n_c log(n_c / n) + Σ_c log p(rows of c | best parameters of c) − ν/2 log n.

A partition by the levels of a category that is independent of the other columns gains the entropy of that category in
the second term and loses as much in the first: it explains nothing. What is missing is left out of the sums.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knoll._typing import Bools, Floats, Ints, Labels
from knoll.comparison.judge import Judgement
from knoll.comparison.subsample import MixedRows

__all__ = ["likelihood_gains", "reason_for", "with_likelihood"]

_FLOOR = 0.01  # of the variance of a column: so much a cluster has at least
_ROWS = 3  # times the columns: clusters with fewer rows have no correlations
_WEIGHT = 2.0  # of the likelihood, beside a score of the judge from 0 to 1
_BEST = 0.95  # of the largest gain: an answer with more explains the table as well as any


def with_likelihood(judged: Judgement, gains: Floats) -> Judgement:
    """Lower the score of an answer by what its gain lacks of the largest one.

    The judge was trained on numbers. It recognises dense regions with gaps between them, which combinations of
    categories are, too; the likelihood shows whether they explain the other columns.
    """
    largest = float(gains.max())
    if not largest > 0:
        return judged
    lost = _WEIGHT * (np.maximum(gains, 0.0) / largest - 1.0)
    lost[0] = 0.0  # one cluster of all rows
    return replace(judged, score=judged.score + lost)


def reason_for(gains: Floats, best: int) -> str:
    """Report how well an answer explains the columns of the table, among all answers."""
    largest = float(gains.max())
    if not largest > 0:
        return "No answer explains the columns better than one cluster of all rows does (completed likelihood)."
    share = max(0.0, float(gains[best])) / largest
    if share >= _BEST:
        return "No other answer explains numbers and categories better (completed likelihood)."
    return f"They explain numbers and categories {100 * share:.0f} % as well as the best answer (completed likelihood)."


def likelihood_gains(rows: MixedRows, labelings: Labels) -> Floats:
    """Return the criterion of each labeling (a, m) per row, less that of one cluster; the larger the better."""
    numeric = rows.values[:, : rows.n_numeric]
    observed = ~np.isnan(numeric)
    numbers = np.where(observed, numeric - _means(numeric, observed), 0.0)  # (m, p)
    codes = np.where(np.isnan(rows.values[:, rows.n_numeric :]), -1, rows.values[:, rows.n_numeric :]).astype(np.int64)
    one = np.zeros((1, len(numeric)), labelings.dtype)
    found = np.array([_criterion(numbers, observed, codes, labels) for labels in np.vstack([one, labelings])])
    return np.asarray((found[1:] - found[0]) / len(numeric))


def _means(numeric: Floats, observed: Bools) -> Floats:
    return np.asarray(np.where(observed, numeric, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1))


def _criterion(numbers: Floats, observed: Bools, codes: Ints, labels: Ints) -> float:
    """Return the criterion with diagonal covariances or with full ones, whichever is larger."""
    n, p = numbers.shape
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    entropy = float((sizes * np.log(np.maximum(sizes, 1) / n)).sum())
    gaussian, correlated = _gaussian(numbers, observed, labels, sizes)
    categorical, levels = _categorical(codes, labels, k)
    penalty = 0.5 * np.log(n)
    diagonal = entropy + gaussian + categorical - penalty * (k - 1 + k * (2 * p + levels))
    return max(diagonal, diagonal + correlated - penalty * k * p * (p - 1) / 2)


def _gaussian(numbers: Floats, observed: Bools, labels: Ints, sizes: Ints) -> tuple[float, float]:
    """Return the log-likelihood with diagonal covariances, and what correlations add to it."""
    p = numbers.shape[1]
    if p == 0:
        return 0.0, 0.0
    member = (labels == np.arange(len(sizes))[:, None]).astype(np.float64)  # (k, n)
    counts = member @ observed  # (k, p)
    means = member @ numbers / np.maximum(counts, 1)
    total = np.square(numbers).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    variances = member @ np.square(numbers) / np.maximum(counts, 1) - np.square(means)
    variances = np.maximum(variances, np.where(total > 0, _FLOOR * total, 1.0))
    diagonal = -0.5 * float((counts * (np.log(2 * np.pi * variances) + 1)).sum())
    correlated = 0.0
    for c in np.flatnonzero(sizes >= _ROWS * p) if p > 1 else ():
        own = labels == c
        scaled = np.where(observed[own], numbers[own] - means[c], 0.0) / np.sqrt(variances[c])
        complete = float(observed[own].mean()) ** 2  # the share of pairs of columns that a row has
        correlated -= 0.5 * sizes[c] * complete * _log_determinant(scaled, p / sizes[c])
    return diagonal, correlated


def _log_determinant(scaled: Floats, shrinkage: float) -> float:
    """Return log |R| of the correlation matrix, moved towards the identity by the share of its own noise."""
    covariance = scaled.T @ scaled
    lengths = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlations = covariance / np.outer(lengths, lengths)
    mixed = (1 - shrinkage) * correlations
    np.fill_diagonal(mixed, 1.0)
    return float(np.linalg.slogdet(mixed)[1])


def _categorical(codes: Ints, labels: Ints, k: int) -> tuple[float, int]:
    """Return the log-likelihood of the categories, and the number of their free parameters in a cluster."""
    total, free = 0.0, 0
    for column in codes.T:
        known = column >= 0
        levels = int(column.max(initial=0)) + 1
        counts = np.bincount(labels[known] * levels + column[known], minlength=k * levels).reshape(k, levels)
        present = counts > 0
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        total += float((counts[present] * np.log(shares[present])).sum())
        free += levels - 1
    return total, free
