"""The peak of memory between two moments, beyond what was resident at the first.

Linux can forget its high-water mark (proc(5): writing 5 to /proc/self/clear_refs), so that loading the data
does not hide the peak of the work. Elsewhere the mark of the whole process is all there is, and the
difference is a lower bound.

Resident pages of files (libraries) come and go with the load of the machine. `AnonymousMeter` leaves them out, and
counts pages that were swapped out.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import sys
import threading
from pathlib import Path

_STATUS = Path("/proc/self/status")


def _status() -> dict[str, int]:
    """Return the sizes of /proc/self/status in bytes; empty where there is none."""
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}


def _status_bytes(field: str) -> int | None:
    return _status().get(field)


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


class AnonymousMeter(PeakMeter):
    """The same for anonymous pages alone, resident or swapped out: a lower bound that other processes do not change.

    The high-water mark is that of all resident pages, so those of files are subtracted at their largest. Where the
    system takes pages of files away meanwhile, this is too little; samples, every millisecond, are not.
    """

    def start(self) -> None:
        super().start()
        status = _status()
        self._files = _of_files(status)
        self._anonymous = self._largest = _anonymous(status)
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def _sample(self) -> None:
        while not self._done.wait(0.001):
            self._largest = max(self._largest, _anonymous(_status()))

    def stop(self) -> int:
        self._done.set()
        self._sampler.join()
        status = _status()
        if not self.exact or not status:
            return super().stop()
        marked = status["VmHWM"] - max(self._files, _of_files(status))
        return max(0, marked - self._anonymous, self._largest - self._anonymous)


def _anonymous(status: dict[str, int]) -> int:
    return status.get("RssAnon", 0) + status.get("VmSwap", 0)


def _of_files(status: dict[str, int]) -> int:
    return status.get("RssFile", 0) + status.get("RssShmem", 0)
