"""A sample of rows that depends on their contents and weights alone (docs/decisions/0026-sample.md).

Each distinct row has a random number, a hash of (seed, its contents). The rows of smallest hash are the sample, each
with the weights of all its copies, summed exactly. So neither the order of the rows, nor the cuts between blocks, nor
"weight or repetition" changes it. Samples of blocks merge: the bound of what is kept only falls, so a row
that is kept in the end was kept from its first copy on.

A row of much weight must not be missed by chance. Those of at least 1/4096 of the total weight always belong to the
sample: candidates are counted by the rule of Misra and Gries, then a second pass sums their weights exactly. The
weights of the other rows are multiplied so that they stand for all that were not drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.blocks import Block, join_blocks
from knoll._common.exact_sums import ExactSums
from knoll._common.passes import Passes, Run
from knoll._typing import Floats, Ints

__all__ = ["Sketch", "draw_rows", "draw_sample", "row_hashes"]

_HEAVY = 4096  # a row of at least this fraction of the total weight belongs to every sample
_CANDIDATES = 2 * _HEAVY  # of those: twice as many as there can be, so that rounded counts miss none
_LARGEST = np.uint64(2**64 - 1)
_MULTIPLIERS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def draw_sample(passes: Passes, present: int, seed: int, size: int) -> Block:
    """Return all rows where there are at most `size`, of which `present` count; else a sample.

    A sample has at most `size` distinct rows and those of much weight, in an order of their hashes.
    """
    if present <= size:
        return join_blocks(list(passes.map(_rows, None)))
    found = passes.total(sketch, _Draw(seed, size))
    points, weights = found.rows.points, found.rows.weights.round()
    if found.complete:
        return Block(points, weights)
    mass = float(found.mass.round()[0])
    candidates = found.frequent.at_least(mass / _HEAVY)
    heavy = passes.total(_chosen, _Chosen(seed, candidates)) if len(candidates) else found.rows.first(0)
    each = heavy.weights.round()
    is_heavy = each * _HEAVY >= mass
    light = ~np.isin(found.rows.hashes, heavy.hashes[is_heavy])
    stands_for = (mass - math.fsum(each[is_heavy])) / math.fsum(weights[light]) if light.any() else 1.0
    return Block(
        np.concatenate([heavy.points[is_heavy], points[light]]),
        np.concatenate([each[is_heavy], weights[light] * stands_for]),
    )


def draw_rows(passes: Passes, present: int, seed: int, size: int) -> NDArray[Any]:
    """Return all rows where there are at most `size`, of which `present` are counted; else about `size`.

    A row is repeated as often as its share of the weight requires: row i of a sample with the weights w is there
    ⌊(w₁ + … + wᵢ)·size/Σw + ½⌋ − ⌊(w₁ + … + wᵢ₋₁)·size/Σw + ½⌋ times.
    """
    points, weights = draw_sample(passes, present, seed, size)
    if present <= size or weights is None:
        return points
    ends = np.floor(np.cumsum(weights) * (size / math.fsum(weights)) + 0.5).astype(np.int64)
    rows: NDArray[Any] = np.repeat(points, np.diff(ends, prepend=0), axis=0)
    return rows


# ---- what blocks have ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Draw:
    seed: int
    size: int


@dataclass(frozen=True)
class _Chosen:
    seed: int
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Distinct rows, by their hashes, with exact weights."""

    hashes: NDArray[np.uint64]  # (m,) rising
    points: NDArray[Any]  # (m, d)
    weights: ExactSums  # m

    @classmethod
    def of(cls, block: Block, hashes: NDArray[np.uint64], size: int | None, threads: int) -> SampledRows:
        """Join equal rows of a block; keep the `size` of smallest hash."""
        order, first = _grouped(hashes, block.points)
        kept = first if size is None else first[:size]
        end = first[len(kept)] if len(kept) < len(first) else len(order)
        order, group = order[:end], np.searchsorted(kept, np.arange(end), side="right") - 1
        if block.weights is None:
            weights = ExactSums.of_counts(np.diff(kept, append=end))
        else:
            weights = ExactSums.of_groups(block.weights[order], group, len(kept), threads)
        chosen = order[kept]
        return cls(hashes[chosen], block.points[chosen], weights)

    def merge(self, other: SampledRows) -> SampledRows:
        """Join what two sets of blocks have; neither is changed."""
        hashes, points = (np.concatenate(pair) for pair in ((self.hashes, other.hashes), (self.points, other.points)))
        order, first = _grouped(hashes, points)
        group = np.empty(len(order), dtype=np.int64)
        group[order] = np.searchsorted(first, np.arange(len(order)), side="right") - 1
        chosen = order[first]
        return SampledRows(hashes[chosen], points[chosen], self.weights.join(other.weights, group, len(first)))

    def below(self, bound: np.uint64) -> SampledRows:
        """Return those of a hash up to this one."""
        count = int(np.searchsorted(self.hashes, bound, side="right"))
        return self if count == len(self.hashes) else self.first(count)

    def first(self, size: int) -> SampledRows:
        """Return those of smallest hash."""
        kept = np.arange(min(size, len(self.hashes)))
        return SampledRows(self.hashes[kept], self.points[kept], self.weights.take(kept))


@dataclass(frozen=True, eq=False)
class Frequent:
    """Hashes that may have much weight: each has at most `count + missing`, one that is not here at most `missing`.

    Misra and Gries (1982), merged as by Agarwal et al. (2012): where there are too many, the largest count of those
    that go is subtracted from all.
    """

    hashes: NDArray[np.uint64]  # (m,) rising
    counts: Floats  # (m,)
    missing: float

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], weights: Floats | None, missing: float = 0.0) -> Frequent:
        """Count hashes, of which some may be equal."""
        distinct, inverse = np.unique(hashes, return_inverse=True)
        counts = np.bincount(inverse, weights).astype(np.float64)
        if len(distinct) > _CANDIDATES:
            least = float(np.partition(counts, -_CANDIDATES - 1)[-_CANDIDATES - 1])
            kept = counts > least
            distinct, counts, missing = distinct[kept], counts[kept] - least, missing + least
        return cls(distinct, counts, missing)

    def merge(self, other: Frequent) -> Frequent:
        """Count what both have; neither is changed."""
        hashes = np.concatenate([self.hashes, other.hashes])
        return self.of(hashes, np.concatenate([self.counts, other.counts]), self.missing + other.missing)

    def at_least(self, weight: float) -> NDArray[np.uint64]:
        """Return the hashes that may have this weight; counts are rounded, so a little less is let through."""
        return self.hashes[self.counts + self.missing >= weight * (1 - 2.0**-20)]


@dataclass(frozen=True, eq=False)
class Sketch:
    """What some blocks contribute to a sample."""

    size: int
    rows: SampledRows  # of smallest hash
    complete: bool  # no row is missing
    mass: ExactSums  # 1: the weight of all rows
    frequent: Frequent

    @property
    def bound(self) -> np.uint64:
        """The largest hash that a row of the sample may have."""
        return self.rows.hashes[-1] if len(self.rows.hashes) == self.size else _LARGEST

    def merge(self, other: Sketch) -> Sketch:
        """Join two sketches of one size; neither is changed."""
        mine, theirs = self.rows.below(other.bound), other.rows.below(self.bound)
        rows = mine.merge(theirs)
        left_out = len(mine.hashes) < len(self.rows.hashes) or len(theirs.hashes) < len(other.rows.hashes)
        return Sketch(
            self.size,
            rows.first(self.size) if len(rows.hashes) > self.size else rows,
            self.complete and other.complete and not left_out and len(rows.hashes) <= self.size,
            self.mass.merge(other.mass),
            self.frequent.merge(other.frequent),
        )


def sketch(block: Block, draw: _Draw, run: Run) -> Sketch:
    """Sketch the rows of a block; all have a weight > 0."""
    hashes = row_hashes(block.points, draw.seed)
    n = len(hashes)
    rows = SampledRows.of(block, hashes, draw.size, run.threads)
    if block.weights is None:
        mass = ExactSums.of_counts(np.array([n]))
    else:
        mass = ExactSums.of_groups(block.weights, np.zeros(n, dtype=np.int64), 1, run.threads)
    complete = len(rows.hashes) < draw.size or bool((hashes <= rows.hashes[-1]).all())
    return Sketch(draw.size, rows, complete, mass, Frequent.of(hashes, block.weights))


def _chosen(block: Block, chosen: _Chosen, run: Run) -> SampledRows:
    """Return the rows of these hashes."""
    hashes = row_hashes(block.points, chosen.seed)
    here = np.flatnonzero(np.isin(hashes, chosen.hashes))
    weights = None if block.weights is None else block.weights[here]
    return SampledRows.of(Block(block.points[here], weights), hashes[here], None, run.threads)


def _rows(block: Block, _: None, run: Run) -> Block:
    return block


# ---- hashes --------------------------------------------------------------------------------------------------------


def row_hashes(points: NDArray[Any], seed: int) -> NDArray[np.uint64]:
    """Hash the contents of each row, (n,): a function of the seed and the numbers, in float64 and without −0."""
    mixed = np.full(len(points), seed % 2**64, dtype=np.uint64)
    for column in points.T:
        mixed = _mix(mixed ^ (column.astype(np.float64) + 0.0).view(np.uint64))
    return mixed


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of each number, one to one (Steele, Lea and Flood 2014, the finaliser of SplitMix64)."""
    add, first, second = _MULTIPLIERS
    x = x + add
    x = (x ^ (x >> np.uint64(30))) * first
    x = (x ^ (x >> np.uint64(27))) * second
    return x ^ (x >> np.uint64(31))


def _grouped(hashes: NDArray[np.uint64], points: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return an order by hash in which equal rows are adjacent, and where in it a distinct row begins."""
    order = np.argsort(hashes, kind="stable")
    new = np.r_[True, hashes[order[1:]] != hashes[order[:-1]]][: len(order)]
    same = np.flatnonzero(~new)
    if len(same) and (points[order[same]] != points[order[same - 1]]).any():  # unequal rows of one hash
        order = np.lexsort((*points.T[::-1], hashes))
        rows = points[order]
        new = np.r_[True, (hashes[order[1:]] != hashes[order[:-1]]) | (rows[1:] != rows[:-1]).any(axis=1)]
    return order, np.flatnonzero(new)
