"""The schema of fitted attributes: each class declares its own, one line each; saving and loading check by it.

A table maps the name of an attribute to its rule, in an order in which a size is bound before it is used:

    _fitted: ClassVar = {
        "cluster_centers_": Array("k d"),                    # binds k; d is n_features_in_
        "labels_": Array("n", "int32", below="k"),           # whole numbers from 0 to k − 1
        "inertia_": Real(0, finite=False),
        "history_": Columns(),
    }

A checksum does not show who wrote a file, and methods and the core trust what a fit has set: whatever they index with,
divide by or take for finite is declared here. Bounds are those that a fit keeps in floating point, not in theory; where
rounding can cross a bound, the rule states by how much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Sizes = dict[str, int]  # name of a side → its length, the same throughout a model

_DTYPES = {
    "float": (("float64", "float32"), "real numbers"),
    "float64": (("float64",), "real numbers of 64 bits"),
    "int": (("int64", "int32"), "whole numbers"),
    "int64": (("int64",), "whole numbers of 64 bits"),
    "int32": (("int32",), "whole numbers of 32 bits"),
    "uint64": (("uint64",), "whole numbers of 64 bits without sign"),
    "bool": (("bool",), "true or false"),
    "text": (("object",), "text"),
}
_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """What is common to all rules: when an attribute is there, and what else must be true."""

    when: Callable[[Any], bool] | None = None  # (model): set where it is true, None elsewhere
    none: bool = False  # may be None
    missing: bool = False  # may be missing; with `when`, elsewhere it may, and what is there an earlier fit has left
    also: Callable[[Any, Any], str] | None = None  # (model, value): what is wrong, "" where nothing is

    def check(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Raise ValueError, with the name, where the value breaks the rule."""
        if self._is_absent(name, value, model):
            return
        self.check_value(name, value, model, sizes)
        if self.also is not None and (fault := self.also(model, value)):
            raise ValueError(f"{name} {fault}")

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check a value that is there."""
        raise NotImplementedError

    def _is_absent(self, name: str, value: Any, model: Any) -> bool:
        absent = value is _MISSING or value is None
        if self.when is not None:
            needed = self.when(model)
            if needed and absent:
                raise ValueError(f"{name} missing, and needed with these parameters")
            if not needed and value is not None and not self.missing:
                raise ValueError(f"{name} must be None with these parameters")
            return not needed
        if absent and not (self.missing if value is _MISSING else self.none):
            raise ValueError(f"{name} {'missing' if value is _MISSING else 'is None'}")
        return absent


@dataclass(frozen=True)
class Array(Attribute):
    """An array: the names of its sides, its type, and bounds on its entries."""

    shape: str | Callable[[Any], str]  # "k d"; "m+1" is one more than m, a number is itself, "*" any length
    dtype: str = "float"
    low: float = -math.inf
    high: float = math.inf
    strict: bool = False  # entries must be > low
    below: str = ""  # entries are < the length of that side
    finite: bool = True  # else infinities are allowed
    nan: bool = False
    increasing: bool = False
    sparse: bool = False  # compressed rows will do as well

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check type, sides and entries."""
        if not isinstance(value, np.ndarray) and not (self.sparse and scipy.sparse.issparse(value)):
            raise ValueError(f"{name} is not an array")
        array: Any = value
        dtypes, description = _DTYPES[self.dtype]
        if array.dtype.newbyteorder("=").name not in dtypes:
            raise ValueError(f"{name} has dtype {array.dtype}, and must be {description}")
        self._check_shape(name, array.shape, self.shape if isinstance(self.shape, str) else self.shape(model), sizes)
        self._check_entries(name, array if isinstance(array, np.ndarray) else array.data, sizes)

    def _check_shape(self, name: str, shape: tuple[int, ...], sides: str, sizes: Sizes) -> None:
        wanted = sides.split()
        fits = len(wanted) == len(shape)
        for side, length in zip(wanted, shape, strict=False):
            base, _, more = side.partition("+")
            extra = int(more or 0)
            bound = int(base) if base.isdigit() else length if base == "*" else sizes.setdefault(base, length - extra)
            fits = fits and bound + extra == length
        if not fits:
            raise ValueError(f"{name} has the shape {shape}, which does not fit the others")

    def _check_entries(self, name: str, entries: Any, sizes: Sizes) -> None:
        if self.dtype == "text":
            if not all(type(entry) is str for entry in entries.flat):
                raise ValueError(f"{name} has entries that are not text")
            return
        if self.dtype == "bool" or not entries.size:
            return
        low, high = entries.min(), entries.max()  # NaN where there is one
        if self.finite and not np.isfinite(entries).all():
            raise ValueError(f"{name} has entries that are not finite")
        if low != low and not self.nan:
            raise ValueError(f"{name} has entries that are NaN")
        if self.below and not self.low <= low <= high < sizes[self.below]:
            raise ValueError(f"{name} has entries outside {self.low} … {sizes[self.below] - 1}")
        if low < self.low or (self.strict and low <= self.low):
            raise ValueError(f"{name} has the entry {low}, and must be {'>' if self.strict else '>='} {self.low:g}")
        if high > self.high:
            raise ValueError(f"{name} has the entry {high}, and must be <= {self.high:g}")
        if self.increasing and not (entries[1:] > entries[:-1]).all():
            raise ValueError(f"{name} has entries that do not increase")


@dataclass(frozen=True)
class Real(Attribute):
    """A number between two bounds."""

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False  # it must be > low
    finite: bool = True
    nan: bool = False

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check type and bounds."""
        good = isinstance(value, float | np.floating)  # what every fit sets: a whole number may be beyond float64
        if good and self.nan and value != value:
            return
        inside = good and (self.low < value if self.strict else self.low <= value) and value <= self.high
        if not inside or (self.finite and not math.isfinite(value)):
            raise ValueError(f"{name} is {value!r:.60}")


@dataclass(frozen=True)
class Whole(Attribute):
    """A whole number between two bounds; it may be the length of a side."""

    low: int = 0
    high: int = 2**62
    side: str = ""

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check type and bounds; bind the side."""
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not self.low <= value <= self.high:
            raise ValueError(f"{name} is {value!r:.60}")
        if self.side and sizes.setdefault(self.side, int(value)) != value:
            raise ValueError(f"{name} is {value}, which does not fit the others")


@dataclass(frozen=True)
class Boolean(Attribute):
    """True or False."""

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check the type."""
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} is {value!r:.60}, and must be True or False")


@dataclass(frozen=True)
class Text(Attribute):
    """A text, or one of a few names."""

    names: Collection[str] = ()

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check type and name."""
        if not isinstance(value, str) or (self.names and value not in self.names):
            raise ValueError(f"{name} is {value!r:.60}, and must be {' or '.join(self.names) or 'text'}")


@dataclass(frozen=True)
class Columns(Attribute):
    """A mapping of arrays of numbers of one length."""

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check types and lengths."""
        if not isinstance(value, Mapping) or not value:
            raise ValueError(f"{name} is {value!r:.60}, and must be a mapping of arrays")
        for key, column in value.items():
            if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in "fiu":
                raise ValueError(f"{name}[{key!r}] is not a row of numbers")
        lengths = {key: len(column) for key, column in value.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{name} has columns of different lengths: {lengths}")


@dataclass(frozen=True)
class ArrayTuple(Attribute):
    """A tuple of arrays of one dimension: numbers, or text."""

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check types."""
        if not isinstance(value, tuple):
            raise ValueError(f"{name} is {value!r:.60}, and must be a tuple of arrays")
        for item in value:
            if not isinstance(item, np.ndarray) or item.ndim != 1 or item.dtype.kind not in "biufO":
                raise ValueError(f"{name} has an entry that is neither a row of numbers nor text")
            if item.dtype == object and not all(type(entry) is str for entry in item):
                raise ValueError(f"{name} has entries that are neither numbers nor text")


@dataclass(frozen=True)
class Record(Attribute):
    """A mapping with fixed names, each with its own rule."""

    fields: Mapping[str, Attribute]

    def check_value(self, name: str, value: Any, model: Any, sizes: Sizes) -> None:
        """Check the names, and each value."""
        if not isinstance(value, Mapping) or value.keys() != self.fields.keys():
            raise ValueError(f"{name} is {value!r:.60}, and must have {', '.join(self.fields)}")
        for key, rule in self.fields.items():
            rule.check(f"{name}[{key!r}]", value[key], model, sizes)


# ---- conditions of more than one class ------------------------------------------------------------------------------


def not_empty(model: Any, array: Any) -> str:
    """Return a fault if an array has no row."""
    return "" if array.shape[0] else "has no rows"


def not_columns(model: Any, labels: Any) -> str:
    """Return a fault if there is not one label for each column of the matrix of pairs that the model takes."""
    if not model.__sklearn_tags__().input_tags.pairwise or len(labels) == model.n_features_in_:
        return ""
    return f"has {len(labels)} entries for {model.n_features_in_} columns of pairs"


def not_all(present: str) -> Callable[[Any, Any], str]:
    """Return a fault if there is not one entry per row though `present`, the rows that count, is None: all do."""

    def fault(model: Any, array: Any) -> str:
        n = len(model.labels_)
        missing = getattr(model, present) is None and len(array) != n
        return f"has {len(array)} entries, and all of {n} rows count" if missing else ""

    return fault


def no_variances(matrices: NDArray[Any]) -> str:
    """Return what keeps (…, d, d) from being covariances, as far as the diagonals show it."""
    return "" if (np.diagonal(matrices, axis1=-2, axis2=-1) >= 0).all() else "has a negative variance"


def no_factor(matrices: NDArray[Any]) -> str:
    """Return what keeps (…, d, d) from being lower triangular factors of positive definite matrices."""
    if not (np.diagonal(matrices, axis1=-2, axis2=-1) > 0).all():
        return "has a diagonal that is not > 0"
    above = np.triu_indices(matrices.shape[-1], 1)
    return "has entries outside of its triangle" if matrices[..., above[0], above[1]].any() else ""


# ---- the check ------------------------------------------------------------------------------------------------------

COMMON: Mapping[str, Attribute] = {
    "n_features_in_": Whole(1, side="d"),
    "feature_names_in_": Array("d", "text", missing=True),
}


def check_attributes(model: Any, table: Mapping[str, Attribute]) -> None:
    """Raise ValueError, with the name of the attribute, where a fitted model breaks the rules of its class.

    What has no rule (an attribute that a user has set) is left alone: nothing reads it.
    """
    sizes: Sizes = {}
    for name, rule in {**COMMON, **table}.items():
        rule.check(name, vars(model).get(name, _MISSING), model, sizes)
