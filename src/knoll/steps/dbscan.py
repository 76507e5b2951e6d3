"""DBSCAN as pure functions: the graph version, its form over blocks of neighbourhoods, and the spectral version.

Euclidean and the other fast metrics go to the core. What has no coordinates the core could index (a matrix of
distances, sparse features, a callable) comes as blocks of neighbourhoods: a few rows of the graph at a time, so that
memory stays linear in n for every ε (docs/theory/05-dbscan.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from knoll import _core
from knoll.exceptions import CostError, InvalidParameter
from knoll.memory import free_memory
from knoll.places import merged
from knoll.steps import small
from knoll.steps.stoppable import stoppable

__all__ = [
    "Clusters",
    "Neighbourhoods",
    "eigenvalue_one",
    "from_neighbourhoods",
    "graph",
    "number",
    "spectral",
]

_KEPT = 2**24  # neighbours kept between the two passes over blocks; with more of them the blocks are made again
_ANGLE = 0.5  # cosines between rows of Z are 0 or 1: anything between parts them


class Room(NamedTuple):
    """Memory that the core worked in, and that the answer can be put into: fresh memory costs more than a pass over it.

    Both arrays own their memory and nobody else knows them.
    """

    columns: NDArray[np.float64]  # (d · (n + 4),)
    places: NDArray[np.int64]  # (n,)

    @classmethod
    def of(cls, n: int, d: int) -> Room:
        """Ask for room for n points of d columns; nothing is touched."""
        return cls(np.empty(d * (n + 4)), np.empty(n, dtype=np.int64))

    def rows(self, n: int, d: int, dtype: np.dtype[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Give the room away as arrays for the numbers of n rows and the rows themselves."""
        self.places.resize(n, refcheck=False)  # in place: what is not needed goes back to the system
        if dtype != self.columns.dtype:
            return self.places, np.empty((n, d), dtype=dtype)
        self.columns.resize((n, d), refcheck=False)
        return self.places, self.columns


@dataclass(frozen=True)
class Clusters:
    """A partition by density."""

    labels: NDArray[np.int64]  # (n,) −1: noise
    core: NDArray[np.bool_]  # (n,)
    work: dict[str, Any] = field(default_factory=dict)  # what it took: backend, distance evaluations
    room: Room | None = None  # to be used again, once


def graph(
    points: NDArray[Any],
    eps: float,
    min_samples: float,
    weights: NDArray[np.float64] | None,
    *,
    metric: str,
    p: float,
    border: str,
    threads: int,
) -> Clusters:
    """Find core points, join those within ε of each other, give border points a cluster (eq. 5.11, 5.12).

    Where many rows are equal it is done once for each place: they have one neighbourhood and one cluster.
    """
    places = merged(points, threads)
    if places is not None:
        rows, weights = places.weigh(weights, threads)
        points = np.ascontiguousarray(points[rows])
    labels = np.empty(len(points), dtype=np.int64)
    core = np.empty(len(points), dtype=np.bool_)
    room = Room.of(*points.shape)
    work = dict(
        _core.dbscan(points, eps, float(min_samples), weights, metric, p, border, labels, core, threads, "auto", *room)
    )
    if places is None:
        return Clusters(labels, core, work, room)
    return Clusters(labels[places.which], core[places.which], {**work, "places": len(places.first)})


# ---- over blocks of neighbourhoods ---------------------------------------------------------------------------------


class Rows(NamedTuple):
    """The neighbours within ε of some consecutive rows, row after row."""

    begin: int
    starts: NDArray[np.int64]  # (m + 1,)
    neighbours: NDArray[np.int64]
    distances: NDArray[np.float64]

    @property
    def of(self) -> NDArray[np.int64]:
        """The row, counted from the block's first, to which each neighbour belongs."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


Rank = Callable[[NDArray[np.int64]], NDArray[np.int64]]
Exact = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]


class Neighbourhoods:
    """The neighbours within ε of every row, a block at a time, made again at each pass unless there are few.

    Where the blocks' distances are right to rounding only, `exact` gives those of some pairs (rows, neighbours).
    """

    def __init__(self, n: int, height: int, make: Callable[[int, int], Rows], exact: Exact | None = None) -> None:
        self.n, self._height, self._make, self.exact = n, max(1, height), make, exact
        self._kept: list[Rows] | None = None

    def __iter__(self) -> Iterator[Rows]:
        """Go through the rows in order."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Rows] | None = []
        size = 0
        for begin in range(0, self.n, self._height):
            rows = self._make(begin, min(begin + self._height, self.n))
            size += len(rows.neighbours)
            if kept is not None:
                kept.append(rows)
                kept = kept if size <= _KEPT else None
            yield rows
        self._kept = kept


def from_neighbourhoods(
    blocks: Neighbourhoods,
    min_samples: float,
    weights: NDArray[np.float64] | None,
    border: str,
    rank: Rank,
) -> Clusters:
    """Run the graph version over neighbourhoods; `rank` decides between equally close core points, lowest first."""
    n = blocks.n
    core = np.empty(n, dtype=np.bool_)
    for rows in blocks:
        core[rows.begin : rows.begin + len(rows.starts) - 1] = reached(rows, min_samples, weights)

    component = np.arange(n)
    for rows in blocks:
        left, right = rows.begin + rows.of, rows.neighbours
        both = core[left] & core[right]
        if both.any():
            component = _joined(component, left[both], right[both])
    labels = number(component, core)

    if border != "noise":
        for rows in blocks:
            here = slice(rows.begin, rows.begin + len(rows.starts) - 1)
            labels[here] = np.where(core[here], labels[here], attach(rows, core, labels, border, rank, blocks.exact))
    return Clusters(labels, core, {"backend": "blocks", "pairs": n * n})


def reached(rows: Rows, min_samples: float, weights: NDArray[np.float64] | None) -> NDArray[np.bool_]:
    """Tell which rows have min_samples neighbours, or so much weight; a close call is decided by the exact sum."""
    sizes = np.diff(rows.starts)
    if weights is None:
        return np.asarray(sizes >= min_samples)
    each = weights[rows.neighbours]
    of = rows.of
    with np.errstate(over="ignore", invalid="ignore"):
        mass = np.bincount(of, weights=each, minlength=len(sizes))
        size = np.bincount(of, weights=np.abs(each), minlength=len(sizes))
    enough = mass >= min_samples
    close = np.abs(mass - min_samples) <= 1e-12 * (sizes + 1) * (size + abs(min_samples))
    for i in np.flatnonzero(close | ~np.isfinite(size)):
        # scaled by a power of two, so that the sum of the largest weights stays finite
        beyond = math.fsum(np.append(each[rows.starts[i] : rows.starts[i + 1]] / 2**60, -min_samples / 2**60))
        enough[i] = beyond >= 0
    return np.asarray(enough)


def attach(
    rows: Rows,
    core: NDArray[np.bool_],
    labels: NDArray[np.int64],
    border: str,
    rank: Rank,
    exact: Exact | None = None,
) -> NDArray[np.int64]:
    """Give each row of a block the cluster of a core point within ε: the closest, or the first cluster's; −1: none.

    `rank` orders core points that are equally close and of different clusters; it is asked for those alone.
    """
    taken = core[rows.neighbours]
    of, near, distances = rows.of[taken], rows.neighbours[taken], rows.distances[taken]
    given = np.full(len(rows.starts) - 1, -1, dtype=np.int64)
    if not len(of):
        return given
    if border == "first":
        lowest = np.full(len(given), np.iinfo(np.int64).max)
        np.minimum.at(lowest, of, labels[near])
        given[of] = lowest[of]
        return given
    closest = np.full(len(given), np.inf)
    np.minimum.at(closest, of, distances)
    reach = closest if exact is None else closest * (1 + 1e-9)
    tied = distances <= reach[of]
    of, near, distances = of[tied], near[tied], distances[tied]
    low, high = given.copy(), given.copy()
    low[of] = np.iinfo(np.int64).max
    np.minimum.at(low, of, labels[near])
    np.maximum.at(high, of, labels[near])
    given[of] = low[of]
    open_ = (low != high)[of]
    if open_.any():
        of, near, distances = of[open_], near[open_], distances[open_]
        if exact is not None:
            distances = exact(rows.begin + of, near)
        order = np.lexsort((rank(near), distances, of))
        of, near = of[order], near[order]
        first = np.ones(len(of), dtype=np.bool_)
        first[1:] = of[1:] != of[:-1]
        given[of[first]] = labels[near[first]]
    return given


def number(component: NDArray[Any], core: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the components of the core points by their first row; −1 elsewhere."""
    labels = np.full(len(core), -1, dtype=np.int64)
    _, first, inverse = np.unique(component[core], return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    labels[core] = place[inverse]
    return labels


def _joined(component: NDArray[Any], left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[Any]:
    """Join the components of pairs of rows."""
    n = len(component)
    links = csr_array((np.ones(len(left), dtype=np.int8), (component[left], component[right])), shape=(n, n))
    _, joined = connected_components(links, directed=False)
    return np.asarray(joined)[component]


# ---- the spectral version ------------------------------------------------------------------------------------------


def spectral(links: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Read the clusters of core points from the eigenvectors of D^-½AD^-½ of eigenvalue one (eq. 5.6).

    `links` (n_core, n_core) is A with its diagonal. The rows of Z point along one axis a cluster, in any basis: their
    cosines are 0 or 1. Returns a component for each core point.
    """
    n_core = len(links)
    if n_core == 0:
        return np.empty(0, dtype=np.int64)
    degrees = np.count_nonzero(links, axis=1).astype(np.float64)  # D, of the core graph alone
    tolerance = eigenvalue_one(n_core, float(degrees.sum()))
    root = np.sqrt(degrees)
    values, vectors = stoppable(lambda: small.eigh(links / root[:, None] / root))
    Z = vectors[:, values > 1 - tolerance]  # (n_core, clusters)
    Z = Z / np.linalg.norm(Z, axis=1)[:, None]
    component = np.full(n_core, -1, dtype=np.int64)
    for c in range(Z.shape[1]):
        rest = np.flatnonzero(component < 0)
        if not len(rest):
            break
        component[rest[Z[rest] @ Z[rest[0]] > _ANGLE]] = c
    return component


def eigenvalue_one(n_core: int, volume: float) -> float:
    """Return how far below one an eigenvalue may be computed and still be one; refuse where float64 cannot tell.

    In a connected graph the second eigenvalue is at most 1 − 1/(diameter · volume), and the diameter is below n_core;
    a dense eigensolver errs by some n_core · 2⁻⁵² (docs/theory/errata.md, item 9).
    """
    gap = 1.0 / max(n_core * volume, 1.0)
    if 16 * n_core * np.finfo(np.float64).eps > gap:
        raise InvalidParameter(
            f"DBSCAN: formulation='spectral' cannot decide this graph: with {n_core} core points and {volume:.0f} "
            f"links an eigenvalue may lie {gap:.1e} below one without being one, closer than float64 can tell. "
            "Use formulation='graph', which finds the same clusters."
        )
    return gap / 2


def need_room(n_core: int) -> None:
    """Refuse an eigendecomposition that would not fit in memory."""
    needed = 5 * 8.0 * n_core**2  # A as numbers, the eigenvectors, LAPACK's workspace
    if needed > (there := free_memory()):
        raise CostError(
            f"DBSCAN: formulation='spectral' would need {needed / 2**30:.1f} GB for {n_core} core points, and "
            f"{there / 2**30:.1f} GB are free. Use formulation='graph', which finds the same clusters in linear memory."
        )
