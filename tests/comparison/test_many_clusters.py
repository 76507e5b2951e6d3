"""Many small clusters: a usual subsample has too few rows of each."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from knoll.comparison import compare
from knoll.comparison.plan import make_plan
from knoll.comparison.subsample import count_small_clusters


def spots(rng: np.random.Generator, n: int, k: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.integers(0, k, n)
    return rng.uniform(0, 100, size=(k, d))[labels] + 0.2 * rng.normal(size=(n, d)), labels


CONTINUOUS = {
    "uniform": lambda rng, n: rng.uniform(size=(n, 2)),
    "gaussian": lambda rng, n: rng.normal(size=(n, 2)),
    "gaussian-8": lambda rng, n: rng.normal(size=(n, 8)),
    "cube": lambda rng, n: rng.uniform(size=(n, 3)),
    "rounded": lambda rng, n: np.round(rng.normal(size=(n, 2)), 1),
    "heavy-tailed": lambda rng, n: rng.standard_t(2, size=(n, 3)),
    "skewed": lambda rng, n: rng.exponential(size=(n, 3)),
    "few": lambda rng, n: spots(rng, n, 8, 2)[0],
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_density_of_one_distribution_has_not_many_clusters(name):
    points = CONTINUOUS[name](np.random.default_rng(1), 10_000)
    assert count_small_clusters(np.ascontiguousarray(points), 1) == 0


def test_small_clusters_are_counted():
    assert 95 <= count_small_clusters(spots(np.random.default_rng(0), 10_000, 100, 3)[0], 1) <= 100


def test_more_rows_are_seen_if_there_are_many_small_clusters():
    few, many = (make_plan(10**6, 2, ("kmeans",), 120.0, exact=False, many=count) for count in (0, 200))
    assert many.subsample > 3 * few.subsample


def test_many_small_clusters_are_found():
    X, labels = spots(np.random.default_rng(0), 40_000, 120, 3)
    found = compare(X, methods=["kmeans", "hdbscan", "genie"])
    assert found.verdict == "clusters"
    assert adjusted_rand_score(labels, found.labels) > 0.95
