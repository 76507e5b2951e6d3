"""Laws that hold for every input of the reference boxes, and the boxes beside each other."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knoll.exceptions import BadData
from knoll.reference import (
    dbscan_graph,
    dbscan_spectral,
    em_gmm,
    gaussian_mle,
    kmeans,
    mean_shift,
    njw_spectral,
    njw_spectral_graph,
    run,
    weighted_kernel_kmeans,
)
from knoll.reference._embedding import top_eigenvectors

quick = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**32 - 1)
# Quarters, with many ties and duplicates; everything the boxes add of them is exact.
lattice = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.tuples(*[st.integers(-6, 6)] * d), min_size=2, max_size=14)
).map(lambda rows: np.array(rows, dtype=float).reshape(len(rows), -1) / 4)  # fmt: skip


def same_partition(a, b):
    """Equal up to the names of clusters; −1 is nobody's name."""
    pairs = set(zip(np.asarray(a).tolist(), np.asarray(b).tolist()))
    return len(pairs) == len({p[0] for p in pairs}) == len({p[1] for p in pairs}) and all(
        (x < 0) == (y < 0) for x, y in pairs
    )


@quick
@given(lattice, st.integers(1, 4))
def test_kmeans_objective_never_rises(X, k):
    assume(k <= len(X))
    states = list(kmeans(X, X[:k]))
    heights = [s.objective for s in states]
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(heights))
    assert states[-1].converged
    for s in states:
        np.testing.assert_allclose(s.objective, ((X - s.mu[s.labels]) ** 2).sum(), atol=1e-12)


@quick
@given(lattice, st.integers(1, 4))
def test_kmeans_ends_where_one_more_iteration_changes_nothing(X, k):
    assume(k <= len(X))
    last = run(kmeans(X, X[:k]))
    again = run(kmeans(X, last.mu))
    np.testing.assert_array_equal(again.mu, last.mu)
    np.testing.assert_array_equal(again.labels, last.labels)


@quick
@given(lattice, st.integers(1, 4), seeds)
def test_kmeans_does_not_know_the_order_of_rows(X, k, seed):
    assume(k <= len(X))
    order = np.random.default_rng(seed).permutation(len(X))
    a, b = run(kmeans(X / 3, X[:k] / 3)), run(kmeans(X[order] / 3, X[:k] / 3))
    np.testing.assert_array_equal(a.mu, b.mu)
    np.testing.assert_array_equal(a.labels[order], b.labels)


@quick
@given(seeds, st.integers(1, 3), st.integers(1, 3))
def test_em_likelihood_never_falls(seed, d, k):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, d)) + 3 * rng.integers(0, 2, size=(25, 1))
    heights = []
    try:
        for s in em_gmm(X, np.full(k, 1 / k), X[:k], [np.eye(d)] * k, max_iter=60):
            np.testing.assert_allclose(s.lam.sum(axis=1), 1)
            np.testing.assert_allclose(s.pi.sum(), 1)
            if np.linalg.cond(s.Sigma).max() > 1e6:
                break  # on the way to a collapse the law holds, but float64 no longer shows it
            heights.append(s.log_likelihood)
    except BadData:
        pass
    assert len(heights) >= 2
    assert (np.diff(heights) >= -1e-9 * (1 + np.abs(heights[0]))).all()


def test_em_names_a_collapse_that_rounding_hides():
    # Three points of a component span a plane in three dimensions: Σ is singular, but its computed smallest
    # eigenvalue is about 1e-16. At this start a test of the factorisation alone lets it through.
    rng = np.random.default_rng(21)
    X = rng.normal(size=(25, 3)) + 3 * rng.integers(0, 2, size=(25, 1))
    with pytest.raises(BadData, match="component 0 became singular"):
        run(em_gmm(X, np.full(3, 1 / 3), X[:3], [np.eye(3)] * 3))


def test_a_constant_column_has_no_variance_though_its_mean_rounds():
    x = next(v for v in np.linspace(1.75, 1.80, 1000) if np.float64(9) * v / 9 != v)
    state = run(gaussian_mle([[x]] * 9))
    assert state.Sigma[0, 0] > 0  # one ulp, squared
    assert state.log_likelihood == np.inf


@quick
@given(seeds, st.integers(1, 4))
def test_one_gaussian_is_the_mixture_of_one(seed, d):
    X = np.random.default_rng(seed).normal(size=(20, d))
    one = run(gaussian_mle(X))
    mixture = run(em_gmm(X, [1.0], [np.ones(d)], [3 * np.eye(d)]))
    assert mixture.converged
    assert mixture.iteration == 2  # the first M step is the answer, the second finds nothing to do
    np.testing.assert_allclose(mixture.mu[0], one.mu, atol=1e-12)
    np.testing.assert_allclose(mixture.Sigma[0], one.Sigma, atol=1e-12)
    np.testing.assert_allclose(mixture.log_likelihood, one.log_likelihood)


@quick
@given(seeds, st.integers(1, 3))
def test_no_other_parameters_of_one_gaussian_are_likelier(seed, d):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, d))
    best = run(gaussian_mle(X))
    B = rng.normal(size=(d, d))
    other = next(em_gmm(X, [1.0], [best.mu + 0.1 * rng.normal(size=d)], [best.Sigma + 0.1 * B @ B.T]))
    assert other.log_likelihood <= best.log_likelihood


@quick
@given(seeds, st.integers(1, 3), st.integers(1, 4))
def test_linear_kernel_kmeans_is_kmeans(seed, d, k):
    X = np.random.default_rng(seed).normal(size=(15, d))
    labels = np.arange(15) % k
    mu = [X[labels == c].mean(axis=0) for c in range(k)]
    plain = [s for s in kmeans(X, mu) if s.step == "E step"]
    kernel = [s for s in weighted_kernel_kmeans(X @ X.T, labels) if s.step == "E step"]
    # the kernel version already knows the labels of its start, k-means sees them after one step
    for a, b in zip(plain, kernel):
        np.testing.assert_array_equal(a.labels, b.labels)
        np.testing.assert_allclose(a.objective, b.objective, atol=1e-9)


@quick
@given(seeds, st.integers(1, 4))
def test_kernel_kmeans_objective_never_rises_and_weight_is_repetition(seed, k):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(12, 2)), rng.integers(1, 4, size=12)
    K, labels = np.exp(-((X[:, None] - X) ** 2).sum(axis=2)), np.arange(12) % k
    states = list(weighted_kernel_kmeans(K, labels, w))
    assert (np.diff([s.objective for s in states]) <= 1e-12).all()
    rows = np.repeat(np.arange(12), w)
    repeated = list(weighted_kernel_kmeans(K[np.ix_(rows, rows)], labels[rows]))
    assert len(repeated) == len(states)
    np.testing.assert_array_equal(repeated[-1].labels, states[-1].labels[rows])
    np.testing.assert_allclose(repeated[-1].objective, states[-1].objective)


@quick
@given(seeds)
def test_kernel_distances_are_those_in_the_feature_space(seed):
    rng = np.random.default_rng(seed)
    phi, w = rng.normal(size=(10, 4)), rng.uniform(0.1, 2, size=10)
    labels = np.arange(10) % 3
    d2 = next(weighted_kernel_kmeans(phi @ phi.T, labels, w)).d2
    m = np.array([np.average(phi[labels == c], axis=0, weights=w[labels == c]) for c in range(3)])
    np.testing.assert_allclose(d2, ((phi[:, None] - m) ** 2).sum(axis=2), atol=1e-12)


@quick
@given(seeds, st.integers(1, 4), st.sampled_from(["none", "unit", "degree"]), st.booleans())
def test_njw_and_its_graph_version_are_one(seed, k, row_scaling, zero_diagonal):
    X = np.random.default_rng(seed).normal(size=(14, 2))
    options = {"row_scaling": row_scaling, "zero_diagonal": zero_diagonal}
    kernel, graph = run(njw_spectral(X, k, 1.0, **options)), run(njw_spectral_graph(X, k, 1.0, **options))
    assume(np.diff(kernel.eigenvalues).max(initial=-1) < -1e-6)  # else the basis is free
    np.testing.assert_allclose(kernel.Y, graph.Z, atol=1e-8)
    np.testing.assert_allclose(kernel.objective, graph.objective, atol=1e-8)
    np.testing.assert_array_equal(kernel.labels, graph.labels)


@quick
@given(lattice, st.integers(1, 6), st.sampled_from([0.25, 0.5, 0.75, 1.0]))
def test_dbscan_spectral_and_graph_are_one(X, min_pts, eps):
    a, b = run(dbscan_spectral(X, eps, min_pts)), run(dbscan_graph(X, eps, min_pts))
    np.testing.assert_array_equal(a.core, b.core)
    np.testing.assert_array_equal(a.labels, b.labels)


@quick
@given(lattice, st.integers(1, 6), st.sampled_from([0.25, 0.5, 0.75, 1.0]), seeds)
def test_dbscan_does_not_know_the_order_of_rows(X, min_pts, eps, seed):
    order = np.random.default_rng(seed).permutation(len(X))
    a, b = run(dbscan_graph(X, eps, min_pts)), run(dbscan_graph(X[order], eps, min_pts))
    np.testing.assert_array_equal(a.core[order], b.core)
    assert same_partition(a.labels[order], b.labels)


@quick
@given(lattice, seeds)
def test_mean_shift_does_not_know_the_order_of_rows(X, seed):
    X = X / 3  # sums of thirds round: the mean must not show in which order
    order = np.random.default_rng(seed).permutation(len(X))
    a, b = run(mean_shift(X, 0.5)), run(mean_shift(X[order], 0.5))
    np.testing.assert_array_equal(a.X_climb[order], b.X_climb)
    assert same_partition(a.labels[order], b.labels)
    np.testing.assert_array_equal(a.outliers[order], b.outliers)


@quick
@given(lattice, st.integers(1, 6))
def test_dbscan_edges_join_core_points_within_eps_only(X, min_pts):
    state = run(dbscan_graph(X, 0.75, min_pts))
    near = ((X[:, None] - X) ** 2).sum(axis=2) <= 0.75**2
    expected = np.argwhere(np.triu(near & state.core & state.core[:, None], 1))
    np.testing.assert_array_equal(state.edges, expected)


@quick
@given(seeds)
def test_eps_taken_from_a_distance_is_inclusive(seed):
    # for about half of these ε² < d², so comparing squares would lose the neighbour the radius was taken from
    for x, y in np.random.default_rng(seed).normal(size=(10, 2, 3)):
        u = x - y
        eps = np.sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2])  # a scalar's u**2 goes through pow and may differ
        assert run(dbscan_graph([x, y], eps, 2)).labels.tolist() == [0, 0]
        assert run(dbscan_graph([x, y], np.nextafter(eps, 0), 2)).labels.tolist() == [-1, -1]


def test_a_radius_below_rounding_leaves_the_points_where_they_are():
    # the mean of nine copies of this number is another number, and a ball of 1e-20 around that one is empty
    x = next(v for v in np.linspace(1.75, 1.80, 1000) if np.float64(9) * v / 9 != v)
    state = run(mean_shift([[x]] * 9, 1e-20))
    assert (state.X_climb == x).all()
    assert state.labels.tolist() == [0] * 9


def test_a_tolerance_is_per_point():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 2)) + 3 * rng.integers(0, 2, size=(40, 1))
    start = [0.5, 0.5], X[:2], [np.eye(2)] * 2
    for tol in (1e-2, 1e-4, 1e-6):
        once = run(em_gmm(X, *start, tol=tol))
        often = run(em_gmm(np.tile(X, (50, 1)), *start, tol=tol))
        assert once.converged
        assert once.iteration == often.iteration


def test_a_cluster_left_without_weight_keeps_the_mean_it_had():
    X = np.array([[-5.0], [-5.0], [11.0], [11.0], [3.0]])  # the mean of the middle cluster is 3, far from its rows
    w = [1.0, 1.0, 1.0, 1.0, 0.0]
    states = list(weighted_kernel_kmeans(X @ X.T, [0, 1, 1, 2, 1], w))
    assert states[-1].converged
    assert states[-1].labels.tolist() == [0, 0, 2, 2, 1]  # the third has no weight, and is where the mean was
    for state in states[1:]:
        np.testing.assert_allclose(state.d2[:, 1], (X[:, 0] - 3) ** 2, atol=1e-12)


def test_signs_of_eigenvectors_are_fixed():
    rng = np.random.default_rng(0)
    for box, field in ((njw_spectral, "Y"), (njw_spectral_graph, "Z")):
        for _ in range(10):
            Y = getattr(run(box(rng.normal(size=(12, 2)), 3, 1.0)), field)
            for y in Y.T:
                first = int(np.argmax(np.abs(y) >= (1 - 1e-6) * np.abs(y).max()))
                assert y[first] > 0
    # equal entries up to rounding: the first of them decides, not the one that rounding made the largest
    v = np.array([1.0, -(1.0 + 1e-9)])
    for sign in (1, -1):
        _, vectors = top_eigenvectors(np.outer(sign * v, sign * v), 1)
        np.testing.assert_allclose(vectors[:, 0], [np.sqrt(0.5), -np.sqrt(0.5)], rtol=1e-8)
