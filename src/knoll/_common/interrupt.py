"""Ctrl-C during a call that cannot be interrupted: the call runs in a thread of its own, and the wait ends."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, Queue
from threading import Thread
from typing import Any

from knoll._common.cancel import raise_if_cancelled


def interruptible(work: Callable[[], Any]) -> Any:
    """Run `work` in a thread and wait for its result; Ctrl-C or a cancelled token ends the wait."""
    results: Queue[tuple[Any, BaseException | None]] = Queue()

    def run() -> None:
        try:
            results.put((work(), None))
        except BaseException as error:  # raised again in the waiting thread
            results.put((None, error))

    Thread(target=run, daemon=True).start()
    while True:
        try:
            value, error = results.get(timeout=0.1)
        except Empty:
            raise_if_cancelled()
            continue
        if error is not None:
            raise error
        return value
