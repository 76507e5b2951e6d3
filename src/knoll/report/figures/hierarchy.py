"""Figure 15: a density tree as bars, HDBSCAN's clusters of it, and a cut of Ward's tree (the paper's future work)."""

from __future__ import annotations

from typing import Any

import numpy as np

from knoll import datasets, plots
from knoll._typing import Ints
from knoll.plots.style import NOISE, PALETTE, RED
from knoll.report import fits
from knoll.report.comparison_view import same_colours
from knoll.report.figures._window import window
from knoll.report.picture import Panel, Picture


def figure_15() -> Picture:
    """Draw the bars of the bananas' density tree, and the clusters of HDBSCAN and of Ward."""
    X, classes, tree = datasets.load("banana").X, fits.banana_classes(), fits.banana_tree()
    labels = same_colours(classes, tree.eom(fits.BANANA_MIN_SIZE))
    cut = same_colours(classes, fits.banana_ward().labels_)
    fit = window(X)
    noise, clusters = int((labels < 0).sum()), int(labels.max()) + 1
    (_, density), (_, merged) = fits.scores(classes, labels), fits.scores(classes, cut)

    def bars(ax: Any) -> None:
        _bars(ax, tree.bars_[1:], labels[tree.order_[1:]])
        ax.axhline(fits.BANANA_EPS, color=RED, linewidth=1.4)
        ax.text(len(X), fits.BANANA_EPS, f"ε = {fits.BANANA_EPS:g} ", color=RED, ha="right", va="bottom", fontsize=10)

    return Picture(
        15,
        "Hierarchies on the bananas",
        "One fit of the density tree has DBSCAN for every ε: rows between two bars above the red line are a cluster "
        f"at that ε. HDBSCAN takes {clusters} clusters from the same tree and leaves {noise} of {len(X)} points as "
        f"noise (ARI {density:.2f}). Ward's tree, cut into two, has the straight border of k-means (ARI {merged:.2f}).",
        (
            Panel(
                "the bars of the tree, and a cut",
                "A bar for each row, in the order of the tree: two wide groups of low bars, in two colours, separated "
                "by a high bar; a red line at ε cuts the high bars.",
                bars,
            ),
            Panel(
                "HDBSCAN",
                "The two crescents in two colours.",
                lambda ax: plots.scatter(X, labels, ax=ax),
                fit,
            ),
            Panel(
                "Ward, two clusters",
                "The crescents are cut: each colour has rows of both.",
                lambda ax: plots.scatter(X, cut, ax=ax),
                fit,
            ),
        ),
    )


def _bars(ax: Any, heights: Any, labels: Ints) -> None:
    """Draw a bar for each row but the first, in the colour of its cluster; noise is grey."""
    colors = np.array([*PALETTE, NOISE])[np.where(labels < 0, len(PALETTE), labels % len(PALETTE))]
    ax.bar(np.arange(1, len(heights) + 1), heights, width=1.0, color=colors.tolist(), linewidth=0)
    ax.set_xlim(0, len(heights) + 1)
    ax.set_xlabel("rows in the order of the tree")
    ax.set_ylabel("height")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
