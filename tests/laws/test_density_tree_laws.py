"""The density tree: DBSCAN at every height, HDBSCAN by its definition, any order of rows, weights as repetitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from knoll import DBSCAN
from knoll.density.tree import DensityTree
from knoll.exceptions import BadData, InvalidParameter
from knoll.reference import density_tree, hdbscan, run

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")  # DBSCAN of any radius


def tables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    moons = np.concatenate([[np.cos(t), np.sin(t)] + 0.12 * rng.normal(size=2) for t in rng.uniform(0, 6.3, 300)])
    return {
        "normal": rng.normal(size=(400, 3)),
        "moons": moons.reshape(-1, 2),
        "blobs": rng.normal(size=(300, 2)) + 9 * rng.integers(0, 4, size=(300, 1)),
        "lattice": rng.integers(0, 7, size=(250, 2)).astype(float),
        "duplicates": np.repeat(rng.normal(size=(60, 2)), 4, axis=0),
        "equal": np.ones((40, 3)),
        "chain": np.arange(500.0)[:, None],
        "outliers": np.concatenate([rng.normal(size=(200, 2)), 1e6 * rng.normal(size=(5, 2))]),
        "wide": rng.normal(size=(150, 24)),
        "tiny": 1e-140 * rng.normal(size=(150, 2)),
        "huge": 1e140 * rng.normal(size=(150, 2)),
        "least": 1e-300 * rng.normal(size=(150, 2)),
        "most": 1e300 * rng.uniform(-1, 1, size=(150, 2)),
        "float32": rng.normal(size=(300, 2)).astype(np.float32),
        "two": np.array([[0.0], [1.0]]),
        "one": np.array([[3.0, 4.0]]),
    }


TABLES = tables()


def radii(tree: DensityTree, most: int = 60) -> np.ndarray:
    """Heights at which the tree changes, and radii between them."""
    heights = np.unique(np.concatenate([tree.bars_[1:], tree.core_distances_]))
    heights = heights[heights > 0]
    if len(heights) > most:
        heights = heights[np.linspace(0, len(heights) - 1, most).astype(int)]
    between = (heights[1:] + heights[:-1]) / 2
    return np.concatenate([heights, between, heights[-1:] * 2])


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("min_samples", [1, 2, 5])
def test_a_cut_is_dbscan(name, min_samples):
    X = TABLES[name]
    if min_samples > len(X):
        with pytest.raises(BadData, match="min_samples"):
            DensityTree(min_samples).fit(X)
        return
    tree = DensityTree(min_samples).fit(X)
    for eps in radii(tree):
        for border in ("closest", "noise"):
            expected = DBSCAN(eps, min_samples=min_samples, border=border).fit_predict(X)
            np.testing.assert_array_equal(tree.cut(eps, border=border), expected)


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "minkowski", "cosine", "haversine"])
def test_a_cut_is_dbscan_in_every_metric(metric):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(200, 2))
    options = {"metric": metric, "p": 3.0 if metric == "minkowski" else None}
    tree = DensityTree(4, **options).fit(X)
    for eps in radii(tree, 40):
        for border in ("closest", "noise"):
            expected = DBSCAN(eps, min_samples=4, border=border, **options).fit_predict(X)
            np.testing.assert_array_equal(tree.cut(eps, border=border), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cut_of_directions_is_dbscan(dtype):
    rng = np.random.default_rng(4)  # so many columns that the tree is found by tiles of unit vectors
    X = (rng.normal(size=(6, 80))[rng.integers(0, 6, 400)] + rng.normal(size=(400, 80))).astype(dtype)
    X[7], X[9], X[11] = 0, X[8], 2 * X[10]
    tree = DensityTree(4, metric="cosine").fit(X)
    for eps in radii(tree, 30):
        for border in ("closest", "noise"):
            expected = DBSCAN(eps, min_samples=4, border=border, metric="cosine").fit_predict(X)
            np.testing.assert_array_equal(tree.cut(eps, border=border), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cut_is_dbscan_where_lists_are_long_and_tied(dtype):
    X = np.random.default_rng(6).integers(0, 30, size=(400, 2)).astype(dtype)
    tree = DensityTree(90).fit(X)
    borders = 0
    for eps in radii(tree, 20):
        found = tree.cut(eps)
        np.testing.assert_array_equal(found, DBSCAN(eps, min_samples=90).fit_predict(X))
        borders += int(((found >= 0) & (tree.core_distances_ > eps)).sum())
    assert borders > 1000


def test_borders_are_those_of_the_last_fit():
    tree = DensityTree(5)
    for name in ("moons", "blobs", "lattice"):
        X = TABLES[name][:250]
        eps = float(np.median(radii(tree.fit(X))))
        np.testing.assert_array_equal(tree.cut(eps), DBSCAN(eps, min_samples=5).fit_predict(X))


def test_a_long_chain_is_dbscan():
    X = np.random.default_rng(5).permutation(10**5).astype(float)[:, None] ** 1.5
    tree = DensityTree(3).fit(X)
    for eps in np.quantile(tree.bars_[1:], [0.001, 0.1, 0.5, 0.9, 1.0]):
        for border in ("closest", "noise"):
            expected = DBSCAN(eps, min_samples=3, border=border).fit_predict(X)
            np.testing.assert_array_equal(tree.cut(eps, border=border), expected)
    assert len(tree.condense(5).parent) == 1  # gaps only grow: rows leave one by one, and nothing splits
    assert tree.to_scipy().shape == (10**5 - 1, 4)


@pytest.mark.parametrize("name", ["normal", "moons", "blobs", "lattice", "duplicates", "equal", "wide", "two"])
@pytest.mark.parametrize("min_samples", [1, 2, 4])
def test_heights_are_those_of_the_reference(name, min_samples):
    X = TABLES[name][:70]
    if min_samples > len(X):
        return
    tree = DensityTree(min_samples).fit(X)
    states = list(density_tree(X, min_samples))
    np.testing.assert_array_equal(np.unique(tree.bars_[1:]), [state.height for state in states])
    np.testing.assert_array_equal(tree.core_distances_, states[0].core_distances)
    for state in states:
        pieces = np.empty(len(X), dtype=int)
        pieces[tree.order_] = np.cumsum(tree.bars_ > state.height)
        assert len(set(zip(pieces.tolist(), state.labels.tolist(), strict=True))) == len(set(pieces.tolist()))
        assert len(set(pieces.tolist())) == state.labels.max() + 1


@pytest.mark.parametrize("seed", range(12))
def test_selections_are_those_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2)) + 4 * rng.integers(0, 3, size=(60, 1))
    X = np.round(X, 1) if seed % 3 == 0 else X  # equal rows and equal distances
    tree = DensityTree(1 + seed % 5).fit(X)
    for size in (2, 5, 9):
        last = run(hdbscan(X, 1 + seed % 5, size))
        condensed = tree.condense(size)
        assert len(condensed.parent) == len(last.parent)
        np.testing.assert_allclose(np.sort(condensed.stability), np.sort(last.stability), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(tree.eom(size), last.labels)


@pytest.mark.parametrize("name", ["normal", "moons", "blobs", "lattice", "duplicates", "chain"])
def test_neither_the_order_of_rows_nor_threads_matter(name):
    X = TABLES[name]
    tree = DensityTree(5).fit(X)
    eps = float(np.median(tree.bars_[tree.bars_ > 0]))
    answers = [tree.eom(8), tree.leaves(8), tree.cut(eps), tree.outliers(8)]
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(X)) for _ in range(20)]
    for order, threads in itertools.product(orders, (1, 2, 3, 8)):
        other = DensityTree(5, n_jobs=threads).fit(X[order])
        found = [other.eom(8), other.leaves(8), other.cut(eps), other.outliers(8)]
        for mine, its in zip(answers[:3], found[:3], strict=True):
            pairs = set(zip(mine[order].tolist(), its.tolist(), strict=True))
            assert len(pairs) == len(set(mine.tolist())) == len(set(its.tolist()))
            np.testing.assert_array_equal(mine[order] == -1, its == -1)
        np.testing.assert_array_equal(answers[3][order], found[3])


@pytest.mark.parametrize("name", ["normal", "lattice", "blobs"])
def test_a_weight_is_a_number_of_repetitions(name):
    X = TABLES[name][:150]
    weights = np.random.default_rng(5).integers(1, 5, size=len(X))
    tree = DensityTree(6).fit(X, sample_weight=weights.astype(float))
    repeated = DensityTree(6).fit(np.repeat(X, weights, axis=0))
    first = np.cumsum(weights) - weights
    np.testing.assert_array_equal(tree.core_distances_, repeated.core_distances_[first])
    for eps in radii(tree, 20):
        for border in ("closest", "noise"):
            np.testing.assert_array_equal(tree.cut(eps, border=border), repeated.cut(eps, border=border)[first])
    for size in (2, 6, 20):
        np.testing.assert_array_equal(tree.eom(size), repeated.eom(size)[first])
        np.testing.assert_array_equal(tree.leaves(size), repeated.leaves(size)[first])


def test_bits_are_those_of_one_thread():
    X = np.random.default_rng(2).integers(0, 40, size=(20_000, 2)).astype(float)
    one, three = DensityTree(4, n_jobs=1).fit(X), DensityTree(4, n_jobs=3).fit(X)
    for name in ("order_", "bars_", "core_distances_", "neighbors_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


def test_invalid_requests():
    X = TABLES["normal"]
    tree = DensityTree(5).fit(X)
    with pytest.raises(InvalidParameter, match="eps must be > 0"):
        tree.cut(0.0)
    with pytest.raises(InvalidParameter, match="min_cluster_size must be >= 2"):
        tree.eom(1)
    with pytest.raises(InvalidParameter, match="metric must be a name or a callable"):
        DensityTree(metric=3).fit(X)
    with pytest.raises(InvalidParameter, match="metric 'no metric' cannot be computed"):
        DensityTree(metric="no metric").fit(X)
    with pytest.raises(InvalidParameter, match="alpha must be > 0"):
        DensityTree(alpha=0.0).fit(X)


@pytest.mark.parametrize("weights", [None, np.full(30, 2.0)])
def test_points_are_attached_by_a_min_samples_that_the_rows_reach(weights):
    """A parameter that was set after the fit, or forged in a file, made a search that never ended."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    tree = DensityTree(min_samples=3).fit(X, sample_weight=weights)
    assert (tree.attach(X).row >= 0).all()
    tree.set_params(min_samples=61)
    with pytest.raises(BadData, match=r"min_samples \(61\) must be at most the number of samples in X"):
        tree.attach(X + 0.1)


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_equal_rows_are_no_outliers(rows):
    tree = DensityTree(1).fit(np.full((rows, 2), 0.3))
    np.testing.assert_array_equal(tree.outliers(2), np.zeros(rows))
    condensed = tree.condense(2)
    whole = condensed.select(condensed.leaves(allow_single_cluster=True))
    np.testing.assert_array_equal(whole.probabilities, np.ones(rows))


def test_weights_of_any_size_end():
    """A running sum that once contained 1e290 is rounding: the search for a core distance must not trust it."""
    rng = np.random.default_rng(0)
    X = rng.integers(-400, 200, size=(200, 1)).astype(float)
    weights = 10.0 ** rng.uniform(-290, 292, size=200)
    tree, capped = (DensityTree(5).fit(X, sample_weight=w) for w in (weights, np.minimum(weights, 5.0)))
    np.testing.assert_array_equal(tree.core_distances_, capped.core_distances_)
    np.testing.assert_array_equal(tree.bars_, capped.bars_)
    lone = weights >= 5
    np.testing.assert_array_equal(tree.core_distances_[lone], 0.0)


# ---- rows of unlike magnitudes ---------------------------------------------------------------------------------------

SPANS = {
    "far beyond squares": [[3.5e196], [-0.16], [1.2], [0.33]],
    "small beside large": [[5.1e-111], [-4.1e-161], [2.4]],
    "over 200 decades": 10.0 ** np.random.default_rng(5).uniform(-100, 100, size=(60, 1)),
    "in one column": np.column_stack([np.arange(40.0) * 1e-180, np.repeat([0.0, 1e90], 20)]),
}


@pytest.mark.parametrize("power", [-300, 0, 300])
@pytest.mark.parametrize("name", SPANS)
def test_small_distances_count_beside_large_numbers_in_every_unit(name, power):
    X = np.asarray(SPANS[name])
    gaps = np.sort(np.abs(X[:, None] - X).max(axis=2), axis=1)  # the other column, where there is one, is equal or far
    tree = DensityTree(2).fit(np.ldexp(X, power))
    np.testing.assert_array_equal(tree.core_distances_, np.ldexp(gaps[:, 1], power))
    for eps in radii(tree):
        expected = DBSCAN(eps, min_samples=2).fit_predict(np.ldexp(X, power))
        np.testing.assert_array_equal(tree.cut(eps), expected)


@pytest.mark.parametrize("order", list(itertools.permutations(range(5)))[::17])
def test_a_distance_beyond_float64_is_infinite_in_any_order(order):
    X = np.array([[-2.7e307], [8.4e307], [8.4e307], [-1.2e308], [8.5e307]])
    tree = DensityTree(4).fit(X[list(order)])
    third = 8.4e307 + 2.7e307
    expected = np.array([third, third, third, np.inf, 8.5e307 + 2.7e307])
    np.testing.assert_array_equal(tree.core_distances_, expected[list(order)])
    assert np.isinf(tree.bars_).sum() == 2
