"""Labels of other rows by the Nyström extension: y(q) = Σ_j A_qj y_j / (λ√(d_q d_j)), then the rule of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll._typing import Floats, Labels
from knoll.exceptions import BadData
from knoll.spectral import embed
from knoll.spectral.affinity import OWNER, Affinity
from knoll.spectral.labels import CHUNK, Rule


@dataclass(frozen=True)
class Extension:
    """The fitted extension of the embedding to other rows."""

    affinity: Affinity
    coefficients: Floats  # (n, m + 1): [E | w]
    rule: Rule
    labels: Labels  # (n,) of the rows of the fit
    row_scaling: str
    clusters: int

    def __call__(self, operator: Any, queries: Any, threads: int) -> tuple[Labels, Floats]:
        """Label and embed rows."""
        labels = np.empty(queries.shape[0], dtype=np.int32)
        embedded = np.empty((len(labels), self.coefficients.shape[1] - 1))
        for begin in range(0, len(labels), CHUNK):
            chunk = queries[begin : begin + CHUNK]
            sums = operator.apply_rows(self.affinity.query_rows(chunk, threads), self.coefficients)
            _refuse_extreme(np.asarray(sums), begin)
            Y, linked = embed.extended(np.asarray(sums), self.row_scaling)
            found = self.rule.labels(Y, threads)
            if not linked.all():
                found[~linked] = self._nearest(chunk, np.flatnonzero(~linked), threads)
            labels[begin : begin + CHUNK], embedded[begin : begin + CHUNK] = found, Y
        return labels, embedded

    def _nearest(self, queries: Any, unlinked: NDArray[Any], threads: int) -> Labels:
        """Label rows without links to any cluster: as the nearest training row, or with the heaviest cluster."""
        if self.affinity.params.precomputed:
            reached = np.asarray((self.coefficients[:, :-1] != 0).any(axis=1))
            mass = np.bincount(self.labels[reached], minlength=self.clusters)
            return np.full(len(unlinked), int(np.argmax(mass)), dtype=np.int32)
        distances, rows = np.empty((len(unlinked), 1)), np.empty((len(unlinked), 1), dtype=np.int64)
        index = _core.Index(np.asarray(self.affinity.points), 0.0, "euclidean", 2.0, "auto", threads)
        index.knn(np.ascontiguousarray(queries[unlinked], dtype=np.float64), 1, distances, rows, threads)
        return self.labels[rows[:, 0]]


def _refuse_extreme(sums: Floats, begin: int) -> None:
    """Refuse rows of which a similarity, or a sum of some, leaves float64."""
    if len(far := np.flatnonzero(~np.isfinite(sums).all(axis=1))):
        raise BadData(
            f"{OWNER}: the similarities of row {begin + far[0]} to the rows of the fit leave float64. "
            "Leave such rows out, or divide X by its largest value before the fit."
        )
