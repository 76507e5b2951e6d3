"""SpectralClustering: parameters, affinities, disconnected graphs, messages."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering as PeerSpectral
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import img_to_graph
from sklearn.neighbors import kneighbors_graph

import knoll
from knoll import SpectralClustering, kernels
from knoll.exceptions import (
    ApproximationWarning,
    BadData,
    ConvergenceWarning,
    CostError,
    DisconnectedGraphWarning,
    InvalidParameter,
    KnollWarning,
    SuspiciousResultWarning,
)
from knoll.metrics import adjusted_rand_score
from knoll.spectral.graph import heaviest
from knoll.spectral.low_rank import has_finufft


def moons(n=300, seed=0):
    generator = np.random.default_rng(seed)
    angle = generator.uniform(0, np.pi, n)
    side = np.arange(n) % 2
    X = np.c_[np.cos(angle) + side, np.sin(angle) * (1 - 2 * side) + 0.5 * side]
    return X + generator.normal(scale=0.05, size=X.shape), side


def blocks(sizes, link=1.0):
    return np.asarray(sp.block_diag([np.full((s, s), link) for s in sizes]).toarray())


def fit(X, k=2, **parameters):
    return SpectralClustering(k, random_state=0, **parameters).fit(X)


def test_finds_the_moons_and_reports_about_it():
    X, side = moons()
    model = fit(X, sigma=0.1)
    assert adjusted_rand_score(model.labels_, side) == 1
    assert model.labels_.dtype == np.int32
    assert (model.predict(X) == model.labels_).all()
    assert model.embedding_.shape == (300, 2)
    np.testing.assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1)
    assert model.eigenvalues_[0] == pytest.approx(1, abs=1e-12)
    assert 0 < model.eigengap_ < 1
    assert model.eigen_residual_.max() < 1e-8
    assert model.sigma_ == 0.1
    assert model.operator_ == "stored"
    assert model.operator_reason_
    assert model.n_clusters_ == 2
    A = model.affinity_matrix_
    assert model.normalized_cut_ == pytest.approx(kernels.normalized_cut(A, model.labels_), abs=1e-12)
    w = 1 / A.sum(axis=1)
    trace = sum(w[c] @ A[np.ix_(c, c)] @ w[c] / w[c].sum() for c in (model.labels_ == 0, model.labels_ == 1))
    assert model.objective_ == pytest.approx(trace, abs=1e-10)
    assert fit(X, sigma=0.1, formulation="graph").objective_ == pytest.approx(model.normalized_cut_)


def test_sigma_comes_from_the_data_with_its_reason():
    X, side = moons(600)
    model = fit(X)
    assert model.sigma_ > 0
    assert model.sigma_reason_
    assert adjusted_rand_score(model.labels_, side) == 1
    assert fit(X, gamma=50.0).sigma_ == pytest.approx(0.1)


@pytest.mark.parametrize("operator", ["stored", "tiles", "truncated", "cholesky", "auto"])
def test_routes_agree(operator):
    X, _ = moons(520)
    model = fit(X, sigma=0.2, operator=operator, eigen_tol=1e-8 if operator != "cholesky" else 0.1)
    plain = fit(X, sigma=0.2, eigen_solver="dense")
    assert (model.labels_ == plain.labels_).all()
    assert (model.predict(X) == model.labels_).all()
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, atol=1e-10 if operator != "cholesky" else 1e-4)
    assert model.normalized_cut_ == pytest.approx(plain.normalized_cut_, abs=1e-12)


@pytest.mark.parametrize("solver", ["arpack", "lobpcg", "amg", "block", "dense"])
@pytest.mark.parametrize("affinity", ["rbf", "nearest_neighbors"])
def test_solvers_agree(solver, affinity):
    X, _ = moons(500)
    sigma = {"sigma": 0.15} if affinity == "rbf" else {}
    models = [fit(X, 3, affinity=affinity, eigen_solver=s, row_scaling="none", **sigma) for s in (solver, None)]
    np.testing.assert_allclose(models[0].eigenvalues_, models[1].eigenvalues_, atol=1e-9)
    projectors = [model.embedding_ @ model.embedding_.T for model in models]
    np.testing.assert_allclose(projectors[0], projectors[1], atol=1e-5)
    assert (models[0].labels_ == models[1].labels_).all()


@pytest.mark.parametrize("assign_labels", ["kmeans", "discretize", "cluster_qr"])
@pytest.mark.parametrize("row_scaling", ["unit", "none", "degree"])
def test_partitions(assign_labels, row_scaling):
    X, side = moons()
    model = fit(X, sigma=0.1, assign_labels=assign_labels, row_scaling=row_scaling)
    assert adjusted_rand_score(model.labels_, side) == 1
    assert (model.predict(X) == model.labels_).all()


@pytest.mark.parametrize(
    "affinity",
    [
        *("poly", "linear", "laplacian", "sigmoid", "chi2", "cosine"),
        kernels.Heaviside(3.0),
        lambda x, y: np.exp(-abs(x - y).sum()),
    ],
    ids=lambda kernel: getattr(kernel, "__name__", str(kernel)),
)
def test_other_kernels(affinity):
    X = np.abs(np.random.default_rng(0).normal(size=(40, 2))) + 1
    X[20:] += [8.0, 0.0]
    model = fit(X, affinity=affinity, kernel_params=None)
    assert model.operator_ == "stored"
    assert (model.predict(X) == model.labels_).all()
    np.testing.assert_allclose(model.affinity_matrix_, model.affinity_matrix_.T)


def test_kernel_parameters_reach_the_function():
    X, _ = moons(100)
    model = fit(X, affinity=lambda x, y, width: np.exp(-((x - y) @ (x - y)) / width), kernel_params={"width": 0.02})
    np.testing.assert_allclose(model.embedding_, fit(X, sigma=0.1).embedding_, atol=1e-9)


# ---- graphs --------------------------------------------------------------------------------------------------------


def test_the_graph_of_neighbours_is_scikit_learns():
    X, side = moons(400)
    model = fit(X, affinity="nearest_neighbors", n_neighbors=7)
    graph = kneighbors_graph(X, 7, include_self=True)
    np.testing.assert_array_equal(model.affinity_matrix_.toarray(), 0.5 * (graph + graph.T).toarray())
    assert adjusted_rand_score(model.labels_, side) == 1
    assert (model.predict(X) == model.labels_).all()
    new = X[:50] + 1e-3
    assert (model.predict(new) == model.labels_[:50]).all()


def test_neighbours_at_the_same_distance_are_all_neighbours():
    X = np.array([[0.0], [1.0], [-1.0], [5.0], [6.0], [4.0]])
    for order in ([0, 1, 2, 3, 4, 5], [5, 2, 0, 1, 4, 3]):
        model = fit(X[order], affinity="nearest_neighbors", n_neighbors=2)
        matrix = model.affinity_matrix_.toarray()[np.ix_(np.argsort(order), np.argsort(order))]
        assert matrix[0].tolist() == [1, 1, 1, 0, 0, 0]


def test_given_graphs_dense_and_sparse():
    X, _ = moons(200)
    K = kernels.Gaussian(0.1).tile(X, X)
    rbf, dense = fit(X, sigma=0.1), fit(K, affinity="precomputed")
    sparse = fit(sp.csr_matrix(K), affinity="precomputed")
    np.testing.assert_allclose(dense.eigenvalues_, rbf.eigenvalues_, atol=1e-10)
    for model, graph in ((dense, K), (sparse, sp.csr_matrix(K))):
        assert adjusted_rand_score(model.labels_, rbf.labels_) == 1
        assert (model.predict(graph) == model.labels_).all()
        assert (model.predict(graph[:9]) == model.labels_[:9]).all()
        assert model.normalized_cut_ == pytest.approx(rbf.normalized_cut_, abs=1e-12)


def test_given_distances_of_neighbours():
    X, _ = moons(300)
    distances = kneighbors_graph(X, 12, mode="distance", include_self=True)
    model = fit(distances, affinity="precomputed_nearest_neighbors", n_neighbors=10)
    plain = fit(X, affinity="nearest_neighbors", n_neighbors=10)
    assert adjusted_rand_score(model.labels_, plain.labels_) == 1
    assert (model.predict(distances) == model.labels_).all()
    assert model.predict(distances[:5]).shape == (5,)
    with pytest.raises(BadData, match=r"13 neighbors are required for each row, but row 0 has 12 distances only"):
        fit(distances, affinity="precomputed_nearest_neighbors", n_neighbors=13)


def test_a_zero_diagonal_is_that_of_the_matrix_without_it():
    X, _ = moons(200)
    K = kernels.Gaussian(0.2).tile(X, X)
    np.fill_diagonal(K, 0.0)
    precomputed = fit(K, affinity="precomputed")
    for operator in ("stored", "tiles"):
        model = fit(X, sigma=0.2, zero_diagonal=True, operator=operator)
        np.testing.assert_allclose(model.eigenvalues_, precomputed.eigenvalues_, atol=1e-10)
        assert adjusted_rand_score(model.labels_, precomputed.labels_) == 1
        assert (model.predict(X) == model.labels_).all()
    graph = fit(X, affinity="nearest_neighbors", zero_diagonal=True)
    assert graph.affinity_matrix_.diagonal().max() == 0
    assert (graph.predict(X) == graph.labels_).all()


# ---- graphs that fall apart ----------------------------------------------------------------------------------------


def test_as_many_components_as_clusters():
    model = fit(blocks([5, 3, 4]), 3, affinity="precomputed")
    assert adjusted_rand_score(model.labels_, [0] * 5 + [1] * 3 + [2] * 4) == 1
    np.testing.assert_allclose(model.eigenvalues_, 1)
    assert model.normalized_cut_ == 0
    assert model.n_connected_components_ == 3


def test_more_clusters_than_components_pool_the_eigenpairs():
    """The third pair is the best second pair of the two components."""
    X = np.concatenate([moons(300)[0], moons(300, seed=1)[0] + 100])
    for operator in ("stored", "truncated"):
        model = fit(X, 4, sigma=0.1, operator=operator)
        assert model.n_connected_components_ == 2
        np.testing.assert_allclose(model.eigenvalues_[:2], 1)
        inner = [fit(half, 2, sigma=0.1, eigen_solver="dense").eigenvalues_[1] for half in (X[:300], X[300:])]
        np.testing.assert_allclose(np.sort(model.eigenvalues_[2:]), np.sort(inner), atol=1e-10)
        assert adjusted_rand_score(model.labels_, np.arange(600) // 300 * 2 + np.arange(600) % 2) == 1


def test_more_components_than_clusters_keeps_the_heaviest():
    X = np.concatenate([np.zeros((9, 1)), np.full((5, 1), 100.0), np.full((2, 1), 110.0), np.full((1, 1), -60.0)])
    with pytest.warns(
        DisconnectedGraphWarning, match=r"falls into 4 components, more than n_clusters=2: the 2 heaviest"
    ):
        model = fit(X, 2, sigma=1.0)
    assert adjusted_rand_score(model.labels_, [0] * 9 + [1] * 7 + [0]) == 1
    assert (model.predict(X) == model.labels_).all()
    assert model.predict([[140.0], [-200.0]]).tolist() == [model.labels_[9], model.labels_[0]]
    with pytest.warns(DisconnectedGraphWarning, match="the others joined the heaviest"):
        model = fit(blocks([2, 5, 3]), 2, affinity="precomputed")
    assert adjusted_rand_score(model.labels_, [0, 0] + [0] * 5 + [1] * 3) == 1


def test_rows_without_links_join():
    A = blocks([4, 4, 1])
    A[8, 8] = 0.0
    with pytest.warns(
        DisconnectedGraphWarning, match=r"1 row has no link at all \(row 8 is the first\): such rows joined"
    ):
        model = fit(A, 2, affinity="precomputed")
    assert adjusted_rand_score(model.labels_[:8], [0] * 4 + [1] * 4) == 1
    assert (model.predict(A) == model.labels_).all()
    X = np.concatenate([moons(100)[0], [[90.0, 0.0]]])
    with pytest.warns(DisconnectedGraphWarning, match=r"row 100 is the first"):
        far = fit(X, sigma=0.2, zero_diagonal=True)
    assert (far.predict(X) == far.labels_).all()


def test_nearly_disconnected_is_no_matter():
    X = np.concatenate(
        [np.random.default_rng(0).normal(size=(60, 2)), np.random.default_rng(1).normal(size=(60, 2)) + 9]
    )
    model = fit(X, sigma=0.9)
    assert model.eigenvalues_[1] > 1 - 1e-3
    assert adjusted_rand_score(model.labels_, np.arange(120) // 60) == 1


def test_star_and_complete_graphs_have_one_cluster_to_find():
    star = np.zeros((20, 20))
    star[0, 1:] = star[1:, 0] = 1
    for graph in (star, np.ones((20, 20))):
        with (
            pytest.warns(
                ConvergenceWarning, match=r"number of distinct clusters \(1\) found smaller than n_clusters \(3\)"
            ),
            pytest.warns(SuspiciousResultWarning, match="differ by"),
        ):
            model = fit(graph, 3, affinity="precomputed")
        assert (model.predict(graph) == model.labels_).all()


def test_sigma_far_too_small_and_far_too_large():
    X, _ = moons()
    with pytest.warns(DisconnectedGraphWarning, match=r"300 components.*sigma=0\.0001 is far too small"):
        small = fit(X, sigma=1e-4)
    assert set(small.labels_) == {0, 1}
    assert (small.predict(X) == small.labels_).all()
    with pytest.warns(SuspiciousResultWarning, match=r"sigma=1e\+03 is far too large"):
        large = fit(X, sigma=1e3)
    assert (large.predict(X) == large.labels_).all()


# ---- numbers of clusters -------------------------------------------------------------------------------------------


def test_one_cluster_and_as_many_as_rows():
    X, _ = moons(12)
    assert fit(X, 1, sigma=0.3).labels_.tolist() == [0] * 12
    model = fit(X, 12, sigma=0.3)
    assert sorted(model.labels_) == list(range(12))
    assert np.isnan(model.eigengap_)
    with pytest.raises(BadData, match=r"n_samples=12 should be >= n_clusters=13"):
        fit(X, 13, sigma=0.3)


def test_the_number_from_the_gap():
    generator = np.random.default_rng(0)
    X = generator.normal(scale=0.4, size=(200, 2)) + np.repeat([[0, 0], [6, 0], [0, 6], [6, 6]], 50, axis=0)
    model = fit(X, "auto", sigma=1.0)
    assert model.n_clusters_ == 4
    assert len(model.eigenvalues_) == 4
    assert model.n_clusters_reason_
    assert adjusted_rand_score(model.labels_, np.arange(200) // 50) == 1


def test_duplicates():
    X = np.repeat(moons(30)[0], 20, axis=0)
    model = fit(X, sigma=0.3)
    assert all(len(set(group)) == 1 for group in model.labels_.reshape(30, 20))
    with (
        pytest.warns(ConvergenceWarning, match=r"distinct clusters \(3\) found smaller than n_clusters \(4\)"),
        pytest.warns(SuspiciousResultWarning),
    ):
        fit(np.repeat(np.eye(3), 5, axis=0), 4, sigma=1.0)


def test_n_components_is_the_width_of_the_embedding():
    X, _ = moons()
    assert fit(X, sigma=0.1, n_components=4).embedding_.shape == (300, 4)


# ---- weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"affinity": "nearest_neighbors"}, "crowd out"),
        ({"affinity": "precomputed"}, "a precomputed graph has no links between the copies"),
        ({"zero_diagonal": True}, "zero_diagonal=True: copies of a row are linked"),
    ],
)
def test_weights_are_refused_where_repetition_has_no_meaning(parameters, message):
    with pytest.raises(InvalidParameter, match=message):
        SpectralClustering(2, **parameters).fit(np.eye(4) + 1, sample_weight=np.ones(4))


def test_absent_rows_are_labelled_as_predict_would():
    X, _ = moons(100)
    weights = (np.arange(100) % 3 > 0).astype(float)
    model = SpectralClustering(2, sigma=0.2, random_state=0).fit(X, sample_weight=weights)
    assert (model.predict(X) == model.labels_).all()
    present = fit(X[weights > 0], sigma=0.2)
    assert (present.predict(X) == model.labels_).all()
    np.testing.assert_allclose(model.embedding_[weights > 0], present.embedding_, atol=1e-9)
    assert model.normalized_cut_ == pytest.approx(present.normalized_cut_)


# ---- messages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ([[1.0, -2.0], [-2.0, 1.0]], r"must be >= 0, but has -2\.0 at row 0, column 1 \(and 1 more\)"),
        ([[1.0, np.nan], [1.0, 1.0]], r"X has a NaN at row 0, column 1"),
        ([[1.0, 2.0, 3.0]], r"X must be square, got shape \(1, 3\)"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_bad_graphs_are_refused_with_the_entry(graph, message, sparse):
    with pytest.raises(BadData, match=message):
        fit(sp.csr_matrix(graph) if sparse else graph, 1, affinity="precomputed")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("zero_diagonal", [False, True])
def test_a_graph_that_is_not_symmetric_is_averaged_with_its_transpose(sparse, zero_diagonal):
    """As in scikit-learn; the links of a graph of neighbours are directed."""
    A = kneighbors_graph(moons(120)[0], 6, include_self=True)
    A = A if sparse else A.toarray()
    with pytest.warns(SuspiciousResultWarning, match=r"not symmetric \(row \d+, column \d+ differs from .* averaged"):
        model = fit(A, affinity="precomputed", zero_diagonal=zero_diagonal)
    same = fit((A + A.T) / 2, affinity="precomputed", zero_diagonal=zero_diagonal)
    assert (model.labels_ == same.labels_).all()
    assert abs(model.affinity_matrix_ - same.affinity_matrix_).max() == 0
    assert (model.predict(A) == model.labels_).all()


@pytest.mark.parametrize("assign_labels", ["kmeans", "discretize", "cluster_qr"])
def test_verbose_reports_of_the_partition_step(assign_labels, capsys):
    fit(moons(60)[0], sigma=0.3, assign_labels=assign_labels, verbose=1)
    text = capsys.readouterr().out
    assert f"SpectralClustering: Computing label assignment using {assign_labels}\n" in text
    assert ("SpectralClustering: Initialization complete\n" in text) == (assign_labels == "kmeans")
    assert ("SpectralClustering: Iteration 1, inertia " in text) == (assign_labels == "kmeans")


def test_bad_parameters_are_reported():
    X, _ = moons(30)
    for parameters, message in (
        ({"sigma": 1.0, "gamma": 1.0}, "give sigma or gamma, not both"),
        ({"affinity": "foo"}, r"affinity must be one of .* got 'foo'"),
        ({"affinity": 3}, "affinity must be a name, a callable or a kernel, got 3"),
        ({"sigma": 0.0}, r"sigma must be > 0, got 0\.0\. knoll\.scales\.estimate_sigma"),
        ({"row_scaling": "x"}, "row_scaling must be one of 'auto', 'unit', 'none', 'degree'"),
        ({"eigen_solver": "x"}, "eigen_solver must be"),
        ({"operator": "x"}, "operator must be one of"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            fit(X, **parameters)
    with pytest.raises(BadData, match=r"n_neighbors=31 must be <= n_samples=30"):
        fit(X, affinity="nearest_neighbors", n_neighbors=31)
    with pytest.raises(BadData, match=r"X has 29 features, but SpectralClustering is expecting 30"):
        fit(X @ X.T + 9, affinity="precomputed").predict(np.ones((2, 29)))
    rows = np.ones((2, 30))
    rows[1, 7] = -2.0
    for queries in (rows, sp.csr_matrix(rows)):
        with pytest.raises(BadData, match=r"precomputed affinities must be >= 0, but has -2\.0 at row 1, column 7"):
            fit(X @ X.T + 9, affinity="precomputed").predict(queries)
    distances = kneighbors_graph(X, 12, mode="distance", include_self=True)
    distances.data[15] = -1.0
    with pytest.raises(BadData, match=r"precomputed distances must be >= 0, but has -1\.0 at row 1, column"):
        fit(distances, affinity="precomputed_nearest_neighbors", n_neighbors=5)


def test_sparse_rows_are_made_dense_while_they_fit(monkeypatch):
    X = np.abs(moons(50)[0])
    np.testing.assert_array_equal(fit(sp.csr_matrix(X), sigma=0.3).labels_, fit(X, sigma=0.3).labels_)
    monkeypatch.setattr("knoll.spectral.affinity._DENSE_BYTES", 10)
    with pytest.raises(CostError, match="sparse rows are made dense"):
        fit(sp.csr_matrix(X), sigma=0.3)


def test_an_approximate_answer_is_never_silent():
    X = np.random.default_rng(0).normal(size=(900, 2))
    with pytest.warns(
        ApproximationWarning, match=r"operator='cholesky' is approximate: an eigenpair has a residual of"
    ):
        model = fit(X, 3, sigma=0.3, operator="cholesky", eigen_tol=1e-12)
    assert model.operator_ == "cholesky"
    A = model.affinity_matrix_
    d = A.sum(axis=1)
    V = fit(X, 3, sigma=0.3, operator="cholesky", eigen_tol=1.0, row_scaling="none").embedding_
    residual = np.linalg.norm((A @ (V / np.sqrt(d)[:, None])) / np.sqrt(d)[:, None] - V * model.eigenvalues_, axis=0)
    np.testing.assert_allclose(model.eigen_residual_, residual, atol=1e-12)


@pytest.mark.skipif(not has_finufft(), reason="finufft, an extra of knoll's, is not installed")
def test_the_fft_is_certified_and_refined(monkeypatch):
    X, _ = moons(600)
    plain = fit(X, sigma=0.2)
    model = fit(X, sigma=0.2, operator="finufft", eigen_tol=1e-6)
    assert model.operator_ == "finufft"
    assert model.n_iter_ == 1
    monkeypatch.setattr("knoll.spectral.route._SKETCHED", 100)
    monkeypatch.setattr("knoll.spectral.route._LONG", 1)
    refined = fit(X, sigma=0.2)
    assert "FINUFFT" in refined.operator_reason_
    assert refined.eigen_residual_.max() <= 1e-8
    for other in (model, refined):
        np.testing.assert_allclose(other.eigenvalues_, plain.eigenvalues_, atol=1e-10)
        assert (other.labels_ == plain.labels_).all()


def test_a_solver_that_stops_early_reports_it(capsys):
    X, _ = moons(1500)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 3 applications with a residual of .* Raise max_iter"):
        fit(X, sigma=0.05, max_iter=2, eigen_tol=1e-12, verbose=True)
    assert "SpectralClustering: application 2, largest residual" in capsys.readouterr().out


def test_a_large_matrix_is_not_made(monkeypatch):
    X, _ = moons(50)
    model = fit(X, sigma=0.3)
    monkeypatch.setattr("knoll.spectral.estimator._MATRIX_BYTES", 100)
    with pytest.raises(AttributeError, match="affinity_matrix_ of 50 rows would take"):
        _ = model.affinity_matrix_
    assert not hasattr(model, "affinity_matrix_")


def test_extreme_units_and_shifts():
    X, _ = moons()
    plain = fit(X, sigma=0.1)
    for scaled, sigma in ((X * 2.0**480, 0.1 * 2.0**480), (X * 2.0**-480, 0.1 * 2.0**-480), (X + 2.0**20, 0.1)):
        assert adjusted_rand_score(fit(scaled, sigma=sigma).labels_, plain.labels_) == 1


def test_a_slow_graph_goes_through_its_inverse():
    X, _ = moons(1200)
    model = fit(X, 4, affinity="nearest_neighbors")
    dense = fit(X, 4, affinity="nearest_neighbors", eigen_solver="dense")
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, atol=1e-9)
    assert model.eigen_residual_.max() <= 1e-8
    assert adjusted_rand_score(model.labels_, dense.labels_) > 0.999


def test_a_low_rank_start_and_its_refinement(monkeypatch):
    monkeypatch.setattr("knoll.spectral.route._SKETCHED", 500)
    X, _ = moons(700)
    model = fit(X, sigma=0.3)
    assert "rank" in model.operator_reason_
    assert model.eigen_residual_.max() <= 1e-8
    dense = fit(X, sigma=0.3, eigen_solver="dense")
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, atol=1e-12)
    assert (model.labels_ == dense.labels_).all()
    assert model.n_iter_ < 12
    apart = np.random.default_rng(0).normal(size=(900, 10)) + 8 * (np.arange(900) % 2)[:, None]
    rough = fit(apart, sigma=1.5)
    assert "which was refused: the kernel is not of low rank" in rough.operator_reason_


def test_certificates_of_known_vectors_are_measured():
    labels = np.zeros(5, dtype=np.int64)
    found = heaviest(labels, np.array([1.0, 2.0, 0.0, 3.0, 1.0]), np.ones(5))
    assert found.labels.tolist() == [0, 0, -1, 0, 0]
    assert found.volumes.tolist() == [7.0]


@pytest.mark.parametrize("affinity", ["nearest_neighbors", "rbf"])
def test_components_that_are_the_clusters_need_no_solver(affinity):
    """The gap is computed on first access, and is the next eigenvalue of the whole matrix."""
    generator = np.random.default_rng(0)
    X = np.r_[generator.uniform(size=(400, 2)), generator.uniform(size=(300, 2)) + 50]
    model = SpectralClustering(2, affinity=affinity, sigma=0.3 if affinity == "rbf" else None, random_state=0).fit(X)
    assert model.n_connected_components_ == 2
    assert model.n_iter_ == 1
    assert np.array_equal(model.labels_, np.repeat(model.labels_[[0, -1]], [400, 300]))
    assert np.array_equal(model.predict(X), model.labels_)
    A = model.affinity_matrix_
    A = A.toarray() if sp.issparse(A) else A
    root = np.sqrt(A.sum(axis=1))
    exact = np.linalg.eigvalsh(A / root / root[:, None])[::-1]
    again = SpectralClustering.from_state(*model.to_state())
    assert model.eigengap_ == pytest.approx(1 - exact[2], rel=0.05)
    assert again.eigengap_ == model.eigengap_
    auto = SpectralClustering("auto", affinity=affinity, sigma=model.sigma, random_state=0).fit(X)
    assert auto.n_clusters_ == 2
    assert auto.eigengap_ == pytest.approx(1 - exact[2], rel=0.05)


# ---- how rows are scaled -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("affinity", "taken"),
    [
        ("rbf", "unit"),
        ("laplacian", "unit"),
        ("poly", "unit"),
        (kernels.Gaussian(1.0), "unit"),
        (lambda x, y: float(np.exp(-np.abs(x - y).sum())), "unit"),
        ("nearest_neighbors", "degree"),
        ("precomputed", "degree"),
        ("precomputed_nearest_neighbors", "degree"),
    ],
)
def test_the_affinity_decides_how_rows_are_scaled(affinity, taken):
    """docs/decisions/0021-row-scaling.md."""
    X, _ = moons(40)
    distances = np.sqrt(np.square(X[:, None] - X).sum(axis=2))
    matrices = {"precomputed": np.exp(-distances), "precomputed_nearest_neighbors": distances}
    points = matrices.get(affinity, X) if isinstance(affinity, str) else X
    model = fit(points, affinity=affinity, degree=2)
    assert (model.row_scaling, model.row_scaling_) == ("auto", taken)
    named = fit(points, affinity=affinity, degree=2, row_scaling=taken)
    assert model.embedding_.tobytes() == named.embedding_.tobytes()
    assert (model.labels_ == named.labels_).all()
    assert fit(points, affinity=affinity, degree=2, row_scaling="none").row_scaling_ == "none"


def test_a_photograph_as_a_graph_is_cut_as_little_as_by_scikit_learn():
    picture = load_sample_image("flower.jpg").mean(axis=2)[40:360, 100:500].reshape(40, 8, 50, 8).mean(axis=(1, 3))
    graph = img_to_graph(picture)
    graph.data = np.exp(-10 * graph.data / graph.data.std()) + 1e-6
    cuts = {s: fit(graph, 12, affinity="precomputed", row_scaling=s).normalized_cut_ for s in ("auto", "unit")}
    peer = PeerSpectral(12, affinity="precomputed", random_state=0).fit(graph)
    assert cuts["auto"] < cuts["unit"]
    assert cuts["auto"] <= kernels.normalized_cut(graph.toarray(), peer.labels_) * 1.02


def test_clusters_by_qr_are_as_many_as_the_rank():
    """Eigenvalues <= 0 are left out: their vectors would be rotated by rounding alone."""
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(12, 2))
        A = np.exp(-np.square(X[:, None] - X).sum(axis=2))
        with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(\d\) found smaller than n_clusters \(8\)"):
            one, other = (
                fit(A * factor, 8, affinity="precomputed", zero_diagonal=True, assign_labels="cluster_qr")
                for factor in (1.0, 8.0)
            )
        assert (one.labels_ == other.labels_).all()
        assert len(np.unique(one.labels_)) <= np.count_nonzero(one.eigenvalues_ > 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-320, 1e-160, 1.0, 1e160, 1e300])
def test_far_components_join_the_nearest_at_any_scale(scale):
    X = np.array([[0.0], [0.1], [100.0], [100.1], [140.0]])
    with pytest.warns(DisconnectedGraphWarning, match="joined the nearest"):
        model = fit(X * scale, 2, sigma=0.5 * scale)
    assert adjusted_rand_score(model.labels_, [0, 0, 1, 1, 1]) == 1
    assert (model.predict(X * scale) == model.labels_).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("operator", ["stored", "tiles", "truncated"])
def test_a_width_at_the_end_of_float64_is_kept_and_loads(operator, tmp_path):
    X = np.arange(6.0)[:, None] * 1e307
    with pytest.warns(SuspiciousResultWarning):
        model = fit(X, 2, sigma=1.7e308, operator=operator)
    assert np.isfinite(model.cutoff_)
    knoll.save(model, tmp_path / "wide.knoll")
    assert (knoll.load(tmp_path / "wide.knoll").predict(X) == model.labels_).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.skipif(not has_finufft(), reason="FINUFFT is not installed")
@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 1e300])
def test_the_fft_takes_any_scale(scale):
    X = moons(80)[0]
    scale = 2.0 ** np.round(np.log2(scale))
    one, other = (fit(X * s, sigma=0.5 * s, operator="finufft", eigen_tol=1.0) for s in (1.0, scale))
    assert adjusted_rand_score(one.labels_, other.labels_) == 1  # their numbers go by digits that 1e-310 loses
    assert (other.predict(X * scale) == other.labels_).all()


def test_a_row_without_weight_to_speak_of_is_labelled_as_predict_does():
    X = np.repeat(np.arange(12.0)[:, None], 2, axis=1)
    w = 10.0 ** np.linspace(-290, 280, 12)[np.random.default_rng(0).permutation(12)]
    for assign_labels in ("kmeans", "discretize", "cluster_qr"):
        for scaling in ("unit", "none", "degree"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SuspiciousResultWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = SpectralClustering(
                    2, sigma=1.1, assign_labels=assign_labels, row_scaling=scaling, operator="tiles", random_state=0
                ).fit(X, sample_weight=w)
            assert (model.predict(X) == model.labels_).all()
            assert not np.isnan(model.embedding_).any()


@pytest.mark.filterwarnings("ignore::knoll.exceptions.KnollWarning")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sigma", [None, 0.5])
def test_weights_whose_sum_leaves_float64_have_an_answer(sigma):
    X = moons(40)[0]
    model = SpectralClustering("auto", sigma=sigma, random_state=0).fit(X, sample_weight=np.full(40, 1e308))
    assert np.isfinite(model.sigma_)
    assert (model.predict(X) == model.labels_).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row_scaling", ["none", "degree"])
def test_the_embedding_under_tiny_weights_is_finite(dtype, row_scaling):
    """Rows are v/√w or v/√(w d): of float32 data they would leave float32."""
    X = np.array([[0.0], [0.1], [5.0], [5.1]], dtype=dtype)
    model = SpectralClustering(2, sigma=1.0, row_scaling=row_scaling, random_state=0)
    model.fit(X, sample_weight=np.full(4, 2.0**-1000))
    assert model.embedding_.dtype == dtype
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.labels_, model.fit(X).labels_)


def test_rows_of_extreme_length_are_labelled_without_a_warning_of_numpy():
    X = np.array([[4.87, 5.13], [4.83, 5.17], [4.82, 5.18], [4.81, 5.19], [4.8, 5.2], [4.79, 5.21]])
    model = SpectralClustering(6, row_scaling="degree", operator="finufft", sigma=0.012, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KnollWarning)
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(X, sample_weight=[1e279, 1e27, 1e-49, 1e138, 1e57, 1e41])
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_vectors_are_orthogonal_where_groups_are_barely_linked():
    """Links of e⁻⁴⁰ leave one component with a second eigenvalue that rounds to 1: any mixture of the two is a pair."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(40, 2)) + 9.0])
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(X))
        model = SpectralClustering(3, sigma=0.9, zero_diagonal=True, row_scaling="none").fit(X[order])
        products = model.embedding_.T @ model.embedding_
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-10)
