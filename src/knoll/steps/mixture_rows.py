"""The rows of a mixture as its loop meets them, and what a look at all of them tells: frame, scale, box, sample.

Extreme values are divided by a power of two, which is exact; extreme weights too, since only their ratios count.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.exceptions import BadData
from knoll.steps import gaussian
from knoll.steps.blocks import Block, BlockSource, regrid
from knoll.steps.gaussian_mixture import Frame
from knoll.steps.loop import StepReport, iterate
from knoll.steps.scaling import present_rows, weight_power
from knoll.validation import refuse_not_finite

__all__ = ["SAMPLE", "Rows", "factor_powers", "look", "look_through", "pair_powers"]

Floats = NDArray[np.float64]
Blocks = Callable[[], Iterator[Block]]

SAMPLE = 20_000  # rows of blocks from which a start that is given by name is drawn
_EXTREME = 200  # deviations beyond 2^±200 are scaled: what is made of their squares would lose digits, or overflow
_PASSES = 3  # for the pooled moments: one is enough unless the first rows lie far from the rest
_SHUFFLE = 5  # purpose of the random numbers that choose a sample, numbered as in the core


@dataclass(frozen=True)
class Rows:
    """The rows, column j divided by 2^powers[j], and what is known of them. Rows of weight 0 are not among them."""

    blocks: Blocks  # a fresh pass
    sample: Block  # where a start that is given by name is drawn from: all rows, or some; all columns in one unit
    frame: Frame
    powers: NDArray[np.int64]  # (d,) 0 unless the values are extreme; all the same unless the columns differ extremely
    box: Floats  # (2, d) least and largest value of each column; empty unless it was asked for
    dtype: Any  # of the data as it was given
    count: float  # how many rows count; where weights add up to more, that
    threads: int

    @property
    def shift(self) -> float:
        """What a log-density of the scaled rows has more than that of the rows."""
        return int(self.powers.sum()) * math.log(2)

    def down(self, value: float, dimension: int) -> Any:
        """Bring a length (dimension 1) or a variance (2) into the units of the scaled rows: one each if they differ."""
        units = np.ldexp(value, -dimension * self.powers)
        return units if (units != units[0]).any() else float(units[0])

    def framed(self, sample: Block) -> Block:
        """Bring the sample, whose columns have one unit, into the units of the scaled rows."""
        lower = self.powers.max() - self.powers
        return Block(np.ldexp(sample.points, lower), sample.weights) if lower.any() else sample


def pair_powers(powers: NDArray[np.int64], shape: str) -> NDArray[np.int64]:
    """Return the powers of two that the entries of a covariance of this shape have, from those of the columns."""
    if shape in ("full", "tied"):
        return powers[:, None] + powers
    return 2 * powers if shape == "diag" else 2 * powers[0]


def factor_powers(powers: NDArray[np.int64], shape: str) -> NDArray[np.int64]:
    """Return the same for its factor L, Σ = LLᵀ; U of Σ⁻¹ = UUᵀ has minus those."""
    if shape in ("full", "tied"):
        return powers[:, None]
    return powers if shape == "diag" else powers[0]


def look(
    points: NDArray[Any],
    weights: Floats | None,
    *,
    estimator: Any,
    box: bool,
    unit: float,
    round_shape: bool,
    threads: int,
) -> Rows:
    """Look at one array: its pooled moments show whether every value is finite, and how large they are.

    `unit` is a length that must stay a number when the values are scaled, such as the root of a variance that is held.
    A `round_shape` compares the columns with each other, so they keep one unit.
    """
    count = float(len(points)) if weights is None else _count(int(np.count_nonzero(weights)), weights)
    if weights is not None and not weights.all():
        if not _core.all_finite(points, threads):
            refuse_not_finite(points, estimator)
        points, weights = present_rows(Block(points, weights))
    if weights is not None and (heavy := weight_power(float(weights.max()))):
        weights = np.ldexp(weights, -heavy)
    block = sample = Block(points, weights)
    powers = np.zeros(points.shape[1], dtype=np.int64)
    pooled = _pooled(lambda: iter([block]), block, threads)
    variances = pooled.covariance.diagonal()
    largest = float(variances.max())
    if not (4.0**-_EXTREME < largest < 4.0**_EXTREME and variances.min() > 4.0**-_EXTREME * largest):
        refuse_not_finite(points, estimator)
        powers = _extreme(points.min(axis=0), points.max(axis=0), unit, round_shape)
        if powers.any():
            block = Block(np.ldexp(points, -powers), weights)
            sample = Block(np.ldexp(points, -powers.max()), weights)
            pooled = _pooled(lambda: iter([block]), block, threads)
    corners = np.zeros((0, points.shape[1]))
    if box:
        corners = np.array([block.points.min(axis=0), block.points.max(axis=0)], dtype=np.float64)
    return Rows(lambda: iter([block]), sample, Frame.of(pooled), powers, corners, points.dtype, count, threads)


def look_through(
    source: BlockSource, *, estimator: Any, seed: int, box: bool, unit: float, round_shape: bool, threads: int
) -> Rows:
    """Look at blocks: the same facts in two passes, and a sample that does not depend on the cuts."""
    owner = type(estimator).__name__
    rows, mass, heaviest, present, weighted = 0, 0.0, 0.0, 0, False
    corners: Floats | None = None  # (2, d)
    keys = np.random.Generator(np.random.Philox(key=[seed, _SHUFFLE]))
    sample: tuple[Any, ...] | None = None  # keys, numbers, points and weights of the rows with the least keys
    for block in source():
        if not _core.all_finite(block.points, threads):
            refuse_not_finite(block.points, estimator, first_row=rows)
        weighted |= block.weights is not None
        points, weights = present_rows(block)
        if len(points):
            each = np.ones(len(points)) if weights is None else weights
            ends = np.array([points.min(axis=0), points.max(axis=0)], dtype=np.float64)
            known = ends if corners is None else corners
            corners = np.array([np.minimum(ends[0], known[0]), np.maximum(ends[1], known[1])])
            mass, heaviest = mass + _count(0, each), max(heaviest, each.max())
            numbers = np.arange(present, present + len(points))
            sample = _least(sample, (keys.random(len(points)), numbers, points, each))
        present, rows = present + len(points), rows + len(block.points)
    if rows == 0:
        raise BadData(f"{owner}: make_blocks() gave no rows. Give at least one block with one row.")
    if corners is None or sample is None:
        raise BadData(f"{owner}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    heavy = weight_power(heaviest) if weighted else 0
    powers = _extreme(corners[0], corners[1], unit, round_shape)

    def scaled(block: Block, by: Any) -> Block:
        points, weights = block
        points = np.ldexp(points, -by) if powers.any() else points
        return Block(points, np.ldexp(weights, -heavy) if heavy and weights is not None else weights)

    def blocks() -> Iterator[Block]:
        counted = regrid(map(present_rows, source()), _core.GRAIN) if weighted and present < rows else source()
        return (scaled(block, powers) for block in counted)

    _, _, points, each = sample
    chosen = scaled(Block(points, each if weighted else None), powers.max())
    frame = Frame.of(_pooled(blocks, next(blocks()), threads))
    corners = np.ldexp(corners, -powers) if box else corners[:0]
    count = max(float(present), mass) if weighted else float(rows)
    return Rows(blocks, chosen, frame, powers, corners, source.dtype, count, threads)


# ---- inside --------------------------------------------------------------------------------------------------------


def _pooled(blocks: Blocks, first: Block, threads: int) -> gaussian.GaussianState:
    """Compute mean and covariance of all rows together (section 1)."""

    def step(state: gaussian.GaussianState) -> tuple[gaussian.GaussianState, StepReport]:
        parts = (gaussian.partial(block, state, threads) for block in blocks())
        return gaussian.finish(functools.reduce(lambda a, b: gaussian.merge(a, b, threads), parts), state, threads)

    return iterate(step, gaussian.start(first), max_iter=_PASSES, stop=gaussian.settled)[0]


def _extreme(low: Floats, high: Floats, unit: float, round_shape: bool) -> NDArray[np.int64]:
    """Return the powers of two by which the columns are divided: 0 where all rows are equal, or nothing is extreme.

    One for all, unless they differ so much that in a common unit the square of the smallest would vanish.
    """
    extents = np.maximum(np.maximum(-low.astype(np.float64), high), unit)  # (d,)
    exponents = np.frexp(extents)[1].astype(np.int64)
    varies = high > low
    common = exponents.max()
    if not varies.any():
        return np.zeros_like(exponents)
    if not round_shape and exponents[varies].max() - exponents[varies].min() > _EXTREME:
        return np.where(varies, exponents, exponents[varies].max())
    return np.full_like(exponents, common if abs(common) > _EXTREME else 0)


def _count(rows: int, weights: Floats) -> float:
    """Return how many rows there are, counting repetitions by weight; infinite where they leave float64."""
    with np.errstate(over="ignore"):
        return max(float(rows), float(weights.sum()))


def _least(a: tuple[Any, ...] | None, b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Join two samples (keys, numbers, …) and keep the rows with the least keys, in the order of their numbers."""
    keys, numbers, *rest = (np.concatenate(pair) for pair in zip(a, b, strict=True)) if a is not None else b
    if len(keys) <= SAMPLE:
        return keys, numbers, *rest
    kept = np.sort(np.argpartition(keys, SAMPLE - 1)[:SAMPLE])
    return keys[kept], numbers[kept], *(column[kept] for column in rest)
