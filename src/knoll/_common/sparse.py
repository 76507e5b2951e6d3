"""Sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll.exceptions import BadData


def is_sparse(points: Any) -> bool:
    """Return whether the points are a sparse matrix or array."""
    return bool(scipy.sparse.issparse(points))


def dense_rows(points: Any, rows: NDArray[Any]) -> NDArray[Any]:
    """Return these rows as an array."""
    taken = points[rows]
    return np.asarray(taken.toarray() if is_sparse(taken) else taken)


def column_ends(points: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the least and the largest value of each column, (d,) each."""
    low, high = points.min(axis=0), points.max(axis=0)
    if is_sparse(points):
        return low.toarray().ravel(), high.toarray().ravel()
    return low, high


def check_compressed(points: Any, owner: str, name: str = "X") -> None:
    """Refuse a compressed matrix whose indices point outside of it: a kernel would follow them."""
    if getattr(points, "format", "") not in ("csr", "csc", "bsr"):
        return
    indptr, indices, data = points.indptr, points.indices, points.data
    lines, across = points.shape if points.format != "csc" else points.shape[::-1]
    if points.format == "bsr":
        lines, across = lines // points.blocksize[0], across // points.blocksize[1]
    remedy = "Its check_format() finds such entries; build the matrix anew, for example from its coordinates."
    if len(indptr) != lines + 1 or len(indices) != len(data):
        raise BadData(
            f"{owner}: the sparse {name} of shape {points.shape} has an indptr of {len(indptr)}, indices of "
            f"{len(indices)} and data of {len(data)} entries, which do not belong together. {remedy}"
        )
    if indptr[0] != 0 or indptr[-1] > len(indices) or (np.diff(indptr) < 0).any():
        raise BadData(
            f"{owner}: the indptr of the sparse {name} must rise from 0 to at most {len(indices)}, the number of its "
            f"entries, but does not. {remedy}"
        )
    used = indices[: indptr[-1]]
    if len(used) and (used.min() < 0 or used.max() >= across):
        bad = used[(used < 0) | (used >= across)][0]
        raise BadData(f"{owner}: the sparse {name} has an index {bad}, which is not within [0, {across}). {remedy}")
