"""The kernels κ(x, y): one class each, with the same methods, which give pieces of K and products with it."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import scipy.sparse

from knoll import _core
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData, InvalidParameter, InvalidType
from knoll.kernels.operators import (
    CoreOperator,
    FunctionOperator,
    Operator,
    SparseOperator,
    StoredOperator,
    check_matrix,
    dense,
)
from knoll.validation import Number, check_parameters, refuse_masked

_CHECKED = 8  # rows of which all pairs are checked for symmetry
_SYMMETRIC = 1e-10  # of the largest value: asymmetry up to this is rounding


@runtime_checkable
class Kernel(Protocol):
    """What the kernel methods need of a kernel."""

    @property
    def name(self) -> str:
        """The name that estimators accept."""
        ...

    @property
    def positive_semidefinite(self) -> bool | None:
        """Whether every K of it is positive semi-definite; None: not known."""
        ...

    def tile(self, X: Any, Y: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, y_j) as an (n, m) array; for small blocks."""
        ...

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, x_i) as an (n,) array."""
        ...

    def rows(self, X: Any, i: Ints, threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        ...

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, (n, b), without storing K."""
        ...

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows."""
        ...


# ---- kernels that the core computes, tile by tile --------------------------------------------------------------------


class _InCore(ABC):
    """A kernel that the core knows by `_core_name` and two numbers."""

    _core_name: ClassVar[str]

    @property
    def name(self) -> str:
        """The name that estimators accept."""
        return self._core_name

    @abstractmethod
    def _numbers(self) -> tuple[float, float]: ...

    def tile(self, X: Any, Y: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, y_j) as an (n, m) array; for small blocks."""
        refuse_masked(X, "X")
        refuse_masked(Y, "Y")
        out = np.empty((X.shape[0], Y.shape[0]))
        _core.kernel_tile(X, Y, self._core_name, *self._numbers(), out, threads)
        return out

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, x_i) as an (n,) array."""
        refuse_masked(X, "X")
        out = np.empty(X.shape[0])
        _core.kernel_diagonal(X, self._core_name, *self._numbers(), out, threads)
        return out

    def rows(self, X: Any, i: Ints, threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        refuse_masked(X, "X")
        return self.tile(np.ascontiguousarray(X[i]), X, threads)

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, (n, b), without storing K."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows; a Gaussian leaves out pairs farther apart than a `cutoff` > 0."""
        refuse_masked(X, "X")
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
        """Return the distance beyond which n kernel values do not add up to 2⁻⁵³; 0, for none, if it leaves float64."""
        distance = self.sigma * math.sqrt(2 * (53 * math.log(2) + math.log(max(n, 1))))
        return distance if math.isfinite(distance) else 0.0

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


# ---- kernels of the caller: a matrix, or a function of two rows ------------------------------------------------------


@dataclass(frozen=True)
class Precomputed:
    """A precomputed kernel matrix, dense or sparse: X *is* K. Whether it is positive semi-definite is not known.

    Other rows Y are rows of κ(Y, X), one column for each row of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import Precomputed
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> Precomputed().operator(K).apply(np.ones((2, 1))).ravel()
    array([3., 3.])
    """

    positive_semidefinite: ClassVar[bool | None] = None

    @property
    def name(self) -> str:
        """The name that estimators accept."""
        return "precomputed"

    def tile(self, X: Any, Y: Any, threads: int = 1) -> Floats:
        """Return the rows X = κ(X, Y) as a dense array; Y, the rows of the fit, sets the number of columns."""
        if X.shape[1] != Y.shape[0]:
            raise BadData(
                f"a precomputed kernel has a column for each of the {Y.shape[0]} rows of the fit, got {X.shape[1]}."
            )
        return dense(X)

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return the diagonal of K."""
        refuse_masked(X, "K")
        return np.array(X.diagonal(), dtype=np.float64)

    def rows(self, X: Any, i: Ints, threads: int = 1) -> Floats:
        """Return the rows i of K as a dense array."""
        refuse_masked(X, "K")
        return dense(X[i])

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Check that K is square, finite and symmetric, and prepare it; asymmetry by rounding is averaged."""
        check_matrix(X, "the precomputed kernel")
        if scipy.sparse.issparse(X):
            return SparseOperator(X)
        return StoredOperator(X, threads)


@dataclass(frozen=True)
class Function:
    """A kernel as a function, of two arrays of rows (returning a matrix) or of two single rows (a number).

    A first call decides which of the two it is: κ(X[:2], X[:1]) is an array of shape (2, 1) for arrays of rows. The
    function should be symmetric; whether it is positive semi-definite is not known. Results are as reproducible as its
    values.

    Parameters
    ----------
    function : callable
        κ.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import Function
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Function(lambda x, y: float(min(x[0], y[0]))).tile(X, X)
    array([[0., 0., 0.],
           [0., 1., 1.],
           [0., 1., 3.]])
    """

    function: Callable[..., Any] = field(repr=False)
    positive_semidefinite: ClassVar[bool | None] = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidType(f"Function: function must be a callable, got {self.function!r}.")

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", "callable")

    def tile(self, X: Any, Y: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, y_j) as an (n, m) array."""
        refuse_masked(X, "X")
        refuse_masked(Y, "Y")
        if self._takes_arrays(X):
            out = np.asarray(self.function(X, Y), dtype=np.float64)
            if out.shape != (X.shape[0], Y.shape[0]):
                raise BadData(
                    f"the kernel {self.name} must give one number for each pair: expected the shape "
                    f"{(X.shape[0], Y.shape[0])}, got {out.shape}."
                )
        else:
            out = np.array([[self._number(x, y) for y in Y] for x in X], dtype=np.float64)
            out = out.reshape(X.shape[0], Y.shape[0])
        if not np.isfinite(out).all():
            i, j = np.argwhere(~np.isfinite(out))[0]
            raise BadData(f"the kernel {self.name} must be finite, got {out[i, j]} for the rows {X[i]!r} and {Y[j]!r}.")
        return out

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, x_i) as an (n,) array."""
        return np.array([self.tile(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])])

    def rows(self, X: Any, i: Ints, threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        return self.tile(X[i], X)

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, a block of rows of K at a time."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows: the function is called again for every product."""
        refuse_masked(X, "X")
        self._symmetric(X)
        return FunctionOperator(self, X, threads)

    def _number(self, x: Any, y: Any) -> float:
        value = self.function(x, y)
        if np.ndim(value) == 0 and not isinstance(value, str | bytes):
            with contextlib.suppress(TypeError, ValueError):
                return float(value)
        raise BadData(
            f"the kernel {self.name} must give a number for two rows, or an (n, m) array for n and m rows, got "
            f"{value!r:.60} for the rows {x!r} and {y!r}."
        )

    def _symmetric(self, X: Any) -> None:
        """Refuse a function that is not symmetric on a few pairs of rows; all pairs would cost a whole matrix."""
        subset = X[np.unique(np.linspace(0, X.shape[0] - 1, min(_CHECKED, X.shape[0])).astype(int))]
        tile = self.tile(subset, subset)
        off = np.argwhere(np.abs(tile - tile.T) > _SYMMETRIC * np.abs(tile).max())
        if len(off):
            i, j = off[0]
            raise BadData(
                f"the kernel {self.name} must be symmetric, but gives {tile[i, j]} for the rows {subset[i]!r} and "
                f"{subset[j]!r}, and {tile[j, i]} the other way round. Use the mean of both."
            )

    def _takes_arrays(self, X: Any) -> bool:
        two = X[[0, 0]] if X.shape[0] == 1 else X[:2]
        try:
            return np.shape(self.function(two, X[:1])) == (2, 1)
        except Exception:  # not made for arrays; its errors for two rows are raised when it is called with them
            return False


# ---- from the parameters of an estimator to a kernel -----------------------------------------------------------------


def make(
    kernel: Any,
    gamma: float | None = None,
    sigma: float | None = None,
    degree: int = 3,
    coef0: float = 1.0,
    eps: float | None = None,
    *,
    owner: str = "make",
) -> Kernel:
    """Make a kernel from the parameters of an estimator; parameters of other kernels are ignored.

    Parameters
    ----------
    kernel : str, callable or Kernel
        "rbf" or "gaussian", "heaviside", "poly" or "polynomial", "linear", "precomputed", a function of two rows or of
        two arrays of rows, or a kernel, which is returned.
    gamma, sigma : float, optional
        The width of the Gaussian kernel: one of them, γ = 1/(2σ²).
    degree, coef0 : int, float
        The polynomial kernel's.
    eps : float, optional
        The Heaviside kernel's.
    owner : str, default="make"
        Whose parameters they are, for messages.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from knoll import kernels
    >>> kernels.make("rbf", gamma=50.0)
    Gaussian(sigma=0.1)
    >>> kernels.make("poly", degree=2, coef0=0.0)
    Polynomial(degree=2, coef0=0.0)
    """
    if isinstance(kernel, str):
        match kernel:
            case "rbf" | "gaussian":
                return _gaussian(gamma, sigma, owner)
            case "heaviside":
                if eps is None:
                    raise InvalidParameter(
                        f"{owner}: kernel='heaviside' needs eps, got None. knoll.scales.estimate_eps(X) suggests one."
                    )
                return Heaviside(eps)
            case "poly" | "polynomial":
                return Polynomial(degree, coef0)
            case "linear":
                return Linear()
            case "precomputed":
                return Precomputed()
        raise InvalidParameter(
            f"{owner}: kernel must be 'rbf', 'heaviside', 'poly', 'linear', 'precomputed', a callable or a kernel of "
            f"knoll.kernels, got {kernel!r}."
        )
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return Function(kernel)
    raise InvalidType(f"{owner}: kernel must be a name, a callable or a kernel of knoll.kernels, got {kernel!r}.")


def _gaussian(gamma: float | None, sigma: float | None, owner: str) -> Gaussian:
    rule = {"sigma": (None, Number(0, strict=True)), "gamma": (None, Number(0, strict=True))}
    check_parameters(owner, {"sigma": sigma, "gamma": gamma}, rule)
    if sigma is not None and gamma is not None:
        raise InvalidParameter(
            f"{owner}: give sigma or gamma, not both (gamma = 1/(2 sigma²)), got sigma={sigma!r} and gamma={gamma!r}."
        )
    if sigma is not None:
        return Gaussian(sigma)
    if gamma is not None:
        return Gaussian.from_gamma(gamma)
    raise InvalidParameter(
        f"{owner}: the Gaussian kernel needs sigma or gamma, got neither. knoll.scales.estimate_sigma(X) suggests one."
    )
