"""Sparse matrices whose eigenvalues crowd near one: by either operator, the pairs are those of LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from knoll.neighbors.graph import graph_of, neighbours_of
from knoll.spectral import eigen
from knoll.spectral.eigen import SparseMatrix, sparse_eigenpairs
from knoll.spectral.graph import heaviest, inverse_roots, known_vectors, sparse_components


def graph(name, n=1500):
    generator = np.random.default_rng(0)
    match name:
        case "strip":
            X = np.c_[generator.uniform(0, 30, n), generator.uniform(0, 1, n)]
        case "cloud":
            X = generator.normal(size=(n, 8))
        case "three strips":
            X = np.c_[generator.uniform(0, 30, n), generator.uniform(0, 1, n) + 9 * generator.integers(3, size=n)]
        case "square of equal pairs":  # both directions of a square: eigenvalues come in pairs
            side = np.arange(36.0)
            X = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return graph_of(neighbours_of(X, 9, 1, "test")[0])


def problem(A, m):
    weights, degrees = np.ones(A.shape[0]), A.sum(axis=1)
    found = heaviest(sparse_components(A), degrees, weights)
    first = known_vectors(found, degrees, weights, m)
    scale = inverse_roots(weights, degrees)[:, 0]
    return first, scale, scale[:, None] * A.toarray() * scale


OPERATORS = {"inverse": (1e9, "shift and invert"), "filter": (0.0, "Chebyshev's filter")}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("name", ["strip", "cloud", "three strips", "square of equal pairs"])
def test_pairs_are_lapacks(name, operator, monkeypatch):
    fill, expected = OPERATORS[operator]
    monkeypatch.setattr(eigen, "_FILL", fill)
    A = graph(name)
    first, scale, M = problem(A, 9)
    k = 9 - first.shape[1]
    found, note = sparse_eigenpairs(
        SparseMatrix(A, scale, 1), k, first=first, tol=1e-9, loose=1, max_applications=300, seed=0, threads=1
    )
    assert (note, found.converged) == (expected, True)
    exact = scipy.linalg.eigvalsh(M)[::-1][first.shape[1] :][:k]
    np.testing.assert_allclose(found.values[:-1], exact[:-1], atol=1e-12)
    assert found.values[-1] == pytest.approx(exact[-1], abs=0.05 * (1 - exact[-1]))  # for the gap alone
    residuals = np.linalg.norm(M @ found.vectors - found.vectors * found.values, axis=0)
    assert residuals[:-1].max() <= 1e-9
    np.testing.assert_allclose(found.images, M @ found.vectors, atol=1e-12)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-10)
    assert np.abs(first.T @ found.vectors).max() < 1e-10


@pytest.mark.parametrize("operator", OPERATORS)
def test_bits_do_not_depend_on_threads(operator, monkeypatch):
    monkeypatch.setattr(eigen, "_FILL", OPERATORS[operator][0])
    A = graph("strip")
    first, scale, _ = problem(A, 4)
    one, many = (
        sparse_eigenpairs(
            SparseMatrix(A, scale, t), 3, first=first, tol=1e-8, loose=1, max_applications=300, seed=0, threads=t
        )[0]
        for t in (1, 3)
    )
    assert one.vectors.tobytes() == many.vectors.tobytes()


def test_a_factor_is_made_where_it_fills_little():
    """Sheets are factorised, clouds in eight dimensions are not; many pieces nearly apart are all found."""
    notes = {}
    for name in ("strip", "cloud"):
        A = graph(name, 5000)
        first, scale, _ = problem(A, 4)
        options = {"first": first, "tol": 1e-8, "loose": 1, "max_applications": 300, "seed": 0, "threads": 1}
        notes[name] = sparse_eigenpairs(SparseMatrix(A, scale, 1), 3, **options)[1]
    assert notes == {"strip": "shift and invert", "cloud": "Chebyshev's filter"}
    block = scipy.sparse.csr_array(np.ones((20, 20)))
    apart = scipy.sparse.csr_array(scipy.sparse.block_diag([block] * 60) + 1e-6 * scipy.sparse.eye_array(1200, k=20))
    apart = scipy.sparse.csr_array(apart + apart.T)
    first, scale, _ = problem(apart, 2)
    pairs, _ = sparse_eigenpairs(
        SparseMatrix(apart, scale, 1), 70, first=first, tol=1e-6, loose=0, max_applications=300, seed=0, threads=1
    )
    assert pairs.converged
    assert np.count_nonzero(pairs.values > 0.99) == 59


def test_the_end_of_patience_is_reported():
    A = graph("strip")
    first, scale, _ = problem(A, 4)
    seen = []
    for most in (2, 5, 7):
        pairs, _ = sparse_eigenpairs(
            SparseMatrix(A, scale, 1),
            3,
            first=first,
            tol=1e-14,
            loose=1,
            max_applications=most,
            seed=0,
            threads=1,
            hook=lambda *report: seen.append(report),
        )
        assert (pairs.converged, pairs.applications) == (False, most)
    assert [report[0] for report in seen[-7:]] == [1, 2, 3, 4, 5, 6, 7]
