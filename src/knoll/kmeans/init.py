"""Where k-means begins, and data it refuses because their squares leave float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from knoll._common import seeding
from knoll._common.blocks import Block
from knoll._common.rescale import Rescaling, largest_of
from knoll._common.sparse import check_compressed, dense_rows, is_sparse
from knoll._typing import Floats
from knoll.exceptions import BadData, InvalidParameter, KnollError
from knoll.validation import check_points, refuse_masked

_FAR = 2.0**500  # squares of differences to data near one stay within float64
_LIGHTEST = 2.0**-800  # of the heaviest: of products with smaller weights, digits underflow
_ALIKE = 2.0**-450  # centres this close, beside data near one: the squares of what is between them vanish


class Starts:
    """The start of each run: an array, or drawn from a sample (all rows, where they are in memory)."""

    def __init__(
        self, init: Any, k: int, sample: Block, scaling: Rescaling, dtype: Any, seed: int, threads: int
    ) -> None:
        self._init, self._k, self._sample, self._scaling, self._dtype = init, k, sample, scaling, dtype
        self._seed, self._threads = seed, threads
        by_name = isinstance(init, str)
        self._rows = seeding.multiset(sample.points, sample.weights, threads) if by_name else None

    def __call__(self, restart: int) -> Floats:
        """Return the centres that run number `restart` begins with, scaled as the points are."""
        k, points = self._k, self._sample.points
        if self._rows is None:
            return self._scaling.down(self._checked(restart))
        if self._init == "random":
            rows = seeding.random_rows(self._rows, k, self._seed, restart=restart)
        else:
            rows = seeding.kmeans_plus_plus(points, self._rows, k, self._seed, restart=restart, threads=self._threads)
        return np.asarray(dense_rows(points, rows), dtype=np.float64)

    def _checked(self, restart: int) -> Floats:
        """Check centres that the user or the callable chose."""
        k, d = self._k, self._sample.points.shape[1]
        init = self._init
        if callable(init):
            state = np.random.RandomState(np.random.MT19937(np.random.SeedSequence((self._seed, restart))))
            init = init(self._unscaled(), k, random_state=state)
        if is_sparse(init):
            check_compressed(init, "KMeans", "init")
            init = init.toarray()
        refuse_masked(init, "init")
        try:
            centers = np.array(check_points(init, finite=False), dtype=np.float64, order="C")
        except KnollError:
            whose = "what init returned" if callable(self._init) else "init"
            raise InvalidParameter(
                f"KMeans: {whose} must be centres, an array of numbers of shape {(k, d)}, got {init!r:.60}."
            ) from None
        if not np.isfinite(centers).all():
            row, column = np.argwhere(~np.isfinite(centers))[0]
            what = "a NaN" if np.isnan(centers[row, column]) else "an infinity"
            raise BadData(
                f"KMeans: init must be finite, but has {what} at row {row}, column {column}. "
                "Start from centres that are numbers."
            )
        if len(centers) != k:
            raise InvalidParameter(
                f"The shape of the initial centers {centers.shape} does not match the number of clusters {k}."
            )
        if centers.shape[1] != d:
            raise InvalidParameter(
                f"The shape of the initial centers {centers.shape} does not match the number of features of the data "
                f"{d}."
            )
        largest = largest_of(centers)
        if largest > float(np.finfo(self._dtype).max) or largest_of(self._scaling.down(centers)) >= _FAR:
            raise InvalidParameter(
                f"KMeans: init has a value of magnitude {largest:.3g}, too far from data of dtype {self._dtype} for "
                "squared distances. Start near the data."
            )
        return centers

    def _unscaled(self) -> Any:
        """Bring the points back, as a copy: a callable may write into its argument, and X is never changed."""
        points = self._scaling.up(self._sample.points)
        return points.copy() if points is self._sample.points else points


def refuse_far(largest: float, centers: Floats, scaling: Rescaling) -> None:
    """Refuse a batch beside which the centres are as good as equal: their squares would vanish in its scale."""
    reach = largest_of(Rescaling(constant=scaling.constant).down(centers))
    if reach > 0 and scaling.to_units(reach, length=1) < 1 / _FAR:
        raise BadData(
            f"KMeans: a batch with values up to {largest:.3g} is too far from centres of magnitude {reach:.3g}: no "
            "one scale holds the squares of both. Give it in the units of the fit, or fit anew."
        )


def refuse_light(weights: Floats | None, heaviest: float) -> None:
    """Refuse weights beside the heaviest of which a row would vanish from the sums of its cluster."""
    if weights is None:
        return
    lightest = float(weights.min(where=weights > 0, initial=np.inf))
    if lightest < heaviest * _LIGHTEST:
        raise BadData(
            f"KMeans: the sample weights go from {lightest:.3g} to {heaviest:.3g}: beside the heaviest rows the sums "
            "of the others leave float64. Give weights of more similar size, or 0 to rows that should not count."
        )


def alike(centers: Floats) -> tuple[int, int, float] | None:
    """Find two centres, and their distance, that squares do not separate; None: there are none."""
    small = np.abs(centers) < _ALIKE * 2.0**53  # numbers that differ by less than _ALIKE are below this, or equal
    if not (small & (centers != 0)).any():
        return None
    for i in range(len(centers) - 1):
        gaps = np.abs(centers[i + 1 :] - centers[i]).max(axis=1)
        close = np.flatnonzero((gaps > 0) & (gaps < _ALIKE))
        if len(close):
            return i, i + 1 + int(close[0]), float(gaps[close[0]])
    return None
