"""Density drops along lines, for tables with many columns, where no neighbourhood is local.

With m rows in d columns the nearest neighbour is at about m^(-1/d) of the data's extent. Where that exceeds one half,
d > log2 m, a kernel density estimate resolves little, and a mixture has too many parameters to be well specified. In
one dimension a density is easy to estimate. So the rows are clustered by k-means, and for each pair of clusters their
rows are projected onto the line through the two means. A density drop is the depth in log density of the minimum
between two peaks. A partition is scored by its smallest drop: if k-means splits one mode, some pair has none.

Three tests follow. *Significance*: the largest score over all k is compared with the scores of samples from one
Gaussian and from a uniform box. *Stability*: refits on halves of the rows must agree. *Sparseness*: a curved band has
density drops along lines, too, but there the rows in the drop are as close to each other as anywhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from knoll._common.linalg import eigh, inner, times
from knoll._typing import Floats, Ints
from knoll.comparison.density_modes import MIN_ROWS, MIN_SHARE
from knoll.kmeans.estimator import KMeans
from knoll.metrics import adjusted_rand_score

_DRAWS = 19  # per null model: a score above all of them has p = 1/20
_ROWS = 800  # at most, of each sample
_N_INIT = 4
_GRID = 128  # evaluation points along a line
_SPLITS = 5
_STABLE = 0.8  # adjusted Rand index of refits on halves
_MIN_SIDE = 5  # rows between a peak and the minimum, for a correlation
_Z = 1.645  # standard errors of a correlation: exceeded by chance in one of twenty cases
_DEEP = 1.5  # a drop this large in log density, to 1/4.5 of the peak, is not tested for sparseness: bends have less


@dataclass(frozen=True)
class LineProjections:
    """The partition with density drops between all pairs of clusters, if there is one."""

    labels: Ints  # (m,)
    count: int
    drop: float  # the smallest density drop of the partition, in log density; 0: none
    null_drop: float  # the largest such value in samples without clusters
    halves: float | None  # agreement of refits on halves; None: not computed
    reason: str


def is_high_dimensional(m: int, d: int) -> bool:
    """Whether the nearest neighbour is at more than half of the data's extent."""
    return d > math.log2(m)


def find_density_drops(
    points: Floats, numbers: tuple[int, ...], density: Floats, more_than: int, seed: int, n_jobs: int | None
) -> LineProjections:
    """Find a partition with a significant density drop between every pair of clusters; the most stable number.

    `density` is the log of a density estimate at the rows; only its order matters. If only partitions into `more_than`
    clusters or fewer have density drops, the result would not be used, and the search ends.
    """
    one = np.zeros(len(points), np.int64)
    found = {k: labels for k in numbers if (labels := _kmeans(points, k, seed, n_jobs)) is not None}
    drops = {k: _smallest_drop(points, labels, density) for k, labels in found.items()}
    best = max(drops, key=lambda k: drops[k], default=0)
    if not any(drop > 0 for k, drop in drops.items() if k > more_than):
        return LineProjections(one, 1, 0.0, 0.0, None, "the density does not drop between the k-means clusters")
    null = _null_drop(points, numbers, seed, n_jobs)
    significant = sorted((k for k, drop in drops.items() if drop > null), reverse=True)

    def describe(k: int) -> str:
        return f"between any two of {k} k-means clusters the log density drops by at least {drops[k]:.2f}"

    if not significant:
        reason = f"{describe(best)}, and by {null:.2f} in data without clusters"
        return LineProjections(one, 1, drops[best], null, None, reason)
    halves = {k: _agreement_of_halves(points, k, seed, n_jobs) for k in significant}
    k = max(significant, key=lambda k: round(halves[k], 2))  # the most stable number, the larger of equals
    stability = f"refits on halves of the rows have an adjusted Rand index of {halves[k]:.2f}"
    if halves[k] < _STABLE:
        return LineProjections(one, 1, drops[k], null, halves[k], f"{describe(k)}, but {stability}")
    reason = f"{describe(k)}, by at most {null:.2f} in data without clusters; {stability}"
    return LineProjections(found[k], k, drops[k], null, halves[k], reason)


def _kmeans(points: Floats, k: int, seed: int, n_jobs: int | None, n_init: int = _N_INIT) -> Ints | None:
    """Cluster the rows by k-means; None where a cluster is too small for a density estimate."""
    min_rows = max(MIN_ROWS, MIN_SHARE * len(points))
    if k * min_rows > len(points):
        return None
    labels = KMeans(k, n_init=n_init, random_state=seed, n_jobs=n_jobs).fit(points).labels_.astype(np.int64)
    return labels if np.bincount(labels, minlength=k).min() >= min_rows else None


def _smallest_drop(points: Floats, labels: Ints, density: Floats | None) -> float:
    """Compute the smallest density drop over the pairs of clusters, nearest pair first; the search ends at 0."""
    k = int(labels.max()) + 1
    means = np.array([points[labels == c].mean(axis=0) for c in range(k)])
    gaps = ((means[:, None] - means) ** 2).sum(axis=2)
    smallest = math.inf
    for a, b in sorted(((i, j) for i in range(k) for j in range(i)), key=lambda pair: float(gaps[pair])):
        if gaps[a, b] == 0:
            return 0.0
        rows = np.flatnonzero((labels == a) | (labels == b))
        axis = (means[a] - means[b])[:, None] / gaps[a, b]
        along = times(points[rows] - means[b], axis)[:, 0]  # 0 at one mean, 1 at the other
        drop, minimum, peaks = _largest_drop(along)
        if 0 < drop < _DEEP and density is not None and not _is_sparse(along, density[rows], minimum, peaks):
            drop = 0.0
        smallest = min(smallest, drop)
        if smallest == 0:
            break
    return smallest


def _largest_drop(along: Floats) -> tuple[float, float, tuple[float, float]]:
    """Return the largest drop of log density between two peaks along a line, its position, and those of the peaks."""
    grid = np.linspace(-0.5, 1.5, _GRID)
    log = _log_density(grid, along)
    left, right = np.maximum.accumulate(log), np.maximum.accumulate(log[::-1])[::-1]
    depth = np.where((grid > 0) & (grid < 1), np.minimum(left, right) - log, 0.0)
    at = int(np.argmax(depth))
    peaks = float(grid[np.argmax(log[: at + 1])]), float(grid[at + np.argmax(log[at:])])
    return float(depth[at]), float(grid[at]), peaks


def _log_density(positions: Floats, along: Floats) -> Floats:
    """Estimate the density along a line, with Silverman's bandwidth (1986); constant where all rows are equal."""
    low, high = np.quantile(along, [0.25, 0.75])
    bandwidth = 0.9 * min(float(along.std()), float(high - low) / 1.349 or math.inf) * len(along) ** -0.2
    if not bandwidth > 0:
        return np.zeros(len(positions))
    return np.asarray(np.log(np.exp(-0.5 * ((positions[:, None] - along) / bandwidth) ** 2).sum(axis=1) + 1e-300))


def _is_sparse(along: Floats, density: Floats, minimum: float, peaks: tuple[float, float]) -> bool:
    """Whether the density in all columns decreases significantly with that along the line.

    The two are correlated over the rows between each peak and the minimum; the z-scores of the two sides are combined
    by Stouffer's method.
    """
    line = _log_density(along, along)
    z = 0.0
    for side in ((along >= peaks[0]) & (along <= minimum), (along >= minimum) & (along <= peaks[1])):
        n = int(side.sum())
        if n < _MIN_SIDE or not (line[side].std() > 0 and density[side].std() > 0):
            return False
        r = float(np.corrcoef(line[side], density[side])[0, 1])
        z += r * math.sqrt((n - 2) / max(1e-12, 1 - r * r)) / math.sqrt(2)
    return z >= _Z


def _null_drop(points: Floats, numbers: tuple[int, ...], seed: int, n_jobs: int | None) -> float:
    """Compute the largest score over all k in samples from one Gaussian and from a uniform box."""
    m, d = points.shape
    m = min(m, _ROWS)
    rng = np.random.default_rng([seed, 19])
    centered = points - points.mean(axis=0)
    values, axes = eigh(inner(centered, centered) / len(points))
    rotated = times(centered, axes)
    low, high = rotated.min(axis=0), rotated.max(axis=0)
    std = np.sqrt(np.maximum(values, 0))
    largest = 0.0
    for draw in range(2 * _DRAWS):
        rows = rng.uniform(low, high, size=(m, d)) if draw % 2 else rng.normal(size=(m, d)) * std
        for k in numbers:
            labels = _kmeans(rows, k, seed, n_jobs, n_init=1)
            if labels is not None:
                largest = max(largest, _smallest_drop(rows, labels, None))
    return largest


def _agreement_of_halves(points: Floats, k: int, seed: int, n_jobs: int | None) -> float:
    """Refit on both halves of the rows; return the mean adjusted Rand index of their partitions over random splits."""
    m = len(points)
    found = []
    for split in range(_SPLITS):
        order = np.random.default_rng([seed, 29, split]).permutation(m)
        labels = [
            KMeans(k, n_init=_N_INIT, random_state=seed, n_jobs=n_jobs).fit(points[np.sort(half)]).predict(points)
            for half in (order[: m // 2], order[m // 2 :])
        ]
        found.append(adjusted_rand_score(*labels))
    return float(np.mean(found))
