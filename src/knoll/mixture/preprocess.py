"""The rows of a mixture as EM reads them, and a summary of all: centering, scaling, bounding box, sample.

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
from knoll._common.blocks import Block, BlockSource, regrid
from knoll._common.loop import StepReport, iterate
from knoll._common.rescale import Rescaling, exponent_of, exponents_of, present_rows, times_power, weight_exponent
from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.gaussian import steps
from knoll.mixture.em import Centering
from knoll.validation import refuse_not_finite

Blocks = Callable[[], Iterator[Block]]
States = list[steps.GaussianState]  # of groups of columns

SAMPLE = 20_000  # rows of blocks from which a start by name is drawn
_EXTREME = 200  # deviations beyond 2^±200 are scaled: what is made of their squares would lose digits, or overflow
# A weight below this share of the largest is 0. A row of weight w is at most w^−½ standard deviations from the mean, so
# that with this bound the squares of all rows are numbers.
_NEGLIGIBLE = 2.0**-900
_COLUMNS = 16  # at a time, where only variances are needed
_PASSES = 4  # for the pooled moments: one is enough unless the first rows lie far from the others
_MEDIAN = 1024  # rows, or up to twice as many, whose median is compared with the mean
# The mean of a column is no origin where it lies farther from the median than this many median deviations: a few rows
# far out have moved it, and x − origin would lose the logarithm of this many of the others' sixteen digits.
_MOVED = 2.0**10
_SHUFFLE = 5  # purpose of the random numbers that choose a sample, numbered as in the core


@dataclass(frozen=True)
class MixtureRows:
    """The rows of weight > 0, scaled where they are extreme, and their summary."""

    blocks: Blocks  # a fresh pass
    sample: Block  # what a start by name is drawn from: all rows, or a subset; all columns in one unit
    scaled_sample: Block  # the same rows in the units of `blocks`
    centering: Centering
    scaling: Rescaling
    box: Floats  # (2, d) least and largest value of each column before scaling; may be empty where it is not needed
    dtype: Any  # of the data before scaling
    count: float  # how many rows count; where weights add up to more, that
    reach: int  # rows lie within 2^reach squared deviations of the mean: of a row of weight w at most Σw/w
    threads: int


def summarize(
    points: NDArray[Any],
    weights: Floats | None,
    *,
    estimator: Any,
    box: bool,
    unit: float,
    one_unit: bool,
    matrix: bool,
    threads: int,
) -> MixtureRows:
    """Summarize one array: its pooled moments show whether every value is finite, and how large they are.

    `unit` is a length that must stay a number when the values are scaled, such as the root of a variance that is held.
    With `one_unit` the columns share one power of two: their variances are compared with each other. Without `matrix`
    the pooled covariance is known by its variances only, which cost no d² sums.
    """
    count = float(len(points)) if weights is None else _count(int(np.count_nonzero(weights)), weights)
    if weights is not None:
        weights = _relative(weights, float(weights.max()))
        if not weights.all():
            if not _core.all_finite(points, threads):
                refuse_not_finite(points, estimator)
            points, weights = present_rows(Block(points, weights))
    block = sample = Block(points, weights)
    scaling = Rescaling()
    pooled = _pooled(lambda: iter([block]), block, matrix, threads)
    corners = np.zeros((0, points.shape[1]))
    reach = _reach(len(points), 1.0 if weights is None else float(weights.max() / weights.min()))
    if not _is_plain(pooled, reach, unit):
        refuse_not_finite(points, estimator)
        corners = _corners(points)
        scaling = Rescaling.by_column(corners[0], corners[1], unit, one_unit)
        sample = Block(_in_one_unit(points, corners), weights)
        if scaling:
            block = Block(scaling.down(points), weights)
            pooled = _pooled(lambda: iter([block]), block, matrix, threads)
    elif box:
        corners = _corners(points)
    origin = _origin(scaling.down(points[:: _stride(len(points))]), pooled)
    centering = Centering.of(pooled, _least(unit, scaling), origin)
    return MixtureRows(
        lambda: iter([block]), sample, block, centering, scaling, corners, points.dtype, count, reach, threads
    )


def summarize_blocks(
    source: BlockSource,
    *,
    estimator: Any,
    seed: int,
    box: bool,
    unit: float,
    one_unit: bool,
    matrix: bool,
    threads: int,
) -> MixtureRows:
    """Summarize blocks: the same in two passes, and a sample that does not depend on the cuts."""
    owner = type(estimator).__name__

    def checked() -> Iterator[Block]:
        rows = 0
        for block in source():
            if not _core.all_finite(block.points, threads):
                refuse_not_finite(block.points, estimator, first_row=rows)
            rows += len(block.points)
            yield block

    found = _scan(checked(), seed, 0.0)
    if found.rows == 0:
        raise BadData(f"{owner}: make_blocks() gave no rows. Give at least one block with one row.")
    if found.present == 0:
        raise BadData(f"{owner}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    count, heaviest = max(float(found.present), found.mass) if found.weighted else float(found.rows), found.heaviest
    if found.lightest < _NEGLIGIBLE * heaviest:
        found = _scan(source(), seed, heaviest)
    corners = found.corners
    scaling = Rescaling.by_column(corners[0], corners[1], unit, one_unit)

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
    pooled = _pooled(blocks, next(blocks()), matrix, threads)
    centering = Centering.of(pooled, _least(unit, scaling), _origin(scaling.down(found.every.rows), pooled))
    reach = _reach(found.present, found.heaviest / found.lightest)
    return MixtureRows(blocks, sample, scaled_sample, centering, scaling, corners, source.dtype, count, reach, threads)


# ---- inside --------------------------------------------------------------------------------------------------------


def _pooled(blocks: Blocks, first: Block, matrix: bool, threads: int) -> steps.GaussianState:
    """Compute mean and covariance of all rows together (section 1); without `matrix` only the variances.

    Those come from the matrices of a few columns each: an entry is the same whatever the other columns are.
    """
    d = first.points.shape[1]
    width = d if matrix else _COLUMNS
    groups = [slice(j, j + width) for j in range(0, d, width)]

    def step(states: States) -> tuple[States, StepReport]:
        each = (_grouped(block, groups, states) for block in blocks())
        sums = ([steps.partial(rows, of, threads) for rows, of in pairs] for pairs in each)
        total = functools.reduce(lambda a, b: [steps.merge(*pair, threads) for pair in zip(a, b, strict=True)], sums)
        found = [steps.finish(stats, of, threads) for stats, of in zip(total, states, strict=True)]
        return [state for state, _ in found], StepReport(np.nan, max(report.changed for _, report in found))

    begin = [steps.start(Block(first.points[:, columns], first.weights)) for columns in groups]
    states, _ = iterate(step, begin, max_iter=_PASSES, stop=steps.settled)
    if matrix:
        return states[0]
    mean, variances = (np.concatenate(of) for of in zip(*((s.mean, s.variances) for s in states), strict=True))
    return steps.GaussianState(mean, states[0].mass, mean, variances)


def _grouped(block: Block, groups: list[slice], states: States) -> Iterator[tuple[Block, steps.GaussianState]]:
    for columns, state in zip(groups, states, strict=True):
        yield Block(block.points[:, columns], block.weights), state


def _is_plain(pooled: steps.GaussianState, reach: int, unit: float) -> bool:
    """Whether the moments show that `Rescaling.by_column` leaves the rows as they are, without a pass for the corners.

    The largest magnitude of a column is at least its standard deviation, and at most |mean| + 2^(reach/2) of them.
    """
    deviations, means = np.sqrt(np.maximum(pooled.variances, 0.0)), np.abs(pooled.mean)
    if not (np.isfinite(deviations).all() and np.isfinite(means).all() and deviations.all()):
        return False
    low = exponents_of(deviations)
    high = np.maximum(exponents_of(means), low + reach // 2 + 1) + 1
    within = high.max() < _EXTREME and low.max() > 2 - _EXTREME and exponent_of(unit) < 2 * _EXTREME
    return bool(within and high.max() - low.min() < _EXTREME - 2)


def _stride(rows: int) -> int:
    """Return the least power of two that leaves at most 2·_MEDIAN of so many rows."""
    stride = 1
    while rows > 2 * _MEDIAN * stride:
        stride *= 2
    return stride


@dataclass
class _EveryNth:
    """The rows whose number is a multiple of the stride: of blocks the same as `points[::stride]` of an array."""

    stride: int = 1
    rows: NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, first: int, points: NDArray[Any]) -> None:
        """Take those of some more rows, the first of which has this number."""
        chosen = points[-first % self.stride :: self.stride]
        self.rows = np.concatenate([self.rows, chosen]) if len(self.rows) else chosen.copy()
        while len(self.rows) > 2 * _MEDIAN:
            self.rows, self.stride = self.rows[::2], 2 * self.stride


def _origin(rows: NDArray[Any], pooled: steps.GaussianState) -> Floats | None:
    """Return an origin (d,) near most rows where the mean is not; None: the mean is one.

    Only the rounding of x − origin depends on it, and with it on the order of the rows.
    """
    rows = np.asarray(rows, dtype=np.float64)
    middle = (len(rows) - 1) // 2
    median = np.partition(rows, middle, axis=0)[middle]  # (d,) a value of the data: a constant column is exactly 0
    with np.errstate(over="ignore"):
        away = np.sort(np.abs(rows - median), axis=0)
    equal = np.count_nonzero(away == 0, axis=0)
    typical = away[np.minimum(equal + (len(rows) - equal) // 2, len(rows) - 1), np.arange(rows.shape[1])]
    moved = (np.abs(pooled.mean - median) > _MOVED * typical) & (equal < len(rows))
    return np.where(moved, median, pooled.mean) if moved.any() else None


@dataclass
class _BlockSummary:
    """What one pass over blocks finds."""

    rows: int = 0
    present: int = 0  # rows of weight > 0
    mass: float = 0.0
    lightest: float = np.inf  # of the weights > 0
    heaviest: float = 0.0
    weighted: bool = False
    corners: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (2, d)
    every: _EveryNth = field(default_factory=_EveryNth)
    sample: tuple[Any, ...] = ()  # ranks, numbers, points and weights of the rows of smallest rank


def _scan(blocks: Iterator[Block], seed: int, heaviest: float) -> _BlockSummary:
    """Pass over the blocks; rows whose weight is nothing beside `heaviest` are absent."""
    found = _BlockSummary()
    ranks = np.random.Generator(np.random.Philox(key=[seed, _SHUFFLE]))
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
            found.every.add(found.present, points)
            found.sample = _first(found.sample, (ranks.random(len(points)), numbers, points, each))
        found.present, found.rows = found.present + len(points), found.rows + len(block.points)
    return found


def _corners(points: NDArray[Any]) -> Floats:
    """Return the least and the largest value of each column, (2, d)."""
    return np.array([points.min(axis=0), points.max(axis=0)], dtype=np.float64)


def _relative(weights: Floats, heaviest: float) -> Floats:
    """Divide extreme weights by a power of two; those that are nothing beside the heaviest become 0."""
    if weights.min() < _NEGLIGIBLE * heaviest:
        weights = np.where(weights < _NEGLIGIBLE * heaviest, 0.0, weights)
    rescaled: Floats = times_power(weights, -weight_exponent(heaviest))
    return rescaled


def _in_one_unit(points: NDArray[Any], corners: Floats) -> NDArray[Any]:
    """Scale all columns alike, by their own size; a constant of extreme size changes no distance, and becomes 0.

    Starts that compare columns with each other, such as k-means, are made from these.
    """
    low, high = corners
    huge = (low == high) & (np.abs(low) > 2.0**_EXTREME)
    if huge.any():
        points = np.where(huge, 0.0, points)
        low, high = np.where(huge, 0.0, corners)
    rescaled: NDArray[Any] = Rescaling.by_column(low, high, 0.0, one_unit=True).down(points)
    return rescaled


def _least(unit: float, scaling: Rescaling) -> float:
    """Return the least deviation that a centering may take as its unit: beside it the square of `unit` is a number."""
    return float(times_power(unit, -int(np.min(scaling.exponent)) - _EXTREME))


def _reach(rows: int, ratio: float) -> int:
    """Return the reach of so many rows whose weights have this ratio at most."""
    return exponent_of(rows) + exponent_of(ratio)


def _count(rows: int, weights: Floats) -> float:
    """Return how many rows there are, counting repetitions by weight; infinite where they leave float64."""
    with np.errstate(over="ignore"):
        return max(float(rows), float(weights.sum()))


def _first(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Join two samples (ranks, numbers, …) and keep the rows of smallest rank, in the order of their numbers."""
    ranks, *others = (np.concatenate(pair) for pair in zip(a, b, strict=True)) if a else b
    if len(ranks) <= SAMPLE:
        return ranks, *others
    kept = np.sort(np.argpartition(ranks, SAMPLE - 1)[:SAMPLE])
    return ranks[kept], *(column[kept] for column in others)
