"""Ward's tree with what the relations need of each cluster: its mass, its mean and its sum of squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knoll._typing import Floats, Ints
from knoll.hierarchy.merges import cut


@dataclass(frozen=True)
class WardTree:
    """Clusters 0 … n − 1 are rows; n + t is the result of merge t."""

    children: Ints  # (n − 1, 2)
    rises: Floats  # (n − 1,) ΔJ by the heights of the tree, h²/2
    sizes: Ints  # (2n − 1,)
    means: Floats  # (2n − 1, d)
    inner: Floats  # (2n − 1,) J within the cluster, by eq. 7.2 merge by merge

    @classmethod
    def of(cls, X: Floats, children: Ints, heights: Floats) -> WardTree:
        """Add up the clusters from the rows on; the sums of squares do not use the heights."""
        n, d = X.shape
        sizes = np.ones(2 * n - 1, np.int64)
        means, inner = np.empty((2 * n - 1, d)), np.zeros(2 * n - 1)
        means[:n] = X
        for t, (a, b) in enumerate(children.tolist()):
            sizes[n + t] = sizes[a] + sizes[b]
            share = sizes[b] / sizes[n + t]
            difference = means[b] - means[a]
            means[n + t] = means[a] + share * difference
            inner[n + t] = inner[a] + inner[b] + sizes[a] * share * (difference @ difference)
        return cls(children, np.square(heights) / 2, sizes, means, inner)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.children) + 1

    @property
    def total(self) -> float:
        """J of one cluster, the unit of all differences; 1 for equal rows."""
        return float(self.inner[-1]) or 1.0

    def labels(self, k: int) -> Ints:
        """Return the partition into k clusters."""
        return cut(self.children, self.n, self.n - k)


def objective(X: Floats, labels: Ints) -> float:
    """Compute J of a partition from its rows (eq. 3.4)."""
    return float(np.square(X - cluster_means(X, labels)[labels]).sum())


def cluster_means(X: Floats, labels: Ints) -> Floats:
    """Return the mean of each cluster."""
    counts = np.bincount(labels)
    return np.stack([np.bincount(labels, column) for column in X.T], axis=1) / counts[:, None]


def spaced_counts(n: int, most: int) -> list[int]:
    """Return numbers of clusters from 1 to n, spread evenly on a logarithmic scale."""
    return np.unique(np.geomspace(1, n, min(most, n)).round().astype(int)).tolist()
