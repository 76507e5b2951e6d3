"""OPTICS: rows in the order in which clusters grow, with the reachability max(c(p), d(p, o)) of each."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import ClusterMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS
from sklearn.utils.validation import check_is_fitted, check_memory

from knoll import _core
from knoll._common.cost import Cost, Seconds
from knoll._common.rescale import extreme_exponent, largest_of, times_power
from knoll._schema import Array
from knoll._typing import Floats, Ints
from knoll.base import all_or_nothing, warn_caller
from knoll.density.steep_areas import clusters_by_xi, labels_of_clusters
from knoll.density.tree import DensityTree
from knoll.exceptions import BadData, InvalidParameter, SuspiciousResultWarning
from knoll.neighbors.distances import metric_distances
from knoll.neighbors.gower import GOWER_COLUMNS, ReadsGower, read_gower
from knoll.neighbors.metric_names import core_metric, minkowski_power
from knoll.validation import N_JOBS, Choice, Flag, Instance, Number, check_points

_CORE_METRICS = ("euclidean", "manhattan", "chebyshev")  # metrics of the core; others take a pass over the rows a step
_TINY = 900  # points below 2^−900 are multiplied by a power of two first
_BLOCK = 1 << 22  # distances computed at a time for core distances
_SIZE = "It is a number of rows, from 2 on, or a share of the rows."

Ordering = tuple[Ints, Floats, Floats, Ints]  # ordering, core distances, reachability, predecessor


class OPTICS(ClusterMixin, ReadsGower):
    """Rows in the order in which density-based clusters grow; clusters are valleys of the reachability plot.

    The core distance c(p) of a row is the distance of its `min_samples`-th nearest row, itself included. From each row
    p in turn, the rows o that are left get the reachability max(c(p), d(p, o)), the least over all p so far, and the
    one of least reachability follows. This is the original, asymmetric definition, computed exactly.

    Parameters
    ----------
    min_samples : int or float between 0 and 1, default=5
        How many rows make a core point, or their share; a row counts itself.
    max_eps : float, default=inf
        Rows further apart than this do not reach each other.
    metric : str or callable, default="minkowski"
        "euclidean", "manhattan", "chebyshev" and "minkowski" with p = 1, 2 are computed by the core; any other
        metric of scikit-learn's `pairwise_distances` or a callable takes n² distances in linear memory. "precomputed"
        takes a matrix of distances, dense or sparse; in a sparse one a missing entry is further than any other. "gower"
        takes tables of numbers and categories with missing values.
    p : float, default=2
        The power of the Minkowski metric.
    metric_params : dict, default=None
        Further arguments of the metric; of "gower" as in `DBSCAN`.
    cluster_method : {"xi", "dbscan"}, default="xi"
        Valleys between steep areas of the plot, or a cut at `eps`.
    eps : float, default=None
        Of "dbscan": rows of reachability above it begin a new cluster; None is `max_eps`.
    xi : float, default=0.05
        Of "xi": a step of the plot is steep if it changes the reachability by the factor 1 − xi or more.
    predecessor_correction : bool, default=True
        Of "xi": leave out the last rows of a valley that were reached from outside of it.
    min_cluster_size : int or float between 0 and 1, default=None
        Of "xi": the least number of rows of a cluster, or their share; None is `min_samples`.
    algorithm, leaf_size
        Accepted as in scikit-learn; the result does not depend on them.
    memory : str or object with the joblib.Memory interface, default=None
        Where to cache the ordering.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result is the same for every number.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters; −1 is noise.
    ordering_ : ndarray of shape (n_samples,)
        The rows in their order.
    reachability_ : ndarray of shape (n_samples,)
        The reachability of each row, infinite where a new start was needed; `reachability_[ordering_]` is the plot.
    core_distances_ : ndarray of shape (n_samples,)
        c of each row, infinite above `max_eps`.
    predecessor_ : ndarray of shape (n_samples,)
        The row from which each row was reached, −1 for starts.
    cluster_hierarchy_ : ndarray of shape (n_clusters, 2)
        Of "xi": first and last position in `ordering_` of each cluster; larger ones come after those inside of them.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has any.

    Notes
    -----
    The ordering starts at the first row and takes the lower row of two equally reachable ones, so the order of the rows
    matters, as in the original. It matters more than ties suggest: the reachability is not symmetric, so a row that is
    not core is reached from what happens to be visited before it, and a border row visited before its core row is
    noise in a cut. `DensityTree` has the symmetric version, max(c(p), c(o), d(p, o)), in which every cut is a DBSCAN
    and no order of the rows matters (docs/guide/hierarchies.md has figures).

    References
    ----------
    Ankerst, Breunig, Kriegel, Sander: OPTICS: ordering points to identify the clustering structure (SIGMOD 1999).
    Schubert, Gertz: Improving the cluster structure extracted from OPTICS plots (LWDA 2018), for the correction.

    Examples
    --------
    >>> from knoll import OPTICS
    >>> X = [[1.0, 2.0], [2.0, 5.0], [3.0, 6.0], [8.0, 7.0], [8.0, 8.0], [7.0, 3.0]]
    >>> model = OPTICS(min_samples=2).fit(X)
    >>> model.labels_
    array([0, 0, 0, 1, 1, 1])
    >>> model.cut(1.5)
    array([-1,  0,  0,  1,  1, -1])
    """

    _rules: ClassVar = {
        "min_samples": (Number(2, whole=True, remedy=_SIZE), Number(0, 1)),
        "metric_params": (None, Instance((dict,), "a dict")),
        "p": (None, Number(1)),
        "cluster_method": (Choice(("xi", "dbscan")),),
        "xi": (Number(0, 1),),
        "predecessor_correction": (Flag(),),
        "min_cluster_size": (None, Number(2, whole=True, remedy=_SIZE), Number(0, 1)),
        "algorithm": (Choice(("auto", "ball_tree", "kd_tree", "brute")),),
        "leaf_size": (Number(1, whole=True),),
        "n_jobs": N_JOBS,
    }
    _fitted: ClassVar = {
        "labels_": Array("n", "int64", low=-1, below="n"),
        "ordering_": Array("n", "int64", low=0, below="n"),
        "reachability_": Array("n", "float64", low=0, finite=False),
        "core_distances_": Array("n", "float64", low=0, finite=False),
        "predecessor_": Array("n", "int64", low=-1, below="n"),
        "cluster_hierarchy_": Array(
            "h 2", "int64", low=0, below="n", when=lambda model: model.cluster_method == "xi", missing=True
        ),
    }

    def __init__(
        self,
        *,
        min_samples: float = 5,
        max_eps: float = np.inf,
        metric: str | Callable[..., float] = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        cluster_method: str = "xi",
        eps: float | None = None,
        xi: float = 0.05,
        predecessor_correction: bool = True,
        min_cluster_size: float | None = None,
        algorithm: str = "auto",
        leaf_size: int = 30,
        memory: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.min_samples = min_samples
        self.max_eps = max_eps
        self.metric = metric
        self.p = p
        self.metric_params = metric_params
        self.cluster_method = cluster_method
        self.eps = eps
        self.xi = xi
        self.predecessor_correction = predecessor_correction
        self.min_cluster_size = min_cluster_size
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.memory = memory
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.sparse = not self._is_gower()
        return tags

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Order the rows of X, and take clusters from the reachability plot.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
            The points, or their distances where metric="precomputed".
        y : ignored

        Returns
        -------
        OPTICS
            The fitted estimator.
        """
        self._check_parameters()
        params = self.metric_params
        if self._is_gower():
            points, columns = read_gower(X, self.metric_params, estimator=self)
            params = {GOWER_COLUMNS: columns["weights"]}
        else:
            points = self._boolean(X, check_points(X, estimator=self, sparse=True, n_jobs=self._threads()))
        self._check_data(points)
        compute = check_memory(self.memory).cache(order_of, ignore=["threads"])
        self.ordering_, self.core_distances_, self.reachability_, self.predecessor_ = compute(
            points,
            self._rows(self.min_samples, points.shape[0]),
            float(self.max_eps),
            self.metric,
            params,
            self.p,
            self._threads(),
        )
        if np.isinf(self.reachability_).all():
            warn_caller(
                "OPTICS: All reachability values are inf. Set a larger max_eps or all data will be considered "
                "outliers.",
                SuspiciousResultWarning,
            )
        self.__dict__.pop("cluster_hierarchy_", None)  # of an earlier fit
        if self.cluster_method == "xi":
            self.cluster_hierarchy_, self.labels_ = self._xi_clusters()
        else:
            self.labels_ = self.cut(self.max_eps if self.eps is None else self.eps)
        return self

    def cut(self, eps: float) -> Ints:
        """Return the clusters at a radius, without another ordering: rows of reachability above it begin a new one.

        They are those of `DBSCAN(eps, min_samples)`, except that a border row that was visited before its core row is
        noise here.

        Parameters
        ----------
        eps : float
            The radius, at most `max_eps`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters in the order of the rows visited; −1 is noise.
        """
        check_is_fitted(self)
        if not isinstance(eps, numbers.Real) or not 0 <= float(eps) <= self.max_eps:
            raise InvalidParameter(
                f"OPTICS: Specify an epsilon smaller than {self.max_eps}. Got {eps!r}; it must be from 0 to max_eps."
            )
        return cut_reachability(self.reachability_, self.core_distances_, self.ordering_, eps)

    def _xi_clusters(self) -> tuple[Ints, Ints]:
        n = len(self.ordering_)
        least = self.min_samples if self.min_cluster_size is None else self.min_cluster_size
        found = clusters_by_xi(
            self.reachability_[self.ordering_],
            self.predecessor_[self.ordering_] if self.predecessor_correction else None,
            self.ordering_,
            float(self.xi),
            self._rows(self.min_samples, n),
            self._rows(least, n),
        )
        return found, labels_of_clusters(self.ordering_, found)

    @staticmethod
    def _rows(size: float, n: int) -> int:
        """Return a number of rows; a fraction is a share of them, and at least two rows."""
        return max(2, int(size * n)) if size <= 1 else int(size)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("min_samples", "min_cluster_size"):
            size = getattr(self, name)
            if isinstance(size, numbers.Integral) and int(size) < 2:
                raise InvalidParameter(f"OPTICS: {name} must be >= 2, or a share of the rows below 1, got {size!r}.")
        for name in ("max_eps", "eps"):
            value = getattr(self, name)
            if name == "eps" and value is None:
                continue
            if not isinstance(value, numbers.Real) or isinstance(value, bool) or not float(value) >= 0:
                raise InvalidParameter(f"OPTICS: {name} must be >= 0, got {value!r}.")
        if not isinstance(self.metric, str) and not callable(self.metric):
            raise InvalidParameter(f"OPTICS: metric must be a name or a callable, got {self.metric!r}.")
        if self.cluster_method == "dbscan" and self.eps is not None and self.eps > self.max_eps:
            raise InvalidParameter(
                f"OPTICS: Specify an epsilon smaller than {self.max_eps}. Got {self.eps}; eps must be at most max_eps."
            )

    def _boolean(self, X: Any, points: Any) -> Any:
        """Turn points into truth values where the metric is one of those, with a warning if they were none."""
        if not isinstance(self.metric, str) or self.metric not in PAIRWISE_BOOLEAN_FUNCTIONS:
            return points
        if getattr(X, "dtype", None) != np.bool_:
            warn_caller(
                f"Data will be converted to boolean for metric {self.metric}, to avoid this warning, you may convert "
                "the data prior to calling fit.",
                DataConversionWarning,
            )
        return points.astype(np.bool_)

    def _check_data(self, points: Any) -> None:
        n = points.shape[0]
        for name in ("min_samples", "min_cluster_size"):
            size = getattr(self, name)
            if size is not None and self._rows(size, n) > n:
                raise BadData(
                    f"OPTICS: {name} must be no greater than the number of samples ({n}). Got {size}. Take a smaller "
                    f"{name}; n_samples={n}."
                )
        if self.metric == "precomputed":
            if points.shape[0] != points.shape[1]:
                raise BadData(f"OPTICS: precomputed distances must be a square matrix, got the shape {points.shape}.")
            values = points if isinstance(points, np.ndarray) else points.data
            if values.size and values.min() < 0:
                raise BadData(f"OPTICS: precomputed distances must be >= 0, got {values.min()!r}.")

    def _cost(self, n: int, d: int) -> Cost:
        """Estimate memory and pairs: the core visits some of the rows in a step, other metrics all."""
        if core_metric(self.metric, self.metric_params, self.p) in _CORE_METRICS:
            seconds, pairs = 2e-5 * n * (1 + d / 8), 200.0 * n
        else:
            seconds, pairs = 2e-8 * n * n * (1 + d), float(n) * n
        memory = n * (24 * d + 200) + (1 << 21)
        return Cost(
            "ordering",
            memory,
            pairs,
            Seconds(seconds, seconds / 20, 1e-8 * n * n * d + 20 * seconds + 0.2),
            "fewer rows",
        )


# ---- the ordering ---------------------------------------------------------------------------------------------------


def cut_reachability(reachability: Floats, core_distances: Floats, ordering: Ints, eps: float) -> Ints:
    """Label the rows at a radius: a core row of reachability above it begins a cluster, other such rows are noise."""
    far, core = reachability[ordering] > eps, core_distances[ordering] <= eps
    labels = np.empty(len(ordering), np.int64)
    labels[ordering] = np.where(far & ~core, -1, np.cumsum(far & core) - 1)
    return labels


def order_of(
    points: Any,
    min_samples: int,
    max_eps: float,
    metric: str | Callable[..., float],
    metric_params: dict[str, Any] | None,
    p: float | None,
    threads: int,
) -> Ordering:
    """Order the rows; the core does it where it knows the metric."""
    name = core_metric(metric, metric_params, p)
    if name not in _CORE_METRICS or scipy.sparse.issparse(points):
        return _order_by_rows(_distances_from(points, metric, metric_params, p), points.shape[0], min_samples, max_eps)
    n = points.shape[0]
    # Subnormal distances are multiples of 2^−1074: of tiny points they are compared before they are rounded to that.
    power = min(0, extreme_exponent(largest_of(points), _TINY))
    points, max_eps = times_power(points, -power), float(times_power(max_eps, -power))
    core = DensityTree(min_samples, metric=name, n_jobs=threads).fit(points).core_distances_
    order, reach, predecessor = np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64)
    _core.optics_order(points, core, max_eps, name, order, reach, predecessor, threads)
    core = np.where(core > max_eps, np.inf, core)
    return order, times_power(core, power), times_power(reach, power), predecessor


def _distances_from(
    points: Any, metric: str | Callable[..., float], metric_params: dict[str, Any] | None, p: float | None
) -> Callable[[Ints], Floats]:
    """Return a function of rows: their distances to all rows, infinite where a sparse matrix has none."""
    if metric == "precomputed":
        return lambda rows: _matrix_rows(points, rows)
    name = core_metric(metric, metric_params, p)
    options = dict(metric_params or {}) if name in (None, "gower") else {}
    if "minkowski" in (name, metric if name is None else ""):
        options["p"] = minkowski_power(metric_params, p)
    metric = metric if name is None else name

    def distances(rows: Ints) -> Floats:
        return metric_distances(points[rows], points, metric, options, "OPTICS")

    return distances


def _matrix_rows(matrix: Any, rows: Ints) -> Floats:
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix[rows], dtype=np.float64)
    found = np.full((len(rows), matrix.shape[1]), np.inf)
    for i, row in enumerate(rows.tolist()):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        found[i, matrix.indices[span]] = matrix.data[span]
        found[i, row] = 0.0 if np.isinf(found[i, row]) else found[i, row]  # a row is its own neighbour
    return found


def _order_by_rows(distances: Callable[[Ints], Floats], n: int, min_samples: int, max_eps: float) -> Ordering:
    """Visit the row of least reachability n times; each visit takes its distances to all rows."""
    core, step = np.empty(n), max(1, _BLOCK // n)
    for begin in range(0, n, step):
        rows = np.arange(begin, min(n, begin + step))
        core[rows] = np.partition(distances(rows), min_samples - 1, axis=1)[:, min_samples - 1]
    core[core > max_eps] = np.inf
    order, reach, predecessor = np.empty(n, np.int64), np.full(n, np.inf), np.full(n, -1, np.int64)
    left = np.ones(n, dtype=bool)
    for position in range(n):
        rows = np.flatnonzero(left)
        row = rows[np.argmin(reach[rows])]
        order[position], left[row] = row, False
        if np.isinf(core[row]):
            continue
        away = distances(np.array([row]))[0]
        offered = np.maximum(core[row], away)
        better = left & (away <= max_eps) & (offered < reach)
        reach[better], predecessor[better] = offered[better], row
    return order, core, reach, predecessor
