"""Laws of the Gaussian: what must hold for any data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knoll import Gaussian, reference
from knoll.exceptions import CollapsedComponentWarning

seeds = st.integers(0, 2**32 - 1)


def cloud(seed: int, n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + rng.normal(scale=10, size=d)


@settings(deadline=None, max_examples=60)
@given(seed=seeds, n=st.integers(20, 400), d=st.integers(1, 8))
def test_equals_the_reference(seed, n, d):
    X = cloud(seed, n, d)
    model, state = Gaussian().fit(X), reference.run(reference.gaussian_mle(X))
    np.testing.assert_allclose(model.mean_, state.mu, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.covariance_, state.Sigma, rtol=1e-10, atol=1e-10)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, d=st.integers(1, 5))
def test_no_other_gaussian_is_more_likely(seed, d):
    X = cloud(seed, 50 + d, d)
    best = Gaussian().fit(X)
    rng = np.random.default_rng(seed)
    other = Gaussian().fit(X + rng.normal(scale=0.05, size=X.shape) * X.std(axis=0))
    assert other.score(X) <= best.score(X) + 1e-9 * abs(best.score(X))


@settings(deadline=None, max_examples=40)
@given(seed=seeds, d=st.integers(1, 6))
def test_affine_maps_carry_the_model_along(seed, d):
    X = cloud(seed, 200, d)
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(d, d)) + 3 * np.eye(d), rng.normal(size=d)
    plain, mapped = Gaussian().fit(X), Gaussian().fit(X @ A.T + b)
    assume(np.linalg.cond(A) < 1e4)
    scale = np.sqrt(np.outer(mapped.covariance_.diagonal(), mapped.covariance_.diagonal()))
    np.testing.assert_allclose(mapped.covariance_ / scale, A @ plain.covariance_ @ A.T / scale, atol=1e-9)
    np.testing.assert_allclose(mapped.mahalanobis(X @ A.T + b), plain.mahalanobis(X), rtol=1e-6)
    # log N(Ax + b) = log N(x) − log |det A|
    shift = np.linalg.slogdet(A)[1]
    np.testing.assert_allclose(mapped.score_samples(X @ A.T + b), plain.score_samples(X) - shift, rtol=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, d=st.integers(1, 6))
def test_the_quadratic_forms_add_up_to_n_times_d(seed, d):
    X = cloud(seed, 100, d)
    assert Gaussian().fit(X).mahalanobis(X, squared=True).sum() == pytest.approx(100 * d, rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(5, 9000), d=st.integers(1, 4), cuts=st.lists(st.integers(0, 9000), max_size=6))
def test_any_cuts_give_the_same_bits(seed, n, d, cuts):
    X = cloud(seed, n, d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedComponentWarning)
        whole = Gaussian().fit(X)
        by_blocks = Gaussian().fit_blocks(lambda: np.split(X, sorted(cuts)))
    assert (whole.covariance_ == by_blocks.covariance_).all()
    assert (whole.mean_ == by_blocks.mean_).all()


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(3, 60), d=st.integers(1, 3))
def test_row_order_changes_rounding_only(seed, n, d):
    X = cloud(seed, n, d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedComponentWarning)
        a, b = Gaussian().fit(X), Gaussian().fit(np.random.default_rng(seed).permutation(X))
    np.testing.assert_allclose(a.covariance_, b.covariance_, rtol=1e-11, atol=1e-11)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=30),
)
def test_weights_are_repetitions_on_lattices(rows):
    table = np.array(rows, dtype=float)
    X, weights = table[:, :2], table[:, 2]
    assume(weights.any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedComponentWarning)
        weighted = Gaussian().fit(X, sample_weight=weights)
        repeated = Gaussian().fit(np.repeat(X, weights.astype(int), axis=0))
    np.testing.assert_allclose(weighted.mean_, repeated.mean_, atol=1e-13)
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, atol=1e-12)
    assert weighted.weight_ == repeated.weight_


def test_a_density_far_out_is_that_of_its_distance():
    """A row 1e144 deviations off, whose squared distance is a number, and whose coordinate is beyond 2^500."""
    X = np.array([[0.29], [1e37]])
    model = Gaussian().fit(X, sample_weight=[3.0, 2.0])
    far = np.array([[6.6e180], [-6.6e180]])
    expected = -0.5 * (np.log(2 * np.pi) + model.log_det_ + model.mahalanobis(far, squared=True))
    np.testing.assert_allclose(model.score_samples(far), expected, rtol=1e-12)


def test_equal_rows_near_the_largest_number_leak_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CollapsedComponentWarning)
        for value in (4.5e193, 1e300):
            assert Gaussian().fit([[value]] * 3).mean_ == [value]
