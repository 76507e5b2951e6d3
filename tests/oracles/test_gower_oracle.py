"""Gower's distance beside the package `gower`, which computes in float32, and beside scikit-learn on its matrix."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import DBSCAN as Peer

from knoll import DBSCAN
from knoll.neighbors import gower_distances

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")
peer = pytest.importorskip("gower", reason="the package gower is not installed (pip install knoll[bench])")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_distances_and_clusters_are_those_of_the_package(seed, weighted):
    rng = np.random.default_rng(seed)
    group = rng.integers(4, size=300)
    numbers = rng.normal(size=(300, 4)) * 0.4 + rng.normal(size=(4, 4))[group]
    X = np.column_stack([numbers, (group[:, None] + (rng.random((300, 3)) < 0.2)) % 4])
    categories = np.arange(7) >= 4
    weights = rng.uniform(0.5, 2.0, size=7) if weighted else None
    theirs = peer.gower_matrix(X, cat_features=categories.tolist(), weight=weights)
    ours = gower_distances(X, categorical_features=categories, weights=weights)
    np.testing.assert_allclose(ours, theirs, atol=2e-6)
    params = {"categorical_features": categories, "weights": weights}
    for eps in (0.05, 0.1):
        assert np.abs(ours - eps).min() > 0
        found = DBSCAN(eps, min_samples=5, border="first", metric="gower", metric_params=params).fit_predict(X)
        assert (found == Peer(eps=eps, min_samples=5, metric="precomputed").fit_predict(ours)).all()
