"""Density drops along lines: found where there are some, and not in one mode of any shape."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import datasets as sk

from knoll.comparison import compare
from knoll.comparison import line_projections as lines
from knoll.comparison.density_modes import kernel_estimate, squared_distances
from knoll.metrics import adjusted_rand_score

NUMBERS = tuple(range(2, 8))


def look(X, more_than=1):
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = kernel_estimate(squared_distances(Z), Z.shape[1])
    return lines.find_density_drops(Z, NUMBERS, kernel.log_density, more_than, 0, None)


def draw(kind, n=300, d=13, seed=0):
    rng = np.random.default_rng(seed)
    match kind:
        case "gaussian":
            return rng.normal(size=(n, d))
        case "box":
            return rng.uniform(size=(n, d))
        case "long":
            return 2 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))
        case "skewed":
            return np.exp(0.8 * rng.normal(size=(n, d)))
        case "tails":
            return rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3)
        case "two-valued":
            return rng.integers(0, 2, size=(n, d)).astype(float)
        case "ring":
            angle = rng.uniform(0, 2 * np.pi, size=n)
            return np.c_[np.cos(angle), np.sin(angle)] @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))
        case "band":
            angle = rng.uniform(0, np.pi, size=n)
            return np.c_[np.cos(angle), np.sin(angle)] @ rng.normal(size=(2, d)) + 0.15 * rng.normal(size=(n, d))
        case _:
            raise KeyError(kind)


def three(n=100, d=13, skewed=False, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), n)
    own = rng.gamma(2, 1, size=(3 * n, d)) if skewed else rng.normal(size=(3 * n, d))
    return 2 * rng.normal(size=(3, d))[y] + own, y


@pytest.mark.parametrize("kind", ["gaussian", "box", "long", "skewed", "tails", "two-valued"])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_hill_is_one_hill(kind, seed):
    assert look(draw(kind, seed=seed)).count == 1


@pytest.mark.parametrize("kind", ["ring", "band"])
def test_what_is_bent_is_seldom_taken_for_two(kind):
    """Its rows in the valley lie as close as others; that is tested, and a test errs now and then."""
    assert sum(look(draw(kind, seed=seed)).count > 1 for seed in range(4)) <= 1


@pytest.mark.parametrize("skewed", [False, True])
def test_clusters_of_any_kind_are_seen(skewed):
    X, y = three(skewed=skewed)
    found = look(X)
    assert found.count == 3
    assert adjusted_rand_score(y, found.labels) > 0.95
    assert found.drop > found.null_drop
    assert found.halves > 0.9
    assert found.reason.startswith(
        f"between any two of 3 k-means clusters the log density drops by at least {found.drop:.2f}"
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_what_others_have_seen_is_not_outbid(seed):
    """Where three are known there is nothing to add, though a fourth part may have a valley of its own."""
    X, _ = three(seed=seed)
    assert look(X, more_than=3).count <= 3


def test_it_is_heard_where_the_nearest_neighbour_is_far():
    assert lines.is_high_dimensional(178, 13)
    assert not lines.is_high_dimensional(2000, 10)
    m, d = 1000, 10
    assert lines.is_high_dimensional(m, d) == (m ** (-1 / d) > 0.5)


@pytest.mark.parametrize("gap", [0.0, 2.5, 5.0])
def test_a_valley_is_as_deep_as_that_of_its_density(gap):
    """Two Gaussians on a line, seen in so many rows that the estimate is nearly the density."""
    rng = np.random.default_rng(0)
    x = np.r_[rng.normal(size=20_000), gap + rng.normal(size=20_000)]
    along = (x - 0.0) / gap if gap else (x - x[x < 0].mean()) / (x[x > 0].mean() - x[x < 0].mean())
    depth, position, peaks = lines._largest_drop(along)
    height = lambda at: math.exp(-0.5 * at**2) + math.exp(-0.5 * (at - gap) ** 2)  # noqa: E731
    true = math.log(max(height(0), height(gap / 2)) / height(gap / 2))
    assert depth == pytest.approx(true, abs=0.1, rel=0.15)  # a kernel of some width fills valleys a little
    if gap == 5.0:
        assert position == pytest.approx(0.5, abs=0.05)
        assert peaks == (pytest.approx(0, abs=0.05), pytest.approx(1, abs=0.05))


def test_wine_has_its_three_kinds_and_the_tumours_no_valley():
    """Two real tables with many columns: between the classes of the second no valley lies even along their means."""
    wine = sk.load_wine()
    found = compare(wine.data, methods=["kmeans", "gaussian-mixture"], truth=wine.target)
    assert found.recommendation.method == "kmeans"
    assert found.recommendation.reasons[0].startswith("Three groups, found by kmeans; ")
    assert adjusted_rand_score(wine.target, found.labels) > 0.85
    tumours = sk.load_breast_cancer()
    Z = (tumours.data - tumours.data.mean(axis=0)) / tumours.data.std(axis=0)
    assert lines._smallest_drop(Z, tumours.target.astype(np.int64), None) < 0.1
    found = compare(tumours.data, methods=["kmeans", "gaussian-mixture"])
    assert found.recommendation.method is None
    reason = found.recommendation.reasons[-1]
    assert reason.startswith("However, the rows are neither a single Gaussian nor uniform. If you need a partition: ")
    assert " divides them into two clusters (stability " in reason
