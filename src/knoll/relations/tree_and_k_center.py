"""DBSCAN*'s components, single rows for noise, are an optimal k-center clustering of the ultrametric (eq. 7.15)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats, Ints
from knoll.density.dbscan import DBSCAN
from knoll.density.tree import DensityTree
from knoll.relations._common import quiet
from knoll.relations._tree import distinct_tree, level_of, radii
from knoll.relations._ward import spaced_counts
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_COUNTS = 24


class TreeIsKCenter(Relation):
    """Cutting the k − 1 highest bars leaves k clusters of the least possible radius."""

    name: ClassVar = "tree-is-k-center"
    source: ClassVar = "density tree"
    target: ClassVar = "k-center"
    statement: ClassVar = (
        "In the ultrametric u of the tree the least radius of k clusters is the k-th highest bar; the components at "
        "every ε, noise rows as clusters of their own, attain it. So DBSCAN* is an optimal k-center clustering."
    )
    formula: ClassVar = "min over k centres of max_x u(x, nearest centre) = b_k,   b_1 ≥ b_2 ≥ … the bars"
    most_rows: ClassVar = 2_000
    _defaults: ClassVar = {"min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        level = level_of(X, parameters["min_samples"])
        tree, weights, u = distinct_tree(X, level)
        n = len(u)
        optimum = np.append(np.sort(tree.bars_[1:])[::-1], 0.0)  # (n,) b_1 … b_{n−1}, and 0 for n clusters
        unit = float(optimum[0]) or 1.0
        gap, off, counts = 0.0, 0.0, spaced_counts(n, _COUNTS)
        for k in counts:
            labels, rows, cost = tree.centers(k, power=np.inf)
            radius = float(u[np.arange(n), rows[labels]].max())
            off = max(off, abs(radius - cost) / unit)
            gap = max(gap, (radius - _lower_bound(tree, u, k)) / unit)
        cuts = [_components(tree, weights, eps, level) for eps in radii(tree, _COUNTS)]
        excess = max((_radius(u, labels) - float(optimum[labels.max()])) / unit for labels in cuts)
        return self._certificate(
            checks=(
                Check("the radius of k centres over k + 1 rows' least distance, in b_1", gap, 0.0),
                Check("the radius from its reported cost, in b_1", off, 0.0),
                Check("the radius of DBSCAN*'s components over the least one, in b_1", excess, 0.0),
            ),
            numbers={"minPts": level, "distinct rows": n, "numbers of clusters": len(counts), "cuts": len(cuts)},
            notes=("k counts the noise rows, each a cluster of its own.",),
        )


def _lower_bound(tree: DensityTree, u: Floats, k: int) -> float:
    """Return the least u among k + 1 rows or more, one from each interval between the k highest bars.

    Two of k + 1 rows share a centre, and by the ultrametric inequality one of them is at least as far from it as from
    the other. So no k centres have a smaller radius.
    """
    if k == len(u):
        return 0.0
    high = np.sort(tree.bars_[1:])[::-1][k - 1]
    rows = tree.order_[(tree.bars_ >= high) | (np.arange(len(u)) == 0)]
    apart = u[np.ix_(rows, rows)]
    return float(apart[~np.eye(len(rows), dtype=bool)].min())


def _components(tree: DensityTree, weights: Floats, eps: float, level: int) -> Ints:
    """Return the clusters of DBSCAN* with every noise row as a cluster of its own."""
    with quiet():
        labels = (
            DBSCAN(eps, min_samples=level, border="noise", n_jobs=1).fit(tree.points_, sample_weight=weights).labels_
        )
    noise = labels < 0
    return np.where(noise, labels.max() + np.cumsum(noise), labels)


def _radius(u: Floats, labels: Ints) -> float:
    """Return the largest u of a row and the first row of its cluster; in an ultrametric any row is a best centre."""
    first = np.unique(labels, return_index=True)[1]
    return float(u[np.arange(len(labels)), first[labels]].max())
