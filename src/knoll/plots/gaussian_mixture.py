"""A fitted mixture drawn over its data: contours red, points in the colours of their components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.gaussian.covariance import COVARIANCE_TYPES
from knoll.gaussian.estimator import Ellipse
from knoll.mixture.estimator import GaussianMixture
from knoll.plots.fitted import check_model, feature_names
from knoll.plots.plane import Plane, refuse_undrawable
from knoll.plots.scatter import scatter
from knoll.plots.style import RED, axes_or_new, style_axes
from knoll.validation import Number, check_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def gaussian_mixture(
    model: GaussianMixture, X: ArrayLike | None = None, ax: Axes | None = None, *, n_std: float = 3.0
) -> Axes:
    """Draw a fitted mixture: each component's mean and contour, over the points in their labels' colours if given.

    Parameters
    ----------
    model : GaussianMixture
        The fitted model, with at least two columns. Of more than two, the two leading principal axes of the whole
        mixture are drawn.
    X : array-like of shape (n_samples, n_features), optional
        Points to draw beneath it, coloured by `model.predict`; noise is grey.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    n_std : float, default=3
        Mahalanobis distance of the contours.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import GaussianMixture, datasets, plots
    >>> X = datasets.load("iris").X
    >>> ax = plots.gaussian_mixture(GaussianMixture(3, random_state=0).fit(X), X)
    """
    check_model(model, "plots.gaussian_mixture", "a fitted GaussianMixture", "means_", "covariances_")
    check_parameters("plots.gaussian_mixture", {"n_std": n_std}, {"n_std": (Number(0, strict=True),)})
    k, d = model.means_.shape
    if d < 2:
        raise BadData("plots.gaussian_mixture needs at least two columns; this mixture has 1.")
    refuse_undrawable(model.means_)
    covariances = matrices(model)
    means, weights = (np.asarray(a, dtype=np.float64) for a in (model.means_, model.weights_))
    shares = weights / weights.sum() if weights.sum() > 0 else np.full(k, 1 / k)
    plane = plane_of_mixture(shares, means, covariances, feature_names(model))
    ax = axes_or_new(ax)
    if X is not None:
        scatter(X, model.predict(X), ax=ax, plane=plane)
    for c, center in enumerate(plane.points(means)):
        if weights[c] == 0:
            continue  # a component without points
        contour = Ellipse.of(center, plane.covariance(covariances[c]), n_std).points()
        ax.plot(*np.vstack([contour, contour[:1]]).T, color=RED, linewidth=1.8, label=f"{n_std:g}σ" if c == 0 else None)
        ax.plot(*center, "o", color=RED, markersize=4 + 6 * np.sqrt(shares[c]))
    return style_axes(ax, plane.names)


def plane_of_mixture(shares: Floats, means: Floats, covariances: Floats, names: list[str] | None) -> Plane:
    """Return the plane of a mixture's own mean and covariance."""
    center = shares @ means
    between = means - center
    return Plane.of_covariance(center, np.tensordot(shares, covariances, 1) + (shares * between.T) @ between, names)


def matrices(model: GaussianMixture) -> Floats:
    """Return every Σ_c as a matrix, (k, d, d), for every covariance type."""
    k, d = model.means_.shape
    covariances = np.asarray(model.covariances_, dtype=np.float64)
    return COVARIANCE_TYPES[model.covariance_type_].as_matrices(covariances, k, d)
