"""Random tables of numbers and categories with missing values; the numbers are those of `fuzz.tables`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.tables import Table, draw_table

__all__ = ["codes_of", "draw_mixed_table", "numeric_columns"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rng = np.random.Generator


def _none(rng: Rng, X: Floats) -> Bools:
    return np.zeros(X.shape, dtype=bool)


def _entries(rng: Rng, X: Floats) -> Bools:
    share = float(rng.choice([0.05, 0.2, 0.6]))
    return rng.random(X.shape) < share


def _whole_rows(rng: Rng, X: Floats) -> Bools:
    rows: Bools = rng.random((len(X), 1)) < 0.2
    return rows | _entries(rng, X)


def _whole_columns(rng: Rng, X: Floats) -> Bools:
    columns: Bools = rng.random((1, X.shape[1])) < 0.4
    return columns | _entries(rng, X)


def _all_but_one_row(rng: Rng, X: Floats) -> Bools:
    gaps = np.ones(X.shape, dtype=bool)
    gaps[rng.integers(len(X))] = False
    return gaps


def _everything(rng: Rng, X: Floats) -> Bools:
    return np.ones(X.shape, dtype=bool)


# Which values are missing, with how often it is drawn.
MISSING: dict[str, tuple[float, Callable[[Rng, Floats], Any]]] = {
    "none": (3.0, _none),
    "some": (5.0, _entries),
    "whole rows": (1.5, _whole_rows),
    "whole columns": (1.0, _whole_columns),
    "all but one row": (0.3, _all_but_one_row),
    "everything": (0.2, _everything),
}


def _categories(rng: Rng, n: int) -> Floats:
    """Draw a column of levels: few or many, one alone, even or not, or one for each row."""
    levels = int(rng.choice([1, 2, 2, 3, 5, 9, n]))
    shares = rng.dirichlet(np.full(levels, rng.choice([0.3, 1.0, 10.0])))
    return rng.choice(levels, size=n, p=shares).astype(float)


def draw_mixed_table(rng: Rng, most: int = 80, columns: int = 8) -> Table:
    """Draw a table; the columns in `categorical` hold whole numbers from 0, which are levels."""
    table = draw_table(rng, most, columns)
    X: Any = table.X.astype(np.float64) if table.X.dtype == np.int64 else table.X.copy()
    n, d = X.shape
    how = rng.choice(["numbers", "categories", "mixed", "mixed", "mixed"])
    share = {"numbers": 0.0, "categories": 1.0, "mixed": 0.5}[str(how)]
    chosen = np.flatnonzero(rng.random(d) < share)
    groups = rng.integers(3, size=n)  # some categories go together
    for j in chosen:
        column = _categories(rng, n)
        together = rng.random() < 0.5
        X[:, j] = np.where(rng.random(n) < 0.6, groups, column) if together else column
    shares = np.array([share for share, _ in MISSING.values()])
    X[MISSING[str(rng.choice(list(MISSING), p=shares / shares.sum()))][1](rng, X)] = np.nan
    return replace(table, X=np.ascontiguousarray(X), categorical=tuple(chosen.tolist()))


def numeric_columns(table: Table) -> list[int]:
    """List the columns that are numbers."""
    return [j for j in range(table.X.shape[1]) if j not in table.categorical]


def codes_of(table: Table) -> NDArray[np.int64]:
    """Return the categories, (n, q), −1 where one is missing."""
    levels = table.X[:, list(table.categorical)].astype(np.float64)
    return np.where(np.isnan(levels), -1, levels).astype(np.int64)
