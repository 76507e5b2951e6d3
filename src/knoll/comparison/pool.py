"""The answers that are judged: every method at every number of clusters, on the rows of the view.

Methods share what costs most: spectral clustering has one eigenproblem for all k, DBSCAN and HDBSCAN one density tree
for all settings, Genie, Ward's and average linkage one hierarchy. Answers with noise are offered as they are and with
each noise row in the cluster of the nearest clustered row. Nearly equal answers are joined; the sources that
gave them are remembered, since agreement of unlike methods is evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.cluster.hierarchy
import scipy.spatial.distance

from knoll import _core, scales
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.comparison.view import View
from knoll.density.condensed import CondensedTree
from knoll.density.mean_shift import MeanShift
from knoll.kernel_kmeans.estimator import KernelKMeans
from knoll.kmeans.estimator import KMeans
from knoll.mixture.estimator import GaussianMixture
from knoll.spectral import embed
from knoll.spectral.graph import sparse_components

__all__ = ["GRID", "SOURCES", "Partition", "Pool", "make_pool"]

GRID = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 21, 25, 30, 35, 40, 50, 60)  # numbers of clusters
SAME = 0.98  # adjusted Rand index above which two answers are one


@dataclass(frozen=True)
class Partition:
    """An answer on the rows of the view."""

    source: str
    labels: Ints  # (m,) −1: noise
    setting: Mapping[str, Any]

    @property
    def n_clusters(self) -> int:
        """The number of clusters, without noise."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True)
class Pool:
    """Different answers, and for each the agreement with every source."""

    partitions: list[Partition]
    labels: Ints  # (p, m) int32, −1: noise
    filled: Ints  # (p, m) noise in the cluster of the nearest clustered row
    ari: Floats  # (p, p)
    together: Floats  # (p, p) pairs of rows that are in one cluster in both
    agreement: Floats  # (p, sources) the best adjusted Rand index that a source reaches with the answer, at any setting
    same_k: Floats  # (p, sources) the same at about the same number of clusters
    sources: tuple[str, ...]


def make_pool(view: View, numbers: Sequence[int] | None = None, sources: Iterable[str] | None = None) -> Pool:
    """Collect the answers of the sources, at these numbers of clusters; join equal ones."""
    grid = tuple(k for k in (GRID if numbers is None else numbers) if 2 <= k <= max(2, view.n // 6))
    found: list[Partition] = []
    with collect_warnings():
        for name in SOURCES if sources is None else sources:
            for one in SOURCES[name](view, grid):
                labels = _numbered(one.labels)
                if labels.max() >= 1 and (labels >= 0).mean() >= 0.2:
                    found.append(Partition(one.source, labels, one.setting))
    return _joined(view, found)


def _numbered(labels: Ints) -> Ints:
    """Number clusters 0, 1, … by their first rows; −1 stays."""
    values, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.where(values < 0, -1, first), kind="stable")
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    return rank[inverse] - (1 if values[0] < 0 else 0)


def _joined(view: View, found: list[Partition]) -> Pool:
    """Join answers that are nearly equal; the first of them stays."""
    one = Partition("one", np.zeros(view.n, np.int64), {})
    every = [one, *found]
    stack = np.array([p.labels for p in every], np.int32)
    together, ari = _compare_all(stack, view.threads)
    kept: list[int] = []
    for i in range(len(every)):
        if not (ari[i, kept] > SAME).any():
            kept.append(i)
    sources = tuple(dict.fromkeys(p.source for p in found))
    k = np.array([p.n_clusters for p in every])
    agreement, same = np.zeros((len(kept), len(sources))), np.zeros((len(kept), len(sources)))
    for column, name in enumerate(sources):
        own = np.array([i for i, p in enumerate(every) if p.source == name])
        agreement[:, column] = ari[np.ix_(kept, own)].max(axis=1)
        near = np.abs(np.log(k[own][None, :] / k[kept][:, None])) <= 0.15
        same[:, column] = np.where(near, ari[np.ix_(kept, own)], 0.0).max(axis=1)
    labels = stack[kept]
    filled = np.array([_filled(view, row) for row in labels], np.int32)
    return Pool([every[i] for i in kept], labels, filled, ari[np.ix_(kept, kept)], together[np.ix_(kept, kept)], agreement, same, sources)


def _filled(view: View, labels: Ints) -> Ints:
    """Give noise rows the label of the nearest clustered row."""
    if labels.min() >= 0:
        return labels
    out = labels.copy()
    near = np.where(labels[view.near] >= 0, np.arange(view.near.shape[1]), view.near.shape[1])
    first = near.min(axis=1)
    quick = (labels < 0) & (first < view.near.shape[1])
    out[quick] = labels[view.near[quick, first[quick]]]
    slow = np.flatnonzero((labels < 0) & ~quick)
    if len(slow):
        inside = np.flatnonzero(labels >= 0)
        out[slow] = labels[inside[np.argmin(view.gaps[np.ix_(slow, inside)], axis=1)]]
    return out


def _compare_all(labels: Ints, threads: int) -> tuple[Floats, Floats]:
    """Count the pairs of rows that two answers both join, and compute their adjusted Rand index, for every two.

    Noise counts as one more cluster.
    """
    shifted = labels - labels.min(axis=1, keepdims=True)
    overlaps = np.empty((len(labels), len(labels)))
    _core.partition_overlaps(np.ascontiguousarray(shifted, np.int32), overlaps, threads)
    n = labels.shape[1]
    together = 0.5 * (overlaps - n)
    own = np.diag(together)
    expected = own[:, None] * own / (0.5 * n * (n - 1))
    most = 0.5 * (own[:, None] + own)
    with np.errstate(divide="ignore", invalid="ignore"):
        ari = (together - expected) / (most - expected)
    return together, np.where(most == expected, 1.0, ari)


# ---- sources -------------------------------------------------------------------------------------------------------


def _kmeans(view: View, grid: Sequence[int]) -> Iterator[Partition]:
    for k in grid:
        model = KMeans(n_clusters=k, n_init=2, random_state=view.seed, n_jobs=view.threads).fit(view.points)
        yield Partition("kmeans", model.labels_.astype(np.int64), {"n_clusters": k})


def _mixtures(covariance_type: str) -> Callable[[View, Sequence[int]], Iterator[Partition]]:
    def source(view: View, grid: Sequence[int]) -> Iterator[Partition]:
        n, d = view.points.shape
        name = f"mixture-{covariance_type}"
        best: tuple[float, Any] = (np.inf, None)
        for k in grid:
            if k * ((d + 1) if covariance_type == "full" else 2) > n / 2:
                break
            try:
                model = GaussianMixture(
                    k, covariance_type=covariance_type, max_iter=40, reg_covar=1e-5, random_state=view.seed,
                    n_jobs=view.threads,
                ).fit(view.points)  # fmt: skip
            except (ValueError, ArithmeticError):
                continue
            yield Partition(name, model.labels_.astype(np.int64), {"n_components": k})
            bic = float(model.bic(view.points))
            if bic < best[0]:
                best = bic, model
        if covariance_type == "full" and best[1] is not None:
            yield from _merged_components(view, best[1])

    return source


def _merged_components(view: View, model: Any) -> Iterator[Partition]:
    """Join the components whose union lowers the entropy of the assignment most, one pair at a time (Baudry 2010)."""
    shares = np.asarray(model.predict_proba(view.points), dtype=np.float64)
    k = shares.shape[1]
    groups = np.arange(k)
    while shares.shape[1] > 2:
        gain = _entropy_gains(shares)
        a, b = np.unravel_index(int(np.argmax(gain)), gain.shape)
        a, b = min(a, b), max(a, b)
        shares[:, a] += shares[:, b]
        shares = np.delete(shares, b, axis=1)
        groups[groups == b] = a
        groups[groups > b] -= 1
        yield Partition(
            "mixture-merged", shares.argmax(axis=1), {"n_components": k, "groups": tuple(int(g) for g in groups)}
        )


def _entropy_gains(shares: Floats) -> Floats:
    """Return by how much the entropy falls if two columns are added, for each pair."""
    k = shares.shape[1]
    own = _entropy(shares)
    gain = np.full((k, k), -np.inf)
    for a in range(k - 1):
        joint = shares[:, a : a + 1] + shares[:, a + 1 :]
        gain[a, a + 1 :] = own[a] + own[a + 1 :] - _entropy(joint)
    return gain


def _entropy(shares: Floats) -> Floats:
    return np.asarray(-(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=0))


def _spectral(view: View, grid: Sequence[int]) -> Iterator[Partition]:
    numbers = [k for k in grid if k <= min(60, view.n // 4)]
    if not numbers:
        return
    vectors = spectral_vectors(view, max(numbers))
    for k in numbers:
        rows = vectors[:, :k]
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = np.ascontiguousarray(rows / np.where(length > 0, length, 1.0))
        model = KMeans(n_clusters=k, n_init=2, random_state=view.seed, n_jobs=view.threads).fit(rows)
        yield Partition("spectral", model.labels_.astype(np.int64), {"n_clusters": k})


def spectral_vectors(view: View, m: int) -> Floats:
    """Return the first m eigenvectors of the normalised graph, (n, m)."""
    graph, n = view.graph, view.n
    labels = sparse_components(graph)
    if n <= 700:
        spectrum, _ = embed.dense_spectrum(graph.toarray(), labels, np.ones(n), m, view.threads)
    else:
        from knoll.kernels.operators import SparseOperator

        spectrum, _ = embed.sparse_spectrum(
            SparseOperator(graph), graph, labels, m, tol=1e-3, max_applications=10_000, seed=view.seed,
            threads=view.threads, gap=False,
        )  # fmt: skip
    return spectrum.vectors


def least_size(n: int) -> int:
    """Return the least number of rows of a cluster of the density trees."""
    return max(4, round(0.008 * n))


def _dbscan(view: View, grid: Sequence[int]) -> Iterator[Partition]:
    most = max(grid, default=0)
    for s, tree in view.trees.items():
        name = "single" if s == 1 else "dbscan"
        condensed = tree.condense(least_size(view.n))
        for k, eps in levels(condensed, most).items():
            labels = labels_at(condensed, eps)
            setting = {"eps": eps, "min_samples": s}
            yield Partition(name, labels, setting)
            if (labels < 0).any():
                yield Partition(name, _filled(view, labels), setting | {"noise": "nearest"})


def levels(tree: CondensedTree, most: int) -> dict[int, float]:
    """For each number of clusters, find the height in the widest interval, in ratio, in which the clusters stay.

    A cluster exists from its birth down to its end: its split, or the height at which its last rows leave together.
    """
    end = cluster_ends(tree)
    events = np.unique(np.concatenate([tree.birth[np.isfinite(tree.birth)], end]))
    events = events[events > 0]
    widest: dict[int, tuple[float, float]] = {}
    for low, high in zip(events[:-1], events[1:]):
        alive = int(((tree.birth >= high) & (end <= low)).sum())
        if 2 <= alive <= most:
            ratio = float(np.log(high / low))
            if ratio > widest.get(alive, (0.0, 0.0))[0]:
                widest[alive] = ratio, float(low + 0.999 * (high - low))
    return {k: eps for k, (_, eps) in sorted(widest.items())}


def cluster_ends(tree: CondensedTree) -> Floats:
    """Return the height below which each cluster does not exist."""
    least = np.full(len(tree.parent), np.inf)
    np.minimum.at(least, tree.row_cluster, tree.row_height)
    return np.where(tree.death >= 0, tree.death, least)


def labels_at(tree: CondensedTree, height: float) -> Ints:
    """Label the rows by the clusters of the condensed tree that exist at a height."""
    around = np.arange(len(tree.parent))
    for c in range(1, len(around)):
        if tree.birth[c] <= height:
            around[c] = around[tree.parent[c]]
    # a row has left its smallest cluster above the height at which it leaves
    inside = tree.row_height <= height
    labels = np.where(inside, around[tree.row_cluster], -1)
    end = cluster_ends(tree)
    alive = (tree.birth > height) & (end <= height)
    return np.where((labels >= 0) & alive[np.maximum(labels, 0)], labels, -1)


def _hdbscan(view: View, grid: Sequence[int]) -> Iterator[Partition]:
    n = view.n
    sizes = dict.fromkeys(max(4, round(share * n)) for share in (0.01, 0.02, 0.04, 0.08, 0.15))
    for s, tree in view.trees.items():
        if s == 1:
            continue
        for size in sizes:
            condensed = tree.condense(size)
            for how in ("eom", "leaf"):
                if how == "leaf" and s != 5:
                    continue
                chosen = condensed.eom() if how == "eom" else condensed.leaves()
                labels = condensed.select(chosen).labels
                setting = {"min_cluster_size": size, "min_samples": s, "cluster_selection_method": how}
                name = "hdbscan" if how == "eom" else "hdbscan-leaf"
                yield Partition(name, labels, setting)
                if (labels < 0).any() and (labels >= 0).any():
                    yield Partition(name, _filled(view, labels), setting | {"noise": "nearest"})


def _genie(view: View, grid: Sequence[int]) -> Iterator[Partition]:
    for s, thresholds in ((1, (0.1, 0.3, 0.5)), (6, (0.3,))):
        edges, _ = view.spanning_tree(s)
        for threshold in thresholds:
            for k, labels in genie(edges, view.n, grid, threshold).items():
                yield Partition("genie", labels, {"n_clusters": k, "gini": threshold, "min_samples": s})


def genie(edges: Ints, n: int, grid: Sequence[int], threshold: float) -> dict[int, Ints]:
    """Merge along the spanning tree; while the Gini index of the sizes exceeds the threshold, the smallest joins."""
    wanted = set(grid)
    out: dict[int, Ints] = {}
    parent, size = list(range(n)), [1] * n
    members: list[list[int]] = [[i] for i in range(n)]
    pending = [(int(a), int(b)) for a, b in edges]
    used = [False] * len(pending)
    incident: list[list[int]] = [[] for _ in range(n)]
    for e, (a, b) in enumerate(pending):
        incident[a].append(e)
        incident[b].append(e)
    counts = {1: n}  # clusters by size
    total_gini = 0  # Σ over pairs |size_i − size_j|
    first, k = 0, n

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def spread(s: int) -> int:
        return sum(c * abs(s - t) for t, c in counts.items())

    while k > 1:
        gini = total_gini / (n * (k - 1.0))
        edge = -1
        if gini > threshold:
            least = min(counts)
            # the smallest cluster with the shortest edge: the first unused edge with an end in such a cluster
            for e in range(first, len(pending)):
                if not used[e] and (size[root(pending[e][0])] == least or size[root(pending[e][1])] == least):
                    edge = e
                    break
        else:
            while used[first]:
                first += 1
            edge = first
        used[edge] = True
        a, b = root(pending[edge][0]), root(pending[edge][1])
        for s in (size[a], size[b]):
            counts[s] -= 1
            if not counts[s]:
                del counts[s]
            total_gini -= spread(s)
        joint = size[a] + size[b]
        total_gini += spread(joint)
        counts[joint] = counts.get(joint, 0) + 1
        if len(members[a]) < len(members[b]):
            a, b = b, a
        parent[b] = a
        size[a] = joint
        members[a] += members[b]
        members[b] = []
        k -= 1
        if k in wanted:
            labels = np.empty(n, np.int64)
            for i in range(n):
                if parent[i] == i:
                    labels[members[i]] = i
            out[k] = labels
    return out


_QUANTILES = (0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3)  # shares of the rows within a bandwidth


def _mean_shift(view: View, grid: Sequence[int]) -> Iterator[Partition]:
    least = max(2, round(0.005 * view.n))
    for share in _QUANTILES:
        width = scales.estimate_bandwidth(view.points, quantile=share, n_jobs=view.threads)
        if not width > 0:
            continue
        labels = MeanShift(bandwidth=width, n_jobs=view.threads).fit(view.points).labels_.astype(np.int64)
        labels = np.where(np.bincount(labels)[labels] >= least, labels, -1)
        if labels.max() >= 0:
            yield Partition("mean-shift", _filled(view, _numbered(labels)), {"bandwidth": float(width)})


def _kernel_kmeans(view: View, grid: Sequence[int]) -> Iterator[Partition]:
    sigma = scales.estimate_sigma(view.points, n_jobs=view.threads).sigma
    if not sigma > 0:
        return
    for factor in (1.0, 3.0):
        for k in grid:
            if k > 15 or k in (7, 9):
                continue
            model = KernelKMeans(
                n_clusters=k, sigma=factor * sigma, n_init=1, random_state=view.seed, n_jobs=view.threads
            ).fit(view.points)
            labels = model.labels_.astype(np.int64)
            yield Partition("kernel-kmeans", labels, {"n_clusters": k, "sigma": factor * sigma})


def _linkage(method: str) -> Callable[[View, Sequence[int]], Iterator[Partition]]:
    def source(view: View, grid: Sequence[int]) -> Iterator[Partition]:
        distance = scipy.spatial.distance.squareform(np.sqrt(view.gaps), checks=False)
        tree = scipy.cluster.hierarchy.linkage(distance, method)
        for k in grid:
            labels = scipy.cluster.hierarchy.fcluster(tree, k, "maxclust")
            yield Partition(method, labels.astype(np.int64), {"n_clusters": k})

    return source


SOURCES: dict[str, Callable[[View, Sequence[int]], Iterator[Partition]]] = {
    "kmeans": _kmeans,
    "mixture-full": _mixtures("full"),
    "mixture-diag": _mixtures("diag"),
    "mixture-tied": _mixtures("tied"),
    "spectral": _spectral,
    "dbscan": _dbscan,
    "hdbscan": _hdbscan,
    "genie": _genie,
    "mean-shift": _mean_shift,
    "kernel-kmeans": _kernel_kmeans,
    "ward": _linkage("ward"),
    "average": _linkage("average"),
}
