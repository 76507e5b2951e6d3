"""Laws of the starts: draws see contents and weights, nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from knoll import _core
from knoll._common.seeding import kmeans_plus_plus, multiset, random_rows

seeds = st.integers(0, 2**32 - 1)


def cloud(seed: int, n: int, d: int) -> np.ndarray:
    """Half of it a lattice with many equal rows, half of it float32 values without."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, d)).astype(float)
    free = rng.random(n) < 0.5
    X[free] += rng.normal(size=(int(free.sum()), d)).astype(np.float32)
    return X.astype(np.float32).astype(float)


def starts(X, k, seed, weights=None, threads=1):
    """Contents of the multiset, of k-means++ and of random rows."""
    found = multiset(X, weights, threads)
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    return (
        dense[found.rows] + 0.0,
        found.weights,
        dense[kmeans_plus_plus(X, found, k, seed, threads=threads)] + 0.0,
        dense[random_rows(found, k, seed)] + 0.0,
    )


def assert_same(one, other, scale=1.0):
    for a, b, factor in zip(one, other, (scale, 1.0, scale, scale), strict=True):
        np.testing.assert_array_equal(a * factor, b)


shapes = {"seed": seeds, "n": st.integers(1, 300), "d": st.integers(1, 5), "k": st.integers(1, 20)}


@settings(deadline=None, max_examples=30)
@given(**shapes)
def test_the_order_of_rows_does_not_matter(seed, n, d, k):
    X = cloud(seed, n, d)
    assert_same(starts(X, k, seed), starts(np.random.default_rng(seed).permutation(X), k, seed))


@settings(deadline=None, max_examples=30)
@given(**shapes)
def test_a_weight_is_a_repetition_and_zero_an_absent_row(seed, n, d, k):
    X = cloud(seed, n, d)
    weights = np.random.default_rng(seed).integers(0, 4, size=n).astype(float)
    weights[0] = 1.0
    X[weights == 0] *= 1e3  # absent: what they hold must not matter
    assert_same(starts(X, k, seed, weights), starts(np.repeat(X, weights.astype(int), axis=0), k, seed))


@settings(deadline=None, max_examples=30)
@given(**shapes, power=st.sampled_from([-900, -500, -3, 1, 60, 500, 900]))
def test_a_power_of_two_carries_everything_along(seed, n, d, k, power):
    X, scale = cloud(seed, n, d), 2.0**power
    assert_same(starts(X, k, seed), starts(X * scale, k, seed), scale)


@settings(deadline=None, max_examples=15)
@given(**shapes)
def test_layouts_dtypes_and_threads_do_not_matter(seed, n, d, k):
    X = cloud(seed, n, d)
    expected = starts(X, k, seed)
    wide = np.zeros((2 * n, 2 * d))
    wide[::2, ::2] = X
    for other in (np.asfortranarray(X), wide[::2, ::2], X[::-1].copy()[::-1], X.astype(np.float32)):
        assert_same(expected, starts(other, k, seed))
    for dtype in (np.float64, np.float32):
        assert_same(expected, starts(scipy.sparse.csr_matrix(X.astype(dtype)), k, seed))
    for threads in (2, 3, 8):
        assert_same(expected, starts(X, k, seed, threads=threads))


@settings(deadline=None, max_examples=30)
@given(**shapes, power=st.sampled_from([-600, 0, 600]))
def test_a_float32_copy_has_the_order_of_its_original(seed, n, d, k, power):
    X = np.random.default_rng(seed).normal(size=(n, d)) * 3.0**power  # the 53 bits of each entry are used
    copy = X.astype(np.float32) if power == 0 else np.vectorize(round_to_24_bits)(X)
    assert len(np.unique(copy, axis=0)) == n
    for one, other in ((X, copy), (scipy.sparse.csr_matrix(X), scipy.sparse.csr_matrix(copy))):
        np.testing.assert_array_equal(multiset(one).rows, multiset(other).rows)
        rows = [random_rows(multiset(table), k, seed) for table in (one, other)]
        np.testing.assert_array_equal(*rows)


def round_to_24_bits(x):
    mantissa, exponent = math.frexp(x)
    return math.ldexp(float(np.float32(mantissa)), exponent)


@pytest.mark.parametrize("d", [1, 2, 8])
@pytest.mark.parametrize("k", [2, 10, 60])
def test_a_float32_copy_draws_the_rows_of_its_original(d, k):
    """By k-means++ too: a draw compares a number with sums of D², which rounding moves by about 1e-8 of the whole."""
    X = np.random.default_rng(d).normal(size=(1000, d))
    for seed in range(5):
        rows = [kmeans_plus_plus(table, multiset(table), k, seed) for table in (X, X.astype(np.float32))]
        np.testing.assert_array_equal(*rows)


def test_entries_too_small_for_float32_leave_the_order_to_the_others():
    """exp(−x²) reaches below 1e-38, where float32 keeps a few bits or none."""
    X = np.exp(-np.square(np.random.default_rng(0).normal(size=(200, 4)) * 6))
    copy = X.astype(np.float32)
    assert ((copy > 0) & (copy < 1e-38)).any()
    np.testing.assert_array_equal(multiset(X).rows, multiset(copy).rows)


def test_rows_that_float32_cannot_distinguish_are_still_distinct():
    X = 1.0 + np.random.default_rng(0).permutation(np.repeat(np.arange(300.0), 2))[:, None] * 2.0**-40
    found = multiset(X)
    assert len(found.rows) == 300
    assert (found.weights == 2).all()
    assert (np.diff(X[found.rows, 0]) > 0).all()  # one hash for all, so in the order of their values
    order = np.random.default_rng(1).permutation(600)
    np.testing.assert_array_equal(X[found.rows], X[order][multiset(X[order]).rows])


@settings(deadline=None, max_examples=30)
@given(**shapes, value=st.sampled_from([1.0, -3e-200, 1e300, 0.1]))
def test_constant_columns_do_not_matter(seed, n, d, k, value):
    """Distances do not see them, so draws must not, however large they are beside the others."""
    X = np.insert(cloud(seed, n, d), [0, d], 0.0, axis=1)
    constant = X.copy()
    constant[:, [0, -1]] = value
    expected = multiset(X).rows
    for table in (constant, scipy.sparse.csr_matrix(constant)):
        found = multiset(table)
        np.testing.assert_array_equal(found.rows, expected)
        if value < 1e300:  # estimators take such columns out: beside them nothing is left of the others
            rows = [kmeans_plus_plus(T, found, k, seed) for T in (table, X)]
            np.testing.assert_array_equal(*rows)


def chosen(X, found, k, seed, *, skip=True, threads=1, trials=5):
    out = np.empty(k, dtype=np.int64)
    work = _core.kmeans_plus_plus(X, found.rows, found.weights, seed, 0, trials, skip, out, threads)
    return out, work


@pytest.mark.parametrize("d", [1, 2, 16])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_what_is_skipped_changes_nothing(d, offset):
    """More than one grouping by centres, blobs apart and near-ties inside float32's error."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(6000, d)) + 40 * rng.normal(size=(30, d))[rng.integers(30, size=6000)]
    X[::7] = np.round(X[::7])
    X += offset
    found = multiset(X)
    for seed in range(3):
        full, all_work = chosen(X, found, 130, seed, skip=False)
        for threads in (1, 2, 3, 8):
            fast, work = chosen(X, found, 130, seed, threads=threads)
            assert (fast == full).all()
        assert all_work[1] == all_work[0] == work[0]
        assert work[1] < all_work[1] / 5  # and much is skipped


@pytest.mark.parametrize("weighted", [False, True])
def test_groupings_by_centres_change_nothing(weighted):
    """So many centres that points are grouped twice, in a plane where the triangle inequality spares much."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 2)) + 40 * rng.normal(size=(30, 2))[rng.integers(30, size=6000)]
    found = multiset(X, rng.random(6000) if weighted else None)
    full, _ = chosen(X, found, 350, 0, skip=False)
    for threads in (1, 2):
        assert (chosen(X, found, 350, 0, threads=threads)[0] == full).all()


@pytest.mark.parametrize("log_range", [1.0, 30.0, 300.0])
def test_weights_of_any_size_leave_the_choice_exact(log_range):
    """The sieve holds weights in float32: far below its range it must leave the choice to the exact gains."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(3000, 3))
    found = multiset(X, np.exp(log_range * rng.uniform(-1, 1, size=3000)))
    for seed in range(3):
        full, _ = chosen(X, found, 40, seed, skip=False)
        assert (chosen(X, found, 40, seed, threads=2)[0] == full).all()


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_candidates_that_gain_alike_are_decided_exactly(offset):
    """On a lattice many candidates have equal gains: intervals always overlap."""
    X = np.stack(np.meshgrid(*[np.arange(3.0)] * 6), axis=-1).reshape(-1, 6) + offset
    found = multiset(X)
    for seed in range(5):
        full, _ = chosen(X, found, 60, seed, skip=False, trials=8)
        assert (chosen(X, found, 60, seed, trials=8, threads=2)[0] == full).all()


@pytest.mark.parametrize("k", [70, 350])
def test_sparse_rows_beyond_one_grouping(k):
    X = scipy.sparse.random(3000, 50, density=0.05, format="csr", random_state=0)
    assert_same(starts(X, k, 1, threads=2), starts(X.toarray(), k, 1))


@settings(deadline=None, max_examples=30)
@given(**shapes)
def test_distinct_rows_are_numpys(seed, n, d, k):
    X = cloud(seed, n, d)
    weights = np.random.default_rng(seed).integers(1, 4, size=n).astype(float)
    found = multiset(X, weights)
    rows, first, inverse = np.unique(X + 0.0, axis=0, return_index=True, return_inverse=True)
    assert set(found.rows.tolist()) == set(first.tolist())
    expected = dict(zip(first.tolist(), np.bincount(inverse.ravel(), weights).tolist(), strict=True))
    assert dict(zip(found.rows.tolist(), found.weights.tolist(), strict=True)) == expected
    assert len(set(random_rows(found, min(k, len(rows)), seed).tolist())) == min(k, len(rows))
