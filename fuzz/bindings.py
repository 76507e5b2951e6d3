"""Fuzz of the bindings: every function of `knoll._core` with valid calls that were made wrong.

A worker process makes the calls; this one watches it. A call that ends the process, or does not end within the time
limit, is reported with its number, from which alone (and the seed) it can be made again. A call may succeed or raise
one of `REFUSALS`; anything else is a fault.

    python -m fuzz.bindings --seconds 60 --seed 0                the installed core
    python -m fuzz.bindings --core build/…/_core.so              another build, such as one with sanitizers
    python -m fuzz.bindings --seed 0 --only 1234                 make call 1234 again, in this process
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.machinery
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .bindings_mutate import mutate
from .bindings_seeds import Seed, copied, targets

LIMIT = 20.0  # seconds for a call
START_LIMIT = 300.0  # seconds for imports, which take long under sanitizers
REFUSALS = (TypeError, ValueError, MemoryError, OverflowError)
VALID, ACCEPTED, REFUSED, WRONG = range(4)  # columns of the counts
# Arguments (their numbers) that set how much is to be done: more than this is not wrong, only long.
AMOUNTS = {
    "LloydMemory": {0: 10**5, 1: 100, 2: 1000},
    "ascend": {6: 1000},
    "ascent_paths": {6: 1000},
    "kmeans_plus_plus": {5: 100},
    "kmeans_plus_plus_csr": {3: 10**6, 8: 100},
    "sparse_chebyshev": {4: 1000},
}
# How sanitizers die of a request that is too large, which is no fault: elsewhere it is a MemoryError.
TOO_LARGE = ("allocation-size-too-big", "out-of-memory", "calloc-overflow", "allocator is out of memory")


@dataclass
class Result:
    """Counts (functions, 4) of valid calls, and of changed calls that were accepted, refused, wrong; and the faults."""

    names: list[str]
    counts: Any
    faults: list[str] = field(default_factory=list)

    def unreached(self) -> list[str]:
        """List the functions of which no valid call succeeded."""
        return [name for name, row in zip(self.names, self.counts) if row[VALID] == 0]

    def table(self) -> str:
        """Write the counts, a line for each function."""
        lines = [f"{'':34}{'valid':>8}{'accepted':>10}{'refused':>10}"]
        for name, row in zip([*self.names, "all"], [*self.counts, self.counts.sum(axis=0)]):
            lines.append(f"{name:34}{row[VALID]:8d}{row[ACCEPTED]:10d}{row[REFUSED]:10d}")
        return "\n".join(lines)


def load(core: str | None) -> types.ModuleType:
    """Import the core: the installed one, or that of a file."""
    if core is None:
        from knoll import _core

        return _core
    loader = importlib.machinery.ExtensionFileLoader("_core", core)
    spec = importlib.util.spec_from_file_location("_core", core, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def prepared(core: types.ModuleType, seed: Seed) -> Any:
    """Return what is to be called, on a fresh instance where it is a method; None: it is a property."""
    if seed.owner is None:
        return getattr(core, seed.name)
    instance = getattr(core, seed.owner.name)(*map(copied, seed.owner.args), **seed.owner.kwargs)
    for call in seed.before:
        getattr(instance, call.name.partition(".")[2])(*map(copied, call.args), **call.kwargs)
    attribute = seed.name.partition(".")[2]
    if isinstance(vars(type(instance))[attribute], property):
        return lambda: getattr(instance, attribute)
    return getattr(instance, attribute)


def changed(seed: Seed, rng: np.random.Generator) -> tuple[list[Any], list[str]]:
    """Make arguments of a seed wrong; keyword arguments follow the others."""
    args = [copied(a) for a in (*seed.args, *seed.kwargs.values())]
    changes = mutate(args, rng)
    for i, most in AMOUNTS.get(seed.name, {}).items():
        if i < len(args) and type(args[i]) is int:
            args[i] = min(args[i], most)
    return args, changes


class Calls:
    """The calls of one seed: first every valid one, then changed ones without end, each a function of its number."""

    def __init__(self, seeds: dict[str, list[Seed]], names: list[str], seed: int) -> None:
        self.names, self.seed = names, seed
        self.seeds = [seeds.get(name, []) for name in names]
        self.valid = [(f, s) for f, own in enumerate(self.seeds) for s in own]

    def at(self, number: int) -> tuple[int, Seed, list[Any], list[str]]:
        """Return the function, the seed, the arguments and how these were changed."""
        if number < len(self.valid):
            function, seed = self.valid[number]
            return function, seed, [copied(a) for a in (*seed.args, *seed.kwargs.values())], []
        rng = np.random.default_rng([self.seed, number])
        function = number % len(self.names)
        seeds = self.seeds[function]
        seed = seeds[int(rng.integers(len(seeds)))] if seeds else Seed(self.names[function], ())
        return function, seed, *changed(seed, rng)

    def describe(self, number: int) -> str:
        """Describe the call."""
        function, seed, args, changes = self.at(number)
        shown = ", ".join(
            f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in (*args,)
        )  # fmt: skip
        how = "; ".join(changes) or "unchanged"
        made = "" if seed.owner is None else " of an instance"
        return f"call {number} of seed {self.seed}: {self.names[function]}{made}({shown}): {how}"


def split(seed: Seed, args: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Give the last arguments their keywords back, where none was added or left out."""
    first = len(seed.args)
    if len(args) != first + len(seed.kwargs):
        return args, {}
    return args[:first], dict(zip(seed.kwargs, args[first:]))


def perform(core: types.ModuleType, calls: Calls, number: int) -> tuple[int, int]:
    """Make a call; return the function and the column in which it counts."""
    function, seed, args, _ = calls.at(number)
    target = prepared(core, seed)
    positional, keywords = split(seed, args)
    try:
        target(*positional, **keywords)
    except REFUSALS:
        return function, REFUSED if number >= len(calls.valid) else WRONG
    except Exception:
        return function, WRONG
    return function, ACCEPTED if number >= len(calls.valid) else VALID


def work(core: str | None, seeds: str, seed: int, first: int, shared: str) -> None:
    """Make calls from number `first` on until this process is ended. `shared`: a file of the number, and the counts."""
    faulthandler.enable()
    module = load(core)
    names = targets(module)
    calls = Calls(pickle.loads(Path(seeds).read_bytes()), names, seed)
    board = np.memmap(shared, np.int64, "r+", shape=(1 + len(names) * 4,))
    counts = board[1:].reshape(len(names), 4)
    number = first
    while True:
        board[0] = number
        function, column = perform(module, calls, number)
        counts[function, column] += 1
        if column == WRONG:
            os._exit(3)
        number += 1


class Worker:
    """A child process that makes calls, and the file through which it is watched."""

    def __init__(self, core: str | None, preload: str | None, seeds: str, seed: int, first: int, folder: Path) -> None:
        self.errors = folder / "errors.txt"
        command = [sys.executable, "-m", "fuzz.bindings", "--work", str(first), "--seeds", seeds, "--seed", str(seed)]
        command += ["--board", str(folder / "board")] + (["--core", core] if core else [])
        root = Path(__file__).parents[1]
        with self.errors.open("wb") as out:
            environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONMALLOC": "malloc"}
            if preload:
                environment["LD_PRELOAD"] = preload
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=root, env=environment)

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def watch(worker: Worker, board: Any, seconds: float) -> tuple[float, str | None]:
    """Wait until the worker fails, or has worked so long; return how long it has worked, and how it failed."""
    number = -1  # as long as it imports
    begun = since = time.monotonic()
    while True:
        now = time.monotonic()
        code = worker.process.poll()
        if code is not None:
            return now - begun, f"ended with code {code}"
        if board[0] != number:
            begun = now if number < 0 else begun
            number, since = int(board[0]), now
        elif now - since > (LIMIT if number >= 0 else START_LIMIT):
            return now - begun, f"did not end within {LIMIT:.0f} s"
        if number >= 0 and now - begun > seconds:
            return now - begun, None
        time.sleep(0.05)


def main(
    seconds: float,
    seed: int,
    *,
    core: str | None = None,
    preload: str | None = None,
    seeds: str | None = None,
    most_faults: int = 20,
) -> Result:
    """Fuzz for some seconds, and at least until the valid calls have been made.

    `core` is the file of another build of the core, `preload` what that build needs loaded first, and `seeds` a file of
    recorded calls, which are recorded anew otherwise.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if seeds is None:
            seeds = str(folder / "seeds.pickle")
            subprocess.run([sys.executable, "-m", "fuzz.bindings_seeds", seeds], check=True, capture_output=True,
                           cwd=Path(__file__).parents[1])  # fmt: skip
        from knoll import _core

        names = targets(_core)
        calls = Calls(pickle.loads(Path(seeds).read_bytes()), names, seed)
        board: Any = np.memmap(folder / "board", np.int64, "w+", shape=(1 + len(names) * 4,))
        result = Result(names, board[1:].reshape(len(names), 4))
        first, left = 0, seconds
        while first < len(calls.valid) or left > 0:
            board[0] = -1
            worker = Worker(core, preload, seeds, seed, first, folder)
            spent, how = watch(worker, board, max(left, 1.0))
            worker.end()
            left -= spent
            output = worker.errors.read_text(errors="replace")
            if board[0] < 0:
                raise RuntimeError(f"the worker did not begin: {how}\n{output}")
            first = int(board[0]) + 1
            if how is not None and not any(phrase in output for phrase in TOO_LARGE):
                result.faults.append(f"{how}: {calls.describe(first - 1)}\n{output[-4000:]}")
                if len(result.faults) >= most_faults:
                    break
        result.counts = np.array(result.counts)
    return result


def again(seed: int, number: int, core: str | None, seeds: str) -> None:
    """Make one call in this process, and show what comes of it."""
    faulthandler.enable()
    signal.alarm(int(LIMIT))
    module = load(core)
    calls = Calls(pickle.loads(Path(seeds).read_bytes()), targets(module), seed)
    print(calls.describe(number), flush=True)
    _, one, args, _ = calls.at(number)
    positional, keywords = split(one, args)
    print(prepared(module, one)(*positional, **keywords))


def command() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", help="the file of another build of the core")
    parser.add_argument("--preload", help="libraries to load before it, as the runtime of a sanitizer")
    parser.add_argument("--seeds", help="recorded calls (fuzz.bindings_seeds); recorded anew where none are named")
    parser.add_argument("--only", type=int, help="make this one call again")
    parser.add_argument("--faults", type=int, default=20, help="stop after so many")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--board", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work is not None:
        work(chosen.core, chosen.seeds, chosen.seed, chosen.work, chosen.board)
    if chosen.only is not None:
        again(chosen.seed, chosen.only, chosen.core, chosen.seeds)
        return 0
    result = main(
        chosen.seconds,
        chosen.seed,
        core=chosen.core,
        preload=chosen.preload,
        seeds=chosen.seeds,
        most_faults=chosen.faults,
    )
    print(result.table())
    for fault in result.faults:
        print("\nFAULT", fault)
    for name in result.unreached():
        print("NOT REACHED", name)
    return 1 if result.faults or result.unreached() else 0


if __name__ == "__main__":
    sys.exit(command())
