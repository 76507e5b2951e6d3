"""Pictures of trees: widths are numbers of rows, bars are heights, curves are those of cuts, lines are merges."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.exceptions import NotFittedError

from knoll import HDBSCAN, OPTICS, AgglomerativeClustering, DensityTree, KMeans, datasets, plots
from knoll.exceptions import InvalidParameter, InvalidType
from knoll.plots.condensed_tree import bands, drawn_size, height_levels
from knoll.plots.reachability import columns_of
from knoll.plots.style import ABOVE, NOISE, PALETTE

X = datasets.load("x1500").X
MODEL = HDBSCAN(40, 10).fit(X)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def hexes(colors):
    return [to_hex(color).upper() for color in colors]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_width_of_a_cluster_is_what_it_has_at_that_height(weighted):
    weights = np.random.default_rng(0).integers(1, 4, size=len(X)) if weighted else None
    model = DensityTree(10).fit(X, sample_weight=weights)
    tree = model.condense(30)
    levels = height_levels(tree, 50)
    shapes = bands(tree, levels)
    assert len(shapes) == len(tree.parent)
    mass = np.ones(len(X)) if weights is None else weights
    for level in levels[1:-1]:
        labels = model.cut(float(level), border="noise")
        sizes = np.bincount(labels[labels >= 0], mass[labels >= 0])
        widths = []
        for c, shape in enumerate(shapes):
            at = np.flatnonzero(shape.height == level)
            if len(at) and tree.birth[c] > level:
                widths.append(shape.right[at[0]] - shape.left[at[0]])
        np.testing.assert_allclose(sorted(widths), sorted(sizes[sizes >= 30]))


def test_shapes_lie_inside_of_their_parents_and_do_not_overlap():
    tree = DensityTree(5).fit(X).condense(8)
    shapes = bands(tree, height_levels(tree, 60))
    for c in range(1, len(tree.parent)):
        up = shapes[tree.parent[c]]
        assert up.left[0] - 1e-9 <= shapes[c].left.min()
        assert shapes[c].right.max() <= up.right[0] + 1e-9
    leaves = [shapes[c] for c in np.flatnonzero(tree.is_leaf)]
    ends = sorted((shape.left.min(), shape.right.max()) for shape in leaves)
    assert all(right <= left + 1e-9 for (_, right), (left, _) in itertools.pairwise(ends))


def test_taken_clusters_have_the_colours_of_their_labels():
    ax = plots.condensed_tree(MODEL)
    colors = hexes(shape.get_facecolor()[0] for shape in ax.collections)
    assert set(colors) == {ABOVE, *PALETTE[: MODEL.labels_.max() + 1]}
    assert colors[0] == ABOVE  # the root
    assert ax.get_yscale() == "log"
    assert ax.get_xlim() == (0, len(X))
    assert set(hexes(s.get_facecolor()[0] for s in plots.condensed_tree(DensityTree(10).fit(X)).collections)) > {ABOVE}


def test_of_very_many_rows_what_is_narrower_than_a_column_is_not_drawn():
    rows = np.random.default_rng(0).normal(size=(30_000, 2))
    model = DensityTree(5).fit(rows)
    assert drawn_size(model) == 30
    assert len(plots.condensed_tree(model).collections) < 1000
    assert len(plots.reachability(model).collections[0].get_paths()) == 1000


@pytest.mark.parametrize("model", [MODEL, DensityTree(10).fit(X[:400]), OPTICS(min_samples=10).fit(X[:400])])
def test_the_plot_has_a_bar_for_each_row_or_column(model):
    ax = plots.reachability(model, eps=0.4)
    bars = ax.collections[-1]
    tops = np.array([path.vertices[:, 1].max() for path in bars.get_paths()])
    heights = model.bars_ if hasattr(model, "bars_") else model.reachability_[model.ordering_]
    if len(heights) == len(tops):
        finite = np.isfinite(heights)
        np.testing.assert_array_equal(tops[finite], heights[finite])
    else:
        assert len(tops) == 1000
    assert set(ax.lines[0].get_ydata()) == {0.4}
    if hasattr(model, "labels_"):
        assert set(hexes(bars.get_facecolor())) <= {NOISE, *PALETTE}


def test_columns_are_medians_and_largest():
    heights = np.append(np.inf, np.random.default_rng(0).random(99))
    found = columns_of(heights, 10)
    finite = np.where(np.isinf(heights), heights[1:].max(), heights).reshape(10, 10)
    np.testing.assert_array_equal(found.largest, finite.max(axis=1))
    np.testing.assert_array_equal(found.median, np.sort(finite, axis=1)[:, 4])
    np.testing.assert_array_equal(found.begin, np.arange(0, 101, 10))


def test_curves_are_those_of_cuts():
    ax = plots.cut_curves(MODEL, min_cluster_size=20, eps=0.4)
    eps, clusters = ax.lines[0].get_data()
    noise = ax.figure.axes[-1].lines[0].get_ydata()
    for at in range(0, len(eps), 37):
        labels = MODEL.dbscan_clustering(float(eps[at]), 20)
        assert clusters[at] == labels.max() + 1
        assert noise[at] == pytest.approx(100 * (labels < 0).mean())
    assert ax.get_ylabel() == "clusters of at least 20 rows"
    assert all(float(tick).is_integer() for tick in plots.cut_curves(MODEL, min_cluster_size=100).get_yticks())


@pytest.mark.parametrize("linkage", ["ward", "single"])
@pytest.mark.parametrize("n_leaves", [2, 12, 40])
def test_a_dendrogram_is_the_last_merges(linkage, n_leaves):
    weights = np.ones(300)
    weights[:20] = 0
    model = AgglomerativeClustering(3, linkage=linkage, compute_distances=True).fit(X[:300], sample_weight=weights)
    ax = plots.dendrogram(model, n_leaves=n_leaves)
    heights = [line.get_ydata().max() for line in ax.lines]
    np.testing.assert_array_equal(heights, model.distances_[-(n_leaves - 1) :])
    sizes = [int(text.get_text()) for text in ax.get_xticklabels()]
    assert len(sizes) == n_leaves
    assert sum(sizes) == 280
    colors = [line.get_color() for line in ax.lines]
    assert colors[-2:] == [NOISE] * min(2, len(colors))  # above three clusters
    assert set(colors[:-2]) <= set(PALETTE[:3])


def test_a_dendrogram_of_a_tree_that_ends_early_and_of_few_rows():
    graph = np.eye(260, k=1) + np.eye(260, k=-1)
    truncated = AgglomerativeClustering(120, connectivity=graph, compute_distances=True).fit(X[:260])
    assert len(truncated.children_) == 140
    assert len(plots.dendrogram(truncated, n_leaves=130).lines) == 10
    assert len(plots.dendrogram(truncated, n_leaves=20).lines) == 0
    few = AgglomerativeClustering(2, compute_distances=True).fit([[0.0], [1.0], [5.0]])
    assert [t.get_text() for t in plots.dendrogram(few).get_xticklabels()] == ["1", "1", "1"]


@pytest.mark.parametrize("rows", [[[1.0, 2.0]], [[1.0, 2.0]] * 30], ids=["one row", "equal rows"])
def test_little_data_can_be_drawn(rows):
    model = DensityTree(1).fit(rows)
    for draw in (plots.condensed_tree, plots.reachability, plots.cut_curves):
        draw(model).figure.canvas.draw()


@pytest.mark.parametrize("draw", [plots.condensed_tree, plots.reachability, plots.cut_curves, plots.dendrogram])
def test_what_cannot_be_drawn_is_named(draw):
    with pytest.raises(InvalidType, match=f"plots.{draw.__name__} draws a fitted .*, got KMeans, which has no "):
        draw(KMeans(2, random_state=0).fit(X))
    with pytest.raises(NotFittedError):
        draw(AgglomerativeClustering() if draw is plots.dendrogram else HDBSCAN())


def test_bad_parameters_are_named():
    with pytest.raises(InvalidType, match=r"needs the heights of the merges. Fit .*compute_distances=True"):
        plots.dendrogram(AgglomerativeClustering(2).fit(X[:9]))
    with pytest.raises(InvalidParameter, match="n_leaves must be >= 2"):
        plots.dendrogram(AgglomerativeClustering(2, compute_distances=True).fit(X[:9]), n_leaves=1)
    with pytest.raises(InvalidParameter, match="eps must be > 0"):
        plots.reachability(MODEL, eps=0.0)
    with pytest.raises(InvalidParameter, match="min_cluster_size must be >= 2"):
        plots.cut_curves(MODEL, min_cluster_size=1)
