"""The kernels κ(x, y): one class each, with the same methods; pieces of K and products with it, never K itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from knoll import _core
from knoll.exceptions import BadData, InvalidParameter, InvalidType
from knoll.validation import Number, check_parameters

__all__ = [
    "Function",
    "Gaussian",
    "Heaviside",
    "Kernel",
    "Linear",
    "Operator",
    "Polynomial",
    "Precomputed",
    "links",
    "make",
    "normalized_cut",
    "normlinks",
]

Floats = NDArray[np.float64]

_BLOCK = 2**21  # entries of K at a time, where a block of it must be held
_SYMMETRIC = 1e-10  # of the largest entry: what rounding may have made of a symmetric matrix


@runtime_checkable
class Operator(Protocol):
    """The kernel matrix K of one set of n rows, prepared: what a fit multiplies with."""

    n: int
    name: str

    @property
    def bytes(self) -> int:
        """Memory that it holds beyond the rows themselves."""
        ...

    def diag(self) -> Floats:
        """Return κ(x_i, x_i), (n,)."""
        ...

    def rows(self, i: NDArray[np.int64], j: NDArray[np.int64] | None = None) -> Floats:
        """Return the rows i of K, (m, n), or their entries in the columns j alone."""
        ...

    def apply(self, B: Floats) -> Floats:
        """Return K B, (n, b)."""
        ...

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B for other rows Y, (q, b); a row's bits do not depend on the others."""
        ...

    def update(
        self, rows: NDArray[np.int64], old: NDArray[np.int32], new: NDArray[np.int32], weights: Floats | None, G: Floats
    ) -> None:
        """Move rows between clusters in G = K W Z, (n, k): w_j κ(·, x_j) goes from column old_j to new_j; −1: none."""
        ...


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

    def rows(self, X: Any, i: NDArray[np.int64], threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        ...

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, (n, b), without storing K."""
        ...

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows."""
        ...


# ---- kernels of the core -------------------------------------------------------------------------------------------


class _InCore:
    """What the kernels that the core knows have in common; it calls them by `_core_name` and two numbers."""

    _core_name: ClassVar[str]

    @property
    def name(self) -> str:
        """The name under which an estimator takes it."""
        return self._core_name

    def _numbers(self) -> tuple[float, float]:
        raise NotImplementedError

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

    def rows(self, X: Any, i: NDArray[np.int64], threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        return self.tile(np.ascontiguousarray(X[i]), X, threads)

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, (n, b), without storing K."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows; a Gaussian leaves out pairs farther apart than a `cutoff` > 0."""
        return _CoreOperator(self, X, threads, cutoff)


class _CoreOperator:
    """K of a kernel that the core knows: tiles are made when they are needed, and forgotten."""

    def __init__(self, kernel: _InCore, X: NDArray[Any], threads: int, cutoff: float) -> None:
        self._kernel, self._points, self._threads = kernel, X, threads
        self._core = _core.KernelOperator(X, kernel._core_name, *kernel._numbers(), cutoff, threads)
        self.n, self.name = X.shape[0], kernel.name

    @property
    def bytes(self) -> int:
        return int(self._core.bytes)

    @property
    def pairs(self) -> int:
        """Pairs of rows that one product evaluates."""
        return int(self._core.pairs)

    @property
    def core(self) -> Any:
        """The core's own operator, for what only it can do."""
        return self._core

    def diag(self) -> Floats:
        return self._kernel.diag(self._points, self._threads)

    def rows(self, i: NDArray[np.int64], j: NDArray[np.int64] | None = None) -> Floats:
        columns = self._points if j is None else np.ascontiguousarray(self._points[j])
        return self._kernel.tile(np.ascontiguousarray(self._points[i]), columns, self._threads)

    def apply(self, B: Floats) -> Floats:
        B, flat = _columns(B)
        out = np.empty((self.n, B.shape[1]))
        self._core.apply(B, out, self._threads)
        return out[:, 0] if flat else out

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        B, flat = _columns(B)
        out = np.empty((Y.shape[0], B.shape[1]))
        self._core.apply_rows(Y, B, out, self._threads)
        return out[:, 0] if flat else out

    def update(
        self, rows: NDArray[np.int64], old: NDArray[np.int32], new: NDArray[np.int32], weights: Floats | None, G: Floats
    ) -> None:
        self._core.update(rows, old, new, weights, G, self._threads)


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
        return self.sigma * math.sqrt(2 * (53 * math.log(2) + math.log(max(n, 1))))

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


# ---- a matrix that is given ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Precomputed:
    """A kernel matrix that is given, dense or sparse: X *is* K. Whether it is positive semi-definite is not known.

    Other rows Y are given as κ(Y, X), one column for each row of the fit.

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
        """The name under which an estimator takes it."""
        return "precomputed"

    def tile(self, X: Any, Y: Any, threads: int = 1) -> Floats:
        """Return the rows X = κ(X, Y) as a dense array; Y, the rows of the fit, tells how many columns they have."""
        if X.shape[1] != Y.shape[0]:
            raise BadData(
                f"a precomputed kernel has a column for each of the {Y.shape[0]} rows of the fit, got {X.shape[1]}."
            )
        return _dense(X)

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return the diagonal of K."""
        return np.array(X.diagonal(), dtype=np.float64)

    def rows(self, X: Any, i: NDArray[np.int64], threads: int = 1) -> Floats:
        """Return the rows i of K as a dense array."""
        return _dense(X[i])

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Check that K is square, finite and symmetric, and prepare it; what rounding left asymmetric is averaged."""
        _check_matrix(X, "the precomputed kernel", threads)
        if _is_sparse(X):
            return _SparseOperator(X)
        return _StoredOperator(X, threads)


class _StoredOperator:
    """K as an array of float64, symmetric to the bit."""

    name = "precomputed"

    def __init__(self, K: NDArray[Any], threads: int) -> None:
        given = np.asarray(K)
        self._matrix = np.ascontiguousarray(given, dtype=np.float64)
        if not _symmetric_bits(self._matrix):
            self._matrix = (self._matrix + self._matrix.T) / 2
        self._copied = not np.shares_memory(self._matrix, given)
        self._threads, self.n = threads, len(self._matrix)

    @property
    def bytes(self) -> int:
        return self._matrix.nbytes if self._copied else 0

    @property
    def matrix(self) -> Floats:
        """K itself."""
        return self._matrix

    def diag(self) -> Floats:
        return self._matrix.diagonal().copy()

    def rows(self, i: NDArray[np.int64], j: NDArray[np.int64] | None = None) -> Floats:
        return self._matrix[i] if j is None else self._matrix[np.ix_(i, j)]

    def apply(self, B: Floats) -> Floats:
        return self.apply_rows(self._matrix, B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        return _times(_dense(Y), B, self._threads)

    def update(
        self, rows: NDArray[np.int64], old: NDArray[np.int32], new: NDArray[np.int32], weights: Floats | None, G: Floats
    ) -> None:
        _move(self.rows, self.n, rows, old, new, weights, G, self._threads)


class _SparseOperator:
    """K as a sparse matrix; what is not stored is 0."""

    name = "precomputed"

    def __init__(self, K: Any) -> None:
        matrix: Any = scipy.sparse.csr_array(K, dtype=np.float64)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        difference = abs(matrix - matrix.T)
        if difference.nnz and difference.max() > 0:
            matrix = scipy.sparse.csr_array((matrix + matrix.T) / 2)
        self._matrix, self._given, self.n = matrix, K, matrix.shape[0]

    @property
    def bytes(self) -> int:
        shared = np.shares_memory(self._matrix.data, self._given.data)
        return 0 if shared else int(self._matrix.data.nbytes + self._matrix.indices.nbytes + self._matrix.indptr.nbytes)

    @property
    def matrix(self) -> Any:
        """K itself."""
        return self._matrix

    def diag(self) -> Floats:
        return np.array(self._matrix.diagonal(), dtype=np.float64)

    def rows(self, i: NDArray[np.int64], j: NDArray[np.int64] | None = None) -> Floats:
        return _dense(self._matrix[i] if j is None else self._matrix[i][:, j])

    def apply(self, B: Floats) -> Floats:
        return np.ascontiguousarray(self._matrix @ B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        rows: Any = scipy.sparse.csr_array(Y, dtype=np.float64)
        return np.ascontiguousarray(rows @ B)

    def update(
        self, rows: NDArray[np.int64], old: NDArray[np.int32], new: NDArray[np.int32], weights: Floats | None, G: Floats
    ) -> None:
        G += self._matrix[rows].T @ _moves(rows, old, new, weights, G.shape[1])


# ---- a function ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A kernel given as a function, of two arrays of rows (returning a matrix) or of two single rows (a number).

    Which of the two it is, a first call finds out: κ(X[:2], X[:1]) must then be an array of shape (2, 1). It should be
    symmetric; whether it is positive semi-definite is not known. The bits of a result are as reproducible as its own.

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
        if self._takes_arrays(X):
            out = np.asarray(self.function(X, Y), dtype=np.float64)
            if out.shape != (X.shape[0], Y.shape[0]):
                raise BadData(
                    f"the kernel {self.name} must give one number for each pair: expected the shape "
                    f"{(X.shape[0], Y.shape[0])}, got {out.shape}."
                )
        else:
            out = np.array([[float(self.function(x, y)) for y in Y] for x in X], dtype=np.float64)
            out = out.reshape(X.shape[0], Y.shape[0])
        if not np.isfinite(out).all():
            i, j = np.argwhere(~np.isfinite(out))[0]
            raise BadData(f"the kernel {self.name} must be finite, got {out[i, j]} for the rows {X[i]!r} and {Y[j]!r}.")
        return out

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, x_i) as an (n,) array."""
        return np.array([self.tile(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])])

    def rows(self, X: Any, i: NDArray[np.int64], threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        return self.tile(X[i], X)

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, a block of rows of K at a time."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows: the function is called again for every product."""
        return _FunctionOperator(self, X, threads)

    def _takes_arrays(self, X: Any) -> bool:
        two = X[[0, 0]] if X.shape[0] == 1 else X[:2]
        try:
            return np.shape(self.function(two, X[:1])) == (2, 1)
        except Exception:  # not made for arrays; what it says of two rows is heard when it is called with them
            return False


class _FunctionOperator:
    """K of a function: blocks of rows, each forgotten after use."""

    def __init__(self, kernel: Function, X: Any, threads: int) -> None:
        self._kernel, self._points, self._threads = kernel, X, threads
        self.n, self.name = X.shape[0], kernel.name

    @property
    def bytes(self) -> int:
        return 8 * _height(self.n) * self.n

    def diag(self) -> Floats:
        return self._kernel.diag(self._points)

    def rows(self, i: NDArray[np.int64], j: NDArray[np.int64] | None = None) -> Floats:
        return self._kernel.tile(self._points[i], self._points if j is None else self._points[j])

    def apply(self, B: Floats) -> Floats:
        return self.apply_rows(self._points, B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        height = _height(self.n)
        parts = [
            _times(self._kernel.tile(Y[begin : begin + height], self._points), B, self._threads)
            for begin in range(0, Y.shape[0], height)
        ]
        return np.concatenate(parts)

    def update(
        self, rows: NDArray[np.int64], old: NDArray[np.int32], new: NDArray[np.int32], weights: Floats | None, G: Floats
    ) -> None:
        _move(self.rows, self.n, rows, old, new, weights, G, self._threads)


# ---- parameters of an estimator ------------------------------------------------------------------------------------


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
    """Make a kernel from the parameters of an estimator; those that it does not use are left alone.

    Parameters
    ----------
    kernel : str, callable or Kernel
        "rbf" or "gaussian", "heaviside", "poly" or "polynomial", "linear", "precomputed", a function of two rows or of
        two arrays of rows, or a kernel that is made already.
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


# ---- links of a graph ----------------------------------------------------------------------------------------------


def links(A: Any, a: ArrayLike, b: ArrayLike) -> float:
    """Add up the similarities between two sets of nodes, Σ_{i∈a} Σ_{j∈b} A_ij   (eq. 4.10).

    Parameters
    ----------
    A : array or sparse matrix of shape (n, n), or Operator
        The similarities.
    a, b : array-like
        Indices of nodes, or masks (n,) of booleans.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import links
    >>> A = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]])
    >>> links(A, [0, 1], [2])
    0.25
    """
    matrix = _graph(A, negative=True)
    left, right = _nodes(a, matrix.n, "a"), _nodes(b, matrix.n, "b")
    inside = np.zeros((matrix.n, 1))
    inside[right] = 1.0
    return math.fsum(matrix.apply(inside)[left, 0])


def normlinks(A: Any, a: ArrayLike, b: ArrayLike) -> float:
    """Compute links(a, b) / links(a, V): the share of a's links that lead to b   (eq. 4.11).

    Parameters
    ----------
    A : array or sparse matrix of shape (n, n), or Operator
        The similarities, ≥ 0.
    a, b : array-like
        Indices of nodes, or masks (n,) of booleans.

    Returns
    -------
    float
        From 0 to 1; 0 where a has no links at all.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import normlinks
    >>> A = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]])
    >>> normlinks(A, [0], [1])
    0.3333333333333333
    """
    matrix = _graph(A)
    left, right = _nodes(a, matrix.n, "a"), _nodes(b, matrix.n, "b")
    inside = np.ones((matrix.n, 2))
    inside[:, 0] = 0.0
    inside[right, 0] = 1.0
    both = matrix.apply(inside)[left]  # (|a|, 2)
    whole = math.fsum(both[:, 1])
    return math.fsum(both[:, 0]) / whole if whole > 0 else 0.0


def normalized_cut(A: Any, labels: ArrayLike) -> float:
    """Compute the normalized cut (1/k) Σ_c links(V_c, V∖V_c) / links(V_c, V) of a partition   (eq. 4.12).

    Parameters
    ----------
    A : array or sparse matrix of shape (n, n), or Operator
        The similarities, symmetric and ≥ 0.
    labels : array-like of shape (n,)
        The cluster of each node; every label that occurs is one, k of them.

    Returns
    -------
    float
        From 0, where no link leaves its cluster, to 1. A cluster without any links counts 0.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import normalized_cut
    >>> A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    >>> round(normalized_cut(A, [0, 0, 1]), 6)
    0.35
    """
    matrix = _graph(A)
    given = np.asarray(labels)
    if given.shape != (matrix.n,):
        raise BadData(
            f"normalized_cut: labels must have one entry for each of {matrix.n} nodes, got shape {given.shape}."
        )
    names, own = np.unique(given, return_inverse=True)
    inside = np.zeros((matrix.n, len(names)))  # (n, k)
    inside[np.arange(matrix.n), own] = 1.0
    total = matrix.apply(inside)  # (n, k): links of a node to each cluster
    terms = []
    for c in range(len(names)):
        of = total[own == c]
        whole = math.fsum(of.ravel())
        terms.append(1 - math.fsum(of[:, c]) / whole if whole > 0 else 0.0)
    return math.fsum(terms) / len(names)


def _graph(A: Any, *, negative: bool = False) -> Operator:
    """Take a graph through the door."""
    if isinstance(A, Operator):
        return A
    matrix: Any = A if _is_sparse(A) else np.asarray(A, dtype=np.float64)
    _check_matrix(matrix, "the similarity matrix", 1, negative=negative)
    return Precomputed().operator(matrix)


def _nodes(which: ArrayLike, n: int, name: str) -> NDArray[np.intp]:
    """Turn indices or a mask into indices, each once."""
    nodes = np.asarray(which)
    if nodes.dtype == np.bool_:
        if nodes.shape != (n,):
            raise BadData(f"a mask must have one entry for each of {n} nodes, got {name} of shape {nodes.shape}.")
        return np.flatnonzero(nodes)
    if nodes.size == 0:
        return np.empty(0, dtype=np.intp)
    if nodes.dtype.kind not in "iu":
        raise InvalidType(f"{name} must be indices of nodes or a mask, got {nodes.dtype}.")
    nodes = np.unique(nodes)
    if nodes[0] < 0 or nodes[-1] >= n:
        raise BadData(f"{name} must be indices from 0 to {n - 1}, got {nodes[0] if nodes[0] < 0 else nodes[-1]}.")
    return nodes.astype(np.intp)


# ---- checks and products -------------------------------------------------------------------------------------------


def _check_matrix(K: Any, what: str, threads: int = 1, *, negative: bool = True) -> None:
    """Refuse a matrix that is not square, finite and symmetric (and, unless `negative`, ≥ 0); name the place."""
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise BadData(f"{what} must be square, got shape {K.shape}.")
    sparse = _is_sparse(K)
    values = K.data[:, None] if sparse else np.asarray(K)
    if not np.isfinite(values).all():
        _refuse(K, lambda v: ~np.isfinite(v), f"{what} must be finite", "Mend or drop such rows first.")
    if not negative and values.size and values.min() < 0:
        _refuse(K, lambda v: v < 0, f"{what} must be >= 0", "Clip it, or shift all of it.")
    allowed = _SYMMETRIC * float(np.abs(values).max(initial=0.0))
    if sparse:
        difference: Any = abs(scipy.sparse.csr_array(K) - scipy.sparse.csr_array(K).T).tocoo()
        at = int(np.argmax(difference.data > allowed)) if difference.nnz else 0
        place = (difference.row[at], difference.col[at]) if difference.nnz and difference.data[at] > allowed else None
    else:
        place = _asymmetric(np.asarray(K), allowed)
    if place is not None:
        i, j = (int(index) for index in place)
        raise BadData(
            f"{what} must be symmetric, but has {K[i, j]} at row {i}, column {j} and {K[j, i]} at row {j}, column {i}. "
            "Use (K + K.T) / 2."
        )


def _refuse(K: Any, bad: Callable[[Any], Any], rule: str, remedy: str) -> None:
    """Raise BadData with the first place, in the order of rows, where `bad` holds."""
    if _is_sparse(K):
        entries = scipy.sparse.csr_array(K).tocoo()
        at = np.flatnonzero(bad(entries.data))
        i, j, value, more = entries.row[at[0]], entries.col[at[0]], entries.data[at[0]], len(at) - 1
    else:
        rows, columns = np.nonzero(bad(np.asarray(K)))
        i, j, more = rows[0], columns[0], len(rows) - 1
        value = K[i, j]
    also = f" (and {more} more)" if more else ""
    raise BadData(f"{rule}, but has {value} at row {i}, column {j}{also}. {remedy}")


def _asymmetric(K: NDArray[Any], allowed: float) -> tuple[int, int] | None:
    """Find a place where K and its transpose differ by more than is allowed; a block at a time."""
    n, side = len(K), 1024
    for top in range(0, n, side):
        for left in range(0, top + 1, side):
            block = K[top : top + side, left : left + side]
            off = np.abs(block - K[left : left + side, top : top + side].T) > allowed
            if off.any():
                i, j = np.argwhere(off)[0]
                return top + int(i), left + int(j)
    return None


def _symmetric_bits(K: Floats) -> bool:
    return _asymmetric(K, 0.0) is None


def _is_sparse(matrix: Any) -> bool:
    return bool(scipy.sparse.issparse(matrix))


def _dense(rows: Any) -> Floats:
    return np.ascontiguousarray(rows.toarray() if _is_sparse(rows) else rows, dtype=np.float64)


def _columns(B: Floats) -> tuple[Floats, bool]:
    """Make a product's right side two-dimensional; also tell whether it was not."""
    return (B[:, None], True) if B.ndim == 1 else (B, False)


def _times(rows: Floats, B: Floats, threads: int) -> Floats:
    """Multiply in a fixed order, so that the bits do not depend on threads."""
    B, flat = _columns(B)
    out = np.empty((rows.shape[0], B.shape[1]))
    _core.tall_times(rows, B, out, threads)
    return out[:, 0] if flat else out


def _height(n: int) -> int:
    return max(1, _BLOCK // max(n, 1))


def _moves(
    rows: NDArray[np.int64], old: NDArray[np.int32], new: NDArray[np.int32], weights: Floats | None, k: int
) -> Floats:
    """Write moves as a matrix (m, k): +w where a row joins, −w where it leaves."""
    change = np.zeros((len(rows), k))
    own = np.ones(len(rows)) if weights is None else weights[rows]
    at = np.arange(len(rows))
    change[at[new >= 0], new[new >= 0]] += own[new >= 0]
    change[at[old >= 0], old[old >= 0]] -= own[old >= 0]
    return change


def _move(
    take: Callable[[NDArray[np.int64]], Floats],
    n: int,
    rows: NDArray[np.int64],
    old: NDArray[np.int32],
    new: NDArray[np.int32],
    weights: Floats | None,
    G: Floats,
    threads: int,
) -> None:
    """Update G from rows of K, a block at a time: G += K[rows]ᵀ · moves."""
    change, height, out = _moves(rows, old, new, weights, G.shape[1]), _height(n), np.empty(G.shape)
    for begin in range(0, len(rows), height):
        part = slice(begin, begin + height)
        _core.tall_inner(take(rows[part]), np.ascontiguousarray(change[part]), out, threads)
        G += out
