"""Ward's method is k-means by merging: its heights add up to J of every cut (eq. 7.2, 7.8)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.hierarchy.agglomerative import AgglomerativeClustering
from knoll.kmeans.lloyd import lloyd
from knoll.relations._common import shifted_to_zero
from knoll.relations._ward import WardTree, cluster_means, objective, spaced_counts
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_CUTS = 24


class WardIsKMeans(Relation):
    """Each merge of Ward's raises the objective of k-means by as little as a merge can."""

    name: ClassVar = "ward-is-kmeans-by-merging"
    source: ClassVar = "hierarchical clustering"
    target: ClassVar = "k-means"
    statement: ClassVar = (
        "Ward's merges raise J by ΔJ = |A||B|/(|A|+|B|)·‖μ_A − μ_B‖², so the sum of its first n − k rises is J of its "
        "cut into k clusters, and k-means from that cut ends at or below it."
    )
    formula: ClassVar = "J(cut into k) = Σ_{t ≤ n−k} ΔJ_t,   ΔJ_t = h_t²/2"
    most_rows: ClassVar = 20_000
    _defaults: ClassVar = {"max_iter": 100}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        X = shifted_to_zero(X)
        model = AgglomerativeClustering(1, compute_distances=True).fit(X)
        tree = WardTree.of(X, model.children_, model.distances_)
        a, b = model.children_.T
        merged = tree.inner[tree.n :] - tree.inner[a] - tree.inner[b]  # the rise of each merge
        sums = np.concatenate([[0.0], np.cumsum(tree.rises)])
        apart, climbs, improved = 0.0, -np.inf, 0
        counts = spaced_counts(tree.n, _CUTS)
        for k in counts:
            labels = tree.labels(k)
            before = objective(X, labels)
            apart = max(apart, abs(before - float(sums[tree.n - k])) / tree.total)
            moved = lloyd(X, None, cluster_means(X, labels), max_iter=int(parameters["max_iter"]), tol=0.0)
            assert moved.labels is not None
            after = objective(X, np.unique(moved.labels, return_inverse=True)[1])
            climbs, improved = max(climbs, (after - before) / tree.total), improved + (after < before)
        return self._certificate(
            checks=(
                Check("h²/2 of a merge from the rise of J, in units of J(1)",
                      float(np.abs(merged - tree.rises).max(initial=0.0)) / tree.total, 1e-10),
                Check("Σ h²/2 of the first merges from J of the cut, in units of J(1)", apart, 1e-10),
                Check("k-means from a cut raises J by, in units of J(1)", climbs, 1e-12),
            ),
            numbers={"cuts": len(counts), "cuts that k-means improves": improved, "J(1)": tree.total},
            notes=("Merging is greedy: the cuts that k-means improves are not optimal.",) if improved else (),
        )  # fmt: skip
