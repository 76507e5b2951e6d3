"""The reachability plot: rows in the order of a density tree or of OPTICS; valleys are clusters."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from knoll._typing import Floats, Ints
from knoll.exceptions import InvalidType
from knoll.plots.fitted import check_model
from knoll.plots.style import NOISE, PALETTE, RED, axes_or_new, plain_axes
from knoll.validation import Number, check_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 1000  # of the picture: with more rows, one column stands for several


def reachability(model: Any, ax: Axes | None = None, *, eps: float | None = None) -> Axes:
    """Draw the height at which each row joins the one before it; a valley is a cluster.

    With more than a thousand rows a column stands for several: it is dark up to their median and light up to their
    largest height. Rows have the colours of `plots.scatter(X, model.labels_)`.

    Parameters
    ----------
    model : fitted DensityTree, HDBSCAN or OPTICS
        Of a tree, rows that are neighbours in the plot merge at the height of the bar between them, whatever the order
        of the rows of X. Of OPTICS, heights are its reachabilities, which depend on that order.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    eps : float, optional
        A radius to mark.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import HDBSCAN, datasets, plots
    >>> model = HDBSCAN(min_cluster_size=40).fit(datasets.load("x1500").X)
    >>> ax = plots.reachability(model, eps=0.4)
    """
    check_parameters("plots.reachability", {"eps": eps}, {"eps": (None, Number(0, strict=True))})
    order, heights = _order(model)
    ax = axes_or_new(ax)
    drawn = columns_of(heights, _COLUMNS)
    labels = getattr(model, "labels_", None)
    label = np.zeros(len(drawn.row), dtype=np.int64) if labels is None else np.asarray(labels)[order[drawn.row]]
    colors = [NOISE if one < 0 else PALETTE[one % len(PALETTE)] for one in label]
    if drawn.begin[-1] > len(drawn.row):
        _draw_bars(ax, drawn.begin, drawn.largest, colors, alpha=0.35)
    _draw_bars(ax, drawn.begin, drawn.median, colors, alpha=1.0)
    ax.set_xlim(0, len(heights))
    ax.set_ylim(0, _top(drawn.largest, eps))
    if eps is not None:
        ax.axhline(eps, color=RED, linewidth=0.9, linestyle="--")
    ax.set_xlabel("rows, in the order of the tree" if hasattr(model, "bars_") else "rows, in the order of OPTICS")
    ax.set_ylabel("reachability distance")
    return plain_axes(ax)


def _draw_bars(ax: Axes, begin: Ints, height: Floats, colors: list[str], alpha: float) -> None:
    from matplotlib.collections import PolyCollection

    left, right, zero = begin[:-1], begin[1:], np.zeros(len(height))
    corners = np.stack([left, zero, left, height, right, height, right, zero], axis=1).reshape(-1, 4, 2)
    ax.add_collection(PolyCollection(list(corners), facecolors=colors, alpha=alpha, linewidths=0))


def _order(model: Any) -> tuple[Ints, Floats]:
    """Return the rows of X in their order, and the heights between them."""
    if hasattr(model, "bars_"):
        check_model(model, "plots.reachability", "a fitted DensityTree, HDBSCAN or OPTICS", "order_", "bars_")
        rows = model.order_ if model.present_ is None else model.present_[model.order_]
        return rows, model.bars_
    check_model(model, "plots.reachability", "a fitted DensityTree, HDBSCAN or OPTICS", "ordering_", "reachability_")
    if not len(model.ordering_):
        raise InvalidType("plots.reachability draws a fitted model with rows.")
    return model.ordering_, model.reachability_[model.ordering_]


class Columns(NamedTuple):
    """A plot of many rows, by the columns of a picture."""

    begin: Ints  # (c + 1,) the positions at which columns begin
    row: Ints  # (c,) a position in each: that of the median height
    median: Floats  # (c,)
    largest: Floats  # (c,) finite: what has no height is drawn as high as the highest


def columns_of(heights: Floats, count: int) -> Columns:
    """Divide positions into at most `count` columns."""
    finite = np.isfinite(heights)
    highest = float(heights[finite].max(initial=0.0))
    heights = np.where(finite, heights, highest)
    begin = np.unique(np.linspace(0, len(heights), min(count, len(heights)) + 1).astype(np.int64))
    rows = [a + np.argsort(heights[a:b], kind="stable")[(b - a - 1) // 2] for a, b in itertools.pairwise(begin)]
    row = np.array(rows, dtype=np.int64)
    return Columns(begin, row, heights[row], np.maximum.reduceat(heights, begin[:-1]))


def _top(largest: Floats, eps: float | None) -> float:
    """Return the upper end of the axis: a few high bars, those of outliers, are cut off."""
    top = float(np.quantile(largest, 0.99)) * 1.4 if len(largest) else 1.0
    return max(min(top, 1.05 * float(largest.max(initial=0.0))), 1.1 * (eps or 0.0)) or 1.0
