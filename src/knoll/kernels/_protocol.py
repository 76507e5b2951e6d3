"""What a kernel κ(x, y) is to the methods that use one: pieces of K and products with it, never K itself."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from knoll.kernel_matrix import Operator

__all__ = ["Kernel"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@runtime_checkable
class Kernel(Protocol):
    """What the kernel methods ask of a kernel."""

    @property
    def name(self) -> str:
        """The name under which an estimator takes it."""
        ...

    @property
    def positive_semidefinite(self) -> bool | None:
        """Whether every K it makes is positive semi-definite; None: not known."""
        ...

    def tile(self, X: Any, Y: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, y_j) as an (n, m) array; for small blocks."""
        ...

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, x_i) as an (n,) array."""
        ...

    def rows(self, X: Any, i: Rows, threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        ...

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, (n, b), without storing K."""
        ...

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows."""
        ...
