"""``knoll compare`` on a CSV beside three methods of scikit-learn one after the other, and reading the CSV alone.

What a person would run instead: KMeans and GaussianMixture (full covariances) for every k from 2 to 15, one start each,
the mixture of least BIC kept, and DBSCAN. `knoll compare` does that for all its methods, chooses the parameters itself,
judges stability, and writes labels, models and a report. Both read the same file; ours is a process of its own, so its
start and its imports count. DBSCAN's ε is given to scikit-learn, which has no way to choose one.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register

K = range(2, 16)


def table(n: int, d: int) -> dict[str, np.ndarray]:
    """Six Gaussians of different variance as the bytes of a CSV, their labels, and an ε."""
    from knoll.scales import estimate_eps

    rng = np.random.default_rng(3)
    y = rng.integers(6, size=n)
    centres, std = 6 * rng.normal(size=(6, d)), rng.uniform(0.6, 1.6, size=(6, 1))
    X = centres[y] + std[y] * rng.normal(size=(n, d))
    text = io.StringIO()
    np.savetxt(text, X, fmt="%.6f", delimiter=",", header=",".join(f"x{j}" for j in range(d)), comments="")
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    eps = estimate_eps(scaled, 2 * d).eps
    return {"csv": np.frombuffer(text.getvalue().encode(), np.uint8), "y": y, "eps": np.array(eps)}


def hundred_thousand() -> dict[str, np.ndarray]:
    return table(100_000, 8)


def compare_knoll(data: Data, threads: int) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "data.csv", Path(folder) / "out"
        file.write_bytes(data["csv"].tobytes())
        arguments = ["compare", str(file), "--out", str(out), "--jobs", str(threads), "--quiet"]
        subprocess.run([sys.executable, "-m", "knoll", *arguments], check=True)
        import pyarrow.parquet

        method = json.loads((out / "summary.json").read_text())["recommendation"]["method"]
        labels = pyarrow.parquet.read_table(out / "labels.parquet")
        return labels[method].to_numpy() if method else np.zeros(len(labels), np.int64)


def fit_sklearn(data: Data, threads: int) -> np.ndarray:
    import pyarrow.csv
    from sklearn.cluster import DBSCAN, KMeans
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    with tempfile.TemporaryDirectory() as folder, threadpool_limits(threads):
        file = Path(folder) / "data.csv"
        file.write_bytes(data["csv"].tobytes())
        X = np.column_stack([column.to_numpy() for column in pyarrow.csv.read_csv(file).columns])
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        for k in K:
            KMeans(k, n_init=1, random_state=0).fit(X)
        mixtures = [GaussianMixture(k, n_init=1, random_state=0).fit(X) for k in K]
        DBSCAN(eps=float(data["eps"]), min_samples=2 * X.shape[1], n_jobs=threads).fit(X)
        best: GaussianMixture = min(mixtures, key=lambda model: model.bic(X))
        return np.asarray(best.predict(X))


def wrong(data: Data, labels: np.ndarray) -> dict[str, float]:
    """How far the answer is from the truth: 1 less the adjusted Rand index."""
    from knoll.metrics import adjusted_rand_score

    return {"1 - ARI": 1.0 - adjusted_rand_score(data["y"], labels)}


def read_knoll(data: Data, threads: int) -> np.ndarray:
    from knoll.tables import read_table

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.csv"
        file.write_bytes(data["csv"].tobytes())
        return read_table(str(file)).X


def read_pyarrow(data: Data, threads: int) -> np.ndarray:
    import pyarrow.csv

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.csv"
        file.write_bytes(data["csv"].tobytes())
        read = pyarrow.csv.read_csv(file)
        return np.column_stack([column.to_numpy() for column in read.columns])


def misread(data: Data, X: np.ndarray) -> dict[str, float]:
    """The largest difference to what Python reads, over some rows."""
    lines = data["csv"].tobytes().decode().splitlines()
    sample = range(0, len(X), max(1, len(X) // 1000))
    return {"largest error": max(float(np.abs(X[i] - np.array(lines[i + 1].split(","), float)).max()) for i in sample)}


register(
    Case(
        name="compare-1e5x8",
        group="knoll compare",
        about="a CSV of 10⁵ rows: all methods with everything chosen, against three of scikit-learn's, k = 2..15",
        data=hundred_thousand,
        ours=Contestant("knoll compare", compare_knoll, ("knoll",)),
        peers=(Contestant("scikit-learn, one after the other", fit_sklearn, ("sklearn.cluster", "sklearn.mixture")),),
        judge=wrong,
        not_worse=no_larger("1 - ARI", floor=0.02),
        targets=(Target(1.0),),
        measures_memory=False,
        repeats=1,
    )
)
register(
    Case(
        name="read-csv-1e5x8",
        group="knoll compare",
        about="the same file, read only: columns looked at, kinds found, gaps counted",
        data=hundred_thousand,
        ours=Contestant("knoll", read_knoll, ("knoll.tables", "pyarrow.csv")),
        peers=(Contestant("pyarrow", read_pyarrow, ("pyarrow.csv",)),),
        judge=misread,
        not_worse=no_larger("largest error", floor=1e-12),
        targets=(Target(1 / 1.2),),  # at most 20 % more
        warmup=lambda data: data,
        calls=5,
    )
)
