"""Spectral clustering (Ng, Jordan, Weiss): max Tr(ZᵀD^-½AD^-½Z), ZᵀZ = I, then a partition of Z's rows (eq. 4.18).

What A is, steps/affinity.py says; how its eigenvectors are found, steps/spectral_solve.py; how they become labels,
steps/spectral_labels.py; what a fitted one answers, steps/spectral_answers.py.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin

from knoll.base import all_or_nothing
from knoll.schema import Array, Columns, Real, Record, Text, Whole, not_all, not_columns, not_empty
from knoll.steps import operators, partition
from knoll.steps import spectral as steps
from knoll.steps import spectral_words as words
from knoll.steps.affinity import Source, make_source
from knoll.steps.eigengap import eigengap
from knoll.steps.spectral_answers import SpectralAnswers
from knoll.steps.spectral_cost import SpectralCost, estimate
from knoll.steps.spectral_door import clusters_of, level_weights, points_of, scaling_for, weights_of
from knoll.steps.spectral_labels import find_clusters
from knoll.steps.spectral_solve import Solved, solve
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

__all__ = ["SpectralClustering", "SpectralCost"]

Floats = NDArray[np.float64]


class SpectralClustering(ClusterMixin, SpectralAnswers):
    """Spectral clustering: the top eigenvectors of the normalised affinity matrix, and a partition of their rows.

    A is the matrix of similarities of the rows, D the diagonal of its row sums. The k largest eigenvectors of D^-½AD^-½
    are the relaxed solution both of weighted kernel k-means with W = D⁻¹ and of the normalized cut. Their rows are
    scaled and clustered. The n × n matrix is never stored unless that is the fastest way, and every answer comes with
    its certificate, `eigen_residual_`.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        k. "auto" takes it from the eigenvalues, up to 20: the sets that a walk along the links hardly leaves, if the
        gap after their eigenvalues is 2.5 times as wide as in one evenly spread cluster, else 1 (eq. 4.28 to 4.30). A
        few far rows are such a set, too: a single Gaussian cloud of two columns often has some, and a warning tells.
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
        Show the residual after each application of the operator, and the partition step.
    sigma : float, default=None
        σ of the Gaussian kernel, γ = 1/(2σ²). Neither: `knoll.scales.estimate_sigma` chooses it from the data.
    row_scaling : {"auto", "unit", "none", "degree"}, default="auto"
        Rows of length one (Ng, Jordan and Weiss), as they are (the paper's boxes), or over √d (scikit-learn). "auto"
        is "degree" for graphs, which gives lower normalized cuts there, and "unit" for kernels of points (decision
        0021).
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
        Clusters: `predict` of the training data. They are numbered in an order of their rows' contents, of graphs in
        one of their links; no order of the rows changes it.
    embedding_ : ndarray of shape (n_samples, n_components)
        Rows of the eigenvectors, scaled.
    eigenvalues_ : ndarray of shape (n_components,)
        Of D^-½AD^-½, largest first.
    eigengap_ : float
        The last of them minus the next eigenvalue, known to some per cent; NaN where there is none. Near 0 the
        embedding is one of many. Where the components of the graph give all eigenvectors, nothing has been solved: then
        it is computed when it is first asked for.
    eigen_residual_ : ndarray of shape (n_components,)
        ‖Mv − λv‖ of each pair by the exact operator: an eigenvalue of M lies within it of λ.
    normalized_cut_ : float
        Of `labels_` (eq. 4.12). Computed when it is first asked for, by one application of the operator.
    objective_ : float
        The normalized cut, or under formulation="kernel" the trace Tr(YᵀW^½KW^½Y) of `labels_` with W = D⁻¹.
    row_scaling_ : str
        How rows of the embedding were scaled.
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
        "fit_points_": Array("p d", "float64", when=lambda model: not model._wish().given),
        "graph_": Array("p p", low=0, sparse=True, when=lambda model: model._wish().graph),
        "graph_digest_": Text(),
        "radius_": Array(
            "p",
            "float64",
            low=0,
            when=lambda model: model._wish().name.endswith("nearest_neighbors"),
            also=lambda model, radius: "" if model.n_neighbors <= len(radius) else "has fewer entries than n_neighbors",
        ),
        "sigma_": Real(0, strict=True, when=lambda model: model._wish().name in ("rbf", "gaussian")),
        "sigma_reason_": Text(),
        # a file of 0.1.0 may lack the next two: then the parameter holds, and nothing was scaled
        "row_scaling_": Text(("unit", "degree", "none"), missing=True),
        "affinity_power_": Whole(-1100, 1100, missing=True),
        "operator_": Text(),
        "operator_reason_": Text(),
        "cutoff_": Real(0, finite=False),  # so wide a kernel leaves nothing out
        "eigenvalues_": Array("m", "float64", also=not_empty),
        "next_eigenvalue_": Real(none=True, nan=True),
        "eigen_residual_": Array("m", "float64", finite=False, nan=True),  # a report: no method reads it
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
    }

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
        tags.input_tags.pairwise = self._wish().given
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
        watch = words.Watch(time.perf_counter(), int(self.verbose))
        self._check_parameters()
        threads, seed, tol = self._threads(), draw_seed(self.random_state), self._tol()
        wish = self._wish()
        points, kind = points_of(X, wish, self, threads, reset=True)
        n = points.shape[0]
        weights = weights_of(sample_weight, wish, n)
        present = np.arange(n) if weights is None else np.flatnonzero(weights)
        rows = points if len(present) == n else points[present]
        counts = np.ones(len(present)) if weights is None else weights[present]
        w, power = level_weights(counts)
        k = clusters_of(self.n_clusters, len(present))
        m = min(len(present), k if self.n_components is None else int(self.n_components))
        source = make_source(wish, rows, counts if not (counts == 1).all() else None, threads)
        solved = solve(source, w, self._demand(m, k, seed, threads, self.n_clusters == "auto", watch))
        reason = f"n_clusters={self.n_clusters} was asked for"
        if self.n_clusters == "auto":
            tried = np.append(solved.spectrum.values, np.float64(solved.spectrum.following))
            chosen = eigengap(tried[~np.isnan(tried)], len(present))
            k, reason = chosen.best, chosen.reason
            kept = steps.leading(solved.spectrum, k if self.n_components is None else m)
            solved = replace(solved, spectrum=kept)
        self.row_scaling_ = scaling_for(self.row_scaling, wish)
        watch.say(f"Computing label assignment using {self.assign_labels}")
        found = find_clusters(
            source,
            solved,
            w,
            k,
            assign_labels=self.assign_labels,
            row_scaling=self.row_scaling_,
            n_init=int(self.n_init),
            seed=seed,
            threads=threads,
            say=watch.say if self.verbose else None,
        )
        if self.n_clusters == "auto":
            reason += words.warn_of_far_rows(found.labels, counts, k)
        words.warn_of_filled(found.filled, k, solved.spectrum.values.size, linked=solved.parts.count > 0)
        self.n_clusters_, self.n_clusters_reason_ = k, reason
        self.present_rows_ = None if len(present) == n else present
        self._keep(source, solved, w, found.rule, found.labels)
        self.embedding_[found.light] = found.embedding
        self.history_ = watch.history(solved.spectrum)
        if self.present_rows_ is not None:
            absent = np.setdiff1d(np.arange(n), present)
            extra, Y = self._predict(points[absent])
            self.labels_ = _spread(found.labels, extra, present, absent)
            self.embedding_ = _spread(self.embedding_, Y, present, absent)
        self._unlevel(power, kind)
        words.warn_of_asymmetry(source)
        words.warn_of_eigenpairs(solved, tol)
        words.warn_of_parts(solved, source, k)
        words.warn_of_gap(solved, source, k)
        return self

    def estimate_cost(self, X: ArrayLike) -> SpectralCost:
        """Say what a fit would take: operator, memory and processor time, from the data and a product of some rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples)
            As in `fit`.

        Returns
        -------
        SpectralCost
            The operator, memory beyond X at most, pairs of rows in an application, seconds with their bounds.
        """
        self._check_parameters()
        wish, threads = self._wish(), self._threads()
        points, _ = points_of(X, wish, None, threads, reset=True)
        k = clusters_of(self.n_clusters, points.shape[0])
        m = min(points.shape[0], k if self.n_components is None else int(self.n_components))
        options = {"n_init": int(self.n_init), "operator": self.operator, "solver": self.eigen_solver}
        return estimate(wish, points, m, threads=threads, **options)  # type: ignore[arg-type]

    def _keep(self, source: Source, solved: Solved, w: Floats, rule: partition.Rule, labels: NDArray[np.int32]) -> None:
        """Set what a fit leaves."""
        spectrum, k = solved.spectrum, self.n_clusters_
        self.fit_points_, self.graph_ = source.points, source.graph
        self.radius_, self.graph_digest_, self.affinity_power_ = source.radius, source.name, solved.power
        self.sigma_, self.sigma_reason_ = source.sigma, source.reason
        self.operator_, self.operator_reason_, self.cutoff_ = solved.route, solved.reason, solved.cutoff
        self.n_connected_components_ = solved.parts.count
        self.rule_: dict[str, Any] = {"kind": rule.kind, "matrix": rule.matrix}
        self.inertia_ = float(rule.inertia)
        self.extension_ = steps.coefficients(spectrum, w)
        rows = spectrum.vectors / np.sqrt(w)[:, None]
        self.embedding_ = steps.scaled_rows(rows, spectrum.degrees, self.row_scaling_)
        self.eigenvalues_, self.eigen_residual_ = spectrum.values, spectrum.residuals
        self.next_eigenvalue_ = spectrum.following
        self.n_iter_ = spectrum.applications
        self.labels_ = self.fit_labels_ = labels
        self.links_: Floats | None = None
        if source.graph is not None or isinstance(solved.operator, operators.Stored):
            self.links_ = steps.cut_terms(solved.operator, labels, k, w, spectrum.degrees)

    def _unlevel(self, power: int, kind: Any) -> None:
        """Bring rows and inertia back to the units that were given: weights 2^power as large, and similarities.

        Rows are unit, v/√w or v/√(w d) with d = A w, so their squares change by 2^−squares; the inertia is w times
        such squares.
        """
        squares = {"unit": 0, "none": power, "degree": 2 * power + self.affinity_power_}[self.row_scaling_]
        if not power and not squares:
            self.embedding_ = self.embedding_.astype(kind)
            return
        with np.errstate(over="ignore", under="ignore"):
            rows = self.embedding_ / np.sqrt(2.0 ** (squares % 2))
            self.embedding_ = np.ldexp(rows, -(squares // 2)).astype(kind)
            self.inertia_ = float(np.ldexp(self.inertia_, power - squares))

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


def _spread(kept: NDArray[Any], other: NDArray[Any], present: NDArray[Any], absent: NDArray[Any]) -> NDArray[Any]:
    """Put the rows of two arrays in the places they came from."""
    out = np.empty((len(kept) + len(other), *kept.shape[1:]), dtype=kept.dtype)
    out[present], out[absent] = kept, other
    return out
