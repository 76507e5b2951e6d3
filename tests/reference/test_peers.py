"""The reference beside scikit-learn, wherever scikit-learn has the algorithm."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.cluster import DBSCAN, KMeans, MeanShift, SpectralClustering
from sklearn.datasets import make_blobs, make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from knoll.reference import dbscan_graph, em_gmm, gaussian_mle, kmeans, mean_shift, njw_spectral, run

quick = settings(max_examples=30, deadline=None)
seeds = st.integers(0, 2**32 - 1)


@quick
@given(seeds, st.integers(1, 4))
def test_gaussian_is_numpys_mean_and_covariance_and_scipys_density(seed, d):
    X = np.random.default_rng(seed).normal(size=(30, d))
    state = run(gaussian_mle(X))
    np.testing.assert_allclose(state.mu, X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(state.Sigma, np.cov(X.T, bias=True).reshape(d, d), atol=1e-12)
    expected = multivariate_normal(state.mu, state.Sigma).logpdf(X).sum()
    np.testing.assert_allclose(state.log_likelihood, expected)


@pytest.mark.parametrize("seed", range(6))
def test_kmeans_from_the_same_start(seed):
    X, _ = make_blobs(120, centers=4, cluster_std=2.0, random_state=seed)
    state = run(kmeans(X, X[:4]))
    peer = KMeans(4, init=X[:4], n_init=1, tol=0, algorithm="lloyd").fit(X)
    assert len(set(state.labels)) == 4
    np.testing.assert_array_equal(state.labels, peer.labels_)
    np.testing.assert_allclose(state.mu, peer.cluster_centers_, rtol=1e-12)
    np.testing.assert_allclose(state.objective, peer.inertia_)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_em_step_by_step(seed, steps):
    X, _ = make_blobs(90, centers=3, n_features=3, random_state=seed)
    pi, mu, Sigma = np.full(3, 1 / 3), X[[0, 1, 2]], np.array([np.eye(3)] * 3)
    ours = run(em_gmm(X, pi, mu, Sigma, max_iter=steps, tol=0))
    peer = GaussianMixture(3, weights_init=pi, means_init=mu, precisions_init=Sigma, reg_covar=0, max_iter=steps, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few steps are what we want
        peer.fit(X)
    np.testing.assert_allclose(ours.pi, peer.weights_, rtol=1e-8)
    np.testing.assert_allclose(ours.mu, peer.means_, rtol=1e-8)
    np.testing.assert_allclose(ours.Sigma, peer.covariances_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.lam, peer.predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(ours.log_likelihood, 90 * peer.score(X))


@quick
@given(seeds, st.integers(1, 6), st.integers(1, 3))
def test_dbscan_on_core_points_and_noise(seed, min_pts, d):
    X = np.random.default_rng(seed).integers(-12, 13, size=(40, d)) / 4  # distances near 1 are exact
    state = run(dbscan_graph(X, 1.0, min_pts))
    peer = DBSCAN(eps=1.0, min_samples=min_pts).fit(X)
    np.testing.assert_array_equal(np.flatnonzero(state.core), peer.core_sample_indices_)
    np.testing.assert_array_equal(state.labels == -1, peer.labels_ == -1)
    np.testing.assert_array_equal(state.labels[state.core], peer.labels_[state.core])


@pytest.mark.parametrize("seed", range(2))
def test_mean_shift_on_separated_blobs(seed):
    X, _ = make_blobs(60, centers=[[0, 0], [10, 0], [0, 10]], cluster_std=0.7, random_state=seed)
    state = run(mean_shift(X, 2.5))
    peer = MeanShift(bandwidth=2.5).fit(X)
    assert adjusted_rand_score(state.labels, peer.labels_) == 1
    for c, centre in enumerate(peer.cluster_centers_):
        ends = state.X_climb[peer.labels_ == c]
        assert np.sqrt(((ends - centre) ** 2).sum(axis=1)).min() < 1e-2  # the peer stops at a small step


def test_spectral_on_circles():
    X, truth = make_circles(120, factor=0.4, noise=0.03, random_state=0)
    state = run(njw_spectral(X, 2, 0.12))
    peer = SpectralClustering(2, gamma=1 / (2 * 0.12**2), random_state=0).fit(X)
    assert adjusted_rand_score(state.labels, peer.labels_) == 1
    assert adjusted_rand_score(state.labels, truth) == 1
