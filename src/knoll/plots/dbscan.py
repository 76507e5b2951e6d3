"""DBSCAN over its data: core points, border points and noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from knoll.density.dbscan import DBSCAN
from knoll.plots.fitted import check_model, plane_of
from knoll.plots.style import MARKERS, NOISE, PALETTE, axes_or_new, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def dbscan(model: DBSCAN, X: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw a fitted DBSCAN: core points as dots and border points as rings in their cluster's colour, noise as crosses.

    Parameters
    ----------
    model : DBSCAN
        The fitted model.
    X : array-like of shape (n_samples, n_features)
        The points, labelled by `predict`. With more than two columns their two leading principal axes are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import DBSCAN, datasets, plots
    >>> X = datasets.load("circles").X
    >>> ax = plots.dbscan(DBSCAN(0.17).fit(X), X)
    """
    check_model(model, "plots.dbscan", "a fitted DBSCAN", "predict_kind")
    points, plane = plane_of(X, model.n_features_in_)
    labels, types = model.predict(X), model.predict_kind(X)
    ax = axes_or_new(ax)
    xy = plane.points(points)
    size = float(np.clip(6000 / len(xy), 3, 18))
    dots: dict[str, Any] = {"s": size, "rasterized": len(xy) > 20_000}
    noise = labels < 0
    ax.scatter(*xy[noise].T, color=NOISE, marker="x", linewidths=0.8, alpha=0.8, **dots)
    for cluster in np.unique(labels[~noise]):
        color, marker = PALETTE[cluster % len(PALETTE)], MARKERS[cluster // len(PALETTE) % len(MARKERS)]
        core = (labels == cluster) & (types == "core")
        edge = (labels == cluster) & (types != "core")
        ax.scatter(*xy[core].T, color=color, marker=marker, linewidths=0, alpha=0.8, **dots)
        ax.scatter(*xy[edge].T, facecolors="none", edgecolors=color, marker=marker, linewidths=0.8, **dots)
    return style_axes(ax, plane.names)
