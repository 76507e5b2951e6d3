"""knoll: clustering as one family, exact and fast.

Names are loaded when first used, so that ``import knoll`` costs nothing and ``knoll --help`` answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "AgglomerativeClustering": "knoll.hierarchy",
    "CancelToken": "knoll._common.cancel",
    "DBSCAN": "knoll.density.dbscan",
    "DensityTree": "knoll.density.tree",
    "Gaussian": "knoll.gaussian",
    "GaussianMixture": "knoll.mixture",
    "HDBSCAN": "knoll.density.hdbscan",
    "KMeans": "knoll.kmeans",
    "KPrototypes": "knoll.kmeans",
    "KernelKMeans": "knoll.kernel_kmeans",
    "MeanShift": "knoll.density.mean_shift",
    "MixedMixture": "knoll.mixture",
    "OPTICS": "knoll.density.optics",
    "SpectralClustering": "knoll.spectral",
    "cluster_optics_dbscan": "knoll.density.functions",
    "compare": "knoll.comparison",
    "dbscan": "knoll.density.functions",
    "estimate_bandwidth": "knoll.scales",
    "explain": "knoll.explanation",
    "explore": "knoll.explorer",
    "k_means": "knoll.kmeans.functions",
    "kmeans_plusplus": "knoll.kmeans.functions",
    "linkage_tree": "knoll.hierarchy.functions",
    "load": "knoll.models",
    "mean_shift": "knoll.density.functions",
    "save": "knoll.models",
    "show_build": "knoll._system",
    "spectral_clustering": "knoll.spectral.functions",
    "ward_tree": "knoll.hierarchy.functions",
}
_MODULES = (
    "blocks",
    "comparison",
    "datasets",
    "exceptions",
    "explanation",
    "explorer",
    "kernels",
    "metrics",
    "models",
    "plots",
    "reference",
    "relations",
    "scales",
    "tuning",
)

__all__ = [  # noqa: RUF022 - in plain order, as the test of public names lists them
    "AgglomerativeClustering",
    "CancelToken",
    "DBSCAN",
    "DensityTree",
    "Gaussian",
    "GaussianMixture",
    "HDBSCAN",
    "KMeans",
    "KPrototypes",
    "KernelKMeans",
    "MeanShift",
    "MixedMixture",
    "OPTICS",
    "SpectralClustering",
    "__version__",
    "blocks",
    "cluster_optics_dbscan",
    "compare",
    "comparison",
    "datasets",
    "dbscan",
    "estimate_bandwidth",
    "exceptions",
    "explain",
    "explanation",
    "explore",
    "explorer",
    "k_means",
    "kernels",
    "kmeans_plusplus",
    "linkage_tree",
    "load",
    "mean_shift",
    "metrics",
    "models",
    "plots",
    "reference",
    "relations",
    "save",
    "scales",
    "show_build",
    "spectral_clustering",
    "tuning",
    "ward_tree",
]

if TYPE_CHECKING:
    from knoll import (
        blocks,
        comparison,
        datasets,
        exceptions,
        explanation,
        explorer,
        kernels,
        metrics,
        models,
        plots,
        reference,
        relations,
        scales,
        tuning,
    )
    from knoll._common.cancel import CancelToken
    from knoll._system import show_build
    from knoll.comparison import compare
    from knoll.density.dbscan import DBSCAN
    from knoll.density.functions import cluster_optics_dbscan, dbscan, mean_shift
    from knoll.density.hdbscan import HDBSCAN
    from knoll.density.mean_shift import MeanShift
    from knoll.density.optics import OPTICS
    from knoll.density.tree import DensityTree
    from knoll.explanation import explain
    from knoll.explorer import explore
    from knoll.gaussian import Gaussian
    from knoll.hierarchy import AgglomerativeClustering
    from knoll.hierarchy.functions import linkage_tree, ward_tree
    from knoll.kernel_kmeans import KernelKMeans
    from knoll.kmeans import KMeans, KPrototypes
    from knoll.kmeans.functions import k_means, kmeans_plusplus
    from knoll.mixture import GaussianMixture, MixedMixture
    from knoll.models import load, save
    from knoll.scales import estimate_bandwidth
    from knoll.spectral import SpectralClustering
    from knoll.spectral.functions import spectral_clustering
else:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"knoll.{name}")
        if name in _HOME:
            return getattr(importlib.import_module(_HOME[name]), name)
        raise AttributeError(f"module 'knoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
