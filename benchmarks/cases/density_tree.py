"""The density tree and HDBSCAN's labels from it, beside quitefastmst, fast_hdbscan, hdbscan and scikit-learn.

quitefastmst (AGPL-3.0, a peer of measurements only) computes the minimum spanning tree alone, which is the harder bar:
knoll's time has the tree and the labels. Its core distance, and that of hdbscan and fast_hdbscan, leaves out the point
itself, so their min_samples is one less. The judge is the total weight of the spanning tree, which is unique however
ties are broken; a contestant that shows no weights is judged by the share of rows whose label is unlike the order-free
one: rows at saddles, where binary trees depend on the order of the rows, and errors. Below 31 columns fast_hdbscan
computes in float32; from there on it searches approximate lists of nearest rows (pynndescent), and its tree is infinite
where they do not connect the rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register

MIN_SAMPLES = 10


def normal(n: int, d: int) -> dict[str, np.ndarray]:
    return {"X": np.random.default_rng(7).normal(size=(n, d))}


def blobs(n: int, d: int) -> dict[str, np.ndarray]:
    from sklearn.datasets import make_blobs

    X, _ = make_blobs(n, d, centers=50, cluster_std=0.5, random_state=7)
    return {"X": np.ascontiguousarray(X)}


def directions(n: int, d: int) -> dict[str, np.ndarray]:
    """Embeddings: 50 directions with noise; rows of length 1, so that peers without a cosine can be timed."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(50, d))[rng.integers(0, 50, n)] + 2 * rng.normal(size=(n, d))
    return {"X": X / np.linalg.norm(X, axis=1, keepdims=True)}


def fit_knoll(data: Data, threads: int, metric: str = "euclidean") -> dict[str, Any]:
    from knoll.density.tree import DensityTree

    tree = DensityTree(MIN_SAMPLES, metric=metric, n_jobs=threads).fit(data["X"])
    return {"labels": tree.eom(MIN_SAMPLES), "weight": tree.bars_[1:].sum()}


def fit_quitefastmst(data: Data, threads: int) -> dict[str, Any]:
    import quitefastmst

    quitefastmst.omp_set_num_threads(threads)
    weights, *_ = quitefastmst.mst_euclid(data["X"], MIN_SAMPLES - 1)
    return {"weight": float(np.sum(weights))}


def fit_fast_hdbscan(data: Data, threads: int, metric: str = "euclidean") -> dict[str, Any]:
    """On rows of length 1 a Euclidean edge w is one of w²/2 in cosine distances, in a tree of the same edges."""
    import numba
    from fast_hdbscan import HDBSCAN

    numba.set_num_threads(threads)
    model = HDBSCAN(min_cluster_size=MIN_SAMPLES, min_samples=MIN_SAMPLES - 1).fit(data["X"])
    edges = np.asarray(model._single_linkage_tree)[:, 2]
    return {"labels": model.labels_, "weight": float(edges.sum() if metric == "euclidean" else (edges**2 / 2).sum())}


def fit_hdbscan(data: Data, threads: int) -> dict[str, Any]:
    from hdbscan import HDBSCAN

    model = HDBSCAN(
        min_cluster_size=MIN_SAMPLES,
        min_samples=MIN_SAMPLES - 1,
        approx_min_span_tree=False,
        core_dist_n_jobs=threads,
    )
    return {"labels": model.fit_predict(data["X"])}


def fit_sklearn(data: Data, threads: int, metric: str = "euclidean") -> dict[str, Any]:
    from sklearn.cluster import HDBSCAN

    model = HDBSCAN(min_cluster_size=MIN_SAMPLES, min_samples=MIN_SAMPLES, metric=metric, n_jobs=threads, copy=True)
    return {"labels": model.fit_predict(data["X"])}


def quality(data: Data, result: dict[str, Any], metric: str = "euclidean") -> dict[str, float]:
    """Relative error of the tree's weight, and the share of rows whose labels differ; NaN where there are none."""
    true = fit_knoll(data, 2, metric)
    out = {"weight error": float("nan"), "labels differ": float("nan")}
    if "weight" in result:
        out["weight error"] = abs(float(result["weight"]) / float(true["weight"]) - 1)
    if "labels" in result:
        out["labels differ"] = share_unlike(true["labels"], result["labels"])
    return out


def share_unlike(true: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of rows outside of the largest overlap of each true cluster."""
    clusters, columns = true.astype(np.int64) + 1, labels.astype(np.int64) + 1
    pairs, counts = np.unique(clusters * (columns.max() + 1) + columns, return_counts=True)
    best = np.zeros(clusters.max() + 1, dtype=np.int64)
    np.maximum.at(best, pairs // (columns.max() + 1), counts)
    return float(1 - best.sum() / len(true))


PEERS = {
    "quitefastmst": Contestant("quitefastmst", fit_quitefastmst, ("quitefastmst",)),
    "fast_hdbscan": Contestant("fast_hdbscan", fit_fast_hdbscan, ("fast_hdbscan",)),
    "hdbscan": Contestant("hdbscan", fit_hdbscan, ("hdbscan",)),
    "scikit-learn": Contestant("scikit-learn", fit_sklearn, ("sklearn.cluster",)),
}


def case(
    name: str,
    about: str,
    data: Any,
    targets: dict[str, float],
    also: tuple[str, ...] = (),
    metric: str = "euclidean",
    **options: Any,
) -> None:
    """Register a fit beside peers; those in ``also`` are shown with their errors, without a target.

    Peers that take minutes have a case of their own, with one process for each contestant.

    hdbscan and fast_hdbscan have no index for cosine distances: they get rows of length 1, on which Euclidean ones have
    the same order.
    """
    options = {"repeats": 3, **options}
    peers = dict(PEERS)
    if metric != "euclidean":
        peers["scikit-learn"] = Contestant("scikit-learn", partial(fit_sklearn, metric=metric), ("sklearn.cluster",))
        peers["fast_hdbscan"] = Contestant("fast_hdbscan", partial(fit_fast_hdbscan, metric=metric), ("fast_hdbscan",))
    register(
        Case(
            name=name,
            group="density tree",
            about=about,
            data=data,
            ours=Contestant("knoll", partial(fit_knoll, metric=metric), ("knoll.density.tree",)),
            peers=tuple(peers[peer] for peer in (*targets, *also)),
            judge=partial(quality, metric=metric),
            not_worse=no_larger("weight error", floor=1e-9),
            targets=tuple(Target(ratio, (peer,)) for peer, ratio in targets.items()),
            warmup=lambda data: {**data, "X": data["X"][:2000]},
            **options,
        )
    )


case(
    "density-tree-1e5x2",
    "normal",
    partial(normal, 10**5, 2),
    {"quitefastmst": 1.5, "fast_hdbscan": 8, "hdbscan": 30},
)
case("density-tree-1e5x2-slow", "normal", partial(normal, 10**5, 2), {"scikit-learn": 300}, repeats=1)
case(
    "density-tree-1e6x2",
    "normal",
    partial(normal, 10**6, 2),
    {"quitefastmst": 1.8, "fast_hdbscan": 10},
    memory_limit=120.0,
)
case("density-tree-1e6x2-slow", "normal", partial(normal, 10**6, 2), {"hdbscan": 80}, repeats=1)
case("density-tree-1e6x5", "normal", partial(normal, 10**6, 5), {"quitefastmst": 2})
case("density-tree-1e6x5-slow", "normal", partial(normal, 10**6, 5), {"fast_hdbscan": 12}, repeats=1)
case(
    "density-tree-1e5x10",
    "normal",
    partial(normal, 10**5, 10),
    {"quitefastmst": 5, "fast_hdbscan": 5},
)
case("density-tree-1e5x10-slow", "normal", partial(normal, 10**5, 10), {"hdbscan": 20, "scikit-learn": 30}, repeats=1)
case("density-tree-1e5x10-blobs", "50 blobs", partial(blobs, 10**5, 10), {"quitefastmst": 3, "fast_hdbscan": 4})
case(
    "density-tree-5e4x32",
    "normal",
    partial(normal, 5 * 10**4, 32),
    {"quitefastmst": 10},
    also=("fast_hdbscan",),
)
case(
    "density-tree-5e4x32-slow", "normal", partial(normal, 5 * 10**4, 32), {"hdbscan": 15, "scikit-learn": 15}, repeats=1
)
case(
    "density-tree-2e4x768",
    "50 directions, cosine",
    partial(directions, 2 * 10**4, 768),
    {"scikit-learn": 5},
    also=("fast_hdbscan",),
    metric="cosine",
    repeats=1,
)
case(
    "density-tree-2e4x768-slow",
    "50 directions, cosine",
    partial(directions, 2 * 10**4, 768),
    {"hdbscan": 5},
    metric="cosine",
    repeats=1,
)


# ---- labels at a new ε -----------------------------------------------------------------------------------------------

_FITTED: dict[str, Any] = {}  # by contestant: the untimed first call fits, the timed ones read labels off the tree


def with_eps(n: int) -> dict[str, np.ndarray]:
    """Half of the rows are core: the most work, since clusters and noise are both many.

    n π ε² f(x) = 9 neighbours, with f = 1/(4π) at the median distance from the centre: ε = 6/√n.
    """
    data = normal(n, 2)
    return {**data, "eps": np.array(6 / np.sqrt(n))}


def cut_knoll(data: Data, threads: int, border: str = "noise") -> np.ndarray:
    from knoll.density.tree import DensityTree

    if "knoll" not in _FITTED:
        _FITTED["knoll"] = DensityTree(MIN_SAMPLES, n_jobs=threads).fit(data["X"])
    return np.asarray(_FITTED["knoll"].cut(float(data["eps"]), border=border))


def cut_hdbscan(data: Data, threads: int) -> np.ndarray:
    from hdbscan import HDBSCAN

    if "hdbscan" not in _FITTED:
        model = HDBSCAN(min_samples=MIN_SAMPLES - 1, approx_min_span_tree=False, core_dist_n_jobs=threads)
        _FITTED["hdbscan"] = model.fit(data["X"])
    return np.asarray(_FITTED["hdbscan"].dbscan_clustering(float(data["eps"]), min_cluster_size=1))


def cut_sklearn(data: Data, threads: int) -> np.ndarray:
    from sklearn.cluster import HDBSCAN

    if "scikit-learn" not in _FITTED:
        _FITTED["scikit-learn"] = HDBSCAN(min_samples=MIN_SAMPLES, n_jobs=threads, copy=True).fit(data["X"])
    return np.asarray(_FITTED["scikit-learn"].dbscan_clustering(float(data["eps"]), min_cluster_size=1))


def unlike_dbscan(data: Data, labels: np.ndarray) -> dict[str, float]:
    """Rows whose cluster differs from DBSCAN's at that ε; peers number rows that are not core as clusters of one."""
    from knoll import DBSCAN

    eps = float(data["eps"])
    true = DBSCAN(eps=eps, min_samples=MIN_SAMPLES, border="noise").fit(data["X"]).labels_
    core = true >= 0
    return {"labels differ": share_unlike(true[core], labels[core])}


for size, shown in (
    (10**5, (("hdbscan", cut_hdbscan, "hdbscan"), ("scikit-learn", cut_sklearn, "sklearn.cluster"))),
    (10**6, ()),
):
    register(
        Case(
            name=f"density-tree-cut-{size:.0e}x2".replace("e+0", "e"),
            group="density tree",
            about="labels at a new ε from a fitted tree, half of the rows core",
            data=partial(with_eps, size),
            ours=Contestant("knoll", cut_knoll, ("knoll.density.tree",)),
            peers=tuple(Contestant(name, run, (module,)) for name, run, module in shown),
            judge=unlike_dbscan,
            not_worse=no_larger("labels differ"),
            targets=tuple(Target(100, (name,)) for name, _, _ in shown),
            warmup=lambda data: data,
            calls=7,
            repeats=1 if shown else 3,
        )
    )

register(
    Case(
        name="density-tree-cut-1e6x2-borders",
        group="density tree",
        about="labels of DBSCAN with borders at a new ε from a fitted tree, half of the rows core",
        data=partial(with_eps, 10**6),
        ours=Contestant("knoll", partial(cut_knoll, border="closest"), ("knoll.density.tree",)),
        peers=(),
        judge=unlike_dbscan,
        not_worse=no_larger("labels differ"),
        warmup=lambda data: data,
        calls=7,
        repeats=3,
    )
)
