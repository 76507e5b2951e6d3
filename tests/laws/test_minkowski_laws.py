"""Minkowski distances of any power and magnitude: DBSCAN, the density tree and searches decide by one formula."""

from __future__ import annotations

import numpy as np
import pytest

import knoll
from knoll.neighbors.index import UniqueRowIndex

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")
POWERS = [1.5, 3.0, 30.0, 2000.0, 1e10, 1e16, 1.7e308]
SIZES = [1e-300, 1e-160, 1.0, 1e199, 1e307]


def rows(size: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(12, 3)), rng.normal(size=(12, 3)) + 6, [[3.0, 3.0, 3.0]]]) * 0.05 * size


def distances(X: np.ndarray, p: float) -> np.ndarray:
    """(Σ|x − y|^p)^(1/p), in units of the largest difference where its power leaves float64."""
    gaps = np.abs(X[:, None] - X)  # (n, n, d)
    largest = gaps.max(axis=2)
    with np.errstate(all="ignore"):
        unit = np.where(np.abs(p * np.log2(largest)) > 900, largest, 1.0)
        found = unit * np.power((gaps / unit[:, :, None]) ** p, 1.0).sum(axis=2) ** (1 / p)
    return np.where(largest > 0, found, 0.0)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("size", SIZES)
def test_dbscan_and_every_cut_of_the_tree_are_those_of_the_distances(p, size):
    X = rows(size)
    D = distances(X, p)
    options = {"metric": "minkowski", "p": p, "min_samples": 3}
    tree = knoll.DensityTree(**options).fit(X)
    for eps in np.quantile(D[D > 0], [0.1, 0.3, 0.5, 0.9]):
        between = float(eps * (1 + 1e-9))
        if (np.abs(D - between) <= 1e-12 * between).any():
            continue  # the last bits of pow would decide
        precomputed = knoll.DBSCAN(between, metric="precomputed", min_samples=3, border="noise").fit(D)
        mine = knoll.DBSCAN(between, border="noise", **options).fit(X)
        np.testing.assert_array_equal(mine.labels_, precomputed.labels_)
        np.testing.assert_array_equal(tree.cut(between, border="noise"), mine.labels_)
    for eps in np.unique(tree.bars_[1:]):  # where a last bit decides
        for border in ("noise", "closest"):
            labels = knoll.DBSCAN(float(eps), border=border, **options).fit(X).labels_
            np.testing.assert_array_equal(tree.cut(float(eps), border=border), labels)


@pytest.mark.parametrize("p", POWERS)
def test_the_nearest_of_close_rows_beside_far_ones(p):
    """Powers of small differences vanished beside those of the largest coordinate: all rows were equally near."""
    X = np.array([[0.0], [1e-200], [3e-200], [1e200]])
    model = knoll.DBSCAN(1.0, min_samples=1, metric="minkowski", p=p).fit(X)
    np.testing.assert_array_equal(model.labels_, [0, 0, 0, 1])
    index = UniqueRowIndex(X, 1.0, "minkowski", p, 1)
    np.testing.assert_array_equal(index.nearest(np.array([[0.9e-200], [2.9e-200]]))[0], [1, 2])


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "canberra"])
@pytest.mark.parametrize("heavy", [1e15, 1e300, 1.7e308])
def test_a_heavy_row_does_not_hide_light_ones(metric, heavy):
    """A row of more than min_samples counts as min_samples: sums do not overflow, and keep what is light."""
    X = np.array([[1.0], [1.5], [2.25], [3.0], [9.0], [9.5], [30.0]])
    weights = np.array([1.0, 1.0, 1.0, 1.0, heavy, heavy, 0.5])
    tree = knoll.DensityTree(min_samples=3, metric=metric).fit(X, sample_weight=weights)
    capped = knoll.DensityTree(min_samples=3, metric=metric).fit(X, sample_weight=np.minimum(weights, 3.0))
    np.testing.assert_array_equal(tree.core_distances_, capped.core_distances_)
    np.testing.assert_array_equal(tree.bars_, capped.bars_)


@pytest.mark.parametrize("metric", ["euclidean", "canberra"])
def test_weights_that_reach_min_samples_by_rounding(metric):
    """Ten times 0.1 is 1 where the sum is rounded once, and 0.9999999999999999 where it is rounded ten times."""
    X = np.arange(1.0, 11.0)[:, None]
    tree = knoll.DensityTree(min_samples=1, metric=metric).fit(X, sample_weight=np.full(10, 0.1))
    assert np.isfinite(tree.core_distances_).all()


@pytest.mark.parametrize("size", [2.0**-1040, 1e-300, 1.0, 1e300])
@pytest.mark.parametrize("factor", [1.0, 1e300])
def test_stabilities_of_any_magnitude_select_the_same_clusters(size, factor):
    """Levels 1/h and weights times levels left float64, and every selection was decided by infinities."""
    rng = np.random.default_rng(1)
    X = np.rint(np.concatenate([rng.normal(size=(15, 2)), rng.normal(size=(15, 2)) + 9]) * 50) * size
    weights = np.full(30, factor)
    tree = knoll.DensityTree(min_samples=3).fit(X)
    same = knoll.DensityTree(min_samples=3).fit(np.rint(X / size))
    np.testing.assert_array_equal(tree.eom(5), same.eom(5))
    np.testing.assert_allclose(tree.condense(5).persistence, same.condense(5).persistence, rtol=1e-12)
    if factor > 1:
        heavy = knoll.DensityTree(min_samples=3).fit(X, sample_weight=weights)
        assert np.isfinite(heavy.condense(5).relative_stability).all()
