"""A criterion for every candidate, with the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knoll.plots.style import PALETTE, RED, axes_or_new, plain_axes
from knoll.tuning import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GOOD = {"silhouette": "silhouette", "elbow": "inertia", "gap": "gap", "eigengap": "eigengap"}


def selection(choice: Selection, ax: Axes | None = None) -> Axes:
    """Draw the criterion for every candidate, and the chosen one.

    Parameters
    ----------
    choice : Selection
        The result of a function of `knoll.tuning`.
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
    return plain_axes(ax)
