"""Eigenvalues and singular values by LAPACK, on one thread.

A library's threads wait for each other by spinning: on a machine with other work an eigenproblem of 300 rows took half
a second instead of a hundredth (docs/decisions/0016-spectral.md). One thread also gives bits that depend on
nothing, which is why large matrices, where two would be faster, use one as well.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import scipy.linalg
import threadpoolctl

from knoll._typing import Floats

__all__ = ["eigh", "one_thread", "svd"]


_lock = threading.Lock()


@functools.cache
def _libraries() -> Any:
    """Find the libraries of linear algebra that are loaded, once: it takes milliseconds."""
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit the libraries to one thread; one caller at a time, since two could restore each other's number."""
    with _lock, _libraries().limit(limits=1):
        yield


def eigh(matrix: Floats, **options: Any) -> tuple[Floats, Floats]:
    """Return eigenvalues, smallest first, and eigenvectors of a symmetric matrix."""
    with one_thread():
        return scipy.linalg.eigh(matrix, **options)


def svd(matrix: Floats) -> tuple[Floats, Floats, Floats]:
    """Return U, the singular values and Vᵀ of a small matrix, no wider than needed."""
    with one_thread():
        return scipy.linalg.svd(matrix, full_matrices=False)
