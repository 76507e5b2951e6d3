"""Exactly k clusters of a density tree: Genie, best centres by brute force, noise with the nearest label."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from knoll.density.noise import fill_noise, nearest_labels
from knoll.density.tree import DensityTree
from knoll.exceptions import InvalidParameter, InvalidType
from knoll.reference import genie, tree_centers


def tables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    return {
        "normal": rng.normal(size=(70, 2)),
        "blobs": rng.normal(size=(80, 3)) + 6 * rng.integers(0, 3, size=(80, 1)),
        "uneven": np.concatenate([rng.normal(size=(60, 2)), 0.1 * rng.normal(size=(12, 2)) + 7]),
        "line": rng.normal(size=(60, 1)),
        "duplicates": np.repeat(rng.normal(size=(25, 2)), 3, axis=0),
        "float32": rng.normal(size=(60, 2)).astype(np.float32),
        "wide": rng.normal(size=(40, 20)),
        "two": np.array([[0.0], [1.0]]),
        "one": np.array([[3.0, 4.0]]),
        "equal": np.ones((6, 2)),
    }


TABLES = tables()
LATTICE = np.random.default_rng(1).integers(0, 6, size=(90, 2)).astype(float)


def same_partition(mine: np.ndarray, its: np.ndarray) -> bool:
    pairs = set(zip(mine.tolist(), its.tolist(), strict=True))
    return len(pairs) == len(set(mine.tolist())) == len(set(its.tolist()))


def ultrametric(tree: DensityTree) -> np.ndarray:
    """u of all pairs of rows: the largest bar between them; 0 for equal rows."""
    n = len(tree.order_)
    u = np.zeros((n, n))
    for i in range(n):
        highest = np.maximum.accumulate(tree.bars_[i + 1 :])
        u[tree.order_[i], tree.order_[i + 1 :]] = u[tree.order_[i + 1 :], tree.order_[i]] = highest
    u[(tree.points_[:, None] == tree.points_).all(axis=2)] = 0
    return u


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("min_samples", [1, 2, 5])
@pytest.mark.parametrize("gini", [0.0, 0.2, 0.3, 1.0])
def test_genie_is_that_of_the_reference(name, min_samples, gini):
    X = TABLES[name]
    if min_samples > len(X):
        return
    tree = DensityTree(min_samples).fit(X)
    states = list(genie(X, min_samples, gini))
    found = tree.genie([state.k for state in states], gini=gini)
    for state, labels in zip(states, found, strict=True):
        np.testing.assert_array_equal(labels, state.labels)


def test_genie_without_a_threshold_is_single_linkage():
    X = TABLES["blobs"]
    tree = DensityTree(1).fit(X)
    for k in (2, 3, 10):
        height = np.sort(tree.bars_[1:])[-k]
        assert same_partition(tree.genie(k, gini=1.0), tree.cut(height))


@pytest.mark.parametrize("power", [1.0, 2.0, 3.5, np.inf])
@pytest.mark.parametrize("seed", range(4))
def test_centers_are_the_best_of_all_subsets(power, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(11, 2)) if seed else rng.integers(0, 3, size=(11, 2)).astype(float)
    tree = DensityTree(1 + seed).fit(X)
    u = ultrametric(tree)
    for k, centers in zip(range(1, 6), tree.centers(range(1, 6), power=power), strict=True):
        distances = [u[:, list(rows)].min(axis=1) for rows in itertools.combinations(range(len(X)), k)]
        best = min(d.max() if np.isinf(power) else (d**power).sum() for d in distances)
        assert centers.cost == pytest.approx(best, rel=1e-12)
        mine = u[np.arange(len(X)), centers.rows[centers.labels]]
        assert (mine.max() if np.isinf(power) else (mine**power).sum()) == pytest.approx(best, rel=1e-12)
        np.testing.assert_array_equal(centers.labels[centers.rows], np.arange(k))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("min_samples", [1, 2, 5])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_centers_are_those_of_the_reference(name, min_samples, power):
    X = TABLES[name]
    if min_samples > len(X):
        return
    states = list(tree_centers(X, min_samples, power))
    found = DensityTree(min_samples).fit(X).centers(range(1, len(states) + 1), power=power)
    for state, centers in zip(states, found, strict=True):
        assert centers.cost == pytest.approx(state.cost, rel=1e-9, abs=1e-12 * states[0].cost)
        first = np.unique(X, axis=0, return_index=True, return_inverse=True)
        rows = np.sort(first[1][first[2].ravel()[state.centers]])
        np.testing.assert_array_equal(np.sort(first[1][first[2].ravel()[centers.rows]]), rows)
        assert same_partition(centers.labels, state.labels)


def test_centers_nest_and_their_costs_are_convex():
    tree = DensityTree(4).fit(TABLES["blobs"])
    found = tree.centers(range(1, 81))
    costs = np.array([centers.cost for centers in found])
    assert (np.diff(costs, 2) >= -1e-9 * costs[0]).all()
    for few, more in itertools.pairwise(found):
        assert set(few.rows) < set(more.rows)
    assert costs[-1] == 0


@pytest.mark.parametrize(
    "X", [TABLES["normal"], TABLES["duplicates"], LATTICE], ids=["normal", "duplicates", "lattice"]
)
@pytest.mark.parametrize("min_samples", [1, 4])
def test_neither_the_order_of_rows_nor_threads_matter(X, min_samples):
    tree = DensityTree(min_samples).fit(X)
    ks = (2, 3, 5, 8, 13)
    mine = [*tree.genie(ks), *(c.labels for p in (1.0, 2.0, np.inf) for c in tree.centers(ks, power=p))]
    rng = np.random.default_rng(0)
    for repetition in range(12):
        order = rng.permutation(len(X))
        other = DensityTree(min_samples, n_jobs=(1, 2, 3, 8)[repetition % 4]).fit(X[order])
        its = [*other.genie(ks), *(c.labels for p in (1.0, 2.0, np.inf) for c in other.centers(ks, power=p))]
        for a, b in zip(mine, its, strict=True):
            assert same_partition(a[order], b)


@pytest.mark.parametrize("X", [TABLES["normal"], LATTICE], ids=["normal", "lattice"])
def test_a_weight_is_a_number_of_repetitions(X):
    weights = np.random.default_rng(5).integers(1, 4, size=len(X))
    tree = DensityTree(6).fit(X, sample_weight=weights.astype(float))
    repeated = DensityTree(6).fit(np.repeat(X, weights, axis=0))
    first = np.cumsum(weights) - weights
    for k in (2, 4, 9):
        assert same_partition(tree.genie(k), repeated.genie(k)[first])
        for power in (1.0, 2.0, np.inf):
            assert same_partition(tree.centers(k, power=power).labels, repeated.centers(k, power=power).labels[first])


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_extreme_magnitudes_change_no_partition(scale):
    X = TABLES["blobs"]
    scale = 2.0 ** round(np.log2(scale))
    tree, other = DensityTree(3).fit(X), DensityTree(3).fit(X * scale)
    for k in (2, 5):
        np.testing.assert_array_equal(tree.genie(k), other.genie(k))
        np.testing.assert_array_equal(tree.centers(k).labels, other.centers(k).labels)


def test_weights_that_are_no_whole_numbers():
    rng = np.random.default_rng(3)
    X, w = TABLES["normal"], rng.uniform(0.5, 3, size=70)
    tree, order = DensityTree(4).fit(X, sample_weight=w), rng.permutation(70)
    other = DensityTree(4).fit(X[order], sample_weight=w[order])
    for k in (2, 6, 20):
        assert same_partition(tree.genie(k)[order], other.genie(k))
        assert tree.centers(k).cost == other.centers(k).cost


def test_invalid_requests():
    tree = DensityTree(2).fit(TABLES["duplicates"])
    with pytest.raises(InvalidParameter, match="k=26 is larger than the 25 distinct rows"):
        tree.genie(26)
    with pytest.raises(InvalidParameter, match="k=26 is larger"):
        tree.centers([2, 26])
    with pytest.raises(InvalidParameter, match="k must be >= 1"):
        tree.genie(0)
    with pytest.raises(InvalidType, match="k must be a whole number"):
        tree.centers(2.5)
    with pytest.raises(InvalidParameter, match="gini must be >= 0 and <= 1"):
        tree.genie(2, gini=1.5)
    with pytest.raises(InvalidParameter, match="power must be > 0"):
        tree.centers(2, power=0.0)


# ---- noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine", "canberra", "precomputed"])
def test_noise_takes_the_label_of_the_nearest_clustered_row(metric):
    from sklearn.metrics import pairwise_distances

    rng = np.random.default_rng(2)
    X = rng.integers(1, 5, size=(60, 2)).astype(float)
    labels = rng.integers(-1, 3, size=60)
    labels = labels[np.unique(X, axis=0, return_index=True)[1][np.unique(X, axis=0, return_inverse=True)[1].ravel()]]
    distances = pairwise_distances(X, metric="euclidean" if metric == "precomputed" else metric)
    found = fill_noise(labels, distances if metric == "precomputed" else X, metric=metric)
    clustered = np.flatnonzero(labels >= 0)
    for i in range(60):
        order = (clustered,) if metric == "precomputed" else tuple(X[clustered].T[::-1])
        nearest = clustered[np.lexsort((*order, distances[i, clustered]))[0]]
        expected = labels[i] if labels[i] >= 0 else labels[nearest]
        if metric != "cosine":
            assert found[i] == expected
        elif labels[i] < 0:  # the metric's own formula rounds differently
            near = distances[i, clustered] <= distances[i, clustered].min() + 1e-9
            assert found[i] in labels[clustered[near]]


def test_noise_stays_where_no_row_has_a_label():
    X = np.arange(5.0)[:, None]
    np.testing.assert_array_equal(fill_noise(np.full(5, -1), X), np.full(5, -1))
    np.testing.assert_array_equal(nearest_labels(X, X, np.full(5, -1)), np.full(5, -1))
