"""Box 8, DBSCAN, graph version: clusters are the connected components of core points within ε (eq. 5.11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Bools, Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import attach_borders, components, edges, frozen, squared_distances, within


class DBSCANState(NamedTuple):
    """What the steps of box 8 have made so far."""

    step: str
    n_neighbors: Ints  # (n,) |N_ε(x_i)|, itself counted
    core: Bools  # (n,)
    edges: Ints  # (m, 2) pairs of core rows within ε; none before the graph step
    labels: Ints  # (n,) −1: in no cluster (yet)


def dbscan_graph(X: ArrayLike, eps: float, min_pts: int) -> Iterator[DBSCANState]:
    """Box 8, "DBSCAN, Graph version" (eq. 5.11).

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
    DBSCANState
        After each of the box's four steps.

    Notes
    -----
    Departures (docs/theory/errata.md): a core point has at least minPts neighbours, itself included, where
    the sentence in the box has "more than" (item 1); a border point takes the *cluster* of its closest core
    point, not the label "core", ties to the smallest coordinates (item 3). Clusters are numbered by their
    lowest core row.

    Examples
    --------
    >>> from knoll.reference import dbscan_graph, run
    >>> run(dbscan_graph([[0.0], [1.0], [2.0], [9.0]], eps=1.0, min_pts=3)).labels
    array([ 0,  0,  0, -1])
    """
    return frozen(_dbscan_graph(check.points(X), check.radius(eps), check.level(min_pts)))


def _dbscan_graph(X: Floats, eps: float, min_pts: int) -> Iterator[DBSCANState]:
    labels, no_edges = np.full(len(X), -1, dtype=np.int64), np.empty((0, 2), dtype=np.int64)

    d2 = squared_distances(X, X)
    N = within(d2, eps)  # (n, n) row i is N_ε(x_i), eq. 5.11
    n_neighbors = N.sum(axis=1)
    core = n_neighbors >= min_pts
    yield DBSCANState("Core points identification step", n_neighbors, core, no_edges, labels)

    A = N & core & core[:, None]  # only core to core: a border point joins nothing
    yield DBSCANState("Graph step", n_neighbors, core, edges(A), labels)

    labels = components(A, core)
    yield DBSCANState("Connected components step", n_neighbors, core, edges(A), labels)

    labels = attach_borders(X, d2, eps, core, labels)
    yield DBSCANState("Outliers identification step", n_neighbors, core, edges(A), labels)
