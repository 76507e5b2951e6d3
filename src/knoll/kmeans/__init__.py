"""k-means by Lloyd's algorithm, exact under every bound."""

from __future__ import annotations

from knoll.kmeans.estimator import KMeans

__all__ = ["KMeans"]
