"""Scales from the data: what each number means, and where it comes from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import estimate_bandwidth as sklearn_bandwidth

from knoll import DBSCAN, scales
from knoll.exceptions import BadData, InvalidParameter


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 80), st.integers(1, 4), st.integers(1, 10), st.integers(0, 2**32))
def test_a_k_distance_is_the_least_radius_of_a_core_point(n, d, k, seed):
    X = np.random.default_rng(seed).integers(-4, 5, size=(n, d)) * 0.5
    distances = np.sort(np.sqrt(np.square(X[:, None] - X[None]).sum(axis=2)), axis=1)
    expected = distances[:, k - 1] if k <= n else np.full(n, np.inf)
    np.testing.assert_array_equal(scales.k_distances(X, k), expected)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 2**32))
def test_a_weight_is_a_repetition(n, k, seed):
    generator = np.random.default_rng(seed)
    X, weights = generator.normal(size=(n, 2)), generator.integers(0, 4, size=n)
    if weights.sum() == 0:
        return
    weighted = scales.k_distances(X, k, sample_weight=weights)
    repeated = scales.k_distances(np.repeat(X, weights, axis=0), k)
    np.testing.assert_array_equal(np.repeat(weighted, weights), repeated)
    if k <= weights.sum():
        a = scales.estimate_eps(X, k, sample_weight=weights)
        b = scales.estimate_eps(np.repeat(X, weights, axis=0), k)
        assert (a.eps, a.reason) == (b.eps, b.reason)


def test_fractions_of_a_row_count_as_such():
    X = np.arange(6.0)[:, None]
    assert scales.k_distances(X, 2, sample_weight=np.full(6, 0.5)).tolist() == [3, 2, 2, 2, 2, 3]


def test_eps_is_found_where_the_curve_bends():
    generator = np.random.default_rng(0)
    X = np.concatenate([generator.normal(size=(300, 2)) * 0.1 + c for c in (0, 5, 10)])
    X = np.concatenate([X, generator.uniform(-3, 13, size=(20, 2))])
    estimate = scales.estimate_eps(X)
    assert estimate.min_samples == 4
    assert len(np.unique(DBSCAN(estimate.eps, min_samples=4).fit_predict(X))) >= 4  # three clusters and noise
    assert (np.diff(estimate.curve) >= 0).all()
    assert estimate.curve[estimate.knee] == estimate.eps == float(estimate)
    assert "bend" in str(estimate)


def test_degenerate_curves_have_their_own_reason():
    assert "at its own place" in scales.estimate_eps(np.zeros((10, 2))).reason
    assert "are equal" in scales.estimate_eps(np.arange(4.0)[:, None], 2).reason
    most = scales.estimate_eps(np.concatenate([np.zeros(50), [1.0, 2.0]])[:, None], 2)
    assert most.eps > 0
    places = np.repeat([0.0, 0.5, 1.5], 10)[:, None]
    assert scales.estimate_eps(places, 5).eps == 0.25
    assert len(np.unique(DBSCAN(0.25, min_samples=5).fit_predict(places))) == 3


def test_a_few_far_outliers_hardly_matter():
    X = np.random.default_rng(0).normal(size=(500, 2))
    plain = scales.estimate_eps(X).eps
    assert scales.estimate_eps(np.concatenate([X, [[1e4, 1e4]]])).eps < 1.5 * plain
    assert scales.estimate_eps(np.concatenate([X, [[1e9, 0.0], [0.0, -1e12]]])).eps < 1.5 * plain


def test_a_k_distance_agrees_with_dbscan_to_the_last_bit():
    X = np.array([[0.0], [1.0]])
    weights = np.array([1 - 1e-13, 1.0])
    assert scales.k_distances(X, 1, sample_weight=weights).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scales.k_distances([[0.0]], 0), r"k_distances: k must be >= 1, got 0"),
        (lambda: scales.estimate_eps([[0.0]], -1), r"min_samples must be >= 1, got -1"),
        (lambda: scales.estimate_bandwidth([[0.0]], quantile=2), r"quantile must be >= 0 and <= 1, got 2"),
    ],
)
def test_messages(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_too_little_data():
    with pytest.raises(BadData, match=r"the data holds 2 rows, fewer than min_samples=5\. Give more rows"):
        scales.estimate_eps([[0.0], [1.0]], 5)


@pytest.mark.parametrize("quantile", [0.0, 0.1, 0.3, 1.0])
def test_the_bandwidth_is_scikit_learns(quantile):
    X = np.random.default_rng(0).normal(size=(300, 3))
    assert scales.estimate_bandwidth(X, quantile=quantile) == pytest.approx(sklearn_bandwidth(X, quantile=quantile))


def test_a_bandwidth_from_a_sample():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    assert scales.estimate_bandwidth(X, n_samples=500) == pytest.approx(scales.estimate_bandwidth(X), rel=0.1)


@pytest.mark.parametrize("factor", [1e200, 1e-200, 2.0**1000])
def test_a_bandwidth_at_any_magnitude(factor):
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert scales.estimate_bandwidth(X * factor) == pytest.approx(scales.estimate_bandwidth(X) * factor, rel=1e-12)


def test_a_bandwidth_depends_on_shares_of_weight_alone():
    X = np.random.default_rng(0).normal(size=(300, 2))
    plain = scales.estimate_bandwidth(X)
    assert scales.estimate_bandwidth(X, sample_weight=np.full(300, 1 / 300)) == pytest.approx(plain, rel=0.05)
    assert scales.estimate_bandwidth(X, sample_weight=np.full(300, 1e308)) == pytest.approx(plain, rel=0.05)
    weights = np.random.default_rng(1).integers(0, 4, size=300)
    repeated = scales.estimate_bandwidth(np.repeat(X, weights, axis=0))
    assert scales.estimate_bandwidth(X, sample_weight=weights) == pytest.approx(repeated, rel=1e-12)
