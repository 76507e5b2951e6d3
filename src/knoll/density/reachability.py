"""Mutual reachability m(x, y) = max(c(x), c(y), d(x, y)/α), for each type of input that a density tree takes.

    IndexReachability   dense rows under a metric that the core knows: an index
    MetricReachability  rows, dense or sparse, under any other metric or a callable: all n² distances
    MatrixReachability  a matrix of distances
    GraphReachability   a sparse matrix of distances, in which a missing entry is infinite

`choose_reachability` picks one per call; they have the same methods, so that nothing else depends on the type of input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from knoll import _core
from knoll._common.sparse import is_sparse
from knoll._common.unique_rows import find_unique_rows, graph_digest, row_digests
from knoll._system import free_memory
from knoll._typing import Bools, Floats, Ints, Labels
from knoll.density.geography import check_coordinates
from knoll.exceptions import BadData, CostError
from knoll.neighbors.distances import metric_distances
from knoll.neighbors.index import CoreParameter
from knoll.neighbors.metric_names import CORE_METRICS, core_metric, core_parameter, minkowski_power

_BLOCK = 2**22  # distances in a block


class Grown(NamedTuple):
    """A density tree."""

    order: Ints  # (n,)
    bars: Floats  # (n,)
    core: Floats  # (n,)
    near: Labels | None  # (n, min_samples − 1) the nearest rows, where there is an index and no weight
    links: Labels | None = None  # (n,) where there is an index: a minimum spanning tree, whose edges are (i, links[i])
    within: Any = None  # (n, n) sparse, where there is no index: distances up to the core distance
    edges: Labels | None = None  # (n − 1, 2) where there is no index: a minimum spanning tree, edges ascending


class Attached(NamedTuple):
    """Queries joined to the row of least mutual reachability, then least distance, then least coordinates."""

    row: Ints  # (q,)
    height: Floats  # (q,) m of the query and that row
    core: Floats  # (q,) core distances of the queries


@dataclass(frozen=True)
class Level:
    """What a core distance is."""

    min_samples: float
    weights: Floats | None
    alpha: float


@dataclass(frozen=True)
class Reachability:
    """What the types of input share."""

    owner: str
    threads: int

    def check(self, points: Any) -> None:
        """Refuse input that has no distances."""

    def select(self, points: Any, rows: Ints) -> Any:
        """Return these rows, as a table of their own."""
        return points[rows]

    def queries(self, points: Any, rows: Ints, columns: Ints) -> Any:
        """Return these rows as queries among the rows `columns`."""
        return points[rows]

    def grow(self, points: Any, level: Level) -> Grown:
        """Build the density tree."""
        raise NotImplementedError

    def attach(self, queries: Any, points: Any, core: Floats, level: Level) -> Attached:
        """Join each query to a row; its core distance counts the rows alone."""
        raise NotImplementedError

    def distances(self, queries: Any, points: Any) -> Floats:
        """Return all distances of a block of queries."""
        raise NotImplementedError

    def digest(self, points: Any) -> str:
        """Return what identifies a graph whose rows are their own neighbours, stored or not; "" for other input."""
        return ""


def choose_reachability(
    points: Any,
    metric: str | Callable[..., float],
    metric_params: dict[str, Any] | None,
    p: float | None,
    owner: str,
    threads: int,
) -> Reachability:
    """Choose how reachability is computed for these points, or distances."""
    if metric == "precomputed":
        return (GraphReachability if is_sparse(points) else MatrixReachability)(owner, threads)
    name = core_metric(metric, metric_params, p)
    if name is not None and not is_sparse(points):
        return IndexReachability(owner, threads, name, core_parameter(name, metric_params, p))
    options = dict(metric_params or {})
    if metric == "minkowski":
        options.setdefault("p", minkowski_power(metric_params, p))
    if metric == "mahalanobis" and "V" in options:  # SciPy takes the inverse
        options["VI"] = np.linalg.inv(options.pop("V"))
    return MetricReachability(owner, threads, metric, options)


# ---- an index --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IndexReachability(Reachability):
    """Dense rows under a metric that the core knows."""

    metric: str
    p: CoreParameter

    def check(self, points: Any) -> None:
        check_coordinates(self.owner, self.metric, points)

    def grow(self, points: Any, level: Level) -> Grown:
        n = len(points)
        order, bars, core = np.empty(n, np.int64), np.empty(n), np.empty(n)
        near = np.empty((n, 0 if level.weights is not None else int(level.min_samples) - 1), np.int32)
        links = np.empty(n, np.int32)
        _core.density_tree(
            points,
            level.min_samples,
            level.weights,
            self.metric,
            self.p,
            order,
            bars,
            core,
            near,
            self.threads,
            "auto",
            links,
            level.alpha,
        )
        return Grown(order, bars, core, near if level.weights is None else None, links)

    def attach(self, queries: Any, points: Any, core: Floats, level: Level) -> Attached:
        rows = find_unique_rows(points, self.threads)  # a row that many equal would fill the lists of nearest rows
        weights: Any = rows.counts if level.weights is None else np.bincount(rows.inverse, level.weights)
        distinct = np.ascontiguousarray(points[rows.index])
        search = _NearestByReachability(self, distinct, core[rows.index], weights, level)
        found = search.attach(np.ascontiguousarray(queries))
        return Attached(rows.index[found.row], found.height, found.core)


class _NearestByReachability:
    """The row of least m of each query: more and more nearest rows, until all others are farther than the best m."""

    def __init__(self, index: IndexReachability, points: Any, core: Floats, weights: Floats, level: Level) -> None:
        self.points, self.core, self.weights, self.level = points, core, weights, level
        self.threads = index.threads
        self.index = _core.Index(points, 0.0, index.metric, index.p, "auto", index.threads)
        self._rank: Ints | None = None

    def attach(self, queries: Any) -> Attached:
        q, n = len(queries), len(self.points)
        found = Attached(np.full(q, -1), np.empty(q), np.empty(q))
        open_, k = np.arange(q), min(n, max(2, int(min(self.level.min_samples, n))))
        while len(open_):
            step = max(1, _BLOCK // k)
            for begin in range(0, len(open_), step):
                self._search(queries, open_[begin : begin + step], k, found)
            open_, k = np.flatnonzero(found.row < 0), min(n, 2 * k)
        return found

    def _search(self, queries: Any, which: Ints, k: int, found: Attached) -> None:
        """Fill in the queries whose k nearest rows decide."""
        distances, near = np.empty((len(which), k)), np.empty((len(which), k), dtype=np.int64)
        self.index.knn(np.ascontiguousarray(queries[which]), k, distances, near, self.threads)
        everything = k == len(self.points)
        own, known = core_of_sorted(distances, self.weights[near], self.level.min_samples)
        equal = (distances == 0) & (self.points[near] == queries[which][:, None]).all(axis=2)
        itself = near[np.arange(len(which)), equal.argmax(axis=1)]
        own = np.where(equal.any(axis=1), self.core[itself], own)
        scaled = _over(distances, self.level.alpha)
        reach = np.maximum(np.maximum(scaled, own[:, None]), self.core[near])
        best = reach.min(axis=1)
        done = everything | (known & (scaled[:, -1] > best))  # known is then true, by the rule for min_samples
        row = near[np.arange(len(which)), self._first(reach == best[:, None], distances, near)]
        row = np.where(equal.any(axis=1), itself, row)
        found.row[which[done]] = row[done]
        found.height[which[done]], found.core[which[done]] = best[done], own[done]

    def _first(self, tied: Bools, distances: Floats, near: Ints) -> Ints:
        """Return the column of the nearest of the tied rows, of several the one of the smallest coordinates."""
        closest = np.where(tied, distances, np.inf)
        tied = tied & (distances == closest.min(axis=1)[:, None])
        if (tied.sum(axis=1) > 1).any():
            if self._rank is None:
                self._rank = np.empty(len(self.points), dtype=np.int64)
                self._rank[np.lexsort(self.points.T[::-1])] = np.arange(len(self.points))
            return np.where(tied, self._rank[near], len(self.points)).argmin(axis=1)
        return tied.argmax(axis=1)


def _over(distances: Floats, alpha: float) -> Floats:
    """Return d/α, infinite where it leaves float64."""
    with np.errstate(over="ignore"):
        quotients: Floats = distances / alpha
        return quotients


def core_of_sorted(distances: Floats, weights: Floats, min_samples: float) -> tuple[Floats, Bools]:
    """Return the least distance within which there is weight enough, and whether there is one; rows are ascending."""
    enough = _is_enough(weights, min_samples)
    return distances[np.arange(len(distances)), enough.argmax(axis=1)], enough[:, -1]


def _is_enough(weights: Floats, min_samples: float) -> Bools:
    """Return whether the sum of the weights up to each column, correctly rounded, reaches min_samples.

    min(w, min_samples) in place of w changes no decision, and no sum overflows. A running sum of k numbers ≥ 0 is
    within k ulps of the exact one; nearer to min_samples than that, the exact sum decides.
    """
    capped = np.minimum(weights, min_samples)
    sums = np.cumsum(capped, axis=1)
    enough = sums >= min_samples
    doubt = np.abs(sums - min_samples) <= weights.shape[1] * np.finfo(np.float64).eps * min_samples
    if (capped == np.rint(capped)).all():  # sums of whole numbers are exact
        return enough
    for row, column in np.argwhere(doubt).tolist():
        enough[row, column] = math.fsum(capped[row, : column + 1].tolist()) >= min_samples
    return enough


# ---- all distances ---------------------------------------------------------------------------------------------------


class _AllDistances(Reachability):
    """Every pair of rows."""

    def grow(self, points: Any, level: Level) -> Grown:
        distances = self.full(points)
        core = core_distances(distances, level)
        edges, heights = prim(distances, core, level.alpha)
        return _grown(edges, heights, core, _within_core(distances, core))

    def full(self, points: Any) -> Floats:
        """Return the matrix of distances, 0 on its diagonal."""
        raise NotImplementedError

    def attach(self, queries: Any, points: Any, core: Floats, level: Level) -> Attached:
        n, q = len(core), queries.shape[0]
        rank = self.rank(points, n)
        found = Attached(np.empty(q, np.int64), np.empty(q), np.empty(q))
        for begin in range(0, q, step := max(1, _BLOCK // n)):
            block = slice(begin, begin + step)
            distances = self.distances(queries[block], points)
            own = core_distances(distances, level)
            reach = np.maximum(np.maximum(_over(distances, level.alpha), own[:, None]), core)
            best = reach.min(axis=1)
            closest = np.where(reach == best[:, None], distances, np.inf)
            tied = (reach == best[:, None]) & (distances == closest.min(axis=1)[:, None])
            found.row[block] = np.where(tied, rank, n).argmin(axis=1)
            found.height[block], found.core[block] = best, own
        return self.recognise(found, queries, points, core)

    def rank(self, points: Any, n: int) -> Ints:
        """Return the order of rows that are equally near: there are no coordinates."""
        return np.arange(n)

    def recognise(self, found: Attached, queries: Any, points: Any, core: Floats) -> Attached:
        """Attach queries that equal a row to that row: distances of other blocks may be rounded differently."""
        return found

    def need_memory(self, n: int) -> None:
        """Refuse a matrix that would not fit."""
        needed = 3 * 8 * n * n
        if needed > (free := free_memory()):
            raise CostError(
                f"{self.owner}: this metric needs all distances of {n} rows, {needed / 1e9:.1f} GB with work space, "
                f"and {free / 1e9:.1f} GB are free. Take a metric with an index ({', '.join(CORE_METRICS)}), or a "
                "sample of the rows."
            )


@dataclass(frozen=True)
class MetricReachability(_AllDistances):
    """Rows under any metric of scikit-learn's `pairwise_distances`, or a callable."""

    metric: str | Callable[..., float]
    options: dict[str, Any]

    def full(self, points: Any) -> Floats:
        self.need_memory(points.shape[0])
        distances = np.array(self.distances(points, points))
        distances = np.minimum(distances, distances.T)  # some metrics round d(x, y) and d(y, x) differently
        np.fill_diagonal(distances, 0.0)
        return distances

    def distances(self, queries: Any, points: Any) -> Floats:
        return metric_distances(queries, points, self.metric, self.options, self.owner)

    def rank(self, points: Any, n: int) -> Ints:
        table = points.toarray() if is_sparse(points) else points
        rank = np.empty(n, dtype=np.int64)
        rank[np.lexsort(table.T[::-1])] = np.arange(n)
        return rank

    def recognise(self, found: Attached, queries: Any, points: Any, core: Floats) -> Attached:
        known = {digest: row for row, digest in reversed(list(enumerate(row_digests(points).tolist())))}
        same = np.array([known.get(digest, -1) for digest in row_digests(queries).tolist()], dtype=np.int64)
        equal = same >= 0
        row, height, own = found.row.copy(), found.height.copy(), found.core.copy()
        row[equal], height[equal], own[equal] = same[equal], core[same[equal]], core[same[equal]]
        return Attached(row, height, own)


class MatrixReachability(_AllDistances):
    """A matrix of distances; rows of the fit are its columns. Infinite distances are allowed."""

    def check(self, points: Any) -> None:
        values: NDArray[Any] = points.data if is_sparse(points) else points
        if points.shape[0] != points.shape[1]:
            raise BadData(
                f"{self.owner}: The precomputed distance matrix is expected to be symmetric, however it has shape "
                f"{points.shape}. Please verify that the distance matrix was constructed correctly."
            )
        if values.size and values.min() < 0:
            raise BadData(f"{self.owner}: precomputed distances must be >= 0, got {values.min()!r}.")
        difference = abs(points - points.T) if is_sparse(points) else _asymmetry(points)
        largest = difference.max() if points.shape[0] else 0.0
        if largest > 1e-8 * (1.0 + np.max(values, initial=0.0, where=np.isfinite(values))):
            raise BadData(
                f"{self.owner}: The precomputed distance matrix is expected to be symmetric, however its values appear "
                "to be asymmetric. Please verify that the distance matrix was constructed correctly."
            )

    def select(self, points: Any, rows: Ints) -> Any:
        return points[rows][:, rows]

    def queries(self, points: Any, rows: Ints, columns: Ints) -> Any:
        return points[rows][:, columns]

    def full(self, points: Any) -> Floats:
        self.need_memory(points.shape[0])
        distances = np.minimum(points, points.T).astype(np.float64, copy=False)
        np.fill_diagonal(distances, 0.0)
        return distances

    def distances(self, queries: Any, points: Any) -> Floats:
        return np.asarray(queries, dtype=np.float64)


def _asymmetry(points: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where(points == points.T, 0.0, np.abs(points - points.T))


class GraphReachability(MatrixReachability):
    """A sparse matrix of distances: a missing entry is infinite, and a row is its own neighbour."""

    def grow(self, points: Any, level: Level) -> Grown:
        graph = _with_itself(points)
        n = graph.shape[0]
        core = np.array([self._core(graph, row, level) for row in range(n)])
        if np.isinf(core).any():
            raise BadData(
                f"{self.owner}: There exists points with fewer than {level.min_samples:g} neighbors. Ensure your "
                "distance matrix has non-zero values for at least so many neighbors of each point (a graph of nearest "
                "neighbours), or take a smaller min_samples."
            )
        components: Any = connected_components(_nonzero(graph), directed=False, return_labels=False)
        if components > 1:
            raise BadData(
                f"{self.owner}: HDBSCAN cannot be performed on a disconnected graph; the sparse distance matrix has "
                f"{components} components. Add distances between them, or fit each alone."
            )
        entries = graph.tocoo()
        reach = np.maximum(np.maximum(_over(entries.data, level.alpha), core[entries.row]), core[entries.col])
        heights, rank = np.unique(reach, return_inverse=True)
        upper = entries.row < entries.col
        ranked = scipy.sparse.csr_array(
            (rank.ravel()[upper] + 1.0, (entries.row[upper], entries.col[upper])), shape=graph.shape
        )
        tree = minimum_spanning_tree(ranked).tocoo()
        edges = np.stack([tree.row, tree.col], axis=1).astype(np.int32)
        inside = (entries.row != entries.col) & (entries.data <= core[entries.row])
        near = scipy.sparse.csr_array(
            (entries.data[inside], (entries.row[inside], entries.col[inside])), shape=graph.shape
        )
        return _grown(edges, heights[tree.data.astype(np.int64) - 1], core, near)

    def _core(self, graph: Any, row: int, level: Level) -> float:
        entries = slice(graph.indptr[row], graph.indptr[row + 1])
        order = np.argsort(graph.data[entries], kind="stable")
        weights = np.ones(len(order)) if level.weights is None else level.weights[graph.indices[entries][order]]
        enough = _is_enough(weights[None], level.min_samples)[0]
        return float(graph.data[entries][order][enough.argmax()]) if enough.any() else np.inf

    def distances(self, queries: Any, points: Any) -> Floats:
        entries = queries.tocoo()
        distances = np.full(queries.shape, np.inf)
        distances[entries.row, entries.col] = entries.data
        return distances

    def digest(self, points: Any) -> str:
        return graph_digest(points)


def _with_itself(graph: Any) -> Any:
    """Return the graph with a stored 0 for each row itself."""
    entries = graph.tocoo()
    off = entries.row != entries.col
    every = np.arange(graph.shape[0])
    rows, columns = np.append(entries.row[off], every), np.append(entries.col[off], every)
    data = np.append(entries.data[off].astype(np.float64), np.zeros(len(every)))
    order = np.lexsort((columns, rows))
    starts = np.append(0, np.cumsum(np.bincount(rows, minlength=len(every))))
    return scipy.sparse.csr_array((data[order], columns[order], starts), shape=graph.shape)


def _nonzero(graph: Any) -> Any:
    return scipy.sparse.csr_array((np.ones(len(graph.data)), graph.indices, graph.indptr), shape=graph.shape)


def edges_of_links(links: Labels) -> Labels:
    """Return the edges (i, links[i]) of a spanning tree, (n − 1, 2); fewer where distances are infinite."""
    rows = np.flatnonzero(links >= 0).astype(np.int32)
    return np.stack([rows, links[rows]], axis=1)


# ---- trees of a matrix -----------------------------------------------------------------------------------------------


def core_distances(distances: Floats, level: Level) -> Floats:
    """Return the distance within which each row of a matrix has weight enough."""
    if level.weights is None:
        k = int(level.min_samples)
        return np.partition(distances, k - 1, axis=1)[:, k - 1].copy()
    order = np.argsort(distances, axis=1, kind="stable")
    return core_of_sorted(np.take_along_axis(distances, order, axis=1), level.weights[order], level.min_samples)[0]


def _within_core(distances: Floats, core: Floats) -> Any:
    """Return the distances up to the core distance, as compressed rows."""
    inside = (distances <= core[:, None]) & np.isfinite(distances)
    np.fill_diagonal(inside, False)
    rows, columns = np.nonzero(inside)
    return scipy.sparse.csr_array((distances[inside], (rows, columns)), shape=distances.shape)


def _grown(edges: Labels, heights: Floats, core: Floats, within: Any) -> Grown:
    rank = np.lexsort((edges[:, 1], edges[:, 0], heights))
    return Grown(*order_of_edges(edges, heights), core, None, None, within, np.ascontiguousarray(edges[rank]))


def prim(distances: Floats, core: Floats, alpha: float) -> tuple[Labels, Floats]:
    """Return the edges of a minimum spanning tree of mutual reachability, and their heights (Prim's algorithm)."""
    n = len(core)
    edges, heights = np.empty((n - 1, 2), dtype=np.int32), np.empty(n - 1)
    best, parent = np.full(n, np.inf), np.zeros(n, dtype=np.int32)
    outside = np.ones(n, dtype=bool)
    row = 0
    for step in range(n - 1):
        outside[row] = False
        reach = np.maximum(np.maximum(_over(distances[row], alpha), core[row]), core)
        closer = outside & (reach < best)
        best[closer], parent[closer] = reach[closer], row
        left = np.flatnonzero(outside)
        row = int(left[best[left].argmin()])
        edges[step], heights[step] = (parent[row], row), best[row]
    return edges, heights


def root_of(up: list[int], row: int) -> int:
    """Return the root of a row in a forest of parents; paths are halved on the way."""
    while up[row] != row:
        up[row] = up[up[row]]
        row = up[row]
    return row


def order_of_edges(edges: Labels, heights: Floats) -> tuple[Ints, Floats]:
    """Return the order of the rows and the bars between them; children of a node come by their lowest rows."""
    n = len(edges) + 1
    up, last, following, bars = list(range(n)), list(range(n)), [-1] * n, [np.inf] * n
    order = np.argsort(heights, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(heights[order]) > 0, True)) + 1  # of groups of equal heights
    if np.isinf(heights).any():
        ends = np.unique(np.append(ends[ends <= np.isfinite(heights).sum()], [np.isfinite(heights).sum(), n - 1]))
    begin = 0
    for end in ends[(ends > 0) & (ends < n)].tolist():
        group = edges[order[begin:end]].tolist()
        height, begin = float(heights[order[end - 1]]), end
        roots = sorted({root_of(up, row) for edge in group for row in edge})
        for a, b in group:
            a, b = root_of(up, a), root_of(up, b)
            up[max(a, b)] = min(a, b)
        for root in roots:  # a chain begins with its root, which is its lowest row
            if (head := root_of(up, root)) != root:
                bars[root], following[last[head]], last[head] = height, root, last[root]
    row, chain = 0, []
    while row >= 0:
        chain.append(row)
        row = following[row]
    return np.array(chain, dtype=np.int64), np.array(bars)[chain]
