"""Validation of labels: any 1-D array of labels becomes codes 0 … k−1, weights become exact integers."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Bools, Ints
from knoll.exceptions import BadData


def rank(keys: Ints) -> tuple[Ints, Ints]:
    """Return the sorted distinct keys, and the index of each key among them."""
    low, high = int(keys.min()), int(keys.max())
    if high - low <= 4 * len(keys) + 1024:  # close together: counting is faster than sorting
        shifted = keys - low
        present = np.bincount(shifted) > 0
        index = np.cumsum(present) - 1
        return np.flatnonzero(present) + low, index[shifted]
    distinct, codes = np.unique(keys, return_inverse=True)
    return distinct, codes.reshape(-1).astype(np.int64, copy=False)


def factorise(labels: Any, name: str) -> tuple[NDArray[Any], Ints]:
    """Return the distinct labels (sorted where they have an order) and each row's code."""
    array = _as_array(labels, name)
    kind = array.dtype.kind
    if kind == "O":
        return _factorise_objects(array, name)
    if kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        what = "a NaN" if np.isnan(array[row]) else f"{array[row]}"
        raise BadData(f"{name} has {what} at row {row}. Drop such rows or give them a label of their own first.")
    if kind in "mM" and np.isnat(array).any():
        row = int(np.flatnonzero(np.isnat(array))[0])
        raise BadData(f"{name} has a NaT at row {row}. Drop such rows or give them a label of their own first.")
    if kind == "b":
        distinct, codes = rank(array.astype(np.int64))
        return distinct.astype(bool), codes
    if kind in "iu" and (kind == "i" or array.dtype.itemsize < 8):
        distinct, codes = rank(array.astype(np.int64, copy=False))
        return distinct.astype(array.dtype), codes
    values, codes = np.unique(array, return_inverse=True)
    return values, codes.reshape(-1).astype(np.int64, copy=False)


def is_noise(values: NDArray[Any]) -> Bools:
    """Return which of the distinct labels is the number -1."""
    if values.dtype.kind in "if":
        return np.asarray(values == -1)
    if values.dtype.kind == "O":
        return np.array([isinstance(v, numbers.Real) and bool(v == -1) for v in values], dtype=np.bool_)
    return np.zeros(len(values), dtype=bool)


def refuse_masked(data: Any, name: str) -> None:
    """Raise BadData if a mask hides entries: NumPy hands on what lies under it, which would count."""
    if isinstance(data, np.ma.MaskedArray) and (hidden := int(np.ma.count_masked(data))):
        raise BadData(
            f"{name} has {hidden} masked entries, and what lies under a mask would count. "
            f"Drop such rows first, or give them values with {name}.filled(...)."
        )


def check_weights(sample_weight: Any, n: int) -> Ints:
    """Return the weights as int64 repetitions, or raise with the row that cannot be one."""
    refuse_masked(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight)
    except ValueError as error:
        raise BadData(
            f"sample_weight must have shape ({n},), got rows of different lengths. Give one weight for each label."
        ) from error
    if weights.dtype.kind not in "biuf":
        raise BadData(f"sample_weight must be numbers, got {weights.dtype}. A weight counts repetitions of a row.")
    if weights.shape != (n,):
        raise BadData(f"sample_weight must have shape ({n},), got {weights.shape}. Give one weight for each label.")
    whole = np.isfinite(weights) & (weights == np.floor(weights)) & (weights >= 0)
    if not whole.all():
        row = int(np.flatnonzero(~whole)[0])
        raise BadData(
            f"sample_weight must be whole numbers >= 0, got {weights[row]} at row {row}. A weight counts "
            "repetitions of a row, and 0 leaves it out; scale fractions to whole numbers first."
        )
    # the sum in float64 is off by far less than the gap between 2⁶² and the end of int64
    total = float(weights.astype(np.float64).sum())
    if total > 2.0**62:
        raise BadData(f"sample_weight must sum to at most 2**62, got {total!r}. Divide the weights by a common factor.")
    return weights.astype(np.int64)


def _as_array(labels: Any, name: str) -> NDArray[Any]:
    refuse_masked(labels, name)
    try:
        array = _objects(labels) if _has_tuples(labels) else np.asarray(labels)
    except ValueError as error:
        raise BadData(
            f"{name} must be one label per row, got rows of different lengths. A tuple can be a label, a list cannot."
        ) from error
    if array.dtype.kind == "T":  # NumPy's variable strings, which may hold a missing value
        array = array.astype(object)
    if array.dtype.kind in "US" and not isinstance(labels, np.ndarray) and array.ndim == 1:
        # NumPy would have turned numbers and NaN in a list of strings into strings
        objects = _objects(labels)
        if not all(isinstance(value, str) for value in objects):
            array = objects
    if array.ndim != 1:
        one_row_or_column = array.ndim > 1 and max(array.shape) == array.size > 0
        remedy = f"Try np.ravel({name})." if one_row_or_column else "Give one label per row."
        raise BadData(f"{name} must have one dimension, got shape {array.shape}. {remedy}")
    if not len(array):
        raise BadData(f"{name} is empty. A score needs at least one row.")
    if array.dtype.kind not in "biufOUSmM":
        raise BadData(f"{name} must be numbers, strings or objects, got {array.dtype}. Encode them first.")
    return array


def _has_tuples(labels: Any) -> bool:
    """Return whether a list holds tuples: NumPy would take each for a row of a table, and it is a label."""
    return isinstance(labels, (list, tuple)) and any(isinstance(label, tuple) for label in labels)


def _objects(labels: Any) -> NDArray[Any]:
    """Return the labels in an array of objects, each as it is."""
    return np.fromiter(labels, dtype=object, count=len(labels))


def _factorise_objects(array: NDArray[Any], name: str) -> tuple[NDArray[Any], Ints]:
    known: dict[Any, int] = {}
    codes = np.empty(len(array), dtype=np.int64)
    for row, value in enumerate(array):
        if _is_missing(value):
            raise BadData(f"{name} has a missing value ({value}) at row {row}. Drop such rows or label them first.")
        try:
            codes[row] = known.setdefault(value, len(known))
        except TypeError as error:
            raise BadData(f"{name} has an unhashable label at row {row}: {value!r}. Use a string.") from error
    values = _objects(known)
    try:
        order = np.array(sorted(range(len(values)), key=values.__getitem__), dtype=np.int64)
    except TypeError:  # labels without a common order stay in the order of their first row
        return values, codes
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return values[order], back[codes]


def _is_missing(value: Any) -> bool:
    # NaN and NaT differ from themselves; pandas' NA answers NA, whose truth is an error
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return not isinstance(value, (tuple, list, np.ndarray))
