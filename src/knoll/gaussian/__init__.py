"""One Gaussian by maximum likelihood, and the covariance types that the mixtures share."""

from __future__ import annotations

from knoll.gaussian.estimator import Ellipse, Gaussian

__all__ = ["Ellipse", "Gaussian"]
