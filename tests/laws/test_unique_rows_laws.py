"""Merging equal rows changes the time that is spent, and nothing else."""

from __future__ import annotations

import functools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knoll import DBSCAN, MeanShift, SpectralClustering, scales
from knoll._common import unique_rows
from knoll._common.unique_rows import find_unique_rows, merge_equal_rows
from knoll.exceptions import CostError, SuspiciousResultWarning
from knoll.neighbors import graph

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")
seeds = st.integers(0, 2**32 - 1)
METRICS = ("euclidean", "manhattan", "chebyshev", "cosine")


def repeated(seed: int, n: int, m: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, size=(m, d))[rng.integers(m, size=n)] / 2.0


@pytest.fixture
def always(monkeypatch):
    """Merge however few rows there are."""
    monkeypatch.setattr(unique_rows, "_FEWEST", 1)
    monkeypatch.setattr(unique_rows, "_REPEATED", -1)


@pytest.fixture
def plain(monkeypatch):
    """Return a function that calls another while nothing is merged."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setattr(unique_rows, "_FEWEST", 1 << 62)
            return function()

    return call


@settings(max_examples=60)
@given(seed=seeds, n=st.integers(1, 60), m=st.integers(1, 30), d=st.integers(1, 3))
def test_distinct_rows_are_numbered_by_first_appearance(seed, n, m, d):
    X = repeated(seed, n, m, d)
    X[X == 0] = np.where(np.random.default_rng(seed).random((X == 0).sum()) < 0.5, -0.0, 0.0)
    found = find_unique_rows(X)
    seen = {}
    expected = [seen.setdefault(tuple(row), len(seen)) for row in X.tolist()]  # 0.0 == -0.0 in Python, too
    np.testing.assert_array_equal(found.inverse, expected)
    np.testing.assert_array_equal(found.index, [expected.index(c) for c in range(len(seen))])
    np.testing.assert_array_equal(found.counts, np.bincount(expected))


@settings(max_examples=40)
@given(seed=seeds, n=st.integers(1, 50), m=st.integers(1, 6), decades=st.sampled_from([0, 20, 300]))
def test_the_weights_of_equal_rows_add_up_exactly(seed, n, m, decades):
    """A sum that float64 cannot hold is written as several addends, so that no later sum is rounded twice."""
    rng = np.random.default_rng(seed)
    X, weights = repeated(seed, n, m, 2), rng.normal(size=n) * 10.0 ** rng.integers(-decades, decades + 1, size=n)
    found = find_unique_rows(X)
    rows, addends = found.sum_weights(weights)
    np.testing.assert_array_equal(rows[: len(found.index)], found.index)
    which = found.inverse[rows]
    for c in range(len(found.index)):
        assert math.fsum([*weights[found.inverse == c], *-addends[which == c]]) == 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("border", ["closest", "first", "noise"])
@pytest.mark.parametrize("weighted", [None, "counts", "signed", "fractions"])
def test_dbscan_gives_the_same_labels(plain, monkeypatch, metric, border, weighted):
    monkeypatch.setattr(unique_rows, "_FEWEST", 1)
    monkeypatch.setattr(unique_rows, "_REPEATED", -1)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = repeated(seed, 120, 40, 2) + (5.0 if metric == "cosine" else 0.0)
        queries = np.concatenate([X[::3], X[:20] + 0.25])
        weights = {
            None: None,
            "counts": rng.integers(0, 3, size=120),
            "signed": rng.integers(-1, 3, size=120),
            "fractions": rng.choice([0.1, 0.2, 0.7, 1.1], size=120),
        }[weighted]
        eps = 0.05 if metric == "cosine" else 0.5
        for min_samples in (1, 3, 6):

            def answer(X=X, queries=queries, weights=weights, eps=eps, min_samples=min_samples):
                model = DBSCAN(eps, min_samples=min_samples, metric=metric, border=border)
                model.fit(X, sample_weight=weights)
                types = model.predict_kind(queries)
                return model.labels_, model.core_sample_indices_, model.components_, model.predict(queries), types

            for mine, other in zip(answer(), plain(answer), strict=True):
                np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_shift_gives_the_same_labels(always, plain, kernel, weighted):
    X = repeated(2, 150, 30, 2)
    weights = np.random.default_rng(0).integers(1, 4, size=150) if weighted else None

    def answer():
        model = MeanShift(bandwidth=1.0, kernel=kernel).fit(X, sample_weight=weights)
        return model.labels_, model.n_steps_, model.predict(X[:50] + 0.125), model.climbed_

    merged, unmerged = answer(), plain(answer)
    for mine, other in zip(merged[:3], unmerged[:3], strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_allclose(merged[3], unmerged[3], atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_k_distances_are_the_same(always, plain, weighted):
    for seed in range(10):
        X = repeated(seed, 80, 30, 2)
        weights = np.random.default_rng(seed).choice([0.0, 0.5, 2.0, 0.1], size=80) if weighted else None
        for k in (1, 2, 5, 17):
            found = functools.partial(scales.k_distances, X, k, sample_weight=weights)
            np.testing.assert_array_equal(found(), plain(found))


def test_a_sample_finds_repetition_and_costs_nothing_where_there_is_none():
    rng = np.random.default_rng(0)
    assert merge_equal_rows(rng.normal(size=(200_000, 2))) is None
    assert merge_equal_rows(rng.integers(0, 50, size=(200_000, 5)).astype(float)) is None  # of 3·10⁸ possible rows
    assert merge_equal_rows(np.repeat(rng.normal(size=(3_000, 2)), 40, axis=0)) is not None  # equal rows side by side
    assert merge_equal_rows(rng.integers(0, 2, size=(100_000, 1)).astype(np.float32)) is not None
    assert merge_equal_rows(np.zeros((1_000, 2))) is None  # soon done, equal or not


@pytest.mark.parametrize(
    "make", [lambda r, n: r.integers(0, 2, size=(n, 1)) * np.ones(2), lambda r, n: np.zeros((n, 8))]
)
def test_few_distinct_rows_take_seconds_not_minutes(make):
    """Before rows were merged each of these took a minute or more."""
    rng = np.random.default_rng(0)
    X = make(rng, 100_000).astype(float)
    weights = rng.integers(-1, 3, size=len(X))
    begun = time.process_time()
    model = DBSCAN(0.5).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    DBSCAN(0.5, min_samples=60_000).fit(X)
    assert (scales.k_distances(X, 10) == 0).all()
    assert scales.estimate_eps(X).eps > 0
    shifted = MeanShift(bandwidth=0.5, kernel="gaussian").fit(X)
    assert len(shifted.cluster_centers_) == len(np.unique(X, axis=0))
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("k", [1, 4, 30])
@pytest.mark.parametrize("d", [1, 2])
def test_the_graph_of_neighbours_is_the_same(always, plain, k, d):
    X = repeated(3, 150, 30, d)
    queries = np.concatenate([X[::3], X[:40] + 0.25])

    def answer():
        found, radius = graph.neighbours_of(X, k, 1, "Me")
        links = graph.link_rows(queries, X, radius, k, 1, "Me")
        return graph.graph_of(found).toarray(), radius, links.toarray()

    for mine, other in zip(answer(), plain(answer), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_graph_of_too_many_equal_rows_is_refused_at_once():
    """Two distinct rows among 10⁵: 5·10⁹ links, which are counted, not made."""
    X = np.random.default_rng(0).integers(0, 2, size=(100_000, 1)).astype(float)
    begun = time.process_time()
    with pytest.raises(CostError, match=r"more than 268435456 links, since rows repeat\. Drop repeated rows"):
        SpectralClustering(2, affinity="nearest_neighbors").fit(X)
    assert time.process_time() - begun < 2


def test_a_bandwidth_of_zero_is_quick_and_warned_of():
    X = np.random.default_rng(0).integers(0, 2, size=(100_000, 1)).astype(float)
    begun = time.process_time()
    with pytest.warns(
        SuspiciousResultWarning, match=r"bandwidth is 0, since rows repeat.*2 distinct rows.*Give a bandwidth"
    ):
        model = MeanShift().fit(X)
    assert time.process_time() - begun < 1
    assert (model.labels_ == model.labels_[0]).sum() == (X[0] == X).sum()
    assert (model.predict(X) == model.labels_).all()
    assert not MeanShift().fit(np.ones((100, 2))).labels_.any()  # one distinct row is no surprise
