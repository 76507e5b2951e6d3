"""Maximum likelihood of one Gaussian: knoll.Gaussian against np.mean + np.cov.

The truth is computed once per case in two passes of extended precision; an error is measured in units of the
standard deviations, so that a column's scale does not matter.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.case import Case, Contestant, Data, Target, no_larger, register


def make(n: int, d: int, dtype: str) -> dict[str, np.ndarray]:
    """Correlated Gaussian rows, each column off the origin by three of its standard deviations."""
    rng = np.random.default_rng(20240501)
    mix = rng.normal(size=(d, d)) + 2.0 * np.eye(d)
    scale = np.sqrt(np.sum(mix**2, axis=0))
    X = (rng.normal(size=(n, d)) @ mix + 3.0 * scale).astype(dtype)
    mean = np.empty(d, np.longdouble)
    centred = np.empty((d, n), np.longdouble)
    for j in range(d):
        column = X[:, j].astype(np.longdouble)
        mean[j] = column.sum() / n
        centred[j] = column - mean[j]
    covariance = np.empty((d, d), np.longdouble)
    for i in range(d):
        for j in range(i + 1):
            covariance[i, j] = covariance[j, i] = np.sum(centred[i] * centred[j]) / n
    return {"X": X, "true_mean": mean.astype(float), "true_covariance": covariance.astype(float)}


def fit_knoll(data: Data, threads: int) -> tuple[np.ndarray, np.ndarray]:
    from knoll import Gaussian

    model = Gaussian(n_jobs=threads).fit(data["X"])
    return model.mean_, model.covariance_


def fit_numpy(data: Data, threads: int) -> tuple[np.ndarray, np.ndarray]:
    X = data["X"]
    return np.mean(X, axis=0), np.cov(X, rowvar=False, bias=True)


def errors(data: Data, result: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Largest error of mean and covariance in standard deviations, and the rounding of the input's dtype."""
    mean, covariance = (np.asarray(array, dtype=np.float64) for array in result)
    sd = np.sqrt(np.diag(data["true_covariance"]))
    return {
        "mean error": np.max(np.abs(mean - data["true_mean"]) / sd),
        "covariance error": np.max(np.abs(covariance - data["true_covariance"]) / np.outer(sd, sd)),
        # The answer comes back in the input's dtype: means of three deviations carry a rounding of 3 eps / 2.
        "rounding": 4.0 * np.finfo(data["X"].dtype).eps,
    }


def case(n: int, d: int, dtype: str, name: str, targets: tuple[Target, ...] = ()) -> None:
    register(
        Case(
            name=name,
            group="Gaussian",
            about=f"μ and Σ of {n}×{d} {dtype} rows",
            data=partial(make, n, d, dtype),
            ours=Contestant("knoll", fit_knoll, ("knoll.gaussian",)),
            peers=(Contestant("np.mean + np.cov", fit_numpy, ("numpy",)),),
            judge=errors,
            not_worse=no_larger("mean error", "covariance error", floor="rounding"),
            targets=targets,
            warmup=lambda data: {**data, "X": data["X"][:4096]},
            repeats=9,
        )
    )


case(10**6, 16, "float64", "gaussian-1e6x16", (Target(10),))
case(10**6, 16, "float32", "gaussian-1e6x16-float32")
case(10**6, 2, "float64", "gaussian-1e6x2")
case(2 * 10**5, 64, "float64", "gaussian-2e5x64")
