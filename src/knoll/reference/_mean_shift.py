"""Box 10, Mean Shift: points ascend f(y) = Σ_i max(0, ε² − ‖y − x_i‖²) to the end of their path  (eq. 6.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Bools, Floats, Ints
from knoll.reference import _check as check
from knoll.reference._ascent import Ascent
from knoll.reference._common import components, edges, frozen, squared_distances, within


class MeanShiftState(NamedTuple):
    """The positions of the moving points, and the results of the later steps."""

    step: str
    iteration: int  # steps that the longest path has taken
    X_climb: Floats  # (n, d)
    n_neighbors: Ints  # (n,) |N_ε| of X_climb in the static X
    f: Floats  # (n,) altitude, eq. 6.1
    climbing: Bools  # (n,) whose path has not ended
    edges: Ints  # (m, 2) pairs of ends within ε; none before the graph step
    labels: Ints  # (n,) −1 before the components are known, never after
    outliers: Bools  # (n,) rows that are alone in their component


def mean_shift(X: ArrayLike, eps: float) -> Iterator[MeanShiftState]:
    """Box 10, "Mean Shift" (eq. 5.12, 6.1).

    Parameters
    ----------
    X : (n, d) array
        The points.
    eps : float
        The radius ε > 0 (and ≥ 1e-150, whose square float64 can hold); a distance equal to ε is inside.

    Yields
    ------
    MeanShiftState
        After the copy, after every round in which each moving point takes one step, after the graph step
        and after the components.

    Notes
    -----
    Departures (docs/theory/errata.md): a path ends when x_new = x (items 2 and 14), and where it ends need
    not be the closest mode, nor a mode at all (item 13); every point is a node of the graph, ``labels`` has
    no noise, and ``outliers`` marks the components of one row for those who want them (item 6).

    Examples
    --------
    >>> from knoll.reference import mean_shift, run
    >>> state = run(mean_shift([[0.0], [1.0], [9.0], [10.0], [50.0]], eps=2.0))
    >>> state.X_climb.ravel().tolist(), state.labels.tolist()
    ([0.5, 0.5, 9.5, 9.5, 50.0], [0, 0, 1, 1, 2])
    """
    return frozen(_mean_shift(check.points(X), check.radius(eps)))


def _mean_shift(X: Floats, eps: float) -> Iterator[MeanShiftState]:
    at, t = Ascent(X, eps), 0  # Copy step
    climbing, outliers = np.ones(len(X), dtype=bool), np.zeros(len(X), dtype=bool)
    labels, E = np.full(len(X), -1, dtype=np.int64), np.empty((0, 2), dtype=np.int64)

    def state(step: str) -> MeanShiftState:
        n_neighbors = at.N.sum(axis=1)
        return MeanShiftState(
            step, t, at.X_climb.copy(), n_neighbors, at.altitude(), climbing.copy(), E, labels, outliers
        )

    yield state("Copy step")
    while climbing.any():
        t += 1
        for i in np.flatnonzero(climbing):
            climbing[i] = at.step(i)  # eq. 5.12
        yield state("Core points identification step")

    A = within(squared_distances(at.X_climb, at.X_climb), eps)
    E = edges(A)
    yield state("Graph step")
    labels = components(A, np.ones(len(X), dtype=bool))
    outliers = np.bincount(labels)[labels] == 1
    yield state("Connected components step")
