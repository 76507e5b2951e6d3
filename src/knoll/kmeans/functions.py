"""k-means as functions, with scikit-learn's signatures: `k_means` and `kmeans_plusplus`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll._common import seeding
from knoll._common.blocks import Block
from knoll._common.rescale import Rescaling, largest_of, without_absent
from knoll._common.sparse import check_compressed, dense_rows, is_sparse
from knoll._system import resolve_threads
from knoll._typing import Ints
from knoll.exceptions import BadData
from knoll.kmeans.estimator import KMeans
from knoll.validation import (
    N_JOBS,
    RANDOM_STATE,
    Number,
    check_parameters,
    check_points,
    check_weights,
    draw_seed,
)

__all__ = ["k_means", "kmeans_plusplus"]


def k_means(
    X: ArrayLike,
    n_clusters: int,
    *,
    sample_weight: ArrayLike | None = None,
    init: Any = "k-means++",
    n_init: Any = "auto",
    max_iter: int = 300,
    verbose: int = False,
    tol: float = 1e-4,
    random_state: Any = None,
    copy_x: bool = True,
    algorithm: str = "auto",
    return_n_iter: bool = False,
    n_jobs: int | None = None,
) -> Any:
    """Fit :class:`KMeans` and return what it found.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The points.
    n_clusters : int
        The number of clusters.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows.
    init, n_init, max_iter, verbose, tol, random_state, copy_x, algorithm, n_jobs
        As in :class:`KMeans`.
    return_n_iter : bool, default=False
        Whether to return the number of steps, too.

    Returns
    -------
    centroid : ndarray of shape (n_clusters, n_features)
        The centres.
    label : ndarray of shape (n_samples,)
        The closest centre of each row.
    inertia : float
        Σ w‖x − μ‖².
    best_n_iter : int
        The steps of the run that was kept; with `return_n_iter` alone.

    Examples
    --------
    >>> from knoll import k_means
    >>> centers, labels, inertia = k_means([[0.0], [1.0], [9.0], [10.0]], 2, random_state=0)
    >>> sorted(centers.ravel().tolist()), inertia
    ([0.5, 9.5], 1.0)
    """
    model = KMeans(
        n_clusters=n_clusters,
        init=init,
        n_init=n_init,
        max_iter=max_iter,
        verbose=verbose,
        tol=tol,
        random_state=random_state,
        copy_x=copy_x,
        algorithm=algorithm,
        n_jobs=n_jobs,
    ).fit(X, sample_weight=sample_weight)
    found = model.cluster_centers_, model.labels_, model.inertia_
    return (*found, model.n_iter_) if return_n_iter else found


def kmeans_plusplus(
    X: ArrayLike,
    n_clusters: int,
    *,
    sample_weight: ArrayLike | None = None,
    x_squared_norms: ArrayLike | None = None,
    random_state: Any = None,
    n_local_trials: int | None = None,
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], Ints]:
    """Draw rows that are far apart, by greedy k-means++: the start of :class:`KMeans` with the same seed.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The points.
    n_clusters : int
        How many rows to draw.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows; 0 leaves a row out.
    x_squared_norms : ignored
        Distances are differences of rows, never expanded squares.
    random_state : int, RandomState, Generator or None, default=None
        What the rows are drawn from. Their order does not matter.
    n_local_trials : int, default=None
        Candidates for each row after the first, of which the best is taken. None: 2 + ⌊log n_clusters⌋.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)
        The rows that were drawn.
    indices : ndarray of shape (n_clusters,)
        Their numbers in X.

    Examples
    --------
    >>> from knoll import kmeans_plusplus
    >>> centers, indices = kmeans_plusplus([[0.0], [0.0], [9.0], [9.0]], 2, random_state=0)
    >>> sorted(indices.tolist()), sorted(centers.ravel().tolist())
    ([0, 2], [0.0, 9.0])
    """
    owner = "kmeans_plusplus"
    check_parameters(
        owner,
        {
            "n_clusters": n_clusters,
            "random_state": random_state,
            "n_local_trials": n_local_trials,
            "n_jobs": n_jobs,
        },
        {
            "n_clusters": (Number(1, whole=True),),
            "random_state": RANDOM_STATE,
            "n_local_trials": (None, Number(1, 2**16 - 1, whole=True)),
            "n_jobs": N_JOBS,
        },
    )
    if is_sparse(X):
        check_compressed(X, owner)
    points = check_points(X, sparse=True, n_jobs=n_jobs)
    n = points.shape[0]
    if n < n_clusters:
        raise BadData(f"{owner}: n_samples={n} should be >= n_clusters={n_clusters}. Draw fewer rows.")
    weights = check_weights(sample_weight, n, owner=owner)
    counted, largest = without_absent(Block(points, weights), largest_of(points))
    heaviest = 1.0 if weights is None else float(weights.max())
    block = Rescaling.fitting(largest, heaviest, [counted]).block(counted)
    threads = resolve_threads(n_jobs)
    rows = seeding.multiset(block.points, block.weights, threads)
    drawn = seeding.kmeans_plus_plus(
        block.points, rows, int(n_clusters), draw_seed(random_state), n_trials=n_local_trials, threads=threads
    )
    if weights is not None and counted.points.shape[0] < n:  # beside extreme data, rows of weight 0 were left out
        drawn = np.flatnonzero(weights)[drawn]
    return np.array(dense_rows(points, drawn)), drawn
