"""A cut of Ward's tree minimises J + λk over all prunings of the tree: DP-means on a tree (eq. 7.10)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats, Ints
from knoll.hierarchy.agglomerative import AgglomerativeClustering
from knoll.relations._common import shifted_to_zero, squared_distances
from knoll.relations._ward import WardTree, cluster_means, objective
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_PRICES = 12
_WORKED = 4  # prices at which DP-means runs


class WardIsDPMeans(Relation):
    """Rises never fall along Ward's tree, so the best pruning at a price λ of a cluster is a cut at ΔJ = λ."""

    name: ClassVar = "ward-is-dp-means-on-a-tree"
    source: ClassVar = "hierarchical clustering"
    target: ClassVar = "DP-means"
    statement: ClassVar = (
        "Undoing the merges with ΔJ > λ minimises J + λk, the objective of DP-means, over all prunings of Ward's tree; "
        "DP-means from there ends at or below it."
    )
    formula: ClassVar = "min over prunings of J + λk = J + λk of the cut at ΔJ > λ"
    most_rows: ClassVar = 4_000
    _defaults: ClassVar = {"max_iter": 100}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        X = shifted_to_zero(X)
        model = AgglomerativeClustering(1, compute_distances=True).fit(X)
        tree = WardTree.of(X, model.children_, model.distances_)
        prices = _prices(tree)
        gap, clusters = 0.0, []
        for price in prices:
            k = _clusters_at(tree, price)
            clusters.append(k)
            cost = objective(X, tree.labels(k)) + price * k
            gap = max(gap, abs(cost - _best_pruning(tree, price)) / (tree.total + price))
        climbs = -np.inf
        for price in prices[:: max(1, len(prices) // _WORKED)]:
            labels = tree.labels(_clusters_at(tree, price))
            before, after = _dp_means(X, labels, price, int(parameters["max_iter"]))
            climbs = max(climbs, (after - before) / (tree.total + price))
        falls = float(max(0.0, -np.diff(tree.rises).min(initial=0.0))) / tree.total
        return self._certificate(
            checks=(
                Check("J + λk of the cut over that of the best pruning, relative", gap, 1e-10),
                Check("a rise is below the one before it by, in units of J(1)", falls, 1e-12),
                Check("DP-means from the cut raises J + λk by, relative", climbs, 1e-12),
            ),
            numbers={"prices λ": len(prices), "clusters": f"{min(clusters)} … {max(clusters)}"},
            notes=("The minimum is over prunings of this tree, not over all partitions.",),
        )


def _prices(tree: WardTree) -> list[float]:
    """Return prices between the least and the largest rise, none equal to one of them."""
    positive = tree.rises[tree.rises > 1e-9 * tree.total]
    if not len(positive):
        return [1.0]
    return (np.geomspace(positive.min(), 2 * positive.max(), _PRICES) * (1 + 1e-3)).tolist()


def _clusters_at(tree: WardTree, price: float) -> int:
    return 1 + int(np.count_nonzero(tree.rises > price))


def _best_pruning(tree: WardTree, price: float) -> float:
    """Find the least J + λk by dynamic programming: a cluster stays whole, or is the best of both its children."""
    best = price + tree.inner
    for t, (a, b) in enumerate(tree.children.tolist()):
        best[tree.n + t] = min(best[tree.n + t], best[a] + best[b])
    return float(best[-1])


def _dp_means(X: Floats, labels: Ints, price: float, max_iter: int) -> tuple[float, float]:
    """Return J + λk before and after DP-means: rows join the nearest mean; the farthest beyond λ opens a cluster."""
    before = objective(X, labels) + price * (int(labels.max()) + 1)
    for _ in range(max_iter):
        square = squared_distances(X, cluster_means(X, labels))  # (n, k)
        moved = square.argmin(axis=1)
        least = square[np.arange(len(X)), moved]
        if least.max() > price:
            moved[least.argmax()] = square.shape[1]
        moved = np.unique(moved, return_inverse=True)[1]  # clusters that lost all rows are gone
        if np.array_equal(moved, labels):
            break
        labels = moved
    return before, objective(X, labels) + price * (int(labels.max()) + 1)
