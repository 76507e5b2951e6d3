"""k-means over its data: the centres, and the borders between their Voronoi cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.kmeans.estimator import KMeans
from knoll.plots.fitted import check_drawn, check_model, feature_names
from knoll.plots.plane import Plane
from knoll.plots.scatter import scatter
from knoll.plots.style import NOISE, RED, axes_or_new, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def kmeans(model: KMeans, X: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Draw a fitted KMeans: its centres, the points in the colours of their clusters, and the borders between these.

    Parameters
    ----------
    model : KMeans
        The fitted model. Of more than two columns, the two leading principal axes are drawn, without borders: these
        are planes that a picture cannot show.
    X : array-like of shape (n_samples, n_features), optional
        Points to draw beneath it, coloured by `predict`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import KMeans, datasets, plots
    >>> X = datasets.load("banana").X
    >>> ax = plots.kmeans(KMeans(5, random_state=0).fit(X), X)
    """
    check_model(model, "plots.kmeans", "a fitted KMeans", "cluster_centers_")
    centers = np.asarray(model.cluster_centers_, dtype=np.float64)
    ax = axes_or_new(ax)
    if X is None:
        plane = Plane.of_points(centers, feature_names(model))
    else:
        points = check_drawn(X, centers.shape[1])
        plane = Plane.of_points(points, feature_names(model))
        scatter(points, model.predict(X), ax=ax, plane=plane)
    shown = plane.points(centers)
    if centers.shape[1] <= 2:
        _draw_borders(shown, ax)
    ax.plot(*shown.T, "o", color=RED, markersize=6, markeredgecolor="white", label="centres")
    return style_axes(ax, plane.names)


def _draw_borders(centers: Floats, ax: Axes) -> None:
    from matplotlib.collections import LineCollection

    # a square far outside the visible window; the borders do not change the limits of the axes
    low, high = (np.asarray(limits) for limits in zip(ax.get_xlim(), ax.get_ylim()))
    low, high = np.minimum(low, centers.min(axis=0)), np.maximum(high, centers.max(axis=0))
    size = 10 * max(float((high - low).max()), 1e-300)
    square = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]) * size + (low + high) / 2
    lines = []
    for c in range(len(centers)):
        corners = cell(centers, c, square)
        lines += [
            (a, b)
            for a, b in zip(corners, np.roll(corners, -1, axis=0))
            if not np.any(np.isclose(np.abs((a + b) / 2 - (low + high) / 2), size, rtol=1e-9, atol=0))
        ]
    ax.add_collection(LineCollection(lines, colors=NOISE, linewidths=0.9, zorder=1.5), autolim=False)


def cell(centers: Floats, c: int, window: Floats) -> Floats:
    """Return the corners, in order, of the Voronoi cell of centre c within a convex polygon; (m, 2)."""
    corners = window
    for j in range(len(centers)):
        normal = centers[j] - centers[c]
        if j == c or not normal.any():
            continue
        middle = (centers[j] + centers[c]) / 2
        side = (corners - middle) @ normal  # ≤ 0: closer to c
        kept = []
        for here, there, a, b in zip(corners, np.roll(corners, -1, axis=0), side, np.roll(side, -1)):
            if a <= 0:
                kept.append(here)
            if (a < 0 < b) or (b < 0 < a):
                kept.append(here + a / (a - b) * (there - here))
        corners = np.array(kept).reshape(-1, 2)
    return corners
