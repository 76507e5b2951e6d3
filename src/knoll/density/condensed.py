"""The condensed tree: clusters of a least weight, how long rows stay in them, and which of them to take.

At a node of the density tree, children of weight ≥ `min_cluster_size` are large. Two or more of them begin clusters of
their own, one goes on as the same cluster, and all others leave it. A height h has the level λ = 1/h. The stability of
a cluster is Σ w (λ of leaving it − λ of its birth) over its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from knoll import _core
from knoll._typing import Bools, Floats, Ints

__all__ = ["CondensedTree", "Selection", "condense"]


def condense(
    order: Ints, bars: Floats, core: Floats, weights: Floats | None, min_cluster_size: float, threads: int
) -> CondensedTree:
    """Condense the tree given by the order of its rows and the bars between them."""
    cluster, leaves = np.empty(len(order), np.int32), np.empty(len(order))
    mass = None if weights is None else weights[order]
    found = _core.condense_tree(bars, core[order], mass, float(min_cluster_size), cluster, leaves, threads)
    row_cluster, row_height = np.empty(len(order), np.int64), np.empty(len(order))
    row_cluster[order], row_height[order] = cluster, leaves
    return CondensedTree(
        row_cluster,
        row_height,
        np.array(found["parent"], np.int64),
        np.array(found["birth"]),
        np.array(found["death"]),
        np.array(found["weight"]),
        np.ones(len(order)) if weights is None else weights,
    )


@dataclass(frozen=True)
class CondensedTree:
    """Clusters, the root first and parents before their children; rows, in the order of the data."""

    row_cluster: Ints  # (n,) the smallest cluster of each row
    row_height: Floats  # (n,) the height at which the row leaves it
    parent: Ints  # (c,) −1: the root
    birth: Floats  # (c,) the height of the split that the cluster comes from; the root's is infinite
    death: Floats  # (c,) the height of its own split, −1: none
    weight: Floats  # (c,) at birth
    row_weight: Floats  # (n,)

    @cached_property
    def least_height(self) -> float:
        """The least positive height: the level of equal rows, whose height is 0, is taken there."""
        heights = np.concatenate([self.row_height, self.death])
        return float(heights[heights > 0].min(initial=np.inf))

    def level(self, height: Floats) -> Floats:
        """Return λ = 1/h."""
        with np.errstate(divide="ignore"):
            return 1.0 / np.maximum(height, self.least_height)

    @cached_property
    def stability(self) -> Floats:
        """(c,) Σ w (λ of leaving − λ of birth) over the rows of each cluster.

        Levels are added in ascending order, so that the last bit does not depend on the order of the rows.
        """
        level = self.level(self.row_height)
        order = np.lexsort((self.row_weight, level, self.row_cluster))
        own = np.bincount(self.row_cluster[order], (self.row_weight * level)[order], len(self.parent))
        split = self.death >= 0
        below = np.zeros(len(self.parent))
        np.add.at(below, self.parent[1:], self.weight[1:])
        ends = np.where(split, below * self.level(np.where(split, self.death, 1.0)), 0.0)
        stability: Floats = own + ends - self.weight * self.level(self.birth)
        return stability

    @cached_property
    def is_leaf(self) -> Bools:
        """(c,) whether a cluster has no clusters below it."""
        return np.bincount(self.parent[1:], minlength=len(self.parent)) == 0

    @cached_property
    def highest_level(self) -> Floats:
        """(c,) the highest λ at which a cluster itself loses rows, to its children or to noise."""
        found = np.zeros(len(self.parent))
        np.maximum.at(found, self.row_cluster, self.level(self.row_height))
        np.maximum.at(found, self.parent[1:], self.level(self.birth[1:]))
        return found

    def outlier_scores(self) -> Floats:
        """GLOSH: 1 − h_least/h per row, with the least height in the subtree of its cluster (Campello et al. 2015)."""
        highest = self.highest_level.copy()
        for c in range(len(self.parent) - 1, 0, -1):
            highest[self.parent[c]] = max(highest[self.parent[c]], highest[c])
        return 1.0 - _ratio(self.level(self.row_height), highest[self.row_cluster])

    # ---- which clusters to take ------------------------------------------------------------------------------------

    def eom(self, *, allow_single_cluster: bool = False, max_cluster_size: float = np.inf) -> Bools:
        """Choose by excess of mass: the selection, no cluster inside another, with the largest total stability."""
        best = self.stability.copy()
        below = np.zeros(len(best))
        chosen = np.zeros(len(best), dtype=bool)
        for c in range(len(best) - 1, -1, -1):
            allowed = (c > 0 or allow_single_cluster) and self.weight[c] <= max_cluster_size
            chosen[c] = allowed and below[c] <= best[c]
            if not chosen[c]:
                best[c] = below[c]
            if c > 0:
                below[self.parent[c]] += best[c]
        return self._outermost(chosen)

    def leaves(self, *, allow_single_cluster: bool = False) -> Bools:
        """Choose the clusters without clusters below them."""
        chosen = self.is_leaf.copy()
        chosen[0] &= allow_single_cluster
        return chosen

    def merged(self, chosen: Bools, eps: float, *, allow_single_cluster: bool = False) -> Bools:
        """Replace clusters born below ε by the smallest clusters around them that were born above it."""
        taken = np.zeros(len(chosen), dtype=bool)
        for c in np.flatnonzero(chosen).tolist():
            while self.birth[c] < eps:
                up = int(self.parent[c])
                if up == 0:
                    c = 0 if allow_single_cluster else c
                    break
                c = up
            taken[c] = True
        return self._outermost(taken)

    def _outermost(self, chosen: Bools) -> Bools:
        """Leave out clusters inside of chosen ones."""
        inside = np.zeros(len(chosen), dtype=bool)
        for c in range(1, len(chosen)):  # parents come first
            inside[c] = inside[self.parent[c]] or chosen[self.parent[c]]
        return chosen & ~inside

    def select(self, chosen: Bools) -> Selection:
        """Label the rows of the chosen clusters, numbered by their lowest rows."""
        around = np.where(chosen, np.arange(len(chosen)), -1)  # (c,) the chosen cluster that holds each cluster
        for c in range(1, len(chosen)):
            if around[c] < 0:
                around[c] = around[self.parent[c]]
        held = around[self.row_cluster]  # (n,)
        found, first = np.unique(held, return_index=True)
        clusters = found[found >= 0][np.argsort(first[found >= 0])]
        number = np.full(len(chosen) + 1, -1)  # the last entry is that of −1
        number[clusters] = np.arange(len(clusters))
        return Selection(self, clusters, number[held])


@dataclass(frozen=True)
class Selection:
    """Clusters taken from a condensed tree, and the labels of the rows."""

    tree: CondensedTree
    clusters: Ints  # (k,) numbers in the condensed tree
    labels: Ints  # (n,) −1: noise

    @property
    def probabilities(self) -> Floats:
        """(n,) how long a row stays in its cluster, between 0 and 1: its λ over the highest of the cluster."""
        level, inside = self.tree.level(self.tree.row_height), self.labels >= 0
        found = np.zeros(len(self.labels))
        highest = self.tree.highest_level[self.clusters[self.labels[inside]]]
        found[inside] = _ratio(np.minimum(level[inside], highest), highest)
        return found


def _ratio(level: Floats, highest: Floats) -> Floats:
    """Return λ over the highest λ of the cluster; 1 where all rows are equal, which leave at height 0 together."""
    return np.divide(level, highest, out=np.ones_like(level), where=highest > 0)
