"""Ward's method merges Gaussians of one variance: each merge costs the least likelihood (eq. 7.11, 7.12)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats, Ints
from knoll.hierarchy.agglomerative import AgglomerativeClustering
from knoll.relations._common import shifted_to_zero
from knoll.relations._ward import WardTree, cluster_means, spaced_counts
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_STEPS = 12


class WardIsGaussianMerging(Relation):
    """The rise of J is the loss of log-likelihood of Gaussians with Σ = σ²I, in units of 2σ²."""

    name: ClassVar = "ward-is-gaussian-merging"
    source: ClassVar = "hierarchical clustering"
    target: ClassVar = "mixture of Gaussians"
    statement: ClassVar = (
        "Among all merges of two clusters, Ward's loses the least classification likelihood of Gaussians with a common "
        "Σ = σ²I, for every σ² and also where σ² is estimated."
    )
    formula: ClassVar = "log L(P) = −(nd/2) log 2πσ² − J(P)/2σ²;   max over σ²: −(nd/2)(1 + log 2πJ(P)/nd)"
    most_rows: ClassVar = 4_000
    _defaults: ClassVar = {}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        X = shifted_to_zero(X)
        n, d = X.shape
        model = AgglomerativeClustering(1, compute_distances=True).fit(X)
        tree = WardTree.of(X, model.children_, model.distances_)
        variance = tree.total / (n * d)
        differ, apart, steps = 0, 0.0, 0
        for k in spaced_counts(n, _STEPS):
            labels = tree.labels(k)
            likelihood = _log_likelihood(X, labels, variance)
            expected = _log_likelihood_of(float(tree.rises[: n - k].sum()), n, d, variance)
            apart = max(apart, abs(likelihood - expected) / (n * d))
            if k > 1:
                steps += 1
                differ += not _is_least(X, labels, tree, k, variance)
        return self._certificate(
            checks=(
                Check("merges that lose more likelihood than another pair would", float(differ), 0.0),
                Check("log-likelihood of a cut from that of its heights, per number", apart, 1e-10),
            ),
            numbers={"merges compared with all pairs": steps, "σ²": variance},
        )


def _log_likelihood(X: Floats, labels: Ints, variance: float) -> float:
    """Add up log N(x; μ of its cluster, σ²I) over the rows (eq. 7.11)."""
    square = np.square(X - cluster_means(X, labels)[labels])
    return float((-0.5 * math.log(2 * math.pi * variance) - square / (2 * variance)).sum())


def _log_likelihood_of(J: float, n: int, d: int, variance: float) -> float:
    return -n * d / 2 * math.log(2 * math.pi * variance) - J / (2 * variance)


def _is_least(X: Floats, labels: Ints, tree: WardTree, k: int, variance: float) -> bool:
    """Whether the next merge loses the least likelihood of all pairs, up to rounding: with known σ², and estimated."""
    n, d = X.shape
    counts, means = np.bincount(labels).astype(float), cluster_means(X, labels)
    J = float(tree.rises[: n - k].sum())
    taken = float(tree.rises[n - k])  # the rise of the merge that follows
    least = np.inf
    for c in range(k - 1):  # pair by pair from the two means: rises of all others
        square = np.square(means[c + 1 :] - means[c]).sum(axis=1)
        least = min(least, float((counts[c + 1 :] * counts[c] / (counts[c + 1 :] + counts[c]) * square).min()))
    unit = 1e-9 * tree.total
    with_variance = (taken - least) / (2 * variance) <= unit / (2 * variance)
    profile = n * d / 2 * (math.log(J + taken + unit) - math.log(J + least + unit))
    return with_variance and profile <= n * d / 2 * unit / (J + least + unit)
