"""k-means is EM-GMM with Σ_c = εI, equal weights, and ε → 0 (eq. 3.1–3.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats, Ints
from knoll.kmeans.lloyd import lloyd
from knoll.mixture.estimator import GaussianMixture
from knoll.relations._common import quiet, shifted_to_zero, squared_distances, start_centers
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.path import Frame, Path
from knoll.relations.relation import Limit

_SWEEP = 16  # values of ε between the variance of the data and the one at which EM is k-means


@dataclass(frozen=True)
class _Step:
    """One step of k-means."""

    centers: Floats  # (k, d) before
    moved: Floats  # (k, d) after
    labels: Ints  # (n,)
    smallest_gap: float  # of the two smallest squared distances of a row
    masses: Ints  # (k,)


class MixtureToKMeans(Limit):
    """The responsibilities of equal isotropic Gaussians become hard as they shrink, until EM is k-means."""

    name: ClassVar = "mixture-to-kmeans"
    source: ClassVar = "EM-GMM"
    target: ClassVar = "k-means"
    statement: ClassVar = (
        "With Σ_c = εI and equal weights, the responsibilities converge to the assignment of k-means as ε → 0; from a "
        "certain ε on, the iterates of EM are those of k-means."
    )
    formula: ClassVar = "max_i (1 − max_c λ_ic) ≤ (k − 1) e^{−Δ/2ε},  Δ the smallest gap of two squared distances"
    _defaults: ClassVar = {"n_clusters": 3, "random_state": 0, "max_iter": 100}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        k = int(parameters["n_clusters"])
        X = shifted_to_zero(X)  # else means far from zero have no digits left to agree in
        steps = self._kmeans(X, k, parameters)
        gap = min(step.smallest_gap for step in steps)
        emptied = [t for t, step in enumerate(steps) if not step.masses.all()]
        eps = _hard_eps(gap, len(X), k)
        preconditions = (
            Precondition("no row is equally far from its two nearest centres", gap > 0 and eps > 0, _tied(X, steps)),
            Precondition("no cluster becomes empty", not emptied, f"in step {emptied[0] + 1}" if emptied else ""),
        )
        if not all(condition.holds for condition in preconditions):
            return self._certificate(
                checks=(), preconditions=preconditions,
                notes=("A tied row keeps (½, ½) for every ε; k-means relocates an empty cluster, EM does not.",),
            )  # fmt: skip
        worst = 0.0
        for value in np.geomspace(_variance(X), eps, _SWEEP):
            lam = _responsibilities(X, steps[-1].centers, float(value))  # (n, k)
            soft = float((np.sort(lam, axis=1)[:, :-1].sum(axis=1)).max())  # 1 − the largest, without cancellation
            bound = (k - 1) * math.exp(-steps[-1].smallest_gap / (2 * float(value)))
            worst = max(worst, soft / bound if bound > 0 else float(soft > 0))
        scale = math.sqrt(_variance(X))
        apart = 0.0
        for step in steps:
            with quiet():
                em = GaussianMixture(
                    k, covariance_type="fixed", fixed_variance=eps, weights_init=np.full(k, 1 / k),
                    means_init=step.centers, max_iter=1, tol=0.0,
                ).fit(X)  # fmt: skip
            apart = max(apart, float(np.abs(em.means_ - step.moved).max()) / scale)
        return self._certificate(
            preconditions=preconditions,
            checks=(
                Check("softness over its bound, along the sweep of ε", worst, 1 + 1e-6),
                Check("EM's means from k-means', every step, in standard deviations", apart, 1e-12),
            ),
            numbers={"Δ": gap, "ε at which EM is k-means": eps, "steps compared": len(steps), "n_clusters": k},
        )

    def _kmeans(self, X: Floats, k: int, parameters: dict[str, Any]) -> list[_Step]:
        centers = start_centers(X, k, int(parameters["random_state"]), self.name)
        steps: list[_Step] = []
        for _ in range(int(parameters["max_iter"])):
            moved = lloyd(X, None, centers, max_iter=1, tol=0.0, relocates=False).centers
            square = squared_distances(X, centers)
            ordered = np.sort(square, axis=1)
            gap = float((ordered[:, 1] - ordered[:, 0]).min()) if k > 1 else math.inf
            labels = square.argmin(axis=1)
            steps.append(_Step(centers, moved, labels, gap, np.bincount(labels, minlength=k)))
            if np.array_equal(moved, centers):
                break
            centers = moved
        return steps

    def _path(self, X: Floats, steps: int, **parameters: Any) -> Path:
        k = int(parameters["n_clusters"])
        run = self._kmeans(X, k, parameters)
        start, gap = run[0].centers, run[-1].smallest_gap
        low = _hard_eps(gap, len(X), k) if 0 < gap < math.inf else 1e-3 * _variance(X)
        frames = []
        for value in np.geomspace(_variance(X), low, steps):
            with quiet():
                em = GaussianMixture(
                    k, covariance_type="fixed", fixed_variance=float(value), weights_init=np.full(k, 1 / k),
                    means_init=start, max_iter=1000, tol=1e-9,
                ).fit(X)  # fmt: skip
            lam = em.predict_proba(X)
            arrays = {"means": em.means_, "responsibilities": lam}
            frames.append(Frame(float(value), f"ε = {value:.3g}", lam.argmax(axis=1).astype(np.int64), arrays))
        return Path(self.name, "ε", X, tuple(frames))


def _variance(X: Floats) -> float:
    """The variance of a column, averaged over the columns; 1 for equal rows."""
    return float(X.var(axis=0).mean()) or 1.0


def _hard_eps(gap: float, n: int, k: int) -> float:
    """The ε at which all the soft shares of all rows together are below a rounding: n(k−1)e^{−Δ/2ε} = 2⁻⁶⁰."""
    if k == 1 or math.isinf(gap):
        return 1.0
    return gap / (2 * (math.log(n * (k - 1)) + 60 * math.log(2)))


def _responsibilities(X: Floats, centers: Floats, eps: float) -> Floats:
    joint = -squared_distances(X, centers) / (2 * eps)
    joint -= joint.max(axis=1, keepdims=True)
    lam = np.exp(joint)
    return lam / lam.sum(axis=1, keepdims=True)


def _tied(X: Floats, steps: list[_Step]) -> str:
    for t, step in enumerate(steps):
        if step.smallest_gap == 0:
            ordered = np.sort(squared_distances(X, step.centers), axis=1)
            rows = np.flatnonzero(ordered[:, 1] == ordered[:, 0])
            return f"{len(rows)} tied in step {t + 1}, the first is row {rows[0]}"
    return ""
