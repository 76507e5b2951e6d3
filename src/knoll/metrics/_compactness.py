"""Scores by the means of clusters: Davies and Bouldin's index, and Calinski and Harabasz's.

Sums over rows are exact, so no order of the rows changes a bit, and distances are the one distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knoll import _core
from knoll._system import resolve_threads
from knoll._typing import Floats, Ints, Labels
from knoll.exceptions import BadData
from knoll.metrics._points import read_clusters, without_units
from knoll.validation import N_JOBS, check_parameters, check_points

_BLOCK = 1 << 22  # distances between means at a time


def davies_bouldin_score(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    noise: str = "cluster",
    n_jobs: int | None = None,
) -> float:
    """Return the mean over the clusters of the worst (s_i + s_j)/‖m_i − m_j‖; smaller is better, 0 the least.

    m_i is the mean of cluster i and s_i the mean distance of its rows to m_i. Two clusters with one mean are no pair.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    labels : array-like of shape (n_samples,)
        Their clusters, at least two, of which one has two rows: numbers, strings, any hashable objects.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means: one more cluster; a row to leave out; or a cluster of its own for each such row.
    n_jobs : int or None, default=None
        Threads; the result has the same bits for every number.

    Returns
    -------
    float
        The index.

    Notes
    -----
    scikit-learn's figure is 0 where all s_i, or all distances of means, are below 1e-8 in the units of X. Here units do
    not matter.

    References
    ----------
    Davies and Bouldin, A cluster separation measure, IEEE Transactions on Pattern Analysis and Machine Intelligence 1
    (1979).

    Examples
    --------
    >>> from knoll.metrics import davies_bouldin_score
    >>> davies_bouldin_score([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1])
    0.2
    """
    means = _means("davies_bouldin_score", X, labels, sample_weight, noise, n_jobs)
    spread = means.sum_by_cluster(np.sqrt(means.squares)) / means.sizes
    worst = np.zeros(len(spread))
    step = max(1, _BLOCK // len(spread))
    for first in range(0, len(spread), step):
        block = slice(first, first + step)
        apart = np.empty((len(spread[block]), len(spread)))
        _core.center_distances(means.centers[block].copy(), means.centers, apart, means.threads)
        apart[apart == 0] = np.inf  # the cluster itself, and others with its mean
        worst[block] = ((spread[block, None] + spread) / apart).max(axis=1)
    return math.fsum((means.times * worst).tolist()) / math.fsum(means.times.tolist())


def calinski_harabasz_score(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    noise: str = "cluster",
    n_jobs: int | None = None,
) -> float:
    """Return the scatter between clusters over that within them, each by its degrees of freedom; larger is better.

    With n rows in k clusters of sizes n_i and means m_i, and m the mean of all,

        CH = (Σ_i n_i ‖m_i − m‖² / (k − 1)) / (Σ_x ‖x − m_i(x)‖² / (n − k)).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    labels : array-like of shape (n_samples,)
        Their clusters, at least two, of which one has two rows: numbers, strings, any hashable objects.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows, also in n.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means: one more cluster; a row to leave out; or a cluster of its own for each such row.
    n_jobs : int or None, default=None
        Threads; the result has the same bits for every number.

    Returns
    -------
    float
        The ratio; 1 where every row is the mean of its cluster, as in scikit-learn.

    References
    ----------
    Calinski and Harabasz, A dendrite method for cluster analysis, Communications in Statistics 3 (1974).

    Examples
    --------
    >>> from knoll.metrics import calinski_harabasz_score
    >>> calinski_harabasz_score([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1])
    50.0
    """
    owner = "calinski_harabasz_score"
    means = _means(owner, X, labels, sample_weight, noise, n_jobs)
    counts = means.times * means.sizes
    n, k = math.fsum(counts.tolist()), math.fsum(means.times.tolist())
    if n <= k:
        raise BadData(f"{owner}: the weights sum to {n:g} for {k:g} clusters. A score needs more rows than clusters.")
    within = math.fsum(means.sum_by_cluster(means.squares).tolist())
    between = math.fsum((counts * means.squares_from(means.center)).tolist())
    return float(between * (n - k) / (within * (k - 1))) if within > 0 else 1.0


@dataclass(frozen=True, eq=False)
class _Means:
    """The means of the clusters, and the squared distance of each row to its own."""

    codes: Labels  # (m,) of the rows that count
    mass: Floats  # (m,)
    squares: Floats  # (m,)
    centers: Floats  # (k, d)
    center: Floats  # (d,) the mean of all
    sizes: Floats  # (k,)
    times: Floats  # (k,)
    threads: int

    def sum_by_cluster(self, values: Floats) -> Floats:
        """Return Σ mass·value of each cluster."""
        high, _ = _sums(values[:, None], self.mass, self.codes, len(self.sizes), self.threads)
        return np.ascontiguousarray(high[:, 1])

    def squares_from(self, point: Floats) -> Floats:
        """Return the squared distance of each mean to a point."""
        squares, zeros = np.empty(len(self.centers)), np.zeros(len(self.centers), dtype=np.int32)
        _core.own_distances(self.centers, point[None], zeros, squares, self.threads)
        return squares


def _means(owner: str, X: Any, labels: Any, sample_weight: Any, noise: str, n_jobs: int | None) -> _Means:
    check_parameters(owner, {"n_jobs": n_jobs}, {"n_jobs": N_JOBS})
    points = check_points(X, n_jobs=n_jobs)
    clusters = read_clusters(owner, labels, sample_weight, noise, len(points))
    clusters.check(owner, "the score")
    kept, threads = clusters.kept, resolve_threads(n_jobs)
    rows = without_units(points if kept.all() else points[kept])
    codes, mass = clusters.codes[kept].astype(np.int32), clusters.mass[kept]
    centers, sizes = _averages(rows, mass, codes, clusters.count, threads)
    everything = np.zeros(len(rows), dtype=np.int32)
    squares = np.empty(len(rows))
    _core.own_distances(rows, centers, codes, squares, threads)
    return _Means(
        codes=codes,
        mass=mass,
        squares=squares,
        centers=centers,
        center=_averages(rows, clusters.weights[kept], everything, 1, threads)[0][0],
        sizes=sizes,
        times=clusters.times,
        threads=threads,
    )


def _averages(rows: Floats, mass: Floats, codes: Labels, k: int, threads: int) -> tuple[Floats, Floats]:
    """Return the mean of each cluster, rounded once (eq. 3.7), and its mass."""
    d = rows.shape[1]
    high, low = _sums(rows, mass, codes, k, threads)
    centers = np.empty((k, d))
    _core.cluster_means(high, low, np.zeros((k, d)), np.zeros(d), (0.0, 0.0, 0.0), centers, threads)
    return centers, np.ascontiguousarray(high[:, 0])


def _sums(rows: Floats, mass: Floats, codes: Labels, k: int, threads: int) -> tuple[Floats, Floats]:
    """Return mass and sums of each cluster, (k, d+1), as rounded exact sums and what rounding left."""
    width = rows.shape[1] + 1
    words: Ints = np.zeros((_core.SUM_WORDS, k * width), dtype=np.int64)
    _core.add_cluster_sums(rows, mass, codes, words, threads)
    high, low = np.empty(k * width), np.empty(k * width)
    _core.exact_round(words, high, threads, low)
    return high.reshape(k, width), low.reshape(k, width)
