"""Dask collections: arrays and data frames in partitions that are computed when they are needed, never all at once.

A fit takes their partitions as its blocks; answers are collections again, of as many partitions. dask is imported
when a collection is seen, so it is there.
"""

from __future__ import annotations

import copy
import functools
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np

from knoll.base import collect_warnings
from knoll.exceptions import BadData, InvalidParameter
from knoll.validation import check_weights, is_lazy

__all__ = ["CollectionBlocks", "active_client", "fit_collection", "lazily"]

Method = TypeVar("Method", bound=Callable[..., Any])


def active_client() -> Any:
    """Return the client of dask that is active in this process, or None."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.Client.current()
    except ValueError:
        return None


def fit_collection(estimator: Any, X: Any, sample_weight: Any = None) -> Any:
    """Fit by `fit_blocks` where the partitions are: on the workers of the active client, else here, one by one."""
    rows = CollectionBlocks(X, sample_weight, type(estimator).__name__)
    estimator.fit_blocks(rows, engine=active_client())
    if hasattr(estimator, "predict"):
        estimator.labels_ = estimator.predict(X)
    return estimator


def lazily(method: Method) -> Method:
    """Make a method that answers row by row give a collection for a collection."""

    @functools.wraps(method)
    def answered(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if is_lazy(X):
            return _answer(self, method.__name__, X, args, kwargs)
        return method(self, X, *args, **kwargs)

    return cast(Method, answered)


class CollectionBlocks:
    """The partitions of a collection as blocks: `fit_blocks` calls it, an engine takes its futures."""

    def __init__(self, X: Any, sample_weight: Any, owner: str) -> None:
        self._owner = owner
        columns = getattr(X, "columns", None)
        self.columns = None if columns is None else tuple(str(name) for name in columns)
        self.width = _checked_width(X, owner)
        self.partitions: list[Any] = _partitions(X)
        self._weights = [None] * len(self.partitions) if sample_weight is None else self._weights_of(X, sample_weight)

    def __call__(self) -> Iterator[Any]:
        """Compute one partition after the other."""
        from dask.base import compute

        for rows, weights in zip(self.partitions, self._weights, strict=True):
            found, heavy = compute(rows, weights)
            yield found if weights is None else (found, heavy)

    def head(self) -> Any:
        """Return the first row, computed where its partition is, or None: there is none."""
        from dask.delayed import delayed

        for rows in self.partitions:
            found = delayed(_first_row)(rows).compute()
            if len(found):
                return found
        return None

    def futures(self, client: Any) -> list[tuple[Any, Any]]:
        """Let the workers of a client compute all partitions, rows and weights."""
        rows = client.compute(self.partitions)
        weights = [None if each is None else client.compute(each) for each in self._weights]
        return list(zip(rows, weights, strict=True))

    def _weights_of(self, X: Any, sample_weight: Any) -> list[Any]:
        """Cut the weights as the rows are cut."""
        if is_lazy(sample_weight):
            found = _partitions(sample_weight)
            if len(found) != len(self.partitions):
                raise InvalidParameter(
                    f"{self._owner}: sample_weight has {len(found)} partitions and X has {len(self.partitions)}. Give "
                    "both the same partitions."
                )
            return found
        lengths: list[Any] = [math.nan] if self.columns is not None else list(X.chunks[0])
        if any(math.isnan(length) for length in lengths):
            raise InvalidParameter(
                f"{self._owner}: sample_weight is in memory, and the lengths of the partitions of X are not known. "
                "Give a dask collection with the same partitions, such as a column of the data frame."
            )
        weights = check_weights(sample_weight, sum(lengths), owner=self._owner)
        return list(np.split(weights, np.cumsum(lengths)[:-1]))  # type: ignore[arg-type]


def _first_row(rows: Any) -> Any:
    return rows[:1]


def _partitions(X: Any) -> list[Any]:
    """Return the partitions as lazy values, of which each computes to rows with all columns."""
    if hasattr(X, "columns") or hasattr(X, "to_frame"):  # a data frame or one of its columns
        return list(X.to_delayed())
    return list(_with_whole_rows(X).to_delayed().ravel())


def _with_whole_rows(X: Any) -> Any:
    """Join the partitions of an array that have some of the columns each."""
    return X.rechunk({1: -1}) if X.ndim == 2 and len(X.chunks[1]) > 1 else X


def _checked_width(X: Any, owner: str) -> int:
    """Return the number of columns; refuse what has none, or text, before anything is computed."""
    if getattr(X, "ndim", 0) != 2 or not (hasattr(X, "columns") or hasattr(X, "chunks")):
        what = f"{X.ndim} dimensions" if hasattr(X, "ndim") else f"type {type(X).__name__}"
        raise BadData(f"{owner}: a dask array of two dimensions or a data frame is needed, got one of {what}.")
    if hasattr(X, "columns"):
        for name, dtype in X.dtypes.items():
            if getattr(dtype, "kind", "O") not in "biuf":
                raise BadData(
                    f"{owner}: column {str(name)!r} is of type {dtype}, where numbers are needed. Drop the column, or "
                    "encode it as numbers."
                )
        return len(X.columns)
    if X.dtype.kind not in "biuf":
        raise BadData(f"{owner}: X is of dtype {X.dtype}, where real numbers are needed.")
    return int(X.shape[1])


# ---- answers -------------------------------------------------------------------------------------------------------


def _answer(model: Any, name: str, X: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a lazy dask array: what the method gives for each partition, by the model as it is now."""
    import dask.array as da

    width = _checked_width(X, type(model).__name__)
    as_it_is = copy.copy(model)
    for attribute in [key for key, value in vars(as_it_is).items() if is_lazy(value)]:
        del vars(as_it_is)[attribute]
    call = _Method(as_it_is, name, args, kwargs)
    with collect_warnings():
        example = call(_example(X, width))  # of one row: the dtype and the columns of an answer
    if not hasattr(X, "columns"):
        shape: dict[str, Any] = {"drop_axis": 1} if example.ndim == 1 else {"chunks": (X.chunks[0], example.shape[1:])}
        return _with_whole_rows(X).map_blocks(call, dtype=example.dtype, meta=example[:0], **shape)
    from dask.delayed import delayed

    lazy = delayed(call, pure=True)
    shape_of_one = (math.nan, *example.shape[1:])
    answers = [da.from_delayed(lazy(rows), shape_of_one, meta=example[:0]) for rows in _partitions(X)]
    return da.concatenate(answers, allow_unknown_chunksizes=True)


class _Method:
    """A method of a model, for the rows of a partition, of which there may be none.

    It is sent as a pickle of its own: arrays that dask takes from its messages may begin at any byte.
    """

    def __init__(self, *request: Any) -> None:
        self._request = request  # model, name of the method, arguments, keyword arguments

    def __call__(self, rows: Any) -> Any:
        model, name, args, kwargs = self._request
        filled = rows if len(rows) else _example(rows, rows.shape[1])
        return np.asarray(getattr(model, name)(filled, *args, **kwargs))[: len(rows)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _method, (pickle.dumps(self._request),)


def _method(request: bytes) -> _Method:
    return _Method(*pickle.loads(request))


def _example(X: Any, width: int) -> Any:
    """Make one row of the columns and the dtype of X."""
    if not hasattr(X, "columns"):
        return np.zeros((1, width), dtype=X.dtype)
    import pandas as pd

    return pd.DataFrame({name: np.zeros(1, dtype=dtype) for name, dtype in X.dtypes.items()})
