"""The upper part of a tree of merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from knoll._typing import Floats, Ints
from knoll.exceptions import InvalidType
from knoll.hierarchy.agglomerative import AgglomerativeClustering
from knoll.plots.fitted import check_model
from knoll.plots.style import NOISE, PALETTE, axes_or_new, plain_axes
from knoll.validation import Number, check_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def dendrogram(model: AgglomerativeClustering, ax: Axes | None = None, *, n_leaves: int = 40) -> Axes:
    """Draw the last merges of a tree, at their heights.

    Clusters of the fit have the colours of `plots.scatter(X, model.labels_)`, and merges above the cut are grey. Below
    each end of the picture is its number of rows.

    Parameters
    ----------
    model : fitted AgglomerativeClustering
        With `compute_distances=True`, or a `distance_threshold`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    n_leaves : int, default=40
        How many clusters the picture ends in; what they were merged from is not drawn.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import AgglomerativeClustering, datasets, plots
    >>> model = AgglomerativeClustering(3, compute_distances=True).fit(datasets.load("x1500").X)
    >>> ax = plots.dendrogram(model, n_leaves=20)
    """
    check_parameters("plots.dendrogram", {"n_leaves": n_leaves}, {"n_leaves": (Number(2, whole=True),)})
    check_model(model, "plots.dendrogram", "a fitted AgglomerativeClustering", "children_")
    if not hasattr(model, "distances_"):
        raise InvalidType(
            "plots.dendrogram needs the heights of the merges. Fit AgglomerativeClustering(compute_distances=True)."
        )
    top = _last_merges(model, n_leaves)
    ax = axes_or_new(ax)
    x, y = {end: float(at) for at, end in enumerate(top.ends)}, dict.fromkeys(top.ends, 0.0)
    for cluster, (a, b), height, label in zip(top.clusters, top.children, top.heights, top.labels):
        color = NOISE if label < 0 else PALETTE[label % len(PALETTE)]
        ax.plot([x[a], x[a], x[b], x[b]], [y[a], height, height, y[b]], color=color, linewidth=1.3)
        x[cluster], y[cluster] = (x[a] + x[b]) / 2, height
    ax.set_xticks(np.arange(len(top.ends)), [str(size) for size in top.sizes], rotation=90 if n_leaves > 12 else 0)
    ax.set_xlim(-0.7, len(top.ends) - 0.3)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("rows")
    ax.set_ylabel("height of the merge")
    return plain_axes(ax)


class _Merges(NamedTuple):
    """The last merges of a tree; clusters have the numbers of `children_`."""

    clusters: list[int]  # (m,) what each merge makes
    children: list[tuple[int, int]]  # (m,)
    heights: list[float]  # (m,)
    labels: list[int]  # (m,) of the fit; −1: above its cut
    ends: list[int]  # (e,) the clusters that the picture ends in, from left to right
    sizes: list[int]  # (e,)


def _last_merges(model: AgglomerativeClustering, n_leaves: int) -> _Merges:
    n, count = len(model.labels_), len(model.children_)
    first = max(0, model.n_leaves_ - n_leaves)  # the number of merges that are not drawn
    first = min(first, count)
    of_row = _clusters_after(model.children_[:first], n)
    present = np.flatnonzero(model.labels_ >= 0)
    found, row, sizes = np.unique(of_row[present], return_index=True, return_counts=True)
    size = dict(zip(found.tolist(), sizes.tolist()))
    label = dict(zip(found.tolist(), model.labels_[present[row]].tolist()))
    clusters = list(range(n + first, n + count))
    children = [(int(a), int(b)) for a, b in model.children_[first:]]
    last = n + model.n_leaves_ - model.n_clusters_  # clusters from here on are above the cut
    for cluster, (a, _) in zip(clusters, children):
        label[cluster] = label[a] if cluster < last else -1
    ends = _from_left_to_right(dict(zip(clusters, children)), found.tolist())
    heights: Floats = np.asarray(model.distances_)[first:]
    return _Merges(
        clusters, children, heights.tolist(), [label[c] for c in clusters], ends, [size[end] for end in ends]
    )


def _clusters_after(children: Ints, n: int) -> Ints:
    """Return the cluster of each of n rows after these merges."""
    parent = np.arange(n + len(children))
    parent[children.ravel()] = np.repeat(n + np.arange(len(children)), 2)
    while not np.array_equal(above := parent[parent], parent):  # twice as far each time
        parent = above
    return parent[:n]


def _from_left_to_right(children: dict[int, tuple[int, int]], ends: list[int]) -> list[int]:
    """Order the ends so that no lines cross."""
    below = {child for pair in children.values() for child in pair}
    stack = [cluster for cluster in (*ends, *children) if cluster not in below]
    found = []
    while stack:
        cluster = stack.pop()
        if cluster in children:
            stack.extend(reversed(children[cluster]))
        else:
            found.append(cluster)
    return found
