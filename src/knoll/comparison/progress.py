"""The progress of a comparison as a live line: on terminals and in notebooks, where rich is installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from knoll._format import byte_size, duration
from knoll.registry import title

if TYPE_CHECKING:
    from knoll.comparison.result import Event

__all__ = ["Show", "live_line", "shown", "stage_of", "time_left"]

Show = Callable[["Event"], None]
_WIDE = 90  # columns of a terminal that leave space for a bar and a clock beside the text


@contextlib.contextmanager
def shown(progress: Show | bool | None) -> Iterator[Show | None]:
    """Give what shows the events: the given function, a live line where there are eyes for it, or nothing for False."""
    if callable(progress):
        yield progress
        return
    console = None if progress is False else _console()
    if console is None:
        yield None
        return
    with live_line(console) as show:
        yield show


def _console() -> Any:
    """Return a console on a terminal or in a notebook; None where there is no reader, or without rich."""
    notebook = "ipykernel" in sys.modules
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if not (notebook or terminal) or find_spec("rich") is None:
        return None
    from rich.console import Console

    console = Console(stderr=not notebook)
    return console if console.is_terminal or console.is_jupyter else None


@contextlib.contextmanager
def live_line(console: Any) -> Iterator[Show]:
    """Give a function that draws events as one line of the console; the line is gone at the end."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bars: tuple[Any, ...] = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    columns: tuple[Any, ...] = (
        TextColumn("{task.description}", markup=False), *(bars if console.width >= _WIDE else bars[1:2]),
        TextColumn("{task.fields[details]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0, details="")

        def show(event: Event) -> None:
            if event.method == "plan":
                return
            details = " · ".join(filter(None, (time_left(event), byte_size(event.memory))))
            bar.update(task, completed=event.fraction, description=stage_of(event), details=details, refresh=True)

        yield show


def stage_of(event: Event) -> str:
    """Return what runs."""
    return f"{title(event.method)}: {event.stage}"


def time_left(event: Event) -> str:
    """Return how long it may still take; empty at first and at the end."""
    if event.seconds_left is None or event.fraction >= 1:
        return ""
    return f"about {duration(event.seconds_left)} left"
