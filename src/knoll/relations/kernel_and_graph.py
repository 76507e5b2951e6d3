"""NJW's kernel version and its graph version: the same matrix under two names (boxes 5 and 6; eq. 4.8, 4.9, 4.19)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import subspace_angles

from knoll._typing import Floats
from knoll.reference import njw_spectral, njw_spectral_graph, run
from knoll.relations._common import quiet, same_partition
from knoll.relations._kernel import sigma_of
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation
from knoll.spectral.estimator import SpectralClustering

_GAP = 1e-6
_TIED = 1e-9  # of k-means' objective: symmetric data has several best partitions


class KernelAndGraph(Relation):
    """W^½KW^½ with W = D⁻¹ is D^-½AD^-½."""

    name: ClassVar = "spectral-kernel-is-graph"
    source: ClassVar = "NJW-SC, kernel version"
    target: ClassVar = "NJW-SC, graph version"
    statement: ClassVar = "Both versions embed the rows in the same subspace and give the same partition."
    formula: ClassVar = "K = A, W = D⁻¹ ⇒ W^½KW^½ = D^-½AD^-½"
    most_rows: ClassVar = 2_000
    _defaults: ClassVar = {"n_clusters": 2, "sigma": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        k, sigma = int(parameters["n_clusters"]), sigma_of(X, parameters["sigma"])
        kernel, graph = run(njw_spectral(X, k, sigma)), run(njw_spectral_graph(X, k, sigma))
        with quiet():
            fast = SpectralClustering(k, sigma=sigma, row_scaling="none", random_state=0).fit(X)
        gap = float(fast.eigengap_)
        isolated = not gap <= _GAP  # NaN: there is no next eigenvalue
        same = same_partition(kernel.labels, graph.labels)
        tied = not same and abs(kernel.objective - graph.objective) <= _TIED * kernel.objective
        return self._certificate(
            preconditions=(
                Precondition("the k-th eigenvalue is separated from the next", isolated, f"gap {gap:.1e}"),
                Precondition(
                    "the best partition of the embedding is unique", not tied, "two are equally good" if tied else ""
                ),
            ),
            checks=(
                Check("angle between the two subspaces", float(subspace_angles(kernel.Y, graph.Z).max()), 1e-7),
                Check(
                    "angle to SpectralClustering's",
                    float(subspace_angles(kernel.Y, fast.embedding_).max()),
                    max(
                        1e-7,
                        10 * float(fast.eigen_residual_.max()) / max(gap, _GAP) if isolated and gap == gap else 1e-7,
                    ),
                ),
                Check("partitions that differ", float(not same), 0.0),
            ),
            numbers={
                "σ": sigma,
                "n_clusters": k,
                "eigengap": gap,
                "normalized cut": graph.ncut,
                "SpectralClustering has the same partition": same_partition(
                    kernel.labels, fast.labels_.astype(np.int64)
                ),
            },
        )
