"""k-means and k-median of the tree's ultrametric: the greedy choice of centres is optimal for every k (eq. 7.16)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.density.tree import DensityTree
from knoll.relations._tree import distinct_tree, joins, level_of
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_MOST = 48  # numbers of centres
_POWERS = (1.0, 2.0)  # k-median, k-means


class KMeansOnTree(Relation):
    """With distances of the tree in place of Euclid's, the problem of k-means has a greedy solution."""

    name: ClassVar = "k-means-on-the-tree"
    source: ClassVar = "density tree"
    target: ClassVar = "k-means"
    statement: ClassVar = (
        "With the ultrametric u of the tree, the k centres of least Σ u(x, c)^z are found greedily for every k, at "
        "once: the centres of k are among those of k + 1, and the costs are convex in k."
    )
    formula: ClassVar = "greedy cost(k) = min over k rows of Σ_x min_c u(x, c)^z,   z = 1, 2"
    most_rows: ClassVar = 1_000
    _defaults: ClassVar = {"min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        level = level_of(X, parameters["min_samples"])
        tree, weights, u = distinct_tree(X, level)
        most = min(_MOST, len(u))
        gap, off, bend, nested = 0.0, 0.0, 0.0, 0
        for z in _POWERS:
            found = tree.centers(range(1, most + 1), power=z)
            costs = np.array([solution.cost for solution in found])
            unit = float(costs[0]) or 1.0
            gap = max(gap, float(np.abs(costs - _best_costs(tree, weights, z, most)).max()) / unit)
            again = [weights @ u[:, solution.rows].min(axis=1) ** z for solution in found]
            off = max(off, float(np.abs(costs - again).max()) / unit)
            bend = max(bend, -float(np.diff(costs, 2).min(initial=0.0)) / unit)
            nested += sum(not set(a.rows) <= set(b.rows) for a, b in pairwise(found))
        return self._certificate(
            checks=(
                Check("cost of the greedy centres from dynamic programming, relative", gap, 1e-12),
                Check("that cost from Σ min u^z over all rows, relative", off, 1e-12),
                Check("centres of k that are not among those of k + 1", float(nested), 0.0),
                Check("a saving exceeds the one before it by, relative", bend, 1e-12),
            ),
            numbers={"minPts": level, "distinct rows": len(u), "numbers of centres": most, "powers z": _POWERS},
        )


def _best_costs(tree: DensityTree, weights: Floats, z: float, most: int) -> Floats:
    """Find the least costs of 1 … most centres by dynamic programming over the joins of the tree.

    Rows of a subtree without a centre are served from its sibling, at the height of the join.
    """
    total = np.append(0.0, np.cumsum(weights[tree.order_]))
    best = [np.zeros(1) for _ in weights]  # by first position: cost of 1, 2, … centres inside
    for height, a, middle, b in joins(tree.bars_):
        left = np.append(height**z * (total[middle] - total[a]), best[a])
        right = np.append(height**z * (total[b] - total[middle]), best[middle])
        best[a], best[middle] = _min_plus(left, right)[1 : most + 1], np.empty(0)
    return best[0]


def _min_plus(a: Floats, b: Floats) -> Floats:
    """Return c with c_k = min over i + j = k of a_i + b_j."""
    if len(a) > len(b):
        a, b = b, a
    c = np.full(len(a) + len(b) - 1, np.inf)
    for i, value in enumerate(a.tolist()):
        np.minimum(c[i : i + len(b)], value + b, out=c[i : i + len(b)])
    return c
