"""The step of EM for a mixture of Gaussians: responsibilities and sums in one pass, from them π, μ and Σ.

Equations 2.5–2.9 of docs/theory/02-gaussian-mixture.md. Within a state everything is measured in its frame,
y = (x − origin)·scale; `means`, `covariances_` and the like of a `MixtureState` are those of x.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.covariance import SCATTER_COLUMNS, SCATTER_FULL, SCATTER_NONE, Covariance, Fixed, Full, Moments
from knoll.steps.blocks import Block
from knoll.steps.gaussian import GaussianState
from knoll.steps.loop import StepReport

__all__ = [
    "DEAD",
    "Frame",
    "MixtureState",
    "MixtureSums",
    "Noise",
    "blank",
    "expect",
    "finish",
    "given",
    "log_joint",
    "merge",
    "partial",
    "partial_labels",
    "partial_resp",
    "recentred",
    "step",
]

# A component is dead when its largest responsibility is below this: a smaller one has lost digits to underflow.
DEAD = 2.0**-969
# Squared distance of a new mean from the point about which its moments were taken, in variances. Beyond this the
# subtraction of eq. 1.7 costs more than four of float64's sixteen digits, and the pass is made again.
_FAR = 1e4
# A mean whose squared distance from the frame's origin is at most this, in variances of every column, needs no centre
# of its own: moments about the origin cost a digit at most, and points need not be shifted for each component. Worth it
# beyond three columns.
_NEAR = 9.0
# The second moments of all rows are a constant, so those of one component may be what the others leave of them. It
# bears their errors: so many times as large, beside its own variances, as the variances of all rows are. A component is
# chosen below the first number; beyond the second, which is 1e-13 of its variances for what the others leave out, the
# pass is made again with sums of its own.
_REST, _POOR = 12.0, 16.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Frame:
    """Where and in which unit a mixture is measured, and the pooled moments of the data in that frame."""

    origin: Floats  # (d,)
    scale: float  # a power of two
    mean: Floats  # (d,)
    covariance: Floats  # (d, d)
    known: bool = False  # those moments are the ones of all rows that steps will meet, to their last digits

    @classmethod
    def of(cls, pooled: GaussianState, least: float = 0.0) -> Frame:
        """Put the origin into the data's mean, and choose the power of two that brings its spread near 1.

        `least` is the smallest standard deviation that may become 1.
        """
        largest = float(np.sqrt(pooled.covariance.diagonal().max(initial=0.0)))
        unit = max(largest, least)
        scale = float(np.ldexp(1.0, -int(np.frexp(unit)[1]))) if 0 < largest < np.inf else 1.0
        # The rounding of the origin, 2⁻⁵³ of it, is the mean in the frame: its square must not count.
        known = bool((np.abs(pooled.mean) <= 2.0**25 * np.sqrt(np.abs(pooled.covariance.diagonal()))).all())
        known = known and largest >= least
        return cls(pooled.mean, scale, np.zeros(len(pooled.mean)), pooled.covariance * scale * scale, known)

    @classmethod
    def plain(cls, d: int) -> Frame:
        """Measure as the data is; for models whose data is not at hand. The pooled variances are taken as 1."""
        return cls(np.zeros(d), 1.0, np.zeros(d), np.eye(d))

    @property
    def exponent(self) -> int:
        """log₂ scale, exactly."""
        return int(np.frexp(self.scale)[1]) - 1

    @property
    def doublings(self) -> int:
        """How often the density of y is to be doubled for that of x: d·log₂ scale, exactly."""
        return len(self.origin) * self.exponent

    @property
    def shift(self) -> float:
        """What the log-density of x has more than that of y."""
        return float(len(self.origin) * np.log(self.scale))


@dataclass(frozen=True)
class Noise:
    """A uniform component: its weight, and its density e^log_density · 2^doublings in the units of x.

    The powers of two stand apart, so that a density made in a frame is the same there whatever the units of x are.
    """

    weight: float
    log_density: float
    doublings: int = 0

    def log_density_in(self, doublings: int = 0) -> float:
        """Return log(1/volume) in units whose density is doubled so often for that of x."""
        return self.log_density + (self.doublings - doublings) * float(np.log(2.0))


@dataclass(frozen=True)
class MixtureState:
    """A mixture; `covariance` holds means and covariances in the frame."""

    weights: Floats  # (k,) π
    covariance: Covariance
    noise: Noise | None
    frame: Frame
    centers: Floats | None = None  # (k, d) about which the next moments are taken, all of them; None: `_plan` chooses

    @property
    def means(self) -> Floats:
        """μ_c in the units of x, (k, d)."""
        return self.frame.origin + self.covariance.means / self.frame.scale

    @property
    def covariances_(self) -> Floats:
        """Σ_c in the units of x and scikit-learn's shape."""
        return self.covariance.covariances_ / self.frame.scale / self.frame.scale

    @property
    def precisions_(self) -> Floats:
        """Σ_c⁻¹ in the units of x and scikit-learn's shape."""
        return self.covariance.precisions_ * self.frame.scale * self.frame.scale

    @property
    def precisions_cholesky_(self) -> Floats:
        """The upper triangles U_c with Σ_c⁻¹ = U_c U_cᵀ, in the units of x and scikit-learn's shape."""
        return self.covariance.precisions_cholesky_ * self.frame.scale

    def constants(self) -> Floats:
        """Return log π_c − ½ log |2πΣ_c| as a (k,) array, −inf for a dead component."""
        with np.errstate(divide="ignore"):
            constants: Floats = np.log(self.weights) + self.covariance.log_norms()
        return constants

    def noise_constant(self) -> float:
        """Return the logarithm of the noise component's weighted density, −inf where there is none."""
        if self.noise is None or not self.noise.weight > 0:
            return -np.inf
        return float(np.log(self.noise.weight)) + self.noise.log_density_in(self.frame.doublings)

    def model(self) -> tuple[int, Floats, float, Floats, Floats, Floats, float]:
        """Return the mixture as the kernels read it."""
        shape, means, factors = self.covariance.kernel()
        return shape, self.frame.origin, self.frame.scale, means, factors, self.constants(), self.noise_constant()


@dataclass(frozen=True)
class MixtureSums:
    """The sums of a pass: integers that any order of merging gives the same bits, and the largest responsibilities."""

    rows: int
    sums: NDArray[np.int64]  # (limbs, 3 + k·(1 + d + second moments))
    used: NDArray[np.int64]  # (2,) limbs in use, from and to; the others count as zero and hold anything
    peaks: Floats  # (k,)
    scatter: int  # which second moments
    expected: bool  # of an E step: there is a log-likelihood
    rest: int = -1  # the component whose second moments are what the others leave of the pooled ones; −1: none


# ---- where EM starts -----------------------------------------------------------------------------------------------


def blank(covariance: Covariance, k: int, frame: Frame, noise: Noise | None = None) -> MixtureState:
    """Make a state that knows its shape and frame only: for `partial_labels` and `partial_resp`, then `finish`.

    `covariance` is an instance without means, such as ``Full()``; an ε of ``Fixed`` is in the units of x.
    """
    d = len(frame.origin)
    centers = np.repeat(frame.mean[None], k, axis=0)
    if isinstance(covariance, Fixed):
        shape: Covariance = replace(covariance.moved(np.zeros(0), frame.scale), means=centers)
    else:
        shape = type(covariance)().update(
            Moments(np.ones(k), centers, np.repeat(frame.covariance[None], k, axis=0), _deviations(frame))
        )
        # It stands in for the covariances of the first M step. That step adds reg_covar, which this one does not, so
        # what was clipped here says nothing of it.
        shape = replace(shape, floored=(), held=())  # type: ignore[type-var]
    weight = 1.0 if noise is None else 1.0 - noise.weight
    assert shape.means.shape == (k, d)
    return MixtureState(np.full(k, weight / k), shape.prepared(direct=True), noise, frame)


def given(weights: Floats, covariance: Covariance, frame: Frame, noise: Noise | None = None) -> MixtureState:
    """Make a state of parameters in the units of x: `covariance` with its means, such as ``Full.from_precisions``."""
    shape = covariance.moved(frame.origin, frame.scale).prepared(direct=noise is not None)
    return MixtureState(np.asarray(weights, dtype=np.float64), shape, noise, frame)


# ---- one step ------------------------------------------------------------------------------------------------------


def partial(block: Block, state: MixtureState, threads: int) -> MixtureSums:
    """Pass once over a block: responsibilities (eq. 2.5), and the sums of the M step."""
    centers, rest = _plan(state)
    stats = _room(state, len(block.points), expected=True, rest=rest)
    _core.add_mixture(
        block.points,
        block.weights,
        *state.model(),
        centers,
        stats.scatter,
        rest,
        stats.sums,
        stats.used,
        stats.peaks,
        threads,
    )
    return stats


def partial_labels(block: Block, labels: NDArray[np.int64], state: MixtureState, threads: int) -> MixtureSums:
    """Sum for hard labels (m,); those below 0 count as noise. Shape, frame and centers are the state's."""
    return _partial_given(block, None, np.asarray(labels, dtype=np.int64), state, threads)


def partial_resp(block: Block, resp: Floats, state: MixtureState, threads: int) -> MixtureSums:
    """Sum for given responsibilities (m, k)."""
    return _partial_given(block, np.asarray(resp, dtype=np.float64), None, state, threads)


def _partial_given(
    block: Block, resp: Floats | None, labels: NDArray[np.int64] | None, state: MixtureState, threads: int
) -> MixtureSums:
    stats = _room(state, len(block.points), expected=False)
    frame = state.frame.origin, state.frame.scale
    _core.add_given(
        block.points,
        block.weights,
        resp,
        labels,
        *frame,
        _centers(state),
        stats.scatter,
        stats.sums,
        stats.used,
        stats.peaks,
        threads,
    )
    return stats


def merge(a: MixtureSums, b: MixtureSums, threads: int = 1) -> MixtureSums:
    """Add two sets of sums, exactly. `a` is used up: its arrays become the result's."""
    for part in a, b:
        first, last = part.used
        part.sums[:first] = part.sums[last:] = 0
        part.used[:] = 0, _core.LIMBS
    _core.exact_merge(a.sums, b.sums, threads)
    return replace(a, rows=a.rows + b.rows, peaks=np.maximum(a.peaks, b.peaks))


def finish(
    stats: MixtureSums, state: MixtureState, *, reg_covar: float | Floats = 0.0, hold_weights: bool = False
) -> tuple[MixtureState, StepReport]:
    """Take the M step: π, μ and Σ about the new μ (eq. 2.7–2.9).

    The report's objective is the log-likelihood per unit of weight of the state that went in (nan after given labels
    or responsibilities), `changed` the largest change of a parameter: of π, of a mean in standard deviations, of a
    covariance relative to its variances. A dead component keeps μ and Σ and has π = 0. `hold_weights` keeps π.
    """
    return _finish(_moments(stats, state), stats, state, reg_covar, hold_weights, 1)


def recentred(stats: MixtureSums, state: MixtureState) -> MixtureState | None:
    """Return the state with better centers where the sums would lose digits, else None: they are good.

    A pass with the state returned gives the same responsibilities, and sums about the new means, or of all components.
    """
    return _recentred(_moments(stats, state), stats, state)


def step(
    blocks: Callable[[], Iterable[Block]], state: MixtureState, threads: int, *, reg_covar: float | Floats = 0.0
) -> tuple[MixtureState, StepReport]:
    """Take one step of EM; `blocks()` starts a pass over the data, which is made again where digits were at stake."""

    def total(of: MixtureState) -> MixtureSums:
        parts = (partial(block, of, threads) for block in blocks())
        return functools.reduce(lambda a, b: merge(a, b, threads), parts)

    stats = total(state)
    moments = _moments(stats, state, threads)
    better = _recentred(moments, stats, state)
    if better is not None:
        state, stats = better, total(better)
        moments = _moments(stats, state, threads)
    return _finish(moments, stats, state, reg_covar, False, threads)


# ---- what a mixture says of points ---------------------------------------------------------------------------------


def expect(
    points: NDArray[Any],
    state: MixtureState,
    threads: int,
    *,
    resp: Floats | None = None,
    labels: NDArray[np.int64] | None = None,
    log_prob: Floats | None = None,
) -> None:
    """Fill what is given.

    `resp` is (n, k), or (n, k + 1) with the noise last; `labels` (n,) int64, ties to the lowest, the noise −1;
    `log_prob` (n,) is log p(x).
    """
    _core.expect_mixture(points, *state.model(), resp, labels, log_prob, None, threads)
    if log_prob is not None:
        log_prob += state.frame.shift


def log_joint(points: NDArray[Any], state: MixtureState, threads: int) -> Floats:
    """Return log π_c N(x_i | μ_c, Σ_c) as an (n, k) array."""
    joint = np.empty((len(points), len(state.weights)))
    _core.expect_mixture(points, *state.model(), None, None, None, joint, threads)
    joint += state.frame.shift
    return joint


# ---- inside --------------------------------------------------------------------------------------------------------


def _deviations(frame: Frame) -> Floats:
    return np.sqrt(np.maximum(frame.covariance.diagonal(), 0.0))


def _centers(state: MixtureState) -> Floats:
    if state.centers is not None:
        return state.centers
    shape = state.covariance
    if not isinstance(shape, Full) or shape.means.shape[1] <= 3:
        return shape.means
    variances = shape.covariances.diagonal(axis1=1, axis2=2)  # (k, d)
    near = (np.square(shape.means) <= _NEAR * variances).all(axis=1, keepdims=True)
    return np.where(near, 0.0, shape.means)


def _second(d: int, scatter: int) -> int:
    return {SCATTER_NONE: 0, SCATTER_COLUMNS: d, SCATTER_FULL: d * (d + 1) // 2}[scatter]


def _plan(state: MixtureState) -> tuple[Floats, int]:
    """Return the centers, and the component whose second moments need not be summed, or −1."""
    centers, shape = _centers(state), state.covariance
    free = state.frame.known and state.noise is None and state.centers is None
    if not free or not isinstance(shape, Full) or shape.means.shape[1] <= 3 or centers.any():
        return centers, -1
    cost = _cost(state.frame, state.weights[:, None] * shape.covariances.diagonal(axis1=1, axis2=2))
    rest = int(cost.argmin())
    return centers, rest if cost[rest] <= _REST else -1


def _cost(frame: Frame, parts: Floats) -> Floats:
    """Return how many times a rounding of the pooled variances counts beside shares (…, d) of them, inf for none."""
    pooled = frame.covariance.diagonal()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cost = (pooled / parts).max(axis=-1)
    return np.where(cost >= 1, cost, np.inf)  # not a number where a column has no variance


def _room(state: MixtureState, rows: int, expected: bool, rest: int = -1) -> MixtureSums:
    k, d = state.covariance.means.shape
    scatter = state.covariance.scatter
    sums = np.empty((_core.LIMBS, _core.MIXTURE_HEAD + k * (1 + d + _second(d, scatter))), dtype=np.int64)
    return MixtureSums(rows, sums, np.zeros(2, dtype=np.int64), np.zeros(k), scatter, expected, rest)


@dataclass(frozen=True)
class _Rounded:
    """What the sums of a pass say, rounded."""

    likelihood: float
    total: float  # Σw
    noise: float  # Σwλ of the noise
    mass: Floats  # (k,) Σwλ, 0 for the dead
    mean: Floats  # (k, d) eq. 2.7
    covariance: Floats | None  # eq. 2.8, about the new mean
    alive: NDArray[np.bool_]  # (k,)
    far: float  # how far the new means lie from the centers, in variances


def _moments(stats: MixtureSums, state: MixtureState, threads: int = 1) -> _Rounded:
    k, d = state.covariance.means.shape
    head, mass, mean, alive = np.empty(3), np.empty(k), np.empty((k, d)), np.empty(k, dtype=np.bool_)
    covariance = np.empty((k, {SCATTER_NONE: 0, SCATTER_COLUMNS: d, SCATTER_FULL: d * d}[stats.scatter]))
    far = _core.central_moments(
        stats.sums,
        stats.used,
        stats.peaks,
        _centers(state),
        stats.scatter,
        stats.rest,
        state.frame.covariance if stats.rest >= 0 else None,
        DEAD,
        head,
        mass,
        mean,
        covariance,
        alive,
        threads,
    )
    likelihood, total, noise = head.tolist()
    second = covariance.reshape(k, d, d) if stats.scatter == SCATTER_FULL else covariance
    return _Rounded(likelihood, total, noise, mass, mean, second if stats.scatter else None, alive, far)


def _recentred(moments: _Rounded, stats: MixtureSums, state: MixtureState) -> MixtureState | None:
    if state.centers is not None:
        return None
    if moments.far > _FAR:
        return replace(state, centers=np.where(moments.alive[:, None], moments.mean, _centers(state)))
    if stats.rest >= 0 and moments.covariance is not None:
        share = moments.mass[stats.rest] / moments.total
        if not _cost(state.frame, share * moments.covariance[stats.rest].diagonal()) <= _POOR:
            return replace(state, centers=_centers(state))
    return None


def _finish(
    moments: _Rounded,
    stats: MixtureSums,
    state: MixtureState,
    reg_covar: float | Floats,
    hold_weights: bool,
    threads: int,
) -> tuple[MixtureState, StepReport]:
    frame, alive = state.frame, moments.alive
    shape = state.covariance
    if alive.any():
        pooled = frame.covariance + np.outer(frame.mean, frame.mean) if moments.covariance is None else None
        shape = shape.update(
            Moments(
                mass=moments.mass,
                mean=moments.mean,
                covariance=moments.covariance,
                scale=_deviations(frame),
                reg_covar=reg_covar * frame.scale * frame.scale,
                alive=None if alive.all() else alive,
                total=pooled,
                threads=threads,
            )
        )
    weights, noise = state.weights, state.noise
    if not hold_weights and stats.expected:
        weights = np.minimum(moments.mass / moments.total, 1.0)  # eq. 2.9; each sum is rounded, so a share may pass 1
        noise = None if noise is None else replace(noise, weight=min(moments.noise / moments.total, 1.0))
    elif not hold_weights:
        weights = moments.mass * ((1.0 if noise is None else 1.0 - noise.weight) / moments.mass.sum())
    shape = shape.prepared(direct=noise is not None)
    objective = moments.likelihood / moments.total + frame.shift if stats.expected else np.nan
    changed = max(shape.change_from(state.covariance), float(np.abs(weights - state.weights).max()))
    return MixtureState(weights, shape, noise, frame), StepReport(objective, changed)
