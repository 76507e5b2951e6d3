"""How the work grows: counted distances and seconds against n, d and k, and DBSCAN over four decades of ε.

    python -m benchmarks.growth [kmeans] [mixture] [dbscan]      prints tables; all of them go to docs as growth.md

A complexity is a statement about counts, so evaluations are counted and seconds stand beside them. The exponents
themselves are certified on any data by the relation `complexity-table`; here are the sizes that take minutes.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs

from benchmarks.machine import describe
from benchmarks.memory import PeakMeter

TARGET = Path(__file__).resolve().parents[1] / "docs" / "growth.md"


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Median of a few runs."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def kmeans() -> list[str]:
    """The paper: O(ndkT). Counted: distances to centres that were really computed, of the nkT of the definition."""
    from knoll import KMeans

    lines = ["## k-means: O(ndkT) in the paper", ""]
    lines += ["Ten iterations from the same random rows; blobs as many as clusters, float64, two threads.", ""]
    rows = []
    base = (100_000, 8, 32)
    shapes = [base] + [(n, 8, 32) for n in (25_000, 400_000)] + [(100_000, d, 32) for d in (2, 32, 128)]
    shapes += [(100_000, 8, k) for k in (8, 128, 512)]
    for n, d, k in shapes:
        X, _ = make_blobs(n, d, centers=k, cluster_std=4.0, random_state=3)
        start = X[np.random.default_rng(0).choice(n, k, replace=False)]
        for algorithm in ("lloyd", "auto"):
            model = KMeans(k, init=start, n_init=1, max_iter=10, tol=0, algorithm=algorithm, n_jobs=2)
            took = seconds(lambda model=model, X=X: _quiet(model, X))
            full = n * k * (model.n_iter_ + 1)
            rows.append(
                (
                    n,
                    d,
                    k,
                    algorithm,
                    model.n_iter_,
                    f"{model.n_distances_ / full:.3f}",
                    f"{model.n_rechecks_ / max(model.n_distances_, 1):.1e}",
                    f"{1e9 * took / (full * d):.3f}",
                )
            )
    return lines + table(
        ("n", "d", "k", "algorithm", "T", "distances / nk(T+1)", "rechecks / distances", "ns / ndk(T+1)"), rows
    )


def mixture() -> list[str]:
    """The paper: O(n d² k T)."""
    from knoll import GaussianMixture

    lines = ["## EM for full covariances: O(nd²kT) in the paper", "", "Five iterations, float64, two threads.", ""]
    rows = []
    shapes = [(50_000, 8, 8)] + [(n, 8, 8) for n in (12_500, 200_000)] + [(50_000, d, 8) for d in (2, 16, 64)]
    shapes += [(50_000, 8, k) for k in (2, 32)]
    for n, d, k in shapes:
        X, _ = make_blobs(n, d, centers=k, cluster_std=2.0, random_state=3)
        means = X[np.random.default_rng(0).choice(n, k, replace=False)]
        model = GaussianMixture(k, means_init=means, init_params="random_from_data", max_iter=5, tol=0, n_jobs=2)
        took = seconds(lambda model=model, X=X: _quiet(model, X))
        rows.append((n, d, k, f"{1e3 * took:.1f}", f"{1e9 * took / (5 * n * d * d * k):.3f}"))
    return lines + table(("n", "d", "k", "ms", "ns / nd²kT"), rows)


def dbscan() -> list[str]:
    """Four decades of ε on one data set: time and memory must not explode at a wrong one."""
    from knoll import DBSCAN

    lines = ["## DBSCAN: any ε", "", "10⁶×2, blobs of 50 centres with standard deviation 0.5, min_samples 10.", ""]
    X, _ = make_blobs(10**6, 2, centers=50, cluster_std=0.5, random_state=7)
    rows = []
    for eps in (0.0005, 0.002, 0.005, 0.02, 0.05, 0.2, 0.5, 2.0, 5.0, 100.0):
        model = DBSCAN(eps=eps, min_samples=10, n_jobs=2)
        meter = PeakMeter()
        meter.start()
        took = seconds(lambda model=model: _quiet(model, X), 1)
        peak = meter.stop()
        labels = model.labels_
        rows.append(
            (
                eps,
                f"{took:.2f}",
                f"{peak / 2**20:.0f}",
                labels.max() + 1,
                f"{100 * np.mean(labels < 0):.1f}",
                len(model.core_sample_indices_),
            )
        )
    return lines + table(("ε", "seconds", "MB beyond X", "clusters", "noise %", "core points"), rows)


def _quiet(model: object, X: np.ndarray) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)  # type: ignore[attr-defined]


STUDIES = {"kmeans": kmeans, "mixture": mixture, "dbscan": dbscan}


def main(names: list[str]) -> None:
    unknown = set(names) - STUDIES.keys()
    if unknown:
        sys.exit(f"growth: unknown {', '.join(sorted(unknown))}; there are {', '.join(STUDIES)}")
    lines = [
        "# How the work grows",
        "",
        f"Made by `python -m benchmarks.growth` on {datetime.date.today()}, "
        + ", ".join(f"{value} {name}" if name == "cores" else str(value) for name, value in describe().items())
        + ".",
        "",
    ]
    for name in names or STUDIES:
        section = STUDIES[name]()
        print("\n".join(section), flush=True)
        lines += [*section, ""]
    if not names:
        TARGET.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
