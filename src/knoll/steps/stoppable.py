"""Ctrl-C during a call that cannot be interrupted: it goes on in a thread of its own, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, Queue
from threading import Thread
from typing import Any

__all__ = ["stoppable"]


def stoppable(work: Callable[[], Any]) -> Any:
    """Run what cannot be interrupted in a thread of its own, so that Ctrl-C is heard; it then ends unheeded."""
    answer: Queue[tuple[Any, BaseException | None]] = Queue()

    def run() -> None:
        try:
            answer.put((work(), None))
        except BaseException as error:  # handed over to who waits
            answer.put((None, error))

    Thread(target=run, daemon=True).start()
    while True:
        try:
            value, error = answer.get(timeout=0.1)
        except Empty:
            continue
        if error is not None:
            raise error
        return value
