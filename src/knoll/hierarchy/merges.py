"""Trees of merges: cluster i < n is row i, cluster n + t is the result of merge t; and their cuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Floats, Ints


@dataclass(frozen=True)
class MergeTree:
    """The merges of n rows, in their order."""

    children: Ints  # (m, 2)
    heights: Floats  # (m,)

    @classmethod
    def empty(cls, n: int) -> MergeTree:
        """Make the arrays of n − 1 merges, for the core to fill."""
        return cls(np.empty((n - 1, 2), np.int64), np.empty(n - 1))

    def of_rows(self, rows: Ints, n: int) -> MergeTree:
        """Rename the leaves: leaf i is row rows[i] of n."""
        names = np.concatenate([rows, n + np.arange(len(self.children))])
        return MergeTree(np.sort(names[self.children], axis=1), self.heights)


def cut(children: Ints, n: int, n_merges: int) -> Ints:
    """Label n rows by the clusters that the first merges make, numbered by their first rows."""
    parent = np.arange(n + n_merges)
    parent[children[:n_merges].ravel()] = np.repeat(n + np.arange(n_merges), 2)
    while not np.array_equal(above := parent[parent], parent):  # twice as far each time
        parent = above
    _, first, inverse = np.unique(parent[:n], return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse]


@dataclass(frozen=True)
class SortedRows:
    """Rows in the order of their coordinates, equal ones once.

    The core breaks ties by the numbers of rows. In this order those are the coordinates, so the tree does not depend on
    the order of the rows; and equal rows, which have distance 0, merge before all others.
    """

    order: Ints  # (n,) the rows, sorted
    starts: Ints  # (m,) where in `order` each distinct row begins

    @classmethod
    def of(cls, points: NDArray[Any]) -> SortedRows:
        """Sort the rows."""
        order = np.lexsort(points.T[::-1])
        ordered = points[order]
        new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
        return cls(order.astype(np.int64), np.flatnonzero(new))

    @property
    def rows(self) -> Ints:
        """(m,) a row for each distinct one."""
        return self.order[self.starts]

    def weights(self, weights: Floats | None) -> Floats | None:
        """Add up the weights of equal rows, from the least up, so that no order of the rows changes the rounding.

        None where all are 1.
        """
        n, m = len(self.order), len(self.starts)
        counts = np.diff(self.starts, append=n)
        if weights is None:
            return None if m == n else counts.astype(np.float64)
        each = weights[self.order]
        return np.add.reduceat(each[np.lexsort((each, np.repeat(np.arange(m), counts)))], self.starts)

    def expand(self, tree: MergeTree) -> MergeTree:
        """Make the tree of all rows from that of the distinct ones: equal rows merge first, at height 0."""
        n, m = len(self.order), len(self.starts)
        equal = np.ones(n, dtype=bool)
        equal[self.starts] = False
        added = np.flatnonzero(equal)  # (n − m,) positions in `order`; each joins what the one before it has become
        cluster = self.order.copy()
        cluster[added] = n + np.arange(n - m)
        zero = np.stack([cluster[added - 1], self.order[added]], axis=1)
        roots = cluster[np.append(self.starts[1:], n) - 1]  # (m,) the cluster of all rows that equal each
        names = np.concatenate([roots, 2 * n - m + np.arange(m - 1)])
        children = np.concatenate([zero, names[tree.children]])
        return MergeTree(np.sort(children, axis=1), np.concatenate([np.zeros(n - m), tree.heights]))
