"""The functions that people import from sklearn.cluster: their shapes, and the answers of the estimators."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import sklearn.cluster as theirs
from sklearn.neighbors import kneighbors_graph

import knoll
from knoll.exceptions import BadData, InvalidParameter

NAMES = [
    "cluster_optics_dbscan",
    "dbscan",
    "estimate_bandwidth",
    "k_means",
    "kmeans_plusplus",
    "linkage_tree",
    "mean_shift",
    "spectral_clustering",
    "ward_tree",
]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(30, 2)) + 8, rng.normal(size=(20, 2)) - 9])


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_scikit_learns_and_more(name):
    """Each parameter has its name, its kind, its place and its default; what is more comes after, by name."""
    ours = inspect.signature(getattr(knoll, name)).parameters
    expected = inspect.signature(getattr(theirs, name)).parameters
    assert list(ours)[: len(expected)] == list(expected)
    for key, parameter in expected.items():
        assert ours[key].kind == parameter.kind
        if (name, key) != ("k_means", "algorithm"):  # "auto" has the labels of "lloyd"
            assert ours[key].default == parameter.default
    assert all(ours[key].kind is inspect.Parameter.KEYWORD_ONLY for key in list(ours)[len(expected) :])


@pytest.mark.parametrize("first", ["", "import knoll.density.dbscan, knoll.density.mean_shift, knoll.plots.dbscan; "])
def test_the_names_are_functions_whatever_was_imported_before(first):
    code = f"{first}from knoll import {', '.join(NAMES)}; print(all(map(callable, [{', '.join(NAMES)}])))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def shapes(found):
    return [np.shape(each) for each in found]


# ---- k-means


@pytest.mark.parametrize("return_n_iter", [False, True])
def test_k_means(X, return_n_iter):
    options = {"random_state": 0, "n_init": 2, "return_n_iter": return_n_iter}
    found, their = knoll.k_means(X, 3, **options), theirs.k_means(X, 3, **options)
    assert shapes(found) == shapes(their)
    model = knoll.KMeans(3, random_state=0, n_init=2).fit(X)
    np.testing.assert_array_equal(found[0], model.cluster_centers_)
    np.testing.assert_array_equal(found[1], model.labels_)
    assert found[2] == model.inertia_ == pytest.approx(their[2])
    assert found[3:] == ((model.n_iter_,) if return_n_iter else ())


def test_k_means_from_a_start_with_weights(X):
    w = np.arange(len(X)) % 3
    for algorithm in ("lloyd", "elkan"):
        options = {"init": X[[0, 50, 80]], "n_init": 1, "sample_weight": w, "algorithm": algorithm}
        found, their = knoll.k_means(X, 3, **options), theirs.k_means(X, 3, **options)
        np.testing.assert_array_equal(found[1], their[1])
        np.testing.assert_allclose(found[0], their[0], rtol=1e-12)


def test_kmeans_plusplus_is_the_start_of_k_means(X):
    w = np.arange(len(X)) % 3
    for rows in (X, X.astype(np.float32), X * 1e200, scipy.sparse.csr_array(X)):
        centers, indices = knoll.kmeans_plusplus(rows, 4, random_state=3, sample_weight=w)
        assert shapes((centers, indices)) == shapes(theirs.kmeans_plusplus(X, 4, random_state=3))
        dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
        np.testing.assert_array_equal(centers, dense[indices])
        assert (w[indices] > 0).all()
        assert centers.dtype == rows.dtype
        drawn = knoll.KMeans(4, random_state=3, n_init=1, max_iter=30).fit(rows, sample_weight=w)
        started = knoll.KMeans(4, init=centers, n_init=1, max_iter=30).fit(rows, sample_weight=w)
        np.testing.assert_array_equal(drawn.labels_, started.labels_)


def test_kmeans_plusplus_draws_apart_in_any_order(X):
    order = np.random.default_rng(1).permutation(len(X))
    for seed in range(5):
        centers, indices = knoll.kmeans_plusplus(X, 3, random_state=seed)
        assert sorted(np.digitize(indices, [40, 70])) == [0, 1, 2]  # one of each group
        np.testing.assert_array_equal(knoll.kmeans_plusplus(X[order], 3, random_state=seed)[0], centers)
    one = {seed: knoll.kmeans_plusplus(X, 3, random_state=seed, n_local_trials=1)[1].tolist() for seed in range(9)}
    assert len({tuple(rows) for rows in one.values()}) > 1


def test_what_kmeans_plusplus_refuses(X):
    with pytest.raises(BadData, match=r"kmeans_plusplus: n_samples=90 should be >= n_clusters=91"):
        knoll.kmeans_plusplus(X, 91)
    with pytest.raises(InvalidParameter, match=r"kmeans_plusplus: n_clusters must be >= 1, got 0"):
        knoll.kmeans_plusplus(X, 0)
    with pytest.raises(InvalidParameter, match=r"kmeans_plusplus: n_local_trials must be >= 1 and <= 65535, got 0"):
        knoll.kmeans_plusplus(X, 3, n_local_trials=0)


# ---- density


def test_dbscan(X):
    for options in ({"eps": 1.0}, {"eps": 1.5, "metric": "minkowski", "p": 1}, {"eps": 1.0, "min_samples": 3}):
        found, their = knoll.dbscan(X, **options), theirs.dbscan(X, **options)
        np.testing.assert_array_equal(found[0], their[0])
        model = knoll.DBSCAN(**{"metric": "minkowski", "p": 2, **options}).fit(X)
        np.testing.assert_array_equal(found[1], model.labels_)
        assert (found[1] >= 0).sum() == (their[1] >= 0).sum()
    gaps = np.linalg.norm(X[:, None] - X, axis=2)
    found = knoll.dbscan(gaps, 1.0, metric="precomputed", sample_weight=np.full(len(X), 2))
    np.testing.assert_array_equal(found[0], theirs.dbscan(X, 1.0, sample_weight=np.full(len(X), 2))[0])


def test_mean_shift(X):
    found = knoll.mean_shift(X, bandwidth=3.0)
    model = knoll.MeanShift(bandwidth=3.0).fit(X)
    np.testing.assert_array_equal(found[0], model.cluster_centers_)
    np.testing.assert_array_equal(found[1], model.labels_)
    assert shapes(found) == shapes(theirs.mean_shift(X, bandwidth=3.0)) == [(3, 2), (90,)]
    binned, their = (f.mean_shift(X, bandwidth=3.0, bin_seeding=True, cluster_all=False) for f in (knoll, theirs))
    assert shapes(binned) == shapes(their)
    np.testing.assert_array_equal(binned[1], their[1])


def test_estimate_bandwidth(X):
    assert knoll.estimate_bandwidth is knoll.scales.estimate_bandwidth
    assert knoll.estimate_bandwidth(X, quantile=0.2) == pytest.approx(theirs.estimate_bandwidth(X, quantile=0.2))


def test_cluster_optics_dbscan(X):
    for model in (knoll.OPTICS(min_samples=5).fit(X), theirs.OPTICS(min_samples=5).fit(X)):
        plot = {
            "reachability": model.reachability_,
            "core_distances": model.core_distances_,
            "ordering": model.ordering_,
        }
        for eps in (0.0, 0.5, 1.0, 20.0, np.inf):
            found = knoll.cluster_optics_dbscan(**plot, eps=eps)
            np.testing.assert_array_equal(found, theirs.cluster_optics_dbscan(**plot, eps=eps))
        if isinstance(model, knoll.OPTICS):
            np.testing.assert_array_equal(knoll.cluster_optics_dbscan(**plot, eps=0.7), model.cut(0.7))


def test_what_cluster_optics_dbscan_refuses():
    plot = {"reachability": [np.inf, 1.0], "core_distances": [1.0, 1.0], "ordering": [0, 1]}
    with pytest.raises(InvalidParameter, match=r"cluster_optics_dbscan: eps must be >= 0, got -1"):
        knoll.cluster_optics_dbscan(**plot, eps=-1)
    with pytest.raises(BadData, match=r"core_distances has shape \(1,\) and reachability \(2,\)"):
        knoll.cluster_optics_dbscan(**(plot | {"core_distances": [1.0]}), eps=1)
    for order in ([0, 0], [0, 2], [0.0, 1.0]):
        with pytest.raises(BadData, match=r"ordering must hold each row once, as OPTICS.ordering_ does"):
            knoll.cluster_optics_dbscan(**(plot | {"ordering": order}), eps=1)


# ---- spectral, hierarchies


def test_spectral_clustering(X):
    affinity = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    found = knoll.spectral_clustering(affinity, n_clusters=3, random_state=0)
    model = knoll.SpectralClustering(3, affinity="precomputed", random_state=0).fit(affinity)
    np.testing.assert_array_equal(found, model.labels_)
    their = theirs.spectral_clustering(affinity, n_clusters=3, random_state=0)
    assert found.shape == their.shape
    assert knoll.metrics.adjusted_rand_score(found, their) == 1.0


def heights_of_partition(children, distances, n):
    """The partitions of a merge tree by height: sets of rows."""
    sets = [frozenset([i]) for i in range(n)]
    for a, b in children:
        sets.append(sets[a] | sets[b])
    return sorted(zip(np.round(distances, 9), map(sorted, sets[n:])))


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("linkage", ["ward", "complete", "average", "single"])
def test_trees(X, linkage, connected):
    graph = kneighbors_graph(X, 30) if connected else None
    graph = graph if graph is None else graph + graph.T

    def tree(library, **options):
        if linkage == "ward":
            return library.ward_tree(X, connectivity=graph, **options)
        return library.linkage_tree(X, graph, linkage=linkage, **options)

    found, their = tree(knoll, return_distance=True), tree(theirs, return_distance=True)
    assert shapes(found) == shapes(their)
    assert found[1:3] == their[1:3]
    assert (found[3] is None) == (their[3] is None)
    assert heights_of_partition(found[0], found[4], 90) == heights_of_partition(their[0], their[4], 90)
    assert len(tree(knoll)) == 4
    if connected:
        parents = found[3]
        assert parents[-1] == len(parents) - 1
        for t, pair in enumerate(found[0]):
            assert (parents[pair] == 90 + t).all()


def test_trees_that_stop_early(X):
    graph = kneighbors_graph(X, 30)
    graph = graph + graph.T
    ours = knoll.ward_tree(X, connectivity=graph, n_clusters=7)
    assert shapes(ours) == shapes(theirs.ward_tree(X, connectivity=graph, n_clusters=7))
    assert shapes(knoll.ward_tree(X, n_clusters=7)[:1]) == [(89, 2)]  # without a graph the tree is whole
