"""DBSCAN beside `dbscan` 1.0, scikit-learn and scikit-learn-intelex.

The judge is scikit-learn's rule evaluated in float64: a case's truth is the partition that knoll.DBSCAN(border="first")
and scikit-learn define; how many labels a contestant has wrong is counted after matching clusters by their core points.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register

MIN_SAMPLES = 10


def blobs(n: int, d: int, eps: float, std: float = 0.5) -> dict[str, np.ndarray]:
    from sklearn.datasets import make_blobs

    X, _ = make_blobs(n, d, centers=50, cluster_std=std, random_state=7)
    return {"X": np.ascontiguousarray(X), "eps": np.array(eps)}


def fit_knoll(data: Data, threads: int) -> np.ndarray:
    from knoll import DBSCAN

    model = DBSCAN(eps=float(data["eps"]), min_samples=MIN_SAMPLES, border="first", n_jobs=threads)
    return model.fit_predict(data["X"])


def fit_sklearn(data: Data, threads: int) -> np.ndarray:
    from sklearn.cluster import DBSCAN

    return DBSCAN(eps=float(data["eps"]), min_samples=MIN_SAMPLES, n_jobs=threads).fit_predict(data["X"])


def fit_intelex(data: Data, threads: int) -> np.ndarray:
    from sklearnex.cluster import DBSCAN

    return DBSCAN(eps=float(data["eps"]), min_samples=MIN_SAMPLES, n_jobs=threads).fit_predict(data["X"])


def fit_dbscan(data: Data, threads: int) -> np.ndarray:
    from dbscan import DBSCAN

    labels, _ = DBSCAN(data["X"], eps=float(data["eps"]), min_samples=MIN_SAMPLES)
    return np.asarray(labels)


def wrong_labels(data: Data, labels: np.ndarray) -> dict[str, float]:
    """Rows labelled otherwise than the definition: noise that is none, or a cluster that is another's.

    A border point may go to any cluster with a core point in reach, so what is compared is noise, and the partition of
    the core points; clusters are matched by majority.
    """
    from knoll import DBSCAN

    true = DBSCAN(eps=float(data["eps"]), min_samples=MIN_SAMPLES, border="first").fit(data["X"])
    truth, core = true.labels_, true.core_sample_indices_
    wrong = int(np.count_nonzero((truth < 0) != (labels < 0)))
    pairs, counts = np.unique(np.stack([truth[core], labels[core]]), axis=1, return_counts=True)
    best = {int(c): int(counts[pairs[0] == c].max()) for c in np.unique(pairs[0])}
    return {"wrong labels": float(wrong + len(core) - sum(best.values()))}


def case(name: str, about: str, n: int, d: int, eps: float, targets: tuple[Target, ...], **options: Any) -> None:
    peers = {
        "dbscan 1.0": Contestant("dbscan 1.0", fit_dbscan, ("dbscan",)),
        "scikit-learn": Contestant("scikit-learn", fit_sklearn, ("sklearn.cluster",)),
        "scikit-learn-intelex": Contestant("scikit-learn-intelex", fit_intelex, ("sklearnex.cluster",)),
    }
    against = {peer for target in targets for peer in target.against}
    register(
        Case(
            name=name,
            group="DBSCAN",
            about=about,
            data=partial(blobs, n, d, eps),
            ours=Contestant("knoll", fit_knoll, ("knoll.density.dbscan",)),
            peers=tuple(peer for key, peer in peers.items() if key in against),
            judge=wrong_labels,
            not_worse=no_larger("wrong labels"),
            targets=targets,
            warmup=lambda data: {**data, "X": data["X"][:2000]},
            **options,
        )
    )


OLD, OURS = "dbscan 1.0", "scikit-learn"
case(
    "dbscan-1e6x2",
    "eps 0.05",
    10**6,
    2,
    0.05,
    (Target(8, (OLD,)), Target(100, (OURS,))),
    memory_limit=100.0,
    repeats=3,
)
case("dbscan-2e5x3", "eps 0.2", 2 * 10**5, 3, 0.2, (Target(5, (OLD,)), Target(20, (OURS,))), repeats=3)
case("dbscan-5e4x8", "eps 1.0", 5 * 10**4, 8, 1.0, (Target(3, (OLD,)), Target(10, (OURS,))), repeats=3)
BOTH = (OURS, "scikit-learn-intelex")
case("dbscan-3e4x32", "eps 6", 3 * 10**4, 32, 6.0, (Target(4, BOTH),), repeats=3)
case("dbscan-2e4x128", "eps 9", 2 * 10**4, 128, 9.0, (Target(2.5, BOTH),), repeats=3)


def iris() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_iris

    return {"X": load_iris().data, "eps": np.array(0.5)}


register(
    Case(
        name="dbscan-iris",
        group="DBSCAN",
        about="eps 0.5, 150×4",
        data=iris,
        ours=Contestant("knoll", fit_knoll, ("knoll.density.dbscan",)),
        peers=(Contestant("scikit-learn", fit_sklearn, ("sklearn.cluster",)),),
        judge=wrong_labels,
        not_worse=no_larger("wrong labels"),
        targets=(Target(2),),
        warmup=lambda data: data,
        calls=20,
    )
)
