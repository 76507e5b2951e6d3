"""The tree of each linkage: where its distances come from, and what the core makes of them.

ward       means and sizes, in memory linear in the rows
single     the density tree with min_samples=1, where the core knows the metric; else a matrix
average    a matrix of distances, each stored once
complete   the same
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.rescale import HEAVY_WEIGHTS, Rescaling, exponent_of, largest_of, times_power
from knoll._system import free_memory
from knoll._typing import Floats
from knoll.density.reachability import Level, choose_reachability
from knoll.exceptions import BadData, CostError
from knoll.hierarchy.merges import MergeTree, SortedRows
from knoll.neighbors.distances import metric_distances
from knoll.neighbors.metric_names import core_metric, core_parameter

Metric = str | Callable[..., Any]

OWNER = "AgglomerativeClustering"
_TINY = float(np.finfo(np.float64).tiny)
_BLOCK = 1 << 22  # distances computed at a time, where the core does not know the metric
_LENGTHS = ("euclidean", "manhattan", "chebyshev", "minkowski")  # metrics of the core whose distances have units


def matrix_bytes(n: int) -> int:
    """Return the bytes of the distances of n rows, each stored once."""
    return 4 * n * (n - 1)


def tree_of(
    X: NDArray[Any],
    weights: Floats | None,
    linkage: str,
    metric: Metric,
    threads: int,
    params: dict[str, Any] | None = None,
) -> MergeTree:
    """Build the tree of the rows of X, or of a matrix of distances; weights are > 0.

    `params` are those of "gower", as searches take them.
    """
    if metric == "precomputed" or callable(metric):
        return _link(_stored_distances(X, metric, linkage), weights, linkage, threads)
    distinct = SortedRows.of(X)
    masses, name = distinct.weights(weights), core_metric(metric, params, None)
    points: NDArray[Any] = X[distinct.rows]
    if len(points) == 1:
        return distinct.expand(MergeTree.empty(1))
    if name not in _LENGTHS:
        return distinct.expand(_unitless(points, masses, linkage, metric, name, threads, params))
    scaling, points, masses = rescaled(points, masses)
    if linkage == "ward":
        tree = MergeTree.empty(len(points))
        _core.ward(points, masses, tree.children, tree.heights, threads)
        return distinct.expand(MergeTree(tree.children, ward_heights(tree.heights, scaling)))
    tree = _unitless(points, masses, linkage, metric, name, threads)
    return distinct.expand(MergeTree(tree.children, scaling.from_units(tree.heights, length=1)))


def rescaled(X: NDArray[Any], weights: Floats | None) -> tuple[Rescaling, NDArray[Any], Floats | None]:
    """Bring extreme points and weights to where their squares and products are in float64."""
    heaviest = 1.0 if weights is None else float(weights.max())
    scaling = Rescaling.fitting(largest_of(X), heaviest, [Block(X, weights)])
    if weights is not None and weights.min() < 2.0**-HEAVY_WEIGHTS:  # times a squared distance they would vanish
        scaling = replace(scaling, weight_exponent=exponent_of(heaviest) - HEAVY_WEIGHTS)
    if not scaling:
        return scaling, X, weights
    points, masses = scaling.block(Block(X, weights))
    return scaling, points, None if masses is None else np.maximum(masses, _TINY)


def shares(weights: Floats | None) -> Floats | None:
    """Bring weights whose common factor does not matter to where the core adds and inverts them.

    Those below 2^−1522 of the heaviest become as heavy as that: in a mean beside it they count for nothing.
    """
    if weights is None:
        return None
    return np.maximum(times_power(weights, HEAVY_WEIGHTS - exponent_of(weights)), _TINY)


def ward_heights(rise: Floats, scaling: Rescaling) -> Floats:
    """Return √(2ΔJ) in the units of the data (eq. 7.9); ΔJ is a squared length times a weight."""
    half, odd = divmod(scaling.weight_exponent, 2)
    heights: Floats = times_power(np.sqrt(times_power(rise, 1 + odd)), half)
    return np.asarray(scaling.from_units(heights, length=1))


def _unitless(
    points: NDArray[Any],
    weights: Floats | None,
    linkage: str,
    metric: Metric,
    name: str | None,
    threads: int,
    params: dict[str, Any] | None = None,
) -> MergeTree:
    """Build the tree of rows that differ, by distances."""
    if name is None:
        return _link(_sklearn_distances(points, metric, linkage), weights, linkage, threads)
    if linkage == "single":
        return _single(points, name, threads, params)
    distances = _triangle(len(points), linkage)
    _core.pair_distances(points, name, core_parameter(name, params, None), distances, threads)
    return _link(distances, weights, linkage, threads)


def _single(points: NDArray[Any], metric: str, threads: int, params: dict[str, Any] | None) -> MergeTree:
    """Join the rows of the density tree in the order of its bars."""
    source = choose_reachability(points, metric, params, None, OWNER, threads)
    density = source.grow(points, Level(1.0, None, 1.0))
    tree = MergeTree.empty(len(points))
    _core.link_bars(density.bars, tree.children, tree.heights, threads)
    return tree.of_rows(density.order, len(points))


# ---- matrices of distances -----------------------------------------------------------------------------------------


def _link(distances: Floats, weights: Floats | None, linkage: str, threads: int) -> MergeTree:
    n = (1 + int(np.sqrt(1 + 8 * len(distances)))) // 2
    tree = MergeTree.empty(n)
    _core.link_matrix(distances, shares(weights), linkage, tree.children, tree.heights, threads)
    return tree


def _triangle(n: int, linkage: str) -> Floats:
    """Allocate the distances of all pairs, if there is memory for them."""
    needed, free = matrix_bytes(n), free_memory()
    if needed > 0.9 * free:
        raise CostError(
            f"{OWNER}: linkage={linkage!r} stores the distances of all pairs: {needed / 2**30:.1f} GB for {n} rows, "
            f"and {free / 2**30:.1f} GB are free. linkage='ward' and, with a metric of the core, 'single' need "
            "memory linear in the rows; or give a connectivity."
        )
    return np.empty(n * (n - 1) // 2)


def _stored_distances(X: NDArray[Any], metric: Metric, linkage: str) -> Floats:
    """Take the distances of row i to the rows before it, from a matrix or from what a callable makes of X."""
    matrix = np.asarray(metric(X)) if callable(metric) else X
    n = len(X)
    if matrix.ndim != 2 or matrix.shape != (n, n):
        raise BadData(f"{OWNER}: Distance matrix should be square, got matrix of shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise BadData(f"{OWNER}: the distances of metric={metric!r} must be finite.")
    distances = _triangle(n, linkage)
    for i in range(1, n):
        distances[i * (i - 1) // 2 : i * (i + 1) // 2] = matrix[:i, i]  # the upper triangle counts
    return distances


def _sklearn_distances(points: NDArray[Any], metric: Metric, linkage: str) -> Floats:
    """Compute the distances of a metric that the core does not know, some rows at a time."""
    n = len(points)
    distances = _triangle(n, linkage)
    begin = 1
    while begin < n:
        end = min(n, begin + max(1, _BLOCK // n))
        block = metric_distances(points[begin:end], points[:end], metric, {}, OWNER)
        for i in range(begin, end):
            distances[i * (i - 1) // 2 : i * (i + 1) // 2] = block[i - begin, :i]
        begin = end
    if not np.isfinite(distances).all():
        raise BadData(f"{OWNER}: the distances of metric={metric!r} are not all finite.")
    return distances
