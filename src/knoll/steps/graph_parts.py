"""The components of a graph, their volumes, and the eigenvectors of eigenvalue one that they are.

On each component √(w d / vol) is an eigenvector of D^-½AD^-½ that is known before anything is solved (eq. 4.18).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray

from knoll import _core
from knoll.steps.sparse import is_sparse

__all__ = [
    "NO_LINK",
    "Components",
    "heaviest",
    "inverse_roots",
    "known_vectors",
    "near_components",
    "sparse_components",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_LINK = 1e-300  # a degree below this is made of values at the end of float64, where they have lost their digits
_ROWS = 64  # rows of a full matrix at a time


@dataclass(frozen=True)
class Components:
    """The parts into which the graph falls; a row without links has the label −1."""

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
    """Label the components of a matrix that is there, dense or sparse, in the order of their first rows."""
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
                some = front[begin : begin + _ROWS]
                reached |= (matrix[some] != 0).any(axis=0)
            front = np.flatnonzero(reached & (labels < 0))
            labels[front] = count
        count += 1
    return labels


def heaviest(labels: Ints, degrees: Floats, weights: Floats) -> Components:
    """Weigh the components, leaving out rows without links."""
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
