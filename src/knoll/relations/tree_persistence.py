"""The density tree is the persistence of the core distances: an identity of lengths, and stability (eq. 7.18, 7.19)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from knoll._typing import Floats
from knoll.density.tree import DensityTree
from knoll.relations._common import shifted_to_zero
from knoll.relations._tree import heights_between, level_of, mutual_reachability
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_SHARES = (1e-3, 1e-2, 1e-1)  # of the median bar: how far rows are moved


class TreeIsPersistence(Relation):
    """Rows are born at their core distance; where components merge, the one born last dies."""

    name: ClassVar = "tree-is-persistence"
    source: ClassVar = "density tree"
    target: ClassVar = "persistence"
    statement: ClassVar = (
        "The lengths of life of all modes but the oldest add up to the weight of the minimum spanning tree minus the "
        "core distances but the least; rows that move by at most δ change heights by at most 2δ, and a mode that "
        "lives longer than 4δ survives."
    )
    formula: ClassVar = "Σ (death − birth) = Σ bars − Σ c + min c;   |u′ − u| ≤ 2δ if every row moves by ≤ δ"
    most_rows: ClassVar = 2_000
    _defaults: ClassVar = {"min_samples": None, "random_state": 0}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        X = shifted_to_zero(X)
        level = level_of(X, parameters["min_samples"])
        tree = DensityTree(level).fit(X)
        life, total = _lives(tree), _spanning_weight(X, level)
        c = tree.core_distances_
        expected = math.fsum([total, -math.fsum(c), float(c.min())])
        u = heights_between(tree.order_, tree.bars_)
        moved, lost, tried = self._moved(X, tree, u, level, int(parameters["random_state"]))
        return self._certificate(
            checks=(
                Check("Σ (death − birth) from Σ bars − Σ c + min c, relative to Σ bars",
                      abs(math.fsum(life) - expected) / (total or 1.0), 1e-12),
                Check("change of a height over 2δ", moved, 1 + 1e-9),
                Check("modes that live longer than 4δ and do not survive", float(lost), 0.0),
            ),
            numbers={"minPts": level, "modes": len(life) + 1, "Σ (death − birth)": math.fsum(life),
                     "values of δ": tried},
        )  # fmt: skip

    def _moved(self, X: Floats, tree: DensityTree, u: Floats, level: int, seed: int) -> tuple[float, int, int]:
        """Move all rows by δ in random directions; return the largest change over 2δ, lost modes, the number of δ."""
        generator = np.random.default_rng(seed)
        unit = float(np.median(tree.bars_[1:]))
        worst, lost, tried = 0.0, 0, 0
        for delta in (share * unit for share in _SHARES):
            if delta <= 2**-30 * float(np.abs(X).max()):  # rows would move by roundings
                continue
            other_X = X + _directions(generator, X.shape) * delta
            other = DensityTree(level).fit(other_X)
            change = np.abs(heights_between(other.order_, other.bars_) - u).max()
            worst, tried = max(worst, float(change) / (2 * delta)), tried + 1
            lost += max(0, int((_lives(tree) > 4 * delta).sum()) - len(_lives(other)))
        return worst, lost, tried


def _lives(tree: DensityTree) -> Floats:
    """Return the lengths of life of the modes that die; those of length 0 are left out."""
    bands = tree.bands()
    finite = np.isfinite(bands.death)
    lives: Floats = (bands.death - bands.birth)[finite]
    return lives


def _spanning_weight(X: Floats, level: int) -> float:
    """Return the weight of the minimum spanning tree of m, by SciPy: each merge of single linkage is an edge."""
    return math.fsum(linkage(squareform(mutual_reachability(X, level), checks=False), "single")[:, 2])


def _directions(generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw vectors of length 1, a rounding less."""
    v = generator.normal(size=shape)
    out: Floats = v / np.sqrt(np.square(v).sum(axis=1, keepdims=True)) * (1 - 2**-40)
    return out
