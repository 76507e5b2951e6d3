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
    "compare": "knoll.comparison",
    "explain": "knoll.explanation",
    "explore": "knoll.explorer",
    "load": "knoll.models",
    "save": "knoll.models",
    "show_build": "knoll._system",
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
    "compare",
    "comparison",
    "datasets",
    "exceptions",
    "explain",
    "explanation",
    "explore",
    "explorer",
    "kernels",
    "load",
    "metrics",
    "models",
    "plots",
    "reference",
    "relations",
    "save",
    "scales",
    "show_build",
    "tuning",
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
    from knoll.density.hdbscan import HDBSCAN
    from knoll.density.mean_shift import MeanShift
    from knoll.density.optics import OPTICS
    from knoll.density.tree import DensityTree
    from knoll.explanation import explain
    from knoll.explorer import explore
    from knoll.gaussian import Gaussian
    from knoll.hierarchy import AgglomerativeClustering
    from knoll.kernel_kmeans import KernelKMeans
    from knoll.kmeans import KMeans, KPrototypes
    from knoll.mixture import GaussianMixture, MixedMixture
    from knoll.models import load, save
    from knoll.spectral import SpectralClustering
else:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"knoll.{name}")
        if name in _HOME:
            return getattr(importlib.import_module(_HOME[name]), name)
        raise AttributeError(f"module 'knoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
