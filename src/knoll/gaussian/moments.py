"""The moments that an M step hands to a covariance, and which variances are rounding and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knoll._common.rescale import exponent_of, times_power
from knoll._typing import Bools, Floats

FLOOR = 1e-6  # of the pooled variance: where eigenvalues are clipped when a factorisation would fail
# Of the pooled variance, and of the squared distance from the origin, whose rounding is 2⁻¹⁰⁶ of it: a variance below
# both is the rounding of equal points.
NOTHING = 2.0**-96
NARROWEST = 1e-290  # a fixed variance below this, in units of the data's, is as hard as k-means already
LEAST = 2.0**-1000  # a smaller variance has lost digits to underflow, and its inverse may leave float64
SCATTER_NONE, SCATTER_COLUMNS, SCATTER_FULL = range(3)  # which second moments, as the kernels number them


@dataclass(frozen=True)
class Moments:
    """The central moments of k components: what an M step hands to a covariance."""

    mass: Floats  # (k,)
    mean: Floats  # (k, d)
    covariance: Floats | None  # (k, d, d), or (k, d) the variances of the columns, or None, as `scatter` selects
    scale: Floats  # (d,) pooled standard deviation of each column
    reg_covar: float | Floats = 0.0  # added to every variance; (d,) where the columns have units of their own
    alive: Bools | None = None  # (k,) the others keep what they have; None: all
    total: Floats | None = None  # (d, d) second moment of all points about 0, divided by their mass
    threads: int = 1
    # Another pass: the covariances (m, d, d) of some components in the coordinates A(y − μ), from their numbers, their
    # means (m, d) and the matrices A (m, d, d). None where the data is not at hand.
    covariances_in: Callable[[list[int], Floats, Floats], Floats] | None = None

    def unit(self) -> Floats:
        """Return the standard deviations (d,) in which eigenvalues are measured; no less than what reg_covar adds."""
        variances = np.square(self.scale)
        drowned = variances < self.reg_covar
        return positive_scale(np.where(drowned, np.sqrt(self.reg_covar), self.scale) if drowned.any() else self.scale)


def narrowest(reach: int, d: int) -> float:
    """Return the least fixed variance, in units of the data's, for rows within 2^reach squared deviations of the mean.

    Two of them are at most 4d · 2^reach apart, squared, and that over the variance stays below 2^1000: beyond it all
    distances would count as equally far. It is as hard as k-means all the same.
    """
    return max(NARROWEST, float(times_power(1.0, reach + 2 + exponent_of(d) - 1000)))


def variances_of(covariance: Floats) -> Floats:
    """Return the variances of the columns (k, d), whichever second moments were summed."""
    return covariance if covariance.ndim == 2 else covariance.diagonal(axis1=1, axis2=2)


def rounding_of(means: Floats, scale: Floats) -> Floats:
    """Return the variances (k, d) that the rounding of equal points may have, about means in centered units."""
    with np.errstate(over="ignore"):
        return np.maximum(NOTHING * np.square(np.minimum(scale, np.abs(means))), LEAST)


def without_rounding(covariances: Floats, means: Floats, scale: Floats) -> Floats:
    """Return covariances (k, d, d) with 0 for the rounding of equal points: far out it is much beside others'."""
    lost = ~(variances_of(covariances) > rounding_of(means, scale))  # (k, d)
    if not lost.any():
        return covariances
    return np.where(lost[:, :, None] | lost[:, None, :], 0.0, covariances)


def positive_scale(scale: Floats) -> Floats:
    """Return the scale; a column without any takes the mean one of the others, and where there is none, 1."""
    here = scale >= np.sqrt(LEAST)
    present = scale[here]
    return np.where(here, scale, np.sqrt(np.mean(present**2)) if len(present) else 1.0)
