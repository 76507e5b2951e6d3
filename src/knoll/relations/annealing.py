"""EM with Σ = εI minimises J − 2ε·entropy: k-means at a temperature, with one first split (eq. 3.13–3.15)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax, xlogy

from knoll._common.linalg import eigh
from knoll._typing import Floats
from knoll.mixture.estimator import GaussianMixture
from knoll.relations._common import quiet, shifted_to_zero, squared_distances, start_centers
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.path import Frame, Path
from knoll.relations.relation import Limit

_AROUND = (0.5, 0.8, 0.95, 1.05, 1.25, 2.0)  # temperatures, in units of the largest eigenvalue
_TINY = 1e-4  # of the standard deviation: how far the means are apart where they begin to split
_STEPS = 4  # of EM, at every other temperature
_ROUNDS = 300  # at each temperature of the path
_JITTER = 1e-3  # without it, means that coincide would do so for ever


class Annealing(Limit):
    """The entropy keeps responsibilities soft; below the largest eigenvalue of the covariance means separate."""

    name: ClassVar = "annealing"
    source: ClassVar = "EM-GMM"
    target: ClassVar = "k-means"
    statement: ClassVar = (
        "With Σ_c = εI and equal weights EM minimises J − 2ε·H, H the entropy of the responsibilities: k-means at "
        "temperature ε. Coinciding means are stable if, and only if, ε is at least the largest eigenvalue of the "
        "covariance."
    )
    formula: ClassVar = "−2ε log L + const = min_r J(r, μ) − 2εH(r);   difference of means × λ_max/ε in a step of EM"
    most_rows: ClassVar = 20_000
    _defaults: ClassVar = {"n_clusters": 3, "random_state": 0}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        k = int(parameters["n_clusters"])
        X = shifted_to_zero(X)
        X = X - X.mean(axis=0)
        largest, axis = _largest(X)
        condition = Precondition("the rows are not all equal", largest > 0)
        if not condition.holds:
            return self._certificate(checks=(), preconditions=(condition,))
        start = start_centers(X, k, int(parameters["random_state"]), self.name)
        apart, climbs, below = 0.0, 0.0, 0.0
        for share in _AROUND[::2]:
            energies = self._energies(X, start, share * largest)
            apart = max(apart, max(abs(a - b) for a, b, _ in energies))
            climbs = max(climbs, float(np.diff([a for a, _, _ in energies]).max(initial=0.0)))
            below = max(below, max(least for _, _, least in energies))
        factors = [_factor(X, axis, math.sqrt(largest) * _TINY, share * largest) * share for share in _AROUND]
        return self._certificate(
            preconditions=(condition,),
            checks=(
                Check("J − 2εH from −2ε log L, relative", apart, 1e-12),
                Check("rise of J − 2εH in a step of EM, relative", climbs, 1e-12),
                Check("other responsibilities below EM's by, relative", below, 1e-12),
                Check("growth of a difference of means in a step, from λ_max/ε, relative",
                      float(np.abs(np.array(factors) - 1).max()), 1e-3),
            ),
            numbers={"λ_max, the temperature of the first split": largest, "values of ε": len(_AROUND),
                     "n_clusters": k},
        )  # fmt: skip

    def _energies(self, X: Floats, means: Floats, eps: float) -> list[tuple[float, float, float]]:
        """Return, relative to the sum of squares: J − 2εH, −2ε log L, and how far other responsibilities are below."""
        unit = float(np.square(X).sum())
        found = []
        for _ in range(_STEPS):
            model, square = _mixture(X, means, eps, 0), squared_distances(X, means)
            energy = _free_energy(square, model.predict_proba(X), eps)
            others = min(_free_energy(square, _shares(square, factor * eps), eps) for factor in (0.9, 1.1))
            const = len(X) * eps * (2 * math.log(len(means)) + X.shape[1] * math.log(2 * math.pi * eps))
            likelihood = -2 * eps * len(X) * float(model.score(X)) - const
            found.append((energy / unit, likelihood / unit, (energy - others) / unit))
            means = _mixture(X, means, eps, 1).means_
        return found

    def _path(self, X: Floats, steps: int, **parameters: Any) -> Path:
        k = int(parameters["n_clusters"])
        center = X.mean(axis=0)
        largest = _largest(X - center)[0] or 1.0
        away = start_centers(X, k, int(parameters["random_state"]), self.name) - center
        means, frames = np.tile(center, (k, 1)), []
        for eps in np.geomspace(2 * largest, 1e-2 * largest, steps).tolist():
            means = _settled(X, means + _JITTER * away, eps)
            lam = _shares(squared_distances(X, means), eps)
            arrays = {"means": means, "responsibilities": lam}
            frames.append(Frame(eps, f"ε = {eps:.3g}", lam.argmax(axis=1).astype(np.int64), arrays))
        return Path(self.name, "ε", X, tuple(frames))


def _largest(centred: Floats) -> tuple[float, Floats]:
    """Return the largest eigenvalue of the covariance and its axis."""
    values, vectors = eigh(centred.T @ centred / len(centred))
    return float(values[-1]), vectors[:, -1]


def _mixture(X: Floats, means: Floats, eps: float, steps: int) -> GaussianMixture:
    """Return the mixture with Σ_c = εI and equal weights at these means, or after a step of EM from them."""
    k = len(means)
    with quiet():
        return GaussianMixture(
            k, covariance_type="fixed", fixed_variance=eps, weights_init=np.full(k, 1 / k), means_init=means,
            max_iter=steps, tol=0.0,
        ).fit(X)  # fmt: skip


def _shares(square: Floats, eps: float) -> Floats:
    """Return the responsibilities, proportional to exp(−square/2ε) (eq. 3.2)."""
    lam: Floats = softmax(-square / (2 * eps), axis=1)
    return lam


def _free_energy(square: Floats, r: Floats, eps: float) -> float:
    """Return J(r) − 2εH(r)."""
    return float((r * square).sum() + 2 * eps * xlogy(r, r).sum())


def _factor(X: Floats, axis: Floats, tiny: float, eps: float) -> float:
    """Return how a step of EM changes the difference of two means that almost coincide along an axis."""
    moved = _mixture(X, np.stack([-tiny * axis, tiny * axis]), eps, 1).means_
    return float((moved[1] - moved[0]) @ axis / (2 * tiny))


def _settled(X: Floats, means: Floats, eps: float) -> Floats:
    """Repeat the two steps with equal weights until the means stay."""
    for _ in range(_ROUNDS):
        lam = _shares(squared_distances(X, means), eps)
        moved = (lam.T @ X) / lam.sum(axis=0)[:, None]
        if np.abs(moved - means).max() <= 1e-6 * math.sqrt(eps):
            return moved
        means = moved
    return means
