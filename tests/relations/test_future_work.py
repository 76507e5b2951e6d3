"""What docs/theory/future-work.md calls crisp, checked on data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform

from knoll import DBSCAN, KMeans, datasets
from knoll.relations._common import same_partition
from knoll.scales import k_distances

X = datasets.load("banana", n_samples=80).X


@pytest.mark.parametrize("min_pts", [1, 3, 6])
def test_dbscan_star_is_single_linkage_over_mutual_reachability(min_pts):
    """Eq. 7.1: one tree holds DBSCAN* at every ε."""
    core = k_distances(X, min_pts)
    mutual = np.maximum(squareform(pdist(X)), np.maximum(core[:, None], core))
    np.fill_diagonal(mutual, 0)
    tree = linkage(squareform(mutual), "single")
    for eps in tree[::7, 2] * (1 + 1e-9):
        cut = np.where(core <= eps, fcluster(tree, eps, "distance"), -1)
        found = DBSCAN(float(eps), min_samples=min_pts, border="noise").fit(X).labels_
        assert same_partition(cut.astype(np.int64), found)


def test_a_merger_of_wards_raises_the_objective_of_kmeans_by_its_height():
    """Eq. 7.2: SciPy's height h is √(2 ΔJ)."""
    tree = linkage(X, "ward")
    for k in (1, 2, 5, 20, 79):
        labels = fcluster(tree, k, "maxclust")
        objective = sum(np.square(X[labels == c] - X[labels == c].mean(axis=0)).sum() for c in np.unique(labels))
        assert objective == pytest.approx(np.square(tree[: len(X) - k, 2]).sum() / 2, rel=1e-9)
        means = np.array([X[labels == c].mean(axis=0) for c in np.unique(labels)])
        assert KMeans(k, init=means, n_init=1).fit(X).inertia_ <= objective * (1 + 1e-12)


def test_the_chinese_restaurant_chooses_the_smallest_of_distances_and_price():
    """Eq. 7.3: the odds against any other choice vanish as ε → 0."""
    means, counts, price, rho = X[:4], np.array([30.0, 5.0, 1.0, 44.0]), 0.8, 10.0
    square = np.square(X[4:, None] - means).sum(axis=2)  # (n, 4)
    best = np.argmin(np.column_stack([square, np.full(len(square), price)]), axis=1)
    others = []
    for eps in (1e-1, 1e-2, 1e-3, 1e-4):
        d = X.shape[1]
        log_alpha = d / 2 * np.log1p(rho / eps) - price / (2 * eps)
        log_new = log_alpha - d / 2 * np.log(rho + eps) - np.square(X[4:]).sum(axis=1) / (2 * (rho + eps))
        log_old = np.log(counts) - d / 2 * np.log(eps) - square / (2 * eps)
        log_all = np.column_stack([log_old, log_new])
        chosen = log_all[np.arange(len(best)), best]
        others.append(float(np.median(1 - np.exp(chosen - np.logaddexp.reduce(log_all, axis=1)))))
    assert others[0] > 1e-3
    assert others[-1] < 1e-12
    assert (np.diff(others) <= 0).all()
    assert set(best) > {4}  # some points open a component, some join one


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_best_linear_autoencoder_bounds_kmeans(k):
    """Eq. 7.5: with k − 1 units it loses no more than any partition into k clusters; here with more columns than k."""
    lifted = np.column_stack([X, X**2, np.sin(3 * X)])
    lifted -= lifted.mean(axis=0)
    left = np.linalg.svd(lifted, full_matrices=False)
    units = (left.U[:, : k - 1] * left.S[: k - 1]) @ left.Vh[: k - 1]  # V W X of the optimum
    loss = np.square(lifted - units).sum()
    assert loss == pytest.approx(len(X) * np.linalg.eigvalsh(np.cov(lifted.T, bias=True))[::-1][k - 1 :].sum())
    found = KMeans(k, random_state=0).fit(lifted)
    assert loss <= found.inertia_ * (1 + 1e-12)
    means = found.cluster_centers_ - found.cluster_centers_[0]
    assert np.linalg.matrix_rank(means, tol=1e-9) <= k - 1


def test_a_student_kernel_hardens_by_its_exponent_and_by_nothing_else():
    """Eq. 7.6, and the limit of small units for β = 1."""
    r2 = np.sort(np.square(X[5:, None] - X[:5]).sum(axis=2), axis=1)  # (n, 5), nearest first
    for beta in (1, 4, 64):
        q = (1 + r2) ** -beta
        soft = 1 - q[:, 0] / q.sum(axis=1)
        assert (soft <= 4 * ((1 + r2[:, 0]) / (1 + r2[:, 1])) ** beta + 1e-15).all()
    units = 1 / (1 + r2 / 1e-12)
    shares = (1 / r2) / (1 / r2).sum(axis=1, keepdims=True)
    assert np.allclose(units / units.sum(axis=1, keepdims=True), shares, atol=1e-6)
    assert np.median(1 - shares[:, 0]) > 0.1
