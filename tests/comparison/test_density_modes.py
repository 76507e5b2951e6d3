"""The kernel estimate and its modes, against plain loops and against terrain drawn by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree

from knoll.comparison.density_modes import (
    Modes,
    _edges,
    _inverse_dimension,
    _midpoint_density,
    _spanning_tree,
    find_modes,
    kernel_estimate,
    merge_modes,
    prominence_threshold,
    squared_distances,
)


def modes_of(X: np.ndarray) -> Modes:
    gaps = squared_distances(X)
    return find_modes(gaps, kernel_estimate(gaps, X.shape[1]), X.shape[1])


def rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def log_normal(x: np.ndarray, mean: np.ndarray, width2: float) -> float:
    return float(-0.5 * ((x - mean) ** 2).sum() / width2 - 0.5 * len(x) * math.log(2 * math.pi * width2))


def test_distances_are_those_of_a_loop():
    X = rows(40, 3) + 1e3
    expected = [[((a - b) ** 2).sum() for b in X] for a in X]
    assert np.allclose(squared_distances(X), expected, rtol=1e-9, atol=1e-9)


def test_each_row_is_predicted_by_the_others():
    X = rows(30, 2)
    found = kernel_estimate(squared_distances(X), 2, (5,))
    width2 = [np.sort(((X - x) ** 2).sum(axis=1))[5] / 2 for x in X]
    for i, x in enumerate(X):
        others = [math.exp(log_normal(x, X[j], width2[j])) for j in range(30) if j != i]
        assert found.log_density[i] == pytest.approx(math.log(sum(others) / 29), abs=1e-9)


def test_the_width_is_the_one_that_predicts_best():
    gaps = squared_distances(rows(300, 2))
    each = {k: kernel_estimate(gaps, 2, (k,)).log_density.sum() for k in (5, 20, 60)}
    assert kernel_estimate(gaps, 2, (5, 20, 60)).k == max(each, key=lambda k: each[k])


def test_copies_have_a_density():
    X = np.repeat(rows(20, 2), 10, axis=0)
    assert np.isfinite(kernel_estimate(squared_distances(X), 2).log_density).all()
    assert np.isfinite(kernel_estimate(np.zeros((30, 30)), 2).log_density).all()


def test_the_tree_is_the_shortest():
    gaps = squared_distances(rows(60, 3))
    tree = _spanning_tree(gaps)
    assert gaps[tree[:, 0], tree[:, 1]].sum() == pytest.approx(minimum_spanning_tree(gaps).sum())


def test_the_density_between_two_rows_is_that_of_their_middle():
    X = rows(50, 2)
    gaps = squared_distances(X)
    found = kernel_estimate(gaps, 2, (5,))
    links = _edges(gaps)
    middles = _midpoint_density(gaps, links, found, 2)
    for (a, b), value in list(zip(links, middles, strict=True))[::25]:
        middle = (X[a] + X[b]) / 2
        direct = [math.exp(log_normal(middle, X[j], found.bandwidth2[j])) for j in range(50)]
        assert value == pytest.approx(math.log(sum(direct) / 50), abs=1e-9)


# A walk over modes: tops of 5, 4 and 3, passes at 1 and 2.
TERRAIN = np.array([2.0, 5.0, 3.0, 1.0, 4.0, 2.0, 3.0, 0.5])
WALK = np.array([(i, i + 1) for i in range(7)])
HEIGHT = np.minimum(TERRAIN[:-1], TERRAIN[1:])


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        (0.5, [[0, 1, 2, 3], [4, 5], [6, 7]]),  # prominences: 4 − 1 and 3 − 2
        (2.0, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (3.5, [[0, 1, 2, 3, 4, 5, 6, 7]]),
    ],
)
def test_hills_of_a_walk(needed, expected):
    labels, strengths = merge_modes(TERRAIN, WALK, HEIGHT, np.ones(8), 1.0, lambda thin: needed, np.zeros(8))
    groups = [set(np.flatnonzero(labels == c).tolist()) for c in range(labels.max() + 1)]
    for mode in expected:  # the foot at a pass may go to either side
        tops = {1, 4, 6} & set(mode)
        assert any(tops <= group for group in groups)
    assert len(groups) == len(expected)
    assert [s for s in strengths if s > 0] == [3.0 / needed, 1.0 / needed]


def test_a_light_hill_is_no_hill():
    labels, strengths = merge_modes(TERRAIN, WALK, HEIGHT, np.ones(8), 3.0, lambda thin: 0.5, np.zeros(8))
    assert labels[[1, 4, 6]].tolist() == [0, 1, 1]  # the third top has one node above its pass, the second has three
    assert strengths.tolist() == [6.0]
    assert merge_modes(TERRAIN, WALK, HEIGHT, np.ones(8), 5.0, lambda thin: 0.5, np.zeros(8))[0].max() == 0


def test_hills_are_numbered_by_mass():
    X = np.r_[rows(60, 2), rows(140, 2, 1) + 20]
    found = modes_of(X)
    assert found.count == 2
    assert (found.labels == np.repeat([1, 0], [60, 140])).all()


@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_cloud_is_one_hill(d):
    rng = np.random.default_rng(d)
    for X in (rng.normal(size=(300, d)), rng.uniform(size=(300, d))):
        assert modes_of(X).count == 1


def test_bent_shapes_are_one_hill_each():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, size=500)
    ring = np.c_[np.cos(angle), np.sin(angle)]
    X = np.r_[ring[:300], 3 * ring[300:]] + 0.05 * rng.normal(size=(500, 2))
    found = modes_of(X)
    assert found.count == 2
    assert len(np.unique(found.labels[:300])) == 1
    assert len(np.unique(found.labels[300:])) == 1
    assert found.strength > 1


def test_what_a_hill_needs_depends_on_what_it_is_made_of():
    seen = []
    thin = np.where(np.arange(8) < 4, 0.5, 1.0)
    merge_modes(TERRAIN, WALK, HEIGHT, np.ones(8), 1.0, lambda mean: seen.append(mean) or 1.0, thin)
    assert set(seen) <= {0.5, 1.0}
    assert seen[-1] == 1.0  # the mode that density_ari the highest one last has only thin nodes


def test_the_dimension_of_what_rows_fill():
    rng = np.random.default_rng(0)
    line = np.outer(rng.uniform(size=800), [1, 2, 3])
    plane = rng.uniform(size=(800, 2)) @ rng.normal(size=(2, 5))
    for X, expected in ((line, 1.0), (plane, 2.0)):
        assert 1 / _inverse_dimension(squared_distances(X)).mean() == pytest.approx(expected, rel=0.1)


def test_what_chance_gives_falls_with_the_rows_behind_an_estimate_and_rises_in_thin_things():
    assert prominence_threshold(500, 2, 5, 0.5) > prominence_threshold(500, 2, 20, 0.5)
    assert prominence_threshold(500, 2, 5, 0.9) > prominence_threshold(500, 2, 5, 0.5)
    assert prominence_threshold(500, 1, 5, 1.0) == pytest.approx(2 * math.sqrt(2 * math.log(100) / 5))
    assert prominence_threshold(500, 4, 5, 0.0) == prominence_threshold(500, 4, 5, 0.25)  # no more than fills the space


def test_one_line_is_one_hill_most_of_the_time():
    """The threshold is where chance is about to reach it; so most, not all, of thin sparse rings are whole."""
    split = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        angle = rng.uniform(0, 2 * np.pi, size=200)
        split += modes_of(np.c_[np.cos(angle), np.sin(angle)] + 0.02 * rng.normal(size=(200, 2))).count > 1
    assert split <= 2
