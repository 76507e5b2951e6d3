"""SpectralClustering equals the paper's boxes 5 and 6 on small data, and finds scikit-learn's partition."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering as Peer
from sklearn.datasets import make_circles, make_moons

from knoll import SpectralClustering, kernels
from knoll.metrics import adjusted_rand_score
from knoll.reference import njw_spectral, njw_spectral_graph, run

DATA = {
    "moons": (make_moons(120, noise=0.05, random_state=0)[0], 2, 0.15),
    "circles": (make_circles(120, factor=0.3, noise=0.03, random_state=0)[0], 2, 0.15),
    "three in five dimensions": (
        np.random.default_rng(0).normal(size=(90, 5)) + np.repeat(np.eye(3, 5) * 9, 30, axis=0), 3, 2.0,
    ),
    "a line": (np.array([[0.0], [0.4], [1.0], [5.0], [5.5], [9.0], [9.2], [9.9]]), 3, 0.7),
}  # fmt: skip


def subspace(Y):
    basis = np.linalg.qr(Y)[0]
    return basis @ basis.T


def same_partition(a, b):
    return adjusted_rand_score(a, b) == 1


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("row_scaling", ["none", "unit", "degree"])
@pytest.mark.parametrize("operator", ["stored", "tiles", "truncated"])
@pytest.mark.parametrize("box", [njw_spectral, njw_spectral_graph])
def test_equals_the_boxes(name, row_scaling, operator, box):
    X, k, sigma = DATA[name]
    state = run(box(X, k, sigma, row_scaling=row_scaling))
    formulation = "kernel" if box is njw_spectral else "graph"
    model = SpectralClustering(
        k,
        sigma=sigma,
        row_scaling=row_scaling,
        operator=operator,
        formulation=formulation,
        eigen_tol=1e-10,
        random_state=0,
    ).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, state.eigenvalues, atol=1e-10)
    theirs = state.Y if box is njw_spectral else state.Z
    np.testing.assert_allclose(subspace(model.embedding_), subspace(theirs), atol=1e-8)
    assert same_partition(model.labels_, state.labels)
    if box is njw_spectral_graph:
        assert model.normalized_cut_ == pytest.approx(state.ncut, abs=1e-10)
        assert model.objective_ == model.normalized_cut_


@pytest.mark.parametrize("name", ["moons", "circles"])
def test_equals_the_box_with_a_zero_diagonal(name):
    X, k, sigma = DATA[name]
    state = run(njw_spectral(X, k, sigma, zero_diagonal=True))
    for operator in ("stored", "tiles"):
        model = SpectralClustering(
            k, sigma=sigma, row_scaling="none", zero_diagonal=True, operator=operator, eigen_tol=1e-10, random_state=0
        ).fit(X)
        np.testing.assert_allclose(model.eigenvalues_, state.eigenvalues, atol=1e-10)
        np.testing.assert_allclose(subspace(model.embedding_), subspace(state.Y), atol=1e-8)
        assert same_partition(model.labels_, state.labels)


def test_the_example_where_the_two_discrete_problems_differ():
    """X = {0, 0, 2, 4}: the relaxed problem is one, kernel k-means' best partition and the cut's are not."""
    X = np.array([[0.0], [0.0], [2.0], [4.0]])
    model = SpectralClustering(2, sigma=1.0, random_state=0).fit(X)
    assert same_partition(model.labels_, run(njw_spectral(X, 2, 1.0, row_scaling="unit")).labels)
    A = model.affinity_matrix_
    cut = {c: kernels.normalized_cut(A, c) for c in ((0, 0, 1, 1), (0, 0, 0, 1))}
    w = 1 / A.sum(axis=1)

    def trace(labels):
        inside = [np.array(labels) == c for c in (0, 1)]
        return sum(w[V] @ A[np.ix_(V, V)] @ w[V] / w[V].sum() for V in inside)

    assert cut[0, 0, 0, 1] < cut[0, 0, 1, 1]
    assert trace((0, 0, 1, 1)) > trace((0, 0, 0, 1))


@pytest.mark.parametrize("affinity", ["rbf", "nearest_neighbors"])
@pytest.mark.parametrize("assign_labels", ["kmeans", "discretize", "cluster_qr"])
def test_scikit_learns_partition(affinity, assign_labels):
    X, _ = make_moons(400, noise=0.05, random_state=1)
    shared = {"gamma": 50.0, "affinity": affinity, "assign_labels": assign_labels, "n_neighbors": 12, "random_state": 0}
    ours = SpectralClustering(2, **shared).fit(X)
    with (
        pytest.warns(UserWarning, match="not fully connected")
        if ours.n_connected_components_ > 1
        else contextlib.nullcontext()
    ):
        theirs = Peer(2, **shared).fit(X)
    assert same_partition(ours.labels_, theirs.labels_)
