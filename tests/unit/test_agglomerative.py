"""AgglomerativeClustering: parameters, messages, memory, weights of zero, Ctrl-C, the command line."""

from __future__ import annotations

import itertools
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import pairwise_distances

import knoll
from knoll import DBSCAN, AgglomerativeClustering, DensityTree
from knoll.exceptions import BadData, CostError, InvalidParameter
from knoll.hierarchy import linkages
from knoll.neighbors.metric_names import CORE_METRICS
from knoll.registry import find

X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("estimator", [AgglomerativeClustering, DBSCAN, DensityTree])
def test_the_docstring_names_every_metric_of_the_core(estimator):
    assert [name for name in CORE_METRICS if f'"{name}"' not in estimator.__doc__] == []


@pytest.mark.parametrize("name", [name for name in CORE_METRICS if name != "gower"])
def test_every_metric_of_the_core_is_taken(monkeypatch, name):
    monkeypatch.setattr(linkages, "_sklearn_distances", None)  # it would be another route
    rows = X[:, :2]
    distances = pairwise_distances(rows, metric=name)
    for linkage in ("single", "average"):
        model = AgglomerativeClustering(1, metric=name, linkage=linkage, compute_distances=True).fit(rows)
        plain = AgglomerativeClustering(1, metric="precomputed", linkage=linkage, compute_distances=True)
        np.testing.assert_allclose(model.distances_, plain.fit(distances).distances_, rtol=1e-7)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be >= 1, got 0"),
        ({"linkage": "median"}, "linkage must be one of 'ward', 'complete', 'average', 'single'"),
        ({"distance_threshold": 1.0}, "Exactly one of n_clusters and distance_threshold has to be set"),
        ({"n_clusters": None}, "Exactly one of n_clusters and distance_threshold has to be set"),
        (
            {"n_clusters": None, "distance_threshold": 1.0, "compute_full_tree": False},
            "compute_full_tree must be True if distance_threshold is set",
        ),
        ({"metric": "cosine"}, "Ward can only work with euclidean distances"),
        ({"metric": 3, "linkage": "single"}, "metric must be a name or a callable, got 3"),
        ({"metric": "no such", "linkage": "average"}, "metric 'no such' cannot be computed"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(InvalidParameter, match=message):
        AgglomerativeClustering(**parameters).fit(X)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (AgglomerativeClustering(61), X, r"more clusters than samples: n_clusters=61 for n_samples=60"),
        (AgglomerativeClustering(metric="precomputed", linkage="single"), X, "Distance matrix should be square"),
        (AgglomerativeClustering(metric="precomputed", linkage="single"), -np.eye(3), r"must be >= 0, got .*-1\.0"),
        (AgglomerativeClustering(metric="cosine", linkage="single"), np.eye(4)[:3] * [[1], [0], [1]], "one at row 1"),
        (AgglomerativeClustering(connectivity=np.eye(3)), X, "Wrong shape for connectivity matrix"),
    ],
)
def test_data_is_checked(model, data, message):
    with pytest.raises(BadData, match=message):
        model.fit(data)


@pytest.mark.parametrize("rule", ["average", "complete"])
def test_distances_beyond_memory_are_refused_with_the_figure(rule, monkeypatch):
    monkeypatch.setattr(linkages, "free_memory", lambda: 2**30)
    with pytest.raises(CostError, match=r"14\.9 GB for 63246 rows, and 1\.0 GB are free.*linear"):
        linkages._triangle(63_246, rule)
    monkeypatch.setattr(linkages, "free_memory", lambda: 100)
    with pytest.raises(CostError, match=f"linkage='{rule}' stores the distances of all pairs"):
        AgglomerativeClustering(linkage=rule).fit(X)
    AgglomerativeClustering(linkage="ward").fit(X)
    AgglomerativeClustering(linkage="single").fit(X)


def test_one_row_and_equal_rows():
    for rule in ("ward", "average", "complete", "single"):
        alone = AgglomerativeClustering(1, linkage=rule).fit([[3.0]])
        assert alone.labels_.tolist() == [0]
        assert alone.children_.shape == (0, 2)
        equal = AgglomerativeClustering(2, linkage=rule, compute_distances=True).fit(np.full((5, 2), 0.1))
        assert equal.distances_.tolist() == [0.0] * 4
        assert sorted(np.bincount(equal.labels_).tolist()) == [1, 4]


def test_a_threshold_counts_merges_at_or_above_it():
    model = AgglomerativeClustering(None, distance_threshold=2.0, linkage="single").fit([[0.0], [1.0], [3.0], [9.0]])
    assert model.distances_.tolist() == [1.0, 2.0, 6.0]
    assert model.labels_.tolist() == [0, 0, 1, 2]
    assert model.n_clusters_ == 3
    assert not hasattr(model.set_params(n_clusters=2, distance_threshold=None).fit(X), "distances_")


def test_rows_of_weight_zero_are_in_no_cluster():
    weights = np.ones(60)
    weights[[0, 7, 59]] = 0
    graph = scipy.sparse.csr_array(np.ones((60, 60)))
    for options in ({}, {"linkage": "average"}, {"connectivity": graph}):
        model = AgglomerativeClustering(3, **options).fit(X, sample_weight=weights)
        assert np.flatnonzero(model.labels_ < 0).tolist() == [0, 7, 59]
        if "connectivity" not in options:
            without = AgglomerativeClustering(3, **options).fit(X[weights > 0])
            np.testing.assert_array_equal(model.labels_[weights > 0], without.labels_)
        assert not np.isin([0, 7, 59], model.children_).any()


@pytest.mark.parametrize("rule", ["ward", "average", "complete", "single"])
@pytest.mark.parametrize("factor", [2.0**-1040, 2.0**-600, 2.0**900])
@pytest.mark.parametrize("graph", [None, np.eye(60, k=1)])
def test_a_common_factor_of_the_weights_does_not_matter(rule, factor, graph):
    weights = np.random.default_rng(1).integers(1, 9, size=60) * 1.0
    model = AgglomerativeClustering(4, linkage=rule, connectivity=graph)
    np.testing.assert_array_equal(model.fit(X, sample_weight=weights).children_,
                                  model.fit(X, sample_weight=weights * factor).children_)  # fmt: skip


@pytest.mark.parametrize("graph", [None, np.ones((3, 3))])
def test_heights_of_rows_of_subnormal_weight(graph):
    model = AgglomerativeClustering(1, compute_distances=True, connectivity=graph)
    model.fit([[0.0], [1.0], [5.0]], sample_weight=[1.0, 2.0**-1060, 2.0**-1070])
    # √(2 v w/(v + w)) d: first the lightest row with the other light one, 4 apart, then both with the heavy one
    np.testing.assert_allclose(model.distances_, np.sqrt(2.0) * np.array([4 * 2.0**-535, 2.0**-530]), rtol=0.01)


def test_weights_of_equal_rows_add_up_alike_in_any_order():
    weights = np.array([0.1, 0.2, 0.3, 0.4, 0.7])  # (0.1 + 0.2) + 0.3 is not 0.1 + (0.2 + 0.3)
    rows = np.array([[0.0], [0.0], [0.0], [1.0], [3.0]])
    model = AgglomerativeClustering(1, linkage="average", compute_distances=True)
    heights = {tuple(model.fit(rows[p], sample_weight=weights[p]).distances_) for p in
               map(list, itertools.permutations(range(5)))}  # fmt: skip
    assert len(heights) == 1


def test_a_connectivity_may_be_dense_sparse_or_callable():
    dense = (np.abs(np.arange(60)[:, None] - np.arange(60)) <= 1).astype(float)
    labels = [
        AgglomerativeClustering(4, connectivity=links).fit(X).labels_.tolist()
        for links in (dense, scipy.sparse.coo_array(dense), scipy.sparse.lil_matrix(dense), lambda rows: dense)
    ]
    assert all(other == labels[0] for other in labels)
    assert (np.diff(labels[0]) != 0).sum() == 3  # four intervals of a line


def test_early_stopping_has_the_labels_of_the_whole_tree():
    graph = scipy.sparse.csr_array((np.abs(np.arange(60)[:, None] - np.arange(60)) <= 2).astype(float))
    for rule in ("ward", "average", "complete"):
        early, whole = (
            AgglomerativeClustering(20, linkage=rule, connectivity=graph, compute_full_tree=full).fit(X)
            for full in (False, True)
        )
        np.testing.assert_array_equal(early.labels_, whole.labels_)
        assert (len(early.children_), len(whole.children_)) == (40, 59)


def test_the_tree_is_cached(tmp_path, monkeypatch):
    calls = []
    built = linkages._core.ward
    monkeypatch.setattr(linkages._core, "ward", lambda *arguments: calls.append(1) or built(*arguments))
    first = AgglomerativeClustering(3, memory=str(tmp_path)).fit(X)
    second = AgglomerativeClustering(7, memory=str(tmp_path), n_jobs=1).fit(X)
    assert len(calls) == 1
    np.testing.assert_array_equal(first.children_, second.children_)
    np.testing.assert_array_equal(second.labels_, AgglomerativeClustering(7).fit(X).labels_)


@pytest.mark.parametrize(("rule", "rows"), [("ward", 60_000), ("average", 12_000), ("complete", 12_000)])
def test_ctrl_c_ends_a_fit(rule, rows):
    data = np.random.default_rng(0).normal(size=(rows, 24))
    raised = []

    def interrupt():
        raised.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    model = AgglomerativeClustering(2, linkage=rule)
    threading.Timer(0.4, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(data)
    assert time.perf_counter() - raised[0] < 5  # mostly 0.1 s; machines may be busy
    assert not hasattr(model, "labels_")


def test_memory_is_linear_for_ward_and_quadratic_where_it_reports_it():
    few, many = np.zeros((10_000, 8)), np.zeros((20_000, 8))
    ward = [AgglomerativeClustering().estimate_cost(data).memory for data in (few, many)]
    average = [AgglomerativeClustering(linkage="average").estimate_cost(data).memory for data in (few, many)]
    assert ward[1] < 2.1 * ward[0]
    assert average[1] > 3.5 * average[0]
    assert "linear" in AgglomerativeClustering(linkage="average").estimate_cost(few).remedy


def test_it_is_registered():
    assert find("agglomerative").estimator_class() is AgglomerativeClustering
    assert find("optics").estimator_class() is knoll.OPTICS
