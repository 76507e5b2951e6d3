"""What a density tree has for all ε at once: numbers of clusters, noise, the largest cluster, modes and linkage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from knoll import _core
from knoll._typing import Floats, Ints


class Curves(NamedTuple):
    """Step functions of ε; each entry holds from its ε to the next."""

    eps: Floats  # (e,) ascending
    clusters: Ints  # (e,)
    noise: Floats  # (e,) the share of the weight that is in no cluster
    largest: Floats  # (e,) the weight of the largest cluster


class Bands(NamedTuple):
    """Modes of the density, by the error of the rows that they survive."""

    row: Ints  # (m,) the row of the least core distance
    birth: Floats  # (m,) that core distance
    death: Floats  # (m,) the height at which its cluster merges with a denser one; infinite for the last
    delta: Floats  # (m,) rows may move by less than this


class Nodes(NamedTuple):
    """The nodes of a tree with at least two rows, children first."""

    height: Floats  # (v,)
    parent: Ints  # (v,) −1: the root
    begin: Ints  # (v,) positions in the order of the tree
    end: Ints  # (v,)
    leaf_parent: Ints  # (n,) by position; −1 where there is one row


def tree_nodes(bars: Floats, threads: int) -> Nodes:
    """Return the nodes of the tree with these bars."""
    n = len(bars)
    height, (parent, begin, end, leaf_parent) = np.empty(n), np.empty((4, n), dtype=np.int64)
    count = _core.tree_nodes(bars, height, parent, begin, end, leaf_parent, threads)
    return Nodes(height[:count], parent[:count], begin[:count], end[:count], leaf_parent)


def tree_curves(order: Ints, bars: Floats, core: Floats, weights: Floats, least: float, threads: int) -> Curves:
    """Return the clusters of core rows of weight ≥ `least` as functions of ε.

    A node is a cluster from its height to that of its parent, a row alone from its core distance.
    """
    nodes = tree_nodes(bars, threads)
    sums = np.append(0.0, np.cumsum(weights[order]))
    above = np.append(nodes.height, np.inf)  # the last entry is that of −1
    from_ = np.concatenate([core[order], nodes.height])
    to = np.concatenate([above[nodes.leaf_parent], above[nodes.parent]])
    mass = np.concatenate([weights[order], sums[nodes.end] - sums[nodes.begin]])
    kept = (mass >= least) & (from_ < to)
    from_, to, mass = from_[kept], to[kept], mass[kept]
    eps = np.unique(np.concatenate([[0.0], from_, to[np.isfinite(to)]]))
    eps = eps[np.isfinite(eps)]
    steps = np.searchsorted(eps, from_), np.searchsorted(eps, to)
    change, size = np.zeros(len(eps) + 1, dtype=np.int64), np.zeros(len(eps) + 1)
    largest = np.zeros(len(eps) + 1)
    for at, sign in zip(steps, (1, -1), strict=True):
        np.add.at(change, at, sign)
        np.add.at(size, at, sign * mass)
    np.maximum.at(largest, steps[0], mass)  # weights only grow upwards
    noise = 1.0 - np.clip(np.cumsum(size)[:-1] / sums[-1], 0.0, 1.0)
    return Curves(eps, np.cumsum(change)[:-1], noise, np.maximum.accumulate(largest)[:-1])


def linkage(order: Ints, bars: Floats) -> Floats:
    """Return SciPy's linkage matrix: joins by ascending height, of equal ones by the lowest rows of the children."""
    n = len(order)
    heights = bars.tolist()
    first, last = list(range(n)), list(range(n))  # of the interval that ends, or begins, at a position
    number, size = order.tolist(), [1] * n  # of the interval that begins there
    found = []
    for step, right in enumerate((np.argsort(bars[1:], kind="stable") + 1).tolist()):  # bars that are removed
        left, end = first[right - 1], last[right]
        count = size[left] + size[right]
        found.append((*sorted((number[left], number[right])), heights[right], count))
        last[left], first[end] = end, left
        number[left], size[left] = n + step, count
    return np.array(found, dtype=np.float64).reshape(-1, 4)
