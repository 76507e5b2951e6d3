"""Adjusted mutual information with thousands of labels, where its expected value is the whole work; silhouettes.

The truth of the first is the definition of Vinh, Epps and Bailey (2010, JMLR 11) with arithmetic-mean normalisation,
summed in extended precision over a table of log-factorials; that of the second is the definition for some rows.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register


def true_ami(a: np.ndarray, b: np.ndarray) -> float:
    """AMI by its definition; equal marginals are taken together."""
    n = len(a)
    real = np.longdouble
    log_factorial = np.concatenate([[real(0)], np.cumsum(np.log(np.arange(1, n + 1, dtype=real)))])
    pairs, joint = np.unique(np.stack([a, b]), axis=1, return_counts=True)
    size_a, size_b = np.bincount(a).astype(np.int64), np.bincount(b).astype(np.int64)

    def entropy(sizes: np.ndarray) -> np.longdouble:
        p = sizes[sizes > 0].astype(real) / n
        return np.longdouble(-np.sum(p * np.log(p)))

    p = joint.astype(real) / n
    outer = size_a[pairs[0]].astype(real) * size_b[pairs[1]].astype(real)
    mutual = np.sum(p * (np.log(p) + 2 * np.log(real(n)) - np.log(outer)))
    expected = real(0)
    for u, times_u in Counter(size_a[size_a > 0].tolist()).items():
        for v, times_v in Counter(size_b[size_b > 0].tolist()).items():
            m = np.arange(max(1, u + v - n), min(u, v) + 1)
            log_probability = (
                log_factorial[u] + log_factorial[v] + log_factorial[n - u] + log_factorial[n - v]
                - log_factorial[n] - log_factorial[m] - log_factorial[u - m] - log_factorial[v - m]
                - log_factorial[n - u - v + m]
            )  # fmt: skip
            gain = m.astype(real) / n * (np.log(real(n)) + np.log(m.astype(real)) - np.log(real(u) * real(v)))
            expected += times_u * times_v * np.sum(gain * np.exp(log_probability))
    return float((mutual - expected) / ((entropy(size_a) + entropy(size_b)) / 2 - expected))


def make(n: int, labels: int) -> dict[str, np.ndarray]:
    """Two independent labellings, uniform at random."""
    rng = np.random.default_rng(20240502)
    a, b = rng.integers(labels, size=n), rng.integers(labels, size=n)
    return {"a": a, "b": b, "truth": np.array(true_ami(a, b))}


def score_knoll(data: Data, threads: int) -> float:
    from knoll.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(data["a"], data["b"]))


def score_sklearn(data: Data, threads: int) -> float:
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(data["a"], data["b"]))


def error(data: Data, result: float) -> dict[str, float]:
    return {"error": abs(result - float(data["truth"]))}


register(
    Case(
        name="ami-5000",
        group="Metrics",
        about="adjusted mutual information of 100000 points, 5000 random labels each",
        data=partial(make, 100_000, 5000),
        ours=Contestant("knoll", score_knoll, ("knoll.metrics",)),
        peers=(Contestant("scikit-learn", score_sklearn, ("sklearn.metrics",)),),
        judge=error,
        not_worse=no_larger("error", floor=1e-12),
        targets=(Target(300),),
        warmup=lambda data: {"a": data["a"][:100], "b": data["b"][:100]},
        repeats=3,
    )
)


def make_points(n: int, d: int, k: int) -> dict[str, np.ndarray]:
    """Overlapping Gaussian clusters, and the silhouettes of some rows in extended precision."""
    rng = np.random.default_rng(20260101)
    labels = rng.integers(k, size=n)
    X = rng.normal(size=(n, d)) + 2 * rng.normal(size=(k, d))[labels]
    rows, truth = np.arange(0, n, n // 50), []
    for row in rows:
        gaps = np.sqrt(((X.astype(np.longdouble) - X[row]) ** 2).sum(axis=1))
        sums = [gaps[labels == c].sum() / ((labels == c).sum() - (labels[row] == c)) for c in range(k)]
        a, b = sums[labels[row]], min(sums[c] for c in range(k) if c != labels[row])
        truth.append(float((b - a) / max(a, b)))
    return {"X": X, "labels": labels, "rows": rows, "truth": np.array(truth)}


def silhouettes_knoll(data: Data, threads: int) -> np.ndarray:
    from knoll.metrics import silhouette_samples

    return silhouette_samples(data["X"], data["labels"], n_jobs=threads)


def silhouettes_sklearn(data: Data, threads: int) -> np.ndarray:
    from sklearn.metrics import silhouette_samples

    return np.asarray(silhouette_samples(data["X"], data["labels"]))


def silhouette_error(data: Data, result: np.ndarray) -> dict[str, float]:
    return {"error": float(np.abs(result[data["rows"]] - data["truth"]).max())}


register(
    Case(
        name="silhouette-5e4x8",
        group="Metrics",
        about="silhouettes of 50000 points in 8 columns, 10 clusters",
        data=partial(make_points, 50_000, 8, 10),
        ours=Contestant("knoll", silhouettes_knoll, ("knoll.metrics",)),
        peers=(Contestant("scikit-learn", silhouettes_sklearn, ("sklearn.metrics",)),),
        judge=silhouette_error,
        not_worse=no_larger("error", floor=1e-12),
        targets=(Target(10),),
        warmup=lambda data: {"X": data["X"][:200], "labels": data["labels"][:200]},
        repeats=3,
    )
)
