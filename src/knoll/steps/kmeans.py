"""k-means, step by step: assign to the closest centre, average, again (docs/theory/03-kmeans.md, eq. 3.6–3.9)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from knoll import _core
from knoll.steps.assignment import (
    Blocks,
    Memory,
    add_sums,
    assign,
    exact_spread,
    memory_for,
    no_sums,
    spread,
    squared_error,
)
from knoll.steps.blocks import Block
from knoll.steps.empty_clusters import Moves, relocate
from knoll.steps.loop import History, StepReport, iterate
from knoll.steps.scaling import Scale, largest_of

__all__ = [
    "KMeansReport",
    "KMeansState",
    "KMeansSums",
    "LloydResult",
    "Spread",
    "alternate",
    "finish",
    "lloyd",
    "merge",
    "partial",
    "start",
]

Floats = NDArray[np.float64]

# An objective by eq. 3.9 is taken where its rounding errors are certainly below this share of it (eq. 3.10).
_DIGITS = 2.0**-36
_UNIT = 2.0**-53


@dataclass(frozen=True)
class KMeansState:
    """The centres that the next step assigns to."""

    centers: Floats  # (k, d)


@dataclass(frozen=True)
class KMeansSums:
    """Mass and coordinate sums of each cluster, exact: any order of rows, blocks and workers gives the same."""

    rows: int
    own: NDArray[np.int64] | None  # (limbs, k·(d+1)): mass of cluster c in column c·(d+1), then its d coordinate sums
    memory: Memory | None  # who has the sums, where they are not our own; its next step changes them
    relabelled: int | None  # labels that differ from the step before; None: nobody remembers those
    distances: int  # evaluated
    rechecks: int  # rows that were decided again by the one distance
    moves: Moves | None = None  # of rows whose cluster is another than their label in the memory says

    @property
    def sums(self) -> NDArray[np.int64]:
        """The exact sums, whoever has them."""
        if self.own is not None:
            return self.own
        assert self.memory is not None
        return self.memory.sums

    def rounded(self, shape: tuple[int, ...], threads: int = 1) -> tuple[Floats, Floats]:
        """Round the exact sums, once: the masses (k,) and the coordinate sums (k, d)."""
        table = self.table(shape, threads)[0]
        return table[:, 0], table[:, 1:]

    def table(self, shape: tuple[int, ...], threads: int = 1) -> tuple[Floats, Floats]:
        """Round the exact sums, masses first, and what that leaves: two tables (k, d+1) that add up to 106 bits."""
        k, d = shape
        high, low = np.empty((2, k * (d + 1)))
        if self.own is not None:
            _core.exact_round(self.own, high, threads, low)
        elif self.memory is not None and self.moves is not None:
            block, rows, to = self.moves.block, self.moves.rows, self.moves.to
            self.memory.round_moved(block.points, block.weights, rows, to, high, threads, low)
        elif self.memory is not None:
            self.memory.round_sums(high, threads, low)
        return high.reshape(k, d + 1), low.reshape(k, d + 1)


@dataclass(frozen=True)
class Spread:
    """How far the data lies from its mean o: Σ w‖x − o‖² (eq. 3.8)."""

    origin: Floats  # (d,)
    value: float
    mass: float
    rest: float | None = None  # value + rest is the sum to some hundred bits; None: nobody has looked so closely

    @property
    def parts(self) -> tuple[float, float, float]:
        """The sum as two floats, and what it may be off by: their own rounding and that of the terms."""
        d = len(self.origin)
        if self.rest is None:
            return self.value, 0.0, (d + 4) * _UNIT * self.value
        return self.value, self.rest, (4 * (d + 4) + 2) * _UNIT**2 * self.value

    @property
    def mean_variance(self) -> float:
        """The variance of a column, averaged over the columns: the unit of `tol`."""
        return self.value / (self.mass * len(self.origin))


@dataclass(frozen=True)
class KMeansReport(StepReport):
    """The objective J(μ_new, r), how far the centres moved (Σ‖shift‖²), and what it took."""

    relabelled: int | None
    distances: int
    rechecks: int
    masses: Floats  # (k,)
    error: float  # bounds the rounding of the objective

    @property
    def certain(self) -> bool:
        """Whether the objective has its digits."""
        return self.error <= _DIGITS * self.objective


# ---- one step ------------------------------------------------------------------------------------------------------


def start(centers: Floats) -> KMeansState:
    """Begin at given centres."""
    return KMeansState(np.array(centers, dtype=np.float64, order="C"))


def partial(block: Block, state: KMeansState, threads: int, memory: Memory | None = None) -> KMeansSums:
    """Assign the rows of a block to their closest centres (eq. 3.6) and add each cluster up.

    A memory is that of this very block, and skips what cannot have changed since its last step.
    """
    rows = block.points.shape[0]
    if memory is not None:
        changed, evaluated, again = memory.step(block.points, block.weights, state.centers, threads)
        return KMeansSums(rows, None, memory, changed, evaluated, again)
    labels = np.empty(rows, dtype=np.int32)
    evaluated, again = assign(block.points, state.centers, labels, None, threads)
    sums = no_sums(*state.centers.shape)
    add_sums(block, labels, sums, threads)
    return KMeansSums(rows, sums, None, None, evaluated, again)


def merge(a: KMeansSums, b: KMeansSums, threads: int = 1) -> KMeansSums:
    """Add two sets of sums, exactly. `a` is used up: its array becomes the result's, unless a memory has it."""
    sums = a.sums.copy() if a.own is None else a.own
    _core.exact_merge(sums, b.sums, threads)
    known = None if a.relabelled is None or b.relabelled is None else a.relabelled + b.relabelled
    return KMeansSums(a.rows + b.rows, sums, None, known, a.distances + b.distances, a.rechecks + b.rechecks)


def finish(stats: KMeansSums, state: KMeansState, about: Spread, threads: int = 1) -> tuple[KMeansState, KMeansReport]:
    """Average each cluster (eq. 3.7); a cluster without mass keeps the centre it had."""
    high, low = stats.table(state.centers.shape, threads)
    centers = np.empty_like(state.centers)
    objective, error, changed = _core.cluster_means(
        high, low, state.centers, about.origin, about.parts, centers, threads
    )  # eq. 3.9, 3.10
    return KMeansState(centers), KMeansReport(
        objective, changed, stats.relabelled, stats.distances, stats.rechecks, high[:, 0].copy(), error
    )


# ---- many steps ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LloydResult:
    """Where the alternation came to rest: every point is with the closest of these centres."""

    labels: NDArray[np.int32] | None  # (n,); None where the data came in blocks
    centers: Floats  # (k, d)
    masses: Floats  # (k,)
    inertia: float
    n_iter: int
    history: History
    distances: int
    rechecks: int
    about: Spread
    came_back: bool  # the centres have been there before


def alternate(
    blocks: Blocks,
    centers: Floats,
    *,
    max_iter: int,
    tol: float,
    threads: int,
    memory: Memory | None = None,
    relocates: bool = True,
    about: Spread | None = None,
    stored: Callable[[Floats], Floats] = lambda centers: centers,
    hook: Callable[[int, StepReport], None] | None = None,
) -> LloydResult:
    """Step until the centres move by no more than `tol` of the variance, then assign to the centres that are kept.

    Sums are exact, so labels that stay give centres that stay, to the bit: "no label changed" is a shift of zero.
    Centres that come back, to the bit, would come back for ever: that is the end as well. `stored` rounds the centres
    to what will be kept of them.
    """
    reports: list[KMeansReport] = []
    known = [about] if about is not None else []
    spent = [0, 0]
    seen = _Seen()

    def sums_of(state: KMeansState) -> KMeansSums:
        parts = (partial(block, state, threads, memory) for block in blocks())
        stats = functools.reduce(lambda a, b: merge(a, b, threads), parts)
        spent[0] += stats.distances
        spent[1] += stats.rechecks
        return stats

    def step(state: KMeansState) -> tuple[KMeansState, KMeansReport]:
        stats = sums_of(state)
        if not known:
            known.append(_spread(stats, state, blocks, threads, whole=memory is not None))
        new, report = finish(stats, state, known[0], threads)
        if relocates and np.count_nonzero(report.masses) < len(report.masses):
            moved = relocate(blocks, state.centers, report.masses == 0, threads, memory)
            if moved is not None:
                spent[0] += moved.distances
                spent[1] += moved.rechecks
                spent_here = stats.distances + moved.distances, stats.rechecks + moved.rechecks
                stats = KMeansSums(stats.rows, moved.sums, memory, stats.relabelled, *spent_here, moved.moves)
                new, report = finish(stats, state, known[0], threads)
        if not report.certain and look_closer():
            new, report = finish(stats, state, known[0], threads)
        if not report.certain:
            report = replace(report, objective=squared_error(blocks, new.centers, threads), error=0.0)
        reports.append(report)
        seen.add(new.centers, report.objective)
        return new, report

    def look_closer() -> bool:
        """Take the spread to a hundred bits, once a fit; tell whether that is new."""
        about = known[0]
        if about.rest is not None:
            return False
        value, rest = exact_spread(blocks, about.origin, threads)
        known[0] = replace(about, value=value, rest=rest)
        return True

    def stop(_: list[StepReport]) -> bool:
        return seen.again or reports[-1].changed <= tol * known[0].mean_variance

    state, history = iterate(step, start(centers), max_iter=max_iter, stop=stop, hook=hook)
    if all(report.relabelled is not None for report in reports):
        history["relabelled"] = np.array([report.relabelled for report in reports], dtype=np.int64)
    history["distances"] = np.array([report.distances for report in reports], dtype=np.int64)
    history["rechecks"] = np.array([report.rechecks for report in reports], dtype=np.int64)
    kept = stored(state.centers)
    if reports[-1].changed == 0 and np.array_equal(kept, state.centers) and memory is not None:
        last = KMeansSums(0, None, memory, 0, 0, 0)  # the labels are those of these centres already
    else:
        last = sums_of(KMeansState(kept))
    high, low = last.table(kept.shape, threads)

    def inertia() -> float:
        """Take J by eq. 3.9 where that has its digits; else by one more pass over the points."""
        for _ in range(2):
            value, error = _core.cluster_objective(high, low, kept, known[0].origin, known[0].parts, threads)
            if error <= _DIGITS * value:
                return float(value)
            if not look_closer():
                break
        return squared_error(blocks, kept, threads)

    return LloydResult(
        labels=None if memory is None else memory.labels,
        centers=kept,
        masses=high[:, 0].copy(),
        inertia=inertia(),
        n_iter=len(reports),
        history=history,
        distances=spent[0],
        rechecks=spent[1],
        about=known[0],
        came_back=seen.again,
    )


class _Seen:
    """Whether centres come back: a step is a function of the centres, so from there on it goes round, in rounding.

    R. P. Brent's rule (docs/theory/references.md): the centres of steps 1, 2, 4, 8, … are remembered in turn, and each
    step's are compared with those. They are looked at where J has not fallen since then, which on a round is so sooner
    or later, and in other fits hardly ever.
    """

    def __init__(self) -> None:
        self.again = False
        self._step, self._next = 0, 1
        self._centers, self._objective = b"", float("inf")

    def add(self, centers: Floats, objective: float) -> None:
        """See the centres after one more step, and their objective."""
        self._step += 1
        if not objective < self._objective:
            self.again = self.again or centers.tobytes() == self._centers
        if self._step == self._next:
            self._next *= 2
            self._centers, self._objective = centers.tobytes(), objective


def lloyd(
    points: Any,
    weights: Floats | None,
    centers: Floats,
    *,
    max_iter: int = 300,
    tol: float = 1e-4,
    algorithm: str = "auto",
    threads: int = 1,
    relocates: bool = True,
    hook: Callable[[int, StepReport], None] | None = None,
) -> LloydResult:
    """Run k-means on points in memory from given centres; no estimator inside."""
    heaviest = 1.0 if weights is None else float(weights.max())
    scale = Scale.fitting(largest_of(points), heaviest, [Block(points, weights)])
    block = scale.block(Block(points, weights))
    result = alternate(
        lambda: iter([block]),
        scale.down(np.asarray(centers, dtype=np.float64)),
        max_iter=max_iter,
        tol=tol,
        threads=threads,
        memory=memory_for(block.points, len(centers), algorithm),
        relocates=relocates,
        stored=storage(scale, np.float64),
        hook=hook,
    )
    return unscaled(result, scale)


def storage(scale: Scale, kind: DTypeLike) -> Callable[[Floats], Floats]:
    """Make the function that rounds centres to what an array of this kind holds of them, in the units of the data."""

    def stored(centers: Floats) -> Floats:
        return scale.down(scale.up(centers).astype(kind).astype(np.float64))

    return stored


def unscaled(result: LloydResult, scale: Scale) -> LloydResult:
    """Bring a result back to the units of the data."""
    history = dict(result.history)
    history["objective"] = scale.up_squares(history["objective"])
    history["changed"] = scale.up_shifts(history["changed"])
    return replace(
        result,
        centers=scale.up(result.centers),
        masses=scale.up_weights(result.masses),
        inertia=float(scale.up_squares(result.inertia)),
        history=history,
    )


def _spread(stats: KMeansSums, state: KMeansState, blocks: Blocks, threads: int, *, whole: bool) -> Spread:
    """Take the mean of all rows from the sums of the clusters, then the spread about it in one pass."""
    mass, sums = stats.rounded(state.centers.shape, threads)
    total = float(np.add.reduce(mass))
    origin = np.add.reduce(sums, axis=0) / total
    if whole:
        return Spread(origin, spread(next(blocks()), origin, threads), total)
    return Spread(origin, squared_error(blocks, origin[None], threads), total)
