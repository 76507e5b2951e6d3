"""Equations 7.7 to 7.12 on data, and where Ward's relations stop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from knoll import AgglomerativeClustering, KMeans, datasets, relations
from knoll.relations import _ward, ward_and_dp_means

X = datasets.load("banana", n_samples=60).X


def rise(points, A, B):
    def J(rows):
        return np.square(points[rows] - points[rows].mean(axis=0)).sum()

    return J([*A, *B]) - J(A) - J(B)


def test_the_cost_of_a_union_follows_from_those_of_its_children():
    """Eq. 7.7, and that it is not below the lesser one where the children are closest."""
    random = np.random.default_rng(0)
    for _ in range(50):
        rows = random.permutation(len(X)).tolist()
        a, b, c = random.integers(1, 8, size=3)
        A, B, C = rows[:a], rows[a : a + b], rows[a + b : a + b + c]
        union = ((a + c) * rise(X, A, C) + (b + c) * rise(X, B, C) - c * rise(X, A, B)) / (a + b + c)
        assert rise(X, A + B, C) == pytest.approx(union, rel=1e-9)
        if rise(X, A, B) <= min(rise(X, A, C), rise(X, B, C)):
            assert union >= min(rise(X, A, C), rise(X, B, C)) * (1 - 1e-12)


def test_the_best_pruning_costs_the_lesser_of_rise_and_price_for_each_merge():
    """Eq. 7.10, against all prunings of a small tree."""
    points = X[:9]
    model = AgglomerativeClustering(1, compute_distances=True).fit(points)
    tree = _ward.WardTree.of(points, model.children_, model.distances_)

    def prunings(cluster):
        yield [cluster]
        if cluster >= tree.n:
            for both in itertools.product(*(prunings(child) for child in tree.children[cluster - tree.n])):
                yield [*both[0], *both[1]]

    for price in (0.001, 0.05, 0.3, 2.0, 50.0):
        least = min(sum(tree.inner[c] + price for c in kept) for kept in prunings(2 * tree.n - 2))
        assert least == pytest.approx(np.minimum(tree.rises, price).sum() + price)
        assert least == pytest.approx(ward_and_dp_means._best_pruning(tree, price))


def test_greedy_merging_is_not_optimal_on_four_points():
    points = np.array([[0.0], [2.0], [3.9], [5.9]])
    certificate = relations.get("ward-is-kmeans-by-merging").certify(points)
    assert certificate.holds
    labels = AgglomerativeClustering(2).fit(points).labels_
    assert _ward.objective(points, labels) > 1.5 * KMeans(2, init=[[1.0], [4.9]], n_init=1).fit(points).inertia_


NAMES = ("ward-is-kmeans-by-merging", "ward-is-dp-means-on-a-tree", "ward-is-gaussian-merging")


@pytest.mark.parametrize("name", NAMES)
def test_they_hold_on_duplicates_and_far_from_zero(name):
    relation = relations.get(name)
    for data in (np.repeat(X[:15], 3, axis=0), X + 1e6, X * 1e-30, np.zeros((7, 2)), X[:2]):
        assert relation.certify(data).verdict == "holds", str(relation.certify(data))
