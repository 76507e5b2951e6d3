"""Rows known by their content: who equals whom, and who was in a fit."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from knoll.places import find_places
from knoll.steps.sparse import is_sparse

__all__ = ["equal_rows", "graph_name", "names", "recognised"]

Rows = NDArray[np.int64]
Labels = NDArray[np.int32]


def names(rows: Any) -> NDArray[np.uint64]:
    """Name rows by their contents, (n,): equal rows have equal names, whether zeros are stored or not."""
    if is_sparse(rows):
        table: Any = scipy.sparse.csr_array(rows, dtype=np.float64, copy=True)
        table.sum_duplicates()
        table.eliminate_zeros()
        cuts = zip(table.indptr[:-1], table.indptr[1:], strict=True)
        parts = ((table.indices[a:b], table.data[a:b]) for a, b in cuts)
    else:
        parts = ((at := np.flatnonzero(row), np.asarray(row[at], dtype=np.float64)) for row in rows)
    texts = (columns.astype(np.int64).tobytes() + values.tobytes() for columns, values in parts)
    digests = [hashlib.blake2b(text, digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).copy()


def equal_rows(rows: Any) -> Rows:
    """Number rows so that equal ones bear one number, in the order of their first appearance."""
    if isinstance(rows, np.ndarray):
        return find_places(np.asarray(rows, dtype=np.float64)).which
    _, first, inverse = np.unique(names(rows), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]


def recognised(queries: Any, known_names: Any, labels: Labels) -> Labels:
    """Find the cluster of each query whose contents were in the fit; −1 for the others."""
    known = dict(zip(known_names.tolist(), labels.tolist(), strict=True))
    return np.array([known.get(name, -1) for name in names(queries).tolist()], dtype=np.int32)


def graph_name(graph: Any) -> str:
    """Name a sparse graph by its contents; nothing for a dense matrix."""
    if isinstance(graph, np.ndarray):
        return ""
    parts = (graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data)
    return hashlib.blake2b(b"".join(part.tobytes() for part in parts), digest_size=16).hexdigest()
