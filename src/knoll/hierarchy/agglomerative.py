"""Agglomerative clustering: merge the two closest clusters until so many are left (docs/theory/07-hierarchies.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_memory

from knoll._common.cost import Cost, Seconds
from knoll._schema import Array, Whole
from knoll._typing import Floats
from knoll.base import FitPredictMixin, all_or_nothing
from knoll.exceptions import BadData, InvalidParameter
from knoll.hierarchy.connectivity import graph_tree_of, symmetric_graph
from knoll.hierarchy.linkages import matrix_bytes, tree_of
from knoll.hierarchy.merges import MergeTree, cut
from knoll.neighbors.gower import GOWER_COLUMNS, ReadsGower, read_gower
from knoll.validation import N_JOBS, Choice, Flag, Instance, Number, check_points, check_weights, refuse_masked

_PER_ROW = 200  # bytes that the core keeps for a row beside two copies of it


class AgglomerativeClustering(FitPredictMixin, ClusterMixin, ReadsGower):
    """Hierarchical clustering from below: the two clusters of least cost merge, again and again.

    The cost of a pair of clusters A, B is the rise of the sum of squares |A||B|/(|A|+|B|)·‖μ_A − μ_B‖² (`"ward"`), the
    mean (`"average"`), the largest (`"complete"`) or the smallest distance (`"single"`) of their rows. Ward's tree and
    single linkage take memory linear in the rows; average and complete linkage store n²/2 distances.

    Parameters
    ----------
    n_clusters : int or None, default=2
        The number of clusters; None with a `distance_threshold`.
    metric : str or callable, default="euclidean"
        "euclidean" ("l2"), "manhattan" ("l1", "cityblock"), "chebyshev", "cosine", "haversine" (latitude and longitude
        in radians) and "gower" are computed by the core, and "minkowski" as "euclidean"; any other metric of
        scikit-learn's `pairwise_distances` by blocks. "precomputed" takes a matrix of distances, of which the upper
        triangle counts. A callable gets X and returns such a matrix; with a `connectivity` it gets two rows and returns
        their distance. "gower" takes tables of numbers and categories with missing values, without a connectivity. Ward
        takes "euclidean" only.
    memory : str or object with the joblib.Memory interface, default=None
        Where to cache the tree, so that another number of clusters costs a cut only.
    connectivity : array-like, sparse matrix, or callable, default=None
        A graph (n_samples, n_samples) of the rows that may merge, or a function of X that returns one. A merged cluster
        has the neighbours of both its children. The closest rows of different components are linked, with a warning.
    compute_full_tree : "auto" or bool, default="auto"
        Whether to go on after `n_clusters` are left. Without a connectivity the tree is always whole.
    linkage : {"ward", "complete", "average", "single"}, default="ward"
        The cost of a pair of clusters.
    distance_threshold : float or None, default=None
        Merges at this height or above are not made; then `n_clusters` must be None.
    compute_distances : bool, default=False
        Whether to set `distances_` without a `distance_threshold`, too.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The tree is the same for every number.
    metric_params : dict, default=None
        Further arguments of "gower", as in `DBSCAN`.

    Attributes
    ----------
    n_clusters_ : int
        The number of clusters.
    labels_ : ndarray of shape (n_samples,)
        Clusters, numbered by their first row; −1 for rows of weight 0.
    n_leaves_ : int
        The number of rows in the tree.
    n_connected_components_ : int
        Components of the connectivity before it was completed; 1 without one.
    children_ : ndarray of shape (n_merges, 2)
        The two clusters of each merge: i < n_samples is row i, n_samples + t the result of merge t.
    distances_ : ndarray of shape (n_merges,)
        The height of each merge: √(2ΔJ) for Ward, which is the distance of two rows, else the cost itself.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has any.

    Notes
    -----
    Equal rows merge first, at height 0. Of equal costs the pair whose clusters come first merges: rows in the
    lexicographic order of their coordinates, then merged clusters in the order of their heights. So neither the order
    of the rows nor the number of threads changes a partition, however many costs are equal; only which of several
    *equal* rows is named in `children_` depends on their order. Distances without coordinates, "precomputed" or of a
    callable, leave ties to the order of the rows; so do equal rows under a `connectivity`.

    All pairs of clusters that are each other's nearest merge in one round. That gives the tree of merging one pair at
    a time, because the cost of a merged cluster to a third one is never below the lesser of its children's. Ward's
    searches go through a kd-tree of the means.

    Rows that single linkage joins at one height join at once; an `n_clusters` that divides such a tie takes them in the
    order of the density tree, where two rows may come together before the row that links them. A `distance_threshold`
    never divides a tie.

    References
    ----------
    Ward: Hierarchical grouping to optimize an objective function (JASA 1963). Murtagh: A survey of recent advances in
    hierarchical clustering algorithms (1983), for reciprocal nearest neighbours.

    Examples
    --------
    >>> from knoll import AgglomerativeClustering
    >>> X = [[0.0], [1.0], [5.0], [7.0], [30.0]]
    >>> AgglomerativeClustering(3).fit(X).labels_
    array([0, 0, 1, 1, 2])
    >>> model = AgglomerativeClustering(None, distance_threshold=10.0, linkage="average").fit(X)
    >>> model.n_clusters_, model.distances_.tolist()
    (2, [1.0, 2.0, 5.5, 26.75])
    """

    _rules: ClassVar = {
        "n_clusters": (None, Number(1, whole=True)),
        "compute_full_tree": (Flag(), Choice(("auto",))),
        "linkage": (Choice(("ward", "complete", "average", "single")),),
        "distance_threshold": (None, Number(0)),
        "compute_distances": (Flag(),),
        "n_jobs": N_JOBS,
        "metric_params": (None, Instance((dict,), "a dict")),
    }
    _fitted: ClassVar = {
        "n_clusters_": Whole(1),
        "labels_": Array("n", "int64", low=-1, below="n"),
        "n_leaves_": Whole(1),
        "n_connected_components_": Whole(1),
        "children_": Array("m 2", "int64", low=0, also=lambda model, children: _children_fault(model, children)),
        "distances_": Array("m", "float64", low=0, finite=False, missing=True),
    }

    def __init__(
        self,
        n_clusters: int | None = 2,
        *,
        metric: str | Callable[..., Any] = "euclidean",
        memory: Any = None,
        connectivity: Any = None,
        compute_full_tree: bool | str = "auto",
        linkage: str = "ward",
        distance_threshold: float | None = None,
        compute_distances: bool = False,
        n_jobs: int | None = None,
        metric_params: dict[str, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.memory = memory
        self.connectivity = connectivity
        self.compute_full_tree = compute_full_tree
        self.linkage = linkage
        self.distance_threshold = distance_threshold
        self.compute_distances = compute_distances
        self.n_jobs = n_jobs
        self.metric_params = metric_params

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._pairwise()
        return tags

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Build the tree of X and cut it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_samples) distances
            The points, or their distances where metric="precomputed".
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of w counts as w rows. 0 is an absent row: it is in no cluster, and its label is −1.

        Returns
        -------
        AgglomerativeClustering
            The fitted estimator.
        """
        self._check_parameters()
        points, params = self._rows(X, sample_weight)
        weights = check_weights(sample_weight, points.shape[0], owner="AgglomerativeClustering")
        rows = np.arange(len(points)) if weights is None else np.flatnonzero(weights)
        graph = self._graph(points)
        self._check_data(points, len(rows))
        if len(rows) < len(points):
            assert weights is not None
            graph = None if graph is None else graph[rows][:, rows]
            columns = rows if self._pairwise() else slice(None)
            tree, components = self._tree(points[rows][:, columns], weights[rows], graph, params)
            tree = tree.of_rows(rows, len(points))
        else:
            tree, components = self._tree(points, weights, graph, params)
        self.children_, self.n_leaves_, self.n_connected_components_ = tree.children, len(rows), components
        self.__dict__.pop("distances_", None)  # of an earlier fit
        if self.distance_threshold is not None or self.compute_distances:
            self.distances_ = tree.heights
        self.n_clusters_ = self._count(tree)
        self.labels_ = cut(tree.children, len(points), len(rows) - self.n_clusters_)
        if len(rows) < len(points):
            absent = np.ones(len(points), dtype=bool)
            absent[rows] = False
            _, self.labels_[rows] = np.unique(self.labels_[rows], return_inverse=True)
            self.labels_[absent] = -1
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if (self.n_clusters is None) == (self.distance_threshold is None):
            raise InvalidParameter(
                "AgglomerativeClustering: Exactly one of n_clusters and distance_threshold has to be set, and the "
                f"other needs to be None; got n_clusters={self.n_clusters!r} and "
                f"distance_threshold={self.distance_threshold!r}."
            )
        if self.distance_threshold is not None and not self.compute_full_tree:
            raise InvalidParameter(
                "AgglomerativeClustering: compute_full_tree must be True if distance_threshold is set."
            )
        if not isinstance(self.metric, str) and not callable(self.metric):
            raise InvalidParameter(
                f"AgglomerativeClustering: metric must be a name or a callable, got {self.metric!r}."
            )
        if self.metric_params and not self._is_gower():
            raise InvalidParameter(
                "AgglomerativeClustering: metric_params are those of metric='gower', and the metric is "
                f"{self.metric!r}. Set metric_params=None."
            )
        if self._is_gower() and self.connectivity is not None:
            raise InvalidParameter(
                "AgglomerativeClustering: connectivity and metric='gower' do not go together. Give the matrix "
                "knoll.neighbors.gower_distances(X) with metric='precomputed'."
            )
        if self.linkage == "ward" and self.metric not in ("euclidean", "l2"):
            raise InvalidParameter(
                f"AgglomerativeClustering: {self.metric!r} was provided as metric. Ward can only work with euclidean "
                "distances. Take metric='euclidean', or linkage='average'."
            )

    def _pairwise(self) -> bool:
        """Return whether X is a matrix of distances."""
        return bool(self.metric == "precomputed")

    def _rows(self, X: ArrayLike, sample_weight: ArrayLike | None) -> tuple[NDArray[Any], dict[str, Any] | None]:
        """Return the rows, and the parameters of their metric."""
        if not self._is_gower():
            return check_points(X, estimator=self, n_jobs=self._threads()), None
        points, columns = read_gower(X, self.metric_params, estimator=self, sample_weight=sample_weight)
        return points, {GOWER_COLUMNS: columns["weights"]}

    def _graph(self, points: NDArray[Any]) -> Any:
        """Return the symmetric graph of rows that may merge; None: all may."""
        if self.connectivity is None:
            return None
        made = self.connectivity(points) if callable(self.connectivity) else self.connectivity
        refuse_masked(made, "connectivity")
        try:
            made = check_array(made, accept_sparse=["csr", "coo", "lil"], input_name="connectivity")
        except ValueError as error:
            raise BadData(f"AgglomerativeClustering: {error}") from None
        return symmetric_graph(made, len(points))

    def _check_data(self, points: NDArray[Any], n: int) -> None:
        if self.n_clusters is not None and self.n_clusters > n:
            raise BadData(
                f"AgglomerativeClustering: Cannot extract more clusters than samples: n_clusters={self.n_clusters} "
                f"for n_samples={n}. Take a smaller n_clusters."
            )
        if self._pairwise() and points.shape[0] != points.shape[1]:
            raise BadData(
                f"AgglomerativeClustering: Distance matrix should be square, got matrix of shape {points.shape}."
            )
        if self._pairwise() and points.min() < 0:
            raise BadData(f"AgglomerativeClustering: precomputed distances must be >= 0, got {points.min()!r}.")
        if self.metric == "cosine" and not points.any(axis=1).all():
            raise BadData(
                "AgglomerativeClustering: Cosine affinity cannot be used when X contains zero vectors, got one at row "
                f"{int(np.argmin(points.any(axis=1)))}. Drop such rows first."
            )

    def _tree(
        self, points: NDArray[Any], weights: Floats | None, graph: Any, params: dict[str, Any] | None
    ) -> tuple[MergeTree, int]:
        """Build the tree, or take it from the cache."""
        cache = check_memory(self.memory).cache
        if graph is None:
            build = cache(tree_of, ignore=["threads"])
            return build(points, weights, self.linkage, self.metric, self._threads(), params), 1
        build = cache(graph_tree_of, ignore=["threads"])
        n = len(points)
        most = n - 1 if self._is_full(n) else n - int(self.n_clusters or 1)
        tree, components = build(points, weights, graph, self.linkage, self.metric, most, self._threads())
        return tree, components

    def _is_full(self, n: int) -> bool:
        """Return whether the merges go on to one cluster: stopping early pays where many clusters are left.

        Single linkage always does, as in scikit-learn.
        """
        if self.linkage == "single":
            return True
        if self.compute_full_tree != "auto" or self.n_clusters is None:
            return bool(self.compute_full_tree)
        return bool(self.n_clusters < max(100, 0.02 * n))

    def _count(self, tree: MergeTree) -> int:
        if self.distance_threshold is None:
            return int(self.n_clusters or 1)
        return int(np.count_nonzero(tree.heights >= self.distance_threshold)) + 1

    def _cost(self, n: int, d: int) -> Cost:
        """Estimate memory and pairs: all of them where they are stored."""
        if self.linkage in ("average", "complete") and self.connectivity is None:
            seconds = 4e-9 * n * n * (1 + d / 16)
            remedy = "linkage='ward' or 'single', which need memory linear in the rows"
            memory = matrix_bytes(n) + (16 * d + 64) * n + (1 << 21)
            return Cost("matrix", memory, n * n / 2, Seconds(seconds, seconds / 8, 8 * seconds + 0.2), remedy)
        seconds = 3e-6 * n * (1 + d)
        memory = n * (40 * d + _PER_ROW) + (1 << 21)
        remedy = "fewer rows or columns"
        return Cost(
            "tree", memory, 100.0 * n, Seconds(seconds, seconds / 8, 1e-9 * n * n * d + 8 * seconds + 0.2), remedy
        )


def _children_fault(model: Any, children: Any) -> str:
    n = len(model.labels_)
    if len(children) and children.max() >= n + len(children):
        return f"has a cluster above {n + len(children) - 1}"
    return ""
