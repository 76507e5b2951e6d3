"""docs/theory/errata.md, items 11 to 14: the climb, its law and its ends."""

import itertools
import random

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knoll.reference import mean_shift, run
from knoll.reference._common import mean

EPS = 1.0
clouds = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.tuples(*[st.floats(-2, 2)] * d), min_size=1, max_size=12)
).map(lambda rows: np.array(rows, dtype=float).reshape(len(rows), -1))  # fmt: skip

quick = settings(max_examples=40, deadline=None)


def column(*values):
    return np.array(values, dtype=float)[:, None]


def f(y, X):
    """eq. 6.1, written again."""
    return np.maximum(0, EPS**2 - ((X - y) ** 2).sum(axis=1)).sum()


def kde(y, X, profile, h):
    """eq. 5.7 up to its constant."""
    return sum(profile(((y - x) ** 2).sum() / h**2) for x in X)


def test_11_the_step_ascends_epanechnikov_and_descends_the_printed_profile():
    X, y = column(0, 0.25, 1), np.array([0.0])
    y_new = mean(X)  # all three are neighbours of 0
    assert kde(y_new, X, lambda s: max(0, 1 - s), EPS) > kde(y, X, lambda s: max(0, 1 - s), EPS)
    # κ′ = +Heaviside belongs to the profile min(s, 1), and its estimator falls along the same step
    assert kde(y_new, X, lambda s: min(s, 1), EPS) < kde(y, X, lambda s: min(s, 1), EPS)


def test_11_the_bandwidth_is_eps_not_one():
    X = column(0, 3, 4)
    state = run(mean_shift(X, 5.0))
    np.testing.assert_array_equal(state.X_climb.ravel(), [7 / 3] * 3)
    h = 1.0  # as printed: only points within 1 of 0 would pull at it
    printed = X[np.abs(X.ravel()) <= h].mean()
    assert printed == 0.0


@quick
@given(clouds)
def test_12_every_step_gains_at_least_n_times_the_squared_step(X):
    for before, after in itertools.pairwise(mean_shift(X, EPS)):
        gain = after.f - before.f
        step2 = ((after.X_climb - before.X_climb) ** 2).sum(axis=1)
        assert (gain >= before.n_neighbors * step2 - 1e-12 * (1 + before.f)).all()
        np.testing.assert_allclose(after.f, [f(y, X) for y in after.X_climb], rtol=1e-12, atol=1e-12)


def test_12_the_constant_one_is_sharp():
    X = column(0, 0.5)  # the set of neighbours stays the same: equality
    start, after = list(mean_shift(X, EPS))[:2]
    assert (after.f - start.f == start.n_neighbors * (after.X_climb - start.X_climb).ravel() ** 2).all()
    assert (after.X_climb != start.X_climb).all()


@quick
@given(clouds)
def test_12_the_gradient_off_the_spheres(X):
    start, after = list(mean_shift(X, EPS))[:2]
    d = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    assume(np.abs(d - EPS).min() > 1e-3)
    for i, y in enumerate(X):
        for j, u in enumerate(np.eye(X.shape[1])):
            slope = (f(y + 1e-5 * u, X) - f(y - 1e-5 * u, X)) / 2e-5
            expected = 2 * start.n_neighbors[i] * (after.X_climb[i] - y)[j]
            np.testing.assert_allclose(slope, expected, atol=1e-6)


def test_12_no_gradient_on_a_sphere():
    X = column(0, 1)
    slopes = [(f(1e-6 * s, X) - f(0.0, X)) / (1e-6 * s) for s in (1, -1)]
    np.testing.assert_allclose(slopes, [2, 0], atol=1e-5)


def test_13_a_path_may_end_in_a_local_minimum():
    X = column(-1, 0, 1)
    assert run(mean_shift(X, EPS)).X_climb[1] == 0
    assert f(0.0, X) < min(f(0.01, X), f(-0.01, X))


@quick
@given(clouds, st.integers(0, 2**32 - 1))
def test_13_a_fixed_point_is_a_strict_maximum_iff_its_sphere_is_empty(X, seed):
    state = run(mean_shift(X, EPS))
    u = np.random.default_rng(seed).normal(size=X.shape[1])
    u /= np.linalg.norm(u)
    for y in state.X_climb:
        d = np.sqrt(((X - y) ** 2).sum(axis=1))
        on_sphere = np.abs(d - EPS) < 1e-9
        assume((on_sphere | (np.abs(d - EPS) > 1e-3)).all())
        if on_sphere.any():
            away = (y - X[on_sphere][0]) / EPS
            assert f(y + 1e-4 * away, X) > f(y, X)
        else:
            assert f(y + 1e-4 * u, X) < f(y, X)


@quick
@given(clouds, st.integers(0, 2**32 - 1))
def test_13_there_are_no_plateaus(X, seed):
    # where the neighbours stay the same f is a parabola that opens downwards: nowhere flat
    rng = np.random.default_rng(seed)
    y = X[rng.integers(len(X))] + rng.uniform(-0.5, 0.5, size=X.shape[1])
    u = rng.normal(size=X.shape[1])
    u *= 1e-3 / np.linalg.norm(u)
    d = np.sqrt(((X - y) ** 2).sum(axis=1))
    assume((np.abs(d - EPS) > 2e-3).all() and (d < EPS).any())
    bend = f(y + u, X) - 2 * f(y, X) + f(y - u, X)
    np.testing.assert_allclose(bend, -2 * (d < EPS).sum() * 1e-6, rtol=1e-6)


def test_13_the_end_of_the_path_need_not_be_the_closest_peak():
    state = run(mean_shift(column(0, 0.25, 1.25), EPS))
    assert state.X_climb.ravel().tolist() == [0.125, 0.5, 0.5]
    start, peaks = 0.25, [0.125, 0.5]
    assert abs(start - peaks[0]) < abs(start - state.X_climb[1, 0])
    for y in peaks:
        assert f(y, column(0, 0.25, 1.25)) > max(f(y + s * 1e-3, column(0, 0.25, 1.25)) for s in (1, -1))


def test_13_the_count_may_fall_along_a_path():
    states = list(mean_shift(column(0, 0, 0.75, 1.75), EPS))
    assert [s.n_neighbors[2] for s in states[:2]] == [4, 3]
    assert states[1].f[2] > states[0].f[2]


@quick
@given(clouds, st.integers(0, 2**32 - 1))
def test_14_the_mean_is_a_function_of_the_set(X, seed):
    shuffled = X.tolist()
    random.Random(seed).shuffle(shuffled)
    np.testing.assert_array_equal(mean(X), mean(np.array(shuffled)))


def test_14_plain_sums_depend_on_the_order():
    rows = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    plain = {sum(p) / 7 for p in itertools.permutations(rows)}
    assert len(plain) > 1
    assert len({mean(column(*p))[0] for p in itertools.permutations(rows)}) == 1


def test_14_a_small_step_is_not_the_end():
    # The first step moves by about 1e-9 and brings a far point within reach: the set changes.
    X = column(*[0.0] * 10**3, 1e-6, 1 + 5e-10)
    states = list(mean_shift(X, EPS))
    first_step = np.abs(states[1].X_climb[0] - states[0].X_climb[0])[0]
    assert 0 < first_step < 1e-8
    assert states[1].n_neighbors[0] == states[0].n_neighbors[0] + 1
    assert abs(states[2].X_climb[0, 0] - states[1].X_climb[0, 0]) > 1e-4
