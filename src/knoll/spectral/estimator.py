"""Spectral clustering (Ng, Jordan, Weiss): max Tr(ZᵀD^-½AD^-½Z), ZᵀZ = I, then a partition of Z's rows (eq. 4.18).

affinity.py defines A, solve.py finds its eigenvectors, labels.py turns them into labels, nystrom.py labels other rows.
"""

from __future__ import annotations

import time
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from knoll._common.cost import Cost
from knoll._common.rescale import as_dtype, largest_of, times_power
from knoll._schema import Array, Columns, Real, Record, Text, Whole, not_all, not_columns, not_empty
from knoll._typing import Floats, Labels
from knoll.base import FitPredictMixin, all_or_nothing
from knoll.engines import lazily
from knoll.exceptions import BadData
from knoll.kernels import Function
from knoll.kernels.operators import CachedOperator
from knoll.neighbors.gower import ReadsGower, gower_columns_rule, read_gower_again
from knoll.spectral import diagnostics, embed
from knoll.spectral.affinity import (
    Affinity,
    AffinityParams,
    digest,
    make_affinity,
    validate_points,
    validate_weights,
)
from knoll.spectral.cost import estimate
from knoll.spectral.eigen import Hook
from knoll.spectral.eigengap import eigengap
from knoll.spectral.labels import Clusters, Rule, find_clusters
from knoll.spectral.nystrom import Extension
from knoll.spectral.solve import EigenRequest, EigenResult, solve
from knoll.validation import (
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    Choice,
    Flag,
    Instance,
    Number,
    draw_seed,
)

_TOL = 1e-8  # what eigen_tol="auto" means
_MATRIX_BYTES = 1 << 30  # of an affinity matrix that is computed on request
_MOST_AUTO = 20  # clusters, at most, under n_clusters="auto"
_FAR = 1e300  # units of σ from the origin: beyond, x/σ may leave float64


class SpectralClustering(FitPredictMixin, ClusterMixin, ReadsGower):
    """Spectral clustering: the top eigenvectors of the normalised affinity matrix, and a partition of their rows.

    A is the matrix of similarities of the rows, D the diagonal of its row sums. The k largest eigenvectors of D^-½AD^-½
    are the relaxed solution both of weighted kernel k-means with W = D⁻¹ and of the normalized cut. Their rows are
    scaled and clustered. The n × n matrix is stored only where that is fastest, and every result has its certificate,
    `eigen_residual_`.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        k. "auto" takes it from the eigenvalues, up to 20: the number of sets that a random walk along the links hardly
        leaves, if the gap after their eigenvalues is 2.5 times as wide as in one uniform cluster, else 1 (eq. 4.28 to
        4.30). A few far rows are such a set, too: a single Gaussian cloud of two columns often has one. A warning is
        then issued.
    eigen_solver : {None, "block", "dense", "arpack", "lobpcg", "amg"}, default=None
        None and "block" are a block Krylov method that deflates the known eigenvectors; small matrices go to LAPACK.
        "dense" stores the matrix and takes it whole to LAPACK. "arpack", "lobpcg" and "amg" are accepted for
        compatibility with scikit-learn and mean "block".
    n_components : int, default=None
        Eigenvectors of the embedding; None is k.
    random_state : int, RandomState, Generator or None, default=None
        Source of the random starts.
    n_init : int, default=10
        Starts of the partition step; the best is kept.
    gamma : float, default=None
        Of the Gaussian kernel exp(−γ‖x − y‖²), and of those of scikit-learn's kernels that have one (None: 1).
    affinity : str, callable or kernel, default="rbf"
        "rbf", "nearest_neighbors" (links to the nearest rows, both ways averaged), "precomputed" (X is A, dense or
        sparse), "precomputed_nearest_neighbors" (X is a sparse matrix of distances), "poly", "linear", "gower" (one
        less Gower's distance, for tables of numbers and categories with missing values), any other kernel of
        scikit-learn's `pairwise_kernels`, a function of two rows, or a kernel of `knoll.kernels`. Similarities must
        be symmetric and ≥ 0.
    n_neighbors : int, default=10
        Neighbours of a row, itself included. Rows that are equally far are all neighbours.
    eigen_tol : "auto" or float, default="auto"
        Largest accepted residual ‖Mv − λv‖ of an eigenpair; "auto" is 1e-8.
    assign_labels : {"kmeans", "discretize", "cluster_qr"}, default="kmeans"
        The partition step.
    degree, coef0 : float, default=3, 1
        Of the polynomial kernel (and coef0 of the sigmoid).
    kernel_params : dict, default=None
        Further arguments of a kernel by name or a function; of "gower" those of `DBSCAN`'s metric.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.
    verbose : bool or int, default=False
        Show the residual after each application of the operator, and the partition step.
    sigma : float, default=None
        σ of the Gaussian kernel, γ = 1/(2σ²). If both are None, `knoll.scales.estimate_sigma` estimates it from
        the data.
    row_scaling : {"auto", "unit", "none", "degree"}, default="auto"
        Rows of length one (Ng, Jordan and Weiss), as they are (the paper's boxes), or over √d (scikit-learn). "auto"
        is "degree" for graphs, which gives lower normalized cuts there, and "unit" for kernels of points (decision
        0021).
    zero_diagonal : bool, default=False
        Leave a row's similarity to itself out, as Ng, Jordan and Weiss do.
    formulation : {"kernel", "graph"}, default="kernel"
        The objective in `objective_`: that of weighted kernel k-means, or the normalized cut. The matrix, hence
        embedding and labels, are the same.
    operator : {"auto", "stored", "tiles", "truncated", "finufft", "cholesky"}, default="auto"
        How the Gaussian affinity is applied: the stored matrix; its tiles, computed when needed; tiles without the
        pairs too far apart to matter in float64. "finufft" and "cholesky" are approximate: their error is certified by
        one exact application, with a warning when it exceeds `eigen_tol`. "auto" chooses among the exact ones, and may
        begin from an approximate solution.
    max_iter : int, default=300
        Applications of the operator to a block, at most.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,) of int32
        Clusters: `predict` of the training data. Their numbers depend on the contents of the rows (of graphs on the
        links), not on the order of the rows.
    embedding_ : ndarray of shape (n_samples, n_components)
        Rows of the eigenvectors, scaled.
    eigenvalues_ : ndarray of shape (n_components,)
        Of D^-½AD^-½, largest first.
    eigengap_ : float
        The last of them minus the next eigenvalue, known to a few per cent; NaN where there is none. Near 0 the
        embedding is one of many. Where the components of the graph give all eigenvectors, it is computed on first
        access.
    eigen_residual_ : ndarray of shape (n_components,)
        ‖Mv − λv‖ of each pair by the exact operator: an eigenvalue of M lies within it of λ.
    normalized_cut_ : float
        Of `labels_` (eq. 4.12). Computed on first access, by one application of the operator.
    objective_ : float
        The normalized cut, or under formulation="kernel" the trace Tr(YᵀW^½KW^½Y) of `labels_` with W = D⁻¹.
    row_scaling_ : str
        How rows of the embedding were scaled.
    n_clusters_ : int
        k.
    n_clusters_reason_ : str
        The reason for that number.
    sigma_ : float or None
        σ of the Gaussian kernel.
    sigma_reason_ : str
        Its origin.
    operator_, operator_reason_ : str
        The route that was taken, and why.
    affinity_matrix_ : ndarray or sparse array of shape (n_samples, n_samples)
        A, where it takes at most 1 GB.
    n_connected_components_ : int
        Components of the graph; rows without any link are not counted.
    inertia_ : float
        k-means' objective on the rows; NaN for the other partitions.
    n_iter_ : int
        Applications of the operator.
    history_ : dict of ndarray
        iteration, objective (sum of the largest eigenvalues so far), changed (largest residual), seconds.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, where X had any.

    Notes
    -----
    A new row q is embedded by its links (Nyström): y(q) = Σ_j A_qj y_j/(λ√(d_q d_j)); `labels_` is that rule at the
    training rows. A disconnected graph is solved exactly: each component has the eigenvalue one, and the pairs of all
    components are pooled. With more components than clusters the k heaviest are the clusters; the others, and rows
    without links, join the cluster whose mean is nearest (for precomputed graphs: the heaviest), with a warning. A new
    row without a link to any cluster takes the label of the nearest training row.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll import SpectralClustering
    >>> angle = np.linspace(0, 6, 40)
    >>> ring = np.c_[np.cos(angle), np.sin(angle)]
    >>> X = np.r_[ring, 4 * ring]
    >>> SpectralClustering(2, sigma=0.4, random_state=0).fit(X).labels_.reshape(2, 40).mean(axis=1)
    array([0., 1.])

    References
    ----------
    Ng, Jordan, Weiss: On spectral clustering: analysis and an algorithm (NIPS 2001). Shi, Malik: Normalized cuts and
    image segmentation (2000). Yu, Shi: Multiclass spectral clustering (ICCV 2003). Damle, Minden, Ying: Simple, direct
    and efficient multi-way spectral clustering (2019).
    """

    _rules: ClassVar = {
        "n_clusters": (Choice(("auto",)), Number(1, whole=True)),
        "eigen_solver": (None, Choice(("block", "dense", "arpack", "lobpcg", "amg"))),
        "n_components": (None, Number(1, whole=True)),
        "random_state": RANDOM_STATE,
        "n_init": (Number(1, 2**16 - 1, whole=True),),
        "gamma": (None, Number(0, strict=True, remedy="gamma = 1/(2 sigma²); None chooses sigma from the data.")),
        "n_neighbors": (Number(1, whole=True),),
        "eigen_tol": (Choice(("auto",)), Number(0)),
        "assign_labels": (Choice(("kmeans", "discretize", "cluster_qr")),),
        "degree": (Number(0),),
        "coef0": (Number(),),
        "kernel_params": (None, Instance((dict,), "a dict")),
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
        "sigma": (None, Number(0, strict=True, remedy="knoll.scales.estimate_sigma(X) suggests a value.")),
        "row_scaling": (Choice(("auto", "unit", "none", "degree")),),
        "zero_diagonal": (Flag(),),
        "formulation": (Choice(("kernel", "graph")),),
        "operator": (Choice(("auto", "stored", "tiles", "truncated", "finufft", "cholesky")),),
        "max_iter": (Number(1, whole=True),),
    }
    _fitted: ClassVar = {
        "n_clusters_": Whole(1, side="k"),
        "n_clusters_reason_": Text(),
        "labels_": Array("n", "int32", low=0, below="k", also=not_columns),
        "present_rows_": Array("p", "int64", low=0, below="n", increasing=True, none=True),
        "fit_labels_": Array("p", "int32", low=0, below="k", also=not_all("present_rows_")),
        "fit_points_": Array("p d", "float64", when=lambda model: not model._affinity_params().precomputed),
        "graph_": Array("p p", low=0, sparse=True, when=lambda model: model._affinity_params().graph),
        "graph_digest_": Text(),
        "radius_": Array(
            "p",
            "float64",
            low=0,
            when=lambda model: model._affinity_params().name.endswith("nearest_neighbors"),
            also=lambda model, radius: "" if model.n_neighbors <= len(radius) else "has fewer entries than n_neighbors",
        ),
        "sigma_": Real(0, strict=True, when=lambda model: model._affinity_params().name in ("rbf", "gaussian")),
        "sigma_reason_": Text(),
        # a file of 0.1.0 may lack the next two: then the parameter applies, and nothing was scaled
        "row_scaling_": Text(("unit", "degree", "none"), missing=True),
        "affinity_power_": Whole(-1100, 1100, missing=True),
        "operator_": Text(),
        "operator_reason_": Text(),
        "cutoff_": Real(0, finite=False),  # so wide a kernel leaves nothing out
        "eigenvalues_": Array("m", "float64", also=not_empty),
        "next_eigenvalue_": Real(none=True, nan=True),
        "eigen_residual_": Array("m", "float64", finite=False, nan=True),  # no method reads it
        "embedding_": Array("n m", finite=False, nan=True),  # nor computes with this one
        "extension_": Array("p m+1", "float64"),
        "rule_": Record(
            {
                "kind": Text(("kmeans", "discretize", "cluster_qr")),
                "matrix": Array(lambda model: "k m" if model.rule_["kind"] == "kmeans" else "m k", "float64"),
            }
        ),
        "inertia_": Real(0, finite=False, nan=True),
        "links_": Array("3 k", "float64", none=True),
        "n_connected_components_": Whole(),
        "n_iter_": Whole(),
        "history_": Columns(),
        "gower_columns_": gower_columns_rule(),
    }
    _gower_parameters: ClassVar = ("affinity", "kernel_params")

    def __init__(
        self,
        n_clusters: Any = 8,
        *,
        eigen_solver: str | None = None,
        n_components: int | None = None,
        random_state: Any = None,
        n_init: int = 10,
        gamma: float | None = None,
        affinity: Any = "rbf",
        n_neighbors: int = 10,
        eigen_tol: Any = "auto",
        assign_labels: str = "kmeans",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        sigma: float | None = None,
        row_scaling: str = "auto",
        zero_diagonal: bool = False,
        formulation: str = "kernel",
        operator: str = "auto",
        max_iter: int = 300,
    ) -> None:
        self.n_clusters = n_clusters
        self.eigen_solver = eigen_solver
        self.n_components = n_components
        self.random_state = random_state
        self.n_init = n_init
        self.gamma = gamma
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.eigen_tol = eigen_tol
        self.assign_labels = assign_labels
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.sigma = sigma
        self.row_scaling = row_scaling
        self.zero_diagonal = zero_diagonal
        self.formulation = formulation
        self.operator = operator
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._affinity_params().precomputed
        tags.input_tags.sparse = True
        return tags

    # ---- fit -------------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples)
            The points, or their similarities or distances under a precomputed `affinity`.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of w counts like w repetitions of the row; 0 is an absent row, labelled as `predict` would. Refused
            where repetition has no meaning: graphs of neighbours, precomputed graphs, a zero diagonal.

        Returns
        -------
        SpectralClustering
            The fitted estimator.
        """
        watch = diagnostics.Watch(time.perf_counter(), int(self.verbose))
        self._check_parameters()
        threads, seed = self._threads(), draw_seed(self.random_state)
        params = self._affinity_params()
        points, dtype = self._read_rows(X, sample_weight)
        n = points.shape[0]
        weights = validate_weights(sample_weight, params, n)
        present = np.arange(n) if weights is None else np.flatnonzero(weights)
        rows = points if len(present) == n else points[present]
        counts = np.ones(len(present)) if weights is None else weights[present]
        w, power = embed.scale_weights(counts)
        most = self._most_clusters(len(present))
        affinity = make_affinity(params, rows, counts if not (counts == 1).all() else None, threads)
        result, k, reason = self._solve(affinity, w, most, seed, threads, watch)
        self.row_scaling_ = params.row_scaling(self.row_scaling)
        watch.report(f"Computing label assignment using {self.assign_labels}")
        found = find_clusters(
            affinity,
            result,
            w,
            k,
            assign_labels=self.assign_labels,
            row_scaling=self.row_scaling_,
            n_init=int(self.n_init),
            seed=seed,
            threads=threads,
            report=watch.report if self.verbose else None,
        )
        if self.n_clusters == "auto":
            reason += diagnostics.warn_of_far_rows(found.labels, counts, k)
        diagnostics.warn_of_filled(found.filled, k, result.spectrum.values.size, linked=result.components.count > 0)
        self.n_clusters_, self.n_clusters_reason_ = k, reason
        self.present_rows_ = None if len(present) == n else present
        self._keep(affinity, result, w, found)
        self.history_ = watch.history(result.spectrum)
        if self.present_rows_ is not None:
            self._label_absent(points, present)
        self._unscale(power, dtype)
        diagnostics.warn_of_asymmetry(affinity)
        diagnostics.warn_of_eigenpairs(result, self._tol())
        diagnostics.warn_of_components(result, affinity, k)
        diagnostics.warn_of_gap(result, affinity, k)
        return self

    def _solve(
        self, affinity: Affinity, w: Floats, k: int, seed: int, threads: int, watch: diagnostics.Watch
    ) -> tuple[EigenResult, int, str]:
        """Solve for the eigenpairs of k clusters at most; return them with the number of clusters and its reason."""
        n, auto = len(w), self.n_clusters == "auto"
        m = self._columns(n, k)
        result = solve(affinity, w, self._request(m, k, seed, threads, auto, watch))
        if not auto:
            return result, k, f"n_clusters={self.n_clusters} was requested"
        values = np.append(result.spectrum.values, np.float64(result.spectrum.following))
        chosen = eigengap(values[~np.isnan(values)], n)
        kept = embed.leading(result.spectrum, chosen.best if self.n_components is None else m)
        return replace(result, spectrum=kept), chosen.best, chosen.reason

    def _most_clusters(self, n: int) -> int:
        """Return the number of clusters of n rows, or the most that "auto" considers."""
        if self.n_clusters == "auto":
            return min(_MOST_AUTO, n)
        if n < self.n_clusters:
            raise BadData(
                f"n_samples={n} should be >= n_clusters={self.n_clusters}. Give more rows, or ask for fewer clusters."
            )
        return int(self.n_clusters)

    def _columns(self, n: int, k: int) -> int:
        """Return the number of eigenvectors of the embedding of n rows."""
        return min(n, k if self.n_components is None else int(self.n_components))

    def estimate_cost(self, X: ArrayLike) -> Cost:
        """Estimate the cost of a fit: operator, memory and processor time, from the data and a product of a few rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples)
            As in `fit`.

        Returns
        -------
        Cost
            The operator, memory beyond X at most, pairs of rows in an application, seconds with their bounds.
        """
        self._check_parameters()
        threads, model = self._threads(), copy(self)  # which reads the rows as a fit does
        points, _ = model._read_rows(X, None)
        params = model._affinity_params()
        m = self._columns(points.shape[0], self._most_clusters(points.shape[0]))
        options = {"n_init": int(self.n_init), "operator": self.operator, "solver": self.eigen_solver}
        gap = self.n_clusters == "auto"
        return estimate(params, points, m, threads=threads, gap=gap, **options)  # type: ignore[arg-type]

    def _keep(self, affinity: Affinity, result: EigenResult, w: Floats, found: Clusters) -> None:
        """Set the fitted attributes."""
        spectrum, route, rule = result.spectrum, result.route, found.rule
        self.fit_points_, self.graph_ = affinity.points, affinity.graph
        self.radius_, self.graph_digest_, self.affinity_power_ = affinity.radius, affinity.digest, result.power
        self.sigma_, self.sigma_reason_ = affinity.sigma, affinity.sigma_reason
        self.operator_, self.operator_reason_, self.cutoff_ = route.name, route.reason, route.cutoff
        self.n_connected_components_ = result.components.count
        self.rule_: dict[str, Any] = {"kind": rule.method, "matrix": rule.matrix}
        self.inertia_ = float(rule.inertia)
        self.extension_ = embed.coefficients(spectrum, w)
        rows = spectrum.vectors / np.sqrt(w)[:, None]
        self.embedding_: NDArray[Any] = embed.scaled_rows(rows, spectrum.degrees, self.row_scaling_)
        self.embedding_[found.light] = found.embedding
        self.eigenvalues_, self.eigen_residual_ = spectrum.values, spectrum.residuals
        self.next_eigenvalue_ = spectrum.following
        self.n_iter_ = spectrum.applications
        self.labels_ = self.fit_labels_ = found.labels
        self.links_: Floats | None = None
        if affinity.graph is not None or isinstance(route.operator, CachedOperator):
            self.links_ = embed.cut_terms(route.operator, found.labels, self.n_clusters_, w, spectrum.degrees)

    def _label_absent(self, points: Any, present: NDArray[Any]) -> None:
        """Label and embed the rows of weight 0 as `predict` would."""
        absent = np.setdiff1d(np.arange(points.shape[0]), present)
        labels, Y = self._predict(points[absent])
        self.labels_ = _merge_rows(self.fit_labels_, labels, present, absent)
        self.embedding_ = _merge_rows(self.embedding_, Y, present, absent)

    def _unscale(self, power: int, dtype: Any) -> None:
        """Bring rows and inertia back to the caller's units: weights 2^power as large, and similarities.

        Rows are unit, v/√w or v/√(w d) with d = A w, so their squares change by 2^−squares; the inertia is w times
        such squares. An entry that would leave the dtype becomes its largest number.
        """
        squares = {"unit": 0, "none": power, "degree": 2 * power + self.affinity_power_}[self.row_scaling_]
        if not power and not squares:
            self.embedding_ = as_dtype(self.embedding_, dtype)
            return
        with np.errstate(over="ignore", under="ignore"):
            rows = self.embedding_ / np.sqrt(2.0 ** (squares % 2))
            self.embedding_ = as_dtype(np.nan_to_num(times_power(rows, -(squares // 2)), nan=np.nan), dtype)
            self.inertia_ = float(times_power(self.inertia_, power - squares))

    # ---- the fitted model ------------------------------------------------------------------------------------------

    @lazily
    def predict(self, X: ArrayLike) -> Labels:
        """Label rows by the Nyström extension of the embedding; training rows get their `labels_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples)
            Points; or their similarities (distances) to the rows of the fit under a precomputed `affinity`.

        Returns
        -------
        ndarray of shape (n_queries,) of int32
            The labels.
        """
        check_is_fitted(self)
        if self._is_gower():
            return self._predict(read_gower_again(X, self.gower_columns_, estimator=self))[0]
        queries, _ = validate_points(X, self._affinity_params(), self, self._threads(), reset=False)
        return self._predict(queries)[0]

    def _read_rows(self, X: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Read the rows of a fit; also return their dtype."""
        self.__dict__.pop("gower_columns_", None)  # of an earlier fit
        if self._is_gower():
            return self._fit_gower(X, sample_weight), np.dtype(np.float64)
        return validate_points(X, self._affinity_params(), self, self._threads(), reset=True)

    def _affinity_params(self) -> AffinityParams:
        if self._is_gower():
            gower = Function(self._gower_similarities)
            return AffinityParams(
                gower, None, None, self.n_neighbors, self.degree, self.coef0, None, self.zero_diagonal
            )
        names = ("affinity", "gamma", "sigma", "n_neighbors", "degree", "coef0", "kernel_params", "zero_diagonal")
        return AffinityParams(**{name: getattr(self, name) for name in names})

    def _affinity(self) -> Affinity:
        """Return A of the fit."""
        params, power = self._affinity_params(), self._power()
        if params.graph:
            options = {"graph": self.graph_, "radius": self.radius_, "digest": self.graph_digest_, "power": power}
            return Affinity(params, self.fit_points_, **options)
        if self.sigma_ is not None:
            params = replace(params, gamma=None, sigma=self.sigma_)
        kernel, sigma, reason = params.kernel(self.fit_points_, None, self._threads())
        return Affinity(params, self.fit_points_, kernel, sigma, reason, power=power)

    def _row_scaling(self) -> str:
        """Return the scaling of the fit; older models have it as a parameter only."""
        named = vars(self).get("row_scaling_", self.row_scaling)
        return "unit" if named == "auto" else str(named)

    def _power(self) -> int:
        """Return the power of two that similarities were divided by; older models divided by none."""
        return int(vars(self).get("affinity_power_", 0))

    def _predict(self, queries: Any) -> tuple[Labels, Floats]:
        """Label and embed rows."""
        threads, affinity = self._threads(), self._affinity()
        if affinity.digest and queries.shape[0] == len(self.fit_labels_) and digest(queries) == affinity.digest:
            return np.array(self.fit_labels_), self.embedding_  # the graph of the fit itself
        rule = Rule(self.rule_["kind"], self.rule_["matrix"], self.inertia_)
        extension = Extension(
            affinity, self.extension_, rule, self.fit_labels_, self._row_scaling(), int(self.n_clusters_)
        )
        labels, embedded = extension(affinity.operator(self.operator_, self.cutoff_, threads), queries, threads)
        if self.sigma_ is not None and not largest_of(self.fit_points_) < _FAR * self.sigma_:
            labels = _known_labels(queries, self.fit_points_, self.fit_labels_, labels)
        return labels, embedded

    @property
    def affinity_matrix_(self) -> Any:
        """A, up to 1 GB: kept for graphs, computed for kernels."""
        check_is_fitted(self)
        if self.graph_ is not None:
            return times_power(self.graph_, self._power())
        points = np.asarray(self.fit_points_)
        if 8 * len(points) ** 2 > _MATRIX_BYTES:
            raise AttributeError(
                f"affinity_matrix_ of {len(points)} rows would take {8 * len(points) ** 2 / 2**30:.1f} GB; it is "
                "computed up to 1 GB only."
            )
        kernel: Any = self._affinity().kernel
        matrix = kernel.tile(points, points, self._threads())
        if self.zero_diagonal:
            np.fill_diagonal(matrix, 0.0)
        return matrix

    def _tol(self) -> float:
        return _TOL if self.eigen_tol == "auto" else float(self.eigen_tol)

    def _request(self, m: int, k: int, seed: int, threads: int, gap: bool, hook: Hook | None = None) -> EigenRequest:
        """Request m pairs and up to k components."""
        most = int(self.max_iter)
        return EigenRequest(m, k, self.eigen_solver, self.operator, self._tol(), most, seed, threads, gap, hook)

    @property
    def eigengap_(self) -> float:
        """The last of the eigenvalues minus the next."""
        check_is_fitted(self)
        if self.next_eigenvalue_ is None:
            m, w = len(self.eigenvalues_), np.ascontiguousarray(self.extension_[:, -1])
            request = self._request(m, m, 0, self._threads(), gap=True)
            self.next_eigenvalue_ = solve(self._affinity(), w, request).spectrum.following
        return float(self.eigenvalues_[-1] - np.float64(self.next_eigenvalue_))

    @property
    def normalized_cut_(self) -> float:
        """(1/k) Σ_c links(V_c, V∖V_c)/links(V_c, V) of the labels (eq. 4.12); a cluster without links counts 0."""
        within, volume = self._cut()[:2]
        linked = volume > 0
        return float(np.maximum(1 - within[linked] / volume[linked], 0.0).sum() / len(volume))

    @property
    def objective_(self) -> float:
        """The normalized cut, or kernel k-means' trace Σ_c (Σ_ij w_i K_ij w_j)/Σ_i w_i with w = 1/d (eq. 4.6)."""
        if self.formulation == "graph":
            return self.normalized_cut_
        return float(self._cut()[2].sum())

    def _cut(self) -> Floats:
        check_is_fitted(self)
        if self.links_ is None:
            operator = self._affinity().operator(self.operator_, self.cutoff_, self._threads())
            w = np.ascontiguousarray(self.extension_[:, -1])
            degrees = operator.apply(w[:, None])[:, 0]
            self.links_ = embed.cut_terms(operator, self.fit_labels_, int(self.n_clusters_), w, degrees)
        return np.asarray(self.links_)


def _known_labels(queries: Any, points: Any, known: Labels, labels: Labels) -> Labels:
    """Give queries that equal a row of the fit its label.

    Where x/σ leaves float64, the similarities of rows that are so far out on one side are all 1.
    """
    of_row = {row.tobytes(): label for row, label in zip(np.asarray(points) + 0.0, known.tolist(), strict=True)}
    rows = np.asarray(queries, dtype=np.asarray(points).dtype) + 0.0
    return np.array([of_row.get(row.tobytes(), label) for row, label in zip(rows, labels.tolist())], dtype=np.int32)


def _merge_rows(kept: NDArray[Any], other: NDArray[Any], present: NDArray[Any], absent: NDArray[Any]) -> NDArray[Any]:
    """Merge the rows of two arrays at the positions `present` and `absent`."""
    out = np.empty((len(kept) + len(other), *kept.shape[1:]), dtype=kept.dtype)
    out[present], out[absent] = kept, other
    return out
