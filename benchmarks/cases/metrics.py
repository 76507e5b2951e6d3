"""Adjusted mutual information with thousands of labels, where its expected value is the whole work.

The truth is the definition of Vinh, Epps and Bailey (2010, JMLR 11) with arithmetic-mean normalisation,
summed in extended precision over a table of log-factorials.
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
