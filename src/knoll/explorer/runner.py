"""Who answers messages: one thread for what takes long, one for what is quick; jobs can be cancelled at any time.

One fit runs at a time. A message with a slot, such as that of a slider, cancels the earlier one of its slot. Frames go
to a sink, which the server makes of the stream of the response.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

from knoll._common.cancel import CancelToken
from knoll.exceptions import Cancelled, KnollError
from knoll.explorer.asking import Arrays, ask, check_message
from knoll.explorer.session import Session
from knoll.explorer.wire import Frame

__all__ = ["Busy", "Job", "Runner", "error"]

MOST_WAITING = 64  # jobs that still owe their answer
_MOST_ENDED = 4096  # cancelled jobs in a lane behind one that has not stopped yet
_MOST_TEXT = 1000  # characters of an error, which may quote what was sent
_log = logging.getLogger("knoll")
Sink = Callable[[Frame], None]


class Busy(Exception):
    """Too many messages wait."""


def error(code: str, message: str) -> Frame:
    """Return the last frame of an answer that failed."""
    return Frame("error", {"code": code, "message": message[:_MOST_TEXT]}, last=True)


@dataclass(eq=False)
class Job:
    """A message and where its answer goes."""

    message: dict[str, Any]
    arrays: Arrays
    page: str
    sink: Sink
    token: CancelToken = field(default_factory=CancelToken)
    code: str = ""  # why it was cancelled
    ended: bool = False
    begun: bool = False
    lock: Lock = field(default_factory=Lock)

    def put(self, frame: Frame) -> None:
        """Send a frame, unless the last was sent."""
        with self.lock:
            if self.ended:
                return
            self.ended = frame.last
        self.sink(frame)

    def cancel(self, code: str = "cancelled") -> None:
        """Stop it; one that has not begun ends at once."""
        self.code = self.code or code
        self.token.cancel()
        if not self.begun:
            self.fail()

    def fail(self) -> None:
        """Report that it was cancelled."""
        code = self.code or "cancelled"
        text = "a later message replaced it." if code == "superseded" else "it was cancelled."
        self.put(error(code, text))


class Runner:
    """Answers the messages of a session in two threads."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = Lock()
        self._jobs: list[Job] = []
        self._lanes: dict[bool, queue.SimpleQueue[Job | None]] = {True: queue.SimpleQueue(), False: queue.SimpleQueue()}
        for quick, lane in self._lanes.items():
            Thread(target=self._serve, args=(lane,), daemon=True, name=f"knoll-{'quick' if quick else 'fit'}").start()

    def submit(self, message: dict[str, Any], arrays: Arrays, sink: Sink) -> Job:
        """Answer a message, in its turn; KnollError if it is wrong, Busy if too many wait."""
        plain = dict(message)
        page = plain.pop("page", "")
        page = page if isinstance(page, str) else ""
        job = Job(plain, arrays, page[:80], sink)
        if plain.get("do") == "cancel":
            of = plain.get("of")
            job.put(Frame("result", {"cancelled": self.cancel(job.page, of if type(of) is int else None)}, last=True))
            return job
        action, _ = check_message(plain)
        with self._lock:
            # A slider supersedes its own jobs: those have been answered, though the lane has not come to them.
            waiting = sum(not one.ended for one in self._jobs)
            if waiting >= MOST_WAITING or len(self._jobs) >= MOST_WAITING + _MOST_ENDED:
                raise Busy
            slot = plain.get("slot")
            older = [one for one in self._jobs if slot and one.message.get("slot") == slot and one.page == job.page]
            self._jobs.append(job)
        for one in older:
            one.cancel("superseded")
        self._lanes[action.quick].put(job)
        return job

    def cancel(self, page: str | None = None, seq: int | None = None) -> int:
        """Cancel the job of a page with that seq, or all of a page, or all; and return how many."""
        with self._lock:
            chosen = [
                job
                for job in self._jobs
                if not job.ended
                and (page is None or job.page == page)
                and (seq is None or job.message.get("seq") == seq)
            ]
        for job in chosen:
            job.cancel()
        return len(chosen)

    def close(self) -> None:
        """Stop everything."""
        self.session.background.cancel()
        self.cancel()
        for lane in self._lanes.values():
            lane.put(None)

    def _serve(self, lane: queue.SimpleQueue[Job | None]) -> None:
        while (job := lane.get()) is not None:
            try:
                self._run(job)
            finally:
                with self._lock:
                    self._jobs.remove(job)

    def _run(self, job: Job) -> None:
        with job.lock:
            job.begun = True
            if job.ended:
                return
        try:
            with job.token:
                for frame in ask(self.session, job.message, job.arrays):
                    job.put(frame)
        except Cancelled:
            job.fail()
        except KnollError as caught:
            job.put(error("refused", str(caught)))
        except MemoryError:
            job.put(error("refused", "there is not enough memory for that. Use fewer rows or columns."))
        except Exception:
            _log.exception("the explorer could not answer %s", job.message.get("do"))
            job.put(error("internal", "that failed in knoll; the server's log gives the reason."))
