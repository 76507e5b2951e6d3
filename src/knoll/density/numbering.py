"""Numbers of the clusters taken from a condensed tree: by weight, so that no order of the rows changes a label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from knoll import _core
from knoll._common.sparse import is_sparse
from knoll._typing import Floats, Ints
from knoll.density.condensed import CondensedTree, Selection, SelectionRule

_BLOCK = 2**16  # rows that are renumbered at once


def selected(rule: SelectionRule, tree: CondensedTree, points: Any) -> Selection:
    """Choose clusters by the rule and number them by weight; between equal choices, the coordinates decide."""
    rank = None if rule.n_clusters is None else _rank_of_clusters(tree, points)
    return number_by_weight(rule.select(tree, rank), points)


def _rank_of_clusters(tree: CondensedTree, points: Any) -> Ints:
    """(c,) the position of the first row of each cluster in the order of contents, with the clusters inside it."""
    n = len(tree.row_cluster)
    order = np.arange(n) if points is None else _by_content(points)
    of_row = np.empty(n, dtype=np.int64)
    of_row[order] = np.arange(n)
    first = np.full(len(tree.parent), n, dtype=np.int64)
    np.minimum.at(first, tree.row_cluster, of_row)
    for c in range(len(first) - 1, 0, -1):  # children come after their parents
        first[tree.parent[c]] = min(first[tree.parent[c]], first[c])
    return first


def number_by_weight(selection: Selection, points: Any) -> Selection:
    """Number clusters by weight, the largest first; of equal ones by the smallest coordinates of their rows.

    Rows without coordinates, points=None, are taken in their own order. The labels are overwritten.
    """
    weight = selection.tree.weight[selection.clusters]
    order = np.lexsort((_rank_of_first_rows(selection, points, weight), -weight))
    number = np.full(len(order) + 1, -1)  # the last entry is that of −1
    number[order] = np.arange(len(order))
    for begin in range(0, len(selection.labels), _BLOCK):
        block = selection.labels[begin : begin + _BLOCK]
        block[:] = number[block]
    return replace(selection, clusters=selection.clusters[order], of_cluster=number[selection.of_cluster])


def _rank_of_first_rows(selection: Selection, points: Any, weight: Floats) -> Ints:
    """(k,) where the first row of each cluster comes among those of all clusters; 0 where all weights are different."""
    rank = np.zeros(len(weight), dtype=np.int64)
    if len(np.unique(weight)) == len(weight):
        return rank
    first = _first_rows(selection.labels, points, len(weight))
    rank[first.argsort() if points is None else _by_content(points[first])] = np.arange(len(weight))
    return rank


def _first_rows(labels: Ints, points: Any, count: int) -> Ints:
    """(k,) the row of the smallest coordinates of each cluster."""
    if isinstance(points, np.ndarray):
        first = np.empty(count, np.int64)
        _core.first_rows(points, labels, first)
        return first
    rows = np.flatnonzero(labels >= 0)
    ordered = rows if points is None else rows[_by_content(points[rows])]
    return np.asarray(ordered[np.unique(labels[ordered], return_index=True)[1]])


def _by_content(points: Any) -> Ints:
    """Sort rows by their coordinates, sparse ones by the columns and values that they store."""
    if not is_sparse(points):
        return np.lexsort(points.T[::-1])
    stored = points.tocsr(copy=True)
    stored.sum_duplicates()
    spans = zip(stored.indptr[:-1], stored.indptr[1:], strict=True)
    keys = [(stored.indices[a:b].tolist(), stored.data[a:b].tolist()) for a, b in spans]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
