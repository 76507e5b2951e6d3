"""Radius search: which points lie within ε of which, for each type of input that DBSCAN takes.

    IndexSearch     dense rows under a metric that the core knows: an index
    SparseSearch    sparse rows, Euclidean: expanded squares in blocks, decided again near ε
    SparseCosineSearch  sparse rows, cosine: products in blocks
    MetricSearch    rows under any other metric or a callable: distances in blocks
    MatrixSearch    a matrix of distances
    GraphSearch     a sparse matrix of distances, in which a missing entry is further than ε

`choose_search` picks one per call; they have the same methods, so that nothing else depends on the type of input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll._common.unique_rows import graph_digest
from knoll._typing import Bools, Floats, Indices, Ints
from knoll.density import core_graph, neighborhoods
from knoll.density.core_graph import Clusters, Neighbourhoods, Rank
from knoll.density.geography import check_coordinates
from knoll.exceptions import BadData
from knoll.neighbors.index import CoreParameter, UniqueRowIndex
from knoll.neighbors.metric_names import Metric, core_metric, core_parameter, minkowski_power


def choose_search(
    points: Any, eps: float, metric: Metric, metric_params: dict[str, Any] | None, p: float | None, threads: int
) -> Search:
    """Choose the search for these points, or distances."""
    sparse = scipy.sparse.issparse(points)
    if metric == "precomputed":
        return GraphSearch(eps, threads) if sparse else MatrixSearch(eps, threads)
    name = core_metric(metric, metric_params, p)
    if name is not None and not sparse:
        return IndexSearch(eps, threads, name, core_parameter(name, metric_params, p))
    if name == "euclidean":
        return SparseSearch(eps, threads)
    if name == "cosine":
        return SparseCosineSearch(eps, threads)
    options = dict(metric_params or {})
    if metric == "minkowski":
        options["p"] = minkowski_power(metric_params, p)
    return MetricSearch(eps, threads, metric, options)


@dataclass(frozen=True)
class Search:
    """What the searches share: everything by blocks of neighbourhoods.

    Where a method takes `queries` and `points`, the queries are other rows; where they are the same object, the rows
    are searched among themselves.
    """

    eps: float
    threads: int

    memory: ClassVar[int] = 2**27  # bytes beyond what is kept for each row: blocks of distances

    def neighbourhoods(self, queries: Any, points: Any) -> Neighbourhoods:
        """Return the points within ε of each query, by blocks."""
        raise NotImplementedError

    def takes_estimate(self) -> bool:
        """Return whether `knoll.scales.estimate_eps` can suggest an ε for such data."""
        return False

    def check(self, points: Any, n: int) -> None:
        """Refuse points, or distances to n rows, that cannot be searched."""

    def select(self, points: Any, rows: Indices, columns: Indices) -> Any:
        """Return `rows` as queries among `columns`; all are rows of the points."""
        raise NotImplementedError

    def rank(self, points: Any) -> Rank:
        """Return the order of core points that are equally close."""
        raise NotImplementedError

    def cluster(self, points: Any, min_samples: float, weights: Floats | None, border: str) -> Clusters:
        """Find the clusters by the graph "within ε"."""
        blocks = self.neighbourhoods(points, points)
        return core_graph.from_neighbourhoods(blocks, min_samples, weights, border, self.rank(points))

    def count(self, queries: Any, points: Any, rows: Indices) -> Floats:
        """Count the points within ε of each query; the queries are these rows of the points."""
        counts = [np.diff(block.starts) for block in self.neighbourhoods(queries, points)]
        return np.concatenate(counts).astype(np.float64)

    def has_enough(self, queries: Any, points: Any, min_samples: float, weights: Floats | None) -> Bools:
        """Return whether each query has min_samples points, or so much weight, within ε."""
        enough = np.empty(queries.shape[0], dtype=np.bool_)
        for block in self.neighbourhoods(queries, points):
            enough[block.span] = core_graph.has_enough(block, min_samples, weights)
        return enough

    def attach(self, queries: Any, core_points: Any, labels: Ints, border: str) -> Ints:
        """Give each query the cluster of a core point within ε: the closest, or the first cluster's; −1: none."""
        attached = np.full(queries.shape[0], -1, dtype=np.int64)
        every = np.ones(len(labels), dtype=np.bool_)
        blocks, rank = self.neighbourhoods(queries, core_points), self.rank(core_points)
        for block in blocks:
            attached[block.span] = core_graph.attach(block, every, labels, border, rank, blocks.exact)
        return attached

    def links(self, points: Any, rows: Indices) -> Bools:
        """Return the graph "within ε" of these rows as a matrix, diagonal included."""
        selected = self.select(points, rows, rows)
        links = np.zeros((len(rows), len(rows)), dtype=np.bool_)
        for block in self.neighbourhoods(selected, selected):
            links[block.begin + block.of, block.neighbours] = True
        return links | links.T

    # ---- against a fitted model ------------------------------------------------------------------------------------

    def digest(self, points: Any) -> str:
        """Return what identifies a graph whose rows are their own neighbours, stored or not; "" for other input."""
        return ""

    def fitted(self, queries: Any, model: Any) -> tuple[Any, Floats | None]:
        """Return the rows of the fit, as the queries see them, and their weights."""
        raise NotImplementedError

    def fitted_core(self, queries: Any, model: Any) -> tuple[Any, Any]:
        """Return the queries and the core points of the fit, for `attach`."""
        raise NotImplementedError


# ---- rows ------------------------------------------------------------------------------------------------------------


class _RowSearch(Search):
    """Points with coordinates."""

    def select(self, points: Any, rows: Indices, columns: Indices) -> Any:
        return points[rows]

    def rank(self, points: Any) -> Rank:
        """Order equally close core points by their coordinates, which no order of the rows changes."""

        def rank(rows: Ints) -> Ints:
            distinct, inverse = np.unique(rows, return_inverse=True)
            coordinates = points[distinct] if isinstance(points, np.ndarray) else points[distinct].toarray()
            order = np.empty(len(distinct), dtype=np.int64)
            order[np.lexsort(coordinates.T[::-1])] = np.arange(len(distinct))
            return np.asarray(order[inverse])

        return rank

    def fitted(self, queries: Any, model: Any) -> tuple[Any, Floats | None]:
        return model._fitted_points(), model.fit_weights_

    def fitted_core(self, queries: Any, model: Any) -> tuple[Any, Any]:
        return queries, model.components_


@dataclass(frozen=True)
class IndexSearch(_RowSearch):
    """Dense rows under a metric that the core knows."""

    metric: str
    p: CoreParameter

    memory: ClassVar[int] = 0

    def takes_estimate(self) -> bool:
        return self.metric == "euclidean"

    def index(self, points: NDArray[Any]) -> UniqueRowIndex:
        """Build the index of the points."""
        return UniqueRowIndex(points, self.eps, self.metric, self.p, self.threads)

    def check(self, points: Any, n: int) -> None:
        check_coordinates("DBSCAN", self.metric, points)

    def cluster(self, points: Any, min_samples: float, weights: Floats | None, border: str) -> Clusters:
        return core_graph.graph(
            points, self.eps, min_samples, weights, metric=self.metric, p=self.p, border=border, threads=self.threads
        )

    def count(self, queries: Any, points: Any, rows: Indices) -> Floats:
        return self.index(points).count(queries, np.inf, None)

    def has_enough(self, queries: Any, points: Any, min_samples: float, weights: Floats | None) -> Bools:
        counts = self.index(points).count(queries, float(min_samples), weights)
        return np.asarray(counts >= min_samples)

    def attach(self, queries: Any, core_points: Any, labels: Ints, border: str) -> Ints:
        if border == "first":  # the lowest row, of rows sorted by cluster
            order = np.argsort(labels, kind="stable")
            found = self.index(core_points[order]).first(queries)
            return np.where(found >= 0, labels[order][found], -1)
        found, _ = self.index(core_points).nearest(queries)
        return np.where(found >= 0, labels[found], -1)

    def links(self, points: Any, rows: Indices) -> Bools:
        return neighborhoods.pairs_within(points[rows], self.eps)


class SparseSearch(_RowSearch):
    """Sparse rows, Euclidean."""

    def neighbourhoods(self, queries: Any, points: Any) -> Neighbourhoods:
        return neighborhoods.of_sparse_features(queries, points, self.eps)


class SparseCosineSearch(_RowSearch):
    """Sparse rows under the cosine distance."""

    def neighbourhoods(self, queries: Any, points: Any) -> Neighbourhoods:
        return neighborhoods.of_sparse_directions(queries, points, self.eps)


@dataclass(frozen=True)
class MetricSearch(_RowSearch):
    """Rows under any metric of scikit-learn's `pairwise_distances`, or a callable."""

    metric: Metric
    options: dict[str, Any]

    def check(self, points: Any, n: int) -> None:
        check_coordinates("DBSCAN", "" if self.options else self.metric, points)

    def neighbourhoods(self, queries: Any, points: Any) -> Neighbourhoods:
        return neighborhoods.by_metric(queries, points, self.eps, self.metric, self.options)


# ---- distances -------------------------------------------------------------------------------------------------------


class MatrixSearch(Search):
    """A matrix of distances; rows of the fit are its columns."""

    def neighbourhoods(self, queries: Any, points: Any) -> Neighbourhoods:
        return neighborhoods.of_matrix(queries, self.eps)

    def check(self, points: Any, n: int) -> None:
        if points.shape[1] != n:
            raise BadData(
                f"DBSCAN: precomputed distances must be to each of the {n} rows of the fit, "
                f"got {points.shape[1]} columns."
            )
        values: NDArray[Any] = points if isinstance(points, np.ndarray) else points.data
        if values.size and values.min() < 0:
            raise BadData(f"DBSCAN: precomputed distances must be >= 0, got {values.min()!r}.")

    def select(self, points: Any, rows: Indices, columns: Indices) -> Any:
        return points[rows][:, columns]

    def rank(self, points: Any) -> Rank:
        """Order equally close core points by their numbers: there are no coordinates."""
        return lambda rows: rows

    def fitted(self, queries: Any, model: Any) -> tuple[Any, Floats | None]:
        if model.fit_weights_ is None:
            return queries[:0], None
        core = np.isin(np.arange(len(model.labels_)), model.core_sample_indices_)
        weights = np.empty(len(core))  # columns are in the order of the fitted rows, fit_weights_ has core rows first
        weights[np.concatenate([np.flatnonzero(core), np.flatnonzero(~core)])] = model.fit_weights_
        return queries[:0], weights

    def fitted_core(self, queries: Any, model: Any) -> tuple[Any, Any]:
        rows = model.core_sample_indices_
        return queries[:, rows], model.components_[:, rows]


class GraphSearch(MatrixSearch):
    """A sparse matrix of distances: a missing entry is further than ε, and a row is its own neighbour."""

    def neighbourhoods(self, queries: Any, points: Any) -> Neighbourhoods:
        return neighborhoods.of_graph(queries, self.eps, own=queries is points)

    def count(self, queries: Any, points: Any, rows: Indices) -> Floats:
        return super().count(queries, points, rows) + (points.diagonal()[rows] == 0)  # itself, stored or not

    def digest(self, points: Any) -> str:
        return graph_digest(points)
