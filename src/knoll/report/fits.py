"""The fits that the figures, tables and paths are made from, each made once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from knoll import datasets
from knoll._typing import Floats, Ints
from knoll.density.ascent import KernelDensity
from knoll.density.dbscan import DBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.gaussian.estimator import Gaussian
from knoll.kmeans.estimator import KMeans
from knoll.metrics import adjusted_mutual_info_score, adjusted_rand_score
from knoll.mixture.estimator import GaussianMixture
from knoll.spectral.estimator import SpectralClustering

__all__ = [
    "BANANA_EPS",
    "BANANA_MIN_PTS",
    "BANANA_SIGMA",
    "HILL_EPS",
    "HILL_LEVEL",
    "Climb",
    "banana_dbscan",
    "banana_spectral",
    "climb",
    "far_share",
    "hill_mean_shift",
    "hill_mixture",
    "matched",
    "one_gaussian",
    "scores",
    "x1500_gaussian",
    "x1500_kmeans",
    "x1500_mixture",
]


BANANA_SIGMA, BANANA_EPS, BANANA_MIN_PTS = 0.1, 0.16, 5
HILL_EPS, HILL_LEVEL = 1.0, 60  # the climb of figures 12 and 13: radius, and the height of the plane


@lru_cache(maxsize=1)
def one_gaussian() -> Gaussian:
    """Fit one Gaussian to the 500 points."""
    return Gaussian().fit(datasets.load("one_gaussian").X)


@lru_cache(maxsize=1)
def x1500_gaussian() -> Gaussian:
    """Fit one Gaussian to X₁₅₀₀."""
    return Gaussian().fit(datasets.load("x1500").X)


@lru_cache(maxsize=1)
def x1500_mixture() -> GaussianMixture:
    """Fit three Gaussians to X₁₅₀₀."""
    return GaussianMixture(3, n_init=3, tol=1e-8, max_iter=1000, random_state=0).fit(datasets.load("x1500").X)


@lru_cache(maxsize=1)
def x1500_kmeans() -> KMeans:
    """Fit k-means with three centres to X₁₅₀₀."""
    return KMeans(3, n_init=10, random_state=0).fit(datasets.load("x1500").X)


@lru_cache(maxsize=1)
def banana_spectral() -> SpectralClustering:
    """Cluster the bananas by eigenvectors."""
    return SpectralClustering(2, sigma=BANANA_SIGMA, random_state=0).fit(datasets.load("banana").X)


@lru_cache(maxsize=1)
def banana_dbscan() -> DBSCAN:
    """Cluster the bananas by density."""
    return DBSCAN(BANANA_EPS, min_samples=BANANA_MIN_PTS).fit(datasets.load("banana").X)


@lru_cache(maxsize=1)
def hill_mixture() -> GaussianMixture:
    """Fit a density with three hills."""
    return GaussianMixture(3, n_init=3, random_state=0).fit(datasets.load("three_component_density").X)


@lru_cache(maxsize=1)
def hill_mean_shift() -> MeanShift:
    """Let every point of the three hills climb."""
    return MeanShift(bandwidth=HILL_EPS).fit(datasets.load("three_component_density").X)


@dataclass(frozen=True)
class Climb:
    """One point's way up: where it stands after every step, how many points are near, and where the level is met."""

    places: Floats  # (steps + 1, 2), the end once
    counts: Ints  # (steps + 1,) |N_ε|
    stop: int  # the first place at which the level is reached


@lru_cache(maxsize=1)
def climb() -> Climb:
    """Choose the point whose climb meets the level half-way: steps before it, and as many as can be after it."""
    X = datasets.load("three_component_density").X
    hill = KernelDensity(X, None, HILL_EPS)
    best: Climb | None = None
    for path in hill_mean_shift().paths(X):
        moves = (np.diff(path, axis=0) != 0).any(axis=1)  # the last step only confirms the end
        places = path[np.r_[True, moves]]
        counts = hill.ascend(np.ascontiguousarray(places), 0).weight.astype(np.int64)
        reached = np.flatnonzero(counts >= HILL_LEVEL)
        if not len(reached):
            continue
        found = Climb(places, counts, int(reached[0]))
        if best is None or _both_halves(found) > _both_halves(best):
            best = found
    assert best is not None, f"no point reaches the level {HILL_LEVEL}"
    end = hill.ascend(best.places[:1].copy(), 10_000, level=float(HILL_LEVEL)).points[0]
    assert np.array_equal(end, best.places[best.stop]), "the climb to a level is the beginning of the climb to the peak"
    return best


def _both_halves(path: Climb) -> float:
    """Prefer a long way on both sides of the level."""
    before = float(np.linalg.norm(path.places[path.stop] - path.places[0]))
    after = float(np.linalg.norm(path.places[-1] - path.places[path.stop]))
    return min(before, after) * min(path.stop, len(path.places) - 1 - path.stop)


def far_share(samples: Floats, data: Floats) -> tuple[NDArray[np.bool_], float]:
    """Tell which samples are far from any data: further than 99 % of the data are from their nearest neighbour."""
    tree = cKDTree(data)
    nearest, _ = tree.query(data, k=2)  # (n, 2), itself first
    usual = float(np.quantile(np.asarray(nearest)[:, 1], 0.99))
    far = np.asarray(tree.query(samples)[0]) > usual
    return far, float(far.mean())


def matched(classes: Ints, labels: NDArray[Any]) -> Ints:
    """Number clusters as the classes that they share most points with."""
    k = int(max(classes.max(), labels.max())) + 1
    shared = np.zeros((k, k), dtype=np.int64)
    np.add.at(shared, (labels, classes), 1)
    rows, columns = linear_sum_assignment(-shared)
    name = np.empty(k, dtype=np.int64)
    name[rows] = columns
    return name[labels]


def scores(classes: Ints, labels: NDArray[Any]) -> tuple[float, float]:
    """Return AMI and ARI."""
    return float(adjusted_mutual_info_score(classes, labels)), float(adjusted_rand_score(classes, labels))
