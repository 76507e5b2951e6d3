"""The k-means core as Python sees it: exact labels and exact sums for every layout, algorithm and number of threads."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from knoll import _core

ALGORITHMS = ["lloyd", "hamerly", "elkan"]


def one_distance(X, centers):
    """Σ_j (x_j − c_j)², added for j = 0 … d−1: (n, k)."""
    total = np.zeros((len(X), len(centers)))
    for j in range(X.shape[1]):
        total += (X[:, j, None].astype(np.float64) - centers[None, :, j]) ** 2
    return total


def nearest(X, centers):
    return one_distance(X, centers).argmin(axis=1)


def round_sums(sums, k):
    out = np.empty(sums.shape[1])
    _core.exact_round(np.ascontiguousarray(sums), out, 1)
    return out.reshape(k, -1)


def fsums(X, weights, labels, k):
    """(k, d+1): mass and coordinate sums by math.fsum; a weight is so many repetitions."""
    out = np.zeros((k, X.shape[1] + 1))
    for c in range(k):
        mine = np.repeat(np.flatnonzero(labels == c), weights[labels == c].astype(int))
        out[c] = [len(mine), *(math.fsum(X[mine, j]) for j in range(X.shape[1]))]
    return out


def assign(X, centers, threads=2):
    labels, d2 = np.full(len(X), -7, np.int32), np.empty(len(X))
    counts = _core.assign(X, centers, labels, d2, threads)
    return labels, d2, counts


def data(name, n=700, d=5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    match name:
        case "normal":
            return x
        case "lattice":
            return rng.integers(-2, 3, size=(n, d)).astype(float)
        case "duplicates":
            return x[rng.integers(0, 9, n)]
        case "shifted":
            return x + 1e8
        case "far":
            return x + 1e15
        case "huge":
            return x * 1e150
        case "tiny":
            return x * 1e-150
        case "subnormal":
            return x * 1e-160
        case "columns apart":
            return x * 10.0 ** np.arange(-8, -8 + 4 * d, 4)
        case "outlier":
            x[3] = 1e30
            return x
        case "outliers":  # among them some that float32 does not hold, and some nearly so
            x[: n // 10] *= 10.0 ** rng.uniform(10, 34, size=(n // 10, 1))
            return x
        case "heavy tails":
            return rng.standard_t(1.0, size=(n, d))
        case "ties far out":  # where float32 sees none of the differences, beside many rows that it sees well
            x[: n // 5] = 3000 + rng.integers(-2, 3, size=(n // 5, d)) / 1024
            return x
        case "clouds apart":
            return x + 1e6 * rng.normal(size=(4, d))[rng.integers(0, 4, n)]
        case "clouds of clouds":
            near, far = (rng.normal(size=(4, d))[rng.integers(0, 4, n)] for _ in range(2))
            return x + 1e3 * near + 1e6 * far
        case "lattices apart":  # ties that no pivot can separate
            return rng.integers(-2, 3, size=(n, d)) + 2.0**20 * rng.integers(0, 2, size=(n, 1))
    raise AssertionError(name)


NAMES = [
    "normal",
    "lattice",
    "duplicates",
    "shifted",
    "far",
    "huge",
    "tiny",
    "subnormal",
    "columns apart",
    "outlier",
    "outliers",
    "heavy tails",
    "ties far out",
    "clouds apart",
    "clouds of clouds",
    "lattices apart",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [1, 2, 7, 16, 33])
def test_labels_are_the_argmin_of_the_one_distance(name, k):
    X = data(name)
    centers = X[np.random.default_rng(k).choice(len(X), k)]
    labels, d2, (evaluations, _) = assign(X, centers)
    full = one_distance(X, centers)
    np.testing.assert_array_equal(labels, full.argmin(axis=1))
    np.testing.assert_array_equal(d2, full.min(axis=1))
    assert evaluations >= len(X) * k


def layouts(X):
    wide = np.zeros((2 * len(X), 3 * X.shape[1]), X.dtype)
    wide[::2, ::3] = X
    backwards = np.ascontiguousarray(X[::-1])
    frozen = X.copy()
    frozen.flags.writeable = False
    return [X, np.asfortranarray(X), wide[::2, ::3], backwards[::-1], frozen]


def scatter(x, weights, origin, threads=1, how="add_scatter"):
    words = np.zeros(_core.SUM_WORDS, np.int64)
    rows = (x.data, x.indices, x.indptr, x.shape[1]) if sparse.issparse(x) else (x,)
    getattr(_core, how + "_csr" * sparse.issparse(x))(*rows, weights, origin, words, threads)
    rounded = np.empty(1)
    _core.exact_round(words[:, None], rounded, 1, None)
    return rounded[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_layout_and_number_of_threads_gives_the_same_bits(dtype):
    X = data("normal", n=9001, d=7).astype(dtype)
    k = 20
    start = X[:k].astype(np.float64)
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    expected = None
    for layout in layouts(X):
        for threads in (1, 2, 3, 8):
            labels, d2, counts = assign(layout, start, threads)
            sums = np.zeros((_core.SUM_WORDS, k * 8), np.int64)
            _core.add_cluster_sums(layout, weights, labels, sums, threads)
            total_scatter = scatter(layout, weights, start[0], threads)
            got = (labels.tobytes(), d2.tobytes(), counts, round_sums(sums, k).tobytes(), total_scatter)
            expected = expected or got
            assert got == expected
    np.testing.assert_array_equal(round_sums(sums, k), fsums(X, weights, labels, k))
    assert total_scatter == math.fsum(np.repeat(one_distance(X, start[:1])[:, 0], weights.astype(int)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, np.float64) for name in NAMES] + [(name, np.float32) for name in NAMES if name != "huge"],
)
def test_every_algorithm_takes_the_plain_path(algorithm, name, dtype):
    X = data(name, n=1500, d=4).astype(dtype)
    rng = np.random.default_rng(5)
    k = 19
    centers = X[rng.choice(len(X), k, replace=False)].astype(np.float64)
    weights = rng.integers(0, 3, len(X)).astype(float)
    memory = _core.LloydMemory(len(X), X.shape[1], k, algorithm)
    before = np.full(len(X), -1)
    for step in range(25):
        changed, evaluations, rechecks = memory.step(X, weights, centers, 2)
        labels = nearest(X, centers)
        np.testing.assert_array_equal(memory.labels, labels)
        assert changed == (labels != before).sum()
        assert rechecks <= len(X)
        assert evaluations >= len(X) * k or step > 0
        totals = round_sums(memory.sums, k)
        np.testing.assert_array_equal(totals, fsums(X, weights, labels, k))
        rounded = np.empty(totals.size)
        memory.round_sums(rounded, 2)
        np.testing.assert_array_equal(rounded, totals.ravel())
        before = labels
        full = totals[:, 0] > 0
        centers = centers.copy()
        centers[full] = totals[full, 1:] / totals[full, :1]
        if step in (3, 9):  # any centres may come: some jump to a row
            centers[rng.integers(0, k, 3)] = X[rng.integers(0, len(X), 3)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("far", [1e4, 1e15, 1e30])
def test_a_few_rows_far_out_leave_the_others_to_float32(far, algorithm, dtype):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20_000, 8))
    X[:10] *= far
    X = X.astype(dtype)
    centers = X[:40].astype(np.float64)
    memory = _core.LloydMemory(*X.shape, len(centers), algorithm)
    for _ in range(8):
        rechecks = memory.step(X, None, centers, 2)[2]
        assert rechecks < 0.02 * len(X)
        totals = round_sums(memory.sums, len(centers))
        centers = np.where(totals[:, :1] > 0, totals[:, 1:] / np.maximum(totals[:, :1], 1), centers)
    memory.step(X, None, centers, 2)
    np.testing.assert_array_equal(memory.labels, nearest(X, centers))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("clouds", [2, 5, 40])
@pytest.mark.parametrize("d", [2, 40])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_clouds_far_apart_are_left_to_float32(algorithm, d, clouds, dtype):
    rng = np.random.default_rng(9)
    n, k = 20_000, 2 * clouds + 10
    X = rng.normal(size=(n, d)) + 1e4 * rng.normal(size=(clouds, d))[np.arange(n) * 7919 % clouds]
    X = X.astype(dtype)
    X[:4] *= 1e6  # beside some rows far out
    centers = X[:k].astype(np.float64)
    memory = _core.LloydMemory(*X.shape, k, algorithm)
    for _ in range(6):
        assert memory.step(X, None, centers, 2)[2] < 0.05 * n
        totals = round_sums(memory.sums, k)
        centers = np.where(totals[:, :1] > 0, totals[:, 1:] / np.maximum(totals[:, :1], 1), centers)
    memory.step(X, None, centers, 2)
    np.testing.assert_array_equal(memory.labels, nearest(X, centers))
    labels, _, (_, rechecks) = assign(X, centers)
    np.testing.assert_array_equal(labels, memory.labels)
    assert rechecks < 0.05 * n


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_clouds_that_separate_later_are_measured_from_several_pivots(algorithm):
    """At first every cloud has one centre, the others are far out, and one pivot is enough."""
    rng = np.random.default_rng(10)
    n = 20_000
    middle = 1e4 * rng.normal(size=(8, 6))
    X = rng.normal(size=(n, 6)) + middle[rng.integers(0, 8, n)]
    memory = _core.LloydMemory(n, 6, 16, algorithm)
    assert memory.step(X, None, np.vstack([middle, middle + 1e7]), 2)[2] == 0
    pairs = np.vstack([middle, middle + 0.5])
    rechecks = [memory.step(X, None, pairs + off, 2)[2] for off in (0.0, 0.1, -0.1)]
    assert rechecks[0] > n / 4
    assert rechecks[1] + rechecks[2] < 0.05 * n
    np.testing.assert_array_equal(memory.labels, nearest(X, pairs - 0.1))


@pytest.mark.parametrize("far", [1e30, 1e38, 1e39, 1e60, 1e120])
@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("algorithm", ["hamerly", "elkan"])
def test_shifts_beyond_float32_leave_no_bound_behind(algorithm, d, far):
    """Centres go far out and come back; what was known of the rows must not outlive it."""
    X = data("normal", n=600, d=d, seed=12)
    X[:3] *= far
    rng = np.random.default_rng(13)
    centers = X[rng.choice(np.arange(3, 600), 20, replace=False)]
    memory = _core.LloydMemory(*X.shape, 20, algorithm)
    for step in range(40):
        memory.step(X, None, centers, 2)
        np.testing.assert_array_equal(memory.labels, nearest(X, centers))
        totals = round_sums(memory.sums, 20)
        centers = np.where(totals[:, :1] > 0, totals[:, 1:] / np.maximum(totals[:, :1], 1), centers)
        if step % 7 == 4:
            centers[rng.integers(0, 20)] = X[rng.integers(0, 3)]
        if step % 7 == 6:
            centers += 0.3 * rng.normal(size=centers.shape)
            centers[np.abs(centers).max(axis=1) > 100] = X[rng.integers(3, 600)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [255, 256, 257, 513, 3001])
def test_many_columns_and_near_ties(d, dtype):
    """Sums go by blocks of columns there; differences of the last digits decide."""
    rng = np.random.default_rng(d)
    X = (rng.integers(-1, 2, size=(400, d)) + 1e-6 * rng.normal(size=(400, d))).astype(dtype)
    pairs = X[:6].astype(np.float64)
    centers = np.vstack([pairs, pairs + 1e-6 * rng.normal(size=pairs.shape), np.roll(pairs, 1, axis=1)])
    expected = nearest(X, centers)
    for name in ALGORITHMS:
        memory = _core.LloydMemory(*X.shape, len(centers), name)
        for _ in range(2):
            memory.step(X, None, centers, 2)
            np.testing.assert_array_equal(memory.labels, expected)
    scaled = X * (1 + np.arange(400)[:, None] % 7).astype(dtype)
    labels, _, (_, rechecks) = assign(scaled, centers)
    np.testing.assert_array_equal(labels, nearest(scaled, centers))
    assert rechecks <= 400


@pytest.mark.parametrize("d", [784, 5000])
def test_many_columns_are_left_to_float32(d):
    rng = np.random.default_rng(14)
    X = rng.normal(size=(8, d))[rng.integers(0, 8, 2000)] * 0.5 + rng.normal(size=(2000, d))
    _, _, (_, rechecks) = assign(X, X[:12])
    assert rechecks < 100


@pytest.mark.parametrize("algorithm", ["hamerly", "elkan"])
def test_one_long_shift_is_forgotten(algorithm):
    """A start far off moves once; bounds are as good afterwards as if it had been near."""
    X = data("normal", n=20_000, d=8, seed=11)
    evaluated = []
    for off in (0.0, 1e9):
        centers = X[:40].copy()
        centers[0] += off
        memory = _core.LloydMemory(*X.shape, 40, algorithm)
        evaluated.append(0)
        for step in range(40):
            evaluated[-1] += memory.step(X, None, centers, 2)[1]
            totals = round_sums(memory.sums, 40)
            centers = np.where(totals[:, :1] > 0, totals[:, 1:] / np.maximum(totals[:, :1], 1), centers)
            if step == 0:
                centers[0] = X[0]
        memory.step(X, None, centers, 2)
        np.testing.assert_array_equal(memory.labels, nearest(X, centers))
    assert evaluated[1] < 1.25 * evaluated[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_compressed_rows_give_what_dense_rows_give(dtype, index):
    rng = np.random.default_rng(3)
    X = sparse.random(600, 40, density=0.1, random_state=4, format="csr", dtype=np.float64).astype(dtype)
    X.data -= 0.5
    X.data[:20] = 0.0  # stored zeros
    for i in range(X.shape[0]):  # indices in any order
        entries = slice(X.indptr[i], X.indptr[i + 1])
        order = rng.permutation(X.indptr[i + 1] - X.indptr[i])
        X.indices[entries], X.data[entries] = X.indices[entries][order], X.data[entries][order]
    D = X.toarray()
    csr = (X.data, X.indices.astype(index), X.indptr.astype(index), X.shape[1])
    k = 11
    centers = D[rng.choice(len(D), k, replace=False)].astype(np.float64) + 0.01
    weights = rng.integers(0, 3, len(D)).astype(float)
    labels, d2 = np.empty(len(D), np.int32), np.empty(len(D))
    _core.assign_csr(*csr, centers, labels, d2, 2)
    expected_labels, expected_d2, _ = assign(D, centers)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_array_equal(d2, expected_d2)
    sums, expected = np.zeros((2, _core.SUM_WORDS, k * 41), np.int64)
    _core.add_cluster_sums_csr(*csr, weights, labels, sums, 2)
    _core.add_cluster_sums(D, weights, labels, expected, 2)
    np.testing.assert_array_equal(round_sums(sums, k), round_sums(expected, k))
    rows = sparse.csr_array((X.data, csr[1], csr[2]), shape=X.shape)
    for how in ("add_scatter", "add_exact_scatter"):
        assert scatter(rows, weights, centers[0], 2, how) == scatter(D, weights, centers[0], 1, how)
    out, dense = np.empty((2, len(D), k))
    _core.center_distances_csr(*csr, centers, out, 2)
    _core.center_distances(D, centers, dense, 2)
    np.testing.assert_array_equal(out, dense)
    np.testing.assert_array_equal(dense, np.sqrt(one_distance(D, centers)))


@pytest.mark.parametrize("name", NAMES)
def test_compressed_rows_are_decided_exactly(name):
    D = data(name, n=300, d=6)
    D[np.random.default_rng(1).random(D.shape) < 0.5] = 0.0
    X = sparse.csr_matrix(D)
    centers = np.concatenate([D[:9], D[3:5], np.zeros((1, 6))])  # ties among them
    labels, d2 = np.empty(len(D), np.int32), np.empty(len(D))
    evaluations, rechecks = _core.assign_csr(X.data, X.indices, X.indptr, 6, centers, labels, d2, 2)
    full = one_distance(D, centers)
    np.testing.assert_array_equal(labels, full.argmin(axis=1))
    np.testing.assert_array_equal(d2, full.min(axis=1))
    assert evaluations == (len(D) + rechecks) * len(centers)


def csr(x):
    rows = sparse.csr_array(x)
    return rows.data, rows.indices, rows.indptr, x.shape[1]


def dense_then_sparse(x, centers):
    memory = _core.LloydMemory(*x.shape, len(centers), "hamerly")
    memory.step(x, None, centers, 1)
    memory.step_csr(*csr(x), None, centers, 1)


@pytest.mark.parametrize("d", [40, 200])  # fewer and more columns than a block of the scatter has
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_scatter_is_that_of_dense_rows_to_the_bit(d, dtype):
    rng = np.random.default_rng(d)
    X = sparse.random_array((300, d), density=0.03, rng=1, format="csr", dtype=np.float64).astype(dtype)
    origin, weights = rng.normal(size=d), rng.integers(0, 4, 300) / 3
    exact = sum(
        Fraction(w) * sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(row, origin))
        for w, row in zip(weights.tolist(), X.toarray())
    )
    for how, bits in (("add_scatter", 40), ("add_exact_scatter", 52)):
        assert scatter(X, weights, origin, 2, how) == scatter(X.toarray(), weights, origin, 1, how)
        assert abs(Fraction(float(scatter(X, weights, origin, 2, how))) - exact) <= exact / 2**bits


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_of_compressed_rows_are_those_of_dense_rows(algorithm, dtype, index, weighted):
    rng = np.random.default_rng(7)
    n, d, k = 2000, 90, 12
    D = np.where(rng.random((n, d)) < 0.06, rng.normal(2.0, 1.0, (n, d)), 0.0)
    D[:, :k] += 3 * (rng.integers(k, size=n)[:, None] == np.arange(k))
    D[5:9] = D[4]  # copies, and ties between two centres that are equal
    X = sparse.csr_array(D.astype(dtype))
    rows = (X.data, X.indices.astype(index), X.indptr.astype(index), d)
    weights = rng.integers(0, 3, n) / 7 if weighted else None
    D = X.toarray()
    centers = D[rng.choice(n, k, replace=False)].astype(np.float64)
    centers[1] = centers[0]
    memories = [_core.LloydMemory(n, d, k, algorithm) for _ in range(3)]
    evaluated, moved = [], [np.empty(k * (d + 1)) for _ in range(2)]
    for step in range(25):
        counts = memories[0].step(D, weights, centers, 2)
        for memory, threads in zip(memories[1:], (1, 3)):
            found = memory.step_csr(*rows, weights, centers, threads)
            assert found[0] == counts[0]
            np.testing.assert_array_equal(memory.labels, nearest(D, centers))
            np.testing.assert_array_equal(round_sums(memory.sums, k), round_sums(memories[0].sums, k))
        evaluated.append(found[1])
        which, to = np.array([3, 700, 1999]), np.array([0, 5, k - 1], np.int32)
        memories[0].round_moved(D, weights, which, to, moved[0], 1)
        memories[1].round_moved_csr(*rows, weights, which, to, moved[1], 2)
        np.testing.assert_array_equal(*moved)
        totals = round_sums(memories[1].sums, k)
        centers = np.where(totals[:, :1] > 0, totals[:, 1:] / np.maximum(totals[:, :1], 0.1), centers)
        if step == 3:
            centers[2] = D[11]  # a jump
    assert evaluated[0] >= n * k
    assert (evaluated[-1] < n * k / 4) == (algorithm == "hamerly")


def test_entries_that_name_one_column_add_up():
    csr = (np.array([1e16, 1.0, -1e16, 2.0]), np.array([0, 1, 0, 0], np.int32), np.array([0, 4], np.int32), 2)
    centers = np.array([[1e16, 1.0], [2.0, 1.0], [0.0, 0.0]])
    labels, d2 = np.empty(1, np.int32), np.empty(1)
    _core.assign_csr(*csr, centers, labels, d2, 1)
    assert labels[0] == 1
    assert d2[0] == 0.0


def test_rows_without_a_label_are_left_out():
    X = data("normal", n=50)
    labels = np.where(np.arange(50) % 3 == 0, -1, 1).astype(np.int32)
    sums = np.zeros((_core.SUM_WORDS, 2 * 6), np.int64)
    _core.add_cluster_sums(X, None, labels, sums, 1)
    np.testing.assert_array_equal(round_sums(sums, 2), fsums(X, np.ones(50), labels, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, c, s: _core.assign(x, c[:, :1], np.zeros(3, np.int32), None, 1), "centers"),
        (lambda x, c, s: _core.assign(x, c, np.zeros(2, np.int32), None, 1), "labels"),
        (lambda x, c, s: _core.assign(x, c, np.zeros(3, np.int32), np.zeros(2), 1), "distance2"),
        (lambda x, c, s: _core.add_cluster_sums(x, np.ones(2), np.zeros(3, np.int32), s, 1), "weights"),
        (lambda x, c, s: _core.add_cluster_sums(x, None, np.full(3, 2, np.int32), s, 1), "below"),
        (lambda x, c, s: _core.add_cluster_sums(x, None, np.zeros(3, np.int32), s[:, :4].copy(), 1), "sums"),
        (lambda x, c, s: _core.add_scatter(x, None, np.zeros(3), s[:, 0].copy(), 1), "origin"),
        (lambda x, c, s: _core.add_scatter(x, None, np.zeros(2), s[:9, 0].copy(), 1), "sum"),
        (lambda x, c, s: _core.center_distances(x, c, np.zeros((3, 3)), 1), "out"),
        (lambda x, c, s: _core.LloydMemory(3, 2, 2, "fast"), "algorithm"),
        (lambda x, c, s: _core.LloydMemory(3, 2, 0, "lloyd"), "k"),
        (lambda x, c, s: _core.LloydMemory(4, 2, 2, "lloyd").step(x, None, c, 1), "x must"),
        (lambda x, c, s: _core.LloydMemory(3, 2, 3, "lloyd").step(x, None, c, 1), "centers"),
        (lambda x, c, s: _core.LloydMemory(4, 2, 2, "lloyd").step_csr(*csr(x), None, c, 1), "x must"),
        (lambda x, c, s: _core.LloydMemory(3, 2, 3, "lloyd").step_csr(*csr(x), None, c, 1), "centers"),
        (lambda x, c, s: dense_then_sparse(x, c), "dtype and format"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.zeros((3, 2)), np.zeros((2, 2)), np.zeros((_core.SUM_WORDS, 6), np.int64))


@pytest.mark.parametrize(
    ("indices", "indptr", "message"),
    [([0, 2], [0, 1, 2], "indices"), ([0, -1], [0, 1, 2], "indices"), ([0, 1], [0, 3, 2], "indptr")],
)
def test_broken_compressed_rows_are_refused(indices, indptr, message):
    with pytest.raises(ValueError, match=message):
        _core.assign_csr(
            np.ones(2),
            np.array(indices, np.int32),
            np.array(indptr, np.int32),
            2,
            np.zeros((1, 2)),
            np.zeros(2, np.int32),
            None,
            1,
        )


def test_the_fastest_algorithm_has_a_name():
    for n, d, k in [(10**6, 2, 50), (10**5, 64, 256), (10, 1, 1), (10**4, 300, 3)]:
        assert _core.best_lloyd(n, d, k) in ALGORITHMS
