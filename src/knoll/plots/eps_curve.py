"""The sorted distances that ε was chosen from, with the choice marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knoll.plots.style import BLUE, RED, axes_or_new, plain_axes
from knoll.scales import EpsEstimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def eps_curve(estimate: EpsEstimate, ax: Axes | None = None) -> Axes:
    """Draw the sorted distances that ε was chosen from.

    Parameters
    ----------
    estimate : EpsEstimate
        The result of `knoll.scales.estimate_eps`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import datasets, plots, scales
    >>> ax = plots.eps_curve(scales.estimate_eps(datasets.load("x1500").X))
    """
    ax = axes_or_new(ax)
    ax.plot(100 * estimate.share, estimate.curve, color=BLUE)
    ax.axhline(estimate.eps, color=RED, linewidth=0.9, linestyle="--")
    ax.annotate(
        f"ε = {estimate.eps:.3g}", (0, estimate.eps), xytext=(4, 4), textcoords="offset points", color=RED, fontsize=9
    )
    ax.set_xlabel("rows, % (all to the left are core points)")
    ax.set_ylabel(f"{estimate.min_samples}-distance")
    ax.set_ylim(bottom=0)
    return plain_axes(ax)
