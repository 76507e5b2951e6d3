"""HDBSCAN: the most stable clusters of the density tree, which no order of the rows changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self, overload

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import ClusterMixin
from sklearn.neighbors import BallTree, KDTree
from sklearn.utils.validation import check_is_fitted

from knoll._common.sparse import is_sparse
from knoll._schema import Array, Real, Record
from knoll._typing import Floats, Ints
from knoll.base import FitPredictMixin, all_or_nothing
from knoll.density.condensed import CondensedTree, Selection, SelectionRule
from knoll.density.membership import memberships
from knoll.density.noise import fill_noise, nearest_labels
from knoll.density.numbering import selected
from knoll.density.tree import DensityTree
from knoll.engines import lazily
from knoll.exceptions import InvalidParameter
from knoll.neighbors.distances import metric_distances
from knoll.validation import N_JOBS, Choice, Flag, Instance, Number, check_parameters

__all__ = ["HDBSCAN"]

_BLOCK = 2**22  # distances in a block
_TREES = {"kd_tree": ("KDTree", KDTree), "ball_tree": ("BallTree", BallTree)}


class HDBSCAN(FitPredictMixin, ClusterMixin, DensityTree):
    """Density-based clusters of any density: those of the density tree that stay longest.

    The tree of `DensityTree` is condensed to clusters of at least `min_cluster_size` rows, and of these the ones of the
    largest total stability are taken. Rows in none of them are noise, label −1. scikit-learn and the hdbscan package
    condense a binary tree, in which the order of the rows decides which of three clusters that merge at one height are
    joined first. Here all of them merge at once, so the labels are the same for any order of the rows.

    Parameters
    ----------
    min_cluster_size : float, default=5
        The least number of rows, or weight, of a cluster.
    min_samples : int, default=None
        How many rows, or how much weight, make a core point; a row counts itself. None is `min_cluster_size`.
    cluster_selection_epsilon : float, default=0.0
        Clusters that separate below this distance are merged.
    max_cluster_size : float, default=None
        The largest number of rows, or weight, of a cluster with cluster_selection_method="eom"; None: no limit.
    metric : str or callable, default="euclidean"
        As in `DensityTree`.
    metric_params : dict, default=None
        Further arguments of the metric; the power `p` of "minkowski".
    alpha : float, default=1.0
        Distances, but not core distances, are divided by it.
    algorithm, leaf_size, copy
        Accepted as in scikit-learn. The index is chosen by shape; the labels do not depend on it. X is never changed.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The labels are the same for every number.
    cluster_selection_method : {"eom", "leaf"}, default="eom"
        "eom" takes the clusters of the largest total stability (excess of mass), "leaf" the smallest clusters.
    allow_single_cluster : bool, default=False
        Whether all rows may be one cluster.
    store_centers : {"centroid", "medoid", "both"}, default=None
        Which centers to compute.
    n_clusters : int, default=None
        Take exactly so many clusters: those of the largest total stability. Then cluster_selection_method and
        cluster_selection_epsilon are not used.
    noise : {"keep", "nearest"}, default="keep"
        Whether rows in no cluster stay noise, or have the label of the nearest row that is in one.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters, numbered by weight, the largest first, and of equal weights by their smallest coordinates; −1 is
        noise. No order of the rows changes a label.
    probabilities_ : ndarray of shape (n_samples,)
        How long a row stays in its cluster, from 0 to 1; 0 for rows that the tree leaves in none.
    centroids_, medoids_ : ndarray of shape (n_clusters, n_features)
        Means of the clusters weighted by probability, and rows of the least weighted distance; None unless
        `store_centers` requests them.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has any.

    See Also
    --------
    DensityTree : the tree alone, with DBSCAN for every ε.
    knoll.reference.hdbscan : the algorithm, step by step.

    Notes
    -----
    Rows with NaN or infinite entries are refused, as everywhere in knoll; scikit-learn labels them −3 and −2. Equal
    rows merge at height 0, whose level λ = 1/h is taken at the least positive height.

    References
    ----------
    Campello, Moulavi, Sander: Density-based clustering based on hierarchical density estimates (PAKDD 2013). Campello,
    Moulavi, Zimek, Sander: Hierarchical density estimates for data clustering, visualization, and outlier detection
    (TKDD 2015).

    Examples
    --------
    >>> from knoll import HDBSCAN
    >>> X = [[0.0], [0.5], [1.0], [7.0], [7.5], [8.0], [50.0]]
    >>> model = HDBSCAN(min_cluster_size=3, min_samples=2).fit(X)
    >>> model.labels_
    array([ 0,  0,  0,  1,  1,  1, -1])
    >>> model.predict([[0.7], [30.0]])
    array([ 0, -1])
    """

    _rules: ClassVar = {
        "min_cluster_size": (Number(2, remedy="A cluster has at least two rows."),),
        "min_samples": (None, Number(1, whole=True, remedy="A row counts itself, so 1 is single linkage.")),
        "cluster_selection_epsilon": (Number(0),),
        "max_cluster_size": (None, Number(1)),
        "metric_params": (None, Instance((dict,), "a dict")),
        "alpha": (Number(0, strict=True),),
        "algorithm": (Choice(("auto", "brute", "kd_tree", "ball_tree")),),
        "leaf_size": (Number(1, whole=True),),
        "n_jobs": N_JOBS,
        "cluster_selection_method": (Choice(("eom", "leaf")),),
        "allow_single_cluster": (Flag(),),
        "store_centers": (None, Choice(("centroid", "medoid", "both"))),
        "copy": (Flag(), Choice(("warn",))),
        "n_clusters": (None, Number(1, whole=True)),
        "noise": (Choice(("keep", "nearest")),),
    }
    _fitted: ClassVar = {
        **DensityTree._fitted,
        "labels_": Array("n", "int64", low=-1, below="n", also=lambda model, labels: model._length_fault(labels)),
        "probabilities_": Array("n", "float64", low=0, high=1),
        "centroids_": Array("k d", none=True),
        "medoids_": Array("k d", none=True),
        "selection_": Record(
            {
                "clusters": Array("*", "int64", low=0),
                "min_cluster_size": Real(2),
                "min_samples": Real(1),
                "root_height": Real(0, finite=False),
            },
            also=lambda model, _: model._selection_fault(),
        ),
    }

    p = None  # the power of "minkowski" is an entry of metric_params, as in scikit-learn

    def __init__(
        self,
        min_cluster_size: float = 5,
        min_samples: int | None = None,
        cluster_selection_epsilon: float = 0.0,
        max_cluster_size: float | None = None,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        algorithm: str = "auto",
        leaf_size: int = 40,
        n_jobs: int | None = None,
        cluster_selection_method: str = "eom",
        allow_single_cluster: bool = False,
        store_centers: str | None = None,
        copy: bool | str = True,
        n_clusters: int | None = None,
        noise: str = "keep",
    ) -> None:
        self.min_cluster_size = min_cluster_size
        self.min_samples = min_samples
        self.cluster_selection_epsilon = cluster_selection_epsilon
        self.max_cluster_size = max_cluster_size
        self.metric = metric
        self.metric_params = metric_params
        self.alpha = alpha
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.n_jobs = n_jobs
        self.cluster_selection_method = cluster_selection_method
        self.allow_single_cluster = allow_single_cluster
        self.store_centers = store_centers
        self.copy = copy
        self.n_clusters = n_clusters
        self.noise = noise

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
            A weight of w counts as w rows, in core distances and in sizes. 0 is an absent row: it is labelled as
            `predict` would.

        Returns
        -------
        HDBSCAN
            The fitted estimator.
        """
        self.__dict__.pop("selection_", None)  # of an earlier fit: its min_samples must not count
        self._check_parameters()
        self._check_algorithm(X)
        if sample_weight is None and self.min_samples is None and float(self.min_cluster_size) % 1 > 0:
            raise InvalidParameter(
                f"HDBSCAN: min_cluster_size must be a whole number where min_samples is None and rows have no weights, "
                f"got {self.min_cluster_size!r}. Set min_samples, or take {int(self.min_cluster_size) + 1}."
            )
        self._grow(X, sample_weight)
        selection = selected(self._rule(), self.condense(self.min_cluster_size), self.points_)
        self.selection_: dict[str, Any] = {
            "clusters": selection.clusters,
            "min_cluster_size": float(self.min_cluster_size),
            "min_samples": float(self._level()),
            "root_height": float(selection.root_height),
        }
        rows = X if self._pairwise() and self.noise == "nearest" else None
        self.labels_ = self._all_labels(selection, rows)
        self.probabilities_ = self._to_all_rows(selection.probabilities, lambda q: self._strength(selection, q))
        self._set_centers(selection)
        return self

    def _level(self) -> float:
        if "selection_" in self.__dict__:
            return float(self.selection_["min_samples"])
        return float(self.min_cluster_size if self.min_samples is None else self.min_samples)

    def _smaller_level(self) -> str:
        if self.min_samples is None:
            return "It is min_cluster_size where it is None: take a smaller min_cluster_size, or set min_samples."
        return super()._smaller_level()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._pairwise() and self.store_centers is not None:
            raise InvalidParameter(
                "HDBSCAN: Cannot store centers when using a precomputed distance matrix. Set store_centers=None."
            )
        if self._is_gower() and self.store_centers in ("centroid", "both"):
            raise InvalidParameter(
                "HDBSCAN: rows of metric='gower' have no means. Set store_centers='medoid', or None."
            )
        if self.algorithm in _TREES:
            name, tree = _TREES[self.algorithm]
            if self.metric not in tree.valid_metrics:
                raise InvalidParameter(
                    f"HDBSCAN: {self.metric} is not a valid metric for a {name}-based algorithm. Please select a "
                    "different metric."
                )

    def _check_algorithm(self, X: Any) -> None:
        if not self._pairwise() and is_sparse(X) and self.algorithm in _TREES:
            raise InvalidParameter(
                "HDBSCAN: Sparse data matrices only support algorithm `brute`. Set algorithm='auto'."
            )

    def _rule(self) -> SelectionRule:
        return SelectionRule(
            self.cluster_selection_method,
            float(self.cluster_selection_epsilon),
            self.max_cluster_size,
            bool(self.allow_single_cluster),
            self.n_clusters,
        )

    def _all_labels(self, selection: Selection, X: Any = None) -> Ints:
        """Return the labels of all rows; X are their distances where the metric is precomputed."""
        labels = selection.labels
        if self.noise == "nearest" and (labels < 0).any():
            labels = fill_noise(labels, self._rows(X), threads=self._threads(), **self._metric_options())
        return np.asarray(self._to_all_rows(labels, lambda queries: self._label(selection, queries)))

    def _rows(self, X: Any) -> Any:
        """Return the rows of the tree as `fill_noise` takes them."""
        if not self._pairwise():
            return self.points_
        if X is None:
            raise InvalidParameter(
                "HDBSCAN: noise='nearest' needs the distances of the rows, which a fit with metric='precomputed' does "
                "not keep. Set noise='keep', or fit again."
            )
        distances = X.tocsr() if is_sparse(X) else np.asarray(X)
        return distances if self.present_ is None else distances[self.present_][:, self.present_]

    def _metric_options(self) -> dict[str, Any]:
        return {"metric": self.metric, "metric_params": self._core_params(), "p": None}

    def _label(self, selection: Selection, queries: Any) -> Ints:
        """Label queries, noise too."""
        labels = selection.label(self._attach(queries))
        if self.noise == "nearest" and (labels < 0).any():
            others = np.flatnonzero(labels < 0)
            labels[others] = nearest_labels(
                queries[others], self.points_, selection.labels, threads=self._threads(), **self._metric_options()
            )
        return labels

    def _strength(self, selection: Selection, queries: Any) -> Floats:
        cluster, height = selection.tree.leave(self._attach(queries))
        return selection.probability_of(selection.label_of(cluster, height), height)

    def _set_centers(self, selection: Selection) -> None:
        self.centroids_: Floats | None = None
        self.medoids_: Floats | None = None
        if self.store_centers is None:
            return
        strength = selection.probabilities * (1.0 if self.fit_weights_ is None else self.fit_weights_)
        members = [np.flatnonzero(selection.labels == c) for c in range(len(selection.clusters))]
        d = self.points_.shape[1]
        if self.store_centers in ("centroid", "both"):
            means = [_dense(_weighted_sum(self.points_[rows], strength[rows])) for rows in members]
            self.centroids_ = np.array(means, dtype=np.float64).reshape(-1, d)
        if self.store_centers in ("medoid", "both"):
            found = [_dense(self.points_[self._medoid(rows, strength[rows])]) for rows in members]
            self.medoids_ = np.array(found, dtype=np.float64).reshape(-1, d)

    def _medoid(self, rows: Ints, strength: Floats) -> int:
        """Return the row of a cluster with the least weighted distance to all of it, the first of several."""
        points, options = self.points_[rows], dict(self._core_params() or {})
        step = max(1, _BLOCK // len(rows))
        blocks = (points[begin : begin + step] for begin in range(0, len(rows), step))
        costs = [metric_distances(block, points, self.metric, options, "HDBSCAN") @ strength for block in blocks]
        return int(rows[np.concatenate(costs).argmin()])

    # ---- more that the tree has ------------------------------------------------------------------------------------

    @property
    def condensed_tree_(self) -> CondensedTree:
        """The clusters of at least `min_cluster_size` rows, and when rows leave them; `to_pandas()` is a data frame."""
        check_is_fitted(self)
        return self.condense(self.selection_["min_cluster_size"])

    @property
    def outlier_scores_(self) -> Floats:
        """The GLOSH score of each row, from 0 in the densest part of its cluster to 1 far from it."""
        check_is_fitted(self)
        return self.outliers(self.selection_["min_cluster_size"])

    @property
    def cluster_persistence_(self) -> Floats:
        """The stability of each cluster over the most that it could be, from 0 to 1."""
        check_is_fitted(self)
        return self.condensed_tree_.persistence[self.selection_["clusters"]]

    @property
    def single_linkage_tree_(self) -> Floats:
        """The tree as a linkage matrix of SciPy."""
        return self.to_scipy()

    def _selection(self) -> Selection:
        tree = self.condensed_tree_
        chosen = np.zeros(len(tree.parent), dtype=bool)
        clusters = np.asarray(self.selection_["clusters"])
        chosen[clusters] = True
        return tree.select(chosen, self.selection_["root_height"], clusters)

    @overload
    def labels_for(self, min_cluster_size: float) -> Ints: ...
    @overload
    def labels_for(self, min_cluster_size: Iterable[float]) -> list[Ints]: ...

    def labels_for(self, min_cluster_size: float | Iterable[float]) -> Ints | list[Ints]:
        """Return the labels for other minimum sizes of a cluster, from the same tree.

        They are those of a fit with that min_cluster_size and the min_samples of this one.

        Parameters
        ----------
        min_cluster_size : float or iterable of float
            The least number of rows, or weight, of a cluster.

        Returns
        -------
        ndarray of shape (n_samples,), or a list of them
            Clusters, numbered by weight, the largest first; −1 is noise.
        """
        sizes = list(min_cluster_size) if isinstance(min_cluster_size, Iterable) else [min_cluster_size]
        selections = (selected(self._rule(), self.condense(size), self.points_) for size in sizes)
        found = [self._all_labels(selection) for selection in selections]
        return found if isinstance(min_cluster_size, Iterable) else found[0]

    def dbscan_clustering(self, cut_distance: float, min_cluster_size: float = 5) -> Ints:
        """Return the clusters of DBSCAN* at one ε; those of less weight than `min_cluster_size` are noise.

        Parameters
        ----------
        cut_distance : float
            The radius ε.
        min_cluster_size : float, default=5
            The least number of rows, or weight, of a cluster.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters, numbered by their first row; −1 is noise.
        """
        labels = self.cut(cut_distance, border="noise")
        weights = (
            None if self.fit_weights_ is None else self._to_all_rows(self.fit_weights_, lambda q: np.zeros(q.shape[0]))
        )
        kept = np.bincount(labels[labels >= 0], None if weights is None else weights[labels >= 0]) >= min_cluster_size
        number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
        return np.asarray(number[labels])

    # ---- other points ----------------------------------------------------------------------------------------------

    @lazily
    def predict(self, X: ArrayLike) -> Ints:
        """Label points: the cluster that a point falls into when it joins its row of least mutual reachability.

        The points are not added to the tree; `predict(X)` of the fitted X is `labels_`, noise included.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples) distances
            The points, or their distances to the rows of the fit where metric="precomputed".

        Returns
        -------
        ndarray of shape (n_queries,)
            The labels.
        """
        check_is_fitted(self)
        return self._label(self._selection(), self._queries(X))

    @lazily
    def predict_strength(self, X: ArrayLike) -> Floats:
        """Return how long points stay in their clusters, from 0 to 1: `probabilities_` of the fitted X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples) distances
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_queries,)
            0 where the tree leaves a point in no cluster.
        """
        check_is_fitted(self)
        return self._strength(self._selection(), self._queries(X))

    @lazily
    def predict_outliers(self, X: ArrayLike) -> Floats:
        """Return the GLOSH scores of points: `outlier_scores_` of the fitted X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples) distances
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_queries,)
            From 0 to 1.
        """
        check_is_fitted(self)
        tree = self.condensed_tree_
        return tree.outlier_scores(*tree.leave(self._attach(self._queries(X))))

    def membership_vectors(self, X: ArrayLike | None = None, *, t: int | None = None) -> scipy.sparse.csr_array:
        """Return the memberships of points in their t nearest clusters.

        The membership of x in a cluster C is λ(x, C)/Σ λ(x, ·), with λ = 1/h at the height h at which x and C are
        first in one component of the tree. Those of all clusters add up to 1, and the largest is that of the label.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), default=None
            As in `predict`; None: the rows of the fit of weight > 0.
        t : int, default=None
            How many clusters of each point are kept; None: all.

        Returns
        -------
        scipy.sparse.csr_array of shape (n_queries, n_clusters)
            At most t entries a row.
        """
        check_is_fitted(self)
        selection = self._selection()
        k = len(selection.clusters)
        if t is not None:
            check_parameters("HDBSCAN", {"t": t}, {"t": (Number(1, whole=True),)})
        tree = selection.tree
        left = (tree.row_cluster, tree.row_height) if X is None else tree.leave(self._attach(self._queries(X)))
        return memberships(selection, *left, min(k if t is None else t, k))

    # ---- model files -----------------------------------------------------------------------------------------------

    def _length_fault(self, labels: Ints) -> str:
        absent = 0 if self.absent_points_ is None else self.absent_points_.shape[0]
        expected = len(self.order_) + absent
        return "" if len(labels) == expected else f"has {len(labels)} entries for {expected} rows"

    def _selection_fault(self) -> str:
        clusters = self.selection_["clusters"]
        found = len(self.condensed_tree_.parent)
        if len(clusters) and clusters.max() >= found:
            return f"has the cluster {clusters.max()} of {found}"
        return "" if len(np.unique(clusters)) == len(clusters) else "has a cluster twice"


def _weighted_sum(rows: Any, strength: Floats) -> Any:
    return (rows.T @ strength) / strength.sum()


def _dense(row: Any) -> Floats:
    return np.asarray(row.toarray() if is_sparse(row) else row, dtype=np.float64).ravel()
