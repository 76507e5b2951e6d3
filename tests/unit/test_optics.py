"""OPTICS against scikit-learn's ordering and clusters, a plain one of our own, and DBSCAN."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import sklearn.cluster
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import pairwise_distances

from knoll import DBSCAN, OPTICS, datasets
from knoll.density.optics import _order_by_rows
from knoll.density.steep_areas import clusters_by_xi
from knoll.exceptions import BadData, InvalidParameter, SuspiciousResultWarning
from knoll.relations._common import same_partition

X = datasets.load("x1500").X[::5]


def drawn(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    n, d = int(random.integers(12, 220)), int(random.integers(1, 6))
    return random.normal(size=(n, d)) + 4 * random.integers(0, 3, size=(n, 1))


@pytest.mark.filterwarnings("ignore")  # both may warn that nothing is reachable
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("metric", ["minkowski", "manhattan", "chebyshev", "cosine"])
@pytest.mark.parametrize("max_eps", [np.inf, 1.5])
def test_the_ordering_is_scikit_learns(seed, metric, max_eps):
    data = drawn(seed)
    ours, theirs = (
        module(min_samples=4, metric=metric, max_eps=max_eps).fit(data) for module in (OPTICS, sklearn.cluster.OPTICS)
    )
    np.testing.assert_allclose(ours.core_distances_, theirs.core_distances_, rtol=1e-9, atol=1e-12)
    if np.array_equal(ours.ordering_, theirs.ordering_):
        np.testing.assert_allclose(ours.reachability_, theirs.reachability_, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
        np.testing.assert_array_equal(ours.cluster_hierarchy_, np.reshape(theirs.cluster_hierarchy_, (-1, 2)))
    else:  # it rounds reachabilities to 15 decimals, which makes ties
        gap = np.flatnonzero(ours.ordering_ != theirs.ordering_)[0]
        pair = ours.ordering_[gap], theirs.ordering_[gap]
        np.testing.assert_allclose(*theirs.reachability_[list(pair)], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:OPTICS. All reachability values are inf")
@settings(max_examples=80, deadline=None)
@given(
    arrays.arrays(
        np.float64, st.tuples(st.integers(3, 120), st.integers(1, 3)), elements=st.integers(-4, 4).map(float)
    ),
    st.integers(2, 3),
    st.sampled_from(["euclidean", "manhattan", "chebyshev"]),
    st.sampled_from([np.inf, 2.0]),
)
def test_the_ordering_of_the_core_is_the_plain_one(points, level, metric, max_eps):
    """Ties everywhere: the lower row is visited first in both."""
    model = OPTICS(min_samples=level, metric=metric, max_eps=max_eps).fit(points)
    square = pairwise_distances(points, metric=metric)
    if metric == "euclidean":  # the one distance
        square = np.sqrt(np.square(points[:, None] - points).sum(axis=2))
    order, core, reach, predecessor = _order_by_rows(lambda rows: square[rows], len(points), level, max_eps)
    np.testing.assert_array_equal(model.ordering_, order)
    np.testing.assert_array_equal(model.core_distances_, core)
    np.testing.assert_array_equal(model.reachability_, reach)
    np.testing.assert_array_equal(model.predecessor_, predecessor)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_input_variants_agree(dtype):
    data = X.astype(dtype)
    plain = OPTICS(min_samples=8, n_jobs=1).fit(data)
    for other in (np.asfortranarray(data), scipy.sparse.csr_array(data)):
        model = OPTICS(min_samples=8, n_jobs=3).fit(other)
        np.testing.assert_allclose(model.reachability_, plain.reachability_, rtol=1e-3 if dtype == np.float32 else 1e-9)
    distances = pairwise_distances(data.astype(np.float64))
    np.testing.assert_array_equal(
        OPTICS(min_samples=8, metric="precomputed").fit(distances).labels_, OPTICS(min_samples=8).fit(data).labels_
    )
    bounded = OPTICS(min_samples=8, max_eps=2.0).fit(data.astype(np.float64))
    near = scipy.sparse.csr_array(np.where(distances <= 2.0, distances, 0))
    for graph in (near, np.where(distances <= 2.0, distances, 1e9)):
        model = OPTICS(min_samples=8, metric="precomputed", max_eps=2.0).fit(graph)
        np.testing.assert_array_equal(model.labels_, bounded.labels_)


@pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")
@pytest.mark.parametrize("eps", [0.2, 0.5, 1.0, 3.0])
def test_a_cut_is_dbscan_but_for_borders_visited_too_early(eps):
    model = OPTICS(min_samples=6).fit(X)
    labels = model.cut(eps)
    dbscan = DBSCAN(eps, min_samples=6).fit(X)
    core = dbscan.core_sample_indices_
    assert same_partition(labels[core], dbscan.labels_[core])
    assert not (labels[dbscan.labels_ < 0] >= 0).any()
    other = OPTICS(min_samples=6, cluster_method="dbscan", eps=eps).fit(X)
    np.testing.assert_array_equal(other.labels_, labels)
    assert not hasattr(other, "cluster_hierarchy_")


@pytest.mark.parametrize("xi", [0.01, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("correction", [True, False])
def test_clusters_by_xi_are_scikit_learns(xi, correction):
    for seed in range(6):
        model = OPTICS(min_samples=4).fit(drawn(seed))
        labels, clusters = sklearn.cluster.cluster_optics_xi(
            reachability=model.reachability_,
            predecessor=model.predecessor_,
            ordering=model.ordering_,
            min_samples=4,
            xi=xi,
            predecessor_correction=correction,
        )
        again = OPTICS(min_samples=4, xi=xi, predecessor_correction=correction).fit(drawn(seed))
        np.testing.assert_array_equal(again.cluster_hierarchy_, clusters)
        np.testing.assert_array_equal(again.labels_, labels)


def test_two_valleys():
    plot = np.array([np.inf, 1, 1, 1, 9, 1, 1, 1])
    found = clusters_by_xi(plot, None, np.arange(8), 0.05, 2, 2)
    assert [0, 3] in found.tolist()
    assert [4, 7] in found.tolist()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"min_samples": 1}, "min_samples must be >= 2"),
        ({"max_eps": -1.0}, r"max_eps must be >= 0, got -1\.0"),
        ({"xi": 1.5}, "xi must be"),
        ({"cluster_method": "dbscan", "eps": 3.0, "max_eps": 2.0}, r"Specify an epsilon smaller than 2\.0"),
        ({"metric": 4}, "metric must be a name or a callable, got 4"),
        ({"metric": "no such"}, "metric 'no such' cannot be computed"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(InvalidParameter, match=message):
        OPTICS(**parameters).fit(X)


def test_data_is_checked():
    with pytest.raises(BadData, match="min_samples must be no greater than the number of samples"):
        OPTICS(min_samples=10).fit(X[:5])
    with pytest.raises(BadData, match="square matrix"):
        OPTICS(metric="precomputed").fit(X)
    with pytest.raises(InvalidParameter, match=r"from 0 to max_eps"):
        OPTICS(max_eps=2.0).fit(X).cut(2.5)
    with pytest.warns(SuspiciousResultWarning, match="All reachability values are inf"):
        OPTICS(max_eps=1e-9).fit(X)


def test_the_ordering_is_cached(tmp_path):
    first = OPTICS(memory=str(tmp_path)).fit(X)
    again = OPTICS(memory=str(tmp_path), xi=0.3).fit(X)
    np.testing.assert_array_equal(first.ordering_, again.ordering_)


@pytest.mark.parametrize("name", ["min_samples", "min_cluster_size"])
def test_a_size_is_a_number_of_rows_or_a_share(name):
    with pytest.raises(InvalidParameter, match=rf"{name} must be .* It is a number of rows, from 2 on, or a share"):
        OPTICS(**{name: 2.5}).fit(np.eye(5))
