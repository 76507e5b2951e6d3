"""A step of Gaussian Mean Shift is a step of EM for the shift of a mixture with one component a row (eq. 6.4–6.6)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from knoll._typing import Floats
from knoll.density.ascent import KernelDensity
from knoll.mixture.estimator import GaussianMixture
from knoll.relations._common import quiet, shifted_to_zero, squared_distances
from knoll.relations._density import bandwidth
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_PATHS = 24  # from evenly spaced rows
_STEPS = 200
_POSITIONS = 200  # evenly spaced on the paths, at which steps are compared


class MeanShiftIsEM(Relation):
    """The E step weighs the rows by the kernel; the M step shifts the mixture to their weighted mean."""

    name: ClassVar = "mean-shift-is-em"
    source: ClassVar = "Mean Shift"
    target: ClassVar = "EM-GMM"
    statement: ClassVar = (
        "Let a mixture have one Gaussian of covariance ε²I at each row, and let it move as a whole until one given "
        "point is most likely: a step of EM for this shift is a step of Mean Shift with the Gaussian kernel, and no "
        "step lowers the density."
    )
    formula: ClassVar = "y⁺ = Σ_i λ_i x_i,   λ_i = N(y; x_i, ε²I) / Σ_j N(y; x_j, ε²I),   p(y⁺) ≥ p(y)"
    most_rows: ClassVar = 2_000
    _defaults: ClassVar = {"bandwidth": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps = bandwidth(X, parameters["bandwidth"])
        X = shifted_to_zero(X)
        rows = np.unique(np.linspace(0, len(X) - 1, min(_PATHS, len(X))).astype(np.int64))
        density = KernelDensity.of(X, None, eps, True, 1)
        paths = density.paths(np.ascontiguousarray(X[rows]), _STEPS)
        fall = max(0.0, *(float(-np.diff(_log_density(X, path, eps)).min(initial=0.0)) for path in paths))
        before, after = (np.concatenate([path[s] for path in paths]) for s in (slice(None, -1), slice(1, None)))
        compared = np.unique(np.linspace(0, len(before) - 1, min(_POSITIONS, len(before))).astype(np.int64))
        apart = np.abs(_em_step(X, before[compared], eps) - after[compared]).max()
        unit = max(eps, float(np.abs(X).max()))
        return self._certificate(
            checks=(
                # rows with κ < 1e-16 are cut off: each adds at most 8.6e-16 ε
                Check("a step from EM's, in units of ε or of the largest entry", float(apart) / unit,
                      1e-12 + 1e-15 * len(X)),
                Check("fall of the log-density in a step", fall, 1e-12),
            ),
            numbers={"ε": eps, "paths": len(paths), "steps": len(before), "steps compared": len(compared),
                     "rate at the end of the slowest path": max(_rate(path) for path in paths)},
            notes=("With the flat kernel a step need not be EM's; mean-shift-ascent has its law.",),
        )  # fmt: skip


def _em_step(X: Floats, positions: Floats, eps: float) -> Floats:
    """Take the E step of a mixture with a component at every row, and shift to the weighted mean (eq. 6.5, 6.6)."""
    n = len(X)
    with quiet():
        mixture = GaussianMixture(
            n, covariance_type="fixed", fixed_variance=eps * eps, weights_init=np.full(n, 1 / n), means_init=X,
            max_iter=0,
        ).fit(X)  # fmt: skip
    moved: Floats = mixture.predict_proba(positions) @ X
    return moved


def _log_density(X: Floats, positions: Floats, eps: float) -> Floats:
    """Compute log Σ_i exp(−‖y − x_i‖²/2ε²) at each position."""
    logs: Floats = logsumexp(-squared_distances(positions, X) / (2 * eps * eps), axis=1)
    return logs


def _rate(path: Floats) -> float:
    """Return the ratio of the last two steps; 0 for a path of fewer."""
    lengths = np.sqrt(np.square(np.diff(path, axis=0)).sum(axis=1))
    return float(lengths[-1] / lengths[-2]) if len(lengths) > 1 and lengths[-2] > 0 else 0.0
