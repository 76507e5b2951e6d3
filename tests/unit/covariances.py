"""Covariances of any type from arrays, for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knoll.gaussian.covariance import Spherical, Tied
from knoll.gaussian.moments import Moments


def made(shape, means, covariances):
    """The Gaussians of a type with these means, and covariances in scikit-learn's shape."""
    if shape is Tied:
        one = Tied().update(Moments(np.ones(1), means[:1], covariances[None], np.sqrt(np.diagonal(covariances))))
        return replace(one, means=means)
    columns = np.broadcast_to(covariances[:, None], means.shape) if shape is Spherical else covariances
    variances = np.diagonal(columns, axis1=1, axis2=2) if columns.ndim == 3 else columns
    return shape().update(Moments(np.ones(len(means)), means, columns, np.sqrt(variances.mean(axis=0))))
