"""Valleys along lines: a witness for tables with so many columns that no neighbourhood is local any more.

With m rows in d columns even the nearest neighbour is about m^(-1/d) of the width away. Where that is more than half,
d > log2 m, a kernel estimate sees little, and a mixture has too many parameters to be true of real tables. Along one
line, however, a density is easily seen. So the rows are parted by k-means, and of each pair of parts its rows are seen
along the line through the two means: a density that falls between two tops and rises again is a valley, and its depth
is taken in log density. A partition is as good as its least valley: pieces of one hill have a pair without one.

Three questions follow. *Is it chance?* The deepest least valley over all k is compared with that in sets of one
Gaussian and of a uniform box, treated alike. *Does it come back* on halves of the rows? *Are the rows in the valley
thin?* A bent band has valleys along lines, too, but the rows there lie as close together as anywhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from knoll._common.linalg import eigh, inner, times
from knoll._typing import Floats, Ints
from knoll.comparison.density import LEAST_ROWS, LEAST_SHARE
from knoll.kmeans.estimator import KMeans
from knoll.metrics import adjusted_rand_score

__all__ = ["Lines", "is_blind", "seek_lines"]


_DRAWS = 19  # so that a valley deeper than all of them has p = 1/20
_ROWS = 800  # at most so many are drawn and looked at for each null
_STARTS = 4
_GRID = 128  # places along a line
_HALVINGS = 5
_ALIKE = 0.8  # adjusted Rand index of halves
_SIDE = 5  # rows between a top and the pass; fewer say nothing
_FALLS = 1.645  # standard errors of a correlation: by chance in one of twenty
_DEEP = 1.5  # a valley this deep in log density, 4.5 times lower, needs no thin rows: a band along a bend has less


@dataclass(frozen=True)
class Lines:
    """What the lines say."""

    labels: Ints  # (m,)
    count: int
    valley: float  # the least valley of the partition, in log density; 0: none
    chance: float  # the deepest such valley in data without clusters
    halves: float | None  # agreement of refits on halves; None: not asked
    reason: str


def is_blind(m: int, d: int) -> bool:
    """Say whether the nearest neighbour is more than half the width away."""
    return d > math.log2(m)


def seek_lines(
    points: Floats, numbers: tuple[int, ...], density: Floats, more_than: int, seed: int, n_jobs: int | None
) -> Lines:
    """Look for parts of which every two have a valley between them that is no chance; the number that comes back best.

    `density` is the logarithm of some estimate at the rows, which only needs to tell thin places from thick ones.
    If only partitions into `more_than` parts or fewer have valleys, nothing would change, and no more is done.
    """
    one = np.zeros(len(points), np.int64)
    found = {k: part for k in numbers if (part := _parted(points, k, seed, n_jobs)) is not None}
    seen = {k: _least_valley(points, labels, density) for k, labels in found.items()}
    best = max(seen, key=lambda k: seen[k], default=0)
    if not any(valley > 0 for k, valley in seen.items() if k > more_than):
        return Lines(one, 1, 0.0, 0.0, None, "no gap was found between the k-means clusters")
    chance = _by_chance(points, numbers, seed, n_jobs)
    deep = sorted((k for k, valley in seen.items() if valley > chance), reverse=True)

    def told(k: int) -> str:
        return f"between any two of {k} parts the density falls by {seen[k]:.2f} or more in its logarithm"

    if not deep:
        return Lines(one, 1, seen[best], chance, None, f"{told(best)}, and by {chance:.2f} in data without clusters")
    halves = {k: _agreement_of_halves(points, k, seed, n_jobs) for k in deep}
    k = max(deep, key=lambda k: round(halves[k], 2))  # the number that comes back best, the larger of equals
    alike = f"refits on halves of the rows agree by {halves[k]:.2f} (adjusted Rand index)"
    if halves[k] < _ALIKE:
        return Lines(one, 1, seen[k], chance, halves[k], f"{told(k)}, but {alike}")
    reason = f"{told(k)}, by {chance:.2f} at most in data without clusters; {alike}"
    return Lines(found[k], k, seen[k], chance, halves[k], reason)


def _parted(points: Floats, k: int, seed: int, n_jobs: int | None, starts: int = _STARTS) -> Ints | None:
    """Part the rows by k-means; None where a part is too small to have a density."""
    m = len(points)
    if k * max(LEAST_ROWS, LEAST_SHARE * m) > m:
        return None
    labels = KMeans(k, n_init=starts, random_state=seed, n_jobs=n_jobs).fit(points).labels_.astype(np.int64)
    sizes = np.bincount(labels, minlength=k)
    return labels if sizes.min() >= max(LEAST_ROWS, LEAST_SHARE * m) else None


def _least_valley(points: Floats, labels: Ints, density: Floats | None) -> float:
    """Return the least valley over the pairs of parts, the nearest first: a pair without a valley ends the search."""
    k = int(labels.max()) + 1
    means = np.array([points[labels == c].mean(axis=0) for c in range(k)])
    gaps = ((means[:, None] - means) ** 2).sum(axis=2)
    least = math.inf
    for a, b in sorted(((i, j) for i in range(k) for j in range(i)), key=lambda pair: float(gaps[pair])):
        if gaps[a, b] == 0:
            return 0.0
        rows = np.flatnonzero((labels == a) | (labels == b))
        axis = (means[a] - means[b])[:, None] / gaps[a, b]
        along = times(points[rows] - means[b], axis)[:, 0]  # 0 at one mean, 1 at the other
        valley, place, tops = _valley(along)
        if 0 < valley < _DEEP and density is not None and not _is_thin(along, density[rows], place, tops):
            valley = 0.0
        least = min(least, valley)
        if least == 0:
            break
    return least


def _valley(along: Floats) -> tuple[float, float, tuple[float, float]]:
    """Return how deep the density along a line falls between two tops, where, and where the tops are."""
    grid = np.linspace(-0.5, 1.5, _GRID)
    log = _log_density(grid, along)
    left, right = np.maximum.accumulate(log), np.maximum.accumulate(log[::-1])[::-1]
    depth = np.where((grid > 0) & (grid < 1), np.minimum(left, right) - log, 0.0)
    at = int(np.argmax(depth))
    tops = float(grid[np.argmax(log[: at + 1])]), float(grid[at + np.argmax(log[at:])])
    return float(depth[at]), float(grid[at]), tops


def _log_density(places: Floats, along: Floats) -> Floats:
    """Estimate the density of rows along a line, with the width of Silverman (1986); constant where all are equal."""
    low, high = np.quantile(along, [0.25, 0.75])
    width = 0.9 * min(float(along.std()), float(high - low) / 1.349 or math.inf) * len(along) ** -0.2
    if not width > 0:
        return np.zeros(len(places))
    return np.asarray(np.log(np.exp(-0.5 * ((places[:, None] - along) / width) ** 2).sum(axis=1) + 1e-300))


def _is_thin(along: Floats, density: Floats, place: float, tops: tuple[float, float]) -> bool:
    """Say whether the density in all columns falls with that along the line, and by no chance.

    The two are correlated over the rows between each top and the pass; the two sides speak together (Stouffer's way).
    """
    line = _log_density(along, along)
    falls = 0.0  # in standard errors
    for side in ((along >= tops[0]) & (along <= place), (along >= place) & (along <= tops[1])):
        n = int(side.sum())
        if n < _SIDE or not (line[side].std() > 0 and density[side].std() > 0):
            return False
        r = float(np.corrcoef(line[side], density[side])[0, 1])
        falls += r * math.sqrt((n - 2) / max(1e-12, 1 - r * r)) / math.sqrt(2)
    return falls >= _FALLS


def _by_chance(points: Floats, numbers: tuple[int, ...], seed: int, n_jobs: int | None) -> float:
    """Return the deepest least valley over all k in sets without clusters."""
    m, d = points.shape
    m = min(m, _ROWS)
    rng = np.random.default_rng([seed, 19])
    moved = points - points.mean(axis=0)
    values, axes = eigh(inner(moved, moved) / len(points))
    turned = times(moved, axes)
    low, high = turned.min(axis=0), turned.max(axis=0)
    deepest = 0.0
    spread = np.sqrt(np.maximum(values, 0))
    for draw in range(2 * _DRAWS):
        rows = rng.uniform(low, high, size=(m, d)) if draw % 2 else rng.normal(size=(m, d)) * spread
        for k in numbers:
            labels = _parted(rows, k, seed, n_jobs, starts=1)
            if labels is not None:
                deepest = max(deepest, _least_valley(rows, labels, None))
    return deepest


def _agreement_of_halves(points: Floats, k: int, seed: int, n_jobs: int | None) -> float:
    """Refit on both halves of the rows and compare how they part all rows; the mean of some."""
    m = len(points)
    found = []
    for halving in range(_HALVINGS):
        order = np.random.default_rng([seed, 29, halving]).permutation(m)
        labels = [
            KMeans(k, n_init=_STARTS, random_state=seed, n_jobs=n_jobs).fit(points[np.sort(part)]).predict(points)
            for part in (order[: m // 2], order[m // 2 :])
        ]
        found.append(adjusted_rand_score(*labels))
    return float(np.mean(found))
