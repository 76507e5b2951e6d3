"""Starts for kernel k-means: k rows, far apart in feature space or drawn by weight, and every row with the closest.

Draws see contents and weights only, as in `knoll.seeding`: equal rows count together, in an order of their contents.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.seeding import Multiset
from knoll.steps.kernel_means import Problem, exact_sums
from knoll.steps.kmeans import lloyd

__all__ = ["closest_rows", "gathered", "kmeans_plus_plus", "relaxed"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_BLOCK = 2**21  # entries of K at a time
_DRAWS = 25  # tries to exchange a chosen row, at least, where there are rows enough
_TOL = 1e-6  # of the largest possible eigenvalue: a start need not be better


def kmeans_plus_plus(problem: Problem, distinct: Multiset, k: int, seed: int, restart: int) -> Rows:
    """Choose k rows by greedy k-means++ in feature space: D²(i, j) = K_ii − 2 K_ij + K_jj.

    The first row is drawn by weight, each further one is the best of 2 + log k candidates drawn with probability
    ∝ w D². Where fewer than k rows lie apart from each other, the rest is drawn by weight. Then rows drawn ∝ w D² take
    the place of chosen ones, as long as that lowers Σ w D² (Lattanzi and Sohler, 2019): in feature space most rows are
    equally far from each other, and the first choice is hardly better than chance.
    """
    rows, weights = distinct.rows, _leveled(distinct.weights)
    diagonal = problem.diagonal[rows]
    trials = 2 + int(math.log(k))
    chosen = [int(_drawn(weights, 1, seed, restart, 0)[0])]
    nearest = _squares(problem, rows, diagonal, np.array(chosen))[0]  # (m,) D² to the closest row so far
    while len(chosen) < k:
        chances = _leveled(weights * _leveled(nearest))
        some = np.flatnonzero(chances)
        if not len(some):
            break
        drawn = some[_drawn(chances[some], min(trials, len(some)), seed, restart, len(chosen))]
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
    problem: Problem, rows: Rows, diagonal: Floats, weights: Floats, places: Rows, seed: int, restart: int
) -> Rows:
    """Exchange chosen places for drawn ones that lower Σ w D²; a fixed number of draws."""
    k, m = len(places), len(rows)
    squares = _squares(problem, rows, diagonal, places)  # (k, m)
    first, second = np.zeros(m, dtype=np.intp), np.zeros(m, dtype=np.intp)  # the closest place of each row, the next
    d1, d2 = np.empty(m), np.full(m, np.inf)
    stale = np.arange(m)
    for draw in range(min(max(_DRAWS, 3 * k), m // 4)):  # on few rows more would leave nothing to chance
        first[stale], second[stale], d1[stale], d2[stale] = _two_least(squares[:, stale])
        chances = _leveled(weights * _leveled(d1))
        some = np.flatnonzero(chances)
        if not len(some):
            break
        place = some[_drawn(chances[some], 1, seed, restart, k + draw)]
        new = _squares(problem, rows, diagonal, place)[0]
        near = np.minimum(d1, new)
        loss = np.bincount(first, weights * (np.minimum(d2, new) - near), k)  # (k,) of giving up a place
        worst = int(np.argmin(loss))
        stale = np.empty(0, dtype=np.intp)
        if np.sum(weights * near) + loss[worst] < np.sum(weights * d1):
            places[worst], squares[worst] = place[0], new
            stale = np.flatnonzero((first == worst) | (second == worst) | (new < d2))
    return places


def _two_least(squares: Floats) -> tuple[Rows, Rows, Floats, Floats]:
    """Find the two least entries of each column, where they are and what they are; inf where there is no second."""
    at = np.arange(squares.shape[1])
    first = squares.argmin(axis=0)
    least = squares[first, at]
    rest = squares.copy()
    rest[first, at] = np.inf
    second = rest.argmin(axis=0)
    return first, second, least, rest[second, at]


def gathered(problem: Problem) -> Multiset:
    """Gather the equal rows of a kernel matrix, in the order of their first appearance."""
    _, first = np.unique(problem.groups, return_index=True)
    ones = np.ones((problem.n, 1)) if problem.weights is None else problem.weights[:, None]
    total = exact_sums(ones, None, problem.groups.astype(np.int32), len(first))[:, 0]
    return Multiset(first.astype(np.int64), np.ascontiguousarray(total))


def closest_rows(problem: Problem, seeds: Rows) -> NDArray[np.int32]:
    """Assign every row to the closest of some rows in feature space, the first of equally close ones.

    K_jj − 2 K_ij is compared as it is, with what its rounding left out.
    """
    n = problem.n
    labels = np.empty(n, dtype=np.int32)
    own = problem.diagonal[seeds][:, None]
    width = max(1, _BLOCK // len(seeds))
    for begin in range(0, n, width):
        columns = np.arange(begin, min(begin + width, n))
        double = 2 * problem.operator.rows(seeds, columns if len(columns) < n else None)  # (k, w)
        cost = own - double
        part = own - cost
        rest = (own - (cost + part)) + (part - double)  # what the subtraction rounded off, exactly
        rest[cost != cost.min(axis=0)] = np.inf
        labels[begin : begin + width] = rest.argmin(axis=0)
    return labels


def relaxed(problem: Problem, seeds: Rows) -> NDArray[np.int32]:
    """Solve the relaxed problem and round it: k-means in the k leading directions of feature space   (eq. 4.6).

    The top eigenvectors V of W^½KW^½ put row i at (√λ_j V_ij / √w_i)_j, the best of all approximations of φ in k
    dimensions; k-means there begins at the rows `seeds`.
    """
    from knoll.steps.eigen import top_eigenpairs  # for this start alone

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


def _squares(problem: Problem, rows: Rows, diagonal: Floats, places: Rows) -> Floats:
    """Squared distances in feature space from some places to all of `rows`, (t, m); 0 where rounding made them less."""
    kernel = problem.operator.rows(rows[places])[:, rows]
    return np.maximum(diagonal[places][:, None] - 2 * kernel + diagonal, 0.0)


def _leveled(values: Floats) -> Floats:
    """Scale by a power of two so that the largest is near one: products neither vanish nor overflow."""
    return np.ldexp(values, -int(np.frexp(values.max(initial=0.0))[1]))


def _drawn(weights: Floats, count: int, seed: int, restart: int, step: int) -> Rows:
    """Draw places by weight, without replacement; a function of the numbers given alone."""
    text = b"".join(number.to_bytes(8, "little") for number in (seed, restart, step))
    own = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    out = np.empty(count, dtype=np.int64)
    _core.random_rows(np.ascontiguousarray(weights), own, 0, out)
    return out
