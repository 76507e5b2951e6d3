"""The graph and the climbing version of DBSCAN agree on core points, up to merged clusters (errata item 4)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Bools, Floats, Ints
from knoll.density.ascent import KernelDensity
from knoll.density.dbscan import DBSCAN
from knoll.relations._common import coarser, quiet, same_partition
from knoll.relations._density import density_scale
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_STEPS = 2**31 - 1


class GraphAndClimb(Relation):
    """The climbing version never moves a core point, so its clusters contain the graph's."""

    name: ClassVar = "dbscan-graph-and-climb"
    source: ClassVar = "DBSCAN, graph version"
    target: ClassVar = "DBSCAN, climbing version"
    statement: ClassVar = (
        "Core points do not move, and the climbing version partitions them like the graph or more coarsely; for "
        "minPts ≤ 2 both are the same. For every other row that differs there is a reason."
    )
    formula: ClassVar = (
        "|N_ε(x)| ≥ minPts ⇒ x climbs nowhere;  P_graph|core ⊑ P_climb|core;  minPts ≤ 2 ⇒ P_graph = P_climb"
    )
    _defaults: ClassVar = {"eps": None, "min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps, level = density_scale(X, parameters["eps"], parameters["min_samples"])
        with quiet():
            graph = DBSCAN(eps, min_samples=level).fit(X)
            climb = DBSCAN(eps, min_samples=level, formulation="climbing").fit(X)
            pairs = [
                DBSCAN(eps, min_samples=2, formulation=formulation).fit(X).labels_
                for formulation in ("graph", "climbing")
            ]
        core = np.zeros(len(X), dtype=bool)
        core[graph.core_sample_indices_] = True
        ends = KernelDensity(X, None, eps).ascend(X, _STEPS, level=float(level))
        moved = float(np.abs(ends.points[core] - X[core]).max(initial=0.0))
        reasons = _reasons(graph.labels_, climb.labels_, core)
        return self._certificate(
            checks=(
                Check("largest distance that a core point moves", moved, 0.0),
                Check(
                    "graph clusters of core points that climbing splits",
                    float(not coarser(graph.labels_[core], climb.labels_[core])), 0.0,
                ),
                Check("minPts = 2: partitions that differ", float(not same_partition(*pairs)), 0.0),
            ),
            numbers={
                "ε": eps, "minPts": level, "core points": int(core.sum()),
                "clusters, graph": int(graph.labels_.max()) + 1, "clusters, climbing": int(climb.labels_.max()) + 1,
                **{f"rows: {reason}": len(rows) for reason, rows in reasons.items()},
                **{f"first rows: {reason}": rows[:5].tolist() for reason, rows in reasons.items() if len(rows)},
            },
        )  # fmt: skip


def _reasons(graph: Ints, climb: Ints, core: Bools) -> dict[str, Ints]:
    """Classify the rows on which the two versions differ (errata item 4)."""
    origins = {int(c): set(graph[core & (climb == c)].tolist()) for c in np.unique(climb) if c >= 0}
    out: dict[str, list[int]] = {
        "stuck border": [], "promoted noise": [], "new mode": [], "bridge": [], "other cluster": []
    }  # fmt: skip
    for i, (before, after) in enumerate(zip(graph.tolist(), climb.tolist())):
        if after < 0:
            if before >= 0:
                out["stuck border"].append(i)
            continue
        origin = origins[after]  # the graph's clusters of the core points that end here
        if not origin:
            out["new mode"].append(i)
        elif before < 0:
            out["promoted noise"].append(i)
        elif before not in origin:
            out["other cluster"].append(i)
        elif len(origin) > 1:
            out["bridge"].append(i)
    return {reason: np.array(rows, dtype=np.int64) for reason, rows in out.items()}
