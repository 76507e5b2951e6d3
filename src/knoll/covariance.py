"""The shapes a covariance may have: one class each, with the same methods, so that no loop asks which it is.

Today: Full, every Σ_c free (docs/theory/01-gaussian.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from knoll import _core

__all__ = ["Covariance", "Full", "Moments"]

FLOOR = 1e-6  # of the pooled variance: where eigenvalues are clipped when a factorisation would fail
PIVOT = 1e-12  # of its variance: below this, what a column keeps when those before it are known is little but rounding


@dataclass(frozen=True)
class Moments:
    """The central moments of k components: what an M step hands to a covariance."""

    mass: NDArray[np.float64]  # (k,)
    mean: NDArray[np.float64]  # (k, d)
    covariance: NDArray[np.float64]  # (k, d, d)
    scale: NDArray[np.float64]  # (d,) pooled standard deviation of each column


class Covariance(Protocol):
    """What the loops ask of a covariance."""

    def update(self, stats: Moments) -> Self:
        """Return the covariance that maximises the likelihood of the components' moments (the M step)."""
        ...

    def log_density(self, X: NDArray[Any], threads: int) -> NDArray[np.float64]:
        """Return log N(x_i | μ_c, Σ_c) as an (n, k) array."""
        ...

    def n_parameters(self, k: int, d: int) -> int:
        """Count the free numbers of k covariances in d dimensions."""
        ...


def _nothing() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass(frozen=True)
class Full:
    """Every Σ_c is free. Kept as its whitener F_c = L_c⁻¹, Σ_c = L_c L_cᵀ: Mahalanobis is ‖F_c (x − μ_c)‖."""

    means: NDArray[np.float64] = field(default_factory=_nothing)  # (k, d)
    covariances: NDArray[np.float64] = field(default_factory=_nothing)  # (k, d, d)
    whiteners: NDArray[np.float64] = field(default_factory=_nothing)  # (k, d, d)
    log_dets: NDArray[np.float64] = field(default_factory=_nothing)  # (k,)
    floored: tuple[tuple[int, int], ...] = ()  # (component, column that failed) where eigenvalues were clipped

    def update(self, stats: Moments) -> Self:
        """Take the components' own covariances; clip the eigenvalues of those that cannot be factorised."""
        covariances = stats.covariance.copy()
        whiteners, log_dets, floored = np.empty_like(covariances), np.empty(len(covariances)), []
        for c, covariance in enumerate(covariances):
            lower = covariance.copy()
            failed = _core.cholesky(lower, PIVOT)
            if failed >= 0:
                floored.append((c, failed))
                covariance[:] = _clip_eigenvalues(covariance, stats.scale)
                lower = scipy.linalg.cholesky(covariance, lower=True)
            _core.invert_lower(lower, whiteners[c])
            log_dets[c] = 2.0 * np.log(lower.diagonal()).sum()
        return replace(
            self,
            means=stats.mean,
            covariances=covariances,
            whiteners=whiteners,
            log_dets=log_dets,
            floored=tuple(floored),
        )

    def mahalanobis2(self, X: NDArray[Any], component: int, threads: int) -> NDArray[np.float64]:
        """Return (x_i − μ)ᵀ Σ⁻¹ (x_i − μ) for one component (eq. 1.9)."""
        squared = np.empty(len(X))
        _core.mahalanobis2(X, self.means[component], self.whiteners[component], squared, threads)
        return squared

    def log_density(self, X: NDArray[Any], threads: int) -> NDArray[np.float64]:
        """Return log N(x_i | μ_c, Σ_c) as an (n, k) array (the logarithm of eq. 1.1)."""
        k, d = self.means.shape
        densities = np.empty((len(X), k))
        for c in range(k):
            densities[:, c] = self.mahalanobis2(X, c, threads)
        densities += d * np.log(2 * np.pi) + self.log_dets
        densities *= -0.5
        return densities

    def n_parameters(self, k: int, d: int) -> int:
        """Count the free numbers of k symmetric d × d matrices."""
        return k * d * (d + 1) // 2


def _clip_eigenvalues(covariance: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clip the eigenvalues at FLOOR in units of the pooled variances: the exact M step under Σ ⪰ FLOOR·diag(scale²).

    A column without any variance takes the mean scale of the others; where there is none, 1.
    """
    present = scale[scale > 0]
    unit = np.where(scale > 0, scale, np.sqrt(np.mean(present**2)) if len(present) else 1.0)
    values, vectors = scipy.linalg.eigh(covariance / np.outer(unit, unit))
    clipped = (vectors * np.maximum(values, FLOOR)) @ vectors.T
    clipped = np.outer(unit, unit) * (clipped + clipped.T) / 2
    return np.asarray(clipped)
