"""The paper's three formulations of DBSCAN, as objects with the same methods.

Graph      components of the graph "within ε" on the core points (eq. 5.11)
Spectral   the same clusters, from the eigenvectors of eigenvalue one (eq. 5.6)
Climbing   every row ascends to the mean of its neighbours until it has min_samples of them (errata, items 4 to 6)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll._common.rescale import RadiusRescaling
from knoll._typing import Bools, Floats, Indices, Ints
from knoll.density import ascent, core_graph
from knoll.density.core_graph import Clusters
from knoll.density.radius_search import Search
from knoll.exceptions import BadData, InvalidParameter
from knoll.neighbors.index import UniqueRowIndex

# A path ends by itself: each step increases f (eq. 6.1), and there are finitely many sets of neighbours.
_STEPS = 2**31 - 1


class Formulation:
    """What a formulation provides; the defaults are those of the graph.

    `model` is the estimator: a fit reads its parameters, a prediction also its fitted attributes.
    """

    warns_of_few_core: ClassVar[bool] = True

    def check_metric(self, metric: Any, name: str | None) -> None:
        """Refuse a metric that the formulation cannot use; `name` is that of the core, or None."""

    def check_data(self, points: Any, weights: Floats | None) -> None:
        """Refuse data that the formulation cannot use."""

    def weight_fault(self, weights: Floats) -> str:
        """Return what is wrong with the weights of a fitted model, or ""."""
        return ""

    def cluster(self, model: Any, search: Search, points: Any, weights: Floats | None) -> Clusters:
        """Find the clusters of the points, all of which have a weight != 0."""
        raise NotImplementedError

    def keep(self, model: Any, clusters: Clusters, points: Any, weights: Floats | None, absent: Indices) -> None:
        """Set the fitted attributes that only this formulation has; `absent` are the rows of weight 0."""

    def predict(self, model: Any, search: Search, queries: Any) -> Ints:
        """Label queries by a fitted model."""
        digest = model.graph_digest_
        if digest and search.digest(queries) == digest:
            return np.array(model.labels_)
        labels = _closest(model, search, queries)
        if model.border == "noise":
            labels[~_is_core(model, search, queries)] = -1
        return labels

    def predict_kind(self, model: Any, search: Search, queries: Any) -> NDArray[np.str_]:
        """Return "core", "border" or "noise" for queries."""
        digest = model.graph_digest_
        if digest and search.digest(queries) == digest:
            core = np.isin(np.arange(len(model.labels_)), model.core_sample_indices_)
            reached = core if model.border == "noise" else model._is_clustered()
        else:
            core = _is_core(model, search, queries)
            reached = _closest(model, search, queries) >= 0
        return np.where(core, "core", np.where(reached, "border", "noise"))

    def memory(self, search: Search, n: int, d: int, core_share: float) -> int:
        """Return the bytes that a fit needs beyond those of every row."""
        return search.memory


def _is_core(model: Any, search: Search, queries: Any) -> Bools:
    points, weights = search.fitted(queries, model)
    return search.has_enough(queries, points, model.min_samples, weights)


def _closest(model: Any, search: Search, queries: Any) -> Ints:
    """Return the cluster of a core point of the fit within ε of each query, or −1."""
    rows = model.core_sample_indices_
    if not len(rows):
        return np.full(queries.shape[0], -1, dtype=np.int64)
    return search.attach(*search.fitted_core(queries, model), model.labels_[rows], model.border)


class Graph(Formulation):
    """Components of the graph "within ε" on the core points."""

    def cluster(self, model: Any, search: Search, points: Any, weights: Floats | None) -> Clusters:
        return search.cluster(points, model.min_samples, weights, model.border)


class Spectral(Formulation):
    """Core points by their degree, clusters by eigenvectors, border points as in the graph."""

    def check_metric(self, metric: Any, name: str | None) -> None:
        if name != "euclidean" and metric != "precomputed":
            raise InvalidParameter(
                f"DBSCAN: formulation='spectral' takes metric 'euclidean' or 'precomputed', got {metric!r}. "
                "Pass the matrix of distances with metric='precomputed', or use formulation='graph'."
            )

    def cluster(self, model: Any, search: Search, points: Any, weights: Floats | None) -> Clusters:
        core = search.has_enough(points, points, model.min_samples, weights)
        rows = np.flatnonzero(core)
        core_graph.check_memory(len(rows))
        component = core_graph.spectral(search.links(points, rows))
        labels = np.full(points.shape[0], -1, dtype=np.int64)
        labels[rows] = core_graph.number(component, np.ones(len(rows), dtype=np.bool_))
        others = np.flatnonzero(~core)
        if model.border != "noise" and len(others) and len(rows):
            queries, core_points = search.select(points, others, rows), search.select(points, rows, rows)
            labels[others] = search.attach(queries, core_points, labels[rows], model.border)
        return Clusters(labels, core, {"backend": "eigenvectors", "pairs": len(rows) ** 2})

    def memory(self, search: Search, n: int, d: int, core_share: float) -> int:
        return int(5 * 8 * (core_share * n) ** 2)  # A as numbers, the eigenvectors, LAPACK's workspace


class Climbing(Formulation):
    """Every row ascends until min_samples rows are within ε; ends that get there are joined."""

    warns_of_few_core: ClassVar[bool] = False

    def check_metric(self, metric: Any, name: str | None) -> None:
        if name != "euclidean":
            raise InvalidParameter(
                f"DBSCAN: formulation='climbing' takes means of points, so metric must be 'euclidean', "
                f"got {metric!r}. Use formulation='graph'."
            )

    def check_data(self, points: Any, weights: Floats | None) -> None:
        if scipy.sparse.issparse(points):
            raise BadData("DBSCAN: formulation='climbing' takes dense rows. Use X.toarray(), or formulation='graph'.")
        if weights is not None and (weights < 0).any():
            raise BadData("DBSCAN: formulation='climbing' takes means, so sample_weight must be >= 0.")

    def weight_fault(self, weights: Floats) -> str:
        wrong = weights.min() < 0 or weights.max() <= 0
        return "must be >= 0, and one > 0, with formulation='climbing'" if wrong else ""

    def cluster(self, model: Any, search: Search, points: Any, weights: Floats | None) -> Clusters:
        ends, arrived = self._ascend(model, points, points, weights)
        labels = np.full(len(points), -1, dtype=np.int64)
        if arrived.any():
            labels[arrived] = self._index(search, ends[arrived]).components()
        return Clusters(labels, arrived & ~_moved(ends, points), {"backend": "climb"}, ends)

    def keep(self, model: Any, clusters: Clusters, points: Any, weights: Floats | None, absent: Indices) -> None:
        model.climbed_, model.climbed_labels_ = clusters.ends, clusters.labels.copy()
        if len(absent):
            model.climbed_ = np.empty(points.shape)
            model.climbed_[np.setdiff1d(np.arange(len(points)), absent)] = clusters.ends
            model.climbed_[absent], _ = self._ascend(model, points[absent], points, weights)

    def predict(self, model: Any, search: Search, queries: Any) -> Ints:
        labels = np.full(len(queries), -1, dtype=np.int64)
        ends, arrived = self._ascend(model, queries, model._fitted_points(), model.fit_weights_)
        fitted = model.climbed_labels_ >= 0
        if arrived.any() and fitted.any():
            found, _ = self._index(search, model.climbed_[fitted]).nearest(ends[arrived])
            labels[arrived] = np.where(found >= 0, model.climbed_labels_[fitted][found], -1)
        return labels

    def predict_kind(self, model: Any, search: Search, queries: Any) -> NDArray[np.str_]:
        ends, arrived = self._ascend(model, queries, model._fitted_points(), model.fit_weights_)
        return np.where(arrived, np.where(_moved(ends, queries), "border", "core"), "noise")

    def memory(self, search: Search, n: int, d: int, core_share: float) -> int:
        return 8 * (4 * d + 6) * n

    def _ascend(
        self, model: Any, starts: NDArray[Any], points: NDArray[Any], weights: Floats | None
    ) -> tuple[Floats, Bools]:
        """Follow paths until min_samples rows of the data are within ε: their ends, and which have so many."""
        eps = model._radius()
        scaling = RadiusRescaling.of(points, eps, "DBSCAN", "eps")
        present = slice(None) if weights is None else weights > 0
        density = ascent.KernelDensity(
            scaling.down(points[present]),
            None if weights is None else weights[present],
            scaling.radius(eps),
            threads=model._threads(),
        )
        ends = density.ascend(scaling.starts(starts), _STEPS, level=float(model.min_samples))
        return ends.unscaled(scaling, starts), ends.weight >= model.min_samples

    def _index(self, search: Search, ends: Floats) -> UniqueRowIndex:
        return UniqueRowIndex(np.ascontiguousarray(ends), search.eps, "euclidean", 2.0, search.threads)


def _moved(ends: Floats, starts: NDArray[Any]) -> Bools:
    moved: Bools = (ends != np.asarray(starts, dtype=np.float64)).any(axis=1)
    return moved


FORMULATIONS: dict[str, Formulation] = {"graph": Graph(), "spectral": Spectral(), "climbing": Climbing()}
