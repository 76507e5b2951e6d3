"""The cases: each takes a folder, and returns what was counted, or raises AssertionError."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import knoll
from knoll import KMeans
from knoll.exceptions import EngineError

SECONDS = 60.0  # of fits under repeated kills
K, STEPS = 40, 30
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV)


@contextlib.contextmanager
def cluster(workers: int, **more: Any) -> Iterator[Any]:
    """Yield a client of so many workers with nannies."""
    import dask
    import distributed

    options = {"dashboard_address": None, "host": "127.0.0.1", "silence_logs": 50, **more}
    ttl = {"distributed.scheduler.worker-ttl": "15 s", "distributed.scheduler.allowed-failures": 1000}
    with (
        dask.config.set(ttl),
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, **options) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield client


def rows_in(folder: Path, n: int, d: int = 8, files: int = 12) -> tuple[Any, Any]:
    """Write rows to files; return them, and the files as blocks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) + 4 * rng.integers(0, 3, size=(n, 1))
    for number, chunk in enumerate(np.array_split(X, files)):
        np.save(folder / f"part-{number:02}.npy", chunk)
    return X, knoll.blocks.open(f"{folder}/part-*.npy")


def model_of(X: Any, steps: int = STEPS) -> KMeans:
    """Return a fit of so many steps from a fixed start."""
    return KMeans(K, init=X[:K], n_init=1, tol=0.0, max_iter=steps)


def facts(model: KMeans) -> bytes:
    """Return the bits of a fit."""
    return b"".join(np.asarray(getattr(model, name)).tobytes() for name in ("cluster_centers_", "inertia_", "n_iter_"))


def pids(client: Any) -> list[int]:
    """Return the processes of the workers that answer."""
    found = client.run(os.getpid, on_error="return")
    return [pid for pid in found.values() if isinstance(pid, int)]


def after(seconds: float, act: Callable[[], object]) -> threading.Timer:
    """Do something while a fit runs."""
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


def kill_half_way(folder: Path) -> str:
    """One of two workers dies in the middle; what that costs, undisturbed and disturbed fits in turns."""
    X, rows = rows_in(folder, 400_000)
    expected, times = facts(model_of(X).fit(X)), {False: [], True: []}
    with cluster(2) as client:
        model_of(X, 2).fit_blocks(rows, engine=client)
        for turn in range(6):
            client.wait_for_workers(2)
            disturbed = turn % 2 == 1
            victim = random.Random(turn).choice(pids(client))
            kill = functools.partial(os.kill, victim, signal.SIGKILL)
            timer = after(float(np.median(times[False])) / 2, kill) if disturbed else None
            begun = time.perf_counter()
            assert facts(model_of(X).fit_blocks(rows, engine=client)) == expected, "other bits"
            times[disturbed].append(time.perf_counter() - begun)
            if timer is not None:
                timer.join()
    undisturbed, killed = (float(np.median(times[each])) for each in (False, True))
    ratio = killed / undisturbed
    return f"3 kills, same bits; {undisturbed:.1f} s undisturbed, {killed:.1f} s killed half-way: {ratio:.2f} x"


def two_of_four(folder: Path) -> str:
    """Two of four workers die at once."""
    X, rows = rows_in(folder, 200_000)
    expected = facts(model_of(X).fit(X))
    with cluster(4) as client:
        victims = pids(client)[:2]
        timer = after(1.0, lambda: [os.kill(pid, signal.SIGKILL) for pid in victims])
        assert facts(model_of(X).fit_blocks(rows, engine=client)) == expected, "other bits"
        timer.join()
        return f"same bits; alive: {len(pids(client))}"


def kills_all_the_time(folder: Path) -> str:
    """A worker dies every few seconds, by three signals, during a minute of fits."""
    X, rows = rows_in(folder, 100_000)
    expected, dice, kills, fits = facts(model_of(X).fit(X)), random.Random(0), [], 0
    with cluster(3) as client:
        stop = threading.Event()

        def killer() -> None:
            while not stop.wait(dice.uniform(2, 6)):
                with contextlib.suppress(Exception):
                    os.kill(dice.choice(pids(client)), kills_next := dice.choice(SIGNALS))
                    kills.append(kills_next)

        thread = threading.Thread(target=killer)
        thread.start()
        end = time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                assert facts(model_of(X).fit_blocks(rows, engine=client)) == expected, "other bits"
                fits += 1
        finally:
            stop.set()
            thread.join()
    assert kills, "no worker was killed"
    return f"{fits} fits, all of the same bits; {len(kills)} kills ({', '.join(s.name for s in dict.fromkeys(kills))})"


def all_killed(folder: Path) -> str:
    """Every worker dies at once; nannies start others, and the fit goes on."""
    X, rows = rows_in(folder, 100_000)
    expected = facts(model_of(X).fit(X))
    with cluster(2) as client:
        victims = pids(client)
        timer = after(0.5, lambda: [os.kill(pid, signal.SIGKILL) for pid in victims])
        assert facts(model_of(X).fit_blocks(rows, engine=client)) == expected, "other bits"
        timer.join()
    return "same bits"


def stopped_for_good(folder: Path) -> str:
    """A worker is stopped (SIGSTOP) beyond the scheduler's patience of 15 s."""
    X, rows = rows_in(folder, 100_000)
    expected = facts(model_of(X).fit(X))
    with cluster(2) as client:
        victim = pids(client)[0]
        timer = after(0.5, lambda: os.kill(victim, signal.SIGSTOP))
        begun = time.perf_counter()
        try:
            found = facts(model_of(X).fit_blocks(rows, engine=client))
        except EngineError as error:
            return f"a sentence after {time.perf_counter() - begun:.0f} s: {error}"
        finally:
            timer.join()
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGCONT)
        assert found == expected, "other bits"
    return f"same bits after {time.perf_counter() - begun:.0f} s"


def slow_worker(folder: Path) -> str:
    """One of two workers runs a tenth of the time."""
    X, rows = rows_in(folder, 200_000)
    expected = facts(model_of(X).fit(X))
    with cluster(2) as client:
        victim, stop = pids(client)[0], threading.Event()

        def brake() -> None:
            while not stop.is_set():
                os.kill(victim, signal.SIGSTOP)
                stop.wait(0.18)
                os.kill(victim, signal.SIGCONT)
                stop.wait(0.02)

        times = []
        for braked in (False, True):
            thread = threading.Thread(target=brake) if braked else None
            if thread is not None:
                thread.start()
            begun = time.perf_counter()
            try:
                assert facts(model_of(X, 10).fit_blocks(rows, engine=client)) == facts(model_of(X, 10).fit(X)), "bits"
                assert expected
            finally:
                stop.set()
                if thread is not None:
                    thread.join()
                stop.clear()
            times.append(time.perf_counter() - begun)
    return f"same bits; {times[0]:.1f} s, with one worker at a tenth {times[1]:.1f} s"


def memory_limit(folder: Path) -> str:
    """Rows of 1 GB on two workers of 700 MB each: they spill."""
    rng = np.random.default_rng(0)
    for number in range(32):
        np.save(
            folder / f"part-{number:02}.npy", rng.normal(size=(250_000, 16)) + rng.integers(0, 3, size=(250_000, 1))
        )
    rows = knoll.blocks.open(f"{folder}/part-*.npy")
    start = np.load(folder / "part-00.npy")[:8]
    model = KMeans(8, init=start, n_init=1, tol=0.0, max_iter=3)
    expected = facts(model.fit_blocks(rows))
    with cluster(2, memory_limit="700MB", local_directory=str(folder)) as client:
        assert facts(KMeans(**model.get_params()).fit_blocks(rows, engine=client)) == expected, "other bits"
    return "1.02 GB of rows, 2 x 700 MB: same bits"


def many_fits(folder: Path) -> str:
    """A hundred fits leave no key at the scheduler and no memory with the workers."""
    X, rows = rows_in(folder, 40_000)

    def used() -> float:
        import psutil

        return psutil.Process().memory_info().rss / 1e6

    def keys(dask_scheduler: Any) -> int:
        return len(dask_scheduler.tasks)

    with cluster(2) as client:
        sizes = []
        for _ in range(100):
            model_of(X, 2).fit_blocks(rows, engine=client)
            sizes.append(max(client.run(used).values()))
        time.sleep(1.0)
        left = client.run_on_scheduler(keys)
    assert left == 0, f"{left} keys are left"
    assert sizes[-1] < 1.2 * sizes[20], f"from {sizes[20]:.0f} to {sizes[-1]:.0f} MB"
    return f"0 keys; largest worker {sizes[0]:.0f} MB after 1 fit, {sizes[20]:.0f} after 21, {sizes[-1]:.0f} after 100"


CASES: dict[str, Callable[[Path], str]] = {
    "kill-half-way": kill_half_way,
    "two-of-four": two_of_four,
    "kills": kills_all_the_time,
    "all-killed": all_killed,
    "stopped": stopped_for_good,
    "slow": slow_worker,
    "memory": memory_limit,
    "many-fits": many_fits,
}
