"""A graph as such: its components, their volumes and known eigenvectors, and an order of its rows.

On each component √(w d / vol) is an eigenvector of D^-½AD^-½ that is known before anything is solved (eq. 4.18).

The order depends on the links alone, so starts drawn from it are the same however the graph is stored. It comes from
colour refinement (Weisfeiler and Leman, 1968): the colour of a row becomes a hash of its own and of the multiset of its
links, each with the colour at the other end. Rows that differ in links within a few steps get different colours. The
colours depend neither on the order of the rows, nor on how the graph is stored, nor on a common power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray

from knoll import _core
from knoll._common.rescale import exponent_of, times_power
from knoll._common.sparse import is_sparse
from knoll._typing import Floats, Hashes, Ints

NO_LINK = 1e-300  # a degree below this is made of values at the end of float64, where they have lost their digits
_ROWS = 64  # rows of a full matrix at a time
_ROUNDS = 4  # rows with equal links within this number of steps are ordered by their coordinates
_ENTRIES = 1 << 16  # of a full matrix at a time: they fit into the cache
_FIRST, _SECOND, _HALF = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(32)


@dataclass(frozen=True)
class Components:
    """The connected components of the graph; a row without links has the label −1."""

    labels: Ints  # (n,)
    volumes: Floats  # (c,): Σ w_i d_i
    order: Ints  # (c,): heaviest first, ties by lowest row

    @property
    def count(self) -> int:
        """How many have links."""
        return len(self.volumes)


def near_components(points: NDArray[Any], cutoff: float, threads: int) -> Ints:
    """Label the components of the graph "within the cutoff"; one component where nothing is cut off."""
    n = len(points)
    if cutoff <= 0 or n == 1:
        return np.zeros(n, dtype=np.int64)
    with np.errstate(over="ignore"):  # beyond float64 is beyond the cutoff
        box = np.ptp(points.astype(np.float64), axis=0) / cutoff
        if float(np.sqrt(np.square(box).sum())) <= 1:
            return np.zeros(n, dtype=np.int64)
    labels = np.empty(n, dtype=np.int64)
    _core.Index(points, cutoff, "euclidean", 2.0, "auto", threads).components(cutoff, None, labels, threads)
    return labels


def sparse_components(matrix: Any) -> Ints:
    """Label the components of a matrix, dense or sparse, in the order of their first rows."""
    if not is_sparse(matrix):
        return _dense_components(np.asarray(matrix))
    _, labels = scipy.sparse.csgraph.connected_components(scipy.sparse.csr_array(matrix), directed=False)
    return labels.astype(np.int64)


def _dense_components(matrix: NDArray[Any]) -> Ints:
    """Label by breadth first, each row read once: a sparse copy of a full matrix would be larger than it."""
    n, count = len(matrix), 0
    labels = np.full(n, -1, dtype=np.int64)
    for first in range(n):
        if labels[first] >= 0:
            continue
        labels[first] = count
        front = np.array([first])
        while len(front):
            reached = np.zeros(n, dtype=np.bool_)
            for begin in range(0, len(front), _ROWS):
                chunk = front[begin : begin + _ROWS]
                reached |= (matrix[chunk] != 0).any(axis=0)
            front = np.flatnonzero(reached & (labels < 0))
            labels[front] = count
        count += 1
    return labels


def heaviest(labels: Ints, degrees: Floats, weights: Floats) -> Components:
    """Compute the volumes and the order of the components, without rows that have no links."""
    labels = np.where(degrees < NO_LINK, -1, labels)
    names, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    volumes: Floats = np.bincount(inverse, weights=weights * degrees, minlength=len(names)).astype(np.float64)
    if names[0] == -1:
        volumes, first, inverse = volumes[1:], first[1:], inverse - 1
    order = np.lexsort((first, -volumes))
    return Components(inverse.astype(np.int64), volumes, order.astype(np.int64))


def known_vectors(components: Components, degrees: Floats, weights: Floats, most: int) -> Floats:
    """Return the eigenvectors of eigenvalue one, √(w d / vol) on each component: (n, c) for the heaviest `most`."""
    kept = components.order[:most]
    out = np.zeros((len(degrees), len(kept)))
    for column, c in enumerate(kept):
        rows = components.labels == c
        out[rows, column] = np.sqrt(weights[rows] * degrees[rows] / components.volumes[c])
    return out


def inverse_roots(weights: Floats, degrees: Floats) -> Floats:
    """√(w/d), (n, 1); 0 for a row without links, which drops out of M."""
    linked = degrees >= NO_LINK
    return np.where(linked, np.sqrt(weights / np.where(linked, degrees, 1.0)), 0.0)[:, None]


# ---- an order of the rows --------------------------------------------------------------------------------------------


def graph_order(matrix: Any, points: NDArray[Any] | None = None) -> Ints:
    """Order the rows of a symmetric matrix by colour, those of one colour by `points`, (n, d), then by number."""
    n = matrix.shape[0]
    shift = 1 - exponent_of(matrix)  # the largest entry comes into [1, 2)
    times = _of_sparse(matrix.tocsr(), shift) if is_sparse(matrix) else _of_full(np.asarray(matrix), shift)
    colours, distinct = np.ones(n, dtype=np.uint64), 1
    for _ in range(_ROUNDS):
        colours = _mixed(colours + times(colours))
        before, distinct = distinct, _count(colours)
        if distinct in (n, before):
            break
    coordinates = [] if points is None or distinct == n else list(np.asarray(points).T[::-1])
    return np.lexsort((np.arange(n), *coordinates, colours)).astype(np.int64)


def _of_sparse(matrix: Any, shift: int) -> Callable[[Hashes], Hashes]:
    """Make c → H c modulo 2^64 with H the hashes of the entries: sums of integers, so in any order."""
    links: Any = scipy.sparse.csr_array((_links(matrix.data, shift), matrix.indices, matrix.indptr), matrix.shape)
    return lambda colours: np.asarray(links @ colours)


def _of_full(matrix: NDArray[Any], shift: int) -> Callable[[Hashes], Hashes]:
    """The same for a full matrix; H is made a block of rows at a time."""
    n = len(matrix)
    blocks = [slice(begin, begin + max(1, _ENTRIES // n)) for begin in range(0, n, max(1, _ENTRIES // n))]
    return lambda colours: np.concatenate([_links(matrix[rows], shift) @ colours for rows in blocks])


def _links(values: NDArray[Any], shift: int) -> Hashes:
    """Hash the values of links; an entry of zero is no link, and its hash is 0."""
    near = values.astype(np.float64, copy=False) + 0.0  # no −0
    bits = times_power(near, shift, out=near).view(np.uint64)
    bits *= _FIRST
    bits ^= bits >> _HALF
    return bits


def _mixed(x: Hashes) -> Hashes:
    """Mix 64-bit numbers, overwriting them, so that high and low bits depend on all bits."""
    x ^= x >> _HALF
    x *= _FIRST
    x ^= x >> _HALF
    x *= _SECOND
    x ^= x >> _HALF
    return x


def _count(colours: Hashes) -> int:
    ordered = np.sort(colours)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
