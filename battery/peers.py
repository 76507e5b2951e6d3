"""scikit-learn's answers, with the number of clusters for methods that take one. Columns have unit variance."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn import cluster, mixture

from battery.generator import Floats, Ints

__all__ = ["PEERS", "ari", "peer_scores"]

PEERS = ("KMeans", "GaussianMixture", "SpectralClustering", "SpectralClustering, neighbours", "HDBSCAN")


def ari(truth: Ints, labels: Ints) -> float:
    """Compare on the rows that are no noise in truth; rows that are called noise make one more cluster."""
    kept = truth >= 0
    known, found = truth[kept], labels[kept] + 1
    table = np.bincount(known * (found.max(initial=0) + 1) + found)
    both, a, b, every = map(_pairs, (table, np.bincount(known), np.bincount(found), np.array([len(known)])))
    expected, most = a * b / max(every, 1.0), (a + b) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


def _pairs(sizes: Ints) -> float:
    """Count the pairs of rows that are in one group."""
    return float((sizes * (sizes - 1)).sum()) / 2


def peer_scores(X: Floats, labelings: tuple[Ints, ...]) -> dict[str, float]:
    """Score every peer, the best over the labelings."""
    deviations = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    found = [_scores(Z, y) for y in labelings]
    return {name: max(one[name] for one in found) for name in PEERS}


def _scores(Z: Floats, y: Ints) -> dict[str, float]:
    k = len(np.unique(y[y >= 0]))
    models = (
        cluster.KMeans(k, n_init=10, random_state=0),
        mixture.GaussianMixture(k, n_init=5, random_state=0),
        cluster.SpectralClustering(k, random_state=0),
        cluster.SpectralClustering(k, affinity="nearest_neighbors", random_state=0),
        cluster.HDBSCAN(copy=True),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: ari(y, np.asarray(model.fit_predict(Z))) for name, model in zip(PEERS, models, strict=True)}
