"""The climb: y ← mean of N_ε(y), from many starts to the ends of their paths (docs/theory/06-mean-shift.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.exceptions import BadData
from knoll.places import find_places, merged

__all__ = ["Ends", "Hill", "Peaks", "Scaling", "bin_seeds", "peaks", "thin_out"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SMALL = 1e-3  # scikit-learn's rule of a small step, in bandwidths
_MOST_STEPS = 2**62  # what the core counts to
_SMALL_GAUSSIAN = 1e-6  # where a Gaussian climb stops, in bandwidths


@dataclass(frozen=True)
class Scaling:
    """A power of two that brings coordinates to where their squares neither overflow nor vanish; it rounds nothing."""

    power: int

    @classmethod
    def of(cls, points: NDArray[np.floating], eps: float, owner: str) -> Scaling:
        """Choose the power for points and a radius: ε near one, unless coordinates then grow too large."""
        largest = float(max(abs(float(points.min())), abs(float(points.max()))))
        wanted = -math.frexp(eps)[1] if eps > 0 else 0
        room = 480 - math.frexp(largest)[1] if largest > 0 else 10_000
        if abs(wanted) <= 200 and 0 <= room <= 980 and wanted <= room:
            return cls(0)  # nothing is near a limit: leave the numbers alone
        power = min(wanted, room)
        if eps > 0 and math.frexp(eps)[1] + power < -480:
            raise BadData(
                f"{owner}: float64 cannot hold the squares of both |X| up to {largest:.3g} and bandwidth={eps:.3g}. "
                "Drop the far rows, or take a larger bandwidth."
            )
        return cls(power)

    def down(self, points: NDArray[np.floating]) -> Floats:
        """Bring points to the scale of the core: (n, d) float64, row after row."""
        plain: Floats = np.ascontiguousarray(points, dtype=np.float64)
        return np.ldexp(plain, self.power) if self.power else plain

    def up(self, points: Floats) -> Floats:
        """Bring them back."""
        return np.ldexp(points, -self.power) if self.power else points


@dataclass(frozen=True)
class Ends:
    """Where paths end, in the scale of the core."""

    points: Floats  # (m, d)
    steps: Ints  # (m,)
    weight: Floats  # (m,) the weight within ε
    reason: NDArray[np.uint8]  # (m,) one of _core.END_…
    distances: int = 0  # evaluated on the way; threads change it, and nothing else

    def only(self, rows: NDArray[np.bool_]) -> Ends:
        """Return the ends of some of the paths."""
        return self if rows.all() else self._taken(rows)

    def spread(self, which: Ints) -> Ends:
        """Return the ends of more paths, each of which is one of these."""
        return self._taken(which)

    def _taken(self, rows: NDArray[Any]) -> Ends:
        return Ends(self.points[rows], self.steps[rows], self.weight[rows], self.reason[rows], self.distances)


@dataclass(frozen=True)
class Hill:
    """The static points that are climbed on, in the scale of the core, and how.

    Under a Gaussian every point is a neighbour, and a sum of such weights is rounded at every step. `Hill.of` merges
    equal points first and sorts the others, so that the sums are those of the set, whatever the order of the rows.
    """

    points: Floats  # (n, d)
    weights: Floats | None  # (n,), all > 0
    eps: float
    gaussian: bool = False
    threads: int = 1

    @classmethod
    def of(cls, points: Floats, weights: Floats | None, eps: float, gaussian: bool, threads: int) -> Hill:
        """Make a hill of points of which many may be equal."""
        if not gaussian and eps > 0:
            return cls(points, weights, eps, gaussian, threads)
        places = find_places(points, threads)
        mass = places.weigh(weights, threads)[1][
            : len(places.first)
        ]  # rounded once: what is left is below its last bit
        order = np.lexsort(points[places.first].T[::-1])
        return cls(np.ascontiguousarray(points[places.first[order]]), mass[order], eps, gaussian, threads)

    def climb(self, starts: Floats, max_steps: int, *, level: float | None = None, small: bool = False) -> Ends:
        """Climb from every start until the set of neighbours repeats.

        `level` ends a path where the weight within ε reaches it; `small` ends it by a small step, as scikit-learn does.
        """
        # a flat climb finds equal balls on the way, unless they have no extent
        alike = merged(starts, self.threads) if self.gaussian or self.eps == 0 else None
        ends = self._climb(starts if alike is None else starts[alike.first], max_steps, level, small)
        return ends if alike is None else ends.spread(alike.which)

    def _climb(self, starts: Floats, max_steps: int, level: float | None, small: bool) -> Ends:
        (m, d), steps = starts.shape, min(max_steps, _MOST_STEPS)
        ends = Ends(np.empty((m, d)), np.empty(m, np.int64), np.empty(m), np.empty(m, np.uint8))
        distances = _core.climb(
            self.points, self.weights, starts, self.eps, level, self._tol(small), steps, self.gaussian,
            ends.points, ends.steps, ends.weight, ends.reason, self.threads,
        )  # fmt: skip
        return replace(ends, distances=int(distances))

    def paths(self, starts: Floats, max_steps: int, *, small: bool = False) -> list[Floats]:
        """Return every position of every path, its start first: (steps + 1, d) each."""
        steps = min(max_steps, _MOST_STEPS)
        flat = _core.climb_paths(
            self.points, self.weights, np.ascontiguousarray(starts), self.eps, None, self._tol(small), steps,
            self.gaussian, self.threads,
        )  # fmt: skip
        return [np.array(path).reshape(-1, starts.shape[1]) for path in flat]

    def on_sphere(self, points: Floats) -> NDArray[np.bool_]:
        """Tell at which points some row of the data is exactly ε away: (m,)."""
        out = np.empty(len(points), np.uint8)
        _core.on_sphere(self.points, points, self.eps, out, self.threads)
        return out.astype(bool)

    def _tol(self, small: bool) -> float:
        if self.gaussian:
            return _SMALL_GAUSSIAN * self.eps
        return _SMALL * self.eps if small and self.eps > 0 else 0.0


# ---- from ends to clusters -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Peaks:
    """The different ends, and the connected components that they form at ε."""

    points: Floats  # (m, d) in order of cluster, then of weight
    clusters: Ints  # (m,)
    which: Ints  # (n,) the peak of each path
    centers: Ints  # (k,) the first peak of each cluster


def peaks(ends: Ends, eps: float, threads: int) -> Peaks:
    """Join ends within ε of each other; clusters with more weight within ε come first (ties: larger coordinates)."""
    places = find_places(ends.points, threads)
    which, first = places.which, places.first  # (n,), (m,)
    points = np.ascontiguousarray(ends.points[first])
    component = np.empty(len(first), np.int64)
    _core.Index(points, eps, "euclidean", 2.0, "auto", threads).components(eps, None, component, threads)
    n_components = int(component.max()) + 1
    order = _by_intensity(points, ends.weight[first])  # (m,) most weight first
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    best = np.full(n_components, len(order))
    np.minimum.at(best, component, rank)  # the rank of each component's first peak
    number = np.empty(n_components, np.int64)
    number[np.argsort(best)] = np.arange(n_components)
    clusters = number[component]
    arranged = np.lexsort((rank, clusters))  # by cluster, then by rank
    position = np.empty(len(order), np.int64)
    position[arranged] = np.arange(len(order))
    clusters = clusters[arranged]
    centers = np.flatnonzero(np.r_[True, np.diff(clusters) > 0])
    return Peaks(points[arranged], clusters, position[which], centers)


def thin_out(ends: Ends, eps: float) -> tuple[Floats, Floats]:
    """Keep of all ends, most weight first, those that lie further than ε from the kept ones: scikit-learn's rule."""
    some = ends.weight > 0
    points, weight = ends.points[some], ends.weight[some]
    places = find_places(points)
    which, first = places.which, places.first
    last = np.empty(len(first), np.int64)
    last[which] = np.arange(len(points))  # the same place reached from different balls counts as its last
    points, weight = points[first], weight[last]
    order = _by_intensity(points, weight)
    points, weight = points[order], weight[order]
    kept: list[int] = []
    free = np.ones(len(points), dtype=bool)
    while free.any():
        i = int(free.argmax())
        kept.append(i)
        square = np.zeros(len(points))
        for column in points.T:
            square += np.square(column - column[i])
        free &= np.sqrt(square) > eps
        free[i] = False
    return points[kept], weight[kept]


def _by_intensity(points: Floats, weight: Floats) -> Ints:
    """Order by weight, then by coordinates, both downwards: the numbering of scikit-learn."""
    order: Ints = np.lexsort((*points.T[::-1], weight))[::-1]
    return order


# ---- seeds ---------------------------------------------------------------------------------------------------------


def bin_seeds(points: NDArray[np.floating], weights: Floats | None, size: float, least: float) -> Floats | None:
    """Choose the centres of the bins that hold a weight of at least `least`; None where every row has its own bin.

    scikit-learn rounds the numbers of the bins to float32; so are they here.
    """
    if size == 0:
        return None
    bins = np.round(points / size).astype(np.float64)
    places = find_places(bins)
    first = places.first
    enough = np.bincount(places.which, weights, minlength=len(first)) >= least
    if int(enough.sum()) == len(points):
        return None
    return bins[first[enough]].astype(np.float32).astype(np.float64) * size
