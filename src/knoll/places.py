"""Equal rows share a place: what is asked of all pairs of rows is asked once for each pair of places.

Where many rows repeat (whole numbers, categories, rounded values), neighbourhoods hold n²/m² pairs for each pair of m
places, and a tree cannot part equal rows. So they are merged first, and bear their number as a weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import _core

__all__ = ["Places", "find_places", "merged"]

Floats = NDArray[np.float64]

_FEWEST = 16384  # rows: the pairs of fewer are done in a fraction of a second, equal or not
_LOOK = 1024  # rows looked at, to tell whether it is worth while
_REPEATED = 4  # of them that equal another one: then a row of n has some n/2¹⁷ equals or more
_PARTS = 40  # numbers that add up to any exact sum of float64


@dataclass(frozen=True)
class Places:
    """The distinct rows, in the order of their first appearance."""

    first: NDArray[np.int64]  # (m,) the first row at each place
    which: NDArray[np.int64]  # (n,) the place of each row
    times: Floats  # (m,) how many rows are there

    def weigh(self, weights: Floats | None, threads: int = 1) -> tuple[NDArray[np.int64], Floats]:
        """Return rows of X, the m first rows first, and weights that add up at each place to that of its rows, exactly.

        A sum that float64 cannot hold is spread over several such rows at the place. Negative weights may be among
        them.
        """
        if weights is None:
            return self.first, self.times
        m = len(self.first)
        labels = self.which.astype(np.int32)
        sums = np.zeros((_core.LIMBS, 2 * m), dtype=np.int64)
        _core.add_cluster_sums(weights[:, None], None, labels, sums, threads)
        rows: list[NDArray[np.int64]] = []
        parts: list[Floats] = []
        every = np.arange(m, dtype=np.int32)
        for _ in range(_PARTS):
            rounded = np.empty(2 * m)
            _core.exact_round(sums, rounded, threads)
            part = rounded[1::2].copy()
            some = np.flatnonzero(part) if parts else every
            if not len(some):
                break
            rows.append(self.first[some])
            parts.append(part[some])
            _core.add_cluster_sums(-part[:, None], None, every, sums, threads)
        return np.concatenate(rows), np.concatenate(parts)


def find_places(points: NDArray[Any], threads: int = 1) -> Places:
    """Number the distinct rows by first appearance; 0 and −0 are equal."""
    n = len(points)
    rows, times, which = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n, dtype=np.int64)
    m = _core.distinct_rows(points, None, rows, times, which, threads)
    return Places(rows[:m].copy(), which, times[:m].copy())


def merged(points: NDArray[Any], threads: int = 1) -> Places | None:
    """Return the places if many rows repeat; None where few do, as a look at some of them tells."""
    n = len(points)
    if n < _FEWEST:
        return None
    looked = np.unique(np.random.default_rng(0).integers(n, size=min(_LOOK, n // 64)))
    sample = np.ascontiguousarray(points[looked]) + 0.0  # no −0
    lines = sample.view(np.dtype((np.void, sample.itemsize * sample.shape[1])))
    if len(looked) - len(np.unique(lines)) < _REPEATED:
        return None
    return find_places(points, threads)
