"""KernelKMeans and other computations of the same: brute force, explicit feature maps, tslearn."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import KernelPCA

from knoll import KernelKMeans, kernels
from knoll.exceptions import KnollWarning


def objective(K, labels, w=None) -> float:
    w = np.ones(len(K)) if w is None else w
    total = float(w @ np.diagonal(K))
    for c in np.unique(labels):
        wc = w * (np.asarray(labels) == c)
        total -= wc @ K @ wc / wc.sum()
    return total


def partitions(n, k):
    """Every partition of n rows into k non-empty clusters, once."""
    for p in itertools.product(range(k), repeat=n):
        if list(dict.fromkeys(p)) == list(range(k)):
            yield p


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "heaviside"])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_runs_with_local_search_find_the_best_of_all_partitions(kernel, weighted):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(7, 2))
        w = rng.uniform(0.5, 2, size=7) if weighted else None
        made = kernels.make(kernel, sigma=1.0 if kernel == "rbf" else None, eps=1.0, degree=2)
        K = made.tile(X, X)
        for k in (2, 3):
            best = min(objective(K, p, w) for p in partitions(7, k))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", KnollWarning)
                model = KernelKMeans(k, kernel=made, n_init=40, local_search=True, random_state=seed).fit(
                    X, sample_weight=w
                )
            np.testing.assert_allclose(model.objective_, best, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_equals_kmeans_in_the_feature_space_written_out(kernel):
    """All of kernel PCA's coordinates are φ up to a rotation and a shift, which k-means does not see."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 2)) + 3 * rng.normal(size=(4, 2))[rng.integers(4, size=120)]
    made = kernels.make(kernel, sigma=1.5 if kernel == "rbf" else None, degree=2)
    phi = KernelPCA(kernel="precomputed", remove_zero_eig=True).fit_transform(made.tile(X, X))
    for seed in range(5):
        start = np.random.default_rng(seed).integers(4, size=120)
        centers = np.array([phi[start == c].mean(axis=0) for c in range(4)])
        peer = KMeans(4, init=centers, n_init=1, tol=0).fit(phi)
        model = KernelKMeans(4, kernel=made, init=start).fit(X)
        np.testing.assert_array_equal(model.labels_, peer.labels_)
        np.testing.assert_allclose(model.objective_, peer.inertia_, rtol=1e-8)


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_never_worse_than_tslearn_from_the_same_start(sigma):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clustering = pytest.importorskip("tslearn.clustering", reason="tslearn is not installed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) * 2 + rng.uniform(-10, 10, size=(5, 2))[rng.integers(5, size=400)]
    K = kernels.Gaussian(sigma).tile(X, X)
    ours, theirs = [], []
    for seed in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = clustering.KernelKMeans(
                5, kernel="rbf", kernel_params={"gamma": 1 / (2 * sigma**2)}, random_state=seed
            ).fit(X)
        theirs.append(objective(K, peer.labels_))
        onward = KernelKMeans(5, sigma=sigma, init=peer.labels_).fit(X)  # its result is a start for ours
        assert onward.objective_ <= theirs[-1] * (1 + 1e-12)
        ours.append(KernelKMeans(5, sigma=sigma, random_state=seed).fit(X).objective_)
    assert np.mean(ours) <= np.mean(theirs)
