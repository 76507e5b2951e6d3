"""A fitted Gaussian drawn over its data: model red, data blue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from knoll.gaussian.estimator import Ellipse, Gaussian
from knoll.plots.fitted import check_drawn, check_model, feature_names
from knoll.plots.plane import Plane
from knoll.plots.scatter import scatter
from knoll.plots.style import RED, axes_or_new, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def gaussian(model: Gaussian, X: ArrayLike | None = None, ax: Axes | None = None, *, n_std: float = 3.0) -> Axes:
    """Draw a fitted Gaussian: its mean as a dot and its contour at `n_std` standard deviations, over the data if given.

    Parameters
    ----------
    model : Gaussian
        The fitted model, with at least two columns. Of more than two, the two leading principal axes are drawn.
    X : array-like of shape (n_samples, n_features), optional
        Points to draw beneath it.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    n_std : float, default=3
        Mahalanobis distance of the contour.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import Gaussian, datasets, plots
    >>> X = datasets.load("one_gaussian").X
    >>> ax = plots.gaussian(Gaussian().fit(X), X)
    """
    check_model(model, "plots.gaussian", "a fitted Gaussian", "ellipse", "covariance_")
    model.ellipse(n_std)  # refuses what has no ellipse: one column, an unfitted model, n_std ≤ 0
    names = feature_names(model)
    plane = Plane.of_covariance(model.mean_, model.covariance_, names)
    ax = axes_or_new(ax)
    if X is not None:
        check_drawn(X, len(model.mean_))
        scatter(X, ax=ax, plane=plane)
    center = plane.points(model.mean_[None])[0]
    contour = Ellipse.of(center, plane.covariance(model.covariance_), n_std).points()
    ax.plot(*np.vstack([contour, contour[:1]]).T, color=RED, linewidth=1.8, label=f"{n_std:g}σ")
    ax.plot(*center, "o", color=RED, markersize=6, label="mean")
    return style_axes(ax, plane.names)
