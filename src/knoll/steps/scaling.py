"""Extreme data is brought near one by a power of two, which is exact, and the answers are brought back.

A column that has one value everywhere says nothing of distances, however large the value is: it is taken out first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll.steps.blocks import Block
from knoll.steps.sparse import column_ends, dense_rows, is_sparse

__all__ = [
    "ColumnScaling",
    "Part",
    "Scale",
    "affinity_power",
    "as_dtype",
    "is_plain",
    "largest_of",
    "parts",
    "present_rows",
    "scaled",
    "weight_power",
    "without_absent",
]

# Squares of single precision, which fast routes work in, hold 2^±126: with data up to 2^32 and differences down to
# 2^−24 of it, both ends have room.
_NEAR = 32
_NEAR_WEIGHTS = 64  # weights within 2^±64 are left as they are
_NEAR_AFFINITIES = 256  # so are similarities within 2^±256, whose sums and products with degrees stay within float64
_ROWS = 1 << 16  # extreme rows at a time
# Columns within 2^±200 keep their units: what is made of their squares, and of quotients of those, stays in float64.
_ORDINARY = 200
_FARTHEST = 2.0**500  # scaled values beyond this stand for "far out": their squares would leave float64


def largest_of(points: Any) -> float:
    """Return the largest magnitude; not finite as soon as one entry is not."""
    values = points.data if is_sparse(points) else points
    if values.size == 0:
        return 0.0
    return float(np.maximum(np.abs(values.max()), np.abs(values.min())))


def weight_power(largest: float) -> int:
    """Return the power of two by which extreme weights are divided, so that products keep their digits; mostly 0."""
    return _power(largest, _NEAR_WEIGHTS)


def affinity_power(largest: float) -> int:
    """Return the power of two by which extreme similarities are divided, so that degrees stay in float64; mostly 0."""
    return _power(largest, _NEAR_AFFINITIES)


def scaled(points: Any, power: int) -> Any:
    """Return points · 2^power, sparse ones too; beyond float64 they are infinite, or 0."""
    if power == 0:
        return points
    with np.errstate(over="ignore", under="ignore"):
        return _times(points, power)


@dataclass(frozen=True)
class Scale:
    """Points lose `constant`, then are divided by 2^power; weights are divided by 2^weight_power."""

    power: int = 0
    weight_power: int = 0
    constant: tuple[float, ...] | None = None  # for each column the value that all rows have in it, else 0

    @classmethod
    def of(cls, largest: float, largest_weight: float = 1.0) -> Scale:
        """Choose the powers for data of this magnitude; mostly none."""
        return cls(_power(largest, _NEAR), weight_power(largest_weight))

    @classmethod
    def fitting(cls, largest: float, largest_weight: float, blocks: Iterable[Block]) -> Scale:
        """Choose the scale for these blocks, of the given magnitude; extreme ones are looked at, column by column."""
        scale = cls.of(largest, largest_weight)
        if not scale.power:
            return scale
        ends = [column_ends(block.points) for block in blocks]
        low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)  # (d,)
        varies = low < high
        if varies.all() or not high[~varies].any():
            return scale
        largest = float(np.maximum(np.abs(low), np.abs(high))[varies].max(initial=0.0))
        return cls(_power(largest, _NEAR), scale.weight_power, tuple(np.where(varies, 0.0, high).tolist()))

    def block(self, block: Block) -> Block:
        """Scale the rows of a block; float32 becomes float64, which holds whatever it held."""
        points, weights = block
        if self.constant is not None:
            points = _without(points, np.array(self.constant) != 0)
        if self.power:
            points = _times(points, -self.power)
        if self.weight_power and weights is not None:
            weights = np.ldexp(weights, -self.weight_power)
        return Block(points, weights)

    def down(self, centers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale centres as the points are."""
        if self.constant is not None:
            with np.errstate(over="ignore"):
                centers = centers - np.array(self.constant)  # (k, d)
        return np.ldexp(centers, -self.power) if self.power else centers

    def up(self, centers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring centres back."""
        back: NDArray[np.float64] = _quiet(centers, self.power)
        return back if self.constant is None else back + np.array(self.constant)

    def raw(self, points: Any) -> Any:
        """Bring scaled points back, sparse ones too."""
        if not is_sparse(points):
            return self.up(points)
        back = _times(points, self.power) if self.power else points.copy()
        if self.constant is not None:
            back.data += np.array(self.constant)[back.indices]
        return back

    def up_weights(self, weights: Any) -> Any:
        """Bring sums of weights back."""
        return _quiet(weights, self.weight_power)

    def up_squares(self, values: Any) -> Any:
        """Bring weighted squares back; beyond float64 they are infinite."""
        return _quiet(values, 2 * self.power + self.weight_power)

    def up_shifts(self, values: Any) -> Any:
        """Bring squares that bear no weight back."""
        return _quiet(values, 2 * self.power)


# ---- columns, each in a unit of its own ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnScaling:
    """Column j is divided by 2^powers[j]; mostly by 1."""

    powers: NDArray[np.int64]  # (d,)

    @classmethod
    def none(cls, d: int) -> ColumnScaling:
        """Return the scaling that changes nothing."""
        return cls(np.zeros(d, dtype=np.int64))

    @classmethod
    def fitting(cls, low: NDArray[np.float64], high: NDArray[np.float64], unit: float, one_unit: bool) -> ColumnScaling:
        """Choose the powers for columns between `low` and `high` (d,); none unless something is extreme.

        `unit` is a length beside which the columns are measured, such as the root of a variance that is added to
        theirs: a column far below it is brought to 2⁻²⁰⁰ of it, so that its square is still a number. Columns share a
        power unless they are so unlike that the square of the smallest would vanish, and always with `one_unit`. A
        constant column has no size, but its value must stay finite.
        """
        values = np.frexp(np.maximum(-low, high))[1].astype(np.int64)  # (d,)
        varies = high > low
        least = int(np.frexp(unit)[1]) - _ORDINARY if unit > 0 else np.iinfo(np.int64).min
        sizes = np.maximum(values, least)[varies]
        if not len(sizes):
            sizes = np.array([least if least > _ORDINARY else 0])
        common = int(sizes.max())
        if one_unit:
            return cls(np.full_like(values, common if abs(common) > _ORDINARY else 0))
        if common - int(sizes.min()) <= _ORDINARY:
            sizes = np.full_like(sizes, common if abs(common) > _ORDINARY else 0)
        powers = np.full_like(values, sizes.max())
        if varies.any():
            powers[varies] = sizes
        powers[~varies] = np.maximum(powers[~varies], values[~varies] - 2 * _ORDINARY)
        return cls(powers)

    def __bool__(self) -> bool:
        """Tell whether anything is scaled."""
        return bool(self.powers.any())

    @property
    def log_volume(self) -> float:
        """What a log-density of the scaled points has more than that of the points."""
        return int(self.powers.sum()) * math.log(2)

    def down(self, points: NDArray[Any]) -> NDArray[Any]:
        """Scale points; float32 becomes float64. What would leave float64 is far out."""
        if not self:
            return points
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ldexp(points.astype(np.float64), -self.powers)
        return np.clip(scaled, -_FARTHEST, _FARTHEST, out=scaled)

    def up(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring scaled points back; what would leave float64 becomes its largest number."""
        if not self:
            return points
        largest = np.finfo(np.float64).max
        with np.errstate(over="ignore", under="ignore"):
            return np.clip(np.ldexp(points, self.powers), -largest, largest)

    def variance(self, value: float) -> Any:
        """Bring a variance into the units of the scaled columns: one each if they differ."""
        with np.errstate(over="ignore", under="ignore"):
            units = np.ldexp(value, -2 * self.powers)
        return units if (units != units[0]).any() else float(units[0])


def as_dtype(array: NDArray[np.float64], dtype: Any) -> NDArray[Any]:
    """Return the array in the dtype of the data; what would leave float32 becomes its largest number."""
    if array.dtype == dtype:
        return array
    largest = np.finfo(dtype).max
    return np.clip(array, -largest, largest).astype(dtype)


# ---- rows of weight 0 are absent, however large --------------------------------------------------------------------


def present_rows(block: Block) -> Block:
    """Return the rows of weight > 0."""
    if block.weights is None or block.weights.all():
        return block
    here = block.weights > 0
    return Block(block.points[here], block.weights[here])


def without_absent(block: Block, largest: float) -> tuple[Block, float]:
    """Leave rows of weight 0 out where they would change the scale of the others; also say how large those are."""
    points, weights = block
    if weights is None or weights.all():
        return block, largest
    present = float(_row_largest(points)[weights > 0].max())
    return (block, largest) if Scale.of(present) == Scale.of(largest) else (present_rows(block), present)


# ---- rows, each on its own -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Some rows and the centres, both divided by 2^power."""

    rows: Any  # a slice or indices
    points: Any
    centers: NDArray[np.float64]
    power: int


def is_plain(centers: NDArray[np.float64], largest: float) -> bool:
    """Tell whether rows of magnitude up to `largest` need no scale beside these centres."""
    reach = largest_of(centers)
    return reach >= 2.0 ** -(_NEAR + 1) and max(reach, largest) < 2.0**_NEAR


def parts(points: Any, centers: NDArray[np.float64], largest: float) -> Iterator[Part]:
    """Split rows of magnitude up to `largest` by the scale that each needs beside the centres; mostly one part.

    The scale is a function of the row and the centres, so what is said of a row does not depend on the other rows. A
    column where all centres agree is subtracted from an extreme row: the one distance makes the same subtraction.
    """
    if is_plain(centers, largest):
        yield Part(slice(None), points, centers, 0)
        return
    reach = largest_of(centers)
    extent = np.maximum(_row_largest(points), reach)  # (n,)
    near = _row_powers(extent) == 0
    if near.any():
        some = slice(None) if near.all() else np.flatnonzero(near)
        yield Part(some, points[some], centers, 0)
    agreed = np.where((centers == centers[0]).all(axis=0), centers[0], 0.0)  # (d,)
    huge = extent >= 2.0**1000  # a difference may leave float64
    for shrink, group in ((0, np.flatnonzero(~near & ~huge)), (2, np.flatnonzero(~near & huge))):
        origin = np.ldexp(agreed, -shrink)
        about = np.ldexp(centers, -shrink) - origin
        for begin in range(0, len(group), _ROWS):
            rows = group[begin : begin + _ROWS]
            shifted = np.ldexp(dense_rows(points, rows).astype(np.float64), -shrink) - origin
            powers = _row_powers(np.maximum(_row_largest(shifted), largest_of(about)))
            for power in np.unique(powers).tolist():
                here = powers == power
                with np.errstate(under="ignore"):
                    yield Part(
                        rows[here], np.ldexp(shifted[here], -power), np.ldexp(about, -power), int(power) + shrink
                    )


def _row_largest(points: Any) -> NDArray[np.float64]:
    if is_sparse(points):
        return np.asarray(abs(points).max(axis=1).toarray(), dtype=np.float64).ravel()
    return np.maximum(points.max(axis=1), -points.min(axis=1)).astype(np.float64)


def _row_powers(extent: NDArray[np.float64]) -> NDArray[np.int64]:
    """Choose a power of two for each magnitude; only multiples of 32, so that rows share them."""
    exponent = np.frexp(extent)[1].astype(np.int64)
    return np.where((np.abs(exponent) > _NEAR) & (extent > 0), _NEAR * np.rint(exponent / _NEAR).astype(np.int64), 0)


# ---- inside --------------------------------------------------------------------------------------------------------


def _power(largest: float, near: int) -> int:
    power = int(np.frexp(largest)[1])
    return power if abs(power) > near and largest > 0 else 0


def _without(points: Any, columns: NDArray[np.bool_]) -> Any:
    """Copy the points with 0 in some columns."""
    points = points.astype(np.float64)
    if is_sparse(points):
        points.data[columns[points.indices]] = 0.0
    else:
        points[:, columns] = 0.0
    return points


def _times(points: Any, power: int) -> Any:
    if is_sparse(points):
        scaled = points.astype(np.float64)
        scaled.data = np.ldexp(scaled.data, power)
        return scaled
    return np.ldexp(points.astype(np.float64, copy=False), power)


def _quiet(values: Any, power: int) -> Any:
    if power == 0:
        return values
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(values, power)
