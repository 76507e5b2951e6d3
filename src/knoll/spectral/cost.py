"""The cost of a spectral clustering before it runs: the operator, memory at most, and processor time."""

from __future__ import annotations

import time
from typing import Any

from knoll._common.cost import Cost, Seconds
from knoll._common.sparse import is_sparse
from knoll.kernels import Gaussian
from knoll.kernels.timing import knn_seconds, pair_seconds
from knoll.neighbors.graph import neighbours_of
from knoll.spectral.affinity import OWNER, AffinityParams
from knoll.spectral.eigen import GUARD, GUARD_SPARSE, most_columns
from knoll.spectral.graph import sparse_components
from knoll.spectral.low_rank import fourier_grid, most_rank
from knoll.spectral.route import plan_route
from knoll.spectral.solve import operator_for, solves_whole

_APPLICATIONS = (5, 14, 60)  # of the operator: few, expected, many; eigenvalues that crowd near one take up to max_iter
_BEGUN = (2, 7, 60)  # the same where an approximate solution is the start, and may be refused
_OF_GRAPH = (3, 7, 60)  # the same of sparse graphs, which are factorised where that is cheap
_FLOP = 6e-11  # seconds of a multiplication in a tall product
_LINK = 1.5e-9  # seconds of a link in a column of a sparse product
_FILL = 30  # entries of a factor for each row, at most: others are not factorised
_WHOLE = 2.5e-10  # seconds for each of n³ of LAPACK's whole spectrum
_ROW = 1.5e-5  # seconds of a row in validation and the partition step, for ten starts
_ROW_OF_GRAPH = 4e-7  # the same for each cluster, of the embedding of a graph
_SEARCH = 2.0  # seconds that a search for all neighbours may take here
_BUFFERS = 1 << 24  # bytes that do not grow with n


_REMEDY = "affinity='nearest_neighbors', or fit a sample of the rows and predict the others"


def estimate(
    params: AffinityParams,
    points: Any,
    m: int,
    *,
    n_init: int,
    operator: str,
    solver: str | None,
    threads: int,
    gap: bool,
) -> Cost:
    """Estimate a fit of m eigenpairs, and of the next one where `gap` is true, on validated points (or a graph)."""
    n = points.shape[0]
    block = min(n, m + 1 + GUARD)
    basis = 8 * n * (3 * most_columns(n, n, block) + 14 * block)  # it grows by doubling, beside a few blocks
    tall = 14 * n * 6 * block * block * _FLOP  # of one application
    partition = n * _ROW * (1 + n_init / 10)
    if params.graph:
        partition = n * m * _ROW_OF_GRAPH * (1 + n_init / 10)
        return _of_graph(params, points, m, block, basis, tall, partition, solver, threads, gap)
    begun = time.process_time()
    kernel, sigma, _ = params.kernel(points, None, threads)
    chosen = time.process_time() - begun  # what σ took
    d, all_pairs = points.shape[1], n * (n + 1) / 2
    name = operator_for(operator, solver, m, n)
    gaussian = isinstance(kernel, Gaussian)
    plan = plan_route(kernel, points, name, threads, whole=bool(params.zero_diagonal))
    pair = pair_seconds(kernel, points, block)
    if plan.name == "stored":
        matrix = 8 * n * n
        value = pair_seconds(kernel, points, 1) * 2 * all_pairs + 1.5e-9 * matrix / 8
        checked = 0 if gaussian else 2 * matrix
        if solves_whole(solver, m, n):
            took = value + _WHOLE * n**3 + 0.02
            memory = 7 * matrix + checked + basis + _BUFFERS
            return Cost("stored", memory, all_pairs, _seconds(took + chosen + partition, 0.0), _REMEDY)
        product = n * n * block * _FLOP
        memory = 2 * matrix + checked + basis + _BUFFERS
        return Cost("stored", memory, all_pairs, _seconds(value + chosen + partition, product + tall), _REMEDY)
    # the time of a pair of the Heaviside kernel is a mean over all pairs, those out of range included
    pairs = float(plan.operator.pairs) if gaussian else all_pairs
    memory = basis + int(plan.operator.bytes) + 16 * n * d + 200 * n + _BUFFERS
    fixed = chosen + partition
    if plan.sketch == "cholesky":
        rank = most_rank(n)
        memory += 8 * n * (rank + 96)
        fixed += n * rank * rank * _FLOP * 4
    elif plan.sketch == "finufft":
        grid, _, _ = fourier_grid(points, sigma or 1.0, 1e-10)
        memory += 16 * grid * 2 ** (d + 1) * threads + 64 * n * threads + basis
        fixed += 14 * (n * 3e-7 * 9**d / 9 + grid * 2e-7) * block / 2
    if plan.approximate:  # one exact application certifies
        return Cost(plan.name, memory, pairs, _seconds(fixed + pairs * pair, 0.0), _REMEDY)
    counts = _APPLICATIONS if plan.sketch == "none" else _BEGUN
    return Cost(plan.name, memory, pairs, _seconds(fixed, pairs * pair + tall, counts), _REMEDY)


def _of_graph(
    params: AffinityParams,
    points: Any,
    m: int,
    block: int,
    basis: int,
    tall: float,
    partition: float,
    solver: str | None,
    threads: int,
    gap: bool,
) -> Cost:
    """Estimate the fit of a graph, precomputed or of neighbours.

    The indicators of connected components are eigenvectors. Where they are all that is wanted, no basis is built.
    """
    n, link_bytes = points.shape[0], 160
    if params.name == "nearest_neighbors":
        k, link_bytes = min(int(params.n_neighbors), n), 60
        links, made = 2.0 * k * n, n * (knn_seconds(points, min(k + 1, n)) + k * 4e-7)
    elif is_sparse(points):
        links, made = float(points.nnz), points.nnz * 2e-7
    else:
        links, made = float(n) * n, n * n * 1e-8
    components, counts = _components(params, points, made, threads), _OF_GRAPH
    if components >= m + gap:
        basis, counts = 8 * n * 4 * (m + 1), (1, 1, 2)
    elif params.name == "nearest_neighbors":
        columns = min(n, m + 2 - components + GUARD_SPARSE)
        basis = 8 * n * (3 * most_columns(n, n, columns) + 14 * columns)
    memory = basis + int(links * link_bytes) + (12 * _FILL + 200) * n + _BUFFERS
    if solves_whole(solver, m, n):
        seconds = _seconds(made + _WHOLE * n**3 + partition + 0.02, 0.0)
        return Cost("stored", memory + 56 * n * n, links, seconds, _REMEDY)
    return Cost("stored", memory, links, _seconds(made + partition, links * block * _LINK + tall, counts), _REMEDY)


def _components(params: AffinityParams, points: Any, made: float, threads: int) -> int:
    """Count the connected components of the graph; 1, the most expensive case, where they are not quick to find."""
    if params.name == "precomputed" and is_sparse(points):
        return int(sparse_components(points).max()) + 1
    k = int(params.n_neighbors)
    if params.name != "nearest_neighbors" or made > _SEARCH or k > points.shape[0]:
        return 1
    links, _ = neighbours_of(points, k, threads, OWNER)
    return int(sparse_components(links + links.T).max()) + 1


def _seconds(fixed: float, application: float, counts: tuple[int, int, int] = _APPLICATIONS) -> Seconds:
    few, expected, many = (0.01 + fixed + count * application for count in counts)
    return Seconds(expected, few / 2, 2 * many + 0.2)  # a busy machine, or another: a factor of two
