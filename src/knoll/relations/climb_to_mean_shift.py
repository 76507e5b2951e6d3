"""Mean Shift is climbing DBSCAN with a level that nobody reaches (eq. 6.5, errata item 7)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Floats
from knoll.density.ascent import Ends, KernelDensity, find_modes
from knoll.relations._common import same_partition
from knoll.relations._density import bandwidth
from knoll.relations.certificate import Certificate, Check
from knoll.relations.path import Frame, Path
from knoll.relations.relation import Limit

__all__ = ["ClimbToMeanShift"]


_STEPS = 2**31 - 1


class ClimbToMeanShift(Limit):
    """A climb that stops at a level goes on to the peak as the level rises."""

    name: ClassVar = "climb-to-mean-shift"
    source: ClassVar = "DBSCAN, climbing version"
    target: ClassVar = "Mean Shift"
    statement: ClassVar = (
        "From the level L* on, and not before, every row climbs exactly where Mean Shift takes it; the path at a level "
        "is the beginning of the path at the next."
    )
    formula: ClassVar = "L* = 1 + max |N_ε(y)| over all visited y that are not fixed;  minPts ≥ L* ⇔ equal ends"
    most_rows: ClassVar = 20_000
    _defaults: ClassVar = {"bandwidth": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps = bandwidth(X, parameters["bandwidth"])
        hill = KernelDensity(X, None, eps)
        mean_shift = hill.ascend(X, _STEPS)
        paths = hill.paths(X, _STEPS)
        star = _level(hill, paths)
        at, below = hill.ascend(X, _STEPS, level=float(star)), hill.ascend(X, _STEPS, level=float(star - 1))
        nested, levels = 0, _levels(star, 6)
        for level in levels:
            nested += _not_nested(paths, hill.ascend(X, _STEPS, level=float(level)))
        labels = [_read_off(ends, eps) for ends in (mean_shift, at)]
        moves = int((mean_shift.points != X).any(axis=1).sum())  # a step may also end where it began
        return self._certificate(
            checks=(
                Check("rows whose ends differ at L*", float((at.points != mean_shift.points).any(axis=1).sum()), 0.0),
                Check(
                    "rows whose ends differ at L* − 1", float((below.points != mean_shift.points).any(axis=1).sum()),
                    1.0 if moves else 0.0, at_least=True,
                ),
                Check(f"paths at levels {levels} that are no beginning of Mean Shift's", float(nested), 0.0),
                Check("labels that differ under one read-off", float(not same_partition(*labels)), 0.0),
            ),
            numbers={"ε": eps, "L*": star, "rows": len(X), "rows that move": moves,
                     "longest path": int(mean_shift.steps.max()), "clusters": int(labels[0].max()) + 1},
        )  # fmt: skip

    def _path(self, X: Floats, steps: int, **parameters: Any) -> Path:
        eps = bandwidth(X, parameters["bandwidth"])
        hill = KernelDensity(X, None, eps)
        star = _level(hill, hill.paths(X, _STEPS))
        frames = []
        for level in _levels(star, steps):
            ends = hill.ascend(X, _STEPS, level=float(level))
            arrays = {"positions": ends.points, "steps": ends.steps}
            frames.append(Frame(float(level), f"level {level}", _read_off(ends, eps), arrays))
        return Path(self.name, "minPts", X, tuple(frames))


def _level(hill: KernelDensity, paths: list[Floats]) -> int:
    """L*: one more than the largest |N_ε(y)| over the visited places from which a path goes on to another place."""
    left = np.concatenate([path[:-1][(path[1:] != path[:-1]).any(axis=1)] for path in paths])
    if not len(left):
        return 1
    places = np.unique(left, axis=0)
    stay = hill.ascend(places, 0)  # no step: counts alone
    return 1 + int(stay.weight.max())


def _levels(star: int, steps: int) -> list[int]:
    return [int(level) for level in np.unique(np.round(np.geomspace(1, star, steps)))]


def _not_nested(paths: list[Floats], ends: Ends) -> int:
    """Count the ends that are not on Mean Shift's path at their own step."""
    return sum(
        not (len(path) > steps and np.array_equal(path[steps], end))
        for path, end, steps in zip(paths, ends.points, ends.steps.tolist())
    )


def _read_off(ends: Ends, eps: float) -> NDArray[np.int64]:
    """Label by the connected components of the ends at ε: one read-off for both sides."""
    found = find_modes(ends, eps, 1)
    return found.clusters[found.inverse]
