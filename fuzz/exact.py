"""Exact arithmetic for oracles: floats as integers over one power of two, and logarithms by Decimal.

Integers over a common exponent need no greatest common divisors, so that sums over a whole table cost
microseconds a term even where its magnitudes go from 5e-324 to 1.79e308.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["DECIMAL", "Row", "agrees", "as_float", "integers", "power", "ratio", "squared_distance"]

Row = tuple[int, ...]
DECIMAL = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)

_DIGITS = 53
_LARGEST = Fraction(float(np.finfo(np.float64).max))
_LEAST = Fraction(5e-324)


def integers(*arrays: Any) -> tuple[list[list[Row]], int]:
    """Return tables as rows of integers over one exponent e: an entry is its integer times 2^e."""
    pairs = [[[_split(value) for value in row] for row in np.asarray(a, dtype=np.float64).tolist()] for a in arrays]
    exponents = [e for table in pairs for row in table for m, e in row if m]
    least = min(exponents, default=0)
    return [[tuple(m << (e - least) if m else 0 for m, e in row) for row in table] for table in pairs], least


def _split(value: float) -> tuple[int, int]:
    mantissa, exponent = math.frexp(value)
    return int(mantissa * 2.0**_DIGITS), exponent - _DIGITS


def squared_distance(a: Row, b: Row) -> int:
    """Return ‖a − b‖² in units of 2^2e."""
    return sum((x - y) * (x - y) for x, y in zip(a, b))


def power(exponent: int) -> Fraction:
    """Return 2^exponent."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def ratio(values: Iterable[float]) -> list[Fraction]:
    """Return floats as fractions."""
    return [Fraction(float(value)) for value in values]


def as_float(value: Fraction) -> float:
    """Round a fraction; beyond float64 it is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def agrees(found: float, exact: Fraction, relative: float, absolute: Fraction = Fraction(0)) -> bool:
    """Return whether a float is the fraction up to an error; infinite only where float64 does not reach."""
    slack = abs(exact) * Fraction(relative) + absolute + 2 * _LEAST
    if math.isnan(found):
        return False
    if math.isinf(found):
        return abs(exact) + slack >= _LARGEST and (found > 0) == (exact > 0)
    return abs(Fraction(found) - exact) <= slack


def decimals(values: Sequence[float]) -> list[decimal.Decimal]:
    """Return floats as decimals, exactly."""
    return [decimal.Decimal(float(value)) for value in values]
