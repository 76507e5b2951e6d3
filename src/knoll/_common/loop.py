"""The loop of the iterative fits, and what every fit keeps of its progress.

A step takes a state and returns the next one with a report, until a rule ends it. Other loops (applications of
an operator in the eigensolver, the ascents of the core, batches of `partial_fit`) record by `make_history`, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from knoll._typing import Floats, Ints
from knoll.exceptions import EngineError

State = TypeVar("State")
History = dict[str, Floats | Ints]


@dataclass(frozen=True)
class StepReport:
    """The report of a step: the objective after it, and how much changed (in the algorithm's own measure)."""

    objective: float
    changed: float


def iterate(
    step: Callable[[State], tuple[State, StepReport]],
    state: State,
    *,
    max_iter: int,
    stop: Callable[[list[StepReport]], bool],
    hook: Callable[[int, StepReport], None] | None = None,
) -> tuple[State, History]:
    """Apply `step` until `stop(reports)` is true or `max_iter` steps are done; return the last state and history."""
    reports: list[StepReport] = []
    seconds: list[float] = []
    while len(reports) < max_iter and not (reports and stop(reports)):
        begun = time.perf_counter()
        try:
            state, report = step(state)
        except EngineError as error:
            raise EngineError(f"{error} This was in step {len(reports) + 1}.") from error
        seconds.append(time.perf_counter() - begun)
        reports.append(report)
        if hook is not None:
            hook(len(reports), report)
    return state, make_history(
        [report.objective for report in reports], [report.changed for report in reports], seconds
    )


def make_history(objective: Sequence[float], changed: Sequence[float], seconds: Sequence[float]) -> History:
    """Make `history_` of the objective after each iteration, how much it changed, and the time it took."""
    history: History = {"iteration": np.arange(1, len(objective) + 1)}
    for name, values in (("objective", objective), ("changed", changed), ("seconds", seconds)):
        history[name] = np.array(values, dtype=np.float64)
    return history


def live(name: str, verbose: int, every: int = 1) -> Callable[[int, StepReport], None] | None:
    """Make the hook that prints each step, or one in `every`, under `verbose`, or none."""
    if not verbose:
        return None

    def show(iteration: int, report: StepReport) -> None:
        if iteration % every == 0:
            print(
                f"{name}: step {iteration}, objective {report.objective:.10g}, changed {report.changed:.3g}",
                flush=True,
            )

    return show
