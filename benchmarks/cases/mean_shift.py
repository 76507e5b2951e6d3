"""Mean Shift with every point as a seed: knoll.MeanShift against scikit-learn's.

knoll climbs to fixed points and joins ends; scikit-learn stops by a small step and drops ends near larger ones. What
both must find is the modes: the judge counts the rows that are not with the most of their blob.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register

SMALL = 10**4  # rows of the case that the largest one is compared with


def make(n: int, d: int, bandwidth: float) -> dict[str, np.ndarray]:
    """Five blobs of standard deviation 0.8, their centres far apart."""
    rng = np.random.default_rng(20240601)
    centers = np.array([[-8.0, -8.0], [-8.0, 8.0], [0.0, 0.0], [8.0, -8.0], [8.0, 8.0]])
    if d > 2:
        centers = np.hstack([centers, np.zeros((5, d - 2))])
    truth = rng.integers(5, size=n)
    return {
        "X": centers[truth] + 0.8 * rng.normal(size=(n, d)),
        "truth": truth,
        "bandwidth": np.array(bandwidth),
    }


def make_iris() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_iris

    iris = load_iris()
    return {"X": iris.data, "truth": (iris.target > 0).astype(int), "bandwidth": np.array(0.8)}


def fit_knoll(data: Data, threads: int) -> np.ndarray:
    from knoll import MeanShift

    return MeanShift(bandwidth=float(data["bandwidth"]), n_jobs=threads).fit(data["X"]).labels_


def fit_sklearn(data: Data, threads: int, *, bins: bool = False, rows: int | None = None) -> np.ndarray:
    from sklearn.cluster import MeanShift

    model = MeanShift(bandwidth=float(data["bandwidth"]), n_jobs=threads, bin_seeding=bins)
    return model.fit(data["X"][:rows]).labels_


def missed(data: Data, labels: np.ndarray) -> dict[str, float]:
    """Share of rows that are not in the largest cluster of their own blob."""
    truth = data["truth"][: len(labels)]
    right = 0
    for blob in np.unique(truth):
        right += np.bincount(labels[truth == blob]).max()
    return {"misplaced": 1 - right / len(labels)}


SKLEARN = Contestant("scikit-learn", fit_sklearn, ("sklearn.cluster",))
BINS = Contestant("scikit-learn, bin_seeding", partial(fit_sklearn, bins=True), ("sklearn.cluster",))
FEWER = Contestant(f"scikit-learn, {SMALL} rows", partial(fit_sklearn, rows=SMALL), ("sklearn.cluster",))


def case(name: str, about: str, data, peers, targets, **options) -> None:
    register(
        Case(
            name=name,
            group="Mean Shift",
            about=about,
            data=data,
            ours=Contestant("knoll", fit_knoll, ("knoll.density.mean_shift",)),
            peers=peers,
            judge=missed,
            not_worse=no_larger("misplaced", floor=0.02),
            targets=targets,
            **options,
        )
    )


case(
    "mean-shift-1e4x2",
    "five blobs, bandwidth 1, every point a seed",
    partial(make, SMALL, 2, 1.0),
    (SKLEARN, BINS),
    (Target(500, ("scikit-learn",)), Target(1, ("scikit-learn, bin_seeding",))),
    repeats=1,
)
case(
    "mean-shift-5e3x8",
    "five blobs, bandwidth 4, every point a seed",
    partial(make, 5000, 8, 4.0),
    (SKLEARN,),
    (Target(50),),
    repeats=1,
)
case(
    "mean-shift-1e6x2",
    "five blobs, bandwidth 1, every point a seed; scikit-learn on a hundredth of the rows",
    partial(make, 10**6, 2, 1.0),
    (FEWER,),
    (Target(1),),
    repeats=1,
)
case("mean-shift-iris", "iris, bandwidth 0.8", make_iris, (SKLEARN,), (Target(20),), calls=5, repeats=3)
