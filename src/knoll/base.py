"""The base of every estimator: scikit-learn's contract, parameters declared as data, and a plain state."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import knoll
from knoll._common.cost import Cost, linear_cost
from knoll._schema import Attribute, check_attributes
from knoll._system import resolve_threads
from knoll.exceptions import ModelFileError
from knoll.validation import N_JOBS, Rule, check_parameters, check_points, is_lazy

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

_PLAIN = (str, bool, int, float, type(None))


Method = TypeVar("Method", bound=Callable[..., Any])


def all_or_nothing(fit: Method) -> Method:
    """Make a fitting method leave the estimator as it was when it fails or is interrupted."""

    @functools.wraps(fit)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(Method, guarded)


class Estimator(BaseEstimator):
    """The base of knoll's estimators.

    A subclass declares its parameters in `_rules` (name → the rules of which one must hold), calls `_check_parameters`
    first thing in `fit`, declares its fitted attributes in `_fitted` (knoll._schema), and keeps as such only arrays,
    plain values, and mappings of those, so that `to_state` knows them. It estimates in `_cost` what a fit of n rows and
    d columns takes, or in `estimate_cost` where that depends on the data.
    """

    _rules: ClassVar[Mapping[str, tuple[Rule | None, ...]]] = {}
    _fitted: ClassVar[Mapping[str, Attribute]] = {}
    _takes_sparse: ClassVar[bool] = False

    def _check_parameters(self) -> None:
        """Refuse parameters that no data would make right."""
        check_parameters(type(self).__name__, vars(self), self._rules)

    def _threads(self) -> int:
        if self.n_jobs is not None:  # it may have been set since the fit
            check_parameters(type(self).__name__, vars(self), {"n_jobs": N_JOBS})
        return resolve_threads(self.n_jobs)

    def estimate_cost(self, X: Any) -> Cost:
        """Estimate memory and processor time of a fit, before it runs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            As in `fit`.

        Returns
        -------
        Cost
            How it is computed, memory beyond X at most, pairs in an iteration, seconds, and what would lower them.
        """
        self._check_parameters()
        return self._cost(*self._shape_of(X))

    def _shape_of(self, X: Any) -> tuple[int, int]:
        """Check X and return its shape."""
        n, d = check_points(X, sparse=self._takes_sparse, n_jobs=self._threads()).shape
        return n, d

    def _cost(self, n: int, d: int) -> Cost:
        """Estimate a fit that passes over the rows a few times; families that do more have an estimate of their own."""
        remedy = "fit a sample of the rows and predict the others"
        return linear_cost("passes over the rows", n, 16 + 8 * d, float(n), 1e-9 * (d + 8), (4, 40), remedy)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the lazy labels of a dask collection, which would take it along."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if not is_lazy(value)}

    # ---- a fitted estimator as a plain header and arrays: the base of model files ----------------------------------

    def to_state(self) -> tuple[Header, Arrays]:
        """Return the fitted estimator as a header that JSON can hold and a mapping of arrays.

        A random_state that is an object, not a number, is not kept: it has done its work. Nor are lazy labels of a dask
        collection, which would take it along.
        """
        check_is_fitted(self)
        header: Header = {
            "knoll": knoll.__version__,
            "class": type(self).__name__,
            "parameters": {},
            "fitted": {},
        }
        arrays: Arrays = {}
        parameters = dict(self.get_params(deep=False))
        if isinstance(parameters.get("random_state"), np.random.RandomState | np.random.Generator):
            parameters["random_state"] = None
        fitted = {
            name: value
            for name, value in vars(self).items()
            if _is_fitted_name(type(self), name) and not is_lazy(value)
        }
        for section, values in (("parameters", parameters), ("fitted", fitted)):
            for name, value in values.items():
                header[section][name] = _pack(f"{section}.{name}", value, arrays)
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Self:
        """Rebuild a fitted estimator from what `to_state` returned; the model and its state share no memory.

        Parameters are checked as in `fit`, attributes by the rules of the class: a state that breaks one is refused.
        """
        return cls._of_state(header, {name: np.array(array) for name, array in arrays.items()})

    @classmethod
    def _of_state(cls, header: Header, arrays: Arrays) -> Self:
        """Rebuild a fitted estimator around the arrays themselves."""
        if not isinstance(header, dict) or "class" not in header:
            raise ModelFileError(
                f"This is not the state of a knoll estimator: expected a header with 'class', got {header!r:.60}."
            )
        if header["class"] != cls.__name__:
            raise ModelFileError(
                f"The state is of a {header['class']}; use knoll.{header['class']}.from_state to read it."
            )
        try:
            parameters = _unpack_all(header["parameters"], arrays)
            fitted = _unpack_all(header["fitted"], arrays)
            estimator = cls(**parameters)
            if strange := sorted(name for name in fitted if not _is_fitted_name(cls, name)):
                raise KeyError(f"{', '.join(strange)} is not a fitted attribute")
            estimator.__dict__.update(fitted)
            estimator._check_parameters()
            check_attributes(estimator, cls._fitted)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
            raise ModelFileError(
                f"The state of this {cls.__name__} is damaged: {reason.rstrip('.')}. Save the model again."
            ) from None
        return estimator


class FitPredictMixin:
    """The `fit_predict` of estimators that label the rows of a fit; it precedes scikit-learn's mixins."""

    def fit_predict(self: Any, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[Any]:
        """Fit X and return `labels_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            As in `fit`.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            `labels_`.
        """
        labels: NDArray[Any] = self.fit(X, sample_weight=sample_weight).labels_
        return labels


def _is_fitted_name(cls: type, name: str) -> bool:
    return re.fullmatch(r"[a-z]\w*_", name) is not None and not hasattr(cls, name)


def _pack(path: str, value: Any, arrays: Arrays) -> Any:
    """Turn a value into JSON's types; an array goes to `arrays`, and its name is left instead.

    What would come back as something else is refused: objects that are no text, keys that are none, sparse columns.
    """
    if isinstance(value, np.ndarray):
        as_object = value.dtype == object
        if as_object and not all(type(item) is str for item in value.flat):
            raise ModelFileError(f"{path} is an array of Python objects. Give it as an array of numbers.")
        arrays[path] = value.astype(str) if as_object else value
        return {"array": path, "object": as_object}
    if isinstance(value, np.generic):
        arrays[path] = np.asarray(value)
        return {"scalar": path}
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, _PLAIN):
        return value
    if scipy.sparse.issparse(value):
        rows: Any = value
        if rows.format != "csr":
            raise ModelFileError(
                f"{path} is a sparse array in the format {rows.format!r}. Give it as compressed rows (.tocsr())."
            )
        fields = {name: getattr(rows, name) for name in ("data", "indices", "indptr")}
        return {
            "csr": [_pack(f"{path}.{name}", field, arrays) for name, field in fields.items()],
            "shape": list(rows.shape),
            "matrix": isinstance(rows, scipy.sparse.spmatrix),
        }
    if isinstance(value, Mapping):
        if strange := [name for name in value if type(name) is not str]:
            raise ModelFileError(f"{path} has the key {strange[0]!r:.60}, which is not text.")
        return {"mapping": {name: _pack(f"{path}.{name}", item, arrays) for name, item in value.items()}}
    if isinstance(value, list | tuple):
        items = [_pack(f"{path}.{i}", item, arrays) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    raise ModelFileError(
        f"{path} is {value!r:.60}, which a model file cannot hold (numbers, text and arrays only). "
        "Set that parameter to a name or an array, or pickle the estimator."
    )


def _unpack_all(section: Header, arrays: Arrays) -> dict[str, Any]:
    found = {}
    for name, value in section.items():
        try:
            found[name] = _unpack(value, arrays)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} cannot be made again: {error}") from None
    return found


def _unpack(value: Any, arrays: Arrays) -> Any:
    """Undo `_pack`, trusting nothing."""
    match value:
        case {"array": str(path), "object": bool(as_object)}:
            return arrays[path].astype(object) if as_object else arrays[path]
        case {"csr": list(fields), "shape": list(shape)}:
            container = scipy.sparse.csr_matrix if value.get("matrix") is True else scipy.sparse.csr_array
            unpacked = [_unpack(field, arrays) for field in fields]
            _check_rows(unpacked, shape)
            return container(tuple(unpacked), shape=tuple(shape))
        case {"scalar": str(path)}:
            return arrays[path][()]
        case {"float": str(text)}:
            return float(text)
        case {"mapping": dict(items)}:
            return {name: _unpack(item, arrays) for name, item in items.items()}
        case {"tuple": list(items)}:
            return tuple(_unpack(item, arrays) for item in items)
        case {"list": list(items)}:
            return [_unpack(item, arrays) for item in items]
        case dict():
            raise KeyError(f"unknown entry {value!r:.60}")
        case _:
            return value


def _check_rows(fields: list[Any], shape: list[Any]) -> None:
    """Raise ValueError where compressed rows lead outside of their arrays.

    SciPy's own check leaves all indices alone where the last of indptr is not > 0, and then reads outside.
    """
    if len(fields) != 3 or len(shape) != 2 or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"compressed rows have three arrays and two sides, got {len(fields)} and {shape!r:.60}")
    if not all(isinstance(field, np.ndarray) and field.ndim == 1 for field in fields):
        raise ValueError("data, indices and indptr must be arrays of one dimension")
    data, indices, indptr = fields
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or data.dtype.kind not in "fiub":
        raise ValueError("indices and indptr must be whole numbers, and data numbers")
    if len(indptr) != shape[0] + 1 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"indptr must go from 0 upwards, one entry more than {shape[0]} rows")
    if len(data) != len(indices) or indptr[-1] > len(indices):
        raise ValueError(f"indptr leads to {indptr[-1]}, and there are {len(data)} data and {len(indices)} indices")
    used = indices[: indptr[-1]]  # SciPy allows more after them
    if len(used) and not 0 <= used.min() <= used.max() < shape[1]:
        raise ValueError(f"indices must be from 0 to {shape[1] - 1}")


_collected: contextvars.ContextVar[list[Warning] | None] = contextvars.ContextVar("collected", default=None)


@contextlib.contextmanager
def collect_warnings() -> Iterator[list[Warning]]:
    """Put the warnings of knoll into a list instead of issuing them; NumPy's floating-point warnings are left out.

    Both apply to this thread alone. `warnings.catch_warnings` would change the filters of the whole process, and where
    two threads overlap, the one that leaves last restores the filters of the other.
    """
    found: list[Warning] = []
    token = _collected.set(found)
    try:
        with np.errstate(all="ignore"):
            yield found
    finally:
        _collected.reset(token)


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package that called it, however deep the call is; or collect it."""
    if (collected := _collected.get()) is not None:
        collected.append(category(text))
        return
    package, frame, depth = str(Path(__file__).parent), sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, category, stacklevel=depth)
