"""The eigenvalues of spectral clustering with their gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from knoll.plots.style import BLUE, NOISE, RED, axes_or_new, plain_axes
from knoll.spectral.estimator import SpectralClustering
from knoll.tuning import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def eigenvalues(model: SpectralClustering | Selection, ax: Axes | None = None) -> Axes:
    """Draw the largest eigenvalues in order, with a line where the clusters end.

    Parameters
    ----------
    model : SpectralClustering or Selection
        The fitted model, whose eigenvalues and the next one are drawn; or what `knoll.tuning.eigengap` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import plots, tuning
    >>> ax = plots.eigenvalues(tuning.eigengap([1.0, 0.99, 0.98, 0.6, 0.55, 0.5]))
    """
    if isinstance(model, Selection):
        k, last = model.best, model.curve["eigenvalue"][-1] - model.curve["difference"][-1]
        values = np.append(model.curve["eigenvalue"], last)
    else:
        k = min(int(model.n_clusters_), len(model.eigenvalues_))
        values = np.append(model.eigenvalues_, model.eigenvalues_[-1] - model.eigengap_)
        values = values[np.isfinite(values)]
    ax = axes_or_new(ax)
    number = np.arange(1, len(values) + 1)
    inside = number <= k
    ax.plot(number[inside], values[inside], "o", color=BLUE, markersize=6)
    ax.plot(number[~inside], values[~inside], "o", color=NOISE, markersize=6)
    if k < len(values):
        ax.axvline(k + 0.5, color=RED, linewidth=0.9, linestyle="--")
        gap = f"after {k}: gap {values[k - 1] - values[k]:.3g}"
        right = k > len(values) / 2
        ax.annotate(
            gap,
            (k + 0.5, 0.04),
            xycoords=("data", "axes fraction"),
            xytext=(-4 if right else 4, 0),
            textcoords="offset points",
            ha="right" if right else "left",
            color=RED,
            fontsize=9,
        )
    ax.set_xlabel("number")
    ax.set_ylabel("eigenvalue of D$^{-1/2}$AD$^{-1/2}$")
    ax.set_xlim(0.5, len(values) + 0.5)
    ax.locator_params(axis="x", integer=True)
    return plain_axes(ax)
