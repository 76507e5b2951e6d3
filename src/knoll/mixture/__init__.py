"""Gaussian mixtures by expectation maximisation."""

from __future__ import annotations

from knoll.mixture.estimator import GaussianMixture

__all__ = ["GaussianMixture"]
