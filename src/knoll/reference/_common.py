"""What the boxes share: the one distance, the correctly rounded mean, components, borders, the last state.

The squared distance is Σ_j (x_j − y_j)², added for j = 0 … d−1 in float64, and "within ε" means that its
correctly rounded root is ≤ ε. Everything that decides a label goes through here, so that a faster route has
one thing to equal.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from knoll._typing import Bools, Floats, Ints
from knoll.exceptions import InvalidParameter, InvalidType
from knoll.reference._count import spent

State = TypeVar("State", bound=tuple[Any, ...])


def run(states: Iterable[State]) -> State:
    """Run a box to its end and return its last state.

    Parameters
    ----------
    states : generator
        What one of the ten boxes returned, not yet exhausted.

    Examples
    --------
    >>> from knoll.reference import kmeans, run
    >>> run(kmeans([[0.0], [1.0], [9.0]], mu=[[0.0], [9.0]])).labels
    array([0, 0, 1])
    """
    remedy = "Pass what a box returns, e.g. run(kmeans(X, mu))."
    if not isinstance(states, Iterable):
        raise InvalidType(f"run needs the states of a box, got {states!r}. {remedy}")
    last = collections.deque(states, maxlen=1)
    if not last:
        raise InvalidParameter("run got a generator that is exhausted. Call the box again for a fresh one.")
    if not isinstance(last[0], tuple):
        raise InvalidType(f"run needs the states of a box, got {last[0]!r} among them. {remedy}")
    return last[0]


def frozen(states: Iterator[State]) -> Iterator[State]:
    """The same states with read-only arrays, so that a trace kept by the caller stays what it was."""
    for state in states:
        for value in state:
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        yield state


def squared_distances(X: Floats, Y: Floats) -> Floats:
    """‖x_i − y_j‖² for every pair: (n, m)."""
    spent(len(X) * len(Y))
    total = np.zeros((len(X), len(Y)))
    for j in range(X.shape[1]):
        total += np.square(X[:, None, j] - Y[None, :, j])
    return total


def within(d2: Floats, eps: float) -> Bools:
    """Which squared distances are within ε: √d2 ≤ ε, the root correctly rounded (eq. 5.1, 5.11)."""
    inside: Bools = np.sqrt(d2) <= eps
    return inside


def mean(points: Floats) -> Floats:
    """The mean as a function of the *set* of rows: each sum is rounded once, so no row order changes it."""
    return np.array([math.fsum(column) / len(points) for column in points.T])


def nearest_mean(points: Floats) -> Floats:
    """The mean rounded once, as a whole: equal rows have themselves for a mean, to the bit.

    The quotient of `mean` is taken off every row; what is left, summed exactly, corrects it.
    """
    q = mean(points)
    left = [math.fsum([*column, *[-q_j] * len(points)]) for column, q_j in zip(points.T.tolist(), q.tolist())]
    return q + np.array(left) / len(points)


def components(A: Bools, nodes: Bools) -> Ints:
    """Connected components of the graph A on ``nodes`` by depth-first search; −1 off the nodes.

    Numbered by their lowest row.
    """
    labels = np.full(len(A), -1, dtype=np.int64)
    c = 0
    for first in np.flatnonzero(nodes):
        if labels[first] >= 0:
            continue
        labels[first], stack = c, [first]
        while stack:
            new = np.flatnonzero(A[stack.pop()] & nodes & (labels < 0))
            labels[new] = c
            stack.extend(new)
        c += 1
    return labels


def edges(A: Bools) -> Ints:
    """The pairs i < j joined in A: (m, 2)."""
    return np.argwhere(np.triu(A, 1)).astype(np.int64).reshape(-1, 2)


def attach_borders(X: Floats, d2: Floats, eps: float, core: Bools, labels: Ints) -> Ints:
    """Give every non-core row the cluster of its closest core row within ε; none: it stays −1.

    Equally close core rows: the lexicographically smallest coordinates win, which no row order changes
    (docs/theory/errata.md item 3).
    """
    labels = labels.copy()
    reach = within(d2, eps) & core
    for i in np.flatnonzero(~core & reach.any(axis=1)):
        closest = min(np.flatnonzero(reach[i]), key=lambda j: (d2[i, j], X[j].tolist()))
        labels[i] = labels[closest]
    return labels
