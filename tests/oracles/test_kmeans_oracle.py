"""k-means against the reference step by step, against scikit-learn, and against sums of fractions."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
import sklearn.cluster
from sklearn.datasets import make_blobs
from threadpoolctl import threadpool_limits

from knoll import KMeans, _core, reference
from knoll._common.blocks import Block
from knoll.exceptions import ConvergenceWarning
from knoll.kmeans import lloyd
from knoll.kmeans.assignment import assign, memory_for

ALGORITHMS = ["auto", "lloyd", "hamerly", "elkan"]


def fit(X, start, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # clusters may stay empty here
        return KMeans(len(start), **{"init": start, "tol": 0, "empty_clusters": "keep", **parameters}).fit(X)


def lattice(seed, n, d, k):
    """Points and centres on a grid: ties, duplicates and empty clusters in plenty."""
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, size=(n, d)).astype(float), rng.integers(-3, 4, size=(k, d)).astype(float)


def cloud(seed, n, d, k):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3 * rng.integers(-2, 3, size=(n, 1))
    return X, X[rng.choice(n, k, replace=False)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("make", [lattice, cloud])
@pytest.mark.parametrize(("n", "d", "k"), [(12, 1, 3), (60, 2, 7), (200, 3, 5), (300, 5, 40), (90, 17, 9)])
def test_every_step_is_the_references(make, n, d, k, algorithm):
    for seed in range(4):
        X, start = make(seed, n, d, k)
        trace = list(reference.kmeans(X, start))
        assigned = [state for state in trace if state.step == "E step"]
        averaged = [state for state in trace if state.step == "M step"]
        for steps_done, mean in enumerate(averaged, start=1):
            model = fit(X, start, max_iter=steps_done, algorithm=algorithm)
            np.testing.assert_array_equal(model.cluster_centers_, mean.mu)
            np.testing.assert_array_equal(model.labels_, assigned[steps_done].labels)
            assert model.inertia_ == pytest.approx(assigned[steps_done].objective, rel=1e-10, abs=1e-12)
            assert model.history_["objective"][-1] == pytest.approx(mean.objective, rel=1e-10, abs=1e-10)
        # the fixed point: the first step that moves no centre, to the bit
        last = reference.run(reference.kmeans(X, start))
        model = fit(X, start, algorithm=algorithm)
        np.testing.assert_array_equal(model.labels_, last.labels)
        np.testing.assert_array_equal(model.cluster_centers_, last.mu)
        means = [np.asarray(start), *(state.mu for state in averaged), last.mu]
        fixed_point = next(t for t in range(1, len(means)) if np.array_equal(means[t], means[t - 1]))
        assert model.n_iter_ == fixed_point
        assert model.history_["changed"][-1] == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_pure_steps_are_the_references(seed):
    """partial, merge and finish over any cuts, without a memory."""
    X, start = lattice(seed, 50, 3, 6)
    state = lloyd.start(start)
    origin = X.mean(axis=0)
    about = lloyd.TotalScatter(origin, float(((X - origin) ** 2).sum()), float(len(X)))
    for mean in (s for s in reference.kmeans(X, start) if s.step == "M step"):
        sums = [lloyd.partial(Block(chunk, None), state, 1) for chunk in np.split(X, [7, 20, 21])]
        total = sums[0]
        for one in sums[1:]:
            total = total.merge(one)
        assert total.rows == 50
        state, report = lloyd.finish(total, state, about)
        np.testing.assert_array_equal(state.centers, mean.mu)
        assert report.objective == pytest.approx(mean.objective, rel=1e-10)


@pytest.fixture(autouse=True)
def _one_thread_for_scikit_learn():
    """Its threads spin while they wait, which on a busy machine takes seconds."""
    with threadpool_limits(1, user_api="openmp"):
        yield


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "d", "k"), [(3000, 2, 10), (2000, 16, 30), (5000, 8, 64)])
def test_equals_scikit_learn_from_the_same_start(n, d, k, weighted):
    X, _ = make_blobs(n, d, centers=k, cluster_std=2.0, random_state=0)
    rng = np.random.default_rng(1)
    start = X[rng.choice(n, k, replace=False)]
    weights = rng.uniform(0.5, 2, size=n) if weighted else None
    # the weights count in knoll's tolerance, so go to the end
    theirs = sklearn.cluster.KMeans(k, init=start, tol=0, n_init=1).fit(X, sample_weight=weights)
    for algorithm in ALGORITHMS:
        ours = KMeans(k, init=start, tol=0, algorithm=algorithm).fit(X, sample_weight=weights)
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
        assert ours.n_iter_ == theirs.n_iter_
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-10, atol=1e-10)
        assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-12)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-6, atol=1e-6)
    assert ours.score(X, sample_weight=weights) == pytest.approx(theirs.score(X, sample_weight=weights), rel=1e-12)


@pytest.mark.parametrize("tol", [1e-3, 1e-2])
def test_stops_where_scikit_learn_stops(tol):
    X, _ = make_blobs(4000, 5, centers=20, cluster_std=4.0, random_state=2)
    start = X[:20]
    ours = KMeans(20, init=start, tol=tol).fit(X)
    theirs = sklearn.cluster.KMeans(20, init=start, tol=tol, n_init=1).fit(X)
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.n_iter_ < KMeans(20, init=start, tol=0).fit(X).n_iter_
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)


def exact_inertia(X, weights, centers, labels):
    w = np.ones(len(X)) if weights is None else weights
    return sum(
        Fraction(float(w[i]))
        * sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(X[i], centers[labels[i]]))
        for i in range(len(X))
    )


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("max_iter", [1, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_inertia_is_the_sum_of_fractions(shift, max_iter, weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)) + 5 * rng.integers(0, 3, size=(120, 1)) + shift
    weights = rng.uniform(size=120) if weighted else None
    model = KMeans(4, init=X[:4], max_iter=max_iter).fit(X, sample_weight=weights)
    exact = exact_inertia(X, weights, model.cluster_centers_, model.labels_)
    assert abs(Fraction(model.inertia_) - exact) <= Fraction(2) ** -36 * exact
    assert -model.score(X, sample_weight=weights) == pytest.approx(float(exact), rel=1e-13)


def test_every_cluster_is_the_rounded_mean_of_its_points():
    X, _ = make_blobs(500, 3, centers=6, random_state=3)
    weights = np.random.default_rng(0).uniform(size=500)
    model = KMeans(6, random_state=0, tol=0).fit(X, sample_weight=weights)
    for c in range(6):
        mine = np.flatnonzero(model.labels_ == c)
        mass = sum(Fraction(weights[i]) for i in mine)
        assert model.cluster_weights_[c] == float(mass)
        for j in range(3):
            total = sum(Fraction(weights[i]) * Fraction(X[i, j]) for i in mine)
            assert model.cluster_centers_[c, j] == float(total / mass)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_matrix])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_rows_give_the_bits_of_dense_ones(dtype, container, weighted):
    rng = np.random.default_rng(4)
    X = (rng.normal(size=(400, 12)) * (rng.random((400, 12)) < 0.3)).astype(dtype)
    weights = rng.integers(0, 3, size=400).astype(float) if weighted else None
    dense = KMeans(7, random_state=1, n_init=2).fit(X, sample_weight=weights)
    sparse = KMeans(7, random_state=1, n_init=2).fit(container(X), sample_weight=weights)
    for name in ("cluster_centers_", "labels_", "inertia_", "n_iter_", "cluster_weights_"):
        np.testing.assert_array_equal(getattr(dense, name), getattr(sparse, name), err_msg=name)
    np.testing.assert_array_equal(dense.predict(container(X)), dense.labels_)
    np.testing.assert_array_equal(sparse.transform(container(X)), dense.transform(X))
    assert sparse.score(container(X)) == dense.score(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [1.0, 1e6, 1e12])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_near_ties_far_from_the_origin_are_decided_by_direct_differences(dtype, offset, d):
    """Points beside the borders of centres that lie a few units in the last place apart: expanded squares are blind."""
    rng = np.random.default_rng(5)
    unit = float(np.spacing(dtype(offset)))
    centers = np.unique(float(dtype(offset)) + 8 * unit * rng.integers(0, 9, size=(40, d)), axis=0)
    i, j = rng.integers(len(centers), size=(2, 3000))
    X = ((centers[i] + centers[j]) / 2 + unit * rng.integers(-1, 2, size=(3000, d))).astype(dtype)
    d2 = np.zeros((len(X), len(centers)))
    for column in range(d):
        d2 += np.square(X[:, column, None].astype(float) - centers[None, :, column])
    expected = d2.argmin(axis=1)
    assert (np.sort(d2, axis=1)[:, 0] == np.sort(d2, axis=1)[:, 1]).any()  # ties there are
    labels, smallest = np.empty(len(X), np.int32), np.empty(len(X))
    assign(X, centers, labels, smallest, 2)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(smallest, d2.min(axis=1))
    for algorithm in ALGORITHMS:
        memory = memory_for(X, len(centers), algorithm)
        memory.step(X, None, centers[::-1].copy(), 2)
        memory.step(X, None, centers, 2)
        np.testing.assert_array_equal(memory.labels, expected)


def plain_partial_fit(batches, start):
    """Sculley's rule, word by word: every point moves its centre by 1/count of the way, the batch assigned at once."""
    centers, counts = np.array(start, dtype=float), np.zeros(len(start))
    for X, w in batches:
        labels = ((X[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        for x, weight, c in zip(X, w, labels):
            counts[c] += weight
            centers[c] = centers[c] + weight / counts[c] * (x - centers[c])
    return centers, counts


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix])
def test_partial_fit_follows_the_rule_of_mini_batches(container):
    X, _ = make_blobs(900, 4, centers=5, random_state=6)
    weights = np.random.default_rng(0).uniform(0.1, 2, size=900)
    batches = [(X[i : i + 90], weights[i : i + 90]) for i in range(0, 900, 90)]
    model = KMeans(5, init=X[:5])
    for batch, w in batches:
        model.partial_fit(container(batch), sample_weight=w)
    centers, counts = plain_partial_fit(batches, X[:5])
    np.testing.assert_allclose(model.cluster_centers_, centers, rtol=1e-12)
    np.testing.assert_allclose(model.cluster_weights_, counts, rtol=1e-13)
    np.testing.assert_array_equal(model.labels_, model.predict(container(batches[-1][0])))
    theirs = sklearn.cluster.MiniBatchKMeans(5, init=X[:5], n_init=1, reassignment_ratio=0)
    for batch, w in batches:
        theirs.partial_fit(batch, sample_weight=w)
    np.testing.assert_allclose(model.cluster_centers_, theirs.cluster_centers_, rtol=1e-10)


FIT = """
import numpy as np
from knoll import KMeans
rng = np.random.default_rng(0)
for dtype in (np.float64, np.float32):
    for d, k in ((2, 12), (9, 40), (33, 150)):
        X = np.round(rng.normal(size=(3000, d)), 1).astype(dtype)  # tenths: near-ties
        for algorithm in ("lloyd", "hamerly", "elkan"):
            model = KMeans(k, random_state=1, algorithm=algorithm, tol=0, n_jobs=2).fit(X)
            print(model.labels_.tobytes().hex(), model.cluster_centers_.tobytes().hex(), model.n_iter_)
"""


def test_every_instruction_set_gives_the_same_labels_and_centres():
    """Labels are decided by the one distance and centres are exact sums, rounded: nothing is left to differ."""
    answers = set()
    for name in _core.build_info()["instruction sets available"].split(", "):
        environment = {**os.environ, "KNOLL_ISA": name}
        done = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True)
        answers.add(done.stdout)
    assert len(answers) == 1
    assert all(len(answer) > 100_000 for answer in answers)
