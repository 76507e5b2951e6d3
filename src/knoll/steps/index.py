"""The index of a set of points, in which equal points count once: the core's answers, at the price of distinct rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.places import Places, merged

__all__ = ["PlaceIndex"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class PlaceIndex:
    """What `_core.Index` answers, of points or queries of which many may be equal."""

    def __init__(self, points: NDArray[Any], eps: float, metric: str, p: float, threads: int) -> None:
        self._options = (eps, metric, p, "auto", threads)
        self._eps, self._threads = eps, threads
        self._points, self._places = points, merged(points, threads)
        self._made: Any = None

    def count(self, queries: NDArray[Any], enough: float, weights: Floats | None) -> Floats:
        """Count the points within ε of each query, or add up their weights, at least up to `enough`."""
        asked, whose = _asked(queries, self._threads)
        index, weights = self._index(), weights
        if self._places is not None:
            rows, weights = self._places.weigh(weights, self._threads)
            index = _core.Index(np.ascontiguousarray(self._points[rows]), *self._options)
        counts = np.empty(len(asked))
        index.count(asked, self._eps, enough, weights, counts, self._threads)
        return counts if whose is None else counts[whose.which]

    def nearest(self, queries: NDArray[Any]) -> tuple[Ints, Floats]:
        """Find the closest point within ε of each query, ties by coordinates; −1 where there is none."""
        asked, whose = _asked(queries, self._threads)
        found, distances = np.empty(len(asked), dtype=np.int64), np.empty(len(asked))
        self._index().nearest(asked, self._eps, None, found, distances, self._threads)
        found = self._rows(found)
        return (found, distances) if whose is None else (found[whose.which], distances[whose.which])

    def first(self, queries: NDArray[Any]) -> Ints:
        """Find the point of the lowest number within ε of each query; −1 where there is none."""
        asked, whose = _asked(queries, self._threads)
        found = np.empty(len(asked), dtype=np.int64)
        self._index().first(asked, self._eps, found, self._threads)
        found = self._rows(found)
        return found if whose is None else found[whose.which]

    def components(self) -> Ints:
        """Number the connected components of the points within ε of each other, by their first point."""
        here = self._points if self._places is None else self._points[self._places.first]
        component = np.empty(len(here), dtype=np.int64)
        self._index().components(self._eps, None, component, self._threads)
        return component if self._places is None else component[self._places.which]

    def _index(self) -> Any:
        if self._made is None:
            rows = self._points if self._places is None else np.ascontiguousarray(self._points[self._places.first])
            self._made = _core.Index(rows, *self._options)
        return self._made

    def _rows(self, found: Ints) -> Ints:
        """Turn places into the first rows there."""
        return found if self._places is None else np.where(found >= 0, self._places.first[found], -1)


def _asked(queries: NDArray[Any], threads: int) -> tuple[NDArray[Any], Places | None]:
    places = merged(queries, threads)
    return (queries, None) if places is None else (np.ascontiguousarray(queries[places.first]), places)
