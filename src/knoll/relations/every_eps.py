"""The tree and the lists of the minPts − 1 nearest rows are DBSCAN with border points, for every ε (eq. 7.13)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll._typing import Floats
from knoll.density.dbscan import DBSCAN
from knoll.density.tree import DensityTree
from knoll.relations._common import quiet, squared_distances
from knoll.relations._density import density_scale
from knoll.relations._tree import level_of, radii
from knoll.relations.certificate import Certificate, Check
from knoll.relations.path import Frame, Path
from knoll.relations.relation import Limit

_HEIGHTS = 100


class EveryEpsDBSCAN(Limit):
    """A border point has fewer than minPts rows within ε, so its core point is among its minPts − 1 nearest rows."""

    name: ClassVar = "every-eps-dbscan"
    source: ClassVar = "DBSCAN"
    target: ClassVar = "density tree"
    statement: ClassVar = (
        "One fit of the tree, with the minPts − 1 nearest rows of each row, has the labels of DBSCAN for every ε, "
        "border points included: the closest core point of a border point is among them."
    )
    formula: ClassVar = "c(x) > ε ⇒ |N_ε(x)| < minPts;   cut(ε) = DBSCAN(ε) for every ε"
    most_rows: ClassVar = 3_000
    _defaults: ClassVar = {"eps": None, "min_samples": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        level = level_of(X, parameters["min_samples"])
        tree = DensityTree(level, n_jobs=1).fit(X)
        distances = np.sort(np.sqrt(squared_distances(X, X)), axis=1)  # (n, n) of each row, ascending
        compared = radii(tree, _HEIGHTS)
        differ, borders, longest = 0, 0, 0
        for eps in compared:
            with quiet():
                model = DBSCAN(eps, min_samples=level, n_jobs=1).fit(X)
            differ += int((tree.cut(eps) != model.labels_).sum())
            border = model.labels_ >= 0
            border[model.core_sample_indices_] = False
            borders += int(border.sum())
            within = (distances[border] <= eps).sum(axis=1)
            longest = max(longest, int(within.max(initial=0)) - 1)
        return self._certificate(
            checks=(
                Check("labels that differ from DBSCAN's, at heights and between", float(differ), 0.0),
                Check("the most other rows within ε of a border point", float(longest), float(max(level - 2, 0))),
            ),
            numbers={"minPts": level, "values of ε compared": len(compared), "border points in all cuts": borders},
        )

    def _path(self, X: Floats, steps: int, **parameters: Any) -> Path:
        eps, level = density_scale(X, parameters["eps"], parameters["min_samples"])
        tree = DensityTree(level, n_jobs=1).fit(X)
        frames = []
        for radius in np.geomspace(eps / 4, 4 * eps, steps).tolist():
            frames.append(Frame(radius, f"ε = {radius:.3g}", tree.cut(radius), {}))
        return Path(self.name, "ε", X, tuple(frames))
