"""A fitted density as contours, and one level of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll.exceptions import BadData
from knoll.plots.points import scatter
from knoll.plots.style import NOISE, RED, axes_or_new, look
from knoll.validation import Number, check_parameters, check_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["density", "density_grid"]

Floats = NDArray[np.float64]


def density(
    model: Any, X: ArrayLike | None = None, ax: Axes | None = None, *, level: float | None = None, resolution: int = 120
) -> Axes:
    """Draw the contours of a fitted density, and in red the one at `level`.

    Parameters
    ----------
    model : fitted Gaussian or GaussianMixture of two columns
        Anything with `score_samples`, the logarithm of a density. More columns have no contours in a plane.
    X : array-like of shape (n_samples, 2), optional
        Points to draw beneath; the picture is as wide as they are. Without them, as wide as the model's means.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    level : float, optional
        A density: what lies inside its contour is denser.
    resolution : int, default=120
        Places along each side.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import GaussianMixture, datasets, plots
    >>> X = datasets.load("three_component_density").X
    >>> ax = plots.density(GaussianMixture(3, random_state=0).fit(X), X, level=0.02)
    """
    check_parameters(
        "plots.density", {"level": level, "resolution": resolution},
        {"level": (None, Number(0, strict=True)), "resolution": (Number(2, whole=True),)},
    )  # fmt: skip
    if model.n_features_in_ != 2:
        raise BadData(f"plots.density draws contours of two columns, and this model has {model.n_features_in_}. "
                      "Fit it to two of them.")  # fmt: skip
    ax = axes_or_new(ax)
    if X is not None:
        shown = np.asarray(check_points(X), dtype=np.float64)
        if shown.shape[1] != 2:
            raise BadData(f"X has {shown.shape[1]} columns, and the model was fitted to 2.")
        scatter(X, ax=ax)
    else:
        sample = model.sample(1000, random_state=0)
        shown = sample[0] if isinstance(sample, tuple) else sample
    x, y, height = density_grid(model, shown, int(resolution))
    heights = float(height.max()) * np.geomspace(0.02, 0.9, 9)
    ax.contour(x, y, height, levels=heights, colors=NOISE, linewidths=0.8)
    if level is not None:
        ax.contour(x, y, height, levels=[level], colors=RED, linewidths=1.8)
    names = [str(name) for name in model.feature_names_in_] if hasattr(model, "feature_names_in_") else ["x0", "x1"]
    return look(ax, (names[0], names[1]))


def density_grid(model: Any, shown: Floats, resolution: int) -> tuple[Floats, Floats, Floats]:
    """Return the two sides of a grid around points, and the density on it: (m,), (m,), (m, m)."""
    low, high = shown.min(axis=0), shown.max(axis=0)
    room = 0.12 * np.maximum(high - low, 1e-12)
    x, y = (np.linspace(low[i] - room[i], high[i] + room[i], resolution) for i in range(2))
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return x, y, np.exp(model.score_samples(places)).reshape(resolution, resolution)
