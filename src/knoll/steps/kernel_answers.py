"""Labels of other rows by the means that a kernel k-means kept: the closest in feature space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core, kernels
from knoll.steps import kernel_kmeans as steps
from knoll.steps.kernel_means import Means, Problem
from knoll.steps.row_names import recognised
from knoll.steps.sparse import is_sparse

__all__ = ["BLOCK", "Kept", "in_core"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]
Rows = NDArray[np.int64]

BLOCK = 2**21  # entries of K at a time


def in_core(kernel: kernels.Kernel) -> bool:
    """Tell whether the core knows the kernel."""
    return not isinstance(kernel, kernels.Precomputed | kernels.Function)


@dataclass(frozen=True)
class Kept:
    """What a fit leaves of its means; weights and shift are in the scale in which they were computed."""

    kernel: kernels.Kernel
    points: Any  # (n, d) of the rows that count; None where K was given
    weights: Floats | None  # (n,)
    labels: Labels  # (n,): whose means they are
    norms: Floats  # (k,)
    errors: Floats
    largest: float  # a bound on |K_ij|
    shift: float  # σ of K + σW⁻¹
    names: Any  # of the rows, where there is a shift

    def assign(self, queries: Any, threads: int) -> Labels:
        """Assign rows to the means."""
        means = self._means(threads)
        k, n = means.k, len(self.labels)
        own = recognised(queries, self.names, self.labels) if self.shift else None
        height = max(1, BLOCK // max(1, k if in_core(self.kernel) else n))
        weighted = np.zeros((n, k))  # W Z
        weighted[np.arange(n), self.labels] = means.problem.weigh(np.ones(n))
        parts = []
        for begin in range(0, queries.shape[0], height):
            some = queries[begin : begin + height]
            G, reach, take = self._products(means.problem, some, weighted, threads)
            mine = None if own is None else own[begin : begin + height]
            parts.append(steps.assign(means, self.shift, G=G, take=take, reach=reach, own=mine).labels)
        return np.concatenate(parts)

    def _products(
        self, problem: Problem, some: Any, weighted: Floats, threads: int
    ) -> tuple[Floats, Floats, Callable[[Rows], Floats]]:
        """Return G of some rows, a bound on their entries of K, and what takes those entries."""
        if in_core(self.kernel):
            G = problem.operator.apply_rows(some, weighted)
            reach = np.full(len(some), self.largest)
            if problem.definite:
                reach = np.sqrt(np.maximum(self.kernel.diag(some, threads), 0.0)) * np.sqrt(self.largest)
            return G, reach, lambda rows: self.kernel.tile(np.ascontiguousarray(some[rows]), self.points, threads)
        tile = some.toarray() if is_sparse(some) else np.asarray(some)
        tile = np.ascontiguousarray(tile if self.points is None else self.kernel.tile(some, self.points), float)
        G = np.empty((len(tile), weighted.shape[1]))
        _core.tall_times(tile, weighted, G, threads)
        return G, np.abs(tile).max(axis=1), tile.__getitem__

    def _means(self, threads: int) -> Means:
        """Take up the means."""
        n, given = len(self.labels), self.points is None
        operator: Any = _Absent(n) if given else self.kernel.operator(self.points, threads, 0.0)
        problem = Problem(
            operator=operator,
            weights=self.weights,
            definite=self.kernel.positive_semidefinite is True,
            equal=lambda: np.arange(n),
            order=lambda i: (i,),
            threads=threads,
        )
        problem.__dict__["reach"] = np.full(n, self.largest)
        return Means.kept(problem, self.labels, self.norms, self.errors, exact=given)


class _Absent:
    """Stands for a matrix that was given to the fit and is not kept."""

    name = "precomputed"

    def __init__(self, n: int) -> None:
        self.n = n
