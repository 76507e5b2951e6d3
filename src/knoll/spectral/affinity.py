"""The affinity matrix A of a spectral clustering: a kernel on points, a graph of neighbours, or a precomputed matrix.

`AffinityParams` are the parameters, `Affinity` is A of the rows of a fit. `predict` builds the same affinity again: fit
and predict multiply by the same A, and compute the links of a new row by the same rule.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll import kernels, scales
from knoll._common.rescale import affinity_exponent, directions, largest_of, times_power
from knoll._common.sparse import is_sparse
from knoll._common.unique_rows import find_unique_rows
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData, CostError, InvalidParameter
from knoll.kernels.operators import (
    Operator,
    SparseOperator,
    ZeroDiagonalOperator,
    asymmetry,
    check_matrix,
    refuse_negative,
)
from knoll.neighbors import graph as near
from knoll.spectral.route import store
from knoll.validation import check_points, check_weights

OWNER = "SpectralClustering"
_PRECOMPUTED = ("precomputed", "precomputed_nearest_neighbors")
_GRAPHS = ("nearest_neighbors", *_PRECOMPUTED)

_LARGEST = 2.0**900  # similarity of a query, in units of the fit: sums of n of them must stay within float64
_DENSE_BYTES = 1 << 31  # of sparse rows that are made dense


@dataclass(frozen=True)
class AffinityParams:
    """The parameters that define A."""

    affinity: Any
    gamma: float | None
    sigma: float | None
    n_neighbors: int
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None
    zero_diagonal: bool

    @property
    def name(self) -> str:
        """The name of the affinity; a function or an object has none."""
        return self.affinity if isinstance(self.affinity, str) else ""

    @property
    def precomputed(self) -> bool:
        """Whether X is A, or the distances that A is computed from."""
        return self.name in _PRECOMPUTED

    @property
    def graph(self) -> bool:
        """Whether A is stored as a matrix, rather than a kernel of points."""
        return self.name in _GRAPHS

    @property
    def estimates_sigma(self) -> bool:
        """Whether σ is estimated from the data."""
        return self.name in ("rbf", "gaussian") and self.sigma is None and self.gamma is None

    def kernel(self, points: Floats, weights: Floats | None, threads: int) -> tuple[kernels.Kernel, float | None, str]:
        """Make the kernel; also return the σ of a Gaussian, and where it comes from."""
        if not isinstance(self.affinity, str):
            if isinstance(self.affinity, kernels.Kernel):
                sigma = getattr(self.affinity, "sigma", None)
                return self.affinity, sigma, "sigma of the kernel object" if sigma else ""
            if callable(self.affinity):
                return kernels.Function(functools.partial(self.affinity, **(self.kernel_params or {}))), None, ""
            raise InvalidParameter(f"{OWNER}: affinity must be a name, a callable or a kernel, got {self.affinity!r}.")
        if self.estimates_sigma:
            found = scales.estimate_sigma(points, sample_weight=weights, n_jobs=threads)
            return kernels.Gaussian(float(found.value)), float(found.value), str(found.reason)
        if self.name in ("rbf", "gaussian"):
            made: Any = kernels.make("rbf", gamma=self.gamma, sigma=self.sigma, owner=OWNER)
            reason = "the parameter sigma" if self.sigma is not None else f"the parameter gamma={self.gamma!r}"
            return made, float(made.sigma), reason
        return _named_kernel(self.name, self.gamma, self.degree, self.coef0, self.kernel_params), None, ""

    def row_scaling(self, requested: str) -> str:
        """Return the scaling of the rows of the embedding; "auto" depends on the affinity (decision 0021)."""
        if requested != "auto":
            return requested
        return "degree" if self.graph else "unit"


@dataclass(frozen=True)
class Affinity:
    """A of the rows of a fit."""

    params: AffinityParams
    points: Any  # (n, d); None where X is A
    kernel: kernels.Kernel | None = None
    sigma: float | None = None
    sigma_reason: str = ""
    graph: Any = None  # (n, n), sparse or dense; None for a kernel
    radius: Any = None  # (n,): to the k-th neighbour, in graphs of neighbours
    digest: str = ""  # of the input that the graph was computed from, where A is another matrix
    power: int = 0  # similarities are divided by 2^power: those of the graph, and those of a kernel when stored
    asymmetric: tuple[int, int] | None = None  # entry where a precomputed graph differed from its transpose

    def graph_operator(self, threads: int) -> Any:
        """Prepare the graph for products."""
        if self.params.name == "precomputed":
            return kernels.Precomputed().operator(self.graph, threads)
        return SparseOperator(self.graph, symmetric=True)

    def operator(self, route: str, cutoff: float, threads: int) -> Any:
        """Prepare the operator of the fit again."""
        if self.graph is not None:
            return self.graph_operator(threads)
        assert self.kernel is not None
        if route == "stored":
            whole = bool(self.params.zero_diagonal)
            stored = store(self.kernel, self.points, threads, OWNER, whole=whole, power=self.power)
            return self.without_diagonal(stored, threads)
        return self.without_diagonal(self.kernel.operator(self.points, threads, cutoff), threads)

    def without_diagonal(self, operator: Operator, threads: int) -> Operator:
        """Remove the diagonal where `zero_diagonal` requests it."""
        if not self.params.zero_diagonal:
            return operator
        return ZeroDiagonalOperator(operator, functools.partial(_twins, self.points, threads=threads), threads)

    def query_rows(self, queries: Any, threads: int) -> Any:
        """Turn queries into the input of the operator: points, or their rows of links."""
        if self.params.name == "nearest_neighbors":
            links = near.link_rows(queries, self.points, self.radius, int(self.params.n_neighbors), threads, OWNER)
            if not self.params.zero_diagonal:
                return links
            return _without_self(links, _twins(self.points, queries, threads=threads))
        if self.params.name == "precomputed_nearest_neighbors":
            return near.precomputed_links(queries, int(self.params.n_neighbors), self.radius, OWNER)[0]
        return _limited(times_power(queries, -self.power)) if self.params.name == "precomputed" else queries

    def row_sums(self, operator: Operator, rows: NDArray[Any], coefficients: Floats) -> Floats:
        """Multiply rows of the fit by coefficients in the arithmetic of `predict`."""
        return np.asarray(operator.apply_rows((self.points if self.graph is None else self.graph)[rows], coefficients))


def make_affinity(params: AffinityParams, rows: Any, weights: Floats | None, threads: int) -> Affinity:
    """Compute A of the rows; `weights` count where σ is estimated from the data."""
    if not params.graph:
        kernel, sigma, reason = params.kernel(rows, weights, threads)
        return Affinity(params, rows, kernel, sigma, reason)
    if params.name == "precomputed":
        return _precomputed(params, rows)
    k, name = int(params.n_neighbors), ""
    if k > rows.shape[0]:
        raise BadData(f"{OWNER}: n_neighbors={k} must be <= n_samples={rows.shape[0]}. Ask for fewer.")
    if params.name == "nearest_neighbors":
        neighbours, radius = near.neighbours_of(rows, k, threads, OWNER)
    else:
        neighbours, radius = near.precomputed_links(rows, k, None, OWNER)
        name = digest(rows)
    graph = near.graph_of(neighbours)
    if params.zero_diagonal:
        graph.setdiag(0.0)
        graph.eliminate_zeros()
    return Affinity(params, None if params.precomputed else rows, graph=graph, radius=radius, digest=name)


def digest(graph: Any) -> str:
    """Hash the contents of a graph."""
    name = hashlib.sha256(repr(graph.shape).encode())
    arrays: tuple[Any, ...] = (np.asarray(graph, dtype=np.float64),) if not is_sparse(graph) else ()
    if not arrays:
        rows: Any = scipy.sparse.csr_array(graph)
        arrays = (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data)
    for array in arrays:
        name.update(np.ascontiguousarray(array).data)
    return name.hexdigest()


# ---- validation ------------------------------------------------------------------------------------------------------


def validate_points(X: Any, params: AffinityParams, estimator: Any, threads: int, *, reset: bool) -> tuple[Any, Any]:
    """Validate and convert the data; also return its dtype. Points become rows of float64, exact for float32 too."""
    points: Any = check_points(X, estimator=estimator, reset=reset, sparse=True, n_jobs=threads)
    dtype = points.dtype
    if params.precomputed:
        if reset and points.shape[0] != points.shape[1]:
            raise BadData(f"{OWNER}: with affinity={params.name!r} X must be square, got shape {points.shape}.")
        if params.name == "precomputed" and reset:
            check_matrix(points, f"{OWNER}: the precomputed affinity", negative=False, symmetric=False)
        if not reset or params.name != "precomputed":
            what = "affinities" if params.name == "precomputed" else "distances"
            refuse_negative(points, f"{OWNER}: precomputed {what} must be >= 0")
        return points, dtype
    if is_sparse(points):
        needed = 8 * points.shape[0] * points.shape[1]
        if needed > _DENSE_BYTES:
            raise CostError(
                f"{OWNER}: sparse rows are made dense, which takes {needed / 2**30:.1f} GB here. Reduce the columns "
                "first, or pass a graph with affinity='precomputed'."
            )
        points = points.toarray()
    return np.ascontiguousarray(points, dtype=np.float64), dtype


def validate_weights(sample_weight: Any, params: AffinityParams, n: int) -> Floats | None:
    """Validate weights; refuse them where a repetition has no meaning."""
    if sample_weight is None:
        return None
    for refused, why in (
        (params.name == "nearest_neighbors", "repeated rows would crowd out each other's neighbours"),
        (params.precomputed, "a precomputed graph has no links between the copies of a row"),
        (bool(params.zero_diagonal), "copies of a row are linked, the row itself is not"),
    ):
        if refused:
            what = "zero_diagonal=True" if params.zero_diagonal else f"affinity={params.affinity!r}"
            raise InvalidParameter(
                f"{OWNER}: sample_weight has no meaning with {what}: {why}. Leave the weights out, or use "
                "affinity='rbf' with zero_diagonal=False."
            )
    return check_weights(sample_weight, n, owner=OWNER)


# ---- inside ----------------------------------------------------------------------------------------------------------


def _precomputed(params: AffinityParams, rows: Any) -> Affinity:
    """Make A of a precomputed matrix: symmetric, scaled near one, with or without its diagonal.

    Where A differs from the input, the input's digest is kept, so that `predict` recognises it.
    """
    power, entry = affinity_exponent(rows), asymmetry(rows)
    graph = times_power(rows, -power)
    if entry is not None:
        graph = (graph + graph.T) / 2
        graph = graph.tocsr() if is_sparse(graph) else graph
    if params.zero_diagonal:
        graph = graph.copy()
        graph.setdiag(0.0) if is_sparse(graph) else np.fill_diagonal(graph, 0.0)
    name = digest(rows) if params.zero_diagonal or entry is not None else ""
    return Affinity(params, None, graph=graph, digest=name, power=power, asymmetric=entry)


def _limited(queries: Any) -> Any:
    """Clip similarities so large beside those of the fit that their sums would leave float64."""
    if not largest_of(queries) > _LARGEST:
        return queries
    if not is_sparse(queries):
        return np.minimum(queries, _LARGEST)
    clipped = queries.copy()
    clipped.data = np.minimum(clipped.data, _LARGEST)
    return clipped


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
        known = sorted({"rbf", "gaussian", "gower", *_GRAPHS, *kernel_metrics()})
        raise InvalidParameter(
            f"{OWNER}: affinity must be one of {', '.join(map(repr, known))}, a callable or a kernel of "
            f"knoll.kernels, got {name!r}."
        )
    arguments = {"gamma": 1.0 if gamma is None else gamma, "degree": degree, "coef0": coef0, **(params or {})}

    def function(X: Any, Y: Any) -> Any:
        X, Y = np.atleast_2d(X), np.atleast_2d(Y)
        if name == "cosine":
            X, Y = directions(X), directions(Y)
        try:  # the shapes are right, so an error here comes from the arguments, and the message must name them
            with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are refused by the caller
                return pairwise_kernels(X, Y, metric=name, filter_params=True, **arguments)
        except (ValueError, TypeError) as error:
            raise InvalidParameter(f"{OWNER}: affinity {name!r} cannot be computed: {error}") from None

    function.__name__ = name  # for messages
    return kernels.Function(function)


def _twins(points: Floats, queries: Any, *, threads: int) -> Ints:
    """Return for each query the lowest row that equals it, or −1; by content, since a distance may underflow."""
    n = len(points)
    found = find_unique_rows(np.concatenate([points, np.asarray(queries, dtype=np.float64)]), threads)
    rows = found.index[found.inverse[n:]]
    return np.where(rows < n, rows, -1)


def _without_self(links: Any, twins: Ints) -> Any:
    """Remove the link of a row to itself."""
    own = np.flatnonzero(twins >= 0)
    removed = scipy.sparse.csr_array((np.ones(len(own)), (own, twins[own])), shape=links.shape)
    others = scipy.sparse.csr_array(links - links.multiply(removed))
    others.eliminate_zeros()
    others.sort_indices()
    return others
