"""DBSCAN under Gower's distance beside scikit-learn's on the matrix of the package `gower`, the matrix counted.

That package computes in float32, and a missing number spoils its sums, so the table is complete. The judge counts the
rows that are noise in one answer and not in the other, and core rows that change their cluster, as in `dbscan.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register

MIN_SAMPLES, NUMBERS, CATEGORIES, LEVELS = 10, 6, 6, 6


def customers(n: int, eps: float, missing: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    group = rng.integers(8, size=n)
    means, favourites = rng.normal(size=(8, NUMBERS)), rng.integers(LEVELS, size=(8, CATEGORIES))
    numbers = means[group] + 0.25 * rng.normal(size=(n, NUMBERS))
    usual = rng.random((n, CATEGORIES)) < 0.85
    codes = np.where(usual, favourites[group], rng.integers(LEVELS, size=(n, CATEGORIES)))
    X = np.column_stack([numbers, codes])
    X[rng.random(X.shape) < missing] = np.nan
    return {"X": X, "eps": np.array(eps)}


def fit_knoll(data: Data, threads: int) -> np.ndarray:
    from knoll import DBSCAN

    categories = {"categorical_features": np.arange(NUMBERS, NUMBERS + CATEGORIES)}
    model = DBSCAN(
        eps=float(data["eps"]), min_samples=MIN_SAMPLES, metric="gower", metric_params=categories, n_jobs=threads
    )
    return model.fit_predict(data["X"])


def fit_matrix(data: Data, threads: int) -> np.ndarray:
    import gower
    from sklearn.cluster import DBSCAN

    D = gower.gower_matrix(data["X"], cat_features=(np.arange(NUMBERS + CATEGORIES) >= NUMBERS).tolist())
    model = DBSCAN(eps=float(data["eps"]), min_samples=MIN_SAMPLES, metric="precomputed", n_jobs=threads)
    return model.fit_predict(D)


def wrong_labels(data: Data, labels: np.ndarray) -> dict[str, float]:
    truth = fit_knoll(data, 1)
    wrong = int(np.count_nonzero((truth < 0) != (labels < 0)))
    both = (truth >= 0) & (labels >= 0)
    pairs, counts = np.unique(np.stack([truth[both], labels[both]]), axis=1, return_counts=True)
    best = {int(c): int(counts[pairs[0] == c].max()) for c in np.unique(pairs[0])}
    return {"wrong labels": float(wrong + np.count_nonzero(both) - sum(best.values()))}


MATRIX = Contestant("scikit-learn, gower", fit_matrix, ("gower", "sklearn.cluster"))
for name, n, missing, peers, targets in (
    ("gower-2e4x12", 2 * 10**4, 0.0, (MATRIX,), (Target(20),)),
    ("gower-5e4x12-missing", 5 * 10**4, 0.06, (), ()),
):
    register(
        Case(
            name=name,
            group="DBSCAN",
            about=f"Gower's distance, eps 0.12, 6 numbers and 6 categories, {missing:.0%} missing",
            data=partial(customers, n, 0.12, missing),
            ours=Contestant("knoll", fit_knoll, ("knoll.density.dbscan",)),
            peers=peers,
            judge=wrong_labels,
            not_worse=no_larger("wrong labels"),
            targets=targets,
            memory_limit=100.0,
            warmup=lambda data: {**data, "X": data["X"][:500]},
            repeats=3,
        )
    )
