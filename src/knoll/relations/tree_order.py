"""The density tree and the clusters that HDBSCAN takes from it do not depend on the order of the rows (section 7)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats, Ints
from knoll.density.partitions import number_by_rows
from knoll.density.tree import DensityTree
from knoll.relations._tree import level_of, split_sizes
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_SHUFFLES = 20
_THREADS = (1, 2, 3)


class TreeIsOrderFree(Relation):
    """A node joins all components that merge at its height, so there is no tie for the order of rows to decide."""

    name: ClassVar = "tree-is-order-free"
    source: ClassVar = "density tree"
    target: ClassVar = "HDBSCAN"
    statement: ClassVar = (
        "Components of {m ≤ h} are unique, so heights, core distances and the clusters of HDBSCAN, by excess of mass "
        "and leaves, are the same for every order of the rows and every number of threads."
    )
    formula: ClassVar = "labels(X[p])[p⁻¹] = labels(X) for every permutation p"
    most_rows: ClassVar = 20_000
    _defaults: ClassVar = {"min_samples": None, "random_state": 0}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        level = level_of(X, parameters["min_samples"])
        size = max(level, 2)
        tree = DensityTree(level, n_jobs=1).fit(X)
        expected = _clusters(tree, size)
        generator = np.random.default_rng(int(parameters["random_state"]))
        changed, heights = 0, 0.0
        for t in range(_SHUFFLES):
            p = generator.permutation(len(X))
            other = DensityTree(level, n_jobs=_THREADS[t % len(_THREADS)]).fit(np.ascontiguousarray(X[p]))
            back = np.argsort(p)
            found = [number_by_rows(labels[back]) for labels in _clusters(other, size)]
            changed += sum(int((a != b).sum()) for a, b in zip(expected, found, strict=True))
            heights = max(heights, float((np.sort(other.bars_) != np.sort(tree.bars_)).sum()))
            heights = max(heights, float((other.core_distances_[back] != tree.core_distances_).sum()))
        splits, tied = _true_splits(tree, size)
        return self._certificate(
            checks=(
                Check("labels that a shuffle changes, excess of mass and leaves", float(changed), 0.0),
                Check("heights and core distances that a shuffle changes", heights, 0.0),
            ),
            numbers={
                "minPts and least size of a cluster": (level, size),
                "shuffles": _SHUFFLES,
                "clusters by excess of mass": int(expected[0].max()) + 1,
                "leaves": int(expected[1].max()) + 1,
                "splits into clusters": splits,
                "of these with three or more components, where a binary tree depends on the order": tied,
            },
        )


def _clusters(tree: DensityTree, size: int) -> list[Ints]:
    return [number_by_rows(labels) for labels in (tree.eom(size), tree.leaves(size))]


def _true_splits(tree: DensityTree, size: int) -> tuple[int, int]:
    """Count the nodes at which two or more clusters merge, and those of them at which further components do."""
    nodes = [sizes for sizes in split_sizes(tree.order_, tree.bars_) if sum(s >= size for s in sizes) >= 2]
    return len(nodes), sum(len(sizes) > 2 for sizes in nodes)
