"""One Gaussian is a mixture of one: EM's first M step already is the maximum likelihood estimate (eq. 2.7–2.9, 1.5)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.base import collect_warnings
from knoll.exceptions import CollapsedComponentWarning
from knoll.gaussian.estimator import Gaussian
from knoll.mixture.estimator import GaussianMixture
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.relation import Relation


class GaussianIsMixtureOfOne(Relation):
    """With k = 1 every responsibility is one, so EM-GMM's M step is the Gaussian's estimate."""

    name: ClassVar = "gaussian-is-mixture-of-one"
    source: ClassVar = "Gaussian MLE"
    target: ClassVar = "EM-GMM"
    statement: ClassVar = "A Gaussian mixture with one component is the maximum likelihood Gaussian."
    formula: ClassVar = "k = 1 ⇒ λ_i1 = 1, μ_1 = x̄, Σ_1 = (1/n) Σ_i (x_i − x̄)(x_i − x̄)ᵀ"

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        with collect_warnings() as collected:
            one = Gaussian().fit(X)
            mixture = GaussianMixture(1, reg_covar=0.0).fit(X)
        std = np.sqrt(np.diagonal(one.covariance_))  # (d,)
        mean = np.abs(one.mean_ - mixture.means_[0])
        covariance = np.abs(one.covariance_ - mixture.covariances_[0])
        log_density = one.score_samples(X)
        density = np.abs(log_density - mixture.score_samples(X))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean, covariance = mean / std, covariance / np.outer(std, std)
        healthy = not any(isinstance(warning, CollapsedComponentWarning) for warning in collected)
        # Σ⁻¹ multiplies what rounding leaves in Σ by the condition of the correlations, and M² carries it
        farthest = 2 * float(one.score_samples(one.mean_[None])[0] - log_density.min())  # the largest M²
        with np.errstate(divide="ignore", invalid="ignore"):
            condition = float(np.linalg.cond(one.covariance_ / np.outer(std, std))) if healthy else 1.0
        rounding = 2.0**-52 * condition * (1 + farthest)
        return self._certificate(
            preconditions=(
                Precondition("the covariance has full rank", healthy, "" if healthy else "it was regularized"),
            ),
            checks=(
                Check("μ, in standard deviations", float(np.nanmax(mean, initial=0)), 1e-10),
                Check("Σ, in standard deviations", float(np.nanmax(covariance, initial=0)), 1e-10),
                Check("log density of a row", float(density.max()), max(1e-8, rounding)),
            ),
            numbers={"EM iterations": int(mixture.n_iter_)},
        )
