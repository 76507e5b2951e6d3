"""Clusters by density as functions, with scikit-learn's signatures: `dbscan`, `mean_shift`, `cluster_optics_dbscan`."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll._typing import Ints
from knoll.density.dbscan import DBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.density.optics import cut_reachability
from knoll.exceptions import BadData, InvalidParameter
from knoll.validation import refuse_masked

__all__ = ["cluster_optics_dbscan", "dbscan", "mean_shift"]


def dbscan(
    X: ArrayLike,
    eps: float | str = 0.5,
    *,
    min_samples: int = 5,
    metric: str | Callable[..., float] = "minkowski",
    metric_params: dict[str, Any] | None = None,
    algorithm: str = "auto",
    leaf_size: int = 30,
    p: float | None = 2,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> tuple[Ints, Ints]:
    """Fit :class:`DBSCAN` and return the core rows and the labels.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
        The points, or their distances where metric="precomputed".
    eps, min_samples, metric, metric_params, algorithm, leaf_size, p, n_jobs
        As in :class:`DBSCAN`.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows.

    Returns
    -------
    core_samples : ndarray of shape (n_core_samples,)
        The numbers of the core rows.
    labels : ndarray of shape (n_samples,)
        Clusters; -1 is noise.

    Examples
    --------
    >>> from knoll import dbscan
    >>> core_samples, labels = dbscan([[0.0], [1.0], [2.0], [50.0]], eps=1.5, min_samples=3)
    >>> core_samples.tolist(), labels.tolist()
    ([1], [0, 0, 0, -1])
    """
    model = DBSCAN(
        eps=eps,
        min_samples=min_samples,
        metric=metric,
        metric_params=metric_params,
        algorithm=algorithm,
        leaf_size=leaf_size,
        p=p,
        n_jobs=n_jobs,
    ).fit(X, sample_weight=sample_weight)
    return model.core_sample_indices_, model.labels_


def mean_shift(
    X: ArrayLike,
    *,
    bandwidth: float | None = None,
    seeds: ArrayLike | None = None,
    bin_seeding: bool = False,
    min_bin_freq: int = 1,
    cluster_all: bool = True,
    max_iter: int = 300,
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], Ints]:
    """Fit :class:`MeanShift` and return its centres and labels.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    bandwidth, seeds, bin_seeding, min_bin_freq, cluster_all, max_iter, n_jobs
        As in :class:`MeanShift`.

    Returns
    -------
    cluster_centers : ndarray of shape (n_clusters, n_features)
        The centre of each cluster.
    labels : ndarray of shape (n_samples,)
        Clusters.

    Examples
    --------
    >>> from knoll import mean_shift
    >>> cluster_centers, labels = mean_shift([[0.0], [1.0], [9.0], [10.0]], bandwidth=2.0)
    >>> sorted(cluster_centers.ravel().tolist()), cluster_centers[labels].ravel().tolist()
    ([0.5, 9.5], [0.5, 0.5, 9.5, 9.5])
    """
    model = MeanShift(
        bandwidth=bandwidth,
        seeds=seeds,
        bin_seeding=bin_seeding,
        min_bin_freq=min_bin_freq,
        cluster_all=cluster_all,
        max_iter=max_iter,
        n_jobs=n_jobs,
    ).fit(X)
    return model.cluster_centers_, model.labels_


def cluster_optics_dbscan(
    *, reachability: ArrayLike, core_distances: ArrayLike, ordering: ArrayLike, eps: float
) -> Ints:
    """Return the clusters of a reachability plot at a radius, as :meth:`OPTICS.cut` does.

    Parameters
    ----------
    reachability, core_distances : array-like of shape (n_samples,)
        `reachability_` and `core_distances_` of a fitted :class:`OPTICS`, by row.
    ordering : array-like of shape (n_samples,)
        Its `ordering_`: the rows in the order of the walk.
    eps : float
        The radius; the plot knows no more beyond the `max_eps` of the fit.

    Returns
    -------
    ndarray of shape (n_samples,)
        Clusters in the order of the walk; -1 is noise.

    Examples
    --------
    >>> from knoll import OPTICS, cluster_optics_dbscan
    >>> model = OPTICS(min_samples=2).fit([[0.0], [1.0], [9.0], [10.0], [50.0]])
    >>> cluster_optics_dbscan(
    ...     reachability=model.reachability_, core_distances=model.core_distances_, ordering=model.ordering_, eps=2.0
    ... ).tolist()
    [0, 0, 1, 1, -1]
    """
    owner = "cluster_optics_dbscan"
    if not isinstance(eps, numbers.Real) or isinstance(eps, bool) or not float(eps) >= 0:
        raise InvalidParameter(f"{owner}: eps must be >= 0, got {eps!r}.")
    arrays = {"reachability": reachability, "core_distances": core_distances, "ordering": ordering}
    for name, values in arrays.items():
        refuse_masked(values, name)
        arrays[name] = np.asarray(values)
        if np.shape(arrays[name]) != np.shape(arrays["reachability"]) or np.ndim(arrays[name]) != 1:
            raise BadData(
                f"{owner}: {name} has shape {np.shape(arrays[name])} and reachability "
                f"{np.shape(arrays['reachability'])}. Give one entry for each row to all three."
            )
    order = np.asarray(arrays["ordering"])
    if order.dtype.kind not in "iu" or not np.array_equal(np.sort(order), np.arange(len(order))):
        raise BadData(f"{owner}: ordering must hold each row once, as OPTICS.ordering_ does.")
    heights = [np.asarray(arrays[name], dtype=np.float64) for name in ("reachability", "core_distances")]
    return cut_reachability(heights[0], heights[1], order.astype(np.int64), float(eps))
