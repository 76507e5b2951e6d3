"""Eigenpairs and singular values are LAPACK's to rounding, and their bits do not depend on the threads of a BLAS."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import threadpoolctl

from knoll._common import linalg
from knoll.spectral.eigen import _Factor


def symmetric(n: int) -> np.ndarray:
    A = np.random.default_rng(n).normal(size=(n, n))
    return (A + A.T) / np.sqrt(n)


@pytest.mark.parametrize("n", [1, 2, 30, 64, 65, 130, 301])
def test_eigenpairs_are_lapacks(n):
    A = symmetric(n)
    values, vectors = linalg.eigh(A)
    np.testing.assert_allclose(values, scipy.linalg.eigvalsh(A), atol=1e-12)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-11)
    last = min(n, 3)
    np.testing.assert_allclose(linalg.eigh(A, last)[0], values[-last:], atol=1e-12)


@pytest.mark.parametrize("A", [np.zeros((70, 70)), np.eye(70), np.ones((70, 70)), np.diag(np.arange(70.0))])
def test_eigenpairs_of_matrices_that_need_no_reflection(A):
    values, vectors = linalg.eigh(A)
    np.testing.assert_allclose((vectors * values) @ vectors.T, A, atol=1e-11)


def test_a_nan_is_refused():
    with pytest.raises(ValueError, match="infs or NaNs"):
        linalg.eigh(np.full((70, 70), np.nan))


@pytest.mark.parametrize("shape", [(30, 4), (4, 30), (40, 40), (90, 50), (50, 90)])
@pytest.mark.parametrize("rank_deficient", [False, True])
def test_singular_values_are_lapacks(shape, rank_deficient):
    A = np.random.default_rng(0).normal(size=shape)
    if rank_deficient:
        A[:, 1] = 0
    left, size, right = linalg.svd(A)
    np.testing.assert_allclose((left * size) @ right, A, atol=1e-11)
    np.testing.assert_allclose(size, scipy.linalg.svdvals(A), atol=1e-11)
    for factor in (left.T @ left, right @ right.T):
        np.testing.assert_allclose(factor, np.eye(min(shape)), atol=1e-11)


def chain(n: int) -> scipy.sparse.csc_array:
    """A chain with links to the next three rows, shifted off the singular Laplacian."""
    links = scipy.sparse.diags_array([np.ones(n - s) for s in (1, 2, 3)], offsets=[1, 2, 3], shape=(n, n))
    both = links + links.T
    return scipy.sparse.csc_array(scipy.sparse.diags_array(both.sum(axis=1) + 1e-3) - both)


def test_a_sparse_system_is_solved():
    system, B = chain(500), np.random.default_rng(0).normal(size=(500, 3))
    factor = _Factor(system)
    np.testing.assert_allclose(system @ factor.solve(B), B, atol=1e-9)
    assert 500 * 3 < factor.entries < 500 * 10


def test_a_matrix_that_is_not_positive_definite_is_refused():
    with pytest.raises(ValueError, match="not positive definite"):
        _Factor(scipy.sparse.csc_array(np.array([[1.0, 2.0], [2.0, 1.0]])))


def test_bits_do_not_depend_on_threads():
    A, tall = symmetric(500), np.random.default_rng(0).normal(size=(3000, 120))
    found = set()
    for threads in (1, 2, 5):
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            arrays = (
                *linalg.eigh(A),
                *linalg.eigh(A, 10),
                *linalg.svd(A[:100, :90]),
                linalg.inner(tall, tall),
                linalg.times(tall, tall[:50].T),
                _Factor(chain(3000)).solve(tall),
            )
            found.add(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    assert len(found) == 1


def test_no_limit_of_the_process_is_changed(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a limit was set")

    monkeypatch.setattr(threadpoolctl.LibController, "__init__", refuse)
    linalg.eigh(symmetric(200))
    linalg.svd(symmetric(80))


@pytest.mark.parametrize("eps", [0.3, 0.34, 0.36, 0.38, 0.42, 0.46, 0.52])
@pytest.mark.parametrize("last", [None, 7])
def test_graphs_with_many_components_have_eigenpairs(eps, last):
    """LAPACK's relatively robust representations do not converge on most of these."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    X = (X - X.mean(axis=0)) / np.sqrt((X.std(axis=0) ** 2).mean())
    links = np.sqrt(((X[:, None] - X) ** 2).sum(-1)) <= eps
    root = np.sqrt(links.sum(axis=1))
    A = links / root[:, None] / root
    values, vectors = linalg.eigh(A, last)
    assert np.abs(A @ vectors - vectors * values).max() < 1e-12
    assert np.abs(vectors.T @ vectors - np.eye(len(values))).max() < 1e-11
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[-len(values) :], atol=1e-12)
