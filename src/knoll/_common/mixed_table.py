"""Tables of numeric and categorical columns with missing values: what readers of files make, and models read.

A table is two arrays: numbers with NaN where a value is missing, and codes of levels with −1 there. A level that the
fit has not seen is missing, too. For a method that takes numbers alone, a category becomes indicator columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from knoll._typing import Bools, Codes, Floats, Ints
from knoll.exceptions import BadData, InvalidParameter, InvalidType
from knoll.validation import check_points, refuse_masked

__all__ = ["MixedTable", "Patterns", "blocks_of", "group_patterns", "read_mixed"]

Levels = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class MixedTable:
    """The rows of a table by type.

    Attributes
    ----------
    numeric : ndarray of shape (n, p), float64
        Numbers, dates and times; NaN where one is missing.
    codes : ndarray of shape (n, q), int32
        The level of each category, from 0; −1 where it is missing or unknown.
    levels : tuple of ndarray
        The distinct values of each category, in the order of their codes.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.tables import MixedTable
    >>> levels = np.array(["a", "b", "c"]), np.array(["no", "yes"])
    >>> rows = MixedTable(np.array([[1.5], [np.nan]]), np.array([[2, 0], [0, -1]], np.int32), levels)
    >>> rows.encode()
    array([[1.5, 0. , 0. , 1. , 0. ],
           [nan, 1. , 0. , 0. , nan]])
    """

    numeric: Floats
    codes: Codes
    levels: Levels

    def __post_init__(self) -> None:
        n = len(self.numeric)
        if self.codes.shape != (n, len(self.levels)):
            raise BadData(
                f"The table has {n} rows of numbers, codes of shape {self.codes.shape} and {len(self.levels)} levels."
            )

    def __len__(self) -> int:
        return len(self.numeric)

    @property
    def missing(self) -> Bools:
        """Which values of the p + q columns are missing."""
        return np.hstack([~np.isfinite(self.numeric), self.codes < 0])

    def encode(self) -> Floats:
        """Return the numbers and, after them, an indicator column for each level; two levels share one column.

        Where a category is missing its indicators are NaN.
        """
        p = self.numeric.shape[1]
        blocks = blocks_of(p, self.sizes.tolist())
        if not blocks:
            return self.numeric
        X = np.zeros((len(self), blocks[-1].stop))  # (n, columns)
        X[:, :p] = self.numeric
        for block, code in zip(blocks, self.codes.T, strict=True):
            _write_indicators(X[:, block], code)
        return X

    @property
    def sizes(self) -> Ints:
        """How many levels each categorical column has, (q,)."""
        return np.array([len(levels) for levels in self.levels], dtype=np.int64)

    def rows(self, chosen: Any) -> MixedTable:
        """Return some of the rows."""
        return MixedTable(self.numeric[chosen], self.codes[chosen], self.levels)

    def columns(self, numeric: Any, categorical: Any) -> MixedTable:
        """Return the columns in another order."""
        levels = tuple(self.levels[j] for j in categorical)
        return MixedTable(self.numeric[:, numeric], self.codes[:, categorical], levels)

    def without_absent(self, weights: Floats | None) -> MixedTable:
        """Return the table without the levels that only rows of weight 0 have; those are missing then."""
        if weights is None or weights.all():
            return self
        present = [column[weights > 0] for column in self.codes.T]
        pairs = []
        for column, counted, levels in zip(self.codes.T, present, self.levels, strict=True):
            kept = np.flatnonzero(np.bincount(counted[counted >= 0], minlength=len(levels)))
            pairs.append((_recode(column, levels, levels[kept]), levels[kept]))
        return _joined(self.numeric, pairs, len(self))


def _write_indicators(out: Floats, code: Codes) -> None:
    if out.shape[1] == 1:
        out[:, 0] = code
    else:
        out[np.arange(len(code)), code] = 1.0  # −1 writes into the last column, and is overwritten below
    out[code < 0] = np.nan


def blocks_of(n_numeric: int, sizes: Sequence[int]) -> tuple[slice, ...]:
    """Return the encoded columns of each category."""
    blocks, begin = [], n_numeric
    for count in sizes:
        end = begin + (1 if count <= 2 else count)
        blocks.append(slice(begin, end))
        begin = end
    return tuple(blocks)


@dataclass(frozen=True)
class Patterns:
    """Rows grouped by the numeric columns that are missing."""

    order: Ints  # (n,) the rows, group by group
    starts: Ints  # (groups + 1,) where each group begins in `order`, then n
    observed: Bools  # (groups, p)


def group_patterns(missing: Bools) -> Patterns:
    """Group rows of (n, p) by which entries are missing; the complete rows first, within a group as they come."""
    n, p = missing.shape
    if not missing.any():
        return Patterns(np.arange(n), np.array([0, n]), np.ones((1, p), dtype=np.bool_))
    packed = np.packbits(missing, axis=1)
    packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    words = packed.view(">u8").astype(np.uint64)  # (n, ⌈p/64⌉)
    order = np.lexsort(words.T[::-1])
    ordered = words[order]
    first = np.flatnonzero(np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)])
    return Patterns(order, np.append(first, n), ~missing[order[first]])


# ---- reading -------------------------------------------------------------------------------------------------------


def read_mixed(
    X: Any,
    *,
    estimator: Any,
    categorical_features: Any = None,
    fitted: tuple[Bools, Levels] | None = None,
) -> tuple[MixedTable, Bools, Any]:
    """Turn X into a `MixedTable`; also return which columns are categorical (d,), and the dtype of the numbers.

    X is a data frame, an array, or a `MixedTable`, whose numeric columns come first. `fitted` has the columns and the
    levels of a fit; without it they are found in X. The names and the number of the columns are checked, or kept, by
    the estimator.
    """
    refuse_masked(X, "X")
    if isinstance(X, MixedTable):
        return _typed(X, estimator, fitted)
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return _frame(X, estimator, categorical_features, fitted)
    return _array(X, estimator, categorical_features, fitted)


def _typed(X: MixedTable, estimator: Any, fitted: tuple[Bools, Levels] | None) -> tuple[MixedTable, Bools, Any]:
    n, p = X.numeric.shape
    is_categorical = np.arange(p + len(X.levels)) >= p
    validate_data(estimator, _Shape((n, len(is_categorical))), reset=fitted is None, skip_check_array=True)
    _refuse_infinite(X.numeric, None)
    codes = np.ascontiguousarray(X.codes, dtype=np.int32)
    if len(codes) and ((codes < -1).any() or (codes >= np.array([len(v) for v in X.levels])).any()):
        raise BadData("The table has codes that are neither -1 nor the number of a level.")
    columns = [codes[:, j] for j in range(codes.shape[1])]
    if fitted is None:
        pairs = [_present(column, np.asarray(v)) for column, v in zip(columns, X.levels, strict=True)]
    else:
        pairs = [
            (_recode(column, np.asarray(v), known), known)
            for column, v, known in zip(columns, X.levels, fitted[1], strict=True)
        ]
    return _joined(np.asarray(X.numeric, dtype=np.float64), pairs, n), is_categorical, X.numeric.dtype


class _Shape:
    """What scikit-learn's check of the number of columns reads."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape


def _frame(
    X: Any, estimator: Any, categorical_features: Any, fitted: tuple[Bools, Levels] | None
) -> tuple[MixedTable, Bools, Any]:
    n, d = X.shape
    if n == 0 or d == 0:
        check_points(np.zeros((n, d)), estimator=estimator, reset=fitted is None)
    try:
        validate_data(estimator, X, reset=fitted is None, skip_check_array=True)
    except ValueError as error:
        raise BadData(str(error)) from None
    names = [str(name) for name in X.columns]
    columns = [X.iloc[:, j] for j in range(d)]
    if fitted is not None:
        is_categorical = fitted[0]
    elif categorical_features is None:
        is_categorical = np.array([_is_text(column) for column in columns])
    else:
        is_categorical = _chosen(categorical_features, d, names)
    numbers = [_numbers(columns[j], names[j]) for j in np.flatnonzero(~is_categorical)]
    single = all(column.dtype == np.float32 for column in columns)  # levels alone, as an array of them
    dtype = np.result_type(np.float32, *(v.dtype for v in numbers)) if numbers or single else np.dtype(np.float64)
    numeric = np.empty((n, len(numbers)))
    for j, values in enumerate(numbers):
        numeric[:, j] = values
    _refuse_infinite(numeric, [name for name, text in zip(names, is_categorical, strict=True) if not text])
    known = iter(fitted[1]) if fitted is not None else None
    pairs = [_codes(columns[j], None if known is None else next(known)) for j in np.flatnonzero(is_categorical)]
    return _joined(numeric, pairs, n), is_categorical, np.dtype(dtype)


def _array(
    X: Any, estimator: Any, categorical_features: Any, fitted: tuple[Bools, Levels] | None
) -> tuple[MixedTable, Bools, Any]:
    chosen = fitted is not None and fitted[0].any() if categorical_features is None else True
    if not chosen or getattr(np.asarray(X), "ndim", 0) != 2 or np.asarray(X).dtype.kind in "biuf":
        points = check_points(X, estimator=estimator, reset=fitted is None, finite=False)
    else:  # text and numbers in one array
        points = np.asarray(X, dtype=object)
        if len(points) == 0:
            raise BadData("Found array with 0 sample(s) while a minimum of 1 is required.")
        validate_data(estimator, points, reset=fitted is None, skip_check_array=True)
    n, d = points.shape
    is_categorical = (
        fitted[0]
        if fitted is not None
        else np.zeros(d, dtype=np.bool_)
        if categorical_features is None
        else _chosen(categorical_features, d, None)
    )
    numbers = points[:, ~is_categorical]
    numeric = np.asarray(numbers, dtype=np.float64) if numbers.dtype != object else _converted(numbers)
    _refuse_infinite(numeric, None, np.flatnonzero(~is_categorical))
    known = iter(fitted[1]) if fitted is not None else None
    columns = (points[:, j] for j in np.flatnonzero(is_categorical))
    pairs = [_codes(column, None if known is None else next(known)) for column in columns]
    dtype = points.dtype if points.dtype != object else np.dtype(np.float64)
    return _joined(numeric, pairs, n), is_categorical, dtype


def _joined(numeric: Floats, pairs: Sequence[tuple[Codes, NDArray[Any]]], n: int) -> MixedTable:
    codes = np.empty((n, len(pairs)), dtype=np.int32)
    for j, (column, _) in enumerate(pairs):
        codes[:, j] = column
    return MixedTable(np.ascontiguousarray(numeric), codes, tuple(levels for _, levels in pairs))


def _chosen(categorical_features: Any, d: int, names: list[str] | None) -> Bools:
    """Turn a mask, indices or names into a mask (d,)."""
    chosen = np.atleast_1d(np.asarray(categorical_features))
    found = np.zeros(d, dtype=np.bool_)
    if chosen.size == 0:
        return found
    if chosen.dtype.kind == "b":
        if chosen.shape != (d,):
            raise InvalidParameter(
                f"categorical_features is a mask of shape {chosen.shape}, and X has {d} columns. Give one for each."
            )
        return chosen.astype(np.bool_)
    if chosen.dtype.kind in "iu":
        if chosen.min() < 0 or chosen.max() >= d:
            raise InvalidParameter(
                f"categorical_features has the index {chosen.max() if chosen.max() >= d else chosen.min()}, and X has "
                f"{d} columns. Indices go from 0 to {d - 1}."
            )
        found[chosen] = True
        return found
    if chosen.dtype.kind in "OUS":
        if names is None:
            raise InvalidParameter(
                f"categorical_features has the name {str(chosen[0])!r}, and X has no column names. "
                "Give indices or a mask."
            )
        for name in chosen.tolist():
            if str(name) not in names:
                raise InvalidParameter(
                    f"categorical_features has the name {name!r}, which is not a column of X. "
                    f"The columns are {', '.join(map(repr, names[:10]))}{', …' if len(names) > 10 else ''}."
                )
            found[names.index(str(name))] = True
        return found
    raise InvalidType(
        f"categorical_features must be a mask, indices or names of columns, got {categorical_features!r:.60}."
    )


# ---- columns -------------------------------------------------------------------------------------------------------


def _is_text(column: Any) -> bool:
    """Whether a column of a frame is categorical by its dtype: category, text, object or Boolean."""
    return not (hasattr(column.dtype, "kind") and column.dtype.kind in "iuf") or hasattr(column, "cat")


def _numbers(column: Any, name: str) -> NDArray[Any]:
    if hasattr(column.dtype, "numpy_dtype") or column.dtype.kind not in "iufb":  # nullable numbers, or text
        try:
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            raise BadData(
                f"X has the column {name!r} of dtype {column.dtype}, which is not numeric. "
                "Name it in categorical_features, or drop it."
            ) from None
    values = np.asarray(column)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _converted(values: NDArray[Any]) -> Floats:
    try:
        missing = values == None  # noqa: E711 - entry by entry
        return np.where(missing, np.nan, values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise BadData(f"{error}. Name the columns with text in categorical_features.") from None


def _codes(column: Any, known: NDArray[Any] | None) -> tuple[Codes, NDArray[Any]]:
    """Return the codes of a column and its levels: those of the fit where they are known."""
    codes, values = _factorized(column)
    if known is not None:
        return _recode(codes, values, known), known
    return _present(codes, values)


def _factorized(column: Any) -> tuple[Codes, NDArray[Any]]:
    """Return codes and distinct values, −1 for what is missing."""
    if hasattr(column, "cat"):
        return np.asarray(column.cat.codes, dtype=np.int32), _level_array(np.asarray(column.cat.categories))
    if hasattr(column, "factorize"):
        codes, values = column.factorize()
        return np.asarray(codes, dtype=np.int32), _level_array(np.asarray(values))
    values = np.asarray(column)
    if values.dtype == object:
        present = np.array([value is not None and value == value for value in values.tolist()], dtype=np.bool_)
        found = _level_array(values[present])
    else:
        present = np.ones(len(values), dtype=np.bool_) if values.dtype.kind in "biuUS" else ~np.isnan(values)
        found = values[present]
    levels, inverse = np.unique(found, return_inverse=True)
    codes = np.full(len(values), -1, dtype=np.int32)
    codes[present] = inverse.ravel()
    return codes, levels


def _level_array(values: NDArray[Any]) -> NDArray[Any]:
    """Return levels as numbers where all are, else as text."""
    if values.dtype.kind in "biuf":
        return values
    items = values.tolist()
    if items and all(isinstance(item, int | float) for item in items):
        return np.array(items)
    return np.array([str(item) for item in items], dtype=object)


def _present(codes: Codes, values: NDArray[Any]) -> tuple[Codes, NDArray[Any]]:
    """Keep the levels that occur, in the order of their values."""
    count = np.bincount(codes[codes >= 0], minlength=len(values))
    kept = np.flatnonzero(count)
    kept = kept[np.argsort(values[kept], kind="stable")]
    number = np.full(len(values) + 1, -1, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    return number[codes], values[kept]


def _recode(codes: Codes, values: NDArray[Any], known: NDArray[Any]) -> Codes:
    """Number the levels as the fit did; others are missing."""
    if (values.dtype == object) != (known.dtype == object):
        values, known = (_level_array(np.asarray(v, dtype=object).astype(str)) for v in (values, known))
    number = {level: i for i, level in enumerate(known.tolist())}
    table = np.array([number.get(value, -1) for value in values.tolist()] + [-1], dtype=np.int32)
    return table[codes]


def _refuse_infinite(numeric: Floats, names: Sequence[str] | None, columns: Ints | None = None) -> None:
    """Raise BadData where a number is infinite; NaN is a missing value."""
    bad = np.isinf(numeric)
    if not bad.any():
        return
    row, column = (int(index[0]) for index in np.nonzero(bad))
    number = column if columns is None else int(columns[column])
    more = f" (and {np.count_nonzero(bad) - 1} more)" if np.count_nonzero(bad) > 1 else ""
    raise BadData(
        f"Input X contains infinity or a value too large for dtype('float64').\nX has an infinity at row {row}, column "
        f"{repr(names[column]) if names is not None else number}{more}. Drop such rows, or set it to NaN: then it "
        "counts as missing."
    )
