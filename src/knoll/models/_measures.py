"""Centres, scales and medians of columns; the order of rows does not matter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from knoll._common.rescale import near_one, times_power
from knoll._typing import Floats

__all__ = ["common_deviation", "comparable", "measured"]

_FEW = 3  # columns up to which a common factor is considered,
_ALIKE = 5.0  # if no standard deviation is more than this many times another one
_MOST = float(np.finfo(np.float64).max)


def measured(
    columns: Sequence[Floats], scale: str
) -> tuple[str, tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return the scale that "auto" becomes, and centres, scales and medians of the columns."""
    measured = [_measures(column, scale) for column in columns]
    center, scales, fill = zip(*measured) if measured else ((), (), ())
    varying = np.array(scales)[[bool((column != column[:1]).any()) for column in columns]] if scales else np.zeros(0)
    if scale == "auto":
        scale = "common" if comparable(varying, len(scales)) else "standard"
    if scale == "common":
        scales = (common_deviation(varying, len(scales)),) * len(scales)
    return scale, center, scales, fill


def comparable(varying: Floats, count: int) -> bool:
    """Whether there are few columns, of similar standard deviations; `varying` has those of columns not constant."""
    return count <= _FEW and (not len(varying) or bool(varying.max() / _ALIKE <= varying.min()))


def common_deviation(varying: Floats, count: int) -> float:
    """Return the root mean square of the standard deviations; a constant column has 0."""
    if not len(varying):
        return 1.0
    largest = float(varying.max())
    return largest * math.sqrt(math.fsum(np.square(varying / largest).tolist()) / count)


def _measures(column: Floats, scale: str) -> tuple[float, float, float]:
    """Return centre, scale and median of a column; sums are rounded once, so that the order of rows does not matter."""
    values, exponent = near_one(column)  # squares stay within float64
    half = 0.5 if exponent > 1023 else 1.0  # the sum of the two middle values stays within float64
    median = float(np.median(half * column)) / half
    if scale == "none":
        return 0.0, 1.0, median
    center = math.fsum(values.tolist()) / len(values)
    width = math.sqrt(math.fsum(np.square(values - center).tolist()) / len(values))
    if scale == "robust":
        low, center, high = (float(x) for x in np.quantile(values, [0.25, 0.5, 0.75]))
        width = high - low or width  # half of the rows may have one value, and the others still differ
    if width < 1e-14 * abs(center) or width == 0.0:  # rounding error of a constant column
        width = 0.0
    if (values == values[0]).all():  # the mean may be one rounding away
        center, width = float(values[0]), 0.0
    width = min(float(times_power(width, exponent)), _MOST)  # quartiles may be farther apart than the largest number
    return float(times_power(center, exponent)), width or 1.0, median
