"""KMeans: what it learns, what it answers, what it refuses."""

from __future__ import annotations

import _thread
import json
import re
import sys
import threading
import time
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.exceptions
from sklearn.base import clone
from sklearn.datasets import make_blobs

from knoll import KMeans, datasets
from knoll._common import seeding
from knoll.exceptions import BadData, ConvergenceWarning, InvalidParameter, InvalidType, SuspiciousResultWarning
from knoll.kmeans import lloyd


@pytest.fixture
def X():
    return make_blobs(300, 3, centers=4, random_state=0)[0]


def names(model):
    return {name for name in vars(model) if name.endswith("_")}


# ---- what a fit leaves ---------------------------------------------------------------------------------------------


def test_what_a_fit_leaves(X):
    model = KMeans(4, random_state=0).fit(X)
    assert model.cluster_centers_.shape == (4, 3)
    assert model.labels_.dtype == np.int32
    assert isinstance(model.inertia_, float)
    assert isinstance(model.n_iter_, int)
    np.testing.assert_array_equal(model.cluster_weights_, np.bincount(model.labels_))
    history = model.history_
    assert set(history) == {"iteration", "objective", "changed", "seconds", "relabelled", "distances", "rechecks"}
    assert {len(column) for column in history.values()} == {model.n_iter_}
    assert history["relabelled"][0] == 300
    assert model.n_distances_ >= history["distances"].sum()
    assert 0 <= model.n_rechecks_ <= model.n_distances_
    direct = ((X - model.cluster_centers_[model.labels_]) ** 2).sum()
    assert model.inertia_ == pytest.approx(direct, rel=1e-12)
    np.testing.assert_array_equal(model.fit_predict(X), model.labels_)


def test_lloyd_evaluates_every_distance_and_the_others_no_more():
    X = make_blobs(5000, 4, centers=20, random_state=1)[0]
    counted = {}
    for algorithm in ("lloyd", "hamerly", "elkan"):
        history = KMeans(20, init=X[:20], algorithm=algorithm, tol=0).fit(X).history_
        counted[algorithm] = history["distances"] - 20 * history["rechecks"]  # such a row looks at all again
    assert (counted["lloyd"] == 5000 * 20).all()
    for algorithm in ("hamerly", "elkan"):
        assert counted[algorithm].sum() <= counted["lloyd"].sum()


def test_more_runs_are_no_worse_and_the_first_is_among_them(X):
    one = KMeans(6, init="random", n_init=1, random_state=0, max_iter=2).fit(X)
    many = KMeans(6, init="random", n_init=8, random_state=0, max_iter=2).fit(X)
    assert many.inertia_ < one.inertia_
    assert many.n_distances_ > one.n_distances_
    same = KMeans(6, init=lambda X, k, random_state: X[:k], n_init=3).fit(X)
    np.testing.assert_array_equal(same.labels_, KMeans(6, init=X[:6]).fit(X).labels_)


@pytest.mark.parametrize(
    ("init", "runs"), [("k-means++", 1), ("random", 10), (lambda X, k, random_state: X[:k], 10), ("array", 1)]
)
def test_auto_chooses_the_number_of_runs(X, init, runs, capsys):
    KMeans(5, init=X[:5] if isinstance(init, str) and init == "array" else init, verbose=1, random_state=0).fit(X)
    assert capsys.readouterr().out.count("Initialization complete") == runs


def test_a_callable_is_given_the_points_and_a_random_state(X):
    seen = []

    def init(points, k, random_state):
        seen.append((points, random_state.randint(2**31)))
        return points[random_state.choice(len(points), k, replace=False)]

    a = KMeans(4, init=init, n_init=2, random_state=3).fit(X)
    b = KMeans(4, init=init, n_init=2, random_state=3).fit(X)
    np.testing.assert_array_equal(seen[0][0], X)
    assert [draw for _, draw in seen[:2]] == [draw for _, draw in seen[2:]]
    assert seen[0][1] != seen[1][1]
    np.testing.assert_array_equal(a.labels_, b.labels_)


def test_the_start_is_the_seedings(X):
    rows = seeding.multiset(X, None, 1)
    for name, drawn in (
        ("k-means++", seeding.kmeans_plus_plus(X, rows, 5, 11)),
        ("random", seeding.random_rows(rows, 5, 11)),
    ):
        named = KMeans(5, init=name, n_init=1, random_state=11).fit(X)
        by_rows = KMeans(5, init=X[drawn]).fit(X)
        np.testing.assert_array_equal(named.labels_, by_rows.labels_)
        np.testing.assert_array_equal(named.cluster_centers_, by_rows.cluster_centers_)


@pytest.mark.parametrize("random_state", [5, np.random.RandomState(5), np.random.default_rng(5)])
def test_random_states_of_every_type(X, random_state):
    model = KMeans(4, random_state=random_state).fit(X)
    assert np.unique(model.labels_).tolist() == [0, 1, 2, 3]


def test_float32_rounds_the_centres_before_the_last_assignment():
    rng = np.random.default_rng(0)
    for seed in range(20):
        X = np.round(rng.normal(size=(400, 2)), 1).astype(np.float32)
        model = KMeans(30, random_state=seed).fit(X)
        assert model.cluster_centers_.dtype == np.float32
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        assert model.transform(X).dtype == np.float32


def test_one_cluster_is_the_mean(X):
    model = KMeans(1).fit(X)
    np.testing.assert_allclose(model.cluster_centers_[0], X.mean(axis=0), rtol=1e-13)
    assert model.inertia_ == pytest.approx(X.var(axis=0).sum() * len(X), rel=1e-12)


def test_as_many_clusters_as_points():
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = KMeans(20, random_state=0).fit(X)
    assert model.inertia_ == 0
    assert sorted(model.labels_) == list(range(20))


def test_one_column_and_one_row():
    model = KMeans(2, random_state=0).fit([[0.0], [1.0], [10.0], [11.0]])
    assert sorted(model.cluster_centers_[:, 0]) == [0.5, 10.5]
    assert KMeans(1).fit([[3.0, 4.0]]).cluster_centers_.tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e300, 1e-300])
def test_extreme_magnitudes_give_the_right_answer(X, scale):
    model = KMeans(4, init=X[:4] * scale, tol=0).fit(X * scale)
    plain = KMeans(4, init=X[:4], tol=0).fit(X)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_allclose(model.cluster_centers_ / scale, plain.cluster_centers_, rtol=1e-12)
    np.testing.assert_allclose(model.transform(X * scale) / scale, plain.transform(X), rtol=1e-10)
    np.testing.assert_array_equal(model.predict(scipy.sparse.csr_matrix(X * scale)), plain.labels_)


def test_float32_extremes_keep_their_small_entries():
    X = np.array([[1e38, 0], [1e38, 1e-38], [-1e38, 0], [-1e38, 1e-38]], dtype=np.float32)
    model = KMeans(2, init=X[[0, 2]]).fit(X)
    assert model.labels_.tolist() == [0, 0, 1, 1]
    assert model.cluster_centers_.dtype == np.float32


def test_far_from_the_origin(X):
    shifted = KMeans(4, init=X[:4] + 1e8, tol=0).fit(X + 1e8)
    plain = KMeans(4, init=X[:4], tol=0).fit(X)
    np.testing.assert_array_equal(shifted.labels_, plain.labels_)
    assert shifted.inertia_ == pytest.approx(plain.inertia_, rel=1e-6)
    objective = shifted.history_["objective"]
    assert (np.diff(objective) <= 1e-6 * objective[0]).all()


def test_extreme_weights(X):
    weights = np.random.default_rng(0).integers(1, 5, size=len(X)).astype(float)
    plain = KMeans(4, random_state=0).fit(X, sample_weight=weights)
    for scale in (1e-300, 1e300):
        model = KMeans(4, random_state=0).fit(X, sample_weight=weights * scale)
        np.testing.assert_array_equal(model.labels_, plain.labels_)
        assert np.isfinite(model.cluster_centers_).all()


def test_weights_beside_which_rows_vanish_are_reported(X):
    weights = np.r_[1e300, np.full(len(X) - 1, 1e-300)]
    with pytest.raises(
        BadData, match=r"the sample weights go from 1e-300 to 1e\+300: beside the heaviest rows the sums"
    ):
        KMeans(2, random_state=0).fit(X, sample_weight=weights)
    with pytest.raises(BadData, match="the sample weights go from"):
        KMeans(2, random_state=0).partial_fit(X, sample_weight=weights)
    with pytest.raises(BadData, match="the sample weights go from"):
        KMeans(2, random_state=0).fit_blocks(lambda: [(X[:5], weights[:5]), (X[5:], weights[5:])])


def test_weights_over_many_decades_give_the_exact_means(X):
    """Against fractions: a light cluster's centre is as exact as a heavy one's."""
    weights = 10.0 ** np.random.default_rng(1).uniform(-115, 115, len(X))
    model = KMeans(4, random_state=0, tol=0).fit(X, sample_weight=weights)
    for c in range(4):
        own = model.labels_ == c
        mass = sum(map(Fraction, weights[own].tolist()))
        for j in range(X.shape[1]):
            mean = (
                sum(Fraction(w) * Fraction(x) for w, x in zip(weights[own].tolist(), X[own, j].tolist(), strict=True))
                / mass
            )
            assert model.cluster_centers_[c, j] == pytest.approx(float(mean), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("small", [1e-100, 1e-130, 1e-170, 1e-250])
def test_clusters_beside_far_larger_ones(small):
    """Two close pairs and a far row: the right labels where squares hold both, else a warning that they do not."""
    X = np.array([[1.0], [1.1], [5.0], [5.1]]) * small
    X = np.concatenate([X, [[1.0], [1.01]]])
    start = np.array([[1.0 * small], [5.0 * small], [1.0]])
    if small > 1e-135:
        model = KMeans(3, init=start, tol=0).fit(X)
        assert model.labels_.tolist() == [0, 0, 1, 1, 2, 2]
        np.testing.assert_array_equal(model.predict(X), model.labels_)
    else:
        with pytest.warns(SuspiciousResultWarning, match=r"centres 0 and 1 lie .* apart, and others so far away"):
            KMeans(3, init=start, tol=0).fit(X)


# ---- empty clusters ------------------------------------------------------------------------------------------------


def test_an_empty_cluster_begins_anew_at_the_farthest_point():
    X = np.array([[0.0], [1.0], [2.0], [30.0], [7.0]])
    model = KMeans(2, init=[[1.0], [1000.0]], max_iter=1).fit(X)
    assert model.cluster_centers_.tolist() == [[2.5], [30.0]]
    assert model.labels_.tolist() == [0, 0, 0, 1, 0]


def test_copies_of_the_farthest_point_move_together_and_rows_of_weight_zero_do_not_count():
    X = np.array([[0.0], [1.0], [30.0], [30.0], [99.0]])
    model = KMeans(2, init=[[1.0], [1000.0]], max_iter=1).fit(X, sample_weight=[1, 1, 1, 2, 0])
    assert model.cluster_centers_.tolist() == [[0.5], [30.0]]
    assert model.cluster_weights_.tolist() == [2.0, 3.0]


def test_of_equally_far_points_the_smallest_coordinates_move():
    X = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        model = KMeans(2, init=[[0.0, 0.0], [1e3, 0.0]], max_iter=1).fit(X[order])
        assert model.cluster_centers_[1].tolist() == [-3.0, 0.0]


def test_a_cluster_keeps_one_of_its_points():
    # the farthest point is the only one of its cluster, so the next one moves
    X = np.array([[0.0], [1.0], [50.0]])
    model = KMeans(3, init=[[0.4], [70.0], [1000.0]], max_iter=1).fit(X)
    assert sorted(model.cluster_centers_[:, 0]) == [0.0, 1.0, 50.0]


def test_many_copies_do_not_hide_the_points_behind_them():
    X = np.vstack([np.full((500, 1), 90.0), [[0.0]], [[1.0]], [[40.0]], [[60.0]]])
    model = KMeans(4, init=[[0.0], [500.0], [600.0], [700.0]], max_iter=1).fit(X)
    assert sorted(model.cluster_centers_[:, 0]) == [0.5, 40.0, 60.0, 90.0]


@pytest.mark.parametrize(("dtype", "far"), [("float32", 1e39), ("float64", 1e300)])
def test_a_start_beyond_squares_is_refused(dtype, far):
    with pytest.raises(
        InvalidParameter, match=rf"magnitude {far:.3g}, too far from data of dtype {dtype}".replace("+", r"\+")
    ):
        KMeans(2, init=[[0.5], [far]]).fit(np.array([[0.0], [1.0]], dtype=dtype))
    near = np.array([[far / 40], [far / 20]]).astype(dtype)
    assert KMeans(2, init=near).fit(near).labels_.tolist() == [0, 1]


def test_a_start_far_beyond_tiny_data_is_refused_and_no_warning_of_numpy_leaks():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidParameter, match=r"magnitude 1.8e\+33, too far from data"):
            KMeans(2, init=[[0.0], [1.8e33]]).fit([[-2.5e-291], [0.0]])


def test_fewer_distinct_points_than_clusters_is_reported_as_scikit_learn_does():
    X = [[0, 0], [0, 1], [1, 0], [1, 0]]
    with pytest.warns(
        ConvergenceWarning,
        match=r"Number of distinct clusters \(3\) found smaller than n_clusters \(4\)\. Possibly due to duplicate "
        r"points in X\. Ask for fewer clusters",
    ) as caught:
        model = KMeans(4, random_state=0).fit(X)
    assert caught[0].filename == __file__
    assert isinstance(caught[0].message, sklearn.exceptions.ConvergenceWarning)
    assert set(model.labels_) == {0, 1, 2}
    assert model.inertia_ == 0
    np.testing.assert_array_equal(model.predict(X), model.labels_)


# ---- blocks --------------------------------------------------------------------------------------------------------


def test_a_memory_mapped_file_in_blocks(tmp_path, X):
    file = np.memmap(tmp_path / "x.bin", dtype=float, mode="w+", shape=X.shape)
    file[:] = X
    model = KMeans(4, random_state=0).fit_blocks(lambda: (file[i : i + 70] for i in range(0, 300, 70)))
    whole = KMeans(4, random_state=0).fit(X)
    np.testing.assert_array_equal(model.cluster_centers_, whole.cluster_centers_)
    assert model.inertia_ == whole.inertia_
    assert names(model) == names(whole) - {"labels_"}
    assert set(whole.history_) - set(model.history_) == {"relabelled"}


def test_blocks_after_a_fit_leave_no_old_labels(X):
    model = KMeans(4, random_state=0).fit(X)
    assert not hasattr(model.fit_blocks(lambda: [X, X]), "labels_")


def test_more_rows_than_the_sample_holds():
    X = make_blobs(70_000, 2, centers=5, random_state=0)[0]
    a = KMeans(5, random_state=0).fit_blocks(lambda: np.array_split(X, 3))
    b = KMeans(5, random_state=0).fit_blocks(lambda: np.array_split(X, 8))
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    assert a.inertia_ == pytest.approx(KMeans(5, random_state=0).fit(X).inertia_, rel=0.05)


def test_blocks_that_cannot_be_used_are_reported(X):
    with pytest.raises(InvalidParameter, match="make_blocks must be a callable"):
        KMeans(2).fit_blocks([X])
    with pytest.raises(BadData, match="make_blocks\\(\\) gave no rows"):
        KMeans(2).fit_blocks(list)
    with pytest.raises(BadData, match=r"n_samples=5 should be >= n_clusters=8\. Give more rows, or ask for fewer"):
        KMeans().fit_blocks(lambda: [X[:2], X[:3]])
    bad = X.copy()
    bad[250, 1] = np.nan
    with pytest.raises(BadData, match="X has a NaN at row 250, column 1"):
        KMeans(2).fit_blocks(lambda: [bad[:200], bad[200:]])
    with pytest.raises(BadData, match="every sample_weight is zero"):
        KMeans(2).fit_blocks(lambda: [(X, np.zeros(300))])


# ---- partial_fit ---------------------------------------------------------------------------------------------------


def test_partial_fit_goes_on_after_fit(X):
    model = KMeans(4, random_state=0).fit(X)
    before, counts = model.cluster_centers_.copy(), model.cluster_weights_.copy()
    model.partial_fit(before[2:3] + 0.1)
    np.testing.assert_array_equal(np.delete(model.cluster_centers_, 2, axis=0), np.delete(before, 2, axis=0))
    np.testing.assert_allclose(model.cluster_centers_[2], before[2] + 0.1 / (counts[2] + 1), rtol=1e-13)
    assert model.cluster_weights_.sum() == 301
    assert model.n_steps_ == 1
    assert model.labels_.tolist() == [2]


def test_partial_fit_alone_is_a_whole_estimator(X):
    model = KMeans(4, random_state=0)
    for batch in np.array_split(X, 5):
        model.partial_fit(batch)
    assert model.n_steps_ == model.n_iter_ == 5
    assert model.history_["iteration"].tolist() == [1, 2, 3, 4, 5]
    assert {len(column) for column in model.history_.values()} == {5}
    header, arrays = model.to_state()
    again = KMeans.from_state(json.loads(json.dumps(header)), arrays)
    np.testing.assert_array_equal(again.partial_fit(X).cluster_centers_, model.partial_fit(X).cluster_centers_)
    model.fit(X)
    assert not hasattr(model, "n_steps_")


def test_partial_fit_of_one_batch_is_one_step(X):
    batch = KMeans(4, init=X[:4]).partial_fit(X)
    step = KMeans(4, init=X[:4], max_iter=1).fit(X)
    np.testing.assert_allclose(batch.cluster_centers_, step.cluster_centers_, rtol=1e-14)
    np.testing.assert_array_equal(batch.labels_, step.labels_)


def test_partial_fit_refuses_what_does_not_fit(X):
    with pytest.raises(BadData, match=r"n_samples=3 should be >= n_clusters=4"):
        KMeans(4).partial_fit(X[:3])
    model = KMeans(4, random_state=0).partial_fit(X)
    before = model.cluster_centers_.copy()
    with pytest.raises(BadData, match="X has 2 features, but KMeans is expecting 3"):
        model.partial_fit(X[:, :2])
    with pytest.raises(BadData, match="X has a NaN at row 0"):
        model.partial_fit([[np.nan, 0, 0]])
    with pytest.raises(BadData, match=r"the sums of the sample weights leave float64\. Divide them by their largest"):
        model.partial_fit(X, sample_weight=np.full(300, 1e308))
    np.testing.assert_array_equal(model.cluster_centers_, before)
    assert model.n_steps_ == 1


# ---- answers -------------------------------------------------------------------------------------------------------


def test_frames_in_and_frames_out(X):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = KMeans(4, random_state=0).set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == ["kmeans0", "kmeans1", "kmeans2", "kmeans3"]
    assert model.get_feature_names_out().tolist() == list(out.columns)
    np.testing.assert_array_equal(out.to_numpy(), model.transform(frame).to_numpy())
    assert list(model.feature_names_in_) == ["a", "b", "c"]


def test_transform_is_the_distance(X):
    model = KMeans(4, random_state=0).fit(X)
    direct = np.sqrt(((X[:, None] - model.cluster_centers_[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(model.transform(X), direct, rtol=1e-14)
    np.testing.assert_array_equal(model.transform(X).argmin(axis=1), model.labels_)


def test_score_is_minus_the_inertia(X):
    weights = np.random.default_rng(0).uniform(size=len(X))
    model = KMeans(4, random_state=0).fit(X, sample_weight=weights)
    assert model.score(X, sample_weight=weights) == pytest.approx(-model.inertia_, rel=1e-12)
    assert model.score(X, sample_weight=np.zeros(len(X))) == 0


def test_a_fitted_model_survives_read_only_memory(X):
    model = KMeans(4, random_state=0).fit(X)
    labels = model.labels_
    model.cluster_centers_ = np.asfortranarray(model.cluster_centers_)
    model.cluster_centers_.flags.writeable = False
    np.testing.assert_array_equal(model.predict(X), labels)


# ---- what others of knoll call -------------------------------------------------------------------------------------


def test_lloyd_without_an_estimator(X):
    result = lloyd.lloyd(X, None, X[:4], threads=2)
    model = KMeans(4, init=X[:4]).fit(X)
    np.testing.assert_array_equal(result.labels, model.labels_)
    np.testing.assert_array_equal(result.centers, model.cluster_centers_)
    assert (result.inertia, result.n_iter) == (model.inertia_, model.n_iter_)
    huge = lloyd.lloyd(X * 2.0**500, None, X[:4] * 2.0**500)
    np.testing.assert_array_equal(huge.labels, result.labels)
    np.testing.assert_array_equal(huge.centers, result.centers * 2.0**500)


# ---- what it reports and refuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("tol", "message"), [(0, "strict convergence"), (1e-2, r"center shift \S+ within tolerance")])
def test_verbose_reports_the_steps(tol, message, capsys):
    X = np.random.default_rng(0).normal(size=(2000, 5))
    model = KMeans(6, random_state=0, tol=tol, verbose=1).fit(X)
    out = capsys.readouterr().out
    assert out.count("KMeans: Iteration ") == model.n_iter_
    assert re.search(rf"Converged at iteration {model.n_iter_}: {message}", out)
    KMeans(6, random_state=0, tol=0, max_iter=2, verbose=1).fit(X)
    assert "Stopped at iteration 2: max_iter" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("parameters", "error_type", "message"),
    [
        ({"n_clusters": 0}, InvalidParameter, "n_clusters must be >= 1, got 0"),
        ({"n_clusters": 2.5}, InvalidType, "n_clusters must be a whole number, got 2.5"),
        ({"n_init": 0}, InvalidParameter, "n_init must be >= 1 and <= 65536, got 0"),
        ({"n_init": "many"}, InvalidParameter, "n_init must be one of 'auto', got 'many'"),
        ({"max_iter": 0}, InvalidParameter, "max_iter must be >= 1, got 0"),
        ({"tol": -1.0}, InvalidParameter, "tol must be >= 0, got -1.0"),
        ({"copy_x": 1}, InvalidType, "copy_x must be True or False, got 1"),
        ({"algorithm": "full"}, InvalidParameter, "algorithm must be one of 'auto', 'lloyd', 'hamerly', 'elkan'"),
        ({"empty_clusters": "drop"}, InvalidParameter, "empty_clusters must be one of 'relocate', 'keep'"),
        ({"init": "k-means"}, InvalidParameter, "init must be 'k-means\\+\\+', 'random', an array .* got 'k-means'"),
        ({"init": 3}, InvalidType, "init must be 'k-means\\+\\+', 'random', an array of centres or a callable, got 3"),
        ({"init": np.zeros((2, 3))}, InvalidParameter, r"centers \(2, 3\) does not match the number of clusters 8"),
        (
            {"init": np.zeros((8, 2))},
            InvalidParameter,
            r"centers \(8, 2\) does not match the number of features of .* 3",
        ),
        ({"init": np.full((8, 3), np.nan)}, BadData, "NaN"),
        ({"n_clusters": 301}, BadData, "n_samples=300 should be >= n_clusters=301. Give more rows, or ask for fewer"),
    ],
)
def test_parameters_that_break_their_rule_are_reported(X, parameters, error_type, message):
    with pytest.raises(error_type, match=message):
        KMeans(**parameters).fit(X)


def test_warnings_are_scikit_learns_and_point_at_the_caller(X):
    with pytest.warns(RuntimeWarning, match="performing only one init in KMeans instead of n_init=5") as caught:
        KMeans(4, init=X[:4], n_init=5).fit(X)
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="algorithm='elkan' doesn't make sense for a single cluster") as caught:
        KMeans(1, algorithm="elkan").fit(X)
    assert caught[0].filename == __file__
    for method in ("fit", "fit_predict"):
        call, line = getattr(KMeans(4, init=X[:4], n_init=5), method), sys._getframe().f_lineno + 2
        with pytest.warns(RuntimeWarning, match="performing only one init") as caught:
            call(X)
        assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, line)]


def test_sparse_data_that_is_not_finite_is_reported():
    X = scipy.sparse.csr_matrix(np.eye(10))
    X.data[4] = np.inf
    with pytest.raises(BadData, match="X has an infinity at row 4, column 4"):
        KMeans(2).fit(X)


def test_a_callable_start_is_not_saved_in_a_model_file(X):
    model = KMeans(4, init=lambda X, k, random_state: X[:k]).fit(X)
    with pytest.raises(ValueError, match=r"parameters\.init is .* which a model file cannot hold"):
        model.to_state()
    assert KMeans.from_state(*KMeans(4, init=X[:4]).fit(X).to_state()).init.tolist() == X[:4].tolist()


def test_the_given_start_is_left_alone(X):
    start = X[:4].copy()
    model = KMeans(4, init=start).fit(X)
    np.testing.assert_array_equal(start, X[:4])
    assert not np.shares_memory(model.cluster_centers_, start)
    assert clone(model).init is not start


def test_ctrl_c_leaves_the_estimator_as_it_was():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200_000, 8))
    model = KMeans(64, init=X[:64], tol=0, max_iter=100_000, algorithm="lloyd")
    threading.Timer(0.5, _thread.interrupt_main).start()
    begun = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert time.perf_counter() - begun < 10
    assert names(model) == set()


def test_the_data_of_the_paper():
    X = datasets.load("iris").X
    model = KMeans(3, random_state=0, n_init=10).fit(X)
    assert model.inertia_ == pytest.approx(78.8514414, rel=1e-8)  # the value every textbook gives


# ---- rows and columns of very different magnitude ------------------------------------------------------------------

WALL = np.array([[1e200, 0], [1e200, 1], [1e200, 100], [1e200, 101]])  # a column without information


@pytest.mark.parametrize("far", [1e200, -1e308, 1e40, 3e20])
def test_what_is_reported_of_a_row_does_not_depend_on_its_batch(far):
    model = KMeans(2, random_state=0).fit([[0.0], [1.0]])
    rows = np.array([[0.0], [0.7], [1.0], [1e-250], [far]])
    for container in (np.asarray, scipy.sparse.csr_matrix):
        alone = [model.predict(container(row[None]))[0] for row in rows]
        np.testing.assert_array_equal(model.predict(container(rows)), alone)
        np.testing.assert_array_equal(model.predict(container(rows))[:4], model.predict(rows[:4]))
        distances = model.transform(container(rows))
        np.testing.assert_array_equal(distances[:4], model.transform(rows[:4]))
        np.testing.assert_allclose(distances[4], np.abs(far - model.cluster_centers_.ravel()), rtol=1e-15)
    assert model.score(rows[:4]) == pytest.approx(-0.09, rel=1e-12)
    assert model.score(rows) == (-np.inf if abs(far) > 1e160 else pytest.approx(-(far**2)))


def test_distances_from_a_centre_at_the_origin_keep_the_smallest_rows():
    model = KMeans(1).fit([[-1e-200], [1e-200]])
    assert model.cluster_centers_[0, 0] == 0
    np.testing.assert_allclose(model.transform([[3e-250], [2.0], [5e210]]).ravel(), [3e-250, 2, 5e210], rtol=1e-15)


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix, np.asfortranarray])
def test_a_huge_constant_column_hides_nothing(container):
    model = KMeans(2, init=WALL[[0, 3]]).fit(container(WALL))
    np.testing.assert_array_equal(model.labels_, [0, 0, 1, 1])
    np.testing.assert_array_equal(model.predict(container(WALL)), model.labels_)
    np.testing.assert_array_equal(model.cluster_centers_, [[1e200, 0.5], [1e200, 100.5]])
    np.testing.assert_array_equal(model.transform(container(WALL)), np.abs(WALL[:, 1:] - [[0.5, 100.5]]))
    assert model.inertia_ == 1
    assert model.score(container(WALL)) == -1
    assert len(np.unique(KMeans(4, random_state=0).fit(container(WALL)).labels_)) == 4
    seen = []
    start = lambda X, k, random_state: seen.append(X) or WALL[[0, 3]]  # noqa: E731
    KMeans(2, init=start, n_init=1).fit(container(WALL))
    np.testing.assert_array_equal(seen[0].toarray() if scipy.sparse.issparse(seen[0]) else seen[0], WALL)


def test_a_huge_constant_column_in_blocks_and_batches():
    model = KMeans(2, init=WALL[[0, 3]]).fit_blocks(lambda: iter([WALL[:1], WALL[1:]]))
    np.testing.assert_array_equal(model.cluster_centers_, [[1e200, 0.5], [1e200, 100.5]])
    model.partial_fit(WALL)
    np.testing.assert_array_equal(model.labels_, [0, 0, 1, 1])
    np.testing.assert_array_equal(model.cluster_centers_, [[1e200, 0.5], [1e200, 100.5]])


def test_labels_are_those_of_predict_where_rows_differ_by_all_of_float64():
    X = np.array([[1e200], [-1e200], [0.0], [1.0], [2.0]])
    with (
        pytest.warns(ConvergenceWarning, match="smaller than n_clusters"),
        pytest.warns(SuspiciousResultWarning, match="so far away that no float64 holds the squares"),
    ):
        model = KMeans(2, init=[[0.0], [1.0]], empty_clusters="keep").fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_a_batch_beyond_the_scale_of_the_centres_is_refused():
    model = KMeans(2, random_state=0).fit(np.array([[0.0], [1.0], [5.0]]) * 1e-300)
    before = model.cluster_centers_.copy()
    with pytest.raises(BadData, match=r"batch with values up to 2e\+300 is too far from .* Give it in the units of"):
        model.partial_fit([[1e300], [2e300]])
    np.testing.assert_array_equal(model.cluster_centers_, before)


def test_the_objective_never_rises_beside_a_far_outlier():
    X = np.r_[np.random.default_rng(0).normal(size=(500, 2)), [[1e8, 1e8]]]
    model = KMeans(8, random_state=0, tol=0).fit(X)
    objective = model.history_["objective"]
    assert (np.diff(objective) <= 1e-12 * objective[:-1]).all()
    assert objective[-1] == pytest.approx(model.inertia_, rel=1e-12)
    blocks = KMeans(8, random_state=0, tol=0).fit_blocks(lambda: np.array_split(X, 3))
    np.testing.assert_array_equal(blocks.history_["objective"], objective)


# ---- what validation refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda X: X.indices.__setitem__(0, 2**30), r"has an index 1073741824, which is not within \[0, 3\)"),
        (lambda X: X.indices.__setitem__(0, -1), r"has an index -1, which is not within \[0, 3\)"),
        (lambda X: X.indptr.__setitem__(-1, 2**30), "indptr of the sparse X must rise from 0 to at most 900"),
        (lambda X: X.indptr.__setitem__(5, 800), "indptr of the sparse X must rise from 0"),
        (lambda X: setattr(X, "data", X.data[:-1]), "data of 899 entries, which do not belong together"),
    ],
)
def test_a_malformed_sparse_matrix_is_refused(X, break_it, message):
    for container in (scipy.sparse.csr_matrix, scipy.sparse.csr_array):
        bad = container(X)
        break_it(bad)
        model = KMeans(2, random_state=0)
        with pytest.raises(BadData, match=message):
            model.fit(bad)
        with pytest.raises(BadData, match="check_format"):
            model.partial_fit(bad)
        model.fit(X)
        with pytest.raises(BadData, match="build the matrix anew"):
            model.predict(bad)
    turned = scipy.sparse.csc_matrix(X)
    turned.indices[0] = 300
    with pytest.raises(BadData, match=r"index 300, which is not within \[0, 300\)"):
        KMeans(2).fit(turned)


def test_a_start_that_is_not_finite_is_named(X):
    with pytest.raises(BadData, match=r"KMeans: init must be finite, but has a NaN at row 1, column 2. Start from"):
        KMeans(2, init=[[0.0, 1, 2], [3, 4, np.nan]]).fit(X)


def test_batches_do_not_change_the_number_of_clusters(X):
    model = KMeans(2, random_state=0).fit(X).set_params(n_clusters=5)
    with pytest.raises(InvalidParameter, match=r"cannot go on from 2 centres to n_clusters=5. Fit anew, or set n_clus"):
        model.partial_fit(X)


@pytest.mark.parametrize("bad", [None, "x", np.zeros(2), np.zeros((2, 2)) + 1j, [["a", "b"], ["c", "d"]], {"a": 1}])
def test_a_start_that_is_none_is_named_as_the_start(bad):
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(InvalidParameter, match=r"what init returned must be centres, an array of numbers of shape \(2"):
        KMeans(2, init=lambda X, k, random_state: bad).fit(X)
    if bad is not None and not isinstance(bad, str):
        with pytest.raises(InvalidParameter, match=r"KMeans: init must be centres, an array of numbers of shape \(2"):
            KMeans(2, init=bad).fit(X)


@pytest.mark.parametrize("make", [np.array, scipy.sparse.csr_array])
def test_a_start_that_writes_into_the_points_does_not_change_them(make):
    def greedy(points, k, random_state):
        dense = points.data if hasattr(points, "indptr") else points
        dense[...] = 0.0
        return np.array([[0.0, 1.0], [6.0, 7.0]])

    rows = np.arange(8.0).reshape(4, 2)
    X = make(rows)
    model = KMeans(2, init=greedy, n_init=2).fit(X)
    assert np.array_equal(X.toarray() if hasattr(X, "toarray") else X, rows)
    assert model.labels_.tolist() == [0, 0, 1, 1]


def test_as_many_runs_as_a_draw_has_numbers_for():
    with pytest.raises(InvalidParameter, match="n_init must be >= 1 and <= 65536, got 65537"):
        KMeans(1, n_init=65537).fit([[0.0], [1.0]])
