"""Laws of the starts: draws see contents and weights, nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from knoll import _core
from knoll.seeding import kmeans_plus_plus, multiset, random_rows

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


some = {"seed": seeds, "n": st.integers(1, 300), "d": st.integers(1, 5), "k": st.integers(1, 20)}


@settings(deadline=None, max_examples=30)
@given(**some)
def test_the_order_of_rows_does_not_matter(seed, n, d, k):
    X = cloud(seed, n, d)
    assert_same(starts(X, k, seed), starts(np.random.default_rng(seed).permutation(X), k, seed))


@settings(deadline=None, max_examples=30)
@given(**some)
def test_a_weight_is_a_repetition_and_zero_an_absent_row(seed, n, d, k):
    X = cloud(seed, n, d)
    weights = np.random.default_rng(seed).integers(0, 4, size=n).astype(float)
    weights[0] = 1.0
    X[weights == 0] *= 1e3  # absent: what they hold must not matter
    assert_same(starts(X, k, seed, weights), starts(np.repeat(X, weights.astype(int), axis=0), k, seed))


@settings(deadline=None, max_examples=30)
@given(**some, power=st.sampled_from([-900, -500, -3, 1, 60, 500, 900]))
def test_a_power_of_two_carries_everything_along(seed, n, d, k, power):
    X, scale = cloud(seed, n, d), 2.0**power
    assert_same(starts(X, k, seed), starts(X * scale, k, seed), scale)


@settings(deadline=None, max_examples=15)
@given(**some)
def test_layouts_kinds_and_threads_do_not_matter(seed, n, d, k):
    X = cloud(seed, n, d)
    expected = starts(X, k, seed)
    wide = np.zeros((2 * n, 2 * d))
    wide[::2, ::2] = X
    for other in (np.asfortranarray(X), wide[::2, ::2], X[::-1].copy()[::-1], X.astype(np.float32)):
        assert_same(expected, starts(other, k, seed))
    for kind in (np.float64, np.float32):
        assert_same(expected, starts(scipy.sparse.csr_matrix(X.astype(kind)), k, seed))
    for threads in (2, 3, 8):
        assert_same(expected, starts(X, k, seed, threads=threads))


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


@pytest.mark.parametrize("spread", [1.0, 30.0, 300.0])
def test_weights_of_any_size_leave_the_choice_exact(spread):
    """The sieve holds weights in float32: far below its range it must leave the choice to the exact gains."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(3000, 3))
    found = multiset(X, np.exp(spread * rng.uniform(-1, 1, size=3000)))
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
@given(**some)
def test_distinct_rows_are_numpys(seed, n, d, k):
    X = cloud(seed, n, d)
    weights = np.random.default_rng(seed).integers(1, 4, size=n).astype(float)
    found = multiset(X, weights)
    rows, first, inverse = np.unique(X + 0.0, axis=0, return_index=True, return_inverse=True)
    assert set(found.rows.tolist()) == set(first.tolist())
    expected = dict(zip(first.tolist(), np.bincount(inverse.ravel(), weights).tolist(), strict=True))
    assert dict(zip(found.rows.tolist(), found.weights.tolist(), strict=True)) == expected
    assert len(set(random_rows(found, min(k, len(rows)), seed).tolist())) == min(k, len(rows))
