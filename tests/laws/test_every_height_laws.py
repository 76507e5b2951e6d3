"""A cut is DBSCAN at every height and between; heights are Prim's; labels are those of one order of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from knoll import DBSCAN, DensityTree

pytestmark = pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")  # DBSCAN of any radius

RNG = np.random.default_rng(17)
N, MOST = 110, 200  # rows of a table; heights of a larger one
CHAIN = RNG.permutation(10**5).astype(float)[:, None]
TABLES: dict[str, tuple[np.ndarray, dict]] = {
    "normal": (RNG.normal(size=(N, 2)), {}),
    "blobs": (RNG.normal(size=(N, 5)) + 6 * RNG.integers(0, 3, size=(N, 1)), {}),
    "duplicates": (np.repeat(RNG.normal(size=(N // 5, 2)), 5, axis=0), {}),
    "lattice": (RNG.integers(0, 9, size=(N, 2)).astype(float), {}),
    "full lattice": (np.argwhere(np.ones((10, 11))).astype(float), {}),
    "chain": (np.arange(float(N))[:, None] ** 1.3, {}),
    "wide": (RNG.normal(size=(N, 70)), {}),
    "cosine": (RNG.normal(size=(N, 4)), {"metric": "cosine"}),
    "haversine": (RNG.uniform(-1.5, 1.5, size=(N, 2)), {"metric": "haversine"}),
    "manhattan": (RNG.integers(0, 15, size=(N, 3)).astype(float), {"metric": "manhattan"}),
    "weights": (RNG.integers(0, 12, size=(N, 2)).astype(float), {"weights": RNG.integers(1, 4, size=N).astype(float)}),
    "least": (1e-300 * RNG.normal(size=(N, 2)), {}),
    "most": (1e300 * RNG.uniform(-1, 1, size=(N, 2)), {}),
    "float32": (RNG.normal(size=(N, 2)).astype(np.float32), {}),
    "one row": (np.array([[3.0, 4.0]]), {"min_samples": 1}),
    "all equal": (np.ones((N, 3)), {}),
    "3000 normal rows": (RNG.normal(size=(3000, 2)), {}),
    "3000 rows of a lattice": (RNG.integers(0, 80, size=(3000, 2)).astype(float), {}),
    "a chain of 100 000 rows": (CHAIN**1.5, {"min_samples": 3}),
}


def levels(tree: DensityTree) -> np.ndarray:
    """Every ε > 0 at which the tree or its borders change, or `MOST` of them, and ε between and beyond them."""
    heights = np.unique(np.concatenate([tree.bars_[1:], tree.core_distances_]))
    heights = heights[heights > 0]
    if len(tree.order_) > 2000:
        heights = heights[np.unique(np.linspace(0, len(heights) - 1, MOST).astype(int))]
    if not len(heights):
        return np.array([1e-9, 1.0])
    return np.concatenate([heights, heights[:1] / 2, heights[:-1] / 2 + heights[1:] / 2, 1.5 * heights[-1:]])


@pytest.mark.parametrize("name", TABLES)
def test_a_cut_is_dbscan_at_every_height_and_between(name):
    X, options = TABLES[name]
    options = {"min_samples": 4, **options}
    weights = options.pop("weights", None)
    tree = DensityTree(**options).fit(X, sample_weight=weights)
    borders = ("closest",) if len(X) > 10**4 else ("closest", "noise")
    for eps in levels(tree):
        for border in borders:
            expected = DBSCAN(eps, border=border, **options).fit(X, sample_weight=weights).labels_
            np.testing.assert_array_equal(tree.cut(eps, border=border), expected, err_msg=f"{eps!r}, {border}")


def prim(reach: np.ndarray) -> np.ndarray:
    """The heights of a minimum spanning tree of all pairs."""
    outside, best, heights = np.ones(len(reach), dtype=bool), reach[0].copy(), []
    outside[0] = False
    while outside.any():
        row = np.flatnonzero(outside)[best[outside].argmin()]
        heights.append(best[row])
        outside[row] = False
        best = np.minimum(best, reach[row])
    return np.sort(heights)


@pytest.mark.parametrize("seed", range(60))
def test_heights_are_those_of_prims_algorithm_bit_for_bit(seed):
    rng = np.random.default_rng(seed)
    n, d, level = rng.integers(5, 90), rng.integers(1, 8), rng.integers(1, 6)
    X = rng.integers(0, 6, size=(n, d)).astype(float) if seed % 3 == 0 else rng.normal(size=(n, d)) * 10.0 ** (seed % 7)
    square = np.zeros((n, n))
    for column in X.T:  # the one distance: squares added in the order of the columns
        square += (column[:, None] - column) ** 2
    distance = np.sqrt(square)
    core = np.sort(distance, axis=1)[:, level - 1]
    tree = DensityTree(int(level)).fit(X)
    np.testing.assert_array_equal(tree.core_distances_, core)
    reach = np.maximum(np.maximum(core[:, None], core), distance)
    np.testing.assert_array_equal(np.sort(tree.bars_[1:]), prim(reach))


def binary_tree(tree: DensityTree, size: int) -> np.ndarray:
    """One of the binary trees of a density tree: of subtrees that join at a height, the large ones are joined first."""
    module = pytest.importorskip("sklearn.cluster._hdbscan._tree", reason="scikit-learn has moved its condensing")
    n, order, bars = len(tree.order_), tree.order_, tree.bars_
    node, weight = order.copy(), np.ones(n, dtype=np.int64)
    joins: list[tuple[int, int, float, int]] = []
    starts = np.arange(n)
    for height in np.unique(bars[1:]):
        joined = np.split(starts, np.flatnonzero(bars[starts[1:]] > height) + 1)
        for subtrees in joined:
            whole = sorted(subtrees, key=lambda subtree: weight[subtree] < size)
            number, total = node[whole[0]], weight[whole[0]]
            for subtree in whole[1:]:
                total += weight[subtree]
                joins.append((number, node[subtree], height, total))
                number = n + len(joins) - 1
            node[subtrees[0]], weight[subtrees[0]] = number, total
        starts = np.array([subtrees[0] for subtrees in joined])
    return np.array(joins, dtype=module.HIERARCHY_dtype)


@pytest.mark.parametrize("method", ["eom", "leaf"])
@pytest.mark.parametrize("seed", range(12))
def test_labels_are_those_of_scikit_learn_in_one_order_of_its_ties(method, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 2)) + 4 * rng.integers(0, 4, size=(400, 1))
    tree = DensityTree(3 + seed).fit(X)
    module = pytest.importorskip("sklearn.cluster._hdbscan._tree")
    for size in (3, 8, 20):
        joins = binary_tree(tree, size)
        theirs, _ = module.tree_to_labels(joins, min_cluster_size=size, cluster_selection_method=method)
        ours = tree.eom(size) if method == "eom" else tree.leaves(size)
        pairs = set(zip(ours.tolist(), theirs.tolist(), strict=True))
        assert len(pairs) == len(set(ours.tolist())) == len(set(theirs.tolist()))
        np.testing.assert_array_equal(ours == -1, theirs == -1)
