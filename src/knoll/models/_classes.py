"""The classes that a model file may hold: a file names one of these, and nothing is ever imported at its word."""

from __future__ import annotations

from knoll.base import Estimator
from knoll.dbscan import DBSCAN
from knoll.gaussian import Gaussian
from knoll.gaussian_mixture import GaussianMixture
from knoll.kernel_kmeans import KernelKMeans
from knoll.kmeans import KMeans
from knoll.mean_shift import MeanShift
from knoll.spectral import SpectralClustering

__all__ = ["CLASSES"]

CLASSES: dict[str, type[Estimator]] = {
    kind.__name__: kind
    for kind in (DBSCAN, Gaussian, GaussianMixture, KMeans, KernelKMeans, MeanShift, SpectralClustering)
}
