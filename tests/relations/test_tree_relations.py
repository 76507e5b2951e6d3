"""Equations 7.13 to 7.19, 6.4 to 6.6 and 3.13 to 3.17 on data small enough to try everything."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from knoll import DensityTree, datasets, reference, relations
from knoll.relations import _tree, annealing, tree_and_k_center, tree_and_kmeans

X = datasets.load("banana", n_samples=60).X
LATTICE = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0)), axis=-1).reshape(-1, 2)
ROOT = Path(__file__).parents[2]

NAMES = (
    "dbscan-star-is-tree-cut",
    "every-eps-dbscan",
    "tree-is-order-free",
    "optics-is-prim",
    "spectral-on-the-tree",
    "tree-is-k-center",
    "k-means-on-the-tree",
    "tree-is-persistence",
    "mean-shift-is-em",
    "annealing",
    "medoid-sandwich",
)


@pytest.mark.parametrize("name", NAMES)
def test_they_hold_on_duplicates_ties_and_far_from_zero(name):
    relation = relations.get(name)
    for data in (np.repeat(X[:15], 3, axis=0), LATTICE, X + 1e6, X * 1e-30, X[:7]):
        assert relation.certify(data).verdict == "holds", str(relation.certify(data))


@pytest.mark.parametrize("min_samples", [1, 2, 5, 60])
@pytest.mark.parametrize("name", [name for name in NAMES if "min_samples" in relations.get(name).parameters])
def test_they_hold_at_every_level(name, min_samples):
    certificate = relations.get(name).certify(X, min_samples=min_samples)
    assert certificate.verdict == "holds", str(certificate)


# ---- the tools ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [X[:20], LATTICE, np.repeat(X[:5], 2, axis=0)])
def test_heights_of_pairs_are_those_of_the_reference(points):
    tree = DensityTree(3).fit(points)
    u = _tree.heights_between(tree.order_, tree.bars_)
    for state in reference.density_tree(points, 3):
        together = state.labels[:, None] == state.labels
        assert np.array_equal(together, (u <= state.height) | np.eye(len(points), dtype=bool))


def test_all_components_that_merge_are_one_split():
    """Four corners of a square merge at once, then the lone row joins."""
    tree = DensityTree(1).fit([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [9.0, 0.0]])
    assert sorted(map(sorted, _tree.split_sizes(tree.order_, tree.bars_))) == [[1, 1, 1, 1], [1, 4]]
    lattice = DensityTree(1).fit(LATTICE)
    assert _tree.split_sizes(lattice.order_, lattice.bars_) == [[1] * 12]


def test_joins_are_those_of_the_intervals():
    bars = np.array([np.inf, 2.0, 1.0, 3.0, 1.0])
    assert list(_tree.joins(bars)) == [(1.0, 1, 2, 3), (1.0, 3, 4, 5), (2.0, 0, 1, 3), (3.0, 0, 3, 5)]


# ---- eq. 7.15 and 7.16 against all choices of centres ---------------------------------------------------------------


@pytest.mark.parametrize("z", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("level", [1, 3])
def test_the_best_centres_of_all(z, level):
    tree, weights, u = _tree.distinct_tree(X[:9], level)
    for k in range(1, 6):
        nearest = [u[:, list(rows)].min(axis=1) for rows in itertools.combinations(range(9), k)]
        least = min(far.max() if z == np.inf else weights @ far**z for far in nearest)
        if z == np.inf:
            assert least == tree_and_k_center._lower_bound(tree, u, k) == np.sort(tree.bars_[1:])[-k]
        else:
            assert least == pytest.approx(tree_and_kmeans._best_costs(tree, weights, z, 9)[k - 1], rel=1e-12)


# ---- what the certificates print ------------------------------------------------------------------------------------


def test_a_saddle_at_a_row_joins_three():
    """Two clusters and the row between them merge at its core distance: a binary tree has to choose."""
    points = np.array([[-3.1], [-3.0], [-2.9], [-2.8], [0.02], [2.8], [2.9], [3.0], [3.1]])
    tree = DensityTree(4).fit(points)
    assert sorted(max(_tree.split_sizes(tree.order_, tree.bars_), key=sum)) == [1, 4, 4]
    certificate = relations.get("tree-is-order-free").certify(datasets.load("circles").X)
    name = "of these with three or more components, where a binary tree depends on the order"
    assert certificate.numbers[name] > certificate.numbers["splits into clusters"] / 2


def test_the_gap_is_one_on_the_tree_and_small_on_the_graph():
    numbers = relations.get("spectral-on-the-tree").certify(datasets.load("circles").X[::2], eps=0.2).numbers
    assert numbers["gap on u"] == pytest.approx(1.0)
    assert numbers["gap on m, the kernel of DBSCAN's graph"] < 0.1


def test_spectral_on_the_tree_declines_without_core_points():
    certificate = relations.get("spectral-on-the-tree").certify(X, eps=1e-6, min_samples=5)
    assert certificate.verdict == "does not apply"
    assert "there are core points: no, at ε = 1e-06" in str(certificate)


def test_a_level_above_the_rows_is_lowered():
    assert relations.get("dbscan-star-is-tree-cut").certify(X[:6], min_samples=50).numbers["minPts"] == 6


# ---- eq. 3.13 to 3.15 -----------------------------------------------------------------------------------------------


def test_no_responsibilities_are_below_those_of_em():
    square, eps = np.square(X[:, None] - X[:4]).sum(axis=2), 0.3
    least = annealing._free_energy(square, annealing._shares(square, eps), eps)
    assert least == pytest.approx(-2 * eps * np.log(np.exp(-square / (2 * eps)).sum(axis=1)).sum(), rel=1e-12)
    random = np.random.default_rng(0)
    for _ in range(50):
        assert annealing._free_energy(square, softmax(random.normal(size=square.shape), axis=1), eps) > least


def test_means_coincide_above_the_first_split_and_separate_below():
    path = relations.get("annealing").path(X, steps=30, n_clusters=2)
    largest = np.linalg.eigvalsh(np.cov(X.T, bias=True))[-1]
    apart = np.array([np.linalg.norm(frame.arrays["means"][0] - frame.arrays["means"][1]) for frame in path])
    values = np.array([frame.value for frame in path])
    assert apart[values > 1.1 * largest].max() < 0.05
    assert apart[values < 0.8 * largest].min() > 0.3


def test_annealing_declines_where_all_rows_are_equal():
    certificate = relations.get("annealing").certify(np.ones((5, 2)))
    assert certificate.verdict == "does not apply"


# ---- eq. 3.16 and 3.17 ----------------------------------------------------------------------------------------------


def test_both_bounds_of_the_medoid_are_attained():
    """Two rows: their mean is between them and each costs 2J. A row at the mean costs J."""
    relation = relations.get("medoid-sandwich")
    assert relation.certify([[0.0], [1.0]], n_clusters=1).numbers["cost of the best medoid over J"] == [2.0]
    assert relation.certify([[-1.0], [0.0], [1.0]], n_clusters=1).numbers["cost of the best medoid over J"] == [1.0]
    lone = relation.certify([[0.0], [1.0]], n_clusters=2)
    assert lone.verdict == "does not apply"
    assert "a cluster has two distinct rows: no, none has" in str(lone)


# ---- the guide ------------------------------------------------------------------------------------------------------


def test_the_guide_has_a_line_for_every_relation():
    text = (ROOT / "docs" / "guide" / "relations.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|.*\| ✓ \|$", text, flags=re.MULTILINE)
    assert listed == [relation.name for relation in relations.all()], "run: python scripts/relations_table.py"
    limits = text[text.index("Relations that are limits") :]
    limits_of = [relation.name for relation in relations.all() if isinstance(relation, relations.Limit)]
    assert re.findall(r"`([a-z-]+)`", limits.partition(")")[0]) == limits_of


def test_every_equation_that_a_relation_cites_exists():
    tags = set()
    for page in (ROOT / "docs" / "theory").glob("*.md"):
        tags |= set(re.findall(r"\\tag\{([\d.]+)\}", page.read_text(encoding="utf-8")))
    for module in (ROOT / "src" / "knoll" / "relations").glob("*.py"):
        for cited in re.findall(r"eq\. ([\d., –]+)", module.read_text(encoding="utf-8")):
            assert set(re.findall(r"\d\.\d+", cited)) <= tags, (module.name, cited)
