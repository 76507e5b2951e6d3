"""How much memory is at hand: of the machine, or of the control group that this process lives in."""

from __future__ import annotations

import os

__all__ = ["free_memory"]


def free_memory() -> int:
    """Return the bytes that this process may still take: of the machine, or of its control group."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 33
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = 1024 * int(line.split()[1])
    limit, used = _lines("/sys/fs/cgroup/memory.max"), _lines("/sys/fs/cgroup/memory.current")
    if limit and used and limit[0].strip() != "max":
        free = min(free, int(limit[0]) - int(used[0]))
    return max(free, 0)


def _lines(file: str) -> list[str]:
    try:
        with open(file, encoding="ascii") as text:
            return text.readlines()
    except OSError:
        return []
