"""The columns of a mixed table: their units, the shares of their levels, and rows made of answers column by column."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.rescale import as_dtype, exponents_of, times_power
from knoll._typing import Bools, Floats, Ints
from knoll.mixture.mixed_em import MixedRows, Units

__all__ = ["choose_units", "draw_levels", "fill_missing", "interleave", "level_order", "level_shares"]

_BESIDE = 200  # powers of two that a unit may be below the root of reg_covar


def choose_units(
    numeric: Floats, observed: Bools, weights: Floats | None, isotropic: bool, reg_covar: float
) -> tuple[Units, Floats]:
    """Choose units by the moments of what is observed; also return the pooled deviations in them, (p,)."""
    n = len(numeric)
    values = np.where(observed, numeric, 0.0)
    sizes = np.abs(values).max(axis=0, initial=0.0)
    small = np.asarray(times_power(values, -exponents_of(sizes))) if _is_extreme(sizes) else values
    share = np.ones(n) if weights is None else weights
    mass = share @ observed  # (p,)
    present = np.where(mass > 0, mass, 1.0)
    mean = share @ small / present
    deviation = np.sqrt(np.maximum(share @ np.square(np.where(observed, small - mean, 0.0)), 0.0) / present)
    if _is_extreme(sizes):
        mean, deviation = (np.asarray(times_power(a, exponents_of(sizes))) for a in (mean, deviation))
    least = float(times_power(math.sqrt(reg_covar), -_BESIDE))  # so that reg_covar is a number in these units
    units = Units.of(sizes, mean, np.maximum(deviation, least), isotropic)
    # a column without a value, or with one value only, is measured in 1
    in_units = np.asarray(times_power(deviation, -units.exponents))
    return units, np.where(mass > 0, in_units, 1.0)


def _is_extreme(sizes: Floats) -> bool:
    positive = sizes[sizes > 0]
    return bool(len(positive) and (positive.max() > 2.0**200 or positive.min() < 2.0**-200))


def level_shares(rows: MixedRows) -> Floats:
    """Return the share of each level among the rows that have one, (levels,)."""
    levels = int(rows.offsets[-1])
    counts = np.zeros(levels + 1)
    for j in range(rows.codes.shape[1]):
        counts += np.bincount(rows.codes[:, j], rows.weights, minlength=levels + 1)
    shares = counts[:levels]
    for begin, end in itertools.pairwise(rows.offsets):
        total = shares[begin:end].sum()
        shares[begin:end] /= total if total > 0 else 1.0
    return shares


def level_order(offsets: Ints, sizes: Ints, columns: Ints) -> Ints:
    """Return the numbers of all levels, column by column in another order of the columns."""
    ranges = [np.arange(offsets[j], offsets[j] + sizes[j]) for j in columns]
    return np.concatenate(ranges).astype(np.int64) if ranges else np.zeros(0, dtype=np.int64)


def draw_levels(levels: NDArray[Any], theta: Floats, components: Ints, draws: Floats) -> NDArray[Any]:
    """Return a level for each row by a uniform draw, of the probabilities θ of its component; NaN without levels."""
    if not len(levels):
        return np.full(len(components), np.nan)
    ends = np.cumsum(theta, axis=1)[components]  # (n, levels)
    return levels[(draws[:, None] * ends[:, -1:] >= ends[:, :-1]).sum(axis=1)]


def interleave(is_categorical: Bools, numeric: list[Any], categorical: list[Any]) -> list[Any]:
    """Return the columns in the order of X."""
    columns = {False: iter(numeric), True: iter(categorical)}
    return [next(columns[bool(one)]) for one in is_categorical]


def fill_missing(X: Any, is_categorical: Bools, columns: list[Any], dtype: Any) -> Any:
    """Return X with its missing values replaced by those of the columns."""
    if hasattr(X, "iloc"):
        frame = X.copy()
        for j, values in enumerate(columns):
            column = X.iloc[:, j]
            missing = np.asarray(column.isna())
            if values is not None and missing.any():
                frame.isetitem(j, column.where(~missing, type(column)(values, index=column.index)))
        return frame
    array = np.array(X, dtype=object) if np.asarray(X).dtype == object else np.array(X, dtype=dtype)
    missing = array != array if array.dtype != object else np.array(array == None, dtype=np.bool_) | (array != array)  # noqa: E711 - entry by entry
    for j, values in enumerate(columns):
        if values is not None:
            filled = values[missing[:, j]]
            numbers = array.dtype.kind == "f" and filled.dtype.kind == "f"
            array[missing[:, j], j] = as_dtype(filled, array.dtype) if numbers else filled
    return array
