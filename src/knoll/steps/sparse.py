"""Sparse matrices, as far as steps must know of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["dense_rows", "is_sparse"]


def is_sparse(points: Any) -> bool:
    """Tell whether the points are a sparse matrix or array."""
    return bool(scipy.sparse.issparse(points))


def dense_rows(points: Any, rows: NDArray[Any]) -> NDArray[Any]:
    """Return some rows as an array."""
    some = points[rows]
    return np.asarray(some.toarray() if is_sparse(some) else some)
