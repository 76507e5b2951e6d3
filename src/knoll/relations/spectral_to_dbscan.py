"""Spectral clustering with the Heaviside kernel on the core points is DBSCAN (eq. 5.3–5.6)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._common.linalg import eigh
from knoll._typing import Floats
from knoll.density.core_graph import eigenvalue_one
from knoll.density.dbscan import DBSCAN
from knoll.kernels import Heaviside
from knoll.relations._common import quiet
from knoll.relations._density import density_scale
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation


class SpectralIsDBSCAN(Relation):
    """The eigenvectors of eigenvalue one of the core graph are the indicators of DBSCAN's clusters."""

    name: ClassVar = "spectral-is-dbscan"
    source: ClassVar = "spectral clustering"
    target: ClassVar = "DBSCAN"
    statement: ClassVar = (
        "With the Heaviside kernel, on the core points alone and with their own degrees, eigenvalue one has one "
        "eigenvector per cluster, and their projector is the clusters' indicators: DBSCAN."
    )
    formula: ClassVar = "ZZᵀ = Σ_c D^½ 1_c 1_cᵀ D^½ / vol_c,  Z the eigenvectors of D^-½AD^-½ with eigenvalue 1"
    most_rows: ClassVar = 3_000
    _defaults: ClassVar = {"eps": None, "min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps, level = density_scale(X, parameters["eps"], parameters["min_samples"])
        with quiet():
            graph = DBSCAN(eps, min_samples=level).fit(X)
            spectral = DBSCAN(eps, min_samples=level, formulation="spectral").fit(X)
        core = graph.core_sample_indices_
        condition = Precondition("there are core points", len(core) > 0, "" if len(core) else f"at ε = {eps:.3g}")
        if not condition.holds:
            return self._certificate(checks=(), preconditions=(condition,), numbers={"ε": eps, "minPts": level})
        A = Heaviside(eps).tile(X[core], X[core])  # (m, m)
        d = A.sum(axis=1)
        root = np.sqrt(d)
        below = eigenvalue_one(len(core), float(d.sum()))
        values, vectors = eigh(A / root[:, None] / root)
        Z = vectors[:, values > 1 - below]
        clusters = graph.labels_[core]
        k = int(clusters.max()) + 1
        inside = clusters[:, None] == clusters
        projector = np.where(inside, np.outer(root, root) / np.bincount(clusters, d)[clusters][:, None], 0.0)
        old = np.sqrt(Heaviside(eps).apply(X, np.ones((len(X), 1)))[core, 0])  # degrees before the filter
        kept = int((eigh(A / old[:, None] / old)[0] > 1 - below).sum())
        return self._certificate(
            preconditions=(condition,),
            checks=(
                Check("difference of the number of eigenvectors and of clusters", float(abs(Z.shape[1] - k)), 0.0),
                Check(
                    "difference of ZZᵀ and the projector of the indicators",
                    float(np.abs(Z @ Z.T - projector).max()),
                    1e-8,
                ),
                Check("labels that differ", float((spectral.labels_ != graph.labels_).sum()), 0.0),
            ),
            numbers={
                "ε": eps,
                "minPts": level,
                "core points": len(core),
                "clusters": k,
                "an eigenvalue counts as one down to 1 −": below,
                "vectors of eigenvalue one with the old degrees": kept,
            },
            notes=(
                "With the degrees from before the filter eigenvalue one is lost: D must be recomputed (errata item 8).",
            )
            if kept != k
            else (),
        )
