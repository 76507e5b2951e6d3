"""The modes of the density, by a kernel density estimate with adaptive bandwidth, and which of them are significant.

The estimate is f(x) = 1/m Σ_i N(x | x_i, h_i² I) with h_i² = r_k(i)²/d, where r_k(i) is the distance from row i to its
k-th neighbour; k maximises the leave-one-out likelihood. Rows are joined to their neighbours by edges. The height of an
edge is the smallest of log f at its two ends and at its midpoint. Two modes are connected through their saddle, the
highest path between them. The prominence of a mode is the difference of log f between its peak and its saddle.

Random fluctuations also create modes. An estimate from k rows has an error of about s = (d/δ)/√k in log f, where δ is
the local intrinsic dimension (Levina and Bickel 2004): f is proportional to r^-d, and r is known to 1/(δ√k). The
largest of m/k independent errors is about s√(2 log(m/k)). The smallest is as far below, but the highest path avoids it
unless the rows lie on a curve: in δ dimensions the fraction 1/δ of it counts. A mode is therefore significant if its
prominence exceeds (1 + 1/δ) s √(2 log(m/k)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from knoll._common.linalg import times
from knoll._typing import Floats, Ints

_NEIGHBORS = (5, 8, 12, 20, 35, 60)  # candidates for k
_DIMENSION_NEIGHBORS = 20  # for the estimate of the intrinsic dimension
_EDGES = 12  # neighbours that a row is joined to
MIN_SHARE = 0.02  # of the rows: a smaller mode is ignored
MIN_ROWS = 8
_BLOCK = 1 << 22  # entries at a time


@dataclass(frozen=True)
class KernelEstimate:
    """A kernel density estimate at the rows."""

    k: int
    bandwidth2: Floats  # (m,) h²
    log_density: Floats  # (m,) leave-one-out


@dataclass(frozen=True)
class Modes:
    """The significant modes of a density estimate."""

    labels: Ints  # (m,) the mode that each row belongs to
    count: int
    strengths: Floats  # prominence / threshold of every mode but the highest, in decreasing order
    k: int

    @property
    def strength(self) -> float:
        """The largest ratio of prominence and threshold: above 1 there are at least two modes."""
        return float(self.strengths[0]) if len(self.strengths) else 0.0


def squared_distances(points: Floats) -> Floats:
    """Compute all squared distances, (m, m), with zeros on the diagonal."""
    centered = points - points.mean(axis=0)
    square = np.einsum("ij,ij->i", centered, centered)
    gaps = square[:, None] + square
    gaps -= 2 * times(centered, centered.T)
    gaps[gaps < 1e-13 * square.max(initial=0.0)] = 0  # rounding errors, also of duplicate rows
    np.fill_diagonal(gaps, 0)
    return gaps


def kernel_estimate(gaps: Floats, d: int, ks: tuple[int, ...] = _NEIGHBORS) -> KernelEstimate:
    """Estimate the density at every row from the others, with the k of the largest leave-one-out likelihood."""
    m = len(gaps)
    ks = tuple(k for k in ks if k < m / 3) or (max(1, m // 4),)
    nearest = np.partition(gaps, ks, axis=1)
    return max((_estimate(gaps, d, k, nearest[:, k] / d) for k in ks), key=lambda found: found.log_density.sum())


def _estimate(gaps: Floats, d: int, k: int, bandwidth2: Floats) -> KernelEstimate:
    positive = bandwidth2[bandwidth2 > 0]
    if len(positive):
        least = 0.01 * float(np.median(positive))
    else:
        least = float(gaps[gaps > 0].min(initial=np.inf)) / (4 * d)
    bandwidth2 = np.maximum(bandwidth2, least if math.isfinite(least) else 1.0)  # among duplicate rows r_k is 0
    logs = gaps * (-0.5 / bandwidth2)
    logs -= 0.5 * d * np.log(2 * math.pi * bandwidth2)
    np.fill_diagonal(logs, -np.inf)
    return KernelEstimate(k, bandwidth2, _log_sum(logs) - math.log(max(1, len(gaps) - 1)))


def _log_sum(logs: Floats) -> Floats:
    """Compute log Σ exp of each row; the argument is overwritten."""
    top = logs.max(axis=1)
    logs -= top[:, None]
    np.exp(logs, out=logs)
    return np.asarray(top + np.log(logs.sum(axis=1)))


def find_modes(gaps: Floats, estimate: KernelEstimate, d: int) -> Modes:
    """Find the modes of the estimate and keep the significant ones."""
    m = len(gaps)
    edges = _edges(gaps)  # (l, 2)
    height = np.minimum(estimate.log_density[edges[:, 0]], estimate.log_density[edges[:, 1]])
    height = np.minimum(height, _midpoint_density(gaps, edges, estimate, d))
    min_mass = max(MIN_ROWS, MIN_SHARE * m)
    threshold = partial(prominence_threshold, m, d, estimate.k)
    labels, strengths = merge_modes(
        estimate.log_density, edges, height, np.ones(m), min_mass, threshold, _inverse_dimension(gaps)
    )
    return Modes(labels, int(labels.max()) + 1, strengths, estimate.k)


def prominence_threshold(m: int, d: int, k: int, inverse_dimension: float) -> float:
    """Compute the prominence that random fluctuations seldom exceed."""
    inverse = min(1.0, max(inverse_dimension, 1.0 / d))
    return (1 + inverse) * d * inverse * math.sqrt(2 * math.log(max(2.0, m / k)) / k)


def _inverse_dimension(gaps: Floats) -> Floats:
    """Estimate 1/δ around each row: the mean of log(r_l/r_j) over its neighbours j < l (Levina and Bickel)."""
    last = min(_DIMENSION_NEIGHBORS, len(gaps) - 1)
    near = np.sort(np.partition(gaps, last, axis=1)[:, : last + 1], axis=1)[:, 1:]  # without the row itself
    near = np.log(np.maximum(near, 1e-300))
    return np.asarray(0.5 * (near[:, -1:] - near[:, :-1]).mean(axis=1) if last > 1 else np.ones(len(gaps)))


def _edges(gaps: Floats) -> Ints:
    """Join every row to its neighbours, and all rows by the minimum spanning tree; each edge once."""
    m = len(gaps)
    k = min(_EDGES, m - 1)
    near = np.argpartition(gaps, k, axis=1)[:, : k + 1]
    pairs = np.c_[np.repeat(np.arange(m), k + 1), near.ravel()]
    pairs = np.sort(np.r_[pairs[pairs[:, 0] != pairs[:, 1]], _spanning_tree(gaps)], axis=1)
    unique = np.unique(pairs[:, 0] * m + pairs[:, 1])
    return np.c_[unique // m, unique % m].astype(np.int64)


def _spanning_tree(gaps: Floats) -> Ints:
    """Compute the minimum spanning tree by Prim's algorithm.

    SciPy's reads a distance of 0 (duplicate rows) as a missing edge, does not fix the choice among equal distances, and
    sorts all m² of them; here ties go to the lowest index.
    """
    m = len(gaps)
    near, parent, outside = gaps[0].copy(), np.zeros(m, np.int64), np.ones(m, bool)
    outside[0], near[0] = False, np.inf
    tree = np.empty((m - 1, 2), np.int64)
    for step in range(m - 1):
        new = int(np.argmin(near))
        tree[step] = new, parent[new]
        outside[new], near[new] = False, np.inf
        closer = (gaps[new] < near) & outside
        near[closer], parent[closer] = gaps[new][closer], new
    return tree


def _midpoint_density(gaps: Floats, edges: Ints, estimate: KernelEstimate, d: int) -> Floats:
    """Compute log f at the midpoint of every edge: ‖(a+b)/2 − x‖² = (‖a−x‖² + ‖b−x‖²)/2 − ‖a−b‖²/4."""
    m = len(gaps)
    weight = -0.5 * d * np.log(2 * math.pi * estimate.bandwidth2) - math.log(m)
    out = np.empty(len(edges))
    block = max(1, _BLOCK // m)
    for begin in range(0, len(edges), block):
        a, b = edges[begin : begin + block].T
        logs = 0.5 * (gaps[a] + gaps[b]) - 0.25 * gaps[a, b][:, None]
        logs *= -0.5 / estimate.bandwidth2
        out[begin : begin + block] = _log_sum(logs + weight)
    return out


def merge_modes(
    top: Floats,
    edges: Ints,
    height: Floats,
    mass: Floats,
    min_mass: float,
    threshold: Callable[[float], float],
    inverse_dimension: Floats,
) -> tuple[Ints, Floats]:
    """Merge modes at their saddles, highest saddle first, unless the lower mode is heavy and prominent enough.

    The threshold may depend on the mean of `inverse_dimension` over the mode. Returns the mode of each node, numbered
    by mass, and prominence / threshold of all modes that are heavy enough. The two union-find forests are explicit,
    since the root of a mode must be its highest node, which SciPy's DisjointSet does not promise.
    """
    n = len(top)
    connected, mode = list(range(n)), list(range(n))  # forests: connected components so far, modes
    peak, weight, dimension = top.tolist(), mass.tolist(), (inverse_dimension * mass).tolist()
    strengths = []
    for at in np.argsort(-height, kind="stable"):
        i, j = int(edges[at, 0]), int(edges[at, 1])
        a, b = _root(connected, i), _root(connected, j)
        if a == b:
            continue
        if peak[a] < peak[b]:
            a, b, i, j = b, a, j, i
        strength = 0.0
        if weight[b] >= min_mass:
            strength = (peak[b] - float(height[at])) / threshold(dimension[b] / weight[b])
            strengths.append(strength)
        if strength < 1:
            mode[_root(mode, j)] = _root(mode, i)
        connected[b] = a
        weight[a] += weight[b]
        dimension[a] += dimension[b]
    roots = np.array([_root(mode, i) for i in range(n)])
    roots, labels = np.unique(roots, return_inverse=True)
    order = np.argsort(-np.bincount(labels, weights=mass), kind="stable")
    rank = np.empty(len(roots), np.int64)
    rank[order] = np.arange(len(roots))
    return rank[labels], np.array(sorted(strengths, reverse=True), dtype=np.float64)


def _root(parent: list[int], i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
