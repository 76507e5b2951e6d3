"""A table of mixed types as arrays: numbers with NaN, codes of categories with −1, and their encoding as one matrix.

For a method that takes numbers alone, a category becomes indicator columns. Under `knoll.models.Preparation` they are
divided by √(1 − Σ pₗ²), where pₗ is the share of level l: then the mean squared distance between two rows of the table,
over one category, is 2, as it is over one standardised number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knoll._typing import Bools, Floats, Labels
from knoll.exceptions import BadData

__all__ = ["MixedTable", "block_fill", "block_spread", "blocks_of"]


@dataclass(frozen=True)
class MixedTable:
    """The rows of a table by type.

    Attributes
    ----------
    numeric : ndarray of shape (n, p), float64
        Numbers, dates and times; NaN where one is missing.
    codes : ndarray of shape (n, q), int32
        The level of each category, from 0; −1 where it is missing or unknown.
    levels : tuple of int
        The number of levels of each category.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.tables import MixedTable
    >>> rows = MixedTable(np.array([[1.5], [np.nan]]), np.array([[2, 0], [0, -1]], np.int32), (3, 2))
    >>> rows.encode()
    array([[1.5, 0. , 0. , 1. , 0. ],
           [nan, 1. , 0. , 0. , nan]])
    """

    numeric: Floats
    codes: Labels
    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        n, q = self.codes.shape
        if len(self.numeric) != n or len(self.levels) != q:
            raise BadData(f"numeric has {len(self.numeric)} rows, codes {n}, with {len(self.levels)} levels for {q}.")

    def __len__(self) -> int:
        return len(self.numeric)

    @property
    def missing(self) -> Bools:
        """Which values of the p + q columns are missing."""
        return np.hstack([~np.isfinite(self.numeric), self.codes < 0])

    def take(self, rows: Bools) -> MixedTable:
        """Return some of the rows."""
        return MixedTable(self.numeric[rows], self.codes[rows], self.levels)

    def encode(self) -> Floats:
        """Return the numbers and, after them, an indicator column for each level; two levels share one column.

        Where a category is missing its indicators are NaN.
        """
        p = self.numeric.shape[1]
        blocks = blocks_of(p, self.levels)
        if not blocks:
            return self.numeric
        X = np.zeros((len(self), blocks[-1].stop))  # (n, columns)
        X[:, :p] = self.numeric
        for block, code in zip(blocks, self.codes.T, strict=True):
            _write_indicators(X[:, block], code)
        return X


def _write_indicators(out: Floats, code: Labels) -> None:
    if out.shape[1] == 1:
        out[:, 0] = code
    else:
        out[np.arange(len(code)), code] = 1.0  # −1 writes into the last column, and is overwritten below
    out[code < 0] = np.nan


def blocks_of(n_numeric: int, levels: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the encoded columns of each category."""
    blocks, begin = [], n_numeric
    for count in levels:
        end = begin + (1 if count <= 2 else count)
        blocks.append(slice(begin, end))
        begin = end
    return tuple(blocks)


def block_spread(indicators: Floats) -> float:
    """Return what the indicators of a category are divided by, so that it counts as one standardised number.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.tables.mixed import block_spread
    >>> round(block_spread(np.eye(4)) ** 2, 12)
    0.75
    """
    shares = indicators.mean(axis=0)  # of counts below 2⁵³: the order of rows does not matter
    if indicators.shape[1] == 1:
        variance = float(shares[0] * (1 - shares[0]))
    else:
        variance = 1.0 - float(np.square(shares).sum())
    return variance**0.5 if variance > 0 else 1.0


def block_fill(indicators: Floats) -> Floats:
    """Return the indicators of the most frequent level, the first of equals; rows with NaN do not count."""
    known = indicators[np.isfinite(indicators[:, 0])]
    shares = known.mean(axis=0) if len(known) else np.zeros(indicators.shape[1])
    if len(shares) == 1:
        return np.array([float(shares[0] > 0.5)])
    return np.eye(len(shares))[int(shares.argmax())]
