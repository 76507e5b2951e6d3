"""Laws of the objective: what the sums give is true, it falls, equal rows stay where they are, and fits end."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from knoll import KMeans, _core
from knoll._common.blocks import Block
from knoll._common.passes import OneBlock
from knoll.exceptions import ConvergenceWarning
from knoll.kmeans import lloyd
from knoll.kmeans.assignment import add_sums, assign

UNIT = 2.0**-53
DIGITS = Fraction(1, 2**36)


def clouds(apart, n=150, d=3, shift=0.0, seed=0):
    """Five clouds of width one, `apart` widths from each other."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + apart * rng.normal(size=(5, d))[rng.integers(5, size=n)] + shift


def exact_objective(X, weights, centers, labels):
    rows = [[Fraction(float(v)) for v in row] for row in X]
    means = [[Fraction(float(v)) for v in row] for row in centers]
    w = [Fraction(1)] * len(rows) if weights is None else [Fraction(float(v)) for v in weights]
    return sum(w[i] * sum((a - b) ** 2 for a, b in zip(rows[i], means[labels[i]])) for i in range(len(rows)))


def fit(X, start, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = parameters.pop("sample_weight", None)
        model = KMeans(len(start), **{"init": start, "n_init": 1, "tol": 0, **parameters})
        return model.fit(X, sample_weight=weights)


FAR = {
    "one cloud": clouds(0.0),
    "clouds 1e3 apart": clouds(1e3),
    "clouds 1e6 apart": clouds(1e6),
    "clouds 1e8 apart": clouds(1e8),
    "shifted by 1e6": clouds(3.0, shift=1e6),
    "shifted by 1e8": clouds(3.0, shift=1e8),
    "clouds 1e6 apart, shifted by 1e8": clouds(1e6, shift=1e8),
    "columns of many sizes": clouds(3.0, shift=1e4) * [1, 1e5, 1e-5],
    "float32, shifted by 1e6": clouds(30.0, shift=1e6).astype(np.float32),
    "float32, clouds 1e3 apart": clouds(1e3).astype(np.float32),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FAR)
def test_the_sums_alone_report_the_objective(name, weighted, monkeypatch):
    """No pass over the points, however little is left of their scatter; every step's value has its digits."""
    X = FAR[name]
    start = X[:7].astype(float)
    weights = np.random.default_rng(1).uniform(0.1, 2, size=len(X)) if weighted else None
    traced = []

    def traced_average(table, state, scatter, threads=1):
        new, report = average(table, state, scatter, threads)
        d2 = ((X[:, None].astype(float) - state.centers) ** 2).sum(axis=2)
        traced.append((report.objective, new.centers, d2.argmin(axis=1)))
        return new, report

    def no_pass(*_):
        raise AssertionError("a pass over the points")

    average = lloyd.average
    monkeypatch.setattr(lloyd, "average", traced_average)
    monkeypatch.setattr(lloyd, "squared_error", no_pass)
    model = fit(X, start, sample_weight=weights)
    assert model.n_iter_ > 1
    reported = {value: (centers, labels) for value, centers, labels in traced}
    for value in model.history_["objective"].tolist():
        exact = exact_objective(X, weights, *reported[value])
        assert abs(Fraction(value) - exact) <= DIGITS * exact
    exact = exact_objective(X, weights, model.cluster_centers_, model.labels_)
    assert abs(Fraction(model.inertia_) - exact) <= DIGITS * exact


@pytest.mark.parametrize("name", FAR)
def test_blocks_sparse_rows_and_threads_have_the_bits_of_the_whole(name):
    X = FAR[name]
    start = X[:7].astype(float)
    weights = np.random.default_rng(2).integers(1, 4, size=len(X)).astype(float)
    whole = fit(X, start, sample_weight=weights, n_jobs=1)
    cut = [(X[:20], weights[:20]), (X[20:21], weights[20:21]), (X[21:], weights[21:])]
    others = [
        fit(np.asfortranarray(X), start, sample_weight=weights, n_jobs=3),
        fit(scipy.sparse.csr_array(X), start, sample_weight=weights),
        fit(np.repeat(X, weights.astype(int), axis=0), start),
        KMeans(7, init=start, n_init=1, tol=0).fit_blocks(lambda: iter(cut)),
    ]
    for other in others:
        assert other.inertia_ == whole.inertia_
        np.testing.assert_array_equal(other.cluster_centers_, whole.cluster_centers_)
        np.testing.assert_array_equal(other.history_["objective"], whole.history_["objective"])


def rise_allowed(X):
    """What eq. 3.12 grants a step, and the digits of the two values."""
    n, d = X.shape
    mean = UNIT**2 * n * float(np.square(X.astype(float)).max()) * d
    return lambda value: (2 * (d + 3) * UNIT + 2 * float(DIGITS)) * value + 2 * mean


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("name", FAR)
def test_the_objective_falls(name, copies):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = np.repeat(FAR[name], copies, axis=0)
        model = fit(X, X[rng.choice(len(X), 9, replace=False)].astype(float))
        objective = model.history_["objective"]
        assert len(objective) > 1
        allowed = rise_allowed(X)
        for before, after in itertools.pairwise(objective):
            assert after <= before + allowed(before)
        if X.dtype == np.float64:  # else it is that of the centres as float32 has them
            assert model.inertia_ <= objective[-1] + allowed(objective[-1])


# ---- means are rounded once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, 1.0, 0.1, 0.3, 1 / 3, 1e-300, 1e300, "many"])
@pytest.mark.parametrize(
    ("magnitude", "dtype"),
    [(m, np.float64) for m in (1.0, 1e-300, 1e-30, 1e10, 1e300)] + [(m, np.float32) for m in (1.0, 1e-30, 1e10)],
)
def test_equal_rows_have_themselves_for_a_mean(weight, magnitude, dtype):
    rng = np.random.default_rng(0)
    for trial in range(12):
        distinct = (magnitude * rng.normal(size=(3, 4))).astype(dtype)
        copies = rng.integers(1, 40, size=3)
        X = np.repeat(distinct, copies, axis=0)
        weights = None
        if weight is not None:
            weights = rng.uniform(0.01, 3, size=len(X)) if weight == "many" else np.full(len(X), weight)
        model = fit(X, distinct.astype(float), sample_weight=weights)
        np.testing.assert_array_equal(model.cluster_centers_, distinct, err_msg=str(trial))
        assert model.inertia_ == 0
        assert model.n_iter_ == 1
        assert not model.history_["objective"].any()


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 1e-5, 1e22 / 7])
def test_any_number_of_copies_has_the_row_for_a_mean(value):
    state = lloyd.start(np.zeros((1, 2)))
    about = lloyd.TotalScatter(np.zeros(2), 0.0, 1.0)
    row = np.array([value, -7 * value])
    stats = lloyd.partial(Block(row[None], None), state, 1)
    for copies in range(1, 1001):
        new, _ = lloyd.finish(stats, state, about)
        assert new.centers.tolist() == [row.tolist()], copies
        stats = stats.merge(lloyd.partial(Block(row[None], None), state, 1))


def test_small_rows_beside_large_ones_have_themselves_for_a_mean():
    """Nothing scales these up: the quotient looks after itself."""
    rng = np.random.default_rng(1)
    for power in (-100, -400, -800, -960, -1000, -1070):
        X = np.vstack([np.ones((2, 2)), np.ldexp(rng.uniform(0.5, 1, size=(1, 2)), power).repeat(7, axis=0)])
        state = lloyd.start(X[[0, 2]])
        stats = lloyd.partial(Block(X, None), state, 1)
        new, _ = lloyd.finish(stats, state, lloyd.TotalScatter(np.zeros(2), 4.0, 9.0))
        np.testing.assert_array_equal(new.centers, X[[0, 2]])


# ---- fits end ------------------------------------------------------------------------------------------------------


def near_ties(seed):
    rng = np.random.default_rng(seed)
    n, d, offset = int(rng.integers(4, 16)), int(rng.integers(1, 4)), 10.0 ** rng.integers(0, 5)
    k = int(rng.integers(2, min(n, 6)))
    X = rng.integers(0, 2, size=(n, d)) + offset
    for _ in range(int(rng.integers(1, 3))):
        X = np.where(rng.random((n, d)) < 0.4, np.nextafter(X, np.inf), X)
    return X, X[rng.choice(n, k, replace=False)]


@pytest.mark.parametrize("empty_clusters", ["keep", "relocate"])
def test_rows_a_unit_apart_reach_a_fixed_point(empty_clusters):
    """Means that were rounded twice went round in circles here."""
    a = 1001.0
    e = np.spacing(a)
    X = np.array([a + e, 1000, a + e, a + e, a + e, a + 2 * e, 1000, a + e])[:, None]
    cases = [(X, np.array([a + 2 * e, a + e, 1000, a + e, a + e])[:, None]), *map(near_ties, range(400))]
    for X, start in cases:
        model = fit(X, start, max_iter=60, empty_clusters=empty_clusters)
        assert model.n_iter_ < 20
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        objective = model.history_["objective"]
        assert (np.diff(objective) <= rise_allowed(X)(objective[:-1])).all()


class Turning:
    """A memory that gives each row to the cluster after the closest one: the centres swap clusters for ever."""

    def __init__(self, n, d, k):
        self.labels = np.full(n, -1, dtype=np.int32)
        self.sums = np.zeros((_core.SUM_WORDS, k * (d + 1)), dtype=np.int64)

    def step(self, x, weights, centers, threads):
        assign(x, centers, self.labels, None, threads)
        self.labels = ((self.labels + 1) % len(centers)).astype(np.int32)
        self.sums.fill(0)
        add_sums(Block(x, None), self.labels, self.sums, 1)
        return len(x), 0, 0

    def round_sums(self, out, threads, low=None):
        _core.exact_round(self.sums, out, threads, low)


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("tol", [0.0, 1e-9])
def test_centres_that_come_back_end_the_fit(k, tol):
    X = np.repeat(np.arange(k, dtype=float), 3)[:, None] * 10 + np.tile([-1.0, 0.0, 1.0], k)[:, None]
    start = 10.0 * np.arange(k)[:, None] + 0.25
    memory = Turning(len(X), 1, k)
    result = lloyd.alternate(OneBlock(Block(X, None)), start, max_iter=300, tol=tol, memory=memory)
    assert k < result.n_iter <= 3 * (k + 1)  # a round, and what the rule takes to see it
    assert result.came_back
    assert result.history["changed"][-1] > 0
    assert sorted(result.centers[:, 0]) == (10.0 * np.arange(k)).tolist()
    np.testing.assert_array_equal(result.masses, np.full(k, 3.0))  # of the centres kept


def test_verbose_reports_that_centres_came_back(monkeypatch, capsys):
    monkeypatch.setattr("knoll.kmeans.estimator.memory_for", lambda points, k, algorithm: Turning(*points.shape, k))
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    model = KMeans(2, init=[[0.5], [10.5]], n_init=1, tol=0, verbose=1).fit(X)
    assert f"Converged at iteration {model.n_iter_}: centers come back" in capsys.readouterr().out
    assert model.n_iter_ < 9
