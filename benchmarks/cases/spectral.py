"""Spectral clustering with the Gaussian kernel and on graphs of neighbours, beside scikit-learn's.

The judge counts rows that are not with the most of their true group, and computes the largest residual ‖Mv − λv‖ of the
eigenpairs, which is the model's own certificate; scikit-learn has none. It stores n × n matrices: 20 000 rows take it
minutes and 10 GB, 100 000 it cannot do at all, so there it is given a fifth of the rows. `--cases` picks the cases.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Case, Contestant, Data, Quality, Target, register

FEWER = 20_000  # rows of moons that scikit-learn is given where it cannot take all


def moons(n: int, sigma: float) -> dict[str, np.ndarray]:
    """Two half moons, noise 0.05."""
    from sklearn.datasets import make_moons

    X, y = make_moons(n, noise=0.05, random_state=0)
    return {"X": X, "truth": y, "k": np.array(2), "sigma": np.array(sigma), "X_fewer": X[:0], "gamma": np.array(0.0)}


def moons_beside(n: int, sigma: float) -> dict[str, np.ndarray]:
    """Moons for us, and for scikit-learn 20 000 moons at γ = 50."""
    return moons(n, sigma) | {"X_fewer": moons(FEWER, sigma)["X"], "gamma": np.array(50.0)}


def blobs_beside_moons(n: int) -> dict[str, np.ndarray]:
    """Ten blobs of deviation 1 in ten dimensions, σ = 2; for scikit-learn 20 000 moons."""
    from sklearn.datasets import make_blobs

    X, y = make_blobs(n, 10, centers=10, cluster_std=1.0, random_state=0)
    ours = {"X": X, "truth": y, "k": np.array(10), "sigma": np.array(2.0)}
    return ours | {"X_fewer": moons(FEWER, 0.1)["X"], "gamma": np.array(50.0)}


def fit_knoll(data: Data, threads: int, *, affinity: str = "rbf", tol: Any = "auto") -> Any:
    from knoll import SpectralClustering

    model = SpectralClustering(
        int(data["k"]),
        sigma=float(data["sigma"]) if affinity == "rbf" else None,
        affinity=affinity,
        eigen_tol=tol,
        random_state=0,
        n_jobs=threads,
    ).fit(data["X"])
    return model.labels_, float(model.eigen_residual_.max())


def fit_sklearn(data: Data, threads: int, *, affinity: str = "rbf") -> Any:
    from sklearn.cluster import SpectralClustering

    gamma = 0.5 / float(data["sigma"]) ** 2
    model = SpectralClustering(int(data["k"]), gamma=gamma, affinity=affinity, random_state=0, n_jobs=threads)
    return model.fit(data["X"]).labels_, None


def fit_sklearn_fewer(data: Data, threads: int) -> Any:
    """Give scikit-learn the largest moons it can do; its labels are not those of the case."""
    from sklearn.cluster import SpectralClustering

    SpectralClustering(2, gamma=float(data["gamma"]), random_state=0, n_jobs=threads).fit(data["X_fewer"])
    return None, None


def misplaced(data: Data, result: Any) -> dict[str, float]:
    """Share of rows that are not in the largest cluster of their own group; the largest residual."""
    labels, residual = result
    scores = {}
    if labels is not None:
        right = sum(np.bincount(labels[data["truth"] == group]).max() for group in np.unique(data["truth"]))
        scores["misplaced"] = 1 - right / len(labels) if len(np.unique(labels)) == int(data["k"]) else 1.0
    return scores if residual is None else scores | {"residual": residual}


def same_groups(residual: float, ours: Quality, peer: Quality) -> bool:
    """No more rows misplaced than the peer (or than one in a thousand), and eigenpairs certified."""
    most = max(peer.get("misplaced", 0.0), 1e-3)
    return bool(ours["misplaced"] <= most and ours["residual"] <= residual)


def few(data: Data) -> Data:
    """A small first call, so that loading code is not timed."""
    rows = np.linspace(0, len(data["X"]) - 1, 300).astype(int)
    fewer = data["X_fewer"][:: max(1, len(data["X_fewer"]) // 300)]
    return {**data, "X": data["X"][rows], "truth": data["truth"][rows], "X_fewer": fewer}


SKLEARN = Contestant("scikit-learn", fit_sklearn, ("sklearn.cluster",))
FEWER_MOONS = Contestant(f"scikit-learn, {FEWER} moons", fit_sklearn_fewer, ("sklearn.cluster",))


def case(name: str, about: str, data: Any, peers: Any, targets: Any, *, residual: float, **options: Any) -> None:
    ours = options.pop("ours", fit_knoll)
    register(
        Case(
            name=name,
            group="spectral clustering",
            about=about,
            data=data,
            ours=Contestant("knoll", ours, ("knoll.spectral",)),
            peers=peers,
            judge=misplaced,
            not_worse=partial(same_groups, residual),
            targets=targets,
            warmup=few,
            **options,
        )
    )


for n, ratio, repeats in ((5_000, 10, 3), (10_000, 25, 1), (20_000, 40, 1)):
    case(
        f"spectral-moons-{n}",
        f"{n} moons, noise 0.05, γ = 50",
        partial(moons, n, 0.1),
        (SKLEARN,),
        (Target(ratio),),
        residual=1e-6,
        repeats=repeats,
    )
case(
    "spectral-neighbors-20000",
    "20 000 moons, noise 0.05, affinity='nearest_neighbors', 10 neighbours",
    partial(moons, 20_000, 0.1),
    (Contestant("scikit-learn", partial(fit_sklearn, affinity="nearest_neighbors"), ("sklearn.cluster",)),),
    (Target(1.5),),
    residual=1e-6,
    ours=partial(fit_knoll, affinity="nearest_neighbors"),
    repeats=3,
)
case(
    "spectral-moons-1e5",
    "10⁵ moons, noise 0.05, σ = 0.1, residual ≤ 1e-6, under 4 GB; scikit-learn on a fifth of the rows",
    partial(moons_beside, 10**5, 0.1),
    (FEWER_MOONS,),
    (Target(1),),
    residual=1e-6,
    ours=partial(fit_knoll, tol=1e-6),
    memory_limit=4000.0,
    repeats=1,
)
case(
    "spectral-blobs-1e5x10",
    "10⁵ points in ten blobs, ten dimensions, σ = 2, residual ≤ 1e-6, under 4 GB; scikit-learn on 20 000 moons",
    partial(blobs_beside_moons, 10**5),
    (FEWER_MOONS,),
    (Target(1),),
    residual=1e-6,
    ours=partial(fit_knoll, tol=1e-6),
    memory_limit=4000.0,
    repeats=1,
)
case(
    "spectral-moons-1e6",
    "10⁶ moons, noise 0.05, σ = 0.1, residual ≤ 1e-5, under 8 GB; nobody to compare with",
    partial(moons, 10**6, 0.1),
    (),
    (),
    residual=1e-5,
    ours=partial(fit_knoll, tol=1e-5),
    memory_limit=8000.0,
    repeats=1,
)
