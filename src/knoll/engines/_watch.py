"""Waiting for a dask cluster, with an end: what is lost becomes one sentence, never a hang.

The waits of dask end when the result is there. They go on where no worker is left that could compute it, and in some
versions where the scheduler is gone. Here a wait polls the cluster every second.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import time
from collections.abc import Callable, Coroutine
from typing import Any

from knoll.exceptions import EngineError

__all__ = ["Cluster"]

_POLL = 1.0  # seconds between polls of the cluster
_ALONE = 20.0  # seconds without a worker until that counts as final: a nanny starts another one in a few
_SILENT = 30.0  # seconds that a scheduler may take to answer


class Cluster:
    """A client of dask whose waits end."""

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise EngineError("the dask client is asynchronous, and a fit is not. Make one with Client(address).")
        self.client = client

    @property
    def address(self) -> str:
        """The address of the scheduler."""
        return str(self.client.scheduler.address) if self.client.scheduler is not None else "the scheduler"

    def gather(self, futures: list[Any]) -> list[Any]:
        """Return the results of futures."""
        try:
            found: list[Any] = self.wait_for(lambda: self.client.gather(futures, asynchronous=True))
        except Exception as error:
            # The client keeps the error of a future as long as the future. Its traceback would keep the frames of the
            # fit, these the futures, and the cluster their results: so a copy is raised.
            raised = copy.copy(error)
            error.__traceback__ = None
            raise raised from None
        return found

    def run(self, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """Call a function once on each worker; what it raises is returned in place of the result."""
        found: dict[str, Any] = self.wait_for(
            lambda: self.client.run(function, *args, on_error="return", asynchronous=True), patience=_SILENT
        )
        return found

    def workers(self) -> dict[str, int]:
        """Return the addresses of the workers and their threads."""
        found: dict[str, int] = self.wait_for(lambda: self.client.scheduler.ncores(workers=None), patience=_SILENT)
        return found

    def where(self, futures: list[Any]) -> dict[str, tuple[str, ...]]:
        """Return which workers have the result of each future, by its key."""
        found: dict[str, tuple[str, ...]] = self.wait_for(
            lambda: self.client.scheduler.who_has(keys=[future.key for future in futures]), patience=_SILENT
        )
        return found

    def wait_for(self, request: Callable[[], Coroutine[Any, Any, Any]], patience: float = float("inf")) -> Any:
        """Wait for a request of the client, as long as there is a scheduler that answers, and a worker."""
        waiting = self._started(request())
        begun, alone = time.monotonic(), None
        try:
            while True:
                try:
                    return waiting.result(timeout=_POLL)
                except concurrent.futures.TimeoutError:
                    if waiting.done():
                        raise self._lost() from None
                except concurrent.futures.CancelledError:
                    raise self._lost() from None
                except OSError as error:
                    if not _is_of_dask(error):
                        raise
                    raise self._lost() from None
                except Exception as error:
                    if type(error).__name__ == "KilledWorker":
                        raise EngineError(_killed(error)) from None
                    if "Cancelled" in type(error).__name__ and _is_of_dask(error):
                        raise self._lost() from None
                    raise
                now = time.monotonic()
                if now - begun > patience:
                    raise self._lost()
                alone = None if self._has_workers() else alone or now
                if alone is not None and now - alone > _ALONE:
                    raise EngineError(f"The cluster at {self.address} has had no worker for {_ALONE:.0f} s.")
        finally:
            waiting.cancel()

    def _started(self, request: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        loop = getattr(self.client.loop, "asyncio_loop", None)
        if loop is None or loop.is_closed() or self.client.status == "closed":
            request.close()
            raise self._lost()
        return asyncio.run_coroutine_threadsafe(request, loop)

    def _has_workers(self) -> bool:
        """Ask the scheduler; one that is gone, or does not answer, ends the wait."""
        if self.client.status not in ("running", "connecting"):
            raise self._lost()
        answer = self._started(self.client.scheduler.ncores(workers=None))
        try:
            return bool(answer.result(timeout=_SILENT))
        except (OSError, concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            raise self._lost() from None
        finally:
            answer.cancel()

    def _lost(self) -> EngineError:
        return EngineError(f"The dask scheduler at {self.address} is lost: it has ended, or does not answer.")


def _is_of_dask(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("distributed", "dask")


def _killed(error: Any) -> str:
    """Report which task took several workers with it."""
    return (
        f"A task was on {getattr(error, 'allowed_failures', 3) + 1} workers when they died, so it is not tried again. "
        "They may have too little memory: give them more, or make the partitions smaller."
    )
