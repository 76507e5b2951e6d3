"""Kernel k-means: knoll.KernelKMeans against tslearn's, and against the plain loop in NumPy that stores K.

tslearn begins with random labels and leaves the norms of the means out of its distances; each contestant makes one run
with its own start, and the objective Σ‖φ(x) − m‖² is computed from the returned labels, in float64, for all alike.
The loop in NumPy begins where knoll does, and runs to a fixed point.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register

SEEDS = 5


def make(n: int, d: int, k: int, std: float, sigma: float) -> dict[str, np.ndarray]:
    from sklearn.datasets import make_blobs

    X = np.asarray(make_blobs(n, d, centers=k, cluster_std=std, random_state=20240506)[0])
    start = np.random.default_rng(20240507).choice(n, k, replace=False)
    return {"X": X, "start": start, "sigma": np.array(sigma)}


def objective(X: np.ndarray, labels: np.ndarray, sigma: float) -> float:
    """n − Σ_c (Σ_{i,j∈c} K_ij) / n_c, a block of rows at a time."""
    k = int(labels.max()) + 1
    inside = np.zeros(k)
    squares = np.sum(X * X, axis=1)
    for begin in range(0, len(X), 1000):
        rows = slice(begin, begin + 1000)
        K = np.exp(np.minimum(2 * X[rows] @ X.T - squares[rows, None] - squares, 0) / (2 * sigma**2))
        own = labels[rows, None] == labels
        inside += np.bincount(labels[rows], np.sum(K * own, axis=1), k)
    sizes = np.bincount(labels, minlength=k)
    return float(len(X) - np.sum(inside[sizes > 0] / sizes[sizes > 0]))


# ---- contestants: (data, threads) -> labels ------------------------------------------------------------------------


class Seeds:
    """One fit a call, each with the next seed; the judge sees all of them."""

    def __init__(self, fit: object) -> None:
        self.fit = fit
        self.found: list[np.ndarray] = []

    def __call__(self, data: Data, threads: int) -> list[np.ndarray]:
        self.found.append(self.fit(data, threads, len(self.found)))  # type: ignore[operator]
        return self.found


def knoll_whole(data: Data, threads: int, seed: int) -> np.ndarray:
    from knoll import KernelKMeans

    model = KernelKMeans(len(data["start"]), sigma=float(data["sigma"]), random_state=seed, n_jobs=threads)
    return np.asarray(model.fit(data["X"]).labels_)


def tslearn_whole(data: Data, threads: int, seed: int) -> np.ndarray:
    from tslearn.clustering import KernelKMeans

    gamma = 1 / (2 * float(data["sigma"]) ** 2)
    model = KernelKMeans(
        len(data["start"]), kernel="rbf", kernel_params={"gamma": gamma}, random_state=seed, n_jobs=threads
    )
    return np.asarray(model.fit(data["X"]).labels_)


def knoll_from(data: Data, threads: int) -> np.ndarray:
    from knoll import KernelKMeans

    start = data["start"]
    model = KernelKMeans(len(start), sigma=float(data["sigma"]), init=start, n_jobs=threads).fit(data["X"])
    return np.asarray(model.labels_)


def numpy_from(data: Data, threads: int) -> np.ndarray:
    """K once, G = K Z each step, every row to the closest mean."""
    import threadpoolctl

    X, start, sigma = data["X"], data["start"], float(data["sigma"])
    n, k = len(X), len(start)
    with threadpoolctl.threadpool_limits(threads):
        squares = np.sum(X * X, axis=1)
        K = X @ X.T
        K *= 2
        K -= squares[:, None]
        K -= squares
        np.minimum(K, 0, out=K)
        K /= 2 * sigma**2
        np.exp(K, out=K)
        labels = K[:, start].argmax(axis=1)
        while True:
            Z = np.zeros((n, k))
            Z[np.arange(n), labels] = 1
            sizes = Z.sum(axis=0)
            G = K @ Z
            new = (np.sum(Z * G, axis=0) / sizes**2 - 2 * G / sizes).argmin(axis=1)
            if np.array_equal(new, labels):
                return labels
            labels = new


def judge(data: Data, labels: np.ndarray) -> dict[str, float]:
    return {"objective": objective(data["X"], labels, float(data["sigma"]))}


def mean_objective(data: Data, found: list[np.ndarray]) -> dict[str, float]:
    values = [objective(data["X"], labels, float(data["sigma"])) for labels in found]
    return {"mean objective": float(np.mean(values))}


def smaller(data: Data) -> Data:
    """A first call on few rows, so that threads and libraries are awake."""
    k = len(data["start"])
    return {**data, "X": data["X"][: 20 * k], "start": np.arange(k)}


register(
    Case(
        name="kernel-kmeans-3e3",
        group="kernel k-means",
        about=f"3·10³×2 blobs, rbf, k = 5, one run from its own start, median over {SEEDS} seeds",
        data=partial(make, 3000, 2, 5, 2.0, 2.0),
        ours=Contestant("knoll", Seeds(knoll_whole), ("knoll.kernel_kmeans",)),
        peers=(Contestant("tslearn", Seeds(tslearn_whole), ("tslearn.clustering",)),),
        judge=mean_objective,
        not_worse=no_larger("mean objective"),
        targets=(Target(15),),
        calls=SEEDS,
        repeats=3,
    )
)

register(
    Case(
        name="kernel-kmeans-2e4",
        group="kernel k-means",
        about="2·10⁴×2 blobs, rbf, k = 10, to rest from the same rows",
        data=partial(make, 20_000, 2, 10, 2.0, 2.0),
        ours=Contestant("knoll", knoll_from, ("knoll.kernel_kmeans",)),
        peers=(Contestant("NumPy", numpy_from, ("threadpoolctl",)),),
        judge=judge,
        not_worse=no_larger("objective", relative=1e-9),
        targets=(Target(8),),
        memory_limit=1000,
        warmup=smaller,
        repeats=2,
    )
)
