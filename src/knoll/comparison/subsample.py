"""What is measured once on the rows that answers are judged on: neighbours, density, graph, spanning trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from knoll import _core
from knoll._common.rescale import extreme_exponent, largest_of, times_power
from knoll._common.unique_rows import find_unique_rows
from knoll._typing import Floats, Ints, Labels
from knoll.density.noise import nearest_labels
from knoll.density.tree import DensityTree

__all__ = ["MixedRows", "Subsample", "count_small_clusters"]

_NEAR = 20  # neighbours of a row, at most
_GRAPH = 10  # of them in the graph
_MIN_SAMPLES = (1, 5, 10)  # of the density trees
MANY = 40  # clusters: more of them are too small in a usual subsample
_FEW = 5  # neighbours of the tree that counts clusters
_LEAST_SIZES = (10, 20, 40)  # rows of a cluster that is counted
_ABOUT = 1.25  # ratio of numbers of clusters that are about the same
_MOST_NOISE = 0.3  # share of the rows
_ORDINARY = 330  # powers of two of the largest entry whose squares, and their sums, stay in float64
_DENSITY = 8  # the neighbour whose distance is the density


@dataclass(frozen=True)
class MixedRows:
    """Rows with categories and missing values: numbers first, then the codes of categories; NaN is a missing value."""

    values: Floats  # (m, p + q)
    n_numeric: int

    def take(self, rows: Ints) -> MixedRows:
        """Return some of the rows."""
        return MixedRows(np.ascontiguousarray(self.values[rows]), self.n_numeric)


@dataclass(frozen=True)
class Subsample:
    """The rows, in order of content, with what is measured on them when it is first needed."""

    points: Floats  # (m, d) scaled
    seed: int
    threads: int
    many: int = 0  # small clusters that `count_small_clusters` found
    mixed: MixedRows | None = None  # the same rows with categories and missing values, if there are any

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.points)

    @cached_property
    def power(self) -> int:
        """Lengths are measured in units of 2^power: 1, but at magnitudes whose squares leave float64."""
        return extreme_exponent(largest_of(self.points), _ORDINARY)

    @cached_property
    def unit_points(self) -> Floats:
        """(m, d) the rows in that unit."""
        return np.asarray(times_power(self.points, -self.power))

    @cached_property
    def _nearest(self) -> tuple[Floats, Ints]:
        k = min(_NEAR + 1, self.n)
        distances, near = np.empty((self.n, k)), np.empty((self.n, k), np.int64)
        index = _core.Index(self.points, 0.0, "euclidean", 2.0, "auto", self.threads)
        index.knn(self.points, k, distances, near, self.threads)
        return without_self(times_power(distances, -self.power), near)

    @property
    def near(self) -> Ints:
        """(m, ≤ 20) the nearest other rows."""
        return self._nearest[1]

    @property
    def distances(self) -> Floats:
        """(m, ≤ 20) the distances to them."""
        return self._nearest[0]

    @cached_property
    def first_equal(self) -> Ints:
        """(m,) the first row that equals each row: scaling may have made rows equal that are not adjacent."""
        rows = find_unique_rows(self.points, self.threads)
        return rows.index[rows.inverse]

    @cached_property
    def least_distance(self) -> float:
        """A distance below which rows count as equal: a thousandth of the median to the nearest different row."""
        positive = self.distances[self.distances > 0]
        return 1e-3 * float(np.median(positive)) if len(positive) else 1.0

    @cached_property
    def log_density(self) -> Floats:
        """(m,) −log of the distance to the eighth neighbour: the log density divided by the dimension."""
        reach = self.distances[:, min(_DENSITY, self.distances.shape[1]) - 1]
        return np.asarray(-np.log(np.maximum(reach, self.least_distance)))

    @cached_property
    def dimension(self) -> float:
        """The intrinsic dimension (Levina and Bickel 2004), between 1 and the number of columns."""
        reach = np.log(np.maximum(self.distances, self.least_distance))
        if reach.shape[1] < 3:
            return 1.0
        inverse = (reach[:, -1:] - reach[:, :-1]).mean(axis=1)
        mean = float(inverse.mean())
        return float(np.clip(1.0 / mean if mean > 0 else np.inf, 1.0, max(1, self.points.shape[1])))

    @cached_property
    def copies(self) -> float:
        """The share of rows that have an equal one."""
        return float((self.distances[:, 0] <= 0).mean()) if self.distances.shape[1] else 0.0

    @cached_property
    def graph(self) -> Any:
        """The symmetric graph of ten neighbours: weight 1 if both rows are neighbours of each other, else ½."""
        k = min(_GRAPH, self.near.shape[1])
        rows = np.repeat(np.arange(self.n), k)
        ones = np.ones(len(rows))
        links = scipy.sparse.csr_array((ones, (rows, self.near[:, :k].ravel())), shape=(self.n, self.n))
        graph = scipy.sparse.csr_array((links + links.T) * 0.5)
        graph.sort_indices()
        return graph

    @cached_property
    def pairs(self) -> Labels:
        """(e, 2) the edges of the graph, each once, the lower row first."""
        graph = self.graph.tocoo()
        once = graph.row < graph.col
        return np.column_stack([graph.row[once], graph.col[once]]).astype(np.int32)

    @cached_property
    def pair_lengths(self) -> Floats:
        """(e,) the lengths of the edges."""
        a, b = self.pairs.T
        return np.sqrt(((self.unit_points[a] - self.unit_points[b]) ** 2).sum(axis=1))

    @cached_property
    def pair_heights(self) -> Floats:
        """(e,) the log density of an edge: the least of its ends, and less where it is longer than their reach."""
        a, b = self.pairs.T
        ends = np.minimum(self.log_density[a], self.log_density[b])
        return np.minimum(ends, -np.log(np.maximum(self.pair_lengths, self.least_distance)))

    @cached_property
    def trees(self) -> dict[int, DensityTree]:
        """Density trees, by min_samples. One thread finds the same spanning tree every time."""
        tried = (s for s in _MIN_SAMPLES if s <= max(1, self.n // 3))
        return {s: DensityTree(min_samples=s, n_jobs=1).fit(self.points) for s in tried}

    @property
    def least_size(self) -> int:
        """The least number of rows of a cluster of the density trees: smaller if there are many small clusters."""
        return max(4, round(0.008 * self.n) if not self.many else round(self.n / (4 * self.many)))

    def filled(self, labels: Ints) -> Ints:
        """Give noise rows the label of the nearest clustered row; most have one among their neighbours."""
        if labels.min() >= 0:
            return labels
        out = labels.copy()
        last = self.near.shape[1]
        first = np.where(labels[self.near] >= 0, np.arange(last), last).min(axis=1)
        quick = (labels < 0) & (first < last)
        out[quick] = labels[self.near[quick, first[quick]]]
        far = np.flatnonzero((labels < 0) & ~quick)
        if len(far):
            out[far] = nearest_labels(self.points[far], self.points, labels, threads=self.threads)
        return out

    def core_distances(self, min_samples: int) -> Floats:
        """(m,) the core distances of a density tree."""
        return np.asarray(times_power(self.trees[min_samples].core_distances_, -self.power))

    def spanning_tree(self, min_samples: int) -> tuple[Labels, Floats]:
        """Return the minimum spanning tree of mutual reachability: edges, the shortest first, and their lengths."""
        tree = self.trees[min_samples]
        edges = tree._spanning_tree()
        assert edges is not None
        a, b = edges.T
        core = self.core_distances(min_samples)
        lengths = np.sqrt(((self.unit_points[a] - self.unit_points[b]) ** 2).sum(axis=1))
        lengths = np.maximum(np.maximum(lengths, core[a]), core[b])
        order = np.lexsort((np.maximum(a, b), np.minimum(a, b), lengths))
        return np.ascontiguousarray(edges[order]), lengths[order]


def count_small_clusters(points: Floats, threads: int) -> int:
    """Count the clusters of a large subsample if there are too many for a small one; 0: there are not.

    Three least sizes of a cluster of HDBSCAN must give about the same number, with most rows in clusters: then it does
    not come from the random density of a continuous distribution, in which every least size gives another number.
    """
    tree = DensityTree(min_samples=_FEW, n_jobs=threads).fit(points)
    counts = []
    for size in _LEAST_SIZES:
        condensed = tree.condense(size)
        labels = condensed.select(condensed.eom()).labels
        if (labels < 0).mean() > _MOST_NOISE:
            return 0
        counts.append(int(labels.max()) + 1)
    return counts[1] if min(counts) > MANY and max(counts) < _ABOUT * min(counts) else 0


def without_self(distances: Floats, near: Ints) -> tuple[Floats, Ints]:
    """Remove each row from its own neighbours; among many equal rows it may be missing: then the last one goes."""
    n, k = near.shape
    own = near == np.arange(n)[:, None]
    missing = ~own.any(axis=1)
    own[missing, -1] = True
    return distances[~own].reshape(n, k - 1), near[~own].reshape(n, k - 1)
