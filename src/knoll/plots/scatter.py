"""Points, coloured by cluster; noise is grey."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from knoll.exceptions import BadData
from knoll.plots.fitted import plane_of
from knoll.plots.plane import Plane
from knoll.plots.style import BLUE, MARKERS, NOISE, PALETTE, axes_or_new, style_axes
from knoll.validation import check_points, refuse_masked

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def scatter(
    X: ArrayLike, labels: ArrayLike | None = None, ax: Axes | None = None, *, plane: Plane | None = None
) -> Axes:
    """Draw points, one colour per cluster, noise (label −1) in grey beneath them.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points. With more than two columns their two leading principal axes are drawn, and the axes name them.
    labels : array-like of shape (n_samples,), optional
        Cluster of each point; all points are blue without it.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    plane : Plane, optional
        The plane to draw in, to share it between pictures.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import datasets, plots
    >>> data = datasets.load("circles")
    >>> ax = plots.scatter(data.X, data.y)
    """
    points = check_points(X)
    plane = plane_of(X)[1] if plane is None else plane
    ax = axes_or_new(ax)
    xy = plane.points(points)
    size = float(np.clip(6000 / len(xy), 2, 18))
    dots: dict[str, Any] = {"s": size, "linewidths": 0, "rasterized": len(xy) > 20_000}
    if labels is None:
        ax.scatter(*xy.T, color=BLUE, alpha=0.7, **dots)
        return style_axes(ax, plane.names)
    refuse_masked(labels, "labels")
    labels = np.asarray(labels)
    if labels.shape != (len(xy),):
        raise BadData(f"labels must have one entry for each of the {len(xy)} rows of X, got shape {labels.shape}.")
    noise = labels == -1
    ax.scatter(*xy[noise].T, color=NOISE, alpha=0.6, **dots)
    for i, name in enumerate(np.unique(labels[~noise])):
        color, marker = PALETTE[i % len(PALETTE)], MARKERS[i // len(PALETTE) % len(MARKERS)]
        ax.scatter(*xy[labels == name].T, color=color, marker=marker, alpha=0.8, **dots)
    return style_axes(ax, plane.names)
