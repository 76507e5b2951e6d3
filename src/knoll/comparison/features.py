"""Figures of an answer that do not depend on units: what the judge decides by.

Each is one sentence in `DESCRIPTIONS`. Noise rows are counted in the cluster of the nearest clustered row, except in
the share of noise. Densities are log densities per intrinsic dimension, so a drop of 0.7 is a distance twice as large.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from knoll import _core
from knoll._typing import Floats, Ints
from knoll.comparison.pool import Pool
from knoll.comparison.view import View

__all__ = ["GROUPS", "measure"]

_SHARES = (0.02, 0.1)  # of the rows of a cluster that a mode inside of it has at least
_FAR = 3.0  # log density drops are cut off here: a factor of 20 in distance
_GAUSSIAN_COLUMNS = 6  # principal components for the Gaussian figures


def measure(view: View, pool: Pool) -> tuple[Floats, tuple[str, ...]]:
    """Measure every answer of the pool: (p, f) and the names of the columns."""
    shared = _Shared(view, pool)
    rows = [_measure(shared, i) for i in range(len(pool.partitions))]
    names = tuple(rows[0])
    own = np.array([[row[name] for name in names] for row in rows])
    own = np.nan_to_num(own, nan=0.0, posinf=1e6, neginf=-1e6)
    extra, extra_names = _against_pool(pool, own, names)
    return np.hstack([own, extra]), names + extra_names


class _Shared:
    """What the figures of all answers need."""

    def __init__(self, view: View, pool: Pool) -> None:
        self.view, self.pool = view, pool
        self.dimension, self.copies = view.dimension, view.copies
        graph = view.graph.tocoo()
        self.row, self.col, self.weight = graph.row, graph.col, graph.data
        self.degree = np.asarray(view.graph.sum(axis=1)).ravel()
        self.volume = float(self.degree.sum())
        self.density = view.log_density
        self.pairs, self.pair_heights = view.pairs, view.pair_heights
        self.trees = {s: view.spanning_tree(s) for s in (1, 6)}
        self.tree_tops = {s: -np.log(np.maximum(self._core_distance(s), view.least_distance)) for s in self.trees}
        self.log_lengths = {s: np.log(np.maximum(t[1], view.least_distance)) for s, t in self.trees.items()}
        clusters = int(pool.filled.max()) + 1
        self.inner_modes = self._inner(np.argsort(-self.pair_heights, kind="stable"), clusters)
        self.inner_tree = self._inner_tree(6, clusters)
        self.inner_single = self._inner_tree(1, clusters)
        centered = view.points - view.points.mean(axis=0)
        self.total = float((centered**2).sum())
        self.centered = centered
        self.square = (centered**2).sum(axis=1)
        self.principal = _principal(centered)
        self.one_gaussian = _gaussian_scores(self.principal, np.zeros(view.n, np.int64), 1)
        self.kmeans = self._kmeans_inertia()

    def _core_distance(self, s: int) -> Floats:
        if s == 1:
            return self.view.distances[:, 0]
        return self.view.distances[:, min(s - 1, self.view.distances.shape[1]) - 1]

    def _inner(self, order: Ints, clusters: int) -> Floats:
        out = np.empty((len(self.pool.filled), clusters * len(_SHARES)))
        _core.inner_prominences(
            self.pool.filled, np.ascontiguousarray(self.pairs[order]), self.pair_heights[order], self.density,
            np.array(_SHARES), out, self.view.threads,
        )  # fmt: skip
        return out.reshape(len(out), clusters, -1)

    def _inner_tree(self, s: int, clusters: int) -> Floats:
        edges, _ = self.trees[s]
        out = np.empty((len(self.pool.filled), clusters * len(_SHARES)))
        _core.inner_prominences(
            self.pool.filled, np.ascontiguousarray(edges), -self.log_lengths[s], self.tree_tops[s], np.array(_SHARES),
            out, self.view.threads,
        )  # fmt: skip
        return out.reshape(len(out), clusters, -1)

    def _kmeans_inertia(self) -> dict[int, float]:
        return {
            p.n_clusters: _within(self.centered, self.square, p.labels, p.n_clusters)
            for p in self.pool.partitions
            if p.source == "kmeans"
        }


def _measure(shared: _Shared, at: int) -> dict[str, float]:
    """Measure one answer."""
    labels = shared.pool.filled[at]
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k).astype(float)
    out = _table(shared)
    out |= _sizes(shared, at, k, sizes)
    out |= _cuts(shared, labels, k, sizes)
    out |= _drops(shared, labels, k, sizes, at)
    for s in shared.trees:
        out |= _tree_gaps(shared, s, labels, k, sizes, at)
    out |= _inner_cut(shared, labels, k, sizes)
    out |= _compactness(shared, labels, k, sizes)
    out |= _gaussians(shared, labels, k, sizes)
    out |= _lines(shared, labels, k, sizes)
    return out


def _table(shared: _Shared) -> dict[str, float]:
    return {
        "rows": np.log(shared.view.n),
        "columns": np.log(shared.view.points.shape[1]),
        "dimension": shared.dimension,
        "copies": shared.copies,
    }


def _sizes(shared: _Shared, at: int, k: int, sizes: Floats) -> dict[str, float]:
    n = shared.view.n
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
    a, b = labels[shared.row], labels[shared.col]
    crossing = a != b
    cut = np.bincount(a[crossing], shared.weight[crossing], k)
    volume = np.bincount(labels, shared.degree, k)
    small = np.minimum(volume, shared.volume - volume) if k > 1 else volume
    conductance = cut / np.maximum(small, 1e-9)
    outside = np.bincount(shared.row[crossing], shared.weight[crossing], shared.view.n) / np.maximum(
        shared.degree, 1e-9
    )
    expected = (k / shared.view.n) ** (1 / shared.dimension)
    return {
        "conductance": _weighted(conductance, sizes),
        "conductance-mean": float(conductance.mean()),
        "conductance-worst": float(conductance.max()),
        "conductance-expected": float(np.log((_weighted(conductance, sizes) + 1e-3) / expected)),
        "cut-share": float(cut.sum() / shared.volume),
        "mostly-inside": float((outside <= 0.5).mean()),
        "all-inside": float((outside <= 0).mean()),
    }


def _drops(shared: _Shared, labels: Ints, k: int, sizes: Floats, at: int) -> dict[str, float]:
    """Measure the drop of the density around each cluster, and inside of it."""
    density = shared.density
    order = np.lexsort((density, labels))
    ends = np.cumsum(sizes).astype(int)
    begins = ends - sizes.astype(int)
    ordered = density[order]
    top = ordered[np.maximum(begins, begins + np.ceil(0.95 * sizes).astype(int) - 1)]
    median = ordered[begins + (sizes.astype(int) - 1) // 2]
    a, b = labels[shared.pairs[:, 0]], labels[shared.pairs[:, 1]]
    crossing = a != b
    height = shared.pair_heights[crossing]
    side = np.concatenate([a[crossing], b[crossing]])
    both = np.concatenate([height, height])
    highest = np.full(k, -np.inf)
    np.maximum.at(highest, side, both)
    count = np.bincount(side, minlength=k)
    mean = np.bincount(side, both, k) / np.maximum(count, 1)
    mean = np.where(count > 0, mean, -np.inf)
    from_top = np.minimum(top - highest, _FAR)
    from_median = np.minimum(median - highest, _FAR)
    border = np.minimum(median - mean, _FAR)
    if k == 1:
        from_top = from_median = border = np.zeros(1)
    noise_level = np.sqrt(2 * np.log(shared.view.n) / 8) / shared.dimension
    inside = np.maximum(shared.inner_modes[at, :k], 0.0)  # (k, 2)
    return {
        "drop-least": float(from_top.min()),
        "drop-mean": _weighted(from_top, sizes),
        "drop-median-least": float(from_median.min()),
        "drop-median-mean": _weighted(from_median, sizes),
        "border-least": float(border.min()),
        "border-mean": _weighted(border, sizes),
        "deep-share": float(sizes[from_top > noise_level].sum() / sizes.sum()),
        "inner-mode-small": float(np.minimum(inside[:, 0].max(), _FAR)),
        "inner-mode-large": float(np.minimum(inside[:, 1].max(), _FAR)),
        "inner-mode-mean": _weighted(np.minimum(inside[:, 1], _FAR), sizes),
        "drop-less-inner": float(from_top.min() - np.minimum(inside[:, 1].max(), _FAR)),
        "drop-mean-less-inner": _weighted(from_top, sizes) - float(np.minimum(inside[:, 1].max(), _FAR)),
        "level-spread": float(median.std()),
        "density-spread": float(np.sqrt(np.maximum(0, np.bincount(labels, density**2, k) / sizes
                                                   - (np.bincount(labels, density, k) / sizes) ** 2)).mean()),
    }  # fmt: skip


def _tree_gaps(shared: _Shared, s: int, labels: Ints, k: int, sizes: Floats, at: int) -> dict[str, float]:
    """Compare the shortest edge out of each cluster with those inside; the shortest is in the spanning tree."""
    edges, _ = shared.trees[s]
    length = shared.log_lengths[s]
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
    to_widest = np.where(known, np.clip(out - np.where(known, widest, 0), -_FAR, _FAR), 0.0)
    to_mean = np.where(known, np.clip(out - mean, -_FAR, _FAR), 0.0)
    validity = np.where(known, np.sign(to_widest) * (1 - np.exp(-np.abs(to_widest))), 0.0)
    prominence = shared.inner_tree if s > 1 else shared.inner_single
    inside = np.minimum(np.maximum(prominence[at, :k], 0.0), _FAR)
    return {
        f"gap{s}-least": float(to_widest.min()),
        f"gap{s}-mean": _weighted(to_widest, sizes),
        f"gap{s}-typical-least": float(to_mean.min()),
        f"gap{s}-typical-mean": _weighted(to_mean, sizes),
        f"validity{s}": _weighted(validity, sizes),
        f"pieces{s}-mean": float(np.log(pieces).mean()),
        f"pieces{s}-worst": float(np.log(pieces.max())),
        f"inner{s}-small": float(inside[:, 0].max()),
        f"inner{s}-large": float(inside[:, 1].max()),
        f"inner{s}-mean": _weighted(inside[:, 1], sizes),
    }


def _inner_cut(shared: _Shared, labels: Ints, k: int, sizes: Floats) -> dict[str, float]:
    """Cut each cluster along its slowest direction of diffusion; a good cluster has no good cut inside."""
    a, b = labels[shared.row], labels[shared.col]
    inside = a == b
    row, col, weight = shared.row[inside], shared.col[inside], shared.weight[inside]
    n = shared.view.n
    inner = scipy.sparse.csr_array((weight, (row, col)), shape=(n, n))
    degree = np.bincount(row, weight, n)
    scale = 1.0 / np.maximum(degree, 1e-9)
    volume = np.bincount(labels, degree, k)
    y = _start(shared, labels, k, sizes)
    for _ in range(12):
        y = 0.5 * (y + scale * (inner @ y))
        y -= (np.bincount(labels, degree * y, k) / np.maximum(volume, 1e-9))[labels]
        y /= (np.sqrt(np.bincount(labels, degree * y * y, k)) + 1e-12)[labels]
    side = y > 0
    crossing = side[row] != side[col]
    cut = np.bincount(labels[row[crossing]], weight[crossing], k) / 2
    left = np.bincount(labels, degree * side, k)
    small = np.minimum(left, volume - left)
    conductance = np.where(small > 0, cut / np.maximum(small, 1e-9), 1.0)
    share = np.bincount(labels, side, k) / sizes
    serious = (sizes >= 10) & (np.minimum(share, 1 - share) > 0.05)
    values = np.where(serious, conductance, 1.0)
    outer = np.bincount(a[~inside], shared.weight[~inside], k)
    volumes = np.bincount(labels, shared.degree, k)
    outside = outer / np.maximum(np.minimum(volumes, shared.volume - volumes), 1e-9) if k > 1 else np.zeros(k)
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


def _start(shared: _Shared, labels: Ints, k: int, sizes: Floats) -> Floats:
    """Project each cluster on its own first axis, by three steps of the power method for all clusters at once."""
    x = shared.centered
    inside = _indicator(labels, k)
    own = x - ((inside @ x) / sizes[:, None])[labels]
    axis = inside @ (own * np.sign(own @ np.ones(x.shape[1]) + 1e-12)[:, None])
    for _ in range(4):
        y = np.einsum("ij,ij->i", own, axis[labels])
        axis = inside @ (own * y[:, None])
        axis /= np.linalg.norm(axis, axis=1, keepdims=True) + 1e-300
    return np.einsum("ij,ij->i", own, axis[labels])


def _side_drop(shared: _Shared, labels: Ints, side: Any, k: int) -> Floats:
    """Return the drop of the density from the median of the lower side to the mean over the edges of the inner cut."""
    a, b = shared.pairs.T
    within = (labels[a] == labels[b]) & (side[a] != side[b])
    count = np.bincount(labels[a[within]], minlength=k)
    mean = np.bincount(labels[a[within]], shared.pair_heights[within], k) / np.maximum(count, 1)
    half = 2 * labels + side
    size = np.maximum(np.bincount(half, minlength=2 * k), 1)
    level = (np.bincount(half, shared.density, 2 * k) / size).reshape(k, 2).min(axis=1)
    return np.where(count > 0, np.clip(level - mean, -_FAR, _FAR), 0.0)


def _compactness(shared: _Shared, labels: Ints, k: int, sizes: Floats) -> dict[str, float]:
    x, n = shared.centered, shared.view.n
    means = (_indicator(labels, k) @ x) / sizes[:, None]
    gaps = shared.square[:, None] - 2 * x @ means.T + (means**2).sum(axis=1)
    gaps = np.maximum(gaps, 0.0)
    own = gaps[np.arange(n), labels]
    within = float(own.sum())
    explained = 1 - within / shared.total if shared.total > 0 else 0.0
    best = _interpolated(shared.kmeans, k)
    out = {
        "explained": explained,
        "calinski": np.log(max(1e-9, explained) / max(1e-9, 1 - explained) * (n - k) / max(1, k - 1)) if k > 1 else 0.0,
        "to-kmeans": float(np.log((within + 1e-12) / (best + 1e-12))) if best > 0 and k > 1 else 0.0,
    }
    if k == 1:
        return out | {"davies": 0.0, "silhouette": 0.0, "silhouette-worst": 0.0, "silhouette-negative": 0.0}
    gaps[np.arange(n), labels] = np.inf
    other = np.sqrt(gaps.min(axis=1))
    mine = np.sqrt(own)
    silhouette = (other - mine) / np.maximum(np.maximum(other, mine), 1e-300)
    spread = np.sqrt(np.bincount(labels, own, k) / sizes)
    apart = np.sqrt(np.maximum(((means[:, None] - means) ** 2).sum(-1), 1e-300))
    np.fill_diagonal(apart, np.inf)
    davies = ((spread[:, None] + spread) / apart).max(axis=1)
    per = np.bincount(labels, silhouette, k) / sizes
    return out | {
        "davies": float(np.log(davies.mean() + 1e-3)),
        "silhouette": float(silhouette.mean()),
        "silhouette-worst": float(per.min()),
        "silhouette-negative": float((silhouette < 0).mean()),
    }


def _interpolated(inertia: dict[int, float], k: int) -> float:
    """Return the inertia of k-means for any number of clusters, log-linear between those that were fitted."""
    if not inertia:
        return 0.0
    ks = np.array(sorted(inertia))
    return float(np.exp(np.interp(np.log(k), np.log(ks), np.log([max(inertia[i], 1e-300) for i in ks]))))


def _within(x: Floats, square: Floats, labels: Ints, k: int) -> float:
    sums = _indicator(labels, k) @ x
    return float(square.sum() - ((sums**2).sum(axis=1) / np.bincount(labels, minlength=k)).sum())


def _principal(x: Floats) -> Floats:
    d = x.shape[1]
    if d <= _GAUSSIAN_COLUMNS:
        return x
    _values, vectors = np.linalg.eigh(x.T @ x)
    return np.asarray(x @ vectors[:, ::-1][:, :_GAUSSIAN_COLUMNS])


def _gaussian_scores(x: Floats, labels: Ints, k: int) -> tuple[float, float, Floats]:
    """Return BIC and ICL per row of the clusters as Gaussians, and the posterior probability of each row's own."""
    n, d = x.shape
    floor = 1e-3 * x.var(axis=0).mean() + 1e-12
    sizes = np.bincount(labels, minlength=k).astype(float)
    inside = _indicator(labels, k)
    means = (inside @ x) / sizes[:, None]
    i, j = np.triu_indices(d)
    own = x - means[labels]
    covariance = np.empty((k, d, d))
    covariance[:, i, j] = covariance[:, j, i] = inside @ (own[:, i] * own[:, j])
    covariance += (d + 1) * floor * np.eye(d)
    covariance /= (sizes + 1)[:, None, None]
    factor = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(factor)  # (k, d, d)
    shift = np.einsum("kij,kj->ki", inverse, means)
    z = np.einsum("nj,kij->nki", x, inverse, optimize=True) - shift
    logs = np.log(sizes / n) - 0.5 * (z**2).sum(axis=2) - 0.5 * d * np.log(2 * np.pi)
    logs -= np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    top = logs.max(axis=1)
    total = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    own_log = logs[np.arange(n), labels]
    posterior = np.exp(own_log - total)
    free = k * (d + d * (d + 1) / 2) + k - 1
    penalty = 0.5 * free * np.log(n) / n
    return float(total.mean() - penalty), float(own_log.mean() - penalty), posterior


def _indicator(labels: Ints, k: int) -> Any:
    """Return the sparse matrix (k, n) that sums rows by cluster."""
    n = len(labels)
    return scipy.sparse.csc_array((np.ones(n), labels, np.arange(n + 1)), shape=(k, n))


def _gaussians(shared: _Shared, labels: Ints, k: int, sizes: Floats) -> dict[str, float]:
    if k == 1:
        return {"bic": 0.0, "icl": 0.0, "posterior": 1.0, "posterior-worst": 1.0, "quadratic": 1.0}
    bic, icl, posterior = _gaussian_scores(shared.principal, labels, k)
    per = np.bincount(labels, posterior, k) / sizes
    return {
        "bic": float(np.clip(bic - shared.one_gaussian[0], -5, 20)),
        "icl": float(np.clip(icl - shared.one_gaussian[1], -5, 20)),
        "posterior": float(posterior.mean()),
        "posterior-worst": float(per.min()),
        "quadratic": float((posterior > 0.5).mean()),
    }


_BINS = 20  # between the ends of a line


def _lines(shared: _Shared, labels: Ints, k: int, sizes: Floats) -> dict[str, float]:
    """Measure the density along the Fisher direction between each cluster and its nearest one."""
    if k == 1:
        return {"fisher-least": 0.0, "fisher-mean": 0.0, "valley-least": 0.0, "valley-mean": 0.0}
    x = shared.principal
    inside = _indicator(labels, k)
    means = (inside @ x) / sizes[:, None]
    own = x - means[labels]
    d = x.shape[1]
    i, j = np.triu_indices(d)
    scatter = np.empty((k, d, d))
    scatter[:, i, j] = scatter[:, j, i] = inside @ (own[:, i] * own[:, j])
    floor = 1e-3 * x.var(axis=0).mean() + 1e-12
    apart = ((means[:, None] - means) ** 2).sum(-1)
    np.fill_diagonal(apart, np.inf)
    other = np.argmin(apart, axis=1)
    pooled = (scatter + scatter[other] + (d + 1) * floor * np.eye(d)) / (sizes + sizes[other] + 1)[:, None, None]
    step = means[other] - means
    direction = np.linalg.solve(pooled, step[:, :, None])[:, :, 0]
    square = np.maximum(np.einsum("kj,kj->k", step, direction), 1e-300)
    t = (x @ direction.T - np.einsum("kj,kj->k", means, direction)) / square  # 0 at the one mean, 1 at the other
    bins = np.floor((t + 0.5) * _BINS).astype(np.int64)
    own_line = (labels[:, None] == np.arange(k)) | (labels[:, None] == other)
    row, line = np.nonzero(own_line & (bins >= 0) & (bins < 2 * _BINS))
    counts = np.bincount(line * 2 * _BINS + bins[row, line], minlength=2 * _BINS * k).reshape(k, 2 * _BINS)
    padded = np.pad(counts.astype(float), ((0, 0), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5, axis=1)  # (k, bins, 5)
    smooth = 0.5 + windows @ np.array([0.15, 0.2, 0.3, 0.2, 0.15])
    left, right = smooth[:, :_BINS].max(axis=1), smooth[:, _BINS:].max(axis=1)
    middle = smooth[:, _BINS // 2 : 3 * _BINS // 2].min(axis=1)
    fisher = np.minimum(np.sqrt(square), 20.0)
    valley = np.log(np.minimum(left, right) / middle)
    return {
        "fisher-least": float(fisher.min()),
        "fisher-mean": _weighted(fisher, sizes),
        "valley-least": float(valley.min()),
        "valley-mean": _weighted(valley, sizes),
    }


_COMPARED = (
    "conductance", "drop-least", "drop-mean", "border-mean", "gap6-least", "validity6", "davies", "bic", "silhouette",
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
        if name in ("conductance", "drop-mean", "validity6", "border-mean"):
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
        "gap": own[:, at["gap6-typical-least"]],
        "border": own[:, at["border-mean"]],
        "validity": own[:, at["validity6"]],
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
    "gap": (*(f"gap{s}{name}" for s in (1, 6) for name in _GAPS), "validity1", "validity6"),
    "inside": (
        "inner-mode-small", "inner-mode-large", "inner-mode-mean", "inner-cut-least", "inner-cut-mean",
        "inner-cut-expected", "inner-cut-drop",
    ),
    "sizes": ("least-share", "largest-share", "evenness", "median-size", "least-size", "small"),
}  # the figures that one sentence of the recommendation is about  # fmt: skip
