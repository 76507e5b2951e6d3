"""What the figures depend on: the machine, the thread settings, the versions."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Iterable
from pathlib import Path

# Every pool we know of reads its size from one of these when it is loaded.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)


def cores() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_environment(threads: int) -> dict[str, str]:
    """The environment that holds every contestant to ``threads``."""
    return {name: str(threads) for name in THREAD_VARIABLES}


def describe() -> dict[str, str | int]:
    """CPU, cores, memory, system: one line each."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": model,
        "cores": cores(),
        "memory": f"{memory:.0f} GB",
        "system": f"{platform.system()} {platform.machine()}",
    }


def missing(needs: Iterable[str]) -> list[str]:
    """Those of ``needs`` that cannot be imported here (searched, not imported)."""
    absent = []
    for name in needs:
        try:
            found = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            absent.append(name)
    return absent


def versions(needs: Iterable[str]) -> dict[str, str]:
    """Python's version and those of the distributions that hold ``needs``."""
    owners = importlib.metadata.packages_distributions()
    found = {"python": platform.python_version()}
    for top in sorted({name.partition(".")[0] for name in needs}):
        for distribution in owners.get(top, ()):
            found[distribution] = importlib.metadata.version(distribution)
    return found
