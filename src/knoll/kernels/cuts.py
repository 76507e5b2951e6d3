"""Links between sets of nodes of a graph, and the normalized cut (eq. 4.10 to 4.12)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from knoll._typing import Indices
from knoll.exceptions import BadData, InvalidType
from knoll.kernels.functions import Precomputed
from knoll.kernels.operators import Operator, check_matrix
from knoll.validation import refuse_masked


def links(A: Any, a: ArrayLike, b: ArrayLike) -> float:
    """Add up the similarities between two sets of nodes, Σ_{i∈a} Σ_{j∈b} A_ij   (eq. 4.10).

    Parameters
    ----------
    A : array or sparse matrix of shape (n, n), or Operator
        The similarities.
    a, b : array-like
        Indices of nodes, or masks (n,) of booleans.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import links
    >>> A = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]])
    >>> links(A, [0, 1], [2])
    0.25
    """
    matrix = _graph(A, negative=True)
    left, right = _nodes(a, matrix.n, "a"), _nodes(b, matrix.n, "b")
    inside = np.zeros((matrix.n, 1))
    inside[right] = 1.0
    return math.fsum(matrix.apply(inside)[left, 0])


def normlinks(A: Any, a: ArrayLike, b: ArrayLike) -> float:
    """Compute links(a, b) / links(a, V): the share of a's links that lead to b   (eq. 4.11).

    Parameters
    ----------
    A : array or sparse matrix of shape (n, n), or Operator
        The similarities, ≥ 0.
    a, b : array-like
        Indices of nodes, or masks (n,) of booleans.

    Returns
    -------
    float
        From 0 to 1; 0 where a has no links at all.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import normlinks
    >>> A = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]])
    >>> normlinks(A, [0], [1])
    0.3333333333333333
    """
    matrix = _graph(A)
    left, right = _nodes(a, matrix.n, "a"), _nodes(b, matrix.n, "b")
    inside = np.ones((matrix.n, 2))
    inside[:, 0] = 0.0
    inside[right, 0] = 1.0
    both = matrix.apply(inside)[left]  # (|a|, 2)
    volume = math.fsum(both[:, 1])
    return math.fsum(both[:, 0]) / volume if volume > 0 else 0.0


def normalized_cut(A: Any, labels: ArrayLike) -> float:
    """Compute the normalized cut (1/k) Σ_c links(V_c, V∖V_c) / links(V_c, V) of a partition   (eq. 4.12).

    Parameters
    ----------
    A : array or sparse matrix of shape (n, n), or Operator
        The similarities, symmetric and ≥ 0.
    labels : array-like of shape (n,)
        The cluster of each node; every label that occurs is one, k of them.

    Returns
    -------
    float
        From 0, where no link leaves its cluster, to 1. A cluster without any links counts 0.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.kernels import normalized_cut
    >>> A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    >>> round(normalized_cut(A, [0, 0, 1]), 6)
    0.35
    """
    matrix = _graph(A)
    refuse_masked(labels, "labels")
    clusters = np.asarray(labels)
    if clusters.shape != (matrix.n,):
        raise BadData(
            f"normalized_cut: labels must have one entry for each of {matrix.n} nodes, got shape {clusters.shape}."
        )
    names, own = np.unique(clusters, return_inverse=True)
    inside = np.zeros((matrix.n, len(names)))  # (n, k)
    inside[np.arange(matrix.n), own] = 1.0
    total = matrix.apply(inside)  # (n, k): links of a node to each cluster
    terms = []
    for c in range(len(names)):
        members = total[own == c]
        volume = math.fsum(members.ravel())
        terms.append(1 - math.fsum(members[:, c]) / volume if volume > 0 else 0.0)
    return math.fsum(terms) / len(names)


def _graph(A: Any, *, negative: bool = False) -> Operator:
    """Validate a graph and prepare it."""
    if isinstance(A, Operator):
        return A
    refuse_masked(A, "A")
    matrix: Any = A if scipy.sparse.issparse(A) else np.asarray(A, dtype=np.float64)
    check_matrix(matrix, "the similarity matrix", negative=negative)
    return Precomputed().operator(matrix)


def _nodes(which: ArrayLike, n: int, name: str) -> Indices:
    """Turn indices or a mask into indices, each once."""
    refuse_masked(which, name)
    nodes = np.asarray(which)
    if nodes.dtype == np.bool_:
        if nodes.shape != (n,):
            raise BadData(f"a mask must have one entry for each of {n} nodes, got {name} of shape {nodes.shape}.")
        return np.flatnonzero(nodes)
    if nodes.size == 0:
        return np.empty(0, dtype=np.intp)
    if nodes.dtype.kind not in "iu":
        raise InvalidType(f"{name} must be indices of nodes or a mask, got {nodes.dtype}.")
    nodes = np.unique(nodes)
    if nodes[0] < 0 or nodes[-1] >= n:
        raise BadData(f"{name} must be indices from 0 to {n - 1}, got {nodes[0] if nodes[0] < 0 else nodes[-1]}.")
    return nodes.astype(np.intp)
