"""Responsibilities as colour: a point between components has a colour between theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll.exceptions import BadData
from knoll.plots.fitted import check_model
from knoll.plots.plane import Plane
from knoll.plots.style import NOISE, PALETTE, axes_or_new, look
from knoll.validation import check_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["mixed_colors", "responsibilities"]


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
    points = check_points(X)
    if points.shape[1] != model.n_features_in_:
        raise BadData(f"X has {points.shape[1]} columns, and the model was fitted to {model.n_features_in_}.")
    columns = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    plane = Plane.of_points(points, columns)
    ax = axes_or_new(ax)
    size = float(np.clip(6000 / len(points), 3, 18))
    colors = mixed_colors(np.asarray(model.predict_proba(X)))
    x, y = plane.points(points).T
    ax.scatter(x, y, c=colors, s=size, linewidths=0, rasterized=len(points) > 20_000)
    return look(ax, plane.names)


def mixed_colors(shares: NDArray[Any]) -> NDArray[np.float64]:
    """Return the colours (n, 3) of shares (n, k) of the palette; what is missing to one is noise, grey."""
    from matplotlib.colors import to_rgb

    palette = np.array([to_rgb(PALETTE[c % len(PALETTE)]) for c in range(shares.shape[1])])  # (k, 3)
    missing = np.clip(1 - shares.sum(axis=1, keepdims=True), 0, 1)
    return np.clip(shares @ palette + missing * np.array(to_rgb(NOISE)), 0, 1)
