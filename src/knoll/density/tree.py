"""The density tree: single linkage over mutual reachability, which holds DBSCAN for every ε and HDBSCAN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from knoll import _core
from knoll._schema import Array
from knoll._typing import Floats, Ints
from knoll.base import Estimator, all_or_nothing
from knoll.density.condensed import CondensedTree, condense
from knoll.density.partitions import Centers, center_hierarchy, genie_hierarchy
from knoll.density.radius_search import core_metric, minkowski_power
from knoll.exceptions import BadData, InvalidParameter
from knoll.neighbors.index import UniqueRowIndex
from knoll.validation import N_JOBS, Choice, Instance, Number, Rule, check_parameters, check_points, check_weights

__all__ = ["DensityTree"]


class DensityTree(Estimator):
    """All density-based clusters of a table, from one fit: DBSCAN for every ε, and the hierarchy of HDBSCAN.

    The core distance c(x) is the distance of the `min_samples`-th nearest row, x included, and the mutual reachability
    of two rows is m(x, y) = max(c(x), c(y), d(x, y)). The tree holds the connected components of {m ≤ h} for all h. A
    node joins all components that meet at its height, any number, so the tree is a function of the set of rows: the
    same for any order of the rows and any number of threads.

    Parameters
    ----------
    min_samples : int, default=5
        How many rows, or how much weight, make a core point; a row counts itself. 1 is single linkage.
    metric : str, default="euclidean"
        "euclidean" ("l2"), "manhattan" ("l1", "cityblock"), "chebyshev", "minkowski", "cosine" or "haversine"
        (radians).
    metric_params : dict, default=None
        Further arguments of the metric.
    p : float, default=None
        The power of the Minkowski metric; None is 2.
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
    points_ : ndarray of shape (n_samples, n_features)
        The rows.
    fit_weights_ : ndarray of shape (n_samples,) or None
        Their weights.
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
    >>> from knoll.density.tree import DensityTree
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
        "n_jobs": N_JOBS,
    }
    _cut_rules: ClassVar[Mapping[str, tuple[Rule | None, ...]]] = {
        "eps": (Number(0, strict=True),),
        "border": (Choice(("closest", "noise")),),
        "min_cluster_size": (Number(2, remedy="A cluster has at least two rows."),),
        "cluster_selection_epsilon": (Number(0),),
        "max_cluster_size": (None, Number(1)),
        "k": (Number(1, whole=True),),
        "gini": (Number(0, 1),),
        "power": (Number(0, strict=True),),
    }
    _fitted: ClassVar = {
        "order_": Array("n", "int64", low=0, below="n", also=lambda model, order: _permutation_fault(order)),
        "bars_": Array("n", "float64", low=0, finite=False),
        "core_distances_": Array("n", "float64", low=0),
        "neighbors_": Array("n *", "int32", low=0, below="n", when=lambda model: model.fit_weights_ is None),
        "points_": Array("n d"),
        "fit_weights_": Array("n", "float64", low=0, none=True),
    }

    def __init__(
        self,
        min_samples: int = 5,
        *,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        p: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.min_samples = min_samples
        self.metric = metric
        self.metric_params = metric_params
        self.p = p
        self.n_jobs = n_jobs

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Build the tree of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Weights > 0; a weight of w counts as w rows.

        Returns
        -------
        DensityTree
            The fitted estimator.
        """
        self._check_parameters()
        points = check_points(X, estimator=self, n_jobs=self._threads())
        weights = check_weights(sample_weight, points.shape[0], owner="DensityTree")
        self._check_size(points, weights)
        n = points.shape[0]
        order, bars, core = np.empty(n, np.int64), np.empty(n), np.empty(n)
        near = np.empty((n, 0 if weights is not None else int(self.min_samples) - 1), np.int32)
        edges = np.empty((n - 1, 2), np.int32)
        metric = self._core_metric()
        _core.density_tree(
            points, float(self.min_samples), weights, *metric, order, bars, core, near, self._threads(), "auto", edges
        )
        self._edges = edges  # which of several minimum spanning trees depends on timing, so it is no result
        self.order_, self.bars_, self.core_distances_ = order, bars, core
        self.neighbors_ = near if weights is None else None
        self.points_, self.fit_weights_ = np.array(points), weights
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._core_metric()

    def _core_metric(self) -> tuple[str, float]:
        name = core_metric(self.metric, self.metric_params, self.p)
        if name is None:
            raise InvalidParameter(
                f"DensityTree: metric must be 'euclidean', 'manhattan', 'chebyshev', 'minkowski', 'cosine' or "
                f"'haversine', got {self.metric!r}."
            )
        return name, minkowski_power(self.metric_params, self.p)

    def _check_size(self, points: Any, weights: Floats | None) -> None:
        """Refuse data of less weight than min_samples, which has no core distances."""
        if weights is not None and not weights.min() > 0:
            raise BadData("DensityTree: sample_weight must be > 0. Drop rows of weight 0 first.")
        mass = points.shape[0] if weights is None else float(weights.sum())
        if mass < self.min_samples:
            raise BadData(
                f"DensityTree: min_samples={self.min_samples} is larger than the {mass:g} rows of X, so no row has a "
                "core distance. Take a smaller min_samples."
            )

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
        labels = np.empty(len(self.order_), np.int64)
        found = _core.cut_tree(self.order_, self.bars_, self.core_distances_, float(eps), labels, self._threads())
        if border == "noise" or not found:
            return labels
        name, power = self._core_metric()
        if self.neighbors_ is not None:
            _core.attach_borders(
                self.points_, self.neighbors_, self.core_distances_, float(eps), name, power, labels, self._threads()
            )
            return labels
        core = self.core_distances_ <= eps
        index = UniqueRowIndex(self.points_[core], float(eps), name, power, self._threads())
        nearest, _ = index.nearest(self.points_[~core])
        labels[~core] = np.where(nearest >= 0, labels[core][nearest], -1)
        return labels

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
            Clusters, numbered by their first row; −1 is noise.
        """
        self._check_cut(cluster_selection_epsilon=cluster_selection_epsilon, max_cluster_size=max_cluster_size)
        tree = self.condense(min_cluster_size)
        limit = np.inf if max_cluster_size is None else max_cluster_size
        chosen = tree.eom(allow_single_cluster=allow_single_cluster, max_cluster_size=limit)
        merged = tree.merged(chosen, cluster_selection_epsilon, allow_single_cluster=allow_single_cluster)
        return tree.select(merged).labels

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
            Clusters, numbered by their first row; −1 is noise.
        """
        self._check_cut(cluster_selection_epsilon=cluster_selection_epsilon)
        tree = self.condense(min_cluster_size)
        chosen = tree.leaves(allow_single_cluster=allow_single_cluster)
        merged = tree.merged(chosen, cluster_selection_epsilon, allow_single_cluster=allow_single_cluster)
        return tree.select(merged).labels

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
        return self.condense(min_cluster_size).outlier_scores()

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
        found = [hierarchy.labels(number) for number in hierarchy.distinct.check_numbers(numbers)]
        return found if isinstance(k, Iterable) else found[0]

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
        return found if isinstance(k, Iterable) else found[0]

    def _check_numbers(self, k: int | Iterable[int]) -> list[int]:
        numbers = list(k) if isinstance(k, Iterable) else [k]
        for number in numbers:
            self._check_cut(k=number)
        return numbers

    def _check_cut(self, **values: Any) -> None:
        check_is_fitted(self)
        check_parameters("DensityTree", values, {name: self._cut_rules[name] for name in values})


def _permutation_fault(order: Ints) -> str:
    return "" if np.array_equal(np.sort(order), np.arange(len(order))) else "must hold every row once"
