"""The kernel core at its bindings: shapes, layouts, dtypes, and the laws that callers rely on."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from knoll import _core

FUNCTIONS = [("rbf", 0.7, 1.0), ("rbf", 0.7, 2.0), ("heaviside", 1.1, 0.0), ("poly", 1.0, 3.0), ("linear", 0.0, 0.0)]


def formula(X, Y, function, a, b):
    """The kernel's textbook formula."""
    squares = cdist(X, Y, "sqeuclidean")
    return {
        "rbf": lambda: np.exp(-0.5 * (squares / a**2) ** b),
        "heaviside": lambda: (np.sqrt(squares) <= a).astype(float),
        "poly": lambda: (X @ Y.T + a) ** b,
        "linear": lambda: X @ Y.T,
    }[function]()


def tile(X, Y, function, a, b, threads=1):
    out = np.empty((len(X), len(Y)))
    _core.kernel_tile(X, Y, function, a, b, out, threads)
    return out


def apply(operator, B, threads=1):
    out = np.empty_like(B)
    operator.apply(B, out, threads)
    return out


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(331, 3))


@pytest.mark.parametrize(("function", "a", "b"), FUNCTIONS)
def test_tile_diagonal_and_products_follow_the_formula(points, function, a, b):
    rng = np.random.default_rng(1)
    Y, B = rng.normal(size=(50, 3)), rng.normal(size=(331, 14))
    K, L = formula(points, points, function, a, b), formula(Y, points, function, a, b)
    np.testing.assert_allclose(tile(Y, points, function, a, b), L, rtol=1e-13, atol=1e-13)
    assert np.array_equal(tile(points, Y, function, a, b), tile(Y, points, function, a, b).T)
    diagonal = np.empty(331)
    _core.kernel_diagonal(points, function, a, b, diagonal, 2)
    assert np.array_equal(diagonal, np.diag(tile(points, points, function, a, b)))
    operator = _core.KernelOperator(points, function, a, b, 0.0, 2)
    assert operator.n == 331
    assert 331 * 3 * 8 < operator.bytes < 331 * 3 * 80
    assert operator.pairs <= 331 * 332 // 2
    np.testing.assert_allclose(apply(operator, B), K @ B, rtol=1e-11, atol=1e-11)
    rows = np.empty((50, 14))
    operator.apply_rows(Y, B, rows, 2)
    np.testing.assert_allclose(rows, L @ B, rtol=1e-11, atol=1e-11)


def test_every_layout_and_float32_give_the_bits_of_plain_arrays(points):
    B = np.random.default_rng(2).normal(size=(331, 5))
    small = points.astype(np.float32)
    plain = _core.KernelOperator(points, "rbf", 0.5, 1.0, 0.0, 1)
    expected = apply(plain, B)
    for X in (np.asfortranarray(points), np.repeat(points, 2, axis=0)[::2], points[::-1][::-1]):
        assert np.array_equal(apply(_core.KernelOperator(X, "rbf", 0.5, 1.0, 0.0, 1), B), expected)
        assert np.array_equal(tile(X, X, "rbf", 0.5, 1.0), tile(points, points, "rbf", 0.5, 1.0))
    for threads in (2, 3, 8):
        assert np.array_equal(apply(plain, np.asfortranarray(B), threads), expected)
    wide = small.astype(np.float64)
    assert np.array_equal(tile(small, small, "rbf", 0.5, 1.0), tile(wide, wide, "rbf", 0.5, 1.0))
    assert np.array_equal(
        apply(_core.KernelOperator(small, "rbf", 0.5, 1.0, 0.0, 1), B),
        apply(_core.KernelOperator(wide, "rbf", 0.5, 1.0, 0.0, 1), B),
    )


def test_rows_do_not_depend_on_their_company(points):
    B = np.random.default_rng(3).normal(size=(331, 3))
    for cutoff in (0.0, 1.0):
        operator = _core.KernelOperator(points, "rbf", 0.2, 1.0, cutoff, 1)
        together, alone = np.empty((331, 3)), np.empty((1, 3))
        operator.apply_rows(points, B, together, 2)
        for i in range(0, 331, 30):
            operator.apply_rows(points[i : i + 1], B, alone, 1)
            assert np.array_equal(alone[0], together[i])


def test_the_cutoff_is_inclusive_and_leaves_out_whole_boxes():
    X = np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), axis=-1).reshape(-1, 2)
    full, cut = (_core.KernelOperator(X, "rbf", 2.0, 1.0, cutoff, 1) for cutoff in (np.inf, 5.0))
    K = np.where(cdist(X, X) <= 5.0, tile(X, X, "rbf", 2.0, 1.0), 0.0)
    B = np.eye(900)[:, :20]
    assert np.array_equal(apply(cut, B), K[:, :20])
    assert full.pairs == 900 * 901 // 2
    assert np.count_nonzero(np.triu(K)) <= cut.pairs < full.pairs


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cutoff", [0.0, 1.5])
def test_update_follows_labels_from_nothing_and_from_change_to_change(points, weighted, cutoff):
    rng = np.random.default_rng(4)
    weights = rng.uniform(size=331) if weighted else None
    w = np.ones(331) if weights is None else weights
    K = tile(points, points, "rbf", 0.4, 1.0)
    if cutoff:
        K[cdist(points, points) > cutoff] = 0
    labels = rng.integers(0, 4, 331).astype(np.int32)
    operator = _core.KernelOperator(points, "rbf", 0.4, 1.0, cutoff, 1)
    G = np.zeros((331, 4))
    operator.update(np.arange(331), np.full(331, -1, np.int32), labels, weights, G, 2)
    np.testing.assert_allclose(G, K @ (w[:, None] * np.eye(4)[labels]), atol=1e-12)
    rows = rng.choice(331, 60, replace=False)
    new = ((labels[rows] + 1) % 4).astype(np.int32)
    operator.update(rows, labels[rows], new, weights, G, 2)
    labels[rows] = new
    np.testing.assert_allclose(G, K @ (w[:, None] * np.eye(4)[labels]), atol=1e-12)


def test_pivoted_cholesky_reports_what_it_leaves():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(450, 2))
    operator = _core.KernelOperator(X, "rbf", 0.3, 1.0, 0.0, 1)
    F, pivots, residual = operator.pivoted_cholesky(300, 1e-9, 2)
    assert F.shape == (450, len(pivots))
    assert F.flags.c_contiguous
    assert 0 < len(pivots) < 300
    assert len(set(pivots.tolist())) == len(pivots)
    K = tile(X, X, "rbf", 0.3, 1.0)
    assert residual.min() >= 0
    assert residual.max() <= 1e-9
    assert np.linalg.norm(K - F @ F.T, 2) <= residual.sum() + 1e-12
    np.testing.assert_allclose(1 - (F**2).sum(axis=1), residual, atol=1e-13)
    for threads in (1, 3):
        again = operator.pivoted_cholesky(300, 1e-9, threads)
        assert all(np.array_equal(a, b) for a, b in zip(again, (F, pivots, residual), strict=True))
    short = operator.pivoted_cholesky(7, 0.0, 1)
    assert np.array_equal(short[1], pivots[:7])
    exact = _core.KernelOperator(X[:10], "rbf", 0.3, 1.0, 0.0, 1).pivoted_cholesky(50, 0.0, 1)
    np.testing.assert_allclose(exact[0] @ exact[0].T, tile(X[:10], X[:10], "rbf", 0.3, 1.0), atol=1e-13)


def test_tall_products_and_their_bits():
    rng = np.random.default_rng(6)
    A, B, C = rng.normal(size=(5000, 37)), rng.normal(size=(5000, 9)), rng.normal(size=(37, 9))
    inner, times = np.empty((37, 9)), np.empty((5000, 9))
    _core.tall_inner(A, B, inner, 1)
    _core.tall_times(A, C, times, 1)
    np.testing.assert_allclose(inner, A.T @ B, atol=1e-11)
    np.testing.assert_allclose(times, A @ C, atol=1e-12)
    for threads in (2, 3):
        for a in (A, np.asfortranarray(A)):
            again, more = np.empty((37, 9), order="F"), np.empty((5000, 9), order="F")
            _core.tall_inner(a, B, again, threads)
            _core.tall_times(a, C, more, threads)
            assert np.array_equal(again, inner)
            assert np.array_equal(more, times)


def test_sparse_rows_that_do_not_fit_are_named():
    begin, column, value = np.array([0, 1, 2]), np.array([1, 0], np.int32), np.ones(2)
    B = np.eye(2)
    _core.sparse_times(begin, column, value, B, out := np.empty((2, 2)), 1)
    assert np.array_equal(out, B[::-1])
    _core.sparse_chebyshev(begin, column, value, 0.0, 2, B, out, 1)  # x = 2M + I, T_2 = 2x² − 1, T_2(3) = 17
    np.testing.assert_allclose(out, np.array([[9, 8], [8, 9]]) / 17)
    rising = "begin must rise from 0 to the number of entries, and columns lie within the matrix"
    for call, message in [
        (lambda: _core.sparse_times(begin, column, value[:1], B, out, 1), "begin, column and value must fit together"),
        (lambda: _core.sparse_times(begin, column, np.ones(4)[::2], B, out, 1), "must be contiguous"),
        (lambda: _core.sparse_times(begin + 1, column, value, B, out, 1), rising),
        (lambda: _core.sparse_times(begin[[0, 2, 1]], column, value, B, out, 1), rising),
        (lambda: _core.sparse_times(begin, column + np.int32(1), value, B, out, 1), rising),
        (lambda: _core.sparse_times(begin, column - np.int32(1), value, B, out, 1), rising),
        (lambda: _core.sparse_times(begin, column, value, B, out[:1], 1), r"out must be \(rows, columns of b\)"),
        (lambda: _core.sparse_chebyshev(begin, column, value, 0.0, 2, np.eye(3), out, 1), "the matrix must be square"),
        (lambda: _core.sparse_chebyshev(begin, column, value, 0.0, 2, B, out[:1], 1), "out must be of the shape of b"),
        (lambda: _core.sparse_chebyshev(begin, column, value, 1.0, 2, B, out, 1), "cut must lie between -1 and 1"),
        (lambda: _core.sparse_chebyshev(begin, column, value, 0.0, 0, B, out, 1), "degree be at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_what_does_not_fit_is_named(points):
    operator = _core.KernelOperator(points, "rbf", 1.0, 1.0, 0.0, 1)
    B, G, one = np.zeros((331, 2)), np.zeros((331, 2)), np.zeros(1, np.int32)
    for call, message in [
        (lambda: _core.KernelOperator(points, "rbf", 0.0, 1.0, 0.0, 1), "sigma must be > 0 and finite"),
        (lambda: _core.KernelOperator(points, "rbf", 1.0, 1.0, -1.0, 1), "cutoff must be >= 0"),
        (lambda: _core.KernelOperator(points, "heaviside", -1.0, 1.0, 0.0, 1), "eps must be > 0 and finite"),
        (lambda: _core.KernelOperator(points, "poly", 1.0, 0.5, 0.0, 1), "the degree must be a whole number >= 1"),
        (
            lambda: _core.KernelOperator(points, "cosine", 1.0, 1.0, 0.0, 1),
            "function must be rbf, heaviside, poly",
        ),
        (lambda: tile(points, points[:, :2].copy(), "linear", 0.0, 0.0), "x and y must have the same columns"),
        (lambda: operator.apply(B[:5], B, 1), "b must have one row per row of x"),
        (lambda: operator.apply(B, B[:, :1], 1), "out must have the shape of b"),
        (lambda: operator.apply_rows(points[:, :2].copy(), B, B, 1), "y must have the columns of x"),
        (lambda: operator.update(np.array([331]), one, one, None, G, 1), "rows must be rows of x"),
        (lambda: operator.update(np.array([0]), one, one + 2, None, G, 1), "old and new must be columns of g"),
        (lambda: operator.update(np.array([0, 1]), one, one, None, G, 1), "rows, old and new must have one length"),
        (lambda: operator.update(np.array([0]), one, one, np.ones(3), G, 1), "weights must have one entry per row"),
        (lambda: operator.pivoted_cholesky(-1, 0.0, 1), "max_rank must be >= 0"),
        (lambda: _core.tall_inner(B, B[:3], B, 1), "a and b must have the same rows"),
        (lambda: _core.tall_times(B, B, B, 1), "c must have one row per column of a"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_ctrl_c_stops_a_long_product():
    X = np.random.default_rng(7).normal(size=(150_000, 10))
    operator = _core.KernelOperator(X, "rbf", 3.0, 1.0, 0.0, 2)
    B = np.ones((150_000, 12))
    begun = []

    def interrupt():
        time.sleep(0.2)
        begun.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        operator.apply(B, np.empty_like(B), 2)
    assert time.monotonic() - begun[0] < 1.0  # 0.3 s, and room for a busy machine
