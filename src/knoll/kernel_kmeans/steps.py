"""Weighted kernel k-means, step by step: assign to the closest mean in feature space, again (eq. 4.1–4.3, 4.20).

A similarity that is not positive semi-definite has no feature space, and a step may raise the objective. K + σW⁻¹ has
one for σ large enough, and the same objective up to a constant (docs/theory/errata.md, item 24). It is never formed:
the shift adds σ/s_c − 2σ[i ∈ c]/s_c to the distances. It begins at 0, and grows when a step would raise J.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from knoll._common.loop import History, StepReport, iterate
from knoll._typing import Bools, Floats, Ints, Labels
from knoll.kernel_kmeans.means import Means, Problem

_NO_LOWER = 3  # steps in a row without a new lowest objective: rounding moves rows between equal means
_LEVEL = 12  # steps in a row that lower the objective by less than its rounding bound
_FLAT = 2  # steps in a row that leave an indefinite problem's objective as it is, to rounding


@dataclass(frozen=True)
class Assignment:
    """The closest mean of each row."""

    labels: Labels  # (n,)
    close: Ints  # rows whose two closest means are nearer to each other than rounding, decided by exact sums
    tied: Ints  # those of them whose two closest means are equally close


@dataclass(frozen=True)
class KernelKMeansReport(StepReport):
    """The objective of the new partition, how many rows changed cluster, and what it took."""

    rechecks: int
    relocated: int
    moves: int  # of the local search
    shift: float


@dataclass(frozen=True)
class Outcome:
    """The fixed point of the alternation, or where it was stopped."""

    means: Means
    last: Assignment  # to these means; at a fixed point the labels of the means
    shift: float
    objective: float  # Σ w‖φ(x) − m‖² of the last labels
    n_iter: int
    history: History


# ---- one step ------------------------------------------------------------------------------------------------------


def assign(
    means: Means,
    shift: float = 0.0,
    *,
    G: Floats | None = None,
    take: Callable[[Ints], Floats] | None = None,
    reach: Floats | None = None,
    own: Labels | None = None,
) -> Assignment:
    """Find the closest mean of each row, the lowest index of equally close ones.

    Rows other than those of the problem come with their products G, a function that returns their rows of K, a bound on
    |κ|, and under a shift their own cluster (−1: none).
    """
    problem = means.problem
    if G is None:
        take, reach, own = problem.operator.rows, problem.reach, means.labels
    assert take is not None
    assert reach is not None
    costs = means.costs(G)  # (m, k)
    m = len(costs)
    every = np.arange(m)
    if shift:
        lift = np.where(means.filled, shift / np.where(means.filled, means.masses, 1.0), 0.0)
        costs += lift
        if own is not None:
            known = np.flatnonzero(own >= 0)
            costs[known, own[known]] -= 2 * lift[own[known]]
    labels = costs.argmin(axis=1).astype(np.int32)
    none = np.empty(0, dtype=np.int64)
    if means.k == 1:
        return Assignment(labels, none, none)
    best = costs[every, labels].copy()
    costs[every, labels] = np.inf
    second = costs.min(axis=1)
    span = 2 * reach + float(problem.reach.max())
    widest = float(means.error.max())
    doubt = 2 * widest * span
    if shift:
        doubt += 2.0**-49 * float(lift.max())
    close = np.flatnonzero(second - best <= doubt)
    if not len(close):
        return Assignment(labels, none, none)
    costs[every, labels] = best
    candidates = costs[close] - best[close, None] <= doubt[close, None]  # (c, k)
    kept = None if own is None or not shift else own[close]
    decided, tied = _decide(means, means.exact(take, close), candidates, shift, kept)
    labels[close] = decided
    return Assignment(labels, close, close[tied])


def _decide(means: Means, inner: Floats, candidates: Bools, shift: float, own: Labels | None) -> tuple[Labels, Bools]:
    """Compare exact costs as rational numbers, which nothing rounds; also return where two are equal."""
    at = -np.ones(len(inner), dtype=np.int32) if own is None else own
    used = np.flatnonzero(candidates.any(axis=0)).tolist()
    lift = {c: Fraction(float(shift)) / Fraction(float(means.masses[c])) if shift else 0 for c in used}
    at_zero = {c: means.exact_cost(0.0, c) + lift[c] for c in used}  # costs are linear in the inner product
    slope = {c: -2 / Fraction(float(means.masses[c])) for c in used}
    cases = np.column_stack([np.where(candidates, inner, 0.0), candidates, at])
    _, first, which = np.unique(cases, axis=0, return_index=True, return_inverse=True)  # equal cases once
    found, equal = np.empty(len(first), dtype=np.int32), np.empty(len(first), dtype=np.bool_)
    for case, row in enumerate(first):
        clusters = np.flatnonzero(candidates[row]).tolist()
        costs = [
            at_zero[c] + slope[c] * Fraction(float(inner[row, c])) - (2 * lift[c] if at[row] == c else 0)
            for c in clusters
        ]
        least = min(costs)
        found[case], equal[case] = clusters[costs.index(least)], costs.count(least) > 1
    return found[which.ravel()], equal[which.ravel()]


def relocate(means: Means, labels: Labels) -> tuple[Labels, int]:
    """Give each cluster that lost all its rows the rows farthest from their mean; also return how many clusters.

    A row moves with all its copies, so a weight stays a number of repetitions. Ties go to the smallest content. A
    cluster keeps at least one of its contents, and no row at its mean is moved.
    """
    sizes = np.bincount(labels, minlength=means.k)
    if sizes.all():
        return labels, 0
    problem = means.problem
    every = np.arange(problem.n)
    costs = means.costs()
    d2 = problem.diagonal + costs[every, labels]
    error = (2 * problem.reach + float(problem.reach.max())) * means.error[labels] * 2
    first, _ = problem.contents
    contents = np.bincount(labels[first], minlength=means.k)
    free = first[d2[first] > error[first]]
    labels, done = labels.copy(), 0
    for cluster in np.flatnonzero(sizes == 0).tolist():
        free = free[contents[labels[free]] > 1]
        if not len(free):
            break
        row = _farthest(means, labels, free, d2, error)
        contents[labels[row]] -= 1
        contents[cluster] += 1
        labels[problem.groups == problem.groups[row]] = cluster
        free, done = free[free != row], done + 1
    return labels, done


def _farthest(means: Means, labels: Labels, free: Ints, d2: Floats, error: Floats) -> int:
    """Choose the row farthest from its mean: close calls by exact sums, then by content."""
    problem = means.problem
    least = float((d2[free] - error[free]).max())
    near = free[d2[free] + error[free] >= least]
    if len(near) == 1:
        return int(near[0])
    inner = means.exact(problem.operator.rows, near)
    far = [
        Fraction(float(problem.diagonal[row])) + means.exact_cost(inner[i, labels[row]], int(labels[row]))
        for i, row in enumerate(near)
    ]
    best = max(far)
    return min((int(row) for row, d in zip(near, far, strict=True) if d == best), key=problem.order)


def best_move(means: Means) -> tuple[Ints, int] | None:
    """Find the rows of one content, and the cluster, whose move lowers the objective most; None: no move lowers it.

    Moving weight w from a to b adds w s_b/(s_b + w) d²(i, b) − w s_a/(s_a − w) d²(i, a) (Dhillon, Guan and Kulis).
    """
    problem, k = means.problem, means.k
    first, weight = problem.contents
    a = means.labels[first]
    costs = means.costs()[first]  # (g, k)
    costs[:, ~means.filled] = 0.0
    d2 = problem.diagonal[first, None] + costs
    s = means.masses
    remaining = s[a] - weight
    movable = (np.bincount(a, minlength=k)[a] > 1) & (remaining > 0)
    at = np.arange(len(first))
    leaves = np.where(movable, weight * s[a] / np.where(movable, remaining, 1.0), 0.0)
    joins = weight[:, None] * s / (s + weight[:, None])  # 0 for an empty cluster, which costs nothing to begin
    gain = joins * d2 - (leaves * d2[at, a])[:, None]
    gain[at, a] = np.inf
    gain[~movable] = np.inf
    error = means.errors(problem.reach[first]) * 2
    doubt = joins * error + (leaves * error[at, a])[:, None]
    upper = gain + doubt
    if not upper.min(initial=np.inf) < 0:
        return None
    near = np.argwhere((gain - doubt <= upper.min()) & (upper < 0))
    if len(near) > 1:
        near = _closest_moves(means, near, first, a, weight)
    g, b = near[0]
    return np.flatnonzero(problem.groups == problem.groups[first[g]]), int(b)


def _closest_moves(means: Means, near: Ints, first: Ints, a: Labels, weight: Floats) -> Ints:
    """Rank moves that are equal to rounding by their exact gain, then by content and cluster."""
    problem = means.problem
    contents = np.unique(near[:, 0])
    inner = dict(zip(contents.tolist(), means.exact(problem.operator.rows, first[contents]), strict=True))

    def rank(move: Ints) -> tuple[Fraction, tuple[float, ...], int]:
        g, b = (int(index) for index in move)
        w, here = Fraction(float(weight[g])), Fraction(float(problem.diagonal[first[g]]))
        s_a, s_b = (Fraction(float(means.masses[c])) for c in (a[g], b))
        gain = -w * s_a / (s_a - w) * (here + means.exact_cost(inner[g][a[g]], int(a[g])))
        if s_b > 0:
            gain += w * s_b / (s_b + w) * (here + means.exact_cost(inner[g][b], b))
        return gain, problem.order(int(first[g])), b

    return np.array(sorted(near, key=rank))


# ---- many steps ----------------------------------------------------------------------------------------------------


def alternate(
    problem: Problem,
    labels: Labels,
    k: int,
    *,
    max_iter: int,
    tol: float,
    relocates: bool = True,
    local_search: bool = False,
    hook: Callable[[int, StepReport], None] | None = None,
) -> Outcome:
    """Step from a partition until no row changes cluster, or the objective falls by no more than `tol` of itself.

    It also ends when steps leave the objective as it is up to rounding.
    """
    means = Means(problem, labels, k)
    if relocates and not means.filled.all():
        means.to(relocate(means, means.labels)[0])
    run = _Run(means, tol, relocates, local_search)
    _, history = iterate(run.step, means.objective, max_iter=max_iter, stop=run.stop, hook=hook)
    history["rechecks"] = np.array([report.rechecks for report in run.reports], dtype=np.int64)
    last = assign(means, run.shift)
    d2 = problem.diagonal + means.costs()[np.arange(problem.n), last.labels]
    fixed = np.array_equal(last.labels, means.labels)
    objective = means.objective if fixed else float(np.sum(problem.weigh(d2)))
    return Outcome(means, last, run.shift, objective, len(run.reports), history)


class _Run:
    """One run of the alternation: its means, the shift so far, and when to stop."""

    def __init__(self, means: Means, tol: float, relocates: bool, local_search: bool) -> None:
        self._means, self._tol, self._relocates, self._local_search = means, tol, relocates, local_search
        self.shift = 0.0
        self.reports: list[KernelKMeansReport] = []
        self._flat = 0  # steps in a row that left an indefinite problem's objective as it was
        self._level = self._above = 0  # steps in a row without a clearly lower, and without a lower objective
        self._lowest = means.objective
        # where the total sum of squares is rounding, so is every step
        self._hopeless = means.problem.definite and means.scatter <= means.doubt

    def step(self, objective: float) -> tuple[float, KernelKMeansReport]:
        """Assign the rows and move the means; raise the shift until the objective does not rise."""
        means, problem = self._means, self._means.problem
        before, doubt = means.labels, means.doubt
        while True:
            found = assign(means, self.shift)
            new, relocated = relocate(means, found.labels) if self._relocates else (found.labels, 0)
            moves = 0
            changed = int(np.count_nonzero(new != before))
            if not changed and self._local_search:
                moves = _search(means)
                changed = int(np.count_nonzero(means.labels != before))
            means.to(new if not moves else means.labels)
            if problem.definite or not changed or self._falls(objective, doubt):
                break
            means.to(before)
            if self.shift >= _enough(problem):  # definite by now: the rise is rounding
                changed = 0
                break
            if not self.shift:
                before = _together(problem, before)
                means.to(before)
                objective, doubt = means.objective, means.doubt
            self.shift = _raised(problem, self.shift)
        report = KernelKMeansReport(means.objective, changed, len(found.close), relocated, moves, self.shift)
        self.reports.append(report)
        return means.objective, report

    def stop(self, _: list[StepReport]) -> bool:
        """Return whether the last step changed nothing, or nothing beyond rounding or `tol`."""
        last = self.reports[-1]
        if last.changed == 0:
            return True
        self._level = 0 if last.objective < self._lowest - self._means.doubt else self._level + 1
        self._above = 0 if last.objective < self._lowest else self._above + 1
        self._lowest = min(self._lowest, last.objective)
        if self._hopeless or self._level >= _LEVEL or self._above >= _NO_LOWER:
            return True
        if not self._tol or len(self.reports) < 2:
            return False
        previous = self.reports[-2].objective
        return previous - last.objective <= self._tol * abs(previous)

    def _falls(self, objective: float, doubt: float) -> bool:
        """Return whether a step of a problem that may be indefinite went down; a few may be level, to rounding."""
        limit = doubt + self._means.doubt
        if self._means.objective < objective - limit:
            self._flat = 0
            return True
        self._flat += 1
        return self._means.objective <= objective + limit and self._flat <= _FLAT


def _search(means: Means) -> int:
    """Make single moves until none lowers the objective."""
    moves = 0
    while (move := best_move(means)) is not None:
        before, objective = means.labels, means.objective
        labels = before.copy()
        labels[move[0]] = move[1]
        means.to(labels)
        if not means.objective < objective:
            means.to(before)
            break
        moves += 1
    return moves


def _together(problem: Problem, labels: Labels) -> Labels:
    """Put copies of a row into one cluster, the lowest of theirs: under a shift each would stay in its own."""
    least = np.full(int(problem.groups.max()) + 1, labels.max(), dtype=np.int32)
    np.minimum.at(least, problem.groups, labels)
    return least[problem.groups]


def _raised(problem: Problem, shift: float) -> float:
    """Raise the shift fourfold; it begins far below the bound for any K, since a large one prevents moves."""
    return 4 * shift if shift else _enough(problem) * 2.0**-16


def _enough(problem: Problem) -> float:
    """Return a shift that makes any K definite: |xᵀW^½KW^½x| ≤ max|K| · Σw · xᵀx."""
    return float(problem.reach.max()) * problem.mass
