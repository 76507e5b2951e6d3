"""Box 2, EM-GMM: maximise log p(X | π, μ, Σ) = Σ_i log Σ_c π_c N(x_i | μ_c, Σ_c)   (eq. 2.6)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.exceptions import BadData
from knoll.reference import _check as check
from knoll.reference._common import frozen
from knoll.reference._count import spent

# Below this a responsibility's share of what float64 cannot hold (2⁻¹⁰²² and less) would reach its 53rd bit.
DEAD = 2.0**-969


class EMState(NamedTuple):
    """The mixture after an E or an M step."""

    step: str  # "E step" or "M step"
    iteration: int  # M steps done
    pi: Floats  # (k,)
    mu: Floats  # (k, d)
    Sigma: Floats  # (k, d, d)
    lam: Floats  # (n, k) responsibilities λ; after an M step those it was made from
    log_likelihood: float  # eq. 2.6 at this state's π, μ, Σ
    converged: bool

    @property
    def labels(self) -> Ints:
        """The hard assignment: the component of largest λ, ties to the lowest index."""
        return self.lam.argmax(axis=1).astype(np.int64)


def em_gmm(
    X: ArrayLike,
    pi: ArrayLike,
    mu: ArrayLike,
    Sigma: ArrayLike,
    *,
    max_iter: int = 1000,
    tol: float = 1e-10,
    floor: float = 0.0,
) -> Iterator[EMState]:
    """Box 2, "EM-GMM" (eq. 2.5 to 2.9).

    Parameters
    ----------
    X : (n, d) array
        The points.
    pi, mu, Sigma : (k,), (k, d) and (k, d, d) arrays
        The start.
    max_iter : int
        At most so many M steps.
    tol : float
        Stop when a whole iteration raised the log-likelihood by at most ``tol`` per point.
    floor : float
        The M step is taken under Σ_c ⪰ floor·I: eigenvalues below it are lifted to it. 0: the box as printed.

    Yields
    ------
    EMState
        After every E step and every M step. The last is an E step, so that its λ belongs to its π, μ, Σ.

    Raises
    ------
    BadData
        A component's covariance became singular. The likelihood has no maximum there
        (docs/theory/errata.md item 18); a positive ``floor`` gives it one. "Singular" means to working precision:
        a pivot of the Cholesky factor below 1e-12 of its variance, or a variance that the rounding of X alone
        would make; a ``floor`` has to lie above both.

    Notes
    -----
    Σ_new is taken about μ_new (docs/theory/errata.md item 15). A component is dead when its
    largest responsibility is below 2⁻⁹⁶⁹: near the end of float64 they lose their digits, and a mean made of them
    would be made of rounding. Then π_c = 0, and its μ_c and Σ_c stay (item 16). The stopping rule is ours; the box
    leaves it open.

    Examples
    --------
    >>> from knoll.reference import em_gmm, run
    >>> X = [[-1.0], [0.0], [1.0], [9.0], [10.0], [11.0]]
    >>> state = run(em_gmm(X, pi=[0.5, 0.5], mu=[[1.0], [8.0]], Sigma=[[[1.0]], [[1.0]]]))
    >>> state.mu.round(6).tolist(), state.labels.tolist()
    ([[0.0], [10.0]], [0, 0, 0, 1, 1, 1])
    """
    points = check.wide_points(X)
    start = check.means(mu, points)
    weights, covariances = check.mixture(pi, Sigma, start, points)
    max_iter = check.count(max_iter, "max_iter", "It bounds the number of M steps.")
    tol = check.not_negative(tol, "tol", "0 runs until the likelihood no longer rises.")
    floor = check.not_negative(floor, "floor", "0 is the box as printed.")
    return frozen(_em_gmm(points, weights, start, covariances, max_iter, tol, floor))


def _em_gmm(
    X: Floats, pi: Floats, mu: Floats, Sigma: Floats, max_iter: int, tol: float, floor: float
) -> Iterator[EMState]:
    n, before = len(X), -math.inf
    log_joint = _log_joint(X, pi, mu, Sigma)
    for t in itertools.count():
        log_p = np.logaddexp.reduce(log_joint, axis=1)  # (n,) eq. 2.1
        lam = np.exp(log_joint - log_p[:, None])  # (n, k) eq. 2.5
        log_likelihood = math.fsum(log_p)  # eq. 2.6
        converged = log_likelihood - before <= tol * n
        yield EMState("E step", t, pi, mu, Sigma, lam, log_likelihood, converged)
        if converged or t == max_iter:
            return
        before = log_likelihood

        n_c = np.where(lam.max(axis=0) < DEAD, 0, lam.sum(axis=0))  # (k,)
        pi, mu, Sigma = n_c / n, mu.copy(), Sigma.copy()  # eq. 2.9
        for c in np.flatnonzero(n_c > 0):
            mu[c] = lam[:, c] @ X / n_c[c]  # eq. 2.7
            away = X - mu[c]  # from the *new* mean
            Sigma[c] = _lifted((lam[:, c] * away.T) @ away / n_c[c], floor)  # eq. 2.8
        log_joint = _log_joint(X, pi, mu, Sigma, t + 1, floor)
        log_likelihood = math.fsum(np.logaddexp.reduce(log_joint, axis=1))
        yield EMState("M step", t + 1, pi, mu, Sigma, lam, log_likelihood, False)


def _log_joint(X: Floats, pi: Floats, mu: Floats, Sigma: Floats, iteration: int = 0, floor: float = 0.0) -> Floats:
    """log π_c + log N(x_i | μ_c, Σ_c): (n, k), by eq. 1.1 in logs."""
    n, d = X.shape
    log_joint = np.full((n, len(pi)), -np.inf)
    for c in np.flatnonzero(pi > 0):
        L = check.cholesky(Sigma[c], X)
        if L is None:
            needed = max(check.PIVOT * np.diagonal(Sigma[c]).max(), check.rounding(X).max())
            raise BadData(
                f"em_gmm: the covariance of component {c} became singular in iteration {iteration} (it has "
                "collapsed onto too few points). Start elsewhere, take fewer components, or give "
                + (
                    "floor > 0."
                    if floor == 0
                    else f"floor > {needed:.3g}, got floor={floor!r}: float64 needs more than 1e-12 of the variance."
                )
            )
        spent(n)  # Mahalanobis distances
        z = np.linalg.solve(L, (X - mu[c]).T)  # (d, n)
        log_det = 2 * np.log(np.diagonal(L)).sum()
        log_joint[:, c] = np.log(pi[c]) - 0.5 * (d * math.log(2 * math.pi) + log_det + np.square(z).sum(axis=0))
    return log_joint


def _lifted(S: Floats, floor: float) -> Floats:
    """S with eigenvalues below ``floor`` lifted to it: the exact M step under Σ ⪰ floor·I."""
    if floor == 0:
        return S
    values, vectors = np.linalg.eigh(S)
    lifted: Floats = (vectors * np.maximum(values, floor)) @ vectors.T if values[0] < floor else S
    return lifted
