"""HDBSCAN: the density tree condensed to clusters of a least size, of which the most stable are selected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Bools, Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import frozen
from knoll.reference._density_tree import _density_tree


class HDBSCANState(NamedTuple):
    """The condensed tree above a height, and the rows' clusters in it."""

    height: float
    parent: Ints  # (c,) of each cluster, −1: the root
    stability: Floats  # (c,) Σ (λ of leaving − λ of birth) over the rows that have left so far
    cluster: Ints  # (n,) the smallest cluster that each row has been in
    labels: Ints  # (n,) of the selected clusters, −1: noise; all −1 before the last state


def hdbscan(X: ArrayLike, min_pts: int, min_cluster_size: int) -> Iterator[HDBSCANState]:
    """HDBSCAN: condense the density tree from the top, then select clusters by excess of mass.

    Of the components that a cluster falls into, those of at least min_cluster_size rows are large. Two or more begin
    clusters of their own, one goes on, and the rows of all others leave.

    Parameters
    ----------
    X : (n, d) array
        The points.
    min_pts : int
        The level minPts of the core distances.
    min_cluster_size : int
        The least number of rows of a cluster, ≥ 2.

    Yields
    ------
    HDBSCANState
        At each height, from the highest, and once more with the labels.

    Examples
    --------
    >>> from knoll.reference import hdbscan, run
    >>> run(hdbscan([[0.0], [0.5], [1.0], [7.0], [7.5], [8.0], [50.0]], min_pts=2, min_cluster_size=3)).labels
    array([ 0,  0,  0,  1,  1,  1, -1])
    """
    points = check.points(X)
    level = check.clusters(check.level(min_pts), len(points))
    least = check.count(min_cluster_size, "min_cluster_size", "A cluster has at least two rows.")
    return frozen(_hdbscan(points, level, least))


def _hdbscan(X: Floats, min_pts: int, least: int) -> Iterator[HDBSCANState]:
    n = len(X)
    states = list(_density_tree(X, min_pts))
    positive = [state.height for state in states if state.height > 0]
    parent, birth, stability, inside = [-1], [0.0], [0.0], [np.ones(n, dtype=bool)]
    cluster, none = np.zeros(n, dtype=np.int64), np.full(n, -1)
    below = [np.arange(n), *(state.labels for state in states[:-1])]
    for state, labels in zip(states[::-1], below[::-1], strict=True):
        lam = 1.0 / max(state.height, positive[0] if positive else np.inf)  # equal rows: the least positive height
        for c in range(len(parent)):
            pieces = [inside[c] & (labels == piece) for piece in np.unique(labels[inside[c]])]
            large = [piece for piece in pieces if piece.sum() >= least]
            stays = large[0] if len(large) == 1 else np.zeros(n, dtype=bool)
            stability[c] += (lam - birth[c]) * int((inside[c] & ~stays).sum())
            inside[c] = stays
            for piece in large if len(large) > 1 else []:
                cluster[piece] = len(parent)
                parent, birth, stability = [*parent, c], [*birth, lam], [*stability, 0.0]
                inside.append(piece)
        yield HDBSCANState(state.height, np.array(parent), np.array(stability), cluster.copy(), none)
    chosen = _excess_of_mass(np.array(parent), np.array(stability))
    labels = _labels(X, np.array(parent), cluster, chosen)
    yield HDBSCANState(0.0, np.array(parent), np.array(stability), cluster, labels)


def _excess_of_mass(parent: Ints, stability: Floats) -> Bools:
    """The clusters, none inside another and not the root, of largest total stability."""
    best, below, chosen = stability.copy(), np.zeros(len(parent)), np.zeros(len(parent), dtype=bool)
    for c in range(len(parent) - 1, 0, -1):  # children come after their parents
        chosen[c] = below[c] <= stability[c]
        best[c] = max(stability[c], below[c])
        below[parent[c]] += best[c]
    return chosen


def _labels(X: Floats, parent: Ints, cluster: Ints, chosen: Bools) -> Ints:
    """The outermost chosen cluster of each row, numbered by size and, of equal sizes, by their smallest rows."""
    outermost = np.full(len(parent), -1)
    for c in range(1, len(parent)):
        up = outermost[parent[c]]
        outermost[c] = up if up >= 0 else c if chosen[c] else -1
    assigned = outermost[cluster]
    found = set(assigned.tolist()) - {-1}
    order = sorted(found, key=lambda c: (-int((assigned == c).sum()), min(X[assigned == c].tolist())))
    return np.array([order.index(c) if c >= 0 else -1 for c in assigned.tolist()])
