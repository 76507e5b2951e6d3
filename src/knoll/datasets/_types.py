"""What a loader returns: points, what is known about them, and the mixture they were drawn from, if any."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.exceptions import BadData


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of Gaussians: p(x) = Σ_c π_c N(x | μ_c, Σ_c).

    Attributes
    ----------
    weights : ndarray of shape (k,)
        π, positive, summing to one.
    means : ndarray of shape (k, d)
        μ.
    covariances : ndarray of shape (k, d, d)
        Σ.

    Examples
    --------
    >>> from knoll.datasets import three_component_density
    >>> model = three_component_density().model
    >>> bool((model.density(model.means) > model.density(model.means + 2.0)).all())
    True
    """

    weights: Floats
    means: Floats
    covariances: Floats

    def log_joint(self, X: ArrayLike) -> Floats:
        """Return log π_c + log N(x_i | μ_c, Σ_c), of shape (n, k)."""
        d = self.means.shape[1]
        try:
            points = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadData(
                f"X must hold real numbers in rows of {d}: {error}. Encode or drop the others first."
            ) from error
        if points.ndim != 2 or points.shape[1] != d:
            raise BadData(f"X must have shape (n, {d}), got {points.shape}. Pass one row per point.")
        if not np.isfinite(points).all():
            row, column = (int(v) for v in np.argwhere(~np.isfinite(points))[0])
            raise BadData(f"X has {points[row, column]} at row {row}, column {column}. Drop or impute such rows first.")
        out = np.empty((len(points), len(self.weights)))
        for c, (weight, mean, covariance) in enumerate(zip(self.weights, self.means, self.covariances)):
            root = np.linalg.cholesky(covariance)
            z = np.linalg.solve(root, (points - mean).T)  # (d, n), whitened
            log_det = 2.0 * np.log(np.diag(root)).sum()
            out[:, c] = np.log(weight) - 0.5 * ((z * z).sum(axis=0) + log_det + d * np.log(2.0 * np.pi))
        return out

    def log_density(self, X: ArrayLike) -> Floats:
        """Return log p(x_i), of shape (n,)."""
        return np.logaddexp.reduce(self.log_joint(X), axis=1)

    def density(self, X: ArrayLike) -> Floats:
        """Return p(x_i), of shape (n,)."""
        return np.exp(self.log_density(X))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points with their names and, where known, their classes.

    Attributes
    ----------
    name : str
        What :func:`load` knows it by.
    X : ndarray of shape (n, d), float64
        The points: a copy of your own, free to change.
    y : ndarray of shape (n,), int64, or None
        The class of each point; None where the table has no classes.
    feature_names : tuple of str
        One name per column.
    target_names : tuple of str
        One name per class; empty where `y` is None.
    description : str
        One or two sentences.
    source : str
        Where the numbers come from.
    model : Mixture or None
        The mixture of Gaussians the points were drawn from.
    """

    name: str
    X: Floats = field(repr=False)
    y: Ints | None = field(repr=False)
    feature_names: tuple[str, ...] = field(repr=False)
    target_names: tuple[str, ...]
    description: str
    source: str = field(repr=False)
    model: Mixture | None = field(default=None, repr=False)

    def frame(self) -> Any:
        """Return the points as a pandas table, with the classes in a last column ``target``."""
        try:
            pd = importlib.import_module("pandas")
        except ImportError as error:
            raise ImportError("frame() needs pandas, which is not installed. pip install pandas, or use .X") from error

        table = pd.DataFrame(self.X, columns=list(self.feature_names), copy=True)
        if self.y is not None:
            table["target"] = self.y
        return table
