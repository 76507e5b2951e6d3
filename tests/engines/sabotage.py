"""Faults at a known point of a fit: a worker that kills itself while it reads, computes or merges.

A file reports whether that has happened, so that the task is done when it is repeated elsewhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knoll.engines.dask import DaskEngine

PHASES = ("read", "step", "merge")


def die_once(flag: str) -> None:
    """Kill this process, if it is a worker and none has died yet."""
    if "distributed.worker" not in sys.modules or not _is_worker():
        return
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _is_worker() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class LethalTable:
    """Rows in files, of which the second kills whoever reads it first."""

    path: str
    count: int
    columns: tuple[str, ...]
    flag: str

    @classmethod
    def of(cls, folder: Path, X: Any, count: int, flag: Path) -> LethalTable:
        for number, rows in enumerate(np.array_split(X, count)):
            np.save(folder / f"part-{number}.npy", rows)
        return cls(str(folder), count, tuple(f"c{j}" for j in range(X.shape[1])), str(flag))

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(range(self.count))

    def part(self, number: int) -> Iterator[Any]:
        if number == 1 and self.flag:
            die_once(self.flag)
        yield np.load(f"{self.path}/part-{number}.npy")

    def __call__(self) -> Iterator[Any]:
        for number in range(self.count):
            yield np.load(f"{self.path}/part-{number}.npy")


@dataclass(frozen=True)
class LethalPartial:
    """A partial step that kills the worker which computes it first, or which merges its results."""

    partial: Any
    flag: str
    in_merge: bool

    def __call__(self, block: Any, state: Any, run: Any) -> Any:
        if self.in_merge:
            return LethalStats(self.partial(block, state, run), self.flag)
        die_once(self.flag)
        return self.partial(block, state, run)


@dataclass(frozen=True)
class LethalStats:
    """Statistics whose merge kills a worker."""

    stats: Any
    flag: str

    def merge(self, other: LethalStats) -> LethalStats:
        die_once(self.flag)
        return LethalStats(self.stats.merge(other.stats), self.flag)


class LethalEngine(DaskEngine):
    """Kills a worker in the pass of this number, or calls a function before it."""

    def __init__(self, client: Any, flag: Path, at: int, in_merge: bool = False, before: Any = None) -> None:
        super().__init__(client)
        self.flag, self.at, self.in_merge, self.before, self.count = str(flag), at, in_merge, before, 0

    def passes(self, source: Any, dtype: Any, threads: int) -> Any:
        return _Sabotaged(super().passes(source, dtype, threads), self)


class _Sabotaged:
    def __init__(self, inner: Any, engine: LethalEngine) -> None:
        self._inner, self._engine = inner, engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def prepared(self, prepare: Any) -> Any:
        return _Sabotaged(self._inner.prepared(prepare), self._engine)

    def total(self, partial: Any, state: Any) -> Any:
        engine = self._engine
        engine.count += 1
        if engine.count != engine.at:
            return self._inner.total(partial, state)
        if engine.before is not None:
            engine.before()
            return self._inner.total(partial, state)
        found = self._inner.total(LethalPartial(partial, engine.flag, engine.in_merge), state)
        return found.stats if engine.in_merge else found


@contextmanager
def cluster_of_processes(workers: int, *, nanny: bool, folder: Path, environments: Any = ()) -> Iterator[Any]:
    """A scheduler and workers, each a process that a test may kill: yields address, scheduler, workers."""
    from distributed import Client

    python = [sys.executable, "-m"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
    where = folder / "scheduler.json"
    begun = [
        subprocess.Popen(
            [*python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
             "--scheduler-file", str(where)], env=environment, **quiet)
    ]  # fmt: skip
    try:
        _until(where.exists)
        for number in range(workers):
            own = environments[number] if number < len(environments) else {}
            command = [*python, "distributed.cli.dask_worker", "--scheduler-file", str(where), "--nthreads", "1",
                       "--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(folder),
                       "--nanny" if nanny else "--no-nanny"]  # fmt: skip
            begun.append(subprocess.Popen(command, env={**environment, **own}, start_new_session=True, **quiet))
        with Client(scheduler_file=str(where), set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
            yield client, begun[0], begun[1:]
    finally:
        for process in begun[1:]:
            _kill_group(process)
        begun[0].kill()
        for process in begun:
            process.wait()


def _kill_group(process: Any) -> None:
    """End a worker, its nanny and their helpers: they are one group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _until(done: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "too late"
        time.sleep(0.05)
