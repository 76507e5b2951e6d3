"""MeanShift: its answers on small exact examples, beside scikit-learn's, and its messages."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
import sklearn.cluster
from sklearn.datasets import load_iris, make_blobs

from knoll import MeanShift, plots
from knoll.density.ascent import KernelDensity
from knoll.exceptions import BadData, ConvergenceWarning, InvalidParameter, InvalidType, SuspiciousResultWarning
from knoll.scales import estimate_bandwidth


def blobs(n=600, d=2, seed=0, std=0.8):
    return make_blobs(n, d, centers=5, cluster_std=std, random_state=seed)[0]


def test_a_start_with_nothing_around_it_has_no_weight():
    """Not that of a path before it, either: there are more starts here than a batch has rows."""
    X = blobs(300)
    starts = np.concatenate([X, X + 1000.0])
    ends = KernelDensity(X, None, 1.0).ascend(starts, 100)
    assert (ends.weight[:300] > 0).all()
    assert (ends.weight[300:] == 0).all()
    with_far, without = (MeanShift(bandwidth=1.0, seeds=seeds).fit(X) for seeds in (starts, X))
    assert np.array_equal(with_far.cluster_centers_, without.cluster_centers_)


# ---- small exact examples --------------------------------------------------------------------------------------------


def test_clusters_are_numbered_by_how_much_lies_within_the_bandwidth():
    model = MeanShift(bandwidth=2.0).fit([[0.0], [1.0], [9.0], [10.0], [10.5], [50.0]])
    assert model.labels_.tolist() == [1, 1, 0, 0, 0, 2]
    assert model.cluster_centers_.ravel().tolist() == [29.5 / 3, 0.5, 50.0]
    assert model.n_iter_ == 1


def test_ties_of_the_numbering_go_to_larger_coordinates():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [5.0, 0.0], [5.0, 0.0], [5.0, 9.0], [5.0, 9.0]])
    assert MeanShift(bandwidth=1.0).fit(X).labels_.tolist() == [2, 2, 1, 1, 0, 0]


def test_ends_within_the_bandwidth_of_each_other_are_one_cluster():
    """−½, 0 and ½ are the ends of −1, 0 and 1 at ε = 1: three ends, one component."""
    model = MeanShift(bandwidth=1.0).fit([[-1.0], [0.0], [1.0], [9.0]])
    assert model.peaks_.ravel().tolist() == [0.0, 0.5, -0.5, 9.0]  # the most neighbours first, then the larger
    assert model.peak_labels_.tolist() == [0, 0, 0, 1]
    assert model.labels_.tolist() == [0, 0, 0, 1]
    assert model.cluster_centers_.ravel().tolist() == [0.0, 9.0]


def test_noise_is_what_is_alone_in_its_cluster():
    X = [[0.0], [1.0], [9.0], [50.0]]
    model = MeanShift(bandwidth=2.0, cluster_all=False).fit(X)
    assert model.labels_.tolist() == [0, 0, -1, -1]
    assert model.cluster_centers_.tolist() == [[0.5]]
    assert model.predict([[8.5], [0.2], [100.0], [3.0]]).tolist() == [-1, 0, -1, 0]  # the last climbs over 1
    assert MeanShift(bandwidth=2.0).fit(X).predict([[100.0]]).tolist() == [1]
    # two equal rows are not alone, and a row of weight 2 is two rows
    twice = MeanShift(bandwidth=2.0, cluster_all=False).fit(X, sample_weight=[1, 1, 2, 1])
    assert twice.labels_.tolist() == [1, 1, 0, -1]  # as many neighbours, larger coordinates
    none = MeanShift(bandwidth=0.1, cluster_all=False).fit(X)
    assert none.labels_.tolist() == [-1] * 4
    assert none.cluster_centers_.shape == (0, 1)


def test_a_fixed_point_with_a_row_on_its_sphere_is_no_peak():
    """{−1, 0, 1} at ε = 1: 0 is a fixed point and a local minimum (docs/theory/errata.md, item 13)."""
    model = MeanShift(bandwidth=1.0).fit([[-1.0], [0.0], [1.0]])
    assert model.climbed_.ravel().tolist() == [-0.5, 0.0, 0.5]
    assert model.is_peak_.tolist() == [True, False, True]


def test_paths_begin_at_the_rows_and_end_at_climbed():
    X = blobs(300)
    model = MeanShift(bandwidth=1.0).fit(X)
    paths = model.paths(X)
    assert all((path[0] == x).all() for path, x in zip(paths, X, strict=True))
    assert all((path[-1] == end).all() for path, end in zip(paths, model.climbed_, strict=True))
    assert [len(path) - 1 for path in paths] == model.n_steps_.tolist()


@pytest.mark.parametrize("assign", ["climb", "nearest"])
@pytest.mark.parametrize("cluster_all", [True, False])
@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predict_gives_the_labels_of_the_training_data(assign, cluster_all, kernel, dtype):
    X = np.vstack([blobs(400), [[40.0, 40.0]]]).astype(dtype)
    model = MeanShift(bandwidth=0.7, assign=assign, cluster_all=cluster_all, kernel=kernel).fit(X)
    assert (model.predict(X) == model.labels_).all()
    assert model.cluster_centers_.dtype == model.climbed_.dtype == dtype
    assert (model.labels_.min() == -1) == (not cluster_all)


def test_predict_holds_for_rows_of_weight_zero_and_cut_paths():
    X = blobs(300)
    weights = np.random.default_rng(1).integers(0, 3, size=len(X))
    model = MeanShift(bandwidth=0.8).fit(X, sample_weight=weights)
    assert (model.predict(X) == model.labels_).all()
    with pytest.warns(ConvergenceWarning, match=r"paths had not ended after max_iter=2 steps\. Raise max_iter"):
        model = MeanShift(bandwidth=0.8, max_iter=2).fit(X)
    assert (model.predict(X) == model.labels_).all()
    assert model.n_iter_ == 2


# ---- beside scikit-learn ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster_all", [True, False])
@pytest.mark.parametrize("how", ["rows", "seeds", "bins", "some bins"])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_with_the_nearest_rule_it_is_scikit_learns(how, cluster_all, d):
    X = blobs(120, d, seed=d)
    bandwidth = 0.9 * np.sqrt(d)
    parameters = {
        "rows": {},
        "seeds": {"seeds": X[::9] + 0.1},
        "bins": {"bin_seeding": True},
        "some bins": {"bin_seeding": True, "min_bin_freq": 3},
    }[how]
    theirs = sklearn.cluster.MeanShift(bandwidth=bandwidth, cluster_all=cluster_all, **parameters).fit(X)
    ours = MeanShift(bandwidth=bandwidth, cluster_all=cluster_all, assign="nearest", **parameters).fit(X)
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-12, atol=1e-12)
    assert (ours.labels_ == theirs.labels_).all()
    assert ours.n_iter_ == theirs.n_iter_


def test_the_estimated_bandwidth_is_scikit_learns():
    for X in (load_iris().data, blobs(700, 3), np.ones((5, 2)), blobs(2, 2)):
        expected = sklearn.cluster.estimate_bandwidth(X)
        np.testing.assert_allclose(MeanShift().fit(X).bandwidth_, expected, rtol=1e-9, atol=1e-300)


def test_of_many_rows_the_bandwidth_is_estimated_from_a_sample():
    X = blobs(12_000)
    sampled = estimate_bandwidth(X)
    exact = sklearn.cluster.estimate_bandwidth(X[:4000])
    assert abs(sampled / exact - 1) < 0.05
    assert sampled == estimate_bandwidth(X[::-1].copy(), n_jobs=2)


def test_a_bandwidth_of_zero_that_was_estimated_joins_equal_rows():
    X = np.array([1.0, 1, 1, 2, 2, 2, 3, 3]).reshape(-1, 1)
    model = MeanShift().fit(X)
    assert model.bandwidth_ == 0
    assert model.labels_.tolist() == [1, 1, 1, 0, 0, 0, 2, 2]


def test_a_number_of_steps_beyond_what_the_core_counts_to():
    model = MeanShift(bandwidth=1.0, max_iter=2**70).fit([[0.0], [1.0]])
    assert model.n_iter_ < 5
    assert len(model.paths([[0.0]])[0]) == model.n_steps_[0] + 1


# ---- extreme data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [-1000, -500, 500, 1000])
@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
def test_powers_of_two_scale_the_answer_exactly(power, kernel):
    X = blobs(200)
    here = MeanShift(bandwidth=0.8, kernel=kernel).fit(X)
    there = MeanShift(bandwidth=float(np.ldexp(0.8, power)), kernel=kernel).fit(np.ldexp(X, power))
    assert (there.labels_ == here.labels_).all()
    if kernel == "flat":
        assert (there.climbed_ == np.ldexp(here.climbed_, power)).all()


def test_extreme_data_and_no_bandwidth():
    X = blobs(200)
    here = MeanShift().fit(X)
    for power in (-1000, 1000):
        there = MeanShift().fit(np.ldexp(X, power))
        assert there.bandwidth_ == np.ldexp(here.bandwidth_, power)
        assert (there.labels_ == here.labels_).all()


def test_many_equal_points_and_a_far_outlier():
    X = np.zeros((100_000, 2))
    X[0] = 1e9
    model = MeanShift(bandwidth=1.0).fit(X)
    assert model.labels_[0] == 1
    assert not model.labels_[1:].any()


def test_extreme_weights():
    X = blobs(100)
    weights = np.full(100, 1e300)
    assert (
        MeanShift(bandwidth=1.0).fit(X, sample_weight=weights).labels_ == MeanShift(bandwidth=1.0).fit(X).labels_
    ).all()
    weights[:50] = 1e-300
    assert np.isfinite(MeanShift(bandwidth=1.0).fit(X, sample_weight=weights).climbed_).all()


# ---- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error_type", "message"),
    [
        ({"bandwidth": 0.0}, InvalidParameter, r"bandwidth must be > 0, got 0\.0\. None estimates it"),
        ({"bandwidth": -1}, InvalidParameter, r"bandwidth must be > 0, got -1"),
        ({"bandwidth": "wide"}, InvalidType, r"bandwidth must be None or a number, got 'wide'"),
        ({"bin_seeding": 1}, InvalidType, r"bin_seeding must be True or False, got 1"),
        ({"min_bin_freq": 0}, InvalidParameter, r"min_bin_freq must be >= 1, got 0"),
        ({"max_iter": -1}, InvalidParameter, r"max_iter must be >= 0, got -1"),
        ({"kernel": "round"}, InvalidParameter, r"kernel must be one of 'flat', 'gaussian', got 'round'"),
        ({"assign": "far"}, InvalidParameter, r"assign must be one of 'climb', 'nearest', got 'far'"),
        (
            {"seeds": "here"},
            InvalidType,
            r"seeds must be None or an array of shape \(n_seeds, n_features\), got 'here'",
        ),
        ({"seeds": [[1.0]], "bandwidth": 1.0}, BadData, r"seeds have 1 columns and X has 2\. One row of seeds"),
        ({"seeds": [[np.nan, 1.0]], "bandwidth": 1.0}, BadData, r"seeds cannot be used"),
        ({"seeds": [[99.0, 9.0]], "bandwidth": 0.1}, BadData, r"No point was within bandwidth=0\.1 of any seed\. Give"),
        (
            {"bin_seeding": True, "bandwidth": 0.1, "min_bin_freq": 99},
            BadData,
            r"no bin of width 0\.1 holds min_bin_freq=99 rows\. Lower min_bin_freq",
        ),
    ],
)
def test_a_message_names_what_is_wrong(parameters, error_type, message):
    with pytest.raises(error_type, match=message):
        MeanShift(**parameters).fit(blobs(60))


def test_bins_of_one_row_each_are_warned_of():
    X = blobs(30)
    with pytest.warns(SuspiciousResultWarning, match=r"with bandwidth=1e-06 every row has a bin of its own"):
        MeanShift(bandwidth=1e-6, bin_seeding=True).fit(X)


def test_numbers_whose_squares_float64_cannot_hold_together_are_refused():
    with pytest.raises(BadData, match=r"cannot hold the squares of both \|X\| up to 1e\+300 and bandwidth=1e-30"):
        MeanShift(bandwidth=1e-30).fit([[1e300], [0.0], [1e-30]])


def test_a_range_that_float64_can_hold_works():
    model = MeanShift(bandwidth=1e-100).fit([[1e150], [0.0], [1e-100], [3e-100]])
    assert model.labels_.tolist() == [1, 0, 0, 2]


# ---- the picture -----------------------------------------------------------------------------------------------------


def test_the_picture_has_points_paths_and_ends():
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X = blobs(120, 3)
    model = MeanShift(bandwidth=2.0).fit(X)
    ax = plots.climb(model, X, n_paths=7)
    *paths, ends = ax.lines
    assert len(paths) == 7
    assert len(ends.get_xdata()) == len(model.peaks_)
    assert sum(len(c.get_offsets()) for c in ax.collections) == len(X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert len(plots.climb(MeanShift(bandwidth=2.0).fit(frame), frame, n_paths=0).lines) == 1
    with pytest.raises(BadData, match="X has 2 columns, and the model was fitted to 3"):
        plots.climb(model, X[:, :2])
    plt.close("all")


def test_rows_whose_mean_is_rounded_out_of_the_bandwidth_stay_whatever_their_order():
    """float64 has no number between the mean of equal coordinates and itself that is within so small a bandwidth."""
    rng = np.random.default_rng(0)
    for far in rng.uniform(1e38, 3e38, size=20):
        X, weights = np.array([[-far, -2.0], [-far, -1.0], [0.0, 0.0]]), rng.uniform(0.1, 3.0, size=3)
        model = MeanShift(bandwidth=3e8).fit(X, sample_weight=weights)
        order = np.array([1, 2, 0])
        other = MeanShift(bandwidth=3e8).fit(X[order], sample_weight=weights[order])
        np.testing.assert_array_equal(model.cluster_centers_, other.cluster_centers_)
        np.testing.assert_array_equal(model.climbed_[order], other.climbed_)
        np.testing.assert_array_equal(model.labels_[order], other.labels_)


@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
def test_centres_lie_between_the_rows_in_a_column_far_below_the_others(kernel):
    X = np.array([[-8.1e-265, -1.1e190], [-7.9e-265, -1.2e190]])
    for parameters in ({}, {"assign": "nearest"}):
        model = MeanShift(bandwidth=8e298, kernel=kernel, **parameters).fit(X)
        assert (model.cluster_centers_ >= X.min(axis=0)).all()
        assert (model.cluster_centers_ <= X.max(axis=0)).all()
        np.testing.assert_array_equal(model.predict(X), model.labels_)
