"""The judgement of `knoll.compare` in a session: of all rows in the background, or of the selected rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from knoll._common.cancel import CancelToken
from knoll.comparison import Comparison, compare
from knoll.comparison.result import Event, plain
from knoll.exceptions import BadData, Cancelled, InvalidParameter, KnollError
from knoll.explorer.source import Source
from knoll.registry import compared

if TYPE_CHECKING:
    from knoll.explorer.session import Session

__all__ = ["Background", "begin", "compare_rows", "options", "status", "summary"]

BUDGET = 60.0  # seconds, of the background
REFIT_BUDGET = 20.0
_EXACT = 5_000  # rows up to which a refit of a selection sees every row, whatever it takes: the same in every run
_log = logging.getLogger("knoll")


def options(requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked options of a comparison that a message may set."""
    found: dict[str, Any] = {}
    if "methods" in requested:
        known = compared(mixed=True)
        for name in requested["methods"]:
            if name not in known:
                raise InvalidParameter(f"methods: there is no {name!r:.60}. Choose some of {', '.join(known)}.")
        found["methods"] = list(requested["methods"])
    if "k" in requested:
        numbers = requested["k"]
        if not all(type(one) is int and 1 <= one <= 1000 for one in numbers) or not 0 < len(numbers) <= 100:
            raise InvalidParameter("k must be at most 100 whole numbers from 1 to 1000.")
        found["k"] = list(numbers)
    if "budget" in requested:
        found["budget"] = float(requested["budget"])
    return found


def compare_rows(source: Source, progress: Callable[[Event], None] | bool = False, **chosen: Any) -> Comparison:
    """Compare the methods on the rows of a source, as it is scaled."""
    X = source.X if source.table is None else source.table
    how = source.options if source.table is None else {k: v for k, v in source.options.items() if k in _HOW}
    return compare(X, seed=source.seed, n_jobs=source.n_jobs, progress=progress, **{"budget": BUDGET, **how, **chosen})


_HOW = ("scale", "metric", "missing")  # what is still to be specified about a table that has been read


def refit_options(rows: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a refit of so many rows."""
    return {"budget": REFIT_BUDGET, **settings} | ({"exact": True} if rows <= _EXACT else {})


class Background:
    """A comparison of all rows that runs in a thread of its own, one at a time."""

    def __init__(self, session: Session) -> None:
        self._session, self._lock = session, Lock()
        self._token: CancelToken | None = None
        self.progress: dict[str, Any] = {"running": False, "fraction": 0.0, "stage": "", "error": ""}
        self.on_change: Callable[[], None] = lambda: None  # called when the progress changes

    def begin(self, **settings: Any) -> None:
        """Begin, unless one runs already."""
        with self._lock:
            if self.progress["running"]:
                return
            self._token = CancelToken()
            self.progress = {"running": True, "fraction": 0.0, "stage": "reading", "error": ""}
        Thread(target=self._run, args=(self._token, settings), daemon=True, name="knoll-recommend").start()

    def cancel(self) -> None:
        """Stop it."""
        if self._token is not None:
            self._token.cancel()

    def _run(self, token: CancelToken, settings: dict[str, Any]) -> None:
        error = ""
        try:
            with token:
                found = compare_rows(self._session.source, self._event, **settings)
            self._session.adopt(found, settings)
        except Cancelled:
            error = "cancelled"
        except KnollError as caught:
            error = str(caught)
        except Exception:
            _log.exception("the comparison in the background failed")
            error = "the comparison failed; the log of the server gives the reason"
        self._report(running=False, fraction=1.0, stage="done", error=error)

    def _event(self, event: Event) -> None:
        if event.method != "plan":
            stage = f"{event.method}: {event.stage}"
            self._report(fraction=event.fraction, stage=stage, seconds_left=event.seconds_left)

    def _report(self, **facts: Any) -> None:
        self.progress = {**self.progress, **facts}
        self.on_change()


def begin(session: Session, **requested: Any) -> dict[str, Any]:
    """Begin the comparison of all rows in the background."""
    if len(session.source) < 2:
        raise BadData("a comparison needs at least 2 rows.")
    session.background.begin(**options(requested))
    return {"running": True}


def status(session: Session) -> dict[str, Any]:
    """Report how far the comparison is, and what it recommends."""
    found = session.comparison
    return {**session.background.progress, "recommendation": None if found is None else summary(session, found)}


def summary(session: Session, found: Comparison) -> dict[str, Any]:
    """Return what the page shows of a comparison; answers are those of the session, by id."""
    advice = found.recommendation
    names = {one.python: one.id for one in session.supplied.values() if one.origin == "recommended"}
    ids = {name: names.get(f"found.answers()[{name!r}].labels", "") for name in found.answers()}
    others = {f"alternative-{at}": one for at, one in enumerate(found.alternatives, 1)}
    answers = [
        {
            "id": ids[name],
            "method": one.method,
            "name": name,
            "n_clusters": one.n_clusters,
            "noise": one.noise,
            "expected": one.expected,
            "stability": one.stability,
            "how": one.how,
            "relation": others[name].relation if name in others else "",
        }
        for name, one in found.answers().items()
    ]
    return plain(
        {
            "answer": ids[advice.method],
            "verdict": advice.verdict,
            "confidence": advice.confidence,
            "level": advice.level,
            "reasons": advice.reasons,
            "caution": advice.caution,
            "notes": found.notes,
            "answers": answers,
            "failures": found.failures,
            "seconds": found.seconds,
            "agreement": {"answers": [ids[name] for name in found.agreement.methods], "ami": found.agreement.matrix},
        }
    )
