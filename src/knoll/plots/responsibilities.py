"""Responsibilities as mixed colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll._typing import Floats
from knoll.plots.fitted import check_model, plane_of
from knoll.plots.style import NOISE, PALETTE, axes_or_new, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def responsibilities(model: Any, X: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw points in the colours of their components, mixed by the responsibilities.

    Parameters
    ----------
    model : fitted GaussianMixture
        Anything with `predict_proba`.
    X : array-like of shape (n_samples, n_features)
        The points. With more than two columns their two leading principal axes are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import GaussianMixture, datasets, plots
    >>> X = datasets.load("iris").X
    >>> ax = plots.responsibilities(GaussianMixture(3, random_state=0).fit(X), X)
    """
    check_model(model, "plots.responsibilities", "a fitted mixture", "predict_proba")
    points, plane = plane_of(X, model.n_features_in_)
    ax = axes_or_new(ax)
    size = float(np.clip(6000 / len(points), 3, 18))
    colors = mixed_colors(np.asarray(model.predict_proba(X)))
    x, y = plane.points(points).T
    ax.scatter(x, y, c=colors, s=size, linewidths=0, rasterized=len(points) > 20_000)
    return style_axes(ax, plane.names)


def mixed_colors(shares: NDArray[Any]) -> Floats:
    """Return the colours (n, 3) of shares (n, k) of the palette; the complement to one is noise, grey."""
    from matplotlib.colors import to_rgb

    palette = np.array([to_rgb(PALETTE[c % len(PALETTE)]) for c in range(shares.shape[1])])  # (k, 3)
    missing = np.clip(1 - shares.sum(axis=1, keepdims=True), 0, 1)
    return np.clip(shares @ palette + missing * np.array(to_rgb(NOISE)), 0, 1)
