"""DBSCAN of a table larger than memory: regions with a halo, one after the other; the labels of the whole table.

A region is clustered by itself, with all rows within 2ε of it. Then, for every row within ε of it, all neighbours are
at hand, so it is known to be core or not, and so is the closest core row of every own row. Rows further out have too
few neighbours here: they are core here only if they are core. So the clusters here are parts of clusters of the table.

Parts of different regions are of one cluster where they share a core row. Two core rows within ε of each other are
either of one region, or each is in the halo of the other's; so it is enough to compare the core rows within ε of a
border between regions. Numbers follow the lowest core row of all (docs/decisions/0038-regions.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from knoll._common.blocks import Block
from knoll._common.cancel import raise_if_cancelled
from knoll._common.scratch import NumberedRows, RowStore, Scratch
from knoll._common.unique_rows import find_unique_rows
from knoll._format import byte_size, plural
from knoll._typing import Bools, Floats, Ints
from knoll.density.radius_search import IndexSearch
from knoll.density.regions import Box, Cut, Region, Sample, copies, distribute, plan_cuts, reach_of
from knoll.exceptions import CostError
from knoll.validation import refuse_not_finite

__all__ = ["Budget", "RegionFit", "Rule"]

_NONE = np.iinfo(np.int64).max  # the lowest core row of a cluster that has none of its own
_SAMPLE = 1 << 16  # rows that cuts are planned on, and at most twice as many
_LEAST_ROOM = 256  # rows of a region, however little memory there is
_AT_ONCE = 1 << 22  # bytes of rows that are read and distributed at a time, at most
_WAITING = 8  # times as many rows wait for their regions, lest they are written by the dozen
_SAFETY = 0.9  # of the room of a region: a sample is a sample
_SHRINKS = 0.95  # of the rows of a region that is cut once more, another may have so many
_MOST_COPIES = 16  # of a row in the halos of others, on average
_PER_ROW = 48  # bytes of a row of a region beside its coordinates: cells, labels, marks, the union-find
_LABELS_AT_ONCE = 1 << 18  # rows whose labels are put into order at a time


@dataclass(frozen=True)
class Rule:
    """What decides labels: the radius and metric, the level, and the cluster of a border row."""

    search: IndexSearch
    min_samples: float
    border: str

    def cluster(self, points: NDArray[Any], weights: Floats | None) -> tuple[Ints, Bools]:
        """Label rows among themselves; those of weight 0 are absent: −1, not core."""
        if weights is None or weights.all():
            clusters = self.search.cluster(points, self.min_samples, weights, self.border)
            return clusters.labels, clusters.core
        labels, core = np.full(len(points), -1, dtype=np.int64), np.zeros(len(points), dtype=np.bool_)
        present = np.flatnonzero(weights)
        if len(present):
            labels[present], core[present] = self.cluster(points[present], weights[present])
        return labels, core

    def attach(self, queries: NDArray[Any], points: NDArray[Any], weights: Floats | None, found: Found) -> Ints:
        """Label rows that were absent, as `predict` does."""
        if not found.core.any():
            return np.full(len(queries), -1, dtype=np.int64)
        labels = self.search.attach(queries, points[found.core], found.labels[found.core], self.border)
        if self.border == "noise":
            labels[~self.search.has_enough(queries, points, self.min_samples, weights)] = -1
        return labels


class Found(NamedTuple):
    """Labels of rows, and which are core."""

    labels: Ints
    core: Bools


@dataclass(frozen=True)
class Budget:
    """How much is in memory at a time."""

    memory: int  # bytes
    room: int  # rows of a region with its halo
    chunk: int  # rows that are read at a time
    row: float  # bytes that a row of a region takes, its part of the chunks included

    @classmethod
    def of(cls, memory: int, columns: int, itemsize: int) -> Budget:
        """Divide the memory: some chunks of rows, and a region."""
        row = columns * itemsize + 16  # with its number and its weight
        chunk = max(1, min(_AT_ONCE, memory // 64) // row)
        in_region = row + 8 * columns + _PER_ROW  # measured: docs/decisions/0038-regions.md
        room = int((memory - 2 * _WAITING * chunk * row) / in_region)  # the second time for chunks on their way
        return cls(memory, max(_LEAST_ROOM, room), chunk, 4 / 3 * in_region)


class RegionFit:
    """The clusters of a table, found region by region; use it in a `with` statement.

    `read` takes the rows, once. `solve` finds the clusters. `labels` yields them in the order of the rows.
    """

    def __init__(self, rule: Rule, memory: int, folder: Path, estimator: Any) -> None:
        self._rule, self._memory, self._folder, self._estimator = rule, memory, folder, estimator
        self._reach = reach_of(rule.search.eps)
        with np.errstate(over="ignore"):
            self._halo = float(np.nextafter(np.float64(2) * self._reach, np.inf))
        self._open = contextlib.ExitStack()
        self.rows = 0
        self.lengths: list[int] = []  # of the blocks
        self.regions = self.halo_rows = self.core_rows = self.scratch_bytes = 0

    def __enter__(self) -> RegionFit:
        self._rows_file = self._open.enter_context(Scratch(self._folder))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    # ---- rows in ---------------------------------------------------------------------------------------------------

    def read(self, blocks: Iterable[Block], names: Any = None) -> None:
        """Write all rows to scratch; refuse what is not finite."""
        self._sample, present = Sample(_SAMPLE), False
        for block in blocks:
            if not self.rows:
                self._begin(block.points)
            for begin in range(0, len(block.points), self._budget.chunk):
                raise_if_cancelled()
                part = block.rows(begin, begin + self._budget.chunk)
                if not np.isfinite(part.points).all():
                    bad = np.flatnonzero(~np.isfinite(part.points).all(axis=1))
                    refuse_not_finite(part.points[bad], self._estimator, first_row=self.rows + int(bad[0]), names=names)
                m = len(part.points)
                numbers = np.arange(self.rows, self.rows + m)
                self._root.append(NumberedRows(numbers, part.points, part.weights))
                self._sample.add(part.points)
                present = present or part.weights is None or bool(part.weights.any())
                self.rows += m
            self.lengths.append(len(block.points))
        self.present = present

    def _begin(self, points: NDArray[Any]) -> None:
        self.columns, self.dtype = points.shape[1], points.dtype
        self._budget = Budget.of(self._memory, self.columns, points.dtype.itemsize)
        self._root = RowStore(self._rows_file, self.columns, points.dtype)

    # ---- regions ---------------------------------------------------------------------------------------------------

    def solve(self, cuts: Cut | Box | None = None) -> None:
        """Find the clusters; `cuts` are those to begin with, where they are not to be planned."""
        self._parts = _Parts(self._open.enter_context(Scratch(self._folder)), self._reach)
        self._labels = _LabelStore(self._open.enter_context(Scratch(self._folder)), self.rows)
        root = Region(Box.everything(self.columns), self._root)
        if cuts is None and self.rows > self._budget.room:
            sample = self._sample.rows()
            cuts = self._planned(sample, root)
            self._refuse_copies(sample, cuts)
        del self._sample
        if cuts is None or isinstance(cuts, Box):
            self._solve(root)
        else:
            self._divide(root, cuts, self._rows_file)
        self._numbers, self.clusters = self._parts.numbered()

    def _solve(self, region: Region) -> None:
        """Cluster a region, or cut it once more."""
        raise_if_cancelled()
        if region.store.rows <= self._budget.room:
            self._cluster(region)
            return
        sample = Sample(_SAMPLE)
        for rows in region.store.chunks(self._budget.chunk):
            sample.add(rows.points)
        cuts = self._planned(sample.rows(), region)
        if isinstance(cuts, Box):
            self._cluster_distinct(region)
        else:
            self._divide(region, cuts)

    def _planned(self, sample: NDArray[Any], region: Region) -> Cut | Box:
        return plan_cuts(sample, region.box, region.store.rows, _SAFETY * self._budget.room, self._halo)

    def _divide(self, region: Region, cuts: Cut | Box, done: Scratch | None = None) -> None:
        """Distribute the rows of a region to smaller ones, and solve those; `done` is not needed any more then."""
        with Scratch(self._folder) as scratch:
            rows = region.store.chunks(self._budget.chunk)
            wait = _WAITING * self._budget.chunk
            regions = distribute(rows, cuts, self._halo, scratch, self.columns, self.dtype, wait)
            self.scratch_bytes += scratch.size
            if done is not None:
                self.scratch_bytes += done.size
                done.close()
            for part in regions:
                if self._budget.room < part.store.rows > _SHRINKS * region.store.rows:
                    self._cluster_distinct(part)
                else:
                    self._solve(part)

    def _refuse_copies(self, sample: NDArray[Any], cuts: Cut | Box) -> None:
        times = copies(sample, cuts, self._halo) / len(sample)
        if times > _MOST_COPIES:
            raise CostError(
                f"DBSCAN: eps={self._rule.search.eps:g} is large beside the regions that fit into memory="
                f"{byte_size(self._memory)}: they would hold each row {times:.0f} times. {_REMEDY}"
            )

    # ---- one region ------------------------------------------------------------------------------------------------

    def _cluster(self, region: Region) -> None:
        if not region.store.rows:
            return
        rows = region.store.whole()
        found = Found(*self._rule.cluster(rows.points, rows.weights))
        self._keep(region, found, [(rows, found.labels, found.core)], rows.points, rows.weights)

    def _cluster_distinct(self, region: Region) -> None:
        """Cluster the distinct rows of a region that cannot be cut; each has the weights of all its copies."""
        points, weights, m = self._distinct(region)
        found = Found(*self._rule.cluster(points, weights))

        def answers() -> Iterator[tuple[NumberedRows, Ints, Bools]]:
            for rows in region.store.chunks(self._budget.room // 4):
                inverse = find_unique_rows(np.concatenate([points[:m], rows.points]), self._threads).inverse[m:]
                known = (inverse < m) & (True if rows.weights is None else rows.weights != 0)
                inverse = np.where(known, inverse, 0)
                labels = np.where(known, found.labels[inverse], -1) if m else np.full(len(known), -1)
                yield rows, labels, known & found.core[inverse] if m else known

        self._keep(region, found, answers(), points, weights)

    @property
    def _threads(self) -> int:
        return self._rule.search.threads

    def _distinct(self, region: Region) -> tuple[NDArray[Any], Floats, int]:
        """Return the m distinct rows with a weight, and weights; after them copies, where one number is no exact sum.

        A sum of weights that float64 cannot hold is written as several addends.
        """
        points, weights, m = np.empty((0, self.columns), dtype=self.dtype), np.empty(0), 0
        for rows in region.store.chunks(self._budget.room // 4):
            more = np.ones(len(rows.points)) if rows.weights is None else rows.weights
            points = np.concatenate([points, rows.points[more != 0]])
            weights = np.concatenate([weights, more[more != 0]])
            if not len(points):
                continue
            unique = find_unique_rows(points, self._threads)
            taken, weights = unique.sum_weights(weights, self._threads)
            points, m = np.ascontiguousarray(points[taken]), len(unique.index)
            if len(points) > self._budget.room:
                self._refuse(region)
        return points, weights, m

    def _refuse(self, region: Region) -> None:
        n = region.store.rows
        raise CostError(
            f"DBSCAN: {plural(n, 'row')} within a few eps={self._rule.search.eps:g} of each other cannot be divided "
            f"into regions. Together they take about {byte_size(int(n * self._budget.row))}, more than memory="
            f"{byte_size(self._memory)}. {_REMEDY}"
        )

    def _keep(
        self,
        region: Region,
        found: Found,
        answers: Iterable[tuple[NumberedRows, Ints, Bools]],
        points: NDArray[Any],
        weights: Floats | None,
    ) -> None:
        """Write down the labels of own rows, and what joins the clusters to those of other regions."""
        part = self._parts.begin(region.box, int(found.labels.max(initial=-1)) + 1)
        for rows, labels, core in answers:
            own = region.box.owns(rows.points)
            part.add(rows, labels, core, own)
            if rows.weights is not None and not rows.weights.all():
                absent = own & (rows.weights == 0)
                labels[absent] = self._rule.attach(rows.points[absent], points, weights, found)
            numbers, labels, core = rows.numbers[own], labels[own], core[own]
            labels[labels >= 0] += part.begin
            self._labels.append(numbers, 2 * labels + core)
            self.halo_rows += len(own) - len(numbers)
            self.core_rows += int(np.count_nonzero(core))
        self._parts.end(part)
        self.regions += 1

    # ---- labels out ------------------------------------------------------------------------------------------------

    def labels(self) -> Iterator[Found]:
        """Yield labels and core flags, some rows at a time, in the order of the rows."""
        for values in self._labels:
            yield Found(self._numbers[values >> 1], (values & 1).astype(np.bool_))


_REMEDY = "Raise memory, take a smaller eps, or fit a sample of the rows and predict the others."


# ---- clusters of all regions ---------------------------------------------------------------------------------------


class _Part:
    """The clusters of one region: their numbers begin at `begin`."""

    def __init__(self, box: Box, begin: int, clusters: int, reach: float) -> None:
        self.box, self.begin, self._reach = box, begin, reach
        self.lowest = np.full(clusters, _NONE, dtype=np.int64)  # own core row of each
        self.shared: list[NDArray[np.int64]] = []  # (2, m) core rows that other regions need, and their clusters

    def add(self, rows: NumberedRows, labels: Ints, core: Bools, own: Bools) -> None:
        """Add some rows of the region."""
        mine = np.flatnonzero(own & core)[::-1]
        lowest = np.full(len(self.lowest), _NONE, dtype=np.int64)
        lowest[labels[mine]] = rows.numbers[mine]  # of equal indices the last one counts, which is the lowest row
        np.minimum(self.lowest, lowest, out=self.lowest)
        near = np.flatnonzero(core & self.box.shares(rows.points, self._reach))
        self.shared.append(np.stack([rows.numbers[near], labels[near] + self.begin]))


class _Parts:
    """The clusters of all regions, and which of them are one."""

    def __init__(self, scratch: Scratch, reach: float) -> None:
        self._scratch, self._reach = scratch, reach
        self._count = 0
        self._lowest: list[Ints] = []
        self._joins: list[NDArray[np.int64]] = []
        self._shared: list[tuple[Box, int, int]] = []  # of each region: where its shared rows are, and how many

    def begin(self, box: Box, clusters: int) -> _Part:
        """Begin with the clusters of a region."""
        part = _Part(box, self._count, clusters, self._reach)
        self._count += clusters
        return part

    def end(self, part: _Part) -> None:
        """Join them to those of the regions before, where they have a core row in common."""
        self._lowest.append(part.lowest)
        rows, clusters = np.concatenate(part.shared, axis=1)
        if not len(rows):
            return
        for box, begin, count in self._shared:
            if not box.touches(part.box, self._reach):
                continue
            theirs = np.empty((2, count), dtype=np.int64)
            self._scratch.read(begin, theirs)
            at = np.minimum(np.searchsorted(rows, theirs[0]), len(rows) - 1)  # rows increase
            same = rows[at] == theirs[0]
            pairs = theirs[1, same] * len(part.lowest) + (clusters[at[same]] - part.begin)
            of_them, mine = np.divmod(np.unique(pairs), max(len(part.lowest), 1))
            self._joins.append(np.stack([of_them, mine + part.begin]))
        self._shared.append((part.box, self._scratch.append(np.stack([rows, clusters])), len(rows)))

    def numbered(self) -> tuple[Ints, int]:
        """Return the cluster of each part, by the lowest core row, and −1 at the end; and how many there are."""
        left, right = np.concatenate([np.empty((2, 0), dtype=np.int64), *self._joins], axis=1)
        if not self._count:
            return np.array([-1], dtype=np.int64), 0
        links = coo_array((np.ones(len(left), dtype=np.int8), (left, right)), shape=(self._count, self._count))
        components, component = connected_components(links, directed=False)
        lowest = np.full(components, _NONE, dtype=np.int64)
        np.minimum.at(lowest, component, np.concatenate(self._lowest))
        number = np.empty(components, dtype=np.int64)
        number[np.argsort(lowest, kind="stable")] = np.arange(components)
        # A part without a core row of its own, and without one in common with others, has no rows outside of halos.
        return np.append(number[component], -1), int(np.count_nonzero(lowest < _NONE))


class _LabelStore:
    """Values of rows, which come region by region, and are read in the order of the rows."""

    def __init__(self, scratch: Scratch, rows: int) -> None:
        self._scratch, self._rows = scratch, rows
        self._extents: list[list[tuple[int, int]]] = [[] for _ in range(0, rows, _LABELS_AT_ONCE)]

    def append(self, numbers: Ints, values: Ints) -> None:
        """Write the values of rows, whose numbers increase."""
        if not len(numbers):
            return
        first, last = int(numbers[0]) // _LABELS_AT_ONCE, int(numbers[-1]) // _LABELS_AT_ONCE
        ends = np.searchsorted(numbers, np.arange(first, last + 2) * _LABELS_AT_ONCE).tolist()
        for bucket, begin, end in zip(range(first, last + 1), ends, ends[1:], strict=False):
            if begin == end:
                continue
            offsets = (numbers[begin:end] - bucket * _LABELS_AT_ONCE).astype(np.uint32)
            at = self._scratch.append(offsets)
            self._scratch.append(values[begin:end])
            self._extents[bucket].append((at, end - begin))

    def __iter__(self) -> Iterator[Ints]:
        for bucket, extents in enumerate(self._extents):
            values = np.empty(min(_LABELS_AT_ONCE, self._rows - bucket * _LABELS_AT_ONCE), dtype=np.int64)
            for begin, count in extents:
                offsets, found = np.empty(count, dtype=np.uint32), np.empty(count, dtype=np.int64)
                self._scratch.read(begin, offsets)
                self._scratch.read(begin + offsets.nbytes, found)
                values[offsets] = found
            yield values
