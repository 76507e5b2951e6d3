"""Labels of other rows by the means that a kernel k-means kept: the closest in feature space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from knoll import _core, kernels
from knoll._common.sparse import is_sparse
from knoll._common.unique_rows import labels_by_digest
from knoll._typing import Floats, Ints, Labels
from knoll.exceptions import BadData
from knoll.kernel_kmeans import steps
from knoll.kernel_kmeans.means import Means, Problem

BLOCK = 2**21  # entries of K at a time
MOST = 1e300  # of |κ|: sums of larger ones might leave float64


def in_core(kernel: kernels.Kernel) -> bool:
    """Return whether the core knows the kernel."""
    return not isinstance(kernel, kernels.Precomputed | kernels.Function)


@dataclass(frozen=True)
class Kept:
    """The means that a fit keeps; weights and shift are in the scale in which they were computed."""

    kernel: kernels.Kernel
    points: Any  # (n, d) of the rows that count; None where K is precomputed
    weights: Floats | None  # (n,)
    labels: Labels  # (n,): whose means they are
    norms: Floats  # (k,)
    errors: Floats
    largest: float  # a bound on |K_ij|
    shift: float  # σ of K + σW⁻¹
    names: Any  # of the rows, where there is a shift

    def assign(self, queries: Any, threads: int, rows: Ints | None = None) -> Labels:
        """Assign rows to the means; `rows` are their numbers for a message, where they are not 0, 1, …"""
        means = self._means(threads)
        k, n = means.k, len(self.labels)
        own = labels_by_digest(queries, self.names, self.labels) if self.shift else None
        height = max(1, BLOCK // max(1, k if in_core(self.kernel) else n))
        weighted = np.zeros((n, k))  # W Z
        weighted[np.arange(n), self.labels] = means.problem.weigh(np.ones(n))
        labels = np.empty(queries.shape[0], dtype=np.int32)
        for begin in range(0, len(labels), height):
            chunk = slice(begin, begin + height)
            G, reach, take = self._products(means.problem, queries[chunk], weighted, threads)
            _refuse_extreme(reach, np.arange(begin, begin + len(reach)) if rows is None else rows[begin:])
            mine = None if own is None else own[chunk]
            labels[chunk] = steps.assign(means, self.shift, G=G, take=take, reach=reach, own=mine).labels
        return labels

    def _products(
        self, problem: Problem, queries: Any, weighted: Floats, threads: int
    ) -> tuple[Floats, Floats, Callable[[Ints], Floats]]:
        """Return G of the queries, a bound on their entries of K, and a function that returns rows of these entries."""
        if in_core(self.kernel):
            G = problem.operator.apply_rows(queries, weighted)

            def take(rows: Ints) -> Floats:
                return self.kernel.tile(np.ascontiguousarray(queries[rows]), self.points, threads)

            return G, self._reach(problem, queries, take, threads), take
        tile = queries.toarray() if is_sparse(queries) else np.asarray(queries)
        tile = np.ascontiguousarray(tile if self.points is None else self.kernel.tile(queries, self.points), float)
        G = np.empty((len(tile), weighted.shape[1]))
        _core.tall_times(tile, weighted, G, threads)
        return G, np.abs(tile).max(axis=1), tile.__getitem__

    def _reach(self, problem: Problem, queries: Any, take: Callable[[Ints], Floats], threads: int) -> Floats:
        """Bound |κ| of queries and rows of the fit: by |κ(x, y)|² ≤ κ(x, x) κ(y, y) where the kernel is definite."""
        if not problem.definite:
            return np.full(len(queries), self.largest)
        diagonal = np.maximum(self.kernel.diag(queries, threads), 0.0)
        usual = diagonal <= MOST
        reach = np.sqrt(np.where(usual, diagonal, 0.0)) * np.sqrt(self.largest)
        far = np.flatnonzero(~usual)  # κ(x, x) leaves float64, and κ(x, y) need not
        height = max(1, BLOCK // max(1, len(self.labels)))
        for begin in range(0, len(far), height):
            rows = far[begin : begin + height]
            reach[rows] = np.abs(take(rows)).max(axis=1)
        return reach

    def _means(self, threads: int) -> Means:
        """Restore the means."""
        n, precomputed = len(self.labels), self.points is None
        operator: Any = _Absent(n) if precomputed else self.kernel.operator(self.points, threads, 0.0)
        problem = Problem(
            operator=operator,
            weights=self.weights,
            definite=self.kernel.positive_semidefinite is True,
            equal=lambda: np.arange(n),
            order=lambda i: (i,),
            threads=threads,
            largest=self.largest,
        )
        return Means.kept(problem, self.labels, self.norms, self.errors, exact=precomputed)


def _refuse_extreme(reach: Floats, rows: Ints) -> None:
    """Refuse rows of which a κ, or a sum of some, leaves float64."""
    if len(far := np.flatnonzero(~(reach <= MOST))):
        raise BadData(
            f"KernelKMeans: κ(x, y) reaches {reach[far[0]]:.3g} at row {rows[far[0]]}: its values leave float64. "
            "Leave such rows out, or divide X by its largest value before the fit."
        )


class _Absent:
    """Stands for the precomputed matrix of the fit, which is not kept."""

    name = "precomputed"

    def __init__(self, n: int) -> None:
        self.n = n
