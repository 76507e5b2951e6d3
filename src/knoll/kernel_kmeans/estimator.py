"""Weighted kernel k-means: minimise J(r) = Σ_c Σ_{i∈Γ_c} w_i ‖φ(x_i) − m_c‖² (docs/theory/notation.md, eq. 4.1).

init.py makes the starts, steps.py alternates, means.py keeps the means, prediction.py labels other rows.
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from knoll import kernels, scales
from knoll._common.cost import Cost
from knoll._common.loop import live
from knoll._common.rescale import affinity_exponent, near_one, product_exponent, times_power
from knoll._common.sparse import check_compressed, is_sparse
from knoll._common.unique_rows import equal_rows, row_digests
from knoll._schema import Array, Columns, Real, Text, Whole, not_all, not_columns
from knoll._typing import Floats, Ints, Labels
from knoll.base import FitPredictMixin, all_or_nothing
from knoll.engines import lazily
from knoll.exceptions import BadData
from knoll.kernel_kmeans import steps
from knoll.kernel_kmeans.cost import estimate
from knoll.kernel_kmeans.diagnostics import warn_of
from knoll.kernel_kmeans.init import Starts, check_init, runs_of
from knoll.kernel_kmeans.means import Means, Problem
from knoll.kernel_kmeans.prediction import MOST, Kept
from knoll.kernels.operators import check_matrix
from knoll.neighbors.gower import ReadsGower, gower_columns_rule, read_gower_again
from knoll.validation import (
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    Choice,
    Flag,
    Instance,
    Number,
    check_points,
    check_weights,
    draw_seed,
)

_APART = 2.0**500  # between the largest and the smallest weight: their squares must stay within float64


class KernelKMeans(FitPredictMixin, ClusterMixin, ReadsGower):
    """k-means in the feature space of a kernel, with weights; K itself is never stored.

    Alternates two steps until no row changes cluster: assign each row to the closest mean in feature space, by
    ‖φ(x_i) − m_c‖² = K_ii − 2 Σ_{j∈c} w_j K_ij / s_c + Σ_{j,l∈c} w_j w_l K_jl / s_c², and take the means of the new
    clusters. Each lowers J(r) = Σ_i w_i ‖φ(x_i) − m_{r(i)}‖². The answer is a fixed point of the alternation; with
    `local_search` one that no single move improves either.

    Parameters
    ----------
    n_clusters : int, default=8
        k, the number of clusters.
    kernel : str, callable or kernel of `knoll.kernels`, default="rbf"
        "rbf" (or "gaussian"), "poly", "linear", "heaviside"; "gower": one less Gower's distance, for tables of numbers
        and categories with missing values; "precomputed": X is the kernel matrix, dense or sparse; or
        a function of two rows, or of two arrays of rows.
    gamma, sigma : float, default=None
        The width of the Gaussian kernel: γ = 1/(2σ²). If both are None, `knoll.scales.estimate_sigma` estimates it, see
        `sigma_`.
    degree, coef0 : int, float, default=3, 1.0
        The polynomial kernel (xᵀy + coef0)^degree.
    eps : float, default=None
        The radius of the Heaviside kernel.
    init : {"k-means++", "random", "spectral"} or array of whole numbers, default="k-means++"
        The start. "k-means++" draws rows far apart in feature space (greedily, the best of a few each time), "random"
        draws rows; both by weight, equal rows counting together. "spectral" solves the relaxed problem, and rounds it
        by k-means from the rows that "k-means++" draws. An array of n_samples labels is a partition, one of n_clusters
        indices names rows to begin with; where the two numbers are equal, it is labels.
    n_init : "auto" or int, default="auto"
        Runs from different starts; the one with the smallest objective is kept, the first of those that are equal to
        rounding. "auto" is 10 for "random", 1 otherwise.
    max_iter : int, default=300
        At most so many steps a run.
    tol : float, default=0.0
        Stop when a step lowers J by no more than tol · J. With 0 only at a fixed point, or when steps leave J as it is
        up to rounding.
    local_search : bool, default=False
        At a fixed point, move single rows (with their copies) as long as a move lowers J, the best one first.
    empty_clusters : {"relocate", "keep"}, default="relocate"
        What becomes of a cluster that lost all its rows: it takes the row (with its copies) that is farthest from its
        mean in feature space, or it stays empty.
    verbose : int, default=0
        Print each step.
    random_state : int, RandomState, Generator or None, default=None
        Source of the random starts.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.
    kernel_params : dict, default=None
        Further arguments of "gower", those of `DBSCAN`'s metric.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,) of int32
        The closest mean of each row: `predict` of the training data.
    objective_ : float
        J of the labels about the means.
    trace_objective_ : float
        Tr YᵀW^½KW^½Y = Σ_c q_c/s_c of the partition that the means are of. At a fixed point objective_ is Σ w_i K_ii
        less it.
    normalized_cut_ : float or None
        The normalized cut of that partition, where the kernel is a graph: "precomputed", no similarity below 0. Weights
        count as repetitions: for K = D⁻¹AD⁻¹ and weights D it is that of A, and 1 − trace_objective_/n_clusters.
    n_iter_ : int
        Steps of the run that was kept.
    history_ : dict of ndarray
        iteration, objective, changed (rows that changed cluster), seconds, rechecks.
    sigma_ : float or None
        σ of the Gaussian kernel.
    sigma_reason_ : str
        The reason for it, where it was estimated from the data.
    shift_ : float
        σ of K + σW⁻¹, where a similarity was found not to be positive semi-definite; 0 otherwise. See Notes.
    ties_ : ndarray of int64
        Rows that are equally close to two means; they went to the lower index.
    n_rechecks_ : int
        Decisions that were closer than rounding and were rechecked by exact sums, in all runs.
    n_kernel_values_ : int
        Entries of K that were evaluated for the means, in all runs.
    cluster_weights_ : ndarray of shape (n_clusters,)
        s_c, the weight of each cluster; the number of its rows without weights.
    center_labels_ : ndarray of int32
        The labels that define the means, of the rows of weight > 0; the same as `labels_` at a fixed point.
    fit_points_, fit_weights_ : ndarray, or None
        Those rows (None where K is precomputed) and their weights.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X had any.

    Notes
    -----
    A similarity that is not positive semi-definite (the Heaviside kernel, for example) has no feature space, and a step
    may raise J. When one would, it is not taken; K + σW⁻¹ is used instead, with a σ that grows until J falls. The
    shift changes J of every partition by the same constant, so `objective_` is that of K. A row of the training data
    then stays with its cluster more readily than a new one: `predict` takes a row whose contents were in the fit for
    that row.

    With kernel="precomputed" random starts depend on the order of the rows, since there are no contents to order by.

    Memory is that of G = KWZ, n_samples × n_clusters numbers, beside a few for each row.

    See Also
    --------
    knoll.reference.weighted_kernel_kmeans : the algorithm box, step by step.
    knoll.kernels.normalized_cut : of any partition.

    References
    ----------
    Dhillon, Guan, Kulis: Weighted graph cuts without eigenvectors (2007). Arthur and Vassilvitskii: k-means++ (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from knoll import KernelKMeans, datasets
    >>> data = datasets.circles()
    >>> model = KernelKMeans(2, sigma=0.2, n_init=10, random_state=0).fit(data.X)
    >>> bool((model.predict(data.X) == model.labels_).all())
    True
    """

    _rules: ClassVar = {
        "n_clusters": (Number(1, whole=True),),
        "n_init": (Choice(("auto",)), Number(1, 2**16 - 1, whole=True)),
        "max_iter": (Number(1, whole=True),),
        "tol": (Number(0),),
        "local_search": (Flag(),),
        "empty_clusters": (Choice(("relocate", "keep")),),
        "verbose": VERBOSE,
        "random_state": RANDOM_STATE,
        "n_jobs": N_JOBS,
        "kernel_params": (None, Instance((dict,), "a dict")),
    }
    _fitted: ClassVar = {
        "cluster_weights_": Array("k", "float64", low=0),
        "labels_": Array("n", "int32", low=0, below="k", also=not_columns),
        "present_": Array("p", "int64", low=0, below="n", increasing=True, none=True),
        "center_labels_": Array("p", "int32", low=0, below="k", also=not_all("present_")),
        "center_norms_": Array("k", "float64"),
        "center_errors_": Array("k", "float64", low=0),
        "largest_": Real(0),
        "fit_points_": Array("p d", when=lambda model: not model._precomputed()),
        "fit_weights_": Array("p", "float64", low=0, strict=True, none=True),
        "weight_power_": Whole(-1100, 1100),
        "kernel_power_": Whole(-2200, 2200, missing=True),  # not in files of 0.1.0, nor is the next
        "level_shift_": Real(0, missing=True),
        "shift_": Real(0),
        "row_names_": Array("p", "uint64", when=lambda model: vars(model).get("level_shift_", model.shift_) > 0),
        "sigma_": Real(0, strict=True, when=lambda model: model._is_gaussian()),
        "sigma_reason_": Text(),
        "objective_": Real(finite=False),
        "trace_objective_": Real(finite=False),
        "normalized_cut_": Real(none=True),
        "ties_": Array("*", "int64", low=0, below="n", increasing=True),
        "n_iter_": Whole(),
        "n_rechecks_": Whole(),
        "n_kernel_values_": Whole(),
        "history_": Columns(),
        "gower_columns_": gower_columns_rule(),
    }
    _gower_parameters: ClassVar = ("kernel", "kernel_params")

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        sigma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        eps: float | None = None,
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 0.0,
        local_search: bool = False,
        empty_clusters: str = "relocate",
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
        kernel_params: dict[str, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.sigma = sigma
        self.degree = degree
        self.coef0 = coef0
        self.eps = eps
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.local_search = local_search
        self.empty_clusters = empty_clusters
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.kernel_params = kernel_params

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed()
        tags.input_tags.sparse = self._precomputed()
        return tags

    # ---- fit -------------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or matrix (n_samples, n_samples)
            The points, or the kernel matrix where kernel="precomputed".
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row, in the start too. 0 is an absent row: it is labelled as
            `predict` would.

        Returns
        -------
        KernelKMeans
            The estimator itself.
        """
        points, weights, kernel, reason = self._validate(X, sample_weight)
        n, k, threads = points.shape[0], int(self.n_clusters), self._threads()
        present = None if weights is None or weights.all() else np.flatnonzero(weights)
        if present is not None and self._precomputed():
            check_matrix(points, "the precomputed kernel")  # whole, so that messages name rows of the input
        self.kernel_power_ = self._power_of(points if present is None else self._only(points, present))
        points = self._rescaled(points, -1)
        kept = points if present is None else self._only(points, present)
        weights, power = (None, 0) if weights is None else near_one(weights if present is None else weights[present])
        problem = self._problem(kernel, kept, weights, threads)
        own = None if self._precomputed() else kept
        starts = Starts(self.init, self.n_init, k, problem, own, present, n, draw_seed(self.random_state))
        best: steps.Outcome | None = None
        rechecks = evaluated = 0
        for restart in range(starts.runs):
            found = steps.alternate(
                problem,
                starts(restart),
                k,
                max_iter=int(self.max_iter),
                tol=float(self.tol),
                relocates=self.empty_clusters == "relocate",
                local_search=bool(self.local_search),
                hook=live("KernelKMeans", int(self.verbose)),
            )
            rechecks += int(np.sum(found.history["rechecks"]))
            evaluated += found.means.evaluated
            if best is None or found.objective < best.objective - found.means.doubt - best.means.doubt:
                best = found
        assert best is not None
        self._keep(best, problem, kept, power, kernel, reason)
        self.n_rechecks_, self.n_kernel_values_ = rechecks, evaluated
        if present is None:
            self.labels_, self.ties_ = best.last.labels, best.last.tied
        else:
            self.labels_ = np.empty(n, dtype=np.int32)
            self.labels_[present] = best.last.labels
            absent = np.setdiff1d(np.arange(n), present)
            columns = points[absent][:, present] if self._precomputed() else points[absent]
            self.labels_[absent] = self._assign(columns, absent)
            self.ties_ = present[best.last.tied]
        self.present_ = present
        warn_of(best, problem, kernel, k)
        return self

    def _validate(self, X: Any, sample_weight: Any) -> tuple[Any, Floats | None, kernels.Kernel, str]:
        """Validate parameters and data, once, and make the kernel; also return the reason for its width."""
        self._check_parameters()
        points = self._read_rows(X, sample_weight)
        n = points.shape[0]
        weights = check_weights(sample_weight, n, owner="KernelKMeans")
        if n < self.n_clusters:
            raise BadData(
                f"n_samples={n} should be >= n_clusters={self.n_clusters}. Give more rows, or ask for fewer clusters."
            )
        if weights is not None and weights.max() * (1 / _APART) > weights[weights > 0].min():
            raise BadData(
                f"KernelKMeans: sample_weight goes from {weights[weights > 0].min():.3g} to {weights.max():.3g}: their "
                "squares leave float64. Give weights of more similar size, or 0."
            )
        reason = ""
        if self._estimates_sigma():
            scale = scales.estimate_sigma(points, sample_weight=weights, n_jobs=self.n_jobs)
            return points, weights, self._kernel(float(scale.value)), str(scale.reason)
        return points, weights, self._kernel(None), reason

    def _read_rows(self, X: Any, sample_weight: Any) -> Any:
        """Read the rows of a fit."""
        self.__dict__.pop("gower_columns_", None)  # of an earlier fit
        return self._fit_gower(X, sample_weight) if self._is_gower() else self._points(X, reset=True)

    def _points(self, X: Any, *, reset: bool) -> Any:
        if is_sparse(X):
            check_compressed(X, "KernelKMeans")
        return check_points(X, estimator=self, reset=reset, sparse=self._precomputed(), n_jobs=self._threads())

    def _problem(self, kernel: kernels.Kernel, kept: Any, weights: Floats | None, threads: int) -> Problem:
        cutoff = kernel.cutoff(kept.shape[0]) if isinstance(kernel, kernels.Gaussian) else 0.0
        problem = Problem(
            operator=kernel.operator(kept, threads, cutoff),
            weights=weights,
            definite=kernel.positive_semidefinite is True,
            equal=lambda: equal_rows(kept),
            order=(lambda i: (i,))
            if self._precomputed()
            else (lambda i: tuple(np.asarray(kept[i], dtype=float) + 0.0)),
            threads=threads,
        )
        if not (problem.diagonal <= MOST).all():
            row = int(np.argmax(~(problem.diagonal <= MOST)))
            raise BadData(
                f"KernelKMeans: κ(x, x) is {problem.diagonal[row]:.3g} at row {row}: its values leave float64. "
                "Divide X by its largest value."
            )
        return problem

    def _keep(
        self, best: steps.Outcome, problem: Problem, kept: Any, power: int, kernel: kernels.Kernel, reason: str
    ) -> None:
        means, precomputed = best.means, self._precomputed()

        def up(values: Any) -> Any:  # sums of w κ; beyond float64 they are infinite
            return times_power(values, power + self.kernel_power_)

        self.objective_ = float(up(max(best.objective, 0.0) if problem.definite else best.objective))
        self.trace_objective_ = float(up(means.trace))
        self.normalized_cut_ = _cut(means) if precomputed and _smallest(kept) >= 0 else None
        self.n_iter_ = best.n_iter
        self.history_ = {**best.history, "objective": up(best.history["objective"])}
        self.sigma_ = float(kernel.sigma) if isinstance(kernel, kernels.Gaussian) else None
        self.sigma_reason_ = reason
        self.shift_ = float(min(up(best.shift), np.finfo(np.float64).max))
        self.level_shift_ = float(best.shift)  # for `predict`: weights and similarities near one
        self.cluster_weights_ = times_power(means.masses, power)
        self.weight_power_ = power
        self.center_labels_ = means.labels
        self.center_norms_ = means.norms
        if precomputed:  # K is not kept, and close calls need the exact norms
            self.center_norms_ = np.array([means.exact_norm(c) if means.filled[c] else 0.0 for c in range(means.k)])
        self.center_errors_ = means.error
        self.largest_ = float(problem.reach.max())
        self.fit_points_ = None if precomputed else self._rescaled(kept, 1).copy()
        self.fit_weights_ = times_power(problem.weights, power)
        self.row_names_ = row_digests(kept) if best.shift else None

    # ---- the fitted model --------------------------------------------------------------------------------------------

    @lazily
    def predict(self, X: Any) -> Labels:
        """Return the closest mean of each row in feature space, the lowest index of equally close ones.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), or matrix (n_queries, n_samples)
            The points, or their similarities to the rows of the fit where kernel="precomputed".

        Returns
        -------
        ndarray of shape (n_queries,) of int32
            The labels.
        """
        check_is_fitted(self)
        if self._is_gower():
            return self._assign(read_gower_again(X, self.gower_columns_, estimator=self))
        queries = self._points(X, reset=False)
        if self._precomputed():
            queries = queries if self.present_ is None else queries[:, self.present_]
        return self._assign(self._rescaled(queries, -1))

    def _assign(self, queries: Any, rows: Ints | None = None) -> Labels:
        """Assign rows to the means that were kept; `rows` are their numbers, where they are not 0, 1, …"""
        power = -self.weight_power_
        kept = Kept(
            kernel=self._kernel(self.sigma_),
            points=self._rescaled(self.fit_points_, -1),
            weights=times_power(self.fit_weights_, power),
            labels=self.center_labels_,
            norms=self.center_norms_,
            errors=self.center_errors_,
            largest=self.largest_,
            shift=float(vars(self).get("level_shift_", times_power(self.shift_, power))),
            names=self.row_names_,
        )
        return kept.assign(queries, self._threads(), rows)

    # ---- before a fit ----------------------------------------------------------------------------------------------

    def estimate_cost(self, X: Any) -> Cost:
        """Estimate the cost of a fit, from the data and a product of a few rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or matrix (n_samples, n_samples)
            The points, or the kernel matrix where kernel="precomputed".

        Returns
        -------
        Cost
            The operator, memory beyond X at most, kernel values for the first products and for a step, seconds.
        """
        self._check_parameters()
        model = copy(self)  # which reads the rows as a fit does
        points, kernel = model._read_rows(X, None), model._kernel(1.0)
        if self._estimates_sigma():
            kernel = self._kernel(float(scales.estimate_sigma(points, n_jobs=self.n_jobs).value))
        return estimate(kernel, points, int(self.n_clusters), runs_of(self.init, self.n_init), self._threads())

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_init(self.init)
        self._kernel(1.0)

    def _is_gaussian(self) -> bool:
        return isinstance(self._kernel(1.0), kernels.Gaussian)

    def _is_linear(self) -> bool:
        return self.kernel == "linear" if isinstance(self.kernel, str) else isinstance(self.kernel, kernels.Linear)

    def _precomputed(self) -> bool:
        return (
            self.kernel == "precomputed"
            if isinstance(self.kernel, str)
            else isinstance(self.kernel, kernels.Precomputed)
        )

    def _estimates_sigma(self) -> bool:
        return (
            self.kernel in ("rbf", "gaussian") and self.gamma is None and self.sigma is None
            if isinstance(self.kernel, str)
            else False
        )

    def _kernel(self, sigma: float | None) -> kernels.Kernel:
        """Make the kernel; `sigma` is the width where it is estimated."""
        if self._is_gower():
            return kernels.Function(self._gower_similarities)
        width = sigma if self._estimates_sigma() else self.sigma
        return kernels.make(self.kernel, self.gamma, width, self.degree, self.coef0, self.eps, owner="KernelKMeans")

    def _power_of(self, points: Any) -> int:
        """Return the exponent that brings extreme similarities near one; products of huge points are refused."""
        if self._precomputed():
            return affinity_exponent(points)
        return 2 * product_exponent(points) if self._is_linear() else 0

    def _rescaled(self, points: Any, direction: int) -> Any:
        """Bring points, or given similarities, near one (−1) or back (1); older models rescaled none."""
        power = direction * int(vars(self).get("kernel_power_", 0))
        return times_power(points, power if self._precomputed() else power // 2)

    def _only(self, points: Any, rows: Ints) -> Any:
        return points[rows][:, rows] if self._precomputed() else points[rows]


def _smallest(K: Any) -> float:
    values = K.data if is_sparse(K) else K
    return float(values.min()) if values.size else 0.0


def _cut(means: Means) -> float:
    """Compute the normalized cut from G: links(V_c, V_c) = q_c, links(V_c, V) = Σ_{i∈c} w_i Σ_b G_ib (eq. 4.12)."""
    links = means.problem.weigh(means.G.sum(axis=1))
    volume = np.bincount(means.labels, links, means.k)[means.filled]
    inside = means.norms[means.filled]
    shares = np.where(volume > 0, 1 - inside / np.where(volume > 0, volume, 1.0), 0.0)
    return float(np.mean(shares))
