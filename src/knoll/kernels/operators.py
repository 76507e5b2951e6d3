"""The kernel matrix K of one set of rows as an operator: products with K and pieces of it.

One protocol, and one class for each form of K: tiles of the core, computed when needed; blocks of rows of any kernel;
such a matrix kept; a dense or sparse matrix of the caller; and any of these without its diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll import _core
from knoll._common.rescale import times_power
from knoll._common.sparse import is_sparse
from knoll._typing import Floats, Ints, Labels
from knoll.exceptions import BadData
from knoll.validation import refuse_masked

_BLOCK = 2**21  # entries of K at a time, where a block of it is needed
_SYMMETRIC = 1e-10  # of the largest entry: asymmetry up to this is rounding
_FEW = 2.0**-10  # of the diagonal: a row sum below this has lost digits to it


@runtime_checkable
class Operator(Protocol):
    """The kernel matrix K of one set of n rows, prepared: what a fit multiplies with."""

    n: int
    name: str

    @property
    def bytes(self) -> int:
        """Memory of the operator beyond its input."""
        ...

    def diag(self) -> Floats:
        """Return κ(x_i, x_i), (n,)."""
        ...

    def rows(self, i: Ints, j: Ints | None = None) -> Floats:
        """Return the rows i of K, (m, n), or their entries in the columns j alone."""
        ...

    def apply(self, B: Floats) -> Floats:
        """Return K B, (n, b)."""
        ...

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B for other rows Y, (q, b); a row's bits do not depend on the others."""
        ...

    def update(self, rows: Ints, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between clusters in G = K W Z, (n, k): w_j κ(·, x_j) goes from column old_j to new_j; −1: none."""
        ...


class CoreOperator:
    """K of a kernel that the core knows: tiles are computed when needed, and not kept."""

    def __init__(self, kernel: Any, X: NDArray[Any], threads: int, cutoff: float) -> None:
        self._kernel, self._points, self._threads = kernel, X, threads
        a, b = kernel._numbers()
        self._core = _core.KernelOperator(X, kernel._core_name, a, b, cutoff, threads)
        self.n, self.name = X.shape[0], kernel.name

    @property
    def bytes(self) -> int:
        """Memory of the operator beyond its input."""
        return int(self._core.bytes)

    @property
    def pairs(self) -> int:
        """Pairs of rows that one product evaluates."""
        return int(self._core.pairs)

    @property
    def core(self) -> Any:
        """The core's own operator, for pivoted Cholesky."""
        return self._core

    def diag(self) -> Floats:
        """Return κ(x_i, x_i), (n,)."""
        return self._kernel.diag(self._points, self._threads)

    def rows(self, i: Ints, j: Ints | None = None) -> Floats:
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

    def update(self, rows: Ints, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between the columns of G."""
        self._core.update(rows, old, new, weights, G, self._threads)


class _RowOperator(ABC):
    """The operators whose update of G is made of rows of K."""

    n: int
    threads: int

    @abstractmethod
    def rows(self, i: Ints, j: Ints | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""

    def update(self, rows: Ints, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between the columns of G, a block of rows at a time: G += K[rows]ᵀ · moves."""
        change, out = _moves(rows, old, new, weights, G.shape[1]), np.empty(G.shape)
        for chunk in _chunks(len(rows), self.n):
            _core.tall_inner(self.rows(rows[chunk]), np.ascontiguousarray(change[chunk]), out, self.threads)
            G += out


class FunctionOperator(_RowOperator):
    """K of any kernel, by blocks of rows that are computed for every product."""

    def __init__(self, kernel: Any, X: Any, threads: int) -> None:
        self.kernel, self.points, self.threads = kernel, X, threads
        self.n, self.name = X.shape[0], kernel.name

    @property
    def bytes(self) -> int:
        """Memory of the operator beyond its input."""
        return 8 * _height(self.n) * self.n

    def tile(self, Y: Any) -> Floats:
        """Return κ(Y, X), (q, n)."""
        return self.kernel.tile(Y, self.points, self.threads)

    def diag(self) -> Floats:
        """Return κ(x_i, x_i), (n,)."""
        return self.kernel.diag(self.points)

    def rows(self, i: Ints, j: Ints | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""
        return self.kernel.tile(self.points[i], self.points if j is None else self.points[j])

    def apply(self, B: Floats) -> Floats:
        """Return K B."""
        return self.apply_rows(self.points, B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B, a block of rows at a time."""
        out = np.empty((Y.shape[0], *B.shape[1:]))
        for chunk in _chunks(Y.shape[0], self.n):
            out[chunk] = _times(self.tile(Y[chunk]), B, self.threads)
        return out


class CachedOperator(FunctionOperator):
    """K over 2^power, computed once and kept, symmetric to the bit; entries below the floor are 0.

    The matrix is computed when it is first needed: products with other rows do without.
    """

    def __init__(
        self,
        kernel: Any,
        X: Any,
        threads: int,
        *,
        floor: float = 0.0,
        power: int = 0,
        matrix: Floats | None = None,
    ) -> None:
        super().__init__(kernel, X, threads)
        self.floor, self.power, self._known = floor, power, matrix

    @cached_property
    def matrix(self) -> Floats:
        """K itself, (n, n)."""
        return self.tile(self.points) if self._known is None else self._known

    @property
    def bytes(self) -> int:
        """Memory of the operator beyond its input."""
        return 8 * self.n * self.n

    def tile(self, Y: Any) -> Floats:
        """Return κ(Y, X) over 2^power, (q, n)."""
        tile = times_power(super().tile(Y), -self.power)
        if self.floor > 0:
            tile[tile < self.floor] = 0.0
        return np.asarray(tile)

    def diag(self) -> Floats:
        """Return the diagonal, (n,)."""
        return self.matrix.diagonal().copy()

    def rows(self, i: Ints, j: Ints | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""
        return self.matrix[i] if j is None else self.matrix[np.ix_(i, j)]

    def apply(self, B: Floats) -> Floats:
        """Return K B."""
        return _times(self.matrix, B, self.threads)


class StoredOperator(_RowOperator):
    """K as an array of float64 of the caller, symmetric to the bit; other rows Y are rows κ(Y, X)."""

    name = "precomputed"

    def __init__(self, K: NDArray[Any], threads: int) -> None:
        source = np.asarray(K)
        self.matrix = np.ascontiguousarray(source, dtype=np.float64)
        if _asymmetric(self.matrix, 0.0) is not None:
            self.matrix = (self.matrix + self.matrix.T) / 2
        self._copied = not np.shares_memory(self.matrix, source)
        self.threads, self.n = threads, len(self.matrix)

    @property
    def bytes(self) -> int:
        """Memory of the operator beyond its input."""
        return self.matrix.nbytes if self._copied else 0

    def diag(self) -> Floats:
        """Return the diagonal, (n,)."""
        return self.matrix.diagonal().copy()

    def rows(self, i: Ints, j: Ints | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""
        return self.matrix[i] if j is None else self.matrix[np.ix_(i, j)]

    def apply(self, B: Floats) -> Floats:
        """Return K B."""
        return self.apply_rows(self.matrix, B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B."""
        return _times(dense(Y), B, self.threads)


class SparseOperator:
    """K as a sparse matrix; entries that are not stored are 0, and other rows Y are rows κ(Y, X).

    `symmetric`: K is known to be symmetric to the bit and in canonical form, as our own graphs are.
    """

    name = "precomputed"

    def __init__(self, K: Any, *, symmetric: bool = False) -> None:
        self.matrix: Any = K if symmetric else _symmetric_rows(K)
        self._source, self.n = K, K.shape[0]

    @property
    def bytes(self) -> int:
        """Memory of the operator beyond its input."""
        if np.shares_memory(self.matrix.data, self._source.data):
            return 0
        return int(self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes)

    def diag(self) -> Floats:
        """Return the diagonal, (n,)."""
        return np.array(self.matrix.diagonal(), dtype=np.float64)

    def rows(self, i: Ints, j: Ints | None = None) -> Floats:
        """Return the rows i of K, or their entries in the columns j."""
        return dense(self.matrix[i] if j is None else self.matrix[i][:, j])

    def apply(self, B: Floats) -> Floats:
        """Return K B."""
        return np.ascontiguousarray(self.matrix @ B)

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B."""
        rows: Any = scipy.sparse.csr_array(Y, dtype=np.float64)
        return np.ascontiguousarray(rows @ B)

    def update(self, rows: Ints, old: Labels, new: Labels, weights: Floats | None, G: Floats) -> None:
        """Move rows between the columns of G."""
        G += self.matrix[rows].T @ _moves(rows, old, new, weights, G.shape[1])


class ZeroDiagonalOperator(_RowOperator):
    """K − diag(K): Ng, Jordan and Weiss leave out the similarity of a row to itself.

    Rows whose other entries are small beside K_ii are summed again without it, since a difference would lose their
    digits. `twin` maps other rows Y to the rows of X that they equal, −1 where there is none.
    """

    def __init__(self, operator: Operator, twin: Callable[[Any], NDArray[Any]], threads: int = 1) -> None:
        self.operator, self.n, self.name, self.threads = operator, operator.n, operator.name, threads
        self._twin = twin
        self._diagonal = operator.diag()
        degree = operator.apply(np.ones((self.n, 1)))[:, 0] - self._diagonal
        self._low = np.flatnonzero(degree < _FEW * self._diagonal)

    @property
    def bytes(self) -> int:
        """Memory of the operator beyond its input."""
        return self.operator.bytes

    def diag(self) -> Floats:
        """Return zeros."""
        return np.zeros(self.n)

    def rows(self, i: Ints, j: Ints | None = None) -> Floats:
        """Return the rows i, or their entries in the columns j."""
        out = np.array(self.operator.rows(i, j))
        if j is None:
            out[np.arange(len(i)), i] = 0.0
        else:
            out[i[:, None] == j] = 0.0
        return out

    def apply(self, B: Floats) -> Floats:
        """Return the product with B."""
        out = self.operator.apply(B) - self._diagonal[:, None] * B
        self._sum_again(self._low, self._low, B, out)
        return out

    def apply_rows(self, Y: Any, B: Floats) -> Floats:
        """Return κ(Y, X) B; a row that equals one of X is taken for that row."""
        out = np.array(self.operator.apply_rows(Y, B))
        twins = self._twin(Y)
        own = np.flatnonzero(twins >= 0)
        out[own] -= self._diagonal[twins[own], None] * B[twins[own]]
        low = own[np.isin(twins[own], self._low)]
        self._sum_again(low, twins[low], B, out)
        return out

    def _sum_again(self, positions: NDArray[Any], rows: NDArray[Any], B: Floats, out: Floats) -> None:
        """Replace out[positions] by the products of these rows."""
        for chunk in _chunks(len(positions), self.n):
            out[positions[chunk]] = _times(self.rows(rows[chunk].astype(np.int64)), B, self.threads)


# ---- checks ---------------------------------------------------------------------------------------------------------


def check_matrix(K: Any, what: str, *, negative: bool = True, symmetric: bool = True) -> None:
    """Refuse a matrix that is not square and finite (with `symmetric` symmetric, unless `negative` ≥ 0)."""
    refuse_masked(K, "K")
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise BadData(f"{what} must be square, got shape {K.shape}.")
    values = K.data[:, None] if is_sparse(K) else np.asarray(K)
    if not np.isfinite(values).all():
        _refuse(K, lambda v: ~np.isfinite(v), f"{what} must be finite", "Correct or drop such rows first.")
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
    sparse = is_sparse(K)
    allowed = _SYMMETRIC * float(np.abs(K.data[:, None] if sparse else np.asarray(K)).max(initial=0.0))
    if not sparse:
        return _asymmetric(np.asarray(K), allowed)
    rows: Any = scipy.sparse.csr_array(K)
    difference = abs(rows - rows.T).tocoo()
    beyond = np.flatnonzero(difference.data > allowed)
    return (int(difference.row[beyond[0]]), int(difference.col[beyond[0]])) if len(beyond) else None


def refuse_negative(K: Any, rule: str) -> None:
    """Refuse rows with a value below 0; name the entry."""
    values = K.data if is_sparse(K) else np.asarray(K)
    if values.size and values.min() < 0:
        _refuse(K, lambda v: v < 0, rule, "Clip it, or shift all of it.")


def _refuse(K: Any, bad: Callable[[Any], Any], rule: str, remedy: str) -> None:
    """Raise BadData for the first entry, in the order of rows, for which `bad` is true."""
    if is_sparse(K):
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
    """Find an entry where K and its transpose differ by more than is allowed; a block at a time."""
    n, side = len(K), 1024
    for top in range(0, n, side):
        for left in range(0, top + 1, side):
            block = K[top : top + side, left : left + side]
            off = np.abs(block - K[left : left + side, top : top + side].T) > allowed
            if off.any():
                i, j = np.argwhere(off)[0]
                return top + int(i), left + int(j)
    return None


def _symmetric_rows(K: Any) -> Any:
    """Return K as compressed rows in canonical form, averaged with its transpose where they differ."""
    matrix: Any = scipy.sparse.csr_array(K, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    difference = abs(matrix - matrix.T)
    if difference.nnz and difference.max() > 0:
        matrix = scipy.sparse.csr_array((matrix + matrix.T) / 2)
    return matrix


# ---- products -------------------------------------------------------------------------------------------------------


def dense(rows: Any) -> Floats:
    """Return rows as a contiguous array of float64."""
    return np.ascontiguousarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


def _columns(B: Floats) -> tuple[Floats, bool]:
    """Make the right side of a product two-dimensional; also return whether it was not."""
    return (B[:, None], True) if B.ndim == 1 else (B, False)


def _times(rows: Floats, B: Floats, threads: int) -> Floats:
    """Multiply in a fixed order, so that the bits do not depend on threads."""
    B, flat = _columns(B)
    out = np.empty((rows.shape[0], B.shape[1]))
    _core.tall_times(rows, np.ascontiguousarray(B), out, threads)
    return out[:, 0] if flat else out


def _height(n: int) -> int:
    return max(1, _BLOCK // max(n, 1))


def _chunks(count: int, n: int) -> Iterator[slice]:
    """Cut `count` rows of length n into blocks."""
    height = _height(n)
    return (slice(begin, begin + height) for begin in range(0, count, height))


def _moves(rows: Ints, old: Labels, new: Labels, weights: Floats | None, k: int) -> Floats:
    """Write moves as a matrix (m, k): +w where a row joins, −w where it leaves."""
    change = np.zeros((len(rows), k))
    own = np.ones(len(rows)) if weights is None else weights[rows]
    at = np.arange(len(rows))
    change[at[new >= 0], new[new >= 0]] += own[new >= 0]
    change[at[old >= 0], old[old >= 0]] -= own[old >= 0]
    return change
