"""Mixtures by expectation maximisation."""

from __future__ import annotations

from knoll.mixture.estimator import GaussianMixture
from knoll.mixture.mixed import MixedMixture

__all__ = ["GaussianMixture", "MixedMixture"]
