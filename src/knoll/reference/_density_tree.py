"""The density tree: connected components of mutual reachability for every height (docs/theory/future-work.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import components, frozen, squared_distances


class DensityTreeState(NamedTuple):
    """The components of {m ≤ height}."""

    height: float
    core_distances: Floats  # (n,) c(x): the distance of the minPts-th nearest row, x included
    labels: Ints  # (n,) components, numbered by their lowest rows; a row alone is one as well


def density_tree(X: ArrayLike, min_pts: int) -> Iterator[DensityTreeState]:
    """All components of {m ≤ h}, m(x, y) = max(c(x), c(y), ‖x − y‖), from the lowest height to the highest.

    Components that merge at one height are joined at once, however many there are.

    Parameters
    ----------
    X : (n, d) array
        The points.
    min_pts : int
        The level minPts, from 1 to n; a row counts itself.

    Yields
    ------
    DensityTreeState
        At each height at which components merge.

    Examples
    --------
    >>> from knoll.reference import density_tree
    >>> [(state.height, state.labels.tolist()) for state in density_tree([[0.0], [1.0], [5.0]], min_pts=1)]
    [(1.0, [0, 0, 1]), (4.0, [0, 0, 0])]
    """
    points = check.points(X)
    return frozen(_density_tree(points, check.clusters(check.level(min_pts), len(points))))


def _density_tree(X: Floats, min_pts: int) -> Iterator[DensityTreeState]:
    distances = np.sqrt(squared_distances(X, X))
    c = np.sort(distances, axis=1)[:, min_pts - 1]
    m = np.maximum(distances, np.maximum(c, c[:, None]))  # mutual reachability
    everyone, found = np.ones(len(X), dtype=bool), len(X)
    for h in np.unique(m[~np.eye(len(X), dtype=bool)]).tolist():
        labels = components(m <= h, everyone)
        if labels.max() + 1 < found:
            found = labels.max() + 1
            yield DensityTreeState(h, c, labels)
        if found == 1:
            return
