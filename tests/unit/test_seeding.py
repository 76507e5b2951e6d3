"""The starts on small cases: the exact distribution of draws, extremes, and messages."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import scipy.sparse

from knoll._common.seeding import kmeans_plus_plus, multiset, random_rows
from knoll.exceptions import BadData, InvalidParameter, InvalidType

X4 = np.array([[0.0], [1.0], [3.0], [7.0]])
W4 = np.array([1.0, 2.0, 0.5, 1.5])
DRAWS = 4000


def assert_distributed(counts: dict, expected: dict) -> None:
    """Pearson's χ² of the counts lies below its mean plus six standard deviations."""
    assert set(counts) <= {key for key, p in expected.items() if p > 0}
    chi2 = sum((counts.get(key, 0) - DRAWS * p) ** 2 / (DRAWS * p) for key, p in expected.items() if p > 0)
    freedom = sum(p > 0 for p in expected.values()) - 1
    assert chi2 < freedom + 6 * math.sqrt(2 * freedom)


def count(draws) -> dict:
    keys, counts = np.unique(np.array(draws), axis=0, return_counts=True)
    return {tuple(key): int(c) for key, c in zip(keys.tolist(), counts, strict=True)}


def test_kmeans_plus_plus_draws_by_weight_and_squared_distance():
    found = multiset(X4, W4)
    draws = [kmeans_plus_plus(X4, found, 2, seed, n_trials=1) for seed in range(DRAWS)]
    expected = {}
    for a, b in itertools.product(range(4), repeat=2):
        mass = W4 * (X4[:, 0] - X4[a, 0]) ** 2
        expected[a, b] = W4[a] / W4.sum() * mass[b] / mass.sum()
    assert_distributed(count(draws), expected)


def test_the_greedy_choice_lowers_the_potential_most():
    """With two trials the second row is the better of two independent draws."""
    found = multiset(X4, W4)
    draws = [kmeans_plus_plus(X4, found, 2, seed, n_trials=2) for seed in range(DRAWS)]
    squares = (X4 - X4.T) ** 2
    expected = dict.fromkeys(itertools.product(range(4), repeat=2), 0.0)
    for a, b, c in itertools.product(range(4), repeat=3):
        p = W4 * squares[a] / (W4 * squares[a]).sum()
        potential = [float((W4 * np.minimum(squares[a], squares[i])).sum()) for i in (b, c)]
        expected[a, b if potential[0] <= potential[1] else c] += W4[a] / W4.sum() * p[b] * p[c]
    assert_distributed(count(draws), expected)


def test_random_rows_are_drawn_by_weight_without_replacement():
    found = multiset(X4, W4)
    draws = [random_rows(found, 2, seed) for seed in range(DRAWS)]
    expected = {
        (a, b): W4[a] / W4.sum() * W4[b] / (W4.sum() - W4[a]) if a != b else 0.0
        for a, b in itertools.product(range(4), repeat=2)
    }
    assert_distributed(count(draws), expected)


def test_restarts_are_other_draws():
    X = np.random.default_rng(0).normal(size=(500, 2))
    found = multiset(X)
    runs = {tuple(kmeans_plus_plus(X, found, 5, 7, restart=r).tolist()) for r in range(20)}
    assert len(runs) == 20
    assert len({tuple(random_rows(found, 5, 7, restart=r).tolist()) for r in range(20)}) == 20


def test_more_centres_than_distinct_rows():
    X = np.repeat(X4, 5, axis=0)
    found = multiset(X)
    for rows in (kmeans_plus_plus(X, found, 6, 1), random_rows(found, 6, 1)):
        assert sorted(rows[:4].tolist()) == [0, 5, 10, 15]
        assert set(rows[4:].tolist()) <= {0, 5, 10, 15}
        assert len(set(rows[4:].tolist())) == 2


def test_one_row_one_centre_one_column():
    one = np.array([[-0.0]])
    assert kmeans_plus_plus(one, multiset(one), 3, 0).tolist() == [0, 0, 0]
    assert kmeans_plus_plus(X4, multiset(X4), 1, 0).shape == (1,)
    assert multiset(np.array([[0.0], [-0.0]])).weights.tolist() == [2.0]


def test_all_weight_on_one_row():
    found = multiset(X4, np.array([0.0, 0.0, 2.0, 0.0]))
    assert (found.rows.tolist(), found.weights.tolist()) == ([2], [2.0])
    assert kmeans_plus_plus(X4, found, 2, 0).tolist() == [2, 2]


@pytest.mark.parametrize("light", [1e-300, 1e-30])
def test_huge_and_tiny_weights_together(light):
    """The heavy row comes first; then the light ones are drawn among themselves by w·D², or by w."""
    X = np.array([[0.0], [1.0], [1e4]])
    found = multiset(X, np.array([1e300, light, light]))
    assert all(kmeans_plus_plus(X, found, 2, seed, n_trials=1).tolist() == [0, 2] for seed in range(100))
    assert all(random_rows(found, 3, seed)[0] == 0 for seed in range(50))
    assert {int(random_rows(found, 3, seed)[1]) for seed in range(50)} == {1, 2}


@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e300, 1e-300, 5e-324])
def test_extreme_data_is_drawn_like_plain_data(scale):
    X = X4 * scale
    firsts = {tuple(sorted(kmeans_plus_plus(X, multiset(X), 4, seed).tolist())) for seed in range(20)}
    assert firsts == {(0, 1, 2, 3)}


def test_weights_are_summed_exactly():
    X = np.zeros((4, 1))
    assert multiset(X, np.array([1e16, 1.0, 1.0, 1e-30])).weights.tolist() == [math.fsum([1e16, 1.0, 1.0, 1e-30])]


def test_a_sparse_matrix_that_is_not_canonical():
    X = scipy.sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    twin = np.array([[0.0, 3.0], [4.0, 0.0]])
    assert multiset(X).rows.tolist() == multiset(twin).rows.tolist()
    assert len(X.data) == 3  # the caller's is left alone


def test_the_potential_is_no_worse_than_scikit_learns():
    from sklearn.cluster import kmeans_plusplus

    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 4)) + 5 * rng.normal(size=(40, 4))[rng.integers(40, size=3000)]
    found = multiset(X)

    def potential(rows):
        return ((X[:, None] - X[rows]) ** 2).sum(axis=2).min(axis=1).sum()

    ours = [potential(kmeans_plus_plus(X, found, 40, seed)) for seed in range(15)]
    theirs = [potential(kmeans_plusplus(X, 40, random_state=seed)[1]) for seed in range(15)]
    error = np.hypot(np.std(ours), np.std(theirs)) / math.sqrt(15)
    assert np.mean(ours) < np.mean(theirs) + 4 * error


def test_messages():
    found = multiset(X4)
    with pytest.raises(
        InvalidType, match=re.escape("X must be float64 or float32, got int64. Convert it with X.astype")
    ):
        multiset(X4.astype(int))
    with pytest.raises(
        BadData, match=re.escape("No row has a weight > 0, so there is none to draw. Give a row a weight > 0.")
    ):
        multiset(X4, np.zeros(4))
    with pytest.raises(
        BadData, match=re.escape("add up to more than the largest float64. Divide all weights by 1e10.")
    ):
        multiset(np.zeros((2, 1)), np.array([1.7e308, 1.7e308]))
    for draw in (
        lambda k, r: random_rows(found, k, 0, restart=r),
        lambda k, r: kmeans_plus_plus(X4, found, k, 0, restart=r),
    ):
        with pytest.raises(
            InvalidParameter, match=re.escape("k must be >= 1 and < 2**32, got 0. Choose at least one row.")
        ):
            draw(0, 0)
        with pytest.raises(
            InvalidParameter, match=re.escape("restart must be >= 0 and < 65536, got 65536. Take another seed.")
        ):
            draw(1, 65536)
    with pytest.raises(
        InvalidParameter, match=re.escape("n_trials must be >= 1 and < 65536, got 0. None chooses 2 + log")
    ):
        kmeans_plus_plus(X4, found, 2, 0, n_trials=0)


def test_subnormal_numbers_beside_the_largest_change_no_order():
    """Entries below 2^−100 of the largest do not count; the difference of their exponents left int64."""
    generator = np.random.default_rng(0)
    large = generator.uniform(0.5, 1.7, size=30) * 1e308
    X = np.column_stack([large, generator.uniform(1, 9, size=30) * 1e-310])
    alone = np.column_stack([large, np.zeros(30)])
    assert multiset(X).rows.tolist() == multiset(alone).rows.tolist()
