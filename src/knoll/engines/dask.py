"""Passes on the workers of a dask cluster.

The truth of a fit is a state of some kilobytes at the client. Everything on a worker can be made again: partitions are
read by pure tasks, so dask repeats them where a worker was lost, and what blocks remember is a cache. A task carries
the version and the instruction set of the client and refuses to run where they differ.

A pass is a few tasks a worker, each for several of the blocks that the worker has (docs/decisions/0035-dask.md).
"""

from __future__ import annotations

import functools
import math
import pickle
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from knoll import _core
from knoll._common.blocks import Block, BlockSource
from knoll._common.passes import Build, Partial, Prepare, seams
from knoll.engines import _tasks
from knoll.engines._watch import Cluster
from knoll.exceptions import BadData, EngineError, InvalidParameter

__all__ = ["DaskEngine", "DaskPasses"]

_FAN_IN = 8  # results that one task merges
_TASKS = 4  # of a pass for each thread of a worker at most, so that one which has less to do can take over some
_ENOUGH = (
    1 << 26
)  # bytes of rows: a task costs two to three milliseconds, and fewer rows are not worth one of their own
_RETRIES = 3  # of a task whose read fails


class DaskEngine:
    """Computes on the workers of a client."""

    def __init__(self, client: Any) -> None:
        self.cluster = Cluster(client)
        if not self.cluster.workers():
            raise EngineError("The dask cluster has no workers. Start some, or leave engine out to compute here.")
        self._require_alike()

    def passes(self, source: BlockSource, dtype: Any, threads: int) -> DaskPasses:
        """Let each partition be read by a worker; it is validated there."""
        rows: Any = source.make_blocks
        require = functools.partial(_require_build, Build.here())
        submit = functools.partial(self.cluster.client.submit, pure=False, retries=_RETRIES)
        if hasattr(rows, "futures"):
            width = rows.width
            partitions = [
                submit(_tasks.take_partition, require, number, width, X, weights)
                for number, (X, weights) in enumerate(rows.futures(self.cluster.client))
            ]
        elif hasattr(rows, "parts"):
            width = len(rows.columns)
            partitions = [
                submit(_tasks.read_partition, require, rows, number, width) for number in range(len(rows.parts))
            ]
        else:
            raise InvalidParameter(
                "engine: workers cannot call make_blocks, which lives in this process. Give knoll.blocks.open(...), "
                "whose files they can read, or fit a dask collection."
            )
        return DaskPasses(self.cluster, partitions, width, dtype, threads, names=source.names)

    def _require_alike(self) -> None:
        """Refuse, before any work, workers without knoll, or with another version or instruction set."""
        for address, found in self.cluster.run(Build.here().require).items():
            if isinstance(found, EngineError):
                raise EngineError(str(found).replace("a worker", f"worker {address}", 1))
            if isinstance(found, Exception) and not isinstance(found, OSError):  # one that is lost has no answer
                raise EngineError(
                    f"worker {address} cannot run knoll ({type(found).__name__}: {found}). Install the same version "
                    "of knoll there."
                )


def _require_build(build: Build) -> None:
    """Refuse, on a worker, to compute where it differs from the client; the message names the worker."""
    from distributed import get_worker

    build.require(f"worker {get_worker().address}")


class DaskPasses:
    """Passes over partitions that are futures of a client."""

    def __init__(
        self,
        cluster: Cluster,
        partitions: list[Any],
        columns: int,
        dtype: Any,
        threads: int,
        prepare: tuple[Prepare, ...] = (),
        names: Any = None,
    ) -> None:
        self._cluster, self._partitions, self._prepare = cluster, partitions, prepare
        self.columns, self.dtype, self.threads, self.names = columns, dtype, threads, names
        self._name = uuid.uuid4().hex
        self._submit = functools.partial(cluster.client.submit, pure=False, retries=_RETRIES)

    @functools.cached_property
    def _prepared(self) -> list[Any]:
        if not self._prepare:
            return self._partitions
        return [self._submit(_tasks.prepare_block, partition, self._prepare) for partition in self._partitions]

    @functools.cached_property
    def _lengths(self) -> list[int]:
        return self._cluster.gather([self._submit(_tasks.length_of, partition) for partition in self._prepared])

    @functools.cached_property
    def _blocks(self) -> list[Any]:
        """Blocks that begin at multiples of the grain, made of one partition and the first rows of the next ones."""
        blocks = []
        for pieces in seams(self._lengths, _core.GRAIN):
            whole = len(pieces) == 1 and pieces[0][1] == slice(0, self._lengths[pieces[0][0]])
            found = [self._prepared[number] for number, _ in pieces]
            blocks.append(found[0] if whole else self._submit(_tasks.assemble, [rows for _, rows in pieces], *found))
        return blocks

    @functools.cached_property
    def _groups(self) -> list[list[int]]:
        """The blocks of each task: some of those that one worker has."""
        self._cluster.gather([self._submit(_tasks.length_of, block) for block in self._blocks])
        owners, threads = self._cluster.where(self._blocks), self._cluster.workers()
        at: defaultdict[str, list[int]] = defaultdict(list)
        for number, block in enumerate(self._blocks):
            at[next(iter(owners.get(block.key) or ("",)))].append(number)
        width = sum(self._lengths) / len(self._blocks) * self.columns * self.dtype.itemsize  # of a block, about
        groups = []
        for worker, numbers in at.items():
            each = len(numbers) / threads.get(worker, 1)
            size = math.ceil(min(each, max(each / _TASKS, _ENOUGH / width)))
            groups += [numbers[i : i + size] for i in range(0, len(numbers), size)]
        return groups

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self._lengths)

    def first(self) -> Block:
        """Return the first rows: at least one cell of the grid."""
        if not self._blocks:
            raise BadData("The blocks have no row that counts. Give a row a weight > 0.")
        (cells,) = self._cluster.gather([self._submit(_tasks.first_rows, self._blocks[0])])
        block: Block = pickle.loads(cells)
        return block

    def total(self, partial: Partial[Any, Any], state: Any) -> Any:
        """Apply the partial step to every block; merge in tasks, and what a few tasks return here."""
        results = self._results(_tasks.run_total, partial, state)
        while len(results) > _FAN_IN:
            groups = [results[i : i + _FAN_IN] for i in range(0, len(results), _FAN_IN)]
            results = [self._submit(_tasks.merge, *group) for group in groups]
        return pickle.loads(_tasks.merge(*self._cluster.gather(results)))

    def map(self, partial: Partial[Any, Any], state: Any) -> Iterator[Any]:
        """Apply the partial step to every block, and yield what it returns in the order of the rows."""
        results = self._cluster.gather(self._results(_tasks.run_map, partial, state))
        found: dict[int, Any] = {}
        for numbers, result in zip(self._groups, results, strict=True):
            found.update(zip(numbers, pickle.loads(result), strict=True))
        yield from (found[number] for number in range(len(self._blocks)))

    def prepared(self, prepare: Prepare) -> DaskPasses:
        """Return passes over the rows that `prepare` makes of a partition."""
        made = (*self._prepare, prepare)
        return DaskPasses(self._cluster, self._partitions, self.columns, self.dtype, self.threads, made, self.names)

    def _results(self, task: Callable[..., bytes], partial: Partial[Any, Any], state: Any) -> list[Any]:
        require = functools.partial(_require_build, Build.here())
        work, blocks = pickle.dumps((partial, state)), self._blocks
        return [
            self._submit(task, require, work, self._name, numbers, *(blocks[number] for number in numbers))
            for numbers in self._groups
        ]
