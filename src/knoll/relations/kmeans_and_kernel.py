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
from knoll.relations._common import quiet, start_centers
from knoll.relations._kernel import margin, trace
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation

__all__ = ["KMeansIsLinearKernel"]


_TIED = 1e-9  # of the data's spread: two squared distances closer than this are a tie of rounding


class KMeansIsLinearKernel(Relation):
    """With the linear kernel F is the space of the data itself, and its clusters are convex."""

    name: ClassVar = "kmeans-is-linear-kernel-kmeans"
    source: ClassVar = "k-means"
    target: ClassVar = "weighted kernel k-means"
    statement: ClassVar = (
        "k-means is kernel k-means with the linear kernel and unit weights; its inertia is Tr G − Tr YᵀGY, and its "
        "clusters lie on their own sides of planes, which nested groups never do."
    )
    formula: ClassVar = "κ(x, y) = xᵀy, w_i = 1:  J = Tr G − Tr YᵀGY;  i ∈ Γ_a ⇒ (x_i − ½(μ_a + μ_b))ᵀ(μ_a − μ_b) ≥ 0"
    most_rows: ClassVar = 5_000
    _defaults: ClassVar = {"n_clusters": 3, "random_state": 0, "labels": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        k = int(parameters["n_clusters"])
        x = X - X.mean(axis=0)  # distances do not see it, and products lose fewer digits
        start = _closest(x, start_centers(x, k, int(parameters["random_state"]), self.name))
        means = np.stack([x[start == c].mean(axis=0) for c in range(k)])
        plain = lloyd(x, None, means, max_iter=1000, tol=0.0)
        with quiet():
            kernel = KernelKMeans(k, kernel="linear", init=start, max_iter=1000).fit(x)
        assert plain.labels is not None
        labels = plain.labels.astype(np.int64)
        spread = float(np.square(x).sum())
        ordered = np.sort(_squared(x, plain.centers), axis=1)
        tied = np.flatnonzero(ordered[:, 1] - ordered[:, 0] <= _TIED * spread / len(x)) if k > 1 else np.empty(0, int)
        differ = np.setdiff1d(np.flatnonzero(labels != kernel.labels_), tied)
        G = x @ x.T
        identity = abs(plain.inertia - (np.trace(G) - trace(G, labels, np.ones(len(x))))) / spread if spread else 0.0
        wrong = max(
            (_wrong_side(x, labels, plain.centers, a, b) for a, b in itertools.permutations(range(k), 2)), default=0
        )
        numbers: dict[str, Any] = {
            "n_clusters": k,
            "inertia": plain.inertia,
            "kernel k-means' objective": kernel.objective_,
            "tied rows": len(tied),
            "the first of them": tied[:5].tolist(),
        }
        if parameters["labels"] is not None:
            numbers["k-means could give the labels you gave (disjoint hulls)"] = _separable(X, parameters["labels"])
        return self._certificate(
            preconditions=(Precondition("some row differs from another", spread > 0),),
            checks=(
                Check("rows, ties aside, with another label", float(len(differ)), 0.0),
                Check("inertia from Tr G − Tr YᵀGY, relative", float(identity), 1e-10),
                Check(
                    "rows on the wrong side of a plane, how far, relative",
                    float(wrong / spread if spread else 0),
                    1e-12,
                ),
            ),
            numbers=numbers,
        )


def _squared(x: Floats, centers: Floats) -> Floats:
    square = np.zeros((len(x), len(centers)))
    for column, center in zip(x.T, centers.T):
        square += np.square(column[:, None] - center)
    return square


def _closest(x: Floats, centers: Floats) -> Ints:
    return _squared(x, centers).argmin(axis=1).astype(np.int64)


def _wrong_side(x: Floats, labels: Ints, centers: Floats, a: int, b: int) -> float:
    """How far beyond the plane halfway between two centres a row of `a` lies; 0 where none does."""
    side = (x[labels == a] - (centers[a] + centers[b]) / 2) @ (centers[a] - centers[b])
    return float(max(0.0, -side.min(initial=0.0)))


def _separable(X: Floats, labels: ArrayLike) -> bool:
    """Tell whether the hulls of all pairs of clusters are disjoint."""
    given = np.asarray(labels)
    if given.shape != (len(X),):
        raise BadData(f"labels must have one entry for each of {len(X)} rows, got shape {given.shape}.")
    for a, b in itertools.combinations(np.unique(given).tolist(), 2):
        two = (given == a) | (given == b)
        if margin(X[two], given[two] == a) <= 1e-12:
            return False
    return True
