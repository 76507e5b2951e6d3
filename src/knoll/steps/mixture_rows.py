"""The rows of a mixture as its loop meets them, and what a look at all of them tells: frame, scale, box, sample.

Extreme values are divided by a power of two, which is exact; extreme weights too, since only their ratios count. A row
whose weight is nothing beside the heaviest is absent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.exceptions import BadData
from knoll.steps import gaussian
from knoll.steps.blocks import Block, BlockSource, regrid
from knoll.steps.gaussian_mixture import Frame
from knoll.steps.loop import StepReport, iterate
from knoll.steps.scaling import ColumnScaling, present_rows, weight_power
from knoll.validation import refuse_not_finite

__all__ = ["SAMPLE", "Rows", "factor_powers", "look", "look_through", "pair_powers"]

Floats = NDArray[np.float64]
Blocks = Callable[[], Iterator[Block]]

SAMPLE = 20_000  # rows of blocks from which a start that is given by name is drawn
_EXTREME = 200  # deviations beyond 2^±200 are scaled: what is made of their squares would lose digits, or overflow
# A weight below this share of the largest is 0. A row of weight w is at most w^−½ standard deviations from the mean, so
# that with this bound the squares of all rows are numbers.
_NEGLIGIBLE = 2.0**-900
_PASSES = 3  # for the pooled moments: one is enough unless the first rows lie far from the rest
_SHUFFLE = 5  # purpose of the random numbers that choose a sample, numbered as in the core


@dataclass(frozen=True)
class Rows:
    """The rows, scaled where they are extreme, and what is known of them. Rows of weight 0 are not among them."""

    blocks: Blocks  # a fresh pass
    sample: Block  # where a start that is given by name is drawn from: all rows, or some; all columns in one unit
    scaled_sample: Block  # the same rows in the units of `blocks`
    frame: Frame
    scaling: ColumnScaling
    box: Floats  # (2, d) least and largest value of each column before scaling; may be empty where nobody needs it
    dtype: Any  # of the data as it was given
    count: float  # how many rows count; where weights add up to more, that
    threads: int


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
    if weights is not None:
        weights = _relative(weights, float(weights.max()))
        if not weights.all():
            if not _core.all_finite(points, threads):
                refuse_not_finite(points, estimator)
            points, weights = present_rows(Block(points, weights))
    block = sample = Block(points, weights)
    scaling = ColumnScaling.none(points.shape[1])
    pooled = _pooled(lambda: iter([block]), block, threads)
    variances = pooled.covariance.diagonal()
    largest = float(variances.max())
    corners = np.zeros((0, points.shape[1]))
    plain = 4.0**-_EXTREME < largest < 4.0**_EXTREME and variances.min() > 4.0**-_EXTREME * largest
    if not plain or unit > 2.0**_EXTREME * np.sqrt(largest):
        refuse_not_finite(points, estimator)
        corners = _corners(points)
        scaling = ColumnScaling.fitting(corners[0], corners[1], unit, round_shape)
        sample = Block(_in_one_unit(points, corners), weights)
        if scaling:
            block = Block(scaling.down(points), weights)
            pooled = _pooled(lambda: iter([block]), block, threads)
    elif box:
        corners = _corners(points)
    frame = Frame.of(pooled, _least(unit, scaling))
    return Rows(lambda: iter([block]), sample, block, frame, scaling, corners, points.dtype, count, threads)


def look_through(
    source: BlockSource, *, estimator: Any, seed: int, box: bool, unit: float, round_shape: bool, threads: int
) -> Rows:
    """Look at blocks: the same facts in two passes, and a sample that does not depend on the cuts."""
    owner = type(estimator).__name__

    def checked() -> Iterator[Block]:
        rows = 0
        for block in source():
            if not _core.all_finite(block.points, threads):
                refuse_not_finite(block.points, estimator, first_row=rows)
            rows += len(block.points)
            yield block

    found = _summarize(checked(), seed, 0.0)
    if found.rows == 0:
        raise BadData(f"{owner}: make_blocks() gave no rows. Give at least one block with one row.")
    if found.present == 0:
        raise BadData(f"{owner}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    count, heaviest = max(float(found.present), found.mass) if found.weighted else float(found.rows), found.heaviest
    if found.lightest < _NEGLIGIBLE * heaviest:
        found = _summarize(source(), seed, heaviest)
    corners = found.corners
    scaling = ColumnScaling.fitting(corners[0], corners[1], unit, round_shape)

    def counted(block: Block) -> Block:
        points, weights = block
        return present_rows(Block(points, None if weights is None else _relative(weights, heaviest)))

    def blocks() -> Iterator[Block]:
        present = map(counted, source())
        grid = regrid(present, _core.GRAIN) if found.weighted and found.present < found.rows else present
        return (Block(scaling.down(points), weights) for points, weights in grid)

    _, _, points, each = found.sample
    weights = _relative(each, heaviest) if found.weighted else None
    sample, scaled_sample = (Block(of, weights) for of in (_in_one_unit(points, corners), scaling.down(points)))
    frame = Frame.of(_pooled(blocks, next(blocks()), threads), _least(unit, scaling))
    return Rows(blocks, sample, scaled_sample, frame, scaling, corners, source.dtype, count, threads)


# ---- inside --------------------------------------------------------------------------------------------------------


def _pooled(blocks: Blocks, first: Block, threads: int) -> gaussian.GaussianState:
    """Compute mean and covariance of all rows together (section 1)."""

    def step(state: gaussian.GaussianState) -> tuple[gaussian.GaussianState, StepReport]:
        parts = (gaussian.partial(block, state, threads) for block in blocks())
        return gaussian.finish(functools.reduce(lambda a, b: gaussian.merge(a, b, threads), parts), state, threads)

    return iterate(step, gaussian.start(first), max_iter=_PASSES, stop=gaussian.settled)[0]


@dataclass
class _Summary:
    """What one pass over blocks finds."""

    rows: int = 0
    present: int = 0  # rows of weight > 0
    mass: float = 0.0
    lightest: float = np.inf  # of the weights > 0
    heaviest: float = 0.0
    weighted: bool = False
    corners: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (2, d)
    sample: tuple[Any, ...] = ()  # keys, numbers, points and weights of the rows with the least keys


def _summarize(blocks: Iterator[Block], seed: int, heaviest: float) -> _Summary:
    """Pass over the blocks; rows whose weight is nothing beside `heaviest` are absent."""
    found = _Summary()
    keys = np.random.Generator(np.random.Philox(key=[seed, _SHUFFLE]))
    for block in blocks:
        found.weighted |= block.weights is not None
        points, weights = present_rows(block)
        if weights is not None and heaviest:
            points, weights = present_rows(Block(points, np.where(weights < _NEGLIGIBLE * heaviest, 0.0, weights)))
        if len(points):
            each = np.ones(len(points)) if weights is None else weights
            ends = _corners(points)
            known = found.corners if len(found.corners) else ends
            found.corners = np.array([np.minimum(ends[0], known[0]), np.maximum(ends[1], known[1])])
            found.mass += _count(0, each)
            found.lightest = min(found.lightest, float(each.min()))
            found.heaviest = max(found.heaviest, float(each.max()))
            numbers = np.arange(found.present, found.present + len(points))
            found.sample = _first(found.sample, (keys.random(len(points)), numbers, points, each))
        found.present, found.rows = found.present + len(points), found.rows + len(block.points)
    return found


def _corners(points: NDArray[Any]) -> Floats:
    """Return the least and the largest value of each column, (2, d)."""
    return np.array([points.min(axis=0), points.max(axis=0)], dtype=np.float64)


def _relative(weights: Floats, heaviest: float) -> Floats:
    """Divide extreme weights by a power of two; those that are nothing beside the heaviest become 0."""
    power = weight_power(heaviest)
    if weights.min() < _NEGLIGIBLE * heaviest:
        weights = np.where(weights < _NEGLIGIBLE * heaviest, 0.0, weights)
    return np.ldexp(weights, -power) if power else weights


def _in_one_unit(points: NDArray[Any], corners: Floats) -> NDArray[Any]:
    """Scale all columns alike, by their own size; a constant of extreme size says nothing of distances, and becomes 0.

    Starts that compare columns with each other, such as k-means, are made from these.
    """
    low, high = corners
    huge = (low == high) & (np.abs(low) > 2.0**_EXTREME)
    if huge.any():
        points = np.where(huge, 0.0, points)
        low, high = np.where(huge, 0.0, corners)
    return ColumnScaling.fitting(low, high, 0.0, one_unit=True).down(points)


def _least(unit: float, scaling: ColumnScaling) -> float:
    """Return the least deviation that a frame may take as its unit: beside it the square of `unit` is a number."""
    return float(np.ldexp(unit, -int(scaling.powers.min()) - _EXTREME))


def _count(rows: int, weights: Floats) -> float:
    """Return how many rows there are, counting repetitions by weight; infinite where they leave float64."""
    with np.errstate(over="ignore"):
        return max(float(rows), float(weights.sum()))


def _first(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Join two samples (keys, numbers, …) and keep the rows with the least keys, in the order of their numbers."""
    keys, numbers, *rest = (np.concatenate(pair) for pair in zip(a, b, strict=True)) if a else b
    if len(keys) <= SAMPLE:
        return keys, numbers, *rest
    kept = np.sort(np.argpartition(keys, SAMPLE - 1)[:SAMPLE])
    return keys[kept], numbers[kept], *(column[kept] for column in rest)
