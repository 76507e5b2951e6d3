"""Gower's distance as a metric: rows of numbers and categories, some missing, as the core takes them   (eq. 5.14).

A number is (x − low)/range, a category the number of its level, and what is missing the largest float64: rows without
NaN can be compared, sorted and stored like any others. Each column has a weight, which is negative for a category.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from knoll import _core
from knoll._common.mixed_estimator import MixedColumns
from knoll._common.mixed_table import MixedTable, read_mixed
from knoll._common.rescale import exponent_of, times_power
from knoll._schema import Array, ArrayTuple, Record
from knoll._system import resolve_threads
from knoll._typing import Bools, Floats
from knoll.base import Estimator
from knoll.exceptions import InvalidParameter
from knoll.validation import check_weights

__all__ = ["GOWER_COLUMNS", "ReadsGower", "gower_columns_rule", "gower_distances", "read_gower", "read_gower_again"]

MISSING = float(np.finfo(np.float64).max)
GOWER_COLUMNS = "columns"  # the entry of metric_params that has the weights for the core

_FAR = 1e300  # beyond any range, and no missing value
_TINY = float(np.finfo(np.float64).tiny)
_OPTIONS = ("categorical_features", "ranges", "weights")

Columns = dict[str, Any]


class ReadsGower(Estimator):
    """What estimators that take Gower's distance share: how rows are read, by the columns of the fit.

    The parameters are `metric` and `metric_params`, or those that `_gower_parameters` names.
    """

    gower_columns_: Columns
    _gower_parameters: ClassVar[tuple[str, str]] = ("metric", "metric_params")
    _rules: ClassVar = {}

    def __sklearn_tags__(self) -> Any:
        """Declare that Gower's distance takes missing values and categories."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = self._is_gower()
        return tags

    def _fit_gower(self, X: Any, sample_weight: ArrayLike | None) -> Floats:
        """Read the rows of a fit, and keep what later rows are read by."""
        rows, self.gower_columns_ = read_gower(X, self._gower_options(), estimator=self, sample_weight=sample_weight)
        return rows

    def _is_gower(self) -> bool:
        metric = getattr(self, self._gower_parameters[0])
        return isinstance(metric, str) and metric == "gower"

    def _gower_options(self) -> dict[str, Any] | None:
        params: dict[str, Any] | None = getattr(self, self._gower_parameters[1])
        return params

    def _shape_of(self, X: Any) -> tuple[int, int]:
        """Check X and return its shape."""
        if not self._is_gower():
            return super()._shape_of(X)
        n, d = read_gower(X, self._gower_options())[0].shape
        return n, d

    def _core_params(self) -> dict[str, Any] | None:
        """Return metric_params as searches take them."""
        return {GOWER_COLUMNS: self.gower_columns_["weights"]} if self._is_gower() else self._gower_options()

    def _gower_similarities(self, X: Any, Y: Any) -> Floats:
        """Return 1 − d of rows as they were read, (n, m); 0 of rows farther apart than 1, which are not of the fit."""
        similarities = _distances(X, Y, self.gower_columns_["weights"], self._threads())
        return np.maximum(np.subtract(1.0, similarities, out=similarities), 0.0, out=similarities)


def gower_columns_rule() -> Record:
    """Return the rule of `gower_columns_`, by which a fitted model reads rows."""
    fields = {
        "is_categorical": Array("d", "bool"),
        "categories": ArrayTuple(),
        "lows": Array("g", "float64"),
        "ranges": Array("g", "float64", low=0, strict=True),
        "weights": Array("d", "float64"),
    }
    return Record(fields, when=lambda model: model._is_gower(), missing=True, also=lambda _, value: _fault(value))


def _fault(columns: Columns) -> str:
    is_categorical = columns["is_categorical"]
    if len(columns["lows"]) != np.count_nonzero(~is_categorical):
        return "must have a range for each number"
    if len(columns["categories"]) != np.count_nonzero(is_categorical):
        return "must have levels for each category"
    weights = columns["weights"]
    return (
        "" if weights.all() and ((weights < 0) == is_categorical).all() else "must have negative weights of categories"
    )


def gower_distances(
    X: Any,
    Y: Any = None,
    *,
    categorical_features: Any = None,
    ranges: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Floats:
    """Compute Gower's distances of all pairs of rows.

    The weighted mean, over the columns that both rows have, of |x − y| / range for numbers and of [x ≠ y] for
    categories (docs/theory/05-dbscan.md, eq. 5.14). Rows without a common column are 1 apart.

    Parameters
    ----------
    X : data frame or array-like of shape (n_samples, n_features)
        The rows; NaN and None are missing values.
    Y : data frame or array-like of shape (m_samples, n_features), default=None
        Other rows, read by the columns of X: a level that X does not have is missing. None is X.
    categorical_features : array-like of bool, int or str, default=None
        The categorical columns: a mask, indices, or names. By default those columns of a data frame whose dtype is
        category, text, object or Boolean; of an array none.
    ranges : array-like of shape (n_features,), default=None
        What differences of numbers are divided by; entries of categories are not read. By default largest less smallest
        value of X, and 1 for a column of one value.
    weights : array-like of shape (n_features,), default=None
        Weights > 0 of the columns; None is 1.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use.

    Returns
    -------
    ndarray of shape (n_samples, m_samples)
        The distances.

    Examples
    --------
    >>> from knoll.neighbors import gower_distances
    >>> X = [[20.0, 0], [40.0, 1], [30.0, float("nan")]]
    >>> gower_distances(X, categorical_features=[1]).tolist()
    [[0.0, 1.0, 0.5], [1.0, 0.0, 0.5], [0.5, 0.5, 0.0]]
    """
    options = {"categorical_features": categorical_features, "ranges": ranges, "weights": weights}
    reader = MixedColumns()
    rows, columns = read_gower(X, options, estimator=reader)
    others = rows if Y is None else read_gower_again(Y, columns, estimator=reader)
    return _distances(rows, others, columns["weights"], resolve_threads(n_jobs))


def _distances(X: Floats, Y: Floats, weights: Floats, threads: int) -> Floats:
    found = np.empty((len(X), len(Y)))
    _core.gower_distances(np.atleast_2d(X), np.atleast_2d(Y), weights, found, threads)
    return found


def read_gower(
    X: Any, params: Mapping[str, Any] | None, *, estimator: Any = None, sample_weight: ArrayLike | None = None
) -> tuple[Floats, Columns]:
    """Turn the rows of a fit into what the core takes, (n, d); also return what later rows are read by."""
    owner = "gower" if estimator is None or type(estimator) is MixedColumns else type(estimator).__name__
    options = _options(params, owner)
    table, is_categorical, _ = read_mixed(
        X,
        estimator=MixedColumns() if estimator is None else estimator,
        categorical_features=options.get("categorical_features"),
    )
    weights = check_weights(sample_weight, len(table), owner=owner, negative=True)
    table = table.without_absent(None if weights is None else np.abs(weights))
    present = table.numeric if weights is None else table.numeric[weights != 0]
    lows, ranges = _extents(present)
    if (own_ranges := options.get("ranges")) is not None:
        ranges = _positive(own_ranges, "ranges", ~is_categorical, owner)[~is_categorical]
    columns = {
        "is_categorical": is_categorical,
        "categories": table.levels,
        "lows": lows,
        "ranges": ranges,
        "weights": _signed_weights(options.get("weights"), is_categorical, owner),
    }
    return _rows(table, columns), columns


def read_gower_again(X: Any, columns: Columns, *, estimator: Any) -> Floats:
    """Turn rows into what the core takes, with the columns of a fit; a level that the fit has not seen is missing."""
    table, _, _ = read_mixed(X, estimator=estimator, fitted=(columns["is_categorical"], columns["categories"]))
    return _rows(table, columns)


def _rows(table: MixedTable, columns: Columns) -> Floats:
    is_categorical = columns["is_categorical"]
    rows = np.empty((len(table), len(is_categorical)))
    numbers, lows, ranges = table.numeric, columns["lows"], columns["ranges"]
    with np.errstate(over="ignore", under="ignore", divide="ignore"):  # beyond float64 is far beyond the range
        units = (numbers - lows) / ranges
        halves = np.isinf(numbers - lows)  # of a column that goes from −1e308 to 1e308
        if halves.any():
            units = np.where(halves, (numbers / 2 - lows / 2) / (ranges / 2), units)
        units = np.clip(units, -_FAR, _FAR)
    rows[:, ~is_categorical] = np.where(np.isnan(units), MISSING, units)
    rows[:, is_categorical] = np.where(table.codes < 0, MISSING, table.codes)
    return rows


def _extents(numbers: Floats) -> tuple[Floats, Floats]:
    """Return lows and ranges of numbers (n, p); a column of one value, or of none, has the range 1."""
    seen = ~np.isnan(numbers)
    with np.errstate(over="ignore"):
        lows = np.where(seen, numbers, np.inf).min(axis=0, initial=np.inf)
        ranges = np.where(seen, numbers, -np.inf).max(axis=0, initial=-np.inf) - lows
    lows[~seen.any(axis=0)] = 0.0
    ranges[~(ranges > 0)] = 1.0
    return lows, np.minimum(ranges, np.finfo(np.float64).max)


def _options(metric_params: Mapping[str, Any] | None, owner: str) -> Mapping[str, Any]:
    options = dict(metric_params or {})
    for name in options.keys() - set(_OPTIONS):
        raise InvalidParameter(f"{owner}: metric 'gower' has no parameter {name!r}. It takes {', '.join(_OPTIONS)}.")
    return options


def _positive(values: Any, name: str, read: Bools, owner: str) -> Floats:
    """Return one number > 0 for each column; those that are not read may be anything."""
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(())
    if found.shape != read.shape:
        raise InvalidParameter(
            f"{owner}: {name} must have one number for each of the {len(read)} columns, got {values!r:.60}."
        )
    wrong = np.flatnonzero(read & ~((found > 0) & (found < np.inf)))
    if len(wrong):
        raise InvalidParameter(
            f"{owner}: {name} must be > 0 and finite, got {float(found[wrong[0]])!r} for column {wrong[0]}. "
            "Drop a column that shall not count."
        )
    return found


def _signed_weights(factors: Any, is_categorical: Bools, owner: str) -> Floats:
    every = np.ones(len(is_categorical), dtype=np.bool_)
    weights = np.ones(len(every)) if factors is None else _positive(factors, "weights", every, owner)
    weights = np.maximum(times_power(weights, -exponent_of(weights)), _TINY)  # their sums stay within float64
    return np.where(is_categorical, -weights, weights)
