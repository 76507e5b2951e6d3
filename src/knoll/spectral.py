"""Spectral clustering (Ng, Jordan, Weiss): max Tr(ZᵀD^-½AD^-½Z), ZᵀZ = I, then a partition of Z's rows (eq. 4.18)."""

from __future__ import annotations

import functools
import hashlib
import sys
import time
import warnings
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from knoll import _core, kernels, scales, seeding
from knoll.base import Estimator, all_or_nothing
from knoll.exceptions import (
    ApproximationWarning,
    BadData,
    ConvergenceWarning,
    CostError,
    DisconnectedGraphWarning,
    InvalidParameter,
    SuspiciousResultWarning,
)
from knoll.steps import neighbour_graph as near
from knoll.steps import operators, partition
from knoll.steps import spectral as steps
from knoll.steps.assignment import assign
from knoll.steps.eigengap import eigengap
from knoll.steps.scipy_eigen import scipy_spectrum
from knoll.steps.sparse import is_sparse
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

__all__ = ["SpectralClustering"]

Floats = NDArray[np.float64]

_TOL = 1e-8  # what eigen_tol="auto" means
_MOST_AUTO = 20  # clusters that n_clusters="auto" looks for
_GRAPHS = ("nearest_neighbors", "precomputed", "precomputed_nearest_neighbors")
_GIVEN = ("precomputed", "precomputed_nearest_neighbors")
_MATRIX_BYTES = 1 << 30  # of an affinity matrix that is made on request
_DENSE_BYTES = 1 << 31  # of sparse rows that are made dense
_ALL_SIMILAR = 0.05  # a second eigenvalue below this: hardly a pair of rows is told from another
_NO_GAP = 1e-7  # eigenvalues closer than this are not told apart by the vectors that were found
_CHUNK = 1 << 15  # rows of a query at a time


class SpectralClustering(ClusterMixin, Estimator):
    """Spectral clustering: the top eigenvectors of the normalised affinity matrix, and a partition of their rows.

    A is the matrix of similarities of the rows, D the diagonal of its row sums. The k largest eigenvectors of D^-½AD^-½
    are the relaxed solution both of weighted kernel k-means with W = D⁻¹ and of the normalized cut. Their rows are
    scaled and clustered. The n × n matrix is never stored unless that is the fastest way, and every answer comes with
    its certificate, `eigen_residual_`.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        k. "auto" takes it from the gap of the eigenvalues, up to 20.
    eigen_solver : {None, "block", "dense", "arpack", "lobpcg", "amg"}, default=None
        None and "block" are a block Krylov method that deflates the known eigenvectors; small matrices go to LAPACK.
        "dense" stores the matrix and takes it whole to LAPACK. "arpack" and "lobpcg" are SciPy's, on the same operator.
        "amg" is accepted for scikit-learn's sake and is "block".
    n_components : int, default=None
        Eigenvectors of the embedding; None is k.
    random_state : int, RandomState, Generator or None, default=None
        What starts are drawn from.
    n_init : int, default=10
        Starts of the partition step; the best is kept.
    gamma : float, default=None
        Of the Gaussian kernel exp(−γ‖x − y‖²), and of those of scikit-learn's kernels that have one (None: 1).
    affinity : str, callable or kernel, default="rbf"
        "rbf", "nearest_neighbors" (links to the nearest rows, both ways averaged), "precomputed" (X is A, dense or
        sparse), "precomputed_nearest_neighbors" (X is a sparse matrix of distances), "poly", "linear", any other kernel
        of scikit-learn's `pairwise_kernels`, a function of two rows, or a kernel of `knoll.kernels`. Similarities must
        be symmetric and ≥ 0.
    n_neighbors : int, default=10
        Neighbours of a row, itself included. Rows that are equally far are all neighbours.
    eigen_tol : "auto" or float, default="auto"
        Largest residual ‖Mv − λv‖ of an eigenpair that is accepted; "auto" is 1e-8.
    assign_labels : {"kmeans", "discretize", "cluster_qr"}, default="kmeans"
        The partition step.
    degree, coef0 : float, default=3, 1
        Of the polynomial kernel (and coef0 of the sigmoid).
    kernel_params : dict, default=None
        Further arguments of a kernel by name or a function.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.
    verbose : bool or int, default=False
        Show the residual after each application of the operator.
    sigma : float, default=None
        σ of the Gaussian kernel, γ = 1/(2σ²). Neither: `knoll.scales.estimate_sigma` chooses it from the data.
    row_scaling : {"unit", "none", "degree"}, default="unit"
        Rows of length one (Ng, Jordan and Weiss), as they are (the paper's boxes), or over √d (scikit-learn).
    zero_diagonal : bool, default=False
        Leave a row's similarity to itself out, as Ng, Jordan and Weiss do.
    formulation : {"kernel", "graph"}, default="kernel"
        Whose objective `objective_` tells: weighted kernel k-means' or the normalized cut's. The matrix, hence
        embedding and labels, are the same.
    operator : {"auto", "stored", "tiles", "truncated", "finufft", "cholesky"}, default="auto"
        How the Gaussian affinity is applied: the stored matrix; its tiles, computed when needed; tiles without the
        pairs too far apart to matter in float64. "finufft" and "cholesky" are approximate: their error is certified by
        one exact application, and a warning tells when it exceeds `eigen_tol`. "auto" chooses among the exact ones, and
        may begin from an approximate solution.
    max_iter : int, default=300
        Applications of the operator to a block, at most.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,) of int32
        Clusters: `predict` of the training data. They are numbered in an order of their rows' contents, which no order
        of the rows changes; those of given graphs by their first row.
    embedding_ : ndarray of shape (n_samples, n_components)
        Rows of the eigenvectors, scaled.
    eigenvalues_ : ndarray of shape (n_components,)
        Of D^-½AD^-½, largest first.
    eigengap_ : float
        The last of them minus the next eigenvalue, known to some per cent; NaN where there is none. Near 0 the
        embedding is one of many.
    eigen_residual_ : ndarray of shape (n_components,)
        ‖Mv − λv‖ of each pair by the exact operator: an eigenvalue of M lies within it of λ.
    normalized_cut_ : float
        Of `labels_` (eq. 4.12). Computed when it is first asked for, by one application of the operator.
    objective_ : float
        The normalized cut, or under formulation="kernel" the trace Tr(YᵀW^½KW^½Y) of `labels_` with W = D⁻¹.
    n_clusters_ : int
        k.
    n_clusters_reason_ : str
        How "auto" came to it.
    sigma_ : float or None
        σ of the Gaussian kernel.
    sigma_reason_ : str
        Where it comes from.
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
    training rows. A graph that falls apart is solved exactly: each component has the eigenvalue one, and the pairs of
    all components are pooled. With more components than clusters the k heaviest are the clusters; the others, and rows
    without links, join the cluster whose mean is nearest (for given graphs: the heaviest), with a warning. A new row
    without a link to any cluster takes the label of the nearest training row.

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
        "row_scaling": (Choice(("unit", "none", "degree")),),
        "zero_diagonal": (Flag(),),
        "formulation": (Choice(("kernel", "graph")),),
        "operator": (Choice(("auto", "stored", "tiles", "truncated", "finufft", "cholesky")),),
        "max_iter": (Number(1, whole=True),),
    }
    _fitted: ClassVar = frozenset(
        {"labels_", "embedding_", "eigenvalues_", "eigengap_", "eigen_residual_", "n_clusters_", "extension_", "rule_"}
    )

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
        row_scaling: str = "unit",
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
        tags.input_tags.pairwise = self._named() in _GIVEN
        tags.input_tags.sparse = True
        return tags

    # ---- fit -------------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples)
            The points, or their similarities or distances where `affinity` says so.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of w counts like w repetitions of the row; 0 is an absent row, labelled as `predict` would. Refused
            where repetition has no meaning: graphs of neighbours, given graphs, a zero diagonal.

        Returns
        -------
        SpectralClustering
            The fitted estimator.
        """
        begun = time.perf_counter()
        self._check_parameters()
        threads, seed = self._threads(), draw_seed(self.random_state)
        points, kind = self._door(X, reset=True)
        n = points.shape[0]
        weights = self._check_weights(sample_weight, n)
        present = np.arange(n) if weights is None else np.flatnonzero(weights)
        rows = points if len(present) == n else points[present]
        w = np.ones(len(present)) if weights is None else weights[present]
        k = self._enough(len(present))
        m = min(len(present), k if self.n_components is None else int(self.n_components))
        self._forget()
        self.fit_points_ = None if self._named() in _GIVEN else rows
        self.present_rows_ = None if len(present) == n else present
        watch = _Watch(begun, self.verbose)
        spectrum, parts, operator = self._spectrum(rows, w, m, seed, threads, watch)
        self.n_connected_components_ = parts.count
        self.n_clusters_reason_ = f"n_clusters={self.n_clusters} was asked for"
        if self.n_clusters == "auto":
            tried = np.append(spectrum.values, [] if np.isnan(spectrum.following) else spectrum.following)
            chosen = eigengap(tried, len(present))
            k, self.n_clusters_reason_ = chosen.best, chosen.reason
            spectrum = steps.leading(spectrum, k if self.n_components is None else m)
        self.n_clusters_ = k
        rule, labels = self._partition(rows, spectrum, parts, w, k, seed, operator, threads)
        self.rule_: dict[str, Any] = {"kind": rule.kind, "matrix": rule.matrix}
        self.inertia_ = float(rule.inertia)
        self.extension_ = steps.coefficients(spectrum, w)
        self.embedding_ = steps.scaled_rows(spectrum.vectors / np.sqrt(w)[:, None], spectrum.degrees, self.row_scaling)
        self.eigenvalues_, self.eigen_residual_ = spectrum.values, spectrum.residuals
        self.eigengap_ = float(spectrum.values[-1] - spectrum.following)
        self.n_iter_ = spectrum.applications
        self.history_ = watch.history(spectrum)
        self.fit_labels_ = labels
        if self.graph_ is not None or isinstance(operator, operators.Stored):
            self.links_: Floats | None = self._links(operator, labels, w, spectrum.degrees)
        self.labels_ = labels
        if len(present) < n:
            absent = np.setdiff1d(np.arange(n), present)
            found, Y = self._predict(points[absent])
            self.labels_ = _spread(labels, found, present, absent)
            self.embedding_ = _spread(self.embedding_, Y, present, absent)
        self.embedding_ = self.embedding_.astype(kind)
        self._warn(spectrum, parts, k)
        return self

    def fit_predict(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[np.int32]:
        """Find the clusters of X and return `labels_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples)
            As in `fit`.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        labels: NDArray[np.int32] = self.fit(X, sample_weight=sample_weight).labels_
        return labels

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """Label rows by the Nyström extension of the embedding; training rows get their `labels_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), or (n_queries, n_samples)
            Points; or their similarities (distances) to the rows of the fit where `affinity` takes such.

        Returns
        -------
        ndarray of shape (n_queries,) of int32
            The labels.
        """
        check_is_fitted(self)
        queries, _ = self._door(X, reset=False)
        return self._predict(queries)[0]

    # ---- the door --------------------------------------------------------------------------------------------------

    def _named(self) -> str:
        return self.affinity if isinstance(self.affinity, str) else ""

    def _door(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        """Check the data once; points become float64 rows, which hold whatever float32 held."""
        points: Any = check_points(X, estimator=self, reset=reset, sparse=True, n_jobs=self._threads())
        kind = points.dtype
        if self._named() in _GIVEN:
            if reset and points.shape[0] != points.shape[1]:
                raise BadData(
                    f"SpectralClustering: with affinity={self.affinity!r} X must be square, got shape {points.shape}."
                )
            if self._named() == "precomputed" and reset:
                operators.check_matrix(points, "SpectralClustering: the precomputed affinity", negative=False)
            values = points.data if is_sparse(points) else points
            if not reset and values.size and values.min() < 0:
                raise BadData(f"SpectralClustering: precomputed affinities must be >= 0, got {values.min()!r}.")
            return points, kind
        if is_sparse(points):
            if 8 * points.shape[0] * points.shape[1] > _DENSE_BYTES:
                raise CostError(
                    f"SpectralClustering: sparse rows are made dense, which takes "
                    f"{8 * points.shape[0] * points.shape[1] / 2**30:.1f} GB here. Reduce the columns first, or pass a "
                    "graph with affinity='precomputed'."
                )
            points = points.toarray()
        return np.ascontiguousarray(points, dtype=np.float64), kind

    def _check_weights(self, sample_weight: Any, n: int) -> Floats | None:
        if sample_weight is None:
            return None
        for refused, why in (
            (self._named() == "nearest_neighbors", "repeated rows would crowd out each other's neighbours"),
            (self._named() in _GIVEN, "a given graph says nothing of links between a row's copies"),
            (bool(self.zero_diagonal), "copies of a row are linked, the row itself is not"),
        ):
            if refused:
                what = "zero_diagonal=True" if self.zero_diagonal else f"affinity={self.affinity!r}"
                raise InvalidParameter(
                    f"SpectralClustering: sample_weight has no meaning with {what}: {why}. Leave the weights "
                    "out, or use affinity='rbf' with zero_diagonal=False."
                )
        return check_weights(sample_weight, n, owner="SpectralClustering")

    def _enough(self, n: int) -> int:
        if self.n_clusters == "auto":
            return min(_MOST_AUTO, n)
        if n < self.n_clusters:
            raise BadData(
                f"n_samples={n} should be >= n_clusters={self.n_clusters}. Give more rows, or ask for fewer clusters."
            )
        return int(self.n_clusters)

    def _forget(self) -> None:
        """Drop what an earlier fit may have left and this one may not set."""
        for name in ("links_", "radius_", "graph_digest_"):
            self.__dict__.pop(name, None)
        self.graph_: Any = None
        self.sigma_: float | None = None
        self.sigma_reason_, self.cutoff_ = "", 0.0
        self.links_ = None

    # ---- affinities ------------------------------------------------------------------------------------------------

    def _kernel(self, points: Floats, weights: Floats | None) -> kernels.Kernel:
        """Make the kernel of the points; a Gaussian without a width gets one from the data."""
        if not isinstance(self.affinity, str):
            if isinstance(self.affinity, kernels.Kernel):
                self.sigma_ = getattr(self.affinity, "sigma", None)
                self.sigma_reason_ = "of the kernel that was given" if self.sigma_ else ""
                return self.affinity
            if callable(self.affinity):
                return kernels.Function(functools.partial(self.affinity, **(self.kernel_params or {})))
            raise InvalidParameter(
                f"SpectralClustering: affinity must be a name, a callable or a kernel, got {self.affinity!r}."
            )
        if self.affinity in ("rbf", "gaussian"):
            if self.sigma is None and self.gamma is None:
                found = scales.estimate_sigma(points, sample_weight=weights, n_jobs=self._threads())
                self.sigma_, self.sigma_reason_ = float(found.value), str(found.reason)
                return kernels.Gaussian(float(found.value))
            made = kernels.make("rbf", gamma=self.gamma, sigma=self.sigma, owner="SpectralClustering")
            self.sigma_ = float(made.sigma)  # type: ignore[attr-defined]
            self.sigma_reason_ = "sigma was given" if self.sigma is not None else f"gamma={self.gamma!r} was given"
            return made
        return _named_kernel(self.affinity, self.gamma, self.degree, self.coef0, self.kernel_params)

    def _spectrum(
        self, rows: Any, w: Floats, m: int, seed: int, threads: int, watch: _Watch
    ) -> tuple[steps.Spectrum, steps.Components, Any]:
        """Solve for the leading eigenpairs by the route that suits the affinity."""
        tol = _TOL if self.eigen_tol == "auto" else float(self.eigen_tol)
        options: dict[str, Any] = {
            "tol": tol,
            "max_applications": int(self.max_iter),
            "seed": seed,
            "threads": threads,
            "hook": watch,
        }
        if self._named() in _GRAPHS:
            operator = self._graph(rows, threads)
            labels = steps.sparse_components(operator.matrix)
            m = max(m, min(int(labels.max()) + 1, self._enough(len(w))))
            self.operator_, self.operator_reason_ = "stored", "the graph is there"
            if self.eigen_solver in ("arpack", "lobpcg"):
                spectrum, parts = scipy_spectrum(self.eigen_solver, operator, labels, w, m, **options)
            elif self.eigen_solver == "dense" or operator.n <= 256 or m + 8 >= operator.n // 2:
                matrix = operator.matrix
                whole = matrix.toarray() if is_sparse(matrix) else matrix
                spectrum, parts = steps.dense_spectrum(whole, labels, w, m, threads)
            else:
                spectrum, parts = steps.sparse_spectrum(operator, operator.matrix, labels, m, **options)
            return spectrum, parts, operator
        kernel = self._kernel(rows, w if not (w == 1).all() else None)
        wish = "stored" if self.eigen_solver == "dense" and self.operator == "auto" else self.operator
        if m + 9 >= len(w) // 2 and wish == "auto":
            wish = "stored"  # most of the spectrum is wanted
        whole = bool(self.zero_diagonal)
        route = operators.choose(kernel, rows, wish, threads, whole=whole, owner="SpectralClustering")
        self.operator_, self.operator_reason_, self.cutoff_ = route.name, route.reason, route.cutoff
        operator = self._operator(route.operator, rows, threads)
        if isinstance(route.operator, operators.Stored):
            matrix = route.operator.matrix
            if whole:
                matrix = matrix.copy()
                np.fill_diagonal(matrix, 0.0)
            labels = steps.sparse_components(matrix)
        else:
            matrix = None
            labels = steps.near_components(rows, route.cutoff, threads)
        m = max(m, min(int(labels.max()) + 1, self._enough(len(w))))
        if self.eigen_solver in ("arpack", "lobpcg"):
            spectrum, parts = scipy_spectrum(self.eigen_solver, operator, labels, w, m, **options)
        elif matrix is not None and (self.eigen_solver == "dense" or len(w) <= 512 or m + 9 >= len(w) // 2):
            spectrum, parts = steps.dense_spectrum(matrix, labels, w, m, threads)
        else:
            route = operators.Route(
                route.name, route.reason, operator, route.cutoff, "none" if whole else route.sketch, route.refine
            )
            spectrum, parts = steps.kernel_spectrum(route, rows, self.sigma_ or 0.0, labels, w, m, **options)
            if spectrum.note:
                self.operator_reason_ += f" ({spectrum.note})"
            elif route.sketch == "cholesky":
                self.operator_reason_ += " (which was refused: the kernel is not of low rank)"
        return spectrum, parts, operator

    def _graph(self, rows: Any, threads: int) -> Any:
        """Make the graph of the fit and its operator."""
        k = int(self.n_neighbors)
        match self._named():
            case "precomputed":
                graph = rows
                if self.zero_diagonal:
                    graph = rows.copy()
                    graph.setdiag(0.0) if is_sparse(graph) else np.fill_diagonal(graph, 0.0)
            case "nearest_neighbors":
                self._check_neighbours(len(rows))
                neighbours, self.radius_ = near.neighbours_of(rows, k, threads, "SpectralClustering")
                graph = near.graph_of(neighbours)
            case _:
                self._check_neighbours(rows.shape[0])
                neighbours, self.radius_ = near.given_links(rows, k, None, "SpectralClustering")
                graph = near.graph_of(neighbours)
                self.graph_digest_ = _digest(rows)
        if self.zero_diagonal and self._named() != "precomputed":
            graph.setdiag(0.0)
            graph.eliminate_zeros()
        self.graph_ = graph
        return self._graph_operator(threads)

    def _graph_operator(self, threads: int) -> Any:
        if self._named() == "precomputed":
            return kernels.Precomputed().operator(self.graph_, threads)
        return operators.Links(self.graph_)

    def _check_neighbours(self, n: int) -> None:
        if self.n_neighbors > n:
            raise BadData(
                f"SpectralClustering: n_neighbors={self.n_neighbors} must be <= n_samples={n}. Ask for fewer."
            )

    def _operator(self, operator: Any, rows: Floats, threads: int) -> Any:
        """Take the diagonal out where that is asked for."""
        if not self.zero_diagonal:
            return operator
        return operators.ZeroDiagonal(operator, functools.partial(_twins, rows, threads=threads))

    # ---- from eigenvectors to labels -------------------------------------------------------------------------------

    def _partition(
        self,
        rows: Any,
        spectrum: steps.Spectrum,
        parts: steps.Components,
        w: Floats,
        k: int,
        seed: int,
        operator: Any,
        threads: int,
    ) -> tuple[partition.Rule, NDArray[np.int32]]:
        """Cluster the rows of the extension; those it does not reach join the nearest cluster."""
        Y = steps.extension_at_rows(spectrum, w, self.row_scaling)  # (n, m)
        reached = np.isin(parts.labels, parts.order[:k])
        inside = np.flatnonzero(reached)
        ordered = self._ordered(rows, w, inside, threads)
        if parts.count > k:
            rule = partition.Rule("discretize", np.eye(Y.shape[1], k), float("nan"))
            filled = k
        else:
            rule, filled = self._rule(Y[inside], w[inside], ordered, k, seed, threads)
        error = 1e-13 / max(float(spectrum.values[spectrum.values > steps.VANISHING].min(initial=1.0)), 1e-12)
        error = max(error, 1e-11)
        first = rule.labels(Y[inside], threads)[ordered.rows]
        rule = rule.reordered(np.argsort([_first_of(first, c) for c in range(k)], kind="stable"))
        labels = np.zeros(len(Y), dtype=np.int32)
        labels[inside] = rule.labels(Y[inside], threads)
        unsure = inside[rule.unsure(Y[inside], error, threads)]
        if len(unsure) and k > 1:  # decided by the very arithmetic of `predict`
            coefficients = steps.coefficients(spectrum, w)
            for begin in range(0, len(unsure), _CHUNK):
                some = unsure[begin : begin + _CHUNK]
                again, _ = steps.extended(self._row_sums(operator, rows, some, coefficients), self.row_scaling)
                labels[some] = rule.labels(again, threads)
        outside = np.flatnonzero(~reached)
        if len(outside) and k > 1:
            labels[outside] = self._join(rows, labels, inside, outside, parts, w, k)
        if filled < k:
            _warn(
                f"number of distinct clusters ({filled}) found smaller than n_clusters ({k}): rows repeat, or their "
                "similarities do. Ask for fewer clusters.",
                ConvergenceWarning,
            )
        return rule, labels

    def _ordered(self, rows: Any, w: Floats, inside: NDArray[Any], threads: int) -> seeding.Multiset:
        """Order rows by their contents, equal ones together: what starts and numbers of clusters go by."""
        if self._named() in _GIVEN:
            return seeding.Multiset(np.arange(len(inside)), np.ones(len(inside)))
        whole = len(inside) == len(rows)
        weights = None if (w == 1).all() else w[inside]
        return seeding.multiset(rows if whole else rows[inside], weights, threads)

    def _rule(
        self, Y: Floats, w: Floats, ordered: seeding.Multiset, k: int, seed: int, threads: int
    ) -> tuple[partition.Rule, int]:
        part = np.ascontiguousarray(Y)
        weights = None if (w == 1).all() else w
        match self.assign_labels:
            case "discretize":
                return partition.by_discretization(part, weights, ordered, k, int(self.n_init), seed, threads), k
            case "cluster_qr":
                return partition.by_qr(part, k), k
        rule, _, filled = partition.by_kmeans(part, weights, ordered, k, int(self.n_init), seed, threads)
        return rule, filled

    def _row_sums(self, operator: Any, rows: Any, some: NDArray[Any], coefficients: Floats) -> Floats:
        """A(rows, X)·[E | w] by the arithmetic of `predict`."""
        if self.graph_ is not None:
            return np.asarray(operator.apply_rows(self.graph_[some], coefficients))
        return np.asarray(operator.apply_rows(rows[some], coefficients))

    def _join(
        self,
        rows: Any,
        labels: NDArray[np.int32],
        inside: NDArray[Any],
        outside: NDArray[Any],
        parts: steps.Components,
        w: Floats,
        k: int,
    ) -> NDArray[np.int32]:
        """Give each component that is not in the embedding the cluster whose mean is nearest to its own."""
        if self._named() in _GIVEN:
            heaviest = int(np.argmax(np.bincount(labels[inside], weights=w[inside], minlength=k)))
            return np.full(len(outside), heaviest, dtype=np.int32)
        points = np.ldexp(rows, -int(np.frexp(np.abs(rows).max(initial=1.0))[1]))
        used = np.unique(labels[inside])
        centers = _means(points[inside], w[inside], np.searchsorted(used, labels[inside]), len(used))
        alone = parts.labels[outside] < 0
        own = np.where(alone, parts.count + np.cumsum(alone), parts.labels[outside])
        _, group = np.unique(own, return_inverse=True)
        nearest = np.empty(int(group.max()) + 1, dtype=np.int32)
        assign(_means(points[outside], w[outside], group, len(nearest)), centers, nearest, None, 1)
        return used[nearest[group]].astype(np.int32)

    def _predict(self, queries: Any) -> tuple[NDArray[np.int32], Floats]:
        """Label and embed rows."""
        threads = self._threads()
        rule = partition.Rule(self.rule_["kind"], self.rule_["matrix"], self.inertia_)
        if self._named() in _GIVEN and _digest(queries) == getattr(self, "graph_digest_", ""):
            return np.array(self.fit_labels_), self.embedding_  # the graph of the fit itself
        operator = self._fitted_operator(threads)
        labels = np.empty(queries.shape[0], dtype=np.int32)
        embedded = np.empty((len(labels), self.extension_.shape[1] - 1))
        for begin in range(0, len(labels), _CHUNK):
            some = queries[begin : begin + _CHUNK]
            sums = operator.apply_rows(self._links_of(some, threads), self.extension_)
            Y, linked = steps.extended(np.asarray(sums), self.row_scaling)
            found = rule.labels(Y, threads)
            if not linked.all():
                found[~linked] = self._nearest(some, np.flatnonzero(~linked), threads)
            labels[begin : begin + _CHUNK], embedded[begin : begin + _CHUNK] = found, Y
        return labels, embedded

    def _links_of(self, queries: Any, threads: int) -> Any:
        """Turn queries into what the operator takes: points, or their rows of links."""
        if self._named() == "nearest_neighbors":
            points = np.asarray(self.fit_points_)
            links = near.link_rows(queries, points, self.radius_, int(self.n_neighbors), threads)
            return self._without_self(links, _twins(points, queries, threads=threads)) if self.zero_diagonal else links
        if self._named() == "precomputed_nearest_neighbors":
            return near.given_links(queries, int(self.n_neighbors), self.radius_, "SpectralClustering")[0]
        return queries

    def _without_self(self, links: Any, twins: NDArray[np.int64]) -> Any:
        own = np.flatnonzero(twins >= 0)
        gone = scipy.sparse.csr_array((np.ones(len(own)), (own, twins[own])), shape=links.shape)
        left = scipy.sparse.csr_array(links - links.multiply(gone))
        left.eliminate_zeros()
        left.sort_indices()
        return left

    def _fitted_kernel(self, points: Floats) -> kernels.Kernel:
        if self._named() in ("rbf", "gaussian") and self.sigma_ is not None:
            return kernels.Gaussian(self.sigma_)
        return self._kernel(points, None)

    def _fitted_operator(self, threads: int) -> Any:
        """Prepare the operator of the fit again."""
        if self._named() in _GRAPHS:
            return self._graph_operator(threads)
        points = np.asarray(self.fit_points_)
        kernel = self._fitted_kernel(points)
        if self.operator_ == "stored":
            return self._operator(
                operators.store(kernel, points, threads, "SpectralClustering", whole=bool(self.zero_diagonal)),
                points,
                threads,
            )
        return self._operator(kernel.operator(points, threads, self.cutoff_), points, threads)

    def _nearest(self, queries: Any, which: NDArray[Any], threads: int) -> NDArray[np.int32]:
        """Label rows without links to any cluster: as the nearest training row, or with the heaviest cluster."""
        labels = np.asarray(self.fit_labels_)
        if self._named() in _GIVEN:
            mass = np.bincount(labels[self._embedded()], minlength=int(self.n_clusters_))
            return np.full(len(which), int(np.argmax(mass)), dtype=np.int32)
        distances, rows = np.empty((len(which), 1)), np.empty((len(which), 1), dtype=np.int64)
        index = _core.Index(np.asarray(self.fit_points_), 0.0, "euclidean", 2.0, "auto", threads)
        index.knn(np.ascontiguousarray(queries[which], dtype=np.float64), 1, distances, rows, threads)
        return labels[rows[:, 0]]

    def _embedded(self) -> NDArray[np.bool_]:
        return np.asarray((self.extension_[:, :-1] != 0).any(axis=1))

    # ---- what is told of the answer --------------------------------------------------------------------------------

    @property
    def affinity_matrix_(self) -> Any:
        """A, where it takes at most 1 GB: kept for graphs, computed for kernels."""
        check_is_fitted(self)
        if self.graph_ is not None:
            return self.graph_
        points = np.asarray(self.fit_points_)
        if 8 * len(points) ** 2 > _MATRIX_BYTES:
            raise AttributeError(
                f"affinity_matrix_ of {len(points)} rows would take {8 * len(points) ** 2 / 2**30:.1f} GB; it is made "
                "for at most 1 GB."
            )
        kernel = self._fitted_kernel(points)
        matrix = kernel.tile(points, points, self._threads())
        if self.zero_diagonal:
            np.fill_diagonal(matrix, 0.0)
        return matrix

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
            operator = self._fitted_operator(self._threads())
            w = np.ascontiguousarray(self.extension_[:, -1])
            degrees = operator.apply(w[:, None])[:, 0]
            self.links_ = self._links(operator, np.asarray(self.fit_labels_), w, degrees)
        return np.asarray(self.links_)

    def _links(self, operator: Any, labels: NDArray[np.int32], w: Floats, degrees: Floats) -> Floats:
        return steps.cut_terms(operator, labels, int(self.n_clusters_), w, degrees)

    def _warn(self, spectrum: steps.Spectrum, parts: steps.Components, k: int) -> None:
        tol = _TOL if self.eigen_tol == "auto" else float(self.eigen_tol)
        worst = float(spectrum.residuals.max(initial=0.0))
        if self.operator_ in ("cholesky", "finufft") and worst > max(tol, 1e-12):
            _warn(
                f"operator={self.operator_!r} is approximate: an eigenpair has a residual of {worst:.2g}, above "
                f"eigen_tol={tol:g}. Use operator='auto', or a larger eigen_tol.",
                ApproximationWarning,
            )
        elif worst > max(tol, 1e-12) or not spectrum.converged:
            _warn(
                f"the eigensolver stopped after {spectrum.applications} applications with a residual of {worst:.2g}, "
                f"above eigen_tol={tol:g}. Raise max_iter or eigen_tol.",
                ConvergenceWarning,
            )
        alone = int(np.count_nonzero(parts.labels < 0))
        remedy = "Use a larger sigma" if self.sigma_ else "Give more links"
        joined = "the others joined the " + ("heaviest" if self._named() in _GIVEN else "nearest")
        if parts.count > k:
            far = self.sigma_ is not None and parts.count >= max(2, len(parts.labels) // 2)
            small = f" sigma={self.sigma_:.3g} is far too small." if far else ""
            _warn(
                f"the graph falls into {parts.count} components, more than n_clusters={k}: the {k} heaviest are the "
                f"clusters, {joined}.{small} {remedy}, or ask for {parts.count} clusters.",
                DisconnectedGraphWarning,
            )
        elif alone:
            row = int(np.flatnonzero(parts.labels < 0)[0])
            _warn(
                f"{alone} row{'s have' if alone > 1 else ' has'} no link at all (row {row} is the first): "
                f"{joined.replace('the others', 'such rows')}. {remedy}, or drop them.",
                DisconnectedGraphWarning,
            )
        if self.sigma_ is not None and k > 1 and len(spectrum.values) > 1 and spectrum.values[1] < _ALL_SIMILAR:
            _warn(
                f"all rows are nearly alike to this kernel (the second eigenvalue is {spectrum.values[1]:.2g}): "
                f"sigma={self.sigma_:.3g} is far too large, and the clusters mean little. Use a smaller sigma; "
                "knoll.scales.estimate_sigma(X) suggests one.",
                SuspiciousResultWarning,
            )
        elif parts.count <= k and k > 1 and abs(self.eigengap_) < _NO_GAP:
            _warn(
                f"eigenvalue {len(spectrum.values)} and the next differ by {self.eigengap_:.2g} only: other "
                "eigenvectors would do as well, and the clusters depend on which. Ask for another number of clusters.",
                SuspiciousResultWarning,
            )


# ---- inside --------------------------------------------------------------------------------------------------------


class _Watch:
    """Keeps, and under `verbose` shows, what the eigensolver says after each application."""

    def __init__(self, begun: float, verbose: bool | int) -> None:
        self.verbose, self.last = verbose, begun
        self.rows: list[tuple[float, float, float]] = []

    def __call__(self, _: int, objective: float, residual: float) -> None:
        now = time.perf_counter()
        self.rows.append((objective, residual, now - self.last))
        self.last = now
        if self.verbose:
            print(f"SpectralClustering: application {len(self.rows)}, largest residual {residual:.3g}", flush=True)

    def history(self, spectrum: steps.Spectrum) -> dict[str, NDArray[Any]]:
        if not self.rows:
            self(1, float(spectrum.values.sum()), float(spectrum.residuals.max(initial=0.0)))
        table = np.array(self.rows)
        return {
            "iteration": np.arange(1, len(table) + 1),
            "objective": table[:, 0],
            "changed": table[:, 1],
            "seconds": table[:, 2],
        }


def _named_kernel(
    name: str, gamma: float | None, degree: float, coef0: float, params: dict[str, Any] | None
) -> kernels.Kernel:
    """Make a kernel of ours, or one of scikit-learn's by its name."""
    from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels

    if name == "linear":
        return kernels.Linear()
    if name in ("poly", "polynomial") and gamma is None and not params and degree == int(degree) >= 1 and coef0 >= 0:
        return kernels.Polynomial(int(degree), float(coef0))
    if name not in kernel_metrics():
        known = sorted({"rbf", "gaussian", *_GRAPHS, *kernel_metrics()})
        raise InvalidParameter(
            f"SpectralClustering: affinity must be one of {', '.join(map(repr, known))}, a callable or a kernel of "
            f"knoll.kernels, got {name!r}."
        )
    arguments = {"gamma": 1.0 if gamma is None else gamma, "degree": degree, "coef0": coef0, **(params or {})}

    def function(X: Any, Y: Any) -> Any:
        return pairwise_kernels(X, Y, metric=name, filter_params=True, **arguments)

    return kernels.Function(function)


def _twins(points: Floats, queries: Any, *, threads: int) -> NDArray[np.int64]:
    """For each query the lowest row that equals it, or −1."""
    rows = np.empty(len(queries), dtype=np.int64)
    index = _core.Index(points, 0.0, "euclidean", 2.0, "auto", threads)
    index.first(np.ascontiguousarray(queries, dtype=np.float64), 0.0, rows, threads)
    return rows


def _means(points: Floats, w: Floats, group: NDArray[Any], count: int) -> Floats:
    mass = np.bincount(group, weights=w, minlength=count)
    sums = [np.bincount(group, weights=w * points[:, j], minlength=count) for j in range(points.shape[1])]
    return np.ascontiguousarray(np.stack(sums, axis=1) / mass[:, None])


def _spread(kept: NDArray[Any], other: NDArray[Any], present: NDArray[Any], absent: NDArray[Any]) -> NDArray[Any]:
    """Put the rows of two arrays in the places they came from."""
    out = np.empty((len(kept) + len(other), *kept.shape[1:]), dtype=kept.dtype)
    out[present], out[absent] = kept, other
    return out


def _first_of(labels: NDArray[np.int32], c: int) -> int:
    places = np.flatnonzero(labels == c)
    return int(places[0]) if len(places) else len(labels)


def _digest(graph: Any) -> str:
    """Name a sparse graph by its contents; a dense one has no name."""
    if not is_sparse(graph):
        return "-"
    rows: Any = scipy.sparse.csr_array(graph)
    name = hashlib.sha256(repr(rows.shape).encode())
    for part in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
        name.update(np.ascontiguousarray(part).tobytes())
    return name.hexdigest()


def _warn(text: str, kind: type[Warning]) -> None:
    """Warn at the line outside of this package that called us."""
    package, frame, depth = str(Path(__file__).parent), sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(f"SpectralClustering: {text}", kind, stacklevel=depth)
