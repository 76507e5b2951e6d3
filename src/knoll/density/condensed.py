"""The condensed tree: clusters of a least weight, how long rows stay in them, and which of them to take.

At a node of the density tree, children of weight ≥ `min_cluster_size` are large. Two or more of them begin clusters of
their own, one goes on as the same cluster, and all others leave it. A height h has the level λ = 1/h. The stability of
a cluster is Σ w (λ of leaving it − λ of its birth) over its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll import _core
from knoll._common.rescale import power_below
from knoll._typing import Bools, Floats, Ints
from knoll.exceptions import InvalidParameter

if TYPE_CHECKING:
    from knoll.density.reachability import Attached


def condense(
    order: Ints, bars: Floats, core: Floats, weights: Floats | None, min_cluster_size: float, threads: int
) -> CondensedTree:
    """Condense the tree given by the order of its rows and the bars between them."""
    cluster, leaves = np.empty(len(order), np.int64), np.empty(len(order))
    found = _core.condense_tree(order, bars, core, weights, float(min_cluster_size), cluster, leaves, threads)
    return CondensedTree(
        cluster,
        leaves,
        np.array(found["parent"], np.int64),
        np.array(found["birth"]),
        np.array(found["death"]),
        np.array(found["weight"]),
        weights,
        _least_height(bars, core, weights),
        threads,
    )


def _least_height(bars: Floats, core: Floats, weights: Floats | None) -> float:
    """Return the least positive height at which rows join; copies of a row, which a weight counts, join at c(x)."""
    heights = bars if weights is None else np.concatenate([bars, core[weights > 1]])
    return float(heights.min(initial=np.inf, where=heights > 0))


@dataclass(frozen=True)
class CondensedTree:
    """Clusters, the root first and parents before their children; rows, in the order of the data."""

    row_cluster: Ints  # (n,) the smallest cluster of each row
    row_height: Floats  # (n,) the height at which the row leaves it
    parent: Ints  # (c,) −1: the root
    birth: Floats  # (c,) the height of the split that the cluster comes from; the root's is infinite
    death: Floats  # (c,) the height of its own split, −1: none
    weight: Floats  # (c,) at birth
    row_weights: Floats | None  # (n,) None: all are 1
    least_height: float  # > 0, of the tree: the level of equal rows, whose height is 0, is taken there
    threads: int = 1

    @property
    def row_weight(self) -> Floats:
        """(n,) the weight of each row."""
        return np.ones(len(self.row_cluster)) if self.row_weights is None else self.row_weights

    @cached_property
    def unit(self) -> float:
        """A power of two up to the least positive height: levels are in units of its inverse, and so at most 1."""
        return power_below(self.least_height)

    def level(self, height: Floats) -> Floats:
        """Return λ = 1/h, times `unit`."""
        return self.unit / np.maximum(height, self.least_height)

    @cached_property
    def relative_stability(self) -> Floats:
        """(c,) stabilities times `unit` over a power of two near the largest weight, so that none leaves float64.

        Every term is ≥ 0: rows that leave where their cluster is born count 0, not what rounding leaves of two sums.
        Terms are added in ascending order, so that the last bit does not depend on the order of the rows.
        """
        scale, birth = power_below(float(self.weight.max())), self.level(self.birth)
        weight = self.weight / scale
        own = np.empty(len(birth))
        levels = (self.unit, self.least_height, scale)
        _core.stabilities(self.row_cluster, self.row_height, self.row_weights, birth, *levels, own, self.threads)
        split = self.death >= 0
        below = np.empty(len(birth))
        _core.ordered_sums(self.parent[1:], np.ones(len(weight) - 1), weight[1:], below, 1)
        return np.where(split, own + below * (self.level(np.where(split, self.death, 1.0)) - birth), own)

    @property
    def stability(self) -> Floats:
        """(c,) Σ w (λ of leaving − λ of birth) over the rows of each cluster."""
        with np.errstate(over="ignore"):
            return self.relative_stability / self.unit * power_below(float(self.weight.max()))

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

    def outlier_scores(self, cluster: Ints | None = None, height: Floats | None = None) -> Floats:
        """GLOSH: 1 − h_least/h, with the least height in the subtree of a row's cluster (Campello et al. 2015).

        Of all rows, or of queries that leave these clusters at these heights.
        """
        highest = self.highest_level.copy()
        for c in range(len(self.parent) - 1, 0, -1):
            highest[self.parent[c]] = max(highest[self.parent[c]], highest[c])
        cluster = self.row_cluster if cluster is None else cluster
        level = self.level(self.row_height if height is None else height)
        return np.maximum(1.0 - _ratio(level, highest[cluster]), 0.0)

    def leave(self, attached: Attached) -> tuple[Ints, Floats]:
        """Return the smallest cluster of each query and the height at which it leaves it.

        A query joins its row at a height; it belongs to the clusters of the row that were born above that height.
        """
        cluster = self.row_cluster[attached.row]
        while (outside := (cluster > 0) & (self.birth[cluster] <= attached.height)).any():
            cluster = np.where(outside, self.parent[cluster], cluster)
        same = cluster == self.row_cluster[attached.row]
        return cluster, np.where(same, np.maximum(attached.height, self.row_height[attached.row]), attached.height)

    def to_arrays(self) -> dict[str, Any]:
        """Return the edges from clusters to their rows and child clusters: parent, child, lambda_val, child_size.

        Rows are 0 … n − 1, clusters n, n + 1, …, the root first: the columns of the hdbscan package.
        """
        n, children = len(self.row_cluster), np.arange(1, len(self.parent))
        with np.errstate(over="ignore"):
            levels = np.concatenate([self.level(self.row_height), self.level(self.birth[children])]) / self.unit
        return {
            "parent": np.concatenate([n + self.row_cluster, n + self.parent[children]]),
            "child": np.concatenate([np.arange(n), n + children]),
            "lambda_val": levels,
            "child_size": np.concatenate([self.row_weight, self.weight[children]]),
        }

    def to_pandas(self) -> Any:
        """Return `to_arrays` as a data frame of pandas."""
        import pandas as pd

        return pd.DataFrame(self.to_arrays())

    @property
    def persistence(self) -> Floats:
        """(c,) the stability of each cluster over the most that its weight could have: between 0 and 1."""
        highest = max(float(self.level(self.row_height).max(initial=0.0)), float(self.highest_level.max(initial=0.0)))
        if not highest > 0:
            return np.ones(len(self.parent))
        weight = self.weight / power_below(float(self.weight.max()))
        return self.relative_stability / (weight * highest)

    # ---- which clusters to take ------------------------------------------------------------------------------------

    def eom(self, *, allow_single_cluster: bool = False, max_cluster_size: float = np.inf) -> Bools:
        """Choose by excess of mass: the selection, no cluster inside another, with the largest total stability."""
        chosen = np.empty(len(self.parent), dtype=bool)
        _core.excess_of_mass(
            self.parent, self.relative_stability, self.weight, float(max_cluster_size), allow_single_cluster, chosen
        )
        return chosen

    def best(
        self, k: int, rank: Ints, *, allow_single_cluster: bool = False, max_cluster_size: float = np.inf
    ) -> Bools:
        """Choose the k clusters, none inside another, with the largest total stability.

        best[c][j] is the largest total of j clusters in the subtree of c. Children are combined one after the other in
        the order of `rank` (c,), which decides between equal totals, and how many clusters each of them has is kept for
        the way back.
        """
        count = len(self.parent)
        none = np.array([0.0])
        best: list[Floats] = [none] * count
        shares: list[list[tuple[int, Ints]]] = [[] for _ in range(count)]  # (child, its number of clusters for each j)
        itself = np.zeros(count, dtype=bool)
        children: list[list[int]] = [[] for _ in range(count)]
        for c in rank.argsort(kind="stable").tolist():
            if c > 0:
                children[int(self.parent[c])].append(c)
        for c in range(count - 1, -1, -1):  # children come after their parents
            total = none
            for child in children[c]:
                total, share = _combined(total, best[child], k)
                shares[c].append((child, share))
            allowed = (c > 0 or allow_single_cluster) and self.weight[c] <= max_cluster_size
            total = total if len(total) > 1 else np.array([0.0, -np.inf])
            itself[c] = allowed and self.relative_stability[c] >= total[1]
            if itself[c]:
                total[1] = self.relative_stability[c]
            best[c] = total
        if len(best[0]) <= k or best[0][k] == -np.inf:
            raise InvalidParameter(self._too_many(k, allow_single_cluster, max_cluster_size))
        chosen = np.zeros(count, dtype=bool)
        wanted = np.zeros(count, dtype=np.int64)
        wanted[0] = k
        for c in range(count):  # parents come first
            if wanted[c] == 1 and itself[c]:
                chosen[c], wanted[c] = True, 0
            for child, share in reversed(shares[c]):
                wanted[child] = share[wanted[c]]
                wanted[c] -= wanted[child]
        return chosen

    def _too_many(self, k: int, allow_single_cluster: bool, max_cluster_size: float) -> str:
        """Return why there is no choice of k clusters."""
        leaves = int(self.is_leaf.sum())
        if leaves == 1 and not allow_single_cluster:
            return (
                f"n_clusters={k}: the condensed tree has no split, so there are no two clusters of min_cluster_size "
                "rows. Take a smaller min_cluster_size or min_samples, or n_clusters=1 with allow_single_cluster=True."
            )
        if k > leaves:
            return (
                f"n_clusters={k} is larger than the number of leaves of the condensed tree, {leaves}. Take at most "
                f"{leaves}, or a smaller min_cluster_size or min_samples."
            )
        return (
            f"n_clusters={k}: no {k} clusters have at most max_cluster_size={max_cluster_size:g} rows. Take another "
            "n_clusters, or a larger max_cluster_size."
        )

    def leaves(self, *, allow_single_cluster: bool = False) -> Bools:
        """Choose the clusters without clusters below them."""
        chosen = self.is_leaf.copy()
        chosen[0] &= allow_single_cluster
        return chosen

    def merged(self, chosen: Bools, eps: float, *, allow_single_cluster: bool = False) -> Bools:
        """Replace clusters born below ε by the smallest clusters around them that were born above it."""
        if not eps > 0:
            return self._outermost(chosen)
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
        return self._around(chosen) == np.arange(len(chosen))

    def _around(self, chosen: Bools) -> Ints:
        """(c,) the outermost chosen cluster that is a cluster or holds it, −1: none."""
        around = np.empty(len(chosen), np.int64)
        _core.enclosing_clusters(self.parent, chosen, around)
        return around

    def select(self, chosen: Bools, root_height: float = np.inf, order: Ints | None = None) -> Selection:
        """Label the rows of the chosen clusters, numbered by their lowest rows, or in the `order` of clusters given.

        Where the root is chosen, rows that leave it above `root_height` are noise.
        """
        around = self._around(chosen)
        labels = np.empty(len(self.row_cluster), np.int64)
        clusters = np.array(_core.number_by_rows(self.row_cluster, around, labels, self.threads), np.int64)
        if order is not None:
            rank = np.full(len(chosen), -1)
            rank[order] = np.arange(len(order))
            labels, clusters = np.append(rank[clusters], -1)[labels], order  # the last entry is that of −1
        number = np.full(len(chosen) + 1, -1)  # the last entry is that of −1
        number[clusters] = np.arange(len(clusters))
        if len(clusters) and clusters[0] == 0:
            labels[self.row_height > root_height] = -1
        return Selection(self, clusters, labels, number[around], root_height)


def _combined(a: Floats, b: Floats, k: int) -> tuple[Floats, Ints]:
    """Return the largest a_i + b_j for every i + j ≤ k, and the j that it has."""
    size = min(len(a) + len(b) - 1, k + 1)
    best, share = np.full(size, -np.inf), np.zeros(size, dtype=np.int64)
    for j in range(min(len(b), size)):
        reached = a[: size - j] + b[j]
        better = reached > best[j : j + len(reached)]
        best[j : j + len(reached)][better] = reached[better]
        share[j : j + len(reached)][better] = j
    return best, share


@dataclass(frozen=True)
class SelectionRule:
    """Which clusters of a condensed tree are taken."""

    method: str  # "eom" or "leaf"
    epsilon: float = 0.0
    max_cluster_size: float | None = None
    allow_single_cluster: bool = False
    n_clusters: int | None = None

    def select(self, tree: CondensedTree, rank: Ints | None = None) -> Selection:
        """Choose clusters and label the rows; `rank` of the clusters decides between choices of equal stability."""
        single = self.allow_single_cluster
        limit = np.inf if self.max_cluster_size is None else self.max_cluster_size
        if self.n_clusters is not None:
            single = single or self.n_clusters == 1
            rank = np.arange(len(tree.parent)) if rank is None else rank
            chosen = tree.best(self.n_clusters, rank, allow_single_cluster=single, max_cluster_size=limit)
        elif self.method == "eom":
            chosen = tree.eom(allow_single_cluster=single, max_cluster_size=limit)
        else:
            chosen = tree.leaves(allow_single_cluster=single)
        if self.n_clusters is None:
            chosen = tree.merged(chosen, self.epsilon, allow_single_cluster=single)
        return tree.select(chosen, self.root_height(tree))

    def root_height(self, tree: CondensedTree) -> float:
        """Return the height below which a row must stay in the root, where that is a cluster: scikit-learn's rule."""
        if self.epsilon > 0:
            return self.epsilon
        rows = tree.row_height.min(initial=np.inf, where=tree.row_cluster == 0)
        return float(min(rows, tree.birth[1:][tree.parent[1:] == 0].min(initial=np.inf)))


@dataclass(frozen=True)
class Selection:
    """Clusters taken from a condensed tree, and the labels of the rows."""

    tree: CondensedTree
    clusters: Ints  # (k,) numbers in the condensed tree
    labels: Ints  # (n,) −1: noise
    of_cluster: Ints  # (c,) the label of each cluster of the tree
    root_height: float

    def label(self, attached: Attached) -> Ints:
        """Label queries by the rows that they are attached to."""
        return self.label_of(*self.tree.leave(attached))

    def label_of(self, cluster: Ints, height: Floats) -> Ints:
        """Label what leaves these clusters at these heights."""
        labels = self.of_cluster[cluster]
        if not (len(self.clusters) and self.clusters[0] == 0):
            return labels
        return np.where(height > self.root_height, -1, labels)

    @property
    def probabilities(self) -> Floats:
        """(n,) how long a row stays in its cluster, between 0 and 1: its λ over the highest of the cluster."""
        return self.probability_of(self.labels, self.tree.row_height)

    def probability_of(self, labels: Ints, height: Floats) -> Floats:
        """Return the same of what has these labels and leaves at these heights."""
        level, inside = self.tree.level(height), labels >= 0
        found = np.zeros(len(labels))
        highest = self.tree.highest_level[self.clusters[labels[inside]]]
        found[inside] = _ratio(np.minimum(level[inside], highest), highest)
        return found


def _ratio(level: Floats, highest: Floats) -> Floats:
    """Return λ over the highest λ of the cluster; 1 where all rows are equal, which leave at height 0 together."""
    return np.divide(level, highest, out=np.ones_like(level), where=highest > 0)
