"""The best centres of the density tree's ultrametric, one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import frozen
from knoll.reference._density_tree import _density_tree


class TreeCentersState(NamedTuple):
    """The best k centres."""

    centers: Ints  # (k,) rows, in the order in which they were added
    cost: float  # Σ_x min_c u(x, c)^z
    labels: Ints  # (n,) the first of the nearest centres


def tree_centers(X: ArrayLike, min_pts: int, power: float = 2.0) -> Iterator[TreeCentersState]:
    """k-means (z = 2), k-median (z = 1) of the tree's ultrametric u, for every k: the greedy choice is optimal.

    u(x, y) is the least height at which x and y are in one component of {m ≤ h}; equal rows have u = 0. Each centre
    is the row that lowers the cost Σ_x min_c u(x, c)^z most, of several the one of the smallest coordinates (Draganov
    et al. 2025).

    Parameters
    ----------
    X : (n, d) array
        The points.
    min_pts : int
        The level minPts of the core distances.
    power : float
        The power z > 0 of the ultrametric.

    Yields
    ------
    TreeCentersState
        With one centre, two, and so on up to the number of distinct rows.

    Examples
    --------
    >>> from knoll.reference import tree_centers
    >>> states = list(tree_centers([[0.0], [1.0], [5.0], [7.0]], min_pts=1, power=1.0))
    >>> [(state.centers.tolist(), state.cost) for state in states]
    [([0], 9.0), ([0, 2], 3.0), ([0, 2, 3], 1.0), ([0, 2, 3, 1], 0.0)]
    """
    points = check.points(X)
    z = check.positive(power, "power", "2 is k-means, 1 is k-median.")
    return frozen(_tree_centers(points, check.clusters(check.level(min_pts), len(points)), z))


def _tree_centers(X: Floats, min_pts: int, z: float) -> Iterator[TreeCentersState]:
    u = np.full((len(X), len(X)), np.inf)
    for state in _density_tree(X, min_pts):  # from the lowest height
        together = state.labels[:, None] == state.labels
        u[together & np.isinf(u)] = state.height
    u[(X[:, None] == X).all(axis=2)] = 0.0
    nearest, centers = np.full(len(X), np.inf), np.array([], dtype=np.int64)
    while nearest.max() > 0:
        costs = np.array([math.fsum(row) for row in np.minimum(u, nearest) ** z])  # rounded once: ties stay ties
        best = np.flatnonzero(costs == costs.min())
        center = min(best.tolist(), key=lambda i: X[i].tolist())
        centers, nearest = np.append(centers, center), np.minimum(u[center], nearest)
        yield TreeCentersState(centers, float(costs.min()), u[:, centers].argmin(axis=1))
