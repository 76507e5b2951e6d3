"""Laws of weighted kernel k-means: what is true for any data and kernel."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knoll import KernelKMeans, KMeans, kernels, reference
from knoll.exceptions import KnollWarning
from knoll.kernel_kmeans.means import Means, Problem
from knoll.kernel_kmeans.steps import assign

seeds = st.integers(0, 2**32 - 1)
kernel_names = st.sampled_from(["rbf", "linear", "poly", "heaviside"])
PARAMETERS = {"sigma": 1.5, "eps": 1.5, "degree": 2}


@contextlib.contextmanager
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KnollWarning)
        yield


def cloud(seed: int, n: int, d: int, *, lattice: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(scale=3, size=(3, d))[rng.integers(3, size=n)]
    return np.round(X) if lattice else X


def start(seed: int, n: int, k: int) -> np.ndarray:
    labels = np.random.default_rng(seed + 1).integers(k, size=n)
    labels[np.random.default_rng(seed + 2).permutation(n)[:k]] = np.arange(k)
    return labels


def matrix(X: np.ndarray, kernel: str) -> np.ndarray:
    width = {"sigma": 1.5} if kernel == "rbf" else {}
    return kernels.make(kernel, eps=1.5, degree=2, **width).tile(X, X)


def fitted(X, k, kernel, *, weights=None, **parameters):
    width = {"sigma": 1.5} if kernel == "rbf" else {}
    with quietly():
        model = KernelKMeans(k, kernel=kernel, eps=1.5, degree=2, **width, **parameters)
        return model.fit(X, sample_weight=weights)


def objective(K, labels, w) -> float:
    """J from its definition (eq. 4.3)."""
    total = float((w * np.diagonal(K)).sum())
    for c in np.unique(labels):
        wc = w * (labels == c)
        total -= wc @ K @ wc / wc.sum()
    return total


@settings(deadline=None, max_examples=60)
@given(
    seed=seeds,
    n=st.integers(5, 60),
    d=st.integers(1, 4),
    k=st.integers(1, 5),
    kernel=st.sampled_from(["rbf", "linear", "poly"]),
    weighted=st.booleans(),
)
def test_equals_the_reference_step_by_step(seed, n, d, k, kernel, weighted):
    X, labels = cloud(seed, n, d), start(seed, n, k)
    weights = np.random.default_rng(seed).uniform(0.2, 3, size=n) if weighted else None
    K = matrix(X, kernel)
    states = [s for s in reference.weighted_kernel_kmeans(K, labels, weights) if s.step == "E step"]
    assume(all(len(np.unique(s.labels)) == k for s in states))  # there an empty cluster keeps its mean, here none
    model = fitted(X, k, kernel, weights=weights, init=labels)
    np.testing.assert_array_equal(model.labels_, states[-1].labels)
    np.testing.assert_allclose(model.objective_, states[-1].objective, rtol=1e-9, atol=1e-9 * np.trace(K))
    assert model.n_iter_ == len(states)
    for t in range(1, min(4, len(states))):
        early = fitted(X, k, kernel, weights=weights, init=labels, max_iter=t)
        np.testing.assert_array_equal(early.center_labels_, states[t - 1].labels)
        np.testing.assert_array_equal(early.labels_, states[t].labels)
        np.testing.assert_allclose(early.objective_, states[t].objective, rtol=1e-9, atol=1e-9 * np.trace(K))


@settings(deadline=None, max_examples=60)
@given(
    seed=seeds,
    n=st.integers(4, 80),
    k=st.integers(1, 6),
    kernel=kernel_names,
    lattice=st.booleans(),
    local_search=st.booleans(),
)
def test_the_objective_never_rises_and_is_what_is_reported(seed, n, k, kernel, lattice, local_search):
    assume(k <= n)
    X = cloud(seed, n, 2, lattice=lattice)
    weights = np.random.default_rng(seed).integers(1, 4, size=n).astype(float)
    model = fitted(X, k, kernel, weights=weights, random_state=seed, local_search=local_search)
    K = matrix(X, kernel)
    scale = float(weights @ np.diagonal(K)) + 1e-300
    assert (np.diff(model.history_["objective"]) <= 1e-10 * scale).all()
    np.testing.assert_allclose(model.objective_, objective(K, model.labels_, weights), atol=1e-9 * scale)
    np.testing.assert_allclose(model.objective_ + model.trace_objective_, scale, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.center_labels_, model.labels_)


@settings(deadline=None, max_examples=60)
@given(
    seed=seeds,
    n=st.integers(4, 60),
    k=st.integers(1, 5),
    kernel=kernel_names,
    lattice=st.booleans(),
    init=st.sampled_from(["k-means++", "random"]),
    max_iter=st.sampled_from([1, 2, 300]),
)
def test_a_weight_is_a_number_of_repetitions_and_order_does_not_matter(seed, n, k, kernel, lattice, init, max_iter):
    rng = np.random.default_rng(seed)
    X, weights = cloud(seed, n, 2, lattice=lattice), rng.integers(0, 4, size=n).astype(float)
    weights[:k] = np.maximum(weights[:k], 1)
    assume(k <= n)
    more = {"init": init, "random_state": seed, "n_init": 2, "max_iter": max_iter}
    with_weights = fitted(X, k, kernel, weights=weights, **more)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    again = fitted(rng.permutation(repeated), k, kernel, **more)
    np.testing.assert_array_equal(again.predict(X), with_weights.labels_)
    np.testing.assert_array_equal(again.predict(repeated), with_weights.predict(repeated))
    np.testing.assert_allclose(again.objective_, with_weights.objective_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.shift_, with_weights.shift_, rtol=1e-9)
    assert with_weights.n_iter_ == again.n_iter_


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(5, 80), d=st.integers(1, 4), k=st.integers(1, 6))
def test_the_linear_kernel_is_kmeans(seed, n, d, k):
    assume(k <= n)
    X = cloud(seed, n, d)
    rows = np.random.default_rng(seed).choice(n, k, replace=False)
    with quietly():
        plain = KMeans(k, init=X[rows], tol=0).fit(X)
    model = fitted(X, k, "linear", init=rows if k < n else np.argsort(rows))
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_allclose(model.objective_, plain.inertia_, rtol=1e-9, atol=1e-9 * (X**2).sum())


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(5, 60), k=st.integers(2, 5))
def test_where_the_linear_kernel_differs_from_kmeans_there_is_a_tie(seed, n, k):
    """On a lattice k-means compares distances to rounded centres; one step later only tied rows may differ."""
    X, labels = cloud(seed, n, 2, lattice=True), start(seed, n, k)
    centers = np.array([X[labels == c].mean(axis=0) for c in range(k)])
    with quietly():
        plain = KMeans(k, init=centers, max_iter=1, empty_clusters="keep").fit(X)
    d2 = ((X[:, None] - centers) ** 2).sum(axis=2)
    with quietly():
        problem = _problem(kernels.Linear(), X)
        found = assign(Means(problem, labels.astype(np.int32), k))
    clear = np.setdiff1d(np.arange(n), found.tied)
    np.testing.assert_array_equal(found.labels[clear], d2.argmin(axis=1)[clear])
    np.testing.assert_array_equal(plain.labels_.shape, found.labels.shape)
    for row in found.tied:
        assert (np.abs(d2[row] - d2[row].min()) < 1e-12 * (1 + d2[row].max())).sum() > 1


def _problem(kernel, X, weights=None):
    return Problem(
        operator=kernel.operator(X, 1),
        weights=weights,
        definite=kernel.positive_semidefinite is True,
        equal=lambda: np.unique(X, axis=0, return_inverse=True)[1].ravel(),
        order=lambda i: tuple(X[i]),
        threads=1,
    )


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(5, 60), k=st.integers(2, 5), kernel=kernel_names, lattice=st.booleans())
def test_no_method_of_a_partition_changes_what_is_closest(seed, n, k, kernel, lattice):
    rng = np.random.default_rng(seed)
    X, labels = cloud(seed, n, 2, lattice=lattice), start(seed, n, k).astype(np.int32)
    weights = rng.uniform(0.5, 2, size=n) if seed % 2 else None
    made = kernels.make(kernel, sigma=1.5 if kernel == "rbf" else None, eps=1.5, degree=2)
    problem = _problem(made, X, weights)
    means = Means(problem, start(seed + 7, n, k).astype(np.int32), k)
    for _ in range(12):
        other = means.labels.copy()
        rows = rng.choice(n, int(rng.integers(1, max(2, n // 3))), replace=False)
        other[rows] = rng.integers(k, size=len(rows))
        means.to(other)
    means.to(labels)
    fresh = Means(problem, labels, k)
    np.testing.assert_allclose(means.G, fresh.G, rtol=0, atol=float((means.errors(problem.reach) * fresh.masses).max()))
    for shift in (0.0, 0.7):
        one, two = assign(means, shift), assign(fresh, shift)
        np.testing.assert_array_equal(one.labels, two.labels)
        np.testing.assert_array_equal(one.tied, two.tied)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n=st.integers(4, 30), k=st.integers(1, 4), weighted=st.booleans(), sparse=st.booleans())
def test_an_indefinite_similarity_reaches_a_fixed_point_without_rising(seed, n, k, weighted, sparse):
    import scipy.sparse

    rng = np.random.default_rng(seed)
    S = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7)
    S = S + S.T
    weights = rng.uniform(0.1, 3, size=n) if weighted else None
    model = fitted(scipy.sparse.csr_array(S) if sparse else S, k, "precomputed", weights=weights, random_state=seed)
    assert (np.diff(model.history_["objective"]) <= 1e-9 * np.abs(S).sum()).all()
    assert model.n_iter_ < 300
    np.testing.assert_array_equal(model.predict(S), model.labels_)
    w = np.ones(n) if weights is None else weights
    np.testing.assert_allclose(model.objective_, objective(S, model.labels_, w), atol=1e-9 * np.abs(S).sum())


@settings(deadline=None, max_examples=30)
@given(seed=seeds, n=st.integers(4, 24), k=st.integers(2, 4), kernel=kernel_names, lattice=st.booleans())
def test_after_the_local_search_no_move_improves(seed, n, k, kernel, lattice):
    X = cloud(seed, n, 2, lattice=lattice)
    model = fitted(X, k, kernel, random_state=seed, local_search=True)
    plain = fitted(X, k, kernel, random_state=seed)
    K, ones = matrix(X, kernel), np.ones(n)
    here = objective(K, model.labels_, ones)
    slack = 1e-9 * np.trace(K)
    assert here <= objective(K, plain.labels_, ones) + slack
    _, copies = np.unique(X, axis=0, return_inverse=True)
    for row in range(n):
        rows = np.flatnonzero(copies.ravel() == copies.ravel()[row])
        a = model.labels_[row]
        if set(np.flatnonzero(model.labels_ == a)) == set(rows):
            continue
        for b in range(k):
            moved = model.labels_.copy()
            moved[rows] = b
            assert objective(K, moved, ones) >= here - slack


@settings(deadline=None, max_examples=40)
@given(rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30), k=st.integers(1, 12))
def test_fewer_distinct_points_than_clusters(rows, k):
    X = np.array(rows, dtype=float)
    assume(k <= len(X))
    distinct = len(np.unique(X, axis=0))
    model = fitted(X, k, "rbf", random_state=0)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    if k >= distinct:
        assert model.objective_ <= 1e-12 * len(X)
        assert len(np.unique(model.labels_)) == distinct
    else:
        assert len(np.unique(model.labels_)) == k


@settings(deadline=None, max_examples=30)
@given(seed=seeds, n=st.integers(6, 60), k=st.integers(2, 6), kernel=kernel_names)
def test_relocation_leaves_no_cluster_empty_where_points_suffice(seed, n, k, kernel):
    X = cloud(seed, n, 2)
    everything = np.zeros(n, dtype=int)  # every row in the first cluster
    model = fitted(X, k, kernel, init=everything)
    kept = fitted(X, k, kernel, init=everything, empty_clusters="keep")
    if kernel != "heaviside":
        assert (model.cluster_weights_ > 0).all()
    assert np.count_nonzero(kept.cluster_weights_) == 1
    assert model.objective_ <= kept.objective_ + 1e-9 * n
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, n=st.integers(5, 60), k=st.integers(1, 5), power=st.sampled_from([-450, -30, 3, 450]))
def test_powers_of_two_carry_everything_along(seed, n, k, power):
    X, weights = cloud(seed, n, 2), np.random.default_rng(seed).uniform(0.5, 2, size=n)
    with quietly():
        one = KernelKMeans(k, sigma=1.5, random_state=seed).fit(X, sample_weight=weights)
        other = KernelKMeans(k, sigma=1.5 * 2.0**power, random_state=seed).fit(
            X * 2.0**power, sample_weight=weights * 2.0**power
        )
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert other.objective_ == np.ldexp(one.objective_, power)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, n=st.integers(4, 40), k=st.integers(1, 4), kernel=kernel_names)
def test_a_kernel_its_matrix_and_its_function_give_one_answer(seed, n, k, kernel):
    import scipy.sparse

    X, labels = cloud(seed, n, 2), start(seed, n, k)
    made = kernels.make(kernel, sigma=1.5 if kernel == "rbf" else None, eps=1.5, degree=2)
    K = made.tile(X, X)
    expected = fitted(X, k, kernel, init=labels)
    with quietly():
        others = [
            KernelKMeans(k, kernel=made, init=labels).fit(X),
            KernelKMeans(k, kernel=made.tile, init=labels).fit(X),
        ]
        if kernel != "heaviside":  # rows of different content, but of equal links, are copies in a matrix
            others += [
                KernelKMeans(k, kernel="precomputed", init=labels).fit(K),
                KernelKMeans(k, kernel="precomputed", init=labels).fit(scipy.sparse.csr_matrix(K)),
            ]
    for other in others:
        np.testing.assert_array_equal(other.labels_, expected.labels_)
        np.testing.assert_allclose(other.objective_, expected.objective_, rtol=1e-9, atol=1e-9 * np.trace(K))
        assert (other.shift_ > 0) == (expected.shift_ > 0)
