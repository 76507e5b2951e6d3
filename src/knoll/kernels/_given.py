"""Kernels that come from outside: a matrix that is given, and a function of two rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll.exceptions import BadData, InvalidType
from knoll.kernel_matrix import FunctionOperator, Operator, SparseOperator, StoredOperator, check_matrix, dense

__all__ = ["Function", "Precomputed"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_LOOK = 8  # rows of which all pairs are looked at
_SYMMETRIC = 1e-10  # of the largest value: what rounding may have made of a symmetric function


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
        return dense(X)

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return the diagonal of K."""
        return np.array(X.diagonal(), dtype=np.float64)

    def rows(self, X: Any, i: Rows, threads: int = 1) -> Floats:
        """Return the rows i of K as a dense array."""
        return dense(X[i])

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Check that K is square, finite and symmetric, and prepare it; what rounding left asymmetric is averaged."""
        check_matrix(X, "the precomputed kernel", threads)
        if scipy.sparse.issparse(X):
            return SparseOperator(X)
        return StoredOperator(X, threads)


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
            out = np.array([[self._number(x, y) for y in Y] for x in X], dtype=np.float64)
            out = out.reshape(X.shape[0], Y.shape[0])
        if not np.isfinite(out).all():
            i, j = np.argwhere(~np.isfinite(out))[0]
            raise BadData(f"the kernel {self.name} must be finite, got {out[i, j]} for the rows {X[i]!r} and {Y[j]!r}.")
        return out

    def diag(self, X: Any, threads: int = 1) -> Floats:
        """Return κ(x_i, x_i) as an (n,) array."""
        return np.array([self.tile(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])])

    def rows(self, X: Any, i: Rows, threads: int = 1) -> Floats:
        """Return the rows i of K as an (m, n) array."""
        return self.tile(X[i], X)

    def apply(self, X: Any, B: Floats, threads: int = 1) -> Floats:
        """Return K B, a block of rows of K at a time."""
        return self.operator(X, threads).apply(B)

    def operator(self, X: Any, threads: int = 1, cutoff: float = 0.0) -> Operator:
        """Prepare K on one set of rows: the function is called again for every product."""
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
        """Refuse a function that some pairs of rows show not to be symmetric; all pairs would cost a whole matrix."""
        some = X[np.unique(np.linspace(0, X.shape[0] - 1, min(_LOOK, X.shape[0])).astype(int))]
        tile = self.tile(some, some)
        off = np.argwhere(np.abs(tile - tile.T) > _SYMMETRIC * np.abs(tile).max())
        if len(off):
            i, j = off[0]
            raise BadData(
                f"the kernel {self.name} must be symmetric, but gives {tile[i, j]} for the rows {some[i]!r} and "
                f"{some[j]!r}, and {tile[j, i]} the other way round. Use the mean of both."
            )

    def _takes_arrays(self, X: Any) -> bool:
        two = X[[0, 0]] if X.shape[0] == 1 else X[:2]
        try:
            return np.shape(self.function(two, X[:1])) == (2, 1)
        except Exception:  # not made for arrays; what it says of two rows is heard when it is called with them
            return False
