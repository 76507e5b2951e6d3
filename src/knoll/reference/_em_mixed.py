"""EM for a mixture of products of a Gaussian and categorical blocks with missing values   (eq. 2.15 to 2.20)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Bools, Floats, Ints
from knoll.exceptions import BadData
from knoll.reference import _check as check
from knoll.reference._common import frozen


class MixedEMState(NamedTuple):
    """The mixture after an E step."""

    iteration: int  # M steps done
    pi: Floats  # (k,)
    mu: Floats  # (k, p)
    Sigma: Floats  # (k, p, p)
    theta: tuple[Floats, ...]  # for each categorical column (k, levels)
    lam: Floats  # (n, k) responsibilities λ
    log_likelihood: float  # eq. 2.16, summed over the rows
    objective: float  # eq. 2.20: with the logarithm of the prior
    converged: bool


def em_mixed(
    X: ArrayLike,
    codes: ArrayLike,
    pi: ArrayLike,
    mu: ArrayLike,
    Sigma: ArrayLike,
    theta: Sequence[ArrayLike],
    *,
    prior: float = 1.0,
    max_iter: int = 1000,
    tol: float = 1e-10,
) -> Iterator[MixedEMState]:
    """EM for numbers and categories, of which some are missing (eq. 2.15 to 2.20).

    Parameters
    ----------
    X : (n, p) array
        The numbers, NaN where one is missing.
    codes : (n, q) array of whole numbers
        The levels of the categories, −1 where one is missing.
    pi, mu, Sigma : (k,), (k, p) and (k, p, p) arrays
        The start.
    theta : sequence of q arrays (k, levels)
        The probabilities of the levels at the start.
    prior : float
        So many rows are added to the counts of the levels: 1/k to each component, distributed as the column is.
    max_iter : int
        At most so many M steps.
    tol : float
        Stop when an iteration raised the objective by at most ``tol`` per row.

    Yields
    ------
    MixedEMState
        After every E step.

    Examples
    --------
    >>> from knoll.reference import em_mixed, run
    >>> X, codes = [[-1.0], [1.0], [float("nan")], [9.0], [11.0]], [[0], [0], [0], [1], [-1]]
    >>> start = [0.5, 0.5], [[1.0], [8.0]], [[[1.0]], [[1.0]]], [[[0.5, 0.5], [0.5, 0.5]]]
    >>> run(em_mixed(X, codes, *start, prior=0.01)).lam.argmax(axis=1).tolist()
    [0, 0, 0, 1, 1]
    """
    points, levels = check.mixed_rows(X, codes)
    if np.isinf(points).any():
        raise BadData("X has an infinite value. Drop such rows, or set it to NaN: then it counts as missing.")
    probabilities = [np.array(one, dtype=np.float64) for one in theta]
    if len(probabilities) != levels.shape[1]:
        raise BadData(
            f"theta has {len(probabilities)} arrays and codes has {levels.shape[1]} columns. Give one for each."
        )
    prior = check.not_negative(prior, "prior", "0 is maximum likelihood.")
    weights, means, covariances = (np.array(a, dtype=np.float64) for a in (pi, mu, Sigma))
    return frozen(_em_mixed(points, levels, weights, means, covariances, probabilities, prior, max_iter, tol))


def _em_mixed(
    X: Floats, codes: Ints, pi: Floats, mu: Floats, Sigma: Floats, theta: list[Floats], prior: float, max_iter: int,
    tol: float,
) -> Iterator[MixedEMState]:  # fmt: skip
    n, k, before = len(X), len(pi), -math.inf
    pseudo = [prior / k * _shares(column, one.shape[1]) for column, one in zip(codes.T, theta, strict=True)]
    for t in itertools.count():
        log_joint = np.array(
            [[_log_joint(x, z, c, pi, mu, Sigma, theta) for c in range(k)] for x, z in _rows(X, codes)]
        )
        log_p = np.logaddexp.reduce(log_joint, axis=1)
        lam = np.exp(log_joint - log_p[:, None])  # eq. 2.5
        log_likelihood = math.fsum(log_p)
        penalty = sum(float((a * np.log(one)).sum()) for a, one in zip(pseudo, theta, strict=True))
        objective = log_likelihood + penalty  # eq. 2.20
        converged = objective - before <= tol * n
        yield MixedEMState(t, pi, mu, Sigma, tuple(theta), lam, log_likelihood, objective, converged)
        if converged or t == max_iter:
            return
        before, n_c = objective, lam.sum(axis=0)
        old_mu, old_Sigma, pi, mu, Sigma = mu, Sigma, n_c / n, mu.copy(), Sigma.copy()
        for c in np.flatnonzero(n_c > 0):
            filled = [_expected(x, old_mu[c], old_Sigma[c]) for x in X]  # eq. 2.17
            means, extra = np.array([one for one, _ in filled]), np.array([one for _, one in filled])
            mu[c] = lam[:, c] @ means / n_c[c]  # eq. 2.18
            away = means - mu[c]
            Sigma[c] = ((lam[:, c] * away.T) @ away + np.tensordot(lam[:, c], extra, 1)) / n_c[c]
        counts = [np.array([lam[column == v].sum(axis=0) for v in range(one.shape[1])]).T
                  for column, one in zip(codes.T, theta, strict=True)]  # fmt: skip
        sums = [count + a for count, a in zip(counts, pseudo, strict=True)]
        theta = [total / total.sum(axis=1, keepdims=True) for total in sums]  # eq. 2.19


def _rows(X: Floats, codes: Ints) -> Iterator[tuple[Any, Any]]:
    return zip(X, codes, strict=True)


def _shares(column: Ints, levels: int) -> Floats:
    counts = np.bincount(column[column >= 0], minlength=levels)
    return counts / max(counts.sum(), 1)


def _log_joint(x: Floats, z: Ints, c: int, pi: Floats, mu: Floats, Sigma: Floats, theta: list[Floats]) -> float:
    """log π_c p(x_observed, z_observed | c), by eq. 2.16: what is missing is left out of mean and covariance."""
    seen: Bools = ~np.isnan(x)
    away, S = (x - mu[c])[seen], Sigma[c][np.ix_(seen, seen)]
    distance = float(away @ np.linalg.solve(S, away)) if seen.any() else 0.0
    log_det = float(np.linalg.slogdet(2 * math.pi * S)[1]) if seen.any() else 0.0
    levels = sum(math.log(one[c, v]) for one, v in zip(theta, z.tolist(), strict=True) if v >= 0)
    return math.log(pi[c]) - 0.5 * (distance + log_det) + levels if pi[c] > 0 else -math.inf


def _expected(x: Floats, mu: Floats, Sigma: Floats) -> tuple[Floats, Floats]:
    """E[x | observed] and Cov[x | observed], which is 0 outside of the missing columns (eq. 2.17)."""
    gone: Bools = np.isnan(x)
    mean, covariance = np.where(gone, mu, x), np.zeros_like(Sigma)
    if not gone.any():
        return mean, covariance
    S_oo, S_mo = Sigma[np.ix_(~gone, ~gone)], Sigma[np.ix_(gone, ~gone)]
    regression = np.linalg.solve(S_oo, S_mo.T).T if (~gone).any() else S_mo
    mean[gone] += regression @ (x - mu)[~gone]
    covariance[np.ix_(gone, gone)] = Sigma[np.ix_(gone, gone)] - regression @ S_mo.T
    return mean, covariance
