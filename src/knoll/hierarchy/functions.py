"""Merge trees as functions, with scikit-learn's signatures: `ward_tree` and `linkage_tree`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Ints
from knoll.hierarchy.agglomerative import AgglomerativeClustering

__all__ = ["linkage_tree", "ward_tree"]


def ward_tree(
    X: ArrayLike,
    *,
    connectivity: Any = None,
    n_clusters: int | None = None,
    return_distance: bool = False,
    n_jobs: int | None = None,
) -> Any:
    """Return the tree of Ward's method.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    connectivity : array-like or sparse matrix, default=None
        A graph (n_samples, n_samples) of the rows that may merge.
    n_clusters : int, default=None
        Stop when so many clusters are left, with a connectivity; without one the tree is always whole.
    return_distance : bool, default=False
        Whether to return the heights of the merges, too.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.

    Returns
    -------
    children : ndarray of shape (n_merges, 2)
        The two clusters of each merge: i < n_samples is row i, n_samples + t the result of merge t.
    n_connected_components : int
        Components of the connectivity; 1 without one.
    n_leaves : int
        n_samples.
    parents : ndarray of shape (n_nodes,) or None
        The cluster that each row or cluster merges into, a root into itself; None without a connectivity.
    distances : ndarray of shape (n_merges,)
        The height of each merge, √(2ΔJ); with `return_distance` alone.

    Examples
    --------
    >>> from knoll import ward_tree
    >>> children, components, leaves, parents = ward_tree([[0.0], [1.0], [5.0]])
    >>> children.tolist(), components, leaves, parents
    ([[0, 1], [2, 3]], 1, 3, None)
    """
    return _tree(X, connectivity, n_clusters, "ward", "euclidean", return_distance, n_jobs)


def linkage_tree(
    X: ArrayLike,
    connectivity: Any = None,
    n_clusters: int | None = None,
    linkage: str = "complete",
    affinity: str | Callable[..., Any] = "euclidean",
    return_distance: bool = False,
    *,
    n_jobs: int | None = None,
) -> Any:
    """Return the tree of average, complete or single linkage.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), or (n_samples, n_samples) distances
        The points, or their distances where affinity="precomputed".
    connectivity : array-like or sparse matrix, default=None
        A graph (n_samples, n_samples) of the rows that may merge.
    n_clusters : int, default=None
        Stop when so many clusters are left, with a connectivity; without one the tree is always whole.
    linkage : {"average", "complete", "single"}, default="complete"
        The cost of a pair of clusters.
    affinity : str or callable, default="euclidean"
        The metric, as in :class:`AgglomerativeClustering`.
    return_distance : bool, default=False
        Whether to return the heights of the merges, too.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.

    Returns
    -------
    children, n_connected_components, n_leaves, parents, distances
        As of :func:`ward_tree`.

    Examples
    --------
    >>> from knoll import linkage_tree
    >>> linkage_tree([[0.0], [1.0], [5.0]], return_distance=True)[4].tolist()
    [1.0, 5.0]
    """
    return _tree(X, connectivity, n_clusters, linkage, affinity, return_distance, n_jobs)


def _tree(
    X: Any, connectivity: Any, n_clusters: int | None, linkage: str, metric: Any, return_distance: bool, n_jobs: Any
) -> Any:
    model = AgglomerativeClustering(
        n_clusters=1 if n_clusters is None else n_clusters,
        metric=metric,
        connectivity=connectivity,
        compute_full_tree=connectivity is None or n_clusters is None,
        linkage=linkage,
        compute_distances=True,
        n_jobs=n_jobs,
    ).fit(X)
    parents = None if connectivity is None else _parents(model.children_, model.n_leaves_)
    found = model.children_, model.n_connected_components_, model.n_leaves_, parents
    return (*found, model.distances_) if return_distance else found


def _parents(children: Ints, n: int) -> Ints:
    """Return the cluster that each node merges into; a root is its own parent."""
    parents = np.arange(n + len(children))
    parents[children.ravel()] = np.repeat(n + np.arange(len(children)), 2)
    return parents
