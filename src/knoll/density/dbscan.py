"""DBSCAN: clusters are the components of the graph "within ε" on the core points, |N_ε(x)| ≥ minPts (eq. 5.11)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from knoll import _core
from knoll._common.blocks import BlockSource
from knoll._common.cost import Cost
from knoll._common.label_folder import LabelFolder
from knoll._format import parse_bytes
from knoll._schema import Array, Text, not_columns
from knoll._system import free_memory
from knoll._typing import Bools, Floats, Indices, Ints
from knoll.base import FitPredictMixin, all_or_nothing, warn_caller
from knoll.density.core_graph import Workspace
from knoll.density.formulations import FORMULATIONS, Formulation
from knoll.density.geography import radius_in_radians
from knoll.density.noise import nearest_labels
from knoll.density.radius_search import IndexSearch, Search, choose_search
from knoll.density.region_fit import RegionFit, Rule
from knoll.engines import lazily
from knoll.exceptions import BadData, CostError, InvalidParameter, ModelFileError, SuspiciousResultWarning
from knoll.neighbors.gower import ReadsGower, gower_columns_rule, read_gower_again
from knoll.neighbors.metric_names import core_metric, minkowski_power
from knoll.validation import N_JOBS, Choice, Instance, Number, check_points, check_weights

_SAMPLE = 512  # rows whose neighbourhoods are counted for an estimate of the cost
_PER_ROW = 88  # bytes that the core keeps for a row: cells and their order, labels, marks, the union-find
_FEW = 0.01  # of the rows: fewer core points than that are almost none
_METRICS_OF_REGIONS = ("euclidean", "manhattan", "chebyshev")  # |x_j - y_j| is at most the distance
_WARNED_FROM = 20  # rows: on less data a warning would mean nothing


def _bytes(memory: Any) -> int:
    """Read a number of bytes, or a text such as 4GB."""
    try:
        size = parse_bytes(memory) if isinstance(memory, str) else int(memory)
    except (TypeError, ValueError):
        size = 0
    if size < 1:
        raise InvalidParameter(f"DBSCAN: memory must be a number of bytes > 0 or a text such as '4GB', got {memory!r}.")
    return size


class DBSCAN(FitPredictMixin, ClusterMixin, ReadsGower):
    """Density-based clusters, in the paper's three formulations, exact, in memory linear in the number of rows.

    A row is *core* when at least `min_samples` rows, itself included, lie within `eps` of it. Core points within `eps`
    of each other are in one cluster. A row that is not core but has a core point within `eps` is on the *border* of a
    cluster; any other is noise, label −1.

    Parameters
    ----------
    eps : float or str, default=0.5
        The radius ε; a distance equal to it is inside. `knoll.scales.estimate_eps` suggests one. With
        ``metric="haversine"`` it may be a length on the Earth, such as "50m" or "1.5 km".
    min_samples : int, default=5
        How many rows, or how much weight, make a core point; 2·n_features is common for larger data.
    metric : str or callable, default="euclidean"
        "euclidean" ("l2"), "manhattan" ("l1", "cityblock"), "chebyshev", "minkowski", "cosine" and "haversine"
        (radians) are fast, and so is "gower", for tables of numbers and categories with missing values; "precomputed"
        takes a matrix of distances, dense or sparse; any other metric of scikit-learn's `pairwise_distances` or a
        callable is computed in blocks, n² distances in linear memory.
    metric_params : dict, default=None
        Further arguments of the metric; of "gower": "categorical_features" (a mask, indices or names; by default the
        columns of a data frame that are text, categories or Boolean), "ranges" and "weights", one for each column.
    algorithm, leaf_size
        Accepted as in scikit-learn. The index is chosen by shape and radius; the labels do not depend on it.
    p : float, default=None
        The power of the Minkowski metric; None is 2.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The labels are the same for every number.
    formulation : {"graph", "spectral", "climbing"}, default="graph"
        "spectral" finds the same clusters from the eigenvectors of eigenvalue one, and refuses where float64 cannot
        decide. "climbing" is the paper's step towards Mean Shift: every row moves to the mean of its neighbours
        until it has `min_samples` of them. It is not the same algorithm (docs/theory/errata.md, item 4).
    border : {"closest", "first", "noise"}, default="closest"
        The cluster of a border point: that of its closest core point, which no order of the rows changes; the first
        cluster that reaches it, as in scikit-learn; or none (DBSCAN*).
    noise : {"keep", "nearest"}, default="keep"
        Whether rows in no cluster stay noise, or have the label of the nearest row that is in one; of equally near rows
        the one with the smallest coordinates counts.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters, numbered by their first core row; −1 is noise.
    clustered_ : ndarray of shape (n_samples,) or None
        Whether a row is in a cluster by density alone, with noise="nearest".
    core_sample_indices_ : ndarray of shape (n_core_samples,)
        The core rows.
    components_ : ndarray of shape (n_core_samples, n_features)
        The core points.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has any.
    gower_columns_ : dict
        With metric="gower", what rows are read by: is_categorical, categories (their levels), lows and ranges of the
        numbers, weights (negative ones of categories). `components_` then holds (x − low)/range, numbers of levels,
        and the largest float64 for what is missing.

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
        "eps": (
            Number(0, strict=True, remedy="knoll.scales.estimate_eps(X) suggests a value."),
            Instance((str,), "a length such as '50m'"),
        ),
        "min_samples": (Number(1, whole=True, remedy="A row counts itself, so 1 makes every row a core point."),),
        "metric_params": (None, Instance((dict,), "a dict")),
        "algorithm": (Choice(("auto", "ball_tree", "kd_tree", "brute")),),
        "leaf_size": (Number(1, whole=True),),
        "p": (None, Number(0, strict=False)),
        "n_jobs": N_JOBS,
        "formulation": (Choice(("graph", "spectral", "climbing")),),
        "border": (Choice(("closest", "first", "noise")),),
        "noise": (Choice(("keep", "nearest")),),
    }
    _fitted: ClassVar = {
        "labels_": Array("n", "int64", low=-1, below="n", also=not_columns),
        "core_sample_indices_": Array("c", "int64", low=0, below="n", increasing=True),
        "components_": Array("c d", sparse=True),
        "other_points_": Array(
            "o d",
            sparse=True,
            when=lambda model: not model._pairwise(),
            also=lambda model, _: model._split_fault(),
        ),
        "fit_weights_": Array(
            "n", "float64", none=True, also=lambda model, weights: model._formulation().weight_fault(weights)
        ),
        "graph_digest_": Text(),
        "gower_columns_": gower_columns_rule(),
        "clustered_": Array(
            "n",
            "bool",
            when=lambda model: model.noise == "nearest",
            missing=True,
            also=lambda model, _: model._clustered_fault(),
        ),
        "climbed_": Array("n d", "float64", when=lambda model: model.formulation == "climbing", missing=True),
        "climbed_labels_": Array(
            "n", "int64", low=-1, below="n", when=lambda model: model.formulation == "climbing", missing=True
        ),
    }

    def __init__(
        self,
        eps: float | str = 0.5,
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
        noise: str = "keep",
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
        self.noise = noise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._pairwise()
        tags.input_tags.sparse = not self._is_gower()
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
        self._check_parameters()
        self._warn_of_two_powers()
        points = self._points(X, sample_weight)
        search, weights = self._check_data(points, sample_weight)
        for name in ("climbed_", "climbed_labels_", "clustered_", "cluster_sizes_", "regions_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        formulation = self._formulation()
        absent = np.empty(0, dtype=np.intp) if weights is None else np.flatnonzero(weights == 0)
        if weights is None or not len(absent):
            clusters = formulation.cluster(self, search, points, weights)
        else:
            rows = np.flatnonzero(weights)
            clusters = formulation.cluster(self, search, search.select(points, rows, rows), weights[rows])
            clusters = clusters.among(rows, points.shape[0])
        core = clusters.core
        self.core_sample_indices_, self.components_, others = self._split(points, core, clusters.workspace)
        self.labels_ = clusters.labels
        self.other_points_ = None if self._pairwise() else others
        self.fit_weights_ = None if weights is None else np.concatenate([weights[core], weights[~core]])
        self.graph_digest_ = search.digest(points)
        formulation.keep(self, clusters, points, weights, absent)
        if len(absent):
            self.labels_[absent] = formulation.predict(self, search, points[absent])
        n, n_core, found = (
            len(clusters.labels),
            len(self.core_sample_indices_),
            int(clusters.labels.max(initial=-1)) + 1,
        )
        self._warn_of(n, n_core, found, bool(clusters.labels.min() < 0), estimate=search.takes_estimate())
        if self.noise == "nearest":
            self._fill_noise(points, absent)
        return self

    @all_or_nothing
    def fit_blocks(
        self,
        make_blocks: Callable[[], Iterable[Any]],
        *,
        labels: str | os.PathLike[str] | Callable[[Ints], Any] | None = None,
        form: str = "npy",
        memory: int | str | None = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Find the clusters of data that comes in blocks, such as a file larger than memory.

        The rows are read once and written to scratch, cut into regions that fit into memory, each with the rows within
        2ε of it, and clustered region by region. The labels are those of `fit`, to the bit, for any blocks, memory and
        cuts.

        Parameters
        ----------
        make_blocks : callable
            Returns an iterator over blocks of rows: arrays, or pairs (array, sample_weight). Weights are >= 0.
        labels : path or callable, optional
            A folder to be made, in which every block that has rows has a file, part-00000 and so on: all of them, or
            none. Or a function that is called with the labels of some rows at a time, in order. None: `labels_`, in
            memory.
        form : {"npy", "parquet"}, default="npy"
            Of the files: arrays of labels, or tables of the columns `label` and `core`.
        memory : int or str, optional
            Bytes to work in, or a text such as "4GB"; half of the free memory if None. `labels_` comes on top.
        scratch : path, optional
            A folder on a disk with room for the rows, three times over or so. None: that of temporary files.

        Returns
        -------
        DBSCAN
            The estimator itself. It keeps no core points: `predict` needs a fit of a sample.

        Raises
        ------
        CostError
            Where regions cannot be made small enough: many columns, or an `eps` that is large beside the data.

        Notes
        -----
        This is for border="closest" or "noise", noise="keep", formulation="graph", and the metrics euclidean, manhattan
        and chebyshev. Beside `labels_` there are `cluster_sizes_` and `regions_`, which counts rows, core rows, noise,
        regions, rows in halos, and bytes on scratch.

        Examples
        --------
        >>> import numpy as np
        >>> from knoll import DBSCAN
        >>> X = np.random.default_rng(0).normal(size=(10_000, 2)).round(2)
        >>> model = DBSCAN(eps=0.1).fit_blocks(lambda: np.array_split(X, 7), memory="200kB")
        >>> bool((model.labels_ == DBSCAN(eps=0.1).fit(X).labels_).all())
        True
        """
        self._check_parameters()
        self._warn_of_two_powers()
        rule = self._region_rule()
        folder = Path(tempfile.gettempdir() if scratch is None else scratch)
        bound = free_memory() // 2 if memory is None else _bytes(memory)
        source = BlockSource(make_blocks, self)
        for name in (*self._fitted, "clustered_", "cluster_sizes_", "regions_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        with contextlib.ExitStack() as stack:
            files: LabelFolder | None = None
            if labels is not None and not callable(labels):
                files = stack.enter_context(LabelFolder(Path(labels), form))
            fit = stack.enter_context(RegionFit(rule, bound, folder, self))
            fit.read(source(), source.names)
            if not fit.rows:
                raise BadData("DBSCAN: make_blocks() gave no rows. Give at least one block with one row.")
            if not fit.present:
                raise BadData("DBSCAN: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
            fit.solve()
            if files is not None:
                files.begin(fit.lengths)
                self._hand_out(fit, files.write)
            elif callable(labels):
                self._hand_out(fit, lambda found, _: labels(found))
            else:
                self.labels_ = np.empty(fit.rows, dtype=np.int64)
                self._hand_out(fit, None)
        found = self.regions_
        self._warn_of(found["rows"], found["core"], len(self.cluster_sizes_), found["noise"] > 0, estimate=True)
        return self

    def _region_rule(self) -> Rule:
        """Refuse what is not a function of the rows within ε; return what decides labels."""
        wrong = [
            f"{name}={value!r}"
            for name, value, right in (
                ("formulation", self.formulation, self.formulation == "graph"),
                ("border", self.border, self.border != "first"),
                ("noise", self.noise, self.noise == "keep"),
            )
            if not right
        ]
        if wrong:
            raise InvalidParameter(
                f"DBSCAN: fit_blocks has no {wrong[0]}, which needs all rows at once. Take the default, or fit a "
                "sample of the rows and predict the others."
            )
        metric = core_metric(self.metric, self.metric_params, self.p)
        if metric not in _METRICS_OF_REGIONS:
            raise CostError(
                f"DBSCAN: fit_blocks cuts the rows into regions along their columns, which metric={self.metric!r} does "
                f"not allow. Take {', '.join(_METRICS_OF_REGIONS)}, or fit a sample of the rows and predict the others."
            )
        power = minkowski_power(self.metric_params, self.p)
        return Rule(IndexSearch(self._radius(), self._threads(), metric, power), self.min_samples, self.border)

    def _hand_out(self, fit: RegionFit, write: Callable[[Ints, Bools], Any] | None) -> None:
        """Hand labels and core flags to a function, or fill `labels_`; count them."""
        sizes, row = np.zeros(fit.clusters, dtype=np.int64), 0
        for found in fit.labels():
            sizes += np.bincount(found.labels[found.labels >= 0], minlength=fit.clusters)
            if write is None:
                self.labels_[row : row + len(found.labels)] = found.labels
            else:
                write(*found)
            row += len(found.labels)
        self.cluster_sizes_ = sizes
        self.regions_ = {
            "rows": fit.rows,
            "core": fit.core_rows,
            "noise": fit.rows - int(sizes.sum()),
            "regions": fit.regions,
            "halo_rows": fit.halo_rows,
            "scratch_bytes": fit.scratch_bytes,
        }

    def _points(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Any:
        """Read the rows of a fit."""
        self.__dict__.pop("gower_columns_", None)  # of an earlier fit
        if self._is_gower():
            return self._fit_gower(X, sample_weight)
        return check_points(X, estimator=self, sparse=True, n_jobs=self._threads())

    def _fill_noise(self, points: Any, absent: Indices) -> None:
        """Give noise the labels of the nearest clustered rows; rows of weight 0 give theirs to no other."""
        self.clustered_ = self.labels_ >= 0
        others = np.flatnonzero(~self.clustered_)
        known = self.labels_.copy()
        known[absent] = -1
        self.labels_[others] = self._nearest(points[others], points, known)

    def _nearest(self, queries: Any, points: Any, labels: Ints) -> Ints:
        """Return the labels of the nearest rows that have one."""
        options: dict[str, Any] = {"metric": self.metric, "metric_params": self._core_params(), "p": self.p}
        if not queries.shape[0]:
            return np.empty(0, dtype=np.int64)
        return nearest_labels(queries, points, labels, threads=self._threads(), **options)

    def _split(self, points: Any, core: Bools, workspace: Workspace | None) -> tuple[Indices, Any, Any]:
        """Return the numbers of the core points, copies of them, and copies of the other rows."""
        if not isinstance(points, np.ndarray):
            return np.flatnonzero(core), points[core], points[~core]
        n_core, d = int(np.count_nonzero(core)), points.shape[1]
        rows, cores = (workspace or Workspace.of(n_core, d)).reuse(n_core, d, points.dtype)
        others = np.empty((len(core) - n_core, d), dtype=points.dtype)
        _core.split_rows(points, core, rows, cores, others, self._threads())
        return rows.astype(np.intp, copy=False), cores, others

    def _warn_of_two_powers(self) -> None:
        if self.p is not None and "p" in (self.metric_params or {}):
            warn_caller(
                "Parameter p is found in metric_params. The corresponding parameter from __init__ is ignored.",
                SyntaxWarning,
            )

    def _check_data(self, points: Any, sample_weight: ArrayLike | None) -> tuple[Search, Floats | None]:
        """Choose the search; check points and weights."""
        search = self._search(points)
        search.check(points, points.shape[0])
        weights = check_weights(sample_weight, points.shape[0], owner="DBSCAN", negative=True)
        self._formulation().check_data(points, weights)
        return search, weights

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.metric, str) and not callable(self.metric):
            raise InvalidParameter(f"DBSCAN: metric must be a name or a callable, got {self.metric!r}.")
        self._radius()
        self._formulation().check_metric(self.metric, core_metric(self.metric, self.metric_params, self.p))
        if self.metric == "minkowski" and (power := minkowski_power(self.metric_params, self.p)) < 1:
            raise InvalidParameter(f"DBSCAN: p must be >= 1 for a metric, got {power!r}.")

    def _pairwise(self) -> bool:
        """Return whether X is a matrix of distances."""
        return bool(self.metric == "precomputed")

    def _radius(self) -> float:
        return radius_in_radians(self.eps, self.metric, "DBSCAN")

    def _search(self, points: Any) -> Search:
        return choose_search(points, self._radius(), self.metric, self._core_params(), self.p, self._threads())

    def _formulation(self) -> Formulation:
        return FORMULATIONS[self.formulation]

    # ---- other points ----------------------------------------------------------------------------------------------

    @lazily
    def predict(self, X: ArrayLike) -> Ints:
        """Label points: the cluster of a core point within ε, by the rule of `border`; −1 where there is none.

        With noise="nearest" such a point has the label of the nearest row of a cluster instead. The points are not
        added to the counts of the fit; `predict(X)` of the fitted X is `labels_`. With formulation="climbing" a point
        ascends in the fitted data, and takes the cluster of the closest end of a row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples) distances
            The points, or their distances to the rows of the fit where metric="precomputed".

        Returns
        -------
        ndarray of shape (n_queries,)
            The labels.
        """
        queries = self._queries(X)
        labels = self._formulation().predict(self, self._search(queries), queries)
        if self.noise == "nearest" and (labels < 0).any():
            others = np.flatnonzero(labels < 0)
            labels[others] = self._nearest(queries[others], *self._labelled_rows())
        return labels

    def _labelled_rows(self) -> tuple[Any, Ints]:
        """Return the rows of the fit and the labels by density of those of weight > 0, in one order."""
        labels = np.where(self._is_clustered(), self.labels_, -1)
        core = np.zeros(len(labels), dtype=np.bool_)
        core[self.core_sample_indices_] = True
        order = np.concatenate([np.flatnonzero(core), np.flatnonzero(~core)])  # of fit_weights_
        if self.fit_weights_ is not None:
            labels[order[self.fit_weights_ == 0]] = -1
        return (None, labels) if self._pairwise() else (self._fitted_points(), labels[order])

    def _is_clustered(self) -> Bools:
        """Return whether each row of the fit is in a cluster by density."""
        clustered: Bools | None = getattr(self, "clustered_", None)
        return self.labels_ >= 0 if clustered is None else clustered

    @lazily
    def predict_kind(self, X: ArrayLike) -> NDArray[np.str_]:
        """Classify points among the fitted data: "core", "border" or "noise".

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
        return self._formulation().predict_kind(self, self._search(queries), queries)

    def _queries(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        if fault := self._without_rows():
            raise InvalidParameter(fault)
        if self._is_gower():
            return read_gower_again(X, self.gower_columns_, estimator=self)
        queries = check_points(X, estimator=self, reset=False, sparse=True, n_jobs=self._threads())
        self._search(queries).check(queries, len(self.labels_))
        if self._pairwise() or scipy.sparse.issparse(queries) == scipy.sparse.issparse(self.components_):
            return queries
        return scipy.sparse.csr_array(queries) if isinstance(queries, np.ndarray) else queries.toarray()

    def _split_fault(self) -> str:
        """Return what keeps `components_` and `other_points_` from being the rows of the fit, or ""."""
        cores: Any = self.components_
        others: Any = self.other_points_
        if type(cores) is not type(others) or cores.dtype != others.dtype:
            return "is another type of array than components_"
        if cores.shape[0] + others.shape[0] != len(self.labels_):
            return f"and components_ have {cores.shape[0] + others.shape[0]} rows, and there are {len(self.labels_)}"
        return ""

    def _clustered_fault(self) -> str:
        """Return what keeps `clustered_` from being the rows with a label by density, or ""."""
        clustered: Any = self.clustered_
        if not clustered[self.core_sample_indices_].all():
            return "must be true for core rows"
        return "" if (self.labels_[clustered] >= 0).all() else "must be false where the label is -1"

    def _without_rows(self) -> str:
        """Return what a fit in blocks cannot do, or "" where the model has its rows."""
        if hasattr(self, "core_sample_indices_") or not hasattr(self, "regions_"):
            return ""
        return (
            "DBSCAN: fit_blocks gives labels and keeps no core points, so there is nothing to save or to predict by. "
            "Fit a sample of the rows with fit."
        )

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fitted estimator as a header that JSON can hold and a mapping of arrays, as every estimator does.

        Returns
        -------
        tuple
            The header and the arrays.
        """
        if fault := self._without_rows():
            raise ModelFileError(fault)
        return super().to_state()

    def _fitted_points(self) -> Any:
        """Return the rows of the fit, core points first: the order of `fit_weights_`."""
        rows = [self.components_, self.other_points_]
        return np.concatenate(rows) if isinstance(rows[0], np.ndarray) else scipy.sparse.vstack(rows, format="csr")

    # ---- before and after a fit ------------------------------------------------------------------------------------

    def estimate_cost(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Cost:
        """Estimate memory and work of a fit, from the shape of the data and a sample of neighbourhoods.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) distances
            The points.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights.

        Returns
        -------
        Cost
            Memory beyond X, links of the graph, and in `details` the neighbours of a row and the share of core points.
        """
        self._check_parameters()
        model = copy(self)  # which reads the rows as a fit does
        points = model._points(X, sample_weight)
        search, weights = model._check_data(points, sample_weight)
        n, d = points.shape
        rows = np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.intp))
        sample = points[rows]
        counts = search.count(sample, points, rows)
        core = counts >= self.min_samples
        if weights is not None:
            core = search.has_enough(sample, points, self.min_samples, weights)
        share = float(core.mean())
        memory = _PER_ROW * n + 2**20 + self._formulation().memory(search, n, d, share)
        figures = {"neighbours": float(counts.mean()), "core_share": share}
        remedy = "formulation='graph', which stores no link" if self.formulation != "graph" else "fewer rows"
        return Cost(self.formulation, memory, figures["neighbours"] * n, None, remedy, figures)

    def _warn_of(self, n: int, n_core: int, found: int, noise: bool, *, estimate: bool) -> None:
        """Warn where the result is defined but suspicious: of n rows, n_core are core, in so many clusters."""
        if n < _WARNED_FROM:
            return
        eps = self.eps if isinstance(self.eps, str) else f"{self.eps:g}"
        if estimate:
            suggestion = f"knoll.scales.estimate_eps(X, {self.min_samples}) suggests an eps."
        else:
            suggestion = f"sorted distances to the {self.min_samples}th neighbour show a range of values."
        if found == 0:
            text = (
                f"all {n} points are noise: no row has min_samples={self.min_samples} rows within eps={eps}. "
                f"Take a larger eps or a smaller min_samples; {suggestion}"
            )
        elif found == 1 and not noise:
            text = f"all {n} points are in one cluster. If you expected more, eps={eps} is too large; {suggestion}"
        elif n_core < _FEW * n and self._formulation().warns_of_few_core:
            text = (
                f"only {n_core} of {n} points are core points. eps={eps} is too small for "
                f"min_samples={self.min_samples}; {suggestion}"
            )
        else:
            return
        warn_caller(f"DBSCAN: {text}", SuspiciousResultWarning)
