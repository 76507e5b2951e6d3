"""Spectral clustering: affinity, eigenvectors, partition."""

from __future__ import annotations

from knoll.spectral.estimator import SpectralClustering, SpectralCost

__all__ = ["SpectralClustering", "SpectralCost"]
