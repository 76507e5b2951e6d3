"""Mean Shift: every point climbs f(y) = Σᵢ wᵢ max(0, ε² − ‖y − xᵢ‖²) to the end of its path (eq. 6.1)."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from knoll import _core, scales
from knoll.base import Estimator, all_or_nothing, warn_caller
from knoll.exceptions import BadData, ConvergenceWarning, SuspiciousResultWarning
from knoll.places import find_places
from knoll.schema import Array, Columns, Real, Whole, not_empty
from knoll.steps import climb as steps
from knoll.validation import N_JOBS, Choice, Flag, Instance, Number, check_points, check_weights, refuse_masked

__all__ = ["MeanShift"]

_WARNED_FROM = 20  # rows: of fewer, three tenths may be a row alone
_ARRAY = Instance((np.ndarray, list, tuple), "an array of shape (n_seeds, n_features)")


class MeanShift(ClusterMixin, Estimator):
    """Mean Shift: clusters are the hills of the data's density, and every point climbs its own.

    A point moves to the mean of the data within `bandwidth` of it, again and again, until that set of neighbours
    repeats. Each step climbs the altitude f(y) = Σᵢ wᵢ max(0, ε² − ‖y − xᵢ‖²), ε being the bandwidth. Ends within ε of
    each other, directly or through others, make one cluster.

    Parameters
    ----------
    bandwidth : float or None, default=None
        ε, the radius of a neighbourhood; a distance equal to it is inside. None: the average distance within which
        three tenths of the data lie, as scikit-learn has it (of more than 5000 rows, from a sample of them).
    seeds : array-like of shape (n_seeds, n_features) or None, default=None
        Where to climb from instead of from every row; implies `assign="nearest"`.
    bin_seeding : bool, default=False
        Climb from the centres of a grid of bins as wide as the bandwidth; implies `assign="nearest"`.
    min_bin_freq : int, default=1
        With `bin_seeding`: only bins that hold so many rows.
    cluster_all : bool, default=True
        False marks as −1 the rows that belong to nobody: those that are alone in their cluster (a weight of at most 1)
        or, with `assign="nearest"`, further than the bandwidth from every centre.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.
    max_iter : int, default=300
        The most steps that a path may take.
    kernel : {"flat", "gaussian"}, default="flat"
        "gaussian" weighs the data by exp(−‖y − x‖²/2ε²); a path then ends by a step below 1e-6 bandwidths.
    assign : {"climb", "nearest"}, default="climb"
        "climb" puts a row into the cluster that it climbs to. "nearest" is scikit-learn's rule: paths end by a step
        below 1e-3 bandwidths, ends within the bandwidth of one with more neighbours are dropped, and a row belongs to
        the nearest of those that are left.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The end with the most data within the bandwidth of each cluster. Clusters are numbered by that, the most first.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each row, or −1.
    n_iter_ : int
        Steps of the longest path.
    bandwidth_ : float
        ε, given or estimated.
    climbed_ : ndarray of shape (n_starts, n_features)
        Where each path ends. Starts are the rows, or the seeds.
    n_steps_ : ndarray of shape (n_starts,)
        How many steps it took; the last one of a path that is not cut short confirms that the set repeats.
    is_peak_ : ndarray of shape (n_starts,)
        Whether the end is a strict local maximum of f: no row lies exactly on its sphere.
    peaks_, peak_labels_ : ndarray of shape (n_peaks, n_features) and (n_peaks,)
        The different ends, and their clusters.
    points_, weights_ : ndarray of shape (n_present, n_features) and (n_present,), or None
        The data that was climbed on, which `predict` needs: rows of weight 0 are absent.
    history_ : dict of ndarray
        iteration, objective (the mean weight within the bandwidth at the ends), changed (rows that moved) and seconds.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X had any.

    Notes
    -----
    The end of a path need not be the closest peak, nor a peak at all (docs/theory/errata.md, items 12 and 13).

    Examples
    --------
    >>> from knoll import MeanShift
    >>> X = [[0.0], [1.0], [9.0], [10.0], [10.5], [50.0]]
    >>> model = MeanShift(bandwidth=2.0).fit(X)
    >>> model.labels_.tolist(), model.cluster_centers_.ravel().round(2).tolist()
    ([1, 1, 0, 0, 0, 2], [9.83, 0.5, 50.0])
    >>> MeanShift(bandwidth=2.0, cluster_all=False).fit(X).labels_.tolist()
    [1, 1, 0, 0, 0, -1]
    >>> model.predict([[8.0]]).tolist()
    [0]

    References
    ----------
    docs/theory/06-mean-shift.md; Cheng (1995); Comaniciu and Meer (2002).
    """

    _rules: ClassVar = {
        "bandwidth": (None, Number(0, strict=True, remedy="None estimates it from the data.")),
        "seeds": (None, _ARRAY),
        "bin_seeding": (Flag(),),
        "min_bin_freq": (Number(1, whole=True),),
        "cluster_all": (Flag(),),
        "n_jobs": N_JOBS,
        "max_iter": (Number(0, whole=True),),
        "kernel": (Choice(("flat", "gaussian")),),
        "assign": (Choice(("climb", "nearest")),),
    }
    _fitted: ClassVar = {
        "bandwidth_": Real(0),
        "points_": Array("p d", also=not_empty),
        "weights_": Array("p", "float64", low=0, strict=True, none=True),
        "cluster_centers_": Array("k d"),  # none where every cluster is one row, and cluster_all=False
        "labels_": Array("n", "int64", low=-1, below="k"),
        "peaks_": Array("q d", "float64", also=not_empty),
        "peak_labels_": Array("q", "int64", low=-1, below="k"),
        "climbed_": Array("s d"),
        "n_steps_": Array("s", "int64", low=0),
        "is_peak_": Array("s", "bool"),
        "n_iter_": Whole(),
        "history_": Columns(),
    }

    def __init__(
        self,
        *,
        bandwidth: float | None = None,
        seeds: ArrayLike | None = None,
        bin_seeding: bool = False,
        min_bin_freq: int = 1,
        cluster_all: bool = True,
        n_jobs: int | None = None,
        max_iter: int = 300,
        kernel: str = "flat",
        assign: str = "climb",
    ) -> None:
        self.bandwidth = bandwidth
        self.seeds = seeds
        self.bin_seeding = bin_seeding
        self.min_bin_freq = min_bin_freq
        self.cluster_all = cluster_all
        self.n_jobs = n_jobs
        self.max_iter = max_iter
        self.kernel = kernel
        self.assign = assign

    # ---- fit -------------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Climb from every row, or from the seeds, and join the ends into clusters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        MeanShift
            The estimator itself.
        """
        begun = time.perf_counter()
        self._check_parameters()
        points = check_points(X, estimator=self, n_jobs=self.n_jobs)
        weights = check_weights(sample_weight, len(points), owner="MeanShift")
        present = np.ones(len(points), dtype=bool) if weights is None else weights > 0
        # a copy: predict climbs on it when X is long gone
        self.points_ = np.array(points if present.all() else points[present], order="C")
        self.weights_ = None if weights is None else weights[present]
        self.bandwidth_ = self._bandwidth()
        hill, scaling, weight_power = self._hill()
        rows = self._seeds(scaling) if self._nearest else points
        starts = scaling.starts(rows)
        ends = hill.climb(starts, self.max_iter, small=self._nearest)
        self._warn_unfinished(ends)

        if self._nearest:
            # of the data's kind before rows are assigned to them: predict will have no others
            peaks = centers = scaling.down(scaling.up(self._thin_out(ends, hill.eps)).astype(points.dtype))
            peak_labels = np.arange(len(peaks))
        else:
            joined, peak_labels = self._join(ends, present, hill)
            peaks, centers = joined.points, joined.points[joined.centers]
            if not self.cluster_all:
                centers = centers[peak_labels[joined.centers] >= 0]
        self.peaks_, self.peak_labels_ = scaling.up(peaks), peak_labels
        self.cluster_centers_ = scaling.up(centers).astype(points.dtype)
        if self._nearest:
            self.labels_ = self._nearest_peak(scaling.starts(points), hill, scaling)
        else:
            self.labels_ = np.empty(len(points), np.int64)
            self.labels_[present] = peak_labels[joined.which]
            if not present.all():
                self.labels_[~present] = self._nearest_peak(ends.points[~present], hill, scaling)
        self.climbed_ = scaling.ends(ends, rows).astype(points.dtype)
        self.n_steps_ = ends.steps
        self.n_iter_ = int(ends.steps.max())
        if self.bandwidth_ == 0 and len(points) >= _WARNED_FROM and len(self.cluster_centers_) > 1:
            warn_caller(
                "MeanShift: the estimated bandwidth is 0, since rows repeat: three tenths of them lie at one place. "
                f"Each of {len(self.cluster_centers_)} places is a cluster. Give a bandwidth; "
                "knoll.scales.estimate_bandwidth(X, quantile=…) takes a larger share.",
                SuspiciousResultWarning,
            )
        self.is_peak_ = self._are_peaks(ends, hill)
        self.history_ = {
            "iteration": np.array([1]),
            "objective": np.array([self._mean_weight(ends, present, weight_power)]),
            "changed": np.array([float(np.count_nonzero((ends.points != starts).any(axis=1)))]),
            "seconds": np.array([time.perf_counter() - begun]),
        }
        return self

    @property
    def _nearest(self) -> bool:
        return self.assign == "nearest" or self.seeds is not None or bool(self.bin_seeding)

    def _bandwidth(self) -> float:
        if self.bandwidth is not None:
            return float(self.bandwidth)
        return scales.estimate_bandwidth(self.points_, sample_weight=self.weights_, n_jobs=self._threads())

    def _hill(self) -> tuple[steps.Hill, steps.Scaling, int]:
        """Return the fitted data in the scale of the core, that scale, and the exponent divided out of the weights."""
        scaling = steps.Scaling.of(self.points_, self.bandwidth_, "MeanShift")
        eps = scaling.radius(self.bandwidth_)
        gaussian = self.kernel == "gaussian" and eps > 0
        weights, power = steps.leveled(self.weights_, gaussian, "MeanShift")
        return steps.Hill.of(scaling.down(self.points_), weights, eps, gaussian, self._threads()), scaling, power

    def _seeds(self, scaling: steps.Scaling) -> NDArray[Any]:
        """Choose where to climb from when rows are assigned to the nearest end."""
        if self.seeds is not None:
            refuse_masked(self.seeds, "seeds")
            try:
                seeds = check_points(self.seeds)
            except BadData as error:
                raise BadData(f"MeanShift: seeds cannot be used: {error}") from None
            if seeds.shape[1] != self.points_.shape[1]:
                raise BadData(
                    f"MeanShift: seeds have {seeds.shape[1]} columns and X has {self.points_.shape[1]}. "
                    "One row of seeds is one point to climb from."
                )
            return seeds
        if self.bin_seeding:
            points, size = scaling.down(self.points_), scaling.radius(self.bandwidth_)
            bins = steps.bin_seeds(points, self.weights_, size, self.min_bin_freq)
            if bins is not None:
                if not len(bins):
                    raise BadData(
                        f"MeanShift: no bin of width {self.bandwidth_:g} holds min_bin_freq={self.min_bin_freq} rows. "
                        "Lower min_bin_freq, or take a larger bandwidth."
                    )
                return scaling.up(bins)
            warnings.warn(
                f"MeanShift: with bandwidth={self.bandwidth_:g} every row has a bin of its own, so the rows are the "
                "seeds. Take a larger bandwidth, or leave bin_seeding out.",
                SuspiciousResultWarning,
                stacklevel=4,  # _seeds, fit, all_or_nothing's guard, the caller
            )
        return self.points_

    def _thin_out(self, ends: steps.Ends, eps: float) -> NDArray[np.float64]:
        centers, _ = steps.thin_out(ends, eps)
        if not len(centers):
            raise BadData(
                f"MeanShift: No point was within bandwidth={self.bandwidth_:g} of any seed. "
                "Give seeds that are nearer to the data, or a larger bandwidth."
            )
        return centers

    def _join(
        self, ends: steps.Ends, present: NDArray[np.bool_], hill: steps.Hill
    ) -> tuple[steps.Peaks, NDArray[np.int64]]:
        """Join the ends of the rows that are there into clusters; those of one row are −1 where that is wanted."""
        joined = steps.peaks(ends.only(present), hill.eps, hill.threads)
        labels = joined.clusters
        if not self.cluster_all:
            mass = np.bincount(joined.clusters[joined.which], self.weights_)  # (k,)
            number = np.where(mass > 1, np.cumsum(mass > 1) - 1, -1)
            labels = number[labels]
        return joined, labels

    def _nearest_peak(self, ends: NDArray[np.float64], hill: steps.Hill, scaling: steps.Scaling) -> NDArray[np.int64]:
        """Label points by the peak that is nearest; without `cluster_all`, −1 where none is within the bandwidth."""
        index, distance = np.empty(len(ends), np.int64), np.empty(len(ends))
        peaks = _core.Index(scaling.down(self.peaks_), hill.eps, "euclidean", 2.0, "auto", hill.threads)
        peaks.knn(ends, 1, distance[:, None], index[:, None], hill.threads)
        labels: NDArray[np.int64] = self.peak_labels_[index]
        return labels if self.cluster_all else np.where(distance <= hill.eps, labels, -1)

    def _are_peaks(self, ends: steps.Ends, hill: steps.Hill) -> NDArray[np.bool_]:
        arrived = np.isin(ends.reason, (_core.END_FIXED, _core.END_SMALL))
        if hill.gaussian:
            return arrived
        places = find_places(ends.points, hill.threads)
        touched = hill.on_sphere(np.ascontiguousarray(ends.points[places.first]))
        peaks: NDArray[np.bool_] = arrived & ~touched[places.which]
        return peaks

    def _mean_weight(self, ends: steps.Ends, present: NDArray[np.bool_], power: int) -> float:
        """Average the weight within the bandwidth, in units of the weights that were given."""
        size = int(np.frexp(ends.weight.max())[1])
        near = np.ldexp(ends.weight, -size)
        if self._nearest or self.weights_ is None:
            mean = math.fsum(near) / len(near)
        else:
            weights = np.ldexp(self.weights_, -int(np.frexp(self.weights_.max())[1]))
            mean = math.fsum(near[present] * (weights / math.fsum(weights)))
        with np.errstate(over="ignore"):
            return float(np.ldexp(mean, size + power))

    def _warn_unfinished(self, ends: steps.Ends) -> None:
        count = int(np.count_nonzero(ends.reason == _core.END_UNFINISHED))
        if count:
            warnings.warn(
                f"MeanShift: {count} of {len(ends.reason)} paths were still climbing after max_iter={self.max_iter} "
                "steps. Raise max_iter.",
                ConvergenceWarning,
                stacklevel=4,  # _warn_unfinished, fit, all_or_nothing's guard, the caller
            )

    # ---- new points ------------------------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Put each row into the cluster that it climbs to; with `assign="nearest"`, that of the nearest centre.

        A new row may climb to an end that no row of the data has reached: then the nearest known end decides. Without
        `cluster_all` a row is −1 where none is within the bandwidth, or where the nearest is noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels; those of the training data are `labels_`.
        """
        points = self._points(X)
        hill, scaling, _ = self._hill()
        starts = scaling.starts(points)
        if self._nearest:
            return self._nearest_peak(starts, hill, scaling)
        return self._nearest_peak(hill.climb(starts, self.max_iter).points, hill, scaling)

    def paths(self, X: ArrayLike) -> list[NDArray[np.float64]]:
        """Follow the climb from each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where to start.

        Returns
        -------
        list of ndarray of shape (n_steps + 1, n_features)
            The positions of each path, its start first.
        """
        points = self._points(X)
        hill, scaling, _ = self._hill()
        paths = hill.paths(scaling.starts(points), self.max_iter, small=self._nearest)
        return [np.vstack([row, scaling.up(path[1:])]) for row, path in zip(points, paths, strict=True)]

    def _points(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        return check_points(X, estimator=self, reset=False, n_jobs=self.n_jobs)
