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

__all__ = ["Ends", "Hill", "Peaks", "Scaling", "bin_seeds", "leveled", "peaks", "thin_out"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SMALL = 1e-3  # scikit-learn's rule of a small step, in bandwidths
_MOST_STEPS = 2**62  # what the core counts to
_SMALL_GAUSSIAN = 1e-6  # where a Gaussian climb stops, in bandwidths
_NEAR = 480  # squares of numbers within 2^±480, and their sums over columns, are within float64
_FAR = 500  # a start beyond 2^500 is brought there: it is off the points, and further than any radius
_COVERS = 60  # a radius of 2^60 times the largest coordinate holds all points or none, wherever its centre is
_HEAVIEST = 500  # under a Gaussian, exponent of the largest weight: the core's limit
_LIGHTEST = 1500  # exponents below it of the smallest


@dataclass(frozen=True)
class Scaling:
    """A power of two that brings coordinates to where their squares neither overflow nor vanish; it rounds nothing.

    A radius ε ≥ 2^60·max|X| covers all points, and any other such radius gives the same means. It is divided by
    2^shrink, down to 2^60·max|X|, so that the scale is that of the points. A start y far outside of them shrinks
    alike: then y − x rounds to y for all x, so ‖y − x‖ ≤ ε before and after.
    """

    power: int
    shrink: int = 0
    extent: int = 0  # all coordinates of the points are below 2^extent
    far: int = _FAR

    @classmethod
    def of(cls, points: NDArray[np.floating], eps: float, owner: str) -> Scaling:
        """Choose the powers for points and a radius: none, unless something is near a limit."""
        if eps == 0:
            return cls(0, far=2048)  # equal rows are found by content
        largest = float(max(abs(float(points.min())), abs(float(points.max()))))
        radius = math.frexp(eps)[1]
        extent = math.frexp(largest)[1] if largest > 0 else radius - _COVERS
        shrink = max(0, radius - extent - _COVERS)
        reach = radius - shrink
        top = max(reach, extent)
        power = 0 if reach >= -_NEAR and top <= _NEAR else _NEAR - top
        if reach + power < -_NEAR:
            raise BadData(
                f"{owner}: float64 cannot hold the squares of both |X| up to {largest:.3g} and bandwidth={eps:.3g}. "
                "Drop the far rows, or take a larger bandwidth."
            )
        return cls(power, shrink, extent)

    def radius(self, eps: float) -> float:
        """Bring the radius to the scale of the core."""
        return math.ldexp(eps, self.power - self.shrink)

    def down(self, points: NDArray[np.floating]) -> Floats:
        """Bring points to the scale of the core: (n, d) float64, row after row."""
        plain: Floats = np.ascontiguousarray(points, dtype=np.float64)
        return np.ldexp(plain, self.power) if self.power else plain

    def starts(self, points: NDArray[np.floating]) -> Floats:
        """Bring starts to the scale of the core; they need not be where the points are, but keep their direction."""
        plain: Floats = np.ascontiguousarray(points, dtype=np.float64)
        size = np.frexp(np.abs(plain).max(axis=1))[1]  # (m,)
        power = np.where(size > self.extent + 2, self.power - self.shrink, self.power)
        power = np.minimum(power, self.far - size)
        return np.ldexp(plain, power[:, None]) if power.any() else plain

    def up(self, points: Floats) -> Floats:
        """Bring points back."""
        return np.ldexp(points, -self.power) if self.power else points

    def ends(self, ends: Ends, starts: NDArray[np.floating]) -> Floats:
        """Bring the ends of paths back: (m, d). A path that has no step ends where it started."""
        still = np.isin(ends.reason, (_core.END_EMPTY, _core.END_LEVEL, _core.END_UNFINISHED))
        still &= (ends.points == self.starts(starts)).all(axis=1)
        return np.where(still[:, None], starts, self.up(ends.points))


def leveled(weights: Floats | None, gaussian: bool, owner: str) -> tuple[Floats | None, int]:
    """Divide weights by a power of two so that their sum is within float64; also return its exponent, mostly 0."""
    if weights is None:
        return None, 0
    heaviest, lightest = (int(np.frexp(w)[1]) for w in (weights.max(), weights.min()))
    if not gaussian:  # sums of products are exact, whatever the weights
        power = max(0, heaviest + len(weights).bit_length() - 1023)
    elif heaviest - lightest > _LIGHTEST:
        raise BadData(
            f"{owner}: the sample weights go from {weights.min():.3g} to {weights.max():.3g}: no float64 holds the "
            "Gaussian sums of both. Give weights of less different size, or 0 to rows that should not count."
        )
    else:
        power = heaviest - _HEAVIEST if heaviest > _HEAVIEST or lightest < -900 else 0
    return (np.maximum(np.ldexp(weights, -power), 5e-324) if power else weights), power


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
        if self.eps == 0:
            return self._stay(starts, min(steps, 1))
        ends = Ends(np.empty((m, d)), np.empty(m, np.int64), np.empty(m), np.empty(m, np.uint8))
        distances = _core.climb(
            self.points, self.weights, starts, self.eps, level, self._tol(small), steps, self.gaussian,
            ends.points, ends.steps, ends.weight, ends.reason, self.threads,
        )  # fmt: skip
        return replace(ends, distances=int(distances))

    def _stay(self, starts: Floats, steps: int) -> Ends:
        """Within a radius of 0 are equal points alone: found by content, since squares of small gaps vanish."""
        rows = find_places(np.vstack([self.points, starts])).which
        there = np.bincount(rows[: len(self.points)], self.weights, minlength=int(rows.max()) + 1)
        weight = there[rows[len(self.points) :]].astype(np.float64)  # (m,)
        taken = np.where(weight > 0, steps, 0)  # the step that confirms that the set repeats
        arrived = np.where(taken > 0, _core.END_FIXED, _core.END_UNFINISHED)
        reason = np.where(weight > 0, arrived, _core.END_EMPTY).astype(np.uint8)
        return Ends(starts.copy(), taken.astype(np.int64), weight, reason)

    def paths(self, starts: Floats, max_steps: int, *, small: bool = False) -> list[Floats]:
        """Return every position of every path, its start first: (steps + 1, d) each."""
        steps = min(max_steps, _MOST_STEPS)
        if self.eps == 0:
            stays = self._stay(starts, min(steps, 1))
            return [np.tile(start, (count + 1, 1)) for start, count in zip(starts, stays.steps.tolist(), strict=True)]
        flat = _core.climb_paths(
            self.points, self.weights, np.ascontiguousarray(starts), self.eps, None, self._tol(small), steps,
            self.gaussian, self.threads,
        )  # fmt: skip
        return [np.array(path).reshape(-1, starts.shape[1]) for path in flat]

    def on_sphere(self, points: Floats) -> NDArray[np.bool_]:
        """Tell at which points some row of the data is exactly ε away: (m,)."""
        if self.eps == 0:
            return np.ones(len(points), dtype=bool)
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
    component = np.arange(len(first))
    if eps > 0:
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
    if eps == 0:
        return points, weight
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

    scikit-learn rounds the numbers of the bins to float32; so are they here, as far as float32 has them.
    """
    if size == 0:
        return None
    bins = np.round(points / size).astype(np.float64)
    places = find_places(bins)
    first = places.first
    enough = np.bincount(places.which, weights, minlength=len(first)) >= least
    if int(enough.sum()) == len(points):
        return None
    chosen = bins[first[enough]]
    with np.errstate(over="ignore"):
        rounded = chosen.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(rounded), rounded, chosen) * size
