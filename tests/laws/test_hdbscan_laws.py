"""HDBSCAN and the tree behind it: labels that no order of rows changes, predict = labels, any input, brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from scipy.cluster.hierarchy import cophenet, is_valid_linkage
from scipy.spatial.distance import squareform
from sklearn.cluster import HDBSCAN as SklearnHDBSCAN
from sklearn.metrics import adjusted_rand_score, pairwise_distances

import knoll
from knoll import DBSCAN, HDBSCAN, DensityTree
from knoll.exceptions import BadData, CostError, InvalidParameter

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")


def blobs(n=150, d=2, seed=0, k=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 5 * rng.integers(0, k, size=(n, 1)) * np.arange(1, d + 1)


RNG = np.random.default_rng(4)
TABLES = {
    "blobs": blobs(),
    "lattice": RNG.integers(0, 8, size=(160, 2)).astype(float),
    "duplicates": np.repeat(RNG.normal(size=(40, 2)), 3, axis=0),
    "equal": np.ones((20, 2)),
    "chain": np.arange(60.0)[:, None],
    "float32": blobs(seed=2).astype(np.float32),
    "wide": RNG.normal(size=(90, 24)),
    "tiny": 1e-140 * blobs(80),
    "huge": 1e140 * blobs(80),
}
OPTIONS = {
    "default": {},
    "leaf": {"cluster_selection_method": "leaf"},
    "single": {"allow_single_cluster": True},
    "single-epsilon": {"allow_single_cluster": True, "cluster_selection_epsilon": 0.3},
    "epsilon": {"cluster_selection_epsilon": 1.0},
    "largest": {"max_cluster_size": 30},
    "few-samples": {"min_samples": 2},
    "alpha": {"alpha": 1.4},
    "nearest": {"noise": "nearest"},
    "manhattan": {"metric": "manhattan"},
    "canberra": {"metric": "canberra"},
    "callable": {"metric": lambda a, b: float(np.abs(a - b).max())},
}


def same_partition(a, b) -> bool:
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist())) and np.array_equal(a == -1, b == -1)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("option", OPTIONS)
def test_predict_of_the_fitted_rows_is_what_the_fit_found(name, option):
    X = TABLES[name]
    if option == "callable" and len(X) > 90:
        X = X[:60]
    model = HDBSCAN(**OPTIONS[option]).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict_strength(X), model.probabilities_)
    np.testing.assert_array_equal(model.predict_outliers(X), model.outlier_scores_)
    inside = model.labels_ >= 0
    assert ((model.probabilities_ >= 0) & (model.probabilities_ <= 1)).all()
    if option != "nearest":
        assert (model.probabilities_[~inside] == 0).all()
    elif inside.any():
        assert inside.all()
    scores = model.outlier_scores_
    assert ((scores >= 0) & (scores <= 1)).all()
    assert ((model.cluster_persistence_ >= 0) & (model.cluster_persistence_ <= 1)).all()


@pytest.mark.parametrize("name", ["blobs", "lattice", "duplicates", "chain"])
@pytest.mark.parametrize("option", ["default", "leaf", "single", "nearest", "canberra"])
def test_neither_the_order_of_rows_nor_threads_matter(name, option):
    X = TABLES[name]
    model = HDBSCAN(**OPTIONS[option]).fit(X)
    rng = np.random.default_rng(0)
    for repetition in range(8):
        order = rng.permutation(len(X))
        other = HDBSCAN(**OPTIONS[option], n_jobs=(1, 2, 3, 8)[repetition % 4]).fit(X[order])
        assert same_partition(model.labels_[order], other.labels_)
        if option != "canberra":
            np.testing.assert_array_equal(model.probabilities_[order], other.probabilities_)
            np.testing.assert_array_equal(model.outlier_scores_[order], other.outlier_scores_)


@pytest.mark.parametrize("name", ["blobs", "lattice", "duplicates", "equal sizes", "sparse"])
@pytest.mark.parametrize("option", ["default", "leaf", "nearest"])
def test_clusters_are_numbered_by_size_whatever_the_order_of_rows(name, option):
    rows = np.concatenate([blobs(40, seed=0, k=1) + shift for shift in (0, 30, -30)])
    X = TABLES[name] if name in TABLES else rows if name == "equal sizes" else scipy.sparse.csr_array(blobs())
    model = HDBSCAN(**OPTIONS[option]).fit(X)
    sizes = model.condensed_tree_.weight[model.selection_["clusters"]]
    assert (np.diff(sizes) <= 0).all()
    if name == "equal sizes" and option == "default":
        assert [rows[model.labels_ == c].min() for c in range(3)] == sorted(
            rows[model.labels_ == c].min() for c in range(3)
        )
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(X.shape[0])
        other = HDBSCAN(**OPTIONS[option]).fit(X[order])
        np.testing.assert_array_equal(model.labels_[order], other.labels_)
        np.testing.assert_array_equal(model.cluster_persistence_, other.cluster_persistence_)
        np.testing.assert_array_equal(model.labels_for(9)[order], other.labels_for(9))


@pytest.mark.parametrize("option", ["default", "leaf", "single", "nearest", "canberra", "alpha"])
@pytest.mark.parametrize("name", ["blobs", "lattice"])
def test_a_weight_is_a_number_of_repetitions(name, option):
    X = TABLES[name][:100]
    weights = np.random.default_rng(1).integers(0, 4, size=len(X))
    weighted = HDBSCAN(**OPTIONS[option]).fit(X, sample_weight=weights)
    repeated = HDBSCAN(**OPTIONS[option]).fit(np.repeat(X, weights, axis=0))
    assert same_partition(weighted.labels_, repeated.predict(X))
    np.testing.assert_array_equal(weighted.predict(X), weighted.labels_)
    np.testing.assert_allclose(weighted.probabilities_, repeated.predict_strength(X))
    np.testing.assert_allclose(weighted.cluster_persistence_.sum(), repeated.cluster_persistence_.sum())


@pytest.mark.parametrize("seed", range(6))
def test_clusters_are_those_of_scikit_learn_but_for_rows_at_saddles(seed):
    """The tree of scikit-learn is binary: rows at which several clusters merge at once go to one of them, by chance."""
    X = blobs(400, seed=seed, k=4)
    for options in ({}, {"min_cluster_size": 12}, {"min_samples": 3}, {"cluster_selection_epsilon": 0.8}):
        ours, theirs = HDBSCAN(**options).fit(X), SklearnHDBSCAN(copy=True, **options).fit(X)
        assert ours.labels_.max() == theirs.labels_.max()
        assert (ours.labels_ == -1).sum() - (theirs.labels_ == -1).sum() <= 8
        assert adjusted_rand_score(ours.labels_, theirs.labels_) > 0.95


def test_no_tied_splits_no_difference():
    """With min_samples=1 a height is the distance of one pair: all splits are binary."""
    for seed in range(8):
        X = blobs(200, seed=seed)
        for options in ({}, {"cluster_selection_method": "leaf"}, {"allow_single_cluster": True}):
            ours = HDBSCAN(min_samples=1, **options).fit(X)
            theirs = SklearnHDBSCAN(min_samples=1, copy=True, **options).fit(X)
            assert same_partition(ours.labels_, theirs.labels_)
            np.testing.assert_allclose(ours.probabilities_, theirs.probabilities_, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_exactly_k_clusters_are_the_best_of_all_selections(seed):
    X = blobs(70, seed=seed)
    tree = DensityTree(2).fit(X).condense(3)
    count = len(tree.parent)
    ancestors = [set() for _ in range(count)]
    for c in range(1, count):
        ancestors[c] = ancestors[tree.parent[c]] | {int(tree.parent[c])}
    for k in range(1, 4):
        model = HDBSCAN(3, 2, n_clusters=k).fit(X)
        assert model.labels_.max() + 1 == k
        allowed = range(0 if k == 1 else 1, count)
        totals = [
            sum(tree.stability[c] for c in chosen)
            for chosen in itertools.combinations(allowed, k)
            if not any(a in ancestors[b] or b in ancestors[a] for a, b in itertools.combinations(chosen, 2))
        ]
        assert tree.stability[model.selection_["clusters"]].sum() == pytest.approx(max(totals))
    with pytest.raises(
        InvalidParameter, match=r"n_clusters=\d+ is larger than the number of leaves of the condensed tree, \d+"
    ):
        HDBSCAN(3, 2, n_clusters=60).fit(X)


def test_several_sizes_from_one_fit():
    X = blobs(200)
    model = HDBSCAN(5, 4).fit(X)
    for size, labels in zip((3, 8, 20), model.labels_for([3, 8, 20]), strict=True):
        np.testing.assert_array_equal(labels, HDBSCAN(size, 4).fit(X).labels_)
        np.testing.assert_array_equal(labels, model.eom(size))


@pytest.mark.parametrize("name", ["blobs", "lattice"])
def test_distances_sparse_rows_and_graphs_give_the_same_tree(name):
    X = TABLES[name]
    D = pairwise_distances(X)
    direct = HDBSCAN(metric="manhattan").fit(X)
    D1 = pairwise_distances(X, metric="manhattan")
    matrix = HDBSCAN(metric="precomputed").fit(D1)
    graph = HDBSCAN(metric="precomputed").fit(scipy.sparse.csr_array(D1 + 1e-300))
    for model, data in ((matrix, D1), (graph, scipy.sparse.csr_array(D1 + 1e-300))):
        assert same_partition(direct.labels_, model.labels_)
        np.testing.assert_array_equal(model.predict(data), model.labels_)
    rows = HDBSCAN().fit(scipy.sparse.csr_array(X))
    np.testing.assert_array_equal(rows.predict(X), rows.labels_)
    assert same_partition(HDBSCAN(metric="precomputed", noise="nearest").fit(D).labels_ >= 0, np.ones(len(X)) >= 0)
    for eps in (0.5, 1.0, 2.0):
        expected = DBSCAN(eps, min_samples=5, metric="precomputed").fit_predict(D1)
        np.testing.assert_array_equal(matrix.cut(eps), expected)
        np.testing.assert_array_equal(graph.cut(eps), expected)
        star = DBSCAN(eps, min_samples=5, metric="precomputed", border="noise").fit_predict(D1)
        np.testing.assert_array_equal(matrix.cut(eps, border="noise"), star)
        np.testing.assert_array_equal(graph.cut(eps, border="noise"), star)


def test_infinite_distances_separate():
    D = np.full((12, 12), np.inf)
    D[:6, :6], D[6:, 6:] = 1.0, 1.0
    model = HDBSCAN(3, metric="precomputed").fit(D)
    assert same_partition(model.labels_, np.repeat([0, 1], 6))
    np.testing.assert_array_equal(model.predict(D), model.labels_)


def test_memberships_are_those_of_the_tree():
    X = blobs(250, seed=5, k=4)
    model = HDBSCAN(cluster_selection_method="leaf").fit(X)
    k = int(model.labels_.max()) + 1
    every = model.membership_vectors().toarray()
    np.testing.assert_allclose(every.sum(axis=1), 1.0)
    inside = model.labels_ >= 0
    np.testing.assert_array_equal(every.argmax(axis=1)[inside], model.labels_[inside])
    np.testing.assert_allclose(model.membership_vectors(X).toarray(), every)
    u = squareform(cophenet(model.to_scipy()))
    for t in (1, 2, k):
        few = model.membership_vectors(t=t)
        assert (np.diff(few.indptr) <= t).all()
        np.testing.assert_allclose(np.sort(few.toarray())[:, k - t :], np.sort(every)[:, k - t :])
    noise = np.flatnonzero(~inside)  # a row outside merges with a cluster where it first merges with one of its rows
    for row in noise[:20]:
        heights = np.array([u[row, model.labels_ == c].min() for c in range(k)])
        levels = 1.0 / np.maximum(heights, model.condensed_tree_.row_height[row])
        np.testing.assert_allclose(every[row], levels / levels.sum(), rtol=1e-9)


def test_all_noise_and_one_row_have_answers():
    for X, options in ((blobs(30), {"min_cluster_size": 30}), (np.ones((1, 2)), {"min_samples": 1})):
        model = HDBSCAN(**options, store_centers="both").fit(X)
        assert (model.labels_ == -1).all()
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        assert model.membership_vectors().shape == (len(X), 0)
        assert model.centroids_.shape == model.medoids_.shape == (0, 2)
        assert len(model.cluster_persistence_) == 0
        assert model.outlier_scores_.shape == (len(X),)
        assert model.to_scipy().shape == (len(X) - 1, 4)
        assert len(model.genie(1)) == len(model.centers(1).labels) == len(X)
        assert len(model.bands().row) >= 1
        assert model.layers() == []
        assert model.curves().clusters[-1] == 1


@pytest.mark.parametrize("least", [1, 3, 10])
def test_curves_are_those_of_the_cuts(least):
    X = TABLES["lattice"]
    tree = DensityTree(4).fit(X)
    curves = tree.curves(least)
    for i in range(1, len(curves.eps)):
        labels = tree.cut(curves.eps[i], border="noise")
        sizes = np.bincount(labels[labels >= 0])
        sizes = sizes[sizes >= least]
        assert len(sizes) == curves.clusters[i]
        assert curves.noise[i] == pytest.approx(1 - sizes.sum() / len(X))
        assert curves.largest[i] == sizes.max(initial=0)


def test_bands_survive_errors_of_the_rows():
    X = blobs(120, seed=3)
    tree, rng = DensityTree(4).fit(X), np.random.default_rng(0)
    bands = tree.bands()
    np.testing.assert_array_equal(np.isinf(bands.death), np.arange(len(bands.death)) == 0)
    total = np.sort(tree.bars_[1:]).sum() - tree.core_distances_.sum() + tree.core_distances_.min()
    np.testing.assert_allclose((bands.death - bands.birth)[1:].sum(), total)  # elder rule
    delta = 0.9 * bands.delta[2]
    moved = X + delta * np.sqrt(0.5) * rng.choice([-1.0, 1.0], size=X.shape)
    assert (DensityTree(4).fit(moved).bands().delta > 0).sum() >= (bands.delta > delta).sum()


def test_the_linkage_has_the_heights_of_the_tree():
    X = TABLES["lattice"]
    tree = DensityTree(3).fit(X)
    Z = tree.to_scipy()
    assert is_valid_linkage(Z)
    position = np.argsort(tree.order_)
    u = squareform(cophenet(Z))
    for i, j in itertools.combinations(range(0, len(X), 9), 2):
        a, b = sorted((position[i], position[j]))
        assert u[i, j] == tree.bars_[a + 1 : b + 1].max()


def test_other_points_are_cut_as_dbscan_predicts():
    X, Y = TABLES["blobs"], blobs(60, seed=9)
    tree = DensityTree(5).fit(X)
    for eps in (0.3, 0.6, 1.2):
        for border in ("closest", "noise"):
            expected = DBSCAN(eps, min_samples=5, border=border).fit(X).predict(Y)
            np.testing.assert_array_equal(tree.predict_cut(eps, Y, border=border), expected)


def test_rows_of_weight_zero_change_nothing():
    X = TABLES["blobs"]
    weights = np.ones(len(X))
    weights[::4] = 0
    tree, kept = DensityTree(5).fit(X, sample_weight=weights), DensityTree(5).fit(X[weights > 0])
    answers = [
        lambda t: t.cut(0.8),
        lambda t: t.eom(6),
        lambda t: t.leaves(6),
        lambda t: t.genie(3),
        lambda t: t.centers(3).labels,
        lambda t: t.outliers(6),
    ]
    for answer in answers:
        np.testing.assert_array_equal(answer(tree)[weights > 0], answer(kept))
        assert len(answer(tree)) == len(X)
    dbscan = DBSCAN(0.8, min_samples=5).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(tree.cut(0.8), dbscan.labels_)


def test_layers_are_leaves_of_doubled_sizes():
    tree = DensityTree(3).fit(blobs(300, k=4))
    layers = tree.layers(4)
    assert len(layers) > 1
    for layer in layers:
        np.testing.assert_array_equal(layer.labels, tree.leaves(layer.min_cluster_size))


def test_alpha_divides_distances_but_not_core_distances():
    X = blobs(60)
    D = pairwise_distances(X)
    core = np.sort(D, axis=1)[:, 3]
    for alpha in (0.5, 1.0, 1.7):
        tree = DensityTree(4, alpha=alpha).fit(X)
        u = squareform(cophenet(tree.to_scipy()))
        best = np.maximum(np.maximum(D / alpha, core), core[:, None])
        for k in range(len(X)):  # the smallest largest step of all paths
            best = np.minimum(best, np.maximum(best[:, k : k + 1], best[k]))
        off = ~np.eye(len(X), dtype=bool)
        np.testing.assert_allclose(u[off], best[off], rtol=1e-12)
        assert tree.genie(4, gini=0.3).max() == 3


def test_centers_are_weighted_by_probability():
    X = blobs(90)
    model = HDBSCAN(store_centers="both").fit(X)
    for c, (centroid, medoid) in enumerate(zip(model.centroids_, model.medoids_, strict=True)):
        rows = model.labels_ == c
        np.testing.assert_allclose(centroid, np.average(X[rows], axis=0, weights=model.probabilities_[rows]))
        assert (X[rows] == medoid).all(axis=1).any()
    theirs = SklearnHDBSCAN(store_centers="both", copy=True).fit(X)
    if same_partition(model.labels_, theirs.labels_):
        np.testing.assert_allclose(np.sort(model.medoids_, axis=0), np.sort(theirs.medoids_, axis=0))


def test_the_condensed_tree_is_a_table():
    model = HDBSCAN().fit(blobs(80))
    frame = model.condensed_tree_.to_pandas()
    assert list(frame.columns) == ["parent", "child", "lambda_val", "child_size"]
    assert sorted(frame.child[frame.child < 80]) == list(range(80))
    assert model.single_linkage_tree_.shape == (79, 4)


def test_a_model_file_keeps_every_answer(tmp_path):
    X = blobs(80)
    for options, data in (({}, X), ({"noise": "nearest"}, X), ({"metric": "precomputed"}, pairwise_distances(X))):
        model = HDBSCAN(**options).fit(data, sample_weight=np.arange(80) % 3)
        knoll.save(model, tmp_path / "m.knoll")
        loaded = knoll.load(tmp_path / "m.knoll")
        np.testing.assert_array_equal(loaded.predict(data), model.labels_)
        np.testing.assert_array_equal(loaded.genie(4), model.genie(4))
        np.testing.assert_array_equal(loaded.outlier_scores_, model.outlier_scores_)
        np.testing.assert_array_equal(loaded.cut(0.7), model.cut(0.7))


def test_invalid_requests(monkeypatch):
    X = blobs(30)
    with pytest.raises(BadData, match="min_samples \\(31\\) must be at most the number of samples"):
        HDBSCAN(min_samples=31).fit(X)
    with pytest.raises(InvalidParameter, match="min_cluster_size must be >= 2"):
        HDBSCAN(1).fit(X)
    with pytest.raises(BadData, match="X has a NaN at row 3"):
        HDBSCAN().fit(np.where(np.arange(30)[:, None] == 3, np.nan, X))
    with pytest.raises(BadData, match="expected to be symmetric"):
        HDBSCAN(metric="precomputed").fit(np.abs(X))
    with pytest.raises(BadData, match="expected to be symmetric"):
        HDBSCAN(metric="precomputed").fit(np.arange(900.0).reshape(30, 30))
    with pytest.raises(BadData, match="must be >= 0"):
        HDBSCAN(metric="precomputed").fit(-pairwise_distances(X))
    with pytest.raises(InvalidParameter, match="cannot be computed"):
        HDBSCAN(metric="no metric").fit(X)
    model = HDBSCAN(metric="precomputed", noise="nearest").fit(pairwise_distances([*X, [90.0, 90.0]]))
    with pytest.raises(InvalidParameter, match="does not keep"):
        model.labels_for(3)
    monkeypatch.setattr("knoll.density.reachability.free_memory", lambda: 1000)
    with pytest.raises(CostError, match="all distances of 30 rows"):
        HDBSCAN(metric="canberra").fit(X)


def test_errors_name_the_parameter_that_the_user_set():
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(InvalidParameter, match=r"min_cluster_size must be a whole number where min_samples is None"):
        HDBSCAN(min_cluster_size=2.5).fit(X)
    HDBSCAN(min_cluster_size=2.5, min_samples=3).fit(X)
    HDBSCAN(min_cluster_size=2.5).fit(X, sample_weight=np.full(50, 0.5))
    with pytest.raises(BadData, match=r"min_samples \(51\) must be at most .* take a smaller min_cluster_size"):
        HDBSCAN(min_cluster_size=51).fit(X)
    with pytest.raises(BadData, match=r"min_samples \(51\) must be at most .* Take a smaller min_samples"):
        HDBSCAN(min_samples=51).fit(X)
    with pytest.raises(InvalidParameter, match="n_clusters=3: the condensed tree has no split"):
        HDBSCAN(min_cluster_size=30, n_clusters=3).fit(X)
    halves = np.concatenate([X, X + 100])
    with pytest.raises(InvalidParameter, match=r"no 2 clusters have at most max_cluster_size=30 rows"):
        HDBSCAN(min_cluster_size=40, max_cluster_size=30, n_clusters=2).fit(halves)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_equal_totals_of_k_clusters_are_decided_by_coordinates(k):
    """On a lattice of pairs every choice of k is as stable as any other."""
    pairs = np.stack(np.meshgrid(np.arange(0.0, 40.0, 10.0), [0.0, 10.0]), axis=-1).reshape(-1, 2)
    X = np.concatenate([pairs, pairs + np.array([1.0, 0.0])])
    expected = HDBSCAN(2, min_samples=1, n_clusters=k).fit(X).labels_
    assert len(set(expected.tolist()) - {-1}) == k
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(X))
        labels = HDBSCAN(2, min_samples=1, n_clusters=k).fit(X[order]).labels_
        np.testing.assert_array_equal(labels, expected[order])


@pytest.mark.parametrize("t", [0, 2.5, "a"])
def test_a_wrong_number_of_memberships_is_named(t):
    model = HDBSCAN(5).fit(np.random.default_rng(0).normal(size=(60, 2)))
    with pytest.raises(InvalidParameter, match="HDBSCAN: t must be"):
        model.membership_vectors(t=t)
