"""The kernels that the core computes, tile by tile: Gaussian, Heaviside, polynomial, linear."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.kernel_matrix import CoreOperator, Operator
from knoll.validation import Number, check_parameters

__all__ = ["Gaussian", "Heaviside", "Linear", "Polynomial"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class _InCore(ABC):
    """What the kernels that the core knows have in common; it calls them by `_core_name` and two numbers."""

    _core_name: ClassVar[str]

    @property
    def name(self) -> str:
        """The name under which an estimator takes it."""
        return self._core_name

    @abstractmethod
    def _numbers(self) -> tuple[float, float]: ...

    def tile(self, X: Any, Y: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, y_j) as an (n, m) array; for small blocks."""
        out = np.empty((X.shape[0], Y.shape[0]))
        _core.kernel_tile(X, Y, self._core_name, *self._numbers(), out, threads)
        return out

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, x_i) as an (n,) array."""
        out = np.empty(X.shape[0])
        _core.kernel_diagonal(X, self._core_name, *self._numbers(), out, threads)
        return out

    def rows(self, X: Any, i: Rows, threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        return self.tile(np.ascontiguousarray(X[i]), X, threads)

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, (n, b), without storing K."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows; a Gaussian leaves out pairs farther apart than a `cutoff` > 0."""
        return CoreOperator(self, X, threads, cutoff)


@dataclass(frozen=True)
class Gaussian(_InCore):
    """The Gaussian kernel κ(x, y) = exp(−‖x − y‖² / 2σ²)   (docs/theory/notation.md, eq. 4.8); positive definite.

    Parameters
    ----------
    sigma : float
        The width σ, in the units of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0], [4.0]])
    >>> Gaussian(1.0).tile(X, X).round(3)
    array([[1.   , 0.607, 0.   ],
           [0.607, 1.   , 0.011],
           [0.   , 0.011, 1.   ]])
    """

    sigma: float
    positive_semidefinite: ClassVar[bool | None] = True
    _core_name: ClassVar[str] = "rbf"

    def __post_init__(self) -> None:
        remedy = "knoll.scales.estimate_sigma(X) suggests a value."
        check_parameters("Gaussian", vars(self), {"sigma": (Number(0, strict=True, remedy=remedy),)})

    @classmethod
    def from_gamma(cls, gamma: float) -> Self:
        """Make the kernel exp(−γ‖x − y‖²): σ = 1/√(2γ)."""
        check_parameters("Gaussian", {"gamma": gamma}, {"gamma": (Number(0, strict=True),)})
        return cls(math.sqrt(0.5 / gamma) if gamma >= 1e-300 else math.sqrt(0.5) / math.sqrt(gamma))

    @property
    def gamma(self) -> float:
        """γ = 1/(2σ²)."""
        return 0.5 / self.sigma / self.sigma

    def cutoff(self, n: int) -> float:
        """Return the distance beyond which n values of the kernel do not add up to 2⁻⁵³."""
        return min(self.sigma * math.sqrt(2 * (53 * math.log(2) + math.log(max(n, 1)))), sys.float_info.max)

    def _numbers(self) -> tuple[float, float]:
        return float(self.sigma), 1.0


@dataclass(frozen=True)
class Heaviside(_InCore):
    """The Heaviside kernel: 1 where ‖x − y‖ ≤ ε, else 0 (eq. 5.1); not positive semi-definite.

    Parameters
    ----------
    eps : float
        The radius ε; a distance equal to it is inside.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import Heaviside
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Heaviside(1.0).apply(X, np.ones((3, 1))).ravel()
    array([2., 3., 2.])
    """

    eps: float
    positive_semidefinite: ClassVar[bool | None] = False
    _core_name: ClassVar[str] = "heaviside"

    def __post_init__(self) -> None:
        remedy = "knoll.scales.estimate_eps(X) suggests a value."
        check_parameters("Heaviside", vars(self), {"eps": (Number(0, strict=True, remedy=remedy),)})

    def _numbers(self) -> tuple[float, float]:
        return float(self.eps), 0.0


@dataclass(frozen=True)
class Polynomial(_InCore):
    """The polynomial kernel (xᵀy + c)^b; positive semi-definite, since c ≥ 0 and b is whole.

    Parameters
    ----------
    degree : int, default=3
        b, at least 1.
    coef0 : float, default=1.0
        c, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import Polynomial
    >>> Polynomial(degree=2, coef0=1.0).diag(np.array([[1.0, 1.0], [2.0, 0.0]]))
    array([ 9., 25.])
    """

    degree: int = 3
    coef0: float = 1.0
    positive_semidefinite: ClassVar[bool | None] = True
    _core_name: ClassVar[str] = "poly"

    def __post_init__(self) -> None:
        remedy = "Other polynomials are not positive semi-definite."
        rules = {
            "degree": (Number(1, 64, whole=True, remedy=remedy),),
            "coef0": (Number(0, remedy=remedy),),
        }
        check_parameters("Polynomial", vars(self), rules)

    def _numbers(self) -> tuple[float, float]:
        return float(self.coef0), float(self.degree)


@dataclass(frozen=True)
class Linear(_InCore):
    """The linear kernel xᵀy: feature space is the space of the data; positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import Linear
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> Linear().rows(X, np.array([1]))
    array([[11., 25.]])
    """

    positive_semidefinite: ClassVar[bool | None] = True
    _core_name: ClassVar[str] = "linear"

    def _numbers(self) -> tuple[float, float]:
        return 0.0, 1.0
