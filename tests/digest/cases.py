"""Small fits of every estimator over dtypes, weights, layouts, blocks, sparse rows and options, named one by one.

The tables come from integer arithmetic alone, so that no release of NumPy changes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import knoll

__all__ = ["cases", "uniforms"]

Fit = Callable[[], Any]


def uniforms(n: int, seed: int) -> NDArray[np.float64]:
    """Return n numbers of [0, 1) with 24 bits each, by the mixing function of SplitMix64."""
    z = (np.arange(1, n + 1, dtype=np.uint64) + np.uint64(seed * 1_000_003)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.float64) / 2.0**24


def bells(n: int, d: int, seed: int) -> NDArray[np.float64]:
    """Return (n, d) sums of four uniforms: nearly normal, exact in float64."""
    return uniforms(4 * n * d, seed).reshape(n, d, 4).sum(axis=2) - 2.0


def blobs(n: int, d: int, k: int, seed: int) -> NDArray[np.float64]:
    """Return k round groups of unlike sizes."""
    centers = 12 * uniforms(k * d, seed + 1).reshape(k, d)
    return centers[np.arange(n) ** 2 % (k + 1) % k] + bells(n, d, seed)


def tables() -> dict[str, NDArray[np.float64]]:
    """Return the tables by name."""
    line = np.arange(48, dtype=np.float64)[:, None]
    lattice = np.stack(np.meshgrid(np.arange(9.0), np.arange(7.0)), axis=-1).reshape(-1, 2)
    return {
        "plane": blobs(220, 2, 4, 1),
        "wide": blobs(150, 17, 5, 2),
        "column": blobs(90, 1, 3, 3),
        "line": line,
        "lattice": lattice,
        "copies": np.repeat(blobs(40, 3, 3, 4), 3, axis=0),
        "huge": blobs(80, 2, 3, 5) * 2.0**600,
        "tiny": blobs(80, 2, 3, 6) * 2.0**-600,
    }


def estimators() -> dict[str, Callable[[], Any]]:
    """Return the estimators by name; those of the last table take no extreme data."""
    k, seed = 3, 0
    found: dict[str, Callable[[], Any]] = {}
    for algorithm in ("lloyd", "hamerly", "elkan", "auto"):
        found[f"kmeans-{algorithm}"] = lambda a=algorithm: knoll.KMeans(k, algorithm=a, random_state=seed)
    found["kmeans-random"] = lambda: knoll.KMeans(k, init="random", n_init=3, random_state=seed)
    for shape in ("full", "tied", "diag", "spherical"):
        found[f"mixture-{shape}"] = lambda s=shape: knoll.GaussianMixture(k, covariance_type=s, random_state=seed)
    found["mixture-noise"] = lambda: knoll.GaussianMixture(k, noise=True, random_state=seed)
    found["gaussian"] = lambda: knoll.Gaussian()
    found["kernel-kmeans"] = lambda: knoll.KernelKMeans(k, random_state=seed)
    found["kernel-kmeans-linear"] = lambda: knoll.KernelKMeans(k, kernel="linear", random_state=seed)
    found["spectral"] = lambda: knoll.SpectralClustering(k, random_state=seed)
    found["spectral-neighbours"] = lambda: knoll.SpectralClustering(
        k, affinity="nearest_neighbors", n_neighbors=8, random_state=seed
    )
    for border in ("closest", "first"):
        found[f"dbscan-{border}"] = lambda b=border: knoll.DBSCAN(1.2, min_samples=4, border=b)
    for metric in ("manhattan", "chebyshev", "cosine"):
        found[f"dbscan-{metric}"] = lambda m=metric: knoll.DBSCAN(0.8, min_samples=4, metric=m)
    for kernel in ("flat", "gaussian"):
        found[f"mean-shift-{kernel}"] = lambda c=kernel: knoll.MeanShift(bandwidth=2.5, kernel=c)
    found["mean-shift-nearest"] = lambda: knoll.MeanShift(bandwidth=2.5, assign="nearest")
    return found


def weights_of(n: int) -> dict[str, NDArray[np.float64] | None]:
    """Return the weights by name: none, whole numbers with zeros, fractions."""
    return {
        "plain": None,
        "whole": np.arange(n, dtype=np.float64) * 7 % 4,
        "fractions": uniforms(n, 99) + 0.25,
    }


def cases() -> Iterator[tuple[str, Fit]]:
    """Yield the name of each case and a function that returns its fitted estimator."""
    made = tables()
    for name, make in estimators().items():
        for table, X in made.items():
            for dtype in (np.float64, np.float32):
                if dtype == np.float32 and table in ("huge", "tiny"):
                    continue
                points = X.astype(dtype)
                for weighting, weights in weights_of(len(X)).items():
                    if weighting != "plain" and table not in ("plane", "copies"):
                        continue
                    yield (
                        f"{name}/{table}/{np.dtype(dtype).name}/{weighting}",
                        lambda make=make, points=points, weights=weights: _fitted(make(), points, weights),
                    )
    yield from _mixed(made)
    yield from _blocks(made)
    yield from _sparse(made)


def _fitted(model: Any, points: Any, weights: Any) -> Any:
    return model.fit(points) if weights is None else model.fit(points, sample_weight=weights)


def _mixed(made: dict[str, NDArray[np.float64]]) -> Iterator[tuple[str, Fit]]:
    """Numbers and categories with missing values."""
    X = made["plane"]
    codes = np.stack([np.arange(len(X)) ** 2 % 5 % 4, np.floor(X[:, 0] / 4) % 3], axis=1)
    rows = np.column_stack([X, codes])
    rows[uniforms(rows.size, 7).reshape(rows.shape) < 0.1] = np.nan
    models = {
        f"mixed-{shape}": lambda s=shape: knoll.MixedMixture(
            3, categorical_features=[2, 3], covariance_type=s, random_state=0
        )
        for shape in ("full", "tied", "diag", "spherical")
    }
    models["prototypes"] = lambda: knoll.KPrototypes(3, categorical_features=[2, 3], random_state=0)
    for name, make in models.items():
        for dtype in (np.float64, np.float32):
            points = rows.astype(dtype)
            for weighting, weights in weights_of(len(X)).items():
                yield (
                    f"{name}/plane/{np.dtype(dtype).name}/{weighting}",
                    lambda make=make, points=points, weights=weights: _fitted(make(), points, weights),
                )


def _blocks(made: dict[str, NDArray[np.float64]]) -> Iterator[tuple[str, Fit]]:
    X, known = made["plane"], estimators()
    chunks = [X[:50], X[50:51], X[51:]]
    for name in ("kmeans-auto", "mixture-full", "gaussian"):
        yield f"{name}/plane/blocks", lambda make=known[name]: make().fit_blocks(lambda: iter(chunks))


def _sparse(made: dict[str, NDArray[np.float64]]) -> Iterator[tuple[str, Fit]]:
    X = np.where(made["wide"] > 5, made["wide"], 0.0)
    rows, known = scipy.sparse.csr_array(X), estimators()
    for name in ("kmeans-auto", "kernel-kmeans-linear", "dbscan-closest"):
        yield f"{name}/wide/csr", lambda make=known[name]: make().fit(rows)


def answer(fit: Fit) -> dict[str, Any]:
    """Run a case: its fitted attributes, or the class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = fit()
        except knoll.exceptions.KnollError as error:
            return {"error": type(error).__name__}
    return {name: value for name, value in sorted(vars(model).items()) if name.endswith("_")}
