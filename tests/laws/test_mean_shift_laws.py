"""Laws of Mean Shift: the ascent, fixed points, the reference step by step, and what must not change the answer."""

from __future__ import annotations

import itertools
import math
import signal
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knoll import MeanShift, reference
from knoll.density.ascent import KernelDensity
from knoll.exceptions import BadData

FLAT = 10**9


@st.composite
def points(draw, most: int = 40):
    """Clouds, and lattices on which distances tie."""
    seed, n, d = draw(st.integers(0, 10**6)), draw(st.integers(1, most)), draw(st.integers(1, 5))
    generator = np.random.default_rng(seed)
    if draw(st.booleans()):
        return generator.integers(0, 5, size=(n, d)).astype(float), float(draw(st.sampled_from([1.0, 2.0, 0.5])))
    return generator.normal(size=(n, d)), draw(st.floats(0.1, 3.0))


def altitude(y, X, eps):
    return math.fsum(max(0.0, eps * eps - math.fsum((y - x) ** 2)) for x in X)


@given(points())
@settings(max_examples=60, deadline=None)
def test_no_step_descends(case):
    """f(y⁺) ≥ f(y) + n‖y⁺ − y‖²   (eq. 6.2)."""
    X, eps = case
    for path in KernelDensity(X, None, eps).paths(X, FLAT):
        for y, after in itertools.pairwise(path):
            n = np.count_nonzero(np.sqrt(((X - y) ** 2).sum(axis=1)) <= eps)
            gain = altitude(after, X, eps) - altitude(y, X, eps)
            assert gain >= n * math.fsum((after - y) ** 2) - 1e-12 * (1 + len(X) * eps * eps)


@given(points())
@settings(max_examples=60, deadline=None)
def test_every_path_is_the_references_step_by_step(case):
    X, eps = case
    states = list(reference.mean_shift(X, eps))
    last = states[-1]
    density = KernelDensity(X, None, eps, threads=2)
    ends = density.ascend(X, FLAT)
    assert (ends.points == last.X_climb).all()
    assert (ends.weight == last.n_neighbors).all()
    assert ends.steps.max() == last.iteration
    for i, path in enumerate(density.paths(X, FLAT)):
        assert len(path) == ends.steps[i] + 1
        for position, state in zip(path, states, strict=False):
            assert (position == state.X_climb[i]).all()
    same = MeanShift(bandwidth=eps, max_iter=FLAT).fit(X).labels_
    assert (same[:, None] == same).tolist() == (last.labels[:, None] == last.labels).tolist()
    noise = MeanShift(bandwidth=eps, cluster_all=False, max_iter=FLAT).fit(X).labels_ == -1
    assert (noise == last.outliers).all()


@given(points(), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_an_ascent_with_a_level_is_the_references(case, level):
    X, eps = case
    last = reference.run(reference.dbscan_climbing(X, eps, level))
    ends = KernelDensity(X, None, eps, threads=2).ascend(X, FLAT, level=float(level))
    assert (ends.points == last.X_climb).all()
    assert (ends.weight == last.n_neighbors).all()


@given(points(), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_a_higher_level_only_makes_paths_longer(case, level):
    """The path at level m is a prefix of the path at m + 1 (docs/theory/errata.md, item 7)."""
    X, eps = case
    density = KernelDensity(X, None, eps)
    low, high = (density.ascend(X, FLAT, level=float(m)) for m in (level, level + 1))
    assert (low.steps <= high.steps).all()
    for i, path in enumerate(density.paths(X, FLAT)):
        assert (path[low.steps[i]] == low.points[i]).all()
        assert (path[high.steps[i]] == high.points[i]).all()


@given(points())
@settings(max_examples=60, deadline=None)
def test_every_end_is_a_fixed_point(case):
    X, eps = case
    model = MeanShift(bandwidth=eps, max_iter=FLAT).fit(X)
    for end in model.peaks_:
        inside = X[np.sqrt(reference._common.squared_distances(end[None], X)[0]) <= eps]
        assert (end == reference._common.mean(inside)).all()


@given(points())
@settings(max_examples=40, deadline=None)
def test_the_order_of_the_rows_changes_nothing(case):
    X, eps = case
    order = np.random.default_rng(1).permutation(len(X))
    here, there = MeanShift(bandwidth=eps).fit(X), MeanShift(bandwidth=eps).fit(X[order])
    assert (here.climbed_[order] == there.climbed_).all()
    assert (here.labels_[order] == there.labels_).all()
    assert (here.cluster_centers_ == there.cluster_centers_).all()


@given(points(), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_a_weight_is_a_number_of_repetitions(case, seed):
    X, eps = case
    weights = np.random.default_rng(seed).integers(0, 4, size=len(X))
    weights[0] = 1
    weighted = MeanShift(bandwidth=eps, cluster_all=False).fit(X, sample_weight=weights)
    repeated = MeanShift(bandwidth=eps, cluster_all=False).fit(np.repeat(X, weights, axis=0))
    present = weights > 0
    assert (np.repeat(weighted.climbed_, weights, axis=0) == repeated.climbed_).all()
    assert (np.repeat(weighted.labels_, weights) == repeated.labels_).all()
    assert (weighted.cluster_centers_ == repeated.cluster_centers_).all()
    absent = MeanShift(bandwidth=eps, cluster_all=False).fit(X[present], sample_weight=weights[present] * 1.0)
    assert (absent.labels_ == weighted.labels_[present]).all()
    assert (absent.predict(X) == weighted.labels_).all()


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(-1000, 1000))
@settings(max_examples=40, deadline=None)
def test_points_moved_by_a_whole_number_have_the_same_paths(seed, d, offset):
    """Multiples of 2^-30 stay exact; means are rounded, by far less than any point is off a sphere."""
    X = np.round(np.random.default_rng(seed).normal(size=(40, d)) * 2**30) / 2**30
    here, there = MeanShift(bandwidth=1.1).fit(X), MeanShift(bandwidth=1.1).fit(X + offset)
    assert (there.n_steps_ == here.n_steps_).all()
    assert (there.labels_ == here.labels_).all()
    np.testing.assert_allclose(there.climbed_ - offset, here.climbed_, rtol=0, atol=1e-12)


@given(points(), st.integers(-900, 900))
@settings(max_examples=40, deadline=None)
def test_powers_of_two_scale_the_answer_exactly(case, power):
    X, eps = case
    here = MeanShift(bandwidth=eps).fit(X)
    there = MeanShift(bandwidth=math.ldexp(eps, power)).fit(np.ldexp(X, power))
    assert (there.climbed_ == np.ldexp(here.climbed_, power)).all()
    assert (there.n_steps_ == here.n_steps_).all()
    assert (there.labels_ == here.labels_).all()


# ---- beside exact rationals, where bandwidth, weights and data are far from each other -------------------------------


def exact_neighbours(y, X, eps):
    """Rows within eps; None where a distance is too close to it for float64."""
    squares = [sum((a - b) ** 2 for a, b in zip(y, x, strict=True)) for x in X]
    if any(abs(s - eps**2) < eps**2 / 10**9 for s in squares):
        return None
    return [i for i, s in enumerate(squares) if s <= eps**2]


def exact_end(y, X, weights, eps):
    """Follow the path in rationals: its end and the rows around it; None where float64 may decide otherwise."""
    before = None
    while True:
        near = exact_neighbours(y, X, eps)
        if near is None:
            return None
        if not near or near == before:
            return y, near
        total = sum(weights[i] for i in near)
        y = [sum(weights[i] * X[i][j] for i in near) / total for j in range(len(y))]
        before = near


def extreme_case(seed):
    """A few rows, a bandwidth and weights, the exponents of which are drawn from most of float64's."""
    generator = np.random.default_rng(seed)
    n, d = generator.integers(2, 7), generator.integers(1, 3)
    exponent = int(generator.integers(-300, 280))
    X = (generator.uniform(-1, 1, size=(n, d)) + generator.choice([0.0, 5.0])) * 10.0**exponent
    if seed % 3 == 0:
        X *= 10.0 ** generator.integers(-140, 20, size=(n, 1))
    wide = int(np.clip(exponent + generator.choice([0, generator.integers(-100, 400)]), -308, 307))
    eps = generator.uniform(0.3, 1.7) * 10.0**wide
    weights = generator.uniform(0.5, 2, size=n) * 10.0 ** generator.integers(-300, 300, size=n if seed % 2 else 1)
    return X, eps, None if seed % 5 == 0 else weights


@pytest.mark.parametrize("seed", range(120))
def test_ends_are_the_exact_means_whatever_the_magnitudes(seed):
    X, eps, weights = extreme_case(seed)
    queries = np.vstack([X, np.full((1, X.shape[1]), [-1e200, 1e308, 1e-300, 5.0][seed % 4])])
    if eps < 1e-280 * np.abs(X).max():
        with pytest.raises(BadData, match="cannot hold the squares of both"):
            MeanShift(bandwidth=eps).fit(X, sample_weight=weights)
        return
    model = MeanShift(bandwidth=eps).fit(X, sample_weight=weights)
    assert (model.predict(X) == model.labels_).all()
    assert math.isfinite(model.history_["objective"][0])
    rows = [[Fraction(float(x)) for x in row] for row in X]
    mass = [Fraction(1)] * len(X) if weights is None else [Fraction(float(w)) for w in weights]
    paths = model.paths(queries)
    for i, (query, path) in enumerate(zip(queries, paths, strict=True)):
        assert (path[0] == query).all()
        if i < len(X):
            assert (path[-1] == model.climbed_[i]).all()
        expected = exact_end([Fraction(float(x)) for x in query], rows, mass, Fraction(eps))
        if expected is not None:
            end, near = expected
            size = np.abs(X[near]).max(axis=0) if near else np.zeros(X.shape[1])  # nothing near: it stays, to the bit
            assert (np.abs(path[-1] - [float(x) for x in end]) <= 1e-13 * size + 1e-323).all()


@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
@pytest.mark.parametrize("how", [{}, {"assign": "nearest"}, {"bin_seeding": True}, {"seeds": [[1e-290, 0.0]]}])
@pytest.mark.parametrize("size", [1e-300, 1e-35, 1.0, 1e200])
@pytest.mark.parametrize("weight", [None, 1e-300, 1e-20, 1e300])
def test_a_bandwidth_that_covers_everything_ends_at_the_mean(kernel, how, size, weight):
    X = size * np.array([[1.0, 0.0], [3.0, 1.0], [2.0, 5.0]])
    weights = None if weight is None else np.full(3, weight)
    model = MeanShift(bandwidth=1e305, kernel=kernel, **how)
    if how == {"bin_seeding": True} and weights is not None and weight < 0.1:
        with pytest.raises(BadData, match="no bin of width"):  # a weight is a number of rows
            model.fit(X, sample_weight=weights)
        return
    model.fit(X, sample_weight=weights)
    np.testing.assert_allclose(model.cluster_centers_, [[2 * size, 2 * size]], rtol=1e-15)
    np.testing.assert_allclose(model.climbed_, np.tile([2 * size, 2 * size], (len(model.climbed_), 1)), rtol=1e-15)
    assert model.history_["objective"][0] == pytest.approx(3 * (weight or 1.0), rel=1e-12)
    far = [[1e304, 0.0], [0.0, -1e308], [size, size]]
    assert model.predict(far).tolist() == [0, 0, 0]
    if how == {}:  # the second is beyond the bandwidth (beyond what a Gaussian reaches): it stays
        ends = np.array([path[-1] for path in model.paths(far)])
        np.testing.assert_allclose(ends, [[2 * size, 2 * size], [0.0, -1e308], [2 * size, 2 * size]], rtol=1e-15)
        noise = MeanShift(bandwidth=1e305, kernel=kernel, cluster_all=False).fit(X, sample_weight=[1e9] * 3)
        assert noise.predict(far).tolist() == [0, -1, 0]


@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e-20, 1e150, 1e300])
def test_a_common_factor_of_the_weights_changes_nothing_but_the_objective(kernel, factor):
    generator = np.random.default_rng(5)
    X, weights = generator.normal(size=(60, 2)), generator.uniform(0.5, 2.0, size=60)
    plain = MeanShift(bandwidth=0.7, kernel=kernel).fit(X, sample_weight=weights)
    other = MeanShift(bandwidth=0.7, kernel=kernel).fit(X, sample_weight=weights * factor)
    assert (other.labels_ == plain.labels_).all()
    np.testing.assert_allclose(other.cluster_centers_, plain.cluster_centers_, rtol=1e-9, atol=1e-12)
    assert other.history_["objective"][0] == pytest.approx(plain.history_["objective"][0] * factor, rel=1e-9)


@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
def test_light_rows_far_from_heavy_ones_have_their_own_mean(kernel):
    """1·0 + 3·1 over 4, beside weights 1e250 times theirs."""
    X = np.array([[0.0], [1.0], [500.0]])
    model = MeanShift(bandwidth=20.0, kernel=kernel).fit(X, sample_weight=np.array([1e-150, 3e-150, 1e100]))
    assert model.labels_.tolist() == [1, 1, 0]
    np.testing.assert_allclose(model.climbed_[:2], [[0.75], [0.75]], rtol=1e-3 if kernel == "gaussian" else 1e-15)


def test_gaussian_weights_that_no_sum_holds_are_refused():
    with pytest.raises(BadData, match=r"sample weights go from 1e-300 to 1e\+300: no float64 holds the Gaussian sums"):
        MeanShift(bandwidth=1.0, kernel="gaussian").fit([[0.0], [9.0]], sample_weight=[1e-300, 1e300])


@pytest.mark.parametrize("assign", ["climb", "nearest"])
@pytest.mark.parametrize("cluster_all", [True, False])
@pytest.mark.parametrize(
    "column",
    [
        [1.5e178, 2.980, 2.982, -8.8e178],
        [1.0, 1e-170, 3e-170, 1e-170],
        [5e-324, 1e-323, 0.0, 1.7e308],
        [1e-200, 2e-200, 2e-200],
        [1.0, 1.0, 1.0],
    ],
)
def test_an_estimated_bandwidth_of_zero_joins_equal_rows_alone(column, cluster_all, assign):
    """However close the others are: squares of their differences vanish."""
    X = np.array(column)[:, None]
    model = MeanShift(assign=assign, cluster_all=cluster_all).fit(X)
    assert model.bandwidth_ == 0
    assert (model.predict(X) == model.labels_).all()
    same = X == X.T
    together = model.labels_[:, None] == model.labels_
    alone = same.sum(axis=1) == 1 if not cluster_all and assign == "climb" else np.zeros(len(X), bool)
    assert (together == same)[~alone].all()
    assert (model.labels_[alone] == -1).all()
    assert (model.climbed_ == X).all()
    paths = model.paths(X)
    assert [len(path) - 1 for path in paths] == model.n_steps_.tolist()
    if cluster_all:
        assert model.predict(X + np.abs(X) * 1e-9).tolist() == model.labels_.tolist()  # the nearest end


def test_bins_beyond_float32_keep_their_rows():
    model = MeanShift(bandwidth=1.0, bin_seeding=True).fit([[0.0], [0.1], [2.0**200]])
    assert model.cluster_centers_.ravel().tolist() == [0.05, 2.0**200]
    assert model.labels_.tolist() == [0, 0, 1]


def test_the_density_of_a_gaussian_ascent_never_falls():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = MeanShift(bandwidth=0.6, kernel="gaussian").fit(X)
    for path in model.paths(X[::7]):
        density = [np.exp(-((X - y) ** 2).sum(axis=1) / (2 * 0.6**2)).sum() for y in path]
        assert (np.diff(density) >= -1e-10).all()


@pytest.mark.filterwarnings("ignore:.*paths had not ended:knoll.exceptions.ConvergenceWarning")
@given(points(), st.integers(0, 10**6))
@example((np.array([[4.0], [3.0]]), 0.5), 1)  # two rows 2σ apart: the density is flat to the fourth order between them
@settings(max_examples=40, deadline=None)
def test_a_gaussian_ascent_sees_a_set_not_its_order(case, seed):
    """Sums of Gaussian weights are rounded, and clusters numbered by them: no order may reach their last bits.

    Nor where paths end by max_iter.
    """
    X, eps = case
    generator = np.random.default_rng(seed)
    times = generator.integers(1, 4, size=len(X))
    order = generator.permutation(np.repeat(np.arange(len(X)), times))
    options = {"bandwidth": eps, "kernel": "gaussian", "max_iter": 5000}
    whole = MeanShift(**options).fit(X, sample_weight=times)
    repeated = MeanShift(**options).fit(X[order])
    assert repeated.climbed_.tobytes() == whole.climbed_[order].tobytes()
    assert (repeated.labels_ == whole.labels_[order]).all()
    assert (repeated.cluster_centers_ == whole.cluster_centers_).all()


def test_threads_and_memo_change_nothing_on_larger_data():
    """Enough paths that most of them end by joining another."""
    generator = np.random.default_rng(3)
    X = generator.normal(size=(6000, 2)) + generator.integers(0, 3, size=(6000, 1)) * 4
    density = KernelDensity(X, None, 0.9, threads=1)
    one, four = density.ascend(X, 300), KernelDensity(X, None, 0.9, threads=4).ascend(X, 300)
    for a, b in zip((one.points, one.steps, one.weight), (four.points, four.steps, four.weight), strict=True):
        assert (a == b).all()
    alone = density.paths(X[::50], 300)
    assert [len(path) - 1 for path in alone] == one.steps[::50].tolist()
    assert all((path[-1] == end).all() for path, end in zip(alone, one.points[::50], strict=True))


def test_a_limit_of_steps_cuts_paths_whether_they_join_others_or_not():
    X = np.random.default_rng(4).normal(size=(2000, 2))
    density = KernelDensity(X, None, 0.5, threads=2)
    full = density.paths(X[::20], 300)
    for limit in (0, 1, 5, 12):
        cut = density.ascend(X, limit)
        for path, end, steps in zip(full, cut.points[::20], cut.steps[::20], strict=True):
            assert steps == min(limit, len(path) - 1)
            assert (end == path[steps]).all()


@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
def test_it_can_be_interrupted(kernel):
    X = np.random.default_rng(0).normal(size=(150_000, 3))
    model = MeanShift(bandwidth=1.0, kernel=kernel)
    timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
    begun = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    timer.cancel()
    assert time.monotonic() - begun < 3.0  # a machine that is busy included; the core polls before every step
    assert not hasattr(model, "labels_")
