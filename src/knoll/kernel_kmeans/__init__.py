"""Weighted kernel k-means."""

from __future__ import annotations

from knoll.kernel_kmeans.estimator import KernelKMeans

__all__ = ["KernelKMeans"]
