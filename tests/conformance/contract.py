"""Every public estimator, found automatically, and how to put each through the contract."""

from __future__ import annotations

import numpy as np
import sklearn.base

import knoll

# Checks of scikit-learn's that an estimator of ours cannot pass, each with its reason.
EXPECTED_FAILED_CHECKS: dict[str, dict[str, str]] = {
    "HDBSCAN": {
        "check_methods_sample_order_invariance": (
            "The check requests n_clusters=2 of data whose tree has one cluster: exactly k clusters is a promise, so "
            "there an error is the answer."
        ),
    }
}


# What the contract's data needs: defaults that find nothing in it would only raise red flags.
PARAMETERS: dict[str, dict[str, object]] = {
    "AgglomerativeClustering": {"n_clusters": 3, "compute_distances": True},
    "DBSCAN": {"eps": 1.5},
    "KernelKMeans": {"n_clusters": 3, "sigma": 3.0},
    "MeanShift": {"bandwidth": 3.0},
    "SpectralClustering": {"n_clusters": 3, "sigma": 4.0},
}
ONE_STEP = {"AgglomerativeClustering", "DBSCAN", "DensityTree", "HDBSCAN", "OPTICS"}  # these do not iterate: no history
NEGATIVE_WEIGHTS = {"DBSCAN"}  # these only count weights, so one may be negative
MISSING = {"KPrototypes", "MixedMixture"}  # NaN is a missing value here; infinities are refused as everywhere
UNWEIGHTED = {"OPTICS"}  # positions in its plot count rows, so a weight has no meaning


def public_estimators() -> list[type]:
    found = (getattr(knoll, name) for name in knoll.__all__)
    return [thing for thing in found if isinstance(thing, type) and issubclass(thing, sklearn.base.BaseEstimator)]


def data(n: int = 9_001, d: int = 3, seed: int = 0) -> np.ndarray:
    """Three blobs; more rows than two cells of the core's grid, and not a multiple of it."""
    generator = np.random.default_rng(seed)
    centers = generator.normal(scale=6, size=(3, d))
    return centers[generator.integers(3, size=n)] + generator.normal(size=(n, d))


def fitted(estimator) -> dict[str, np.ndarray]:
    """What was learnt, as arrays: every fitted attribute but the clock's."""
    state, arrays = estimator.to_state()
    values = {name: array for name, array in arrays.items() if not name.endswith("history_.seconds")}
    plain = {name: np.asarray(value) for name, value in state["fitted"].items() if isinstance(value, int | float)}
    return {name: value for name, value in {**values, **plain}.items() if not name.startswith("parameters.")}


def outputs(estimator, X) -> dict[str, np.ndarray]:
    """What the estimator answers about X."""
    methods = ("predict", "predict_proba", "transform", "score_samples", "mahalanobis")
    return {name: getattr(estimator, name)(X) for name in methods if hasattr(estimator, name)}


def assert_same_bits(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        assert a[name].tobytes() == b[name].tobytes(), name
