"""Random tables: shapes in which algorithms go wrong, at magnitudes from 5e-324 to 1.79e308, half of them ordinary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Table", "draw_table", "draw_weights"]

Floats = NDArray[np.float64]
Rng = np.random.Generator

_LARGEST = float(np.finfo(np.float64).max)
_SINGLE = float(np.finfo(np.float32).max)
_ORDINARY = 0.5  # the share of tables at everyday magnitudes
_LONE_ROW = 0.04


@dataclass(frozen=True)
class Table:
    """Rows in the dtype that they have, and how they were made."""

    X: NDArray[np.generic]  # (n, d) C-contiguous: float64, float32 or int64
    shape: str  # how the rows lie
    magnitude: str  # "ordinary", or how they were scaled
    categorical: tuple[int, ...] = ()  # the columns that are levels; NaN is a missing value where there may be any

    @property
    def ordinary(self) -> bool:
        """Whether squares of the data and of its differences are far from the limits of its dtype."""
        return self.magnitude == "ordinary"


# ---- how the rows lie ----------------------------------------------------------------------------------------------


def _cloud(rng: Rng, n: int, d: int) -> Floats:
    return rng.normal(size=(n, d))


def _blobs(rng: Rng, n: int, d: int) -> Floats:
    centers = rng.normal(scale=rng.choice([2.0, 6.0, 20.0]), size=(rng.integers(1, 6), d))
    return centers[rng.integers(len(centers), size=n)] + rng.normal(size=(n, d)) * rng.choice([1.0, 0.1])


def _lattice(rng: Rng, n: int, d: int) -> Floats:
    return rng.integers(-rng.integers(1, 4), rng.integers(2, 6), size=(n, d)).astype(float)


def _of_few(rng: Rng, n: int, d: int) -> Floats:
    few = rng.normal(size=(rng.integers(1, 2 + n // 2), d))
    return few[rng.integers(len(few), size=n)]


def _equal(rng: Rng, n: int, d: int) -> Floats:
    return np.tile(rng.normal(size=(1, d)), (n, 1))


def _constant_columns(rng: Rng, n: int, d: int) -> Floats:
    X = _blobs(rng, n, d)
    X[:, rng.random(d) < 0.5] = rng.choice([0.0, 1.0, -7.25, 1e3])
    return X


def _dependent(rng: Rng, n: int, d: int) -> Floats:
    rank = rng.integers(1, d + 1)
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))


def _outliers(rng: Rng, n: int, d: int) -> Floats:
    X = _blobs(rng, n, d)
    X[rng.integers(n, size=rng.integers(1, 3))] *= rng.choice([1e2, 1e4, 1e6])
    return X


def _zero_rows(rng: Rng, n: int, d: int) -> Floats:
    X = _blobs(rng, n, d)
    X[rng.random(n) < 0.4] = rng.choice([0.0, -0.0])
    return X


def _near_ties(rng: Rng, n: int, d: int) -> Floats:
    X = _lattice(rng, n, d)
    moved: Floats = np.nextafter(X, X + rng.integers(-1, 2, size=(n, d)))
    return moved


def _line(rng: Rng, n: int, d: int) -> Floats:
    return np.arange(0.0, n)[:, None] * (0.5 * rng.integers(-2, 3, size=(1, d)))


SHAPES: dict[str, Callable[[Rng, int, int], Floats]] = {
    "cloud": _cloud,
    "blobs": _blobs,
    "lattice": _lattice,
    "few distinct rows": _of_few,
    "equal rows": _equal,
    "constant columns": _constant_columns,
    "dependent columns": _dependent,
    "outliers": _outliers,
    "zero rows": _zero_rows,
    "near ties": _near_ties,
    "line": _line,
}
_SHARES = np.array([3, 5, 3, 2, 0.5, 1.5, 1.5, 1.5, 1, 1, 1])


# ---- how large the numbers are -------------------------------------------------------------------------------------


def _everyday(rng: Rng, X: Floats) -> Floats:
    scaled = X * rng.choice([1.0, 1.0, 0.25, 0.01, 100.0])
    return scaled + rng.choice([0.0, 0.0, 0.0, 5.0, -1e3])


def _whole_table(rng: Rng, X: Floats) -> Floats:
    return _times(X, rng.uniform(-323, 308, size=(1, 1)))


def _by_column(rng: Rng, X: Floats) -> Floats:
    reach = rng.choice([4, 8, 12, 20, 40, 150, 300])
    return _times(X, rng.uniform(-reach, reach, size=(1, X.shape[1])))


def _a_subnormal_column(rng: Rng, X: Floats) -> Floats:
    powers = np.zeros((1, X.shape[1]))
    powers[0, rng.integers(X.shape[1])] = rng.uniform(-323.5, -306)
    return _times(X, powers)


def _by_row(rng: Rng, X: Floats) -> Floats:
    reach = rng.choice([4, 12, 40, 100, 300])
    return _times(X, rng.uniform(-reach, reach, size=(len(X), 1)))


def _near_the_largest(rng: Rng, X: Floats) -> Floats:
    largest = np.abs(X).max()
    return X / largest * (_LARGEST * rng.uniform(0.1, 1.0)) if largest > 0 else X


def _subnormal(rng: Rng, X: Floats) -> Floats:
    largest = np.abs(X).max()
    return _times(X / largest, rng.uniform(-323, -300, size=(1, 1))) if largest > 0 else X


def _least_numbers(rng: Rng, X: Floats) -> Floats:
    return np.rint(np.clip(X, -1e3, 1e3) * rng.choice([1.0, 3.0, 20.0])) * 5e-324


def _squares_underflow(rng: Rng, X: Floats) -> Floats:
    return _times(X, rng.uniform(-175, -140, size=(1, 1)))


def _shifted(rng: Rng, X: Floats) -> Floats:
    return X + 10.0 ** rng.uniform(3, 300)


def _few_entries(rng: Rng, X: Floats) -> Floats:
    chosen = rng.random(X.shape) < 0.15
    return np.where(chosen, _times(X, rng.uniform(-323, 308, size=X.shape)), X)


def _times(X: Floats, powers: Floats) -> Floats:
    """Multiply by powers of ten, each in two steps so that 10^−323 is not lost before it is used."""
    with np.errstate(over="ignore", under="ignore"):
        return X * 10.0 ** (powers / 2) * 10.0 ** (powers / 2)


MAGNITUDES: dict[str, Callable[[Rng, Floats], Floats]] = {
    "whole table": _whole_table,
    "by column": _by_column,
    "a subnormal column": _a_subnormal_column,
    "by row": _by_row,
    "near the largest": _near_the_largest,
    "subnormal": _subnormal,
    "least numbers": _least_numbers,
    "squares underflow": _squares_underflow,
    "shifted": _shifted,
    "some entries": _few_entries,
}


# ---- a table -------------------------------------------------------------------------------------------------------


def draw_table(rng: Rng, most: int = 80, columns: int = 8) -> Table:
    """Draw a table of at most so many rows and columns."""
    n = (
        1
        if rng.random() < _LONE_ROW
        else int(rng.choice([rng.integers(2, 7), rng.integers(5, 31), rng.integers(20, 81)]))
    )
    d = [1, 2, 2, 3, int(rng.integers(1, 9))][rng.integers(5)]
    n, d = min(n, most), min(d, columns)
    shape = str(rng.choice(list(SHAPES), p=_SHARES / _SHARES.sum()))
    X = SHAPES[shape](rng, n, d)
    if rng.random() < _ORDINARY:
        magnitude, X = "ordinary", _everyday(rng, X)
    else:
        magnitude = str(rng.choice(list(MAGNITUDES)))
        X = MAGNITUDES[magnitude](rng, X)
    X = np.clip(X, -_LARGEST, _LARGEST)
    dtype = str(rng.choice(["float64", "float32", "int64"], p=[0.75, 0.17, 0.08]))
    if dtype == "float32":
        with np.errstate(under="ignore"):
            return Table(np.clip(X, -_SINGLE, _SINGLE).astype(np.float32), shape, magnitude)
    if dtype == "int64" and magnitude == "ordinary":
        return Table(np.rint(X).astype(np.int64), shape, magnitude)
    return Table(np.ascontiguousarray(X), shape, magnitude)


# ---- weights -------------------------------------------------------------------------------------------------------


def draw_weights(rng: Rng, n: int) -> tuple[str, Floats | None]:
    """Draw weights of n rows, at least one of them above 0, and name their sort."""
    sort = str(rng.choice(list(WEIGHTS), p=_WEIGHT_SHARES / _WEIGHT_SHARES.sum()))
    weights = WEIGHTS[sort](rng, n)
    if weights is not None and not weights.any():
        weights[rng.integers(n)] = 1.0
    return sort, weights


WEIGHTS: dict[str, Callable[[Rng, int], Floats | None]] = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones(n),
    "integers": lambda rng, n: rng.integers(1, 5, size=n).astype(float),
    "with zeros": lambda rng, n: rng.integers(0, 4, size=n).astype(float),
    "reals": lambda rng, n: rng.uniform(0.1, 3.0, size=n),
    "common factor": lambda rng, n: np.full(n, 10.0 ** rng.uniform(-300, 300)),
    "scaled integers": lambda rng, n: np.ldexp(
        rng.integers(1, 5, size=n).astype(float), int(rng.integers(-1000, 1000))
    ),
    "extreme": lambda rng, n: 10.0 ** rng.uniform(-300, 300, size=n),
    "some tiny": lambda rng, n: np.where(rng.random(n) < 0.3, 10.0 ** rng.uniform(-320, -10), 1.0),
}
_WEIGHT_SHARES = np.array([8, 1, 3, 3, 2, 1.5, 1, 0.7, 0.7])
