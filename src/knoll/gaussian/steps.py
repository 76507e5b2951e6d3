"""The step of one Gaussian: moments about an origin, from them μ and Σ (docs/theory/01-gaussian.md, eq. 1.4–1.7)."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.exact_sums import ExactSums
from knoll._common.loop import StepReport
from knoll._typing import Floats, Indices

# Rows from whose median the first origin is taken: few enough to cost nothing, and all in the first cell of the grid.
_FIRST = 256
# An origin t standard deviations off the mean costs about log10(t²) of float64's 16 digits in Σ (eq. 1.8).
# Beyond this many the pass is made again, so that plain sums over a cell err by at most (1 + 4²) · 4096 · 2⁻⁵³ = 8e-12.
_FAR = 4.0


@dataclass(frozen=True)
class GaussianState:
    """What is known of the Gaussian so far; `origin` is the point about which the next moments are taken."""

    origin: Floats  # (d,)
    mass: float
    mean: Floats  # (d,)
    covariance: Floats  # (d, d), or (d,) the variances where nobody needs more

    @property
    def variances(self) -> Floats:
        """Those of the columns, (d,)."""
        return self.covariance if self.covariance.ndim == 1 else self.covariance.diagonal()


@dataclass(frozen=True)
class MomentSums:
    """Σw, Σw(x−o) and Σw(x−o)(x−o)ᵀ as exact sums: integers, so that any order of merging gives the same bits."""

    rows: int
    sums: ExactSums  # 1 + d + d(d+1)/2

    def merge(self, other: MomentSums) -> MomentSums:
        """Add two sets of sums, exactly; neither is changed."""
        return MomentSums(self.rows + other.rows, self.sums.merge(other.sums))


def start(block: Block) -> GaussianState:
    """Choose an origin from the first rows: their median, a value of the data, so a constant column is exactly 0.

    Rows of weight 0 are absent, unless there are no others among the first cell of the grid.
    """
    first = block.rows(0, _core.GRAIN)
    points = first.points
    if first.weights is not None and first.weights.any():
        points = points[first.weights > 0]
    points = np.asarray(points[:_FIRST], dtype=np.float64)
    middle = (len(points) - 1) // 2
    origin = np.partition(points, middle, axis=0)[middle]
    d = len(origin)
    return GaussianState(origin, 0.0, origin, np.zeros((d, d)))


def partial(block: Block, state: GaussianState, threads: int) -> MomentSums:
    """Sum the moments of a block about the origin."""
    d = block.points.shape[1]
    sums = ExactSums.zeros(1 + d + d * (d + 1) // 2)
    _core.add_moments(block.points, block.weights, state.origin, sums.words, threads)
    return MomentSums(len(block.points), sums)


def finish(stats: MomentSums, state: GaussianState, threads: int = 1) -> tuple[GaussianState, StepReport]:
    """Turn sums into μ, Σ and the log-likelihood at its maximum; report how far the mean lies from the origin, in σ."""
    d = len(state.origin)
    rounded = stats.sums.round(threads)
    mass, first, second = rounded[0], rounded[1 : 1 + d], rounded[1 + d :]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        offset = first / mass
        mean = state.origin + offset  # eq. 1.4
        covariance = np.empty((d, d))
        i, j = _upper(d) if d <= 128 else np.triu_indices(d)
        covariance[i, j] = covariance[j, i] = second / mass - offset[i] * offset[j]  # eq. 1.5 by eq. 1.7
    variance = np.maximum(covariance.diagonal(), 0.0)
    np.fill_diagonal(covariance, variance)
    moved = offset != 0
    changed = float(np.max(np.abs(offset[moved]) / np.sqrt(np.maximum(variance[moved], 1e-300)), initial=0.0))
    return GaussianState(mean, float(mass), mean, covariance), StepReport(_maximum(mass, covariance), changed)


@functools.lru_cache(maxsize=16)
def _upper(d: int) -> tuple[Indices, Indices]:
    """Return the rows and columns of an upper triangle, in the order of the sums."""
    return np.triu_indices(d)


def settled(reports: list[StepReport]) -> bool:
    """Return whether the origin was close enough to the mean for Σ to be accurate."""
    return not reports[-1].changed > _FAR


def _maximum(mass: float, covariance: Floats) -> float:
    """Compute log p(X | μ, Σ) at its maximum: the quadratic forms add up to nd (eq. 1.6); +inf for a singular Σ."""
    d = len(covariance)
    with np.errstate(all="ignore"):  # subnormal pivots
        sign, log_det = np.linalg.slogdet(covariance) if np.isfinite(covariance).all() else (1.0, np.nan)
    if sign <= 0:
        return float("inf")
    return float(-0.5 * mass * (d * np.log(2 * np.pi) + log_det + d))
