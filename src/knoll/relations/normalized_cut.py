"""The normalized cut is a weighted kernel k-means problem, but not the paper's one (eq. 4.12–4.17, errata item 22)."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats, Ints
from knoll.exceptions import BadData
from knoll.kernels import normalized_cut
from knoll.relations._kernel import random_partitions, sigma_of, similarities, trace
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_PARTITIONS = 24


class NormalizedCut(Relation):
    """W = D and K = D⁻¹AD⁻¹ make weighted kernel k-means the normalized cut, partition by partition."""

    name: ClassVar = "normalized-cut-is-kernel-kmeans"
    source: ClassVar = "weighted kernel k-means"
    target: ClassVar = "normalized cut"
    statement: ClassVar = (
        "The normalized cut of every partition is 1 − Tr/k, and weighted kernel k-means with W = D, K = D⁻¹AD⁻¹ orders "
        "partitions as it does. W = D⁻¹, K = A has the same matrix and relaxation, but other discrete optima."
    )
    formula: ClassVar = "Ncut = 1 − (1/k) Tr Z̃ᵀD^-½AD^-½Z̃ = 1 − (1/k) Tr YᵀD^½(D⁻¹AD⁻¹)D^½Y"
    most_rows: ClassVar = 3_000
    _defaults: ClassVar = {"n_clusters": 2, "sigma": None, "random_state": 0}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        k, sigma = int(parameters["n_clusters"]), sigma_of(X, parameters["sigma"])
        if k > len(X):
            raise BadData(f"{self.name}: n_clusters={k}, but there are {len(X)} rows. Use n_clusters <= {len(X)}.")
        A = similarities(X, sigma)
        d = A.sum(axis=1)
        root = np.sqrt(d)
        M = A / root[:, None] / root
        K = A / d[:, None] / d  # D⁻¹AD⁻¹
        same = float(np.abs(root[:, None] * K * root - M).max())
        paper = float(np.abs(A * (1 / root)[:, None] * (1 / root) - M).max())
        cut, order = 0.0, 0.0
        for labels in random_partitions(len(X), k, _PARTITIONS, int(parameters["random_state"])):
            ncut = normalized_cut(A, labels)
            Z = np.zeros((len(X), k))
            Z[np.arange(len(X)), labels] = root
            Z /= np.sqrt(np.bincount(labels, d, k))  # Z̃ of eq. 4.17
            cut = max(cut, abs(ncut - (1 - np.sum(Z * (M @ Z)) / k)))
            order = max(order, abs(ncut - (1 - trace(root[:, None] * K * root, labels, d) / k)))
        ours, papers = _counterexample()
        return self._certificate(
            checks=(
                Check("Ncut from 1 − Tr/k, over random partitions", cut, 1e-10),
                Check("Ncut from kernel k-means with W = D, K = D⁻¹AD⁻¹", order, 1e-10),
                Check("the two matrices W^½KW^½, entry by entry", max(same, paper), 1e-12),
                Check(
                    "{0, 0, 2, 4}: best partitions of the two discrete problems that are the same",
                    float(ours == papers),
                    0.0,
                ),
            ),
            numbers={
                "σ": sigma,
                "n_clusters": k,
                "{0, 0, 2, 4}: least normalized cut": ours,
                "{0, 0, 2, 4}: best for W = D⁻¹, K = A": papers,
            },
        )


def _counterexample() -> tuple[str, str]:
    """Return the best partitions of {0, 0, 2, 4}, σ = 1, k = 2, of the normalized cut and of W = D⁻¹, K = A."""
    x = np.array([[0.0], [0.0], [2.0], [4.0]])
    A = similarities(x, 1.0)
    w = 1 / A.sum(axis=1)
    M = np.sqrt(w)[:, None] * A * np.sqrt(w)
    every = [np.array((0, *others)) for others in itertools.product((0, 1), repeat=3) if any(others)]
    cut = min(every, key=lambda labels: normalized_cut(A, labels))
    kernel = max(every, key=lambda labels: trace(M, labels, w))
    return _format(x[:, 0], cut), _format(x[:, 0], kernel)


def _format(x: Floats, labels: Ints) -> str:
    return " | ".join(", ".join(f"{value:g}" for value in x[labels == c]) for c in (0, 1))
