"""Extreme data is brought near one by a power of two, which is exact, and the answers are brought back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll.steps.blocks import Block
from knoll.steps.sparse import is_sparse

__all__ = ["Scale", "largest_of"]

# Squares of single precision, which fast routes work in, hold 2^±126: with data up to 2^32 and differences down to
# 2^−24 of it, both ends have room.
_NEAR = 32


def largest_of(points: Any) -> float:
    """Return the largest magnitude; not finite as soon as one entry is not."""
    values = points.data if is_sparse(points) else points
    if values.size == 0:
        return 0.0
    return float(np.maximum(np.abs(values.max()), np.abs(values.min())))


@dataclass(frozen=True)
class Scale:
    """Points are divided by 2^power, weights by 2^weight_power."""

    power: int = 0
    weight_power: int = 0

    @classmethod
    def of(cls, largest: float, largest_weight: float = 1.0) -> Scale:
        """Choose the powers for data of this magnitude; mostly none."""
        return cls(_power(largest, _NEAR), _power(largest_weight, 64))

    def block(self, block: Block) -> Block:
        """Scale the rows of a block; float32 becomes float64, which holds whatever it held."""
        points, weights = block
        if self.power:
            points = _times(points, -self.power)
        if self.weight_power and weights is not None:
            weights = np.ldexp(weights, -self.weight_power)
        return Block(points, weights)

    def down(self, centers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale centres as the points are."""
        return np.ldexp(centers, -self.power) if self.power else centers

    def up(self, centers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring centres, or distances, back."""
        back: NDArray[np.float64] = _quiet(centers, self.power)
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


def _power(largest: float, near: int) -> int:
    power = int(np.frexp(largest)[1])
    return power if abs(power) > near and largest > 0 else 0


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
