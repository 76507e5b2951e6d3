"""Which scaling of the embedding's rows gives the better clusters, for each type of affinity.

    python -m benchmarks.row_scaling                        all graphs, some minutes; prints the tables
    python -m benchmarks.row_scaling --folder DIR           also sets of clustering-benchmarks (NAME.data.gz)
    python -m benchmarks.row_scaling --sets 'digits,moons'  some of them

Each set is in one half, whatever graphs are made of it: sets are sorted by name, and every other one is kept for
judging what was chosen on the first half. Partitions are found with k-means, the default, and the two others;
scikit-learn partitions the same graph. Medians over three seeds. What came out: docs/decisions/0021-row-scaling.md.

The normalized cut is that of the graph itself, its diagonal included (eq. 4.12). The adjusted Rand index counts only
sets that come with labels.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import gzip
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn import cluster, datasets
from sklearn.feature_extraction.image import img_to_graph
from sklearn.metrics import adjusted_rand_score, pairwise_distances
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.neighbors import kneighbors_graph

from battery.sets import draw
from knoll import SpectralClustering, scales
from knoll.spectral.affinity import make_affinity, validate_points
from knoll.spectral.labels import find_clusters
from knoll.spectral.solve import solve

SCALINGS = ("unit", "degree", "none")
PARTITIONS = ("kmeans", "discretize", "cluster_qr")
SEEDS = (0, 1, 2)
ROWS = 300  # of a table, without --rows; larger ones are sampled
HALVES = ("development", "judging")
PEER = "scikit-learn"
BATTERY = (
    "blobs-2d-5", "blobs-10d-6", "blobs-20d-10", "blobs-sklearn-aniso", "bridged", "chain-5", "cross-2d", "density-2d",
    "density-4d", "elongated-2d-3", "heavy-6d", "many-2d-12", "moons-thick", "noise-blobs-2d", "noise-moons",
    "overlap-2d-3", "overlap-15d-2", "rings-3", "sizes-2d", "sizes-6d", "spirals-3", "tiles-2d", "waves", "within-2d",
)  # fmt: skip

Table = tuple[np.ndarray, np.ndarray | None, int]  # rows, labels, k
Precomputed = tuple[Any, np.ndarray | None, int]  # graph, labels, k


@dataclass(frozen=True)
class Graph:
    """An affinity matrix with the parameters that make it, to be given to both libraries."""

    group: str
    set: str
    name: str
    X: Any
    parameters: dict[str, Any]
    matrix: Any
    labels: np.ndarray | None
    k: int


@dataclass(frozen=True)
class Result:
    """Cut and agreement of one graph: the median over seeds."""

    graph: Graph
    partition: str
    scaling: str
    cut: float
    ari: float


# ---- sets of rows ----------------------------------------------------------------------------------------------------


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _sampled(table: Table, name: str, most: int) -> Table:
    """Sample rows, and give every column unit variance."""
    X, labels, k = table
    rows = np.sort(_generator(name).permutation(len(X))[:most])
    X = X[rows] - X[rows].mean(axis=0)
    return X / np.where(X.std(axis=0) > 0, X.std(axis=0), 1), None if labels is None else labels[rows], k


def _table(X: Any, labels: Any, k: int) -> Table:
    return np.asarray(X, dtype=float), None if labels is None else np.asarray(labels), k


def _battery(name: str) -> Callable[[], Table]:
    def recipe() -> Table:
        X, labels = draw(name, 2)
        kept = labels >= 0
        return _table(X[kept], labels[kept], int(labels.max()) + 1)

    return recipe


def _tables() -> dict[str, Callable[[], Table]]:
    def bunch(load: Callable[[], Any], k: int, labelled: bool = True) -> Callable[[], Table]:
        return lambda: _table(load().data, load().target if labelled else None, k)

    def pair(made: Callable[..., Any], k: int, labelled: bool = True, **options: Any) -> Callable[[], Table]:
        X, labels = made(n_samples=3000, random_state=5, **options)
        return lambda: _table(X, labels if labelled else None, k)

    return {
        "iris": bunch(datasets.load_iris, 3),
        "wine": bunch(datasets.load_wine, 3),
        "breast-cancer": bunch(datasets.load_breast_cancer, 2),
        "digits": bunch(datasets.load_digits, 10),
        "linnerud": bunch(datasets.load_linnerud, 3, labelled=False),
        "diabetes": bunch(datasets.load_diabetes, 4, labelled=False),
        "moons": pair(datasets.make_moons, 2, noise=0.1),
        "circles": pair(datasets.make_circles, 2, factor=0.5, noise=0.08),
        "blobs": pair(datasets.make_blobs, 6, centers=6),
        "varied": pair(datasets.make_blobs, 3, centers=3, cluster_std=[1.0, 2.5, 0.5]),
        "classification": pair(datasets.make_classification, 3, n_features=8, n_informative=4, n_classes=3),
        "quantiles": pair(datasets.make_gaussian_quantiles, 3),
        "s-curve": pair(datasets.make_s_curve, 5, labelled=False, noise=0.05),
        "swiss-roll": pair(datasets.make_swiss_roll, 6, labelled=False, noise=0.2),
        **{f"battery-{name}": _battery(name) for name in BATTERY},
    }


def _of_folder(folder: Path) -> dict[str, Callable[[], Table]]:
    """Read the sets of a copy of clustering-benchmarks (Gagolewski, 2022)."""

    def recipe(path: Path) -> Table:
        with gzip.open(path, "rt") as rows, gzip.open(str(path).replace(".data.", ".labels0."), "rt") as labels:
            X, y = np.loadtxt(rows, ndmin=2), np.loadtxt(labels, dtype=int)
        kept = y > 0  # 0 is noise
        return _table(X[kept], y[kept], len(np.unique(y[kept])))

    paths = sorted(folder.glob("**/*.data.gz"))
    names = [f"folder-{path.parent.name}-{path.name.partition('.')[0]}" for path in paths]
    return {name: functools.partial(recipe, path) for name, path in zip(names, paths, strict=True)}


# ---- graphs that are given -------------------------------------------------------------------------------------------


def _photograph(name: str, top: int, left: int) -> Precomputed:
    """Link the pixels of a detail of a photograph to their neighbours, by how alike they are."""
    picture = datasets.load_sample_image(name).mean(axis=2)[top : top + 320, left : left + 400]
    picture = picture.reshape(40, 8, 50, 8).mean(axis=(1, 3))
    graph = img_to_graph(picture)
    graph.data = np.exp(-10 * graph.data / graph.data.std()) + 1e-6
    return scipy.sparse.csr_array(graph), None, 12


def _blocks(name: str, sizes: list[int], inside: float, outside: float, hubs: float = 0.0) -> Precomputed:
    """Draw a stochastic block model; `hubs` spreads the expected degrees (log-normal)."""
    rng = _generator(name)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    pull = np.exp(hubs * rng.normal(size=len(labels)))
    chance = np.where(labels[:, None] == labels, inside, outside) * pull[:, None] * pull
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    return scipy.sparse.csr_array((upper | upper.T).astype(float)), labels, len(sizes)


def _geometric(name: str, n: int, radius: float, d: int, k: int) -> Precomputed:
    """Link random points of the unit cube that lie within a radius."""
    X = _generator(name).random((n, d))
    near = (pairwise_distances(X) < radius) & ~np.eye(n, dtype=bool)
    return scipy.sparse.csr_array(near.astype(float)), None, k


def _network(name: str) -> Precomputed:
    import networkx as nx  # optional

    match name:
        case "karate":
            graph = nx.karate_club_graph()
            labels = np.array([graph.nodes[i]["club"] == "Officer" for i in graph]).astype(int)
            return nx.to_scipy_sparse_array(graph, dtype=float, format="csr"), labels, 2
        case "miserables":
            return nx.to_scipy_sparse_array(nx.les_miserables_graph(), dtype=float, format="csr"), None, 6
        case "women":
            return nx.to_scipy_sparse_array(nx.davis_southern_women_graph(), dtype=float, format="csr"), None, 2
        case "florentine":
            return nx.to_scipy_sparse_array(nx.florentine_families_graph(), dtype=float, format="csr"), None, 3
        case "caveman":
            graph = nx.relaxed_caveman_graph(12, 15, 0.15, seed=5)
            return nx.to_scipy_sparse_array(graph, dtype=float, format="csr"), np.repeat(np.arange(12), 15), 12
        case "powerlaw":
            graph = nx.powerlaw_cluster_graph(300, 3, 0.6, seed=5)
            return nx.to_scipy_sparse_array(graph, dtype=float, format="csr"), None, 5
    graph = nx.LFR_benchmark_graph(400, 3, 1.5, 0.15, average_degree=8, min_community=30, max_degree=60, seed=10)
    communities = {frozenset(graph.nodes[v]["community"]) for v in graph}
    labels = np.array([[v in c for c in communities].index(True) for v in graph])
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return nx.to_scipy_sparse_array(graph, dtype=float, format="csr"), labels, len(communities)


def _precomputed() -> dict[str, Callable[[], Precomputed]]:
    return {
        "china-temple": lambda: _photograph("china.jpg", 20, 40),
        "china-trees": lambda: _photograph("china.jpg", 100, 230),
        "flower-bloom": lambda: _photograph("flower.jpg", 40, 100),
        "flower-leaf": lambda: _photograph("flower.jpg", 100, 230),
        "blocks-even": lambda: _blocks("blocks-even", [80] * 5, 0.15, 0.02),
        "blocks-sparse": lambda: _blocks("blocks-sparse", [120] * 4, 0.06, 0.01),
        "blocks-uneven": lambda: _blocks("blocks-uneven", [250, 100, 40], 0.15, 0.02),
        "blocks-hubs": lambda: _blocks("blocks-hubs", [150] * 3, 0.05, 0.006, 0.7),
        "blocks-hubs-uneven": lambda: _blocks("blocks-hubs-uneven", [200, 100, 50], 0.06, 0.005, 0.7),
        "blocks-many": lambda: _blocks("blocks-many", [30] * 14, 0.4, 0.02),
        "geometric-2d": lambda: _geometric("geometric-2d", 500, 0.085, 2, 8),
        "geometric-2d-dense": lambda: _geometric("geometric-2d-dense", 400, 0.15, 2, 4),
        "geometric-3d": lambda: _geometric("geometric-3d", 500, 0.19, 3, 6),
        **{name: functools.partial(_network, name) for name in NETWORKS},
    }


NETWORKS = ("karate", "miserables", "women", "florentine", "caveman", "powerlaw", "lfr")


# ---- affinities ------------------------------------------------------------------------------------------------------


def _symmetric(C: Any) -> Any:
    return scipy.sparse.csr_array((C + C.T) * 0.5)


def _of_rows(name: str, table: Table) -> Iterator[Graph]:
    """Make every type of affinity of a table."""
    X, labels, k = table
    for many in (5, 10):
        if many >= len(X):
            continue
        A = _symmetric(kneighbors_graph(X, many, include_self=True))
        yield Graph("nearest_neighbors", name, f"{many} neighbours", A, {"affinity": "precomputed"}, A, labels, k)
    D = kneighbors_graph(X, 8, mode="distance")
    D.data = np.exp(-np.square(D.data / (float(np.median(D.data)) or 1.0)) / 2)
    W = _symmetric(D)
    yield Graph("precomputed, sparse", name, "weighted", W, {"affinity": "precomputed"}, W, labels, k)
    sigma = float(scales.estimate_sigma(X).value)
    for share in (1.0, 2.0):
        gamma = 1 / (2 * (share * sigma) ** 2)
        yield _kernel("rbf", name, f"{share} sigma", X, labels, k, affinity="rbf", gamma=gamma)
    yield _kernel("rbf", name, "gamma 1", X, labels, k, affinity="rbf", gamma=1.0)
    distances = pairwise_distances(X)
    scale = np.maximum(np.sort(distances, axis=1)[:, min(7, len(X) - 1)], 1e-12)
    K = np.exp(-np.square(distances) / scale[:, None] / scale)  # self-tuning (Zelnik-Manor and Perona, 2004)
    yield Graph("precomputed, dense", name, "self-tuning", K, {"affinity": "precomputed"}, K, labels, k)
    K = np.clip(np.corrcoef(X), 0, 1) if X.shape[1] > 2 else 1 / (1 + distances / np.median(distances))
    yield Graph("precomputed, dense", name, "correlation", (K + K.T) / 2, {"affinity": "precomputed"}, K, labels, k)
    raised = X - X.min(axis=0)
    yield _kernel("other kernels", name, "laplacian", X, labels, k, affinity="laplacian", gamma=1 / X.shape[1])
    yield _kernel("other kernels", name, "polynomial", X, labels, k, affinity="poly", degree=2, coef0=1.0, gamma=1.0)
    yield _kernel("other kernels", name, "cosine", raised, labels, k, affinity="cosine")
    yield _kernel("other kernels", name, "chi2", raised, labels, k, affinity="chi2", gamma=1 / X.shape[1])


def _kernel(group: str, name: str, form: str, X: Any, labels: Any, k: int, **parameters: Any) -> Graph:
    own = {key: value for key, value in parameters.items() if key != "affinity"}
    K = pairwise_kernels(X, metric=parameters["affinity"], filter_params=True, **own)
    return Graph(group, name, form, X, parameters, np.maximum((K + K.T) / 2, 0), labels, k)


# ---- measures --------------------------------------------------------------------------------------------------------


def normalized_cut(A: Any, labels: np.ndarray, k: int) -> float:
    """(1/k) Σ_c links(V_c, V∖V_c)/links(V_c, V); a cluster without rows counts 1."""
    inside = np.zeros((len(labels), k))
    inside[np.arange(len(labels)), labels] = 1.0
    links = inside.T @ (A @ inside)
    volume = links.sum(axis=1)
    return float(np.mean(np.where(volume > 0, 1 - np.diag(links) / np.where(volume > 0, volume, 1), 1.0)))


def _measured(graph: Graph, fit: Callable[[int], np.ndarray]) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [fit(seed) for seed in SEEDS]
    cuts = [normalized_cut(graph.matrix, labels, graph.k) for labels in found]
    if graph.labels is None:
        return float(np.median(cuts)), np.nan
    return float(np.median(cuts)), float(np.median([adjusted_rand_score(graph.labels, labels) for labels in found]))


def measure(graph: Graph, partitions: Iterable[str] = PARTITIONS) -> Iterator[Result]:
    """Cluster one graph with every scaling and partition step, and by scikit-learn; our eigenvectors are found once."""
    model = SpectralClustering(graph.k, n_jobs=1, **graph.parameters)
    points, _ = validate_points(graph.X, model._affinity_params(), model, 1, reset=True)
    w = np.ones(points.shape[0])
    affinity = make_affinity(model._affinity_params(), points, None, 1)
    result = solve(affinity, w, model._request(graph.k, graph.k, 0, 1, gap=False))

    def ours(seed: int, partition: str, scaling: str) -> np.ndarray:
        options = {"assign_labels": partition, "row_scaling": scaling, "n_init": 10, "seed": seed, "threads": 1}
        return find_clusters(affinity, result, w, graph.k, **options).labels

    def theirs(seed: int, partition: str) -> np.ndarray:
        peer = cluster.SpectralClustering(graph.k, affinity="precomputed", assign_labels=partition, random_state=seed)
        # their eigensolver takes matrices only
        matrix = scipy.sparse.csr_matrix(graph.matrix) if scipy.sparse.issparse(graph.matrix) else graph.matrix
        return peer.fit(matrix).labels_

    for partition in partitions:
        for scaling in SCALINGS:
            fit = functools.partial(ours, partition=partition, scaling=scaling)
            yield Result(graph, partition, scaling, *_measured(graph, fit))
        yield Result(graph, partition, PEER, *_measured(graph, functools.partial(theirs, partition=partition)))


# ---- tables ----------------------------------------------------------------------------------------------------------


def table(results: list[Result], partition: str, halves: dict[str, str]) -> str:
    """One line for each type of affinity and half."""
    columns = (*SCALINGS, PEER)
    lines = [
        "| affinity | half | graphs | " + " | ".join(f"{c}: cut" for c in columns) + " | "
        + " | ".join(f"{c}: ARI" for c in columns) + " | degree beside unit: better, equal, worse |",
        "|---|---|---:|" + "---:|" * 2 * len(columns) + "---|",
    ]  # fmt: skip
    for group in dict.fromkeys(r.graph.group for r in results):
        for half in HALVES:
            of = {
                c: [
                    r
                    for r in results
                    if (r.graph.group, halves[r.graph.set], r.partition, r.scaling) == (group, half, partition, c)
                ]
                for c in columns
            }
            if not of["unit"]:
                continue
            cuts = [f"{np.mean([r.cut for r in of[c]]):.4f}" for c in columns]
            known = any(not np.isnan(r.ari) for r in of["unit"])
            aris = [f"{np.nanmean([r.ari for r in of[c]]):.3f}" if known else "" for c in columns]
            change = np.array([a.cut - b.cut for a, b in zip(of["degree"], of["unit"], strict=True)])
            shares = ", ".join(f"{np.mean(x):.0%}" for x in (change < -1e-3, np.abs(change) <= 1e-3, change > 1e-3))
            lines.append(f"| {group} | {half} | {len(change)} | {' | '.join(cuts + aris)} | {shares} |")
    return "\n".join(lines)


def halves_of(*families: Iterable[str]) -> dict[str, str]:
    """Every other name of each family, in the order of names, goes to the second half."""
    return {name: HALVES[i % 2] for family in families for i, name in enumerate(sorted(family))}


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.row_scaling", description=__doc__)
    parser.add_argument("--sets", default="*", metavar="GLOBS", help="comma-separated names or globs")
    parser.add_argument("--folder", type=Path, default=None, help="a copy of clustering-benchmarks")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of a table at most (default: {ROWS})")
    parser.add_argument("--groups", default="*", metavar="GLOBS", help="comma-separated types of affinity, or globs")
    parser.add_argument("--partitions", default=",".join(PARTITIONS), help="comma-separated values of assign_labels")
    parser.add_argument("--verbose", action="store_true", help="print every graph")
    options = parser.parse_args(arguments)
    partitions = options.partitions.split(",")
    own, precomputed = _tables(), _precomputed()
    read = _of_folder(options.folder) if options.folder else {}
    recipes, halves = own | read, halves_of(own, precomputed, read)
    results: list[Result] = []
    for name in sorted([*recipes, *precomputed]):
        if not _matches(name, options.sets):
            continue
        try:
            graphs = (
                [Graph("precomputed, sparse", name, "given", *_twice(precomputed[name]()))]
                if name in precomputed
                else list(_of_rows(name, _sampled(recipes[name](), name, options.rows)))
            )
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        for graph in graphs:
            if not _matches(graph.group, options.groups):
                continue
            rows = list(measure(graph, partitions))
            results += rows
            if options.verbose:
                for partition in partitions:
                    figures = "  ".join(
                        f"{r.scaling} {r.cut:.4f} {r.ari:.3f}" for r in rows if r.partition == partition
                    )
                    print(f"{graph.group} · {name} · {graph.name} · {partition}: {figures}", flush=True)
    for partition in partitions:
        print(f"\nassign_labels={partition!r}\n\n{table(results, partition, halves)}")


def _matches(name: str, globs: str) -> bool:
    return any(fnmatch.fnmatch(name, glob.strip()) for glob in globs.split(";" if ";" in globs else ","))


def _twice(graph: Precomputed) -> tuple[Any, dict[str, Any], Any, Any, int]:
    A, labels, k = graph
    return A, {"affinity": "precomputed"}, A, labels, k


if __name__ == "__main__":
    main()
