"""Rows and centres: who is closest to whom, at which distance, and what the rows of a cluster add up to.

The only module that knows whether the points are an array or a sparse matrix (compressed rows).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.exact_sums import ExactSums
from knoll._common.passes import Passes, Run
from knoll._common.sparse import is_sparse
from knoll._typing import Floats, Ints, Labels


def assign(points: Any, centers: Floats, labels: Labels, d2: Floats | None, threads: int) -> tuple[int, int]:
    """Write the closest centre of each row into `labels`, and its squared distance into `d2` unless that is None.

    Returns how many distances were evaluated, and how many rows were decided again by the one distance.
    """
    if is_sparse(points):
        evaluated, again = _core.assign_csr(*_csr(points), centers, labels, d2, threads)
    else:
        evaluated, again = _core.assign(points, centers, labels, d2, threads)
    return int(evaluated), int(again)


def own_distances(points: Any, centers: Floats, labels: Labels, threads: int) -> Floats:
    """Compute the squared distance of each row to its own centre, the closest, which is known."""
    d2 = np.empty(points.shape[0])
    if is_sparse(points):
        assign(points, centers, np.empty_like(labels), d2, threads)
    else:
        _core.own_distances(points, centers, labels, d2, threads)
    return d2


def distances(points: Any, centers: Floats, threads: int) -> NDArray[Any]:
    """Compute the distance of each row to each centre, in the dtype of the points."""
    out = np.empty((points.shape[0], len(centers)), dtype=points.dtype)  # (n, k)
    if is_sparse(points):
        _core.center_distances_csr(*_csr(points), centers, out, threads)
    else:
        _core.center_distances(points, centers, out, threads)
    return out


def add_sums(block: Block, labels: Labels, sums: Ints, threads: int) -> None:
    """Add the rows of a block to the exact sums of their clusters."""
    if is_sparse(block.points):
        _core.add_cluster_sums_csr(*_csr(block.points), block.weights, labels, sums, threads)
    else:
        _core.add_cluster_sums(block.points, block.weights, labels, sums, threads)


def cluster_sums(block: Block, labels: Labels, k: int, threads: int) -> ExactSums:
    """Add the rows of a block up, cluster by cluster."""
    sums = ExactSums.zeros(k * (block.points.shape[1] + 1))
    add_sums(block, labels, sums.words, threads)
    return sums


def squared_error(passes: Passes, centers: Floats) -> float:
    """Compute Σ w‖x − closest centre‖²: the terms are those of the one distance, their sum is rounded once."""
    return float(passes.total(_squared_error, centers).round()[1])


def _squared_error(block: Block, centers: Floats, run: Run) -> ExactSums:
    n = block.points.shape[0]
    labels, d2 = np.empty(n, dtype=np.int32), np.empty(n)
    assign(block.points, centers, labels, d2, run.threads)
    labels.fill(0)
    return cluster_sums(Block(d2[:, None], block.weights), labels, 1, run.threads)


def total_scatter(passes: Passes, origin: Floats) -> float:
    """Compute Σ w‖x − origin‖², each row's term in one float (docs/numerics/kmeans.md)."""
    return float(passes.total(_scatter, origin).round()[0])


def exact_total_scatter(passes: Passes, origin: Floats) -> tuple[float, float]:
    """Compute the same to about a hundred bits, as the sum of two floats: for when `total_scatter` has too few."""
    low = np.empty(1)
    high = passes.total(_exact_scatter, origin).round(low=low)
    return float(high[0]), float(low[0])


def _scatter(block: Block, origin: Floats, run: Run) -> ExactSums:
    add = _core.add_scatter_csr if is_sparse(block.points) else _core.add_scatter
    return _scatter_by(add, block, origin, run)


def _exact_scatter(block: Block, origin: Floats, run: Run) -> ExactSums:
    add = _core.add_exact_scatter_csr if is_sparse(block.points) else _core.add_exact_scatter
    return _scatter_by(add, block, origin, run)


def _scatter_by(add: Callable[..., None], block: Block, origin: Floats, run: Run) -> ExactSums:
    total = ExactSums.zeros(1)
    add(*_rows(block.points), block.weights, origin, total.words[:, 0], run.threads)
    return total


# ---- what a block remembers between steps --------------------------------------------------------------------------


# What one block remembers between steps, so that a step can skip what cannot have changed.
Memory: TypeAlias = _core.LloydMemory


def step(memory: Memory, block: Block, centers: Floats, threads: int) -> tuple[int, int, int]:
    """Assign the rows to these centres; labels and sums follow. Return (relabelled, distances, rechecks)."""
    if is_sparse(block.points):
        return memory.step_csr(*_csr(block.points), block.weights, centers, threads)
    return memory.step(block.points, block.weights, centers, threads)


def round_moved(
    memory: Memory, block: Block, rows: Ints, to: Labels, out: Floats, threads: int, low: Floats | None = None
) -> None:
    """Round the sums with some rows in other clusters; labels and sums stay as they are."""
    if is_sparse(block.points):
        memory.round_moved_csr(*_csr(block.points), block.weights, rows, to, out, threads, low)
    else:
        memory.round_moved(block.points, block.weights, rows, to, out, threads, low)


def memory_for(points: Any, k: int, algorithm: str) -> Memory:
    """Make the memory of one block: no bounds ("lloyd"), one per row ("hamerly"), one per group of centres ("elkan").

    "auto" takes what suits the shape.
    """
    n, d = points.shape
    if is_sparse(points):  # no bounds by group there
        return _core.LloydMemory(n, d, k, "lloyd" if k == 1 or algorithm == "lloyd" else "hamerly")
    if algorithm == "auto":
        few = k == 1 or n * k * d <= 1 << 14  # a step is next to nothing: nothing to save
        algorithm = "lloyd" if few else _core.best_lloyd(n, d, k)
    return _core.LloydMemory(n, d, k, algorithm)


def memory_size(n: int, d: int, k: int) -> int:
    """Return how many bytes a memory takes at most: labels, bounds, short copies of the rows, sums."""
    return n * (16 + k // 4 + 5 * d) + 2 * 8 * _core.SUM_WORDS * k * (d + 1)


def _rows(points: Any) -> tuple[Any, ...]:
    return _csr(points) if is_sparse(points) else (points,)


def _csr(points: Any) -> tuple[Any, Any, Any, int]:
    return points.data, points.indices, points.indptr.astype(points.indices.dtype, copy=False), points.shape[1]
