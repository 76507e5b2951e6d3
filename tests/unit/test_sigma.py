"""σ from the data: what the number means, where it comes from, and that spectral clustering can use it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_blobs, make_circles, make_moons

from knoll import SpectralClustering, metrics, reference, scales
from knoll.exceptions import BadData, InvalidParameter, SuspiciousResultWarning


def by_definition(X, k):
    """The lower median over rows of the distance to the k-th row, the row itself being the first."""
    distances = np.sort(np.sqrt(np.square(X[:, None] - X[None]).sum(axis=2)), axis=1)[:, k - 1]
    return np.sort(distances)[(len(X) - 1) // 2]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 120), st.integers(1, 4), st.integers(0, 2**32))
def test_sigma_is_the_median_distance_to_the_cube_root_th_row(n, d, seed):
    X = np.random.default_rng(seed).normal(size=(n, d))
    estimate = scales.estimate_sigma(X)
    assert estimate.n_neighbors == max(2, math.ceil(round(n ** (1 / 3), 9)))
    assert estimate.sigma == by_definition(X, estimate.n_neighbors) == estimate.value == float(estimate)
    assert estimate.gamma == pytest.approx(1 / (2 * estimate.sigma**2), rel=1e-15)
    k = int(np.random.default_rng(seed).integers(2, n + 1))
    assert scales.estimate_sigma(X, k).sigma == by_definition(X, k)


def test_the_curve_is_what_it_was_read_from():
    X = np.random.default_rng(0).normal(size=(300, 2))
    estimate = scales.estimate_sigma(X)
    assert (np.diff(estimate.curve) >= 0).all()
    assert (np.diff(estimate.share) > 0).all()
    assert estimate.share[-1] == 1
    at = int(np.searchsorted(estimate.curve, estimate.sigma))
    assert estimate.share[at] == pytest.approx(0.5, abs=1.5 / 300)
    assert "half of the rows have 7 rows, themselves included, within this distance" in str(estimate)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**32), st.sampled_from([None, 3]))
def test_a_weight_is_a_repetition(n, d, seed, k):
    generator = np.random.default_rng(seed)
    X, weights = generator.integers(-3, 4, size=(n, d)) * 0.5, generator.integers(0, 4, size=n)
    repeated = np.repeat(X, weights, axis=0)
    if len(np.unique(repeated, axis=0)) < 2:
        return
    a = scales.estimate_sigma(X, k, sample_weight=weights)
    b = scales.estimate_sigma(repeated[generator.permutation(len(repeated))], k)
    assert (a.sigma, a.n_neighbors, a.reason) == (b.sigma, b.n_neighbors, b.reason)


@pytest.mark.parametrize("power", [-10, -60, -400, -1000])
def test_shares_are_no_numbers_of_rows(power):
    """Weights that add up to less than the rows: all rows together make one ball, and σ was the diameter."""
    generator = np.random.default_rng(0)
    X = np.r_[generator.normal(size=(60, 2)), generator.normal(size=(60, 2)) + 9]
    even = scales.estimate_sigma(X)
    assert scales.estimate_sigma(X, sample_weight=np.full(120, 2.0**power)).sigma == even.sigma
    weights = generator.uniform(0.5, 1.5, size=120) * 2.0**power
    shares = scales.estimate_sigma(X, sample_weight=weights)
    assert 0.8 * even.sigma < shares.sigma < 1.25 * even.sigma
    assert scales.estimate_sigma(X, sample_weight=weights / 8).sigma == shares.sigma
    labels = SpectralClustering(2, random_state=0).fit(X, sample_weight=weights / weights.sum()).labels_
    assert (labels == np.repeat([labels[0], 1 - labels[0]], 60)).all()


def test_weight_is_repetition_beyond_the_sampled_rows():
    generator = np.random.default_rng(1)
    X, weights = generator.normal(size=(900, 2)), generator.integers(0, 6, size=900)
    weights[:3] = 300  # rows with so many copies are a third of the data
    a = scales.estimate_sigma(X, sample_weight=weights)
    b = scales.estimate_sigma(np.repeat(X, weights, axis=0))
    assert a.sigma == b.sigma


def test_large_data_is_sampled_and_the_estimate_is_close():
    X = np.random.default_rng(2).normal(size=(20_000, 2))
    estimate = scales.estimate_sigma(X)
    assert len(estimate.curve) == 1000
    exact = np.median(scales.k_distances(X, estimate.n_neighbors))
    assert estimate.sigma == pytest.approx(exact, rel=0.05)
    shuffled = X[np.random.default_rng(3).permutation(len(X))]
    assert scales.estimate_sigma(shuffled).sigma == estimate.sigma
    assert scales.estimate_sigma(X, n_jobs=1).sigma == estimate.sigma
    assert scales.estimate_sigma(np.asfortranarray(X)).sigma == estimate.sigma


@pytest.mark.parametrize("power", [-1000, -500, -3, 7, 1000])
def test_powers_of_two_are_exact(power):
    X = np.random.default_rng(0).normal(size=(1500, 3))
    assert scales.estimate_sigma(np.ldexp(X, power)).sigma == math.ldexp(scales.estimate_sigma(X).sigma, power)


def test_float32_rows_are_the_rows_they_stand_for():
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    assert scales.estimate_sigma(X).sigma == scales.estimate_sigma(X.astype(np.float64)).sigma


def test_outliers_hardly_matter():
    X = np.random.default_rng(0).normal(size=(500, 2))
    plain = scales.estimate_sigma(X).sigma
    assert scales.estimate_sigma(np.concatenate([X, 1e6 * np.eye(2)])).sigma == pytest.approx(plain, rel=0.03)


def test_copies_do_not_make_it_zero():
    values = np.arange(12.0)
    estimate = scales.estimate_sigma(np.repeat(values, 50)[:, None])
    assert estimate.sigma == by_definition(values[:, None], 3) == 1
    assert estimate.n_neighbors == 3
    assert "most rows have copies, so copies were counted once: half of the 12 distinct rows" in estimate.reason
    weighted = scales.estimate_sigma(values[:, None], sample_weight=np.full(12, 50.0))
    assert (weighted.sigma, weighted.reason) == (estimate.sigma, estimate.reason)


@pytest.mark.parametrize("X", [np.full((9, 2), 3.5), [[1.0]], np.zeros((2, 1))])
def test_equal_rows_have_a_defined_width_and_a_warning(X):
    with pytest.warns(SuspiciousResultWarning, match=r"estimate_sigma: all rows are equal, so no distance is a scale"):
        estimate = scales.estimate_sigma(X)
    assert estimate.sigma == 1
    assert "1 is as good as any other" in estimate.reason


def test_few_rows_and_fractions_of_rows():
    assert scales.estimate_sigma([[0.0], [3.0]]).sigma == 3
    assert scales.estimate_sigma([[0.0], [3.0]], n_neighbors=50).sigma == 3
    assert scales.estimate_sigma([[0.0], [3.0]], sample_weight=[0.25, 0.25]).sigma == 3
    assert scales.estimate_sigma([[0.0], [3.0], [9.0]], sample_weight=[1, 1, 0]).sigma == 3


@pytest.mark.parametrize(
    ("call", "error_type", "message"),
    [
        (
            lambda: scales.estimate_sigma([[0.0]], 1),
            InvalidParameter,
            r"estimate_sigma: n_neighbors must be >= 2, got 1",
        ),
        (lambda: scales.estimate_sigma([[0.0]], 2.5), InvalidParameter, r"n_neighbors must be"),
        (lambda: scales.estimate_sigma([[0.0], [np.nan]]), BadData, r"NaN at row 1, column 0"),
        (lambda: scales.estimate_sigma([[0.0]], sample_weight=[-1.0]), BadData, r"sample_weight"),
        (lambda: scales.estimate_sigma([[0.0]], sample_weight=[0.0]), BadData, r"[Ww]eight"),
    ],
)
def test_messages(call, error_type, message):
    with pytest.raises(error_type, match=message):
        call()


def blobs(n, d, seed):
    """Four round clusters of deviation 1, their centres at least 8 apart."""
    generator = np.random.default_rng(seed)
    centers = 8 * np.eye(4, max(d, 4))[:, :d] + 8 * np.arange(4)[:, None] * (d < 4)
    return make_blobs(n, centers=centers, random_state=int(generator.integers(2**31)))


DATA = {
    "moons": lambda seed: (*make_moons(300, noise=0.05, random_state=seed), 2),
    "circles": lambda seed: (*make_circles(300, factor=0.5, noise=0.05, random_state=seed), 2),
    "blobs in 2": lambda seed: (*blobs(240, 2, seed), 4),
    "blobs in 5": lambda seed: (*blobs(240, 5, seed), 4),
    "blobs in 20": lambda seed: (*blobs(240, 20, seed), 4),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("seed", [0, 1])
def test_spectral_clustering_finds_the_groups_at_this_width(name, seed):
    X, y, k = DATA[name](seed)
    state = reference.run(reference.njw_spectral(X, k, scales.estimate_sigma(X).sigma, row_scaling="unit"))
    assert metrics.adjusted_rand_score(y, state.labels) > 0.98


def test_iris_too():
    X, y = load_iris(return_X_y=True)
    state = reference.run(reference.njw_spectral(X, 3, scales.estimate_sigma(X).sigma, row_scaling="unit"))
    assert metrics.adjusted_rand_score(y, state.labels) > 0.72  # k-means finds 0.73, a mixture 0.90
