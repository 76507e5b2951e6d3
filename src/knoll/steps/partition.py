"""From embedded rows to clusters: k-means, discretization, or a pivoted QR; each leaves a rule that labels any row.

The rule is a matrix: centres for k-means (the closest wins), a rotation for the others (the largest coordinate wins).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knoll import seeding
from knoll.seeding import Multiset
from knoll.steps.assignment import assign
from knoll.steps.eigen import inner, times
from knoll.steps.kmeans import lloyd
from knoll.steps.loop import StepReport
from knoll.steps.small import svd

__all__ = ["Rule", "Say", "by_discretization", "by_kmeans", "by_qr"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]
Say = Callable[[str], None]

_BETTER = 1e-9  # a run must be better by this share: rounding must not choose among equals
_NOISE = 1e-20  # of the squared length of all rows: what is left of an inertia of zero
_RANK = 1e-20  # of the largest squared length: what rounding leaves of rows that depend on those taken
_SAME = 1e-12  # of the largest coordinate: centres closer than this are one
_TIED = 1e-9  # pivots whose lengths agree to this share: the lowest row is taken


@dataclass(frozen=True)
class Rule:
    """How a row of the embedding gets its label."""

    kind: str  # kmeans, discretize or cluster_qr
    matrix: Floats  # (k, m) centres, or (m, k) rotation
    inertia: float  # k-means' J; NaN for the others

    def labels(self, Y: Floats, threads: int = 1) -> Labels:
        """Label rows (q, m); the lowest index of equals."""
        if self.kind == "kmeans":
            labels = np.empty(len(Y), dtype=np.int32)
            assign(np.ascontiguousarray(Y), self.matrix, labels, None, threads)
            return labels
        return self._coordinates(Y, threads).argmax(axis=1).astype(np.int32)

    def unsure(self, Y: Floats, error: Floats, threads: int = 1) -> NDArray[np.intp]:
        """List the rows whose label could change if each coordinate were off by `error` of the largest, (q,)."""
        k = self.matrix.shape[0 if self.kind == "kmeans" else 1]
        if k == 1:
            return np.empty(0, dtype=np.intp)
        if self.kind == "kmeans":
            lengths = np.square(self.matrix).sum(axis=1)
            score = 2 * times(Y, self.matrix.T.copy(), threads) - lengths  # largest for the closest
            size = float(np.sqrt(lengths.max()) + np.abs(Y).max(initial=0.0)) ** 2
        else:
            score, size = self._coordinates(Y, threads), float(np.abs(Y).max(initial=0.0))
        two = np.partition(score, k - 2, axis=1)[:, k - 2 :]
        return np.flatnonzero(two[:, 1] - two[:, 0] <= 8 * Y.shape[1] * error * size)

    def reordered(self, order: NDArray[np.intp]) -> Rule:
        """Number the clusters anew: `order` lists the old numbers."""
        matrix = self.matrix[order] if self.kind == "kmeans" else self.matrix[:, order]
        return Rule(self.kind, np.ascontiguousarray(matrix), self.inertia)

    def _coordinates(self, Y: Floats, threads: int) -> Floats:
        turned = times(np.ascontiguousarray(Y), self.matrix, threads)
        return np.abs(turned) if self.kind == "cluster_qr" else turned


def by_kmeans(
    Y: Floats,
    weights: Floats | None,
    rows: Multiset,
    k: int,
    n_init: int,
    seed: int,
    threads: int,
    say: Say | None = None,
) -> Rule:
    """Run k-means on the rows from several starts; return the best rule.

    Starts are drawn in the order of the data's contents, not of the embedding's, whose last bits mean nothing.
    """

    def show(iteration: int, report: StepReport) -> None:
        if say is not None:
            say(f"Iteration {iteration}, inertia {report.objective:.10g}.")

    best = None
    total = np.square(Y).sum() if weights is None else float(weights @ np.square(Y).sum(axis=1))
    for restart in range(n_init):
        chosen = seeding.kmeans_plus_plus(Y, rows, k, seed, restart=restart, threads=threads)
        if say is not None:
            say("Initialization complete")
        result = lloyd(Y, weights, Y[chosen], tol=0.0, threads=threads, hook=None if say is None else show)
        if best is None or result.inertia < best.inertia * (1 - _BETTER) - _NOISE * float(total):
            best = result
        if best.inertia <= _NOISE * float(total):
            break  # nothing is left to gain
    assert best is not None
    return Rule("kmeans", _merged(best.centers, float(np.abs(Y).max(initial=0.0))), best.inertia)


def _merged(centers: Floats, size: float) -> Floats:
    """Make centres equal that differ by rounding alone: rows of one component do, and are one cluster."""
    out = centers.copy()
    for c in range(1, len(out)):
        same = (np.abs(out[:c] - out[c]) <= _SAME * size).all(axis=1)
        if same.any():
            out[c] = out[int(np.argmax(same))]
    return out


def by_discretization(
    Y: Floats, weights: Floats | None, rows: Multiset, k: int, n_init: int, seed: int, threads: int
) -> Rule:
    """Rotate the rows as close to a partition matrix as alternation gets (Yu and Shi, 2003)."""
    length = np.sqrt(np.einsum("ij,ij->i", Y, Y))[:, None]
    unit = np.divide(Y, length, out=np.zeros_like(Y), where=length > 0)  # (n, m)
    weighted = unit if weights is None else unit * weights[:, None]
    best, most = np.zeros((Y.shape[1], k)), -np.inf
    for restart in range(n_init):
        turn = _spread_rows(unit, int(seeding.random_rows(rows, 1, seed, restart=restart)[0]), k)
        last = -np.inf
        for _ in range(100):
            labels = times(unit, turn, threads).argmax(axis=1)
            chosen = np.zeros((len(Y), k))
            chosen[np.arange(len(Y)), labels] = 1.0
            left, size, right = svd(inner(weighted, chosen, threads))
            turn = left @ right  # (m, k): the closest rotation
            if size.sum() <= last * (1 + 1e-12):
                break
            last = float(size.sum())
        if last > most * (1 + _BETTER) or most == -np.inf:
            best, most = turn, last
    return Rule("discretize", np.ascontiguousarray(best), np.nan)


def _spread_rows(unit: Floats, first: int, k: int) -> Floats:
    """Take rows as orthogonal to each other as there are: the start of the rotation, (m, k)."""
    turn = np.empty((unit.shape[1], k))
    turn[:, 0], seen = unit[first], np.zeros(len(unit))
    for c in range(1, k):
        seen += np.abs(unit @ turn[:, c - 1])
        turn[:, c] = unit[int(np.flatnonzero(seen <= seen.min() + _TIED)[0])]
    return turn


def by_qr(Y: Floats, k: int) -> Rule:
    """Pick k rows by column-pivoted QR of Yᵀ and turn Y by their polar factor (Damle, Minden and Ying, 2019).

    There are only as many clusters as Y has rank: what is left after that is rounding, and so would be its rotation.
    """
    left = Y.copy()
    pivots: list[int] = []
    least = 0.0
    for _ in range(min(k, Y.shape[1])):
        size = np.einsum("ij,ij->i", left, left)
        row = int(np.flatnonzero(size >= (1 - _TIED) * size.max())[0])
        least = max(least, _RANK * float(size[row]))  # of the first
        if pivots and size[row] <= least:
            break
        pivots.append(row)
        if size[row] > 0:
            axis = left[row] / np.sqrt(size[row])
            left -= (left @ axis)[:, None] * axis
    first, _, second = svd(Y[pivots].T)
    turn = np.zeros((Y.shape[1], k))
    turn[:, : len(pivots)] = first @ second
    return Rule("cluster_qr", turn, np.nan)
