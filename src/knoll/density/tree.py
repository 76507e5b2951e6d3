"""The density tree: single linkage over mutual reachability, which holds DBSCAN for every ε and HDBSCAN."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Self, overload

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from knoll import _core
from knoll._common.cost import Cost, linear_cost
from knoll._common.sparse import is_sparse
from knoll._schema import Array, Text
from knoll._typing import Floats, Ints, Labels
from knoll.base import all_or_nothing
from knoll.density.condensed import CondensedTree, SelectionRule, condense
from knoll.density.curves import Bands, Curves, linkage, tree_curves
from knoll.density.noise import nearest_labels
from knoll.density.numbering import selected
from knoll.density.partitions import Centers, center_hierarchy, genie_hierarchy, ordering
from knoll.density.reachability import Attached, Level, Reachability, choose_reachability, edges_of_links
from knoll.exceptions import BadData, InvalidParameter
from knoll.neighbors.gower import ReadsGower, gower_columns_rule, read_gower_again
from knoll.neighbors.index import CoreParameter
from knoll.neighbors.metric_names import core_metric
from knoll.validation import N_JOBS, Choice, Flag, Instance, Number, Rule, check_parameters, check_points, check_weights

__all__ = ["DensityTree", "Layer"]

_PER_ROW = 140  # bytes that the core keeps for a row beside lists and coordinates
_PAIR_SECONDS = 4e-9  # of a pair of rows, where all distances are computed


# A minimum spanning tree of each fit, with the order of its rows, by which a later fit is distinguished. Which of
# several trees it is depends on timing, so it is no result; a model that was loaded has none.
_LINKS: weakref.WeakKeyDictionary[DensityTree, tuple[Ints, Labels]] = weakref.WeakKeyDictionary()
# For cuts with borders: the least ε at which each row is in a cluster, with the order of the fit, since the first cut.
_BORDERS: weakref.WeakKeyDictionary[DensityTree, tuple[Ints, Floats]] = weakref.WeakKeyDictionary()


class Layer(NamedTuple):
    """The smallest clusters of at least a given size."""

    min_cluster_size: float
    labels: Ints  # (n,) −1 is noise


class DensityTree(ReadsGower):
    """All density-based clusters of a table, from one fit: DBSCAN for every ε, and the hierarchy of HDBSCAN.

    The core distance c(x) is the distance of the `min_samples`-th nearest row, x included, and the mutual reachability
    of two rows is m(x, y) = max(c(x), c(y), d(x, y)). The tree holds the connected components of {m ≤ h} for all h. A
    node joins all components that merge at its height, any number, so the tree is a function of the set of rows: the
    same for any order of the rows and any number of threads.

    Parameters
    ----------
    min_samples : int, default=5
        How many rows, or how much weight, make a core point; a row counts itself. 1 is single linkage.
    metric : str or callable, default="euclidean"
        "euclidean" ("l2"), "manhattan" ("l1", "cityblock"), "chebyshev", "minkowski", "cosine" and "haversine"
        (radians) have an index, and "gower", for tables of numbers and categories with missing values, has filtered
        tiles. "precomputed" takes a symmetric matrix of distances, dense or sparse; entries that a
        sparse one does not store are infinite. Any other metric of scikit-learn's `pairwise_distances`, a callable, and
        sparse rows take memory for all n² distances.
    metric_params : dict, default=None
        Further arguments of the metric; of "gower" as in `DBSCAN`.
    p : float, default=None
        The power of the Minkowski metric; None is 2.
    alpha : float, default=1.0
        Distances, but not core distances, are divided by it: m(x, y) = max(c(x), c(y), d(x, y)/α), robust single
        linkage.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The tree is the same for every number.

    Attributes
    ----------
    order_ : ndarray of shape (n_samples,)
        The rows in an order in which every cluster of every height is an interval.
    bars_ : ndarray of shape (n_samples,)
        The height at which each row of `order_` and the one before it are first in one cluster; the first is infinite.
    core_distances_ : ndarray of shape (n_samples,)
        c(x) of each row.
    points_ : ndarray or sparse matrix of shape (n_samples, n_features)
        The rows; None where the metric is "precomputed".
    fit_weights_ : ndarray of shape (n_samples,) or None
        Their weights.
    present_ : ndarray or None
        The rows of weight > 0, where others have weight 0. The arrays above are about these rows alone; methods
        return labels of all rows.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has any.

    References
    ----------
    Campello, Moulavi, Zimek, Sander: Hierarchical density estimates for data clustering, visualization, and outlier
    detection (TKDD 2015).

    Examples
    --------
    >>> from knoll import DensityTree
    >>> X = [[0.0], [0.5], [1.0], [7.0], [7.5], [8.0], [50.0]]
    >>> tree = DensityTree(min_samples=3).fit(X)
    >>> tree.cut(1.0)
    array([ 0,  0,  0,  1,  1,  1, -1])
    >>> tree.cut(6.0)
    array([ 0,  0,  0,  0,  0,  0, -1])
    """

    _rules: ClassVar = {
        "min_samples": (Number(1, whole=True, remedy="A row counts itself, so 1 is single linkage."),),
        "metric_params": (None, Instance((dict,), "a dict")),
        "p": (None, Number(0, strict=False)),
        "alpha": (Number(0, strict=True),),
        "n_jobs": N_JOBS,
    }
    _takes_sparse: ClassVar[bool] = True
    _cut_rules: ClassVar[Mapping[str, tuple[Rule | None, ...]]] = {
        "eps": (Number(0, strict=True),),
        "border": (Choice(("closest", "noise")),),
        "min_cluster_size": (Number(2, remedy="A cluster has at least two rows."),),
        "cluster_selection_epsilon": (Number(0),),
        "max_cluster_size": (None, Number(1)),
        "allow_single_cluster": (Flag(),),
        "k": (Number(1, whole=True),),
        "gini": (Number(0, 1),),
        "power": (Number(0, strict=True),),
    }
    _fitted: ClassVar = {
        "order_": Array("m", "int64", low=0, below="m", also=lambda model, order: _permutation_fault(order)),
        "bars_": Array("m", "float64", low=0, finite=False),
        "core_distances_": Array("m", "float64", low=0, finite=False),
        "neighbors_": Array("m *", "int32", low=0, below="m", none=True, also=lambda model, _: model._lists_fault()),
        "within_core_": Array("m m", "float64", low=0, none=True, sparse=True),
        "edges_": Array("* 2", "int32", low=0, below="m", none=True),
        "points_": Array("m d", sparse=True, when=lambda model: not model._pairwise()),
        "fit_weights_": Array(
            "m", "float64", low=0, strict=True, none=True, also=lambda model, weights: _sum_fault(weights)
        ),
        "present_": Array("m", "int64", low=0, increasing=True, none=True),
        "absent_points_": Array(
            lambda model: "* m" if model._pairwise() else "* d",
            low=-np.inf,
            finite=False,
            sparse=True,
            none=True,
            also=lambda model, _: model._absent_fault(),
        ),
        "graph_digest_": Text(),
        "gower_columns_": gower_columns_rule(),
    }

    def __init__(
        self,
        min_samples: int = 5,
        *,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        p: float | None = None,
        alpha: float = 1.0,
        n_jobs: int | None = None,
    ) -> None:
        self.min_samples: int | None = min_samples
        self.metric = metric
        self.metric_params = metric_params
        self.p: float | None = p
        self.alpha = alpha
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._pairwise()
        tags.input_tags.sparse = not self._is_gower()
        return tags

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Build the tree of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
            The points, or their distances where metric="precomputed".
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of w counts as w rows. 0 is an absent row: it has labels, by the row that it is nearest to, and
            changes no others.

        Returns
        -------
        DensityTree
            The fitted estimator.
        """
        self._grow(X, sample_weight)
        return self

    # ---- the tree --------------------------------------------------------------------------------------------------

    def _grow(self, X: ArrayLike, sample_weight: ArrayLike | None) -> None:
        self._check_parameters()
        self.__dict__.pop("gower_columns_", None)  # of an earlier fit
        points = self._fit_gower(X, sample_weight) if self._is_gower() else self._check_rows(X, reset=True)
        source = self._reachability(points)
        source.check(points)
        n = points.shape[0]
        weights = check_weights(sample_weight, n, owner=self._name())
        present = None if weights is None or weights.all() else np.flatnonzero(weights)
        self._set_absent(source, points, weights, present)
        rows = points if present is None else source.select(points, present)
        mass = None if weights is None else weights[weights > 0]
        self._check_size(rows.shape[0], mass)
        grown = source.grow(rows, Level(float(self._level()), mass, float(self.alpha)))
        self.order_, self.bars_, self.core_distances_, self.neighbors_ = grown[:4]
        self.within_core_, self.fit_weights_ = grown.within, mass
        self.edges_ = grown.edges
        if grown.links is not None:
            _LINKS[self] = (self.order_, grown.links)
        self.points_: Any = None if self._pairwise() else rows.copy()
        self.graph_digest_ = source.digest(points)

    def _set_absent(self, source: Reachability, points: Any, weights: Floats | None, present: Ints | None) -> None:
        self.present_ = present
        self.absent_points_: Any = (
            None
            if weights is None or present is None
            else source.queries(points, np.flatnonzero(weights == 0), present)
        )

    def _name(self) -> str:
        return type(self).__name__

    def _level(self) -> float:
        """Return min_samples."""
        return float(self.min_samples or 1)

    def _pairwise(self) -> bool:
        """Return whether X is a matrix of distances."""
        return bool(self.metric == "precomputed")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.metric, str) and not callable(self.metric):
            raise InvalidParameter(f"{self._name()}: metric must be a name or a callable, got {self.metric!r}.")

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> Any:
        """Check points, or distances, which may be infinite."""
        if not self._pairwise() or is_sparse(X):
            return check_points(X, estimator=self, reset=reset, sparse=True, n_jobs=self._threads())
        points = check_points(X, estimator=self, reset=reset, finite=False, n_jobs=self._threads())
        if np.isnan(points).any():
            raise BadData(f"{self._name()}: np.nan values found in precomputed-dense. Give a distance to every pair.")
        return points

    def _reachability(self, points: Any) -> Reachability:
        return choose_reachability(points, self.metric, self._core_params(), self.p, self._name(), self._threads())

    def _core_metric(self) -> tuple[str, CoreParameter]:
        """Return name and parameter of the metric in the core; there is no name where all distances are computed."""
        source: Any = self._reachability(self.points_)
        return getattr(source, "metric", ""), getattr(source, "p", 2.0)

    def _check_size(self, n: int, weights: Floats | None) -> None:
        """Refuse data of less weight than min_samples, which has no core distances."""
        mass = n if weights is None else float(np.minimum(weights, self._level()).sum())
        if mass < self._level():
            raise BadData(
                f"{self._name()}: min_samples ({self._level():g}) must be at most the number of samples in X "
                f"(n_samples={mass:g}), else no row has a core distance. {self._smaller_level()}"
            )

    def _smaller_level(self) -> str:
        return "Take a smaller min_samples."

    def _lists_fault(self) -> str:
        lists: Any = self.neighbors_
        wanted = int(self._level()) - 1
        return "" if lists.shape[1] <= wanted else f"has {lists.shape[1]} columns for min_samples − 1 = {wanted}"

    def _absent_fault(self) -> str:
        if self.present_ is None:
            return "must be None where present_ is"
        absent: Any = self.absent_points_
        values = absent.data if is_sparse(absent) else absent
        return "" if self._pairwise() or np.isfinite(values).all() else "has entries that are not finite"

    def _cost(self, n: int, d: int) -> Cost:
        if self._is_gower():
            lists, remedy = 4 * int(self._level()), "a sample of the rows"
            work = 8 * d + (13 * d) + 2 * lists
            return linear_cost("tiles", n, _PER_ROW + work, float(n) * n, 2e-10 * (d + 4), (1, 6), remedy)
        if core_metric(self.metric, self.metric_params, self.p) is not None:
            lists = 4 * int(self._level())
            remedy = "a smaller min_samples, or a sample of the rows"
            pair = 1e-8 * (d + 4) * max(1.0, self._level() / 5)
            return linear_cost("index", n, _PER_ROW + 8 * d + 2 * lists, n * np.log2(n + 2), pair, (1, 20), remedy)
        remedy = "a metric with an index, or a sample of the rows"
        return linear_cost("all distances", n, 24.0 * n, float(n) * n, _PAIR_SECONDS * (d + 4), (1, 4), remedy)

    def _spanning_tree(self) -> Labels | None:
        """Return the minimum spanning tree that the fit found with an index, if it is still there."""
        order, links = _LINKS.get(self, (None, None))
        return None if links is None or order is not self.order_ else edges_of_links(links)

    # ---- other points ----------------------------------------------------------------------------------------------

    def attach(self, X: ArrayLike) -> Attached:
        """Return the row of least mutual reachability of each point, and the height at which they merge.

        The points are not added to the tree. A row of the fit is attached to itself at its core distance.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples) distances
            The points, or their distances to the rows of the fit where metric="precomputed".

        Returns
        -------
        Attached
            `row`, the number of a row of the fit; `height`, the mutual reachability of the two; `core`, the core
            distance of the point among the rows of the fit.
        """
        check_is_fitted(self)
        found = self._attach(self._queries(X))
        return found if self.present_ is None else found._replace(row=self.present_[found.row])

    def _queries(self, X: ArrayLike) -> Any:
        if self._is_gower():
            return read_gower_again(X, self.gower_columns_, estimator=self)
        queries = self._check_rows(X, reset=False)
        if self._pairwise():
            if self.graph_digest_ and self._reachability(queries).digest(queries) == self.graph_digest_:
                queries = _with_own(queries)
            return queries if self.present_ is None else queries[:, self.present_]
        if is_sparse(queries) == is_sparse(self.points_):
            return queries
        return queries.toarray() if is_sparse(queries) else scipy.sparse.csr_array(queries)

    def _attach(self, queries: Any) -> Attached:
        self._check_size(len(self.core_distances_), self.fit_weights_)  # the parameter may have been set anew
        level = Level(float(self._level()), self.fit_weights_, float(self.alpha))
        return self._reachability(queries).attach(queries, self.points_, self.core_distances_, level)

    def _to_all_rows(self, values: Any, absent: Callable[[Any], Any]) -> Any:
        """Return one entry for each row of X: those of the tree, and for rows of weight 0 what `absent` returns."""
        if self.present_ is None:
            return values
        found = np.empty(len(values) + self.absent_points_.shape[0], dtype=values.dtype)
        others = np.ones(len(found), dtype=bool)
        others[self.present_] = False
        found[self.present_], found[others] = values, absent(self.absent_points_)
        return found

    # ---- clusters --------------------------------------------------------------------------------------------------

    def cut(self, eps: float, *, border: str = "closest") -> Ints:
        """Return the labels of `DBSCAN(eps, min_samples=min_samples, border=border)`, without another fit.

        Parameters
        ----------
        eps : float
            The radius ε.
        border : {"closest", "noise"}, default="closest"
            The cluster of a row that is not core: that of the closest core point within ε, or none (DBSCAN*).

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters, numbered by their first core row; −1 is noise.
        """
        self._check_cut(eps=eps, border=border)
        labels = self._cut_core(eps)
        filled = labels if border == "noise" else self._with_borders(labels, eps)
        return np.asarray(self._to_all_rows(filled, lambda queries: self._label_at(queries, labels, eps, border)))

    def predict_cut(self, eps: float, X: ArrayLike, *, border: str = "closest") -> Ints:
        """Label points as `DBSCAN(eps, min_samples=min_samples, border=border).fit(rows).predict` would.

        Parameters
        ----------
        eps : float
            The radius ε.
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples) distances
            As in `attach`.
        border : {"closest", "noise"}, default="closest"
            As in `cut`.

        Returns
        -------
        ndarray of shape (n_queries,)
            The cluster of the closest core point within ε; −1 where there is none.
        """
        self._check_cut(eps=eps, border=border)
        return self._label_at(self._queries(X), self._cut_core(eps), eps, border)

    def _cut_core(self, eps: float) -> Ints:
        """Label the core rows of the tree."""
        labels = np.empty(len(self.order_), np.int64)
        _core.cut_tree(self.order_, self.bars_, self.core_distances_, float(eps), labels, self._threads())
        return labels

    def _with_borders(self, labels: Ints, eps: float) -> Ints:
        if self.neighbors_ is not None:
            labels = labels if self.present_ is None else labels.copy()  # those of core rows alone are needed again
            heights = self._border_heights()
            _core.attach_borders(*self._lists(), heights, float(eps), *self._core_metric(), labels, self._threads())
            return labels
        if self.within_core_ is None:
            others = labels < 0
            found = labels.copy()
            found[others] = self._label_at(self.points_[others], labels, eps, "closest")
            return found
        return _borders_of_graph(self.within_core_, labels, eps, self._ordered_points())

    def _lists(self) -> tuple[Any, Any, Floats]:
        return self.points_, self.neighbors_, self.core_distances_

    def _border_heights(self) -> Floats:
        order, heights = _BORDERS.get(self, (None, None))
        if heights is None or order is not self.order_:
            heights = np.empty(len(self.order_))
            _core.border_heights(*self._lists(), *self._core_metric(), heights, self._threads())
            _BORDERS[self] = (self.order_, heights)
        return heights

    def _label_at(self, queries: Any, labels: Ints, eps: float, border: str) -> Ints:
        """Return the label of the closest core row within ε of each query."""
        options: dict[str, Any] = {"metric": self.metric, "metric_params": self._core_params(), "p": self.p}
        found = nearest_labels(queries, self.points_, labels, radius=float(eps), threads=self._threads(), **options)
        if border == "noise":
            found[self._attach(queries).core > eps] = -1
        return found

    def condense(self, min_cluster_size: float = 5) -> CondensedTree:
        """Return the condensed tree: clusters of weight ≥ min_cluster_size, and when rows leave them.

        Parameters
        ----------
        min_cluster_size : float, default=5
            The least number of rows, or weight, of a cluster.

        Returns
        -------
        CondensedTree
            Arrays over clusters and over rows, with stability, outlier scores and selections.
        """
        self._check_cut(min_cluster_size=min_cluster_size)
        return condense(
            self.order_, self.bars_, self.core_distances_, self.fit_weights_, min_cluster_size, self._threads()
        )

    def eom(
        self,
        min_cluster_size: float = 5,
        *,
        cluster_selection_epsilon: float = 0.0,
        max_cluster_size: float | None = None,
        allow_single_cluster: bool = False,
    ) -> Ints:
        """Return the labels of HDBSCAN by excess of mass: the clusters of largest total stability.

        Parameters
        ----------
        min_cluster_size : float, default=5
            The least number of rows, or weight, of a cluster.
        cluster_selection_epsilon : float, default=0.0
            Clusters that separate below this distance are merged.
        max_cluster_size : float, default=None
            The largest number of rows, or weight, of a cluster; None: no limit.
        allow_single_cluster : bool, default=False
            Whether all rows may be one cluster.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters, numbered by weight, the largest first; −1 is noise.
        """
        return self._selected(
            "eom",
            min_cluster_size,
            cluster_selection_epsilon,
            max_cluster_size,
            allow_single_cluster=allow_single_cluster,
        )

    def leaves(
        self,
        min_cluster_size: float = 5,
        *,
        cluster_selection_epsilon: float = 0.0,
        allow_single_cluster: bool = False,
    ) -> Ints:
        """Return the labels of the smallest clusters: the leaves of the condensed tree.

        Parameters
        ----------
        min_cluster_size : float, default=5
            The least number of rows, or weight, of a cluster.
        cluster_selection_epsilon : float, default=0.0
            Clusters that separate below this distance are merged.
        allow_single_cluster : bool, default=False
            Whether all rows may be one cluster.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters, numbered by weight, the largest first; −1 is noise.
        """
        return self._selected(
            "leaf", min_cluster_size, cluster_selection_epsilon, allow_single_cluster=allow_single_cluster
        )

    def _selected(
        self,
        method: str,
        min_cluster_size: float,
        epsilon: float,
        max_cluster_size: float | None = None,
        *,
        allow_single_cluster: bool,
    ) -> Ints:
        self._check_cut(
            min_cluster_size=min_cluster_size,
            cluster_selection_epsilon=epsilon,
            max_cluster_size=max_cluster_size,
            allow_single_cluster=allow_single_cluster,
        )
        rule = SelectionRule(method, epsilon, max_cluster_size, allow_single_cluster)
        selection = selected(rule, self.condense(min_cluster_size), self.points_)
        return np.asarray(self._to_all_rows(selection.labels, lambda queries: selection.label(self._attach(queries))))

    def layers(self, min_cluster_size: float = 5) -> list[Layer]:
        """Return the leaves for doubled minimum sizes, from the smallest clusters to the largest.

        Parameters
        ----------
        min_cluster_size : float, default=5
            The least number of rows, or weight, of a cluster in the first layer.

        Returns
        -------
        list of Layer
            Each with its `min_cluster_size` and its `labels`; layers of fewer than two clusters, and those equal to the
            layer before, are left out.
        """
        found: list[Layer] = []
        mass = len(self.order_) if self.fit_weights_ is None else float(self.fit_weights_.sum())
        size = min_cluster_size
        while size <= mass:
            labels = self.leaves(size)
            if labels.max() > 0 and not (found and np.array_equal(labels, found[-1].labels)):
                found.append(Layer(size, labels))
            size = 2 * size
        return found

    def outliers(self, min_cluster_size: float = 5) -> Floats:
        """Return the GLOSH score of each row: 0 in the densest part of its cluster, near 1 far from it.

        Parameters
        ----------
        min_cluster_size : float, default=5
            The least number of rows, or weight, of a cluster.

        Returns
        -------
        ndarray of shape (n_samples,)
            1 − h_least/h, with the height h at which the row leaves its cluster and the least one inside of it.
        """
        tree = self.condense(min_cluster_size)
        return np.asarray(
            self._to_all_rows(
                tree.outlier_scores(), lambda queries: tree.outlier_scores(*tree.leave(self._attach(queries)))
            )
        )

    # ---- over all heights ------------------------------------------------------------------------------------------

    def curves(self, min_cluster_size: float = 1) -> Curves:
        """Return the number of clusters, the share of noise and the largest cluster as functions of ε, exactly.

        Parameters
        ----------
        min_cluster_size : float, default=1
            Clusters of less weight count as noise; 1 counts the clusters of `cut(eps, border="noise")`.

        Returns
        -------
        Curves
            Arrays over `eps`, at all values where one of them changes; each holds from its ε to the next.
        """
        check_is_fitted(self)
        check_parameters(self._name(), {"min_cluster_size": min_cluster_size}, {"min_cluster_size": (Number(0),)})
        weights = np.ones(len(self.order_)) if self.fit_weights_ is None else self.fit_weights_
        return tree_curves(self.order_, self.bars_, self.core_distances_, weights, min_cluster_size, self._threads())

    def bands(self) -> Bands:
        """Return the modes of the density and the error of all rows that each survives.

        Where every row moves by at most δ, all heights move by at most 2δ. So a cluster whose height of fusion exceeds
        its least core distance by more than 4δ is still one.

        Returns
        -------
        Bands
            Modes by the error that they survive, largest first: the `row` of the least core distance, its `birth`, the
            `death` at which it merges with a denser cluster, and `delta` = (death − birth)/4.
        """
        check_is_fitted(self)
        deaths = np.empty(len(self.order_))
        points, core = self._ordered_points(), self.core_distances_[self.order_]
        _core.tree_modes(self.bars_, core, points, self.order_, deaths, self._threads())
        with np.errstate(invalid="ignore"):
            length = np.where(np.isinf(core), 0.0, deaths - core)
        kept = np.flatnonzero(length > 0)
        kept = kept[np.argsort(-length[kept], kind="stable")]
        row = self.order_[kept]
        return Bands(row if self.present_ is None else self.present_[row], core[kept], deaths[kept], length[kept] / 4)

    def to_scipy(self) -> Floats:
        """Return the tree as a linkage matrix of SciPy: the two clusters joined, their height and their number of rows.

        Where more than two clusters merge at one height, they are joined in the order of their lowest rows. Rows of
        weight 0 are not in it.

        Returns
        -------
        ndarray of shape (n_rows − 1, 4)
            For `scipy.cluster.hierarchy`.
        """
        check_is_fitted(self)
        return linkage(self.order_, self.bars_)

    def _ordered_points(self) -> NDArray[Any]:
        """Return rows whose lexicographic order decides ties."""
        return ordering(self.points_, len(self.order_))

    # ---- a given number of clusters --------------------------------------------------------------------------------

    @overload
    def genie(self, k: int, *, gini: float = ...) -> Ints: ...
    @overload
    def genie(self, k: Iterable[int], *, gini: float = ...) -> list[Ints]: ...

    def genie(self, k: int | Iterable[int], *, gini: float = 0.3) -> Ints | list[Ints]:
        """Return the labels of exactly k clusters by Genie: single linkage that keeps cluster sizes from diverging.

        Clusters are joined along the minimum spanning tree of mutual reachability in ascending order. While the Gini
        index of their weights exceeds `gini`, the smallest cluster is joined to its nearest one. There is no noise.

        Parameters
        ----------
        k : int or iterable of int
            Numbers of clusters. One pass serves all of them.
        gini : float, default=0.3
            The threshold of the Gini index; 1 is single linkage.

        Returns
        -------
        ndarray of shape (n_samples,), or a list of them
            Clusters, numbered by their first row.

        Notes
        -----
        Equal rows count as one point of their joint weight. Edges of one height are ordered by distance, then by
        coordinates.

        References
        ----------
        Gagolewski, Bartoszuk, Cena: Genie: a new, fast, and outlier-resistant hierarchical clustering algorithm
        (Information Sciences 363, 2016).
        """
        self._check_cut(gini=gini)
        numbers = self._check_numbers(k)
        hierarchy = genie_hierarchy(self, gini)
        found = [self._joined(hierarchy.labels(number)) for number in hierarchy.distinct.check_numbers(numbers)]
        return found if isinstance(k, Iterable) else found[0]

    def _joined(self, labels: Ints) -> Ints:
        """Return the labels of all rows; those of weight 0 have that of the row to which they are attached."""
        return np.asarray(self._to_all_rows(labels, lambda queries: labels[self._attach(queries).row]))

    @overload
    def centers(self, k: int, *, power: float = ...) -> Centers: ...
    @overload
    def centers(self, k: Iterable[int], *, power: float = ...) -> list[Centers]: ...

    def centers(self, k: int | Iterable[int], *, power: float = 2.0) -> Centers | list[Centers]:
        """Return the best k centres of the tree's ultrametric u, which minimise Σ w u(x, nearest centre)^power.

        u(x, y) is the height at which x and y are first in one cluster. The best centres are found exactly, and those
        of k are among those of k + 1.

        Parameters
        ----------
        k : int or iterable of int
            Numbers of clusters. One pass serves all of them.
        power : float, default=2.0
            2 is k-means, 1 is k-median and infinity is k-center, which minimises the largest distance.

        Returns
        -------
        Centers, or a list of them
            `labels`, the `rows` that are centres, and the `cost`.

        Notes
        -----
        Equal rows count as one point of their joint weight. A row that is equally near to several centres joins the
        one that saves most.

        References
        ----------
        Draganov, Beer, Schmidt, Assent: I want 'em all (at once) -- ultrametric cluster hierarchies (NeurIPS 2025).
        """
        if not (isinstance(power, float) and power == np.inf):
            self._check_cut(power=power)
        numbers = self._check_numbers(k)
        hierarchy = center_hierarchy(self, power)
        found = [hierarchy.at(number) for number in hierarchy.distinct.check_numbers(numbers)]
        if self.present_ is not None:
            rows = self.present_
            found = [Centers(self._joined(labels), rows[centers], cost) for labels, centers, cost in found]
        return found if isinstance(k, Iterable) else found[0]

    def _check_numbers(self, k: int | Iterable[int]) -> list[int]:
        numbers = list(k) if isinstance(k, Iterable) else [k]
        for number in numbers:
            self._check_cut(k=number)
        return numbers

    def _check_cut(self, **values: Any) -> None:
        check_is_fitted(self)
        check_parameters(self._name(), values, {name: self._cut_rules[name] for name in values})


def _permutation_fault(order: Ints) -> str:
    return "" if np.array_equal(np.sort(order), np.arange(len(order))) else "must hold every row once"


def _sum_fault(weights: Floats) -> str:
    with np.errstate(over="ignore"):
        return "" if np.isfinite(weights.sum()) else "has a sum beyond float64"


def _with_own(graph: Any) -> Any:
    """Return a graph in which every row stores its distance 0 to itself."""
    entries = graph.tocoo()
    off = entries.row != entries.col
    every = np.arange(graph.shape[0])
    rows, columns = np.append(entries.row[off], every), np.append(entries.col[off], every)
    return scipy.sparse.csr_array((np.append(entries.data[off], np.zeros(len(every))), (rows, columns)), graph.shape)


def _borders_of_graph(within: Any, labels: Ints, eps: float, points: NDArray[Any]) -> Ints:
    """Give rows that are not core the label of their closest core row within ε, ties by the order of the points."""
    entries = within.tocoo()
    kept = (labels[entries.row] < 0) & (labels[entries.col] >= 0) & (entries.data <= eps)
    rows, columns, distances = entries.row[kept], entries.col[kept], entries.data[kept]
    rank = np.empty(len(points), dtype=np.int64)
    rank[np.lexsort(points.T[::-1])] = np.arange(len(points))
    order = np.lexsort((rank[columns], distances, rows))
    found = labels.copy()
    first, at = np.unique(rows[order], return_index=True)
    found[first] = labels[columns[order][at]]
    return found
