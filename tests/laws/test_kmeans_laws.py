"""Laws of k-means: what must hold for any data."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knoll import KMeans, reference
from knoll.exceptions import ConvergenceWarning

seeds = st.integers(0, 2**32 - 1)
algorithms = st.sampled_from(["auto", "lloyd", "hamerly", "elkan"])


@contextlib.contextmanager
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def cloud(seed: int, n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + rng.normal(scale=4, size=(3, d))[rng.integers(3, size=n)]


def same(a: KMeans, b: KMeans, *names: str) -> None:
    for name in names or ("cluster_centers_", "labels_", "inertia_", "n_iter_", "cluster_weights_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@settings(deadline=None, max_examples=60)
@given(seed=seeds, n=st.integers(4, 120), d=st.integers(1, 6), k=st.integers(2, 12), algorithm=algorithms)
def test_equals_the_reference(seed, n, d, k, algorithm):
    assume(k <= n)
    X = np.round(cloud(seed, n, d) * 2) / 2  # halves: ties and duplicates
    start = X[np.random.default_rng(seed).choice(n, k, replace=False)]
    with quietly():
        model = KMeans(k, init=start, tol=0, algorithm=algorithm, empty_clusters="keep").fit(X)
    last = reference.run(reference.kmeans(X, start))
    np.testing.assert_array_equal(model.labels_, last.labels)
    np.testing.assert_array_equal(model.cluster_centers_, last.mu)
    assert model.inertia_ == pytest.approx(last.objective, rel=1e-10, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(50, 3000), d=st.integers(1, 20), k=st.integers(2, 40), dtype=st.sampled_from("df"))
def test_all_algorithms_give_the_same_bits(seed, n, d, k, dtype):
    assume(k <= n)
    X = cloud(seed, n, d).astype(dtype)
    models = [
        KMeans(k, init="random", n_init=1, random_state=seed, algorithm=algorithm, n_jobs=jobs).fit(X)
        for algorithm, jobs in [("lloyd", 1), ("hamerly", 2), ("elkan", 3), ("auto", None)]
    ]
    for other in models[1:]:
        same(models[0], other)
        np.testing.assert_array_equal(models[0].history_["objective"], other.history_["objective"])
        assert other.n_distances_ >= 0


@settings(deadline=None, max_examples=60)
@given(seed=seeds, n=st.integers(10, 400), d=st.integers(1, 5), k=st.integers(1, 20), weighted=st.booleans())
def test_the_objective_never_rises_and_ends_at_the_inertia(seed, n, d, k, weighted):
    assume(k <= n)
    X = cloud(seed, n, d)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(size=n) if weighted else None
    # a start far off makes clusters empty, so that relocation is seen too
    start = X[rng.choice(n, k, replace=False)] + rng.choice([0.0, 100.0], size=(k, 1), p=[0.7, 0.3])
    model = KMeans(k, init=start, tol=0).fit(X, sample_weight=weights)
    objective = model.history_["objective"]
    scale = 1e-12 * float((np.ones(n) if weights is None else weights) @ ((X - X.mean(axis=0)) ** 2).sum(axis=1))
    assert (np.diff(objective) <= scale).all()
    assert model.inertia_ == pytest.approx(objective[-1], rel=1e-9, abs=scale)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.history_["changed"][-1] == 0


@settings(deadline=None, max_examples=40)
@given(
    seed=seeds,
    n=st.integers(5, 200),
    d=st.integers(1, 4),
    k=st.integers(1, 8),
    init=st.sampled_from(["random", "k-means++"]),
)
def test_a_weight_is_a_number_of_repetitions_from_the_start_on(seed, n, d, k, init):
    X = cloud(seed, n, d)
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, size=n)
    assume(np.count_nonzero(weights) >= k)
    parameters = {"n_clusters": k, "init": init, "random_state": seed % 1000, "n_init": 2}
    weighted = KMeans(**parameters).fit(X, sample_weight=weights)
    repeated = KMeans(**parameters).fit(np.repeat(X, weights, axis=0))
    same(weighted, repeated, "cluster_centers_", "inertia_", "n_iter_", "cluster_weights_")
    np.testing.assert_array_equal(np.repeat(weighted.labels_, weights), repeated.labels_)
    np.testing.assert_array_equal(weighted.history_["objective"], repeated.history_["objective"])


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(5, 300), d=st.integers(1, 4), k=st.integers(1, 8), lattice=st.booleans())
def test_the_order_of_rows_changes_nothing(seed, n, d, k, lattice):
    assume(k <= n)
    X = np.round(cloud(seed, n, d)) if lattice else cloud(seed, n, d)
    order = np.random.default_rng(seed).permutation(n)
    with quietly():
        a = KMeans(k, random_state=3).fit(X)
        b = KMeans(k, random_state=3).fit(X[order])
    same(a, b, "cluster_centers_", "inertia_", "n_iter_", "cluster_weights_")
    np.testing.assert_array_equal(a.labels_[order], b.labels_)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, d=st.integers(1, 4), k=st.integers(1, 8))
def test_translation_carries_the_centres_along(seed, d, k):
    X = np.round(cloud(seed, 128, d) * 2**20) / 2**20  # so that adding whole numbers is exact
    by = np.random.default_rng(seed).integers(-(2**20), 2**20, size=d).astype(float)
    a = KMeans(k, init=X[:k], tol=0).fit(X)
    b = KMeans(k, init=X[:k] + by, tol=0).fit(X + by)
    np.testing.assert_array_equal(b.labels_, a.labels_)
    np.testing.assert_allclose(b.cluster_centers_ - by, a.cluster_centers_, atol=1e-9)
    assert b.inertia_ == pytest.approx(a.inertia_, rel=1e-8)


@settings(deadline=None, max_examples=40)
@given(
    seed=seeds,
    power=st.sampled_from([-900, -500, -200, -33, -3, 7, 31, 40, 300, 498, 900]),
    k=st.integers(1, 9),
    weight_power=st.sampled_from([-900, 0, 900]),
)
def test_scaling_by_a_power_of_two_is_exact(seed, power, k, weight_power):
    X = np.round(cloud(seed, 150, 3) * 2**10) / 2**10
    weights = np.random.default_rng(seed).integers(1, 4, size=150).astype(float)
    plain = KMeans(k, random_state=1).fit(X, sample_weight=weights)
    scaled = KMeans(k, random_state=1).fit(np.ldexp(X, power), sample_weight=np.ldexp(weights, weight_power))
    np.testing.assert_array_equal(scaled.labels_, plain.labels_)
    np.testing.assert_array_equal(scaled.cluster_centers_, np.ldexp(plain.cluster_centers_, power))
    np.testing.assert_array_equal(scaled.cluster_weights_, np.ldexp(plain.cluster_weights_, weight_power))
    with np.errstate(over="ignore", under="ignore"):
        assert scaled.inertia_ == np.ldexp(plain.inertia_, 2 * power + weight_power)
        np.testing.assert_array_equal(scaled.transform(np.ldexp(X, power)), np.ldexp(plain.transform(X), power))
    assert scaled.n_iter_ == plain.n_iter_
    np.testing.assert_array_equal(scaled.predict(np.ldexp(X, power)), plain.labels_)


@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("container", [np.array, scipy.sparse.csr_matrix])
def test_the_start_knows_neither_units_nor_constant_columns(init, container):
    """Extreme data loses its constant columns before the start is drawn; the same rows are drawn where they stay."""
    for seed in range(10):
        X = np.insert(cloud(seed, 60, 2), 1, 3.7, axis=1)
        model = KMeans(5, init=init, n_init=1, random_state=seed)
        labels = model.fit(container(X)).labels_
        for power in (-99, 99, 900):
            np.testing.assert_array_equal(model.fit(container(np.ldexp(X, power))).labels_, labels)


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_a_float32_copy_of_a_table_gives_the_same_clusters(init):
    for seed in range(10):
        X = cloud(seed, 300, 3)
        fits = [KMeans(4, init=init, n_init=1, random_state=seed).fit(X.astype(dtype)) for dtype in (float, np.float32)]
        np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)
        np.testing.assert_allclose(fits[0].cluster_centers_, fits[1].cluster_centers_, rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    seed=seeds,
    n=st.integers(20, 9000),
    d=st.integers(1, 3),
    k=st.integers(1, 9),
    cuts=st.lists(st.integers(0, 9000), max_size=6),
    weighted=st.booleans(),
    by_name=st.booleans(),
)
def test_any_cuts_give_the_bits_of_the_whole(seed, n, d, k, cuts, weighted, by_name):
    X = cloud(seed, n, d)
    weights = np.random.default_rng(seed).integers(0, 3, size=n).astype(float) if weighted else np.ones(n)
    assume(np.count_nonzero(weights) >= k)
    init = "k-means++" if by_name else X[:k] + np.where(np.arange(k) == 1, 1e3, 0.0)[:, None]
    whole = KMeans(k, init=init, random_state=5).fit(X, sample_weight=weights)
    pairs = list(zip(np.split(X, sorted(cuts)), np.split(weights, sorted(cuts))))
    by_blocks = KMeans(k, init=init, random_state=5).fit_blocks(lambda: pairs)
    same(whole, by_blocks, "cluster_centers_", "inertia_", "n_iter_", "cluster_weights_")
    for name in ("objective", "changed"):
        np.testing.assert_array_equal(whole.history_[name], by_blocks.history_[name])
    assert not hasattr(by_blocks, "labels_")
    np.testing.assert_array_equal(by_blocks.predict(X), whole.labels_)


@settings(deadline=None, max_examples=40)
@given(rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30), k=st.integers(1, 12))
def test_fewer_distinct_points_than_clusters(rows, k):
    X = np.array(rows, dtype=float)
    assume(k <= len(X))
    distinct = len(np.unique(X, axis=0))
    with quietly():
        model = KMeans(k, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert len(np.unique(model.labels_)) <= min(k, distinct)
    if k >= distinct:
        assert model.inertia_ == 0
        assert len(np.unique(model.labels_)) == distinct
    assert np.isfinite(model.cluster_centers_).all()


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(6, 80), k=st.integers(2, 6), lattice=st.booleans())
def test_relocation_leaves_no_cluster_empty_where_points_suffice(seed, n, k, lattice):
    X = np.round(cloud(seed, n, 2)) if lattice else cloud(seed, n, 2)
    assume(len(np.unique(X, axis=0)) >= k)
    start = np.vstack([X[:1], np.full((k - 1, 2), 1e4)])  # every point with the first centre
    model = KMeans(k, init=start, tol=0).fit(X)
    with quietly():
        kept = KMeans(k, init=start, tol=0, empty_clusters="keep").fit(X)
    assert (model.cluster_weights_ > 0).all()
    assert np.count_nonzero(kept.cluster_weights_) == 1
    np.testing.assert_array_equal(kept.cluster_centers_[1:], start[1:])
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.inertia_ <= kept.inertia_


@pytest.mark.parametrize(("scale", "absent"), [(1.0, 1.7e308), (1.0, -1e200), (1e-200, 1.0), (1e-160, 3e-100)])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_an_absent_row_is_absent_however_large(scale, absent, form):
    """A value that stands for "no data" must not choose the scale in which the others are compared."""
    X = scale * cloud(0, 60, 2)
    present = KMeans(3, random_state=0).fit(X)
    rows, weights = np.vstack([X, np.full((2, 2), absent)]), np.r_[np.ones(60), np.zeros(2)]
    table = scipy.sparse.csr_array(rows) if form == "sparse" else rows
    model = KMeans(3, random_state=0).fit(table, sample_weight=weights)
    same(model, present, "cluster_centers_", "inertia_", "n_iter_", "cluster_weights_")
    np.testing.assert_array_equal(model.labels_[:60], present.labels_)
    np.testing.assert_array_equal(model.labels_, model.predict(table))
    cuts = [(rows[:10], weights[:10]), (rows[10:], weights[10:]), (rows[-2:], np.zeros(2))]
    same(KMeans(3, random_state=0).fit_blocks(lambda: cuts), present, "cluster_centers_", "inertia_")
    first, batch = KMeans(3, random_state=0).partial_fit(X), KMeans(3, random_state=0)
    batch.partial_fit(table, sample_weight=weights)
    same(batch, first, "cluster_centers_", "inertia_")
    np.testing.assert_array_equal(batch.labels_, batch.predict(table))


@pytest.mark.parametrize("scale", [2.0**-1030, 2.0**500])
def test_an_absent_row_of_extreme_data_gives_its_column_no_second_value(scale):
    """A column of one value is taken out before data is scaled; a row of weight 0 must not keep it in."""
    X, start = scale * np.array([[-9.0], [-8.0]]), scale * np.array([[-8.5]])
    model = KMeans(1, init=start, tol=0.0).fit(X, sample_weight=[1.0, 0.0])
    alone = KMeans(1, init=start, tol=0.0).fit(X[:1])
    same(model, alone, "cluster_centers_", "inertia_", "n_iter_", "cluster_weights_")
    cuts = [(X[:1], np.ones(1)), (X[1:], np.zeros(1))]
    same(KMeans(1, init=start, tol=0.0).fit_blocks(lambda: cuts), alone, "cluster_centers_", "inertia_", "n_iter_")


@pytest.mark.parametrize("power", [-500, 0, 500])
def test_a_start_beside_rows_of_one_value_is_measured_in_their_unit(power):
    """An empty cluster keeps its start, to the bit."""
    X, start = np.ldexp([[-3.9, -1.7], [-0.2, -0.1]], power), np.ldexp([[-0.2, -0.1], [-3.9, -1.7]], power)
    with quietly():
        model = KMeans(2, init=start, tol=0.0, empty_clusters="keep").fit(X, sample_weight=[1.0, 0.0])
    assert model.labels_.tolist() == [1, 0]
    np.testing.assert_array_equal(model.cluster_centers_, start)


def test_light_rows_keep_small_entries_beside_far_larger_ones():
    """Products w·x are added in one unit for all rows: it leaves room for a light row whose entries differ widely."""
    X, weights = np.array([[0.0, 0.0], [5.9e299, -21.5], [1.9e292, 21.75]]), np.array([1.0, 1e-105, 1e-105])
    model = KMeans(3, init=X, tol=0.0).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.cluster_centers_, X)
    np.testing.assert_array_equal(model.cluster_weights_, weights)
    blocks = KMeans(3, init=X, tol=0.0).fit_blocks(lambda: [(X[:1], weights[:1]), (X[1:], weights[1:])])
    same(blocks, model, "cluster_centers_", "inertia_", "cluster_weights_")


def test_predict_of_the_training_rows_is_labels_beside_tiny_centres():
    """The centres are so small that `predict` scales each row; the fit must have given the same."""
    X, weights = np.array([[0.0, 1.0], [5e-324, 0.0], [0.0, 0.0]]), [0.0, 1.0, 1.0]
    with quietly():
        model = KMeans(2, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
