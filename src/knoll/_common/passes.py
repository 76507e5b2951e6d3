"""Passes over rows that come in blocks: one merged answer per pass, from blocks that stay where they are.

An algorithm hands over its partial step, a module-level function partial(block, state, run), and a state that
pickles. A `Passes` applies it to the blocks: a loop over those of this process (`LocalPasses`), one array (`OneBlock`),
or the workers of an engine. The result has the same bits for all of them, since

- partial statistics merge exactly, in any order, and `merge` changes neither of its inputs, so that a lost or repeated
  one can be computed again from the block and the state;
- blocks begin at multiples of 4096 rows of the global order (`seams`), the cells within which kernels add up in floats;
- what a block remembers between passes (`Run.memory`) saves work and nothing else: it may be lost at any time;
- all processes compute with one instruction set (`Build`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

import knoll
from knoll import _core
from knoll._common.blocks import Block, BlockSource, regrid
from knoll._system import free_memory
from knoll.exceptions import BadData, EngineError
from knoll.validation import refuse_not_finite

__all__ = [
    "Budget",
    "Build",
    "Engine",
    "LocalPasses",
    "Memory",
    "OneBlock",
    "Partial",
    "Passes",
    "Prepare",
    "Run",
    "Stats",
    "apply",
    "refuse_not_finite_rows",
    "seams",
]

State = TypeVar("State")
Result = TypeVar("Result")
_ROWS_AT_ONCE = 1 << 23  # bytes: smaller blocks are joined, lest the calls cost more than the rows
_SHARE = 8  # of the free memory, one share of so many is for what blocks remember


@dataclass
class Budget:
    """Bytes that the memories of all blocks may take together."""

    free: int = 0


@dataclass
class Memory:
    """What one block remembers of the last pass, so that the next can skip what cannot have changed.

    Blocks come in turn, so those that are first keep theirs: to make room for the newest would drop each just before
    it is needed.
    """

    budget: Budget = field(default_factory=Budget)
    reserved: int = 0
    _value: Any = None

    def take(self) -> Any:
        """Return what was kept, which is then no longer here: two partial steps never share it. None: nothing was."""
        value, self._value = self._value, None
        return value

    def admits(self, size: int) -> bool:
        """Return whether so many bytes may be kept, and reserve them."""
        more = size - self.reserved
        if more > self.budget.free:
            return False
        if more > 0:
            self.budget.free -= more
            self.reserved = size
        return True

    def keep(self, value: Any) -> None:
        """Keep what `admits` let in, until the next pass."""
        self._value = value


@dataclass(frozen=True)
class Run:
    """Of a partial step: threads, and what its block remembers of earlier passes. The result depends on neither."""

    threads: int = 1
    memory: Memory = field(default_factory=Memory)


class Stats(Protocol):
    """Partial statistics."""

    def merge(self, other: Self, /) -> Self:
        """Return the statistics of both; neither is changed."""
        ...


Merges = TypeVar("Merges", bound=Stats)
Partial = Callable[[Block, State, Run], Result]
Prepare = Callable[[Block], Block]  # rescales rows, or drops some; pickles


class Passes(Protocol):
    """Rows in blocks, and who applies functions to them."""

    @property
    def rows(self) -> int:
        """How many rows there are; may take a pass to find out."""
        ...

    @property
    def columns(self) -> int:
        """How many columns they have."""
        ...

    @property
    def dtype(self) -> Any:
        """The dtype of the fit: float64 or float32."""
        ...

    @property
    def threads(self) -> int:
        """How many threads this process may use."""
        ...

    def first(self) -> Block:
        """Return the first rows: at least one cell of the grid, or all there are."""
        ...

    def total(self, partial: Partial[State, Merges], state: State) -> Merges:
        """Apply the partial step to every block and merge what it returns."""
        ...

    def map(self, partial: Partial[State, Result], state: State) -> Iterator[Result]:
        """Apply the partial step to every block and yield what it returns, in the order of the rows."""
        ...

    def prepared(self, prepare: Prepare) -> Passes:
        """Return passes over the rows that `prepare` makes of a block; the grid counts the rows that it leaves."""
        ...


class Engine(Protocol):
    """Makes passes over a user's blocks, such as one that computes on other processes."""

    def passes(self, source: BlockSource, dtype: Any, threads: int) -> Passes:
        """Return passes over the blocks that `source()` yields; they are validated, and cut anywhere."""
        ...


# ---- in this process -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OneBlock:
    """Rows that are one array."""

    block: Block
    threads: int = 1

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.block.points.shape[0])

    @property
    def columns(self) -> int:
        """How many columns they have."""
        return int(self.block.points.shape[1])

    @property
    def dtype(self) -> Any:
        """Their dtype."""
        return self.block.points.dtype

    def first(self) -> Block:
        """Return all rows."""
        return self.block

    def total(self, partial: Partial[State, Merges], state: State) -> Merges:
        """Apply the partial step."""
        return partial(self.block, state, Run(self.threads))

    def map(self, partial: Partial[State, Result], state: State) -> Iterator[Result]:
        """Apply the partial step."""
        yield partial(self.block, state, Run(self.threads))

    def prepared(self, prepare: Prepare) -> OneBlock:
        """Prepare the rows, once."""
        return OneBlock(prepare(self.block), self.threads)


class LocalPasses:
    """Blocks read one after the other in this process, such as those of a file larger than memory."""

    def __init__(
        self,
        source: Callable[[], Iterator[Block]],
        dtype: Any,
        threads: int,
        prepare: tuple[Prepare, ...] = (),
        memory: int | None = None,
    ) -> None:
        self._source, self._prepare = source, prepare
        self.names = getattr(source, "names", None)  # of the columns, for messages
        self.dtype, self.threads = dtype, threads
        self._budget = Budget(free_memory() // _SHARE if memory is None else memory)
        self._memories: dict[int, Memory] = {}

    @functools.cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(len(block.points) for block in self._blocks())

    @functools.cached_property
    def columns(self) -> int:
        """How many columns they have."""
        return int(self.first().points.shape[1])

    def first(self) -> Block:
        """Return the first rows."""
        block = next(self._blocks(), None)
        if block is None:
            raise BadData("The blocks have no row that counts. Give a row a weight > 0.")
        return block

    def total(self, partial: Partial[State, Merges], state: State) -> Merges:
        """Apply the partial step to every block and merge what it returns."""
        return functools.reduce(lambda a, b: a.merge(b), self.map(partial, state))

    def map(self, partial: Partial[State, Result], state: State) -> Iterator[Result]:
        """Apply the partial step to every block, in order."""
        for number, block in enumerate(self._blocks()):
            memory = self._memories.setdefault(number, Memory(self._budget))
            yield partial(block, state, Run(self.threads, memory))

    def prepared(self, prepare: Prepare) -> LocalPasses:
        """Return passes over the rows that `prepare` makes of a block."""
        return LocalPasses(self._source, self.dtype, self.threads, (*self._prepare, prepare))

    def _blocks(self) -> Iterator[Block]:
        return regrid((apply(self._prepare, block) for block in self._source()), _core.GRAIN, _ROWS_AT_ONCE)


def apply(prepare: Iterable[Prepare], block: Block) -> Block:
    """Prepare a block by one function after the other."""
    return functools.reduce(lambda rows, each: each(rows), prepare, block)


def refuse_not_finite_rows(passes: Passes, estimator: Any) -> None:
    """Name the first row that is not finite by its number among all, as `refuse_not_finite` does."""
    row, names = 0, getattr(passes, "names", None)
    for rows, first, bad in passes.map(_not_finite, None):
        if len(bad):
            refuse_not_finite(bad, estimator, first_row=row + first, names=names)
        row += rows


def _not_finite(block: Block, _: None, run: Run) -> tuple[int, int, NDArray[Any]]:
    """Return how many rows there are, the first that is not finite, and all that are not."""
    here = np.flatnonzero(~np.isfinite(block.points).all(axis=1))
    return len(block.points), int(here[0]) if len(here) else 0, block.points[here]


# ---- on other processes --------------------------------------------------------------------------------------------


def seams(lengths: list[int], grain: int) -> list[list[tuple[int, slice]]]:
    """Return which rows of which partitions make each block, so that blocks begin at multiples of `grain` rows.

    A partition keeps the cells that begin in it. The rows before its first cell go to the block before, which they
    complete. A partition without a beginning has no block.

    Examples
    --------
    >>> from knoll._common.passes import seams
    >>> seams([5, 1, 6], grain=4)
    [[(0, slice(0, 5, None)), (1, slice(0, 1, None)), (2, slice(0, 2, None))], [(2, slice(2, 6, None))]]
    """
    blocks: list[list[tuple[int, slice]]] = []
    begin = 0
    for number, length in enumerate(lengths):
        head = min(-begin % grain, length)  # rows that complete a cell of an earlier partition
        if head:
            blocks[-1].append((number, slice(0, head)))
        if length > head:
            blocks.append([(number, slice(head, length))])
        begin += length
    return blocks


@dataclass(frozen=True)
class Build:
    """What must agree between processes for their floats to agree."""

    version: str
    instruction_set: str

    @classmethod
    def here(cls) -> Self:
        """Return that of this process."""
        return cls(knoll.__version__, str(_core.build_info()["instruction set"]))

    def require(self, name: str = "a worker") -> None:
        """Refuse to compute where this process differs from the one that wants to merge the results."""
        here = Build.here()
        if here.version != self.version:
            raise EngineError(
                f"{name} has knoll {here.version}, and the client {self.version}. Install the same version on both."
            )
        if here.instruction_set != self.instruction_set:
            raise EngineError(
                f"{name} computes with the instruction set {here.instruction_set}, and the client with "
                f"{self.instruction_set}: last digits would depend on which computes what. Set "
                f"KNOLL_ISA={min(here.instruction_set, self.instruction_set, key=_speed)} for all processes."
            )


def _speed(instruction_set: str) -> int:
    """Order instruction sets by what more machines have; one that this machine has not comes last."""
    available = str(_core.build_info()["instruction sets available"]).split(", ")
    return available.index(instruction_set) if instruction_set in available else len(available)
