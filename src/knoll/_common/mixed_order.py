"""Rows and columns of a mixed table in an order that their contents decide; equal rows count together.

What is computed from it depends neither on the order of rows and columns nor on "weight or repetition".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from knoll._common import seeding
from knoll._common.mixed_table import MixedTable
from knoll._common.rescale import exponent_of, exponents_of, times_power
from knoll._typing import Floats, Ints

__all__ = ["Canonical", "canonical"]

Keys = list[Any]

_MISSING = np.uint64(1)  # no bits of a number over its power of two
_CATEGORY = np.uint64(0x9E3779B97F4A7C15)  # apart from numbers
_ROUNDS = 2
_LIFT = 960  # powers of two
_BLOCK = 1 << 15  # rows


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
    numeric, categorical = _numeric_keys(values, table.numeric), _categorical_keys(table, weights)
    if _tied(numeric) or _tied(categorical):
        distinct = _distinct(table, values, weights, threads)
        marks = _marks(table.rows(distinct.rows), values[distinct.rows], distinct.weights)
        for keys, mark in zip(numeric + categorical, marks, strict=True):
            keys.append(mark)
    first, second = _order(numeric), _order(categorical)
    table = table.columns(first, second)
    distinct = _distinct(table, values[:, first], weights, threads)
    total = None if (distinct.weights == 1).all() else distinct.weights
    return Canonical(table.rows(distinct.rows), total, first, second)


def _distinct(table: MixedTable, values: Floats, weights: Floats | None, threads: int) -> seeding.Multiset:
    """Merge equal rows, in an order of their contents."""
    missing = np.isnan(table.numeric)
    columns = [values, table.codes]
    partly = missing.any(axis=0) & ~missing.all(axis=0)
    if partly.any():
        columns.append(np.packbits(missing[:, partly], axis=1))
    return seeding.multiset(np.column_stack([np.asarray(w, dtype=np.float64) for w in columns]), weights, threads)


def _values(numeric: Floats) -> Floats:
    """Return the numbers with 0 where one is missing, each column over a power of two: so units change no order.

    No digit is lost, else rows that differ would be merged: a column whose least number would be subnormal beside 1 is
    lifted, and one whose numbers span more than 2^1900 stays as it is.
    """
    values = np.where(np.isnan(numeric), 0.0, numeric)
    sizes = np.abs(values)
    largest = exponents_of(sizes.max(axis=0, initial=0.0))
    least = exponents_of(np.where(sizes > 0, sizes, np.inf).min(axis=0, initial=np.finfo(np.float64).max))
    span = largest - np.minimum(least, largest)
    shift = np.where(span < 900, 0, _LIFT) - largest
    return np.asarray(times_power(values, np.where(span < 1900, shift, 0))) + 0.0  # no −0


def _numeric_keys(values: Floats, numeric: Floats) -> list[Keys]:
    """Return figures of each column that neither the order of rows nor repetition changes, and its power of two."""
    if values.shape[1] <= 1:
        return [[] for _ in range(values.shape[1])]
    bits = np.ascontiguousarray(values).view(np.int64)
    sizes = np.where(np.isnan(numeric), 0.0, np.abs(numeric)).max(axis=0)
    figures = (
        values.min(axis=0), values.max(axis=0), np.bitwise_and.reduce(bits, axis=0), np.bitwise_or.reduce(bits, axis=0),
        exponents_of(sizes),
    )  # fmt: skip
    return [list(column) for column in zip(*(figure.tolist() for figure in figures), strict=True)]


def _categorical_keys(table: MixedTable, weights: Floats | None) -> list[Keys]:
    """Return for each column how many levels it has, their shares, and their names."""
    weights = times_power(weights, -exponent_of(weights)) if weights is not None else None
    total = len(table) if weights is None else weights.sum()
    found: list[Keys] = []
    for codes, levels in zip(table.codes.T, table.levels, strict=True):
        shares = np.bincount(codes + 1, weights, minlength=len(levels) + 1) / total
        found.append([len(levels), tuple(np.round(shares, 6).tolist()), tuple(map(str, levels.tolist()))])
    return found


def _tied(keys: list[Keys]) -> bool:
    ordered = sorted(keys)
    return any(one == other for one, other in pairwise(ordered))


def _order(keys: list[Keys]) -> Ints:
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _marks(table: MixedTable, values: Floats, weights: Floats) -> list[int]:
    """Distinguish columns by the rows in which their values stand: 64 bits for each, numbers first.

    Colour refinement of the table as a graph of rows and columns: a row is known by its weight and the values of the
    columns, a column by the values of the rows, in turns. Sums of 64-bit integers depend on no order; the rows are
    distinct, so that no repetition counts twice.
    """
    masses = times_power(weights, -exponent_of(weights)).view(np.uint64)  # (m,)
    marks = np.zeros(values.shape[1] + table.codes.shape[1], dtype=np.uint64)
    for _ in range(_ROUNDS):
        found = np.zeros_like(marks)
        for begin in range(0, len(values), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            bits = np.ascontiguousarray(values[rows]).view(np.uint64)
            numbers = np.where(np.isnan(table.numeric[rows]), _MISSING, bits)
            cells = _mixed(np.column_stack([numbers, table.codes[rows].astype(np.uint64) + _CATEGORY]))
            known = _mixed(_mixed(masses[rows]) + _mixed(cells + marks).sum(axis=1, dtype=np.uint64))
            found += _mixed(cells ^ known[:, None]).sum(axis=0, dtype=np.uint64)
        marks = found
    return [int(mark) for mark in marks]


def _mixed(bits: Any) -> Any:
    """Mix the bits of 64-bit integers (the finaliser of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
