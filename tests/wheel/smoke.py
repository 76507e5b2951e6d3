"""What a user does first, run by the Python of a fresh environment, far from the source tree."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import knoll
from knoll import _core

home = Path(knoll.__file__)
assert home.is_relative_to(sys.prefix), f"knoll came from {home}, not from the wheel in {sys.prefix}"
assert Path(_core.__file__).parent == home.parent

knoll.show_build()

X = np.random.default_rng(0).normal(size=(1000, 3)) * [1.0, 2.0, 3.0] + 5.0
model = knoll.Gaussian().fit(X)
np.testing.assert_allclose(model.mean_, X.mean(axis=0), rtol=1e-12)
np.testing.assert_allclose(model.covariance_, np.cov(X, rowvar=False, bias=True), rtol=1e-12, atol=1e-12)

labels = knoll.datasets.load("x1500").y
assert knoll.metrics.adjusted_mutual_info_score(labels, labels) == 1.0
print("smoke test passed")
