"""What a table looks like before anything is fitted: constants, copies, and columns of very different scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.rescale import near_one, times_power

__all__ = ["Profile", "profile_of"]

_APART = 100.0  # times: columns whose spreads differ by more are named
_FEW = 10  # values of a column: as many or fewer are named, as codes and grades have them,
_MANY = 50  # where there are so many rows


@dataclass(frozen=True)
class Profile:
    """Rows, columns, and what to know of them."""

    n_rows: int
    n_columns: int
    columns: tuple[str, ...]
    means: NDArray[np.float64]  # (d,)
    deviations: NDArray[np.float64]  # (d,) standard deviations
    minima: NDArray[np.float64]  # (d,)
    maxima: NDArray[np.float64]  # (d,)
    constant: tuple[str, ...]  # columns with one value only
    duplicates: int  # rows that are copies of another one
    scale_ratio: float  # the largest standard deviation over the smallest that is not 0
    remarks: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else list(value) if type(value) is tuple else value
            for name, value in vars(self).items()
        }


def profile_of(X: NDArray[Any], columns: Sequence[str], order: NDArray[np.intp]) -> Profile:
    """Describe the table; `order` sorts its rows by content, so that copies stand side by side."""
    n, d = X.shape
    # (d,) each; sums over rows in order of content, so that the order of rows changes no bit
    minima, maxima = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    near = [near_one(X[order, j]) for j in range(d)]  # sums and squares of extreme numbers leave float64
    means = np.array([times_power(np.mean(column, dtype=np.float64), exponent) for column, exponent in near])
    deviations = np.array([times_power(np.std(column), exponent) for column, exponent in near])
    constant = minima == maxima
    copies = 0
    for begin in range(0, n - 1, 1 << 16):
        block = X[order[begin : begin + (1 << 16) + 1]]
        copies += int((block[1:] == block[:-1]).all(axis=1).sum())
    spread = deviations[~constant]
    with np.errstate(over="ignore"):
        ratio = float(spread.max() / spread.min()) if len(spread) and spread.min() > 0 else 1.0
    names = tuple(str(name) for name in columns)
    still = tuple(name for name, same in zip(names, constant, strict=True) if same)
    remarks = []
    if still:
        verb = "has a single value and was" if len(still) == 1 else "have a single value each and were"
        remarks.append(f"{', '.join(still[:5])}{' …' if len(still) > 5 else ''} {verb} ignored.")
    remarks += _few_values(X, names, constant)
    if copies > 0:
        verb = "is a copy" if copies == 1 else "are copies"
        remarks.append(f"{copies} of {n} rows {verb} of another row.")
    if ratio > _APART:
        widest, narrowest = (
            names[int(np.argmax(deviations))],
            names[int(np.argmin(np.where(constant, np.inf, deviations)))],
        )
        remarks.append(
            f"Ranges differ widely ({widest} is {ratio:.3g} times {narrowest}): unscaled, {widest} would dominate."
        )
    return Profile(n, d, names, means, deviations, minima, maxima, still, copies, ratio, tuple(remarks))


def _few_values(X: NDArray[Any], names: Sequence[str], constant: NDArray[np.bool_]) -> list[str]:
    """Name columns that take few values: hills of the density there are those values."""
    if len(X) < _MANY:
        return []
    found = {}
    for j in np.flatnonzero(~constant).tolist():
        if len(np.unique(X[: 20 * _FEW, j])) <= _FEW and (count := len(np.unique(X[:, j]))) <= _FEW:
            found[names[j]] = count
    if not found:
        return []
    shown, counts = list(found)[:5], [str(count) for count in found.values()][:5]
    if len(found) == 1:
        return [f"{shown[0]} takes few values ({counts[0]}): groups may be no more than these."]
    more = " and others" if len(found) > 5 else ""
    named = f"{', '.join(shown)}{more}" if more else f"{', '.join(shown[:-1])} and {shown[-1]}"
    values = f"{', '.join(counts)}, …" if more else f"{', '.join(counts[:-1])} and {counts[-1]}"
    return [f"{named} take few values ({values}): groups may be no more than these."]
