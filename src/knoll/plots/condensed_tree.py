"""The condensed tree: how many rows each cluster has at every height, and which clusters were taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._typing import Floats, Ints
from knoll.density.condensed import CondensedTree
from knoll.density.hdbscan import HDBSCAN
from knoll.density.tree import DensityTree
from knoll.plots.fitted import check_model
from knoll.plots.style import ABOVE, PALETTE, axes_or_new, plain_axes, plain_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEVELS = 400  # heights at which widths are computed
_COLUMNS = 1000  # clusters narrower than one of so many columns are not drawn
_RANGE = 1e6  # between the largest height that is drawn and the smallest


def condensed_tree(model: Any, ax: Axes | None = None, *, min_cluster_size: float | None = None) -> Axes:
    """Draw the condensed tree: the width of a cluster at a height is its number of rows, or weight, there.

    Clusters that were taken have the colours of `plots.scatter(X, labels)`, and all above them is grey. The time does
    not depend on the number of rows: widths are computed at a few hundred heights, and clusters narrower than a
    thousandth of the picture are drawn with those around them.

    Parameters
    ----------
    model : fitted HDBSCAN or DensityTree
        Of a DensityTree the clusters of `eom` are coloured.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    min_cluster_size : float, optional
        The least number of rows, or weight, of a cluster; by default that of the HDBSCAN, or 5.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import HDBSCAN, datasets, plots
    >>> ax = plots.condensed_tree(HDBSCAN(min_cluster_size=40).fit(datasets.load("x1500").X))
    """
    check_model(model, "plots.condensed_tree", "a fitted HDBSCAN or DensityTree", "bars_", "condense")
    ax = axes_or_new(ax)
    tree, clusters = chosen_clusters(model, min_cluster_size)
    levels = height_levels(tree, _LEVELS)
    label = labels_of(tree, clusters)
    for c, band in enumerate(bands(tree, levels)):
        color = ABOVE if label[c] < 0 else PALETTE[label[c] % len(PALETTE)]
        ax.fill_betweenx(band.height, band.left, band.right, color=color, linewidth=0.4)
    ax.set_yscale("log")
    ax.set_ylim(levels[0], levels[-1])
    plain_numbers(ax.yaxis)
    ax.set_xlim(0, float(tree.weight[0]))
    ax.set_xlabel("rows" if model.fit_weights_ is None else "weight")
    ax.set_ylabel("height (distance)")
    return plain_axes(ax)


def chosen_clusters(model: DensityTree, min_cluster_size: float | None = None) -> tuple[CondensedTree, Ints]:
    """Return the condensed tree that is drawn, and the clusters that were taken, in the order of their labels.

    Where a size is given, or that of the model is too small to be seen, they are those of excess of mass.
    """
    size = drawn_size(model, min_cluster_size)
    tree = model.condense(size)
    if isinstance(model, HDBSCAN) and size == model.selection_["min_cluster_size"]:
        return tree, np.asarray(model.selection_["clusters"])
    return tree, tree.select(tree.eom()).clusters


def drawn_size(model: DensityTree, min_cluster_size: float | None = None) -> float:
    """Return the size of the smallest cluster that is drawn: as given, or as wide as a column of the picture."""
    own = float(model.selection_["min_cluster_size"]) if isinstance(model, HDBSCAN) else 5.0
    mass = len(model.order_) if model.fit_weights_ is None else float(model.fit_weights_.sum())
    return max(own if min_cluster_size is None else float(min_cluster_size), float(np.ceil(mass / _COLUMNS)))


def labels_of(tree: CondensedTree, clusters: Ints) -> Ints:
    """Return the label of each cluster of the tree: that of the taken cluster around it; −1: none."""
    label = np.full(len(tree.parent), -1)
    label[clusters] = np.arange(len(clusters))
    for c in range(1, len(label)):  # parents come first
        if label[c] < 0:
            label[c] = label[tree.parent[c]]
    return label


# ---- geometry --------------------------------------------------------------------------------------------------------


def height_levels(tree: CondensedTree, count: int) -> Floats:
    """Return heights, ascending by one factor, from where the first clusters begin to where the last rows join."""
    heights = tree.row_height[np.isfinite(tree.row_height) & (tree.row_height > 0)]
    splits = tree.death[np.isfinite(tree.death) & (tree.death > 0)]
    if not len(heights) and not len(splits):
        return np.geomspace(0.5, 2.0, count)  # all rows are equal, or all apart
    every = np.concatenate([heights, splits])
    low, high = np.quantile(every, [0.002, 0.99])
    if len(splits):
        low, high = min(low, 0.9 * splits.min()), max(high, 1.25 * splits.max())
    high = min(high, float(every.max()) * 1.05)
    low = max(min(low, high / 2), high / _RANGE)
    return np.geomspace(low, high, count)


@dataclass(frozen=True)
class Band:
    """A cluster as a shape: its edges, in rows or weight, at ascending heights."""

    height: Floats  # (h,)
    left: Floats  # (h,)
    right: Floats  # (h,)


def bands(tree: CondensedTree, levels: Floats) -> list[Band]:
    """Return the shapes of all clusters, between the least and the largest level.

    A cluster has its child clusters in the middle. The rows that leave it are on both sides, the last ones innermost,
    so its width at a height is the weight that it has there.
    """
    order = np.lexsort((tree.row_height, tree.row_cluster))
    heights, sums = tree.row_height[order], np.append(0.0, np.cumsum(tree.row_weight[order]))
    ends = np.searchsorted(tree.row_cluster[order], np.arange(len(tree.parent) + 1))
    inner = np.zeros(len(tree.parent))
    np.add.at(inner, tree.parent[1:], tree.weight[1:])
    start, free = np.zeros(len(tree.parent)), np.zeros(len(tree.parent))
    found = []
    for c in range(len(tree.parent)):
        begin, end = ends[c], ends[c + 1]
        own = sums[end] - sums[begin]
        if c > 0:
            start[c] = free[tree.parent[c]]
            free[tree.parent[c]] += own + inner[c]
        free[c] = start[c] + own / 2
        at = _levels_of(tree, c, levels, heights[begin:end])
        kept = sums[begin + np.searchsorted(heights[begin:end], at, side="right")] - sums[begin]
        left = start[c] + (own - kept) / 2
        found.append(Band(at, left, left + kept + inner[c]))
    return found


def _levels_of(tree: CondensedTree, c: int, levels: Floats, heights: Floats) -> Floats:
    """Return the levels at which a cluster exists, and the ends of its life."""
    low = tree.death[c] if tree.death[c] >= 0 else heights.min(initial=np.inf)
    low, high = (min(max(float(end), levels[0]), levels[-1]) for end in (low, tree.birth[c]))
    return np.concatenate([[low], levels[(levels > low) & (levels < high)], [high]])
