"""k-means, step by step: assign to the closest centre, average, again (docs/theory/03-kmeans.md, eq. 3.6–3.9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.exact_sums import ExactSums
from knoll._common.loop import History, StepReport, iterate
from knoll._common.passes import OneBlock, Passes, Run
from knoll._common.rescale import Rescaling, largest_of
from knoll._typing import Bools, Floats, Labels
from knoll.kmeans.assignment import (
    Memory,
    assign,
    cluster_sums,
    exact_total_scatter,
    memory_for,
    memory_size,
    round_moved,
    squared_error,
    step,
    total_scatter,
)
from knoll.kmeans.empty_clusters import relocate

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
    sums: ExactSums  # k·(d+1): mass of cluster c at c·(d+1), then its d coordinate sums
    distances: int  # evaluated
    rechecks: int  # rows that were decided again by the one distance

    def merge(self, other: KMeansSums) -> KMeansSums:
        """Add two sets of sums, exactly; neither is changed."""
        spent = self.distances + other.distances, self.rechecks + other.rechecks
        return KMeansSums(self.rows + other.rows, self.sums.merge(other.sums), *spent)


@dataclass(frozen=True)
class ClusterTable:
    """The sums of each cluster, masses in the first column, rounded once: high + low has 106 bits."""

    high: Floats  # (k, d+1)
    low: Floats  # (k, d+1)
    distances: int
    rechecks: int
    relabelled: int | None = None  # labels that differ from the step before; None: no memory has those

    @classmethod
    def filled(cls, shape: tuple[int, ...], fill: Callable[[Floats, Floats], None], *counts: int | None) -> Self:
        """Make the table of k clusters in d columns, `shape` (k, d), by a function that writes high and low."""
        k, d = shape
        high, low = np.empty((2, k * (d + 1)))
        fill(high, low)
        return cls(high.reshape(k, d + 1), low.reshape(k, d + 1), *counts)  # type: ignore[arg-type]

    @property
    def masses(self) -> Floats:
        """(k,)."""
        return self.high[:, 0]

    @property
    def coordinates(self) -> Floats:
        """(k, d)."""
        return self.high[:, 1:]


@dataclass(frozen=True)
class TotalScatter:
    """How far the data lies from its mean o: Σ w‖x − o‖² (eq. 3.8)."""

    origin: Floats  # (d,)
    value: float
    mass: float
    low: float | None = None  # value + low is the sum to about a hundred bits; None: not computed so closely yet

    @property
    def bounded(self) -> tuple[float, float, float]:
        """The sum as two floats, and what it may be off by: their own rounding and that of the terms."""
        d, block = len(self.origin), _core.SCATTER_COLUMNS
        if self.low is None:  # additions within a block of columns, and of blocks
            return self.value, 0.0, (min(d, block) + (d - 1) // block + 4) * _UNIT * self.value
        return self.value, self.low, (4 * (d + 4) + 2) * _UNIT**2 * self.value

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
    """Begin at these centres."""
    return KMeansState(np.array(centers, dtype=np.float64, order="C"))


def partial(block: Block, state: KMeansState, threads: int) -> KMeansSums:
    """Assign the rows of a block to their closest centres (eq. 3.6) and add each cluster up."""
    rows = block.points.shape[0]
    labels = np.empty(rows, dtype=np.int32)
    evaluated, again = assign(block.points, state.centers, labels, None, threads)
    return KMeansSums(rows, cluster_sums(block, labels, len(state.centers), threads), evaluated, again)


def _partial(block: Block, state: KMeansState, run: Run) -> KMeansSums:
    """Do the same with the memory of the block, where it may have one."""
    n, (k, d) = block.points.shape[0], state.centers.shape
    memory = run.memory.take()
    if memory is None and not run.memory.admits(memory_size(n, d, k)):
        return partial(block, state, run.threads)
    if memory is None:
        memory = memory_for(block.points, k, "auto")
    _, evaluated, again = step(memory, block, state.centers, run.threads)
    sums = KMeansSums(n, ExactSums.of_words(memory.sums), evaluated, again)
    run.memory.keep(memory)
    return sums


def round_sums(stats: KMeansSums, shape: tuple[int, ...], threads: int = 1) -> ClusterTable:
    """Round the sums of k clusters in d columns, `shape` (k, d)."""

    def fill(high: Floats, low: Floats) -> None:
        _core.exact_round(stats.sums.whole(), high, threads, low)

    return ClusterTable.filled(shape, fill, stats.distances, stats.rechecks)


def partial_remembered(block: Block, state: KMeansState, memory: Memory, threads: int) -> ClusterTable:
    """Do the same for all rows at once, with the memory of this very block, which skips what cannot have changed."""
    relabelled, evaluated, again = step(memory, block, state.centers, threads)
    return _remembered_table(state.centers.shape, memory, threads, evaluated, again, relabelled)


def _remembered_table(
    shape: tuple[int, ...],
    memory: Memory,
    threads: int,
    distances: int = 0,
    rechecks: int = 0,
    relabelled: int | None = None,
) -> ClusterTable:
    """Round the sums that a memory has; its next step changes those, and not the table."""

    def fill(high: Floats, low: Floats) -> None:
        memory.round_sums(high, threads, low)

    return ClusterTable.filled(shape, fill, distances, rechecks, relabelled)


def finish(
    stats: KMeansSums, state: KMeansState, scatter: TotalScatter, threads: int = 1
) -> tuple[KMeansState, KMeansReport]:
    """Average each cluster (eq. 3.7); a cluster without mass keeps the centre it had."""
    return average(round_sums(stats, state.centers.shape, threads), state, scatter, threads)


def average(
    table: ClusterTable, state: KMeansState, scatter: TotalScatter, threads: int = 1
) -> tuple[KMeansState, KMeansReport]:
    """Do the same from rounded sums."""
    centers = np.empty_like(state.centers)
    objective, error, changed = _core.cluster_means(
        table.high, table.low, state.centers, scatter.origin, scatter.bounded, centers, threads
    )  # eq. 3.9, 3.10
    return KMeansState(centers), KMeansReport(
        objective, changed, table.relabelled, table.distances, table.rechecks, table.masses.copy(), error
    )


# ---- many steps ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LloydResult:
    """Where the alternation ended: every point is with the closest of these centres."""

    labels: Labels | None  # (n,); None where the data came in blocks
    centers: Floats  # (k, d)
    masses: Floats  # (k,)
    inertia: float
    n_iter: int
    history: History
    distances: int
    rechecks: int
    scatter: TotalScatter
    came_back: bool  # the centres have been there before


def alternate(
    passes: Passes,
    centers: Floats,
    *,
    max_iter: int,
    tol: float,
    memory: Memory | None = None,
    relocates: bool = True,
    scatter: TotalScatter | None = None,
    stored: Callable[[Floats], Floats] = lambda centers: centers,
    hook: Callable[[int, StepReport], None] | None = None,
) -> LloydResult:
    """Step until the centres move by no more than `tol` of the variance, then assign to the centres that are kept.

    Sums are exact, so labels that stay give centres that stay, to the bit: "no label changed" is a shift of zero.
    Centres that come back, to the bit, would come back for ever: that is the end as well. `stored` rounds the centres
    to what will be kept of them. A memory is that of the only block.
    """
    run = _Alternation(passes, tol, memory, relocates, scatter)
    state, history = iterate(run.step, start(centers), max_iter=max_iter, stop=run.converged, hook=hook)
    return run.result(state, stored(state.centers), history)


class _Alternation:
    """One run of k-means from one start: the data, and what its steps have found so far."""

    def __init__(
        self,
        passes: Passes,
        tol: float,
        memory: Memory | None,
        relocates: bool,
        scatter: TotalScatter | None,
    ) -> None:
        self._passes, self._threads, self._tol = passes, passes.threads, tol
        self._memory, self._relocates = memory, relocates
        self._scatter = scatter  # None until the first step has the mean of all rows
        self._reports: list[KMeansReport] = []
        self._distances = self._rechecks = 0  # also those of the last assignment, which is no step
        self._cycle = _CycleDetector()
        self._before: Floats | None = None  # the centres that the last step began with

    def step(self, state: KMeansState) -> tuple[KMeansState, KMeansReport]:
        """Assign, fill empty clusters, average; make sure that the objective has its digits."""
        table = self._assign(state)
        if self._scatter is None:
            self._scatter = self._total_scatter(table)
        new, report = average(table, state, self._scatter, self._threads)
        if self._relocates and not report.masses.all():
            relocated = self._relocate(table, state, report.masses == 0)
            if relocated is not None:
                table = relocated
                new, report = average(table, state, self._scatter, self._threads)
        if not report.certain and self._refine_scatter():
            new, report = average(table, state, self._scatter, self._threads)
        if not report.certain:
            objective = squared_error(self._passes, new.centers)
            report = replace(report, objective=objective, error=0.0)
        self._reports.append(report)
        self._cycle.add(new.centers, report.objective)
        self._before = state.centers
        return new, report

    def converged(self, _: list[StepReport]) -> bool:
        """Return whether the last shift was within the tolerance, or the centres have come back."""
        assert self._scatter is not None
        return self._cycle.found or self._reports[-1].changed <= self._tol * self._scatter.mean_variance

    def result(self, state: KMeansState, kept: Floats, history: History) -> LloydResult:
        """Assign to the centres that are kept, unless the labels are theirs already."""
        memory = self._memory
        # a fixed point to the bit: squares of small shifts may vanish from the report
        fixed = self._before is not None and np.array_equal(self._before, state.centers)
        if memory is not None and fixed and np.array_equal(kept, state.centers):
            table = _remembered_table(kept.shape, memory, self._threads)
        else:
            table = self._assign(KMeansState(kept))
        inertia = self._inertia(table, kept)
        assert self._scatter is not None
        return LloydResult(
            labels=None if memory is None else memory.labels,
            centers=kept,
            masses=table.masses.copy(),
            inertia=inertia,
            n_iter=len(self._reports),
            history={**history, **self._counts()},
            distances=self._distances,
            rechecks=self._rechecks,
            scatter=self._scatter,
            came_back=self._cycle.found,
        )

    def _assign(self, state: KMeansState) -> ClusterTable:
        if self._memory is not None:
            table = partial_remembered(self._passes.first(), state, self._memory, self._threads)
        else:
            table = round_sums(self._passes.total(_partial, state), state.centers.shape, self._threads)
        self._distances += table.distances
        self._rechecks += table.rechecks
        return table

    def _relocate(self, table: ClusterTable, state: KMeansState, empty: Bools) -> ClusterTable | None:
        """Return the sums after each empty cluster received a far point; None where there is no such point."""
        found = relocate(self._passes, state.centers, empty, self._memory)
        if found is None:
            return None
        self._distances += found.distances
        self._rechecks += found.rechecks
        distances, rechecks = table.distances + found.distances, table.rechecks + found.rechecks
        if found.sums is not None:
            return round_sums(KMeansSums(0, found.sums, distances, rechecks), state.centers.shape, self._threads)
        memory, moves, threads = self._memory, found.moves, self._threads
        assert memory is not None
        assert moves is not None

        def fill(high: Floats, low: Floats) -> None:
            round_moved(memory, moves.block, moves.rows, moves.to, high, threads, low)

        return ClusterTable.filled(state.centers.shape, fill, distances, rechecks, table.relabelled)

    def _total_scatter(self, table: ClusterTable) -> TotalScatter:
        """Take the mean of all rows from the sums of the clusters, then the scatter about it in one pass."""
        mass = float(np.add.reduce(table.masses))
        origin = np.add.reduce(table.coordinates, axis=0) / mass
        return TotalScatter(origin, total_scatter(self._passes, origin), mass)

    def _refine_scatter(self) -> bool:
        """Take the total scatter to a hundred bits, once a fit; return whether that is new."""
        assert self._scatter is not None
        if self._scatter.low is not None:
            return False
        value, low = exact_total_scatter(self._passes, self._scatter.origin)
        self._scatter = replace(self._scatter, value=value, low=low)
        return True

    def _inertia(self, table: ClusterTable, centers: Floats) -> float:
        """Take J by eq. 3.9 where that has its digits; else by one more pass over the points."""
        for _ in range(2):
            assert self._scatter is not None
            value, error = _core.cluster_objective(
                table.high, table.low, centers, self._scatter.origin, self._scatter.bounded, self._threads
            )
            if error <= _DIGITS * value:
                return float(value)
            if not self._refine_scatter():
                break
        return squared_error(self._passes, centers)

    def _counts(self) -> History:
        """Return the columns of the history that only k-means has."""
        names = ["relabelled"] if self._memory is not None else []
        return {
            name: np.array([getattr(report, name) for report in self._reports], dtype=np.int64)
            for name in (*names, "distances", "rechecks")
        }


class _CycleDetector:
    """Finds centres that come back: a step is a function of the centres, so from there on they cycle, in rounding.

    R. P. Brent's rule (docs/theory/references.md): the centres of steps 1, 2, 4, 8, … are remembered in turn, and each
    step's are compared with those. They are compared where J has not fallen since then, which in a cycle happens sooner
    or later, and in other fits hardly ever.
    """

    def __init__(self) -> None:
        self.found = False
        self._step, self._next = 0, 1
        self._centers, self._objective = b"", float("inf")

    def add(self, centers: Floats, objective: float) -> None:
        """Add the centres after one more step, and their objective."""
        self._step += 1
        if not objective < self._objective:
            self.found = self.found or centers.tobytes() == self._centers
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
    """Run k-means on points in memory from the centres; no estimator inside."""
    heaviest = 1.0 if weights is None else float(weights.max())
    scaling = Rescaling.fitting(largest_of(points), heaviest, [Block(points, weights)])
    block = scaling.block(Block(points, weights))
    result = alternate(
        OneBlock(block, threads),
        scaling.down(np.asarray(centers, dtype=np.float64)),
        max_iter=max_iter,
        tol=tol,
        memory=memory_for(block.points, len(centers), algorithm),
        relocates=relocates,
        stored=storage(scaling, np.float64),
        hook=hook,
    )
    return unscaled(result, scaling)


def storage(scaling: Rescaling, dtype: DTypeLike) -> Callable[[Floats], Floats]:
    """Make the function that rounds centres to this dtype, in the units of the data."""

    def stored(centers: Floats) -> Floats:
        kept: Floats = scaling.down(scaling.up(centers).astype(dtype).astype(np.float64))
        return kept

    return stored


def unscaled(result: LloydResult, scaling: Rescaling) -> LloydResult:
    """Bring a result back to the units of the data."""
    history = dict(result.history)
    history["objective"] = scaling.from_units(history["objective"], length=2, weight=1)
    history["changed"] = scaling.from_units(history["changed"], length=2)
    return replace(
        result,
        centers=scaling.up(result.centers),
        masses=scaling.from_units(result.masses, weight=1),
        inertia=float(scaling.from_units(result.inertia, length=2, weight=1)),
        history=history,
    )
