"""How many distances the boxes evaluate: complexities are about counts, and seconds are about machines."""

from __future__ import annotations

from contextvars import ContextVar

_open: ContextVar[tuple[counted, ...]] = ContextVar("_open", default=())


class counted:
    """Count the distances that boxes evaluate inside the ``with`` block.

    They are Euclidean distances of two points and Mahalanobis distances of a point and a component; a kernel of two
    points is one distance. Other threads count for themselves.

    Attributes
    ----------
    distances : int
        Evaluated so far; may be read between the states of a box.

    Examples
    --------
    >>> from knoll.reference import counted, dbscan_graph, run
    >>> with counted() as tally:
    ...     state = run(dbscan_graph([[0.0], [1.0], [2.0], [9.0]], eps=1.0, min_pts=3))
    >>> tally.distances
    16
    """

    def __init__(self) -> None:
        self.distances = 0

    def __enter__(self) -> counted:
        self._token = _open.set((*_open.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _open.reset(self._token)


def spent(distances: int) -> None:
    """Add to every open tally."""
    for tally in _open.get():
        tally.distances += distances
