"""The fits behind the figures, tables and paths, each computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from knoll import datasets
from knoll._typing import Bools, Floats, Ints
from knoll.density.ascent import KernelDensity
from knoll.density.dbscan import DBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.density.tree import DensityTree
from knoll.gaussian.estimator import Gaussian
from knoll.hierarchy.agglomerative import AgglomerativeClustering
from knoll.kmeans.estimator import KMeans
from knoll.metrics import adjusted_mutual_info_score, adjusted_rand_score
from knoll.mixture.estimator import GaussianMixture
from knoll.spectral.estimator import SpectralClustering

BANANA_SIGMA, BANANA_EPS, BANANA_MIN_PTS = 0.1, 0.16, 5
BANANA_MIN_SIZE = 25  # of HDBSCAN's clusters
ASCENT_EPS, ASCENT_LEVEL = 1.0, 60  # of figures 12 and 13: radius, and the height of the plane


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


def banana_classes() -> Ints:
    """Return which crescent each of the bananas' points belongs to."""
    classes = datasets.load("banana").y
    assert classes is not None
    return classes


@lru_cache(maxsize=1)
def banana_tree() -> DensityTree:
    """Build the density tree of the bananas."""
    return DensityTree(BANANA_MIN_PTS).fit(datasets.load("banana").X)


@lru_cache(maxsize=1)
def banana_ward() -> AgglomerativeClustering:
    """Merge the bananas by Ward's method."""
    return AgglomerativeClustering(2).fit(datasets.load("banana").X)


@lru_cache(maxsize=1)
def modes_mixture() -> GaussianMixture:
    """Fit the density with three modes."""
    return GaussianMixture(3, n_init=3, random_state=0).fit(datasets.load("three_component_density").X)


@lru_cache(maxsize=1)
def modes_mean_shift() -> MeanShift:
    """Fit Mean Shift to the density with three modes."""
    return MeanShift(bandwidth=ASCENT_EPS).fit(datasets.load("three_component_density").X)


@dataclass(frozen=True)
class Ascent:
    """The path of one point: its positions, its numbers of neighbours, and where it reaches the level."""

    positions: Floats  # (steps + 1, 2), the end once
    counts: Ints  # (steps + 1,) |N_ε|
    stop: int  # the first position at which the level is reached


@lru_cache(maxsize=1)
def ascent() -> Ascent:
    """Choose the point whose path reaches the level half-way."""
    X = datasets.load("three_component_density").X
    density = KernelDensity(X, None, ASCENT_EPS)
    best: Ascent | None = None
    for path in modes_mean_shift().paths(X):
        moves = (np.diff(path, axis=0) != 0).any(axis=1)  # the last step only confirms the end
        positions = path[np.r_[True, moves]]
        counts = density.ascend(np.ascontiguousarray(positions), 0).weight.astype(np.int64)
        reached = np.flatnonzero(counts >= ASCENT_LEVEL)
        if not len(reached):
            continue
        found = Ascent(positions, counts, int(reached[0]))
        if best is None or _both_halves(found) > _both_halves(best):
            best = found
    assert best is not None, f"no point reaches the level {ASCENT_LEVEL}"
    end = density.ascend(best.positions[:1].copy(), 10_000, level=float(ASCENT_LEVEL)).points[0]
    assert np.array_equal(end, best.positions[best.stop]), (
        "the path to a level is the beginning of the path to the mode"
    )
    return best


def _both_halves(path: Ascent) -> float:
    """Score a path: it should be long on both sides of the level."""
    before = float(np.linalg.norm(path.positions[path.stop] - path.positions[0]))
    after = float(np.linalg.norm(path.positions[-1] - path.positions[path.stop]))
    return min(before, after) * min(path.stop, len(path.positions) - 1 - path.stop)


def far_share(samples: Floats, data: Floats) -> tuple[Bools, float]:
    """Find samples further from all data than 99 % of the data are from their nearest neighbour, and their share."""
    tree = cKDTree(data)
    nearest, _ = tree.query(data, k=2)  # (n, 2), itself first
    usual = float(np.quantile(np.asarray(nearest)[:, 1], 0.99))
    far = np.asarray(tree.query(samples)[0]) > usual
    return far, float(far.mean())


def scores(classes: Ints, labels: NDArray[Any]) -> tuple[float, float]:
    """Compute AMI and ARI."""
    return float(adjusted_mutual_info_score(classes, labels)), float(adjusted_rand_score(classes, labels))
