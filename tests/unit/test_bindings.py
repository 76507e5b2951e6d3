"""What the bindings refuse: whatever could become an address outside of an array, or a loop without end."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from knoll import _core

BIG = [-1, 40, 2**31, 2**63 - 1, -(2**63)]  # none is a row of 40
X = np.random.default_rng(0).normal(size=(40, 2))


def csr(dtype=np.float64, index=np.int32):
    """Return 4 rows of 3 columns: data, indices, indptr, n_columns."""
    return [
        np.array([1.0, 2.0, 3.0, 4.0], dtype),
        np.array([0, 2, 1, 2], index),
        np.array([0, 2, 3, 3, 4], index),
        3,
    ]


def rows(n, dtype=np.int64):
    return np.empty(n, dtype)


# ---- indices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", BIG)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_seeds_are_rows_of_the_data(value, dtype):
    which = np.arange(40)
    which[7] = value
    with pytest.raises(ValueError, match="rows must be rows of x"):
        _core.kmeans_plus_plus(X.astype(dtype), which, np.ones(40), 0, 0, 2, True, rows(3), 1)


@pytest.mark.parametrize("value", [-1, 4, 2**63 - 1])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_seeds_are_rows_of_sparse_data(value, index):
    with pytest.raises(ValueError, match="rows must be rows of x"):
        _core.kmeans_plus_plus_csr(*csr(index=index), np.array([0, value, 2]), np.ones(3), 0, 0, 2, True, rows(2), 1)


@pytest.mark.parametrize("value", [-1, 3, -(2**31), 2**31 - 1])
def test_missing_categories_are_at_most_all(value):
    gaps = np.zeros(5, np.int32)
    gaps[2] = value
    args = [np.zeros((1, 5)), np.ones((1, 5)), np.ones(1, np.uint8), np.zeros((2, 5), np.int32), gaps, np.zeros((3, 1)),
            np.zeros((3, 2), np.int32), 0.5]  # fmt: skip
    with pytest.raises(ValueError, match="gaps must lie in"):
        _core.prototype_distances(*args, np.empty((3, 5)), 1)
    with pytest.raises(ValueError, match="gaps must lie in"):
        _core.prototype_assign(*args, rows(5), np.empty(5), 1)


@pytest.mark.parametrize("value", BIG)
def test_the_order_of_a_tree_is_of_its_rows(value):
    """n − 1 − row left int64."""
    order = np.arange(40)
    order[7] = value
    with pytest.raises(ValueError, match="order must be rows"):
        _core.cut_tree(order, np.zeros(40), np.zeros(40), 1.0, rows(40), 1)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_draws_are_made_by_positive_weights(weight):
    weights = np.ones(40)
    weights[3] = weight
    with pytest.raises(ValueError, match="weights must be > 0 and finite"):
        _core.kmeans_plus_plus(X, np.arange(40), weights, 0, 0, 2, True, rows(3), 1)
    with pytest.raises(ValueError, match="weights must be > 0 and finite"):
        _core.random_rows(weights, 0, 0, rows(3))


def stepped():
    memory = _core.LloydMemory(4, 3, 2, "hamerly")
    memory.step_csr(np.ones(1), np.zeros(1, np.int32), np.array([0, 1, 1, 1, 1], np.int32), 3, None, np.eye(2, 3), 1)
    return memory


SPARSE_CALLS = {
    "assign_csr": lambda x: _core.assign_csr(*x, np.zeros((2, 3)), rows(4, np.int32), None, 1),
    "add_cluster_sums_csr": lambda x: _core.add_cluster_sums_csr(
        *x, None, np.zeros(4, np.int32), np.zeros((_core.SUM_WORDS, 8), np.int64), 1
    ),
    "add_scatter_csr": lambda x: _core.add_scatter_csr(*x, None, np.zeros(3), np.zeros(_core.SUM_WORDS, np.int64), 1),
    "step_csr": lambda x: _core.LloydMemory(4, 3, 2, "hamerly").step_csr(*x, None, np.zeros((2, 3)), 1),
    "round_moved_csr": lambda x: stepped().round_moved_csr(
        *x, None, np.zeros(1, np.int64), np.ones(1, np.int32), np.empty(8), 1
    ),
    "add_exact_scatter_csr": lambda x: _core.add_exact_scatter_csr(
        *x, None, np.zeros(3), np.zeros(_core.SUM_WORDS, np.int64), 1
    ),
    "center_distances_csr": lambda x: _core.center_distances_csr(*x, np.zeros((2, 3)), np.empty((4, 2)), 1),
    "unique_rows_csr": lambda x: _core.unique_rows_csr(*x, None, rows(4), np.empty(4), None, 1),
    "kmeans_plus_plus_csr": lambda x: _core.kmeans_plus_plus_csr(
        *x, np.arange(4), np.ones(4), 0, 0, 2, True, rows(2), 1
    ),
    "farthest_points_csr": lambda x: _core.farthest_points_csr(*x, None, np.ones(4), rows(4), rows(2), 1),
}


def test_every_function_of_sparse_rows_is_among_these():
    known = {name for owner in (_core, _core.LloydMemory) for name in dir(owner) if name.endswith("_csr")}
    assert set(SPARSE_CALLS) == known


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("name", SPARSE_CALLS)
def test_sparse_rows_fit_together(name, index):
    SPARSE_CALLS[name](csr(index=index))
    for at, value, message in [
        (1, [0, 3, 1, 2], "indices must lie in"),
        (1, [0, -1, 1, 2], "indices must lie in"),
        (2, [0, 3, 2, 3, 4], "indptr must start at 0"),
        (2, [1, 2, 3, 3, 4], "indptr must start at 0"),
        (2, [-1, 2, 3, 3, 4], "indptr must start at 0"),
        (2, [0, 2, 3, 3, 5], "indptr must start at 0"),
        (2, [0, 2, 3, 3, -4], "indptr must start at 0"),
        (2, [], "indptr must have one entry more"),
        (1, [0, 2, 1], "data and indices must have one length"),
        (3, -1, "n_columns"),
        (3, 2**62, "n_columns"),
    ]:
        wrong = csr(index=index)
        wrong[at] = value if at == 3 else np.array(value, index)
        with pytest.raises(ValueError, match=message):
            SPARSE_CALLS[name](wrong)


@pytest.mark.parametrize("name", ["unique_rows_csr", "kmeans_plus_plus_csr", "farthest_points_csr"])
def test_rows_that_are_compared_are_canonical(name):
    x = csr()
    x[1] = np.array([2, 0, 1, 2], np.int32)
    with pytest.raises(ValueError, match="indices must rise within each row"):
        SPARSE_CALLS[name](x)


@pytest.mark.parametrize("used", [(2**32 - 5, 3), (2**31, 70), (71, 3), (3, 71), (-1, 3), (3, -1)])
def test_the_words_in_use_are_words(used):
    k, d = 2, 2
    sums = np.zeros((_core.SUM_WORDS, _core.MIXTURE_HEAD + k * (1 + d + d)), np.int64)
    with pytest.raises(ValueError, match="used"):
        _core.central_moments(
            sums, np.array(used), np.zeros(k), np.zeros((k, d)), 1, 0.0, np.empty(_core.MIXTURE_HEAD),
            np.empty(k), np.empty((k, d)), np.empty((k, d)), np.empty(k, bool), 1,
        )  # fmt: skip


def test_a_mixture_has_a_component():
    with pytest.raises(ValueError, match="at least one row"):
        _core.central_moments(
            np.zeros((_core.SUM_WORDS, _core.MIXTURE_HEAD), np.int64), np.zeros(2, np.int64), np.zeros(0),
            np.zeros((0, 2)), 1, 0.0, np.empty(_core.MIXTURE_HEAD), np.empty(0), np.empty((0, 2)),
            np.empty((0, 2)), np.empty(0, bool), 1,
        )  # fmt: skip


# ---- loops that must end -------------------------------------------------------------------------------------------


def test_a_mixture_has_a_column():
    """Without columns the process crashed."""
    empty, wide = np.zeros(0), np.zeros((3, 0))
    with pytest.raises(ValueError, match="at least one column"):
        _core.expect_mixture(
            np.zeros((60, 0)), 0, empty, 0.125, wide, wide, np.zeros(3), 1.59, np.zeros((60, 4)), None, None, None, 2
        )


@pytest.mark.parametrize("radius", [-1.0, -5e-324, np.nan, -np.inf])
def test_a_radius_is_not_negative(radius):
    """In a process of its own: without the check these calls never end, and cannot be interrupted."""
    program = f"""
        import numpy as np
        from knoll import _core
        x, radius = np.zeros((3, 2)), float("{radius}")
        ends = (np.empty((3, 2)), np.empty(3, np.int64), np.empty(3), np.empty(3, np.uint8))
        index = _core.Index(x, 1.0, "euclidean", 2.0)
        for gaussian in (False, True):
            for call in (
                lambda: _core.on_sphere(x, x.copy(), radius, np.zeros(3, np.uint8), 1),
                lambda: _core.ascent_paths(x, None, x.copy(), radius, None, 0.0, 9, gaussian, 1),
                lambda: _core.ascend(x, None, x.copy(), radius, None, 0.0, 9, gaussian, *ends, 1),
                lambda: index.count(x, radius, 1.0, None, np.empty(3), 1),
                lambda: index.nearest(x, radius, None, np.empty(3, np.int64), np.empty(3), 1),
                lambda: index.first(x, radius, np.empty(3, np.int64), 1),
                lambda: index.components(radius, None, np.empty(3, np.int64), 1),
            ):
                try:
                    call()
                except ValueError as error:
                    assert "must be >= 0" in str(error), error
                else:
                    raise AssertionError("accepted")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


@pytest.mark.parametrize(
    ("level", "tol", "max_steps", "message"),
    [(np.nan, 0.0, 9, "level"), (None, np.nan, 9, "tol"), (None, -1.0, 9, "tol"), (None, 1e-3, -1, "max_steps")],
)
def test_an_ascent_can_end(level, tol, max_steps, message):
    with pytest.raises(ValueError, match=message):
        _core.ascent_paths(X, None, X[:3].copy(), 1.0, level, tol, max_steps, False, 1)


@pytest.mark.parametrize(
    ("least", "weight", "message"),
    [
        (-1.0, 1.0, "min_samples must be finite and > 0"),
        (0.0, 1.0, "min_samples must be finite and > 0"),
        (-np.inf, 1.0, "min_samples must be finite and > 0"),
        (np.nan, 1.0, "min_samples must be finite and > 0"),
        (4.0, -1.7e308, "weights must be >= 0"),
        (4.0, np.nan, "weights must be >= 0"),
    ],
)
def test_a_core_distance_has_a_mass(least, weight, message):
    weights = np.ones(40)
    weights[3] = weight
    out = rows(40), np.empty(40), np.empty(40), np.empty((40, 0), np.int32)
    with pytest.raises(ValueError, match=message):
        _core.density_tree(X, least, weights, "euclidean", 2.0, *out, 1)


@pytest.mark.parametrize("trials", [0, -1, 2**16, 2**63 - 1])
def test_trials_are_few(trials):
    with pytest.raises(ValueError, match="trials"):
        _core.kmeans_plus_plus(X, np.arange(40), np.ones(40), 0, 0, trials, True, rows(3), 1)


# ---- contents that are ordered or put into cells -------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [40, 5000])
def test_rows_that_are_ordered_are_finite(value, n):
    """NaN is unordered and no cell: std::sort and a bucket's number would leave their arrays."""
    x = np.random.default_rng(1).normal(size=(n, 2))
    good = x.copy()
    x[n // 2, 1] = value
    index = _core.Index(good, 1.0, "euclidean", 2.0)
    for call in (
        lambda: _core.dbscan(x, 0.5, 5.0, None, "euclidean", 2.0, "closest", rows(n), rows(n, bool), 1),
        lambda: _core.Index(x, 0.5, "euclidean", 2.0),
        lambda: _core.KernelOperator(x, "rbf", 1.0, 1.0, 0.0, 1),
        lambda: _core.unique_rows(x, None, rows(n), np.empty(n), None, 1),
        lambda: _core.kmeans_plus_plus(x, np.arange(n), np.ones(n), 0, 0, 2, True, rows(3), 1),
        lambda: _core.on_sphere(x, good[:3].copy(), 1.0, rows(3, np.uint8), 1),
        lambda: _core.on_sphere(good, x[n // 2 :][:3].copy(), 1.0, rows(3, np.uint8), 1),
        lambda: _core.kth_distances(x[n // 2 - 20 :][:40], None, 3.0, np.empty(40), 1),
        lambda: index.count(x, 1.0, 1.0, None, np.empty(n), 1),
    ):
        with pytest.raises(ValueError, match="must be finite"):
            call()
    good[0, 0] = value  # the index refers to this array
    with pytest.raises(ValueError, match="x must be finite"):
        index.components(1.0, None, rows(n), 1)


def test_a_mass_is_a_number():
    with pytest.raises(ValueError, match="mass"):
        _core.kth_distances(X, None, np.nan, np.empty(40), 1)


# ---- memory --------------------------------------------------------------------------------------------------------


def odd(array):
    """Return the same array at an odd address."""
    room = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    room[...] = array
    return room


def test_weights_of_a_metric_are_aligned():
    weights = np.zeros(17, np.uint8)[1:].view(np.float64)
    weights[...] = 1.0
    with pytest.raises(ValueError, match="p must be aligned"):
        _core.pair_distances(X, "gower", weights, np.empty(40 * 39 // 2), 1)


def test_arrays_are_aligned():
    mixture = (np.zeros(2), 1.0, np.zeros((1, 2)), np.ones((1, 2)), odd(np.zeros(1)), -np.inf)
    for call, name in [
        (lambda: _core.expect_mixture(X, 2, *mixture, None, rows(40), None, None, 1), "constants"),
        (lambda: _core.all_finite(odd(X), 1), "x"),
        (lambda: _core.assign(X, odd(X[:2]), rows(40, np.int32), None, 1), "centers"),
        (lambda: _core.assign(X, X[:2], odd(rows(40, np.int32)), None, 1), "labels"),
        (lambda: _core.exp(odd(np.zeros(3)), np.zeros(3)), "x"),
    ]:
        with pytest.raises(ValueError, match=f"{name} must be aligned"):
            call()


def test_what_is_written_overlaps_nothing():
    shared = np.zeros(80)
    counts = shared[:40].view(np.int64)
    sliding = np.lib.stride_tricks.as_strided(np.zeros(45), (40, 2), (8, 8), writeable=True)
    for call, message in [
        (lambda: _core.unique_rows(X, None, counts, shared[:40], None, 1), "rows and total must not overlap"),
        (lambda: _core.unique_rows(shared.reshape(40, 2), None, counts, np.empty(40), None, 1), "x and rows"),
        (lambda: _core.exp(shared[:40], shared[1:41]), "x and y"),
        (lambda: _core.center_distances(X, X[:2].copy(), sliding, 1), "out must not overlap itself"),
        (lambda: _core.fill_normal(0, 0, 0, np.lib.stride_tricks.as_strided(shared, (9,), (0,)), 1), "out must not"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_layouts_that_stay_apart_are_taken():
    """Steps of any sign, columns of one array, and exp in place: no entry is in two arrays."""
    both = np.zeros((40, 4))
    expected = np.empty((40, 2))
    _core.center_distances(X, X[:2].copy(), expected, 1)
    for out in (both[:, ::2], both[::-1, 1::-1], both.T[1:3].T, np.asfortranarray(both)[:, :2]):
        _core.center_distances(X, X[:2].copy(), out, 1)
        np.testing.assert_array_equal(out, expected)
    _core.exp(values := np.zeros(5), values)
    assert values.tolist() == [1.0] * 5


def test_read_only_arrays_are_not_written_to():
    out = np.zeros(3)
    out.setflags(write=False)
    with pytest.raises(TypeError):
        _core.exp(np.zeros(3), out)


def test_an_array_that_claims_more_than_memory_holds_is_refused():
    with pytest.raises(ValueError, match="x is too large"):
        _core.all_finite(np.broadcast_to(np.zeros((1, 2)), (2**50, 2)), 1)


@pytest.mark.parametrize("threads", [0, -1, -(2**31)])
def test_there_is_a_thread(threads):
    with pytest.raises(ValueError, match="threads must be >= 1"):
        _core.all_finite(X, threads)


@pytest.mark.parametrize(
    ("n", "d", "k", "message"),
    [(-1, 2, 2, "n must"), (2**62, 2, 2, "n must"), (5, 0, 2, "d must"), (5, 2**62, 2, "d must"), (5, 2, 0, "k must"),
     (5, 2, 2**31, "k must"), (5, 2**36, 2**30, "memory holds"), (5, 2**63 - 1, 2, "d must")],
)  # fmt: skip
def test_sizes_of_a_memory_do_not_overflow(n, d, k, message):
    with pytest.raises(ValueError, match=message):
        _core.LloydMemory(n, d, k, "elkan")


def test_labels_of_a_memory_are_its_own():
    memory = _core.LloydMemory(40, 2, 3, "hamerly")
    memory.step(X, None, X[:3].copy(), 1)
    with pytest.raises(ValueError, match="read-only"):
        memory.labels[0] = 10**9


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly", "elkan"])
def test_a_memory_keeps_to_one_dtype(algorithm):
    """What it keeps of float64 rows cannot be read as what it keeps of float32 ones."""
    x = np.random.default_rng(3).normal(size=(50, 9))
    memory = _core.LloydMemory(50, 9, 4, algorithm)
    memory.step(x, None, x[:4].copy(), 1)
    with pytest.raises(ValueError, match="dtype and format of the previous step"):
        memory.step(x.astype(np.float32), None, x[4:8].copy(), 1)
    memory.step(x, None, x[4:8].copy(), 1)
    expected = np.empty(50, np.int32)
    _core.assign(x, x[4:8].copy(), expected, None, 1)
    np.testing.assert_array_equal(memory.labels, expected)


def test_a_memory_serves_one_call_at_a_time():
    """Steps from several threads either take place one after the other, or are refused."""
    n, k = 20_000, 50
    x = np.random.default_rng(2).normal(size=(n, 8))
    memory = _core.LloydMemory(n, 8, k, "elkan")
    other = []

    def steps():
        for turn in range(10):
            try:
                memory.step(x, None, x[turn : turn + k].copy(), 2)
                _ = memory.sums
            except ValueError as error:
                if "in use" not in str(error):
                    other.append(error)

    threads = [threading.Thread(target=steps) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not other
    memory.step(x, None, x[:k].copy(), 1)
    expected = np.empty(n, np.int32)
    _core.assign(x, x[:k].copy(), expected, None, 1)
    np.testing.assert_array_equal(memory.labels, expected)
