"""Spectral clustering of the tree's ultrametric with the Heaviside kernel: one eigenvalue 1 a cluster (eq. 7.17)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._common.linalg import eigh
from knoll._typing import Floats, Ints
from knoll.density.dbscan import DBSCAN
from knoll.density.tree import DensityTree
from knoll.relations._common import quiet
from knoll.relations._density import density_scale
from knoll.relations._tree import heights_between, mutual_reachability
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation


class SpectralOnTree(Relation):
    """In the ultrametric every component is a complete graph, so all other eigenvalues are 0."""

    name: ClassVar = "spectral-on-the-tree"
    source: ClassVar = "spectral clustering"
    target: ClassVar = "density tree"
    statement: ClassVar = (
        "With the Heaviside kernel on u at ε, the normalized matrix of the core points has eigenvalue 1 once for each "
        "cluster of DBSCAN and 0 otherwise, and is itself the projector on the clusters' indicators."
    )
    formula: ClassVar = "D^-½ A D^-½ = Σ_c 1_c 1_cᵀ/n_c,   A_ij = 1 if u(x_i, x_j) ≤ ε, else 0"
    most_rows: ClassVar = 2_000
    _defaults: ClassVar = {"eps": None, "min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps, level = density_scale(X, parameters["eps"], parameters["min_samples"])
        with quiet():
            model = DBSCAN(eps, min_samples=level, border="noise").fit(X)
        core = model.core_sample_indices_
        condition = Precondition("there are core points", len(core) > 0, "" if len(core) else f"at ε = {eps:.3g}")
        if not condition.holds:
            return self._certificate(checks=(), preconditions=(condition,), numbers={"ε": eps, "minPts": level})
        tree = DensityTree(level).fit(X)
        u = heights_between(tree.order_, tree.bars_)[np.ix_(core, core)]
        values, vectors = _spectrum(u <= eps)
        clusters = model.labels_[core]
        k = int(clusters.max()) + 1
        Z = vectors[:, values > 0.5]
        reach = mutual_reachability(X, level)[np.ix_(core, core)]
        return self._certificate(
            preconditions=(condition,),
            checks=(
                Check("difference of the number of eigenvectors and of clusters", float(abs(Z.shape[1] - k)), 0.0),
                Check("ZZᵀ from the projector of the indicators", _apart(Z @ Z.T, clusters), 1e-8),
                Check("an eigenvalue from the nearer of 0 and 1", float(np.minimum(abs(values), abs(1 - values)).max()),
                      1e-8),
            ),
            numbers={"ε": eps, "minPts": level, "core points": len(core), "clusters": k, "gap on u": _gap(values, k),
                     "gap on m, the kernel of DBSCAN's graph": _gap(_spectrum(reach <= eps)[0], k)},
        )  # fmt: skip


def _spectrum(near: Any) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors of D^-½ A D^-½ for A of zeros and ones."""
    A = near.astype(np.float64)
    root = np.sqrt(A.sum(axis=1))
    return eigh(A / root[:, None] / root)


def _apart(projector: Floats, clusters: Ints) -> float:
    inside = clusters[:, None] == clusters
    return float(np.abs(projector - np.where(inside, 1 / np.bincount(clusters)[clusters], 0.0)).max())


def _gap(ascending: Floats, k: int) -> float:
    """Return how far the largest eigenvalue but k is from 1."""
    return float(1 - ascending[-k - 1]) if k < len(ascending) else 1.0
