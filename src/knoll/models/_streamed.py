"""The preparation of a table that is read in blocks: the bits of `Preparation.fit`, without quartiles and medians."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll._common.blocks import Block
from knoll._common.exact_sums import ExactSums
from knoll._common.passes import Passes, Run
from knoll._common.rescale import exponents_of, times_power
from knoll._typing import Floats, Ints
from knoll.exceptions import InvalidParameter
from knoll.models._measures import common_deviation, comparable
from knoll.models._preparation import Preparation

__all__ = ["prepare_blocks"]

_MOST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class _Ends:
    """How many rows, and the least and the largest value of each column."""

    rows: int
    low: Floats  # (d,)
    high: Floats  # (d,)

    def merge(self, other: _Ends) -> _Ends:
        """Join what two sets of blocks have; neither is changed."""
        return _Ends(self.rows + other.rows, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True)
class _About:
    """Values are divided by 2^exponent; then their squares about `center` are summed, or, without it, they are."""

    exponents: Ints  # (d,)
    center: Floats | None = None  # (d,)


def prepare_blocks(passes: Passes, columns: tuple[str, ...], scale: str) -> Preparation:
    """Scale by mean and standard deviation, or by one common factor, in three passes over complete rows.

    There are no medians: a missing value of later rows, where such are filled in, becomes the mean.
    """
    if scale == "robust":
        raise InvalidParameter(
            "scale 'robust' needs the quartiles of all rows at once, which blocks do not give. Take 'standard'."
        )
    d = len(columns)
    if scale == "none":
        return Preparation.unscaled(columns)
    ends = passes.total(_ends, None)
    exponents = exponents_of(np.maximum(np.abs(ends.low), np.abs(ends.high)))
    center = passes.total(_sums, _About(exponents)).round() / ends.rows
    squares = passes.total(_sums, _About(exponents, center)).round() / ends.rows
    scales = np.array([math.sqrt(each) for each in squares.tolist()])
    scales[scales < 1e-14 * np.abs(center)] = 0.0  # rounding error of a constant column
    constant = ends.low == ends.high
    scales[constant], center[constant] = 0.0, times_power(ends.low, -exponents)[constant]
    scales = np.minimum(times_power(scales, exponents), _MOST)
    scales[scales == 0] = 1.0
    varying = scales[~constant]
    if scale == "auto":
        scale = "common" if comparable(varying, d) else "standard"
    deviations = (common_deviation(varying, d),) * d if scale == "common" else tuple(scales.tolist())
    means = tuple(times_power(center, exponents).tolist())
    return Preparation(columns, scale, "error", means, deviations, means)


def _ends(block: Block, _: None, run: Run) -> _Ends:
    points: Any = np.asarray(block.points, dtype=np.float64)
    return _Ends(len(points), points.min(axis=0), points.max(axis=0))


def _sums(block: Block, about: _About, run: Run) -> ExactSums:
    values = times_power(np.asarray(block.points, dtype=np.float64), -about.exponents)
    if about.center is not None:
        values = np.square(values - about.center)
    n, d = values.shape
    group = np.tile(np.arange(d), n)
    return ExactSums.of_groups(values.ravel(), group, d, run.threads)
