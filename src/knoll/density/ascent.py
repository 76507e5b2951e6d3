"""Mean-shift ascent: y ← mean of N_ε(y), from each start to the end of its path (docs/theory/06-mean-shift.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._common.rescale import RadiusRescaling
from knoll._common.unique_rows import find_unique_rows, merge_equal_rows
from knoll._typing import Bools, Floats, Ints

_SMALL = 1e-3  # scikit-learn's rule of a small step, in bandwidths
_MOST_STEPS = 2**62  # what the core counts to
_SMALL_GAUSSIAN = 1e-6  # the step that ends a Gaussian ascent, in bandwidths


@dataclass(frozen=True)
class Ends:
    """Where paths end, in scaled units."""

    points: Floats  # (m, d)
    steps: Ints  # (m,)
    weight: Floats  # (m,) the weight within ε
    reason: NDArray[np.uint8]  # (m,) one of _core.END_…
    distances: int = 0  # evaluations; they depend on the number of threads, and nothing else does

    def take(self, paths: NDArray[Any]) -> Ends:
        """Return the ends of these paths: a mask, or indices, which may repeat."""
        return Ends(self.points[paths], self.steps[paths], self.weight[paths], self.reason[paths], self.distances)

    def unscaled(self, scaling: RadiusRescaling, starts: NDArray[np.floating]) -> Floats:
        """Return the ends in the units of the data: (m, d). A path without a step ends at its start, bit for bit."""
        still = np.isin(self.reason, (_core.END_EMPTY, _core.END_LEVEL, _core.END_UNFINISHED))
        still &= (self.points == scaling.starts(starts)).all(axis=1)
        return np.where(still[:, None], starts, scaling.up(self.points))


@dataclass(frozen=True)
class KernelDensity:
    """The density that paths ascend: fixed points, in scaled units, under a flat or a Gaussian kernel of width ε.

    Under a Gaussian every point is a neighbour, and a sum of such weights is rounded at every step. `of` merges equal
    points first and sorts the others, so that the sums are those of the set, whatever the order of the rows.
    """

    points: Floats  # (n, d)
    weights: Floats | None  # (n,), all > 0
    eps: float
    gaussian: bool = False
    threads: int = 1

    @classmethod
    def of(cls, points: Floats, weights: Floats | None, eps: float, gaussian: bool, threads: int) -> KernelDensity:
        """Build the density of points of which many may be equal."""
        if not gaussian and eps > 0:
            return cls(points, weights, eps, gaussian, threads)
        unique = find_unique_rows(points, threads)
        # the first addends: sums rounded once, since the others are below their last bit
        mass = unique.sum_weights(weights, threads)[1][: len(unique.index)]
        order = np.lexsort(points[unique.index].T[::-1])
        return cls(np.ascontiguousarray(points[unique.index[order]]), mass[order], eps, gaussian, threads)

    def ascend(self, starts: Floats, max_steps: int, *, level: float | None = None, small: bool = False) -> Ends:
        """Follow the path from every start until the set of neighbours repeats.

        `level` ends a path where the weight within ε reaches it; `small` ends it by a small step, as scikit-learn does.
        """
        # a flat ascent recognises equal balls by itself, unless their radius is 0
        unique = merge_equal_rows(starts, self.threads) if self.gaussian or self.eps == 0 else None
        ends = self._ascend(starts if unique is None else starts[unique.index], max_steps, level, small)
        return ends if unique is None else ends.take(unique.inverse)

    def _ascend(self, starts: Floats, max_steps: int, level: float | None, small: bool) -> Ends:
        (m, d), steps = starts.shape, min(max_steps, _MOST_STEPS)
        if self.eps == 0:
            return self._ascend_zero(starts, min(steps, 1))
        ends = Ends(np.empty((m, d)), np.empty(m, np.int64), np.empty(m), np.empty(m, np.uint8))
        distances = _core.ascend(
            self.points, self.weights, starts, self.eps, level, self._tol(small), steps, self.gaussian,
            ends.points, ends.steps, ends.weight, ends.reason, self.threads,
        )  # fmt: skip
        return replace(ends, distances=int(distances))

    def _ascend_zero(self, starts: Floats, steps: int) -> Ends:
        """Within a radius of 0 lie equal points alone: found by content, since squares of small gaps underflow."""
        rows = find_unique_rows(np.vstack([self.points, starts])).inverse
        mass = np.bincount(rows[: len(self.points)], self.weights, minlength=int(rows.max()) + 1)
        weight = mass[rows[len(self.points) :]].astype(np.float64)  # (m,)
        taken = np.where(weight > 0, steps, 0)  # the step that confirms that the set repeats
        arrived = np.where(taken > 0, _core.END_FIXED, _core.END_UNFINISHED)
        reason = np.where(weight > 0, arrived, _core.END_EMPTY).astype(np.uint8)
        return Ends(starts.copy(), taken.astype(np.int64), weight, reason)

    def paths(self, starts: Floats, max_steps: int, *, small: bool = False) -> list[Floats]:
        """Return every position of every path, its start first: (steps + 1, d) each."""
        steps = min(max_steps, _MOST_STEPS)
        if self.eps == 0:
            counts = self._ascend_zero(starts, min(steps, 1)).steps.tolist()
            return [np.tile(start, (count + 1, 1)) for start, count in zip(starts, counts, strict=True)]
        flat = _core.ascent_paths(
            self.points, self.weights, np.ascontiguousarray(starts), self.eps, None, self._tol(small), steps,
            self.gaussian, self.threads,
        )  # fmt: skip
        return [np.array(path).reshape(-1, starts.shape[1]) for path in flat]

    def on_sphere(self, points: Floats) -> Bools:
        """Return whether a row of the data is exactly ε away from each point: (m,)."""
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
class Modes:
    """The distinct ends of paths, and the connected components that they form at ε."""

    points: Floats  # (m, d) in order of cluster, then of weight
    clusters: Ints  # (m,)
    inverse: Ints  # (n,) the mode of each path
    centers: Ints  # (k,) the first mode of each cluster


def find_modes(ends: Ends, eps: float, threads: int) -> Modes:
    """Join ends within ε of each other; clusters with more weight within ε come first (ties: larger coordinates)."""
    unique = find_unique_rows(ends.points, threads)
    points = np.ascontiguousarray(ends.points[unique.index])  # (m, d)
    component = np.arange(len(points))
    if eps > 0:
        _core.Index(points, eps, "euclidean", 2.0, "auto", threads).components(eps, None, component, threads)
    n_components = int(component.max()) + 1
    order = _by_intensity(points, ends.weight[unique.index])  # (m,) most weight first
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    best = np.full(n_components, len(order))
    np.minimum.at(best, component, rank)  # the rank of each component's first mode
    number = np.empty(n_components, np.int64)
    number[np.argsort(best)] = np.arange(n_components)
    clusters = number[component]
    arranged = np.lexsort((rank, clusters))  # by cluster, then by rank
    position = np.empty(len(order), np.int64)
    position[arranged] = np.arange(len(order))
    clusters = clusters[arranged]
    centers = np.flatnonzero(np.r_[True, np.diff(clusters) > 0])
    return Modes(points[arranged], clusters, position[unique.inverse], centers)


def thin_out(ends: Ends, eps: float) -> tuple[Floats, Floats]:
    """Keep of all ends, most weight first, those that lie further than ε from the kept ones: scikit-learn's rule."""
    populated = ends.weight > 0
    points, weight = ends.points[populated], ends.weight[populated]
    unique = find_unique_rows(points)
    most = np.zeros(len(unique.index))
    np.maximum.at(most, unique.inverse, weight)  # equal ends may be reached from different balls
    points, weight = points[unique.index], most
    order = _by_intensity(points, weight)
    points, weight = points[order], weight[order]
    if eps == 0:
        return points, weight
    kept: list[int] = []
    open_ = np.ones(len(points), dtype=bool)
    while open_.any():
        i = int(open_.argmax())
        kept.append(i)
        square = np.zeros(len(points))
        for column in points.T:
            square += np.square(column - column[i])
        open_ &= np.sqrt(square) > eps
        open_[i] = False
    return points[kept], weight[kept]


def _by_intensity(points: Floats, weight: Floats) -> Ints:
    """Order by weight, then by coordinates, both downwards: the numbering of scikit-learn."""
    order: Ints = np.lexsort((*points.T[::-1], weight))[::-1]
    return order


# ---- seeds ---------------------------------------------------------------------------------------------------------


def bin_seeds(points: NDArray[np.floating], weights: Floats | None, size: float, least: float) -> Floats | None:
    """Choose the centres of the bins that hold a weight of at least `least`; None where every row has its own bin.

    scikit-learn rounds the numbers of the bins to float32; so does this, where float32 can hold them.
    """
    if size == 0:
        return None
    bins = np.round(points / size).astype(np.float64)
    unique = find_unique_rows(bins)
    enough = np.bincount(unique.inverse, weights, minlength=len(unique.index)) >= least
    if int(enough.sum()) == len(points):
        return None
    chosen = bins[unique.index[enough]]
    with np.errstate(over="ignore"):
        rounded = chosen.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(rounded), rounded, chosen) * size
