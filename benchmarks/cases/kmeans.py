"""k-means: knoll.KMeans against scikit-learn's Lloyd and Elkan, scikit-learn-intelex, and (float32) faiss.

From a given start all run to a fixed point (tol = 0, at most 300 steps). faiss has no rule to stop by, and oneDAL never
stops at tol = 0; both are given the number of steps that scikit-learn's Lloyd needs on the same data, counted when the
data is made. The inertia that is compared is computed from the returned centres, in float64, for all contestants.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register

STEPS = 300
SEEDS = 7


def blobs(n: int, d: int, k: int, std: float, dtype: str) -> np.ndarray:
    from sklearn.datasets import make_blobs

    return np.asarray(make_blobs(n, d, centers=k, cluster_std=std, random_state=20240503)[0].astype(dtype))


def with_start(X: np.ndarray, k: int) -> dict[str, np.ndarray]:
    """Add k rows to start from, how many steps Lloyd's algorithm takes from there, and the inertia of its fixed point.

    The fixed point is that of float64 arithmetic: which one a float32 contestant finds depends on its rounding.
    """
    from sklearn.cluster import KMeans

    start = X[np.random.default_rng(20240504).choice(len(X), k, replace=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KMeans(k, init=start, n_init=1, tol=0, max_iter=STEPS).fit(X)
        fixed_point = inertia(X, model.cluster_centers_)
        if X.dtype != np.float64:
            wide = KMeans(k, init=start.astype(np.float64), n_init=1, tol=0, max_iter=STEPS)
            fixed_point = inertia(X, wide.fit(X.astype(np.float64)).cluster_centers_)
    return {"X": X, "start": start, "steps": np.array(model.n_iter_), "fixed_point": np.array(fixed_point * (1 + 1e-6))}


def make_blobbed(n: int, d: int, k: int, std: float, dtype: str) -> dict[str, np.ndarray]:
    return with_start(blobs(n, d, k, std, dtype), k)


def make_uniform(n: int, d: int, k: int, dtype: str) -> dict[str, np.ndarray]:
    return with_start(np.random.default_rng(20240505).uniform(size=(n, d)).astype(dtype), k)


def inertia(X: np.ndarray, centers: np.ndarray) -> float:
    """Σ‖x − closest centre‖² in float64: the closest by expanded squares of centred data, its distance directly."""
    origin = centers.astype(np.float64).mean(axis=0)
    means = centers.astype(np.float64) - origin
    norms = np.sum(means**2, axis=1)
    total = 0.0
    for begin in range(0, len(X), 4096):
        rows = X[begin : begin + 4096].astype(np.float64) - origin
        closest = means[np.argmin(norms - 2 * rows @ means.T, axis=1)]
        total += float(np.sum((rows - closest) ** 2))
    return total


# ---- contestants: (data, threads) -> centres ---------------------------------------------------------------------


def knoll_from(data: Data, threads: int) -> np.ndarray:
    from knoll import KMeans

    start = data["start"]
    model = KMeans(len(start), init=start, tol=0, max_iter=STEPS, n_jobs=threads).fit(data["X"])
    return np.asarray(model.cluster_centers_)


def sklearn_from(algorithm: str, data: Data, threads: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    start = data["start"]
    model = KMeans(len(start), init=start, n_init=1, tol=0, max_iter=STEPS, algorithm=algorithm).fit(data["X"])
    return np.asarray(model.cluster_centers_)


def intelex_from(data: Data, threads: int) -> np.ndarray:
    from sklearnex.cluster import KMeans

    start, steps = data["start"], int(data["steps"])
    model = KMeans(len(start), init=start, n_init=1, tol=0, max_iter=steps).fit(data["X"])
    return np.asarray(model.cluster_centers_)


def faiss_from(data: Data, threads: int) -> np.ndarray:
    import faiss

    X, start = data["X"], data["start"]
    faiss.omp_set_num_threads(threads)
    model = faiss.Kmeans(
        X.shape[1],
        len(start),
        niter=int(data["steps"]),
        min_points_per_centroid=1,
        max_points_per_centroid=len(X),
    )
    model.train(X, init_centroids=start)
    return np.asarray(model.centroids)


PEERS = (
    Contestant("scikit-learn lloyd", partial(sklearn_from, "lloyd"), ("sklearn.cluster",)),
    Contestant("scikit-learn elkan", partial(sklearn_from, "elkan"), ("sklearn.cluster",)),
    Contestant("scikit-learn-intelex", intelex_from, ("sklearnex.cluster",)),
)
FAISS = Contestant("faiss", faiss_from, ("faiss",))


def judge(data: Data, centers: np.ndarray) -> dict[str, float]:
    return {"inertia": inertia(data["X"], centers), "rest in float64": float(data["fixed_point"])}


def smaller(data: Data) -> Data:
    """A first call on few rows, so that threads and libraries are awake."""
    k = len(data["start"])
    return {**data, "X": data["X"][: 4 * k], "start": data["X"][:k], "steps": np.array(2)}


def from_a_start(
    name: str, about: str, make: Callable[[str], dict[str, np.ndarray]], float64: float, float32: float, **more: Any
) -> None:
    for dtype, ratio in (("float64", float64), ("float32", float32)):
        single = dtype == "float32"
        register(
            Case(
                name=name + ("-float32" if single else ""),
                group="k-means",
                about=f"{about}, {dtype}, to rest from the same start",
                data=partial(make, dtype),
                ours=Contestant("knoll", knoll_from, ("knoll.kmeans",)),
                peers=(*PEERS, FAISS) if single else PEERS,
                judge=judge,
                # float32 peers round their centres at every step and may reach another fixed point
                not_worse=no_larger("inertia", relative=1e-3, floor="rest in float64")
                if single
                else no_larger("inertia", relative=1e-6),
                targets=(Target(ratio),),
                warmup=smaller,
                repeats=3,
                **({} if single else more),
            )
        )


from_a_start("kmeans-1e6x2", "10⁶×2 blobs, k = 50", partial(make_blobbed, 10**6, 2, 50, 1.5), 15, 12, memory_limit=64)
from_a_start("kmeans-2e5x16", "2·10⁵×16 blobs, k = 64", partial(make_blobbed, 2 * 10**5, 16, 64, 6.0), 5, 3)
from_a_start("kmeans-1e5x64", "10⁵×64 blobs, k = 256", partial(make_blobbed, 10**5, 64, 256, 8.0), 5, 3)
from_a_start("kmeans-5e4x128", "5·10⁴×128 blobs, k = 500", partial(make_blobbed, 5 * 10**4, 128, 500, 8.0), 5, 2.5)
from_a_start("kmeans-uniform", "2·10⁵×8 uniform, k = 64", partial(make_uniform, 2 * 10**5, 8, 64), 6, 5)


# ---- sparse rows -------------------------------------------------------------------------------------------------


def make_texts(n: int, d: int, k: int, words: int) -> dict[str, np.ndarray]:
    """Rows of length one as of texts: words by Zipf's law, half of them from the words of a topic."""
    from scipy import sparse
    from sklearn.preprocessing import normalize

    rng = np.random.default_rng(20261119)
    common = rng.zipf(1.3, size=(n, words)) - 1
    own = rng.integers(k, size=n)[:, None] * (d // k) + rng.integers(d // k, size=(n, words))
    columns = np.where(rng.random((n, words)) < 0.5, common, own) % d
    rows = np.repeat(np.arange(n), words)
    X = normalize(sparse.csr_array((rng.uniform(0.1, 1.0, n * words), (rows, columns.ravel())), shape=(n, d)))
    start = X[rng.choice(n, k, replace=False)].toarray()
    return {"data": X.data, "indices": X.indices.astype(np.int32), "indptr": X.indptr.astype(np.int32), "start": start}


def sparse_rows(data: Data) -> Any:
    from scipy import sparse

    csr = data["data"], data["indices"], data["indptr"]
    return sparse.csr_array(csr, shape=(len(csr[2]) - 1, data["start"].shape[1]))


def sparse_from(module: str, data: Data, threads: int) -> Any:
    import importlib

    KMeans = importlib.import_module(module).KMeans
    start = data["start"]
    return KMeans(len(start), init=start, n_init=1, tol=0, max_iter=STEPS).fit(sparse_rows(data))


def sparse_inertia(data: Data, model: Any) -> dict[str, float]:
    centers, X = model.cluster_centers_, sparse_rows(data)
    squares = X.multiply(X).sum(axis=1)[:, None] - 2 * (X @ centers.T) + (centers**2).sum(axis=1)
    return {"inertia": float(squares.min(axis=1).sum()), "steps": float(model.n_iter_)}


register(
    Case(
        name="kmeans-sparse-2e4x5e4",
        group="k-means",
        about="compressed rows, 2·10⁴×50 000 like texts of 100 words, k = 20, float64, to rest from the same start",
        data=partial(make_texts, 20_000, 50_000, 20, 100),
        ours=Contestant("knoll", partial(sparse_from, "knoll"), ("knoll.kmeans",)),
        peers=(Contestant("scikit-learn lloyd", partial(sparse_from, "sklearn.cluster"), ("sklearn.cluster",)),),
        judge=sparse_inertia,
        not_worse=no_larger("inertia", relative=1e-6),
        targets=(Target(1.5),),
        repeats=3,
    )
)


# ---- the whole fit, seeding included -----------------------------------------------------------------------------


class Seeds:
    """One fit a call, each with the next seed; the judge sees all of them."""

    def __init__(self, fit: Callable[[Data, int, int], np.ndarray]) -> None:
        self.fit = fit
        self.found: list[np.ndarray] = []

    def __call__(self, data: Data, threads: int) -> list[np.ndarray]:
        self.found.append(self.fit(data, threads, len(self.found)))
        return self.found


def knoll_whole(data: Data, threads: int, seed: int) -> np.ndarray:
    from knoll import KMeans

    return np.asarray(KMeans(int(data["k"]), random_state=seed, n_jobs=threads).fit(data["X"]).cluster_centers_)


def sklearn_whole(module: str, algorithm: str, data: Data, threads: int, seed: int) -> np.ndarray:
    import importlib

    KMeans = importlib.import_module(module).KMeans
    return np.asarray(KMeans(int(data["k"]), random_state=seed, algorithm=algorithm).fit(data["X"]).cluster_centers_)


def faiss_whole(data: Data, threads: int, seed: int) -> np.ndarray:
    """The same job: k-means++, then as many steps as scikit-learn takes, since faiss has no tolerance to stop by."""
    import faiss

    X = data["X"]
    faiss.omp_set_num_threads(threads)
    steps = int(data["steps"])
    model = faiss.Kmeans(X.shape[1], int(data["k"]), seed=seed + 1, niter=steps, max_points_per_centroid=len(X))
    model.cp.init_method = faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS
    model.train(X)
    return np.asarray(model.centroids)


def faiss_by_default(data: Data, threads: int, seed: int) -> np.ndarray:
    """Another job, for information: 25 steps from random rows, converged or not."""
    import faiss

    X = data["X"]
    faiss.omp_set_num_threads(threads)
    model = faiss.Kmeans(X.shape[1], int(data["k"]), seed=seed + 1, max_points_per_centroid=len(X))
    model.train(X)
    return np.asarray(model.centroids)


def mean_inertia(data: Data, found: list[np.ndarray]) -> dict[str, float]:
    return {"mean inertia": float(np.mean([inertia(data["X"], centers) for centers in found]))}


def make_whole(k: int, dtype: str) -> dict[str, np.ndarray]:
    from sklearn.cluster import KMeans

    X = blobs(2 * 10**5, 16, 64, 6.0, dtype)
    return {"X": X, "k": np.array(k), "steps": np.array(KMeans(k, random_state=0).fit(X).n_iter_)}


def whole_peers(*, with_faiss: bool = False) -> tuple[Contestant, ...]:
    lloyd, elkan, intelex = (
        partial(sklearn_whole, module, algorithm)
        for module, algorithm in (
            ("sklearn.cluster", "lloyd"),
            ("sklearn.cluster", "elkan"),
            ("sklearnex.cluster", "lloyd"),
        )
    )
    found = (
        Contestant("scikit-learn lloyd", Seeds(lloyd), ("sklearn.cluster",)),
        Contestant("scikit-learn elkan", Seeds(elkan), ("sklearn.cluster",)),
        Contestant("scikit-learn-intelex", Seeds(intelex), ("sklearnex.cluster",)),
    )
    if not with_faiss:
        return found
    others = (("faiss", faiss_whole), ("faiss, 25 steps from random rows", faiss_by_default))
    return (*found, *(Contestant(name, Seeds(run), ("faiss",)) for name, run in others))


for k in (64, 500):
    for dtype, ratio in (("float64", 4), ("float32", 3)):
        single = dtype == "float32"
        register(
            Case(
                name=f"kmeans-default-k{k}" + ("-float32" if single else ""),
                group="k-means",
                about=f"2·10⁵×16 blobs, k = {k}, {dtype}, default fit with k-means++, median over {SEEDS} seeds",
                data=partial(make_whole, k, dtype),
                ours=Contestant("knoll", Seeds(knoll_whole), ("knoll.kmeans",)),
                peers=whole_peers(with_faiss=single),
                judge=mean_inertia,
                # other seeds find other fixed points: the mean over seven of them varies by about this much
                not_worse=no_larger("mean inertia", relative=0.01),
                targets=(Target(ratio, tuple(p.name for p in whole_peers(with_faiss=single)[:4])),),
                calls=SEEDS,
                repeats=3,
            )
        )


def make_iris() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_iris

    return {"X": load_iris().data, "k": np.array(3)}


register(
    Case(
        name="kmeans-iris",
        group="k-means",
        about="iris, k = 3, default fit with k-means++, median over 100 seeds",
        data=make_iris,
        ours=Contestant("knoll", Seeds(knoll_whole), ("knoll.kmeans",)),
        peers=whole_peers()[:2],
        judge=mean_inertia,
        not_worse=no_larger("mean inertia", relative=0.02),
        targets=(Target(2),),
        calls=100,
        repeats=5,
    )
)
