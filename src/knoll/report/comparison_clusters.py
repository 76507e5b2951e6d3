"""Description of the clusters: size, centre in the original units, and the columns that distinguish it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Floats, Ints

_MIN_DIFFERENCE = 0.5  # standard deviations: a smaller difference is not mentioned
_MAX_TRAITS = 4


@dataclass(frozen=True)
class Trait:
    """A column in which a cluster differs from all other rows, in standard deviations of the column."""

    column: str
    difference: float
    here: float  # the mean inside
    elsewhere: float  # the mean outside


@dataclass(frozen=True)
class Cluster:
    """One cluster of one answer; `label` −1 is noise."""

    label: int
    size: int
    share: float
    centre: Floats  # (d,) means, original units
    differences: Floats  # (d,) from the other rows, in standard deviations of the column
    traits: tuple[Trait, ...]


def clusters_of(X: NDArray[np.generic], labels: Ints, columns: Sequence[str]) -> list[Cluster]:
    """Describe every cluster, largest first, noise last."""
    n, d = X.shape
    found, at = np.unique(labels, return_inverse=True)
    sizes = np.bincount(at, minlength=len(found))
    means, differences, outside = (np.empty((len(found), d)) for _ in range(3))
    for j in range(d):  # a column at a time, to limit memory
        column = np.asarray(X[:, j], dtype=np.float64)
        middle = float(np.mean(column, dtype=np.float64))
        with np.errstate(over="ignore"):  # then no difference is mentioned
            deviation = float(np.std(column))
        sums = np.bincount(
            at, weights=column - middle, minlength=len(found)
        )  # (clusters,) relative to the column's mean
        means[:, j] = middle + sums / sizes
        outside[:, j] = middle - np.where(sizes < n, sums / np.maximum(n - sizes, 1), 0.0)
        differences[:, j] = (means[:, j] - outside[:, j]) / deviation if deviation > 0 else 0.0
    differences[sizes == n] = 0.0
    clusters = [
        Cluster(
            label=int(label), size=int(sizes[c]), share=sizes[c] / n, centre=means[c], differences=differences[c],
            traits=_traits(columns, differences[c], means[c], outside[c]),
        )
        for c, label in enumerate(found)
    ]  # fmt: skip
    return sorted(clusters, key=lambda cluster: (cluster.label < 0, -cluster.size, cluster.label))


def _traits(columns: Sequence[str], differences: Floats, here: Floats, elsewhere: Floats) -> tuple[Trait, ...]:
    order = np.argsort(-np.abs(differences), kind="stable")[:_MAX_TRAITS]
    return tuple(
        Trait(columns[j], float(differences[j]), float(here[j]), float(elsewhere[j]))
        for j in order
        if abs(differences[j]) >= _MIN_DIFFERENCE
    )


def distinguishing_columns(clusters: Sequence[Cluster], most: int) -> list[int]:
    """Return the columns that distinguish the clusters best, in the table's order."""
    strength = np.max([np.abs(cluster.differences) for cluster in clusters], axis=0)
    return sorted(int(j) for j in np.argsort(-strength, kind="stable")[:most])
