"""Operators of a kernel matrix, the choice of a route, and the approximate starts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from knoll._system import free_memory
from knoll.exceptions import BadData, CostError
from knoll.kernels import Function, Gaussian, Heaviside, Linear, Operator, Precomputed
from knoll.kernels.operators import CachedOperator, ZeroDiagonalOperator
from knoll.spectral import route as routes
from knoll.spectral.low_rank import by_cholesky, fourier_grid, gauss_sum, has_finufft
from knoll.spectral.route import choose_route, store

needs_finufft = pytest.mark.skipif(not has_finufft(), reason="finufft, an extra of knoll's, is not installed")


def cloud(n=600, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def route(kernel, X, name="auto", **options):
    return choose_route(kernel, X, name, 1, whole=options.pop("whole", False), owner="Me")


def test_every_route_multiplies_by_the_same_matrix():
    X, B = cloud(), np.random.default_rng(1).normal(size=(600, 3))
    K = Gaussian(0.3).tile(X, X)
    for name in ("stored", "tiles", "truncated", "cholesky"):
        taken = route(Gaussian(0.3), X, name)
        assert taken.name == name
        np.testing.assert_allclose(taken.operator.apply(B), K @ B, atol=1e-11, err_msg=name)
        np.testing.assert_allclose(taken.operator.apply_rows(X[:7], B), K[:7] @ B, atol=1e-11, err_msg=name)


def test_auto_goes_by_size_width_and_reach(monkeypatch):
    assert route(Gaussian(0.3), cloud(100)).name == "stored"
    assert route(Gaussian(0.01), cloud(3000)).name == "truncated"
    assert route(Gaussian(50.0), cloud(3000)).name == "tiles"
    assert route(Gaussian(5.0), cloud(1500, 30)).name == "stored"
    assert route(Heaviside(0.5), cloud(1000)).name == "tiles"
    assert route(Function(lambda a, b: 1.0), cloud(20)).name == "stored"
    assert route(Gaussian(0.01), cloud(3000), whole=True).cutoff == 0
    assert route(Gaussian(0.01), cloud(3000)).sketch == "none"
    monkeypatch.setattr(routes, "_SKETCHED", 2000)
    assert route(Gaussian(0.01), cloud(3000)).sketch == "cholesky"
    monkeypatch.setattr(routes, "_LONG", 1)
    assert route(Gaussian(0.1), cloud(3000)).sketch == ("finufft" if has_finufft() else "cholesky")
    for kernel, X in ((Gaussian(0.3), cloud(100)), (Gaussian(0.01), cloud(3000))):
        assert route(kernel, X).reason


def test_a_matrix_that_is_no_affinity_is_refused_with_its_entry(monkeypatch):
    X = np.array([[1.0], [2.0], [-1.0]])
    with pytest.raises(BadData, match=r"affinity 'linear' must be >= 0, but has -1\.0 at row 0, column 2"):
        store(Linear(), X, 1, "Me")
    with pytest.raises(BadData, match=r"Me: operator='tiles' is for the Gaussian kernel; 'linear' is stored"):
        route(Linear(), X, "tiles")
    monkeypatch.setattr(routes, "free_memory", lambda: 100)
    with pytest.raises(CostError, match=r"the linear matrix of 3 rows takes .* GB .* Use affinity='rbf'"):
        store(Linear(), X, 1, "Me")


def test_far_values_of_a_stored_gaussian_are_zero():
    X = np.array([[0.0], [1.0], [30.0]])
    taken = store(Gaussian(1.0), X, 1, "Me")
    assert taken.matrix[0, 2] == 0
    assert taken.apply_rows(X[2:], np.eye(3))[0].tolist() == [0, 0, 1]
    assert store(Gaussian(1.0), X, 1, "Me", whole=True).matrix[0, 2] > 0


def without_twins(Y):
    return np.full(len(Y), -1)


X_SMALL = cloud(40)
K_SMALL = Gaussian(0.8).tile(X_SMALL, X_SMALL)
OPERATORS = {
    "core": lambda: Gaussian(0.8).operator(X_SMALL),
    "function": lambda: Function(lambda A, B: Gaussian(0.8).tile(A, B)).operator(X_SMALL),
    "cached": lambda: CachedOperator(Gaussian(0.8), X_SMALL, 1),
    "stored": lambda: Precomputed().operator(K_SMALL),
    "sparse": lambda: Precomputed().operator(scipy.sparse.csr_array(K_SMALL)),
    "zero diagonal": lambda: ZeroDiagonalOperator(Gaussian(0.8).operator(X_SMALL), without_twins),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_follows_the_protocol(name):
    operator = OPERATORS[name]()
    K = K_SMALL - np.diag(np.diag(K_SMALL)) if name == "zero diagonal" else K_SMALL
    other = K_SMALL[:5] if name in ("stored", "sparse") else X_SMALL[:5]
    generator = np.random.default_rng(1)
    B, w, labels = generator.normal(size=(40, 3)), generator.uniform(1, 2, 40), np.arange(40, dtype=np.int32) % 3
    i, j = np.array([3, 0, 7]), np.array([7, 1])
    assert isinstance(operator, Operator)
    assert operator.n == 40
    assert operator.bytes >= 0
    np.testing.assert_allclose(operator.diag(), np.diag(K), atol=1e-14)
    np.testing.assert_allclose(operator.rows(i), K[i], atol=1e-14)
    np.testing.assert_allclose(operator.rows(i, j), K[np.ix_(i, j)], atol=1e-14)
    np.testing.assert_allclose(operator.apply(B), K @ B, atol=1e-12)
    np.testing.assert_allclose(operator.apply_rows(other, B), K_SMALL[:5] @ B, atol=1e-12)
    G = np.zeros((40, 3))
    operator.update(np.arange(40), np.full(40, -1, dtype=np.int32), labels, w, G)
    moved = np.array([2, 5])
    operator.update(moved, labels[moved], np.array([0, 1], dtype=np.int32), w, G)
    labels[moved] = 0, 1
    np.testing.assert_allclose(G, K @ (w[:, None] * np.eye(3)[labels]), atol=1e-12)


def test_a_zero_diagonal_keeps_the_digits_of_lonely_rows():
    X = np.concatenate([cloud(600), [[40.0, 0.0]]])
    K = Gaussian(2.0).tile(X, X)
    np.fill_diagonal(K, 0.0)
    B = np.random.default_rng(1).uniform(0.5, 1, size=(601, 2))

    def twin(Y):
        same = [np.flatnonzero((y == X).all(axis=1)) for y in Y]
        return np.array([rows[0] if len(rows) else -1 for rows in same])

    for inner in (Gaussian(2.0).operator(X), CachedOperator(Gaussian(2.0), X, 1)):
        without = ZeroDiagonalOperator(inner, twin)
        np.testing.assert_allclose(without.apply(B), K @ B, rtol=1e-10)
        np.testing.assert_allclose(without.apply_rows(X[-3:], B), K[-3:] @ B, rtol=1e-10)
        assert (K @ B)[-1].max() < 1e-50
        new = np.array([[0.25, 0.5]])
        np.testing.assert_allclose(without.apply_rows(new, B), Gaussian(2.0).tile(new, X) @ B, rtol=1e-10)


def test_memory_is_a_number_of_bytes():
    assert 1 << 20 < free_memory() < 1 << 50


def exact_ritz(X, sigma, p):
    K = Gaussian(sigma).tile(X, X)
    d = K.sum(axis=1)
    values, vectors = scipy.linalg.eigh(K / np.sqrt(d)[:, None] / np.sqrt(d))
    return values[::-1][:p], vectors[:, ::-1][:, :p], d


def test_the_cholesky_start_is_near_the_eigenvectors():
    X = cloud(900)
    _, vectors, d = exact_ritz(X, 1.0, 6)
    sketch = by_cholesky(Gaussian(1.0).operator(X).core, 900, np.ones(900), 6, 1)
    found = np.linalg.qr(sketch.functions * np.sqrt(d)[:, None])[0]
    assert np.linalg.norm(vectors[:, :4] - found @ (found.T @ vectors[:, :4])) < 1e-2
    assert "rank" in sketch.note


def test_no_start_where_the_kernel_is_not_of_low_rank():
    X = cloud(2000, 10)
    assert by_cholesky(Gaussian(0.1).operator(X).core, 2000, np.ones(2000), 10, 1) is None


@needs_finufft
@pytest.mark.parametrize("d", [1, 2, 3])
def test_gauss_sums_by_fft_are_sums(d):
    X, B = cloud(500, d), np.random.default_rng(1).normal(size=(500, 3))
    sums = [gauss_sum(X, 0.5, 1e-11, t)(B) for t in (1, 2)]
    np.testing.assert_allclose(sums[0], Gaussian(0.5).tile(X, X) @ B, atol=1e-7)
    assert sums[0].tobytes() == sums[1].tobytes()


def test_finufft_is_for_few_columns_and_grids(monkeypatch):
    with pytest.raises(BadData, match=r"operator='finufft' is for at most 3 columns, X has 4"):
        route(Gaussian(1.0), cloud(50, 4), "finufft")
    monkeypatch.setattr(routes, "has_finufft", lambda: False)
    with pytest.raises(BadData, match=r"needs FINUFFT\. Install it with pip install knoll\[fast\]"):
        route(Gaussian(1.0), cloud(50), "finufft")
    monkeypatch.setattr(routes, "has_finufft", lambda: True)
    with pytest.raises(BadData, match=r"sigma=1e-06 is so small beside the extent"):
        route(Gaussian(1e-6), cloud(50), "finufft")
    assert fourier_grid(cloud(50), 0.1, 1e-9)[0] > fourier_grid(cloud(50), 0.2, 1e-9)[0]
