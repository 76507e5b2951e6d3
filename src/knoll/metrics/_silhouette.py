"""Silhouettes: how much closer each row is to its own cluster than to the nearest other one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knoll import _core
from knoll._common.sparse import is_sparse
from knoll._system import resolve_threads
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData, InvalidParameter
from knoll.metrics._points import Clusters, Grouped, group_rows, mean_of, read_clusters, without_units
from knoll.neighbors.distances import metric_distances
from knoll.neighbors.metric_names import Metric, core_metric, minkowski_power
from knoll.validation import N_JOBS, RANDOM_STATE, Number, check_parameters, check_points, draw_seed

_BLOCK = 1 << 24  # distances at a time, where the core does not compute them
_UNITLESS = ("euclidean", "manhattan", "chebyshev", "minkowski")  # multiples of rows have multiples of their distances
_ROUNDING = 100 * float(np.finfo(np.float64).eps)  # a diagonal of distances may differ from 0 by this
_MOST_SAMPLED = 10**9  # rows with their repetitions, of which a sample is drawn


def silhouette_samples(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    metric: Metric = "euclidean",
    sample_weight: ArrayLike | None = None,
    noise: str = "cluster",
    n_jobs: int | None = None,
    **kwds: Any,
) -> Floats:
    """Compute the silhouette (b − a)/max(a, b) of each row, from all pairs of rows.

    a is the mean distance to the others of the row's own cluster, b the least mean distance to another cluster; 0 for a
    row that is alone in its cluster. n²d work, memory linear in n: no matrix of distances is held.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
        The points, or their distances where metric="precomputed".
    labels : array-like of shape (n_samples,)
        Their clusters, at least two, of which one has two rows: numbers, strings, any hashable objects.
    metric : str or callable, default="euclidean"
        "euclidean", "manhattan", "chebyshev", "minkowski", "cosine" and "haversine" (and their other names) are
        computed by the core, any other metric of scikit-learn's `pairwise_distances`, a callable and sparse rows in
        blocks.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means: one more cluster; a row to leave out, whose silhouette is NaN; or a cluster of its own
        for each such row.
    n_jobs : int or None, default=None
        Threads; the result has the same bits for every number.
    **kwds
        Further arguments of the metric, such as p.

    Returns
    -------
    ndarray of shape (n_samples,)
        The silhouettes, from −1 to 1; 0 for a row of weight 0.

    Notes
    -----
    The distance is √Σ(x − y)² in float64, never from expanded squares. Distinct rows are summed in the order of their
    coordinates, so that no order of the rows changes a bit; for distances the sums are exact. scikit-learn refuses no
    rule for noise, because it has none; without weights and noise the figures are its own.

    References
    ----------
    Rousseeuw, Silhouettes: a graphical aid to the interpretation and validation of cluster analysis, Journal of
    Computational and Applied Mathematics 20 (1987).

    Examples
    --------
    >>> from knoll.metrics import silhouette_samples
    >>> silhouette_samples([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]).round(3)
    array([0.895, 0.882, 0.882, 0.895])
    """
    points = _check_points("silhouette_samples", X, metric, n_jobs)
    clusters = read_clusters("silhouette_samples", labels, sample_weight, noise, points.shape[0])
    clusters.check("silhouette_samples", "a silhouette")
    return _silhouettes("silhouette_samples", points, clusters, metric, kwds, resolve_threads(n_jobs))


def silhouette_score(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    metric: Metric = "euclidean",
    sample_size: int | None = None,
    random_state: Any = None,
    sample_weight: ArrayLike | None = None,
    noise: str = "cluster",
    n_jobs: int | None = None,
    **kwds: Any,
) -> float:
    """Return the mean silhouette of all rows: 1 for compact clusters far apart, about 0 where they overlap.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
        The points, or their distances where metric="precomputed".
    labels : array-like of shape (n_samples,)
        Their clusters, at least two, of which one has two rows.
    metric : str or callable, default="euclidean"
        As in :func:`silhouette_samples`.
    sample_size : int, default=None
        Score a random sample of so many rows. None: all rows.
    random_state : int, RandomState, Generator or None, default=None
        What the sample is drawn from. Neither the order of the rows nor "weight or repetition" changes which rows are
        drawn, so the sample is not the one that scikit-learn draws from this seed.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows; whole numbers where a sample is drawn.
    noise : {"cluster", "drop", "singletons"}, default="cluster"
        What the label -1 means, as in :func:`silhouette_samples`; dropped rows are not in the mean.
    n_jobs : int or None, default=None
        Threads; the result has the same bits for every number.
    **kwds
        Further arguments of the metric, such as p.

    Returns
    -------
    float
        The mean, from −1 to 1.

    Examples
    --------
    >>> from knoll.metrics import silhouette_score
    >>> round(silhouette_score([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]), 6)
    0.888545
    """
    owner = "silhouette_score"
    check_parameters(
        owner,
        {"sample_size": sample_size, "random_state": random_state},
        {"sample_size": (None, Number(1, whole=True)), "random_state": RANDOM_STATE},
    )
    points = _check_points(owner, X, metric, n_jobs)
    if sample_size is not None:
        everything = read_clusters(owner, labels, sample_weight, "cluster", points.shape[0])
        sample_weight = _sample(points, everything, metric, int(sample_size), draw_seed(random_state))
    clusters = read_clusters(owner, labels, sample_weight, noise, points.shape[0])
    clusters.check(owner, "a silhouette" if sample_size is None else "a silhouette of the sample")
    values = _silhouettes(owner, points, clusters, metric, kwds, resolve_threads(n_jobs))
    kept = clusters.kept
    return mean_of(values[kept], clusters.weights[kept])


def _check_points(owner: str, X: Any, metric: Metric, n_jobs: int | None) -> Any:
    check_parameters(owner, {"n_jobs": n_jobs}, {"n_jobs": N_JOBS})
    if not isinstance(metric, str) and not callable(metric):
        raise InvalidParameter(f"{owner}: metric must be a name or a callable, got {metric!r}.")
    if metric != "precomputed":
        return check_points(X, sparse=True, n_jobs=n_jobs)
    distances = np.asarray(check_points(X, n_jobs=n_jobs), dtype=np.float64)
    if distances.shape[0] != distances.shape[1]:
        raise BadData(f"{owner}: precomputed distances must be a square matrix, got shape {distances.shape}.")
    if distances.min() < 0:
        row, column = np.unravel_index(int(distances.argmin()), distances.shape)
        raise BadData(
            f"{owner}: distances must be >= 0, got {distances[row, column]} at row {row}, column {column}. "
            "Are these similarities? Then give 1 - X, or another distance."
        )
    own = np.diagonal(distances)
    if own.max() > _ROUNDING:
        at = int(own.argmax())
        raise BadData(f"{owner}: the distance of row {at} to itself is {own[at]}, not 0. Use np.fill_diagonal(X, 0).")
    return distances


def _silhouettes(
    owner: str, points: Any, clusters: Clusters, metric: Metric, options: Mapping[str, Any], threads: int
) -> Floats:
    """Return the silhouette of each row: NaN for noise that is left out, 0 for other rows that do not count."""
    name = None if is_sparse(points) or metric == "precomputed" else core_metric(metric, dict(options), None)
    if name == "gower":
        raise InvalidParameter(
            f"{owner}: metric 'gower' needs to know the types of the columns. Give knoll.neighbors.gower_distances(X), "
            "with metric='precomputed'."
        )
    dense = not is_sparse(points) and metric != "precomputed"
    if name in _UNITLESS:
        points = without_units(points)
    grouped = group_rows(points if dense else None, clusters)
    values = np.empty(len(grouped.rows))
    if name is not None:
        rows = np.ascontiguousarray(points[grouped.rows], dtype=np.float64)
        power = minkowski_power(dict(options), None)
        _core.silhouette(rows, grouped.mass, grouped.starts, name, power, values, threads)
    elif metric == "precomputed":
        _of_blocks(lambda rows: points[np.ix_(rows, grouped.rows)], grouped, values, threads)
    else:
        every = points[grouped.rows]
        _of_blocks(lambda rows: metric_distances(points[rows], every, metric, options, owner), grouped, values, threads)
    silhouettes = np.where(clusters.noise & ~clusters.kept, np.nan, 0.0)
    kept = clusters.kept
    silhouettes[kept] = values[grouped.inverse[kept]]
    return silhouettes


def _of_blocks(distances: Any, grouped: Grouped, values: Floats, threads: int) -> None:
    """Fill the silhouettes from the distances of some rows to all, a block at a time."""
    n = len(grouped.rows)
    size = max(1, _BLOCK // n)
    for first in range(0, n, size):
        block = np.ascontiguousarray(distances(grouped.rows[first : first + size]), dtype=np.float64)
        out = values[first : first + size]
        _core.silhouette_of_distances(block, first, grouped.mass, grouped.starts, out, threads)


def _sample(points: Any, clusters: Clusters, metric: Metric, size: int, seed: int) -> Floats:
    """Draw rows without replacement, and return how often each is in the sample."""
    kept, rng = clusters.kept, np.random.default_rng(seed)
    if (clusters.weights != np.floor(clusters.weights)).any() or clusters.weights.sum() >= _MOST_SAMPLED:
        raise BadData(
            "silhouette_score: to draw a sample, sample_weight must be whole numbers that sum to less than "
            f"{_MOST_SAMPLED}. Draw the sample first, or give no sample_size."
        )
    content = None if is_sparse(points) or metric == "precomputed" else points
    grouped = group_rows(content, clusters)  # noise is one more cluster: the rule applies to what is drawn
    counts: Ints = grouped.mass.astype(np.int64)
    drawn = rng.multivariate_hypergeometric(counts, min(size, int(counts.sum())), method="marginals")
    weights = np.zeros(len(kept))
    weights[grouped.rows] = drawn
    return weights
