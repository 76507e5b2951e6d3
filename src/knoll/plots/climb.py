"""The ascent of Mean Shift: points, their paths, and the end points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from knoll.density.mean_shift import MeanShift
from knoll.plots.fitted import check_model, plane_of
from knoll.plots.scatter import scatter
from knoll.plots.style import RED, axes_or_new, style_axes
from knoll.validation import Number, check_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PATH = "#555555"


def climb(model: MeanShift, X: ArrayLike, ax: Axes | None = None, *, n_paths: int = 200) -> Axes:
    """Draw a fitted MeanShift: the points in the colours of their clusters, paths in grey, their ends as red crosses.

    Parameters
    ----------
    model : MeanShift
        The fitted model.
    X : array-like of shape (n_samples, n_features)
        The points. With more than two columns their two leading principal axes are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    n_paths : int, default=200
        How many paths to draw, those of evenly spaced rows; 0: none.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import MeanShift, datasets, plots
    >>> X = datasets.load("x1500").X
    >>> ax = plots.climb(MeanShift(bandwidth=1.2).fit(X), X)
    """
    check_model(model, "plots.climb", "a fitted MeanShift", "peaks_", "paths")
    check_parameters("plots.climb", {"n_paths": n_paths}, {"n_paths": (Number(0, whole=True),)})
    points, plane = plane_of(X, model.peaks_.shape[1])
    ax = axes_or_new(ax)
    scatter(points, model.predict(X), ax=ax, plane=plane)
    rows = np.unique(np.linspace(0, len(points) - 1, min(n_paths, len(points))).astype(int))
    if n_paths:
        start = X.iloc[rows] if hasattr(X, "iloc") else points[rows]  # with the names of the columns
        for path in model.paths(start):
            ax.plot(*plane.points(path).T, color=_PATH, linewidth=0.6, alpha=0.5, zorder=2)
    ax.plot(*plane.points(model.peaks_).T, "x", color=RED, markersize=7, label="ends", zorder=3)
    return style_axes(ax, plane.names)
