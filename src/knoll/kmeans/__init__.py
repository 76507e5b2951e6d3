"""k-means by Lloyd's algorithm, exact under every bound, and k-prototypes for numbers and categories."""

from __future__ import annotations

from knoll.kmeans.estimator import KMeans
from knoll.kmeans.prototypes import KPrototypes

__all__ = ["KMeans", "KPrototypes"]
