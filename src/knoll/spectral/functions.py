"""Spectral clustering as a function, with scikit-learn's signature."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from knoll._typing import Labels
from knoll.spectral.estimator import SpectralClustering

__all__ = ["spectral_clustering"]


def spectral_clustering(
    affinity: ArrayLike,
    *,
    n_clusters: Any = 8,
    n_components: int | None = None,
    eigen_solver: str | None = None,
    random_state: Any = None,
    n_init: int = 10,
    eigen_tol: Any = "auto",
    assign_labels: str = "kmeans",
    verbose: bool | int = False,
    n_jobs: int | None = None,
) -> Labels:
    """Fit :class:`SpectralClustering` to a matrix of similarities and return the labels.

    Parameters
    ----------
    affinity : array-like or sparse matrix of shape (n_samples, n_samples)
        Similarities >= 0, symmetric. For points, :class:`SpectralClustering` needs no such matrix.
    n_clusters, n_components, eigen_solver, random_state, n_init, eigen_tol, assign_labels, verbose, n_jobs
        As in :class:`SpectralClustering`.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        The clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll import spectral_clustering
    >>> affinity = np.full((6, 6), 0.01)
    >>> affinity[:3, :3] = affinity[3:, 3:] = 1.0
    >>> labels = spectral_clustering(affinity, n_clusters=2, random_state=0)
    >>> len(set(labels[:3].tolist())), len(set(labels[3:].tolist())), len(set(labels.tolist()))
    (1, 1, 2)
    """
    return (
        SpectralClustering(
            n_clusters=n_clusters,
            n_components=n_components,
            eigen_solver=eigen_solver,
            random_state=random_state,
            n_init=n_init,
            affinity="precomputed",
            eigen_tol=eigen_tol,
            assign_labels=assign_labels,
            verbose=verbose,
            n_jobs=n_jobs,
        )
        .fit(affinity)
        .labels_
    )
