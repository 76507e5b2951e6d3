"""Extreme numbers are brought near one by a power of two, which is exact, and the results are brought back.

What may share a power depends on what is computed, so there are several variants:

    Scale             one power for all points, one for all weights: distances are compared with each other (k-means)
    DistanceScaling   one power for points and a radius, which a far start may leave (DBSCAN, Mean Shift)
    ColumnScaling     one power per column: a Gaussian's likelihood does not depend on the columns' units (mixtures)
    by_scale          one power per row, so that a label does not depend on the other rows of a call (k-means' predict)
    with_headroom     one power for points whose differences would overflow; the core copes with their squares (scales)
    weights           one power for all: `weight_power` and, for similarities, `affinity_power` leave ordinary values as
                      they are; `near_one` always scales, for values that are multiplied many times (kernel k-means);
                      `summable` scales no more than a sum within float64 requires (Mean Shift)

A column with one value everywhere does not affect distances, however large the value is: `Scale` removes it first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.blocks import Block
from knoll._common.sparse import column_ends, dense_rows, is_sparse
from knoll._typing import Bools, Floats, Ints
from knoll.exceptions import BadData

__all__ = [
    "ColumnScaling",
    "DistanceScaling",
    "Scale",
    "ScaledRows",
    "affinity_power",
    "as_dtype",
    "by_scale",
    "cast_in_range",
    "directions",
    "is_plain",
    "largest_of",
    "near_one",
    "present_rows",
    "row_largest",
    "scaled",
    "summable",
    "unscaled",
    "weight_power",
    "with_headroom",
    "without_absent",
    "without_headroom",
]

# Squares of single precision, which fast routes work in, reach 2^±126: with data up to 2^32 and differences down to
# 2^−24 of it, neither end is reached.
_NEAR = 32
_NEAR_WEIGHTS = 64  # weights within 2^±64 are left as they are
_HEAVY_WEIGHTS = (
    500  # exponent of the largest weight beside extreme data: sums of products w·x and w·x² stay in float64
)
_NEAR_AFFINITIES = 256  # so are similarities within 2^±256, whose sums and products with degrees stay within float64
_ROWS = 1 << 16  # extreme rows at a time
# Columns within 2^±200 keep their units: what is made of their squares, and of quotients of those, stays in float64.
_ORDINARY = 200
_FARTHEST = 2.0**500  # scaled values beyond this stand for "far out": their squares would leave float64
_SQUARES = 480  # squares of numbers within 2^±480, and their sums over columns, are within float64
_MOST = float(np.finfo(np.float64).max)
_FAR = 500  # a start beyond 2^500 is brought there: it is off the points, and further than any radius
_COVERS = 60  # a radius of 2^60 times the largest coordinate holds all points or none, wherever its centre is
_HEAVIEST = 500  # under a Gaussian, the largest exponent of a weight: the core's limit
_LIGHTEST = 1500  # and how far below it the smallest may be
_HEADROOM = 50  # bits between scaled coordinates and the largest float64: for differences and sums over columns


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


def near_one(values: Floats) -> tuple[Floats, int]:
    """Divide values >= 0 by a power of two so that the largest is within [½, 1); also return the power."""
    power = int(np.frexp(values.max(initial=0.0))[1])
    return np.ldexp(values, -power), power


def summable(weights: Floats | None, gaussian: bool, owner: str) -> tuple[Floats | None, int]:
    """Divide weights > 0 by a power of two so that their sum is within float64; also return the power, mostly 0.

    Under a Gaussian kernel, products of weights and kernel values must be within float64, too.
    """
    if weights is None:
        return None, 0
    heaviest, lightest = (int(np.frexp(w)[1]) for w in (weights.max(), weights.min()))
    if not gaussian:  # sums of products are exact, whatever the weights
        power = max(0, heaviest + len(weights).bit_length() - 1023)
    elif heaviest - lightest > _LIGHTEST:
        raise BadData(
            f"{owner}: the sample weights go from {weights.min():.3g} to {weights.max():.3g}: no float64 holds the "
            "Gaussian sums of both. Give weights of less different size, or 0 to rows that should not count."
        )
    else:
        power = heaviest - _HEAVIEST if heaviest > _HEAVIEST or lightest < -900 else 0
    return (np.maximum(np.ldexp(weights, -power), 5e-324) if power else weights), power


def with_headroom(points: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Divide points near the end of float64 by a power of two, so that differences are within it; mostly by 1."""
    if max(abs(float(points.min())), abs(float(points.max()))) < 2.0**1000:
        return points, 0
    return np.ldexp(np.asarray(points, dtype=np.float64), -_HEADROOM), _HEADROOM


def without_headroom(distances: Floats, power: int) -> Floats:
    """Bring distances back; refuse those that float64 cannot hold."""
    if power == 0:
        return distances
    with np.errstate(over="ignore"):
        unscaled: Floats = np.ldexp(distances, power)
    if (np.isfinite(distances) & np.isinf(unscaled)).any():
        raise BadData("Distances between rows of X are larger than the largest float64, 1.8e308. Divide X by 1e10.")
    return unscaled


def unscaled(values: Any, power: int) -> Any:
    """Bring a result back: values · 2^power; beyond float64 it is infinite, or 0."""
    if power == 0:
        return values
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(values, power)


def scaled(points: Any, power: int) -> Any:
    """Return points · 2^power, sparse ones too; beyond float64 they are infinite, or 0."""
    if power == 0:
        return points
    with np.errstate(over="ignore", under="ignore"):
        return _times(points, power)


def directions(points: Any) -> Any:
    """Divide each extreme row by a power of two of its own: its direction is the same, and its norm is in float64."""
    power = -_row_powers(row_largest(points))
    if not power.any():
        return points
    with np.errstate(under="ignore"):
        if not is_sparse(points):
            return np.ldexp(points, power[:, None])
        scaled = points.copy()
        scaled.data = np.ldexp(points.data, np.repeat(power, np.diff(points.indptr)))
        return scaled


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
        """Choose the scale for these blocks, of this magnitude; extreme ones are examined column by column."""
        scale = cls.of(largest, largest_weight)
        if not scale.power:
            return scale
        weighted, ends = False, []
        for block in blocks:
            weighted |= block.weights is not None
            ends.append(column_ends(block.points))
        if weighted:  # light rows have small entries beside the largest of others: their products keep their digits
            scale = cls(scale.power, int(np.frexp(largest_weight)[1]) - _HEAVY_WEIGHTS)
        low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)  # (d,)
        varies = low < high
        if varies.all() or not varies.any() or not high[~varies].any():
            return scale  # where nothing varies the unit is that of the values: a given start is measured by it
        largest = float(np.maximum(np.abs(low), np.abs(high))[varies].max())
        return cls(_power(largest, _NEAR), scale.weight_power, tuple(np.where(varies, 0.0, high).tolist()))

    def block(self, block: Block) -> Block:
        """Scale the rows of a block; float32 becomes float64, which is exact."""
        points, weights = block
        if self.constant is not None:
            points = _without(points, np.array(self.constant) != 0)
        if self.power:
            points = _times(points, -self.power)
        if self.weight_power:
            weights = np.ldexp(np.ones(points.shape[0]) if weights is None else weights, -self.weight_power)
        return Block(points, weights)

    def down(self, centers: Floats) -> Floats:
        """Scale centres as the points are; far from the points they may be infinite."""
        if self.constant is not None:
            with np.errstate(over="ignore"):
                centers = centers - np.array(self.constant)  # (k, d)
        down: Floats = unscaled(centers, -self.power)
        return down

    def up(self, centers: Floats) -> Floats:
        """Bring centres back."""
        back: Floats = unscaled(centers, self.power)
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
        return unscaled(weights, self.weight_power)

    def up_squares(self, values: Any) -> Any:
        """Bring weighted squares back; beyond float64 they are infinite."""
        return unscaled(values, 2 * self.power + self.weight_power)

    def up_shifts(self, values: Any) -> Any:
        """Bring squares without a weight back."""
        return unscaled(values, 2 * self.power)


# ---- points and a radius --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistanceScaling:
    """A power of two that brings coordinates and a radius to where their squares neither overflow nor underflow.

    A radius ε ≥ 2^60·max|X| covers all points, and any other such radius gives the same means. It is divided by
    2^shrink, down to 2^60·max|X|, so that the power is chosen for the points. A start y far outside of them shrinks
    alike: then y − x rounds to y for all x, so ‖y − x‖ ≤ ε before and after.
    """

    power: int
    shrink: int = 0
    extent: int = 0  # all coordinates of the points are below 2^extent
    far: int = _FAR

    @classmethod
    def of(cls, points: NDArray[np.floating], eps: float, owner: str, name: str = "bandwidth") -> DistanceScaling:
        """Choose the powers for points and a radius: none, unless something is near a limit."""
        if eps == 0:
            return cls(0, far=2048)  # equal rows are found by content
        largest = float(max(abs(float(points.min())), abs(float(points.max()))))
        radius = math.frexp(eps)[1]
        extent = math.frexp(largest)[1] if largest > 0 else radius - _COVERS
        shrink = max(0, radius - extent - _COVERS)
        reach = radius - shrink
        top = max(reach, extent)
        power = 0 if reach >= -_SQUARES and top <= _SQUARES else _SQUARES - top
        if reach + power < -_SQUARES:
            raise BadData(
                f"{owner}: float64 cannot hold the squares of both |X| up to {largest:.3g} and {name}={eps:.3g}. "
                f"Drop the far rows, or take a larger {name}."
            )
        return cls(power, shrink, extent)

    def radius(self, eps: float) -> float:
        """Scale the radius."""
        return math.ldexp(eps, self.power - self.shrink)

    def down(self, points: NDArray[np.floating]) -> Floats:
        """Scale points: (n, d) float64, row after row."""
        plain: Floats = np.ascontiguousarray(points, dtype=np.float64)
        return np.ldexp(plain, self.power) if self.power else plain

    def starts(self, points: NDArray[np.floating]) -> Floats:
        """Scale starts of paths; they may be far from the points, and keep their direction."""
        plain: Floats = np.ascontiguousarray(points, dtype=np.float64)
        size = np.frexp(np.abs(plain).max(axis=1))[1]  # (m,)
        power = np.where(size > self.extent + 2, self.power - self.shrink, self.power)
        power = np.minimum(power, self.far - size)
        return np.ldexp(plain, power[:, None]) if power.any() else plain

    def up(self, points: Floats) -> Floats:
        """Bring points back; a mean of the largest doubles, which may be rounded above them, is one of them."""
        if not self.power:
            return points
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(points, -self.power), -_MOST, _MOST)


# ---- columns, each in a unit of its own ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnScaling:
    """Column j is divided by 2^powers[j]; mostly by 1."""

    powers: Ints  # (d,)

    @classmethod
    def none(cls, d: int) -> ColumnScaling:
        """Return the scaling that changes nothing."""
        return cls(np.zeros(d, dtype=np.int64))

    @classmethod
    def fitting(cls, low: Floats, high: Floats, unit: float, one_unit: bool) -> ColumnScaling:
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
        """Return whether anything is scaled."""
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

    def up(self, points: Floats) -> Floats:
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


def cast_in_range(array: Floats, dtype: Any) -> NDArray[Any]:
    """Return the array in the dtype of the data, or as it is where an entry would leave the range of float32."""
    with np.errstate(over="ignore", under="ignore"):
        cast = array.astype(dtype)
    tiny = np.abs(array) < np.finfo(dtype).tiny
    return cast if np.isfinite(cast).all() and not (tiny & (array != 0)).any() else array


def as_dtype(array: Floats, dtype: Any) -> NDArray[Any]:
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
    """Leave rows of weight 0 out where they would change the scale of the others; also say how large those are.

    Extreme data is scaled by what its columns hold (`Scale.fitting`), to which such a row must not add a value.
    """
    points, weights = block
    if weights is None or weights.all():
        return block, largest
    present = float(row_largest(points)[weights > 0].max())
    plain = Scale()
    return (block, largest) if Scale.of(present) == Scale.of(largest) == plain else (present_rows(block), present)


# ---- rows, each on its own -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScaledRows:
    """A subset of the rows and the centres, both divided by 2^power."""

    rows: Any  # a slice or indices
    points: Any
    centers: Floats
    power: int


def is_plain(centers: Floats, largest: float) -> bool:
    """Return whether rows of magnitude up to `largest` need no scale beside these centres."""
    reach = largest_of(centers)
    return reach >= 2.0 ** -(_NEAR + 1) and max(reach, largest) < 2.0**_NEAR


def by_scale(points: Any, centers: Floats, largest: float) -> Iterator[ScaledRows]:
    """Group rows of magnitude up to `largest` by the scale that each needs beside the centres; mostly one group.

    The scale is a function of the row and the centres, so the result for a row does not depend on the other rows. A
    column where all centres agree is subtracted from an extreme row: the one distance makes the same subtraction.
    """
    if is_plain(centers, largest):
        yield ScaledRows(slice(None), points, centers, 0)
        return
    reach = largest_of(centers)
    extent = np.maximum(row_largest(points), reach)  # (n,)
    near = _row_powers(extent) == 0
    if near.any():
        plain = slice(None) if near.all() else np.flatnonzero(near)
        yield ScaledRows(plain, points[plain], centers, 0)
    agreed = np.where((centers == centers[0]).all(axis=0), centers[0], 0.0)  # (d,)
    huge = extent >= 2.0**1000  # a difference may leave float64
    for shrink, group in ((0, np.flatnonzero(~near & ~huge)), (2, np.flatnonzero(~near & huge))):
        origin = np.ldexp(agreed, -shrink)
        about = np.ldexp(centers, -shrink) - origin
        for begin in range(0, len(group), _ROWS):
            rows = group[begin : begin + _ROWS]
            shifted = np.ldexp(dense_rows(points, rows).astype(np.float64), -shrink) - origin
            powers = _row_powers(np.maximum(row_largest(shifted), largest_of(about)))
            for power in np.unique(powers).tolist():
                here = powers == power
                with np.errstate(under="ignore"):
                    yield ScaledRows(
                        rows[here], np.ldexp(shifted[here], -power), np.ldexp(about, -power), int(power) + shrink
                    )


def row_largest(points: Any) -> NDArray[np.float64]:
    """Return the largest magnitude of each row."""
    if is_sparse(points):
        return np.asarray(abs(points).max(axis=1).toarray(), dtype=np.float64).ravel()
    return np.maximum(points.max(axis=1), -points.min(axis=1)).astype(np.float64)


def _row_powers(extent: Floats) -> Ints:
    """Choose a power of two for each magnitude; only multiples of 32, so that rows share them."""
    exponent = np.frexp(extent)[1].astype(np.int64)
    return np.where((np.abs(exponent) > _NEAR) & (extent > 0), _NEAR * np.rint(exponent / _NEAR).astype(np.int64), 0)


# ---- inside --------------------------------------------------------------------------------------------------------


def _power(largest: float, near: int) -> int:
    power = int(np.frexp(largest)[1])
    return power if abs(power) > near and largest > 0 else 0


def _without(points: Any, columns: Bools) -> Any:
    """Copy the points with 0 in these columns."""
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
