"""What the affinity matrix A of a spectral clustering is: a kernel on points, a graph of neighbours, or a given matrix.

`Wish` is what the parameters ask for, `Source` what the data made of it. A fit makes a source, `predict` takes it up
again: both multiply by the same A and make a new row's links by the same rule.
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
from knoll.exceptions import BadData, InvalidParameter
from knoll.kernel_matrix import asymmetry
from knoll.places import find_places
from knoll.steps import neighbour_graph as near
from knoll.steps import operators
from knoll.steps.scaling import affinity_power, largest_of, scaled
from knoll.steps.sparse import is_sparse

__all__ = ["GIVEN", "GRAPHS", "OWNER", "Source", "Wish", "digest", "make_source"]

Floats = NDArray[np.float64]

OWNER = "SpectralClustering"
GRAPHS = ("nearest_neighbors", "precomputed", "precomputed_nearest_neighbors")
GIVEN = ("precomputed", "precomputed_nearest_neighbors")

_LARGEST = 2.0**900  # similarity of a query, in units of the fit: sums of n of them must stay within float64


@dataclass(frozen=True)
class Wish:
    """The parameters that tell what A is."""

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
        """The affinity's name; a function or an object has none."""
        return self.affinity if isinstance(self.affinity, str) else ""

    @property
    def given(self) -> bool:
        """Whether X is A, or the distances that A is made of."""
        return self.name in GIVEN

    @property
    def graph(self) -> bool:
        """Whether A is there as a matrix, rather than a kernel of points."""
        return self.name in GRAPHS

    @property
    def open_width(self) -> bool:
        """Whether σ is left to the data."""
        return self.name in ("rbf", "gaussian") and self.sigma is None and self.gamma is None

    def kernel(self, points: Floats, weights: Floats | None, threads: int) -> tuple[kernels.Kernel, float | None, str]:
        """Make the kernel; also return the σ of a Gaussian, and where it comes from."""
        if not isinstance(self.affinity, str):
            if isinstance(self.affinity, kernels.Kernel):
                sigma = getattr(self.affinity, "sigma", None)
                return self.affinity, sigma, "of the kernel that was given" if sigma else ""
            if callable(self.affinity):
                return kernels.Function(functools.partial(self.affinity, **(self.kernel_params or {}))), None, ""
            raise InvalidParameter(f"{OWNER}: affinity must be a name, a callable or a kernel, got {self.affinity!r}.")
        if self.open_width:
            found = scales.estimate_sigma(points, sample_weight=weights, n_jobs=threads)
            return kernels.Gaussian(float(found.value)), float(found.value), str(found.reason)
        if self.name in ("rbf", "gaussian"):
            made: Any = kernels.make("rbf", gamma=self.gamma, sigma=self.sigma, owner=OWNER)
            reason = "sigma was given" if self.sigma is not None else f"gamma={self.gamma!r} was given"
            return made, float(made.sigma), reason
        return _named_kernel(self.name, self.gamma, self.degree, self.coef0, self.kernel_params), None, ""


@dataclass(frozen=True)
class Source:
    """A of the rows of a fit."""

    wish: Wish
    points: Any  # (n, d); None where X is A
    kernel: kernels.Kernel | None = None
    sigma: float | None = None
    reason: str = ""  # of σ
    graph: Any = None  # (n, n), sparse or dense; None for a kernel
    radius: Any = None  # (n,): to the k-th neighbour, in graphs of neighbours
    name: str = ""  # of the matrix that the graph was made of, where that is another one
    power: int = 0  # similarities are divided by 2^power: those of the graph are, those of a kernel are when stored
    asymmetric: tuple[int, int] | None = None  # where a given graph was not symmetric, and averaged with its transpose

    def graph_operator(self, threads: int) -> Any:
        """Prepare the graph for products."""
        if self.wish.name == "precomputed":
            return kernels.Precomputed().operator(self.graph, threads)
        return operators.Links(self.graph)

    def operator(self, route: str, cutoff: float, threads: int) -> Any:
        """Prepare the operator of the fit again."""
        if self.graph is not None:
            return self.graph_operator(threads)
        assert self.kernel is not None
        if route == "stored":
            whole = bool(self.wish.zero_diagonal)
            stored = operators.store(self.kernel, self.points, threads, OWNER, whole=whole, power=self.power)
            return self.without_diagonal(stored, threads)
        return self.without_diagonal(self.kernel.operator(self.points, threads, cutoff), threads)

    def without_diagonal(self, operator: Any, threads: int) -> Any:
        """Take the diagonal out where that is asked for."""
        if not self.wish.zero_diagonal:
            return operator
        return operators.ZeroDiagonal(operator, functools.partial(_twins, self.points, threads=threads))

    def links_of(self, queries: Any, threads: int) -> Any:
        """Turn queries into what the operator takes: points, or their rows of links."""
        if self.wish.name == "nearest_neighbors":
            links = near.link_rows(queries, self.points, self.radius, int(self.wish.n_neighbors), threads, OWNER)
            if not self.wish.zero_diagonal:
                return links
            return _without_self(links, _twins(self.points, queries, threads=threads))
        if self.wish.name == "precomputed_nearest_neighbors":
            return near.given_links(queries, int(self.wish.n_neighbors), self.radius, OWNER)[0]
        return _limited(scaled(queries, -self.power)) if self.wish.name == "precomputed" else queries

    def row_sums(self, operator: Any, rows: NDArray[Any], coefficients: Floats) -> Floats:
        """Multiply rows of the fit by coefficients in the arithmetic of `predict`."""
        return np.asarray(operator.apply_rows((self.points if self.graph is None else self.graph)[rows], coefficients))


def make_source(wish: Wish, rows: Any, weights: Floats | None, threads: int) -> Source:
    """Make A of the rows; `weights` count where σ is chosen from the data."""
    if not wish.graph:
        kernel, sigma, reason = wish.kernel(rows, weights, threads)
        return Source(wish, rows, kernel, sigma, reason)
    k, radius, name = int(wish.n_neighbors), None, ""
    if wish.name == "precomputed":
        return _given_source(wish, rows)
    if k > rows.shape[0]:
        raise BadData(f"{OWNER}: n_neighbors={k} must be <= n_samples={rows.shape[0]}. Ask for fewer.")
    if wish.name == "nearest_neighbors":
        neighbours, radius = near.neighbours_of(rows, k, threads, OWNER)
    else:
        neighbours, radius = near.given_links(rows, k, None, OWNER)
        name = digest(rows)
    graph = near.graph_of(neighbours)
    if wish.zero_diagonal:
        graph.setdiag(0.0)
        graph.eliminate_zeros()
    return Source(wish, None if wish.given else rows, graph=graph, radius=radius, name=name)


def digest(graph: Any) -> str:
    """Name a graph by its contents."""
    name = hashlib.sha256(repr(graph.shape).encode())
    parts: tuple[Any, ...] = (np.asarray(graph, dtype=np.float64),) if not is_sparse(graph) else ()
    if not parts:
        rows: Any = scipy.sparse.csr_array(graph)
        parts = (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data)
    for part in parts:
        name.update(np.ascontiguousarray(part).data)
    return name.hexdigest()


# ---- inside --------------------------------------------------------------------------------------------------------


def _given_source(wish: Wish, rows: Any) -> Source:
    """Make A of a matrix that was given: symmetric, near one, without its diagonal where that is asked for.

    Where A is another matrix than the one given, that one is named, so that `predict` recognises it.
    """
    power, place = affinity_power(largest_of(rows)), asymmetry(rows)
    graph = scaled(rows, -power)
    if place is not None:
        graph = (graph + graph.T) / 2
        graph = graph.tocsr() if is_sparse(graph) else graph
    if wish.zero_diagonal:
        graph = graph.copy()
        graph.setdiag(0.0) if is_sparse(graph) else np.fill_diagonal(graph, 0.0)
    name = digest(rows) if wish.zero_diagonal or place is not None else ""
    return Source(wish, None, graph=graph, name=name, power=power, asymmetric=place)


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
        known = sorted({"rbf", "gaussian", *GRAPHS, *kernel_metrics()})
        raise InvalidParameter(
            f"{OWNER}: affinity must be one of {', '.join(map(repr, known))}, a callable or a kernel of "
            f"knoll.kernels, got {name!r}."
        )
    arguments = {"gamma": 1.0 if gamma is None else gamma, "degree": degree, "coef0": coef0, **(params or {})}

    def function(X: Any, Y: Any) -> Any:
        try:  # one row is two-dimensional too: what is wrong are the arguments, and the message must say so
            return pairwise_kernels(np.atleast_2d(X), np.atleast_2d(Y), metric=name, filter_params=True, **arguments)
        except (ValueError, TypeError) as error:
            raise InvalidParameter(f"{OWNER}: affinity {name!r} cannot be computed: {error}") from None

    function.__name__ = name  # what messages call it
    return kernels.Function(function)


def _twins(points: Floats, queries: Any, *, threads: int) -> NDArray[np.int64]:
    """For each query the lowest row that equals it, or −1; by content, since a distance may underflow."""
    n = len(points)
    found = find_places(np.concatenate([points, np.asarray(queries, dtype=np.float64)]), threads)
    rows = found.first[found.which[n:]]
    return np.where(rows < n, rows, -1)


def _without_self(links: Any, twins: NDArray[np.int64]) -> Any:
    """Take a row's link to itself out of its links."""
    own = np.flatnonzero(twins >= 0)
    gone = scipy.sparse.csr_array((np.ones(len(own)), (own, twins[own])), shape=links.shape)
    left = scipy.sparse.csr_array(links - links.multiply(gone))
    left.eliminate_zeros()
    left.sort_indices()
    return left
