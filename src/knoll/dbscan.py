"""DBSCAN: clusters are the components of the graph "within ε" on the core points, |N_ε(x)| ≥ minPts (eq. 5.11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from knoll import _core
from knoll.base import Estimator, all_or_nothing, warn_caller
from knoll.exceptions import BadData, InvalidParameter, SuspiciousResultWarning
from knoll.schema import Array, Text, not_columns
from knoll.steps import climb
from knoll.steps import dbscan as steps
from knoll.steps import neighbourhoods as near
from knoll.steps.index import PlaceIndex
from knoll.steps.row_names import graph_name
from knoll.validation import N_JOBS, Choice, Instance, Number, check_points, check_weights

__all__ = ["DBSCAN", "DBSCANCost"]

# The names under which the core knows a metric; everything else is computed in blocks.
_FAST = {
    "euclidean": "euclidean",
    "l2": "euclidean",
    "manhattan": "manhattan",
    "cityblock": "manhattan",
    "l1": "manhattan",
    "chebyshev": "chebyshev",
    "minkowski": "minkowski",
    "cosine": "cosine",
    "haversine": "haversine",
}
_STEPS = 2**31 - 1  # a climb ends by itself: the sum of squares it raises is bounded, and the sets are finitely many
_LOOK = 512  # rows whose neighbourhoods are counted for an estimate of the cost
_FEW = 0.01  # of the rows: fewer core points than that are almost none
_WARNED_FROM = 20  # rows: on less data a red flag says nothing


@dataclass(frozen=True)
class DBSCANCost:
    """What a fit will take, before it is run."""

    formulation: str
    memory: int  # bytes beyond X
    neighbours: float  # mean |N_ε|, from a sample
    core_share: float  # share of core points in that sample
    pairs: float  # Σ|N_ε|: the links of the whole graph, none of which is stored by "graph"

    def __str__(self) -> str:
        return (
            f"{self.formulation}: about {self.memory / 2**20:.0f} MB beyond the data; a row has some "
            f"{self.neighbours:.3g} neighbours, {100 * self.core_share:.0f} % of the rows are core points."
        )


class DBSCAN(ClusterMixin, Estimator):
    """Density-based clusters, in the paper's three formulations, exact, in memory linear in the number of rows.

    A row is *core* when at least `min_samples` rows, itself included, lie within `eps` of it. Core points within `eps`
    of each other are in one cluster. A row that is not core but has a core point within `eps` is on the *border* of a
    cluster; any other is noise, label −1.

    Parameters
    ----------
    eps : float, default=0.5
        The radius ε; a distance equal to it is inside. `knoll.scales.estimate_eps` suggests one.
    min_samples : int, default=5
        How many rows, or how much weight, make a core point; 2·n_features is a common choice for larger data.
    metric : str or callable, default="euclidean"
        "euclidean" ("l2"), "manhattan" ("l1", "cityblock"), "chebyshev", "minkowski", "cosine" and "haversine"
        (radians) are fast; "precomputed" takes a matrix of distances, dense or sparse; any other metric of
        scikit-learn's `pairwise_distances` or a callable is computed in blocks, n² distances in linear memory.
    metric_params : dict, default=None
        Further arguments of the metric.
    algorithm, leaf_size
        Accepted for scikit-learn's sake; the index is chosen by shape and radius, and any gives the same labels.
    p : float, default=None
        The power of the Minkowski metric; None is 2.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The labels are the same for every number.
    formulation : {"graph", "spectral", "climbing"}, default="graph"
        "spectral" finds the same clusters from the eigenvectors of eigenvalue one, and refuses where float64 cannot
        decide. "climbing" is the paper's way to Mean Shift: every row climbs to the mean of its neighbours until it has
        `min_samples` of them. It is not the same algorithm (docs/theory/errata.md, item 4).
    border : {"closest", "first", "noise"}, default="closest"
        Whose cluster a border point takes: that of its closest core point, which no order of the rows changes; the
        first cluster's that reaches it, as in scikit-learn; or none (DBSCAN*).

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters, numbered by their first core row; −1 is noise.
    core_sample_indices_ : ndarray of shape (n_core_samples,)
        The core rows.
    components_ : ndarray of shape (n_core_samples, n_features)
        The core points.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X had some.

    See Also
    --------
    knoll.reference.dbscan_graph : the algorithm box, step by step.
    knoll.scales.estimate_eps : a radius from the data.

    References
    ----------
    Ester, Kriegel, Sander, Xu: A density-based algorithm for discovering clusters (KDD 1996). Campello, Moulavi,
    Sander: Density-based clustering based on hierarchical density estimates (2013), for DBSCAN*.

    Examples
    --------
    >>> from knoll import DBSCAN
    >>> X = [[0.0], [0.5], [1.0], [7.0], [7.5], [8.0], [50.0]]
    >>> DBSCAN(eps=1.0, min_samples=3).fit(X).labels_
    array([ 0,  0,  0,  1,  1,  1, -1])
    """

    _rules: ClassVar = {
        "eps": (Number(0, strict=True, remedy="knoll.scales.estimate_eps(X) suggests a value."),),
        "min_samples": (Number(1, whole=True, remedy="A row counts itself, so 1 makes every row a core point."),),
        "metric_params": (None, Instance((dict,), "a dict")),
        "algorithm": (Choice(("auto", "ball_tree", "kd_tree", "brute")),),
        "leaf_size": (Number(1, whole=True),),
        "p": (None, Number(0, strict=False)),
        "n_jobs": N_JOBS,
        "formulation": (Choice(("graph", "spectral", "climbing")),),
        "border": (Choice(("closest", "first", "noise")),),
    }
    _fitted: ClassVar = {
        "labels_": Array("n", "int64", low=-1, below="n", also=not_columns),
        "core_sample_indices_": Array("c", "int64", low=0, below="n", increasing=True),
        "components_": Array("c d", sparse=True),
        "other_points_": Array(
            "o d",
            sparse=True,
            when=lambda model: model.metric != "precomputed",
            also=lambda model, _: model._no_split(),
        ),
        "fit_weights_": Array("n", "float64", none=True, also=lambda model, weights: model._no_means(weights)),
        "graph_digest_": Text(),
        "climbed_": Array("n d", "float64", when=lambda model: model.formulation == "climbing", missing=True),
        "climbed_labels_": Array(
            "n", "int64", low=-1, below="n", when=lambda model: model.formulation == "climbing", missing=True
        ),
    }

    def __init__(
        self,
        eps: float = 0.5,
        *,
        min_samples: int = 5,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float | None = None,
        n_jobs: int | None = None,
        formulation: str = "graph",
        border: str = "closest",
    ) -> None:
        self.eps = eps
        self.min_samples = min_samples
        self.metric = metric
        self.metric_params = metric_params
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.p = p
        self.n_jobs = n_jobs
        self.formulation = formulation
        self.border = border

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.sparse = True
        return tags

    # ---- fitting ---------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
            The points, or their distances where metric="precomputed".
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of w counts as w rows. 0 is an absent row: it is labelled as `predict` would. Negative weights are
            legal, as in scikit-learn: they keep their neighbours from being core.

        Returns
        -------
        DBSCAN
            The fitted estimator.
        """
        points, weights = self._door(X, sample_weight)
        for name in ("climbed_", "climbed_labels_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        present = None if weights is None or weights.all() else weights != 0
        if present is None:
            clusters = self._cluster(points, weights)
        else:
            rows = np.flatnonzero(present)
            part = self._cluster(
                points[rows][:, rows] if self.metric == "precomputed" else points[rows],
                None if weights is None else weights[rows],
            )
            labels, core = np.full(len(present), -1, dtype=np.int64), np.zeros(len(present), dtype=np.bool_)
            labels[rows], core[rows] = part.labels, part.core
            clusters = steps.Clusters(labels, core, part.work)
        self.core_sample_indices_, self.components_, others = self._split(points, clusters.core, clusters.room)
        self.labels_ = clusters.labels
        self.other_points_ = None if self.metric == "precomputed" else others
        self.fit_weights_ = (
            None if weights is None else np.concatenate([weights[clusters.core], weights[~clusters.core]])
        )
        self.graph_digest_ = graph_name(points) if self.metric == "precomputed" else ""
        if self.formulation == "climbing":
            self.climbed_labels_ = self.labels_
        if present is not None:
            absent = np.flatnonzero(~present)
            if self.formulation == "climbing":
                ends = np.empty(points.shape)
                ends[present] = vars(self)["climbed_"]
                ends[absent], _ = self._climb(points[absent], points, weights)
                self.climbed_ = ends
                self.climbed_labels_ = np.where(present, self.labels_, -1)
            self.labels_[absent] = self._predict(points[absent])
        self._warn(clusters)
        return self

    def _split(
        self, points: Any, core: NDArray[np.bool_], room: steps.Room | None
    ) -> tuple[NDArray[np.intp], Any, Any]:
        """Return the numbers of the core points, copies of them, and of the other rows."""
        if not isinstance(points, np.ndarray):
            return np.flatnonzero(core), points[core], points[~core]
        n_core, d = int(np.count_nonzero(core)), points.shape[1]
        rows, cores = (room or steps.Room.of(n_core, d)).rows(n_core, d, points.dtype)
        others = np.empty((len(core) - n_core, d), dtype=points.dtype)
        _core.split_rows(points, core, rows, cores, others, self._threads())
        return rows.astype(np.intp, copy=False), cores, others

    def fit_predict(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[np.int64]:
        """Find the clusters of X and return `labels_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
            As in `fit`.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels; −1 is noise.
        """
        return np.asarray(self.fit(X, sample_weight=sample_weight).labels_)

    def _door(self, X: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, NDArray[np.float64] | None]:
        """Check the parameters and the data, once."""
        self._check_parameters()
        if self.p is not None and "p" in (self.metric_params or {}):
            warn_caller(
                "Parameter p is found in metric_params. The corresponding parameter from __init__ is ignored.",
                SyntaxWarning,
            )
        points = check_points(X, estimator=self, sparse=True, n_jobs=self._threads())
        return points, self._check_data(points, sample_weight)

    def _check_data(self, points: Any, sample_weight: ArrayLike | None) -> NDArray[np.float64] | None:
        self._check_distances(points, points.shape[0])
        weights = check_weights(sample_weight, points.shape[0], owner="DBSCAN", negative=True)
        if self.formulation == "climbing" and scipy.sparse.issparse(points):
            raise BadData("DBSCAN: formulation='climbing' takes dense rows. Use X.toarray(), or formulation='graph'.")
        if weights is not None and self.formulation == "climbing" and (weights < 0).any():
            raise BadData("DBSCAN: formulation='climbing' takes means, so sample_weight must be >= 0.")
        return weights

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.metric, str) and not callable(self.metric):
            raise InvalidParameter(f"DBSCAN: metric must be a name or a callable, got {self.metric!r}.")
        if self.formulation == "climbing" and self._fast() != "euclidean":
            raise InvalidParameter(
                f"DBSCAN: formulation='climbing' takes means of points, so metric must be 'euclidean', "
                f"got {self.metric!r}. Use formulation='graph'."
            )
        if self.formulation == "spectral" and self._fast() != "euclidean" and self.metric != "precomputed":
            raise InvalidParameter(
                f"DBSCAN: formulation='spectral' takes metric 'euclidean' or 'precomputed', got {self.metric!r}. "
                "Pass the matrix of distances with metric='precomputed', or use formulation='graph'."
            )
        if self.metric == "minkowski" and self._power() < 1:
            raise InvalidParameter(f"DBSCAN: p must be >= 1 for a metric, got {self._power()!r}.")

    def _check_distances(self, points: Any, n: int) -> None:
        if self.metric != "precomputed":
            if self._fast() == "haversine" and points.shape[1] != 2:
                raise BadData(
                    f"DBSCAN: metric='haversine' takes two columns, latitude and longitude in radians; "
                    f"X has {points.shape[1]}."
                )
            return
        if points.shape[1] != n:
            raise BadData(
                f"DBSCAN: precomputed distances must be to each of the {n} rows of the fit, "
                f"got {points.shape[1]} columns."
            )
        values: NDArray[Any] = points if isinstance(points, np.ndarray) else points.data
        if values.size and values.min() < 0:
            raise BadData(f"DBSCAN: precomputed distances must be >= 0, got {values.min()!r}.")

    def _power(self) -> float:
        given = (self.metric_params or {}).get("p", self.p)
        return 2.0 if given is None else float(given)

    def _fast(self) -> str | None:
        """Name the metric for the core; None where it must be computed in blocks."""
        name = _FAST.get(self.metric) if isinstance(self.metric, str) else None
        if name == "minkowski":
            if (self.metric_params or {}).keys() - {"p"}:
                return None
            plain = {1.0: "manhattan", 2.0: "euclidean", np.inf: "chebyshev"}
            return plain.get(self._power(), "minkowski")
        return None if self.metric_params else name

    # ---- the formulations ------------------------------------------------------------------------------------------

    def _cluster(self, points: Any, weights: NDArray[np.float64] | None) -> steps.Clusters:
        match self.formulation:
            case "climbing":
                return self._climbing(points, weights)
            case "spectral":
                return self._spectral(points, weights)
        fast = self._fast()
        if fast is not None and not scipy.sparse.issparse(points):
            return steps.graph(
                points,
                float(self.eps),
                self.min_samples,
                weights,
                metric=fast,
                p=self._power(),
                border=self.border,
                threads=self._threads(),
            )
        return steps.from_neighbourhoods(
            self._neighbourhoods(points, points), self.min_samples, weights, self.border, self._rank(points)
        )

    def _neighbourhoods(self, queries: Any, points: Any) -> steps.Neighbourhoods:
        """Neighbours of queries among points, by blocks; a graph is of the rows among themselves if both are one."""
        sparse = scipy.sparse.issparse(queries)
        eps = float(self.eps)
        if self.metric == "precomputed":
            own = queries is points
            return near.of_graph(queries, eps, own=own) if sparse else near.of_matrix(queries, eps)
        if sparse and self._fast() == "euclidean":
            return near.of_sparse_features(queries, points, eps)
        options = dict(self.metric_params or {})
        if self.metric == "minkowski":
            options["p"] = self._power()
        return near.by_metric(queries, points, eps, self.metric, options)

    def _rank(self, points: Any) -> steps.Rank:
        """Order rows by their coordinates, for ties between core points; by number where there are none."""

        def rank(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            if self.metric == "precomputed":
                return rows
            some, place = np.unique(rows, return_inverse=True)
            coordinates = points[some] if isinstance(points, np.ndarray) else points[some].toarray()
            order = np.empty(len(some), dtype=np.int64)
            order[np.lexsort(coordinates.T[::-1])] = np.arange(len(some))
            return np.asarray(order[place])

        return rank

    def _spectral(self, points: Any, weights: NDArray[np.float64] | None) -> steps.Clusters:
        """Core points by their degree, clusters by eigenvectors, borders as ever."""
        core = self._reached(points, points, weights)
        rows = np.flatnonzero(core)
        steps.need_room(len(rows))
        labels = np.full(points.shape[0], -1, dtype=np.int64)
        labels[rows] = steps.number(steps.spectral(self._links(points, rows)), np.ones(len(rows), dtype=np.bool_))
        others = np.flatnonzero(~core)
        if self.border != "noise" and len(others) and len(rows):
            labels[others] = self._attach(self._across(points, others, rows), self._among(points, rows), labels[rows])
        return steps.Clusters(labels, core, {"backend": "eigenvectors", "pairs": len(rows) ** 2})

    def _links(self, points: Any, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """The graph of the core points as a matrix, with its diagonal."""
        if self.metric != "precomputed" and not scipy.sparse.issparse(points):
            scaling = climb.Scaling.of(points, float(self.eps), "DBSCAN")
            some = scaling.down(points[rows])
            distances = np.empty((len(rows), len(rows)))
            if len(rows):
                _core.center_distances(some, some, distances, self._threads())
            return np.asarray(distances <= scaling.radius(float(self.eps)))
        among = self._among(points, rows)
        links = np.zeros((len(rows), len(rows)), dtype=np.bool_)
        for block in self._neighbourhoods(among, among):
            links[block.begin + block.of, block.neighbours] = True
        return links | links.T

    def _climbing(self, points: NDArray[Any], weights: NDArray[np.float64] | None) -> steps.Clusters:
        """Every row climbs until the level; ends that reached it are joined (docs/theory/errata.md, items 5, 6)."""
        ends, there = self._climb(points, points, weights)
        labels = np.full(len(points), -1, dtype=np.int64)
        if there.any():
            arrived = np.ascontiguousarray(ends[there])
            labels[there] = self._index(arrived).components()
        moved = (ends != np.asarray(points, dtype=np.float64)).any(axis=1)
        self.climbed_ = ends
        return steps.Clusters(labels, there & ~moved, {"backend": "climb"})

    def _climb(
        self, starts: NDArray[Any], points: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Let points climb until min_samples rows of the data are within ε: where they end, and who got there."""
        scaling = climb.Scaling.of(points, float(self.eps), "DBSCAN")
        present = slice(None) if weights is None else weights > 0
        hill = climb.Hill(
            scaling.down(points[present]),
            None if weights is None else weights[present],
            scaling.radius(float(self.eps)),
            threads=self._threads(),
        )
        ends = hill.climb(scaling.starts(starts), _STEPS, level=float(self.min_samples))
        return scaling.ends(ends, starts), ends.weight >= self.min_samples

    # ---- parts of the graph ----------------------------------------------------------------------------------------

    def _index(self, points: NDArray[Any]) -> PlaceIndex:
        return PlaceIndex(points, float(self.eps), self._fast() or "euclidean", self._power(), self._threads())

    def _among(self, points: Any, rows: NDArray[np.intp]) -> Any:
        """The points of some rows; where distances are given, those among them."""
        return points[rows][:, rows] if self.metric == "precomputed" else points[rows]

    def _across(self, points: Any, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Any:
        return points[rows][:, columns] if self.metric == "precomputed" else points[rows]

    def _reached(self, queries: Any, points: Any, weights: NDArray[np.float64] | None) -> NDArray[np.bool_]:
        """Tell which queries have min_samples points within ε."""
        if self._fast() is not None and not scipy.sparse.issparse(points):
            counts = self._index(points).count(queries, float(self.min_samples), weights)
            return np.asarray(counts >= self.min_samples)
        enough = np.empty(queries.shape[0], dtype=np.bool_)
        for rows in self._neighbourhoods(queries, points):
            here = slice(rows.begin, rows.begin + len(rows.starts) - 1)
            enough[here] = steps.reached(rows, self.min_samples, weights)
        return enough

    def _attach(self, queries: Any, core_points: Any, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give each query the cluster of a core point within ε: the closest, or the first cluster's; −1: none."""
        given = np.full(queries.shape[0], -1, dtype=np.int64)
        if self._fast() is None or scipy.sparse.issparse(queries) or scipy.sparse.issparse(core_points):
            every = np.ones(len(labels), dtype=np.bool_)
            border = "first" if self.border == "first" else "closest"
            blocks = self._neighbourhoods(queries, core_points)
            for rows in blocks:
                here = slice(rows.begin, rows.begin + len(rows.starts) - 1)
                given[here] = steps.attach(rows, every, labels, border, self._rank(core_points), blocks.exact)
            return given
        if self.border == "first":  # the lowest row, of rows in the order of their clusters
            order = np.argsort(labels, kind="stable")
            found = self._index(core_points[order]).first(queries)
            return np.where(found >= 0, labels[order][found], -1)
        found, _ = self._index(core_points).nearest(queries)
        return np.where(found >= 0, labels[found], -1)

    # ---- what is known of other points -----------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Label points: the cluster of a core point within ε, by the rule of `border`; −1 where there is none.

        The points are not added to the counts of the fit; `predict(X)` of the fitted X is `labels_`. With
        formulation="climbing" a point climbs in the fitted data, and takes the cluster of the closest end of a row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples) distances
            The points, or their distances to the rows of the fit where metric="precomputed".

        Returns
        -------
        ndarray of shape (n_queries,)
            The labels.
        """
        return self._predict(self._queries(X))

    def predict_kind(self, X: ArrayLike) -> NDArray[np.str_]:
        """Tell what points are among the fitted data: "core", "border" or "noise".

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples) distances
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_queries,) of str
            "core": at least min_samples rows of the fit lie within ε (the point itself is not counted among them);
            "border": fewer, but a core point does; "noise": neither.
        """
        queries = self._queries(X)
        if self._is_fitted_graph(queries):
            core = np.isin(np.arange(len(self.labels_)), self.core_sample_indices_)
            reached = core if self.border == "noise" else self.labels_ >= 0
            return np.where(core, "core", np.where(reached, "border", "noise"))
        if self.formulation == "climbing":
            ends, there = self._climb(queries, self._fitted_points(), self.fit_weights_)
            moved = (ends != np.asarray(queries, dtype=np.float64)).any(axis=1)
            return np.where(there, np.where(moved, "border", "core"), "noise")
        core = self._reached_among_fitted(queries)
        return np.where(core, "core", np.where(self._closest(queries) >= 0, "border", "noise"))

    def _queries(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        queries = check_points(X, estimator=self, reset=False, sparse=True, n_jobs=self._threads())
        self._check_distances(queries, len(self.labels_))
        if self.metric == "precomputed" or scipy.sparse.issparse(queries) == scipy.sparse.issparse(self.components_):
            return queries
        return scipy.sparse.csr_array(queries) if isinstance(queries, np.ndarray) else queries.toarray()

    def _no_means(self, weights: NDArray[np.float64]) -> str:
        """Tell where a climb finds no means under these weights."""
        wrong = self.formulation == "climbing" and (weights.min() < 0 or weights.max() <= 0)
        return "must be >= 0, and one > 0, with formulation='climbing'" if wrong else ""

    def _no_split(self) -> str:
        """Tell what keeps `components_` and `other_points_` from being the rows of the fit."""
        cores: Any = self.components_
        others: Any = self.other_points_
        if type(cores) is not type(others) or cores.dtype != others.dtype:
            return "is another type of array than components_"
        if cores.shape[0] + others.shape[0] != len(self.labels_):
            return f"and components_ have {cores.shape[0] + others.shape[0]} rows, and there are {len(self.labels_)}"
        return ""

    def _fitted_points(self) -> Any:
        """Return the rows of the fit, core points first: the order of `fit_weights_`."""
        if self.metric == "precomputed":
            return None
        parts = [self.components_, self.other_points_]
        return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else scipy.sparse.vstack(parts, format="csr")

    def _predict(self, queries: Any) -> NDArray[np.int64]:
        if self.formulation == "climbing":
            return self._climbed_labels(queries)
        if self._is_fitted_graph(queries):
            return self.labels_.copy()
        labels = self._closest(queries)
        if self.border == "noise":
            labels[~self._reached_among_fitted(queries)] = -1
        return labels

    def _is_fitted_graph(self, queries: Any) -> bool:
        """Tell whether this is the sparse graph of the fit, in which a row is its own neighbour, stored or not."""
        return self.metric == "precomputed" and self.graph_digest_ != "" and graph_name(queries) == self.graph_digest_

    def _reached_among_fitted(self, queries: Any) -> NDArray[np.bool_]:
        if self.metric != "precomputed":
            return self._reached(queries, self._fitted_points(), self.fit_weights_)
        weights = None
        if self.fit_weights_ is not None:  # columns stand in the order of the fitted rows
            core = np.isin(np.arange(len(self.labels_)), self.core_sample_indices_)
            weights = np.empty(len(core))
            weights[np.concatenate([np.flatnonzero(core), np.flatnonzero(~core)])] = self.fit_weights_
        return self._reached(queries, queries[:0], weights)

    def _closest(self, queries: Any) -> NDArray[np.int64]:
        rows = self.core_sample_indices_
        if not len(rows):
            return np.full(queries.shape[0], -1, dtype=np.int64)
        if self.metric == "precomputed":
            return self._attach(queries[:, rows], self.components_[:, rows], self.labels_[rows])
        return self._attach(queries, self.components_, self.labels_[rows])

    def _climbed_labels(self, queries: NDArray[Any]) -> NDArray[np.int64]:
        labels = np.full(len(queries), -1, dtype=np.int64)
        ends, there = self._climb(queries, self._fitted_points(), self.fit_weights_)
        arrived = self.climbed_labels_ >= 0
        if there.any() and arrived.any():
            found, _ = self._index(np.ascontiguousarray(self.climbed_[arrived])).nearest(ends[there])
            labels[there] = np.where(found >= 0, self.climbed_labels_[arrived][found], -1)
        return labels

    # ---- before and after a fit ------------------------------------------------------------------------------------

    def estimate_cost(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> DBSCANCost:
        """Say what a fit would take, from the shape of the data and the neighbourhoods of some rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
            The points.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights.

        Returns
        -------
        DBSCANCost
            Memory beyond X, neighbours a row, share of core points, links of the graph.
        """
        self._check_parameters()
        points = check_points(X, sparse=True, n_jobs=self._threads())
        weights = self._check_data(points, sample_weight)
        n = points.shape[0]
        looked = np.unique(np.linspace(0, n - 1, min(n, _LOOK)).astype(np.intp))
        sample = points[looked]
        if self._fast() is not None and not scipy.sparse.issparse(points):
            counts = self._index(points).count(sample, np.inf, None)
        else:
            parts = [np.diff(rows.starts) for rows in self._neighbourhoods(sample, points)]
            counts = np.concatenate(parts).astype(np.float64)
            if self.metric == "precomputed" and scipy.sparse.issparse(points):
                counts += points.diagonal()[looked] == 0  # a row is its own neighbour, stored or not
        if self.metric == "precomputed" and scipy.sparse.issparse(points) and weights is None:
            share = float((counts >= self.min_samples).mean())
        else:
            share = float(self._reached(sample, points, weights).mean())
        per_row = 88  # cells and their order, labels, marks, the union-find: what the core keeps for a row
        memory = per_row * n + 2**20
        if self.formulation == "spectral":
            memory += int(5 * 8 * (share * n) ** 2)
        elif self.formulation == "climbing":
            memory += 8 * (4 * points.shape[1] + 6) * n
        elif self._fast() is None or scipy.sparse.issparse(points):
            memory += 2**27
        return DBSCANCost(self.formulation, memory, float(counts.mean()), share, float(counts.mean()) * n)

    def _warn(self, clusters: steps.Clusters) -> None:
        """Raise a red flag where the answer is defined but hardly what was wanted."""
        n, n_core = len(clusters.labels), len(self.core_sample_indices_)
        found = int(clusters.labels.max(initial=-1)) + 1  # they are numbered from 0
        if self._fast() == "euclidean" and isinstance(self.components_, np.ndarray):
            suggestion = f"knoll.scales.estimate_eps(X, {self.min_samples}) suggests an eps."
        else:
            suggestion = f"sorted distances to the {self.min_samples}th neighbour show where to look."
        if n < _WARNED_FROM:
            return
        if found == 0:
            text = (
                f"all {n} points are noise: no row has min_samples={self.min_samples} rows within eps={self.eps:g}. "
                f"Take a larger eps or a smaller min_samples; {suggestion}"
            )
        elif found == 1 and clusters.labels.min() == 0:
            text = (
                f"all {n} points are in one cluster. If you expected more, eps={self.eps:g} is too large; {suggestion}"
            )
        elif n_core < _FEW * n and self.formulation != "climbing":
            text = (
                f"only {n_core} of {n} points are core points. eps={self.eps:g} is too small for "
                f"min_samples={self.min_samples}; {suggestion}"
            )
        else:
            return
        warn_caller(f"DBSCAN: {text}", SuspiciousResultWarning)
