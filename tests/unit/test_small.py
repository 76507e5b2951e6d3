"""Small eigenproblems run on one thread of the library's, and leave its number of threads as it was."""

from __future__ import annotations

import threading

import numpy as np
import scipy.linalg
import threadpoolctl

from knoll._common import linalg


def counts():
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


def test_values_are_lapacks():
    A = np.random.default_rng(0).normal(size=(30, 30))
    A = A + A.T
    np.testing.assert_allclose(linalg.eigh(A)[0], scipy.linalg.eigvalsh(A), atol=1e-12)
    np.testing.assert_allclose(linalg.eigh(A, subset_by_index=(28, 29))[0], scipy.linalg.eigvalsh(A)[28:], atol=1e-12)
    left, size, right = linalg.svd(A[:, :4])
    np.testing.assert_allclose((left * size) @ right, A[:, :4], atol=1e-12)


def test_one_thread_inside_and_the_old_number_outside(monkeypatch):
    seen = []
    real = scipy.linalg.eigh
    monkeypatch.setattr(scipy.linalg, "eigh", lambda *a, **k: (seen.append(counts()), real(*a, **k))[1])
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        before = counts()
        linalg.eigh(np.eye(4))
        assert counts() == before
    assert set(seen[0]) == {1}


def test_callers_that_overlap_leave_the_old_number():
    before = counts()
    A = np.random.default_rng(0).normal(size=(40, 40))
    threads = [threading.Thread(target=lambda: [linalg.eigh(A + A.T) for _ in range(40)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts() == before
    with threadpoolctl.threadpool_limits(1, user_api="blas"):  # nobody has kept the number to himself
        assert set(counts()) == {1}
    assert counts() == before


def test_large_matrices_have_one_thread_too():
    """Bits equal over threads, however large the matrix."""
    A = np.random.default_rng(0).normal(size=(1100, 1100))
    found = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            found.append(linalg.eigh(A + A.T, subset_by_index=(1090, 1099))[1].tobytes())
    assert found[0] == found[1]
