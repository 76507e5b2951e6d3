"""What DBSCAN finds at every ε: the number of clusters and the share of noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._typing import Floats, Ints
from knoll.density.curves import Curves
from knoll.plots.condensed_tree import height_levels
from knoll.plots.fitted import check_model
from knoll.plots.style import BLUE, PALETTE, RED, axes_or_new, plain_axes, plain_numbers
from knoll.validation import Number, check_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 600


def cut_curves(model: Any, ax: Axes | None = None, *, min_cluster_size: float = 5, eps: float | None = None) -> Axes:
    """Draw the number of clusters and the share of noise over ε, from one density tree.

    Parameters
    ----------
    model : fitted DensityTree or HDBSCAN
        The tree.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default. The share of noise has an axis of its own on the right.
    min_cluster_size : float, default=5
        Clusters of fewer rows, or less weight, count as noise.
    eps : float, optional
        A radius to mark.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import DensityTree, datasets, plots
    >>> ax = plots.cut_curves(DensityTree(10).fit(datasets.load("x1500").X), min_cluster_size=20)
    """
    check_parameters(
        "plots.cut_curves",
        {"min_cluster_size": min_cluster_size, "eps": eps},
        {"min_cluster_size": (Number(2),), "eps": (None, Number(0, strict=True))},
    )
    check_model(model, "plots.cut_curves", "a fitted DensityTree or HDBSCAN", "bars_", "curves")
    levels = height_levels(model.condense(min_cluster_size), _POINTS)
    clusters, noise, _ = at_levels(model.curves(min_cluster_size), levels)
    ax = axes_or_new(ax)
    ax.step(levels, clusters, where="post", color=BLUE)
    ax.set_xscale("log")
    ax.set_xlim(levels[0], levels[-1])
    plain_numbers(ax.xaxis)
    ax.set_ylim(0, 1.08 * max(int(clusters.max()), 1))
    ax.locator_params(axis="y", integer=True)
    ax.set_xlabel("ε")
    ax.set_ylabel(f"clusters of at least {min_cluster_size:g} rows", color=BLUE)
    plain_axes(ax)
    right = ax.twinx()
    right.step(levels, 100 * noise, where="post", color=PALETTE[5], linestyle="--")
    right.set_ylim(0, 104)
    right.set_ylabel("noise, %", color=PALETTE[5])
    plain_axes(right).spines["right"].set_visible(True)
    if eps is not None:
        ax.axvline(eps, color=RED, linewidth=0.9, linestyle=":")
    return ax


def at_levels(curves: Curves, levels: Floats) -> tuple[Ints, Floats, Floats]:
    """Return clusters, share of noise and largest cluster at these ε."""
    at = np.searchsorted(curves.eps, levels, side="right") - 1
    return curves.clusters[at], curves.noise[at], curves.largest[at]
