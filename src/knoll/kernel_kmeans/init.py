"""The start of each run of kernel k-means, as labels: drawn, relaxed, or of the caller, as labels or rows.

Draws depend on contents and weights only, as in `knoll._common.seeding`: equal rows count together, in an order of
their contents.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common import seeding
from knoll._common.rescale import near_one
from knoll._common.seeding import Multiset
from knoll._typing import Floats, Ints, Labels
from knoll.base import warn_caller
from knoll.exceptions import InvalidParameter, InvalidType
from knoll.kernel_kmeans.means import Problem, exact_sums
from knoll.kmeans.lloyd import lloyd
from knoll.validation import refuse_masked

_STARTS = ("k-means++", "random", "spectral")
_INIT = "KernelKMeans: init must be 'k-means++', 'random', 'spectral', labels or row indices"
_RESTARTS = 10  # runs of n_init="auto" where the start is not chosen with care
_BLOCK = 2**21  # entries of K at a time
_DRAWS = 25  # tries to exchange a chosen row, at least, where there are rows enough
_TOL = 1e-6  # of the largest possible eigenvalue: a start need not be better


def check_init(init: Any) -> None:
    """Refuse what is neither a name nor an array."""
    if isinstance(init, str):
        if init not in _STARTS:
            raise InvalidParameter(f"{_INIT}, got {init!r}.")
    elif not (hasattr(init, "__len__") or hasattr(init, "shape")):
        raise InvalidType(f"{_INIT}, got {init!r}.")


def runs_of(init: Any, n_init: Any) -> int:
    """Return the number of runs: one for labels or rows of the caller."""
    if n_init == "auto":
        return _RESTARTS if isinstance(init, str) and init == "random" else 1
    return int(n_init) if isinstance(init, str) else 1


class Starts:
    """The start of each run, as labels of the rows that count."""

    def __init__(
        self, init: Any, n_init: Any, k: int, problem: Problem, kept: Any, present: Ints | None, n: int, seed: int
    ) -> None:
        """Keep the parameters; `kept` are the points that count, None where K is precomputed."""
        self._init, self._k, self._problem, self._seed = init, k, problem, seed
        self._present, self._n = present, n
        self.runs = runs_of(init, n_init)
        if isinstance(init, str):
            self._distinct = (
                distinct_rows(problem) if kept is None else seeding.multiset(kept, problem.weights, problem.threads)
            )
        elif n_init not in ("auto", 1):
            warn_caller(
                f"KernelKMeans: init is an explicit start, so one run is made instead of n_init={n_init}.",
                RuntimeWarning,
            )

    def __call__(self, restart: int) -> Labels:
        """Return the labels that run number `restart` begins with."""
        init = self._init
        if not isinstance(init, str):
            refuse_masked(init, "init")
            return self._explicit(np.asarray(init))
        if init == "random":
            rows = seeding.random_rows(self._distinct, self._k, self._seed, restart=restart)
        else:
            rows = kmeans_plus_plus(self._problem, self._distinct, self._k, self._seed, restart)
        return relaxed(self._problem, rows) if init == "spectral" else closest_rows(self._problem, rows)

    def _explicit(self, init: NDArray[Any]) -> Labels:
        """Validate labels or row indices of the caller, and return labels."""
        k, n = self._k, self._n
        if init.ndim != 1 or init.dtype.kind not in "iu" or len(init) not in (n, k):
            raise InvalidParameter(
                f"KernelKMeans: init must be labels of {n} rows or {k} row indices, all whole numbers, got an array of "
                f"shape {init.shape} and type {init.dtype}."
            )
        is_labels, below = len(init) == n, k if len(init) == n else n
        what = "labels" if is_labels else "row indices"
        bad = np.flatnonzero((init < 0) | (init >= below))
        if len(bad):
            raise InvalidParameter(
                f"KernelKMeans: init must be {what} from 0 to {below - 1}, got {init[bad[0]]} at position {bad[0]}."
            )
        if is_labels:
            return np.asarray(init if self._present is None else init[self._present], dtype=np.int32)
        rows = init.astype(np.int64)
        if self._present is not None:
            absent = np.setdiff1d(rows, self._present)
            if len(absent):
                raise InvalidParameter(
                    f"KernelKMeans: init names row {absent[0]}, whose sample_weight is 0. Begin with rows that count."
                )
            rows = np.searchsorted(self._present, rows)
        return closest_rows(self._problem, rows)


# ---- rows to begin with, and the labels they give --------------------------------------------------------------------


def kmeans_plus_plus(problem: Problem, distinct: Multiset, k: int, seed: int, restart: int) -> Ints:
    """Choose k rows by greedy k-means++ in feature space: D²(i, j) = K_ii − 2 K_ij + K_jj.

    The first row is drawn by weight, each further one is the best of 2 + log k candidates drawn with probability
    ∝ w D². Where fewer than k rows are distinct, the others are drawn by weight. Then rows drawn ∝ w D² replace chosen
    ones, as long as that lowers Σ w D² (Lattanzi and Sohler, 2019): in feature space most rows are equally far from
    each other, and the first choice is hardly better than chance.
    """
    rows, (weights, _) = distinct.rows, near_one(distinct.weights)
    diagonal = problem.diagonal[rows]
    trials = 2 + int(math.log(k))
    chosen = [int(_drawn(weights, 1, seed, restart, 0)[0])]
    nearest = _squares(problem, rows, diagonal, np.array(chosen))[0]  # (m,) D² to the closest row so far
    while len(chosen) < k:
        chances, _ = near_one(weights * near_one(nearest)[0])
        possible = np.flatnonzero(chances)
        if not len(possible):
            break
        drawn = possible[_drawn(chances[possible], min(trials, len(possible)), seed, restart, len(chosen))]
        closer = np.minimum(_squares(problem, rows, diagonal, drawn), nearest)  # (t, m)
        best = int(np.argmin(np.sum(closer * weights, axis=1)))
        chosen.append(int(drawn[best]))
        nearest = closer[best]
    if len(chosen) == k:
        return rows[_exchanged(problem, rows, diagonal, weights, np.array(chosen), seed, restart)]
    while len(chosen) < k:
        left = np.setdiff1d(np.arange(len(rows)), chosen)
        pool = left if len(left) else np.arange(len(rows))
        chosen.append(int(pool[_drawn(weights[pool], 1, seed, restart, len(chosen))[0]]))
    return rows[np.array(chosen)]


def _exchanged(
    problem: Problem, rows: Ints, diagonal: Floats, weights: Floats, chosen: Ints, seed: int, restart: int
) -> Ints:
    """Exchange chosen rows for drawn ones that lower Σ w D²; a fixed number of draws."""
    k, m = len(chosen), len(rows)
    squares = _squares(problem, rows, diagonal, chosen)  # (k, m)
    first, second = np.zeros(m, dtype=np.intp), np.zeros(m, dtype=np.intp)  # the closest chosen row, and the next
    d1, d2 = np.empty(m), np.full(m, np.inf)
    stale = np.arange(m)
    for draw in range(min(max(_DRAWS, 3 * k), m // 4)):  # with few rows, more draws would make all starts equal
        first[stale], second[stale], d1[stale], d2[stale] = _two_least(squares[:, stale])
        chances, _ = near_one(weights * near_one(d1)[0])
        possible = np.flatnonzero(chances)
        if not len(possible):
            break
        drawn = possible[_drawn(chances[possible], 1, seed, restart, k + draw)]
        new = _squares(problem, rows, diagonal, drawn)[0]
        near = np.minimum(d1, new)
        loss = np.bincount(first, weights * (np.minimum(d2, new) - near), k)  # (k,) of giving up a chosen row
        worst = int(np.argmin(loss))
        stale = np.empty(0, dtype=np.intp)
        if np.sum(weights * near) + loss[worst] < np.sum(weights * d1):
            chosen[worst], squares[worst] = drawn[0], new
            stale = np.flatnonzero((first == worst) | (second == worst) | (new < d2))
    return chosen


def _two_least(squares: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """Return the rows and values of the two least entries of each column; inf where there is no second."""
    at = np.arange(squares.shape[1])
    first = squares.argmin(axis=0)
    least = squares[first, at]
    others = squares.copy()
    others[first, at] = np.inf
    second = others.argmin(axis=0)
    return first, second, least, others[second, at]


def distinct_rows(problem: Problem) -> Multiset:
    """Gather the equal rows of a kernel matrix, in the order of their first appearance."""
    _, first = np.unique(problem.groups, return_index=True)
    ones = np.ones((problem.n, 1)) if problem.weights is None else problem.weights[:, None]
    total = exact_sums(ones, None, problem.groups.astype(np.int32), len(first))[:, 0]
    return Multiset(first.astype(np.int64), np.ascontiguousarray(total))


def closest_rows(problem: Problem, seeds: Ints) -> Labels:
    """Assign every row to the closest of the seeds in feature space, the first of equally close ones.

    K_jj − 2 K_ij is compared exactly: first its rounded value, then the rounding error.
    """
    n = problem.n
    labels = np.empty(n, dtype=np.int32)
    own = problem.diagonal[seeds][:, None]
    width = max(1, _BLOCK // len(seeds))
    for begin in range(0, n, width):
        columns = np.arange(begin, min(begin + width, n))
        double = 2 * problem.operator.rows(seeds, columns if len(columns) < n else None)  # (k, w)
        cost = own - double
        high = own - cost
        error = (own - (cost + high)) + (high - double)  # of the subtraction, exactly
        error[cost != cost.min(axis=0)] = np.inf
        labels[begin : begin + width] = error.argmin(axis=0)
    return labels


def relaxed(problem: Problem, seeds: Ints) -> Labels:
    """Solve the relaxed problem and round it: k-means in the k leading directions of feature space   (eq. 4.6).

    The top eigenvectors V of W^½KW^½ put row i at (√λ_j V_ij / √w_i)_j, the best of all approximations of φ in k
    dimensions. k-means begins there at the rows `seeds`.
    """
    from knoll.spectral.eigen import top_eigenpairs  # for this start alone

    n, k = problem.n, len(seeds)
    root = np.ones((n, 1)) if problem.weights is None else np.sqrt(problem.weights)[:, None]
    size = float(problem.reach.max()) * problem.mass  # no eigenvalue is larger
    if size == 0:  # K is zero: all rows are the origin of feature space
        return np.zeros(n, dtype=np.int32)
    pairs = top_eigenpairs(
        lambda B: root * problem.operator.apply(root * B) / size, n, min(k, n), tol=_TOL, threads=problem.threads
    )
    rows = np.sqrt(np.maximum(pairs.values, 0.0)) * pairs.vectors / root  # (n, k)
    found = lloyd(rows, problem.weights, rows[seeds], tol=0.0, threads=problem.threads)
    assert found.labels is not None
    return np.array(found.labels)


def _squares(problem: Problem, rows: Ints, diagonal: Floats, chosen: Ints) -> Floats:
    """Return squared distances in feature space from chosen rows to all, (t, m); 0 where rounding made them less."""
    kernel = problem.operator.rows(rows[chosen])[:, rows]
    return np.maximum(diagonal[chosen][:, None] - 2 * kernel + diagonal, 0.0)


def _drawn(weights: Floats, count: int, seed: int, restart: int, step: int) -> Ints:
    """Draw indices by weight, without replacement; a pure function of its arguments."""
    text = b"".join(number.to_bytes(8, "little") for number in (seed, restart, step))
    own = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    out = np.empty(count, dtype=np.int64)
    _core.random_rows(np.ascontiguousarray(weights), own, 0, out)
    return out
