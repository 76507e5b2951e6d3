"""Where EM starts: labels of k-means, rows of the data, or chance; initial parameters of the user replace those.

Rows are drawn from a multiset (docs/theory/02-gaussian-mixture.md), so for one seed neither their order nor "weight or
repetition" changes a start.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knoll import _core
from knoll._common import seeding
from knoll._common.blocks import Block
from knoll._common.rescale import near_one, times_power
from knoll._typing import Floats, Ints
from knoll.exceptions import InvalidParameter
from knoll.gaussian.covariance import COVARIANCE_TYPES, Covariance
from knoll.gaussian.moments import FLOOR, LEAST, narrowest
from knoll.kmeans import lloyd
from knoll.mixture import em
from knoll.mixture.em import MixtureState, Noise
from knoll.mixture.preprocess import MixtureRows
from knoll.validation import refuse_masked

_ROWS = 16 * _core.GRAIN  # at a time, where something is stored for each row and component
_START = 3  # purpose of the random numbers of a start, numbered as in the core
_STEEPEST = 2.0**900  # precisions beyond this, or below its inverse, have no inverse with all its digits


@dataclass(frozen=True)
class InitialParameters:
    """The initial π, μ and Σ⁻¹ of the user, in the units of the data; None where EM chooses."""

    weights: Floats | None
    means: Floats | None
    precisions: Floats | None


def check_initial(
    k: int, d: int, covariance_type: str, weights_init: Any, means_init: Any, precisions_init: Any
) -> InitialParameters:
    """Check the initial parameters of the user; messages begin as scikit-learn's."""
    weights = _array(weights_init, "weights", (k,))
    if weights is not None:
        if (weights < 0).any() or (weights > 1).any():
            raise InvalidParameter(
                "The parameter 'weights' should be in the range [0, 1], but got values from "
                f"{weights.min():.5f} to {weights.max():.5f}. They are the shares of the components."
            )
        if abs(1 - weights.sum()) > (1e-6 if np.asarray(weights_init).dtype == np.float32 else 1e-8):
            raise InvalidParameter(
                f"The parameter 'weights' should be normalized, but got sum(weights) = {weights.sum():.5f}. "
                "Divide them by it."
            )
    means = _array(means_init, "means", (k, d))
    shape = COVARIANCE_TYPES[covariance_type]
    precisions = _array(precisions_init, f"{covariance_type} precision", shape.shape_of(k, d))
    if precisions is not None and (fault := shape.precision_fault(precisions)):
        raise InvalidParameter(f"'{covariance_type} precision' should be {fault}")
    return InitialParameters(weights, means, precisions)


@dataclass(frozen=True)
class Start:
    """How EM begins."""

    name: str  # "kmeans", "k-means++", "random" or "random_from_data"
    k: int
    shape: type[Covariance]
    fixed_variance: float | None  # set where the shape keeps it
    noise: bool | float
    reg_covar: float
    initial: InitialParameters
    seed: int

    def state(self, rows: MixtureRows, distinct: Callable[[], seeding.Multiset], restart: int) -> MixtureState:
        """Make the start by its name, then replace what the user set."""
        centering, noise, initial = rows.centering, self._noise(rows), self.initial
        variance = None if self.fixed_variance is None else rows.scaling.to_units(float(self.fixed_variance), length=2)
        state = em.blank(self.shape.blank(variance), self.k, centering, noise)
        state = replace(state, covariance=state.covariance.at_least(narrowest(rows.reach, len(centering.origin))))
        covered = initial.precisions is not None or self.fixed_variance is not None
        if initial.means is None or initial.weights is None or not covered:
            state = self._named(rows, state, distinct, restart)
        if initial.weights is not None:
            state = replace(state, weights=initial.weights * (1.0 if noise is None else 1.0 - noise.weight))
        means = state.covariance.means
        if initial.means is not None:
            means = (rows.scaling.down(initial.means) - centering.origin) * centering.scale
        if initial.precisions is not None:
            shape = self.shape.from_precisions(means, self._precisions(rows, initial.precisions))
        else:
            shape = replace(state.covariance, means=means)  # type: ignore[type-var]
        return replace(state, covariance=shape.prepared(direct=noise is not None))

    def _precisions(self, rows: MixtureRows, initial: Floats) -> Floats:
        """Bring Σ⁻¹ into centered units."""
        scale = rows.centering.scale
        exponents = self.shape.covariance_powers(rows.scaling.columns(len(rows.centering.origin)))
        with np.errstate(over="ignore", under="ignore"):
            precisions = times_power(initial, exponents) / scale / scale
        diagonal = self.shape.diagonals(precisions)
        if not ((diagonal > 1 / _STEEPEST) & (diagonal < _STEEPEST)).all():
            sizes = np.abs(initial)
            raise InvalidParameter(
                f"GaussianMixture: precisions_init between {sizes.min():.3g} and {sizes.max():.3g} are "
                "beyond float64 beside the size of the data. Give precisions near the inverse of its variances."
            )
        return precisions

    def _noise(self, rows: MixtureRows) -> Noise | None:
        """Make the noise component (eq. 2.12): uniform over the box, or of the density that the user set."""
        if self.noise is False:
            return None
        if self.noise is True or isinstance(self.noise, np.bool_):
            low, high = rows.scaling.down(rows.box)
            extents = high - low
            positive = extents[extents > 0]
            stand_in = _root_mean_square(positive) if len(positive) else rows.scaling.to_units(1.0, length=1)
            extents = np.where(extents > 0, extents, stand_in)
            return Noise(1.0 / (self.k + 1), -_log_volume(extents, rows.centering), rows.centering.doublings)
        return Noise(1.0 / (self.k + 1), math.log(self.noise) + rows.scaling.log_volume)

    def _named(
        self, rows: MixtureRows, state: MixtureState, distinct: Callable[[], seeding.Multiset], restart: int
    ) -> MixtureState:
        """Make the start that has a name; an M step turns labels or responsibilities into parameters."""
        k, seed, threads, sample, centering = self.k, self.seed, rows.threads, rows.sample, rows.centering
        block = rows.scaled_sample
        if self.name == "random":
            return self._m_step(
                rows,
                state,
                lambda of: _random(block, distinct(), of, seed, restart, threads),
                lambda: _random_shares(block, distinct(), k, seed, restart),
            )
        if self.name == "random_from_data":
            chosen = seeding.random_rows(distinct(), k, seed, restart=restart)
        else:
            chosen = seeding.kmeans_plus_plus(sample.points, distinct(), k, seed, restart=restart, threads=threads)
        if self.name == "kmeans":
            found = lloyd.lloyd(sample.points, sample.weights, sample.points[chosen], threads=threads)
            assert found.labels is not None
            labels = found.labels.astype(np.int64)
            return self._m_step(
                rows,
                state,
                lambda of: em.partial_labels(block, labels, of, threads),
                lambda: _label_shares(block, labels, k),
            )
        means = (np.asarray(block.points[chosen], dtype=np.float64) - centering.origin) * centering.scale
        # so narrow a start gives each row to the nearest mean in the first E step
        variance = float(centering.variances.mean())
        factor = 1.0 / math.sqrt(FLOOR * (variance if variance > LEAST else 1.0))
        return replace(state, covariance=state.covariance.narrow(means, factor))

    def _m_step(
        self,
        rows: MixtureRows,
        state: MixtureState,
        sums: Callable[[MixtureState], em.MixtureSums],
        shares: em.Shares,
    ) -> MixtureState:
        stats = sums(state)
        better = em.recentred(stats, state)
        if better is not None:
            state, stats = better, sums(better)
        return em.finish(stats, state, reg_covar=rows.scaling.to_units(self.reg_covar, length=2), shares=shares)[0]


# ---- inside --------------------------------------------------------------------------------------------------------


def _random(
    block: Block, rows: seeding.Multiset, state: MixtureState, seed: int, restart: int, threads: int
) -> em.MixtureSums:
    """Sum for random responsibilities; equal rows have equal ones, whatever the order of rows."""
    shares = _random_shares(block, rows, len(state.weights), seed, restart)
    sums = [em.partial_resp(chunk, resp, state, threads) for chunk, resp in shares]
    return functools.reduce(lambda a, b: a.merge(b), sums)


def _random_shares(
    block: Block, rows: seeding.Multiset, k: int, seed: int, restart: int
) -> Iterator[tuple[Block, Floats]]:
    generator = np.random.Generator(np.random.Philox(key=[seed, _START], counter=[0, 0, 0, restart]))
    for begin in range(0, len(rows.rows), _ROWS):
        chosen = slice(begin, begin + _ROWS)
        resp = generator.random((len(rows.rows[chosen]), k))
        resp /= resp.sum(axis=1, keepdims=True)
        yield Block(block.points[rows.rows[chosen]], rows.weights[chosen]), resp


def _label_shares(block: Block, labels: Ints, k: int) -> Iterator[tuple[Block, Floats]]:
    for begin in range(0, len(labels), _ROWS):
        chunk = labels[begin : begin + _ROWS]
        yield block.rows(begin, begin + _ROWS), (chunk[:, None] == np.arange(k)).astype(np.float64)


def _log_volume(extents: Floats, centering: em.Centering) -> float:
    """Return the logarithm of a box's volume in centered units, also where a side underflows there."""
    sides, least = extents * centering.scale, np.finfo(np.float64).tiny
    tiny = np.log(extents) + centering.exponent * math.log(2)
    return float(np.where(sides < least, tiny, np.log(np.maximum(sides, least))).sum())


def _root_mean_square(values: Floats) -> float:
    values, exponent = near_one(values)  # the squares of tiny values would vanish
    return float(times_power(np.sqrt(np.mean(np.square(values))), exponent))


def _array(value: Any, name: str, shape: tuple[int, ...]) -> Floats | None:
    """Turn an initial parameter into an array of the right shape and of finite numbers."""
    if value is None:
        return None
    refuse_masked(value, name)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(f"The parameter '{name}' should be an array of numbers, got {value!r:.60}.") from None
    if array.shape != shape:
        raise InvalidParameter(f"The parameter '{name}' should have the shape of {shape}, but got {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidParameter(f"The parameter '{name}' should be finite, but has a NaN or an infinity.")
    return array
