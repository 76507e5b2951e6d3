"""The block Krylov eigensolver against LAPACK on the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from knoll._common.linalg import inner, times
from knoll.spectral.eigen import orthonormal, rayleigh_ritz, signed, top_eigenpairs


def matrix_of(values, n, seed=0):
    """A symmetric matrix with these leading eigenvalues, the others in [−0.5, 0.3]."""
    generator = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(generator.normal(size=(n, n)))
    full = np.concatenate([values, generator.uniform(-0.5, 0.3, n - len(values))])
    return (turn * full) @ turn.T, np.sort(full)[::-1], turn


SPECTRA = {
    "well apart": ([1.0, 0.9, 0.8, 0.5], 300, 4),
    "repeated": ([1.0] * 6 + [0.9] * 3, 300, 8),
    "more equal ones than wanted": ([1.0] * 20, 300, 5),
    "clustered": ([1.0, 1 - 1e-6, 1 - 2e-6, 0.99, 0.98], 400, 3),
    "no leader": ([], 50, 10),
    "the whole spectrum": ([], 30, 30),
    "one": ([0.7], 40, 1),
    "an even slope": (list(1 - 1e-3 * np.arange(60)), 250, 3),
    "equal to ten digits": (list(1 - 1e-10 * np.arange(12)), 200, 12),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_pairs_are_lapacks(name):
    values, n, k = SPECTRA[name]
    M, full, _ = matrix_of(values, n)
    found = top_eigenpairs(lambda B: M @ B, n, k, tol=1e-9)
    assert found.converged
    np.testing.assert_allclose(found.values, full[:k], atol=1e-12)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-11)
    np.testing.assert_allclose(found.images, M @ found.vectors, atol=1e-12)
    residuals = np.linalg.norm(M @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_allclose(found.residuals, residuals, atol=1e-12)
    assert residuals.max() <= 1e-9


def test_subspace_of_separated_eigenvalues_is_lapacks():
    M, _, _ = matrix_of([1.0, 1.0, 0.9, 0.8], 200)
    found = top_eigenpairs(lambda B: M @ B, 200, 4, tol=1e-10)
    exact = scipy.linalg.eigh(M, subset_by_index=(196, 199))[1]
    np.testing.assert_allclose(found.vectors @ found.vectors.T, exact @ exact.T, atol=1e-9)


def test_known_vectors_are_deflated():
    M, _, turn = matrix_of([1.0, 0.9, 0.8, 0.7], 150)
    found = top_eigenpairs(lambda B: M @ B, 150, 2, first=turn[:, [0, 2]].copy(), tol=1e-10)
    np.testing.assert_allclose(found.values, [0.9, 0.7], atol=1e-12)
    assert np.abs(turn[:, [0, 2]].T @ found.vectors).max() < 1e-12


def test_a_good_start_saves_applications():
    M, _, turn = matrix_of([1.0, 0.99, 0.98, 0.97], 300)
    plain = top_eigenpairs(lambda B: M @ B, 300, 4, tol=1e-9)
    near = turn[:, :4] + 1e-7 * np.random.default_rng(1).normal(size=(300, 4))
    warm = top_eigenpairs(lambda B: M @ B, 300, 4, start=near, tol=1e-9)
    assert warm.applications < plain.applications
    np.testing.assert_allclose(warm.values, plain.values, atol=1e-12)


def test_an_applied_start_that_is_good_enough_needs_no_application():
    M, _, turn = matrix_of([1.0, 0.9], 100)
    pairs = rayleigh_ritz(turn[:, :5].copy(), M @ turn[:, :5])
    found = top_eigenpairs(
        lambda B: pytest.fail("applied"), 100, 2, start=pairs.vectors, applied=pairs.images, tol=1e-9
    )
    assert found.applications == 0
    assert found.converged


def test_a_start_that_misses_an_eigenvector_finds_it():
    M, full, turn = matrix_of([1.0, 0.9, 0.8], 120)
    found = top_eigenpairs(lambda B: M @ B, 120, 2, start=turn[:, 1:3].copy(), tol=1e-9)
    np.testing.assert_allclose(found.values, full[:2], atol=1e-12)


def test_restarts_are_thick(monkeypatch):
    """With memory for four blocks only, a slow spectrum still converges."""
    monkeypatch.setattr("knoll.spectral.eigen._BASIS_BYTES", 1)
    M, full, _ = matrix_of(list(1 - 1e-3 * np.arange(60)), 500)
    found = top_eigenpairs(lambda B: M @ B, 500, 3, tol=1e-9)
    assert found.converged
    np.testing.assert_allclose(found.values, full[:3], atol=1e-12)


def test_the_end_of_patience_is_reported():
    M, _, _ = matrix_of(list(1 - 1e-4 * np.arange(100)), 400)
    found = top_eigenpairs(lambda B: M @ B, 400, 3, tol=1e-12, max_applications=3)
    assert not found.converged
    assert found.applications == 3
    assert found.residuals.max() > 1e-12


def test_loose_pairs_have_good_values_all_the_same():
    M, full, _ = matrix_of([1.0, 0.9, 0.8, 0.7], 300)
    seen = []
    found = top_eigenpairs(lambda B: M @ B, 300, 4, tol=1e-8, loose=1, hook=lambda *report: seen.append(report))
    assert found.residuals[:3].max() <= 1e-8
    assert found.residuals[3] <= 1e-4
    np.testing.assert_allclose(found.values, full[:4], atol=1e-7)
    assert [report[0] for report in seen] == list(range(1, found.applications + 1))


def test_bits_do_not_depend_on_threads():
    M, _, _ = matrix_of([1.0, 0.9, 0.8], 400)
    one, many = (top_eigenpairs(lambda B: M @ B, 400, 3, threads=t) for t in (1, 3))
    assert one.vectors.tobytes() == many.vectors.tobytes()


def test_another_operator_with_the_same_vectors_is_judged_by_the_first():
    M, full, _ = matrix_of([*(1 - 1e-5 * np.arange(5)), 0.9], 300)
    inverse = np.linalg.inv(1.001 * np.eye(300) - M)
    found = top_eigenpairs(lambda B: inverse @ B, 300, 3, judge=lambda B: M @ B, tol=1e-9)
    np.testing.assert_allclose(found.values, full[:3], atol=1e-12)
    np.testing.assert_allclose(found.images, M @ found.vectors, atol=1e-12)
    residuals = np.linalg.norm(M @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_allclose(found.residuals, residuals, atol=1e-12)
    assert found.converged
    assert residuals.max() <= 1e-9


def test_orthonormal_drops_what_depends():
    generator = np.random.default_rng(0)
    known = np.linalg.qr(generator.normal(size=(50, 3)))[0]
    block = generator.normal(size=(50, 4))
    wide = np.hstack([block, block[:, :2] @ [[1.0], [2.0]], known @ [[1.0], [1.0], [0.0]], np.zeros((50, 1))])
    basis = orthonormal(wide, [known])
    assert basis.shape[1] in (4, 5)  # a direction made of rounding may stay, as long as it is orthogonal
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-13)
    assert np.abs(known.T @ basis).max() < 1e-13
    assert orthonormal(np.zeros((5, 2)), []).shape == (5, 0)


def test_products_and_signs():
    generator = np.random.default_rng(0)
    A, B, C = generator.normal(size=(70, 4)), generator.normal(size=(70, 3)), generator.normal(size=(4, 2))
    np.testing.assert_allclose(inner(A, B), A.T @ B, atol=1e-13)
    np.testing.assert_allclose(times(A, C), A @ C, atol=1e-13)
    assert signed(np.array([[0.1, -3.0], [-2.0, 1.0]])).tolist() == [-1.0, -1.0]
    assert signed(np.array([[1.0], [-1.0 - 1e-9]])).tolist() == [1.0]  # rounding must not choose


def test_no_pairs_are_requested():
    assert top_eigenpairs(lambda B: B, 5, 0).values.shape == (0,)
