"""Agglomerative clustering: merge the two clusters of least cost until one is left (docs/theory/07-hierarchies.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.reference import _check as check
from knoll.reference._common import frozen, squared_distances

Cost = Callable[[Ints, Ints], float]


class LinkageState(NamedTuple):
    """The clusters after a merge."""

    merged: Ints  # (2,) the two clusters; i < n is row i, n + t what merge t has made
    height: float  # their cost
    labels: Ints  # (n,) clusters, numbered by their lowest rows


def ward(X: ArrayLike) -> Iterator[LinkageState]:
    """Ward's clustering: merge the two clusters that raise J, the sum of squares, the least (eq. 7.9).

    The height is √(2ΔJ), the distance of two rows where they are alone.

    Parameters
    ----------
    X : (n, d) array
        The points.

    Yields
    ------
    LinkageState
        After each of n − 1 merges.

    Examples
    --------
    >>> from knoll.reference import ward
    >>> [(state.height, state.labels.tolist()) for state in ward([[0.0], [1.0], [3.5]])]
    [(1.0, [0, 0, 1]), (3.4641016151377544, [0, 0, 0])]
    """
    points = check.points(X)

    def cost(a: Ints, b: Ints) -> float:
        difference = points[a].mean(axis=0) - points[b].mean(axis=0)
        return float(np.sqrt(2 * len(a) * len(b) / (len(a) + len(b)) * (difference @ difference)))

    return frozen(_merge(len(points), cost))


def average_linkage(X: ArrayLike) -> Iterator[LinkageState]:
    """Average linkage: merge the two clusters whose rows have the least mean distance.

    Parameters
    ----------
    X : (n, d) array
        The points.

    Yields
    ------
    LinkageState
        After each of n − 1 merges.

    Examples
    --------
    >>> from knoll.reference import average_linkage
    >>> [state.height for state in average_linkage([[0.0], [1.0], [3.5]])]
    [1.0, 3.0]
    """
    return _of_distances(X, np.mean)


def complete_linkage(X: ArrayLike) -> Iterator[LinkageState]:
    """Complete linkage: merge the two clusters whose farthest rows are closest.

    Parameters
    ----------
    X : (n, d) array
        The points.

    Yields
    ------
    LinkageState
        After each of n − 1 merges.

    Examples
    --------
    >>> from knoll.reference import complete_linkage
    >>> [state.height for state in complete_linkage([[0.0], [1.0], [3.5]])]
    [1.0, 3.5]
    """
    return _of_distances(X, np.max)


def single_linkage(X: ArrayLike) -> Iterator[LinkageState]:
    """Single linkage: merge the two clusters whose nearest rows are closest.

    Parameters
    ----------
    X : (n, d) array
        The points.

    Yields
    ------
    LinkageState
        After each of n − 1 merges.

    Examples
    --------
    >>> from knoll.reference import single_linkage
    >>> [state.height for state in single_linkage([[0.0], [1.0], [3.5]])]
    [1.0, 2.5]
    """
    return _of_distances(X, np.min)


def _of_distances(X: ArrayLike, summary: Callable[[Floats], float]) -> Iterator[LinkageState]:
    points = check.points(X)
    distances = np.sqrt(squared_distances(points, points))
    return frozen(_merge(len(points), lambda a, b: float(summary(distances[np.ix_(a, b)]))))


def _merge(n: int, cost: Cost) -> Iterator[LinkageState]:
    clusters = {i: np.array([i]) for i in range(n)}
    labels = np.arange(n)
    for t in range(n - 1):
        pairs = [(cost(clusters[a], clusters[b]), a, b) for a in clusters for b in clusters if a < b]
        height, a, b = min(pairs)
        clusters[n + t] = np.sort(np.concatenate([clusters.pop(a), clusters.pop(b)]))
        labels = labels.copy()
        labels[clusters[n + t]] = clusters[n + t][0]
        yield LinkageState(np.array([a, b]), height, np.unique(labels, return_inverse=True)[1].astype(np.int64))
