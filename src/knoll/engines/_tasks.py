"""What runs on a worker: reading partitions, applying partial steps to blocks, merging; and what blocks remember there.

States and statistics are sent as pickles of our own: arrays that dask takes from its messages may begin at any byte,
and kernels want them aligned. Blocks stay arrays of dask, which moves them if it must; they are copied where that is
so.

A task that reads or computes calls `require` first, by which its engine refuses a build other than the client's.
"""

from __future__ import annotations

import functools
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from knoll import _core
from knoll._common.blocks import Block, join_blocks
from knoll._common.passes import Budget, Memory, Prepare, Run, apply
from knoll._system import free_memory
from knoll.exceptions import BadData
from knoll.validation import aligned, check_points, check_weights

_SHARE = 5  # of the free memory of a worker, one share of so many is for what blocks remember
_KEPT = 4  # passes whose memories a worker keeps

Require = Callable[[], None]


# ---- partitions ----------------------------------------------------------------------------------------------------


def read_partition(require: Require, table: Any, number: int, width: int) -> Block:
    """Read one partition of a table, all of it."""
    require()
    blocks = []
    for item in table.part(number):
        X, weights = item if isinstance(item, tuple) else (item, None)
        blocks.append(_checked(X, weights, number, width).copy())
    return join_blocks(blocks) if blocks else Block(np.empty((0, width)), None)


def take_partition(require: Require, number: int, width: int, X: Any, weights: Any) -> Block:
    """Validate a partition of a collection."""
    require()
    return _checked(X, weights, number, width)


def _checked(X: Any, weights: Any, number: int, width: int) -> Block:
    if getattr(X, "ndim", None) == 2 and X.shape[0] == 0:
        return Block(np.empty((0, width)), None)
    points = check_points(X, finite=False)
    if points.shape[1] != width:
        raise BadData(
            f"partition {number} has {points.shape[1]} columns, and the first one {width}. All must have the same."
        )
    return Block(points, check_weights(weights, len(points), owner="fit", nonzero=False))


def prepare_block(block: Block, prepare: tuple[Prepare, ...]) -> Block:
    """Apply what rescales or drops rows."""
    return apply(prepare, _aligned(block)) if len(block.points) else block


def length_of(block: Block) -> int:
    """Return how many rows there are."""
    return len(block.points)


def first_rows(block: Block) -> bytes:
    """Return the first cell of the grid."""
    return pickle.dumps(_aligned(block).rows(0, _core.GRAIN).copy())


def assemble(rows: list[slice], *partitions: Block) -> Block:
    """Join these rows of partitions to a block."""
    return join_blocks([partition.rows(cut.start, cut.stop) for partition, cut in zip(partitions, rows, strict=True)])


# ---- one pass ------------------------------------------------------------------------------------------------------


def run_total(require: Require, work: bytes, name: str, numbers: list[int], *blocks: Block) -> bytes:
    """Apply a partial step to some blocks, and merge what it returns."""
    results = _applied(require, work, name, numbers, blocks)
    return pickle.dumps(functools.reduce(lambda a, b: a.merge(b), results))


def run_map(require: Require, work: bytes, name: str, numbers: list[int], *blocks: Block) -> bytes:
    """Apply a partial step to some blocks."""
    return pickle.dumps(_applied(require, work, name, numbers, blocks))


def merge(*stats: bytes) -> bytes:
    """Merge statistics."""
    return pickle.dumps(functools.reduce(lambda a, b: a.merge(b), map(pickle.loads, stats)))


def _applied(require: Require, work: bytes, name: str, numbers: list[int], blocks: tuple[Block, ...]) -> list[Any]:
    require()
    partial, state = pickle.loads(work)
    return [
        partial(_aligned(block), state, Run(1, _memory(name, number)))
        for number, block in zip(numbers, blocks, strict=True)
    ]


def _aligned(block: Block) -> Block:
    return Block(aligned(block.points), None if block.weights is None else aligned(block.weights))


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
