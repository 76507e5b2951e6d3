"""Spectral clustering is the relaxation of weighted kernel k-means in its trace form (eq. 4.5–4.7)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.kernel_kmeans.estimator import KernelKMeans
from knoll.relations._common import quiet
from knoll.relations._kernel import random_partitions, sigma_of, similarities, top_eigenpairs, trace
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation
from knoll.spectral.estimator import SpectralClustering

_PARTITIONS = 24


class Relaxation(Relation):
    """The sum of the k largest eigenvalues is an upper bound for every partition."""

    name: ClassVar = "trace-relaxation"
    source: ClassVar = "weighted kernel k-means"
    target: ClassVar = "spectral clustering"
    statement: ClassVar = (
        "Without the constraint that a row belongs to one cluster, the trace form of weighted kernel k-means is solved "
        "by the top k eigenvectors; the sum of their eigenvalues is an upper bound for every partition."
    )
    formula: ClassVar = "Tr YᵀW^½KW^½Y ≤ λ_1 + … + λ_k  for every partition, W = D⁻¹"
    most_rows: ClassVar = 3_000
    _defaults: ClassVar = {"n_clusters": 2, "sigma": None, "random_state": 0}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        k, seed = int(parameters["n_clusters"]), int(parameters["random_state"])
        sigma = sigma_of(X, parameters["sigma"])
        A = similarities(X, sigma)
        w = 1 / A.sum(axis=1)
        root = np.sqrt(w)
        M = root[:, None] * A * root
        values, _ = top_eigenpairs(M, k)
        bound = float(values[:k].sum())
        reached = [trace(M, labels, w) for labels in random_partitions(len(X), k, _PARTITIONS, seed)]
        with quiet():
            local = KernelKMeans(k, sigma=sigma, random_state=seed).fit(X, sample_weight=w)
            spectral = SpectralClustering(k, sigma=sigma, row_scaling="unit", random_state=seed).fit(X)
            after = KernelKMeans(k, sigma=sigma, init=spectral.labels_).fit(X, sample_weight=w)
        traces = {
            "k-means++ start, fixed point": trace(M, local.labels_.astype(np.int64), w),
            "spectral partition": trace(M, spectral.labels_.astype(np.int64), w),
            "spectral start, fixed point": trace(M, after.labels_.astype(np.int64), w),
        }
        best = max(traces.values())
        return self._certificate(
            checks=(
                Check("trace of a partition minus the bound", max([*reached, *traces.values()]) - bound, 1e-9 * k),
                Check(
                    "difference of kernel k-means' trace and Tr YᵀMY",
                    abs(local.trace_objective_ - traces["k-means++ start, fixed point"]),
                    1e-9 * k,
                ),
                Check(
                    "decrease of the trace from the spectral start",
                    traces["spectral partition"] - traces["spectral start, fixed point"],
                    1e-9 * k,
                ),
            ),
            numbers={
                "σ": sigma,
                "n_clusters": k,
                "λ_1 + … + λ_k": bound,
                **{f"trace, {n}": t for n, t in traces.items()},
                "gap of the best partition": bound - best,
                "best of the random partitions": max(reached),
            },
        )
