"""Extreme numbers are brought near one by a power of two before a family computes, and its results are brought back.

Multiplying by a power of two is exact, so ordinary data, which is left as it is, and the same data times 2^600 give the
same digits. No other module of the package takes numbers apart by `frexp` or puts them together by `ldexp`. What a
family may request:

    points            `Rescaling.down` and `up`, dense or sparse. All columns share one exponent where distances are
                      compared (k-means, scales, silhouettes). Each has its own where units do not matter: the
                      likelihood of a Gaussian (`by_column`).
    constant columns  A column with one value everywhere does not affect distances, however large the value is:
                      `fitting` subtracts it before it chooses the exponent.
    weights           share one exponent, `weight_exponent`; ordinary ones are left as they are.
    blocks            `fitting` takes any number of blocks, and `Rescaling.block` rescales one.
    other quantities  `to_units` and `from_units` know them by their dimension, lengthᵃ·weightᵇ: a kernel's width and ε
                      are lengths, variances are squared lengths, an inertia is a squared length times a weight.
    a radius          `RadiusRescaling` fits points and a radius together, whose squares are compared (DBSCAN, Mean
                      Shift); one that covers all points is reduced, since otherwise no exponent would fit both.
    rows              `by_scale` chooses an exponent for each row beside the centres, so that a label does not depend
                      on the other rows of a call (k-means' predict); `directions` one for each row alone (cosines).
    plain numbers     `exponent_of`, `power_below`, `times_power`, `near_one`: for sums and similarities in a function.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll._common.blocks import Block
from knoll._common.sparse import column_ends, dense_rows, is_sparse
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData

# Squares of single precision, which fast routes work in, reach 2^±126: with data up to 2^32 and differences down to
# 2^−24 of it, neither end is reached.
_NEAR = 32
_NEAR_WEIGHTS = 64  # weights within 2^±64 are left as they are
# exponent of the largest weight beside extreme data: sums of products w·x and w·x² stay in float64
HEAVY_WEIGHTS = 500
_NEAR_AFFINITIES = 256  # similarities within 2^±256 are left: their sums and products with degrees stay within float64
_ROWS = 1 << 16  # extreme rows at a time
# Columns within 2^±200 keep their units: what is made of their squares, and of quotients of those, stays in float64.
_ORDINARY = 200
_SQUARES = 480  # squares of numbers within 2^±480, and their sums over columns, are within float64
_FAR = 500  # rescaled values beyond 2^±500 stand for "far out": their squares would leave float64
_MOST = float(np.finfo(np.float64).max)
_COVERS = 60  # a radius of 2^60 times the largest coordinate holds all points or none, wherever its centre is


# ---- numbers -------------------------------------------------------------------------------------------------------


def largest_of(values: Any) -> float:
    """Return the largest magnitude, 0 of nothing; not finite as soon as one entry is not."""
    values = values.data if is_sparse(values) else np.asarray(values)
    if values.size == 0:
        return 0.0
    return float(np.maximum(np.abs(values.max()), np.abs(values.min())))


def exponent_of(values: Any) -> int:
    """Return the least exponent such that all magnitudes are below 2^exponent; 0 where all are 0."""
    return math.frexp(values)[1] if isinstance(values, float | int) else int(np.frexp(largest_of(values))[1])


def exponents_of(values: ArrayLike) -> Ints:
    """Return the exponent of each number."""
    return np.frexp(values)[1].astype(np.int64)


def extreme_exponent(largest: float, ordinary: int) -> int:
    """Return the exponent of a magnitude; 0 where it is within 2^±ordinary."""
    exponent = exponent_of(largest)
    return exponent if abs(exponent) > ordinary else 0


def weight_exponent(largest: float) -> int:
    """Return the exponent by which extreme weights are divided, so that products keep their digits; mostly 0."""
    return extreme_exponent(largest, _NEAR_WEIGHTS)


def affinity_exponent(values: Any) -> int:
    """Return the exponent by which extreme similarities are divided, so that degrees stay in float64; mostly 0."""
    return extreme_exponent(largest_of(values), _NEAR_AFFINITIES)


def product_exponent(points: Any) -> int:
    """Return the exponent by which tiny points are divided, so that their products keep their digits; mostly 0."""
    return min(0, extreme_exponent(largest_of(points), _NEAR_AFFINITIES // 2))


def _is_nonzero(exponent: int | Ints) -> bool:
    return exponent != 0 if isinstance(exponent, int) else bool(np.any(exponent))


def times_power(values: Any, exponent: Any, out: Any = None) -> Any:
    """Return values · 2^exponent, the values themselves where that is 0; beyond float64 they are infinite, or 0.

    A sparse matrix has one exponent, or one for each stored entry. Weights that are None stay None.
    """
    if values is None or not _is_nonzero(exponent):
        return values
    exponent = np.asarray(exponent, dtype=np.intc)  # the one integer type that every platform has a loop for
    with np.errstate(over="ignore", under="ignore"):
        if not is_sparse(values):
            multiple = np.ldexp(values, exponent, out=out)
            # a Python number, whose operations overflow without a warning
            return float(multiple) if isinstance(multiple, float) else multiple
        multiple = values.astype(np.float64)
        multiple.data = np.ldexp(multiple.data, exponent)
        return multiple


def power_below(value: float) -> float:
    """Return the largest power of two ≤ value; 1 where value is 0 or infinite."""
    return math.ldexp(1.0, math.frexp(value)[1] - 1) if 0 < value < math.inf else 1.0


def near_one(values: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Divide by a power of two so that the largest magnitude is within [½, 1): a new array, and the exponent."""
    exponent = exponent_of(values)
    with np.errstate(under="ignore"):
        return np.ldexp(values, -exponent), exponent


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


# ---- points and what has their units -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rescaling:
    """Points lose `constant`, then are divided by 2^exponent; weights are divided by 2^weight_exponent. Mostly by 1."""

    exponent: int | Ints = 0  # of all columns, or (d,)
    weight_exponent: int = 0
    constant: Floats | None = None  # (d,) for each column the value that all rows have in it, else 0

    @classmethod
    def fitting(cls, largest: float, largest_weight: float, blocks: Iterable[Block]) -> Self:
        """Choose one exponent for these blocks, of this magnitude; extreme ones are examined column by column."""
        exponent, of_weights = extreme_exponent(largest, _NEAR), weight_exponent(largest_weight)
        if not exponent:
            return cls(0, of_weights)
        weighted, ends = False, []
        for block in blocks:
            weighted |= block.weights is not None
            ends.append(column_ends(block.points))
        if weighted:  # light rows have small entries beside the largest of others: their products keep their digits
            of_weights = exponent_of(largest_weight) - HEAVY_WEIGHTS
        low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)  # (d,)
        varies = low < high
        if varies.all() or not varies.any() or not high[~varies].any():
            return cls(exponent, of_weights)  # where nothing varies the unit is that of the values, and of a start
        largest = max(largest_of(low[varies]), largest_of(high[varies]))
        return cls(extreme_exponent(largest, _NEAR), of_weights, np.where(varies, 0.0, high))

    @classmethod
    def by_column(cls, low: Floats, high: Floats, unit: float, one_unit: bool) -> Self:
        """Choose an exponent for each column between `low` and `high` (d,); 0 unless something is extreme.

        `unit` is a length beside which the columns are measured, such as the root of a variance that is added to
        theirs: a column far below it is brought to 2⁻²⁰⁰ of it, so that its square is still a number. Columns share an
        exponent unless they are so unlike that the square of the smallest would vanish, and always with `one_unit`. A
        constant column has no size, but its value must stay finite.
        """
        values, varies = exponents_of(np.maximum(-low, high)), high > low  # (d,)
        least = exponent_of(unit) - _ORDINARY if unit > 0 else np.iinfo(np.int64).min
        sizes = np.maximum(values, least)[varies]
        if not len(sizes):
            sizes = np.array([least if least > _ORDINARY else 0])
        common = int(sizes.max())
        if one_unit or common - int(sizes.min()) <= _ORDINARY:
            common = common if abs(common) > _ORDINARY else 0
            sizes = np.full_like(sizes, common)
        exponents = np.full_like(values, common)
        if one_unit:
            return cls(exponents)
        if varies.any():
            exponents[varies] = sizes
        exponents[~varies] = np.maximum(exponents[~varies], values[~varies] - 2 * _ORDINARY)
        return cls(exponents)

    def __bool__(self) -> bool:
        """Return whether anything is changed."""
        return _is_nonzero(self.exponent) or self.weight_exponent != 0 or self.constant is not None

    def columns(self, d: int) -> Ints:
        """Return the exponent of each column, (d,)."""
        return np.broadcast_to(np.asarray(self.exponent, dtype=np.int64), d)

    @property
    def log_volume(self) -> float:
        """What a log-density of the rescaled points has more than that of the points."""
        return int(np.sum(self.exponent)) * math.log(2)

    def down(self, points: Any) -> Any:
        """Rescale points, sparse ones too; float32 becomes float64. What would leave float64 is far out, at ±2^500."""
        if self.constant is not None:
            points = _plus(points, -self.constant)
        if not _is_nonzero(self.exponent):
            return points
        return _clipped(times_power(points.astype(np.float64, copy=False), -self.exponent), 2.0**_FAR)

    def up(self, points: Any) -> Any:
        """Bring points back; what would leave float64, such as a rounded mean, becomes its largest number."""
        if _is_nonzero(self.exponent):
            points = _clipped(times_power(points.astype(np.float64, copy=False), self.exponent), _MOST)
        return points if self.constant is None else _plus(points, self.constant)

    def block(self, block: Block) -> Block:
        """Rescale the rows of a block and their weights."""
        weights = block.weights
        if self.weight_exponent and weights is None:
            weights = np.ones(block.points.shape[0])
        return Block(self.down(block.points), times_power(weights, -self.weight_exponent))

    def to_units(self, values: Any, *, length: int = 0, weight: int = 0) -> Any:
        """Rescale a quantity of the dimension length^length · weight^weight: one for each column if they differ."""
        return times_power(values, -length * self._common - weight * self.weight_exponent)

    def from_units(self, values: Any, *, length: int = 0, weight: int = 0) -> Any:
        """Bring such a quantity back; beyond float64 it is infinite, or 0."""
        return times_power(values, length * self._common + weight * self.weight_exponent)

    @property
    def _common(self) -> Any:
        """The exponent, one number where all columns have the same."""
        if isinstance(self.exponent, int):
            return self.exponent
        exponents = np.ravel(self.exponent)
        return int(exponents[0]) if (exponents == exponents[0]).all() else self.exponent


@dataclass(frozen=True, eq=False)
class RadiusRescaling(Rescaling):
    """Brings coordinates and a radius to where their squares neither overflow nor underflow.

    A radius ε ≥ 2^60·max|X| covers all points, and any other such radius gives the same means. It is divided by
    2^shrink, down to 2^60·max|X|, so that the exponent is chosen for the points. A start y far outside of them shrinks
    alike: then y − x rounds to y for all x, so ‖y − x‖ ≤ ε before and after.
    """

    shrink: int = 0
    extent: int = 0  # all coordinates of the points are below 2^extent
    far: int = _FAR  # a start beyond 2^far is brought there: it is off the points, and further than any radius

    @classmethod
    def of(cls, points: NDArray[np.floating], eps: float, owner: str, name: str = "bandwidth") -> Self:
        """Choose the exponents for points and a radius: 0, unless something is near a limit."""
        if eps == 0:
            return cls(far=2048)  # equal rows are found by content
        largest, radius = largest_of(points), exponent_of(eps)
        extent = exponent_of(largest) if largest > 0 else radius - _COVERS
        shrink = max(0, radius - extent - _COVERS)
        reach = radius - shrink
        top = max(reach, extent)
        exponent = 0 if reach >= -_SQUARES and top <= _SQUARES else top - _SQUARES
        if reach - exponent < -_SQUARES:
            raise BadData(
                f"{owner}: float64 cannot hold the squares of both |X| up to {largest:.3g} and {name}={eps:.3g}. "
                f"Drop the far rows, or take a larger {name}."
            )
        return cls(exponent, shrink=shrink, extent=extent)

    def radius(self, eps: float) -> float:
        """Rescale the radius."""
        return float(times_power(eps, -self.exponent - self.shrink))

    def down(self, points: Any) -> Any:
        """Rescale points: (n, d) float64, row after row."""
        return np.ascontiguousarray(super().down(points), dtype=np.float64)

    def starts(self, points: NDArray[np.floating]) -> Floats:
        """Rescale starts of paths; they may be far from the points, and keep their direction."""
        plain: Floats = np.ascontiguousarray(points, dtype=np.float64)
        if not self.exponent and exponent_of(plain) <= min(self.extent + 2, self.far):
            return plain  # no row is far: what follows would find the exponent 0 for each
        size = exponents_of(row_largest(plain))  # (m,)
        exponent = np.where(size > self.extent + 2, self.exponent + self.shrink, self.exponent)
        rescaled: Floats = times_power(plain, -np.maximum(exponent, size - self.far)[:, None])
        return rescaled


# ---- rows of weight 0 are absent, however large --------------------------------------------------------------------


def is_extreme(*largest: float) -> bool:
    """Return whether `Rescaling.fitting` would rescale points of one of these magnitudes."""
    return any(extreme_exponent(each, _NEAR) for each in largest)


def present_rows(block: Block) -> Block:
    """Return the rows of weight > 0."""
    if block.weights is None or block.weights.all():
        return block
    here = block.weights > 0
    return Block(block.points[here], block.weights[here])


def without_absent(block: Block, largest: float) -> tuple[Block, float]:
    """Leave rows of weight 0 out where they would change the scale of the others; also return how large those are.

    Extreme data is rescaled by what its columns hold (`Rescaling.fitting`), to which such a row must not add a value.
    """
    points, weights = block
    if weights is None or weights.all():
        return block, largest
    present = float(row_largest(points)[weights > 0].max())
    return (present_rows(block), present) if is_extreme(present, largest) else (block, largest)


# ---- rows, each on its own -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RescaledRows:
    """A subset of the rows and the centres, both divided by 2^exponent."""

    rows: Any  # a slice or indices
    points: Any
    centers: Floats
    exponent: int


def is_plain(centers: Floats, largest: float) -> bool:
    """Return whether rows of magnitude up to `largest` need no scale beside these centres."""
    reach = largest_of(centers)
    return reach >= 2.0 ** -(_NEAR + 1) and max(reach, largest) < 2.0**_NEAR


def by_scale(points: Any, centers: Floats, largest: float) -> Iterator[RescaledRows]:
    """Group rows of magnitude up to `largest` by the scale that each needs beside the centres; mostly one group.

    The scale is a function of the row and the centres, so the result for a row does not depend on the other rows. A
    column where all centres agree is subtracted from an extreme row: the one distance makes the same subtraction.
    """
    if is_plain(centers, largest):
        yield RescaledRows(slice(None), points, centers, 0)
        return
    extent = np.maximum(row_largest(points), largest_of(centers))  # (n,)
    near = _row_exponents(extent) == 0
    if near.any():
        plain = slice(None) if near.all() else np.flatnonzero(near)
        yield RescaledRows(plain, points[plain], centers, 0)
    agreed = np.where((centers == centers[0]).all(axis=0), centers[0], 0.0)  # (d,)
    huge = extent >= 2.0**1000  # a difference may leave float64
    for shrink, group in ((0, np.flatnonzero(~near & ~huge)), (2, np.flatnonzero(~near & huge))):
        origin = times_power(agreed, -shrink)
        about = times_power(centers, -shrink) - origin
        for begin in range(0, len(group), _ROWS):
            rows = group[begin : begin + _ROWS]
            shifted = times_power(dense_rows(points, rows).astype(np.float64), -shrink) - origin
            exponents = _row_exponents(np.maximum(row_largest(shifted), largest_of(about)))
            for exponent in np.unique(exponents).tolist():
                here = exponents == exponent
                yield RescaledRows(
                    rows[here], times_power(shifted[here], -exponent), times_power(about, -exponent), exponent + shrink
                )


def directions(points: Any) -> Any:
    """Divide each extreme row by a power of two of its own: its direction is the same, and its norm is in float64."""
    exponents = _row_exponents(row_largest(points))
    each = np.repeat(exponents, np.diff(points.indptr)) if is_sparse(points) else exponents[:, None]
    return times_power(points, -each)


def row_largest(points: Any) -> Floats:
    """Return the largest magnitude of each row."""
    if is_sparse(points):
        return np.asarray(abs(points).max(axis=1).toarray(), dtype=np.float64).ravel()
    return np.maximum(points.max(axis=1), -points.min(axis=1)).astype(np.float64)


def _row_exponents(extent: Floats) -> Ints:
    """Choose an exponent for each magnitude; only multiples of 32, so that rows share them."""
    exponents = exponents_of(extent)
    return np.where(np.abs(exponents) > _NEAR, _NEAR * np.rint(exponents / _NEAR).astype(np.int64), 0)


# ---- inside --------------------------------------------------------------------------------------------------------


def _plus(points: Any, row: Floats) -> Any:
    """Add a row to the points; of sparse ones to the stored entries, since a constant column has no others."""
    with np.errstate(over="ignore"):
        if not is_sparse(points):
            return points + row
        shifted = points.astype(np.float64)
        shifted.data += row[shifted.indices]
        return shifted


def _clipped(points: Any, most: float) -> Any:
    """Clip new points in place."""
    values = points.data if is_sparse(points) else points
    np.clip(values, -most, most, out=values)
    return points
