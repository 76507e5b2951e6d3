"""How far a comparison is, on standard error: a live line on a terminal, a plain line for each stage elsewhere."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from knoll.cli._terminal import echo

if TYPE_CHECKING:
    from knoll.comparison import Event

__all__ = ["Show", "event_line", "showing"]

_WIDE = 90  # columns of a terminal that have room for a bar and a clock beside the words
_QUIET = 1.0  # seconds: stages that pass faster are not told, where each takes a line

Show = Callable[["Event"], None]


@contextlib.contextmanager
def showing(quiet: bool = False) -> Iterator[Show]:
    """Give a function that shows events; nothing is shown when `quiet`."""
    if quiet:
        yield lambda event: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plainly()
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bars: tuple[Any, ...] = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    columns: tuple[Any, ...] = (
        TextColumn("{task.description}", markup=False), *(bars if console.width >= _WIDE else bars[1:2]),
        TextColumn("{task.fields[rest]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0, rest="")

        def show(event: Event) -> None:
            rest = " · ".join(part for part in (_left(event), _memory(event)) if part)
            bar.update(task, completed=event.fraction, description=_doing(event), rest=rest, refresh=True)

        yield show


def _plainly() -> Show:
    """Print a line when the method changes, and when its stage does if the last line is some time ago."""
    last: list[tuple[str, str]] = [("", "")]
    said = [-math.inf]

    def show(event: Event) -> None:
        (method, stage), last[0] = last[0], (event.method, event.stage)
        if event.method != method or (event.stage != stage and time.monotonic() - said[0] > _QUIET):
            said[0] = time.monotonic()
            echo(event_line(event), err=True)

    return show


def event_line(event: Event) -> str:
    """Say in a line what runs, how far the whole is, how long it may take, and how much memory is held."""
    parts = [f"{100 * event.fraction:3.0f} % {_doing(event)}", _left(event), _memory(event)]
    return ", ".join(part for part in parts if part)


def _doing(event: Event) -> str:
    from knoll.registry import title

    return f"{title(event.method)}: {event.stage}"


def _left(event: Event) -> str:
    if event.seconds_left is None or event.fraction >= 1:
        return ""
    seconds = round(event.seconds_left)
    return f"about {seconds} s left" if seconds < 100 else f"about {round(seconds / 60)} min left"


def _memory(event: Event) -> str:
    return f"{event.memory / 1e9:.1f} GB" if event.memory >= 1e9 else f"{event.memory / 1e6:.0f} MB"
