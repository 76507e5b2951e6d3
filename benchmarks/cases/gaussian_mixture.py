"""EM for mixtures of Gaussians, against scikit-learn from the same start.

The start is made with the data: weights, means and precisions from a coarse fit of it, so that every contestant
maximises the same likelihood. The judge is the log-likelihood of all rows under the returned parameters, in float64.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Case, Contestant, Data, Quality, Target, register

ROWS = 20_000  # judged rows: the likelihood of a few is as informative, and cheap


def blobs(n: int, d: int, k: int, std: float) -> tuple[np.ndarray, np.ndarray]:
    """Isotropic Gaussians around centres that are uniform in [−10, 10]^d."""
    from sklearn.datasets import make_blobs

    X, _ = make_blobs(n, d, centers=k, cluster_std=std, random_state=20240503)
    rng = np.random.default_rng(20240503)
    return np.ascontiguousarray(X), X[rng.choice(n, size=k, replace=False)]


def make(n: int, d: int, k: int, std: float, shape: str) -> dict[str, np.ndarray]:
    X, means = blobs(n, d, k, std)
    variance = X.var(axis=0)
    precisions = {
        "full": np.broadcast_to(np.diag(1 / variance), (k, d, d)).copy(),
        "tied": np.diag(1 / variance),
        "diag": np.broadcast_to(1 / variance, (k, d)).copy(),
        "spherical": np.full(k, 1 / variance.mean()),
    }[shape]
    return {"X": X, "weights": np.full(k, 1 / k), "means": means, "precisions": precisions}


def parameters(data: Data, shape: str, iterations: int) -> dict[str, Any]:
    """Exactly so many iterations: no change of the likelihood is below a tolerance of zero."""
    return {
        "n_components": len(data["means"]),
        "covariance_type": shape,
        "max_iter": iterations,
        "tol": 0.0,
        "weights_init": data["weights"],
        "means_init": data["means"],
        "precisions_init": data["precisions"],
    }


Fitted = tuple[np.ndarray, np.ndarray, np.ndarray]


def fit_knoll(data: Data, threads: int, *, shape: str, iterations: int) -> Fitted:
    from knoll import GaussianMixture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged, by design
        model = GaussianMixture(**parameters(data, shape, iterations), n_jobs=threads).fit(data["X"])
    return model.weights_, model.means_, model.precisions_cholesky_


def fit_sklearn(data: Data, threads: int, *, shape: str, iterations: int) -> Fitted:
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(**parameters(data, shape, iterations)).fit(data["X"])
    return model.weights_, model.means_, model.precisions_cholesky_


def likelihood(data: Data, result: Fitted, *, shape: str) -> dict[str, float]:
    """The mean log-likelihood of the first rows."""
    weights, means, factors = (np.asarray(array, dtype=np.float64) for array in result)
    X = np.asarray(data["X"][:ROWS], dtype=np.float64)
    k, d = means.shape
    log_joint = np.empty((len(X), k))
    for c in range(k):
        factor = factors if shape == "tied" else factors[c]
        away = X - means[c]
        z = away @ factor if factor.ndim == 2 else away * factor
        diagonal = np.diag(factor) if factor.ndim == 2 else np.broadcast_to(factor, (d,))
        log_joint[:, c] = np.log(weights[c]) + np.log(diagonal).sum() - 0.5 * (d * np.log(2 * np.pi) + (z * z).sum(1))
    return {"log-likelihood": float(np.logaddexp.reduce(log_joint, axis=1).mean())}


def as_likely(ours: Quality, peer: Quality) -> bool:
    """Equal from the same start, up to rounding, which twenty iterations may carry on."""
    return ours["log-likelihood"] >= peer["log-likelihood"] - 1e-8 * abs(peer["log-likelihood"])


def case(name: str, n: int, d: int, k: int, std: float, shape: str, target: float, memory: float | None = None) -> None:
    options: dict[str, Any] = {"shape": shape, "iterations": 20}
    register(
        Case(
            name=name,
            group="Gaussian mixture",
            about=f"{shape} covariances, {n}×{d}, k = {k}, 20 iterations from the same start, float64",
            data=partial(make, n, d, k, std, shape),
            ours=Contestant("knoll", partial(fit_knoll, **options), ("knoll.mixture",)),
            peers=(Contestant("scikit-learn", partial(fit_sklearn, **options), ("sklearn.mixture",)),),
            judge=partial(likelihood, shape=shape),
            not_worse=as_likely,
            targets=(Target(target),),
            memory_limit=memory,
            warmup=lambda data: {**data, "X": data["X"][:4096]},
            repeats=3,
        )
    )


case("mixture-full-1e6x2", 10**6, 2, 3, 1.5, "full", 60, memory=64)
case("mixture-full-2e5x16", 2 * 10**5, 16, 10, 6.0, "full", 25)
case("mixture-full-5e4x64", 5 * 10**4, 64, 10, 8.0, "full", 10)
for covariance_type in ("diag", "tied", "spherical"):
    case(f"mixture-{covariance_type}-2e5x16", 2 * 10**5, 16, 10, 6.0, covariance_type, 8)


# ---- small data: what a call costs by itself ----------------------------------------------------------------------


def iris() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_iris

    return {"X": load_iris().data}


def default_knoll(data: Data, threads: int) -> Fitted:
    from knoll import GaussianMixture

    model = GaussianMixture(3, random_state=0, n_jobs=threads).fit(data["X"])
    return model.weights_, model.means_, model.precisions_cholesky_


def default_sklearn(data: Data, threads: int) -> Fitted:
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(3, random_state=0).fit(data["X"])
    return model.weights_, model.means_, model.precisions_cholesky_


register(
    Case(
        name="mixture-iris",
        group="Gaussian mixture",
        about="iris, k = 3, a default fit with its k-means start",
        data=iris,
        ours=Contestant("knoll", default_knoll, ("knoll.mixture",)),
        peers=(Contestant("scikit-learn", default_sklearn, ("sklearn.mixture",)),),
        judge=partial(likelihood, shape="full"),
        # another start may end a little lower or higher: within a thousandth
        not_worse=lambda ours, peer: ours["log-likelihood"] >= peer["log-likelihood"] - 1e-3,
        targets=(Target(4),),
        warmup=lambda data: data,
        calls=20,
        repeats=5,
    )
)
