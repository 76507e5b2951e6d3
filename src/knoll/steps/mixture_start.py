"""Where EM starts: labels of k-means, rows of the data, or chance; then what was given takes its place.

Rows are drawn from a multiset (docs/theory/02-gaussian-mixture.md), so for one seed neither their order nor "weight or
repetition" changes a start.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core, seeding
from knoll.covariance import FLOOR, LEAST, NARROWEST, Covariance, Diagonal, Fixed, Full, Spherical, Tied
from knoll.exceptions import InvalidParameter
from knoll.steps import gaussian_mixture as steps
from knoll.steps import kmeans
from knoll.steps.blocks import Block
from knoll.steps.gaussian_mixture import MixtureState, Noise
from knoll.steps.mixture_rows import Rows, pair_powers
from knoll.validation import refuse_masked

__all__ = ["SHAPES", "Given", "Start", "check_given"]

Floats = NDArray[np.float64]

SHAPES: dict[str, Any] = {"full": Full, "tied": Tied, "diag": Diagonal, "spherical": Spherical}  # and Fixed
_ROWS = 16 * _core.GRAIN  # at a time, where something is held for each row and component
_START = 3  # purpose of the random numbers of a start, numbered as in the core
_STEEPEST = 2.0**900  # precisions beyond this, or below its inverse, have no inverse with all its digits


@dataclass(frozen=True)
class Given:
    """What of the start was given: π, μ and Σ⁻¹, in the units of the data."""

    weights: Floats | None
    means: Floats | None
    precisions: Floats | None


def check_given(k: int, d: int, shape: str, weights_init: Any, means_init: Any, precisions_init: Any) -> Given:
    """Check what of the start was given, in scikit-learn's words and ours."""
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
    sizes = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
    precisions = _array(precisions_init, f"{shape} precision", sizes.get(shape, ()))
    if precisions is not None:
        if shape in ("diag", "spherical"):
            if (precisions <= 0).any():
                raise InvalidParameter(f"'{shape} precision' should be positive, got {precisions.min():.5g}.")
        elif not _positive_definite(precisions):
            raise InvalidParameter(
                f"'{shape} precision' should be symmetric, positive-definite. Invert covariances that are."
            )
    return Given(weights, means, precisions)


@dataclass(frozen=True)
class Start:
    """How EM begins."""

    name: str  # "kmeans", "k-means++", "random" or "random_from_data"
    k: int
    shape: str  # a key of SHAPES, or "fixed"
    fixed_variance: float | None
    noise: bool | float
    reg_covar: float
    given: Given
    seed: int

    def state(self, rows: Rows, distinct: Callable[[], seeding.Multiset], restart: int) -> MixtureState:
        """Make the start: by its name, then what was given takes its place."""
        frame, noise, given = rows.frame, self._noise(rows), self.given
        if self.shape == "fixed":
            shape: Covariance = Fixed(variance=rows.scaling.variance(float(self.fixed_variance or 0.0)))
        else:
            shape = SHAPES[self.shape]()
        state = steps.blank(shape, self.k, frame, noise)
        if isinstance(state.covariance, Fixed):
            narrow = max(state.covariance.variance, NARROWEST)
            state = replace(state, covariance=replace(state.covariance, variance=narrow))
        if given.means is None or given.weights is None or (given.precisions is None and self.shape != "fixed"):
            state = self._named(rows, state, distinct, restart)
        if given.weights is not None:
            state = replace(state, weights=given.weights * (1.0 if noise is None else 1.0 - noise.weight))
        means = state.covariance.means
        if given.means is not None:
            means = (rows.scaling.down(given.means) - frame.origin) * frame.scale
        if given.precisions is not None:
            shape = SHAPES[self.shape].from_precisions(means, self._precisions(rows, given.precisions))
        else:
            shape = replace(state.covariance, means=means)  # type: ignore[type-var]
        return replace(state, covariance=shape.prepared(direct=noise is not None))

    def _precisions(self, rows: Rows, given: Floats) -> Floats:
        """Bring Σ⁻¹ into the frame."""
        scale = rows.frame.scale
        with np.errstate(over="ignore", under="ignore"):
            precisions = np.ldexp(given, pair_powers(rows.scaling.powers, self.shape)) / scale / scale
        diagonal = np.diagonal(precisions, axis1=-2, axis2=-1) if self.shape in ("full", "tied") else precisions
        if not ((diagonal > 1 / _STEEPEST) & (diagonal < _STEEPEST)).all():
            raise InvalidParameter(
                f"GaussianMixture: precisions_init between {np.abs(given).min():.3g} and {np.abs(given).max():.3g} are "
                "beyond float64 beside the size of the data. Give precisions near the inverse of its variances."
            )
        return precisions

    def _noise(self, rows: Rows) -> Noise | None:
        """Make the noise component (eq. 2.12): uniform over the box, or of the density that was given."""
        if self.noise is False:
            return None
        if self.noise is True or isinstance(self.noise, np.bool_):
            low, high = rows.scaling.down(rows.box)
            extents = high - low
            some = extents[extents > 0]
            stand_in = _root_mean_square(some) if len(some) else np.ldexp(1.0, -rows.scaling.powers)
            extents = np.where(extents > 0, extents, stand_in)
            return Noise(1.0 / (self.k + 1), -_log_volume(extents, rows.frame), rows.frame.doublings)
        return Noise(1.0 / (self.k + 1), math.log(self.noise) + rows.scaling.log_volume)

    def _named(
        self, rows: Rows, state: MixtureState, distinct: Callable[[], seeding.Multiset], restart: int
    ) -> MixtureState:
        """Make the start that has a name; an M step turns labels or responsibilities into parameters."""
        k, seed, threads, sample, frame = self.k, self.seed, rows.threads, rows.sample, rows.frame
        block = rows.scaled_sample
        if self.name == "random":
            return self._m_step(rows, state, lambda of: _random(block, distinct(), of, seed, restart, threads))
        if self.name == "random_from_data":
            chosen = seeding.random_rows(distinct(), k, seed, restart=restart)
        else:
            chosen = seeding.kmeans_plus_plus(sample.points, distinct(), k, seed, restart=restart, threads=threads)
        if self.name == "kmeans":
            found = kmeans.lloyd(sample.points, sample.weights, sample.points[chosen], threads=threads)
            assert found.labels is not None
            labels = found.labels.astype(np.int64)
            return self._m_step(rows, state, lambda of: steps.partial_labels(block, labels, of, threads))
        means = (np.asarray(block.points[chosen], dtype=np.float64) - frame.origin) * frame.scale
        d = len(frame.origin)
        if self.shape == "fixed":
            return replace(state, covariance=replace(state.covariance, means=means))  # type: ignore[type-var]
        # so narrow a start gives each row to the nearest mean in the first E step
        variance = float(frame.covariance.diagonal().mean())
        factor = 1.0 / math.sqrt(FLOOR * (variance if variance > LEAST else 1.0))
        factors = {
            "full": np.tile(factor * np.eye(d), (k, 1, 1)),
            "tied": factor * np.eye(d),
            "diag": np.full((k, d), factor),
            "spherical": np.full(k, factor),
        }
        return replace(state, covariance=SHAPES[self.shape].from_precisions_cholesky(means, factors[self.shape]))

    def _m_step(
        self, rows: Rows, state: MixtureState, sums: Callable[[MixtureState], steps.MixtureSums]
    ) -> MixtureState:
        stats = sums(state)
        better = steps.recentred(stats, state)
        if better is not None:
            state, stats = better, sums(better)
        return steps.finish(stats, state, reg_covar=rows.scaling.variance(self.reg_covar))[0]


# ---- inside --------------------------------------------------------------------------------------------------------


def _random(
    block: Block, rows: seeding.Multiset, state: MixtureState, seed: int, restart: int, threads: int
) -> steps.MixtureSums:
    """Sum for responsibilities by chance; equal rows have equal ones, and a row keeps its own wherever it stands."""
    k = len(state.weights)
    generator = np.random.Generator(np.random.Philox(key=[seed, _START], counter=[0, 0, 0, restart]))
    parts = []
    for begin in range(0, len(rows.rows), _ROWS):
        some = slice(begin, begin + _ROWS)
        resp = generator.random((len(rows.rows[some]), k))
        resp /= resp.sum(axis=1, keepdims=True)
        parts.append(steps.partial_resp(Block(block.points[rows.rows[some]], rows.weights[some]), resp, state, threads))
    return functools.reduce(lambda a, b: steps.merge(a, b, threads), parts)


def _log_volume(extents: Floats, frame: steps.Frame) -> float:
    """Return the logarithm of a box's volume in the frame, also where a side underflows there."""
    sides, least = extents * frame.scale, np.finfo(np.float64).tiny
    tiny = np.log(extents) + frame.exponent * math.log(2)
    return float(np.where(sides < least, tiny, np.log(np.maximum(sides, least))).sum())


def _root_mean_square(values: Floats) -> float:
    power = int(np.frexp(values.max())[1])  # the squares of tiny values would vanish
    return float(np.ldexp(np.sqrt(np.mean(np.square(np.ldexp(values, -power)))), power))


def _array(value: Any, name: str, shape: tuple[int, ...]) -> Floats | None:
    """Turn a given part of the start into an array of the right shape and of finite numbers."""
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


def _positive_definite(matrices: Floats) -> bool:
    stack = matrices.reshape(-1, *matrices.shape[-2:])
    if not np.allclose(stack, stack.transpose(0, 2, 1)):
        return False
    try:
        np.linalg.cholesky(stack)
    except np.linalg.LinAlgError:
        return False
    return True
