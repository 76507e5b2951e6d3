"""The forms in which the same table may be handed to an estimator: layouts, containers, files, sparse rows."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["DENSE", "FORMS", "in_form"]

Array = NDArray[Any]


def _strided(X: Array) -> Array:
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), 7, dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _negative(X: Array) -> Array:
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def _read_only(X: Array) -> Array:
    copy = X.copy()
    copy.flags.writeable = False
    return copy


def _unaligned(X: Array) -> Array:
    raw = np.zeros(X.nbytes + 1, dtype=np.uint8)
    raw[1:] = np.frombuffer(np.ascontiguousarray(X).tobytes(), dtype=np.uint8)
    return np.frombuffer(raw.data, dtype=X.dtype, offset=1).reshape(X.shape)


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="knoll-fuzz-"))


def _memmap(X: Array) -> Array:
    file = _folder() / "table.dat"
    file.unlink(missing_ok=True)
    mapped = np.memmap(file, dtype=X.dtype, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    os.unlink(file)  # the mapping outlives its name
    return mapped


def _frame(X: Array) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])


DENSE: dict[str, Callable[[Array], Any]] = {
    "C": lambda X: X,
    "F": np.asfortranarray,
    "strided": _strided,
    "negative strides": _negative,
    "read-only": _read_only,
    "unaligned": _unaligned,
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "memmap": _memmap,
    "list": lambda X: X.tolist(),
    "frame": _frame,
}
FORMS: dict[str, Callable[[Array], Any]] = {
    **DENSE,
    "csr": scipy.sparse.csr_array,
    "csr matrix": scipy.sparse.csr_matrix,
}


def in_form(X: Array, form: str) -> Any:
    """Return the table in one of the forms; a list is of the numbers of its dtype, so float32 stays what it was."""
    return FORMS[form](X)
