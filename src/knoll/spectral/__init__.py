"""Spectral clustering: affinity, eigenvectors, partition."""

from __future__ import annotations

from knoll.spectral.estimator import SpectralClustering

__all__ = ["SpectralClustering"]
