"""Rows and columns of a mixed table in an order that their contents decide; equal rows count together.

What is computed from it depends neither on the order of rows and columns nor on "weight or repetition".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knoll._common import seeding
from knoll._common.mixed_table import MixedTable
from knoll._common.rescale import exponents_of, times_power
from knoll._typing import Floats, Ints

__all__ = ["Canonical", "canonical"]


@dataclass(frozen=True)
class Canonical:
    """The distinct rows in an order of their contents, columns too."""

    table: MixedTable
    weights: Floats | None  # None: every row counts once
    numeric: Ints  # (p,) the original column that each column is
    categorical: Ints  # (q,)


def canonical(table: MixedTable, weights: Floats | None, threads: int) -> Canonical:
    """Merge equal rows and order rows and columns by content; rows of weight 0 are absent."""
    if weights is not None and not weights.all():
        present = weights > 0
        table, weights = table.rows(present), weights[present]
    values = _values(table.numeric)
    numeric, categorical = _numeric_order(values), _categorical_order(table, weights)
    table = table.columns(numeric, categorical)
    missing = np.isnan(table.numeric)
    words = [values[:, numeric], table.codes]
    partly = missing.any(axis=0) & ~missing.all(axis=0)
    if partly.any():
        words.append(np.packbits(missing[:, partly], axis=1))
    distinct = seeding.multiset(np.column_stack([np.asarray(w, dtype=np.float64) for w in words]), weights, threads)
    total = None if (distinct.weights == 1).all() else distinct.weights
    return Canonical(table.rows(distinct.rows), total, numeric, categorical)


def _values(numeric: Floats) -> Floats:
    """Return the numbers with 0 where one is missing, each column over a power of two: so units change no order."""
    values = np.where(np.isnan(numeric), 0.0, numeric) + 0.0  # no −0
    sizes = np.abs(values).max(axis=0, initial=0.0)
    return np.asarray(times_power(values, -exponents_of(sizes)))


def _numeric_order(values: Floats) -> Ints:
    """Order columns by figures that neither the order of rows nor repetition changes."""
    if values.shape[1] <= 1:
        return np.arange(values.shape[1])
    bits = np.ascontiguousarray(values).view(np.int64)
    keys = [np.bitwise_or.reduce(bits, axis=0), np.bitwise_and.reduce(bits, axis=0), values.max(axis=0)]
    return np.lexsort([*keys, values.min(axis=0)]).astype(np.int64)


def _categorical_order(table: MixedTable, weights: Floats | None) -> Ints:
    def key(j: int) -> tuple[int, tuple[float, ...], tuple[str, ...]]:
        codes = table.codes[:, j]
        counts = np.bincount(codes + 1, weights, minlength=len(table.levels[j]) + 1)
        return len(table.levels[j]), tuple(np.round(counts, 6).tolist()), tuple(map(str, table.levels[j].tolist()))

    return np.array(sorted(range(table.codes.shape[1]), key=key), dtype=np.int64)
