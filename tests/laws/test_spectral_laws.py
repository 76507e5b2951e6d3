"""Laws of SpectralClustering: orders, weights, threads, routes, and that predict is labels_."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import kneighbors_graph

from knoll import SpectralClustering
from knoll.metrics import adjusted_rand_score

AFFINITIES = [
    {"sigma": 0.8},
    {"sigma": 0.8, "zero_diagonal": True},
    {"affinity": "nearest_neighbors", "n_neighbors": 6},
]


def groups(seed, n=90, d=2):
    generator = np.random.default_rng(seed)
    return generator.normal(scale=0.7, size=(n, d)) + 5 * generator.normal(size=(3, d))[np.arange(n) % 3]


def quiet_fit(X, k=3, w=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random groups may be disconnected: the laws apply all the same
        return SpectralClustering(k, **{"random_state": 3, **parameters}).fit(X, sample_weight=w)


@pytest.mark.parametrize("parameters", AFFINITIES, ids=str)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 7), scaling=st.sampled_from(["unit", "none", "degree"]))
@settings(max_examples=12, deadline=None)
def test_predict_is_labels(parameters, seed, k, scaling):
    X = groups(seed)
    X[-4:] = X[:4]  # copies
    for assign_labels in ("kmeans", "discretize", "cluster_qr"):
        model = quiet_fit(X, k, row_scaling=scaling, assign_labels=assign_labels, **parameters)
        assert (model.predict(X) == model.labels_).all()
        assert (model.predict(X[::-1][:7]) == model.labels_[::-1][:7]).all()
        assert model.labels_.min() >= 0
        assert model.labels_.max() < k


@pytest.mark.parametrize("parameters", AFFINITIES, ids=str)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_no_order_of_the_rows_changes_the_answer(parameters, seed):
    X = groups(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    one, other = quiet_fit(X, **parameters), quiet_fit(X[order], **parameters)
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, atol=1e-9)
    if one.eigengap_ > 1e-3:  # else there is no one embedding
        assert (other.labels_ == one.labels_[order]).all()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_a_weight_is_repetition(seed):
    X = groups(seed, 60)
    w = np.random.default_rng(seed).integers(0, 4, 60)
    w[:3] = 1
    weighted, repeated = quiet_fit(X, w=w, sigma=1.2), quiet_fit(np.repeat(X, w, axis=0), sigma=1.2)
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, atol=1e-9)
    assert weighted.normalized_cut_ == pytest.approx(repeated.normalized_cut_, abs=1e-9)
    if weighted.eigengap_ > 1e-3:
        assert (np.repeat(weighted.labels_, w) == repeated.labels_).all()
        assert (weighted.predict(X) == repeated.predict(X)).all()


@given(seed=st.integers(0, 10**6), power=st.integers(-30, 30))
@settings(max_examples=8, deadline=None)
def test_powers_of_two_are_exact(seed, power):
    X = groups(seed)
    one, other = quiet_fit(X, sigma=1.0), quiet_fit(X * 2.0**power, sigma=2.0**power)
    assert one.embedding_.tobytes() == other.embedding_.tobytes()
    assert (one.labels_ == other.labels_).all()


@pytest.mark.parametrize("factor", [1e-310, 1e-169, 1e195, 1e307])
@pytest.mark.parametrize("operator", ["stored", "tiles", "truncated", "cholesky", "finufft"])
@pytest.mark.parametrize("scaling", ["unit", "none", "degree"])
@pytest.mark.filterwarnings("ignore::knoll.exceptions.KnollWarning")
@pytest.mark.filterwarnings("error")
def test_a_common_factor_of_the_weights_does_not_matter(factor, operator, scaling):
    """It cancels in √(w/d); rows and inertia follow it, as they follow repetition."""
    if operator == "finufft":
        pytest.importorskip("finufft")
    X = groups(5, 24)
    w = np.arange(24) % 3 + 1.0
    factor = 2.0 ** np.round(np.log2(factor))  # a power of two: the same bits
    options = {"sigma": 1.5, "operator": operator, "row_scaling": scaling, "random_state": 0}
    one = SpectralClustering(3, **options).fit(X, sample_weight=w)
    other = SpectralClustering(3, **options).fit(X, sample_weight=w * factor)
    assert (one.labels_ == other.labels_).all()
    assert (other.predict(X) == other.labels_).all()
    assert one.eigenvalues_.tobytes() == other.eigenvalues_.tobytes()
    assert one.extension_.tobytes() == other.extension_.tobytes()
    root = {"unit": 0, "none": -0.5, "degree": -1}[scaling]
    if factor > 1e-300:  # else rows over √(w d) leave float64
        np.testing.assert_allclose(other.embedding_, one.embedding_ * factor**root, rtol=1e-12)
        assert other.inertia_ == pytest.approx(one.inertia_ * factor ** (1 + 2 * root), rel=1e-12)
    assert other.normalized_cut_ == one.normalized_cut_
    assert other.objective_ == one.objective_


@pytest.mark.filterwarnings("error")
def test_one_row_of_any_weight_has_an_embedding():
    for weight in (1e-300, 1.0, 1e195):
        model = SpectralClustering(1, sigma=1.0, row_scaling="none").fit([[1.0]], sample_weight=[weight])
        assert model.embedding_[0, 0] == pytest.approx(weight**-0.5)
        assert model.labels_.tolist() == [0]


@pytest.mark.parametrize("operator", ["stored", "tiles", "truncated", "cholesky", "finufft"])
@pytest.mark.parametrize("scaling", ["unit", "none", "degree"])
@pytest.mark.filterwarnings("ignore::knoll.exceptions.KnollWarning")
@pytest.mark.filterwarnings("error")
def test_weights_of_very_different_size_have_an_answer(operator, scaling):
    """Rows of next to no weight among others are labelled as absent ones are."""
    if operator == "finufft":
        pytest.importorskip("finufft")
    X = groups(5, 60)
    heavy = np.arange(60) % 2 == 0
    options = {"sigma": 1.5, "operator": operator, "row_scaling": scaling, "random_state": 0}
    model = SpectralClustering(3, **options).fit(X, sample_weight=np.where(heavy, 1e150, 1e-150))
    absent = SpectralClustering(3, **options).fit(X, sample_weight=heavy.astype(float))
    assert (model.predict(X) == model.labels_).all()
    assert adjusted_rand_score(model.labels_, absent.labels_) == 1
    assert np.isfinite(model.extension_).all()


@pytest.mark.parametrize("factor", [1e-310, 1e-200, 1e200, 1e307])
@pytest.mark.parametrize("form", ["dense", "sparse", "function"])
@pytest.mark.parametrize("scaling", ["unit", "none", "degree"])
@pytest.mark.filterwarnings("error")
def test_a_common_factor_of_the_similarities_does_not_matter(factor, form, scaling):
    X = groups(5, 45)
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 4)
    K[K < 1e-3] = 0.0  # down to 1e-313 digits are few
    factor = 2.0 ** np.round(np.log2(factor))
    options = {"row_scaling": scaling, "random_state": 0}

    def fitted(scale):
        if form == "function":
            table = {tuple(row): i for i, row in enumerate(X)}
            rows = lambda P: [table[tuple(row)] for row in P]  # noqa: E731
            return SpectralClustering(3, affinity=lambda P, Q: K[np.ix_(rows(P), rows(Q))] * scale, **options).fit(X), X
        matrix = sp.csr_array(K * scale) if form == "sparse" else K * scale
        return SpectralClustering(3, affinity="precomputed", **options).fit(matrix), matrix

    (one, _), (other, matrix) = fitted(1.0), fitted(factor)
    assert adjusted_rand_score(one.labels_, other.labels_) == 1
    assert (one.labels_ == other.labels_).all() or factor < 1e-300  # where numbers have lost digits
    assert (other.predict(matrix) == other.labels_).all()
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, atol=1e-9)
    root = -0.5 if scaling == "degree" else 0.0
    np.testing.assert_allclose(other.embedding_, one.embedding_ * factor**root, rtol=1e-6, atol=1e-9 * factor**root)
    A = other.affinity_matrix_
    assert abs((A if form != "sparse" else A.toarray()) - K * factor).max() == 0


@given(seed=st.integers(0, 10**6), k=st.integers(2, 6), neighbours=st.integers(3, 9))
@settings(max_examples=12, deadline=None)
def test_every_route_to_a_graph_of_neighbours_gives_the_same_labels(seed, k, neighbours):
    X = groups(seed)
    own = quiet_fit(X, k, affinity="nearest_neighbors", n_neighbors=neighbours)
    distances = np.sqrt(np.square(X[:, None] - X).sum(axis=2))
    routes = [
        quiet_fit(distances, k, affinity="precomputed_nearest_neighbors", n_neighbors=neighbours),
        quiet_fit(kneighbors_graph(X, neighbours, include_self=True), k, affinity="precomputed"),
        quiet_fit(own.affinity_matrix_.toarray(), k, affinity="precomputed"),
    ]
    for route in routes:
        assert abs(route.affinity_matrix_ - own.affinity_matrix_).max() == 0
        if (
            own.n_connected_components_ <= k
        ):  # else rows join the nearest cluster, and a precomputed graph has no distances
            assert (route.labels_ == own.labels_).all()


@given(seed=st.integers(0, 10**6), sparse=st.booleans())
@settings(max_examples=8, deadline=None)
def test_no_order_of_the_rows_of_a_given_graph_changes_the_answer(seed, sparse):
    X = groups(seed)
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 2)
    K[K < 1e-2] = 0.0
    order = np.random.default_rng(seed).permutation(len(X))
    made = sp.csr_array if sparse else np.asarray
    one = quiet_fit(made(K), affinity="precomputed")
    other = quiet_fit(made(K[np.ix_(order, order)]), affinity="precomputed")
    if one.eigengap_ > 1e-3 and one.n_connected_components_ <= 3:
        assert (other.labels_ == one.labels_[order]).all()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_routes_give_one_partition_and_threads_the_same_bits(seed):
    X = groups(seed, 600)
    models = [quiet_fit(X, sigma=1.0, operator=route) for route in ("stored", "tiles", "truncated")]
    for model in models[1:]:
        np.testing.assert_allclose(model.eigenvalues_, models[0].eigenvalues_, atol=1e-9)
        if model.eigengap_ > 1e-3 and model.n_connected_components_ == models[0].n_connected_components_:
            assert adjusted_rand_score(model.labels_, models[0].labels_) == 1
    again = quiet_fit(X, sigma=1.0, operator="truncated", n_jobs=3)
    assert again.embedding_.tobytes() == models[2].embedding_.tobytes()


@given(seed=st.integers(0, 10**6), k=st.integers(2, 5))
@settings(max_examples=10, deadline=None)
def test_the_relaxation_bounds_the_discrete_problems(seed, k):
    """Tr ≤ Σλ for both: Ncut ≥ 1 − Σλ/k, and kernel k-means' trace is at most Σλ."""
    X = groups(seed)
    model = quiet_fit(X, k, sigma=1.0)
    if len(np.unique(model.labels_)) == k:
        assert model.normalized_cut_ >= 1 - model.eigenvalues_[:k].sum() / k - 1e-9
        assert model.objective_ <= model.eigenvalues_[:k].sum() + 1e-9
