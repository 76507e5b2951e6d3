"""How many distances the boxes evaluate: complexities are about counts, and seconds are about machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Tally:
    """Distances evaluated since it was opened: Euclidean ones of two points, Mahalanobis ones of point and component.

    A kernel of two points is one distance. Running totals may be read while a box runs, between its states.
    """

    distances: int = 0


_open: ContextVar[tuple[Tally, ...]] = ContextVar("_open", default=())


@contextmanager
def counted() -> Iterator[Tally]:
    """Count the distances that boxes evaluate inside the ``with`` block.

    Examples
    --------
    >>> from knoll.reference import counted, dbscan_graph, run
    >>> with counted() as tally:
    ...     state = run(dbscan_graph([[0.0], [1.0], [2.0], [9.0]], eps=1.0, min_pts=3))
    >>> tally.distances
    16
    """
    tally = Tally()
    token = _open.set((*_open.get(), tally))
    try:
        yield tally
    finally:
        _open.reset(token)


def spent(distances: int) -> None:
    """Tell every open tally."""
    for tally in _open.get():
        tally.distances += distances
