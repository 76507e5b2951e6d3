"""The means of a partition in feature space, known through G = K W Z alone (docs/theory/notation.md, eq. 4.2, 4.20).

‖φ(x_i) − m_c‖² = K_ii + cost_ic,   cost_ic = −2 G_ic / s_c + q_c / s_c²,   q_c = Σ_{i∈c} w_i G_ic.

G follows the partition: rows that change cluster move their column of K. It carries rounding errors, and a bound for
them. A decision inside the bound is taken again by sums that are exact and rounded once, and then by rational numbers,
so it does not depend on the order of updates, rows or threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from knoll import _core
from knoll._typing import Floats, Ints, Labels
from knoll.kernels import Operator

_UNIT = 1.01 * 2.0**-53  # the rounding of one operation; the factor covers products of such errors
_STALE = 64.0  # a column of G is computed again when its bound has grown by this factor
_BLOCK = 2**20  # entries of K at a time on the exact route
_ANEW = 0.6  # of all rows: when more than these change cluster, both triangles of K at once cost less


@dataclass(frozen=True)
class Problem:
    """Rows that count, each with a weight > 0, and their kernel matrix."""

    operator: Operator
    weights: Floats | None  # (n,)
    definite: bool  # K is known to be positive semi-definite
    equal: Callable[[], Ints]  # () -> (n,): rows of equal content have one number
    order: Callable[[int], tuple[float, ...]]  # breaks ties between rows: by their content
    threads: int
    largest: float | None = None  # a known bound on |K_ij|

    @property
    def n(self) -> int:
        """How many rows there are."""
        return self.operator.n

    @cached_property
    def diagonal(self) -> Floats:
        """K_ii, (n,)."""
        return self.operator.diag()

    @cached_property
    def groups(self) -> Ints:
        """The number of each row's content, (n,)."""
        return self.equal()

    @cached_property
    def contents(self) -> tuple[Ints, Floats]:
        """One row of each content, (g,), and the weight of all its copies."""
        _, first = np.unique(self.groups, return_index=True)
        return first.astype(np.int64), np.bincount(self.groups, self.weights)[self.groups[first]].astype(np.float64)

    @cached_property
    def reach(self) -> Floats:
        """A bound on |K_ij| over all j, (n,): by Cauchy and Schwarz, or by the largest entry where K is indefinite."""
        if self.largest is not None:
            return np.full(self.n, self.largest)
        if self.definite:
            norm = np.sqrt(np.maximum(self.diagonal, 0.0))
            return norm * norm.max(initial=0.0) * (1 + 4 * _UNIT)
        return np.full(self.n, self._largest_entry())

    @cached_property
    def total(self) -> float:
        """Σ w K_ii: the objective is this less the trace."""
        return float(exact_sums(self.diagonal[:, None], self.weights, np.zeros(self.n, dtype=np.int32), 1)[0, 0])

    @cached_property
    def mass(self) -> float:
        """Σ w."""
        if self.weights is None:
            return float(self.n)
        return float(exact_sums(self.weights[:, None], None, np.zeros(self.n, dtype=np.int32), 1)[0, 0])

    def weigh(self, values: Floats) -> Floats:
        """Multiply by the weights."""
        return values if self.weights is None else values * self.weights

    def _largest_entry(self) -> float:
        if self.operator.name == "heaviside":
            return 1.0
        largest, height = 0.0, max(1, _BLOCK // self.n)
        for begin in range(0, self.n, height):
            block = self.operator.rows(np.arange(begin, min(begin + height, self.n)))
            largest = max(largest, float(np.abs(block).max()))
        return largest


class Means:
    """G, masses and norms of the means of a partition that changes."""

    def __init__(self, problem: Problem, labels: Labels, k: int) -> None:
        n = problem.n
        self.problem, self.k = problem, k
        self.labels = labels.copy()
        self.G = np.zeros((n, k))
        self._version = np.zeros(k, dtype=np.int64)  # counts the changes of a cluster
        self._norms: dict[int, tuple[int, float]] = {}  # exact q_c, and the version it is of
        self.evaluated = 0  # entries of K that went into G
        self._all()
        self._settle()

    @classmethod
    def kept(cls, problem: Problem, labels: Labels, norms: Floats, error: Floats, *, exact: bool) -> Means:
        """Restore means that were kept without G: labels, q_c with its bound, and whether q_c is exact."""
        means = cls.__new__(cls)
        means.problem, means.k, means.labels = problem, len(norms), labels
        means.G, means.evaluated = np.empty((0, means.k)), 0
        means._version = np.zeros(means.k, dtype=np.int64)
        means._norms = {c: (0, float(norms[c])) for c in range(means.k)} if exact else {}
        means._weigh()
        means._terms, means._moved = means.sizes.astype(np.float64), means.masses.copy()
        means._measure(norms)
        means.error = np.maximum(means.error, error)
        return means

    # ---- following a partition -------------------------------------------------------------------------------------

    def to(self, labels: Labels) -> None:
        """Become the means of other labels: by the rows that changed, or by all rows where that is cheaper."""
        rows = np.flatnonzero(labels != self.labels)
        if not len(rows):
            return
        old, new = self.labels[rows], labels[rows]
        self.labels = labels.copy()
        for c in np.union1d(old, new):
            self._version[c] += 1
        if len(rows) > _ANEW * self.problem.n:
            self._all()
        else:
            self.problem.operator.update(rows, old, new, self.problem.weights, self.G)
            self.evaluated += len(rows) * self.problem.n
            moved = np.ones(len(rows)) if self.problem.weights is None else self.problem.weights[rows]
            for side in (old, new):
                self._terms += np.bincount(side, minlength=self.k)
                self._moved += np.bincount(side, moved, self.k)
        self._settle()

    def _all(self) -> None:
        """Compute G from all rows."""
        n = self.problem.n
        self.G.fill(0.0)
        every = np.arange(n, dtype=np.int64)
        self.problem.operator.update(every, np.full(n, -1, dtype=np.int32), self.labels, self.problem.weights, self.G)
        self.evaluated += n * n // 2
        self._terms = np.bincount(self.labels, minlength=self.k).astype(np.float64)  # (k,) added to a column so far
        self._moved = np.bincount(self.labels, self.problem.weights, self.k).astype(np.float64)  # (k,) their weights

    def _settle(self) -> None:
        """Bring masses and norms up to date; columns whose bound has grown too much are computed again."""
        problem, k = self.problem, self.k
        self._weigh()
        used = self._terms * self._moved
        stale = self.filled & (used > _STALE * self.sizes * self.masses)
        for c in np.flatnonzero(stale | (~self.filled & (self._terms > 0))).tolist():
            self._column(c)
        own = problem.weigh(self.G[np.arange(problem.n), self.labels])
        self._measure(np.bincount(self.labels, own, k).astype(np.float64))

    def _weigh(self) -> None:
        self.sizes = np.bincount(self.labels, minlength=self.k)  # (k,)
        if self.problem.weights is None:
            self.masses = self.sizes.astype(np.float64)
        else:  # (k,), rounded once
            self.masses = exact_sums(self.problem.weights[:, None], None, self.labels, self.k)[:, 0]
        self.filled = self.sizes > 0

    def _measure(self, norms: Floats) -> None:
        self.norms = norms  # (k,) q_c
        safe = np.where(self.filled, self.masses, 1.0)
        self._scale = -2.0 / safe
        self._offset = np.where(self.filled, self.norms / safe / safe, np.inf)
        error = _UNIT * (self._terms + self.sizes + 14) * np.where(self.filled, self._moved / safe, 0.0)
        # (k,) in units of 2 reach_i + the largest reach (docs/numerics/kernels.md, K5)
        self.error = np.where(self.filled, error, 0.0)

    def _column(self, c: int) -> None:
        members = np.flatnonzero(self.labels == c)
        self.G[:, c] = 0.0
        if len(members):
            joins = np.full(len(members), c, dtype=np.int32)
            self.problem.operator.update(members, np.full_like(joins, -1), joins, self.problem.weights, self.G)
            self.evaluated += len(members) * self.problem.n
        self._terms[c], self._moved[c] = len(members), self.masses[c]

    # ---- distances -------------------------------------------------------------------------------------------------

    @property
    def trace(self) -> float:
        """Tr YᵀW^½KW^½Y = Σ_c q_c / s_c   (eq. 4.6)."""
        return float(np.sum(self.norms[self.filled] / self.masses[self.filled]))

    @property
    def objective(self) -> float:
        """J of the partition about its own means: Σ w K_ii less the trace."""
        return self.problem.total - self.trace

    @property
    def scatter(self) -> float:
        """The total sum of squares: J of all rows in one cluster."""
        return self.problem.total - float(np.sum(self.problem.weigh(self.G.sum(axis=1)))) / self.problem.mass

    @property
    def doubt(self) -> float:
        """Bound the rounding of `objective`."""
        reach = float(self.problem.reach.max())
        return float(np.sum(self.error * self.masses)) * 3 * reach + 8 * _UNIT * abs(self.problem.total)

    def costs(self, G: Floats | None = None) -> Floats:
        """Compute ‖φ(x_i) − m_c‖² − K_ii for all rows, or for other rows by their G; inf for an empty cluster."""
        return (self.G if G is None else G) * self._scale + self._offset

    def errors(self, reach: Floats) -> Floats:
        """Bound the rounding of `costs` for rows of which |κ| is at most `reach`, (m, k)."""
        return np.multiply.outer(2 * reach + float(self.problem.reach.max()), self.error)

    # ---- the exact route -------------------------------------------------------------------------------------------

    def exact(self, take: Callable[[Ints], Floats], rows: Ints) -> Floats:
        """Compute G for these rows by exact sums, each rounded once, (m, k); `take` returns rows of K."""
        out = np.empty((len(rows), self.k))
        height = max(1, min(64, _BLOCK // self.problem.n))
        for begin in range(0, len(rows), height):
            chunk = slice(begin, begin + height)
            tile = take(rows[chunk])
            out[chunk] = exact_sums(tile.T, self.problem.weights, self.labels, self.k, self.problem.threads).T
        return out

    def exact_norm(self, c: int) -> float:
        """Compute q_c from exact sums, rounded once, of G values that were rounded once."""
        version, value = self._norms.get(c, (-1, 0.0))
        if version == self._version[c]:
            return value
        problem, members = self.problem, np.flatnonzero(self.labels == c)
        weights = None if problem.weights is None else problem.weights[members]
        inner, none = np.empty(len(members)), np.zeros(len(members), dtype=np.int32)
        height = max(1, min(64, _BLOCK // len(members)))
        for begin in range(0, len(members), height):
            tile = problem.operator.rows(members[begin : begin + height], members)
            inner[begin : begin + height] = exact_sums(tile.T, weights, none, 1, problem.threads)[0]
        value = float(exact_sums(inner[:, None], weights, none, 1)[0, 0])
        self._norms[c] = int(self._version[c]), value
        return value

    def exact_cost(self, inner: float, c: int) -> Fraction:
        """Return `costs` of an exact G value and cluster, as a rational number."""
        mass = Fraction(float(self.masses[c]))
        return Fraction(self.exact_norm(c)) / mass**2 - 2 * Fraction(float(inner)) / mass


def exact_sums(values: Floats, weights: Floats | None, labels: Labels, k: int, threads: int = 1) -> Floats:
    """Sum the columns of values (n, m) within each cluster, exactly, and round once: (k, m)."""
    m = values.shape[1]
    sums = np.zeros((_core.SUM_WORDS, k * (m + 1)), dtype=np.int64)  # accumulator words of exact sums
    _core.add_cluster_sums(values, weights, labels, sums, threads)
    flat = np.empty(k * (m + 1))
    _core.exact_round(sums, flat, threads)
    return flat.reshape(k, m + 1)[:, 1:]
