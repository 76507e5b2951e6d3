"""Validation of the reference: input becomes float64 arrays here, once, or a message with the remedy."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.exceptions import BadData, InvalidParameter, InvalidType

# The boxes square differences in float64 and add them: beyond this the sum of squares could overflow, and
# below its inverse the squares would sink into the subnormal numbers and lose their digits.
LARGEST = 1e150
SMALLEST = 1e-150

# A pivot of a covariance below this share of its variance is rounding: the matrix is singular to working precision.
PIVOT = 1e-12


def _table(values: ArrayLike, name: str, ndim: int) -> Floats:
    """Any real array as a C-ordered float64 copy with ``ndim`` axes, without NaN or infinity."""
    columns = getattr(values, "columns", None)
    _refuse_masked(values, name)
    if hasattr(values, "toarray"):
        raise BadData(f"{name} is sparse. The reference works on dense arrays: pass {name}.toarray().")
    try:
        raw = np.asarray(values)
    except ValueError as error:
        raise BadData(f"{name} has rows of different lengths. Every row needs the same number of columns.") from error
    try:
        table = np.array(raw, dtype=np.float64, order="C") if raw.dtype.kind in "biufO" else None
    except OverflowError as error:
        raise BadData(f"{name} has an integer beyond float64. Its square would overflow: rescale first.") from error
    except (TypeError, ValueError):
        table = None
    if table is None:
        raise BadData(f"{name} must hold real numbers, got {_describe(values)}. Encode or drop them first.")
    if table.ndim != ndim:
        remedy = f" One feature: {name}.reshape(-1, 1)." if (ndim, table.ndim) == (2, 1) else ""
        axes = {1: "a vector", 2: "a table of rows and columns", 3: "a stack of matrices"}[ndim]
        raise BadData(f"{name} must be {axes}, got an array of shape {table.shape}.{remedy}")
    if table.size == 0:
        raise BadData(f"{name} is empty (shape {table.shape}). At least one row and one column are needed.")
    for bad, what, remedy in (
        (np.isnan(table), "a NaN", "Drop or impute such rows first."),
        (np.isinf(table), "an infinite value", "Drop or clip such rows first."),
        (np.abs(table) > LARGEST, "a value beyond 1e150", "Its square would overflow: rescale first."),
    ):
        if bad.any():
            where = tuple(int(v) for v in np.argwhere(bad)[0])
            raise BadData(f"{name} has {what} at {_position(where, columns)}. {remedy}")
    return table


def mixed_rows(X: Any, codes: Any) -> tuple[Floats, Ints]:
    """Return the numbers, NaN where one is missing, and the levels, −1 there, of as many rows."""
    _refuse_masked(X, "X")
    _refuse_masked(codes, "codes")
    points, levels = np.array(X, dtype=np.float64, ndmin=2), np.array(codes, dtype=np.int64, ndmin=2)
    if len(points) != len(levels):
        raise BadData(f"X has {len(points)} rows and codes has {len(levels)}. Give one row of each for every row.")
    return points, levels


def _refuse_masked(values: Any, name: str) -> None:
    rows = values if isinstance(values, list | tuple) else [values]
    hidden = sum(int(np.ma.count_masked(row)) for row in rows if isinstance(row, np.ma.MaskedArray))
    if hidden:
        raise BadData(
            f"{name} has {hidden} masked entries, and what lies under a mask would count. "
            f"Drop such rows first, or give them values with {name}.filled(...)."
        )


def _real(value: Any, name: str, rule: str, remedy: str) -> float:
    """The number as a float; an integer beyond float64 is infinite."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InvalidType(f"{name} must be a number {rule}, got {value!r}. {remedy}")
    number: Any = value
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _describe(values: Any) -> str:
    dtype = getattr(values, "dtype", None)
    return f"dtype {dtype}" if dtype is not None and dtype.kind != "O" else "values that are not numbers"


def _position(where: tuple[int, ...], columns: Any) -> str:
    if len(where) == 1:
        return f"position {where[0]}"
    if len(where) == 2:
        column = repr(columns[where[1]]) if columns is not None else where[1]
        return f"row {where[0]}, column {column}"
    return f"index {where}"


def points(X: ArrayLike, name: str = "X") -> Floats:
    """X as (n, d) float64."""
    return _table(X, name, 2)


def wide_points(X: ArrayLike) -> Floats:
    """X as (n, d) float64 for the boxes that use squares alone: each column is constant or not too narrow."""
    table = points(X)
    for j, extent in enumerate(np.ptp(table, axis=0)):
        _refuse_tiny(float(extent), f"column {j} of X spans")
    return table


def _refuse_tiny(extent: float, what: str) -> None:
    if 0 < extent < SMALLEST:
        raise BadData(
            f"{what} {extent!r}, whose square float64 cannot hold. Rescale by a power of two, which rounds nothing, "
            f"to a span of {SMALLEST!r} or more."
        )


def positive(value: float, name: str, remedy: str) -> float:
    """A finite number > 0."""
    number = _real(value, name, "> 0", remedy)
    if not number > 0 or not math.isfinite(number):
        raise InvalidParameter(f"{name} must be > 0 and finite, got {number!r}. {remedy}")
    return number


def radius(eps: float) -> float:
    """The radius ε, whose square must not underflow."""
    remedy = "It is the radius of a neighbourhood, in the units of X."
    number = positive(eps, "eps", remedy)
    if number < SMALLEST:
        raise InvalidParameter(
            f"eps must be >= {SMALLEST!r}, got {number!r}. {remedy} Rescale X and eps by a power of two."
        )
    return number


def width(sigma: float) -> float:
    """The width σ, whose square must not underflow."""
    remedy = "It is the width of the Gaussian kernel, in the units of X."
    number = positive(sigma, "sigma", remedy)
    if not SMALLEST <= number <= LARGEST:
        raise InvalidParameter(
            f"sigma must lie in [1e-150, 1e150], got {number!r}. {remedy} Rescale X and sigma by a power of two."
        )
    return number


def not_negative(value: float, name: str, remedy: str) -> float:
    """A finite number ≥ 0."""
    number = _real(value, name, ">= 0", remedy)
    if not number >= 0 or not math.isfinite(number):
        raise InvalidParameter(f"{name} must be >= 0 and finite, got {number!r}. {remedy}")
    return number


def count(value: int, name: str, remedy: str) -> int:
    """An integer ≥ 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise InvalidType(f"{name} must be an integer >= 1, got {value!r}. {remedy}")
    if value < 1:
        raise InvalidParameter(f"{name} must be >= 1, got {value!r}. {remedy}")
    return int(value)


def level(min_pts: int) -> int:
    """The level minPts."""
    number = count(min_pts, "min_pts", "A point counts itself, so 1 makes every point a core point.")
    return min(number, 2**53)  # no point has as many neighbours, and float64 can hold it


def clusters(k: int, n: int) -> int:
    """The number of clusters, 1 ≤ k ≤ n."""
    k = count(k, "k", "It is the number of clusters.")
    if k > n:
        raise InvalidParameter(f"k must be <= the number of rows, got k={k} and n={n}. Ask for fewer clusters.")
    return k


def choice(value: str, name: str, allowed: tuple[str, ...]) -> str:
    """One of a few options."""
    options = ", ".join(map(repr, allowed))
    if not isinstance(value, str):
        raise InvalidType(f"{name} must be one of {options}, got {value!r}.")
    if value not in allowed:
        raise InvalidParameter(f"{name} must be one of {options}, got {value!r}.")
    return value


def flag(value: bool, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidType(f"{name} must be True or False, got {value!r}. Write {name}=True.")
    return bool(value)


def means(mu: ArrayLike, X: Floats) -> Floats:
    """Starting means as (k, d)."""
    table = points(mu, "mu")
    if table.shape[1] != X.shape[1]:
        raise InvalidParameter(
            f"mu must have as many columns as X, got {table.shape[1]} and {X.shape[1]}. One row of mu is one mean."
        )
    clusters(len(table), len(X))
    both = np.vstack([X, table])
    _refuse_tiny(float(np.ptp(both, axis=0).max()), "X and mu together span")
    return table


def mixture(pi: ArrayLike, Sigma: ArrayLike, mu: Floats, X: Floats) -> tuple[Floats, Floats]:
    """Mixing coefficients (k,) with eq. 2.2 and 2.3, and k symmetric positive definite matrices (k, d, d)."""
    k, d = mu.shape
    weights, stack = _table(pi, "pi", 1), _table(Sigma, "Sigma", 3)
    if len(weights) != k:
        raise InvalidParameter(
            f"pi must have one entry per row of mu, got {len(weights)} and {k}. np.full({k}, 1 / {k}) is a fair start."
        )
    if (weights < 0).any() or abs(math.fsum(weights) - 1) > 1e-9:
        raise InvalidParameter(f"pi must be >= 0 and sum to 1, got {weights.tolist()}. Divide it by its sum.")
    if stack.shape != (k, d, d):
        raise InvalidParameter(
            f"Sigma must have shape (k, d, d) = {(k, d, d)}, got {stack.shape}. One matrix per row of mu."
        )
    for c, S in enumerate(stack):
        if not np.allclose(S, S.T, rtol=1e-9, atol=0) or cholesky(S, X) is None:
            raise InvalidParameter(
                f"Sigma[{c}] must be symmetric positive definite, got {S.tolist()}. "
                "The identity, scaled to the data, is a safe start."
            )
    return weights, stack


def cholesky(S: Floats, X: Floats) -> Floats | None:
    """The factor L of S = LLᵀ, or None where S is singular to working precision as a covariance of points like X.

    A variance that the rounding of X alone would make is no variance. And a pivot L_jj² is what column j keeps of
    its variance when the columns before it are known: below ``PIVOT`` of it, little but rounding is left.
    """
    try:
        L: Floats = np.linalg.cholesky(S).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return None
    variance, kept = np.diagonal(S), np.square(np.diagonal(L))
    return L if (variance > rounding(X)).all() and (kept > PIVOT * variance).all() else None


def rounding(X: Floats) -> Floats:
    """The variance (d,) that the rounding of the coordinates of X alone could make."""
    variance: Floats = np.square(16 * np.finfo(np.float64).eps * np.abs(X).max(axis=0))
    return variance


def gram(K: ArrayLike) -> Floats:
    """A symmetric (n, n) kernel matrix."""
    table = _table(K, "K", 2)
    if table.shape[0] != table.shape[1]:
        raise BadData(f"K must be square, got shape {table.shape}. K[i, j] is the kernel of rows i and j.")
    off = np.abs(table - table.T)
    if off.max() > 1e-9 * np.abs(table).max():
        i, j = (int(v) for v in np.unravel_index(int(off.argmax()), off.shape))
        raise BadData(
            f"K must be symmetric, got K[{i}, {j}] = {table[i, j]} and K[{j}, {i}] = {table[j, i]}. "
            "Pass (K + K.T) / 2 if that is what you mean."
        )
    return table


def start_labels(labels: ArrayLike, n: int) -> Ints:
    """A starting partition: 0 … k−1, each at least once."""
    remedy = "Number the clusters of the start from 0."
    _refuse_masked(labels, "labels")
    try:
        raw = np.asarray(labels)
    except ValueError as error:
        raise InvalidType(f"labels must be a vector of integers, got rows of different lengths. {remedy}") from error
    if raw.ndim != 1 or raw.dtype.kind not in "iu":
        raise InvalidType(f"labels must be a vector of integers, got {raw.dtype} of shape {raw.shape}. {remedy}")
    if len(raw) != n:
        raise InvalidParameter(
            f"labels must have one entry per row of K, got {len(raw)} and {n}. Give each of the {n} rows a cluster."
        )
    if set(raw.tolist()) != set(range(len(set(raw.tolist())))):
        raise InvalidParameter(
            f"labels must use every number from 0 to k-1, got {sorted(set(raw.tolist()))}. "
            "np.unique(labels, return_inverse=True)[1] renumbers them."
        )
    return raw.astype(np.int64)


def row_weights(w: ArrayLike | None, labels: Ints) -> Floats:
    """Weights (n,), ones by default; no starting cluster may weigh nothing."""
    if w is None:
        return np.ones(len(labels))
    weights = _table(w, "w", 1)
    if len(weights) != len(labels):
        raise InvalidParameter(
            f"w must have one entry per row of K, got {len(weights)} and {len(labels)}. None weighs all rows alike."
        )
    if (weights < 0).any():
        i = int(np.argmax(weights < 0))
        raise InvalidParameter(f"w must be >= 0, got {weights[i]} at position {i}. Zero means an absent row.")
    mass = np.bincount(labels, weights)
    if (mass == 0).any():
        c = int(np.argmax(mass == 0))
        raise InvalidParameter(f"w gives cluster {c} of the start no weight. Give it a row of weight > 0.")
    return weights


def start_rows(starts: Any, k: int, n: int) -> list[list[int]] | None:
    """Starts of the partition step: lists of k row indices, or None."""
    if starts is None:
        return None
    message = (
        f"starts must be lists of k={k} different row indices below n={n}, got {starts!r}. "
        "None chooses farthest-first starts."
    )
    try:
        rows = [list(start) for start in starts]
    except TypeError as error:
        raise InvalidType(message) from error
    if any(isinstance(i, bool | np.bool_) or not isinstance(i, numbers.Integral) for row in rows for i in row):
        raise InvalidType(message)
    if not rows or any(len(row) != k or len(set(row)) != k or min(row) < 0 or max(row) >= n for row in rows):
        raise InvalidParameter(message)
    return [[int(i) for i in row] for row in rows]
