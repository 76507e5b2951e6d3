"""Ctrl-C that waits: while a few files are moved into their place, and no longer."""

from __future__ import annotations

import signal
import threading
from typing import Any

__all__ = ["Hold"]


class Hold:
    """Keep SIGINT back from `begin` to `end`, which says whether one came."""

    def __init__(self) -> None:
        self._came, self._held = False, False
        self._before: Any = None

    def begin(self) -> None:
        """From here Ctrl-C is only noted. Signals are the main thread's; elsewhere nothing is held back."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
            self._held = True

    def end(self) -> bool:
        """Let Ctrl-C through again."""
        if self._held:
            signal.signal(signal.SIGINT, self._before)
            self._held = False
        return self._came

    def _note(self, *_: object) -> None:
        self._came = True
