"""DBSCAN: parameters, messages, warnings, cost, and the estimator's contract."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

from knoll import DBSCAN, DensityTree, _core
from knoll.density import core_graph
from knoll.exceptions import BadData, CostError, InvalidParameter, SuspiciousResultWarning

LINE = np.array([[0.0], [0.5], [1.0], [7.0], [7.5], [8.0], [50.0]])


@pytest.fixture
def blobs() -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(400, 2)) * 0.3 + 4 * generator.integers(0, 3, size=(400, 1))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"eps": -1.0}, r"eps must be > 0, got -1\.0\. knoll\.scales\.estimate_eps\(X\) suggests a value\."),
        ({"eps": "wide"}, r"eps must be a number > 0 or a length in m, km, ft, mi, nmi, such as '50m', got 'wide'"),
        ({"min_samples": 0}, r"min_samples must be >= 1, got 0\. A row counts itself"),
        ({"metric": 3}, r"metric must be a name or a callable, got 3"),
        ({"metric": "minkowski", "p": 0.5}, r"p must be >= 1 for a metric, got 0\.5"),
        ({"formulation": "hilly"}, r"formulation must be one of 'graph', 'spectral', 'climbing', got 'hilly'"),
        ({"border": "nearest"}, r"border must be one of 'closest', 'first', 'noise', got 'nearest'"),
        ({"formulation": "climbing", "metric": "manhattan"}, r"takes means of points.*got 'manhattan'"),
        ({"metric": "no such metric"}, r"metric 'no such metric' cannot be computed"),
        ({"formulation": "spectral", "metric": "cosine"}, r"takes metric 'euclidean' or 'precomputed', got 'cosine'"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_rule(parameters, message):
    with pytest.raises(InvalidParameter, match=message):
        DBSCAN(**parameters).fit(LINE)


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"metric": "precomputed"}, np.zeros((3, 2)), r"distances must be to each of the 3 rows.*got 2 columns"),
        ({"metric": "precomputed"}, -np.ones((3, 3)), r"precomputed distances must be >= 0, got .*-1"),
        ({"metric": "haversine"}, np.zeros((3, 3)), r"latitude and longitude in radians; X has 3"),
        ({}, np.array([[0.0], [np.nan]]), r"X has a NaN at row 1, column 0"),
    ],
)
def test_wrong_data_is_named_with_row_and_column(parameters, X, message):
    with pytest.raises(BadData, match=message):
        DBSCAN(**parameters).fit(X)


def test_weights_for_an_ascent_are_not_negative():
    with pytest.raises(BadData, match=r"takes means, so sample_weight must be >= 0"):
        DBSCAN(formulation="climbing").fit(LINE, sample_weight=[1, 1, 1, 1, 1, 1, -1])


def test_the_spectral_version_refuses_what_float64_cannot_decide():
    with pytest.raises(InvalidParameter, match=r"20000 core points and 400000000 links.*Use formulation='graph'"):
        core_graph.eigenvalue_one(20_000, 4e8)
    assert core_graph.eigenvalue_one(10, 100.0) == 1 / 2000


def test_the_spectral_version_refuses_what_memory_cannot_hold():
    with pytest.raises(CostError, match=r"would need .* GB for 10000000 core points.*Use formulation='graph'"):
        core_graph.check_memory(10**7)


@pytest.mark.parametrize(
    ("eps", "min_samples", "message"),
    [
        (1e-9, 5, r"all 400 points are noise: no row has min_samples=5 rows within eps=1e-09.*estimate_eps\(X, 5\)"),
        (1e3, 5, r"all 400 points are in one cluster.*eps=1000 is too large"),
    ],
)
def test_suspicious_results_are_warned_of(blobs, eps, min_samples, message):
    with pytest.warns(SuspiciousResultWarning, match=message):
        DBSCAN(eps=eps, min_samples=min_samples).fit(blobs)


def test_few_core_points_are_warned_of():
    X = np.concatenate([np.arange(1000.0) * 10, [0.1, 0.2]])[:, None]
    with pytest.warns(SuspiciousResultWarning, match=r"only 3 of 1002 points are core points"):
        DBSCAN(eps=0.5, min_samples=3).fit(X)


def test_the_warning_points_at_the_caller(blobs):
    with pytest.warns(SuspiciousResultWarning) as caught:
        DBSCAN(eps=1e-9).fit(blobs)
    assert caught[0].filename == __file__


def test_small_data_raises_no_warning():
    assert DBSCAN(eps=0.1).fit_predict(LINE).tolist() == [-1] * 7


def test_the_boundary_is_inclusive():
    step = 0.1
    X = np.array([[0.0], [step], [step + step]])
    assert DBSCAN(eps=step, min_samples=2).fit_predict(X).tolist() == [0, 0, 0]
    assert DBSCAN(eps=np.nextafter(step, 0), min_samples=2).fit_predict(X).tolist() == [-1, -1, -1]


def test_attributes_of_scikit_learn(blobs):
    model = DBSCAN(eps=0.3, min_samples=5).fit(blobs)
    np.testing.assert_array_equal(model.components_, blobs[model.core_sample_indices_])
    assert model.components_ is not blobs
    assert model.labels_.dtype == np.int64
    assert model.n_features_in_ == 2


def test_no_core_points_leave_empty_arrays():
    model = DBSCAN(eps=0.1, min_samples=3).fit(LINE)
    assert model.components_.shape == (0, 1)
    assert model.core_sample_indices_.shape == (0,)
    assert model.predict([[0.0]]).tolist() == [-1]
    assert model.predict_kind([[0.0]]).tolist() == ["noise"]


def test_types_of_rows():
    model = DBSCAN(eps=1.0, min_samples=3).fit(LINE)
    assert model.predict_kind([[0.5], [1.9], [30.0], [7.4]]).tolist() == ["core", "border", "noise", "core"]
    assert model.predict([[0.5], [1.9], [30.0], [7.4]]).tolist() == [0, 0, -1, 1]


@pytest.mark.parametrize("formulation", ["graph", "spectral"])
def test_precomputed_distances_predict(blobs, formulation):
    distances = np.linalg.norm(blobs[:, None] - blobs[None], axis=2)
    model = DBSCAN(eps=0.3, metric="precomputed", formulation=formulation).fit(distances)
    np.testing.assert_array_equal(model.predict(distances), model.labels_)
    assert set(model.predict_kind(distances)) <= {"core", "border", "noise"}


@pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")
@pytest.mark.parametrize("container", [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_features(container, blobs):
    X = np.where(np.abs(blobs) < 0.2, 0.0, blobs)
    dense = DBSCAN(eps=0.3).fit(X)
    sparse = DBSCAN(eps=0.3).fit(container(X))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    np.testing.assert_array_equal(sparse.predict(container(X)), sparse.labels_)
    for metric in ("manhattan", "cosine"):
        a = DBSCAN(eps=0.3, metric=metric).fit(X + 1)
        b = DBSCAN(eps=0.3, metric=metric).fit(container(X + 1))
        np.testing.assert_array_equal(a.labels_, b.labels_)


def test_a_model_of_sparse_rows_survives_its_state(blobs):
    X = scipy.sparse.csr_array(np.where(np.abs(blobs) < 0.2, 0.0, blobs))
    model = DBSCAN(eps=0.3).fit(X)
    again = DBSCAN.from_state(*model.to_state())
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    np.testing.assert_array_equal(again.components_.toarray(), model.components_.toarray())


def test_far_sparse_features_are_decided_exactly():
    """Expanded squares would lose every digit here."""
    X = 1e8 + np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 1.0000001]])
    model = DBSCAN(eps=1.0, min_samples=2).fit(scipy.sparse.csr_array(X))
    assert model.labels_.tolist() == [0, 0, 0, -1]


def test_blocks_that_are_made_again_give_the_same(blobs, monkeypatch):
    distances = np.linalg.norm(blobs[:, None] - blobs[None], axis=2)
    kept = DBSCAN(eps=0.5, metric="precomputed").fit(distances).labels_
    monkeypatch.setattr(core_graph, "_KEPT", 10)
    monkeypatch.setattr("knoll.density.neighborhoods._BLOCK", 1000)
    np.testing.assert_array_equal(DBSCAN(eps=0.5, metric="precomputed").fit(distances).labels_, kept)


def test_close_calls_of_weights_are_decided_exactly():
    X = np.zeros((10, 1))
    weights = np.full(10, 0.1)  # their float sum, in order, is below 1
    assert sum(weights.tolist()) < 1
    for metric in ("euclidean", lambda a, b: float(abs(a - b).max())):
        labels = DBSCAN(eps=1.0, min_samples=1, metric=metric).fit_predict(X, sample_weight=weights)
        assert labels.tolist() == [0] * 10


def test_a_row_of_no_weight_is_labelled_but_counts_for_nothing():
    X = np.array([[0.0], [0.5], [1.0], [1.5], [2.0]])
    model = DBSCAN(eps=0.5, min_samples=2).fit(X, sample_weight=[1, 1, 0, 1, 1])
    assert model.labels_.tolist() == [0, 0, 0, 1, 1]
    assert 2 not in model.core_sample_indices_


def test_the_cost_is_estimated_before_the_run(blobs):
    cost = DBSCAN(eps=0.3).estimate_cost(blobs)
    counts = (np.linalg.norm(blobs[:, None] - blobs[None], axis=2) <= 0.3).sum(axis=1)
    assert cost.details["neighbours"] == pytest.approx(counts.mean())
    assert cost.details["core_share"] == pytest.approx((counts >= 5).mean())
    assert cost.pairs == pytest.approx(counts.sum())
    assert "MB beyond the data" in str(cost)
    assert DBSCAN(eps=0.3, formulation="spectral").estimate_cost(blobs).memory > cost.memory


def test_a_callable_metric_takes_its_options(blobs):
    def stretched(a, b, factor):
        return factor * float(np.abs(a - b).max())

    def weighted(a, b, p):
        return float(np.abs(p * (a - b)).max())

    model = DBSCAN(eps=0.6, metric=stretched, metric_params={"factor": 2.0}).fit(blobs[:80])
    named = DBSCAN(eps=0.6, metric=weighted, metric_params={"p": np.array([2.0, 2.0])}).fit(blobs[:80])
    np.testing.assert_array_equal(named.labels_, model.labels_)
    np.testing.assert_array_equal(model.labels_, DBSCAN(eps=0.3, metric="chebyshev").fit_predict(blobs[:80]))


@pytest.mark.parametrize("scale", [1e-200, 1e-300, 1e200, 2.0**900])
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("formulation", ["graph", "spectral"])
def test_extreme_magnitudes(scale, make, formulation):
    X = np.array([[0.0], [1.0], [5.0], [6.0]]) * scale
    assert DBSCAN(1.5 * scale, min_samples=2, formulation=formulation).fit_predict(make(X)).tolist() == [0, 0, 1, 1]


def test_far_sparse_rows_are_refused_with_a_message():
    with pytest.raises(BadData, match=r"\|X\| goes up to 1e\+300, too far beyond eps"):
        DBSCAN(1e-100).fit(scipy.sparse.csr_array([[1e300], [0.0]]))


@pytest.mark.parametrize("border", ["closest", "first", "noise"])
def test_a_graph_without_its_diagonal_predicts_its_labels(blobs, border):
    from sklearn.neighbors import radius_neighbors_graph

    graph = radius_neighbors_graph(blobs, 0.2, mode="distance", include_self=False)
    model = DBSCAN(0.2, min_samples=4, metric="precomputed", border=border).fit(graph)
    np.testing.assert_array_equal(
        model.labels_,
        DBSCAN(0.2, min_samples=4, border="first").fit(blobs).labels_ if border == "first" else model.labels_,
    )
    np.testing.assert_array_equal(model.predict(graph.copy()), model.labels_)
    types = model.predict_kind(graph.copy())
    np.testing.assert_array_equal(np.flatnonzero(types == "core"), model.core_sample_indices_)
    share = DBSCAN(0.2, min_samples=4, metric="precomputed").estimate_cost(graph).details["core_share"]
    assert share == pytest.approx(len(model.core_sample_indices_) / len(blobs))


@pytest.mark.parametrize("formulation", ["graph", "climbing"])
def test_the_model_does_not_read_your_array_again(blobs, formulation):
    mine = blobs.copy()
    model = DBSCAN(0.3, formulation=formulation).fit(mine)
    types, labels = model.predict_kind(blobs), model.predict(blobs)
    mine[:] = 1e3
    np.testing.assert_array_equal(model.predict_kind(blobs), types)
    np.testing.assert_array_equal(model.predict(blobs), labels)


def test_ties_of_sparse_rows_go_by_coordinates_too():
    X = np.array([[-2.0], [-1.5], [-1.0], [0.0], [1.0], [1.5], [2.0]])
    for rows in (X, X[::-1]):
        dense = DBSCAN(1.0, min_samples=4).fit_predict(rows)
        np.testing.assert_array_equal(DBSCAN(1.0, min_samples=4).fit_predict(scipy.sparse.csr_array(rows)), dense)
        assert dense[3] == dense[np.flatnonzero(rows[:, 0] == -1)[0]]


def test_rows_without_a_direction_are_each_others_neighbours():
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    for points in (X, scipy.sparse.csr_array(X)):
        assert DBSCAN(0.05, min_samples=2, metric="cosine").fit_predict(points).tolist() == [0, 0, 1, 1]


def test_sparse_and_dense_queries_are_one(blobs):
    for fitted, of_queries in ((np.asarray, scipy.sparse.csr_array), (scipy.sparse.csr_array, np.asarray)):
        model = DBSCAN(0.3).fit(fitted(blobs))
        np.testing.assert_array_equal(model.predict(of_queries(blobs)), model.labels_)
        assert set(model.predict_kind(of_queries(blobs))) <= {"core", "border", "noise"}
    climbing = DBSCAN(0.3, formulation="climbing").fit(blobs)
    np.testing.assert_array_equal(climbing.predict(scipy.sparse.csr_array(blobs)), climbing.labels_)
    for call in (climbing.fit, climbing.estimate_cost):
        with pytest.raises(BadData, match=r"formulation='climbing' takes dense rows\. Use X\.toarray\(\)"):
            call(scipy.sparse.csr_array(blobs))


def test_the_largest_weights_are_compared_exactly():
    X = np.zeros((5, 1))
    weights = np.array([1e308, 1e308, -1e308, -1e308, 3.0])
    for points in (X, scipy.sparse.csr_array(X)):
        assert DBSCAN(1.0, min_samples=3).fit_predict(points, sample_weight=weights).tolist() == [0] * 5
        assert DBSCAN(1.0, min_samples=4).fit_predict(points, sample_weight=weights).tolist() == [-1] * 5


def test_any_whole_number_is_a_level():
    assert DBSCAN(min_samples=10**30).fit_predict(LINE).tolist() == [-1] * 7


def test_the_cost_validates_its_input():
    with pytest.raises(BadData, match="distances must be to each of the 5 rows"):
        DBSCAN(metric="precomputed").estimate_cost(np.zeros((5, 3)))
    with pytest.raises(BadData, match="X has 3"):
        DBSCAN(metric="haversine").estimate_cost(np.zeros((5, 3)))


def test_a_suggestion_is_made_where_it_can_be_followed(blobs):
    with pytest.warns(SuspiciousResultWarning, match="sorted distances to the 5th neighbour"):
        DBSCAN(1e-9, metric="manhattan").fit_predict(blobs)


def test_the_warning_of_fit_predict_points_at_the_caller(blobs):
    with pytest.warns(SuspiciousResultWarning) as caught:
        DBSCAN(eps=1e-9).fit_predict(blobs)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("eps", "has_cores"), [(0.3, True), (1e-9, False)])
def test_the_core_points_are_copies_in_arrays_of_their_own(dtype, eps, has_cores):
    """The core sorts the points in the memory that holds them afterwards; nothing of that shows."""
    X = np.random.default_rng(5).normal(size=(5000, 2)).astype(dtype)
    before = X.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousResultWarning)
        model = DBSCAN(eps=eps, min_samples=5).fit(X)
    rows, cores = model.core_sample_indices_, model.components_
    assert (len(rows) > 0) == has_cores
    assert len(rows) < len(X)
    assert rows.dtype == np.intp
    assert cores.dtype == dtype
    assert rows.flags.owndata
    assert cores.flags.owndata
    assert cores.flags.c_contiguous
    np.testing.assert_array_equal(cores, X[rows])
    np.testing.assert_array_equal(X, before)
    X += 1
    np.testing.assert_array_equal(cores, before[rows])


@pytest.mark.parametrize(
    ("workspace", "message"),
    [
        (
            {"columns": np.empty(14)},
            r"columns must be contiguous with n_features \* \(n_samples \+ 4\) entries",
        ),
        ({"entries": np.empty(8, dtype=np.int64)}, "entries must be contiguous with one entry per row"),
        ({"entries": np.empty(14, dtype=np.int64)[::2]}, "entries must be contiguous with one entry per row"),
    ],
)
def test_a_workspace_of_another_size_is_refused(workspace, message):
    labels, core = np.empty(len(LINE), dtype=np.int64), np.empty(len(LINE), dtype=np.bool_)
    with pytest.raises(ValueError, match=message):
        _core.dbscan(LINE, 1.0, 3.0, None, "euclidean", 2.0, "first", labels, core, 1, "auto", **workspace)


@pytest.mark.parametrize("size", [1e-300, 1e-35, 1.0, 1e200])
@pytest.mark.parametrize("weight", [1e-100, 1e-20, 1.0])
def test_an_ascent_whose_radius_or_weights_are_far_from_the_data_ends_at_the_mean(size, weight):
    X = size * np.array([[1.0], [3.0], [8.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousResultWarning)  # all of it is one cluster, or noise
        model = DBSCAN(1e305, min_samples=4, formulation="climbing").fit(X, sample_weight=[weight, weight, weight])
    np.testing.assert_allclose(model.climbed_, np.full((3, 1), 4 * size), rtol=1e-15)
    assert (model.predict(X) == model.labels_).all()


def test_the_spectral_version_decides_a_tiny_eps_as_the_graph_does():
    X = np.array([[980.0], [980.0], [0.0], [2.0**-1000], [-980.0]])
    models = [DBSCAN(2.0**-1000, min_samples=2, formulation=f).fit(X) for f in ("spectral", "graph")]
    assert models[0].labels_.tolist() == models[1].labels_.tolist() == [0, 0, 1, 1, -1]


def test_the_climbing_version_names_eps_where_float64_cannot_hold_the_squares():
    with pytest.raises(BadData, match=r"\|X\| up to 980 and eps=1e-300\. Drop the far rows, or take a larger eps\."):
        DBSCAN(1e-300, formulation="climbing").fit([[980.0], [0.0]])


@pytest.mark.parametrize("scale", [1.0, 1e-283, 5e-324, 1e300])
def test_directions_of_sparse_rows_are_those_of_dense_ones_at_any_magnitude(scale):
    rng = np.random.default_rng(0)
    few = rng.integers(-3, 4, size=(12, 3)).astype(float)
    X = np.vstack([few, few[::-1], np.zeros((2, 3))]) * scale
    for eps in (1e-300, 0.03, 0.5):
        for border in ("closest", "first", "noise"):
            parameters = {"eps": eps, "min_samples": 2, "metric": "cosine", "border": border}
            dense = DBSCAN(**parameters).fit(X)
            sparse = DBSCAN(**parameters).fit(scipy.sparse.csr_array(X))
            np.testing.assert_array_equal(sparse.labels_, dense.labels_)
            np.testing.assert_array_equal(sparse.core_sample_indices_, dense.core_sample_indices_)
            np.testing.assert_array_equal(sparse.predict(scipy.sparse.csr_array(X)), sparse.labels_)
    assert (DBSCAN(1e-300, min_samples=2, metric="cosine").fit(scipy.sparse.csr_array(X)).labels_ >= 0).all()


@pytest.mark.parametrize("metric", ["manhattan", "cosine", "euclidean"])
def test_sparse_rows_of_float32_whose_differences_leave_it_are_labelled_as_dense_ones(metric):
    X = np.array([[-3.4e38], [-3.4e38], [3.4e38], [-3.4e38]], dtype=np.float32)
    for order in ([0, 1, 2, 3], [2, 0, 1, 3]):
        dense = DBSCAN(1e172, min_samples=3, metric=metric).fit(X[order])
        sparse = DBSCAN(1e172, min_samples=3, metric=metric).fit(scipy.sparse.csr_array(X[order]))
        assert sparse.labels_.tolist() == dense.labels_.tolist() == [0, 0, 0, 0]


def test_far_sparse_rows_beside_a_small_eps_raise_no_warning_of_numpy():
    rows = scipy.sparse.csr_array(np.array([[-3.3e155], [-3.3e155], [0.0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert DBSCAN(18.5, min_samples=2).fit(rows).labels_.tolist() == [0, 0, -1]


# ---- points on the Earth -------------------------------------------------------------------------------------------


def test_a_radius_may_be_a_length_on_the_earth():
    """Three positions, 1 km apart along a meridian; 50 m around each."""
    rng = np.random.default_rng(0)
    metres = np.repeat([0.0, 1000.0, 2000.0], 20) + rng.uniform(0, 20, 60)
    X = np.radians(np.c_[48.0 + np.degrees(metres / 6371008.8), np.full(60, 11.0)])
    labels = DBSCAN(eps="50m", min_samples=5, metric="haversine").fit_predict(X)
    np.testing.assert_array_equal(labels, np.repeat([0, 1, 2], 20))
    np.testing.assert_array_equal(DBSCAN(50 / 6371008.8, metric="haversine").fit_predict(X), labels)
    with pytest.warns(SuspiciousResultWarning, match="eps=2.5 km is too large"):
        assert not DBSCAN("2.5 km", metric="haversine").fit_predict(X).any()


def test_degrees_are_not_taken_for_radians():
    X = np.array([[0.1, 0.2], [48.1, 11.5]])
    message = (
        r"haversine' takes latitudes in radians, from -π/2 to π/2; row 1 has 48.1. Degrees become radians by numpy"
    )
    for model in (DBSCAN(metric="haversine"), DensityTree(2, metric="haversine")):
        with pytest.raises(BadData, match=message):
            model.fit(X)
    with pytest.raises(InvalidParameter, match="eps='50m' is a length on the Earth, which needs metric='haversine'"):
        DBSCAN("50m").fit(X)
    with pytest.raises(InvalidParameter, match="a length in m, km, ft, mi, nmi, such as '50m', got '50 parsec'"):
        DBSCAN("50 parsec", metric="haversine").fit(X)
