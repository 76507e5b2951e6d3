"""Passes on the workers of a dask cluster. The only module that knows dask.

The truth of a fit is a state of some kilobytes at the client. Everything on a worker can be made again: partitions are
read by pure tasks, so dask repeats them where a worker was lost, and what blocks remember is a cache. A task carries
the version and the instruction set of the client and refuses to run where they differ.

States and statistics travel as pickles of our own: arrays that dask takes from its messages may begin at any byte, and
kernels want them aligned. Blocks stay arrays of dask, which moves them if it must; they are copied where that is so.
"""

from __future__ import annotations

import functools
import pickle
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from knoll import _core
from knoll._common.blocks import Block, BlockSource, join_blocks
from knoll._common.passes import Budget, Build, Memory, Part, Prepare, Run, apply, seams
from knoll._system import free_memory
from knoll.exceptions import BadData, EngineError, InvalidParameter
from knoll.validation import check_points, check_weights, walkable

__all__ = ["DaskEngine"]

_FAN_IN = 8  # results that one task merges
_SHARE = 5  # of the free memory of a worker, one part of so many is for what blocks remember
_KEPT = 4  # passes whose memories a worker keeps
_RETRIES = 3  # of a task whose worker is lost, or whose read fails


class DaskEngine:
    """Computes on the workers of a client."""

    def __init__(self, client: Any) -> None:
        self.client = client
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise EngineError("The dask cluster has no workers. Start some, or leave engine out to compute here.")

    def passes(self, source: BlockSource, dtype: Any, threads: int) -> DaskPasses:
        """Let each partition be read by a worker; it is validated there."""
        parts, columns = getattr(source.make_blocks, "parts", None), getattr(source.make_blocks, "columns", ())
        if parts is None:
            raise InvalidParameter(
                "engine: workers cannot call make_blocks, which lives in this process. Give knoll.blocks.open(...), "
                "whose files they can read."
            )
        width, client = len(columns), self.client
        submit = functools.partial(client.submit, pure=False, retries=_RETRIES)
        read = [submit(_read, Build.here(), source.make_blocks, number, width) for number in range(len(parts))]
        return DaskPasses(client, read, width, dtype, threads, names=source.names)


class DaskPasses:
    """Passes over partitions that are futures of a client."""

    def __init__(
        self,
        client: Any,
        partitions: list[Any],
        columns: int,
        dtype: Any,
        threads: int,
        prepare: tuple[Prepare, ...] = (),
        names: Any = None,
    ) -> None:
        self._client, self._partitions, self._prepare = client, partitions, prepare
        self.columns, self.dtype, self.threads, self.names = columns, dtype, threads, names
        self._name = uuid.uuid4().hex
        self._submit = functools.partial(client.submit, pure=False, retries=_RETRIES)

    @functools.cached_property
    def _lengths(self) -> list[int]:
        found: list[int] = self._client.gather([self._submit(_length, part) for part in self._prepared])
        return found

    @functools.cached_property
    def _prepared(self) -> list[Any]:
        if not self._prepare:
            return self._partitions
        return [self._submit(_prepare, part, self._prepare) for part in self._partitions]

    @functools.cached_property
    def _blocks(self) -> list[Any]:
        """Blocks that begin at multiples of the grain, made of one partition and the first rows of the next ones."""
        pieces = seams(self._lengths, _core.GRAIN)
        return [
            self._submit(_assemble, [rows for _, rows in block], *(self._prepared[number] for number, _ in block))
            for block in pieces
        ]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self._lengths)

    def first(self) -> Block:
        """Return the first rows: at least one cell of the grid."""
        if not self._blocks:
            raise BadData("The blocks have no row that counts. Give a row a weight > 0.")
        cells: Block = pickle.loads(self._submit(_first, self._blocks[0]).result())
        return cells

    def total(self, part: Part[Any, Any], state: Any) -> Any:
        """Apply the part to every block; merge in tasks, a few at a time, and the rest here."""
        results = self._results(part, state)
        while len(results) > _FAN_IN:
            groups = [results[i : i + _FAN_IN] for i in range(0, len(results), _FAN_IN)]
            results = [self._submit(_merge, *group) for group in groups]
        return pickle.loads(_merge(*self._client.gather(results)))

    def map(self, part: Part[Any, Any], state: Any) -> Iterator[Any]:
        """Apply the part to every block, and yield what it returns in the order of the rows."""
        for future in self._results(part, state):
            yield pickle.loads(future.result())

    def prepared(self, prepare: Prepare) -> DaskPasses:
        """Return passes over the rows that `prepare` makes of a partition."""
        made = (*self._prepare, prepare)
        return DaskPasses(self._client, self._partitions, self.columns, self.dtype, self.threads, made, self.names)

    def _results(self, part: Part[Any, Any], state: Any) -> list[Any]:
        here, work = Build.here(), pickle.dumps((part, state))
        return [
            self._submit(_run, here, work, (self._name, number), block) for number, block in enumerate(self._blocks)
        ]


# ---- tasks ---------------------------------------------------------------------------------------------------------


def _read(build: Build, table: Any, number: int, width: int) -> Block:
    """Read one part of a table, all of it."""
    build.require(_worker())
    blocks = []
    for item in table.part(number):
        X, weights = item if isinstance(item, tuple) else (item, None)
        points = check_points(X, finite=False)
        blocks.append(Block(points, check_weights(weights, len(points), owner="fit_blocks", nonzero=False)).copy())
    if not blocks:
        import numpy as np

        return Block(np.empty((0, width)), None)
    return join_blocks(blocks)


def _prepare(block: Block, prepare: tuple[Prepare, ...]) -> Block:
    return apply(prepare, _aligned(block)) if len(block.points) else block


def _aligned(block: Block) -> Block:
    return Block(walkable(block.points), None if block.weights is None else walkable(block.weights))


def _length(block: Block) -> int:
    return len(block.points)


def _first(block: Block) -> bytes:
    return pickle.dumps(block.rows(0, _core.GRAIN).copy())


def _assemble(rows: list[slice], *partitions: Block) -> Block:
    return join_blocks([part.rows(cut.start, cut.stop) for part, cut in zip(partitions, rows, strict=True)])


def _run(build: Build, work: bytes, key: tuple[str, int], block: Block) -> bytes:
    build.require(_worker())
    part, state = pickle.loads(work)
    return pickle.dumps(part(_aligned(block), state, Run(1, _memory(*key))))


def _merge(*stats: bytes) -> bytes:
    return pickle.dumps(functools.reduce(lambda a, b: a.merge(b), map(pickle.loads, stats)))


def _worker() -> str:
    from distributed import get_worker

    return f"worker {get_worker().address}"


# ---- what blocks remember: a cache of each worker ------------------------------------------------------------------

_memories: OrderedDict[str, tuple[Budget, dict[int, Memory]]] = OrderedDict()
_lock = threading.Lock()


def _memory(name: str, number: int) -> Memory:
    """Return what a block of these passes remembers here; those of the oldest passes are forgotten."""
    with _lock:
        if name not in _memories:
            while len(_memories) >= _KEPT:
                _memories.popitem(last=False)
            _memories[name] = Budget(free_memory() // _SHARE), {}
        budget, blocks = _memories[name]
        return blocks.setdefault(number, Memory(budget))
