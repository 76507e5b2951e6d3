"""Decision regions: the plane coloured by `predict`, beneath the points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from knoll.exceptions import BadData
from knoll.plots.fitted import check_model, plane_of
from knoll.plots.scatter import scatter
from knoll.plots.style import NOISE, PALETTE, axes_or_new
from knoll.validation import Number, check_parameters, check_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def decision_regions(model: Any, X: ArrayLike, ax: Axes | None = None, *, resolution: int = 200) -> Axes:
    """Draw the prediction of a fitted model at every point of the plane, and the data over it.

    Of more than two columns the two leading principal axes of X are drawn, and the colours are the predictions in that
    plane, with the other axes at the mean: a point off the plane may have another colour.

    Parameters
    ----------
    model : fitted estimator with `predict`
        Any of knoll's, or one with the same interface.
    X : array-like of shape (n_samples, n_features)
        The points.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    resolution : int, default=200
        Grid points along the longer side.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import KMeans, datasets, plots
    >>> X = datasets.load("x1500").X
    >>> ax = plots.decision_regions(KMeans(3, random_state=0).fit(X), X)
    """
    check_model(model, "plots.decision_regions", "a fitted model with predict", "predict")
    from matplotlib.colors import ListedColormap

    check_parameters("plots.decision_regions", {"resolution": resolution}, {"resolution": (Number(2, whole=True),)})
    if check_points(X).shape[1] < 2:
        raise BadData("plots.decision_regions needs at least two columns; X has 1.")
    points, plane = plane_of(X, model.n_features_in_)
    xy = plane.points(points)
    low, high = xy.min(axis=0), xy.max(axis=0)
    margin = 0.05 * np.maximum(high - low, 1e-12)
    low, high = low - margin, high + margin
    step = float((high - low).max()) / resolution
    sides = [np.arange(low[i], high[i] + step, step) for i in range(2)]
    grid = np.stack(np.meshgrid(*sides), axis=-1)  # (rows, columns, 2)
    rows: Any = grid.reshape(-1, 2) @ plane.axes + plane.center  # back into d dimensions
    if hasattr(model, "feature_names_in_") and hasattr(X, "columns"):
        table: Any = type(X)  # of the same type, with the same names
        rows = table(rows, columns=[str(name) for name in X.columns])
    labels = np.asarray(model.predict(rows)).reshape(grid.shape[:2])
    answers = np.unique(np.concatenate([labels.ravel(), np.asarray(model.predict(X))]))
    tint = ListedColormap([NOISE if a < 0 else PALETTE[int(a) % len(PALETTE)] for a in answers])
    ax = axes_or_new(ax)
    ax.pcolormesh(
        *sides, np.searchsorted(answers, labels), cmap=tint, vmin=-0.5, vmax=len(answers) - 0.5, alpha=0.25,
        shading="nearest", zorder=0, rasterized=True, linewidth=0,
    )  # fmt: skip
    return scatter(X, model.predict(X), ax=ax, plane=plane)
