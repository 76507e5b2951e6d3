"""The rows of a mixture as EM reads them, and a summary of all: centering, scaling, bounding box, sample.

Extreme values are divided by a power of two, which is exact; extreme weights too, since only their ratios count. A row
whose weight is nothing beside the heaviest is absent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.exact_sums import ExactSums
from knoll._common.loop import StepReport, iterate
from knoll._common.passes import OneBlock, Passes, Run, refuse_not_finite_rows
from knoll._common.rescale import Rescaling, exponent_of, exponents_of, present_rows, times_power, weight_exponent
from knoll._common.sample import draw_sample
from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.gaussian import steps
from knoll.mixture.em import Centering
from knoll.validation import refuse_not_finite

States = tuple[steps.GaussianState, ...]  # of groups of columns

SAMPLE = 20_000  # distinct rows of blocks from which a start by name is drawn, without `init_size`
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


@dataclass(frozen=True)
class MixtureRows:
    """The rows of weight > 0, scaled where they are extreme, and their summary."""

    passes: Passes
    draw: Callable[[], tuple[Block, Block]]  # `sample` and `scaled_sample`: only a start by name needs them
    centering: Centering
    scaling: Rescaling
    box: Floats  # (2, d) least and largest value of each column before scaling; may be empty where it is not needed
    dtype: Any  # of the data before scaling
    count: float  # how many rows count; where weights add up to more, that
    reach: int  # rows lie within 2^reach squared deviations of the mean: of a row of weight w at most Σw/w
    threads: int

    @functools.cached_property
    def _samples(self) -> tuple[Block, Block]:
        return self.draw()

    @property
    def sample(self) -> Block:
        """What a start by name is drawn from: all rows, or a subset; all columns in one unit."""
        return self._samples[0]

    @property
    def scaled_sample(self) -> Block:
        """The same rows in the units of `passes`."""
        return self._samples[1]


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
    seed: int = 0,
    init_size: int | None = None,
) -> MixtureRows:
    """Summarize one array: its pooled moments show whether every value is finite, and how large they are.

    `unit` is a length that must stay a number when the values are scaled, such as the root of a fixed variance.
    With `one_unit` the columns share one power of two: their variances are compared with each other. Without `matrix`
    the pooled covariance is known by its variances only, which cost no d² sums. A start by name is drawn from at most
    `init_size` distinct rows, where that is not None.
    """
    count = float(len(points)) if weights is None else _count(int(np.count_nonzero(weights)), weights)
    if weights is not None:
        weights = _relative(weights, float(weights.max()))
        if not weights.all():
            if not _core.all_finite(points, threads):
                refuse_not_finite(points, estimator)
            points, weights = present_rows(Block(points, weights))
    block = Block(points, weights)
    plain, scaling = block, Rescaling()
    pooled = _pooled(OneBlock(block, threads), matrix)
    corners = np.zeros((0, points.shape[1]))
    reach = _reach(len(points), 1.0 if weights is None else float(weights.max() / weights.min()))
    extreme = False
    if not _is_plain(pooled, reach, unit):
        refuse_not_finite(points, estimator)
        corners = _corners(points)
        scaling = Rescaling.by_column(corners[0], corners[1], unit, one_unit)
        extreme = True
        if scaling:
            block = Block(scaling.down(points), weights)
            pooled = _pooled(OneBlock(block, threads), matrix)
    elif box:
        corners = _corners(points)
    origin = _origin(scaling.down(points[:: _stride(len(points))]), pooled)
    centering = Centering.of(pooled, _least(unit, scaling), origin)

    def draw() -> tuple[Block, Block]:
        rows, scaled = plain, block
        if init_size is not None:
            rows = draw_sample(OneBlock(plain, threads), len(points), seed, init_size)
            scaled = Block(scaling.down(rows.points), rows.weights)
        return Block(_in_one_unit(rows.points, corners) if extreme else rows.points, rows.weights), scaled

    passes = OneBlock(block, threads)
    return MixtureRows(passes, draw, centering, scaling, corners, points.dtype, count, reach, threads)


def summarize_blocks(
    passes: Passes,
    *,
    estimator: Any,
    seed: int,
    box: bool,
    unit: float,
    one_unit: bool,
    matrix: bool,
    init_size: int | None = None,
) -> MixtureRows:
    """Summarize blocks: the same in a few passes, and a sample that depends on neither cuts nor order."""
    dtype, threads = passes.dtype, passes.threads
    found = passes.total(_scan, None)
    if not found.finite:
        refuse_not_finite_rows(passes, estimator)
    if found.present == 0:
        owner = type(estimator).__name__
        raise BadData(f"{owner}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    count = max(float(found.present), float(found.mass.round()[0])) if found.weighted else float(found.rows)
    if found.weighted:
        passes = passes.prepared(_Relative(found.heaviest))
    if found.lightest < _NEGLIGIBLE * found.heaviest:
        found = passes.total(_scan, None)
    present, corners = found.present, found.corners
    scaling = Rescaling.by_column(corners[0], corners[1], unit, one_unit)
    scaled = passes.prepared(scaling.block) if scaling else passes

    def draw() -> tuple[Block, Block]:
        points, weights = draw_sample(passes, present, seed, SAMPLE if init_size is None else init_size)
        return Block(_in_one_unit(points, corners), weights), Block(scaling.down(points), weights)

    pooled = _pooled(scaled, matrix)
    centering = Centering.of(pooled, _least(unit, scaling), _origin(scaling.down(_every(passes, present)), pooled))
    reach = _reach(present, found.heaviest / found.lightest)
    return MixtureRows(scaled, draw, centering, scaling, corners, dtype, count, reach, threads)


# ---- inside --------------------------------------------------------------------------------------------------------


def _pooled(passes: Passes, matrix: bool) -> steps.GaussianState:
    """Compute mean and covariance of all rows together (section 1); without `matrix` only the variances.

    Those come from the matrices of a few columns each: an entry is the same whatever the other columns are.
    """
    first, d = passes.first(), passes.columns

    def step(states: States) -> tuple[States, StepReport]:
        total = passes.total(_moments, states)
        found = [steps.finish(sums, of, passes.threads) for sums, of in zip(total.sums, states, strict=True)]
        return tuple(state for state, _ in found), StepReport(np.nan, max(report.changed for _, report in found))

    groups = _column_groups(1 if matrix else -(-d // _COLUMNS), d)
    begin = tuple(steps.start(Block(first.points[:, columns], first.weights)) for columns in groups)
    states, _ = iterate(step, begin, max_iter=_PASSES, stop=steps.settled)
    if matrix:
        return states[0]
    mean, variances = (np.concatenate(of) for of in zip(*((s.mean, s.variances) for s in states), strict=True))
    return steps.GaussianState(mean, states[0].mass, mean, variances)


@dataclass(frozen=True)
class _GroupedSums:
    """The moments of groups of columns."""

    sums: tuple[steps.MomentSums, ...]

    def merge(self, other: _GroupedSums) -> _GroupedSums:
        """Add what other rows have; neither is changed."""
        return _GroupedSums(tuple(a.merge(b) for a, b in zip(self.sums, other.sums, strict=True)))


def _column_groups(count: int, d: int) -> list[slice]:
    """Cut d columns into so many groups."""
    width = d if count == 1 else _COLUMNS
    return [slice(j, j + width) for j in range(0, d, width)]


def _moments(block: Block, states: States, run: Run) -> _GroupedSums:
    groups = _column_groups(len(states), block.points.shape[1])
    rows = (Block(block.points[:, columns], block.weights) for columns in groups)
    return _GroupedSums(tuple(steps.partial(each, of, run.threads) for each, of in zip(rows, states, strict=True)))


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


def _every(passes: Passes, present: int) -> NDArray[Any]:
    """Return the rows whose number is a multiple of the stride: of blocks the same as of one array."""
    stride = _stride(present)
    near = min(stride, _core.GRAIN)  # blocks begin at its multiples
    return np.concatenate(list(passes.map(_every_of_block, near)))[:: stride // near]


def _every_of_block(block: Block, stride: int, run: Run) -> NDArray[Any]:
    return block.points[::stride].copy()


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


@dataclass(frozen=True)
class _BlockSummary:
    """What one pass over blocks finds."""

    rows: int
    present: int  # rows of weight > 0
    finite: bool
    mass: ExactSums  # 1
    lightest: float  # of the weights > 0
    heaviest: float
    weighted: bool
    corners: Floats  # (2, d)

    def merge(self, other: _BlockSummary) -> _BlockSummary:
        """Join what two sets of blocks have; neither is changed."""
        low, high = np.minimum(self.corners, other.corners)[0], np.maximum(self.corners, other.corners)[1]
        return _BlockSummary(
            self.rows + other.rows,
            self.present + other.present,
            self.finite and other.finite,
            self.mass.merge(other.mass),
            min(self.lightest, other.lightest),
            max(self.heaviest, other.heaviest),
            self.weighted or other.weighted,
            np.array([low, high]),
        )


def _scan(block: Block, _: None, run: Run) -> _BlockSummary:
    finite = bool(_core.all_finite(block.points, run.threads))
    points, weights = present_rows(block)
    d = points.shape[1]
    corners = _corners(points) if finite and len(points) else np.array([np.full(d, np.inf), np.full(d, -np.inf)])
    if weights is None:
        mass, light, heavy = ExactSums.of_counts(np.array([len(points)])), 1.0, 1.0
    else:
        mass = ExactSums.of_groups(weights, np.zeros(len(weights), dtype=np.int64), 1, run.threads)
        light, heavy = float(weights.min(initial=np.inf)), float(weights.max(initial=0.0))
    return _BlockSummary(len(block.points), len(points), finite, mass, light, heavy, block.weights is not None, corners)


@dataclass(frozen=True)
class _Relative:
    """Drops rows whose weight is nothing beside the heaviest, and divides extreme weights by a power of two."""

    heaviest: float

    def __call__(self, block: Block) -> Block:
        """Return the rows of a block that count."""
        weights = np.ones(len(block.points)) if block.weights is None else block.weights
        return present_rows(Block(block.points, _relative(weights, self.heaviest)))


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
