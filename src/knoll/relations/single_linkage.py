"""With minPts ≤ 2 every DBSCAN is single linkage cut at ε: a relation to hierarchical clustering (section 7)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from knoll._typing import Floats
from knoll.density.dbscan import DBSCAN
from knoll.relations._common import coarser, quiet, same_partition
from knoll.relations._density import density_scale
from knoll.relations.certificate import Certificate, Check
from knoll.relations.path import Frame, Path
from knoll.relations.relation import Limit

_SWEEP = 8


class SingleLinkage(Limit):
    """The components of the ε-graph are the single-linkage tree cut at ε."""

    name: ClassVar = "dbscan-is-single-linkage"
    source: ClassVar = "DBSCAN"
    target: ClassVar = "hierarchical clustering"
    statement: ClassVar = (
        "With minPts = 1 DBSCAN is the single-linkage tree cut at ε, and with minPts = 2 the same with single rows as "
        "noise, in every formulation; core points and clusters are nested as ε grows."
    )
    formula: ClassVar = "minPts ≤ 2:  P_DBSCAN(ε) = cut of the single-linkage tree at height ε"
    most_rows: ClassVar = 8_000
    _defaults: ClassVar = {"eps": None, "min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps, level = density_scale(X, parameters["eps"], parameters["min_samples"])
        tree = linkage(pdist(X), method="single")
        differ = 0
        radii = [*np.geomspace(eps / 4, 4 * eps, _SWEEP).tolist(), eps]
        for radius in radii:
            cut = fcluster(tree, radius, criterion="distance").astype(np.int64) - 1
            alone = np.bincount(cut)[cut] == 1
            with quiet():
                differ += not same_partition(DBSCAN(radius, min_samples=1).fit(X).labels_, cut)
                for formulation in ("graph", "climbing"):
                    labels = DBSCAN(radius, min_samples=2, formulation=formulation).fit(X).labels_
                    differ += not same_partition(labels, np.where(alone, -1, cut))
        lost, split = self._nesting(X, sorted(radii), level)
        return self._certificate(
            checks=(
                Check("partitions that differ from SciPy's tree", float(differ), 0.0),
                Check("core points lost as ε grows", float(lost), 0.0),
                Check("clusters of core points split as ε grows", float(split), 0.0),
            ),
            numbers={"ε": eps, "minPts of the nesting": level, "radii": len(radii),
                     "clusters at ε": int(fcluster(tree, eps, criterion="distance").max())},
        )  # fmt: skip

    def _nesting(self, X: Floats, radii: list[float], level: int) -> tuple[int, int]:
        lost = split = 0
        before: DBSCAN | None = None
        for radius in radii:
            with quiet():
                now = DBSCAN(radius, min_samples=level).fit(X)
            if before is not None:
                core = before.core_sample_indices_
                lost += len(np.setdiff1d(core, now.core_sample_indices_))
                split += not coarser(before.labels_[core], now.labels_[core])
            before = now
        return lost, split

    def _path(self, X: Floats, steps: int, **parameters: Any) -> Path:
        eps, _ = density_scale(X, parameters["eps"], parameters["min_samples"])
        frames = []
        for radius in np.geomspace(eps / 8, 4 * eps, steps):
            with quiet():
                labels = DBSCAN(float(radius), min_samples=1).fit(X).labels_
            frames.append(Frame(float(radius), f"ε = {radius:.3g}", labels, {}))
        return Path(self.name, "ε", X, tuple(frames))
