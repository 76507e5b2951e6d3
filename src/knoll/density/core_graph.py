"""DBSCAN as pure functions: the graph version, its form over blocks of neighbourhoods, and the spectral version.

Euclidean and the other fast metrics go to the core. Where the core has no index (a matrix of distances, sparse
features, a callable), neighbourhoods come in blocks: a few rows of the graph at a time, so that memory stays linear in
n for every ε (docs/theory/05-dbscan.md).
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
from knoll._common import linalg
from knoll._common.rescale import times_power
from knoll._common.unique_rows import merge_equal_rows
from knoll._system import free_memory
from knoll._typing import Bools, Floats, Indices, Ints
from knoll.exceptions import CostError, InvalidParameter
from knoll.neighbors.index import CoreParameter

_KEPT = 2**24  # neighbours kept between the two passes over blocks; with more of them the blocks are computed again
_ANGLE = 0.5  # cosines between rows of Z are 0 or 1: any threshold between separates them


class Workspace(NamedTuple):
    """Memory that the core sorts the points in; afterwards it holds the core points of the fit.

    Page faults of fresh memory cost more than a pass over it (docs/decisions/0011-index.md). Both arrays own their
    memory, and nothing else refers to them.
    """

    columns: Floats  # (d · (n + 4),)
    rows: Ints  # (n,)

    @classmethod
    def of(cls, n: int, d: int) -> Workspace:
        """Allocate for n points of d columns; no page is touched."""
        return cls(np.empty(d * (n + 4)), np.empty(n, dtype=np.int64))

    def reuse(self, n: int, d: int, dtype: np.dtype[Any]) -> tuple[Ints, NDArray[Any]]:
        """Turn the memory into arrays for n row numbers and n rows of d columns; call it once."""
        self.rows.resize(n, refcheck=False)  # in place: the remainder goes back to the system
        if dtype != self.columns.dtype:
            return self.rows, np.empty((n, d), dtype=dtype)
        self.columns.resize((n, d), refcheck=False)
        return self.rows, self.columns


@dataclass(frozen=True)
class Clusters:
    """A partition by density."""

    labels: Ints  # (n,) −1: noise
    core: Bools  # (n,)
    work: dict[str, Any] = field(default_factory=dict)  # backend, distance evaluations
    ends: Floats | None = None  # (n, d) of paths, in the climbing formulation
    workspace: Workspace | None = None  # to be reused, once

    def among(self, rows: Indices, n: int) -> Clusters:
        """Return the clusters as those of `rows` among n rows; the others are noise so far."""
        labels, core = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.bool_)
        labels[rows], core[rows] = self.labels, self.core
        return Clusters(labels, core, self.work, self.ends)


def graph(
    points: NDArray[Any],
    eps: float,
    min_samples: float,
    weights: Floats | None,
    *,
    metric: str,
    p: CoreParameter,
    border: str,
    threads: int,
) -> Clusters:
    """Find core points, join those within ε of each other, attach border points (eq. 5.11, 5.12).

    Equal rows have one neighbourhood and one cluster, so where many repeat the work is done on the distinct ones.
    """
    unique = merge_equal_rows(points, threads)
    if unique is not None:
        rows, weights = unique.sum_weights(weights, threads)
        points = np.ascontiguousarray(points[rows])
    labels = np.empty(len(points), dtype=np.int64)
    core = np.empty(len(points), dtype=np.bool_)
    workspace = Workspace.of(*points.shape)
    work = dict(
        _core.dbscan(
            points, eps, float(min_samples), weights, metric, p, border, labels, core, threads, "auto", *workspace
        )
    )
    if unique is None:
        return Clusters(labels, core, work, workspace=workspace)
    return Clusters(labels[unique.inverse], core[unique.inverse], {**work, "unique_rows": len(unique.index)})


# ---- over blocks of neighbourhoods ---------------------------------------------------------------------------------


class NeighbourBlock(NamedTuple):
    """The neighbours within ε of consecutive rows, row after row."""

    begin: int
    starts: Ints  # (m + 1,)
    neighbours: Ints
    distances: Floats

    @property
    def of(self) -> Ints:
        """The row, counted from the block's first, to which each neighbour belongs."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def span(self) -> slice:
        """The rows of the block."""
        return slice(self.begin, self.begin + len(self.starts) - 1)


Rank = Callable[[Ints], Ints]
Exact = Callable[[Ints, Ints], Floats]


class Neighbourhoods:
    """The neighbours within ε of every row, a block at a time, computed again at each pass unless there are few.

    Where the blocks' distances are rounded, `exact(rows, neighbours)` returns the exact ones of these pairs.
    """

    def __init__(
        self, n: int, height: int, make: Callable[[int, int], NeighbourBlock], exact: Exact | None = None
    ) -> None:
        self.n, self._height, self._make, self.exact = n, max(1, height), make, exact
        self._kept: list[NeighbourBlock] | None = None

    def __iter__(self) -> Iterator[NeighbourBlock]:
        """Iterate over the blocks in order."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[NeighbourBlock] | None = []
        size = 0
        for begin in range(0, self.n, self._height):
            block = self._make(begin, min(begin + self._height, self.n))
            size += len(block.neighbours)
            if kept is not None:
                kept.append(block)
                kept = kept if size <= _KEPT else None
            yield block
        self._kept = kept


def from_neighbourhoods(
    blocks: Neighbourhoods,
    min_samples: float,
    weights: Floats | None,
    border: str,
    rank: Rank,
) -> Clusters:
    """Run the graph version over neighbourhoods; `rank` decides between equally close core points, lowest first."""
    n = blocks.n
    core = np.empty(n, dtype=np.bool_)
    for block in blocks:
        core[block.span] = has_enough(block, min_samples, weights)

    component = np.arange(n)
    for block in blocks:
        left, right = block.begin + block.of, block.neighbours
        both = core[left] & core[right]
        if both.any():
            component = _joined(component, left[both], right[both])
    labels = number(component, core)

    if border != "noise":
        for block in blocks:
            here, attached = block.span, attach(block, core, labels, border, rank, blocks.exact)
            labels[here] = np.where(core[here], labels[here], attached)
    return Clusters(labels, core, {"backend": "blocks", "pairs": n * n})


def has_enough(block: NeighbourBlock, min_samples: float, weights: Floats | None) -> Bools:
    """Return which rows have min_samples neighbours, or so much weight; a close call is decided by the exact sum."""
    sizes = np.diff(block.starts)
    if weights is None:
        return np.asarray(sizes >= min_samples)
    each = weights[block.neighbours]
    of = block.of
    with np.errstate(over="ignore", invalid="ignore"):
        mass = np.bincount(of, weights=each, minlength=len(sizes))
        size = np.bincount(of, weights=np.abs(each), minlength=len(sizes))
    enough = mass >= min_samples
    close = np.abs(mass - min_samples) <= 1e-12 * (sizes + 1) * (size + abs(min_samples))
    for i in np.flatnonzero(close | ~np.isfinite(size)):
        terms = np.append(each[block.starts[i] : block.starts[i + 1]], -min_samples)
        enough[i] = math.fsum(times_power(terms, -60)) >= 0  # the sum of the largest weights stays finite
    return np.asarray(enough)


def attach(
    block: NeighbourBlock,
    core: Bools,
    labels: Ints,
    border: str,
    rank: Rank,
    exact: Exact | None = None,
) -> Ints:
    """Give each row of a block the cluster of a core point within ε: the closest, or the first cluster's; −1: none.

    `rank` orders core points that are equally close and of different clusters; it is called for those alone.
    """
    taken = core[block.neighbours]
    of, near, distances = block.of[taken], block.neighbours[taken], block.distances[taken]
    attached = np.full(len(block.starts) - 1, -1, dtype=np.int64)
    if not len(of):
        return attached
    if border == "first":
        lowest = np.full(len(attached), np.iinfo(np.int64).max)
        np.minimum.at(lowest, of, labels[near])
        attached[of] = lowest[of]
        return attached
    closest = np.full(len(attached), np.inf)
    np.minimum.at(closest, of, distances)
    reach = closest if exact is None else closest * (1 + 1e-9)
    tied = distances <= reach[of]
    of, near, distances = of[tied], near[tied], distances[tied]
    low, high = attached.copy(), attached.copy()
    low[of] = np.iinfo(np.int64).max
    np.minimum.at(low, of, labels[near])
    np.maximum.at(high, of, labels[near])
    attached[of] = low[of]
    open_ = (low != high)[of]
    if open_.any():
        of, near, distances = of[open_], near[open_], distances[open_]
        if exact is not None:
            distances = exact(block.begin + of, near)
        order = np.lexsort((rank(near), distances, of))
        of, near = of[order], near[order]
        first = np.ones(len(of), dtype=np.bool_)
        first[1:] = of[1:] != of[:-1]
        attached[of[first]] = labels[near[first]]
    return attached


def number(component: NDArray[Any], core: Bools) -> Ints:
    """Number the components of the core points by their first row; −1 elsewhere."""
    labels = np.full(len(core), -1, dtype=np.int64)
    _, first, inverse = np.unique(component[core], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    labels[core] = rank[inverse]
    return labels


def _joined(component: NDArray[Any], left: Ints, right: Ints) -> NDArray[Any]:
    """Join the components of pairs of rows."""
    n = len(component)
    links = csr_array((np.ones(len(left), dtype=np.int8), (component[left], component[right])), shape=(n, n))
    _, joined = connected_components(links, directed=False)
    return np.asarray(joined)[component]


# ---- the spectral version ------------------------------------------------------------------------------------------


def spectral(links: Bools) -> Ints:
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
    values, vectors = linalg.eigh(links / root[:, None] / root)
    Z = vectors[:, values > 1 - tolerance]  # (n_core, clusters)
    Z = Z / np.linalg.norm(Z, axis=1)[:, None]
    component = np.full(n_core, -1, dtype=np.int64)
    for c in range(Z.shape[1]):
        unlabeled = np.flatnonzero(component < 0)
        if not len(unlabeled):
            break
        component[unlabeled[Z[unlabeled] @ Z[unlabeled[0]] > _ANGLE]] = c
    return component


def eigenvalue_one(n_core: int, volume: float) -> float:
    """Return how far below one an eigenvalue may be computed and still be one; refuse where float64 cannot decide.

    In a connected graph the second eigenvalue is at most 1 − 1/(diameter · volume), and the diameter is below n_core;
    a dense eigensolver errs by about n_core · 2⁻⁵² (docs/theory/errata.md, item 9).
    """
    gap = 1.0 / max(n_core * volume, 1.0)
    if 16 * n_core * np.finfo(np.float64).eps > gap:
        raise InvalidParameter(
            f"DBSCAN: formulation='spectral' cannot decide this graph: with {n_core} core points and {volume:.0f} "
            f"links an eigenvalue may lie {gap:.1e} below one without being one, closer than float64 can resolve. "
            "Use formulation='graph', which finds the same clusters."
        )
    return gap / 2


def check_memory(n_core: int) -> None:
    """Refuse an eigendecomposition that would not fit in memory."""
    needed = 5 * 8.0 * n_core**2  # A as numbers, the eigenvectors, LAPACK's workspace
    if needed > (free := free_memory()):
        raise CostError(
            f"DBSCAN: formulation='spectral' would need {needed / 2**30:.1f} GB for {n_core} core points, and "
            f"{free / 2**30:.1f} GB are free. Use formulation='graph', which finds the same clusters in linear memory."
        )
