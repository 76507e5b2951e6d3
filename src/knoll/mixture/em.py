"""The step of EM for a mixture of Gaussians: responsibilities and sums in one pass, from them π, μ and Σ.

Equations 2.5–2.9 of docs/theory/02-gaussian-mixture.md. Within a state everything is in centered units,
y = (x − origin)·scale; `means`, `covariances_` and the like of a `MixtureState` are those of x.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.exact_sums import ExactSums
from knoll._common.loop import StepReport
from knoll._common.passes import Passes, Run
from knoll._common.rescale import exponent_of, times_power
from knoll._typing import Bools, Floats, Ints
from knoll.gaussian.covariance import Covariance, Full
from knoll.gaussian.moments import SCATTER_COLUMNS, SCATTER_FULL, SCATTER_NONE, Moments
from knoll.gaussian.steps import GaussianState

# A component is dead when its largest responsibility is below this: a smaller one has lost digits to underflow.
DEAD = 2.0**-969
# Squared distance of a new mean from the point about which its moments were taken, in variances. Beyond this the
# subtraction of eq. 1.7 costs more than four of float64's sixteen digits, and the pass is made again
# (docs/numerics/mixture.md, M5).
_FAR = 1e4
# A mean whose squared distance from the origin is at most this, in variances of every column, needs no centre of its
# own: moments about the origin cost a digit at most, and points need not be shifted for each component. Worth it beyond
# three columns.
_NEAR = 9.0

Shares = Callable[[], Iterable[tuple[Block, Floats]]]  # a pass over rows with their responsibilities (m, k)

_ROWS = 16 * _core.GRAIN  # at a time, where something is stored for each row and component


@dataclass(frozen=True)
class Centering:
    """Centered units y = (x − origin)·scale, and the pooled moments of the data in them."""

    origin: Floats  # (d,)
    scale: float  # a power of two
    mean: Floats  # (d,)
    covariance: Floats  # (d, d), or (d,) the variances, where the type of covariance needs no more

    @classmethod
    def of(cls, pooled: GaussianState, least: float = 0.0, origin: Floats | None = None) -> Centering:
        """Put the origin into the data's mean, and choose the power of two that brings its deviation near 1.

        `least` is the smallest standard deviation that may become 1; `origin` (d,) replaces the mean.
        """
        largest = float(np.sqrt(pooled.variances.max(initial=0.0)))
        unit = max(largest, least)
        scale = float(times_power(1.0, -exponent_of(unit))) if 0 < largest < np.inf else 1.0
        covariance = pooled.covariance * scale * scale
        if origin is not None:
            return cls(origin, scale, (pooled.mean - origin) * scale, covariance)
        return cls(pooled.mean, scale, np.zeros(len(pooled.mean)), covariance)

    @classmethod
    def plain(cls, d: int) -> Centering:
        """Measure as the data is; for models whose data is not at hand. The pooled variances are taken as 1."""
        return cls(np.zeros(d), 1.0, np.zeros(d), np.eye(d))

    @property
    def variances(self) -> Floats:
        """The pooled variances of the columns, (d,)."""
        return self.covariance if self.covariance.ndim == 1 else self.covariance.diagonal()

    @functools.cached_property
    def deviations(self) -> Floats:
        """The pooled standard deviations of the columns, (d,)."""
        return np.sqrt(np.maximum(self.variances, 0.0))

    @property
    def exponent(self) -> int:
        """log₂ scale, exactly."""
        return exponent_of(self.scale) - 1

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

    The powers of two are kept apart, so that a density made in centered units is the same there in any units of x.
    """

    weight: float
    log_density: float
    doublings: int = 0

    def log_density_in(self, doublings: int = 0) -> float:
        """Return log(1/volume) in units whose density is doubled so often for that of x."""
        return self.log_density + (self.doublings - doublings) * float(np.log(2.0))


@dataclass(frozen=True)
class MixtureState:
    """A mixture; `covariance` has means and covariances in centered units."""

    weights: Floats  # (k,) π
    covariance: Covariance
    noise: Noise | None
    centering: Centering
    centers: Floats | None = None  # (k, d) about which the next moments are taken; None: `sum_centers` chooses

    @functools.cached_property
    def sum_centers(self) -> Floats:
        """The points (k, d) about which the moments are taken: the means, or 0 where that loses no digits."""
        shape = self.covariance
        if self.centers is not None:
            return self.centers
        if not shape.own_matrices or shape.means.shape[1] <= 3:
            return shape.means
        variances = shape.diagonals(shape.covariances_)  # (k, d)
        near = (np.square(shape.means) <= _NEAR * variances).all(axis=1, keepdims=True)
        return np.where(near, 0.0, shape.means)

    @property
    def means(self) -> Floats:
        """μ_c in the units of x, (k, d)."""
        return self.centering.origin + self.covariance.means / self.centering.scale

    @property
    def covariances_(self) -> Floats:
        """Σ_c in the units of x and scikit-learn's shape."""
        return self.covariance.covariances_ / self.centering.scale / self.centering.scale

    @property
    def precisions_(self) -> Floats:
        """Σ_c⁻¹ in the units of x and scikit-learn's shape."""
        return self.covariance.precisions_ * self.centering.scale * self.centering.scale

    @property
    def precisions_cholesky_(self) -> Floats:
        """The upper triangles U_c with Σ_c⁻¹ = U_c U_cᵀ, in the units of x and scikit-learn's shape."""
        return self.covariance.precisions_cholesky_ * self.centering.scale

    def constants(self) -> Floats:
        """Return log π_c − ½ log |2πΣ_c| as a (k,) array, −inf for a dead component."""
        with np.errstate(divide="ignore"):
            constants: Floats = np.log(self.weights) + self.covariance.log_norms()
        return constants

    def noise_constant(self) -> float:
        """Return the logarithm of the noise component's weighted density, −inf where there is none."""
        if self.noise is None or not self.noise.weight > 0:
            return -np.inf
        return float(np.log(self.noise.weight)) + self.noise.log_density_in(self.centering.doublings)

    def model(self) -> tuple[int, Floats, float, Floats, Floats, Floats, float]:
        """Return the mixture as the kernels read it."""
        shape, means, factors = self.covariance.kernel()
        units = self.centering.origin, self.centering.scale
        return shape, *units, means, factors, self.constants(), self.noise_constant()


@dataclass(frozen=True)
class MixtureSums:
    """The sums of a pass: integers that any order of merging gives the same bits, and the largest responsibilities."""

    rows: int
    sums: ExactSums  # 3 + k·(1 + d + second moments)
    peaks: Floats  # (k,)
    scatter: int  # which second moments
    expected: bool  # of an E step: there is a log-likelihood

    def merge(self, other: MixtureSums) -> MixtureSums:
        """Add two sets of sums, exactly; neither is changed."""
        peaks = np.maximum(self.peaks, other.peaks)
        return replace(self, rows=self.rows + other.rows, sums=self.sums.merge(other.sums), peaks=peaks)


# ---- where EM starts -----------------------------------------------------------------------------------------------


def blank(covariance: Covariance, k: int, centering: Centering, noise: Noise | None = None) -> MixtureState:
    """Make a state that knows its shape and centering only: for `partial_labels` and `partial_resp`, then `finish`.

    `covariance` is an instance without means, such as ``Full()``; an ε of ``Fixed`` is in the units of x.
    """
    d = len(centering.origin)
    centers = np.zeros((k, d))  # the origin: the mean of all rows, or their median where a few lie far out
    shape = covariance.with_pooled(centers, centering.covariance, centering.deviations, centering.scale)
    weight = 1.0 if noise is None else 1.0 - noise.weight
    assert shape.means.shape == (k, d)
    return MixtureState(np.full(k, weight / k), shape.prepared(direct=True), noise, centering)


def from_parameters(
    weights: Floats, covariance: Covariance, centering: Centering, noise: Noise | None = None
) -> MixtureState:
    """Make a state of parameters in the units of x: `covariance` with its means, such as ``Full.from_precisions``."""
    shape = covariance.moved(centering.origin, centering.scale).prepared(direct=noise is not None)
    return MixtureState(np.asarray(weights, dtype=np.float64), shape, noise, centering)


# ---- one step ------------------------------------------------------------------------------------------------------


def partial(block: Block, state: MixtureState, threads: int) -> MixtureSums:
    """Pass once over a block: responsibilities (eq. 2.5), and the sums of the M step."""
    stats = _workspace(state, len(block.points), expected=True)
    _core.add_mixture(
        block.points,
        block.weights,
        *state.model(),
        state.sum_centers,
        stats.scatter,
        stats.sums.words,
        stats.sums.used,
        stats.peaks,
        threads,
    )
    return stats


def _partial(block: Block, state: MixtureState, run: Run) -> MixtureSums:
    return partial(block, state, run.threads)


def partial_labels(block: Block, labels: Ints, state: MixtureState, threads: int) -> MixtureSums:
    """Sum for hard labels (m,); those below 0 count as noise. Shape, centering and centers are the state's."""
    return _partial_assigned(block, None, np.asarray(labels, dtype=np.int64), state, threads)


def partial_resp(block: Block, resp: Floats, state: MixtureState, threads: int) -> MixtureSums:
    """Sum for fixed responsibilities (m, k)."""
    return _partial_assigned(block, np.asarray(resp, dtype=np.float64), None, state, threads)


def _partial_assigned(
    block: Block, resp: Floats | None, labels: Ints | None, state: MixtureState, threads: int
) -> MixtureSums:
    stats = _workspace(state, len(block.points), expected=False)
    units = state.centering.origin, state.centering.scale
    _core.add_responsibilities(
        block.points,
        block.weights,
        resp,
        labels,
        *units,
        state.sum_centers,
        stats.scatter,
        stats.sums.words,
        stats.sums.used,
        stats.peaks,
        threads,
    )
    return stats


def finish(
    stats: MixtureSums,
    state: MixtureState,
    *,
    reg_covar: float | Floats = 0.0,
    fix_weights: bool = False,
    shares: Shares | None = None,
) -> tuple[MixtureState, StepReport]:
    """Take the M step: π, μ and Σ about the new μ (eq. 2.7–2.9).

    The report's objective is the log-likelihood per unit of weight of the state that went in (nan after fixed labels
    or responsibilities), `changed` the largest change of a parameter: of π, of a mean in standard deviations, of a
    covariance relative to its variances. A dead component keeps μ and Σ and has π = 0. `fix_weights` keeps π.
    `shares` starts a pass over the same rows and responsibilities, for covariances that reg_covar alone keeps from
    being singular.
    """
    covariances_in = None
    if shares is not None:

        def covariances_in(components: list[int], means: Floats, axes: Floats) -> Floats:
            return _sums_in_axes(shares(), _Axes(state.centering, components, means, axes), 1).covariances()

    return _finish(_moments(stats, state), stats, state, reg_covar, fix_weights, 1, covariances_in)


def recentred(stats: MixtureSums, state: MixtureState) -> MixtureState | None:
    """Return the state with better centers where the sums would lose digits, else None: they are good.

    A pass with the state returned gives the same responsibilities, and sums about the new means.
    """
    return _recentred(_moments(stats, state), state)


def step(passes: Passes, state: MixtureState, *, reg_covar: float | Floats = 0.0) -> tuple[MixtureState, StepReport]:
    """Take one step of EM: a pass over the data, which is made again where digits were at stake."""
    threads = passes.threads
    stats = passes.total(_partial, state)
    moments = _moments(stats, state, threads)
    better = _recentred(moments, state)
    if better is not None:
        state, stats = better, passes.total(_partial, better)
        moments = _moments(stats, state, threads)

    def covariances_in(components: list[int], means: Floats, axes: Floats) -> Floats:
        return passes.total(_partial_in_axes, (state, _Axes(state.centering, components, means, axes))).covariances()

    return _finish(moments, stats, state, reg_covar, False, threads, covariances_in)


# ---- responsibilities and densities --------------------------------------------------------------------------------


def expect(
    points: NDArray[Any],
    state: MixtureState,
    threads: int,
    *,
    resp: Floats | None = None,
    labels: Ints | None = None,
    log_prob: Floats | None = None,
) -> None:
    """Fill the arrays that are not None.

    `resp` is (n, k), or (n, k + 1) with the noise last; `labels` (n,) int64, ties to the lowest, the noise −1;
    `log_prob` (n,) is log p(x).
    """
    _core.expect_mixture(points, *state.model(), resp, labels, log_prob, None, threads)
    if log_prob is not None:
        log_prob += state.centering.shift


def log_joint(points: NDArray[Any], state: MixtureState, threads: int) -> Floats:
    """Return log π_c N(x_i | μ_c, Σ_c) as an (n, k) array."""
    joint = np.empty((len(points), len(state.weights)))
    _core.expect_mixture(points, *state.model(), None, None, None, joint, threads)
    joint += state.centering.shift
    return joint


# ---- inside --------------------------------------------------------------------------------------------------------


def _second(d: int, scatter: int) -> int:
    return {SCATTER_NONE: 0, SCATTER_COLUMNS: d, SCATTER_FULL: d * (d + 1) // 2}[scatter]


def _workspace(state: MixtureState, rows: int, expected: bool) -> MixtureSums:
    k, d = state.covariance.means.shape
    scatter = state.covariance.scatter
    sums = ExactSums.workspace(_core.MIXTURE_HEAD + k * (1 + d + _second(d, scatter)))
    return MixtureSums(rows, sums, np.zeros(k), scatter, expected)


@dataclass(frozen=True)
class _Rounded:
    """The moments of a pass, from its rounded sums."""

    likelihood: float
    total: float  # Σw
    noise: float  # Σwλ of the noise
    mass: Floats  # (k,) Σwλ, 0 for the dead
    mean: Floats  # (k, d) eq. 2.7
    covariance: Floats | None  # eq. 2.8, about the new mean
    alive: Bools  # (k,)
    far: float  # how far the new means lie from the centers, in variances


def _moments(stats: MixtureSums, state: MixtureState, threads: int = 1) -> _Rounded:
    k, d = state.covariance.means.shape
    head, mass, mean, alive = np.empty(3), np.empty(k), np.empty((k, d)), np.empty(k, dtype=np.bool_)
    covariance = np.empty((k, {SCATTER_NONE: 0, SCATTER_COLUMNS: d, SCATTER_FULL: d * d}[stats.scatter]))
    far = _core.central_moments(
        stats.sums.words,
        stats.sums.used,
        stats.peaks,
        state.sum_centers,
        stats.scatter,
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


def _recentred(moments: _Rounded, state: MixtureState) -> MixtureState | None:
    if state.centers is not None:
        return None
    if moments.far > _FAR:
        return replace(state, centers=np.where(moments.alive[:, None], moments.mean, state.sum_centers))
    return None


def _shares(block: Block, state: MixtureState, threads: int) -> Iterator[tuple[Block, Floats]]:
    """Yield the rows, some at a time, with the responsibilities (m, k) that a state gives them."""
    k, noisy = len(state.weights), state.noise is not None
    for begin in range(0, len(block.points), _ROWS):
        rows = block.rows(begin, begin + _ROWS)
        resp = np.empty((len(rows.points), k + noisy))
        expect(rows.points, state, threads, resp=resp)
        yield rows, resp[:, :k]


def _in_axes(rows: Floats, axes: Floats) -> Floats:
    """Return A·row for each row, (m, d), summed over the columns one by one.

    BLAS and `einsum` add up in an order that depends on the layout and on the number of rows.
    """
    found = np.zeros((len(rows), len(axes)))
    for j in range(rows.shape[1]):
        found += rows[:, j, None] * axes[:, j]
    return found


@dataclass(frozen=True)
class _Axes:
    """Components, and for each the coordinates A(y − μ) in which its covariance is wanted."""

    centering: Centering
    components: list[int]
    means: Floats  # (m, d)
    axes: Floats  # (m, d, d)

    def state(self) -> MixtureState:
        """Make the state about which sums in these coordinates are taken."""
        d = self.means.shape[1]
        eye = np.eye(d)[None]
        return MixtureState(np.ones(1), Full(np.zeros((1, d)), eye, eye, np.zeros(1)), None, Centering.plain(d))


@dataclass(frozen=True)
class _SumsInAxes:
    """Sums of some components, each in coordinates of its own."""

    about: MixtureState
    sums: tuple[MixtureSums, ...]

    def merge(self, other: _SumsInAxes) -> _SumsInAxes:
        """Add what other rows have; neither is changed."""
        return _SumsInAxes(self.about, tuple(a.merge(b) for a, b in zip(self.sums, other.sums, strict=True)))

    def covariances(self) -> Floats:
        """Return the covariances (m, d, d)."""
        found = [_moments(sums, self.about).covariance for sums in self.sums]
        return np.array([covariance[0] for covariance in found if covariance is not None])


def _sums_in_axes(shares: Iterable[tuple[Block, Floats]], into: _Axes, threads: int) -> _SumsInAxes:
    """Sum rows with their responsibilities in the coordinates of each component."""
    centering, about = into.centering, into.state()
    found: _SumsInAxes | None = None
    for block, resp in shares:
        points = (np.asarray(block.points, dtype=np.float64) - centering.origin) * centering.scale
        sums = []
        for i, c in enumerate(into.components):
            rows = _in_axes(points - into.means[i], into.axes[i])
            share = np.ascontiguousarray(resp[:, c : c + 1])
            sums.append(partial_resp(Block(rows, block.weights), share, about, threads))
        here = _SumsInAxes(about, tuple(sums))
        found = here if found is None else found.merge(here)
    assert found is not None
    return found


def _partial_in_axes(block: Block, wanted: tuple[MixtureState, _Axes], run: Run) -> _SumsInAxes:
    """Do the same for a block and the responsibilities that a state gives its rows."""
    state, into = wanted
    return _sums_in_axes(_shares(block, state, run.threads), into, run.threads)


def _finish(
    moments: _Rounded,
    stats: MixtureSums,
    state: MixtureState,
    reg_covar: float | Floats,
    fix_weights: bool,
    threads: int,
    covariances_in: Callable[[list[int], Floats, Floats], Floats] | None,
) -> tuple[MixtureState, StepReport]:
    centering, alive = state.centering, moments.alive
    shape = state.covariance
    if alive.any():
        pooled = None
        if shape.pooled_matrix and moments.covariance is None:
            pooled = centering.covariance + np.outer(centering.mean, centering.mean)
        shape = shape.update(
            Moments(
                mass=moments.mass,
                mean=moments.mean,
                covariance=moments.covariance,
                scale=centering.deviations,
                reg_covar=reg_covar * centering.scale * centering.scale,
                alive=None if alive.all() else alive,
                total=pooled,
                threads=threads,
                covariances_in=covariances_in,
            )
        )
    weights, noise = state.weights, state.noise
    if not fix_weights and stats.expected:
        weights = np.minimum(moments.mass / moments.total, 1.0)  # eq. 2.9; each sum is rounded, so a share may pass 1
        noise = None if noise is None else replace(noise, weight=min(moments.noise / moments.total, 1.0))
    elif not fix_weights:
        weights = moments.mass * ((1.0 if noise is None else 1.0 - noise.weight) / moments.mass.sum())
    shape = shape.prepared(direct=noise is not None)
    objective = moments.likelihood / moments.total + centering.shift if stats.expected else np.nan
    changed = max(shape.change_from(state.covariance), float(np.abs(weights - state.weights).max()))
    return MixtureState(weights, shape, noise, centering), StepReport(objective, changed)
