"""An order of a graph's rows that its links alone decide: every route to one graph draws the same starts from it.

Colour refinement (Weisfeiler and Leman, 1968): a row's colour becomes a hash of its own and of the multiset of its
links, each with the colour at its other end. Rows that differ in links within some steps get different colours; the
colours depend neither on the order of the rows, nor on how the graph is stored, nor on a common power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll.steps.scaling import largest_of
from knoll.steps.sparse import is_sparse

__all__ = ["graph_order"]

Colours = NDArray[np.uint64]
Ints = NDArray[np.int64]

_ROUNDS = 4  # rows that are alike within so many steps along links are left to their coordinates
_ENTRIES = 1 << 16  # of a full matrix at a time: what the cache holds
_FIRST, _SECOND, _HALF = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(32)


def graph_order(matrix: Any, points: NDArray[Any] | None = None) -> Ints:
    """Order the rows of a symmetric matrix by colour, those of one colour by `points`, (n, d), then by number."""
    n = matrix.shape[0]
    shift = 1 - int(np.frexp(largest_of(matrix))[1])  # the largest entry comes into [1, 2)
    times = _of_sparse(matrix.tocsr(), shift) if is_sparse(matrix) else _of_full(np.asarray(matrix), shift)
    colours, distinct = np.ones(n, dtype=np.uint64), 1
    for _ in range(_ROUNDS):
        colours = _mixed(colours + times(colours))
        before, distinct = distinct, _count(colours)
        if distinct in (n, before):
            break
    coordinates = [] if points is None or distinct == n else list(np.asarray(points).T[::-1])
    return np.lexsort((np.arange(n), *coordinates, colours)).astype(np.int64)


def _of_sparse(matrix: Any, shift: int) -> Callable[[Colours], Colours]:
    """Make c → H c modulo 2^64 with H the hashes of the entries: sums of integers, so in any order."""
    links: Any = scipy.sparse.csr_array((_links(matrix.data, shift), matrix.indices, matrix.indptr), matrix.shape)
    return lambda colours: np.asarray(links @ colours)


def _of_full(matrix: NDArray[Any], shift: int) -> Callable[[Colours], Colours]:
    """The same for a full matrix; H is made a block of rows at a time."""
    n = len(matrix)
    blocks = [slice(begin, begin + max(1, _ENTRIES // n)) for begin in range(0, n, max(1, _ENTRIES // n))]
    return lambda colours: np.concatenate([_links(matrix[rows], shift) @ colours for rows in blocks])


def _links(values: NDArray[Any], shift: int) -> Colours:
    """Hash the values of links; an entry of zero is no link, and its hash is 0."""
    near = values.astype(np.float64, copy=False) + 0.0  # no −0
    if shift:
        with np.errstate(under="ignore"):
            np.ldexp(near, shift, out=near)
    bits = near.view(np.uint64)
    bits *= _FIRST
    bits ^= bits >> _HALF
    return bits


def _mixed(x: Colours) -> Colours:
    """Permute 64-bit numbers in place so that high and low bits depend on all."""
    x ^= x >> _HALF
    x *= _FIRST
    x ^= x >> _HALF
    x *= _SECOND
    x ^= x >> _HALF
    return x


def _count(colours: Colours) -> int:
    ordered = np.sort(colours)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
