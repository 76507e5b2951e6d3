"""Numbers of the clusters taken from a condensed tree: by weight, so that no order of the rows changes a label."""

from __future__ import annotations

from typing import Any

import numpy as np

from knoll._common.sparse import is_sparse
from knoll._typing import Floats, Ints
from knoll.density.condensed import Selection


def number_by_weight(selection: Selection, points: Any) -> Selection:
    """Number clusters by weight, the largest first; of equal ones by the smallest coordinates of their rows.

    Rows without coordinates, points=None, are taken in their own order.
    """
    weight = selection.tree.weight[selection.clusters]
    order = np.lexsort((_first_rows(selection, points, weight), -weight))
    clusters = selection.clusters[order]
    chosen = np.zeros(len(selection.tree.parent), dtype=bool)
    chosen[clusters] = True
    return selection.tree.select(chosen, selection.root_height, clusters)


def _first_rows(selection: Selection, points: Any, weight: Floats) -> Ints:
    """(k,) where the first row of each cluster comes among the rows of clusters of equal weights, else 0."""
    first = np.zeros(len(weight), dtype=np.int64)
    _, inverse, counts = np.unique(weight, return_inverse=True, return_counts=True)
    tied = counts[inverse] > 1
    if not tied.any():
        return first
    rows = np.flatnonzero(np.append(tied, False)[selection.labels])  # the last entry is that of noise
    ordered = rows if points is None else rows[_by_content(points[rows])]
    labels, at = np.unique(selection.labels[ordered], return_index=True)
    first[labels] = at
    return first


def _by_content(points: Any) -> Ints:
    """Sort rows by their coordinates, sparse ones by the columns and values that they store."""
    if not is_sparse(points):
        return np.lexsort(points.T[::-1])
    stored = points.tocsr(copy=True)
    stored.sum_duplicates()
    spans = zip(stored.indptr[:-1], stored.indptr[1:], strict=True)
    keys = [(stored.indices[a:b].tolist(), stored.data[a:b].tolist()) for a, b in spans]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
