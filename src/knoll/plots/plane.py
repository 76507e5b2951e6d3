"""The plane a picture is drawn in: the two columns there are, or the two leading principal axes of more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Plane"]


@dataclass(frozen=True)
class Plane:
    """Coordinates (x − center) @ axes.T, with the names of both axes."""

    center: NDArray[np.float64]  # (d,)
    axes: NDArray[np.float64]  # (2, d)
    names: tuple[str, str]

    @classmethod
    def of_points(cls, X: NDArray[Any], columns: list[str] | None = None) -> Plane:
        """Choose the plane of a set of points: as they are for d ≤ 2, else their principal axes."""
        X = np.asarray(X, dtype=np.float64)
        center = X.mean(axis=0)
        return cls.of_covariance(center, np.atleast_2d(np.cov(X.T, bias=True)), columns)

    @classmethod
    def of_covariance(cls, mean: NDArray[Any], covariance: NDArray[Any], columns: list[str] | None = None) -> Plane:
        """Choose the plane of a Gaussian."""
        d = len(mean)
        if d <= 2:
            names = columns if columns is not None else [f"x{j}" for j in range(d)]
            axes = np.eye(2, d)
            return cls(np.zeros(d), axes, (names[0], names[1] if d == 2 else ""))
        values, vectors = np.linalg.eigh(np.asarray(covariance, dtype=np.float64))
        order = np.argsort(values)[::-1]
        axes = vectors[:, order[:2]].T
        axes *= np.where(axes[np.arange(2), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
        share = values[order] / max(values.sum(), np.finfo(float).tiny)
        first, second = (f"principal axis {i + 1} of {d} ({share[i]:.0%} of variance)" for i in range(2))
        return cls(np.asarray(mean, dtype=np.float64), axes, (first, second))

    def points(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the (n, 2) coordinates of points."""
        return (np.asarray(X, dtype=np.float64) - self.center) @ self.axes.T

    def covariance(self, covariance: NDArray[Any]) -> NDArray[np.float64]:
        """Return the (2, 2) covariance of a Gaussian's shadow in the plane."""
        return np.asarray(self.axes @ covariance @ self.axes.T)
