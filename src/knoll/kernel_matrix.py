"""The kernel matrix K of one set of rows, in four forms: tiles of the core, stored, sparse, and by a function.

Products with K and pieces of it; none but the stored ones holds it. The kernels of `knoll.kernels` make them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll import _core
from knoll.exceptions import BadData
from knoll.validation import refuse_masked

__all__ = [
    "CoreOperator",
    "FunctionOperator",
    "Operator",
    "SparseOperator",
    "StoredOperator",
    "asymmetry",
    "check_matrix",
    "dense",
    "refuse_negative",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Labels = NDArray[np.int32]

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

    def rows(self, i: Rows, j: Rows | None = None) -> Floats:
        """Return the rows i of K, (m, n), or their entries in the columns j alone."""
        ...

    def apply(self, B: Floats) -> Floats:
        """Return K B, (n, b)."""
        ...

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B for other rows Y, (q, b); a row's bits do not depend on the others."""
        ...

    def update(self, rows: Rows, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between clusters in G = K W Z, (n, k): w_j κ(·, x_j) goes from column old_j to new_j; −1: none."""
        ...


class CoreOperator:
    """K of a kernel that the core knows: tiles are made when they are needed, and forgotten."""

    def __init__(self, kernel: Any, X: NDArray[Any], threads: int, cutoff: float) -> None:
        self._kernel, self._points, self._threads = kernel, X, threads
        a, b = kernel._numbers()
        self._core = _core.KernelOperator(X, kernel._core_name, a, b, cutoff, threads)
        self.n, self.name = X.shape[0], kernel.name

    @property
    def bytes(self) -> int:
        """Memory that it holds beyond what it was given."""
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
        """Return κ(x_i, x_i), (n,)."""
        return self._kernel.diag(self._points, self._threads)

    def rows(self, i: Rows, j: Rows | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""
        columns = self._points if j is None else np.ascontiguousarray(self._points[j])
        return self._kernel.tile(np.ascontiguousarray(self._points[i]), columns, self._threads)

    def apply(self, B: Floats) -> Floats:
        """Return K B."""
        B, flat = _columns(B)
        out = np.empty((self.n, B.shape[1]))
        self._core.apply(B, out, self._threads)
        return out[:, 0] if flat else out

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B."""
        B, flat = _columns(B)
        out = np.empty((Y.shape[0], B.shape[1]))
        self._core.apply_rows(Y, B, out, self._threads)
        return out[:, 0] if flat else out

    def update(self, rows: Rows, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between the columns of G."""
        self._core.update(rows, old, new, weights, G, self._threads)


class StoredOperator:
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
        """Memory that it holds beyond what it was given."""
        return self._matrix.nbytes if self._copied else 0

    @property
    def matrix(self) -> Floats:
        """K itself."""
        return self._matrix

    def diag(self) -> Floats:
        """Return κ(x_i, x_i), (n,)."""
        return self._matrix.diagonal().copy()

    def rows(self, i: Rows, j: Rows | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""
        return self._matrix[i] if j is None else self._matrix[np.ix_(i, j)]

    def apply(self, B: Floats) -> Floats:
        """Return K B."""
        return self.apply_rows(self._matrix, B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B."""
        return _times(dense(Y), B, self._threads)

    def update(self, rows: Rows, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between the columns of G."""
        _move(self.rows, self.n, rows, old, new, weights, G, self._threads)


class SparseOperator:
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
        """Memory that it holds beyond what it was given."""
        shared = np.shares_memory(self._matrix.data, self._given.data)
        return 0 if shared else int(self._matrix.data.nbytes + self._matrix.indices.nbytes + self._matrix.indptr.nbytes)

    @property
    def matrix(self) -> Any:
        """K itself."""
        return self._matrix

    def diag(self) -> Floats:
        """Return κ(x_i, x_i), (n,)."""
        return np.array(self._matrix.diagonal(), dtype=np.float64)

    def rows(self, i: Rows, j: Rows | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""
        return dense(self._matrix[i] if j is None else self._matrix[i][:, j])

    def apply(self, B: Floats) -> Floats:
        """Return K B."""
        return np.ascontiguousarray(self._matrix @ B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B."""
        rows: Any = scipy.sparse.csr_array(Y, dtype=np.float64)
        return np.ascontiguousarray(rows @ B)

    def update(self, rows: Rows, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between the columns of G."""
        G += self._matrix[rows].T @ _moves(rows, old, new, weights, G.shape[1])


class FunctionOperator:
    """K of a function: blocks of rows, each forgotten after use."""

    def __init__(self, kernel: Any, X: Any, threads: int) -> None:
        self._kernel, self._points, self._threads = kernel, X, threads
        self.n, self.name = X.shape[0], kernel.name

    @property
    def bytes(self) -> int:
        """Memory that it holds beyond what it was given."""
        return 8 * _height(self.n) * self.n

    def diag(self) -> Floats:
        """Return κ(x_i, x_i), (n,)."""
        return self._kernel.diag(self._points)

    def rows(self, i: Rows, j: Rows | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""
        return self._kernel.tile(self._points[i], self._points if j is None else self._points[j])

    def apply(self, B: Floats) -> Floats:
        """Return K B."""
        return self.apply_rows(self._points, B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B."""
        height = _height(self.n)
        parts = [
            _times(self._kernel.tile(Y[begin : begin + height], self._points), B, self._threads)
            for begin in range(0, Y.shape[0], height)
        ]
        return np.concatenate(parts)

    def update(self, rows: Rows, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between the columns of G."""
        _move(self.rows, self.n, rows, old, new, weights, G, self._threads)


# ---- checks ---------------------------------------------------------------------------------------------------------


def check_matrix(K: Any, what: str, threads: int = 1, *, negative: bool = True, symmetric: bool = True) -> None:
    """Refuse a matrix that is not square and finite (with `symmetric` symmetric, unless `negative` ≥ 0)."""
    refuse_masked(K, "K")
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise BadData(f"{what} must be square, got shape {K.shape}.")
    values = K.data[:, None] if _is_sparse(K) else np.asarray(K)
    if not np.isfinite(values).all():
        _refuse(K, lambda v: ~np.isfinite(v), f"{what} must be finite", "Mend or drop such rows first.")
    if not negative:
        refuse_negative(K, f"{what} must be >= 0")
    pair = asymmetry(K) if symmetric else None
    if pair is not None:
        i, j = pair
        raise BadData(
            f"{what} must be symmetric, but has {K[i, j]} at row {i}, column {j} and {K[j, i]} at row {j}, column {i}. "
            "Use (K + K.T) / 2."
        )


def asymmetry(K: Any) -> tuple[int, int] | None:
    """Find a row and a column where K and its transpose differ by more than rounding; None where they do not."""
    sparse = _is_sparse(K)
    allowed = _SYMMETRIC * float(np.abs(K.data[:, None] if sparse else np.asarray(K)).max(initial=0.0))
    if not sparse:
        return _asymmetric(np.asarray(K), allowed)
    rows: Any = scipy.sparse.csr_array(K)
    difference = abs(rows - rows.T).tocoo()
    beyond = np.flatnonzero(difference.data > allowed)
    return (int(difference.row[beyond[0]]), int(difference.col[beyond[0]])) if len(beyond) else None


def refuse_negative(K: Any, rule: str) -> None:
    """Refuse rows with a value below 0; name the place."""
    values = K.data if _is_sparse(K) else np.asarray(K)
    if values.size and values.min() < 0:
        _refuse(K, lambda v: v < 0, rule, "Clip it, or shift all of it.")


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


# ---- products -------------------------------------------------------------------------------------------------------


def _is_sparse(matrix: Any) -> bool:
    return bool(scipy.sparse.issparse(matrix))


def dense(rows: Any) -> Floats:
    """Return rows as an array of float64, one after the other."""
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


def _moves(rows: Rows, old: Labels, new: Labels, weights: Floats | None, k: int) -> Floats:
    """Write moves as a matrix (m, k): +w where a row joins, −w where it leaves."""
    change = np.zeros((len(rows), k))
    own = np.ones(len(rows)) if weights is None else weights[rows]
    at = np.arange(len(rows))
    change[at[new >= 0], new[new >= 0]] += own[new >= 0]
    change[at[old >= 0], old[old >= 0]] -= own[old >= 0]
    return change


def _move(
    take: Callable[[Rows], Floats],
    n: int,
    rows: Rows,
    old: Labels,
    new: Labels,
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
