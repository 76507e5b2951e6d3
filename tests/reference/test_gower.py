"""Gower's distance by its definition, and as a Manhattan distance where nothing is missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from knoll import DBSCAN
from knoll.exceptions import BadData
from knoll.reference import gower


def table(missing, n=60, p=3, q=2, seed=0):
    rng = np.random.default_rng(seed)
    X, codes = rng.normal(size=(n, p)) * [1.0, 10.0, 0.1], rng.integers(3, size=(n, q))
    X[rng.random(X.shape) < missing] = np.nan
    codes[rng.random(codes.shape) < missing] = -1
    return X, codes


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.8])
def test_every_pair_by_the_definition(missing):
    X, codes = table(missing)
    found, ranges = gower(X, codes), np.nanmax(X, axis=0) - np.nanmin(X, axis=0)
    for i, k in np.ndindex(found.shape):
        terms = [abs(a - b) / r for a, b, r in zip(X[i], X[k], ranges) if a == a and b == b]
        terms += [float(a != b) for a, b in zip(codes[i], codes[k]) if a >= 0 and b >= 0]
        nothing = all(np.isnan(X[row]).all() and (codes[row] < 0).all() for row in (i, k))
        expected = np.mean(terms) if terms else float(not nothing)
        assert found[i, k] == pytest.approx(expected, abs=1e-14)
    assert (found == found.T).all()
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-15


def as_manhattan(X, codes):
    width = X.shape[1] + codes.shape[1]
    indicators = [(column[:, None] == np.unique(column)) / (2 * width) for column in codes.T]
    return np.column_stack([X / (np.ptp(X, axis=0) * width), *indicators])


def test_complete_rows_have_a_manhattan_distance():
    X, codes = table(0.0)
    wide = as_manhattan(X, codes)
    np.testing.assert_allclose(cdist(wide, wide, "cityblock"), gower(X, codes), atol=1e-14)
    ours = DBSCAN(0.2, metric="manhattan").fit(wide)
    matrix = DBSCAN(0.2, metric="precomputed").fit(gower(X, codes))
    assert (ours.labels_ == matrix.labels_).all()


def test_columns_without_range_or_value_and_bad_input():
    X = np.array([[1.0, np.nan], [1.0, np.nan], [1.0, np.nan]])
    assert gower(X, [[0], [0], [1]]).tolist() == [[0.0, 0.0, 0.5], [0.0, 0.0, 0.5], [0.5, 0.5, 0.0]]
    assert gower(X[:, :1], np.zeros((3, 0)), ranges=[2.0]).max() == 0
    with pytest.raises(BadData, match="one row of each"):
        gower(X, [[0]])
