"""Which class stands in for which, and where scikit-learn tests it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Replacement:
    """Put ``ours`` ("module:Class") where scikit-learn's ``theirs`` ("module:Class") is seen by ``tests``."""

    ours: str
    theirs: str
    tests: tuple[str, ...]  # importable names of scikit-learn's test modules


def _knoll(name: str, package: str, *tests: str) -> Replacement:
    modules = tuple(f"sklearn.{package}.tests.{test}" for test in tests)
    return Replacement(ours=f"knoll:{name}", theirs=f"sklearn.{package}:{name}", tests=modules)


# A class that knoll does not have yet is passed over; it joins by itself on the day `knoll.<name>` exists.
REGISTRY = {
    "KMeans": _knoll("KMeans", "cluster", "test_k_means"),
    "GaussianMixture": _knoll("GaussianMixture", "mixture", "test_gaussian_mixture", "test_mixture"),
    "DBSCAN": _knoll("DBSCAN", "cluster", "test_dbscan"),
    "HDBSCAN": _knoll("HDBSCAN", "cluster", "test_hdbscan"),
    "MeanShift": _knoll("MeanShift", "cluster", "test_mean_shift"),
    "AgglomerativeClustering": _knoll("AgglomerativeClustering", "cluster", "test_hierarchical"),
    "OPTICS": _knoll("OPTICS", "cluster", "test_optics"),
    "SpectralClustering": _knoll("SpectralClustering", "cluster", "test_spectral"),
}
