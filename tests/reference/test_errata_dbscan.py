"""docs/theory/errata.md, items 1 to 10: what the DBSCAN boxes say, and why the reference departs."""

import itertools

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from knoll.exceptions import BadData
from knoll.reference import dbscan_climbing, dbscan_graph, dbscan_spectral, mean_shift, run
from knoll.reference._common import squared_distances, within
from knoll.reference._dbscan_spectral import eigenvalue_one

quick = settings(max_examples=40, deadline=None)


def column(*values):
    return np.array(values, dtype=float)[:, None]


# Quarters: sums, differences and squares of these are exact, so a claim about sets is tested, not rounding.
lattice = st.integers(1, 2).flatmap(
    lambda d: st.lists(st.tuples(*[st.integers(-10, 10)] * d), min_size=1, max_size=12)
).map(lambda rows: np.array(rows, dtype=float).reshape(len(rows), -1) / 4)  # fmt: skip

BRIDGE = np.array([(1.6, 0), (-1.6, 0), (0.6, 0), (-0.6, 0), (0, 0.6), (0, -0.6)])


def renumbered(labels):
    """Clusters numbered by their first row; −1 stays."""
    names = {-1: -1}
    return [names.setdefault(c, len(names) - 1) for c in labels.tolist()]


@quick
@given(lattice, st.integers(1, 6))
def test_01_printed_spectral_core_rule_is_the_graph_rule_one_higher(X, m):
    d = next(s for s in dbscan_spectral(X, 1.0, m) if s.step == "Weights matrix step").d
    printed = d > m
    np.testing.assert_array_equal(printed, run(dbscan_graph(X, 1.0, m + 1)).core)
    np.testing.assert_array_equal(run(dbscan_spectral(X, 1.0, m)).core, run(dbscan_graph(X, 1.0, m)).core)


@pytest.mark.parametrize("box", [dbscan_spectral, dbscan_graph, dbscan_climbing])
def test_01_nothing_is_an_outlier_at_min_pts_1(box):
    lonely = column(0, 10, 20)  # the prose calls d_i = 1 an outlier
    assert run(box(lonely, 1.0, 1)).labels.tolist() == [0, 1, 2]


def printed_loop(X, x, eps, m, limit):
    """The loop of box 9 as it stands: "while |N_ε(x)| < minPts or x_new = x". None: still at it."""
    x_new = None
    for _ in range(limit):
        N = X[np.abs(X - x) <= eps]
        if not (len(N) < m or x_new == x):
            return x
        x, x_new = (x if x_new is None else x_new), N.mean()
    return None


def test_02_printed_loop_would_not_stop_where_a_path_ends_below_the_level():
    X = column(0, 1, 2)
    assert printed_loop(X, 1.0, 1.0, 3, limit=100) == 1.0
    assert printed_loop(X, 0.0, 1.0, 3, limit=100) is None
    last = run(dbscan_climbing(X, 1.0, 3))
    assert last.X_climb.ravel().tolist() == [0.5, 1.0, 1.5]
    assert last.n_neighbors.tolist() == [2, 3, 2]
    assert not last.climbing.any()


@quick
@given(lattice, st.integers(1, 6))
def test_02_level_is_tested_before_the_first_move(X, m):
    core = run(dbscan_graph(X, 1.0, m)).core
    last = run(dbscan_climbing(X, 1.0, m))
    np.testing.assert_array_equal(last.X_climb[core], X[core])
    assert last.core[core].all()


TIED = column(-2, -1.5, -1, 0, 1, 1.5, 2)


@pytest.mark.parametrize("box", [dbscan_spectral, dbscan_graph])
def test_03_a_tied_border_point_does_not_depend_on_the_row_order(box):
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [4, 3, 6, 2, 0, 5, 1]):
        X = TIED[order]
        state = run(box(X, 1.0, 4))
        np.testing.assert_array_equal(state.core, np.abs(X.ravel()) == 1)
        cluster_of = dict(zip(X.ravel(), state.labels))
        assert cluster_of[0.0] == cluster_of[-1.0] != cluster_of[1.0]


def test_03_a_border_point_is_not_core():
    state = run(dbscan_graph(column(0, 1, 2), 1.0, 3))
    assert state.labels.tolist() == [0, 0, 0]
    assert state.core.tolist() == [False, True, False]


def test_04_stuck_border():
    X = column(0, 1, 2)
    assert run(dbscan_graph(X, 1.0, 3)).labels.tolist() == [0, 0, 0]
    assert run(dbscan_climbing(X, 1.0, 3)).labels.tolist() == [-1, 0, -1]


def test_04_new_mode():
    X = np.array([(0.5, 0), (-0.5, 0), (0, 1)])
    assert run(dbscan_graph(X, 1.0, 3)).labels.tolist() == [-1, -1, -1]
    assert run(dbscan_climbing(X, 1.0, 3)).labels.tolist() == [0, 0, -1]


def test_04_most_random_sets_differ():
    rng, same = np.random.default_rng(0), 0
    for _ in range(200):
        X = rng.uniform(0, 4, size=(20, 2))
        graph, climb = run(dbscan_graph(X, 1.0, 4)).labels, run(dbscan_climbing(X, 1.0, 4)).labels
        same += renumbered(graph) == renumbered(climb)
    assert same == 45


def test_04_bridge():
    graph, climbing = run(dbscan_graph(BRIDGE, 1.0, 4)), run(dbscan_climbing(BRIDGE, 1.0, 4))
    assert graph.core.tolist() == [False, False, True, True, False, False]
    assert graph.labels[2] != graph.labels[3]
    assert climbing.labels[2] == climbing.labels[3]


@quick
@given(lattice, st.integers(1, 6))
def test_04_climbing_joins_core_points_never_separates_them(X, m):
    graph, climbing = run(dbscan_graph(X, 1.0, m)), run(dbscan_climbing(X, 1.0, m))
    for c in range(graph.labels.max() + 1):
        assert len(set(climbing.labels[graph.core & (graph.labels == c)])) == 1
    assert (climbing.labels[graph.core] >= 0).all()


@quick
@given(lattice, st.integers(1, 2))
def test_04_all_versions_agree_up_to_min_pts_2(X, m):
    expected = run(dbscan_graph(X, 1.0, m)).labels
    np.testing.assert_array_equal(run(dbscan_climbing(X, 1.0, m)).labels, expected)
    np.testing.assert_array_equal(run(dbscan_spectral(X, 1.0, m)).labels, expected)


def test_05_the_printed_edges_are_not_symmetric():
    X = column(0, 0, 0.5, 1.5)
    state = run(dbscan_climbing(X, 1.0, 3))
    assert state.X_climb.ravel().tolist() == [0, 0, 0.5, 1]
    printed = within(squared_distances(state.X_climb, X), 1.0)  # node i to the x_j in N_ε(climbed x_i)
    assert printed[3, 0]
    assert not printed[0, 3]
    joined = {tuple(e) for e in state.edges.tolist()}
    assert joined == set(itertools.combinations(range(4), 2))


@quick
@given(lattice, st.integers(1, 6))
def test_05_edges_join_ends_that_reached_the_level(X, m):
    s = run(dbscan_climbing(X, 1.0, m))
    for i, j in itertools.combinations(range(len(X)), 2):
        expected = s.core[i] and s.core[j] and np.sqrt(((s.X_climb[i] - s.X_climb[j]) ** 2).sum()) <= 1.0
        assert ([i, j] in s.edges.tolist()) == expected


def test_06_an_outlier_of_the_ascent_is_not_a_component_of_one():
    both_stop_at_a_half = run(dbscan_climbing(column(0, 1), 1.0, 3))
    assert both_stop_at_a_half.X_climb.ravel().tolist() == [0.5, 0.5]  # a component of two
    assert both_stop_at_a_half.labels.tolist() == [-1, -1]
    lone_core = run(dbscan_climbing(column(0, 1, 2), 1.0, 3))  # a component of one
    assert lone_core.labels[1] == 0


def test_06_mean_shift_marks_lone_rows_and_labels_all():
    state = run(mean_shift(column(0, 1, 9), 1.0))
    assert state.labels.tolist() == [0, 0, 1]
    assert state.outliers.tolist() == [False, False, True]


def level_of_mean_shift(X):
    """L* = 1 + max |N_ε| over visited positions that are not fixed points."""
    states = list(mean_shift(X, 1.0))
    highest = 0
    for before, after in itertools.pairwise(states):
        moved = (before.X_climb != after.X_climb).any(axis=1)
        highest = max(highest, before.n_neighbors[moved].max(initial=0))
    return 1 + highest


@quick
@given(lattice)
def test_07_the_ascent_is_mean_shift_from_the_level_L_on(X):
    peaks, L = run(mean_shift(X, 1.0)).X_climb, level_of_mean_shift(X)
    assert len(X) + 1 >= L
    for m in range(1, len(X) + 2):
        assert np.array_equal(run(dbscan_climbing(X, 1.0, m)).X_climb, peaks) == (m >= L)


def test_07_the_bound_is_attained_and_labels_are_not_mean_shifts():
    X = column(0, 0.2, 1)
    assert level_of_mean_shift(X) == 4
    assert run(dbscan_climbing(X, 1.0, 4)).labels.tolist() == [-1, -1, -1]
    assert run(mean_shift(X, 1.0)).labels.tolist() == [0, 0, 0]


def paths(states):
    """For each point the positions of its path, a repetition at the end dropped."""
    positions = [s.X_climb for s in states if s.step in ("Copy step", "Core points identification step")]
    return [[p for p, _ in itertools.groupby(tuple(x[i]) for x in positions)] for i in range(len(positions[0]))]


@quick
@given(lattice, st.integers(1, 6))
def test_07_the_path_at_a_level_is_a_prefix_of_the_next_levels_path(X, m):
    for lower, higher in zip(paths(dbscan_climbing(X, 1.0, m)), paths(dbscan_climbing(X, 1.0, m + 1))):
        assert higher[: len(lower)] == lower


def test_08_the_old_degrees_lose_an_eigenvalue_one():
    X = column(0, 1, 2)  # only the middle is core, with degree 3 before the filter and 1 after
    state = run(dbscan_spectral(X, 1.0, 3))
    assert state.d.tolist() == [1.0]
    np.testing.assert_allclose(state.eigenvalues, [1.0])
    old_degree = 3.0
    np.testing.assert_allclose(np.linalg.eigvalsh(state.A / old_degree), [1 / 3])  # no cluster at all


def test_09_eigenvectors_of_one_are_neither_indicators_nor_fixed():
    X = column(0, 1, 2, 10, 11)
    state = run(dbscan_spectral(X, 1.0, 1))
    assert state.Z.shape == (5, 2)
    values = np.unique(np.abs(state.Z[state.Z**2 > 1e-20]).round(12))
    assert 1.0 not in values
    assert len(values) > 1
    projector = np.zeros((5, 5))
    for members in ([0, 1, 2], [3, 4]):
        v = np.sqrt(state.d[members])
        projector[np.ix_(members, members)] = np.outer(v, v) / (v @ v)
    np.testing.assert_allclose(state.Z @ state.Z.T, projector, atol=1e-12)
    rotated = state.Z @ np.array([[0.6, -0.8], [0.8, 0.6]])
    assert (np.abs(rotated) > 0.1).all()  # now no entry is zero: "non-zero entries belong together" gives one cluster
    np.testing.assert_allclose(rotated @ rotated.T, projector, atol=1e-12)
    assert state.labels.tolist() == [0, 0, 0, 1, 1]


@quick
@given(lattice)
def test_09_the_gap_below_one(X):
    state = run(dbscan_spectral(X, 1.0, 1))
    clusters = state.Z.shape[1]
    bound = 1 / (len(X) * state.d.sum())
    np.testing.assert_allclose(state.eigenvalues[:clusters], 1, atol=1e-12)
    assert (state.eigenvalues[clusters:] <= 1 - bound + 1e-12).all()
    assert clusters == run(dbscan_graph(X, 1.0, 1)).labels.max() + 1


def barbell(m, length):
    """The eigenvalues of m copies of 0, 1 … length, and m copies of length + 1 at ε = 1, equal rows lumped."""
    copies = np.array([m, *[1] * length, m], dtype=float)
    links = copies[:-1] * copies[1:]
    volume = copies**2 + np.append(links, 0) + np.append(0, links)
    off = links / np.sqrt(volume[:-1] * volume[1:])
    return scipy.linalg.eigvalsh_tridiagonal(copies**2 / volume, off)[::-1], volume.sum()


def test_09_two_heaps_and_a_long_path_are_one_cluster():
    lumped, volume = barbell(30, 40)
    X = column(*[0] * 30, *range(1, 41), *[41] * 30)
    state = run(dbscan_spectral(X, 1.0, 2))
    assert volume == state.d.sum()
    np.testing.assert_allclose(state.eigenvalues[:5], lumped[:5], atol=1e-12)
    assert state.labels.tolist() == [0] * 100
    # a fixed tolerance would have to shrink with the graph: here the second eigenvalue is 6e-10 below one
    lumped, volume = barbell(1500, 1500)
    assert 1e-10 < 1 - lumped[1] < 1e-9
    assert eigenvalue_one(4500, volume) < (1 - lumped[1]) / 2


def test_09_refuses_where_float64_cannot_decide():
    assert eigenvalue_one(1000, 1000**2) > 0
    message = (
        "dbscan_spectral: at 10000 core points and 100000000 links an eigenvalue may be 1.0e-12 below one "
        "without being one, closer than float64 can resolve. dbscan_graph finds the same clusters."
    )
    with pytest.raises(BadData) as error:
        eigenvalue_one(10_000, 1e8)
    assert str(error.value) == message


def test_09_a_long_chain_is_still_one_cluster():
    chain = column(*range(300))
    chain[200:] += 0.5  # and a break
    state = run(dbscan_spectral(chain, 1.0, 2))
    assert state.labels.tolist() == [0] * 200 + [1] * 100


def test_10_the_two_laplacians_have_other_kernels():
    A_G = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=float)  # the path 0 – 1 – 2
    D_G, D = A_G.sum(axis=1), A_G.sum(axis=1) + 1
    for degrees, own, other in ((D_G, D_G, D), (D, D, D_G)):
        L = (np.diag(D_G) - A_G) / np.sqrt(np.outer(degrees, degrees))
        np.testing.assert_allclose(L @ np.sqrt(own), 0, atol=1e-15)
        assert np.abs(L @ np.sqrt(other)).max() > 0.05
        assert np.linalg.matrix_rank(L) == 2  # the same multiplicity of zero


def test_10_a_lone_core_point_has_no_inverse_degree_without_its_loop():
    state = run(dbscan_spectral(column(0, 9), 1.0, 1))
    assert (state.d - 1).tolist() == [0, 0]  # D_G
    assert state.labels.tolist() == [0, 1]
