"""Clusters of a reachability plot between steep areas, by the ξ method of OPTICS (Ankerst et al. 1999, section 4.3).

A step of the plot is steep downward if it falls by the factor 1 − ξ or more, steep upward likewise. A steep area is a
run of steps in one direction that begins and ends with a steep one and has no more than minPts others in a row. A
cluster lies between a downward area and a later upward one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knoll._typing import Bools, Floats, Ints


@dataclass
class _Descent:
    """A steep downward area, and the highest reachability since its end."""

    start: int
    end: int
    since: float = 0.0


def clusters_by_xi(
    reachability: Floats, predecessor: Ints | None, ordering: Ints, xi: float, min_samples: int, min_cluster_size: int
) -> Ints:
    """Find the clusters, first and last position of each, (k, 2); smaller ones come before those around them.

    `reachability` and `predecessor` are in the order of the rows visited. With predecessors, the last rows of a cluster
    that were reached from outside of it are left out.
    """
    plot = np.append(reachability, np.inf)
    finder = _Finder(plot, predecessor, ordering, 1.0 - xi, min_samples, min_cluster_size)
    return np.array(finder.clusters(), dtype=np.int64).reshape(-1, 2)


def labels_of_clusters(ordering: Ints, clusters: Ints) -> Ints:
    """Label the rows of clusters that contain no others; −1 elsewhere."""
    found = np.full(len(ordering), -1, np.int64)
    label = 0
    for first, last in clusters.tolist():
        if (found[first : last + 1] < 0).all():
            found[first : last + 1] = label
            label += 1
    labels = np.empty_like(found)
    labels[ordering] = found
    return labels


class _Finder:
    """One pass over the plot from left to right, with the downward areas that may still begin a cluster."""

    def __init__(
        self,
        plot: Floats,
        predecessor: Ints | None,
        ordering: Ints,
        factor: float,
        min_samples: int,
        min_cluster_size: int,
    ) -> None:
        self.plot, self.factor = plot, factor
        self.min_samples, self.min_cluster_size = min_samples, min_cluster_size
        with np.errstate(all="ignore"):
            ratio = plot[:-1] / plot[1:]  # ∞/∞ is NaN: neither up nor down
            self.steep_up, self.steep_down = ratio <= factor, ratio >= 1 / np.float64(factor)
        self.up, self.down = ratio < 1, ratio > 1
        self.reached_from: Ints | None = None
        if predecessor is not None:
            position = np.empty(len(ordering) + 1, np.int64)
            position[ordering], position[-1] = np.arange(len(ordering)), -1
            self.reached_from = position[predecessor]  # (n,) positions, −1 for starts

    def clusters(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        descents: list[_Descent] = []
        begin, highest = 0, 0.0  # where the last steep area ended, and the highest reachability since then
        for steep in np.flatnonzero(self.steep_up | self.steep_down).tolist():
            if steep < begin:
                continue
            highest = max(highest, float(self.plot[begin : steep + 1].max()))
            descents = self._open(descents, highest)
            downward = bool(self.steep_down[steep])
            end = self._end_of_area(
                steep, self.steep_down if downward else self.steep_up, self.up if downward else self.down
            )
            if downward:
                descents.append(_Descent(steep, end))
            else:
                ends_here = [self._cluster(descent, steep, end) for descent in descents]
                found += [cluster for cluster in reversed(ends_here) if cluster is not None]
            begin = end + 1
            highest = float(self.plot[begin])
        return found

    def _open(self, descents: list[_Descent], highest: float) -> list[_Descent]:
        """Keep the downward areas that start above all that has come since, and note how high that was."""
        if np.isinf(highest):
            return []
        kept = [descent for descent in descents if highest <= self.plot[descent.start] * self.factor]
        for descent in kept:
            descent.since = max(descent.since, highest)
        return kept

    def _end_of_area(self, start: int, steep: Bools, opposite: Bools) -> int:
        """Return the last steep step of the area, which ends before a step the other way or too many that are not."""
        end, others = start, 0
        for index in range(start, len(steep)):
            if steep[index]:
                end, others = index, 0
                continue
            others += 1
            if opposite[index] or others > self.min_samples:
                break
        return end

    def _cluster(self, descent: _Descent, up_start: int, up_end: int) -> tuple[int, int] | None:
        """Return the cluster between two areas, if it is one."""
        plot, first, last = self.plot, descent.start, up_end
        after = plot[up_end + 1]
        if after * self.factor < descent.since:
            return None
        if plot[first] * self.factor >= after:  # it begins higher than it ends: begin where the plot is as low
            while plot[first + 1] > after and first < descent.end:
                first += 1
        elif after * self.factor >= plot[first]:  # it ends higher: end where the plot is as low
            while plot[last - 1] > plot[first] and last > up_start:
                last -= 1
        if self.reached_from is not None:
            last = self._reached_inside(first, last)
        too_small = last - first + 1 < self.min_cluster_size
        return None if too_small or first > descent.end or last < up_start else (first, last)

    def _reached_inside(self, first: int, last: int) -> int:
        """Return the last position that is lower than the first, or was reached from inside; −1: there is none."""
        assert self.reached_from is not None
        while first < last:
            if self.plot[first] > self.plot[last] or first <= self.reached_from[last] < last:
                return last
            last -= 1
        return -1
