"""DBSCAN for every number of clusters, read off a condensed density tree."""

from __future__ import annotations

import itertools

import numpy as np

from knoll._typing import Floats, Ints
from knoll.density.condensed import CondensedTree
from knoll.density.partitions import number_by_rows

__all__ = ["cluster_ends", "labels_at", "levels"]

_LEAST_RATIO = 1e-6


def levels(tree: CondensedTree, most: int) -> dict[int, float]:
    """For each number of clusters, find the height in the widest interval, in ratio, in which the clusters stay.

    A cluster exists from its birth down to its end: its split, or the height at which its last rows leave together.
    """
    end = cluster_ends(tree)
    events = np.unique(np.concatenate([tree.birth[np.isfinite(tree.birth)], end]))
    if len(events) > 1:  # equal rows are at height 0, and no ratio is wider than this
        events = np.maximum(events, _LEAST_RATIO * events[events > 0][0])
    widest: dict[int, tuple[float, float]] = {}
    for low, high in itertools.pairwise(events):
        alive = int(((tree.birth >= high) & (end <= low)).sum())
        if 2 <= alive <= most:
            ratio = float(np.log(high / low))
            if ratio > widest.get(alive, (0.0, 0.0))[0]:
                widest[alive] = ratio, float(low + 0.999 * (high - low))
    return {k: eps for k, (_, eps) in sorted(widest.items())}


def cluster_ends(tree: CondensedTree) -> Floats:
    """Return the height below which each cluster does not exist."""
    least = np.full(len(tree.parent), np.inf)
    np.minimum.at(least, tree.row_cluster, tree.row_height)
    return np.where(tree.death >= 0, tree.death, least)


def labels_at(tree: CondensedTree, height: float) -> Ints:
    """Label the rows by the clusters of the condensed tree that exist at a height."""
    around = np.arange(len(tree.parent))
    for c in range(1, len(around)):
        if tree.birth[c] <= height:
            around[c] = around[tree.parent[c]]
    # a row has left its smallest cluster above the height at which it leaves
    inside = tree.row_height <= height
    labels = np.where(inside, around[tree.row_cluster], -1)
    end = cluster_ends(tree)
    alive = (tree.birth > height) & (end <= height)
    return number_by_rows(np.where((labels >= 0) & alive[np.maximum(labels, 0)], labels, -1))
