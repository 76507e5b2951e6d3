"""The curves that parameters were read from, with the choice marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knoll.plots.style import BLUE, PALETTE, RED, axes_or_new
from knoll.scales import EpsEstimate
from knoll.tuning import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["eps_curve", "selection"]

_GOOD = {"silhouette": "silhouette", "elbow": "inertia", "gap": "gap", "eigengap": "eigengap"}


def eps_curve(estimate: EpsEstimate, ax: Axes | None = None) -> Axes:
    """Draw the sorted distances that ε was read from.

    Parameters
    ----------
    estimate : EpsEstimate
        What `knoll.scales.estimate_eps` returned.
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
    return _light(ax)


def selection(choice: Selection, ax: Axes | None = None) -> Axes:
    """Draw the criterion for every candidate, and the chosen one.

    Parameters
    ----------
    choice : Selection
        What a function of `knoll.tuning` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import datasets, plots, tuning
    >>> ax = plots.selection(tuning.choose_n_clusters(datasets.load("x1500").X, range(2, 7), random_state=0))
    """
    ax = axes_or_new(ax)
    shown = _GOOD.get(choice.criterion)
    curves = choice.curve if shown is None else {shown: choice.curve[shown]}
    errors = choice.curve.get("standard_error") if shown is not None else None
    for number, (name, scores) in enumerate(curves.items()):
        color = PALETTE[number % len(PALETTE)]
        ax.errorbar(choice.candidates, scores, yerr=errors, color=color, marker="o", markersize=4, label=name)
    ax.axvline(choice.best, color=RED, linewidth=0.9, linestyle="--")
    ax.set_xlabel("number of clusters" if shown else "number of components")
    ax.set_ylabel(shown or choice.criterion.upper())
    ax.locator_params(axis="x", integer=True)
    if len(curves) > 1:
        ax.legend(frameon=False)
    return _light(ax)


def _light(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    return ax
