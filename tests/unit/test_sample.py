"""The sample of rows: a function of contents, weights and seed, whatever the order, the cuts and the copies."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from knoll import _core
from knoll._common import sample
from knoll._common.blocks import Block
from knoll._common.exact_sums import ExactSums, from_wire
from knoll._common.passes import OneBlock
from knoll._common.sample import draw_sample, row_hashes
from tests.laws.hostile import HostileEngine

SIZE = 300


@pytest.fixture(autouse=True)
def _small_scale(monkeypatch):
    """A row of 1/64 of the weight is much, beside a sample of 300; in use it is 1/4096 beside 20 000 or more."""
    monkeypatch.setattr(sample, "_HEAVY", 64)
    monkeypatch.setattr(sample, "_CANDIDATES", 128)


def drawn(X, w=None, seed=0, engine=None):
    """The sample as a mapping of rows to weights."""
    block = Block(X, w)
    passes = OneBlock(block) if engine is None else engine.passes(lambda: iter([block]), X.dtype, 1)
    points, weights = draw_sample(passes, len(X), seed, SIZE)
    assert len(np.unique(points, axis=0)) == len(points)
    return dict(zip(map(bytes, points.astype(float)), weights.tolist(), strict=True))


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(size=(n, 2)), 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_order_and_cuts_do_not_matter(weighted):
    X = table()
    w = np.random.default_rng(1).uniform(0.1, 2, len(X)) if weighted else None
    alone = drawn(X, w)
    assert len(alone) == SIZE
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        assert drawn(X[order], w if w is None else w[order], engine=HostileEngine(seed)) == alone
    assert drawn(X, w, seed=1).keys() != alone.keys()


def test_a_weight_is_a_number_of_repetitions():
    X = table()
    times = np.random.default_rng(2).integers(1, 4, len(X))
    assert drawn(X, times.astype(float)) == drawn(np.repeat(X, times, axis=0))


def test_few_rows_are_all_rows_in_their_order():
    X = table(SIZE)
    found = draw_sample(OneBlock(Block(X, None)), len(X), 0, SIZE)
    assert found.points is X or (found.points == X).all()
    assert found.weights is None


def test_few_distinct_rows_are_all_there_with_exact_weights():
    X = table(100)[np.random.default_rng(3).integers(0, 100, 5000)]
    w = np.random.default_rng(4).uniform(0, 1, 5000) * 10.0 ** np.random.default_rng(5).integers(-9, 9, 5000)
    found = drawn(X, w, engine=HostileEngine(1))
    for row in np.unique(X, axis=0):
        assert found[row.tobytes()] == math.fsum(w[(row == X).all(axis=1)])


def test_rows_of_much_weight_are_always_drawn():
    """One row of 2000 among 40 000 others; with a sample of 300 it would be missed 99 times of 100."""
    X = np.random.default_rng(6).normal(size=(40_000, 2))
    for seed in range(5):
        heavy = np.array([5.0, seed])
        Y = np.vstack([X, np.tile(heavy, (2000, 1))])
        found = drawn(Y, seed=seed, engine=HostileEngine(seed))
        assert found[heavy.tobytes()] == 2000
        assert math.fsum(found.values()) == pytest.approx(42_000, rel=1e-12)  # the others stand for all others


def test_the_sample_is_uniform():
    rows = np.arange(40_000, dtype=float)[:, None]
    points = np.array([np.frombuffer(row)[0] for row in drawn(rows)])
    assert np.histogram(points, bins=5, range=(0, 40_000))[0].min() > 30  # 60 each; σ is 7
    assert points.mean() == pytest.approx(20_000, abs=3000)


def test_equal_numbers_have_equal_hashes():
    X = np.array([[0.0, 1.5], [-0.0, 1.5], [1.5, 0.0]])
    a, b, c = row_hashes(X, 7)
    assert a == b != c
    assert (row_hashes(X.astype(np.float32), 7) == row_hashes(X, 7)).all()
    assert (row_hashes(np.asfortranarray(X), 7) == row_hashes(X, 7)).all()
    assert (row_hashes(X, 8) != row_hashes(X, 7)).all()


def test_rows_that_share_a_hash_are_still_two_rows(monkeypatch):
    monkeypatch.setattr(sample, "row_hashes", lambda points, seed: (points[:, 0] > 0).astype(np.uint64))
    X = table(1000)
    whole = drawn(np.vstack([X, X]))
    assert whole == drawn(np.vstack([X[::-1], X]), engine=HostileEngine(0))
    assert len(whole) <= SIZE


# ---- exact sums ----------------------------------------------------------------------------------------------------


def test_exact_sums_merge_to_what_fsum_gives():
    rng = np.random.default_rng(7)
    values = rng.normal(size=900) * 10.0 ** rng.integers(-300, 300, 900)
    group = rng.integers(0, 5, 900)
    sums = [ExactSums.of_groups(values[cut], group[cut], 5) for cut in (slice(0, 10), slice(10, 700), slice(700, 900))]
    before = [pickle.dumps(one) for one in sums]
    total = sums[2].merge(sums[0]).merge(pickle.loads(before[1]))
    assert total.round().tolist() == [math.fsum(values[group == i]) for i in range(5)]
    assert [pickle.dumps(one) for one in sums] == before
    assert total.take(np.array([3, 1])).round().tolist() == total.round()[[3, 1]].tolist()


def test_exact_sums_carry_where_words_have_grown():
    total = ExactSums.of_counts(np.array([1, 5, 0, 2**39]))
    for _ in range(100):
        total = total.merge(total)
    assert total.round().tolist() == [2.0**100, 5 * 2.0**100, 0.0, 2.0**139]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_sent(value):
    _core.add_moments(np.array([[1.0], [value]]), None, np.zeros(1), (moments := ExactSums.zeros(3)).words, 1)
    sums = moments.take(np.array([0, 1]))
    numbers, planes = sums.to_wire()
    np.testing.assert_array_equal(from_wire(numbers, planes).merge(sums).round(), [4.0, value])
    assert len(planes) <= 5
