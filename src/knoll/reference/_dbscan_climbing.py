"""Box 9, DBSCAN, climbing hill version: every point ascends until its neighbourhood holds minPts points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Bools, Floats, Ints
from knoll.reference import _check as check
from knoll.reference._ascent import Ascent
from knoll.reference._common import components, edges, frozen, squared_distances, within


class ClimbingState(NamedTuple):
    """The positions of the moving points, and the results of the later steps."""

    step: str
    iteration: int  # steps that the longest path has taken
    X_climb: Floats  # (n, d)
    n_neighbors: Ints  # (n,) |N_ε| of X_climb in the static X
    f: Floats  # (n,) altitude, eq. 6.1
    climbing: Bools  # (n,) whose path has not ended
    core: Bools  # (n,) the level is reached
    edges: Ints  # (m, 2) pairs of ends that are core, within ε; none before the graph step
    labels: Ints  # (n,) −1: in no cluster (yet)


def dbscan_climbing(X: ArrayLike, eps: float, min_pts: int) -> Iterator[ClimbingState]:
    """Box 9, "DBSCAN, Climbing hill version" (eq. 5.12).

    Parameters
    ----------
    X : (n, d) array
        The points.
    eps : float
        The radius ε > 0 (and ≥ 1e-150, whose square float64 can hold); a distance equal to ε is inside.
    min_pts : int
        The level minPts ≥ 1.

    Yields
    ------
    ClimbingState
        After the copy, after every round in which each moving point takes one step, after the graph step
        and after the components.

    Notes
    -----
    Departures (docs/theory/errata.md): the loop runs *while* |N_ε| < minPts and ends *when* x_new = x, the
    level is tested before the first move (item 2); an edge joins two ends that reached the level
    and are within ε of each other (item 5); an outlier is a point whose path ended below the level, not a
    component of one (item 6). This is not DBSCAN under another name: item 4 lists what differs and what is
    kept.

    Examples
    --------
    >>> from knoll.reference import dbscan_climbing, run
    >>> run(dbscan_climbing([[0.0], [0.5], [1.0], [1.9]], eps=1.0, min_pts=3)).labels
    array([0, 0, 0, 0])
    """
    return frozen(_dbscan_climbing(check.points(X), check.radius(eps), check.level(min_pts)))


def _dbscan_climbing(X: Floats, eps: float, min_pts: int) -> Iterator[ClimbingState]:
    at, t = Ascent(X, eps), 0  # Copy step
    climbing = at.N.sum(axis=1) < min_pts
    labels, E = np.full(len(X), -1, dtype=np.int64), np.empty((0, 2), dtype=np.int64)

    def state(step: str) -> ClimbingState:
        n_neighbors = at.N.sum(axis=1)
        core = n_neighbors >= min_pts
        return ClimbingState(step, t, at.X_climb.copy(), n_neighbors, at.altitude(), climbing.copy(), core, E, labels)

    yield state("Copy step")
    while climbing.any():
        t += 1
        for i in np.flatnonzero(climbing):
            moved = at.step(i)  # eq. 5.12
            climbing[i] = moved and at.N[i].sum() < min_pts
        yield state("Core points identification step")

    core = at.N.sum(axis=1) >= min_pts
    A = within(squared_distances(at.X_climb, at.X_climb), eps) & core & core[:, None]
    E = edges(A)
    yield state("Graph step")
    labels = components(A, core)
    yield state("Connected components step")
