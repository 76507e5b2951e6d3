"""Counted runs of every algorithm of the complexity table, by the reference and by the fast path.

Each returns the count after every pass, so that one run shows how it grows with T. T is read from the states and never
from the count: passes over the data for EM and k-means, products with the matrix for spectral clustering, and for an
ascent the mean number of neighbourhood queries per row. The last is the T of a bound O(n²dT) without slack: rows whose
path has ended make no more queries.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll import reference
from knoll._common.blocks import Block
from knoll._common.passes import LocalPasses
from knoll._typing import Floats
from knoll.density import core_graph as density
from knoll.density.ascent import KernelDensity
from knoll.gaussian.covariance import Full
from knoll.kernels import Gaussian
from knoll.kmeans.lloyd import lloyd
from knoll.mixture import em as mixture
from knoll.relations._common import start_centers
from knoll.spectral.embed import kernel_spectrum
from knoll.spectral.route import Route

_PASSES = 8  # at most
_FLOOR = 1e-3  # of the mean variance: a mixture of a few rows must not collapse


@dataclass(frozen=True)
class Seen:
    """The count of a run on n rows with k clusters after T passes."""

    n: int
    k: int
    T: float
    count: int  # distances or kernel values


@dataclass(frozen=True)
class Scales:
    """The parameters of the runs other than k."""

    eps: float
    min_samples: int
    bandwidth: float
    sigma: float
    seed: int


Run = Callable[[Floats, int, Scales], list[Seen]]


# ---- the reference -------------------------------------------------------------------------------------------------


def _each(states: Iterator[Any], X: Floats, k: int, step: str, tally: reference.counted) -> list[Seen]:
    """Read the tally after every state of that name: the first is the first pass."""
    chosen = (state for state in states if state.step == step)
    return [Seen(len(X), k, t, tally.distances) for t, _ in enumerate(chosen, 1)]


def _reference_mixture(X: Floats, k: int, scales: Scales) -> list[Seen]:
    weights, means, covariances = _mixture_start(X, k, scales.seed)
    floor = _FLOOR * float(X.var(axis=0).mean())
    with reference.counted() as tally:
        states = reference.em_gmm(X, weights, means, covariances, max_iter=_PASSES, tol=0.0, floor=floor)
        return _each(states, X, k, "E step", tally)


def _reference_kmeans(X: Floats, k: int, scales: Scales) -> list[Seen]:
    centers = start_centers(X, k, scales.seed, "complexity-table")
    with reference.counted() as tally:
        return _each(reference.kmeans(X, centers, max_iter=_PASSES), X, k, "E step", tally)


def _reference_spectral(X: Floats, k: int, scales: Scales) -> list[Seen]:
    """Up to the eigenvectors. The partition step is k-means, which has a row of its own."""
    with reference.counted() as tally:
        states = itertools.islice(reference.njw_spectral(X, k, scales.sigma), 3)
        return _each(states, X, k, "Eigendecomposition step", tally)


def _reference_dbscan(X: Floats, k: int, scales: Scales) -> list[Seen]:
    with reference.counted() as tally:
        reference.run(reference.dbscan_graph(X, scales.eps, scales.min_samples))
    return [Seen(len(X), k, 1, tally.distances)]


def _reference_climbing(X: Floats, k: int, scales: Scales) -> list[Seen]:
    with reference.counted() as tally:
        return _rounds(reference.dbscan_climbing(X, scales.eps, scales.min_samples), X, k, tally)


def _reference_mean_shift(X: Floats, k: int, scales: Scales) -> list[Seen]:
    with reference.counted() as tally:
        return _rounds(reference.mean_shift(X, scales.bandwidth), X, k, tally)


def _rounds(states: Iterator[Any], X: Floats, k: int, tally: reference.counted) -> list[Seen]:
    """Read the tally after every round of an ascent, without its final graph of all pairs."""
    seen, queries = [], len(X)  # the first from the row itself
    for state in states:
        if state.step == "Graph step":
            break
        seen.append(Seen(len(X), k, queries / len(X), tally.distances))
        queries += int(state.climbing.sum())  # of the next round
    return seen


# ---- the fast path -------------------------------------------------------------------------------------------------


def _fast_mixture(X: Floats, k: int, scales: Scales) -> list[Seen]:
    weights, means, covariances = _mixture_start(X, k, scales.seed)
    zero = np.zeros(X.shape[1])
    centering = mixture.Centering(zero, 1.0, zero, np.cov(X.T, bias=True).reshape(len(zero), len(zero)))
    state = mixture.from_parameters(weights, Full.from_covariances(means, covariances), centering)
    seen, rows = [], [0]

    def blocks() -> Iterator[Block]:
        rows[0] += len(X)  # every row is evaluated for every component
        yield Block(X, None)

    passes = LocalPasses(blocks, X.dtype, 1)
    for t in range(1, _PASSES + 1):
        state, _ = mixture.step(passes, state)
        seen.append(Seen(len(X), k, t, k * rows[0]))
    return seen


def _fast_kmeans(X: Floats, k: int, scales: Scales) -> list[Seen]:
    centers = start_centers(X, k, scales.seed, "complexity-table")
    found = lloyd(X, None, centers, max_iter=_PASSES, tol=0.0, relocates=False)
    counts = np.cumsum(found.history["distances"]).tolist()
    return [Seen(len(X), k, t, count) for t, count in enumerate(counts, 1)]


class _Counted:
    """A kernel matrix that is recomputed for every product, with a count of its values."""

    def __init__(self, operator: Any) -> None:
        self._operator, self.n, self.count = operator, operator.n, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def apply(self, B: Floats) -> Floats:
        self.count += self._operator.pairs
        product: Floats = self._operator.apply(B)
        return product


def _fast_spectral(X: Floats, k: int, scales: Scales) -> list[Seen]:
    operator = _Counted(Gaussian(scales.sigma).operator(X))
    seen: list[Seen] = []
    kernel_spectrum(
        Route("tiles", "", operator), X, scales.sigma, np.zeros(len(X), np.int64), np.ones(len(X)),
        k, tol=1e-8, max_applications=_PASSES, seed=scales.seed, threads=1,
        hook=lambda t, *_: seen.append(Seen(len(X), k, t, operator.count)),
    )  # fmt: skip
    return seen


def _fast_dbscan(X: Floats, k: int, scales: Scales) -> list[Seen]:
    found = density.graph(
        X, scales.eps, scales.min_samples, None, metric="euclidean", p=2.0, border="closest", threads=1
    )
    return [Seen(len(X), k, 1, int(found.work["distances"]))]


def _fast_climbing(X: Floats, k: int, scales: Scales) -> list[Seen]:
    return _climbed(X, k, scales.eps, float(scales.min_samples))


def _fast_mean_shift(X: Floats, k: int, scales: Scales) -> list[Seen]:
    return _climbed(X, k, scales.bandwidth, None)


def _climbed(X: Floats, k: int, eps: float, level: float | None) -> list[Seen]:
    ends = KernelDensity(X, None, eps).ascend(X, 2**31 - 1, level=level)
    return [Seen(len(X), k, 1 + float(ends.steps.mean()), ends.distances)]


def _mixture_start(X: Floats, k: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return equal weights, means at rows of the data, and the variances of the data."""
    variances = X.var(axis=0)
    one = np.diag(variances + _FLOOR * variances.mean())
    return np.full(k, 1 / k), start_centers(X, k, seed, "complexity-table"), np.repeat(one[None], k, axis=0)


REFERENCE: dict[str, Run] = {
    "EM-GMM": _reference_mixture,
    "k-means": _reference_kmeans,
    "spectral clustering": _reference_spectral,
    "DBSCAN": _reference_dbscan,
    "climbing DBSCAN": _reference_climbing,
    "Mean Shift": _reference_mean_shift,
}

FAST: dict[str, Run] = {
    "EM-GMM": _fast_mixture,
    "k-means": _fast_kmeans,
    "spectral clustering": _fast_spectral,
    "DBSCAN": _fast_dbscan,
    "climbing DBSCAN": _fast_climbing,
    "Mean Shift": _fast_mean_shift,
}
