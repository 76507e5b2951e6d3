"""Mean Shift: every point ascends f(y) = Σᵢ wᵢ max(0, ε² − ‖y − xᵢ‖²) to the end of its path (eq. 6.1)."""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from knoll import _core, scales
from knoll._common.cost import Cost
from knoll._common.loop import make_history
from knoll._common.rescale import RadiusRescaling, as_dtype, exponent_of, near_one, times_power
from knoll._common.unique_rows import find_unique_rows
from knoll._schema import Array, Columns, Real, Whole, not_empty
from knoll._typing import Bools, Floats, Ints
from knoll.base import Estimator, FitPredictMixin, all_or_nothing, warn_caller
from knoll.density import ascent
from knoll.engines import lazily
from knoll.exceptions import BadData, ConvergenceWarning, SuspiciousResultWarning
from knoll.validation import N_JOBS, Choice, Flag, Instance, Number, check_points, check_weights, refuse_masked

_HEAVIEST = 500  # under a Gaussian, the largest exponent of a weight: the core's limit
_LIGHTEST = 1500  # and how far below it the smallest may be
_FAINT = 50  # weights below 2^−50 are multiplied, so that their products with subnormal coordinates are no zeros
_WARNED_FROM = 20  # rows: of fewer, three tenths may be a row alone
_ARRAY = Instance((np.ndarray, list, tuple), "an array of shape (n_seeds, n_features)")


class MeanShift(FitPredictMixin, ClusterMixin, Estimator):
    """Mean Shift: clusters are the modes of the data's density, and every point ascends to one.

    A point moves to the mean of the data within `bandwidth` of it, again and again, until that set of neighbours
    repeats. Each step increases f(y) = Σᵢ wᵢ max(0, ε² − ‖y − xᵢ‖²), ε being the bandwidth. Ends within ε of
    each other, directly or through others, make one cluster.

    Parameters
    ----------
    bandwidth : float or None, default=None
        ε, the radius of a neighbourhood; a distance equal to it is inside. None: the average distance within which
        three tenths of the data lie, as scikit-learn has it (of more than 5000 rows, from a sample of them).
    seeds : array-like of shape (n_seeds, n_features) or None, default=None
        Where paths start, instead of at every row; implies `assign="nearest"`.
    bin_seeding : bool, default=False
        Start at the centres of a grid of bins as wide as the bandwidth; implies `assign="nearest"`.
    min_bin_freq : int, default=1
        With `bin_seeding`: only bins with at least so many rows.
    cluster_all : bool, default=True
        False marks as −1 the rows that belong to no cluster: those that are alone in theirs (a weight of at most 1) or,
        with `assign="nearest"`, further than the bandwidth from every centre.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.
    max_iter : int, default=300
        The most steps that a path may take.
    kernel : {"flat", "gaussian"}, default="flat"
        "gaussian" weighs the data by exp(−‖y − x‖²/2ε²); a path then ends by a step below 1e-6 bandwidths.
    assign : {"climb", "nearest"}, default="climb"
        "climb" puts a row into the cluster at the end of its path. "nearest" is scikit-learn's rule: paths end by a
        step below 1e-3 bandwidths, ends within the bandwidth of one with more neighbours are dropped, and a row belongs
        to the nearest of the others.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The end with the most data within the bandwidth of each cluster. Clusters are numbered by that, the most first.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each row, or −1.
    n_iter_ : int
        Steps of the longest path.
    bandwidth_ : float
        ε, as passed or estimated.
    climbed_ : ndarray of shape (n_starts, n_features)
        Where each path ends. Starts are the rows, or the seeds.
    n_steps_ : ndarray of shape (n_starts,)
        How many steps each path has; the last one confirms that the set repeats, unless `max_iter` ends the path.
    is_peak_ : ndarray of shape (n_starts,)
        Whether the end is a strict local maximum of f: no row lies exactly on its sphere.
    peaks_, peak_labels_ : ndarray of shape (n_peaks, n_features) and (n_peaks,)
        The distinct ends, and their clusters.
    points_, weights_ : ndarray of shape (n_present, n_features) and (n_present,), or None
        The data that defines the density, which `predict` needs: rows of weight 0 are absent.
    history_ : dict of ndarray
        iteration, objective (the mean weight within the bandwidth at the ends), changed (rows that moved) and seconds.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X has any.

    Notes
    -----
    The end of a path need not be the closest mode, nor a mode at all (docs/theory/errata.md, items 12 and 13).

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
        """Follow the path from every row, or from the seeds, and join the ends into clusters.

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
        # a copy: predict needs it when X may have changed
        self.points_ = np.array(points if present.all() else points[present], order="C")
        self.weights_ = None if weights is None else weights[present]
        self.bandwidth_ = self._bandwidth()
        density, scaling, weight_power = self._density()
        rows = self._seeds(scaling) if self._nearest else points
        starts = scaling.starts(rows)
        ends = density.ascend(starts, self.max_iter, small=self._nearest)
        self._warn_unfinished(ends)

        if self._nearest:
            # rounded to the dtype of the data before rows are assigned to them: predict has no others
            modes = centers = scaling.down(as_dtype(scaling.up(self._thin_out(ends, density.eps)), points.dtype))
            mode_labels = np.arange(len(modes))
        else:
            joined, mode_labels = self._join(ends, present, density)
            modes, centers = joined.points, joined.points[joined.centers]
            if not self.cluster_all:
                centers = centers[mode_labels[joined.centers] >= 0]
        self.peaks_, self.peak_labels_ = scaling.up(modes), mode_labels
        self.cluster_centers_ = self._in_box(centers, scaling).astype(points.dtype)
        if self._nearest:
            self.labels_ = self._nearest_mode(scaling.starts(points), density, scaling)
        else:
            self.labels_ = np.empty(len(points), np.int64)
            self.labels_[present] = mode_labels[joined.inverse]
            if not present.all():
                self.labels_[~present] = self._nearest_mode(ends.points[~present], density, scaling)
        self.climbed_ = as_dtype(ends.unscaled(scaling, rows), points.dtype)
        self.n_steps_ = ends.steps
        self.n_iter_ = int(ends.steps.max())
        if self.bandwidth_ == 0 and len(points) >= _WARNED_FROM and len(self.cluster_centers_) > 1:
            warn_caller(
                "MeanShift: the estimated bandwidth is 0, since rows repeat: three tenths of them are equal. "
                f"Each of {len(self.cluster_centers_)} distinct rows is a cluster. Give a bandwidth; "
                "knoll.scales.estimate_bandwidth(X, quantile=…) takes a larger share.",
                SuspiciousResultWarning,
            )
        self.is_peak_ = self._are_modes(ends, density)
        moved = float(np.count_nonzero((ends.points != starts).any(axis=1)))
        objective = self._mean_weight(ends, present, weight_power)
        self.history_ = make_history([objective], [moved], [time.perf_counter() - begun])
        return self

    @property
    def _nearest(self) -> bool:
        return self.assign == "nearest" or self.seeds is not None or bool(self.bin_seeding)

    def _bandwidth(self) -> float:
        if self.bandwidth is not None:
            return float(self.bandwidth)
        return scales.estimate_bandwidth(self.points_, sample_weight=self.weights_, n_jobs=self._threads())

    def _density(self) -> tuple[ascent.KernelDensity, RadiusRescaling, int]:
        """Return the density of the fitted data in scaled units, the scaling, and the power of the weights."""
        scaling = RadiusRescaling.of(self.points_, self.bandwidth_, "MeanShift")
        eps = scaling.radius(self.bandwidth_)
        gaussian = self.kernel == "gaussian" and eps > 0
        weights, power = _summable(self.weights_, gaussian)
        points = scaling.down(self.points_)
        return ascent.KernelDensity.of(points, weights, eps, gaussian, self._threads()), scaling, power

    def _in_box(self, centers: Floats, scaling: RadiusRescaling) -> Floats:
        """Bring scaled centers back; entries that are subnormal while scaled are clipped to the range of the rows."""
        back = scaling.up(centers)
        if not scaling:
            return back
        inside = np.clip(back, self.points_.min(axis=0), self.points_.max(axis=0))
        return np.where(np.abs(centers) < np.finfo(np.float64).smallest_normal, inside, back)

    def _seeds(self, scaling: RadiusRescaling) -> NDArray[Any]:
        """Choose the starts when rows are assigned to the nearest end."""
        if self.seeds is not None:
            refuse_masked(self.seeds, "seeds")
            try:
                seeds = check_points(self.seeds)
            except BadData as error:
                raise BadData(f"MeanShift: seeds cannot be used: {error}") from None
            if seeds.shape[1] != self.points_.shape[1]:
                raise BadData(
                    f"MeanShift: seeds have {seeds.shape[1]} columns and X has {self.points_.shape[1]}. "
                    "One row of seeds is one start."
                )
            return seeds
        if self.bin_seeding:
            points, size = scaling.down(self.points_), scaling.radius(self.bandwidth_)
            bins = ascent.bin_seeds(points, self.weights_, size, self.min_bin_freq)
            if bins is not None:
                if not len(bins):
                    raise BadData(
                        f"MeanShift: no bin of width {self.bandwidth_:g} holds min_bin_freq={self.min_bin_freq} rows. "
                        "Lower min_bin_freq, or take a larger bandwidth."
                    )
                return scaling.up(bins)
            warn_caller(
                f"MeanShift: with bandwidth={self.bandwidth_:g} every row has a bin of its own, so the rows are the "
                "seeds. Take a larger bandwidth, or leave bin_seeding out.",
                SuspiciousResultWarning,
            )
        return self.points_

    def _thin_out(self, ends: ascent.Ends, eps: float) -> Floats:
        centers, _ = ascent.thin_out(ends, eps)
        if not len(centers):
            raise BadData(
                f"MeanShift: No point was within bandwidth={self.bandwidth_:g} of any seed. "
                "Give seeds that are nearer to the data, or a larger bandwidth."
            )
        return centers

    def _join(self, ends: ascent.Ends, present: Bools, density: ascent.KernelDensity) -> tuple[ascent.Modes, Ints]:
        """Join the ends of the present rows into clusters; without `cluster_all` those of one row are −1."""
        joined = ascent.find_modes(ends.take(present), density.eps, density.threads)
        labels = joined.clusters
        if not self.cluster_all:
            mass = np.bincount(joined.clusters[joined.inverse], self.weights_)  # (k,)
            number = np.where(mass > 1, np.cumsum(mass > 1) - 1, -1)
            labels = number[labels]
        return joined, labels

    def _nearest_mode(self, ends: Floats, density: ascent.KernelDensity, scaling: RadiusRescaling) -> Ints:
        """Label points by the nearest mode; without `cluster_all`, −1 where none is within the bandwidth."""
        index, distance = np.empty(len(ends), np.int64), np.empty(len(ends))
        modes = _core.Index(scaling.down(self.peaks_), density.eps, "euclidean", 2.0, "auto", density.threads)
        modes.knn(ends, 1, distance[:, None], index[:, None], density.threads)
        labels: Ints = self.peak_labels_[index]
        return labels if self.cluster_all else np.where(distance <= density.eps, labels, -1)

    def _are_modes(self, ends: ascent.Ends, density: ascent.KernelDensity) -> Bools:
        arrived = np.isin(ends.reason, (_core.END_FIXED, _core.END_SMALL))
        if density.gaussian:
            return arrived
        unique = find_unique_rows(ends.points, density.threads)
        touched = density.on_sphere(np.ascontiguousarray(ends.points[unique.index]))
        modes: Bools = arrived & ~touched[unique.inverse]
        return modes

    def _mean_weight(self, ends: ascent.Ends, present: Bools, power: int) -> float:
        """Average the weight within the bandwidth at the ends, in the units of sample_weight."""
        within, size = near_one(ends.weight)
        if self._nearest or self.weights_ is None:
            mean = math.fsum(within) / len(within)
        else:
            weights, _ = near_one(self.weights_)
            mean = math.fsum(within[present] * (weights / math.fsum(weights)))
        return float(times_power(mean, size + power))

    def _warn_unfinished(self, ends: ascent.Ends) -> None:
        count = int(np.count_nonzero(ends.reason == _core.END_UNFINISHED))
        if count:
            warn_caller(
                f"MeanShift: {count} of {len(ends.reason)} paths had not ended after max_iter={self.max_iter} steps. "
                "Raise max_iter.",
                ConvergenceWarning,
            )

    def _cost(self, n: int, d: int) -> Cost:
        remedy = "bin_seeding=True, or fit a sample of the rows and predict the others"
        return Cost(self.kernel, n * (140 + 64 * d) + 2**21, float(n) * n, None, remedy)  # steps depend on the data

    # ---- new points ------------------------------------------------------------------------------------------------

    @lazily
    def predict(self, X: ArrayLike) -> Ints:
        """Put each row into the cluster at the end of its path; with `assign="nearest"`, that of the nearest centre.

        The path of a new row may have an end that no row of the data has: then the nearest known end decides. Without
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
        density, scaling, _ = self._density()
        starts = scaling.starts(points)
        ends = starts if self._nearest else density.ascend(starts, self.max_iter).points
        return self._nearest_mode(ends, density, scaling)

    def paths(self, X: ArrayLike) -> list[Floats]:
        """Return the path from each row.

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
        density, scaling, _ = self._density()
        paths = density.paths(scaling.starts(points), self.max_iter, small=self._nearest)
        return [np.vstack([row, scaling.up(path[1:])]) for row, path in zip(points, paths, strict=True)]

    def _points(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        return check_points(X, estimator=self, reset=False, n_jobs=self.n_jobs)


def _summable(weights: Floats | None, gaussian: bool) -> tuple[Floats | None, int]:
    """Divide weights > 0 by a power of two so that their sum is within float64; also return the exponent, mostly 0.

    Under a Gaussian kernel, products of weights and kernel values must be within float64, too.
    """
    if weights is None:
        return None, 0
    heaviest, lightest = exponent_of(weights), exponent_of(weights.min())
    if not gaussian:  # sums of products are exact, whatever the weights
        exponent = max(0, heaviest + len(weights).bit_length() - 1023)
    elif heaviest - lightest > _LIGHTEST:
        raise BadData(
            f"MeanShift: the sample weights go from {weights.min():.3g} to {weights.max():.3g}: no float64 holds the "
            "Gaussian sums of both. Give weights of more similar size, or 0 to rows that should not count."
        )
    else:
        exponent = heaviest - _HEAVIEST if heaviest > _HEAVIEST or lightest < -_FAINT else 0
    return np.maximum(times_power(weights, -exponent), 5e-324), exponent
