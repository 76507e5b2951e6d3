"""k-means is weighted kernel k-means with κ(x, y) = xᵀy and unit weights (eq. 4.1, 4.4)."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.exceptions import BadData
from knoll.kernel_kmeans.estimator import KernelKMeans
from knoll.kmeans.lloyd import lloyd
from knoll.relations._common import quiet, squared_distances, start_centers
from knoll.relations._kernel import margin, trace
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation

_TIED = 1e-9  # of the total sum of squares: closer squared distances are tied up to rounding


class KMeansIsLinearKernel(Relation):
    """With the linear kernel the feature space is that of the data, and clusters are convex."""

    name: ClassVar = "kmeans-is-linear-kernel-kmeans"
    source: ClassVar = "k-means"
    target: ClassVar = "weighted kernel k-means"
    statement: ClassVar = (
        "k-means is kernel k-means with the linear kernel and unit weights; its inertia is Tr G − Tr YᵀGY, and its "
        "clusters are separated by planes, so it cannot find nested groups."
    )
    formula: ClassVar = "κ(x, y) = xᵀy, w_i = 1:  J = Tr G − Tr YᵀGY;  i ∈ Γ_a ⇒ (x_i − ½(μ_a + μ_b))ᵀ(μ_a − μ_b) ≥ 0"
    most_rows: ClassVar = 5_000
    _defaults: ClassVar = {"n_clusters": 3, "random_state": 0, "labels": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        k = int(parameters["n_clusters"])
        x = X - X.mean(axis=0)  # distances do not change, and products are more precise
        start = _closest(x, start_centers(x, k, int(parameters["random_state"]), self.name))
        means = np.stack([x[start == c].mean(axis=0) for c in range(k)])
        plain = lloyd(x, None, means, max_iter=1000, tol=0.0)
        with quiet():
            kernel = KernelKMeans(k, kernel="linear", init=start, max_iter=1000).fit(x)
        assert plain.labels is not None
        labels = plain.labels.astype(np.int64)
        total = float(np.square(x).sum())
        ordered = np.sort(squared_distances(x, plain.centers), axis=1)
        tied = np.flatnonzero(ordered[:, 1] - ordered[:, 0] <= _TIED * total / len(x)) if k > 1 else np.empty(0, int)
        differ = np.setdiff1d(np.flatnonzero(labels != kernel.labels_), tied)
        G = x @ x.T
        identity = abs(plain.inertia - (np.trace(G) - trace(G, labels, np.ones(len(x))))) / total if total else 0.0
        wrong = max(
            (_wrong_side(x, labels, plain.centers, a, b) for a, b in itertools.permutations(range(k), 2)), default=0
        )
        numbers: dict[str, Any] = {
            "n_clusters": k,
            "inertia": plain.inertia,
            "kernel k-means' objective": kernel.objective_,
            "tied rows": len(tied),
            "first tied rows": tied[:5].tolist(),
        }
        if parameters["labels"] is not None:
            numbers["k-means can produce these labels (disjoint convex hulls)"] = _separable(X, parameters["labels"])
        return self._certificate(
            preconditions=(Precondition("the rows are not all equal", total > 0),),
            checks=(
                Check("rows with another label, without ties", float(len(differ)), 0.0),
                Check("difference of inertia and Tr G − Tr YᵀGY, relative", float(identity), 1e-10),
                Check(
                    "distance of rows on the wrong side of a plane, relative",
                    float(wrong / total if total else 0),
                    1e-12,
                ),
            ),
            numbers=numbers,
        )


def _closest(x: Floats, centers: Floats) -> Ints:
    return squared_distances(x, centers).argmin(axis=1).astype(np.int64)


def _wrong_side(x: Floats, labels: Ints, centers: Floats, a: int, b: int) -> float:
    """The largest distance of a row of `a` beyond the plane between two centres; 0 if there is none."""
    side = (x[labels == a] - (centers[a] + centers[b]) / 2) @ (centers[a] - centers[b])
    return float(max(0.0, -side.min(initial=0.0)))


def _separable(X: Floats, labels: ArrayLike) -> bool:
    """Whether the convex hulls of all pairs of clusters are disjoint."""
    classes = np.asarray(labels)
    if classes.shape != (len(X),):
        raise BadData(f"labels must have one entry for each of {len(X)} rows, got shape {classes.shape}.")
    for a, b in itertools.combinations(np.unique(classes).tolist(), 2):
        two = (classes == a) | (classes == b)
        if margin(X[two], classes[two] == a) <= 1e-12:
            return False
    return True
