"""Genie: merge along the spanning tree, and keep the sizes of the clusters from becoming too unequal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Ints

__all__ = ["genie"]


def genie(edges: NDArray[np.integer], n: int, grid: Sequence[int], threshold: float) -> dict[int, Ints]:
    """Merge along the spanning tree; while the Gini index of the sizes exceeds the threshold, the smallest joins."""
    wanted = set(grid)
    out: dict[int, Ints] = {}
    parent, size = list(range(n)), [1] * n
    members: list[list[int]] = [[i] for i in range(n)]
    pending = [(int(a), int(b)) for a, b in edges]
    used = [False] * len(pending)
    incident: list[list[int]] = [[] for _ in range(n)]
    for e, (a, b) in enumerate(pending):
        incident[a].append(e)
        incident[b].append(e)
    counts = {1: n}  # clusters by size
    total_gini = 0  # Σ over pairs |size_i − size_j|
    first, k = 0, n

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def spread(s: int) -> int:
        return sum(c * abs(s - t) for t, c in counts.items())

    while k > 1:
        gini = total_gini / (n * (k - 1.0))
        edge = -1
        if gini > threshold:
            least = min(counts)
            # the smallest cluster with the shortest edge: the first unused edge with an end in such a cluster
            for e in range(first, len(pending)):
                if not used[e] and (size[root(pending[e][0])] == least or size[root(pending[e][1])] == least):
                    edge = e
                    break
        else:
            while used[first]:
                first += 1
            edge = first
        used[edge] = True
        a, b = root(pending[edge][0]), root(pending[edge][1])
        for s in (size[a], size[b]):
            counts[s] -= 1
            if not counts[s]:
                del counts[s]
            total_gini -= spread(s)
        joint = size[a] + size[b]
        total_gini += spread(joint)
        counts[joint] = counts.get(joint, 0) + 1
        if len(members[a]) < len(members[b]):
            a, b = b, a
        parent[b] = a
        size[a] = joint
        members[a] += members[b]
        members[b] = []
        k -= 1
        if k in wanted:
            labels = np.empty(n, np.int64)
            for i in range(n):
                if parent[i] == i:
                    labels[members[i]] = i
            out[k] = labels
    return out
