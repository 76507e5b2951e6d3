"""A deferred interrupt: Ctrl-C waits while finished files are moved to where they belong, and no longer."""

from __future__ import annotations

import signal
import threading
from typing import Any


class DeferredInterrupt:
    """Defer SIGINT from `begin` to `end`, which returns whether one came."""

    def __init__(self) -> None:
        self._came, self._active = False, False
        self._before: Any = None

    def begin(self) -> None:
        """From here Ctrl-C is only recorded. Signals are the main thread's; in others nothing is deferred."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._record)
            self._active = True

    def end(self) -> bool:
        """Let Ctrl-C through again."""
        if self._active:
            signal.signal(signal.SIGINT, self._before)
            self._active = False
        return self._came

    def _record(self, *_: object) -> None:
        self._came = True
