"""The index of a set of points in which equal points count once: the core's answers, at the price of distinct rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.unique_rows import UniqueRows, merge_equal_rows
from knoll._typing import Floats, Ints

CoreParameter = float | Floats  # the power of Minkowski's metric; the weights of the columns for Gower's


class UniqueRowIndex:
    """What `_core.Index` answers, for points or queries of which many may be equal."""

    def __init__(self, points: NDArray[Any], eps: float, metric: str, p: CoreParameter, threads: int) -> None:
        self._options = (eps if np.isfinite(eps) else 0.0, metric, p, "auto", threads)
        self._eps, self._threads = eps, threads
        self._points, self._unique = points, merge_equal_rows(points, threads)
        self._made: Any = None

    def count(self, queries: NDArray[Any], enough: float, weights: Floats | None) -> Floats:
        """Count the points within ε of each query, or add up their weights, at least up to `enough`."""
        distinct, unique = _distinct(queries, self._threads)
        index = self._index()
        if self._unique is not None:
            rows, weights = self._unique.sum_weights(weights, self._threads)
            index = _core.Index(np.ascontiguousarray(self._points[rows]), *self._options)
        counts = np.empty(len(distinct))
        index.count(distinct, self._eps, enough, weights, counts, self._threads)
        return counts if unique is None else counts[unique.inverse]

    def nearest(self, queries: NDArray[Any]) -> tuple[Ints, Floats]:
        """Find the closest point within ε of each query, ties by coordinates; −1 where there is none."""
        distinct, unique = _distinct(queries, self._threads)
        found, distances = np.empty(len(distinct), dtype=np.int64), np.empty(len(distinct))
        self._index().nearest(distinct, self._eps, None, found, distances, self._threads)
        found = self._rows(found)
        return (found, distances) if unique is None else (found[unique.inverse], distances[unique.inverse])

    def first(self, queries: NDArray[Any]) -> Ints:
        """Find the point of the lowest number within ε of each query; −1 where there is none."""
        distinct, unique = _distinct(queries, self._threads)
        found = np.empty(len(distinct), dtype=np.int64)
        self._index().first(distinct, self._eps, found, self._threads)
        found = self._rows(found)
        return found if unique is None else found[unique.inverse]

    def components(self) -> Ints:
        """Number the connected components of the points within ε of each other, by their first point."""
        n = len(self._points) if self._unique is None else len(self._unique.index)
        component = np.empty(n, dtype=np.int64)
        self._index().components(self._eps, None, component, self._threads)
        return component if self._unique is None else component[self._unique.inverse]

    def _index(self) -> Any:
        if self._made is None:
            rows = self._points if self._unique is None else np.ascontiguousarray(self._points[self._unique.index])
            self._made = _core.Index(rows, *self._options)
        return self._made

    def _rows(self, found: Ints) -> Ints:
        """Turn numbers of distinct rows into numbers of rows: the first that equals each."""
        return found if self._unique is None else np.where(found >= 0, self._unique.index[found], -1)


def _distinct(queries: NDArray[Any], threads: int) -> tuple[NDArray[Any], UniqueRows | None]:
    unique = merge_equal_rows(queries, threads)
    return (queries, None) if unique is None else (np.ascontiguousarray(queries[unique.index]), unique)
