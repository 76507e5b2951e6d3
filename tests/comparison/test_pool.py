"""Answers of every method, the pool that joins them, and their figures: laws and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from knoll import DBSCAN, _core
from knoll.comparison.features import measure
from knoll.comparison.fitting import content_order
from knoll.comparison.methods import Partition, propose_all
from knoll.comparison.pool import join_answers, numbers_for
from knoll.comparison.subsample import Subsample
from knoll.comparison.tree_levels import labels_at, levels
from knoll.density.noise import fill_noise
from knoll.registry import compared


def three(n: int = 60, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    return np.concatenate([c + rng.normal(size=(n, 2)) for c in centres])


def subsample_of(X: np.ndarray, threads: int = 1) -> Subsample:
    return Subsample(np.ascontiguousarray(X[content_order(X)]), 0, threads)


@pytest.fixture(scope="module")
def subsample() -> Subsample:
    return subsample_of(three())


@pytest.fixture(scope="module")
def answers(subsample: Subsample) -> list[Partition]:
    return propose_all(subsample, numbers_for(subsample.n), compared())


# ---- kernels -------------------------------------------------------------------------------------------------------


def test_overlaps_are_the_squares_of_the_contingency_table():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, size=(7, 40)).astype(np.int32)
    found = np.empty((7, 7))
    _core.partition_overlaps(labels, found, 2)
    for a, b in itertools.product(range(7), repeat=2):
        table = np.zeros((5, 5))
        np.add.at(table, (labels[a], labels[b]), 1)
        assert found[a, b] == (table**2).sum()


def prominences_by_hand(labels, edges, heights, tops, shares, k):
    """Join components edge by edge, as lists."""
    out = np.full((k, len(shares)), -1.0)
    for c in range(k):
        components = [{i} for i in np.flatnonzero(labels == c)]
        size = len(components)
        for (i, j), height in zip(edges, heights, strict=True):
            a, b = ([p for p in components if end in p] for end in (i, j))
            if not a or not b or a[0] is b[0]:
                continue
            low, high = sorted((a[0], b[0]), key=lambda p: max((tops[r], -r) for r in p))
            for s, share in enumerate(shares):
                if len(low) >= share * size:
                    out[c, s] = max(out[c, s], max(tops[r] for r in low) - height)
            components.remove(low)
            high |= low
    return out


@pytest.mark.parametrize("seed", range(8))
def test_inner_prominences_equal_joining_by_hand(seed):
    rng = np.random.default_rng(seed)
    n, k = 14, 3
    tops = rng.integers(0, 6, size=n).astype(float)
    labels = rng.integers(-1, k, size=(2, n)).astype(np.int32)
    edges = np.array([pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.4], np.int32)
    heights = np.minimum(tops[edges[:, 0]], tops[edges[:, 1]]) - rng.integers(0, 2, size=len(edges))
    order = np.argsort(-heights, kind="stable")
    edges, heights, shares = np.ascontiguousarray(edges[order]), heights[order], np.array([0.1, 0.4])
    found = np.empty((2, 2 * k))
    _core.inner_prominences(labels, edges, heights, tops, shares, found, 1)
    for p in range(2):
        expected = prominences_by_hand(labels[p], edges, heights, tops, shares, k)
        assert np.array_equal(found[p].reshape(k, 2), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"labels": np.full((2, 4), 9, np.int32)}, "labels"), ({"edges": np.array([[0, 7]], np.int32)}, "edges"),
     ({"heights": np.zeros(3)}, "edges"), ({"tops": np.zeros(2)}, "tops"), ({"shares": np.empty(0)}, "share")],
)  # fmt: skip
def test_wrong_arguments_are_refused(change, message):
    arguments = {
        "labels": np.zeros((2, 4), np.int32), "edges": np.array([[0, 1]], np.int32), "heights": np.zeros(1),
        "tops": np.zeros(4), "shares": np.array([0.5]), "prominences": np.empty((2, 1)), "threads": 1,
    }  # fmt: skip
    with pytest.raises((ValueError, IndexError), match=message):
        _core.inner_prominences(**(arguments | change))


def cut_by_hand(graph, points, labels, steps):
    """Divide every cluster by dense matrices."""
    side, conductance = np.zeros(len(labels), np.uint8), np.ones(labels.max() + 1)
    for c in range(labels.max() + 1):
        own = np.flatnonzero(labels == c)
        W, X = graph[np.ix_(own, own)], points[own] - points[own].mean(axis=0)
        degree = W.sum(axis=1)
        y = np.where(X.sum(axis=1) >= 0, 1.0, -1.0)
        for _ in range(5):
            axis = X.T @ y
            y = X @ (axis / (np.linalg.norm(axis) or 1.0))
        for _ in range(steps):
            y = 0.5 * (y + W @ y / np.maximum(degree, 1e-9))
            y = y - degree @ y / max(degree.sum(), 1e-9)
            y = y / (np.sqrt(degree @ y**2) + 1e-12)
        side[own] = y > 0
        left, right = degree[y > 0].sum(), degree[y <= 0].sum()
        if min(left, right) > 0:
            conductance[c] = W[np.ix_(y > 0, y <= 0)].sum() / min(left, right)
    return side, conductance


@pytest.mark.parametrize("threads", [1, 3])
def test_inner_cuts_equal_dense_matrices(subsample, threads):
    rng = np.random.default_rng(5)
    labels = np.stack([rng.integers(0, k, subsample.n) for k in (1, 2, 5)] + [subsample.points[:, 0] > 4]).astype(
        np.int32
    )
    sides, conductances = np.empty(labels.shape, np.uint8), np.empty((4, 5))
    graph = subsample.graph
    lists = graph.indptr.astype(np.int64), graph.indices.astype(np.int32), graph.data
    _core.inner_cuts(*lists, subsample.points, labels, 12, sides, conductances, threads)
    for p, row in enumerate(labels):
        side, conductance = cut_by_hand(graph.toarray(), subsample.points, row, 12)
        assert np.array_equal(sides[p], side)
        np.testing.assert_allclose(conductances[p, : len(conductance)], conductance, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"labels": np.full((1, 3), 2, np.int32)}, "labels"), ({"starts": np.array([0, 1, 2], np.int64)}, "list per row"),
     ({"starts": np.array([0, 2, 1, 2], np.int64)}, "in order"),
     ({"starts": np.array([0, 1, 1, 1], np.int64)}, "cover"),
     ({"neighbours": np.array([1, 3], np.int32)}, "neighbours"), ({"weights": np.ones(3)}, "weight"),
     ({"points": np.zeros((2, 1))}, "points"), ({"sides": np.zeros((1, 2), np.uint8)}, "sides"),
     ({"steps": -1}, "steps"), ({"conductances": np.empty((2, 2))}, "conductances")],
)  # fmt: skip
def test_wrong_graphs_are_refused(change, message):
    arguments = {
        "starts": np.array([0, 1, 2, 2], np.int64), "neighbours": np.array([1, 0], np.int32), "weights": np.ones(2),
        "points": np.zeros((3, 1)), "labels": np.zeros((1, 3), np.int32), "steps": 2,
        "sides": np.empty((1, 3), np.uint8), "conductances": np.empty((1, 2)), "threads": 1,
    }  # fmt: skip
    _core.inner_cuts(**arguments)
    with pytest.raises((ValueError, IndexError), match=message):
        _core.inner_cuts(**(arguments | change))


# ---- trees ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("min_samples", [1, 5, 10])
def test_spanning_trees_have_the_least_weight(subsample, min_samples):
    from scipy.sparse.csgraph import minimum_spanning_tree

    distance = np.sqrt(((subsample.points[:, None] - subsample.points) ** 2).sum(-1))
    core = np.sort(distance, axis=1)[:, min_samples - 1]
    reach = np.maximum(np.maximum(distance, core[:, None]), core)
    edges, lengths = subsample.spanning_tree(min_samples)
    assert lengths.sum() == pytest.approx(minimum_spanning_tree(reach).sum())
    np.testing.assert_allclose(lengths, np.sort(reach[edges[:, 0], edges[:, 1]]), rtol=1e-12)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_noise_is_filled_by_the_nearest_clustered_row(subsample, share):
    rng = np.random.default_rng(4)
    labels = np.where(rng.random(subsample.n) < share, -1, rng.integers(0, 4, subsample.n))
    assert np.array_equal(subsample.filled(labels), fill_noise(labels, subsample.points))


def test_levels_are_dbscan_without_its_small_clusters(subsample):
    for min_samples, tree in subsample.trees.items():
        condensed = tree.condense(subsample.least_size)
        found = levels(condensed, 20)
        assert 3 in found
        for k, eps in found.items():
            labels = labels_at(condensed, eps)
            own = DBSCAN(eps=eps, min_samples=min_samples, border="noise").fit(subsample.points).labels_
            sizes = np.bincount(own[own >= 0], minlength=1)
            large = (own >= 0) & (sizes[np.maximum(own, 0)] >= subsample.least_size)
            assert len(np.unique(labels[labels >= 0])) == k
            assert np.array_equal(labels >= 0, large)
            assert adjusted_rand_score(labels[large], own[large]) == 1.0


# ---- answers and pool ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", compared())
def test_every_method_finds_three_clusters(subsample, answers, name):
    truth = np.argmin(((subsample.points[:, None] - [[0, 0], [9, 0], [0, 9]]) ** 2).sum(-1), axis=1)
    found = [one for one in answers if one.method == name]
    assert max(adjusted_rand_score(truth, one.labels) for one in found) > 0.95


def test_the_pool_joins_equal_answers(subsample, answers):
    pool = join_answers(subsample, answers)
    assert pool.partitions[0].n_clusters == 1
    assert sum(map(len, pool.members)) <= len(answers) + 1
    off = pool.ari[~np.eye(len(pool.ari), dtype=bool)]
    assert off.max() <= 0.98
    for one, members in zip(pool.partitions, pool.members, strict=True):
        assert members[0] is one
        for other in members[1:]:
            assert adjusted_rand_score(one.labels, other.labels) > 0.98


def test_agreement_is_the_best_index_of_a_source(subsample, answers):
    pool = join_answers(subsample, answers)
    at = int(np.argmax(pool.agreement.mean(axis=1)[1:])) + 1
    for column, source in enumerate(pool.sources):
        own = [one for members in pool.members for one in members if one.source == source]
        best = max(adjusted_rand_score(pool.partitions[at].labels, one.labels) for one in own)
        assert pool.agreement[at, column] == pytest.approx(best, abs=1e-12)


def test_figures_do_not_depend_on_units_or_the_order_of_rows():
    X = three(40, seed=3)
    figures = []
    for other in (X, X[np.random.default_rng(0).permutation(len(X))], 1024.0 * X):
        subsample = subsample_of(other)
        figures.append(
            measure(subsample, join_answers(subsample, propose_all(subsample, (2, 3, 4), ("kmeans", "dbscan"))))[0]
        )
    assert np.array_equal(figures[0], figures[1])
    np.testing.assert_allclose(figures[2], figures[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "X",
    [
        np.repeat([[0.0, 0.0], [5.0, 5.0]], 15, axis=0),  # two values
        np.arange(24.0)[:, None],  # one column
        np.random.default_rng(0).normal(size=(12, 30)),  # more columns than rows
        np.random.default_rng(0).integers(0, 3, size=(80, 2)).astype(float),  # a lattice with copies
        np.random.default_rng(0).normal(size=(7, 2)),  # few rows
    ],
    ids=["two values", "one column", "wide", "lattice", "few rows"],
)
def test_odd_tables_have_finite_figures_and_equal_rows_equal_labels(X):
    subsample = subsample_of(X)
    pool = join_answers(subsample, propose_all(subsample, numbers_for(subsample.n), compared()))
    figures, names = measure(subsample, pool)
    assert figures.shape == (len(pool.partitions), len(names))
    assert np.isfinite(figures).all()
    same = (subsample.points[:, None] == subsample.points).all(-1)
    for row in pool.labels:
        assert (row[:, None] == row)[same].all()


def test_equal_rows_are_equal_wherever_they_are():
    rows = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0], [-0.0, 1.0], [3.0, 3.0]])
    assert Subsample(rows, 0, 1).first_equal.tolist() == [0, 1, 0, 0, 4]
