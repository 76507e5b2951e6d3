"""What scores of points share: labels, weights and noise, and the rows of each cluster in an order of their contents.

Distinct rows of a cluster are gathered with their weights and sorted by their coordinates. Sums over them then have one
order, so that neither the order of the rows nor "weight or repetition" changes a bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._common.blocks import Block
from knoll._common.rescale import Rescaling, largest_of
from knoll._typing import Bools, Floats, Ints
from knoll.exceptions import BadData
from knoll.metrics._contingency import check_noise
from knoll.metrics._labels import factorise, is_noise, rank
from knoll.validation import check_weights

__all__ = ["Clusters", "Grouped", "group_rows", "mean_of", "read_clusters", "without_units"]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which cluster each row is in, under a rule for noise.

    Under ``noise="singletons"`` a noise row of weight w is w clusters of one row: here it is one cluster, of `mass` 1,
    that occurs `times` = w times.
    """

    codes: Ints  # (n,) numbers of clusters; −1: left out
    weights: Floats  # (n,) how often a row counts
    mass: Floats  # (n,) how often it counts in its cluster
    times: Floats  # (k,) how often each cluster occurs
    noise: Bools  # (n,) labelled −1, and left out or a cluster of its own
    named: int  # labels of clusters, also of those of which every row has weight 0

    @property
    def count(self) -> int:
        """The number of different clusters."""
        return len(self.times)

    @property
    def kept(self) -> Bools:
        """The rows that count."""
        return self.codes >= 0

    def sizes(self) -> Floats:
        """Return the mass of each cluster."""
        return np.bincount(self.codes[self.kept], self.mass[self.kept], self.count).astype(np.float64)

    def check(self, owner: str, what: str) -> None:
        """Refuse a single cluster, and clusters of one row each."""
        if self.times.sum() < 2:
            only = "only one cluster has a row of weight > 0" if self.named > 1 else "there is only one cluster"
            raise BadData(f"{owner}: {only}; {what} needs at least two. Cluster into two or more, or leave it out.")
        if not (self.sizes() > 1).any():
            raise BadData(
                f"{owner}: each of the {_plain(self.times.sum())} rows is a cluster of its own; {what} needs a cluster "
                "of two rows or more. Give a label to each cluster, not to each row."
            )


@dataclass(frozen=True, eq=False)
class Grouped:
    """The distinct rows of each cluster, one cluster after the other."""

    rows: Ints  # (m,) of X, the first that equals each
    inverse: Ints  # (n,) which of them each row of X equals, or −1
    mass: Floats  # (m,)
    starts: Ints  # (k + 1,)


def read_clusters(owner: str, labels: Any, sample_weight: Any, noise: str, n: int) -> Clusters:
    """Check labels, weights and the rule for noise, and number the clusters that have a row of weight > 0."""
    check_noise(noise)
    names, codes = factorise(labels, "labels")
    if len(codes) != n:
        raise BadData(f"{owner}: labels has shape ({len(codes)},); give one for each of {n} rows.")
    checked = check_weights(sample_weight, n, owner=owner)
    weights = np.ones(n) if checked is None else checked
    apart = is_noise(names)[codes] & (noise != "cluster")
    present = weights > 0
    if noise == "drop" and not (present & ~apart).any():
        raise BadData(f"{owner}: every row is noise, -1, which is left out, so there is no cluster to score.")
    codes, mass = codes.copy(), weights
    times_of_noise = np.empty(0)
    codes[~present | apart] = -1
    kept = np.flatnonzero(codes >= 0)
    used, codes[kept] = rank(codes[kept]) if len(kept) else (np.empty(0), codes[kept])
    if noise == "singletons":
        single = np.flatnonzero(present & apart)
        codes[single] = len(used) + np.arange(len(single))
        mass = np.where(apart, 1.0, weights)
        times_of_noise = weights[single]
    times = np.concatenate([np.ones(len(used)), times_of_noise])
    return Clusters(codes, weights, mass, times, apart & present, len(names) - bool(apart.any()))


def group_rows(points: NDArray[Any] | None, clusters: Clusters) -> Grouped:
    """Gather the distinct rows of each cluster, in lexicographic order; without points every row is distinct."""
    present = np.flatnonzero(clusters.kept)
    codes, mass = clusters.codes[present], clusters.mass[present]
    if points is None:
        order = np.argsort(codes, kind="stable")
        changes = np.ones(len(order), dtype=np.bool_)
    else:
        rows = points if len(present) == len(points) else points[present]
        order = np.lexsort((mass, *rows.T[::-1], codes))
        sorted_rows, sorted_codes = rows[order], codes[order]
        changes = np.ones(len(order), dtype=np.bool_)
        changes[1:] = (sorted_codes[1:] != sorted_codes[:-1]) | (sorted_rows[1:] != sorted_rows[:-1]).any(axis=1)
    first = np.flatnonzero(changes)
    inverse = np.full(len(clusters.codes), -1, dtype=np.int64)
    inverse[present[order]] = np.cumsum(changes) - 1
    sizes = np.bincount(codes[order][first], minlength=clusters.count)
    return Grouped(
        rows=present[order[first]],
        inverse=inverse,
        mass=np.add.reduceat(mass[order], first),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def without_units(points: NDArray[Any]) -> Floats:
    """Return the points as float64, extreme ones in another unit: for scores that have none."""
    scaling = Rescaling.fitting(largest_of(points), 1.0, [Block(points, None)])
    return np.asarray(scaling.down(points), dtype=np.float64)


def mean_of(values: Floats, weights: Floats) -> float:
    """Return Σ w·x / Σ w, each sum rounded once."""
    return math.fsum((weights * values).tolist()) / math.fsum(weights.tolist())


def _plain(count: float) -> str:
    return f"{count:.0f}" if count == int(count) else f"{count:g}"
