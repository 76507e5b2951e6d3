"""The cost of a kernel k-means before it runs: the operator, memory at most, kernel values, processor time."""

from __future__ import annotations

from typing import Any

from knoll import kernels
from knoll._common.cost import Cost, Seconds
from knoll._common.sparse import is_sparse
from knoll.kernel_kmeans.prediction import BLOCK, in_core
from knoll.kernels.timing import pair_seconds

_MOVED = (0.0, 0.7, 12.0)  # rows that change cluster in a run, over all rows: few, expected, many
_ROW = 6e-6  # seconds of a row in a run, beside its kernel values
_ENTRY = 1.5e-9  # seconds of an entry of a precomputed matrix in a product, for each column
_CHOSEN = 10  # rows that a start evaluates for each cluster


def estimate(kernel: kernels.Kernel, points: Any, k: int, runs: int, threads: int) -> Cost:
    """Estimate a fit on validated points (or a precomputed matrix)."""
    n, d = points.shape
    pairs = n * (n + 1) / 2
    memory = 8 * n * k * 5 + 160 * n + (1 << 22)
    name, share = "tiles", 1.0
    if isinstance(kernel, kernels.Precomputed):
        name, pair = "stored", 2 * k * _ENTRY
        if is_sparse(points):
            share = points.nnz / (n * n)
            memory += 60 * points.nnz + 8 * BLOCK
        else:
            memory += 16 * n * n  # while it is checked
    elif not in_core(kernel):
        name, pair = "function", 2 * pair_seconds(kernel, points[:64], k)
        memory += 24 * BLOCK + 8 * n * d
    else:
        cutoff = kernel.cutoff(n) if isinstance(kernel, kernels.Gaussian) else 0.0
        operator: Any = kernel.operator(points, threads, cutoff)
        share = operator.pairs / pairs
        name = "truncated" if share < 0.9 else "tiles"
        pair = pair_seconds(kernel, points, k)
        memory += int(operator.bytes) + 16 * n * d
    entry = 0.7 * pair  # of an update, which has one column for each row that moves
    few, expected, many = (
        runs * (share * (pairs * pair + moved * n * n * entry) + n * (_ROW + k * _CHOSEN * entry)) + 0.01
        for moved in _MOVED
    )
    seconds = Seconds(expected, few / 2, 2 * many + 0.2)
    remedy = "fewer starts (n_init), or fit a sample of the rows and predict the others"
    # a step evaluates a row of K for each row that changes cluster
    return Cost(name, int(memory), float(runs) * n * n / 2, seconds, remedy, {"pairs of a step, at most": n * n / 2})
