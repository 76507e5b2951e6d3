"""Figures of an answer that do not depend on units: what the judge decides by.

Noise rows are counted in the cluster of the nearest clustered row, except in
the share of noise. Densities are log densities per intrinsic dimension, so a drop of 0.7 is a distance twice as large.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from knoll import _core
from knoll._typing import Floats, Ints, Labels
from knoll.comparison.pool import Pool
from knoll.comparison.subsample import Subsample

__all__ = ["FAR", "GROUPS", "border_drops", "measure"]

_SHARES = (0.02, 0.1)  # of the rows of a cluster that a mode inside of it has at least
_STEPS = 12  # of the diffusion inside of clusters
FAR = 3.0  # log density drops are cut off here: a factor of 20 in distance
_MIN_SAMPLES = 5  # of the spanning tree
_AXES = 6  # principal components that inner cuts start from


def measure(subsample: Subsample, pool: Pool) -> tuple[Floats, tuple[str, ...]]:
    """Measure every answer of the pool: (p, f) and the names of the columns."""
    shared = _Shared(subsample, pool)
    rows = [_measure(shared, i) for i in range(len(pool.partitions))]
    names = tuple(rows[0])
    own = np.array([[row[name] for name in names] for row in rows])
    own = np.nan_to_num(own, nan=0.0, posinf=1e6, neginf=-1e6)
    extra, extra_names = _against_pool(pool, own, names)
    return np.hstack([own, extra]), names + extra_names


class _Shared:
    """What the figures of all answers need."""

    def __init__(self, subsample: Subsample, pool: Pool) -> None:
        self.subsample, self.pool = subsample, pool
        self.dimension, self.copies = subsample.dimension, subsample.copies
        graph = subsample.graph.tocoo()
        self.row, self.col, self.weight = graph.row, graph.col, graph.data
        self.degree = np.asarray(subsample.graph.sum(axis=1)).ravel()
        self.volume = float(self.degree.sum())
        self.density = subsample.log_density
        self.pairs, self.pair_heights = subsample.pairs, subsample.pair_heights
        s = _MIN_SAMPLES if _MIN_SAMPLES in subsample.trees else 1
        self.edges, lengths = subsample.spanning_tree(s)
        self.log_lengths = np.log(np.maximum(lengths, subsample.least_distance))
        core = np.log(np.maximum(subsample.core_distances(s), subsample.least_distance))
        clusters = int(pool.filled.max()) + 1
        order = np.argsort(-self.pair_heights, kind="stable")
        self.inner_modes = self._prominences(self.pairs[order], self.pair_heights[order], self.density, clusters)
        self.inner_gaps = self._prominences(self.edges, -self.log_lengths, -core, clusters)
        centered = subsample.unit_points - subsample.unit_points.mean(axis=0)
        self.total = float((centered**2).sum())
        self.centered = centered
        self.square = (centered**2).sum(axis=1)
        self.principal = _principal(centered)
        self.sides, self.inner_conductance = self._inner_cuts(clusters)
        self.least_scatter = self._least_scatter()

    def _prominences(self, edges: Labels, heights: Floats, tops: Floats, clusters: int) -> Floats:
        """Measure the modes inside of each cluster of each answer: (p, clusters, shares)."""
        out = np.empty((len(self.pool.filled), clusters * len(_SHARES)))
        ordered = np.ascontiguousarray(edges)
        _core.inner_prominences(
            self.pool.filled, ordered, heights, tops, np.array(_SHARES), out, self.subsample.threads
        )
        return out.reshape(len(out), clusters, -1)

    def _inner_cuts(self, clusters: int) -> tuple[Any, Floats]:
        """Divide each cluster of each answer in two: the sides of the rows, and the conductance of the division."""
        graph, filled = self.subsample.graph, self.pool.filled
        sides, conductance = np.empty(filled.shape, np.uint8), np.empty((len(filled), clusters))
        lists = graph.indptr.astype(np.int64), graph.indices.astype(np.int32), graph.data
        points = np.ascontiguousarray(self.principal)
        _core.inner_cuts(*lists, points, filled, _STEPS, sides, conductance, self.subsample.threads)
        return sides, conductance

    def conductance(self, labels: Ints, k: int) -> Floats:
        """Return the weight out of each cluster over the smaller of its volume and that of all others."""
        if k == 1:
            return np.zeros(1)
        own = labels[self.row]
        crossing = own != labels[self.col]
        volume = np.bincount(labels, self.degree, k)
        smaller = np.minimum(volume, self.volume - volume)
        return np.bincount(own[crossing], self.weight[crossing], k) / np.maximum(smaller, 1e-9)

    def _least_scatter(self) -> dict[int, float]:
        """Return the least sum of squares within clusters among the answers, by their number of clusters."""
        least: dict[int, float] = {}
        for labels in self.pool.filled:
            k = int(labels.max()) + 1
            least[k] = min(least.get(k, np.inf), _within(self.centered, self.square, labels, k))
        return least


def _measure(shared: _Shared, at: int) -> dict[str, float]:
    """Measure one answer."""
    labels = shared.pool.filled[at]
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k).astype(float)
    out = _table(shared)
    out |= _sizes(shared, at, k, sizes)
    out |= _cuts(shared, labels, k, sizes)
    out |= _drops(shared, labels, k, sizes, at)
    out |= _tree_gaps(shared, labels, k, sizes, at)
    out |= _inner_cut(shared, labels, k, sizes, at)
    out |= _compactness(shared, labels, k, sizes)
    return out


def _table(shared: _Shared) -> dict[str, float]:
    return {
        "rows": np.log(shared.subsample.n),
        "columns": np.log(shared.subsample.points.shape[1]),
        "dimension": shared.dimension,
        "copies": shared.copies,
    }


def _sizes(shared: _Shared, at: int, k: int, sizes: Floats) -> dict[str, float]:
    n = shared.subsample.n
    share = sizes / n
    entropy = -float((share * np.log(share)).sum())
    noise = shared.pool.labels[at] < 0
    contrast = 0.0
    if noise.any() and not noise.all():
        contrast = float(shared.density[~noise].mean() - shared.density[noise].mean())
    return {
        "clusters": np.log(k),
        "noise": float(noise.mean()),
        "noise-contrast": contrast,
        "least-share": float(np.log(share.min())),
        "largest-share": float(share.max()),
        "evenness": entropy / np.log(k) if k > 1 else 1.0,
        "median-size": float(np.log(np.median(sizes))),
        "least-size": float(np.log(sizes.min())),
        "small": float(share[share < 0.01].sum()),
    }


def _weighted(values: Floats, sizes: Floats) -> float:
    return float((values * sizes).sum() / sizes.sum())


def _cuts(shared: _Shared, labels: Ints, k: int, sizes: Floats) -> dict[str, float]:
    conductance = shared.conductance(labels, k)
    crossing = labels[shared.row] != labels[shared.col]
    leaving = np.bincount(shared.row[crossing], shared.weight[crossing], shared.subsample.n)
    outside = leaving / np.maximum(shared.degree, 1e-9)
    expected = (k / shared.subsample.n) ** (1 / shared.dimension)
    return {
        "conductance": _weighted(conductance, sizes),
        "conductance-mean": float(conductance.mean()),
        "conductance-worst": float(conductance.max()),
        "conductance-expected": float(np.log((_weighted(conductance, sizes) + 1e-3) / expected)),
        "cut-share": float(leaving.sum() / shared.volume),
        "mostly-inside": float((outside <= 0.5).mean()),
        "all-inside": float((outside <= 0).mean()),
    }


def _drops(shared: _Shared, labels: Ints, k: int, sizes: Floats, at: int) -> dict[str, float]:
    """Measure the drop of the density around each cluster, and inside of it."""
    density = shared.density
    from_top, from_median, border, median = border_drops(shared.subsample, labels)
    noise_level = np.sqrt(2 * np.log(shared.subsample.n) / 8) / shared.dimension
    inside = np.maximum(shared.inner_modes[at, :k], 0.0)  # (k, 2)
    return {
        "drop-least": float(from_top.min()),
        "drop-mean": _weighted(from_top, sizes),
        "drop-median-least": float(from_median.min()),
        "drop-median-mean": _weighted(from_median, sizes),
        "border-least": float(border.min()),
        "border-mean": _weighted(border, sizes),
        "deep-share": float(sizes[from_top > noise_level].sum() / sizes.sum()),
        "inner-mode-small": float(np.minimum(inside[:, 0].max(), FAR)),
        "inner-mode-large": float(np.minimum(inside[:, 1].max(), FAR)),
        "inner-mode-mean": _weighted(np.minimum(inside[:, 1], FAR), sizes),
        "drop-less-inner": float(from_top.min() - np.minimum(inside[:, 1].max(), FAR)),
        "drop-mean-less-inner": _weighted(from_top, sizes) - float(np.minimum(inside[:, 1].max(), FAR)),
        "level-spread": float(median.std()),
        "density-spread": float(np.sqrt(np.maximum(0, np.bincount(labels, density**2, k) / sizes
                                                   - (np.bincount(labels, density, k) / sizes) ** 2)).mean()),
    }  # fmt: skip


def border_drops(subsample: Subsample, labels: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """Compare the log density inside of each cluster with that of the edges that leave it.

    From the 95 % quantile inside to the highest edge, from the median inside to the highest edge and to the mean edge;
    and that median.
    """
    sizes = np.bincount(labels)
    k, density = len(sizes), subsample.log_density
    ends = np.cumsum(sizes)
    begins = ends - sizes
    ordered = density[np.lexsort((density, labels))]
    top = ordered[np.maximum(begins, begins + np.ceil(0.95 * sizes).astype(int) - 1)]
    median = ordered[begins + (sizes - 1) // 2]
    if k == 1:
        return np.zeros(1), np.zeros(1), np.zeros(1), median
    a, b = labels[subsample.pairs[:, 0]], labels[subsample.pairs[:, 1]]
    crossing = a != b
    side, height = np.concatenate([a[crossing], b[crossing]]), np.tile(subsample.pair_heights[crossing], 2)
    highest = np.full(k, -np.inf)
    np.maximum.at(highest, side, height)
    count = np.bincount(side, minlength=k)
    mean = np.where(count > 0, np.bincount(side, height, k) / np.maximum(count, 1), -np.inf)
    return (
        np.minimum(top - highest, FAR), np.minimum(median - highest, FAR), np.minimum(median - mean, FAR), median
    )  # fmt: skip


def _tree_gaps(shared: _Shared, labels: Ints, k: int, sizes: Floats, at: int) -> dict[str, float]:
    """Compare the shortest edge out of each cluster with those inside; the shortest is in the spanning tree."""
    edges, length = shared.edges, shared.log_lengths
    a, b = labels[edges[:, 0]], labels[edges[:, 1]]
    inner = a == b
    out = np.full(k, np.inf)
    np.minimum.at(out, a[~inner], length[~inner])
    np.minimum.at(out, b[~inner], length[~inner])
    widest = np.full(k, -np.inf)
    np.maximum.at(widest, a[inner], length[inner])
    count = np.bincount(a[inner], minlength=k)
    mean = np.bincount(a[inner], length[inner], k) / np.maximum(count, 1)
    pieces = sizes - count
    known = np.isfinite(widest) & np.isfinite(out)
    to_widest = np.where(known, np.clip(out - np.where(known, widest, 0), -FAR, FAR), 0.0)
    to_mean = np.where(known, np.clip(out - mean, -FAR, FAR), 0.0)
    validity = np.where(known, np.sign(to_widest) * (1 - np.exp(-np.abs(to_widest))), 0.0)
    inside = np.minimum(np.maximum(shared.inner_gaps[at, :k], 0.0), FAR)
    return {
        "gap-least": float(to_widest.min()),
        "gap-mean": _weighted(to_widest, sizes),
        "gap-typical-least": float(to_mean.min()),
        "gap-typical-mean": _weighted(to_mean, sizes),
        "validity": _weighted(validity, sizes),
        "pieces-mean": float(np.log(pieces).mean()),
        "pieces-worst": float(np.log(pieces.max())),
        "inner-gap-small": float(inside[:, 0].max()),
        "inner-gap-large": float(inside[:, 1].max()),
        "inner-gap-mean": _weighted(inside[:, 1], sizes),
    }


def _inner_cut(shared: _Shared, labels: Ints, k: int, sizes: Floats, at: int) -> dict[str, float]:
    """Cut each cluster along its slowest direction of diffusion; a good cluster has no good cut inside."""
    side, conductance = shared.sides[at], shared.inner_conductance[at, :k]
    share = np.bincount(labels, side, k) / sizes
    serious = (sizes >= 10) & (np.minimum(share, 1 - share) > 0.05)
    values = np.where(serious, conductance, 1.0)
    outside = shared.conductance(labels, k)
    expected = (2 / np.maximum(sizes, 4)) ** (1 / shared.dimension)
    relative = np.log((values + 1e-2) / expected)
    drop = _side_drop(shared, labels, side, k)
    return {
        "inner-cut-least": float(values.min()),
        "inner-cut-mean": _weighted(values, sizes),
        "inner-cut-expected": float(relative.min()),
        "outer-to-inner": float(np.log((outside.max() + 1e-2) / (values.min() + 1e-2))),
        "outer-to-inner-mean": float(np.log((_weighted(outside, sizes) + 1e-2) / (_weighted(values, sizes) + 1e-2))),
        "inner-cut-drop": float(np.where(serious, drop, 0.0).max()),
    }


def _side_drop(shared: _Shared, labels: Ints, side: Any, k: int) -> Floats:
    """Return the drop of the density from the median of the lower side to the mean over the edges of the inner cut."""
    a, b = shared.pairs.T
    within = (labels[a] == labels[b]) & (side[a] != side[b])
    count = np.bincount(labels[a[within]], minlength=k)
    mean = np.bincount(labels[a[within]], shared.pair_heights[within], k) / np.maximum(count, 1)
    half = 2 * labels + side
    size = np.maximum(np.bincount(half, minlength=2 * k), 1)
    level = (np.bincount(half, shared.density, 2 * k) / size).reshape(k, 2).min(axis=1)
    return np.where(count > 0, np.clip(level - mean, -FAR, FAR), 0.0)


def _compactness(shared: _Shared, labels: Ints, k: int, sizes: Floats) -> dict[str, float]:
    x, n = shared.centered, shared.subsample.n
    means = (_indicator(labels, k) @ x) / sizes[:, None]
    gaps = shared.square[:, None] - 2 * x @ means.T + (means**2).sum(axis=1)
    gaps = np.maximum(gaps, 0.0)
    own = gaps[np.arange(n), labels]
    within = float(own.sum())
    explained = 1 - within / shared.total if shared.total > 0 else 0.0
    best = _interpolated(shared.least_scatter, k)
    out = {
        "explained": explained,
        "calinski": np.log(max(1e-9, explained) / max(1e-9, 1 - explained) * (n - k) / max(1, k - 1)) if k > 1 else 0.0,
        "to-least-scatter": float(np.log((within + 1e-12) / (best + 1e-12))) if best > 0 and k > 1 else 0.0,
    }
    if k == 1:
        return out | {"davies": 0.0, "silhouette": 0.0, "silhouette-worst": 0.0, "silhouette-negative": 0.0}
    gaps[np.arange(n), labels] = np.inf
    other = np.sqrt(gaps.min(axis=1))
    mine = np.sqrt(own)
    silhouette = (other - mine) / np.maximum(np.maximum(other, mine), 1e-300)
    scatter = np.sqrt(np.bincount(labels, own, k) / sizes)
    apart = np.maximum(cdist(means, means), 1e-150)
    np.fill_diagonal(apart, np.inf)
    davies = ((scatter[:, None] + scatter) / apart).max(axis=1)
    per = np.bincount(labels, silhouette, k) / sizes
    return out | {
        "davies": float(np.log(davies.mean() + 1e-3)),
        "silhouette": float(silhouette.mean()),
        "silhouette-worst": float(per.min()),
        "silhouette-negative": float((silhouette < 0).mean()),
    }


def _interpolated(least: dict[int, float], k: int) -> float:
    """Return the least scatter for any number of clusters, log-linear between those that answers have."""
    if not least:
        return 0.0
    ks = np.array(sorted(least))
    return float(np.exp(np.interp(np.log(k), np.log(ks), np.log([max(least[i], 1e-300) for i in ks]))))


def _within(x: Floats, square: Floats, labels: Ints, k: int) -> float:
    sums = _indicator(labels, k) @ x
    return float(square.sum() - ((sums**2).sum(axis=1) / np.bincount(labels, minlength=k)).sum())


def _principal(x: Floats) -> Floats:
    """Return the principal components of centred rows, at most six; the smaller of the two Gram matrices has them."""
    n, d = x.shape
    if d <= _AXES:
        return x
    if d > n:
        squares, rows = np.linalg.eigh(x @ x.T)
        return np.asarray(rows[:, ::-1][:, :_AXES] * np.sqrt(np.maximum(squares[::-1][:_AXES], 0.0)))
    _values, vectors = np.linalg.eigh(x.T @ x)
    return np.asarray(x @ vectors[:, ::-1][:, :_AXES])


def _indicator(labels: Ints, k: int) -> Any:
    """Return the sparse matrix (k, n) that sums rows by cluster."""
    n = len(labels)
    return scipy.sparse.csc_array((np.ones(n), labels, np.arange(n + 1)), shape=(k, n))


_COMPARED = (
    "conductance", "drop-least", "drop-mean", "border-mean", "gap-least", "validity", "davies", "silhouette",
    "inner-cut-least", "inner-mode-large", "outer-to-inner", "drop-mean-less-inner",
)  # fmt: skip


def _against_pool(pool: Pool, own: Floats, names: tuple[str, ...]) -> tuple[Floats, tuple[str, ...]]:
    """Measure each answer against the others: agreement of the sources, and distance to the best of the pool."""
    agreement = np.sort(pool.agreement, axis=1)[:, ::-1]
    same = np.sort(pool.same_number, axis=1)[:, ::-1]
    many = agreement.shape[1]
    columns = {
        "agreement": agreement.mean(axis=1),
        "agreement-2": agreement[:, min(1, many - 1)],
        "agreement-3": agreement[:, min(2, many - 1)],
        "agreement-5": agreement[:, min(4, many - 1)],
        "agreement-high": (agreement > 0.9).mean(axis=1),
        "agreement-good": (agreement > 0.75).mean(axis=1),
        "agreement-same": same.mean(axis=1),
        "agreement-same-3": same[:, min(2, many - 1)],
    }
    columns |= {
        "agreement-lead": columns["agreement"] - columns["agreement"][1:].max(initial=0.0),
        "agreement-high-lead": columns["agreement-high"] - columns["agreement-high"][1:].max(initial=0.0),
        "agreement-rank": _ranks(columns["agreement"]),
        "best-agreement": np.full(len(own), columns["agreement"][1:].max(initial=0.0)),
        "best-agreement-high": np.full(len(own), columns["agreement-high"][1:].max(initial=0.0)),
    }
    at = {name: i for i, name in enumerate(names)}
    log_k = own[:, at["clusters"]]
    near = np.abs(log_k[:, None] - log_k) <= 0.3
    for name in _COMPARED:
        value = own[:, at[name]]
        columns[f"{name}/rank"] = _ranks(value)
        if name in ("conductance", "drop-mean", "validity", "border-mean"):
            mean = (near * value).sum(axis=1) / near.sum(axis=1)
            columns[f"{name}/near"] = value - mean
    columns["close"] = np.log((pool.ari > 0.8).sum(axis=1))
    columns |= _refinements(pool, own, columns, at)
    return np.column_stack(list(columns.values())), tuple(columns)


_REFINES = 0.97  # share of the pairs of rows in one cluster of the finer answer that the coarser one has together
_NONE = -1.0  # no finer or coarser answer in the pool


def _refinements(pool: Pool, own: Floats, columns: dict[str, Floats], at: dict[str, int]) -> dict[str, Floats]:
    """Measure the best of the finer answers that divide clusters of an answer, and of the coarser that join them."""
    k = own[:, at["clusters"]]
    pairs = np.maximum(np.diag(pool.together), 1.0)
    finer = (pool.together / pairs[None, :] > _REFINES) & (k[None, :] > k[:, None])  # [a, b]: b divides a
    coarser = (pool.together / pairs[:, None] > _REFINES) & (k[None, :] < k[:, None]) & (k[None, :] > 0)
    figures = {
        "agreement": columns["agreement"],
        "agreement-high": columns["agreement-high"],
        "drop": own[:, at["drop-least"]],
        "drop-mean": own[:, at["drop-mean"]],
        "gap": own[:, at["gap-typical-least"]],
        "border": own[:, at["border-mean"]],
        "validity": own[:, at["validity"]],
    }
    out = {}
    for side, related in (("finer", finer), ("coarser", coarser)):
        for name, value in figures.items():
            best = np.where(related, value[None, :], -np.inf).max(axis=1)
            out[f"{side}-{name}"] = np.where(np.isfinite(best), best - value, _NONE)
    return out


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value, from 0 to 1; equal values share theirs."""
    order = np.sort(np.round(values, 9))
    low = np.searchsorted(order, np.round(values, 9), "left")
    high = np.searchsorted(order, np.round(values, 9), "right")
    return np.asarray((low + high) / (2 * len(values)))


_AGREEMENT = ("", "-2", "-3", "-5", "-high", "-good", "-same", "-same-3", "-lead", "-high-lead", "-rank")
_GAPS = ("-least", "-mean", "-typical-least", "-typical-mean")
GROUPS = {
    "agreement": tuple(f"agreement{name}" for name in _AGREEMENT),
    "density": (
        "drop-least", "drop-mean", "drop-median-least", "drop-median-mean", "border-least", "border-mean", "deep-share",
    ),
    "gap": (*(f"gap{name}" for name in _GAPS), "validity"),
    "inside": (
        "inner-mode-small", "inner-mode-large", "inner-mode-mean", "inner-cut-least", "inner-cut-mean",
        "inner-cut-expected", "inner-cut-drop",
    ),
    "sizes": ("least-share", "largest-share", "evenness", "median-size", "least-size", "small"),
}  # the figures that one sentence of the recommendation is about  # fmt: skip
