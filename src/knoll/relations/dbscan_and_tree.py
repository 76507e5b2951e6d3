"""The density tree cut at ε is DBSCAN* at ε, for every ε (eq. 7.1, 7.13)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.density.dbscan import DBSCAN
from knoll.density.tree import DensityTree
from knoll.relations._common import quiet, squared_distances
from knoll.relations._tree import (
    core_distances,
    heights_between,
    level_of,
    mutual_reachability,
    radii,
    single_linkage_heights,
)
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_HEIGHTS = 100


class DBSCANStarIsTreeCut(Relation):
    """Two rows are core and within ε of each other if, and only if, their mutual reachability is at most ε."""

    name: ClassVar = "dbscan-star-is-tree-cut"
    source: ClassVar = "DBSCAN"
    target: ClassVar = "density tree"
    statement: ClassVar = (
        "For every ε, the components of {m ≤ ε} are the clusters of DBSCAN without border points, and a row with a "
        "core distance above ε is noise: one tree, single linkage over m, has all of them."
    )
    formula: ClassVar = "m(x, y) = max{c(x), c(y), ‖x − y‖};   DBSCAN*(ε) = components of {m ≤ ε} among c(x) ≤ ε"
    most_rows: ClassVar = 3_000
    _defaults: ClassVar = {"min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        level = level_of(X, parameters["min_samples"])
        tree = DensityTree(level, n_jobs=1).fit(X)
        compared = radii(tree, _HEIGHTS)
        differ = 0
        for eps in compared:
            with quiet():
                labels = DBSCAN(eps, min_samples=level, border="noise", n_jobs=1).fit(X).labels_
            differ += not np.array_equal(tree.cut(eps, border="noise"), labels)
        expected = single_linkage_heights(mutual_reachability(X, level))
        core = core_distances(np.sqrt(squared_distances(X, X)), level)
        pairs = int((heights_between(tree.order_, tree.bars_) != expected).sum()) // 2
        return self._certificate(
            checks=(
                Check("partitions that differ from DBSCAN's, at heights and between", float(differ), 0.0),
                Check("pairs joined at another height than by SciPy's tree over m", float(pairs), 0.0),
                Check("core distances unlike those of all distances", float((tree.core_distances_ != core).sum()), 0.0),
            ),
            numbers={"minPts": level, "values of ε compared": len(compared),
                     "pairs compared": len(X) * (len(X) - 1) // 2,
                     "heights of the tree": len(np.unique(tree.bars_[1:]))},
        )  # fmt: skip
