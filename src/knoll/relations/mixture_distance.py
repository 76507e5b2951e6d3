"""The distance of a mixture is not Mahalanobis alone, but M² + log|Σ| − 2 log π (eq. 2.6, errata item 17)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.mixture.estimator import GaussianMixture
from knoll.relations._common import quiet
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_CLOSE = 1e-9  # distances closer than this are tied up to rounding


class MixtureDistance(Relation):
    """The most probable component of a row is the closest one in the mixture's own distance."""

    name: ClassVar = "mixture-distance"
    source: ClassVar = "EM-GMM"
    target: ClassVar = "k-means"
    statement: ClassVar = (
        "A row's most probable component is the one that minimises M² + log|Σ| − 2 log π; the Mahalanobis distance "
        "alone may be minimal for another."
    )
    formula: ClassVar = "argmax_c λ_ic = argmin_c (x_i − μ_c)ᵀΣ_c⁻¹(x_i − μ_c) + log|Σ_c| − 2 log π_c"
    _defaults: ClassVar = {"n_components": 3, "random_state": 0}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        with quiet():
            mixture = GaussianMixture(**parameters).fit(X)
        labels = mixture.predict(X)
        mahalanobis, offset = [], []
        alive = np.flatnonzero(mixture.weights_ > 0)  # (m,): a component of weight 0 is infinitely far from every row
        for mean, covariance, weight in zip(
            mixture.means_[alive], mixture.covariances_[alive], mixture.weights_[alive]
        ):
            root = np.linalg.cholesky(covariance)  # (d, d)
            z = np.linalg.solve(root, (X - mean).T)  # (d, n)
            mahalanobis.append(np.square(z).sum(axis=0))
            offset.append(2 * np.log(np.diagonal(root)).sum() - 2 * np.log(weight))
        plain = np.stack(mahalanobis, axis=1)  # (n, m)
        whole = plain + np.array(offset)  # (n, m)
        taken = np.searchsorted(alive, labels)  # (n,): the index of the label among those alive
        dead = int((alive[np.minimum(taken, len(alive) - 1)] != labels).sum())
        loss = whole[np.arange(len(X)), np.minimum(taken, len(alive) - 1)] - whole.min(axis=1)  # 0 at the argmin
        scale = np.maximum(1, np.abs(whole).max(axis=1))
        other = np.flatnonzero(alive[plain.argmin(axis=1)] != labels)
        return self._certificate(
            checks=(
                Check("excess of a label over the minimum, relative", float((loss / scale).max()), _CLOSE),
                Check("rows assigned to a component of weight 0", float(dead), 0.0),
            ),
            numbers={
                "rows that Mahalanobis alone would assign to another component": len(other),
                "first such rows": other[:10].tolist(),
                "n_components": len(mixture.weights_),
            },
        )
