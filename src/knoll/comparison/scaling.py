"""Columns on one footing: x → (x − centre)/spread, column by column, and back.

The measuring and the arithmetic are those of `knoll.models.Preparation`, which model files keep, so that
`knoll predict` does to new rows, bit by bit, what the comparison did to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Floats
from knoll.models import Preparation

__all__ = ["Scaling"]


@dataclass(frozen=True)
class Scaling:
    """A preparation, with its numbers as arrays."""

    preparation: Preparation

    @classmethod
    def fit(cls, X: NDArray[Any], columns: Sequence[str], kind: str) -> Scaling:
        """Take centre and spread from the rows, whatever their order."""
        return cls(Preparation.fit(X, columns, scale=kind))

    @property
    def kind(self) -> str:
        """The name of the scale: "standard", "robust" or "none"."""
        return self.preparation.scale

    @property
    def centre(self) -> Floats:
        """What is taken off, (d,)."""
        return np.array(self.preparation.center)

    @property
    def spread(self) -> Floats:
        """What is divided by, (d,), > 0."""
        return np.array(self.preparation.spread)

    def apply(self, X: NDArray[Any]) -> Floats:
        """Return the rows on the common footing, float64 and C-contiguous."""
        return np.ascontiguousarray(self.preparation.apply(X))

    def undo(self, Z: NDArray[Any]) -> Floats:
        """Return rows in the original units."""
        return np.asarray(Z, dtype=np.float64) * self.spread + self.centre

    def summary(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"kind": self.kind, "centre": self.centre.tolist(), "spread": self.spread.tolist()}
