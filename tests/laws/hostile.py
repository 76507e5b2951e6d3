"""An engine that does whatever a cluster may do to a fit, in one process and from one seed.

Rows are cut into partitions anywhere, some empty. Partial steps run in a random order, some twice, with any number of
threads. Function, state and result are pickled on every hop. Memories of blocks are dropped, and late tasks of an
earlier pass run on them. Results merge as they happen to arrive, and stay in use by others: a merge that changes an
input is caught.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from knoll import _core
from knoll._common.blocks import Block, join_blocks
from knoll._common.passes import Budget, Memory, Run, apply, seams

__all__ = ["HostileEngine", "sent"]


def sent(value: Any) -> Any:
    """What arrives in another process."""
    return pickle.loads(pickle.dumps(value))


class HostileEngine:
    """An engine for `fit_blocks`; counts the bytes of statistics that were sent."""

    def __init__(self, seed: int, partitions: int = 5) -> None:
        self.random = np.random.default_rng(seed)
        self.partitions = partitions
        self.sent_bytes = 0

    def passes(self, source: Callable[[], Iterator[Block]], dtype: Any, threads: int) -> HostilePasses:
        """Cut the rows anywhere."""
        rows = join_blocks(list(source()))
        n = len(rows.points)
        ends = np.sort(self.random.integers(0, n + 1, self.partitions - 1)).tolist()
        cuts = zip([0, *ends], [*ends, n], strict=True)
        return HostilePasses(self, [_frozen(rows.rows(a, b)) for a, b in cuts], dtype)


class HostilePasses:
    """Passes over partitions."""

    threads = 2

    def __init__(self, engine: HostileEngine, partitions: list[Block], dtype: Any, prepare: tuple[Any, ...] = ()):
        self._engine, self._random, self._partitions = engine, engine.random, partitions
        self.dtype, self._prepare = dtype, prepare
        self._memories: dict[int, Memory] = {}
        self._late: tuple[Any, Any] | None = None  # partial and state of an earlier pass
        self.columns = partitions[0].points.shape[1]

    @property
    def rows(self) -> int:
        return sum(len(block.points) for block in self._blocks())

    def first(self) -> Block:
        return self._blocks()[0]

    def prepared(self, prepare: Any) -> HostilePasses:
        return HostilePasses(self._engine, self._partitions, self.dtype, (*self._prepare, sent(prepare)))

    def map(self, partial: Any, state: Any) -> Iterator[Any]:
        results = self._results(partial, state)
        yield from (results[number] for number in sorted(results))

    def total(self, partial: Any, state: Any) -> Any:
        arrived = list(self._results(partial, state).values())
        while len(arrived) > 1:
            a, b = (arrived.pop(int(self._random.integers(len(arrived)))) for _ in range(2))
            before = pickle.dumps((a, b))
            merged = a.merge(b)
            assert pickle.dumps((a, b)) == before, f"{type(a).__name__}.merge changes its input"
            arrived.append(self._received(merged))
        return arrived[0]

    def _results(self, partial: Any, state: Any) -> dict[int, Any]:
        blocks = self._blocks()
        results = {}
        twice = self._random.integers(0, len(blocks), 2).tolist()
        for number in self._random.permutation([*range(len(blocks)), *twice]).tolist():
            if self._late is not None and self._random.random() < 0.3:  # a task that nobody waits for any more
                self._run(*self._late, number, blocks[number])
            results[number] = self._received(self._run(partial, state, number, blocks[number]))
        self._late = partial, state
        return results

    def _run(self, partial: Any, state: Any, number: int, block: Block) -> Any:
        if number not in self._memories or self._random.random() < 0.2:
            self._memories[number] = Memory(Budget(1 << 30))
        run = Run(int(self._random.integers(1, 4)), self._memories[number])
        return sent(partial)(block, sent(state), run)

    def _received(self, stats: Any) -> Any:
        data = pickle.dumps(stats)
        self._engine.sent_bytes += len(data)
        return pickle.loads(data)

    def _blocks(self) -> list[Block]:
        partitions = [apply(self._prepare, block) for block in self._partitions]
        lengths = [len(block.points) for block in partitions]
        cut = [
            [partitions[number].rows(rows.start, rows.stop) for number, rows in block]
            for block in seams(lengths, _core.GRAIN)
        ]
        return [_frozen(join_blocks(pieces)) for pieces in cut]


def _frozen(block: Block) -> Block:
    """Nobody may write into a block."""
    own = block.copy()
    for array in own:
        if array is not None:
            array.flags.writeable = False
    return own
