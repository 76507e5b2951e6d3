"""Scores of clusters by their points: against scikit-learn, and against the definitions in knoll.reference."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
import sklearn.metrics as theirs
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist, squareform

from knoll import metrics, reference


def table(seed, n=90, d=3, k=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    labels[: 2 * k] = np.repeat(np.arange(k), 2)
    return rng.normal(size=(n, d)) + 2 * rng.normal(size=(k, d))[labels], labels


# ---- silhouettes


@pytest.mark.parametrize("d", [1, 2, 8, 40])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_silhouettes_of_scikit_learn(d, k):
    X, labels = table(d + k, d=d, k=k)
    expected = theirs.silhouette_samples(X, labels)
    np.testing.assert_allclose(metrics.silhouette_samples(X, labels), expected, atol=1e-12)
    assert metrics.silhouette_score(X, labels) == pytest.approx(theirs.silhouette_score(X, labels), abs=1e-12)
    np.testing.assert_allclose(reference.silhouette(X, labels), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("l2", {}),
        ("manhattan", {}),
        ("cityblock", {}),
        ("chebyshev", {}),
        ("minkowski", {"p": 3}),
        ("minkowski", {"p": 1.5}),
        ("minkowski", {"p": 2}),
        ("cosine", {}),
        ("haversine", {}),
        ("canberra", {}),
        ("braycurtis", {}),
        ("seuclidean", {"V": np.array([0.5, 2.0])}),
        (lambda x, y: abs(x - y).sum() ** 0.5, {}),
    ],
)
def test_silhouettes_under_other_metrics(metric, options):
    X, labels = table(1, d=2, k=3)
    X = np.abs(X) / 10
    expected = theirs.silhouette_samples(X, labels, metric=metric, **options)
    found = metrics.silhouette_samples(X, labels, metric=metric, **options)
    np.testing.assert_allclose(found, expected, atol=1e-11)
    score = metrics.silhouette_score(X, labels, metric=metric, **options)
    assert score == pytest.approx(theirs.silhouette_score(X, labels, metric=metric, **options), abs=1e-11)


def test_silhouettes_of_distances_and_of_sparse_rows():
    X, labels = table(2)
    expected = theirs.silhouette_samples(X, labels)
    distances = cdist(X, X)
    found = metrics.silhouette_samples(distances, labels, metric="precomputed")
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(
        found, metrics.silhouette_samples(np.asfortranarray(distances), labels, metric="precomputed", n_jobs=1)
    )
    # a matrix that is not symmetric: rows count, as there
    lopsided = distances * np.random.default_rng(0).uniform(1, 2, size=distances.shape)
    np.testing.assert_allclose(
        metrics.silhouette_samples(lopsided, labels, metric="precomputed"),
        theirs.silhouette_samples(lopsided, labels, metric="precomputed"),
        atol=1e-12,
    )
    rows = scipy.sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    np.testing.assert_allclose(
        metrics.silhouette_samples(rows, labels), theirs.silhouette_samples(rows.toarray(), labels), atol=1e-9
    )


def test_silhouettes_far_from_the_origin():
    """scikit-learn expands squares, which cancel here; the reference subtracts first."""
    X, labels = table(3)
    X = np.round(X * 64) / 64  # so that the shifted coordinates are exact
    expected = reference.silhouette(X, labels)
    np.testing.assert_allclose(metrics.silhouette_samples(X + 2.0**40, labels), expected, atol=1e-14)
    assert np.abs(theirs.silhouette_samples(X + 2.0**40, labels) - expected).max() > 1e-3


# ---- Davies-Bouldin, Calinski-Harabasz


@pytest.mark.parametrize("d", [1, 2, 8, 40])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_scores_of_means_are_scikit_learns(d, k):
    X, labels = table(100 + d + k, d=d, k=k)
    # theirs expand the squares of distances between means, some of which are close
    assert metrics.davies_bouldin_score(X, labels) == pytest.approx(theirs.davies_bouldin_score(X, labels), rel=1e-9)
    expected = theirs.calinski_harabasz_score(X, labels)
    assert metrics.calinski_harabasz_score(X, labels) == pytest.approx(expected, rel=1e-12)


def test_scores_of_means_in_exact_fractions():
    rng = np.random.default_rng(0)
    X, labels = rng.integers(-9, 9, size=(25, 2)), np.repeat([0, 1, 2], [5, 8, 12])
    groups = [[[Fraction(int(v)) for v in row] for row in X[labels == c]] for c in range(3)]
    means = [[sum(column) / len(group) for column in zip(*group)] for group in groups]
    every = [sum(column) / 25 for column in zip(*itertools.chain(*groups))]

    def square(x, y):
        return sum((a - b) ** 2 for a, b in zip(x, y))

    within = sum(square(row, mean) for group, mean in zip(groups, means) for row in group)
    between = sum(len(group) * square(mean, every) for group, mean in zip(groups, means))
    expected = float(between * 22 / (within * 2))
    assert metrics.calinski_harabasz_score(X, labels) == pytest.approx(expected, rel=1e-15)
    spread = [math.fsum(math.sqrt(square(row, m)) for row in group) / len(group) for group, m in zip(groups, means)]
    worst = [
        max((spread[i] + spread[j]) / math.sqrt(square(means[i], means[j])) for j in range(3) if j != i)
        for i in range(3)
    ]
    assert metrics.davies_bouldin_score(X, labels) == pytest.approx(math.fsum(worst) / 3, rel=1e-15)


def test_where_nothing_varies_within_clusters():
    X, labels = np.repeat([[0.1], [0.7], [1.3]], 3, axis=0), np.repeat([0, 1, 2], 3)
    assert metrics.calinski_harabasz_score(X, labels) == 1.0  # theirs is 1.7e32: their means of equal rows are rounded
    assert metrics.davies_bouldin_score(X, labels) == theirs.davies_bouldin_score(X, labels) == 0.0
    assert (metrics.silhouette_samples(X, labels) == 1.0).all()


def test_clusters_with_one_mean():
    X, labels = np.array([[-1.0], [1.0], [-2.0], [2.0], [9.0], [11.0]]), np.array([0, 0, 1, 1, 2, 2])
    assert metrics.davies_bouldin_score(X, labels) == theirs.davies_bouldin_score(X, labels)
    assert metrics.davies_bouldin_score(X[:4], labels[:4]) == 0.0


# ---- density-based validity


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
def test_validity_is_the_references(d, seed):
    X, labels = table(seed, n=40, d=d, k=3)
    labels[-6:] = -1
    assert metrics.dbcv_score(X, labels) == pytest.approx(reference.dbcv(X, labels), abs=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_validity_on_lattices(seed, d):
    """Where rows repeat and distances tie, the same tree is taken."""
    rng = np.random.default_rng(seed)
    X, labels = rng.integers(4, size=(14, d)).astype(float), rng.integers(-1, 3, size=14)
    sizes = np.unique(labels[labels >= 0], return_counts=True)[1]
    if (sizes > 1).sum() >= 2:
        assert metrics.dbcv_score(X, labels) == pytest.approx(reference.dbcv(X, labels), abs=1e-12)


def by_every_spanning_tree(X, rows):
    """The sparseness of a small cluster and its rows inside, of the first of all minimum spanning trees."""
    n, d = len(rows), X.shape[1]
    gaps = squareform(pdist(X[rows]))
    core = [(sum(gaps[i, j] ** -d for j in range(n) if j != i) / (n - 1)) ** (-1 / d) for i in range(n)]
    edges = [(max(core[i], core[j], gaps[i, j]), gaps[i, j], i, j) for i in range(n) for j in range(i)]
    trees = []
    for chosen in itertools.combinations(edges, n - 1):
        reached = {0}
        for _ in range(n):
            reached |= {v for _, _, i, j in chosen for v in (i, j) if {i, j} & reached}
        if len(reached) == n:
            trees.append(sorted(chosen))
    best = min(trees)  # by the largest edge at which they differ; no ties of m and distance here
    degree = [sum(v in edge[2:] for edge in best) for v in range(n)]
    inside = [v for v in range(n) if degree[v] > 1] or list(range(n))
    within = [edge[0] for edge in best if degree[edge[2]] > 1 and degree[edge[3]] > 1]
    return max(within or [edge[0] for edge in best]), [rows[v] for v in inside], dict(zip(rows, core))


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 4), (5, 4), (5, 5)])
def test_validity_by_all_spanning_trees(sizes):
    rng = np.random.default_rng(sum(sizes))
    X = rng.normal(size=(sum(sizes) + 2, 2))
    labels = np.append(np.repeat([0, 1], sizes), [-1, -1])
    found = [by_every_spanning_tree(X, np.flatnonzero(labels == c).tolist()) for c in (0, 1)]
    core = found[0][2] | found[1][2]
    separation = min(max(core[i], core[j], math.dist(X[i], X[j])) for i in found[0][1] for j in found[1][1])
    values = [(separation - sparse) / max(separation, sparse) for sparse, _, _ in found]
    expected = sum(size * value for size, value in zip(sizes, values)) / len(X)
    assert metrics.dbcv_score(X, labels) == pytest.approx(expected, abs=1e-12)


def test_validity_by_hand():
    """Of four rows on a line the two in the middle are inside; c is the harmonic mean of the distances."""
    X = [[0.0], [1.0], [2.0], [3.0], [20.0], [21.0], [22.0], [23.0]]
    labels = [0, 0, 0, 0, 1, 1, 1, 1]
    assert metrics.dbcv_score(X, labels) == pytest.approx((19 - 1.2) / 19, rel=1e-14)
    assert metrics.dbcv_score(X, [*labels[:7], -1]) == pytest.approx(((19 - 1.2) * 4 + (19 - 4 / 3) * 3) / 19 / 8)
    # squares: c = 3 / (1 + 1 + 1/4) in the middle
    assert metrics.dbcv_score(X, labels, metric="sqeuclidean") == pytest.approx((361 - 4 / 3) / 361, rel=1e-14)


def test_validity_prefers_the_moons_to_their_halves():
    t = np.linspace(0, np.pi, 200)
    moons = np.vstack([np.c_[np.cos(t), np.sin(t)], np.c_[1 - np.cos(t), 0.5 - np.sin(t)]])
    rows = moons + 0.02 * np.random.default_rng(0).normal(size=moons.shape)
    right, halves = np.repeat([0, 1], 200), (moons[:, 0] > 0.5).astype(int)
    assert metrics.dbcv_score(rows, right) > 0.5 > 0 > metrics.dbcv_score(rows, halves)
    assert metrics.silhouette_score(rows, right) < metrics.silhouette_score(rows, halves)  # it likes round clusters
