"""Laws of agglomerative clustering: no order of rows, no number of threads, and weights that are repetitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from knoll import AgglomerativeClustering
from knoll.relations._common import coarser, same_partition

LINKAGES = ("ward", "average", "complete", "single")
lattice = arrays.arrays(
    np.float64,
    st.tuples(st.integers(2, 24), st.integers(1, 3)),
    elements=st.integers(-2, 2).map(float),
)
rules = st.sampled_from(LINKAGES)


def fitted(X, rule, k=1, **options):
    return AgglomerativeClustering(k, linkage=rule, compute_distances=True, **options).fit(X)


@settings(max_examples=150, deadline=None)
@given(lattice, rules, st.randoms(use_true_random=False), st.integers(1, 6))
def test_no_order_of_the_rows_matters_however_much_is_tied(X, rule, random, k):
    k = min(k, len(X))
    order = np.array(random.sample(range(len(X)), len(X)))
    straight, shuffled = fitted(X, rule, k), fitted(X[order], rule, k)
    assert straight.distances_.tobytes() == shuffled.distances_.tobytes()
    # Equal rows are exchangeable: where k is not below their number, which of them are apart is open.
    if k <= len(np.unique(X, axis=0)):
        assert same_partition(straight.labels_[order], shuffled.labels_)


@settings(max_examples=60, deadline=None)
@given(lattice, rules, st.integers(2, 8))
def test_threads_do_not_matter(X, rule, jobs):
    one, many = fitted(X, rule, n_jobs=1), fitted(X, rule, n_jobs=jobs)
    assert one.children_.tobytes() == many.children_.tobytes()
    assert one.distances_.tobytes() == many.distances_.tobytes()


@pytest.mark.parametrize("rule", LINKAGES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_twenty_shuffles_of_many_ties(rule, dtype):
    random = np.random.default_rng(0)
    X = random.integers(0, 12, size=(700, 2)).astype(dtype)
    first = fitted(X, rule, 12)
    for jobs in (1, 2, 3, 8):
        for _ in range(5):
            order = random.permutation(len(X))
            model = fitted(X[order], rule, 12, n_jobs=jobs)
            assert same_partition(first.labels_[order], model.labels_)
            assert first.distances_.tobytes() == model.distances_.tobytes()


@settings(max_examples=60, deadline=None)
@given(lattice, rules, st.data())
def test_a_weight_is_a_number_of_repetitions(X, rule, data):
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X))))
    if not weights.any():
        weights[0] = 1
    k = data.draw(st.integers(1, len(np.unique(X[weights > 0], axis=0))))
    weighted = AgglomerativeClustering(k, linkage=rule).fit(X, sample_weight=weights)
    repeated = AgglomerativeClustering(k, linkage=rule).fit(np.repeat(X, weights, axis=0))
    present = weights > 0
    assert same_partition(np.repeat(weighted.labels_, weights), repeated.labels_)
    assert (weighted.labels_[~present] == -1).all()
    assert weighted.n_leaves_ == present.sum()
    assert len(weighted.children_) == present.sum() - 1


@settings(max_examples=60, deadline=None)
@given(lattice, rules)
def test_cuts_nest_and_heights_never_fall(X, rule):
    model = fitted(X, rule)
    assert (np.diff(model.distances_) >= 0).all()
    labels = [AgglomerativeClustering(k, linkage=rule).fit(X).labels_ for k in range(1, len(X) + 1)]
    for few, many in itertools.pairwise(labels):
        assert coarser(many, few)
    assert [label.max() + 1 for label in labels] == list(range(1, len(X) + 1))


@settings(max_examples=40, deadline=None)
@given(lattice, rules, st.sampled_from([-900, -300, 40, 300, 900]))
def test_units_do_not_matter(X, rule, power):
    plain, scaled = fitted(X, rule), fitted(np.ldexp(X, power), rule)
    assert plain.children_.tobytes() == scaled.children_.tobytes()
    np.testing.assert_allclose(np.ldexp(plain.distances_, power), scaled.distances_, rtol=1e-14)


@pytest.mark.parametrize("rule", LINKAGES)
def test_a_long_chain_needs_no_recursion(rule):
    """Every merge but the first joins one row: the deepest tree there is."""
    n = 20_000 if rule in ("ward", "single") else 1_500
    X = np.cumsum(1.0 + np.arange(n) / n)[:, None] ** (1 if rule == "single" else 2)
    model = fitted(X, rule, 3)
    assert model.labels_.max() == 2
    assert len(model.children_) == n - 1
