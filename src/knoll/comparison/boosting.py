"""Gradient-boosted trees as integer tables: what the judge ships, evaluated without a boosting library.

A figure is replaced by the number of thresholds of its column that it exceeds. A node compares such a code with another
one, and a leaf adds a whole number, so a prediction is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from knoll._typing import Floats, Ints

__all__ = ["UNIT", "Boosted", "encode"]

UNIT = 2.0**-20  # what a leaf counts in


@dataclass(frozen=True)
class Boosted:
    """A sum of trees. Node 0 is the root; a leaf has itself as both children."""

    feature: Ints  # (trees, nodes) the column that a node compares
    code: Ints  # (trees, nodes) go left if the code of the row is at most this
    left: Ints  # (trees, nodes)
    right: Ints  # (trees, nodes)
    value: Ints  # (trees, nodes) of a leaf, in units of 2^-20
    base: int  # the same, of no tree
    depth: int

    def predict(self, codes: Ints) -> Floats:
        """Predict rows of codes, (p, f)."""
        trees = np.arange(len(self.feature))
        row = np.arange(len(codes))[:, None]
        at = np.zeros((len(codes), len(trees)), np.intp)
        for _ in range(self.depth):
            goes_left = codes[row, self.feature[trees, at]] <= self.code[trees, at]
            at = np.where(goes_left, self.left[trees, at], self.right[trees, at])
        total = self.value[trees, at].sum(axis=1, dtype=np.int64) + self.base
        return np.asarray(total * UNIT)

    def arrays(self, name: str) -> dict[str, Any]:
        """Return the tables as named arrays of small integers."""
        nodes = {key: getattr(self, key) for key in ("feature", "code", "left", "right")}
        small = {f"{name}_{key}": array.astype(np.uint8) for key, array in nodes.items()}
        return small | {f"{name}_value": self.value.astype(np.int32), f"{name}_base": np.array([self.base, self.depth])}

    @classmethod
    def from_arrays(cls, tables: Mapping[str, Any], name: str) -> Self:
        """Read what `arrays` returned."""
        nodes = {key: tables[f"{name}_{key}"].astype(np.intp) for key in ("feature", "code", "left", "right")}
        base, depth = (int(number) for number in tables[f"{name}_base"])
        return cls(**nodes, value=tables[f"{name}_value"].astype(np.int64), base=base, depth=depth)


def encode(figures: Floats, thresholds: Floats) -> Ints:
    """Replace each figure by the number of thresholds of its column below it; (f, t) thresholds, padded with ∞."""
    return np.array([np.searchsorted(row, column, "left") for row, column in zip(thresholds, figures.T)], np.intp).T
