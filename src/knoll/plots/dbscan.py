"""DBSCAN drawn over its data: what is core, what is border, what is noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from knoll.density.dbscan import DBSCAN
from knoll.exceptions import BadData
from knoll.plots.fitted import check_model
from knoll.plots.plane import Plane
from knoll.plots.style import MARKERS, NOISE, PALETTE, axes_or_new, look
from knoll.validation import check_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["dbscan"]


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
    points = check_points(X)
    if points.shape[1] != model.n_features_in_:
        raise BadData(f"X has {points.shape[1]} columns, and the model was fitted to {model.n_features_in_}.")
    labels, kinds = model.predict(X), model.predict_kind(X)
    columns = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    plane = Plane.of_points(points, columns)
    ax = axes_or_new(ax)
    xy = plane.points(points)
    size = float(np.clip(6000 / len(xy), 3, 18))
    dots: dict[str, Any] = {"s": size, "rasterized": len(xy) > 20_000}
    noise = labels < 0
    ax.scatter(*xy[noise].T, color=NOISE, marker="x", linewidths=0.8, alpha=0.8, **dots)
    for cluster in np.unique(labels[~noise]):
        color, marker = PALETTE[cluster % len(PALETTE)], MARKERS[cluster // len(PALETTE) % len(MARKERS)]
        core = (labels == cluster) & (kinds == "core")
        edge = (labels == cluster) & (kinds != "core")
        ax.scatter(*xy[core].T, color=color, marker=marker, linewidths=0, alpha=0.8, **dots)
        ax.scatter(*xy[edge].T, facecolors="none", edgecolors=color, marker=marker, linewidths=0.8, **dots)
    return look(ax, plane.names)
