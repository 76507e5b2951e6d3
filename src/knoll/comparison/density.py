"""The hills of the data's density, by a kernel estimate whose width follows the data, and which of them are not chance.

The estimate is f(x) = 1/m Σ_i N(x | x_i, h_i² I) with h_i² = r_k(i)²/d, r_k(i) the distance to the k-th neighbour of
row i; k is the one under which rows are best predicted by the others (leave-one-out likelihood). Rows are linked to
their neighbours, a link is as high as the lowest of its two ends and its middle, and a hill is what lies above the
highest pass to a higher hill. Its prominence is the fall of log f from its top to that pass.

Chance makes hills, too. An estimate from k rows has an error of about s = (d/δ)/√k in log f, where δ is the dimension
of what the rows fill around them (Levina and Bickel 2004): f goes with r^-d, and r is known to 1/(δ√k). The highest of
m/k independent errors is about s√(2 log(m/k)). The lowest is as far below, but a pass need not go through it unless the
rows lie on a line: in δ dimensions the share 1/δ of it is counted. So a hill needs the prominence
(1 + 1/δ) s √(2 log(m/k)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from knoll._common.linalg import times
from knoll._typing import Floats, Ints

__all__ = [
    "LEAST_ROWS",
    "LEAST_SHARE",
    "Hills",
    "KernelEstimate",
    "find_hills",
    "join_hills",
    "kernel_estimate",
    "prominence_needed",
    "squared_distances",
]


_WIDTHS = (5, 8, 12, 20, 35, 60)  # neighbours that are tried
_DIMENSION = 20  # neighbours that the dimension is read from
_LINKS = 12  # neighbours that a row is linked to
LEAST_SHARE = 0.02  # of the rows: less is no hill
LEAST_ROWS = 8
_BLOCK = 1 << 22  # entries at a time


@dataclass(frozen=True)
class KernelEstimate:
    """A density and how well it predicts rows it has not seen."""

    k: int
    width2: Floats  # (m,) h²
    log_density: Floats  # (m,) of each row from all others


@dataclass(frozen=True)
class Hills:
    """The hills that are no chance, and how far above it the others stay."""

    labels: Ints  # (m,) the hill of each row
    count: int
    strengths: Floats  # prominence over what is needed, of every hill but the highest, the strongest first
    k: int

    @property
    def strength(self) -> float:
        """The largest prominence over what is needed: above 1 there are two hills at least."""
        return float(self.strengths[0]) if len(self.strengths) else 0.0


def squared_distances(points: Floats) -> Floats:
    """Return all squared distances, (m, m), zeros on the diagonal."""
    moved = points - points.mean(axis=0)
    square = np.einsum("ij,ij->i", moved, moved)
    gaps = square[:, None] + square
    gaps -= 2 * (times(moved, moved.T))
    gaps[gaps < 1e-13 * square.max(initial=0.0)] = 0  # rounding, and copies
    np.fill_diagonal(gaps, 0)
    return gaps


def kernel_estimate(gaps: Floats, d: int, ks: tuple[int, ...] = _WIDTHS) -> KernelEstimate:
    """Estimate the density at every row from the others, with the k that predicts best."""
    m = len(gaps)
    ks = tuple(k for k in ks if k < m / 3) or (max(1, m // 4),)
    reach = np.partition(gaps, ks, axis=1)
    best: KernelEstimate | None = None
    for k in ks:
        width2 = reach[:, k] / d
        some = width2[width2 > 0]
        least = 0.01 * float(np.median(some)) if len(some) else float(gaps[gaps > 0].min(initial=np.inf)) / (4 * d)
        width2 = np.maximum(width2, least if math.isfinite(least) else 1.0)  # copies have no width of their own
        logs = gaps * (-0.5 / width2)
        logs -= 0.5 * d * np.log(2 * math.pi * width2)
        np.fill_diagonal(logs, -np.inf)
        found = KernelEstimate(k, width2, _log_sum(logs) - math.log(max(1, m - 1)))
        if best is None or found.log_density.sum() > best.log_density.sum():
            best = found
    assert best is not None
    return best


def _log_sum(logs: Floats) -> Floats:
    """Return log Σ exp of each row; the argument is used up."""
    top = logs.max(axis=1)
    logs -= top[:, None]
    np.exp(logs, out=logs)
    return np.asarray(top + np.log(logs.sum(axis=1)))


def find_hills(gaps: Floats, estimate: KernelEstimate, d: int) -> Hills:
    """Find the hills of the estimate, and keep those that are no chance."""
    m = len(gaps)
    links = _links(gaps)  # (l, 2)
    height = np.minimum(estimate.log_density[links[:, 0]], estimate.log_density[links[:, 1]])
    height = np.minimum(height, _middles(gaps, links, estimate, d))
    least = max(LEAST_ROWS, LEAST_SHARE * m)
    needed = partial(prominence_needed, m, d, estimate.k)
    labels, strengths = join_hills(estimate.log_density, links, height, np.ones(m), least, needed, _thinness(gaps))
    return Hills(labels, int(labels.max()) + 1, strengths, estimate.k)


def prominence_needed(m: int, d: int, k: int, thin: float) -> float:
    """Return the prominence that chance would hardly give; `thin` is 1/δ."""
    thin = min(1.0, max(thin, 1.0 / d))
    return (1 + thin) * d * thin * math.sqrt(2 * math.log(max(2.0, m / k)) / k)


def _thinness(gaps: Floats) -> Floats:
    """Return 1/δ around each row: the mean of log(r_l/r_j) over its neighbours j < l (Levina and Bickel's estimate)."""
    last = min(_DIMENSION, len(gaps) - 1)
    near = np.sort(np.partition(gaps, last, axis=1)[:, : last + 1], axis=1)[:, 1:]  # without the row itself
    near = np.log(np.maximum(near, 1e-300))
    return np.asarray(0.5 * (near[:, -1:] - near[:, :-1]).mean(axis=1) if last > 1 else np.ones(len(gaps)))


def _links(gaps: Floats) -> NDArray[np.int64]:
    """Link every row to its neighbours, and all rows by the shortest tree, each link once."""
    m = len(gaps)
    k = min(_LINKS, m - 1)
    near = np.argpartition(gaps, k, axis=1)[:, : k + 1]
    pairs = np.c_[np.repeat(np.arange(m), k + 1), near.ravel()]
    pairs = np.sort(np.r_[pairs[pairs[:, 0] != pairs[:, 1]], _shortest_tree(gaps)], axis=1)
    unique = np.unique(pairs[:, 0] * m + pairs[:, 1])
    return np.c_[unique // m, unique % m].astype(np.int64)


def _shortest_tree(gaps: Floats) -> NDArray[np.int64]:
    """Return the minimum spanning tree (Prim's way: m steps over rows of the matrix)."""
    m = len(gaps)
    near, parent, left = gaps[0].copy(), np.zeros(m, np.int64), np.ones(m, bool)
    left[0], near[0] = False, np.inf
    tree = np.empty((m - 1, 2), np.int64)
    for step in range(m - 1):
        new = int(np.argmin(near))
        tree[step] = new, parent[new]
        left[new], near[new] = False, np.inf
        closer = (gaps[new] < near) & left
        near[closer], parent[closer] = gaps[new][closer], new
    return tree


def _middles(gaps: Floats, links: NDArray[np.int64], estimate: KernelEstimate, d: int) -> Floats:
    """Return log f in the middle of every link: ‖(a+b)/2 − x‖² = (‖a−x‖² + ‖b−x‖²)/2 − ‖a−b‖²/4."""
    m = len(gaps)
    weight = -0.5 * d * np.log(2 * math.pi * estimate.width2) - math.log(m)
    out = np.empty(len(links))
    height = max(1, _BLOCK // m)
    for begin in range(0, len(links), height):
        a, b = links[begin : begin + height].T
        logs = 0.5 * (gaps[a] + gaps[b]) - 0.25 * gaps[a, b][:, None]
        logs *= -0.5 / estimate.width2
        out[begin : begin + height] = _log_sum(logs + weight)
    return out


def join_hills(
    top: Floats,
    links: NDArray[np.int64],
    height: Floats,
    mass: Floats,
    least: float,
    needed: Callable[[float], float],
    thin: Floats,
) -> tuple[Ints, Floats]:
    """Flood from above: where two hills meet, the lower one is joined unless it is heavy and prominent enough.

    What it needs may depend on the mean of `thin` over it. Returns the hill of each node, numbered by mass, and
    prominence over what is needed of all hills that are heavy enough.
    """
    n = len(top)
    whole, home = list(range(n)), list(range(n))  # what is connected so far; whose hill a node belongs to
    peak, weight, thick = top.tolist(), mass.tolist(), (thin * mass).tolist()
    strengths = []
    for at in np.argsort(-height, kind="stable"):
        i, j = int(links[at, 0]), int(links[at, 1])
        a, b = _root(whole, i), _root(whole, j)
        if a == b:
            continue
        if peak[a] < peak[b]:
            a, b, i, j = b, a, j, i
        strength = 0.0
        if weight[b] >= least:
            strength = (peak[b] - float(height[at])) / needed(thick[b] / weight[b])
            strengths.append(strength)
        if strength < 1:
            home[_root(home, j)] = _root(home, i)
        whole[b] = a
        weight[a] += weight[b]
        thick[a] += thick[b]
    roots = np.array([_root(home, i) for i in range(n)])
    names, labels = np.unique(roots, return_inverse=True)
    order = np.argsort(-np.bincount(labels, weights=mass), kind="stable")
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return rank[labels], np.array(sorted(strengths, reverse=True), dtype=np.float64)


def _root(parent: list[int], i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
