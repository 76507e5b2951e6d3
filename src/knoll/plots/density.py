"""A fitted density as contours, and one level of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.gaussian.estimator import Gaussian
from knoll.mixture.estimator import GaussianMixture
from knoll.plots.fitted import check_drawn, check_model, feature_names
from knoll.plots.gaussian_mixture import matrices, plane_of_mixture
from knoll.plots.plane import Plane, refuse_undrawable
from knoll.plots.scatter import scatter
from knoll.plots.style import NOISE, RED, axes_or_new, style_axes
from knoll.validation import Number, check_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def density(
    model: Any, X: ArrayLike | None = None, ax: Axes | None = None, *, level: float | None = None, resolution: int = 120
) -> Axes:
    """Draw the contours of a fitted density, and in red the one at `level`.

    Parameters
    ----------
    model : fitted Gaussian or GaussianMixture
        Of two columns, anything with `score_samples`, the logarithm of a density. Of more, the two leading principal
        axes are drawn, with the contours of the marginal density there.
    X : array-like of shape (n_samples, n_features), optional
        Points to draw beneath; the picture is as wide as they are. Without them, as wide as a sample of the model.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    level : float, optional
        The density on the contour.
    resolution : int, default=120
        Grid points along each side.

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
    check_model(model, "plots.density", "a fitted model with a density", "n_features_in_")
    d = int(model.n_features_in_)
    if d == 2:
        check_model(model, "plots.density", "a fitted model with a density", "score_samples")
    if d < 2:
        raise BadData("plots.density needs at least two columns; this model has 1.")
    names = feature_names(model)
    plane, flat = (Plane.of_points(np.zeros((1, 2)), names), model) if d == 2 else _marginal(model, names)
    ax = axes_or_new(ax)
    if X is not None:
        points = check_drawn(X, d)
        scatter(points, ax=ax, plane=plane)
    else:
        sample = model.sample(1000, random_state=0)
        points = sample[0] if isinstance(sample, tuple) else sample
    refuse_undrawable(points)
    x, y, height = density_grid(flat, plane.points(points), int(resolution))
    heights = float(height.max()) * np.geomspace(0.02, 0.9, 9)
    ax.contour(x, y, height, levels=heights, colors=NOISE, linewidths=0.8)
    if level is not None:
        ax.contour(x, y, height, levels=[level], colors=RED, linewidths=1.8)
    return style_axes(ax, plane.names)


@dataclass(frozen=True)
class _Flat:
    """A mixture of Gaussians in the plane."""

    shares: Floats  # (k,)
    means: Floats  # (k, 2)
    covariances: Floats  # (k, 2, 2)

    def score_samples(self, X: Floats) -> Floats:
        """Return log p(x)."""
        logs = []
        for share, mean, covariance in zip(self.shares, self.means, self.covariances):
            root = np.linalg.cholesky(covariance)
            z = np.linalg.solve(root, (X - mean).T)  # (2, n)
            log_det = 2 * np.log(np.diag(root)).sum()
            logs.append(np.log(share) - 0.5 * (np.square(z).sum(axis=0) + log_det) - np.log(2 * np.pi))
        return np.logaddexp.reduce(logs, axis=0)


def _marginal(model: Any, names: list[str] | None) -> tuple[Plane, _Flat]:
    """Return the plane of a Gaussian or a mixture, and its marginal density there, which is a mixture again."""
    if isinstance(model, Gaussian):
        shares, means, covariances = np.ones(1), model.mean_[None], model.covariance_[None]
    elif isinstance(model, GaussianMixture):
        alive = np.asarray(model.weights_) > 0
        shares, means, covariances = (np.asarray(a)[alive] for a in (model.weights_, model.means_, matrices(model)))
    else:
        raise BadData(
            f"plots.density draws a {type(model).__name__} of two columns, and this one has {model.n_features_in_}. "
            "Fit it to two of them."
        )
    shares = np.asarray(shares, dtype=np.float64) / float(np.sum(shares))
    plane = plane_of_mixture(shares, means, covariances, names)
    return plane, _Flat(shares, plane.points(means), np.stack([plane.covariance(one) for one in covariances]))


def density_grid(model: Any, shown: Floats, resolution: int) -> tuple[Floats, Floats, Floats]:
    """Return the two sides of a grid around points, and the density on it: (m,), (m,), (m, m)."""
    low, high = shown.min(axis=0), shown.max(axis=0)
    margin = 0.12 * np.maximum(high - low, 1e-12)
    x, y = (np.linspace(low[i] - margin[i], high[i] + margin[i], resolution) for i in range(2))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return x, y, np.exp(model.score_samples(grid)).reshape(resolution, resolution)
