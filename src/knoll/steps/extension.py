"""Labels of other rows by the Nyström extension: y(q) = Σ_j A_qj y_j / (λ√(d_q d_j)), then the rule of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core
from knoll.steps import partition
from knoll.steps import spectral as steps
from knoll.steps.affinity import Source
from knoll.steps.spectral_labels import CHUNK

__all__ = ["Extension"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]


@dataclass(frozen=True)
class Extension:
    """What a fit leaves for other rows."""

    source: Source
    coefficients: Floats  # (n, m + 1): [E | w]
    rule: partition.Rule
    labels: Labels  # (n,) of the rows of the fit
    row_scaling: str
    clusters: int

    def __call__(self, operator: Any, queries: Any, threads: int) -> tuple[Labels, Floats]:
        """Label and embed rows."""
        labels = np.empty(queries.shape[0], dtype=np.int32)
        embedded = np.empty((len(labels), self.coefficients.shape[1] - 1))
        for begin in range(0, len(labels), CHUNK):
            some = queries[begin : begin + CHUNK]
            sums = operator.apply_rows(self.source.links_of(some, threads), self.coefficients)
            Y, linked = steps.extended(np.asarray(sums), self.row_scaling)
            found = self.rule.labels(Y, threads)
            if not linked.all():
                found[~linked] = self._nearest(some, np.flatnonzero(~linked), threads)
            labels[begin : begin + CHUNK], embedded[begin : begin + CHUNK] = found, Y
        return labels, embedded

    def _nearest(self, queries: Any, which: NDArray[Any], threads: int) -> Labels:
        """Label rows without links to any cluster: as the nearest training row, or with the heaviest cluster."""
        if self.source.wish.given:
            reached = np.asarray((self.coefficients[:, :-1] != 0).any(axis=1))
            mass = np.bincount(self.labels[reached], minlength=self.clusters)
            return np.full(len(which), int(np.argmax(mass)), dtype=np.int32)
        distances, rows = np.empty((len(which), 1)), np.empty((len(which), 1), dtype=np.int64)
        index = _core.Index(np.asarray(self.source.points), 0.0, "euclidean", 2.0, "auto", threads)
        index.knn(np.ascontiguousarray(queries[which], dtype=np.float64), 1, distances, rows, threads)
        return self.labels[rows[:, 0]]
