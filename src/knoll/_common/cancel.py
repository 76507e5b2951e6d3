"""Stopping a computation: from another thread, or by a deadline."""

from __future__ import annotations

from typing import Self

from knoll import _core
from knoll.exceptions import Cancelled
from knoll.validation import Number, check_parameters


class CancelToken:
    """A request to stop what a thread computes, made by another thread or by the clock.

    Within ``with token:`` every call of knoll by this thread ends with `knoll.exceptions.Cancelled` soon after
    `cancel` was called or the time has passed, usually within 100 ms. Estimators stay as they were before the call.
    Tokens may be nested; the first to be cancelled counts.

    Parameters
    ----------
    seconds : float or None, default=None
        Stop so many seconds from now; None: only when `cancel` is called.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll import CancelToken, KMeans
    >>> from knoll.exceptions import Cancelled
    >>> token = CancelToken()
    >>> token.cancel()  # by any thread
    >>> try:
    ...     with token:
    ...         KMeans(n_clusters=2).fit(np.eye(4))
    ... except Cancelled as error:
    ...     print(error)
    the computation was cancelled
    """

    def __init__(self, seconds: float | None = None) -> None:
        check_parameters("CancelToken", {"seconds": seconds}, {"seconds": (Number(0), None)})
        self._token = _core.CancelToken()
        if seconds is not None:
            self._token.stop_after(float(seconds))

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called or the time has passed."""
        return self._token.cancelled

    def cancel(self) -> None:
        """Stop what runs within this token, in whatever thread, and what would begin there. It cannot be undone."""
        self._token.cancel()

    def __enter__(self) -> Self:
        _core.enter_token(self._token)
        return self

    def __exit__(self, *_: object) -> None:
        _core.leave_token()


def raise_if_cancelled() -> None:
    """Raise `Cancelled` if a token that this thread has entered is cancelled; for loops that call no kernel."""
    if _core.any_cancelled():
        raise Cancelled("the computation was cancelled")
