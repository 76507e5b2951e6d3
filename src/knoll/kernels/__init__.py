"""The kernels κ(x, y): one class each, with the same methods; pieces of K and products with it, never K itself."""

from __future__ import annotations

from knoll.kernel_matrix import Operator
from knoll.kernels._given import Function, Precomputed
from knoll.kernels._in_core import Gaussian, Heaviside, Linear, Polynomial
from knoll.kernels._links import links, normalized_cut, normlinks
from knoll.kernels._make import make
from knoll.kernels._protocol import Kernel

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
