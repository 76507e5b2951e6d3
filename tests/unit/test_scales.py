"""Scales from the data: what each number means, and where it comes from."""

from __future__ import annotations

import contextlib
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import estimate_bandwidth as sklearn_bandwidth

from knoll import DBSCAN, MeanShift, scales
from knoll.exceptions import BadData, InvalidParameter, SuspiciousResultWarning


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
    assert "every row equals 4 rows" in scales.estimate_eps(np.zeros((10, 2))).reason
    assert "are equal" in scales.estimate_eps(np.arange(4.0)[:, None], 2).reason
    most = scales.estimate_eps(np.concatenate([np.zeros(50), [1.0, 2.0]])[:, None], 2)
    assert most.eps > 0
    values = np.repeat([0.0, 0.5, 1.5], 10)[:, None]
    assert scales.estimate_eps(values, 5).eps == 0.25
    assert len(np.unique(DBSCAN(0.25, min_samples=5).fit_predict(values))) == 3


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


# ---- near the ends of float64 ----------------------------------------------------------------------------------------


def exact_distance(a, b):
    square = sum((Fraction(float(x)) - Fraction(float(y))) ** 2 for x, y in zip(a, b, strict=True))
    power = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return Fraction(math.sqrt(square / Fraction(4) ** power)) * Fraction(2) ** power


@pytest.mark.parametrize("seed", range(60))
def test_k_distances_are_exact_whatever_the_magnitudes(seed):
    """Tiny gaps beside far rows, too: their squares vanish in the scale of the others."""
    generator = np.random.default_rng(seed)
    n, d, k = generator.integers(3, 9), generator.integers(1, 4), generator.integers(1, 4)
    X = generator.uniform(-1, 1, size=(n, d)) * 10.0 ** generator.integers(-310, 307)
    if seed % 2:
        X = generator.uniform(-1, 1, size=(n, d)) * 10.0 ** generator.integers(-300, 300, size=(n, 1))
    expected = [float(sorted(exact_distance(row, other) for other in X)[k - 1]) for row in X]
    np.testing.assert_allclose(scales.k_distances(X, int(k)), expected, rtol=1e-13, atol=1e-323)


@pytest.mark.parametrize("seed", range(150))
def test_scales_are_positive_numbers_or_refused(seed):
    generator = np.random.default_rng(seed)
    n, d = generator.integers(2, 25), generator.integers(1, 4)
    X = (
        generator.uniform(-1, 1, size=(n, d))
        * 10.0 ** generator.integers(-320, 308, size=n if seed % 2 else 1)[:, None]
    )
    if seed % 5 == 0:
        X = generator.choice([-1.7e308, 1.7e308, 1e308, 0.0, 5e-324], size=(n, d))
    weights = generator.uniform(0.1, 3, size=n) * 10.0 ** generator.integers(-300, 300, size=n if seed % 3 else 1)
    options = {"sample_weight": None if seed % 4 == 0 else weights}
    with contextlib.suppress(BadData):
        assert 0 <= scales.estimate_bandwidth(X, quantile=1.0, **options) < math.inf  # 0: one row has all the weight
    for estimate in (scales.estimate_eps, scales.estimate_sigma):
        with contextlib.suppress(BadData), warnings.catch_warnings():
            warnings.simplefilter("ignore", SuspiciousResultWarning)  # all rows are equal
            assert 0 < float(estimate(X, 2, **options)) < math.inf


def test_distances_beyond_float64_are_refused():
    X = np.array([[-1.7e308], [1.7e308], [0.0], [1e308]])
    message = r"Distances between rows of X are larger than the largest float64, 1\.8e308\. Divide X by 1e10"
    for call in (
        lambda: scales.estimate_bandwidth(X, quantile=1.0),
        lambda: scales.k_distances(X, 4),
        lambda: scales.estimate_eps(X, 4),
        lambda: scales.estimate_sigma(X, 4),
    ):
        with pytest.raises(BadData, match=message):
            call()
    assert scales.estimate_bandwidth(X, quantile=0.5) == pytest.approx(1.025e308)  # the mean of 1.7, 0.7, 1 and 0.7
    assert MeanShift().fit(X).bandwidth_ == 0


def test_weights_whose_sum_is_beyond_float64_are_refused():
    X, weights = np.arange(6.0)[:, None], np.full(6, 1e308)
    for call in (
        lambda: scales.k_distances(X, 2, sample_weight=weights),
        lambda: scales.estimate_eps(X, 2, sample_weight=weights),
    ):
        with pytest.raises(BadData, match=r"the weights add up to more than the largest float64\. Divide all weights"):
            call()
    light = weights * 1e-10
    # one such row fills any ball, so that all radii are 0 and copies count once
    assert scales.estimate_sigma(X, sample_weight=weights).sigma == scales.estimate_sigma(X, sample_weight=light).sigma
    assert scales.estimate_bandwidth(X, sample_weight=weights) == scales.estimate_bandwidth(X, sample_weight=light)
