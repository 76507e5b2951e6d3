"""Kernel k-means drawn over its data: straight borders in feature space are curves here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from knoll.exceptions import BadData
from knoll.kernel_kmeans.estimator import KernelKMeans
from knoll.plots.fitted import check_drawn, check_model, feature_names
from knoll.plots.plane import Plane
from knoll.plots.scatter import scatter
from knoll.plots.style import NOISE, axes_or_new, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEPS = 160  # grid points along each axis


def kernel_kmeans(model: KernelKMeans, X: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Draw a fitted KernelKMeans: points in the colours of their clusters, and the borders between these.

    Parameters
    ----------
    model : KernelKMeans
        The fitted model. Of more than two columns, the two leading principal axes are drawn, without borders.
    X : array-like of shape (n_samples, n_features), optional
        Points to draw, coloured by `predict`; by default those of the fit.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import KernelKMeans, datasets, plots
    >>> X = datasets.load("banana").X
    >>> ax = plots.kernel_kmeans(KernelKMeans(4, sigma=1.0, random_state=0).fit(X))
    """
    check_model(model, "plots.kernel_kmeans", "a fitted KernelKMeans", "fit_points_")
    if model.fit_points_ is None:
        raise BadData("The model was fitted to a kernel matrix: there are no points to draw. Draw them with scatter.")
    fitted = check_drawn(model.fit_points_ if X is None else X, model.n_features_in_)
    points = np.asarray(fitted, dtype=np.float64)
    ax = axes_or_new(ax)
    plane = Plane.of_points(points, feature_names(model))
    scatter(points, _closest(model, points), ax=ax, plane=plane)
    if points.shape[1] == 2:
        _draw_borders(model, points, ax)
    return style_axes(ax, plane.names)


def _closest(model: KernelKMeans, points: np.ndarray) -> np.ndarray:
    dtype = np.asarray(model.fit_points_).dtype
    return np.asarray(model._assign(np.ascontiguousarray(points, dtype=dtype)))


def _draw_borders(model: KernelKMeans, points: np.ndarray, ax: Axes) -> None:
    """Find the closest mean on a grid, and draw the contour of each cluster."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.06 * np.maximum(high - low, 1e-12)
    x, y = (np.linspace(a, b, _STEPS) for a, b in zip(low - margin, high + margin, strict=True))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    labels = _closest(model, grid).reshape(len(y), len(x))
    for c in np.unique(labels)[1:]:  # a border has two sides: one of them is drawn
        ax.contour(x, y, (labels == c).astype(float), levels=[0.5], colors=NOISE, linewidths=0.9, zorder=1.5)
