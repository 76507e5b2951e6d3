"""Box 8 in regions: each is clustered with a halo, and the parts are joined (docs/decisions/0038-regions.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Bools, Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import components, frozen, run
from knoll.reference._dbscan_graph import dbscan_graph


class DBSCANRegionsState(NamedTuple):
    """What the steps have made so far."""

    step: str
    region: Ints  # (n,) the region that owns each row
    core: Bools  # (n,) of the rows of regions that are done
    joined: Bools  # (n, n) core rows of one cluster in some region
    labels: Ints  # (n,) −1: in no cluster (yet)


def dbscan_regions(
    X: ArrayLike, eps: float, min_pts: int, cuts: Sequence[tuple[int, float]]
) -> Iterator[DBSCANRegionsState]:
    """Box 8 region by region: what `DBSCAN.fit_blocks` does where a table is larger than memory.

    Parameters
    ----------
    X : (n, d) array
        The points.
    eps : float
        The radius ε, as in `dbscan_graph`.
    min_pts : int
        The level minPts ≥ 1.
    cuts : sequence of (axis, value)
        Each divides all rows into those below the value and the others.

    Yields
    ------
    DBSCANRegionsState
        After the cuts, after each region, and after the join; the last one has the labels of `dbscan_graph`.

    Examples
    --------
    >>> from knoll.reference import dbscan_regions, run
    >>> run(dbscan_regions([[0.0], [1.0], [2.0], [9.0]], eps=1.0, min_pts=3, cuts=[(0, 1.5)])).labels
    array([ 0,  0,  0, -1])
    """
    return frozen(_dbscan_regions(check.points(X), check.radius(eps), check.level(min_pts), cuts))


def _dbscan_regions(
    X: Floats, eps: float, min_pts: int, cuts: Sequence[tuple[int, float]]
) -> Iterator[DBSCANRegionsState]:
    n = len(X)
    core, joined, labels = np.zeros(n, dtype=bool), np.zeros((n, n), dtype=bool), np.full(n, -1)
    sides = np.array([X[:, axis] < value for axis, value in cuts]).reshape(len(cuts), n)
    region = np.unique(sides, axis=1, return_inverse=True)[1].reshape(n)
    yield DBSCANRegionsState("Cuts", region, core.copy(), joined.copy(), labels)

    leader = np.full(n, -1)  # of each own row that is in a cluster: a core row of it
    for r in range(region.max() + 1):
        own = region == r
        low, high = X[own].min(axis=0), X[own].max(axis=0)
        wide = 2 * eps * (1 + 1e-9)  # as far as the neighbours of neighbours; rounding may add a row, never lose one
        gap = np.maximum(low - X, X - high).max(axis=1)  # to the box of the own rows, on the axis where it is widest
        rows = np.flatnonzero(gap <= wide)
        here = run(dbscan_graph(X[rows], eps, min_pts))
        core[rows] |= here.core
        for c in range(here.labels.max() + 1):
            part = rows[here.core & (here.labels == c)]
            joined[np.ix_(part, part)] = True
            leader[rows[(here.labels == c) & own[rows]]] = part[0]
        yield DBSCANRegionsState(f"Region {r}", region, core.copy(), joined.copy(), labels)

    component = components(joined, core)
    labels = np.where(leader >= 0, component[leader], -1)
    yield DBSCANRegionsState("Join", region, core.copy(), joined.copy(), labels)
