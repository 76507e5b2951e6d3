"""How many threads a call may use: every CPU that is ours to use, or the number that was asked for.

With n_jobs=None the number is the smallest of: the CPUs of the affinity mask, the CPU quota of the control group,
OMP_NUM_THREADS (which joblib sets in its workers), and the limit that threadpoolctl has set on us. All are read at
call time. An explicit number is obeyed, never clamped.
"""

from __future__ import annotations

import functools
import os
import re
import time
from pathlib import Path

import threadpoolctl

from knoll import _core
from knoll.exceptions import InvalidParameter

__all__ = ["available_threads", "resolve_threads"]


def resolve_threads(n_jobs: int | None) -> int:
    """Turn scikit-learn's `n_jobs` into a number of threads: None all we may use, -1 all CPUs, -2 all but one, …"""
    if n_jobs is None:
        limit = _core.get_num_threads()
        return min(available_threads(), limit) if limit > 0 else available_threads()
    if n_jobs == 0:
        raise InvalidParameter("n_jobs must not be 0. None uses every CPU we may use, 1 a single thread, -1 all CPUs.")
    return n_jobs if n_jobs > 0 else max(1, _affinity() + 1 + n_jobs)


def available_threads() -> int:
    """Count the CPUs that we may use now, before any limit set through threadpoolctl."""
    limits = [_affinity(), *_recent_quotas(int(time.monotonic())), *_environment()]
    return max(1, min(limits))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _environment() -> list[int]:
    value = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return [int(value)] if re.fullmatch("[0-9]+", value) and int(value) > 0 else []


@functools.cache
def _quota_files() -> tuple[str, ...]:
    """List the files that may bear a CPU quota: our control group and its parents, of version 2 or 1."""
    root = Path("/sys/fs/cgroup")
    found = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            group = root / path.lstrip("/")
            found += [g / "cpu.max" for g in (group, *group.parents) if g == root or root in g.parents]
        elif "cpu" in controllers.split(","):
            found += [root / "cpu" / path.lstrip("/") / "cpu.cfs_quota_us", root / "cpu" / "cpu.cfs_quota_us"]
    return tuple(str(file) for file in dict.fromkeys(found) if file.exists())


@functools.lru_cache(maxsize=1)
def _recent_quotas(second: int) -> list[int]:
    """Read the quotas once a second at most: on small data the files would be a tenth of a fit."""
    return _quotas()


def _quotas() -> list[int]:
    counts = []
    for file in _quota_files():
        try:
            quota, *rest = _words(file)
            period = rest[0] if rest else _words(os.path.join(os.path.dirname(file), "cpu.cfs_period_us"))[0]
            if quota not in ("max", "-1"):
                counts.append(max(1, -(-int(quota) // int(period))))  # rounded up
        except (OSError, ValueError):
            continue
    return counts


def _words(file: str) -> list[str]:
    """Read a file of the kernel's: a tenth of what `open` costs, since every call of ours asks."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.read(descriptor, 256).decode().split()
    finally:
        os.close(descriptor)


class _Controller(threadpoolctl.LibController):
    """Tells threadpoolctl how to limit us: `with threadpool_limits(1): …`."""

    user_api = "knoll"
    internal_api = "knoll"
    filename_prefixes = ("_core",)
    check_symbols = ("knoll_get_num_threads", "knoll_set_num_threads")

    def get_num_threads(self) -> int:
        return resolve_threads(None)

    def set_num_threads(self, num_threads: int) -> None:
        # restoring the old number must not freeze what was a free choice
        _core.set_num_threads(0 if num_threads >= available_threads() else num_threads)

    def get_version(self) -> str:
        return _core.version

    def set_additional_attributes(self) -> None:
        pass


threadpoolctl.register(_Controller)
