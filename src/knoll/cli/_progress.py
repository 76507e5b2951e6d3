"""Progress on standard error: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from knoll._format import byte_size
from knoll.cli._terminal import echo

if TYPE_CHECKING:
    from knoll.comparison import Event

_QUIET = 1.0  # seconds: stages that pass faster get no line of their own
_STEP = 0.01  # of the whole that a step after the fit counts for

Show = Callable[["Event"], None]


class Meter:
    """One scale for the fits of a comparison and for the steps of writing its results after them."""

    def __init__(self, show: Show, steps: Sequence[str]) -> None:
        self._show, self._steps = show, list(steps)

    def fit(self, event: Event) -> None:
        """Show an event of the comparison."""
        self._show(replace(event, fraction=event.fraction * (1 - _STEP * len(self._steps))))

    def step(self, name: str) -> None:
        """Show that a step begins."""
        from knoll._system import peak_memory
        from knoll.comparison import Event

        left = len(self._steps) - self._steps.index(name)
        self._show(Event("report", name, 1 - _STEP * left, None, peak_memory()))


@contextlib.contextmanager
def showing(quiet: bool = False) -> Iterator[Show]:
    """Give a function that shows the events of a comparison; it does nothing when `quiet`."""
    if quiet:
        yield lambda event: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_lines()
        return
    from knoll.comparison.progress import live_line

    with live_line(console) as show:
        yield show


def _plain_lines() -> Show:
    """Print a line when the method changes, and when its stage does if the last line is some time ago."""
    last, printed = ("", ""), -math.inf

    def show(event: Event) -> None:
        nonlocal last, printed
        (method, stage), last = last, (event.method, event.stage)
        if event.method != method or (event.stage != stage and time.monotonic() - printed > _QUIET):
            printed = time.monotonic()
            echo(event_line(event), err=True)

    return show


def event_line(event: Event) -> str:
    """Return in a line what runs, how far it is, how long it may take, and the memory that was used."""
    from knoll.comparison.progress import stage_of, time_left

    fields = [f"{100 * event.fraction:3.0f} % {stage_of(event)}", time_left(event), byte_size(event.memory)]
    return ", ".join(filter(None, fields))


@contextlib.contextmanager
def counting(total: int, *, plain: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that shows the next of so many steps; with `plain` also where there is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        count = iter(range(1, total + 1))
        yield (lambda text: echo(f"{next(count)}/{total} {text}", err=True)) if plain else (lambda text: None)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
