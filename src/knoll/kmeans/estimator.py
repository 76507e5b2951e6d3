"""k-means: minimise J(μ, r) = Σᵢ wᵢ ‖xᵢ − μ_{r(i)}‖² over centres and labels   (docs/theory/03-kmeans.md, eq. 3.4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from knoll._common.blocks import Block
from knoll._common.cost import Cost, linear_cost
from knoll._common.loop import StepReport, make_history
from knoll._common.passes import OneBlock, Passes
from knoll._common.rescale import (
    Rescaling,
    by_scale,
    is_extreme,
    is_plain,
    largest_of,
    present_rows,
    times_power,
    without_absent,
)
from knoll._common.sample import draw_sample
from knoll._common.sparse import check_compressed, is_sparse
from knoll._schema import Array, Columns, Real, Whole
from knoll._typing import Floats, Labels
from knoll.base import Estimator, FitPredictMixin, all_or_nothing, warn_caller
from knoll.engines import fit_collection, lazily, open_passes
from knoll.exceptions import (
    BadData,
    ConvergenceWarning,
    InvalidParameter,
    InvalidType,
    SuspiciousResultWarning,
)
from knoll.kmeans import lloyd
from knoll.kmeans.assignment import assign, distances, memory_for, squared_error
from knoll.kmeans.init import Starts, alike, refuse_far, refuse_light
from knoll.kmeans.summary import ends_of_blocks, summarize_blocks
from knoll.validation import (
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    Choice,
    Flag,
    Number,
    check_points,
    check_weights,
    draw_seed,
    is_lazy,
    refuse_not_finite,
)

_NAMES = ("k-means++", "random")
_RESTARTS = 10  # runs of n_init="auto" where the start is not chosen with care


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FitPredictMixin, ClusterMixin, Estimator):
    """k-means: k centres, and every point with the closest of them.

    Alternates two steps until nothing moves: assign each point to its closest centre, move each centre to the mean of
    its points. Each lowers J(μ, r) = Σᵢ wᵢ ‖xᵢ − μ_{r(i)}‖². The answer is a fixed point of the alternation. Every
    `algorithm` gives the same labels; they differ in how much they can skip.

    Parameters
    ----------
    n_clusters : int, default=8
        k, the number of clusters.
    init : {"k-means++", "random"}, array of shape (n_clusters, n_features) or callable, default="k-means++"
        The start. "k-means++" draws points far apart (greedily, the best of a few each time), "random" draws rows; both
        by weight, equal rows counting together, so that the order of rows does not matter. A callable receives
        (X, n_clusters, random_state=RandomState) and returns centres.
    init_size : int or None, default=None
        Draw the start from at most so many distinct rows, chosen by their contents, and those of much weight. None:
        from all rows in `fit`, from max(65536, 16·n_clusters) in `fit_blocks` and for dask collections. With the same
        number all of them give the same bits.
    n_init : "auto" or int, default="auto"
        Runs from different starts; the one with the smallest inertia is kept, the first of equals. "auto" is 10 for
        "random" and for a callable, 1 otherwise.
    max_iter : int, default=300
        At most so many steps a run.
    tol : float, default=1e-4
        Stop when Σ_c ‖shift of centre c‖² ≤ tol · (mean variance of the columns). 0: only at a fixed point.
    verbose : int, default=0
        Print each step.
    random_state : int, RandomState, Generator or None, default=None
        What the start is drawn from.
    copy_x : bool, default=True
        Ignored: X is never changed.
    algorithm : {"auto", "lloyd", "hamerly", "elkan"}, default="auto"
        What to remember between steps so as to skip distances: nothing, one bound a point, or ("elkan") one bound for
        each group of centers, not one for each center. "auto" goes by the shape of the data. The labels are the same.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.
    empty_clusters : {"relocate", "keep"}, default="relocate"
        What becomes of a cluster that lost all its points: it begins anew at the point farthest from its centre, or it
        keeps its centre and may stay empty.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        μ, of the data's dtype, float32 or float64.
    labels_ : ndarray of shape (n_samples,) of int32
        The closest centre of each row: `predict` of the training data. Not set by `fit_blocks`.
    inertia_ : float
        J.
    n_iter_ : int
        Steps of the run that was kept.
    cluster_weights_ : ndarray of shape (n_clusters,)
        The weight of each cluster; the number of its rows without `sample_weight`.
    n_distances_ : int
        Distances evaluated in all runs, the start not included: about n·k for a step that can skip nothing, and those
        of the rechecks. One that is estimated first and then confirmed counts once.
    n_rechecks_ : int
        Rows whose label was decided again by the one distance, since a fast route was not certain.
    n_steps_ : int
        Batches seen by `partial_fit`; set by it alone.
    history_ : dict of ndarray
        iteration, objective (J of the new centres), changed (Σ‖shift‖²), seconds, distances, rechecks, and for data in
        memory relabelled.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X had any.

    Notes
    -----
    Centres live in float64 during a fit; for float32 data they are rounded before the last assignment, so that
    `predict(X)` equals `labels_`. With fewer distinct points than clusters, clusters stay empty and a
    ConvergenceWarning is issued.

    Examples
    --------
    >>> from knoll import KMeans, datasets
    >>> X = datasets.load("iris").X
    >>> model = KMeans(n_clusters=3, random_state=0).fit(X)
    >>> model.cluster_centers_.shape
    (3, 4)
    >>> bool((model.predict(X) == model.labels_).all())
    True

    References
    ----------
    docs/theory/03-kmeans.md; Lloyd (1982); Arthur and Vassilvitskii (2007).
    """

    _rules: ClassVar = {
        "n_clusters": (Number(1, whole=True),),
        "init_size": (None, Number(1, whole=True)),
        "n_init": (Choice(("auto",)), Number(1, 2**16, whole=True)),  # a draw has 16 bits for its restart
        "max_iter": (Number(1, whole=True),),
        "tol": (Number(0),),
        "verbose": VERBOSE,
        "random_state": RANDOM_STATE,
        "copy_x": (Flag(),),
        "algorithm": (Choice(("auto", "lloyd", "hamerly", "elkan")),),
        "n_jobs": N_JOBS,
        "empty_clusters": (Choice(("relocate", "keep")),),
    }
    _fitted: ClassVar = {
        "cluster_centers_": Array("k d"),
        "cluster_weights_": Array("k", "float64", low=0),
        "inertia_": Real(0, finite=False),  # squares of 1e160 are infinite
        "n_iter_": Whole(),
        "n_distances_": Whole(missing=True),
        "n_rechecks_": Whole(missing=True),
        "n_steps_": Whole(1, missing=True),
        "history_": Columns(),
        "labels_": Array("n", "int32", low=0, below="k", missing=True),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        init_size: int | None = None,
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        copy_x: bool = True,
        algorithm: str = "auto",
        n_jobs: int | None = None,
        empty_clusters: str = "relocate",
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.init_size = init_size
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.copy_x = copy_x
        self.algorithm = algorithm
        self.n_jobs = n_jobs
        self.empty_clusters = empty_clusters

    # ---- fit -------------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the centres and the labels of the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The points. Sparse ones are used as compressed rows.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row, in the start too.

        Returns
        -------
        KMeans
            The estimator itself.
        """
        self._check_parameters()
        if is_lazy(X):
            return fit_collection(self, X, sample_weight)
        points, largest = self._validate(X, reset=True)
        weights = check_weights(sample_weight, points.shape[0], owner="KMeans")
        self._enough(points.shape[0])
        heaviest = 1.0 if weights is None else float(weights.max())
        refuse_light(weights, heaviest)
        counted, extent = without_absent(Block(points, weights), largest)
        scaling = Rescaling.fitting(extent, heaviest, [counted])
        block = scaling.block(counted)
        k, algorithm = int(self.n_clusters), self._algorithm()

        def memory() -> Any:
            return memory_for(block.points, k, algorithm)

        passes, sample, seed = OneBlock(block, self._threads()), block, draw_seed(self.random_state)
        if self.init_size is not None and not self._init_is_array():
            sample = self._sample(passes, passes.prepared(present_rows).rows, seed, self.init_size)
        self._fit(passes, sample, scaling, points.dtype, memory, seed)
        if scaling or extent != largest or not is_plain(self._centers(), largest):
            self.labels_ = self._labels(points, largest)  # very different magnitudes: in the scales `predict` takes
        return self

    @all_or_nothing
    def fit_blocks(self, make_blocks: Callable[[], Iterable[Any]], *, engine: Any = None) -> Self:
        """Fit to data that comes in blocks, such as a file larger than memory.

        Parameters
        ----------
        make_blocks : callable
            Returns a fresh iterator over blocks of rows: arrays, or pairs (array, sample_weight). It is called once for
            each step and a few times more. The cuts do not change the result.
        engine : engine of `knoll.engines`, optional
            Who computes; None: this process, block by block. The result has the same bits.

        Returns
        -------
        KMeans
            The estimator itself, without `labels_`: `predict` gives those of a block.

        Notes
        -----
        With `init` as an array the result is that of `fit`, to the bit. With `init` by name the start is drawn from at
        most `init_size` distinct rows, max(65536, 16·n_clusters) if that is None, with the weights of all their copies,
        and those of much weight. Where there are no more, or `init_size` is set, the start is that of `fit`. Which rows
        are drawn depends on their contents and the seed, not on their order.

        Examples
        --------
        >>> import numpy as np
        >>> from knoll import KMeans
        >>> X = np.random.default_rng(0).normal(size=(10_000, 3))
        >>> model = KMeans(4, random_state=0).fit_blocks(lambda: np.array_split(X, 7))
        >>> bool((model.cluster_centers_ == KMeans(4, random_state=0).fit(X).cluster_centers_).all())
        True
        """
        self._check_parameters()
        passes = open_passes(make_blocks, self, self._threads(), engine)
        dtype = passes.dtype
        seed, is_array = draw_seed(self.random_state), self._init_is_array()
        found = summarize_blocks(passes, self)
        self._enough(found.rows)
        refuse_light(np.array([found.lightest]), found.heaviest)
        if is_extreme(found.largest, max(found.largest, found.largest_absent)):
            passes = passes.prepared(present_rows)
        scaling = Rescaling.fitting(found.largest, found.heaviest, passes.map(ends_of_blocks, None))
        if scaling:
            passes = passes.prepared(scaling.block)
        if is_array:
            sample = passes.first().rows(0, 0)
        else:
            size = max(1 << 16, 16 * int(self.n_clusters)) if self.init_size is None else self.init_size
            sample = self._sample(passes, found.present, seed, size)
        return self._fit(passes, sample, scaling, dtype, lambda: None, seed)

    def _sample(self, passes: Passes, present: int, seed: int, size: int) -> Block:
        """Draw rows for the start."""
        if size < self.n_clusters:
            raise InvalidParameter(
                f"KMeans: init_size={size} is less than n_clusters={self.n_clusters}. Take a multiple of it, or None."
            )
        return draw_sample(passes.prepared(present_rows), present, seed, int(size))

    def _fit(
        self,
        passes: Passes,
        sample: Block,  # what the start is drawn from
        scaling: Rescaling,
        dtype: Any,
        memory: Callable[[], Any],
        seed: int,
    ) -> Self:
        """Run from each start and set the fitted attributes of the best."""
        threads = self._threads()
        starts = self._starts(sample, scaling, dtype, seed, threads)
        best: lloyd.LloydResult | None = None
        close: tuple[int, int, float] | None = None
        self.n_distances_ = self.n_rechecks_ = 0
        for restart in range(self._runs()):
            centers = starts(restart)
            self._print("Initialization complete")
            scatter = None if best is None else best.scatter
            result = self._run(passes, centers, scaling, dtype, memory(), scatter)
            close = close or alike(centers) or alike(result.centers)
            self.n_distances_ += result.distances
            self.n_rechecks_ += result.rechecks
            if best is None or result.inertia < best.inertia:
                best = result
        assert best is not None
        self._warn_of(best, close, scaling)
        result = lloyd.unscaled(best, scaling)
        self.cluster_centers_ = result.centers.astype(dtype)
        self.cluster_weights_ = result.masses
        self.inertia_ = result.inertia
        self.n_iter_ = result.n_iter
        self.history_ = result.history
        for name in ("labels_", "n_steps_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if result.labels is not None:
            self.labels_ = np.array(result.labels)
        return self

    def _run(
        self,
        passes: Passes,
        centers: Floats,
        scaling: Rescaling,
        dtype: Any,
        memory: Any,
        scatter: lloyd.TotalScatter | None,
    ) -> lloyd.LloydResult:
        result = lloyd.alternate(
            passes,
            centers,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            memory=memory,
            relocates=self.empty_clusters == "relocate",
            scatter=scatter,
            stored=lloyd.storage(scaling, dtype),
            hook=self._show(scaling) if self.verbose else None,
        )
        self._print_end(result, scaling)
        return result

    def _warn_of(self, best: lloyd.LloydResult, close: tuple[int, int, float] | None, scaling: Rescaling) -> None:
        """Warn of clusters that stayed empty, and of two centres whose distance float64 cannot square."""
        found = int(np.count_nonzero(best.masses))
        if found < self.n_clusters:
            warn_caller(
                f"Number of distinct clusters ({found}) found smaller than n_clusters ({self.n_clusters}). Possibly "
                "due to duplicate points in X. Ask for fewer clusters.",
                ConvergenceWarning,
            )
        if close is not None:
            i, j, gap = *close[:2], scaling.from_units(close[2], length=1)
            warn_caller(
                f"KMeans: centres {i} and {j} lie {gap:.3g} apart, and others so far away that no float64 holds the "
                "squares of both distances: rows between these two were not separated. Cluster the close rows on "
                "their own, or take logarithms.",
                SuspiciousResultWarning,
            )

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from one more batch: each centre becomes the mean of all points that it ever had.

        The rule of MiniBatchKMeans (Sculley, 2010), batch by batch: assign the batch to the centres, then
        μ_c ← (N_c μ_c + Σ w x) / (N_c + Σ w) over its points in c, with N_c = `cluster_weights_`. After `fit` it goes
        on from there; else the first batch gives the start and must have n_clusters rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The batch.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights of its rows.

        Returns
        -------
        KMeans
            The estimator itself; `labels_` and `inertia_` are the batch's, with the new centres.
        """
        begun = time.perf_counter()
        self._check_parameters()
        goes_on = hasattr(self, "cluster_centers_")
        points, largest = self._validate(X, reset=not goes_on)
        weights = check_weights(sample_weight, points.shape[0], owner="KMeans")
        if weights is not None:
            refuse_light(weights, float(weights.max()))
        batch, extent = without_absent(Block(points, weights), largest)
        threads = self._threads()
        if goes_on:
            dtype, before = self.cluster_centers_.dtype, np.asarray(self.cluster_centers_, dtype=np.float64)
            self._check_going_on()
            known = [Block(batch.points, None), Block(before, None)]
            scaling, counts = Rescaling.fitting(max(extent, largest_of(before)), 1.0, known), self.cluster_weights_
            block, raw, before = scaling.block(batch), before, scaling.down(before)
            refuse_far(extent, raw, scaling)
        else:
            self._enough(points.shape[0])
            dtype, counts = points.dtype, np.zeros(int(self.n_clusters))
            scaling = Rescaling.fitting(extent, 1.0, [Block(batch.points, None)])
            block = scaling.block(batch)
            before = self._starts(block, scaling, dtype, draw_seed(self.random_state), threads)(0)
        table = lloyd.round_sums(lloyd.partial(block, lloyd.start(before), threads), before.shape, threads)
        joined, counted = table.masses > 0, counts + table.masses  # (k,) which clusters the batch has rows of
        centers = before.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            sums = before[joined] * counts[joined, None] + table.coordinates[joined]
            centers[joined] = sums / counted[joined, None]  # eq. 3.11
        if not np.isfinite(centers).all():
            raise BadData("KMeans: the sums of the sample weights leave float64. Divide them by their largest.")
        centers = lloyd.storage(scaling, dtype)(centers)
        shift = float(np.einsum("cj,cj->", centers - before, centers - before))
        inertia = squared_error(OneBlock(block, threads), centers)
        self.cluster_centers_ = scaling.up(centers).astype(dtype)
        self.cluster_weights_ = counted
        self.labels_ = self._labels(points, largest)
        self.inertia_ = float(scaling.from_units(inertia, length=2, weight=1))
        self.n_steps_ = getattr(self, "n_steps_", 0) + 1
        self.n_iter_ = self.n_steps_
        shift = float(scaling.from_units(shift, length=2))
        self._remember(self.n_steps_, self.inertia_, shift, time.perf_counter() - begun)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[Any]:
        """Fit, and return the distances to the centres.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The points.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            What `transform` returns.
        """
        return self.fit(X, sample_weight=sample_weight).transform(X)

    _takes_sparse = True

    def _cost(self, n: int, d: int) -> Cost:
        runs, k = self._runs(), self.n_clusters
        remedy = "fewer starts (n_init) or iterations (max_iter), or fit_blocks, which reads the rows in blocks"
        pair = 2e-10 * (d + 8 + 160 / k)
        return linear_cost(self.algorithm, n, 20 + 8 * d, float(n) * k * runs, pair, (8, self.max_iter), remedy)

    # ---- answers ---------------------------------------------------------------------------------------------------

    @lazily
    def predict(self, X: Any) -> Labels:
        """Return the closest centre of each row, the lowest index of equally close ones.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The points.

        Returns
        -------
        ndarray of shape (n_samples,) of int32
            The labels.
        """
        check_is_fitted(self)
        return self._labels(*self._validate(X, reset=False))

    @lazily
    def transform(self, X: Any) -> NDArray[Any]:
        """Compute the distance of each row to each centre.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The points.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Euclidean distances.
        """
        return self._distances(X)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Compute −J: minus the sum of squared distances to the closest centres, so that more is better.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The points.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        float
            −Σ w‖x − closest centre‖².
        """
        check_is_fitted(self)
        points, largest = self._validate(X, reset=False)
        weights = check_weights(sample_weight, points.shape[0], owner="KMeans", nonzero=False)
        total, threads = 0.0, self._threads()
        for group in by_scale(points, self._centers(), largest):
            block = Block(group.points, None if weights is None else np.ascontiguousarray(weights[group.rows]))
            squares = squared_error(OneBlock(block, threads), group.centers)
            total += float(times_power(squares, 2 * group.exponent))
        return -total

    # ---- inside ----------------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _validate(self, X: Any, *, reset: bool) -> tuple[Any, float]:
        """Check points; also return their largest magnitude, which shows whether all are finite."""
        if is_sparse(X):
            check_compressed(X, "KMeans")
        points = check_points(X, estimator=self, reset=reset, sparse=True, finite=False)
        largest = largest_of(points)
        if not np.isfinite(largest):
            refuse_not_finite(points, self)
        return points, largest

    def _centers(self) -> Floats:
        return np.ascontiguousarray(self.cluster_centers_, dtype=np.float64)

    def _labels(self, points: Any, largest: float) -> Labels:
        """Find the closest centres of checked points, of magnitude up to `largest`."""
        labels, threads = np.empty(points.shape[0], dtype=np.int32), self._threads()
        for group in by_scale(points, self._centers(), largest):
            own = np.empty(group.points.shape[0], dtype=np.int32)
            assign(group.points, group.centers, own, None, threads)
            labels[group.rows] = own
        return labels

    def _distances(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        points, largest = self._validate(X, reset=False)
        centers, threads = self._centers(), self._threads()
        found = np.empty((points.shape[0], len(centers)), dtype=points.dtype)  # (n, k)
        for group in by_scale(points, centers, largest):
            with np.errstate(over="ignore", under="ignore"):
                found[group.rows] = times_power(distances(group.points, group.centers, threads), group.exponent)
        return found

    def _check_going_on(self) -> None:
        """Refuse to go on with another number of clusters than was fitted."""
        if len(self.cluster_centers_) != self.n_clusters:
            raise InvalidParameter(
                f"KMeans: partial_fit cannot go on from {len(self.cluster_centers_)} centres to "
                f"n_clusters={self.n_clusters}. Fit anew, or set n_clusters={len(self.cluster_centers_)}."
            )

    def _enough(self, n: int) -> None:
        if n < self.n_clusters:
            raise BadData(
                f"n_samples={n} should be >= n_clusters={self.n_clusters}. Give more rows, or ask for fewer clusters."
            )

    def _starts(self, sample: Block, scaling: Rescaling, dtype: Any, seed: int, threads: int) -> Starts:
        self._init_is_array()  # refuses what is no start
        return Starts(self.init, int(self.n_clusters), sample, scaling, dtype, seed, threads)

    def _init_is_array(self) -> bool:
        """Return whether `init` is an array; refuse what is no start at all."""
        if isinstance(self.init, str):
            if self.init not in _NAMES:
                raise InvalidParameter(
                    f"KMeans: init must be 'k-means++', 'random', an array of centres or a callable, got {self.init!r}."
                )
            return False
        if callable(self.init):
            return False
        if not (hasattr(self.init, "__len__") or hasattr(self.init, "shape")):
            raise InvalidType(
                f"KMeans: init must be 'k-means++', 'random', an array of centres or a callable, got {self.init!r}."
            )
        return True

    def _runs(self) -> int:
        is_array = self._init_is_array()
        if self.n_init == "auto":
            return 1 if is_array or self.init == "k-means++" else _RESTARTS
        if is_array and self.n_init != 1:
            warn_caller(
                "Explicit initial center position passed: performing only one init in KMeans instead of "
                f"n_init={self.n_init}.",
                RuntimeWarning,
            )
            return 1
        return int(self.n_init)

    def _algorithm(self) -> str:
        if self.algorithm == "elkan" and self.n_clusters == 1:
            warn_caller(
                "algorithm='elkan' doesn't make sense for a single cluster. Using 'lloyd' instead.",
                RuntimeWarning,
            )
            return "lloyd"
        return self.algorithm

    def _remember(self, step: int, objective: float, changed: float, seconds: float) -> None:
        """Add a batch to the history; the first begins a new one."""
        row = {"objective": objective, "changed": changed, "seconds": seconds}
        old = self.history_ if step > 1 else dict.fromkeys(row, ())
        self.history_ = make_history(**{name: [*old[name], value] for name, value in row.items()})

    # ---- verbose ---------------------------------------------------------------------------------------------------

    def _print(self, message: str) -> None:
        if self.verbose:
            print(f"KMeans: {message}", flush=True)

    def _show(self, scaling: Rescaling) -> Callable[[int, StepReport], None]:
        def show(iteration: int, report: StepReport) -> None:
            objective = scaling.from_units(report.objective, length=2, weight=1)
            shift = scaling.from_units(report.changed, length=2)
            self._print(f"Iteration {iteration}, inertia {objective:.10g}, center shift {shift:.3g}.")

        return show

    def _print_end(self, result: lloyd.LloydResult, scaling: Rescaling) -> None:
        if not self.verbose:
            return
        shift, limit = (
            float(scaling.from_units(value, length=2))
            for value in (result.history["changed"][-1], self.tol * result.scatter.mean_variance)
        )
        if shift == 0:
            self._print(f"Converged at iteration {result.n_iter}: strict convergence.")
        elif shift <= limit:
            within = f"center shift {shift:.3g} within tolerance {limit:.3g}"
            self._print(f"Converged at iteration {result.n_iter}: {within}.")
        elif result.came_back:
            self._print(f"Converged at iteration {result.n_iter}: centers come back, what still changes is rounding.")
        else:
            self._print(f"Stopped at iteration {result.n_iter}: max_iter.")
