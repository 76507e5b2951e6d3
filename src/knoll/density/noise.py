"""Noise with a label: that of the nearest clustered row, of several the one of the smallest coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from knoll._common.sparse import is_sparse
from knoll._typing import Floats, Ints
from knoll.neighbors.distances import metric_distances
from knoll.neighbors.index import UniqueRowIndex
from knoll.neighbors.metric_names import core_metric, core_parameter, minkowski_power

_BLOCK = 2**22  # distances in a block


def fill_noise(
    labels: Ints,
    points: Any,
    *,
    metric: str | Callable[..., float] = "euclidean",
    metric_params: dict[str, Any] | None = None,
    p: float | None = None,
    threads: int = 1,
) -> Ints:
    """Give each row of noise, −1, the label of the nearest row that has one; where no row has one, all stay noise.

    Rows are points, or distances where the metric is "precomputed".
    """
    noise = labels < 0
    if noise.all() or not noise.any():
        return labels.copy()
    rows = np.flatnonzero(noise)
    filled = labels.copy()
    filled[rows] = nearest_labels(
        points[rows], points, labels, metric=metric, metric_params=metric_params, p=p, threads=threads
    )
    return filled


def nearest_labels(
    queries: Any,
    points: Any,
    labels: Ints,
    *,
    metric: str | Callable[..., float] = "euclidean",
    metric_params: dict[str, Any] | None = None,
    p: float | None = None,
    radius: float = np.inf,
    threads: int = 1,
) -> Ints:
    """Return the label of the nearest clustered row of each query; −1 where there is none within the radius.

    For "precomputed" the queries are distances to all rows; an entry that a sparse one does not store is infinite.
    """
    clustered = np.flatnonzero(labels >= 0)
    if not len(clustered):
        return np.full(queries.shape[0], -1)
    if metric == "precomputed":
        return _nearest_of_distances(queries, clustered, labels, radius)
    name = core_metric(metric, metric_params, p)
    if name is not None and not is_sparse(points):
        index = UniqueRowIndex(
            np.ascontiguousarray(points[clustered]), radius, name, core_parameter(name, metric_params, p), threads
        )
        found = index.nearest(np.ascontiguousarray(queries))[0]
        return np.where(found >= 0, labels[clustered[found]], -1)
    order = _by_coordinates(points, clustered)
    options = dict(metric_params or {})
    if metric == "minkowski":
        options.setdefault("p", minkowski_power(metric_params, p))
    step = max(1, _BLOCK // len(order))
    found = np.empty(queries.shape[0], dtype=np.int64)
    for begin in range(0, queries.shape[0], step):
        distances = metric_distances(queries[begin : begin + step], points[order], metric, options, "noise='nearest'")
        nearest = np.where(distances.min(axis=1) <= radius, distances.argmin(axis=1), -1)
        found[begin : begin + step] = np.where(nearest >= 0, labels[order[nearest]], -1)
    return found


def _by_coordinates(points: Any, rows: Ints) -> Ints:
    """Sort rows by their coordinates, so that the first of equally near ones has the smallest."""
    table = points[rows].toarray() if is_sparse(points) else points[rows]
    return rows[np.lexsort(table.T[::-1])]


def _nearest_of_distances(queries: Any, clustered: Ints, labels: Ints, radius: float) -> Ints:
    """Return the label of the nearest column, of several the first; −1 where a sparse row stores none."""
    if not is_sparse(queries):
        distances = queries[:, clustered]
        return np.where(distances.min(axis=1) <= radius, labels[clustered[distances.argmin(axis=1)]], -1)
    found = np.full(queries.shape[0], -1)
    inside = np.zeros(len(labels), dtype=bool)
    inside[clustered] = True
    entries = queries.tocsr()
    for row, (begin, end) in enumerate(zip(entries.indptr[:-1], entries.indptr[1:], strict=True)):
        columns: Ints = entries.indices[begin:end]
        kept = np.flatnonzero(inside[columns] & (entries.data[begin:end] <= radius))
        stored: Floats = entries.data[begin:end][kept]
        if len(kept):
            found[row] = labels[columns[kept[np.lexsort((columns[kept], stored))[0]]]]
    return found
