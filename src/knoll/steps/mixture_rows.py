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
from knoll.steps.blocks import Block, BlockSource
from knoll.steps.gaussian_mixture import Frame
from knoll.steps.loop import StepReport, iterate
from knoll.validation import refuse_not_finite

__all__ = ["SAMPLE", "Rows", "look", "look_through"]

Floats = NDArray[np.float64]
Blocks = Callable[[], Iterator[Block]]

SAMPLE = 20_000  # rows of blocks from which a start that is given by name is drawn
_EXTREME = 200  # deviations beyond 2^±200 are scaled: what is made of their squares would lose digits, or overflow
_PASSES = 3  # for the pooled moments: one is enough unless the first rows lie far from the rest
_SHUFFLE = 5  # purpose of the random numbers that choose a sample, numbered as in the core


@dataclass(frozen=True)
class Rows:
    """The rows, divided by 2^power, and what is known of them."""

    blocks: Blocks  # a fresh pass
    sample: Block  # where a start that is given by name is drawn from: all rows, or some
    frame: Frame
    power: int  # 0 unless the values are extreme
    box: Floats  # (2, d) least and largest value of each column; empty unless it was asked for
    dtype: Any  # of the data as it was given
    count: float  # how many rows count; where weights add up to more, that
    threads: int

    @property
    def shift(self) -> float:
        """What a log-density of the scaled rows has more than that of the rows."""
        return self.power * len(self.frame.origin) * math.log(2)

    def down(self, value: float, dimension: int) -> float:
        """Bring a length (dimension 1) or a variance (2) of the data into the units of the scaled rows."""
        return float(np.ldexp(value, -dimension * self.power))


def look(points: NDArray[Any], weights: Floats | None, *, estimator: Any, box: bool, unit: float, threads: int) -> Rows:
    """Look at one array: its pooled moments show whether every value is finite, and how large they are.

    `unit` is a length that must stay a number when the values are scaled, such as the root of a variance that is held.
    """
    count = float(len(points)) if weights is None else max(float(np.count_nonzero(weights)), float(weights.sum()))
    if weights is not None and (heavy := _power(float(weights.max()))):
        weights = np.ldexp(weights, -heavy)
    block, power = Block(points, weights), 0
    pooled = _pooled(lambda: iter([block]), block, threads)
    spread = float(pooled.covariance.diagonal().max())
    if not 4.0**-_EXTREME < spread < 4.0**_EXTREME:
        refuse_not_finite(points, estimator)
        power = _extreme(float(points.min()), float(points.max()), unit)
        if power:
            block = Block(np.ldexp(points, -power), weights)
            pooled = _pooled(lambda: iter([block]), block, threads)
    corners = np.zeros((0, points.shape[1]))
    if box:
        present = block.points if weights is None else block.points[weights > 0]
        corners = np.array([present.min(axis=0), present.max(axis=0)], dtype=np.float64)
    return Rows(lambda: iter([block]), block, Frame.of(pooled), power, corners, points.dtype, count, threads)


def look_through(source: BlockSource, *, estimator: Any, seed: int, box: bool, unit: float, threads: int) -> Rows:
    """Look at blocks: the same facts in two passes, and a sample that does not depend on the cuts."""
    owner = type(estimator).__name__
    rows, mass, heaviest, present, weighted = 0, 0.0, 0.0, 0, False
    corners: Floats | None = None  # (2, d)
    keys = np.random.Generator(np.random.Philox(key=[seed, _SHUFFLE]))
    sample: tuple[Any, ...] | None = None  # keys, numbers, points and weights of the rows with the least keys
    for points, weights in source():
        if not _core.all_finite(points, threads):
            refuse_not_finite(points, estimator, first_row=rows)
        weighted |= weights is not None
        each = np.ones(len(points)) if weights is None else weights
        here = points if weights is None else points[weights > 0]
        if len(here):
            ends = np.array([here.min(axis=0), here.max(axis=0)], dtype=np.float64)
            known = ends if corners is None else corners
            corners = np.array([np.minimum(ends[0], known[0]), np.maximum(ends[1], known[1])])
        mass, heaviest, present = mass + each.sum(), max(heaviest, each.max()), present + len(here)
        sample = _least(sample, (keys.random(len(points)), np.arange(rows, rows + len(points)), points, each))
        rows += len(points)
    if sample is None:
        raise BadData(f"{owner}: make_blocks() gave no rows. Give at least one block with one row.")
    if corners is None:
        raise BadData(f"{owner}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    heavy = _power(heaviest) if weighted else 0
    power = _extreme(float(corners[0].min()), float(corners[1].max()), unit)

    def scaled(block: Block) -> Block:
        points, weights = block
        points = np.ldexp(points, -power) if power else points
        return Block(points, np.ldexp(weights, -heavy) if heavy and weights is not None else weights)

    def blocks() -> Iterator[Block]:
        return map(scaled, source())

    _, _, points, each = sample
    chosen = scaled(Block(points, each if weighted else None))
    frame = Frame.of(_pooled(blocks, next(blocks()), threads))
    corners = np.ldexp(corners, -power) if box else corners[:0]
    count = max(float(present), mass) if weighted else float(rows)
    return Rows(blocks, chosen, frame, power, corners, source.dtype, count, threads)


# ---- inside --------------------------------------------------------------------------------------------------------


def _pooled(blocks: Blocks, first: Block, threads: int) -> gaussian.GaussianState:
    """Compute mean and covariance of all rows together (section 1)."""

    def step(state: gaussian.GaussianState) -> tuple[gaussian.GaussianState, StepReport]:
        parts = (gaussian.partial(block, state, threads) for block in blocks())
        return gaussian.finish(functools.reduce(lambda a, b: gaussian.merge(a, b, threads), parts), state, threads)

    return iterate(step, gaussian.start(first), max_iter=_PASSES, stop=gaussian.settled)[0]


def _extreme(low: float, high: float, unit: float) -> int:
    """Return the power of two by which values are divided: 0 where they are all equal, or not extreme."""
    exponent = math.frexp(max(-low, high, unit))[1]
    return exponent if abs(exponent) > _EXTREME and high > low else 0


def _least(a: tuple[Any, ...] | None, b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Join two samples (keys, numbers, …) and keep the rows with the least keys, in the order of their numbers."""
    keys, numbers, *rest = (np.concatenate(pair) for pair in zip(a, b, strict=True)) if a is not None else b
    if len(keys) <= SAMPLE:
        return keys, numbers, *rest
    kept = np.sort(np.argpartition(keys, SAMPLE - 1)[:SAMPLE])
    return keys[kept], numbers[kept], *(column[kept] for column in rest)


def _power(largest: float) -> int:
    """Return the power of two by which extreme weights are divided, so that products keep their digits; mostly 0."""
    power = math.frexp(largest)[1]
    return power if abs(power) > 64 and largest > 0 else 0
