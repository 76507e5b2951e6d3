"""Regions of a table: boxes that are cut along the axes, each with the rows around it that its answer depends on.

A region owns the rows of its box, low ≤ x < high on each axis. The *halo* of width r are the rows of others that are
within r of the box on every axis. |x_j − y_j| is at most the distance, so whoever is within r of an own row is in the
halo. Bounds are moved outwards by more than all rounding, so that the halo may have a row too many and never one too
few (docs/decisions/0038-regions.md).

Cuts decide how much is in memory at a time, and no label: they come from a sample.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.scratch import NumberedRows, RowStore, Scratch
from knoll._typing import Bools

__all__ = ["Box", "Cut", "Region", "Sample", "copies", "distribute", "leaves", "plan_cuts", "reach_of"]

_ROUNDING = 1e-9  # relative, of the radius: distances are computed to some 1e-15
_FEWEST = 64  # rows of a sample that are too few to tell where to cut
_QUANTILES = 15  # at which a cut is tried
_GAPS = 4  # the widest ones, in which a cut is tried
_PROGRESS = 0.9  # a cut must leave at most this share of the rows on each side


def reach_of(eps: float) -> float:
    """Return a bound of |x_j − y_j| for rows whose computed distance is at most eps."""
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float64(eps) * (1 + _ROUNDING), np.inf))


@dataclass(frozen=True)
class Box:
    """low ≤ x < high on each axis, in float64; infinite where nothing was cut."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def everything(cls, columns: int) -> Box:
        """Return the box without bounds."""
        return cls((-np.inf,) * columns, (np.inf,) * columns)

    def cut(self, axis: int, value: float) -> tuple[Box, Box]:
        """Return what is below the value on an axis, and the rest."""
        high, low = list(self.high), list(self.low)
        high[axis] = low[axis] = value
        return Box(self.low, tuple(high)), Box(tuple(low), self.high)

    def owns(self, points: NDArray[Any]) -> Bools:
        """Return which rows are in the box."""
        inside = np.ones(len(points), dtype=np.bool_)
        for j, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if low > -np.inf:
                inside &= points[:, j] >= points.dtype.type(low)
            if high < np.inf:
                inside &= points[:, j] < points.dtype.type(high)
        return inside

    def shares(self, points: NDArray[Any], reach: float) -> Bools:
        """Return which rows are within reach of both the box and what is outside of it: those that two regions need."""
        near, deep = np.ones(len(points), dtype=np.bool_), np.ones(len(points), dtype=np.bool_)
        for j, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            x = points[:, j]
            if low > -np.inf:
                near &= x >= _down(low, reach, x.dtype)
                deep &= x > _up(low, reach, x.dtype)
            if high < np.inf:
                near &= x <= _up(high, reach, x.dtype)
                deep &= x < _down(high, reach, x.dtype)
        shared: Bools = near & ~deep
        return shared

    def touches(self, other: Box, reach: float) -> bool:
        """Return whether rows of the two boxes may be within reach of each other."""
        ends = zip(self.low, self.high, other.low, other.high, strict=True)
        dtype = np.dtype(np.float64)
        return all(a <= _up(d, reach, dtype) and c <= _up(b, reach, dtype) for a, b, c, d in ends)


def _up(value: float, reach: float, dtype: Any) -> Any:
    """Return value + reach, rounded up in the dtype of the rows, in which it is compared."""
    with np.errstate(over="ignore"):
        exact = np.nextafter(np.float64(value) + reach, np.inf)
        rounded = dtype.type(exact)
        return rounded if rounded >= exact else np.nextafter(rounded, dtype.type(np.inf))


def _down(value: float, reach: float, dtype: Any) -> Any:
    return -_up(-value, reach, dtype)


# ---- cuts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """A box that is cut in two, each of which may be cut again."""

    axis: int
    value: float  # of the dtype of the rows
    below: Cut | Box
    above: Cut | Box


class Sample:
    """Rows drawn at about equal distances, at most twice `size` at a time, and how many rows each stands for."""

    def __init__(self, size: int) -> None:
        self._size, self._step, self._parts = size, 1, list[NDArray[Any]]()
        self._random = np.random.default_rng(0)  # decides how much is in memory, and no label

    def add(self, points: NDArray[Any]) -> None:
        """Draw from some more rows."""
        drawn = np.arange(0, len(points), self._step)
        drawn = drawn + self._random.integers(self._step, size=len(drawn))
        self._parts.append(points[drawn[drawn < len(points)]])
        while sum(map(len, self._parts)) > 2 * self._size:
            self._parts = [np.concatenate(self._parts)[self._random.integers(2) :: 2].copy()]
            self._step *= 2

    def rows(self) -> NDArray[Any]:
        """Return the rows drawn."""
        return np.concatenate(self._parts)


def plan_cuts(sample: NDArray[Any], box: Box, rows: float, room: float, reach: float) -> Cut | Box:
    """Cut a box until each region has room for its rows and a halo of width `reach`, or cannot be cut.

    `sample` are rows of the box and around it, of `rows` altogether. Among some cuts along each axis the one is taken
    that leaves the fewest rows in both halves, halos counted, and halves of about equal size.
    """
    return _cut(sample, box.owns(sample), box, rows / max(len(sample), 1), room, reach)


def _cut(sample: NDArray[Any], own: Bools, box: Box, each: float, room: float, reach: float) -> Cut | Box:
    found = None if len(sample) * each <= room or len(sample) < _FEWEST else _best(sample, own, reach)
    if found is None:
        return box
    axis, value = found
    x = sample[:, axis]
    first, second = x <= _up(value, reach, x.dtype), x >= _down(value, reach, x.dtype)
    below, above = box.cut(axis, float(value))
    return Cut(
        axis,
        float(value),
        _cut(sample[first], (own & (x < value))[first], below, each, room, reach),
        _cut(sample[second], (own & (x >= value))[second], above, each, room, reach),
    )


def _best(sample: NDArray[Any], own: Bools, reach: float) -> tuple[int, Any] | None:
    """Return axis and value of the best cut; None: none leaves much less on each side."""
    best, lowest = None, np.inf
    for axis in range(sample.shape[1]):
        x = np.sort(sample[:, axis])
        values = _candidates(np.sort(sample[own, axis]))
        below = np.searchsorted(x, [_up(value, reach, x.dtype) for value in values], side="right")
        above = len(x) - np.searchsorted(x, [_down(value, reach, x.dtype) for value in values], side="left")
        cost = np.maximum(below, above) * 1.5 + np.minimum(below, above) * 0.5
        cost[np.maximum(below, above) > _PROGRESS * len(x)] = np.inf
        if len(cost) and cost.min() < lowest:
            lowest, best = cost.min(), (axis, values[int(cost.argmin())])
    return best


def _candidates(x: NDArray[Any]) -> NDArray[Any]:
    """Return where sorted values may be cut in two parts: at quantiles and in the widest gaps."""
    if len(x) < 2 or x[0] == x[-1]:
        return x[:0]
    at = np.linspace(0, len(x) - 1, _QUANTILES + 2)[1:-1].astype(np.intp)
    with np.errstate(over="ignore"):
        gaps = np.argsort(np.diff(x))[-_GAPS:]
        middles = x[gaps] / 2 + x[gaps + 1] / 2
    values = np.unique(np.concatenate([x[at], middles]))
    return values[(values > x[0]) & (values <= x[-1])]


def leaves(cuts: Cut | Box) -> list[Box]:
    """Return the boxes that are left, from below to above."""
    return [cuts] if isinstance(cuts, Box) else [*leaves(cuts.below), *leaves(cuts.above)]


def copies(sample: NDArray[Any], cuts: Cut | Box, reach: float) -> int:
    """Return how many rows of a sample the regions have together: those in halos are in several."""
    if isinstance(cuts, Box):
        return len(sample)
    first, second = _sides(sample, cuts, reach)
    return copies(sample[first], cuts.below, reach) + copies(sample[second], cuts.above, reach)


def _sides(points: NDArray[Any], cut: Cut, reach: float) -> tuple[Bools, Bools]:
    """Return which rows are below a cut or in the halo of what is, and which above."""
    x = points[:, cut.axis]
    return x <= _up(cut.value, reach, x.dtype), x >= _down(cut.value, reach, x.dtype)


# ---- rows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """A box, and on scratch its own rows and those of its halo."""

    box: Box
    store: RowStore


def distribute(
    rows: Iterable[NumberedRows], cuts: Cut | Box, reach: float, scratch: Scratch, columns: int, dtype: Any, wait: int
) -> list[Region]:
    """Write each row to its region, and to those whose halo it is in; about `wait` rows wait in memory."""
    boxes = leaves(cuts)
    regions = [Region(box, RowStore(scratch, columns, dtype, wait // len(boxes))) for box in boxes]
    for chunk in rows:
        stores = iter(regions)
        _descend(chunk, cuts, reach, stores)
    for region in regions:
        region.store.flush()
    return regions


def _descend(rows: NumberedRows, cuts: Cut | Box, reach: float, regions: Any) -> None:
    if isinstance(cuts, Box):
        next(regions).store.append(rows)
        return
    below, above = _sides(rows.points, cuts, reach)
    _descend(rows.where(below), cuts.below, reach, regions)
    _descend(rows.where(above), cuts.above, reach, regions)
