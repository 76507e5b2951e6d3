"""Runs cases of a family within a budget, counts checks and failures, and reduces what fails."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fuzz.case import Case, Family, make_case
from fuzz.shrink import reproducer, shrink
from knoll.exceptions import KnollError, KnollWarning

__all__ = ["Failure", "Tally", "check_case", "run"]

CPU_SECONDS = 20.0  # of a case: more is a hang
_WALL_SECONDS = 600.0  # of a case: then the process ends with the stacks of all threads, whatever it waits for
_SHOWN = 3  # failures of one law that are reduced and shown

# Warnings of other classes that are meant, with their reason.
_MEANT = {
    r"Explicit initial center position passed": "scikit-learn's message and class, for its users' filters",
    r"algorithm='elkan' doesn't make sense": "scikit-learn's message and class",
    r"Parameter p is found in metric_params": "scikit-learn's message and class",
    r"init is an explicit start, so one run is made": "the same thing, of KernelKMeans",
}


class Hang(BaseException):
    """A case used more CPU time than any case may."""


@dataclass(frozen=True)
class Failure:
    """What went wrong in a case."""

    case: Case
    law: str
    text: str

    @property
    def sort(self) -> str:
        """The law, and for errors their class: failures of one sort are counted together."""
        return self.law


@dataclass
class Tally:
    """What a run has counted."""

    family: str
    cases: int = 0
    refused: int = 0
    seconds: float = 0.0
    checks: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)  # the first of each law
    seeds: dict[str, list[int]] = field(default_factory=dict)


# ---- one case ------------------------------------------------------------------------------------------------------


def check_case(case: Case, tally: Tally | None = None, only: str | None = None) -> list[Failure]:
    """Fit and check the result by every law, or one; return what failed."""
    counts = Tally(case.family.name) if tally is None else tally
    failures: list[Failure] = []
    leaked: set[str] = set()

    def check(law: str, work: Callable[[], Any]) -> Any:
        """Run a law or a fit; a text it returns, an error it raises and a warning that leaks are failures."""
        counts.checks[law] += 1
        answer, errors, leaks = _guarded(work)
        new = [
            (name, text) for name, text in leaks if name not in leaked
        ]  # one warning is reported once, not by every law
        leaked.update(name for name, _ in leaks)
        failures.extend(Failure(case, f"{law}: {name}", text) for name, text in errors + new)
        return answer

    counts.cases += 1
    model: Any = None
    if case.family.estimator is not None:
        refusal: list[KnollError] = []

        def fit() -> Any:
            try:
                return case.fit()
            except KnollError as error:
                refusal.append(error)
                return None

        model = check("fit", fit)
        if refusal:
            counts.refused += 1
            if text := _unexplained(case, refusal[0]):
                failures.append(Failure(case, "refuses ordinary data", text))
        if model is None:
            return _counted(counts, failures)
    for law in case.family.laws:
        name = law.__name__
        if only is not None and only.partition(": ")[0] != name:
            continue
        text = check(name, functools.partial(law, case, model))
        if isinstance(text, str):
            failures.append(Failure(case, name, text))
    return _counted(counts, failures)


def _counted(counts: Tally, failures: list[Failure]) -> list[Failure]:
    for failure in failures:
        counts.failed[failure.sort] += 1
        counts.seeds.setdefault(failure.sort, []).append(failure.case.seed)
    return failures


Findings = list[tuple[str, str]]  # a name under which equal ones are counted, and what happened


def _guarded(work: Callable[[], Any]) -> tuple[Any, Findings, Findings]:
    """Run something under the time limit; also return the error it raises and the warnings it lets through."""
    answer, errors, leaks = None, [], {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _cpu_limit(CPU_SECONDS):
                answer = work()
        except Hang:
            errors.append(("hang", f"used more than {CPU_SECONDS:g} s of CPU"))
        except Exception as error:
            name = f"{type(error).__name__} at {_location(error)}"
            errors.append((name, f"{name}: {str(error)[:200]}"))
    for warning in caught:
        if not issubclass(warning.category, KnollWarning) and not any(
            re.search(w, str(warning.message)) for w in _MEANT
        ):
            name = f"{warning.category.__name__} at {os.path.basename(warning.filename)}:{warning.lineno}"
            leaks[name] = f"{name}: {str(warning.message)[:120]}"
    return answer, errors, list(leaks.items())


def _location(error: BaseException) -> str:
    """Name the last line of knoll that an error passed through, or the last of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}knoll{os.sep}" in frame.filename] or list(frames)
    return f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}"


def _unexplained(case: Case, error: KnollError) -> str | None:
    """Return the message of an error that ordinary data should not raise."""
    if not case.ordinary:
        return None
    for refusal in case.family.refusals:
        if re.search(refusal.pattern, str(error)) and refusal.when(case):
            return None
    return f"{type(error).__name__}: {str(error)[:200]}"


@contextlib.contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """Raise Hang when the process has used so much CPU time; long calls of the core notice signals."""

    def expired(number: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, expired)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# ---- many cases ----------------------------------------------------------------------------------------------------


def run(
    family: Family,
    seeds: Iterable[int],
    *,
    seconds: float = float("inf"),
    progress: Callable[[int], None] | None = None,
    show: Callable[[str], None] | None = None,
) -> Tally:
    """Check the cases of these seeds until the time is over; show the first failures of each law, reduced."""
    tally, begun = Tally(family.name), time.monotonic()
    for seed in seeds:
        tally.seconds = time.monotonic() - begun
        if tally.seconds >= seconds:
            break
        if progress is not None:
            progress(seed)
        faulthandler.dump_traceback_later(_WALL_SECONDS, exit=True)
        for failure in check_case(make_case(family, seed), tally):
            if tally.failed[failure.sort] > _SHOWN:
                continue
            tally.failures.append(failure)
            if show is not None and tally.failed[failure.sort] == 1:
                show(describe(failure))
    faulthandler.cancel_dump_traceback_later()
    tally.seconds = time.monotonic() - begun
    return tally


def describe(failure: Failure) -> str:
    """Describe what failed, how to see it again, and a smaller case in a few lines."""

    def fails(case: Case) -> bool:
        return any(other.sort == failure.sort for other in check_case(case, only=failure.law))

    small = shrink(failure.case, fails)
    again = [other for other in check_case(small, only=failure.law) if other.sort == failure.sort]
    text = (again or [failure])[0].text
    case = failure.case
    return "\n".join(
        [
            f"{case.family.name}, seed {case.seed}: {failure.law}",
            f"  python -m fuzz --families {case.family.name} --seed {case.seed} --cases 1",
            f"  {len(case.X)} × {case.X.shape[1]}, {case.table.shape}, {case.table.magnitude}, {case.X.dtype}, "
            f"{case.form}, weights: {case.weight_sort}",
            *(f"    {line}" for line in reproducer(small).splitlines()),
            f"    # {text}",
        ]
    )


def use_plain_errors() -> None:
    """Let a crash of the core show its stack."""
    faulthandler.enable(file=sys.stderr)
