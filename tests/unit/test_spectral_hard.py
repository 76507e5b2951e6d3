"""SpectralClustering where it is hard: graphs of all shapes beyond LAPACK's reach, eigenvalues that crowd near one.

More rows than go to LAPACK whole, so that the block solver, its restarts and the factorisation answer.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from knoll import KernelKMeans, SpectralClustering, load, save
from knoll.exceptions import (
    BadData,
    ConvergenceWarning,
    DisconnectedGraphWarning,
    InvalidParameter,
    SuspiciousResultWarning,
)
from knoll.metrics import adjusted_rand_score


def fit(X, k=2, **parameters):
    return SpectralClustering(k, random_state=0, **parameters).fit(X)


def pieces(n, count, gap, seed=0):
    """Round pieces on a square grid."""
    generator = np.random.default_rng(seed)
    side = int(np.ceil(np.sqrt(count)))
    own = np.arange(n) % count
    centres = gap * np.stack([np.arange(count) % side, np.arange(count) // side], axis=1)
    return centres[own] + generator.normal(scale=0.5, size=(n, 2)), own


def residuals(model, A):
    """‖Mv − λv‖ by hand, from the embedding as it is."""
    root = np.sqrt(np.asarray(A.sum(axis=1)).ravel())[:, None]
    V = model.embedding_
    return np.linalg.norm((A @ (V / root)) / root - V * model.eigenvalues_, axis=0)


# ---- eigenvalues that crowd near one ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("gap", "k"), [(5.0, 40), (4.0, 40), (4.0, 30)])
def test_many_pieces_that_hang_together_by_a_thread(gap, k):
    X, own = pieces(2_000, 40, gap)
    model = fit(X, k, sigma=0.7, row_scaling="none")
    assert model.eigenvalues_[-1] > 0.99
    assert model.n_iter_ < 60
    assert residuals(model, model.affinity_matrix_).max() <= 1.1e-8
    if k == 40:
        assert adjusted_rand_score(fit(X, k, sigma=0.7).labels_, own) > 0.999


@pytest.mark.parametrize("chains", [1, 5])
def test_long_thin_chains_of_neighbours(chains):
    generator = np.random.default_rng(0)
    X = np.c_[generator.uniform(0, 40, 1_020), 3.0 * generator.integers(chains, size=1_020)]
    X[:, 1] += generator.normal(scale=0.05, size=1_020)
    model = fit(X, chains + 4, affinity="nearest_neighbors", row_scaling="none")
    assert model.n_iter_ < 60
    assert residuals(model, model.affinity_matrix_).max() <= 1.1e-8
    dense = fit(X, chains + 4, affinity="nearest_neighbors", eigen_solver="dense")
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, atol=1e-9)


def test_the_residual_at_max_iter_is_in_the_warning():
    X = np.sort(np.random.default_rng(0).uniform(0, 100, (2_000, 1)), axis=0)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 7 applications with a residual of .* above eigen_tol"):
        model = fit(X, 8, sigma=0.2, max_iter=6, row_scaling="none")
    largest = model.eigen_residual_.max()
    assert largest > 1e-8
    assert residuals(model, model.affinity_matrix_).max() == pytest.approx(largest, rel=1e-6)


@pytest.mark.filterwarnings("ignore:SpectralClustering. eigenvalue")
@pytest.mark.parametrize("precomputed", [True, False])
def test_almost_disconnected_components_are_solved_whole(precomputed):
    """Eigenvalues within 1e-15 of one: no number of applications separates them, LAPACK does."""
    generator = np.random.default_rng(0)
    n = 900 if precomputed else 2_000
    X = 10 * generator.normal(size=(n, 3)) + 50 * generator.integers(0, 2, size=(n, 1))
    A = np.exp(-0.3 * np.square(X[:900, None] - X[:900]).sum(axis=2))
    model = fit(A, 4, affinity="precomputed") if precomputed else fit(X, 4, gamma=0.3)
    assert model.eigen_residual_.max() < 1e-13
    assert (1 - model.eigenvalues_).max() < 1e-12
    assert "LAPACK took the matrix whole" in model.operator_reason_
    assert (model.predict(A if precomputed else X) == model.labels_).all()


# ---- graphs of all shapes --------------------------------------------------------------------------------------------


def star(n):
    A = sp.lil_array((n, n))
    A[0, 1:] = 1.0
    A[1:, 0] = 1.0
    return sp.csr_array(A)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("shape", ["star", "complete"])
def test_star_and_complete_graphs_have_one_cluster_to_find(shape, dense):
    n = 600
    A = star(n) if shape == "star" else sp.csr_array(np.ones((n, n)))
    A = A.toarray() if dense else A
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(A, 3, affinity="precomputed")
    categories = {type(w.message) for w in caught}
    assert {ConvergenceWarning, SuspiciousResultWarning} <= categories
    assert (model.predict(A) == model.labels_).all()
    assert model.eigenvalues_[0] == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(model.eigenvalues_[1:], 0, atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = KernelKMeans(3, kernel="precomputed", random_state=0).fit(A)
    assert (kernel.predict(A) == kernel.labels_).all()


def test_a_bridge_between_two_complete_graphs():
    n = 700
    A = np.kron(np.eye(2), np.ones((n // 2, n // 2)))
    for link in (1e-3, 1e-9, 1e-15):
        A[0, -1] = A[-1, 0] = link
        model = fit(A, 2, affinity="precomputed")
        assert model.labels_.tolist() == [0] * (n // 2) + [1] * (n // 2)
        assert model.n_connected_components_ == 1
        exact = 2 * link / (n / 2) ** 2  # 1 − λ₂ to first order: twice the link over the volume of a side
        assert 1 - model.eigenvalues_[1] == pytest.approx(exact, rel=0.05, abs=1e-14)
        kernel = KernelKMeans(2, kernel="precomputed", init=model.labels_).fit(A)
        assert (kernel.labels_ == model.labels_).all()


def test_one_cluster_and_as_many_as_rows_of_more_rows():
    X = np.random.default_rng(0).normal(size=(600, 2))
    for parameters in ({"sigma": 0.5}, {"affinity": "nearest_neighbors"}):
        assert not fit(X, 1, **parameters).labels_.any()
    model = fit(X, 600, sigma=0.05)
    assert (model.predict(X) == model.labels_).all()
    assert np.isnan(model.eigengap_)
    assert len(np.unique(model.labels_)) == 600


def test_sigma_far_too_small_and_far_too_large_for_more_rows():
    X = np.random.default_rng(0).normal(size=(700, 2))
    with pytest.warns(DisconnectedGraphWarning, match=r"700 components.*sigma=1e-06 is far too small"):
        small = fit(X, sigma=1e-6)
    assert set(small.labels_) == {0, 1}
    with pytest.warns(SuspiciousResultWarning, match=r"sigma=1e\+04 is far too large"):
        large = fit(X, sigma=1e4)
    for model in (small, large):
        assert (model.predict(X) == model.labels_).all()


def unlinked(n, route):
    """Data and parameters of a graph without any link."""
    X = np.random.default_rng(0).normal(size=(n, 2))
    match route:
        case "rbf":
            return X, {"sigma": 1e-6, "zero_diagonal": True}
        case "neighbours":
            return X, {"affinity": "nearest_neighbors", "n_neighbors": 1, "zero_diagonal": True}
        case "sparse":
            return sp.csr_array((n, n)), {"affinity": "precomputed"}
    return np.zeros((n, n)), {"affinity": "precomputed"}


@pytest.mark.parametrize("assign_labels", ["kmeans", "discretize", "cluster_qr"])
@pytest.mark.parametrize("n", [5, 700])
@pytest.mark.parametrize("route", ["rbf", "neighbours", "sparse", "dense"])
def test_a_graph_without_links_is_one_cluster_and_reported(route, n, assign_labels):
    X, parameters = unlinked(n, route)
    small = r" sigma=1e-06 is far too small\." if route == "rbf" else ""
    with pytest.warns(
        DisconnectedGraphWarning, match=rf"no row has a link to another: all are in one cluster\.{small}"
    ):
        model = fit(X, 3, assign_labels=assign_labels, **parameters)
    assert not model.labels_.any()
    assert not model.eigenvalues_.any()
    assert model.embedding_.shape == (n, 3)
    assert model.eigengap_ == 0
    assert (model.predict(X) == model.labels_).all()


@pytest.mark.parametrize("assign_labels", ["kmeans", "discretize", "cluster_qr"])
@pytest.mark.parametrize("n", [8, 700])
def test_fewer_linked_rows_than_clusters(n, assign_labels):
    """Rows without links are eigenvectors of eigenvalue zero: there are always as many pairs as requested."""
    A = sp.lil_array((n, n))
    A[0, 1] = A[1, 0] = 1.0
    A[1, 2] = A[2, 1] = 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit(sp.csr_array(A), 5, affinity="precomputed", assign_labels=assign_labels)
    np.testing.assert_allclose(model.eigenvalues_, [1, 0, 0, 0, 0], atol=1e-14)
    np.testing.assert_allclose(model.eigen_residual_, 0, atol=1e-14)
    assert (model.predict(sp.csr_array(A)) == model.labels_).all()


@pytest.mark.parametrize("assign_labels", ["discretize", "cluster_qr"])
def test_fewer_columns_than_clusters_are_reported(assign_labels):
    X = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.warns(
        ConvergenceWarning, match=r"clusters \(3\).*\(5\): the embedding has n_components=3 columns\. Leave"
    ):
        model = fit(X, 5, n_components=3, assign_labels=assign_labels, sigma=0.3)
    assert (model.predict(X) == model.labels_).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sparse", [True, False])
def test_a_given_graph_without_its_diagonal_is_known_again(sparse):
    X = np.random.default_rng(1).normal(size=(90, 3))
    A = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    A[A < 0.05] = 0.0
    graph = sp.csr_array(A) if sparse else A
    model = fit(graph, 5, affinity="precomputed", zero_diagonal=True)
    assert (model.predict(graph) == model.labels_).all()
    rows = A - np.eye(90)
    assert (model.predict(sp.csr_array(rows[:40]) if sparse else rows[:40]) == model.labels_[:40]).all()


@pytest.mark.filterwarnings("ignore:SpectralClustering. the graph")
def test_zero_diagonal_with_copies_that_hardly_hang_together():
    """The k heaviest components are the first k columns, though rounding lifts other eigenvalues above one."""
    for seed in range(20):
        X = np.repeat(np.random.default_rng(seed).normal(size=(30, 1)), 3, axis=0)
        model = fit(X, 5, sigma=0.001, zero_diagonal=True)
        assert (model.predict(X) == model.labels_).all()


def test_an_approximation_of_the_whole_kernel_is_refused_without_its_diagonal():
    X = np.random.default_rng(0).normal(size=(600, 2))
    with pytest.raises(
        InvalidParameter, match=r"'cholesky' approximates the kernel with its diagonal.*operator='auto'"
    ):
        fit(X, operator="cholesky", zero_diagonal=True, sigma=1.0)


def test_copies_of_few_rows():
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 200, axis=0)
    model = fit(X, 5, sigma=0.1)
    assert all(len(set(group)) == 1 for group in model.labels_.reshape(5, 200))
    assert len(set(model.labels_)) == 5


@pytest.mark.parametrize("kernel", [lambda x, y: x[0] - y[0], lambda x, y: -1.0], ids=["asymmetric", "negative"])
def test_a_function_that_is_no_similarity_is_named_with_its_position(kernel):
    with pytest.raises(BadData, match=r"must be (symmetric|>= 0), but has .* at row \d+, column \d+"):
        fit(np.random.default_rng(0).normal(size=(20, 2)), affinity=kernel)


# ---- bits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"sigma": 0.3, "operator": "stored"},
        {"sigma": 0.3, "operator": "tiles"},
        {"sigma": 0.3, "operator": "truncated"},
        {"sigma": 0.3, "operator": "cholesky", "eigen_tol": 1.0},
        {"sigma": 0.3, "zero_diagonal": True},
        {"sigma": 0.3, "assign_labels": "discretize"},
        {"affinity": "nearest_neighbors"},
        {},
    ],
    ids=str,
)
def test_threads_change_no_bit(parameters):
    X, _ = pieces(1_300, 4, 2.5)
    one, many = (fit(X, 4, n_jobs=jobs, **parameters) for jobs in (1, 3))
    for name in ("embedding_", "eigenvalues_", "eigen_residual_", "labels_", "extension_"):
        assert getattr(one, name).tobytes() == getattr(many, name).tobytes(), name
    assert (one.predict(X + 0.01) == many.predict(X + 0.01)).all()


def test_a_saved_model_has_the_same_gap(tmp_path):
    """Whether the next eigenvalue was known when the model was saved, or components gave all pairs."""
    X = np.concatenate(
        [np.random.default_rng(0).normal(size=(350, 2)), 100 + np.random.default_rng(1).normal(size=(350, 2))]
    )
    for name, sigma in (("open", 0.5), ("known", 60.0)):
        model = fit(X, 2, sigma=sigma)
        assert (model.next_eigenvalue_ is None) == (name == "open")
        save(model, tmp_path / name)
        assert load(tmp_path / name).eigengap_ == model.eigengap_ > 0
        save(model, tmp_path / f"{name} again")
        assert load(tmp_path / f"{name} again").eigengap_ == model.eigengap_


def test_auto_reports_of_far_rows_that_it_counts():
    """A cloud and a far row are two sets that a random walk hardly leaves: defined, and warned of."""
    X = np.r_[np.random.default_rng(0).uniform(size=(400, 2)), [[9.0, 9.0]]]
    with pytest.warns(SuspiciousResultWarning, match=r"1 of these 2 clusters has fewer than 8 rows\. To eigenvalues"):
        model = fit(X, "auto", sigma=0.2)
    assert model.n_clusters_ == 2
    assert model.n_clusters_reason_.endswith("fewer than 8 rows: a few far rows count like a cluster")
    whole = fit(X[:-1], "auto", sigma=0.2)
    assert whole.n_clusters_ == 1
    assert "no gap stands out" in whole.n_clusters_reason_
