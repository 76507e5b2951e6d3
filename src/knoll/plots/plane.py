"""The plane of a picture: two columns, or the two leading principal axes of more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Floats
from knoll.exceptions import BadData

_LEAST, _MOST = 1e-100, 1e100  # matplotlib multiplies the scales of both axes


@dataclass(frozen=True)
class Plane:
    """Coordinates (x − center) @ axes.T, with the names of both axes."""

    center: Floats  # (d,)
    axes: Floats  # (2, d)
    names: tuple[str, str]

    @classmethod
    def of_points(cls, X: NDArray[Any], columns: list[str] | None = None) -> Plane:
        """Choose the plane of a set of points: as they are for d ≤ 2, else their principal axes."""
        X = np.asarray(X, dtype=np.float64)
        refuse_undrawable(X)
        center = X.mean(axis=0)
        return cls.of_covariance(center, np.atleast_2d(np.cov(X.T, bias=True)), columns)

    @classmethod
    def of_covariance(cls, mean: NDArray[Any], covariance: NDArray[Any], columns: list[str] | None = None) -> Plane:
        """Choose the plane of a Gaussian."""
        refuse_undrawable(np.append(mean, np.sqrt(np.diagonal(covariance))))
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

    def points(self, X: NDArray[Any]) -> Floats:
        """Return the (n, 2) coordinates of points."""
        refuse_undrawable(X, least=0.0)
        return (np.asarray(X, dtype=np.float64) - self.center) @ self.axes.T

    def covariance(self, covariance: NDArray[Any]) -> Floats:
        """Return the (2, 2) covariance of a Gaussian projected onto the plane."""
        return np.asarray(self.axes @ covariance @ self.axes.T)


def refuse_undrawable(values: NDArray[Any], least: float = _LEAST) -> None:
    """Raise an error for numbers outside the range of matplotlib."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest and not least <= largest <= _MOST:
        power = math.floor(math.log10(largest)) if math.isfinite(largest) else 308
        raise BadData(
            f"X has numbers up to {largest:.3g}, and a picture can be drawn of {_LEAST:g} to {_MOST:g}. "
            f"Divide X by 1e{power:+d} before fitting and drawing."
        )
