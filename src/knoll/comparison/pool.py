"""The pool: the answers of every method at every number of clusters, equal ones joined, and how far methods agree.

A wrong answer may be stable, but it is seldom found by many methods that have little in common. So for every answer
the pool has the best adjusted Rand index that each source reaches with it at any of its settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from knoll import _core
from knoll._typing import Floats, Ints, Labels
from knoll.comparison.methods import Partition
from knoll.comparison.subsample import Subsample

__all__ = ["GRID", "Pool", "join_answers", "numbers_around", "numbers_for"]

GRID = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 21, 25, 30, 35, 40, 50, 60)  # numbers of clusters
_AROUND = (0.6, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5)  # times the number of many small clusters
_SAME = 0.98  # adjusted Rand index above which two answers are one
_SAME_NUMBER = 0.15  # difference of log k up to which numbers of clusters are about the same
_LEAST_CLUSTERED = 0.2  # share of the rows in clusters, of an answer with noise
_LEAST_ROWS = 6  # of a cluster, on average


@dataclass(frozen=True)
class Pool:
    """Different answers, one cluster of all rows first, and for each the agreement with every source."""

    partitions: tuple[Partition, ...]  # (p)
    members: tuple[tuple[Partition, ...], ...]  # (p) the answers that were joined to each, itself first
    labels: Labels  # (p, m) −1: noise
    filled: Labels  # (p, m) noise in the cluster of the nearest clustered row
    ari: Floats  # (p, p)
    together: Floats  # (p, p) pairs of rows that are in one cluster in both
    agreement: Floats  # (p, sources) the best adjusted Rand index that a source reaches with the answer
    same_number: Floats  # (p, sources) the same at about the same number of clusters
    sources: tuple[str, ...]

    @property
    def n_clusters(self) -> Ints:
        """(p,) the numbers of clusters."""
        return np.array([one.n_clusters for one in self.partitions])

    @property
    def least_sizes(self) -> Ints:
        """(p,) the sizes of the smallest clusters."""
        return np.array([np.bincount(row[row >= 0]).min() for row in self.labels])


def numbers_for(rows: int, numbers: Iterable[int] = GRID) -> tuple[int, ...]:
    """Return the numbers of clusters that so many rows allow, at least the smallest."""
    tried = sorted(set(numbers))
    return tuple(k for k in tried if 2 <= k <= max(2, rows // _LEAST_ROWS)) or tuple(tried[:1])


def numbers_around(many: int) -> tuple[int, ...]:
    """Return numbers of clusters around that of many small clusters; none if there are not many."""
    return tuple(round(many * factor) for factor in _AROUND) if many else ()


def join_answers(subsample: Subsample, found: Iterable[Partition]) -> Pool:
    """Join answers that are nearly equal: the one with the fewest clusters, then the first, represents the others."""
    usable = sorted(_usable(subsample, found), key=lambda one: one.n_clusters)
    every = [Partition("one", np.zeros(subsample.n, np.int64), {}), *usable]
    stack = np.array([one.labels for one in every], np.int32)
    together, ari = _compare_all(stack, subsample.threads)
    kept, members = _representatives(ari, every)
    sources = tuple(dict.fromkeys(one.source for one in every[1:]))
    agreement, same = _agreement(ari[kept], every, kept, sources)
    labels = stack[kept]
    return Pool(
        partitions=tuple(every[i] for i in kept),
        members=members,
        labels=labels,
        filled=np.array([subsample.filled(row) for row in labels], np.int32),
        ari=ari[np.ix_(kept, kept)],
        together=together[np.ix_(kept, kept)],
        agreement=agreement,
        same_number=same,
        sources=sources,
    )


def _usable(subsample: Subsample, found: Iterable[Partition]) -> list[Partition]:
    """Leave out answers of one cluster or nearly all noise; equal rows get equal labels."""
    out = []
    for one in found:
        labels = _numbered(one.labels[subsample.first_equal])
        if labels.max() >= 1 and (labels >= 0).mean() >= _LEAST_CLUSTERED:
            out.append(replace(one, labels=labels))
    return out


def _numbered(labels: Ints) -> Ints:
    """Number clusters 0, 1, … by their first rows; −1 stays."""
    values, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.where(values < 0, -1, first), kind="stable")
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    return rank[inverse] - (1 if values[0] < 0 else 0)


def _compare_all(labels: Labels, threads: int) -> tuple[Floats, Floats]:
    """Count the pairs of rows that two answers both join, and compute their adjusted Rand index, for every two.

    Noise counts as one more cluster.
    """
    shifted = labels - labels.min(axis=1, keepdims=True)
    overlaps = np.empty((len(labels), len(labels)))
    _core.partition_overlaps(np.ascontiguousarray(shifted, np.int32), overlaps, threads)
    n = labels.shape[1]
    together = 0.5 * (overlaps - n)
    own = np.diag(together)
    expected = own[:, None] * own / max(1.0, 0.5 * n * (n - 1))
    most = 0.5 * (own[:, None] + own)
    with np.errstate(divide="ignore", invalid="ignore"):
        ari = (together - expected) / (most - expected)
    return together, np.where(most == expected, 1.0, ari)


def _representatives(ari: Floats, every: list[Partition]) -> tuple[list[int], tuple[tuple[Partition, ...], ...]]:
    kept: list[int] = []
    members: list[list[Partition]] = []
    for i, one in enumerate(every):
        alike = np.flatnonzero(ari[i, kept] > _SAME)
        if len(alike):
            members[int(alike[0])].append(one)
        else:
            kept.append(i)
            members.append([one])
    return kept, tuple(map(tuple, members))


def _agreement(ari: Floats, every: list[Partition], kept: list[int], sources: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Return the best agreement of each source with each answer, at any and at about the same number of clusters."""
    k = np.array([one.n_clusters for one in every])
    near = np.abs(np.log(k[None, :] / k[kept][:, None])) <= _SAME_NUMBER
    any_number, same_number = np.zeros((len(kept), len(sources))), np.zeros((len(kept), len(sources)))
    for column, name in enumerate(sources):
        own = np.array([one.source == name for one in every])
        any_number[:, column] = ari[:, own].max(axis=1)
        same_number[:, column] = np.where(near[:, own], ari[:, own], 0.0).max(axis=1)
    return any_number, same_number
