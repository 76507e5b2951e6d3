"""Links of nearest neighbours: those of other rows follow the rule of both sides, without computing all pairs."""

from __future__ import annotations

import time

import numpy as np
import pytest

from knoll import SpectralClustering
from knoll.exceptions import CostError
from knoll.neighbors import graph as near


def distances(queries, points):
    squares = np.zeros((len(queries), len(points)))
    for j in range(points.shape[1]):  # the one distance
        squares += np.square(queries[:, j, None] - points[None, :, j])
    return np.sqrt(squares)


def by_hand(queries, points, radius, k):
    away = distances(queries, points)
    own = np.sort(away, axis=1)[:, k - 1 : k]
    return 0.5 * (away <= own) + 0.5 * (away <= radius)


DATA = {
    "a cloud": np.random.default_rng(0).normal(size=(300, 2)),
    "a grid, all ties": np.stack(np.meshgrid(np.arange(14.0), np.arange(14.0)), axis=-1).reshape(-1, 2),
    "copies": np.repeat(np.random.default_rng(1).normal(size=(40, 3)), 6, axis=0),
    "radii of all sizes": np.exp(np.random.default_rng(2).uniform(-200, 200, size=(200, 1))),
    "many columns": np.random.default_rng(3).normal(size=(150, 30)),
    "one row": np.zeros((1, 2)),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("k", [1, 5])
def test_links_of_other_rows_follow_the_rule(name, k):
    X = DATA[name]
    k = min(k, len(X))
    _, radius = near.neighbours_of(X, k, 1, "Me")
    generator = np.random.default_rng(4)
    far = X[:3] + 1e3 * (1 + np.abs(X).max())
    queries = np.concatenate([X[::2], X[:5], X + generator.normal(scale=0.3, size=X.shape), far])
    links = near.link_rows(queries, X, radius, k, 1, "Me")
    np.testing.assert_array_equal(links.toarray(), by_hand(queries, X, radius, k))
    assert links.has_sorted_indices
    again = near.link_rows(queries[::-1], X, radius, k, 2, "Me")  # a row's links depend on nothing beside it
    np.testing.assert_array_equal(again.toarray()[::-1], links.toarray())


def test_the_graph_is_that_of_its_rows_as_queries():
    X = DATA["a cloud"]
    neighbours, radius = near.neighbours_of(X, 7, 1, "Me")
    np.testing.assert_array_equal(
        near.link_rows(X, X, radius, 7, 1, "Me").toarray(), near.graph_of(neighbours).toarray()
    )


def test_too_many_links_are_refused(monkeypatch):
    monkeypatch.setattr(near, "_MOST", 100)
    with pytest.raises(CostError, match=r"the graph of 3 neighbours has more than 100 links, since rows repeat"):
        near.neighbours_of(np.zeros((50, 2)), 3, 1, "Me")


def test_many_rows_are_labelled_without_all_pairs():
    """60 000 × 60 000 distances would take about ten seconds of processor time."""
    X = np.random.default_rng(0).uniform(size=(60_000, 2))
    X[: len(X) // 2] += [3.0, 0.0]
    model = SpectralClustering(2, affinity="nearest_neighbors", random_state=0).fit(X)
    begun = time.process_time()
    found = model.predict(X + 1e-4)
    assert time.process_time() - begun < 5
    assert (found == model.labels_).all()


@pytest.mark.filterwarnings("ignore:SpectralClustering. the graph falls")
@pytest.mark.parametrize("name", ["a cloud", "copies"])
def test_a_full_matrix_of_distances_gives_the_links_of_its_points(name):
    """Zeros of a full matrix are distances, and its rows may come in any order and number."""
    X, options = DATA[name], {"n_neighbors": 7, "random_state": 0}
    precomputed = SpectralClustering(3, affinity="precomputed_nearest_neighbors", **options).fit(distances(X, X))
    own = SpectralClustering(3, affinity="nearest_neighbors", **options).fit(X)
    np.testing.assert_array_equal(precomputed.affinity_matrix_.toarray(), own.affinity_matrix_.toarray())
    assert (precomputed.predict(distances(X, X)) == precomputed.labels_).all()
    for queries in (X[:5], X[::-1], X + 0.01):
        predicted = precomputed.predict(distances(queries, X))
        assert predicted.shape == (len(queries),)
        if name == "a cloud":  # copies fall apart, and a given graph does not have its components
            assert len(np.unique([predicted, own.predict(queries)], axis=1).T) <= 3  # one label for one


def test_links_of_the_rows_themselves_are_the_graph_where_distances_are_subnormal():
    rng = np.random.default_rng(0)
    for _ in range(20):
        X = rng.integers(-8, 9, size=(37, 7)) * 5e-324
        neighbours, radius = near.neighbours_of(X, 6, 1, "test")
        links = near.link_rows(X, X, radius, 6, 1, "test")
        np.testing.assert_array_equal(links.toarray(), near.graph_of(neighbours).toarray())
