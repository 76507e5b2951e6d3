"""A profile of the table before anything is fitted: constant columns, duplicate rows, columns of different scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.rescale import near_one, times_power
from knoll._typing import Bools, Floats

_MAX_RATIO = 100.0  # of standard deviations: a remark is made beyond
_FEW_VALUES = 10  # of a column, as in codes and grades: a remark is made
_MIN_ROWS = 50  # for that remark


@dataclass(frozen=True)
class Profile:
    """The size of a table, statistics of its columns, and remarks."""

    n_rows: int
    n_columns: int
    columns: tuple[str, ...]
    means: Floats  # (d,)
    deviations: Floats  # (d,) standard deviations
    minima: Floats  # (d,)
    maxima: Floats  # (d,)
    constant: tuple[str, ...]  # columns with one value only
    duplicates: int  # rows that equal an earlier one
    scale_ratio: float  # the largest standard deviation over the smallest that is not 0
    remarks: tuple[str, ...]


def profile_of(
    X: NDArray[Any], columns: Sequence[str], order: NDArray[np.intp], categories: Sequence[slice] = ()
) -> Profile:
    """Describe the table; `order` sorts its rows by content, so that duplicates are adjacent.

    `categories` are columns of indicators, on which no remarks are made.
    """
    n, d = X.shape
    # (d,) each; rows are summed in order of content, so that the result does not depend on their order
    minima, maxima = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    near = [near_one(X[order, j]) for j in range(d)]  # sums and squares of extreme numbers leave float64
    means = np.array([times_power(np.mean(column, dtype=np.float64), exponent) for column, exponent in near])
    deviations = np.array([times_power(np.std(column), exponent) for column, exponent in near])
    constant = minima == maxima
    duplicates = 0
    for begin in range(0, n - 1, 1 << 16):
        block = X[order[begin : begin + (1 << 16) + 1]]
        duplicates += int((block[1:] == block[:-1]).all(axis=1).sum())
    varying = deviations[~constant]
    with np.errstate(over="ignore"):
        ratio = float(varying.max() / varying.min()) if len(varying) and varying.min() > 0 else 1.0
    names = tuple(str(name) for name in columns)
    fixed = tuple(name for name, same in zip(names, constant, strict=True) if same)
    remarks = []
    if fixed:
        verb = "has a single value and was" if len(fixed) == 1 else "have a single value each and were"
        remarks.append(f"{', '.join(fixed[:5])}{' …' if len(fixed) > 5 else ''} {verb} ignored.")
    coded = np.zeros(d, dtype=bool)
    for columns_of_one in categories:
        coded[columns_of_one] = True
    remarks += _few_values(X, names, constant | coded)
    if duplicates > 0:
        verb = "is a duplicate" if duplicates == 1 else "are duplicates"
        remarks.append(f"{duplicates} of {n} rows {verb} of another row.")
    if ratio > _MAX_RATIO and not categories:
        widest = names[int(np.argmax(deviations))]
        narrowest = names[int(np.argmin(np.where(constant, np.inf, deviations)))]
        remarks.append(
            f"Ranges differ widely ({widest} is {ratio:.3g} times {narrowest}): unscaled, {widest} would dominate."
        )
    return Profile(n, d, names, means, deviations, minima, maxima, fixed, duplicates, ratio, tuple(remarks))


def _few_values(X: NDArray[Any], names: Sequence[str], constant: Bools) -> list[str]:
    """Name columns with few distinct values, each of which is a mode of the density."""
    found = []
    for j in np.flatnonzero(~constant).tolist() if len(X) >= _MIN_ROWS else ():
        first = len(np.unique(X[: 20 * _FEW_VALUES, j]))
        if first <= _FEW_VALUES and (count := len(np.unique(X[:, j]))) <= _FEW_VALUES:
            found.append(f"{names[j]} ({count})")
    if not found:
        return []
    more = ", …" if len(found) > 5 else ""
    return [f"Few distinct values: {', '.join(found[:5])}{more}. Clusters may only reflect these."]
