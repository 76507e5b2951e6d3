"""OPTICS over mutual reachability is Prim's algorithm: its plot has the heights of the tree (eq. 7.14)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.density.dbscan import DBSCAN
from knoll.density.optics import OPTICS
from knoll.density.tree import DensityTree
from knoll.relations._common import quiet
from knoll.relations._density import density_scale
from knoll.relations._tree import heights_between, mutual_reachability, single_linkage_heights
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation


class OPTICSIsPrim(Relation):
    """The bars of the reachability plot are the weights of the minimum spanning tree, in Prim's order."""

    name: ClassVar = "optics-is-prim"
    source: ClassVar = "OPTICS"
    target: ClassVar = "density tree"
    statement: ClassVar = (
        "OPTICS with the symmetric reachability m is Prim's algorithm: its bars are the weights of a minimum "
        "spanning tree, and the largest bar between two rows is the height at which the tree joins them."
    )
    formula: ClassVar = "u(x_i, x_j) = max of the bars at i+1 … j, in the order of OPTICS"
    most_rows: ClassVar = 2_000
    _defaults: ClassVar = {"eps": None, "min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps, level = density_scale(X, parameters["eps"], parameters["min_samples"])
        m = mutual_reachability(X, level)
        with quiet():  # the second smallest entry of a row of m is at most all others, so max(c(p), m) is m
            model = OPTICS(min_samples=2, metric="precomputed", cluster_method="dbscan").fit(m)
        bars = model.reachability_[model.ordering_]
        tree = DensityTree(level).fit(X)
        weights = int((np.sort(bars) != np.sort(tree.bars_)).sum())
        between = heights_between(model.ordering_, bars)
        pairs = int((between != single_linkage_heights(m)).sum()) // 2
        return self._certificate(
            checks=(
                Check("bars of the plot that are not heights of the tree", float(weights), 0.0),
                Check("pairs whose largest bar between is not their height", float(pairs), 0.0),
            ),
            numbers={
                "minPts": level,
                "ε": eps,
                "pairs compared": len(X) * (len(X) - 1) // 2,
                "rows that the original, asymmetric OPTICS labels unlike DBSCAN at ε": _lost(X, eps, level),
            },
        )


def _lost(X: Floats, eps: float, level: int) -> int:
    """Count rows that are noise in a cut of the original OPTICS and not for DBSCAN, or the other way round."""
    with quiet():
        plain = OPTICS(min_samples=max(level, 2), cluster_method="dbscan").fit(X).cut(eps)
        labels = DBSCAN(eps, min_samples=max(level, 2)).fit(X).labels_
    return int(((plain < 0) != (labels < 0)).sum())
