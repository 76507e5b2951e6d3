"""Mean Shift is climbing DBSCAN with a level that no point reaches (errata item 7)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats, Ints
from knoll.density.ascent import Ends, KernelDensity, find_modes
from knoll.relations._common import same_partition
from knoll.relations._density import bandwidth
from knoll.relations.certificate import Certificate, Check
from knoll.relations.path import Frame, Path
from knoll.relations.relation import Limit

_STEPS = 2**31 - 1


class ClimbToMeanShift(Limit):
    """An ascent that stops at a level continues to the mode as the level increases."""

    name: ClassVar = "climb-to-mean-shift"
    source: ClassVar = "DBSCAN, climbing version"
    target: ClassVar = "Mean Shift"
    statement: ClassVar = (
        "From the level L* on, and not before, every row has the end point of Mean Shift; the path at a level is the "
        "beginning of the path at the next level."
    )
    formula: ClassVar = "L* = 1 + max |N_ε(y)| over all visited y that are not fixed;  minPts ≥ L* ⇔ equal ends"
    most_rows: ClassVar = 20_000
    _defaults: ClassVar = {"bandwidth": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps = bandwidth(X, parameters["bandwidth"])
        density = KernelDensity(X, None, eps)
        mean_shift = density.ascend(X, _STEPS)
        paths = density.paths(X, _STEPS)
        star = _level(density, paths)
        at, below = density.ascend(X, _STEPS, level=float(star)), density.ascend(X, _STEPS, level=float(star - 1))
        nested, levels = 0, _levels(star, 6)
        for level in levels:
            nested += _not_nested(paths, density.ascend(X, _STEPS, level=float(level)))
        labels = [_labels(ends, eps) for ends in (mean_shift, at)]
        moves = _differing(mean_shift.points, X)  # a step may also end where it starts
        return self._certificate(
            checks=(
                Check("rows whose end points differ at L*", float(_differing(at.points, mean_shift.points)), 0.0),
                Check(
                    "rows whose end points differ at L* − 1", float(_differing(below.points, mean_shift.points)),
                    1.0 if moves else 0.0, at_least=True,
                ),
                Check(f"paths at levels {levels} that are not the beginning of Mean Shift's", float(nested), 0.0),
                Check("partitions of the end points that differ", float(not same_partition(*labels)), 0.0),
            ),
            numbers={"ε": eps, "L*": star, "rows": len(X), "rows that move": moves,
                     "longest path": int(mean_shift.steps.max()), "clusters": int(labels[0].max()) + 1},
        )  # fmt: skip

    def _path(self, X: Floats, steps: int, **parameters: Any) -> Path:
        eps = bandwidth(X, parameters["bandwidth"])
        density = KernelDensity(X, None, eps)
        star = _level(density, density.paths(X, _STEPS))
        frames = []
        for level in _levels(star, steps):
            ends = density.ascend(X, _STEPS, level=float(level))
            arrays = {"positions": ends.points, "steps": ends.steps}
            frames.append(Frame(float(level), f"level {level}", _labels(ends, eps), arrays))
        return Path(self.name, "minPts", X, tuple(frames))


def _level(density: KernelDensity, paths: list[Floats]) -> int:
    """L*: one more than the largest |N_ε(y)| over the visited positions that a path leaves."""
    left = np.concatenate([path[:-1][(path[1:] != path[:-1]).any(axis=1)] for path in paths])
    if not len(left):
        return 1
    stay = density.ascend(np.unique(left, axis=0), 0)  # no step: counts only
    return 1 + int(stay.weight.max())


def _differing(a: Floats, b: Floats) -> int:
    return int((a != b).any(axis=1).sum())


def _levels(star: int, steps: int) -> list[int]:
    return [int(level) for level in np.unique(np.round(np.geomspace(1, star, steps)))]


def _not_nested(paths: list[Floats], ends: Ends) -> int:
    """Count the end points that are not on Mean Shift's path at their own step."""
    return sum(
        not (len(path) > steps and np.array_equal(path[steps], end))
        for path, end, steps in zip(paths, ends.points, ends.steps.tolist())
    )


def _labels(ends: Ends, eps: float) -> Ints:
    """Label by the connected components of the end points at ε."""
    found = find_modes(ends, eps, 1)
    return found.clusters[found.inverse]
