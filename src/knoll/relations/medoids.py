"""The best medoid of a cluster costs between J and 2J, and the mean over all rows as medoid is 2J (eq. 3.16, 3.17)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.kmeans.lloyd import lloyd
from knoll.relations._common import count_unique_rows, shifted_to_zero, squared_distances, start_centers
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation


class MedoidSandwich(Relation):
    """A centre that must be a row costs at most twice the mean."""

    name: ClassVar = "medoid-sandwich"
    source: ClassVar = "k-means"
    target: ClassVar = "k-medoids"
    statement: ClassVar = (
        "Of a cluster with sum of squares J about its mean, the sum of squares about one of its rows is exactly 2J on "
        "average, so that about the best of them, its medoid, lies between J and 2J."
    )
    formula: ClassVar = "J ≤ min_m Σ_x ‖x − m‖² ≤ mean_m Σ_x ‖x − m‖² = 2J"
    most_rows: ClassVar = 5_000
    _defaults: ClassVar = {"n_clusters": 3, "random_state": 0, "max_iter": 100}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        X = shifted_to_zero(X)
        centers = start_centers(X, int(parameters["n_clusters"]), int(parameters["random_state"]), self.name)
        labels = lloyd(X, None, centers, max_iter=int(parameters["max_iter"]), tol=0.0).labels
        assert labels is not None
        clusters = [rows for rows in (X[labels == c] for c in np.unique(labels)) if count_unique_rows(rows) > 1]
        condition = Precondition("a cluster has two distinct rows", bool(clusters), "" if clusters else "none has")
        if not condition.holds:
            return self._certificate(checks=(), preconditions=(condition,))
        ratios = [_costs(rows) for rows in clusters]
        means, best = np.array([r.mean() for r in ratios]), np.array([r.min() for r in ratios])
        return self._certificate(
            preconditions=(condition,),
            checks=(
                Check("mean cost of a medoid over J, from 2", float(np.abs(means - 2).max()), 1e-12),
                Check("cost of the best medoid over J", float(best.max()), 2 + 1e-12),
                Check("cost of the best medoid over J", float(best.min()), 1 - 1e-12, at_least=True),
            ),
            numbers={"clusters": len(clusters), "cost of the best medoid over J": best.round(6).tolist()},
            notes=("The costs are squared distances; PAM adds up their roots, for which 2 is only a bound.",),
        )


def _costs(rows: Floats) -> Floats:
    """Return Σ_x ‖x − m‖² over J for every row m of a cluster."""
    near = rows - rows[0]  # differences of rows keep their digits, however far the cluster is from zero
    J = float(np.square(near - near.mean(axis=0)).sum())
    return np.array([math.fsum(row) for row in squared_distances(near, near)]) / J
