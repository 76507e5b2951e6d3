"""The kernels κ(x, y): one class each, with the same methods. This is their frozen interface."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Kernel"]


class Kernel(Protocol):
    """What the kernel methods ask of a kernel: pieces of K and products with it, never K itself."""

    def tile(self, X: NDArray[Any], Y: NDArray[Any]) -> NDArray[np.float64]:
        """Return κ(x_i, y_j) as an (n, m) array; for small blocks."""
        ...

    def diag(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return κ(x_i, x_i) as an (n,) array."""
        ...

    def rows(self, X: NDArray[Any], i: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rows i of K as an (m, n) array."""
        ...

    def apply(self, X: NDArray[Any], B: NDArray[np.float64], threads: int) -> NDArray[np.float64]:
        """Return K B, (n, b), without storing K."""
        ...
