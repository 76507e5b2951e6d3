"""Agglomerative clustering against the reference, SciPy and scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
import sklearn.cluster
from scipy.cluster.hierarchy import fcluster, is_valid_linkage, linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.feature_extraction.image import grid_to_graph
from sklearn.neighbors import kneighbors_graph

import knoll
from knoll import AgglomerativeClustering, _core, reference
from knoll.metrics import adjusted_rand_score
from knoll.relations._common import same_partition

LINKAGES = ("ward", "average", "complete", "single")
BOXES = {
    "ward": reference.ward,
    "average": reference.average_linkage,
    "complete": reference.complete_linkage,
    "single": reference.single_linkage,
}
METRICS = {"euclidean": "euclidean", "manhattan": "cityblock", "cosine": "cosine", "canberra": "canberra"}


def drawn(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    n, d = int(random.integers(2, 90)), int(random.integers(1, 12))
    return random.normal(size=(n, d)) + 4 * random.integers(0, 3, size=(n, 1))


@pytest.mark.parametrize("rule", LINKAGES)
@pytest.mark.parametrize("seed", range(4))
def test_every_merge_is_that_of_the_reference(rule, seed):
    X = drawn(seed)[:30]
    states = list(BOXES[rule](X))
    model = AgglomerativeClustering(1, linkage=rule, compute_distances=True).fit(X)
    np.testing.assert_allclose(model.distances_, [state.height for state in states], rtol=1e-12)
    for k in range(1, len(X)):
        labels = AgglomerativeClustering(k, linkage=rule).fit(X).labels_
        np.testing.assert_array_equal(labels, states[len(X) - k - 1].labels)


@pytest.mark.parametrize(
    ("rule", "metric"),
    [("ward", "euclidean"), *itertools.product(LINKAGES[1:], [*METRICS, "precomputed", "callable"])],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_heights_and_partitions_are_scipys(rule, metric, dtype):
    for seed in range(6):
        X = drawn(seed).astype(dtype)
        X = np.c_[X, X[:, :1] + 1].astype(dtype)  # two columns at least, for angles
        distances = pdist(X.astype(np.float64), METRICS.get(metric, "euclidean"))
        tree = linkage(X.astype(np.float64), "ward") if rule == "ward" else linkage(distances, rule)
        data = squareform(distances) if metric == "precomputed" else X
        used = (lambda X: squareform(pdist(X))) if metric == "callable" else metric
        model = AgglomerativeClustering(1, metric=used, linkage=rule, compute_distances=True).fit(data)
        np.testing.assert_allclose(
            model.distances_, tree[:, 2], rtol=1e-5 if metric == "canberra" else 1e-9, atol=1e-12
        )
        sizes = np.zeros(len(tree))
        ours = np.c_[model.children_.astype(float), np.maximum.accumulate(model.distances_), _sizes(model.children_)]
        assert is_valid_linkage(ours, throw=True), sizes
        for k in (2, 3, 7):
            cut = fcluster(tree, k, "maxclust")
            if k <= len(X) and len(set(cut)) == k:
                found = AgglomerativeClustering(k, metric=used, linkage=rule).fit(data).labels_
                assert adjusted_rand_score(found, cut) == 1, (seed, k)


def _sizes(children: np.ndarray) -> np.ndarray:
    n = len(children) + 1
    sizes = np.ones(2 * n - 1)
    for t, pair in enumerate(children):
        sizes[n + t] = sizes[pair].sum()
    return sizes[n:]


@pytest.mark.parametrize("rule", ["ward", "average", "complete"])
def test_many_rows_against_fastcluster_or_scipy(rule):
    """Enough rows that trees are rebuilt, lists run out, and matrices shrink several times."""
    X = np.random.default_rng(7).normal(size=(2500, 3)) * [1, 5, 0.2]
    tree = linkage(X, rule)
    model = AgglomerativeClustering(9, linkage=rule, compute_distances=True).fit(X)
    np.testing.assert_allclose(model.distances_, tree[:, 2], rtol=1e-9)
    assert same_partition(model.labels_, fcluster(tree, 9, "maxclust") - 1)


@pytest.mark.parametrize("rule", LINKAGES)
@pytest.mark.parametrize("graph", ["grid", "neighbours"])
@pytest.mark.parametrize("k", [4, 150])
def test_a_connectivity_gives_scikit_learns_tree(rule, graph, k):
    random = np.random.default_rng(3)
    X = random.normal(size=(400, 4))
    links = grid_to_graph(20, 20) if graph == "grid" else kneighbors_graph(X, 12)
    pair = [
        module.AgglomerativeClustering(k, linkage=rule, connectivity=links, compute_distances=True).fit(X)
        for module in (sklearn.cluster, knoll)
    ]
    np.testing.assert_allclose(pair[1].distances_, pair[0].distances_, rtol=1e-9)
    assert same_partition(pair[1].labels_, pair[0].labels_)
    assert pair[1].n_connected_components_ == pair[0].n_connected_components_
    assert pair[1].children_.shape == pair[0].children_.shape


@pytest.mark.parametrize("rule", LINKAGES)
def test_a_connectivity_in_pieces_is_completed_like_scikit_learns(rule):
    X = np.random.default_rng(5).normal(size=(120, 2)) + 9 * (np.arange(120)[:, None] % 3)
    links = kneighbors_graph(X, 3)
    with pytest.warns(UserWarning, match="number of connected components of the connectivity matrix"):
        ours = AgglomerativeClustering(2, linkage=rule, connectivity=links, compute_distances=True).fit(X)
    with pytest.warns(UserWarning, match="number of connected components"):
        theirs = sklearn.cluster.AgglomerativeClustering(
            2, linkage=rule, connectivity=links, compute_distances=True
        ).fit(X)
    np.testing.assert_allclose(ours.distances_, theirs.distances_, rtol=1e-9)
    assert same_partition(ours.labels_, theirs.labels_)
    assert ours.n_connected_components_ == theirs.n_connected_components_ > 1


def test_a_complete_graph_gives_the_tree_without_one():
    X = np.random.default_rng(6).normal(size=(60, 3))
    graph = scipy.sparse.csr_array(np.ones((60, 60)))
    for rule in LINKAGES:
        free, bound = (
            AgglomerativeClustering(5, linkage=rule, connectivity=links, compute_distances=True).fit(X)
            for links in (None, graph)
        )
        np.testing.assert_allclose(bound.distances_, free.distances_, rtol=1e-9)
        np.testing.assert_array_equal(bound.labels_, free.labels_)


def test_ward_searches_the_index_less_often_than_it_needs_neighbours():
    """Lists answer most questions for the nearest cluster; all answers are those of a search."""
    X = np.random.default_rng(8).normal(size=(4000, 2))
    children, rise = np.empty((3999, 2), np.int64), np.empty(3999)
    report = _core.ward(X, None, children, rise, 2)
    assert report["searches"] < 3 * len(X)
    assert report["rounds"] < 200
    np.testing.assert_allclose(np.sqrt(2 * rise), linkage(X, "ward")[:, 2], rtol=1e-9)
