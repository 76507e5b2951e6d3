"""The palette, and the style of the axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#0072B2"  # data
RED = "#C8321E"  # model and samples
NOISE = "#9A9A9A"
ABOVE = "#CFCFCF"  # of a tree: above the clusters

# Okabe and Ito's colours (2008), without black and without the yellow that fades on white.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#5D3A9B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # the next marker each time the palette has been used up


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the axes, by default those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        raise ModuleNotFoundError('Pictures need matplotlib: pip install "knoll[cli]".') from None
    return plt.subplots(figsize=(5.0, 4.5), layout="constrained")[1]


def plain_axes(ax: Axes) -> Axes:
    """Style axes: two spines, small tick labels."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    return ax


def style_axes(ax: Axes, names: tuple[str, str]) -> Axes:
    """Style the axes of a plane: equal units, named axes."""
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    return plain_axes(ax)


def plain_numbers(axis: Any) -> None:
    """Label a logarithmic axis with numbers such as 0.05; far from 1 they are powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low) if low > 0 else 1.0
    subs = (1.0,) if decades > 4 else (1.0, 3.0) if decades > 2 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(10, subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axis.set_minor_formatter(NullFormatter())
