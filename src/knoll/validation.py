"""Validation: parameters and data are checked once, here, before any kernel sees them.

scikit-learn's public validation runs first, since its users know its messages; ours adds row, column and remedy.
"""

from __future__ import annotations

import numbers
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.validation import validate_data

from knoll import _core
from knoll._system import resolve_threads
from knoll._typing import Floats
from knoll.exceptions import BadData, CostError, InvalidParameter, InvalidType

# ---- parameters are declared as data -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A real number (or a whole one) between two bounds; a strict bound is excluded."""

    low: float | None = None
    high: float | None = None
    strict: bool = False
    whole: bool = False
    remedy: str = ""

    def broken(self, value: Any) -> str | None:
        """Return the rule that `value` breaks, or None."""
        type_ = numbers.Integral if self.whole else numbers.Real
        if not isinstance(value, type_) or isinstance(value, bool | np.bool_):
            return f"a {'whole ' if self.whole else ''}number"
        number: Any = value
        if not isinstance(value, numbers.Integral) and np.isinf(number):
            return "finite"
        too_low = self.low is not None and (number <= self.low if self.strict else number < self.low)
        too_high = self.high is not None and (number >= self.high if self.strict else number > self.high)
        if not (too_low or too_high or number != number):
            return None
        sides = []
        if self.low is not None:
            sides.append(f"{'>' if self.strict else '>='} {self.low:g}")
        if self.high is not None:
            sides.append(f"{'<' if self.strict else '<='} {self.high:g}")
        return " and ".join(sides) or "a number"


@dataclass(frozen=True)
class Choice:
    """One of a few names."""

    names: Collection[str]
    remedy: str = ""

    def broken(self, value: Any) -> str | None:
        """Return the rule that `value` breaks, or None."""
        if isinstance(value, str) and value in self.names:
            return None
        return "one of " + ", ".join(repr(name) for name in self.names)


@dataclass(frozen=True)
class Flag:
    """True or False."""

    remedy: str = ""

    def broken(self, value: Any) -> str | None:
        """Return the rule that `value` breaks, or None."""
        return None if isinstance(value, bool | np.bool_) else "True or False"


@dataclass(frozen=True)
class Instance:
    """An object of one of several types; `name` describes them in messages."""

    types: tuple[type, ...]
    name: str
    remedy: str = ""

    def broken(self, value: Any) -> str | None:
        """Return the rule that `value` breaks, or None."""
        return None if isinstance(value, self.types) else self.name


Rule = Number | Choice | Flag | Instance

RANDOM_STATE: tuple[Rule | None, ...] = (
    None,
    Number(0, 2**64 - 1, whole=True),
    Instance((np.random.RandomState, np.random.Generator), "a numpy RandomState or Generator"),
)
N_JOBS: tuple[Rule | None, ...] = (None, Number(-(2**31), 2**31 - 1, whole=True))
VERBOSE: tuple[Rule | None, ...] = (Flag(), Number(0, whole=True))


def check_parameters(owner: str, values: Mapping[str, Any], rules: Mapping[str, tuple[Rule | None, ...]]) -> None:
    """Check each value by its rules: it must satisfy one of them (None stands for the value None)."""
    for name, allowed in rules.items():
        value = values[name]
        reasons = []
        for rule in allowed:
            reason = ("None" if value is not None else None) if rule is None else rule.broken(value)
            if reason is None:
                break
            reasons.append((rule, reason))
        else:
            # the rule for the type of the value explains most: "> 0" rather than "a number"
            wrong_type = all(not _same_type(rule, value) for rule, _ in reasons)
            text = " or ".join(reason for rule, reason in reasons if wrong_type or _same_type(rule, value))
            remedy = " ".join(rule.remedy for rule, _ in reasons if rule is not None and rule.remedy)
            error = InvalidType if wrong_type else InvalidParameter
            raise error(f"{owner}: {name} must be {text}, got {value!r}.{' ' + remedy if remedy else ''}")


def _same_type(rule: Rule | None, value: Any) -> bool:
    match rule:
        case Number(whole=True):
            return isinstance(value, numbers.Integral) and not isinstance(value, bool)
        case Number():
            return isinstance(value, numbers.Real) and not isinstance(value, bool)
        case Choice():
            return isinstance(value, str)
        case _:
            return False


def draw_seed(random_state: int | np.random.RandomState | np.random.Generator | None) -> int:
    """Draw the one 64-bit seed that everything random in a call is a function of."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**64, dtype=np.uint64))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**64, dtype=np.uint64))
    return int(np.random.randint(0, 2**64, dtype=np.uint64))  # noqa: NPY002 - np.random.seed is what None listens to


# ---- data becomes an array once ------------------------------------------------------------------------------------

_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))  # in the machine's byte order


def check_points(
    X: Any,
    *,
    estimator: Any = None,
    reset: bool = True,
    min_samples: int = 1,
    sparse: bool = False,
    finite: bool = True,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Turn X into an (n, d) array of float64 or float32 that a kernel can traverse; no copy where none is needed.

    With `finite=False` the caller undertakes to call `refuse_not_finite` when its results turn out not to be finite:
    kernels whose sums show a NaN anyway need not read the data twice.
    """
    refuse_lazy(X, "X", estimator)
    refuse_masked(X, "X")
    options: dict[str, Any] = {
        "dtype": list(_DTYPES),
        "accept_sparse": "csr" if sparse else False,
        "ensure_all_finite": False,
        "ensure_min_samples": min_samples,
    }
    try:
        if _is_ready(X, estimator, reset, min_samples):
            points = X
            if estimator is not None and reset:
                vars(estimator).pop("feature_names_in_", None)  # of an earlier table
                estimator.n_features_in_ = X.shape[1]
        elif estimator is None:
            points = check_array(X, input_name="X", **options)
        else:
            points = validate_data(estimator, X, reset=reset, **options)
    except ValueError as error:
        location = _first_text(X) if "could not convert" in str(error) else ""
        raise BadData(f"{error}{location}") from None
    except TypeError as error:
        raise InvalidType(str(error)) from None
    points = aligned(points)
    values = points if not sparse or isinstance(points, np.ndarray) else points.data[:, None]
    if finite and not _core.all_finite(values, resolve_threads(n_jobs)):
        refuse_not_finite(points, estimator)
    return points


def _is_ready(X: Any, estimator: Any, reset: bool, min_samples: int) -> bool:
    """Return whether scikit-learn's validation would return X as it is: on small data it takes longer than the fit."""
    if type(X) is not np.ndarray or X.dtype not in _DTYPES or X.ndim != 2:
        return False
    n, d = X.shape
    known = vars(estimator) if estimator is not None and not reset else {"n_features_in_": d}
    return n >= min_samples and d >= 1 and known.get("n_features_in_") == d and "feature_names_in_" not in known


def is_lazy(data: Any) -> bool:
    """Return whether data is a collection of dask, which NumPy would compute whole."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr")


def refuse_lazy(data: Any, name: str, estimator: Any = None) -> None:
    """Raise CostError for a dask collection, lest it be computed whole by accident."""
    if not is_lazy(data):
        return
    owner = "" if estimator is None else f"{type(estimator).__name__}: "
    others = " and predict the others: predict takes collections" if hasattr(estimator, "predict") else ""
    sample = (
        f"{name}[::100].compute()"
        if getattr(data, "ndim", 0) and not hasattr(data, "columns")
        else (f"{name}.sample(frac=0.01).compute()")
    )
    raise CostError(
        f"{owner}{name} is a dask collection, and all of it would have to be in memory here. Take a sample, such as "
        f"{sample}{others}."
    )


def refuse_masked(data: Any, name: str) -> None:
    """Raise BadData if a mask hides entries: NumPy passes the values under it on, and they would count."""
    if type(data) is np.ndarray or not isinstance(data, np.ndarray | list | tuple):
        return
    rows = data if isinstance(data, list | tuple) else [data]
    hidden = sum(int(np.ma.count_masked(row)) for row in rows if isinstance(row, np.ma.MaskedArray))
    if hidden:
        raise BadData(
            f"{name} has {hidden} masked entries, and what lies under a mask would count. "
            f"Drop such rows first, or give them values with {name}.filled(...)."
        )


def refuse_not_finite(points: Any, estimator: Any = None, *, first_row: int = 0, names: Any = None) -> None:
    """Raise BadData if a point is not finite: scikit-learn's first sentence, then row and column, then the remedy.

    Its further sentences recommend estimators for supervised learning.

    `first_row` is the number of the first of these points where they are one block of several. `names` are those of the
    columns where the estimator does not know them.
    """
    try:
        with np.errstate(all="ignore"):
            assert_all_finite(
                points, input_name="X", estimator_name=None if estimator is None else type(estimator).__name__
            )
    except ValueError as error:
        location = _first_not_finite(points, getattr(estimator, "feature_names_in_", names), first_row)
        raise BadData(f"{str(error).splitlines()[0]}\n{location}") from None


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array whose elements do not lie on whole multiples of their size (packed records)."""
    if hasattr(array, "flags") and (not array.flags.aligned or any(s % array.itemsize for s in array.strides)):
        return array.copy()
    return array


def _first_not_finite(points: Any, names: Any, first_row: int) -> str:
    """Name the first row and column where the data is not finite."""
    if hasattr(points, "tocoo"):
        entries = points.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))
        rows, columns, values = entries.row[bad], entries.col[bad], entries.data[bad]
    else:
        rows, columns = np.nonzero(~np.isfinite(points))
        values = points[rows, columns]
    column = repr(str(names[columns[0]])) if names is not None else str(columns[0])
    what = "a NaN" if np.isnan(values[0]) else "an infinity"
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return (
        f"X has {what} at row {first_row + rows[0]}, column {column}{more}. Drop or impute such rows first; "
        "sklearn.impute.SimpleImputer or KNNImputer does, in a pipeline before the clustering."
    )


def _first_text(X: Any) -> str:
    """Name the first entry that is not a number, with the remedy; "" if there is none."""
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    table = np.asarray(X, dtype=object)
    if table.ndim == 0:
        return "\nX must be a table of numbers, rows by columns; a file is read first (numpy.loadtxt, pandas.read_csv)."
    for row, entries in enumerate(table.reshape(len(table), -1).tolist()):
        for column, entry in enumerate(entries):
            try:
                float(entry)
            except (TypeError, ValueError):
                where = repr(names[column]) if names is not None else str(column)
                return (
                    f"\nX has {entry!r} at row {row}, column {where}, where a number is needed. Drop the column, or "
                    "encode it as numbers (sklearn.preprocessing.OneHotEncoder)."
                )
    return ""


def check_weights(
    sample_weight: Any, n: int, *, owner: str, first_row: int = 0, nonzero: bool = True, negative: bool = False
) -> Floats | None:
    """Turn weights into n finite float64 ≥ 0; None stays None: every row counts once.

    With `nonzero` they must not all be zero; with `negative` they may be below it. `first_row` is the number of the
    first row where these are one block of several.
    """
    if sample_weight is None:
        return None
    refuse_lazy(sample_weight, "sample_weight")
    refuse_masked(sample_weight, "sample_weight")
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n, float(sample_weight))
    try:
        array = np.asarray(sample_weight)
        weights = array.astype(np.float64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        weights = None
    if weights is None:
        raise BadData(f"{owner}: sample_weight must be real numbers, got {sample_weight!r:.60}.")
    if weights.ndim != 1:
        raise BadData(f"{owner}: sample_weight must be 1D array or scalar, got {weights.ndim}D array.")
    if len(weights) != n:
        raise BadData(
            f"{owner}: sample_weight.shape == {weights.shape}, expected {(n,)}: one weight for each row of X."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & ((weights >= 0) | negative)))
    if len(bad):
        rule = "finite" if negative else "finite and >= 0"
        raise BadData(f"{owner}: sample_weight must be {rule}, got {weights[bad[0]]} at row {first_row + bad[0]}.")
    if nonzero and not weights.any():
        raise BadData(f"{owner}: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
    return aligned(weights)
