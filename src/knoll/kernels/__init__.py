"""The kernels κ(x, y): one class each, with the same methods; pieces of K and products with it, never K itself."""

from __future__ import annotations

from knoll.kernels.cuts import links, normalized_cut, normlinks
from knoll.kernels.functions import (
    Function,
    Gaussian,
    Heaviside,
    Kernel,
    Linear,
    Polynomial,
    Precomputed,
    make,
)
from knoll.kernels.operators import Operator

__all__ = [
    "Function",
    "Gaussian",
    "Heaviside",
    "Kernel",
    "Linear",
    "Operator",
    "Polynomial",
    "Precomputed",
    "links",
    "make",
    "normalized_cut",
    "normlinks",
]
