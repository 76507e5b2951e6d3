"""The machine and the build: threads that a call may use, memory, compiler and versions.

With n_jobs=None the number of threads is the smallest of: the CPUs of the affinity mask, the CPU quota of the
control group, OMP_NUM_THREADS (which joblib sets in its workers), and the limit that threadpoolctl has set on us. All
are read at call time. An explicit number is used as it is, never clamped.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
import time
from pathlib import Path

import threadpoolctl

import knoll
from knoll import _core
from knoll.exceptions import InvalidParameter


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
    """List the files that may hold a CPU quota: of our control group and its parents, of version 2 or 1."""
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
            quota, *period = _fields(file)
            period = period or _fields(os.path.join(os.path.dirname(file), "cpu.cfs_period_us"))
            if quota not in ("max", "-1"):
                counts.append(max(1, -(-int(quota) // int(period[0]))))  # rounded up
        except (OSError, ValueError):
            continue
    return counts


def _fields(file: str) -> list[str]:
    """Read the fields of a kernel file. It costs a tenth of `open`, and every fit does it."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.read(descriptor, 256).decode().split()
    finally:
        os.close(descriptor)


class _Controller(threadpoolctl.LibController):
    """Lets threadpoolctl limit our threads: `with threadpool_limits(1): …`."""

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


# ---- memory ----------------------------------------------------------------------------------------------------


def free_memory() -> int:
    """Return the bytes that this process may still take: of the machine, or of its control group."""
    names = getattr(os, "sysconf_names", {})
    pages = next((name for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES") if name in names), None)  # macOS: the second
    free = os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") if pages else 1 << 33
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = 1024 * int(line.split()[1])
    limit, used = _lines("/sys/fs/cgroup/memory.max"), _lines("/sys/fs/cgroup/memory.current")
    if limit and used and limit[0].strip() != "max":
        free = min(free, int(limit[0]) - int(used[0]))
    return max(free, 0)


def peak_memory() -> int:
    """Return the most bytes that this process has used so far."""
    for line in _lines("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    import resource  # not on Windows

    # On Linux, ru_maxrss survives exec, so a child starts with the peak of the process that forked it: use VmHWM there.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # bytes on macOS, kilobytes elsewhere


def _lines(file: str) -> list[str]:
    try:
        with open(file, encoding="ascii") as text:
            return text.readlines()
    except OSError:
        return []


# ---- the build ----------------------------------------------------------------------------------------------------


def build_facts() -> dict[str, str]:
    """Return compiler, instruction set, threads and versions as text.

    Examples
    --------
    >>> import knoll
    >>> from knoll._system import build_facts
    >>> build_facts()["knoll"] == knoll.__version__
    True
    """
    import numpy
    import scipy
    import sklearn

    core = _core.build_info()
    return {
        "knoll": knoll.__version__,
        "compiler": core["compiler"],
        "instruction set": core["instruction set"],
        "instruction sets available": core["instruction sets available"],
        "threads": str(resolve_threads(None)),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def show_build() -> None:
    """Print compiler, instruction set, threads and versions: to be sent with a bug report."""
    facts = build_facts()
    width = max(map(len, facts))
    print("\n".join(f"{name:{width}}  {value}" for name, value in facts.items()))
