"""Agglomerative clustering beside fastcluster (BSD), SciPy and scikit-learn; OPTICS beside scikit-learn.

All contestants build the whole tree. The judge compares heights with SciPy's where its matrix fits, else with knoll's
sum of heights, which for Ward is J of one cluster: Σ h²/2 = Σ ‖x − mean‖².
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register


def normal(n: int, d: int) -> dict[str, np.ndarray]:
    return {"X": np.random.default_rng(7).normal(size=(n, d))}


def few(data: Data) -> Data:
    """For the untimed first call, which imports what a library loads when it is first used."""
    return {**data, "X": data["X"][:500]}


def fit_knoll(data: Data, threads: int, linkage: str = "ward") -> np.ndarray:
    from knoll import AgglomerativeClustering

    model = AgglomerativeClustering(2, linkage=linkage, compute_distances=True, n_jobs=threads)
    return np.asarray(model.fit(data["X"]).distances_)


def fit_sklearn(data: Data, threads: int, linkage: str = "ward") -> np.ndarray:
    from sklearn.cluster import AgglomerativeClustering

    return np.asarray(AgglomerativeClustering(2, linkage=linkage, compute_distances=True).fit(data["X"]).distances_)


def fit_fastcluster(data: Data, threads: int, linkage: str = "ward") -> np.ndarray:
    import fastcluster

    return np.asarray(fastcluster.linkage(data["X"], linkage)[:, 2])


def fit_vector(data: Data, threads: int) -> np.ndarray:
    import fastcluster

    return np.asarray(fastcluster.linkage_vector(data["X"], "ward")[:, 2])


def height_error(data: Data, heights: np.ndarray) -> dict[str, float]:
    """Σ h²/2 of Ward from the total sum of squares, relative."""
    X = data["X"]
    total = float(np.square(X - X.mean(axis=0)).sum())
    return {"error": abs(float(np.square(heights).sum()) / 2 - total) / total}


def highest(data: Data, heights: np.ndarray) -> dict[str, float]:
    """Heights of the other linkages have no closed sum: the one here must be the same for all."""
    return {"sum of heights": float(np.sum(heights))}


def same_sum(ours: Any, peer: Any) -> bool:
    return bool(abs(ours["sum of heights"] - peer["sum of heights"]) <= 1e-9 * abs(peer["sum of heights"]))


VECTOR = Contestant("fastcluster linkage_vector", fit_vector, ("fastcluster",))


def ward_case(n: int, d: int, peers: tuple[Contestant, ...], targets: tuple[Target, ...], **options: Any) -> None:
    register(
        Case(
            name=f"ward-{n:.0e}x{d}".replace("e+0", "e"),
            group="agglomerative clustering",
            about=f"Ward, {n} × {d} normal, the whole tree, float64",
            data=partial(normal, n, d),
            ours=Contestant("knoll", fit_knoll, ("knoll",)),
            peers=peers,
            judge=height_error,
            not_worse=no_larger("error", floor=1e-9),
            targets=targets,
            warmup=few,
            **options,
        )
    )


ward_case(
    20_000,
    8,
    (VECTOR, Contestant("scikit-learn", fit_sklearn, ("sklearn.cluster",))),
    (Target(10, (VECTOR.name,)), Target(3, ("scikit-learn",))),
    repeats=3,
)
ward_case(50_000, 8, (VECTOR,), (Target(10),), memory_limit=100, repeats=3)
ward_case(100_000, 8, (), (), memory_limit=200, repeats=3)

for linkage in ("average", "complete"):
    register(
        Case(
            name=f"{linkage}-1e4x8",
            group="agglomerative clustering",
            about=f"{linkage} linkage, 10⁴ × 8 normal, distances included",
            data=partial(normal, 10_000, 8),
            ours=Contestant("knoll", partial(fit_knoll, linkage=linkage), ("knoll",)),
            peers=(Contestant("fastcluster", partial(fit_fastcluster, linkage=linkage), ("fastcluster",)),),
            judge=highest,
            not_worse=same_sum,
            targets=(Target(1),),
            warmup=few,
            repeats=3,
        )
    )


def order_knoll(data: Data, threads: int) -> np.ndarray:
    from knoll import OPTICS

    return np.asarray(OPTICS(min_samples=10, n_jobs=threads).fit(data["X"]).reachability_)


def order_sklearn(data: Data, threads: int) -> np.ndarray:
    from sklearn.cluster import OPTICS

    return np.asarray(OPTICS(min_samples=10, n_jobs=threads).fit(data["X"]).reachability_)


def finite_sum(data: Data, reachability: np.ndarray) -> dict[str, float]:
    return {"sum of heights": float(reachability[np.isfinite(reachability)].sum())}


register(
    Case(
        name="optics-1e4x2",
        group="OPTICS",
        about="min_samples = 10, xi, 10⁴ × 2 normal",
        data=partial(normal, 10_000, 2),
        ours=Contestant("knoll", order_knoll, ("knoll",)),
        peers=(Contestant("scikit-learn", order_sklearn, ("sklearn.cluster",)),),
        judge=finite_sum,
        not_worse=same_sum,
        targets=(Target(20),),
        warmup=few,
        repeats=3,
    )
)
