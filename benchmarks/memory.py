"""The peak of memory between two moments, beyond what was resident at the first.

Linux can forget its high-water mark (proc(5): writing 5 to /proc/self/clear_refs), so that loading the data
does not hide the peak of the work. Elsewhere the mark of the whole process is all there is, and the
difference is a lower bound.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def _status_bytes(field: str) -> int | None:
    if not _STATUS.exists():
        return None
    lines = _STATUS.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


def _lifetime_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class PeakMeter:
    """``start()``, then the work, then ``stop()``: bytes of the peak beyond the start."""

    def start(self) -> None:
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)  # give freed pages back, or the work would reuse them unseen
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self.exact = True
        except OSError:
            self.exact = False
        self.base = (_status_bytes("VmRSS") if self.exact else None) or _lifetime_peak()

    def stop(self) -> int:
        peak = (_status_bytes("VmHWM") if self.exact else None) or _lifetime_peak()
        return max(0, peak - self.base)
