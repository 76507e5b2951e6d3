"""Columns on one footing: x → (x − centre)/spread, column by column, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll.exceptions import InvalidParameter

__all__ = ["KINDS", "Scaling"]

KINDS = ("standard", "robust", "none")
_NORMAL = 1.3489795003921634  # the interquartile range of a Gaussian, in standard deviations
_ROWS = 1 << 16  # at a time


@dataclass(frozen=True)
class Scaling:
    """A centre and a spread for each column.

    "standard": mean and standard deviation. "robust": median and interquartile range, as if of a Gaussian, for columns
    with outliers; the standard deviation where that range is 0. "none": 0 and 1. A constant column has the spread 1.
    """

    kind: str
    centre: NDArray[np.float64]  # (d,)
    spread: NDArray[np.float64]  # (d,), > 0

    @classmethod
    def fit(cls, X: NDArray[Any], kind: str, order: NDArray[np.intp]) -> Scaling:
        """Take centre and spread from the rows, in the order given, so that sums do not depend on that of X."""
        if kind not in KINDS:
            raise InvalidParameter(f"scale must be one of {', '.join(map(repr, KINDS))}, got {kind!r}.")
        d = X.shape[1]
        centre, spread = np.zeros(d), np.ones(d)
        for j in range(d if kind != "none" else 0):
            column = np.asarray(X[order, j], dtype=np.float64)
            largest = np.abs(column).max()
            power = -int(np.frexp(largest)[1]) if largest > 0 else 0  # squares of extreme numbers leave float64
            column = np.ldexp(column, power)
            middle, wide = float(column.mean()), float(column.std())
            if column.min() == column.max():
                middle, wide = float(column[0]), 0.0
            elif kind == "robust":
                low, middle, high = (float(q) for q in np.quantile(column, [0.25, 0.5, 0.75]))
                wide = (high - low) / _NORMAL if high > low else wide
            centre[j] = np.ldexp(middle, -power)
            spread[j] = np.ldexp(wide, -power) if wide > 0 else 1.0
        return cls(kind, centre, spread)

    def apply(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the rows on the common footing, float64 and C-contiguous."""
        out = np.empty(X.shape)
        for begin in range(0, len(X), _ROWS):
            block = slice(begin, begin + _ROWS)
            out[block] = (X[block] - self.centre) / self.spread
        return out

    def undo(self, Z: NDArray[Any]) -> NDArray[np.float64]:
        """Return rows in the original units."""
        return np.asarray(Z, dtype=np.float64) * self.spread + self.centre

    def summary(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"kind": self.kind, "centre": self.centre.tolist(), "spread": self.spread.tolist()}
