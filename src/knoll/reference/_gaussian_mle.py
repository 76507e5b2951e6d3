"""Box 1, maximum likelihood for one Gaussian distribution: maximise log p(X | μ, Σ)   (eq. 1.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats
from knoll.reference import _check as check
from knoll.reference._common import frozen, mean


class GaussianState(NamedTuple):
    """The estimate of box 1."""

    step: str
    mu: Floats  # (d,)
    Sigma: Floats  # (d, d)
    log_likelihood: float  # eq. 1.3; +inf where Σ is singular


def gaussian_mle(X: ArrayLike) -> Iterator[GaussianState]:
    """Box 1, "Maximum Likelihood for one Gaussian Distribution" (eq. 1.4, 1.5).

    Parameters
    ----------
    X : (n, d) array
        The points.

    Yields
    ------
    GaussianState
        Once: the box has one step.

    Notes
    -----
    Where Σ_MLE is singular (fewer than d + 1 points in general position) the likelihood has no maximum: it
    grows without bound as Σ flattens, and ``log_likelihood`` is +inf (docs/theory/errata.md item 18).
    "Singular" means to working precision: a pivot of Σ's Cholesky factor below 1e-12 of its variance, or a
    variance that the rounding of X alone would make.

    Examples
    --------
    >>> from knoll.reference import gaussian_mle, run
    >>> state = run(gaussian_mle([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]))
    >>> state.mu, state.Sigma.tolist()
    (array([1., 1.]), [[1.0, 0.0], [0.0, 1.0]])
    """
    return frozen(_gaussian_mle(check.wide_points(X)))


def _gaussian_mle(X: Floats) -> Iterator[GaussianState]:
    n, d = X.shape
    mu = mean(X)  # eq. 1.4
    Sigma = (X - mu).T @ (X - mu) / n  # eq. 1.5
    L = check.cholesky(Sigma, X)
    if L is None:
        log_likelihood = math.inf
    else:
        z = np.linalg.solve(L, (X - mu).T)  # (x−μ)ᵀΣ⁻¹(x−μ) = ‖z‖²
        log_det = 2 * np.log(np.diagonal(L)).sum()
        log_likelihood = float(-0.5 * (n * d * math.log(2 * math.pi) + n * log_det + np.square(z).sum()))
    yield GaussianState("Estimate the parameters", mu, Sigma, log_likelihood)
