"""Memberships: how near a row is to each selected cluster, from the height at which they are first in one component.

The level of a row x and a cluster C is λ(x, C) = 1/h, with the height h at which x leaves C, or at which x and C merge.
Memberships are λ(x, C)/Σ λ(x, ·). Clusters merge with x at the ancestors of its cluster in the condensed tree, so the t
nearest of a row are a list of its cluster: O(n t) for n rows.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from knoll._typing import Floats, Ints
from knoll.density.condensed import Selection


def memberships(selection: Selection, cluster: Ints, height: Floats, t: int) -> scipy.sparse.csr_array:
    """Return the t largest memberships of rows that leave these clusters at these heights: (rows, k)."""
    n, k = len(cluster), len(selection.clusters)
    if k == 0:
        return scipy.sparse.csr_array((n, 0))
    near = _NearClusters(selection, t)
    level = selection.tree.level(height)
    found = near.labels[cluster]  # (n, t)
    levels = np.minimum(near.levels[cluster], level[:, None])  # none is below the height where the row leaves
    own = selection.label_of(cluster, height)
    inside = selection.of_cluster[cluster] >= 0
    levels[inside, 0] = level[inside]  # its own cluster comes first
    total = np.where(inside, level, near.count[cluster] * np.minimum(near.death[cluster], level)) + near.above[cluster]
    stored = found >= 0
    stored[inside & (own < 0), 0] = False  # a row that leaves a root that is a cluster, too early
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(total[:, None] > 0, levels / total[:, None], 1.0 / max(k, 1))
    starts = np.append(0, np.cumsum(stored.sum(axis=1)))
    return scipy.sparse.csr_array((shares[stored], found[stored], starts), shape=(n, k))


class _NearClusters:
    """For each cluster of a condensed tree: the t selected clusters that its rows merge with first, and the levels.

    The selected clusters are put in an order in which those of every subtree are an interval.
    """

    def __init__(self, selection: Selection, t: int) -> None:
        tree = selection.tree
        c = len(tree.parent)
        parent = tree.parent.tolist()
        self.death = np.where(tree.death >= 0, tree.level(np.maximum(tree.death, 0.0)), 0.0)  # λ of the split
        count = np.zeros(c, dtype=np.int64)  # selected clusters in the subtree
        count[selection.clusters] = 1
        for a in range(c - 1, 0, -1):  # children come after their parents
            count[parent[a]] += count[a]
        start, free = np.zeros(c, dtype=np.int64), np.zeros(c, dtype=np.int64)
        for a in range(1, c):
            start[a] = free[a] = free[parent[a]]
            free[parent[a]] += count[a]
        sequence = np.empty(len(selection.clusters), dtype=np.int64)
        sequence[start[selection.clusters]] = np.arange(len(selection.clusters))
        self.count = count.astype(np.float64)
        self.above = np.zeros(c)  # Σ λ over the selected clusters outside
        self.labels, self.levels = np.full((c, t), -1), np.zeros((c, t))
        is_chosen = np.zeros(c, dtype=bool)
        is_chosen[selection.clusters] = True
        for a in range(c):
            if a > 0 and selection.of_cluster[a] >= 0 and not is_chosen[a]:  # inside of a selected cluster
                up = parent[a]
                self.labels[a], self.levels[a], self.above[a] = self.labels[up], self.levels[up], self.above[up]
                continue
            if a > 0:
                self.above[a] = self.above[parent[a]] + (count[parent[a]] - count[a]) * self.death[parent[a]]
            self._traverse(a, parent, start, count, sequence)

    def _traverse(self, a: int, parent: list[int], start: Ints, count: Ints, sequence: Ints) -> None:
        """Collect the selected clusters of a's subtree, then those of its parent's, and so on."""
        t, at, low, high, node = self.labels.shape[1], 0, int(start[a]), int(start[a]), a
        while node >= 0 and at < t:
            begin, end = int(start[node]), int(start[node] + count[node])
            new = np.concatenate([sequence[begin:low], sequence[high:end]])[: t - at]
            self.labels[a, at : at + len(new)], self.levels[a, at : at + len(new)] = new, self.death[node]
            at += len(new)
            low, high, node = begin, end, parent[node]
