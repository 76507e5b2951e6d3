"""A fitted estimator whose labels stand for other clusters: components joined, clusters renumbered.

What an estimator finds and what is called a cluster may differ: two Gaussians of a mixture can describe one cluster.
The map from one to the other belongs to the model, so that new rows get the clusters that were reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from knoll._typing import Ints
from knoll.exceptions import InvalidParameter
from knoll.models._format import Damage


class Relabeled:
    """A fitted estimator with a cluster for each of its labels.

    The probability of a cluster is the sum over the labels that belong to it, and the label of a row is the most
    probable cluster. An estimator without probabilities has its labels replaced one by one. Noise, −1, stays noise.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of knoll with `predict`.
    clusters : sequence of int
        The cluster of each label of the estimator: every number from 0 to the largest occurs.

    Examples
    --------
    >>> import knoll
    >>> from knoll.models import Relabeled
    >>> X = [[0.0], [1.0], [5.0], [6.0], [20.0]]
    >>> three = knoll.KMeans(3, init=[[0.5], [5.5], [20.0]], n_init=1).fit(X)
    >>> Relabeled(three, [0, 0, 1]).predict(X)
    array([0, 0, 0, 0, 1])
    """

    def __init__(self, estimator: Any, clusters: Sequence[int]) -> None:
        if isinstance(estimator, Relabeled) or not hasattr(estimator, "predict"):
            raise InvalidParameter(f"estimator must be a fitted estimator with predict, got {estimator!r:.60}.")
        self.estimator = estimator
        self.clusters = tuple(int(cluster) for cluster in clusters)
        count = n_labels(estimator)
        if len(self.clusters) != count:
            raise InvalidParameter(f"clusters must have one number for each of {count} labels, got {clusters!r:.60}.")
        if min(self.clusters, default=0) < 0 or len(set(self.clusters)) != self.n_clusters:
            # so n_clusters <= count: a file cannot request more columns of predict_proba than it has labels
            raise InvalidParameter(f"clusters must be numbered from 0 without a gap, got {clusters!r:.60}.")

    def __repr__(self) -> str:
        """Name the estimator and the clusters."""
        return f"Relabeled({self.estimator!r}, clusters={self.clusters})"

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return max(self.clusters, default=-1) + 1

    @property
    def n_features_in_(self) -> int:
        """The number of columns that the estimator takes."""
        return int(self.estimator.n_features_in_)

    def predict(self, X: ArrayLike) -> Ints:
        """Find the cluster of each row; of equally probable ones the first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows, prepared as for the estimator.

        Returns
        -------
        ndarray of shape (n_samples,)
            The clusters, −1 for noise.
        """
        if hasattr(self.estimator, "predict_proba"):
            return most_probable(self.predict_proba(X), self.n_clusters)
        own = np.asarray(self.estimator.predict(X), dtype=np.int64)  # (n,)
        return np.array([*self.clusters, -1], dtype=np.int64)[own]  # −1 takes the last entry

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Compute the probability of each cluster.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows, prepared as for the estimator.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters), or one column more
            They sum to one. With noise the last column is the noise's.
        """
        own = np.asarray(self.estimator.predict_proba(X))  # (n, labels), or one column more for the noise
        columns = [*self.clusters, *range(self.n_clusters, self.n_clusters + own.shape[1] - len(self.clusters))]
        joined = np.zeros((len(own), max(columns) + 1), own.dtype)
        for label, column in enumerate(columns):  # in the order of labels: the same sum for any number of rows
            joined[:, column] += own[:, label]
        return joined

    # ---- in a file -------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return the map as JSON has it."""
        return {"clusters": list(self.clusters)}

    @classmethod
    def from_plain(cls, estimator: Any, plain: Any) -> Relabeled:
        """Read what `plain` returned, from anybody's file."""
        try:
            return cls(estimator, clusters_of(plain))
        except InvalidParameter as error:
            raise Damage(str(error).rstrip(".")) from None


def clusters_of(plain: Any) -> list[int]:
    """Return the clusters of what `Relabeled.plain` returned; an entry of a later version is refused, not ignored."""
    match plain:
        case {"clusters": list(clusters), **more} if not more and all(type(number) is int for number in clusters):
            return clusters
    raise Damage("the clusters of its labels make no sense")


def bare(model: Any) -> Any:
    """Return the estimator itself."""
    return model.estimator if isinstance(model, Relabeled) else model


def most_probable(probabilities: NDArray[Any], n_clusters: int) -> Ints:
    """Return the column of the largest probability of each row, the first of equals; −1 for a column of noise."""
    best = probabilities.argmax(axis=1).astype(np.int64)
    return np.where(best < n_clusters, best, -1)


def n_labels(model: Any) -> int:
    """Return how many labels, noise not among them, a fitted model can give."""
    if isinstance(model, Relabeled):
        return model.n_clusters
    if hasattr(model, "n_clusters_"):
        return int(model.n_clusters_)
    for name in ("means_", "cluster_weights_", "cluster_centers_"):
        if hasattr(model, name):
            return len(getattr(model, name))
    return int(model.labels_.max(initial=-1)) + 1
