"""One Gaussian: maximise log p(X | μ, Σ) = Σᵢ log N(xᵢ | μ, Σ)   (docs/theory/01-gaussian.md, eq. 1.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from knoll import _core
from knoll._common.blocks import Block
from knoll._common.cost import Cost, linear_cost
from knoll._common.loop import StepReport, iterate, live
from knoll._common.passes import OneBlock, Passes, Run, refuse_not_finite_rows
from knoll._common.rescale import (
    Rescaling,
    as_dtype,
    cast_in_range,
    exponent_of,
    present_rows,
    times_power,
    weight_exponent,
)
from knoll._schema import Array, Boolean, Columns, Real, no_factor, no_variances
from knoll._typing import Floats
from knoll.base import Estimator, all_or_nothing, warn_caller
from knoll.engines import fit_collection, lazily, open_passes
from knoll.exceptions import BadData, CollapsedComponentWarning, InvalidParameter
from knoll.gaussian import steps
from knoll.gaussian.covariance import Full
from knoll.gaussian.moments import FLOOR, Moments
from knoll.validation import (
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    Number,
    check_parameters,
    check_points,
    check_weights,
    draw_seed,
    is_lazy,
)

_SMALLEST = 2.0**-1000  # a smaller variance has lost digits of its products to underflow
_PASSES = 4  # one is enough unless the first rows lie far from the mean; each pass brings the origin 2⁻⁵³ times nearer


# ---- what a pass finds ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scaled:
    """A state, and the unit of the weights."""

    state: steps.GaussianState
    scaling: Rescaling


@dataclass(frozen=True)
class _WeighedSums:
    """Moments, and the largest weight."""

    sums: steps.MomentSums
    heaviest: float

    def merge(self, other: _WeighedSums) -> _WeighedSums:
        """Join what two sets of blocks have; neither is changed."""
        return _WeighedSums(self.sums.merge(other.sums), max(self.heaviest, other.heaviest))


def _moments(block: Block, about: _Scaled, run: Run) -> _WeighedSums:
    heaviest = 1.0 if block.weights is None else float(block.weights.max())
    return _WeighedSums(steps.partial(about.scaling.block(block), about.state, run.threads), heaviest)


@dataclass(frozen=True)
class _Extent:
    """How far rows of weight > 0 reach, and how different their weights are."""

    rows: int  # of any weight
    low: Floats  # (d,)
    high: Floats  # (d,)
    lightest: float
    heaviest: float

    def merge(self, other: _Extent) -> _Extent:
        """Join what two sets of blocks have; neither is changed."""
        ends = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        weights = min(self.lightest, other.lightest), max(self.heaviest, other.heaviest)
        return _Extent(self.rows + other.rows, *ends, *weights)


def _extent(block: Block, _: None, run: Run) -> _Extent:
    points, weights = present_rows(block)
    low, high = points.min(axis=0, initial=np.inf), points.max(axis=0, initial=-np.inf)
    if weights is None:
        return _Extent(len(block.points), low, high, np.inf, 0.0)
    return _Extent(len(block.points), low, high, float(weights.min(initial=np.inf)), float(weights.max(initial=0.0)))


class Ellipse(NamedTuple):
    """The contour at a number of standard deviations, in the plane of two columns."""

    center: tuple[float, float]
    width: float  # the whole longer axis
    height: float  # the whole shorter axis
    angle: float  # of the longer axis against the first column's, in degrees, in (−90, 90]

    @classmethod
    def of(cls, mean: NDArray[Any], covariance: NDArray[Any], n_std: float) -> Self:
        """Compute the contour of a Gaussian in the plane, at `n_std` standard deviations (eq. 1.10)."""
        values, vectors = np.linalg.eigh(np.asarray(covariance, dtype=np.float64))
        small, large = 2.0 * n_std * np.sqrt(np.maximum(values, 0.0))
        x, y = vectors[:, 1]
        angle = np.degrees(np.arctan2(y, x))
        angle = angle - 180.0 if angle > 90.0 else angle + 180.0 if angle <= -90.0 else angle
        return cls((float(mean[0]), float(mean[1])), float(large), float(small), float(angle))

    def points(self, n: int = 200) -> Floats:
        """Return n points on the contour, counter-clockwise, as an (n, 2) array."""
        t = np.linspace(0.0, 2 * np.pi, n, endpoint=False)
        turn = np.radians(self.angle)
        along, across = self.width / 2 * np.cos(t), self.height / 2 * np.sin(t)
        x = along * np.cos(turn) - across * np.sin(turn)
        y = along * np.sin(turn) + across * np.cos(turn)
        return np.column_stack([x, y]) + self.center


class Gaussian(DensityMixin, Estimator):
    """One Gaussian, fitted by maximum likelihood.

    The density is N(x | μ, Σ) = (2π)^(−d/2) |Σ|^(−1/2) exp(−½ (x − μ)ᵀ Σ⁻¹ (x − μ)); μ and Σ maximise the likelihood
    of the data, in closed form and in one pass over it.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.
    random_state : int, RandomState, Generator or None, default=None
        What `sample` draws from.
    verbose : int, default=0
        Print each pass over the data.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        μ, the mean. Parameters are of the data's dtype, float32 or float64; float64 where they leave float32.
    covariance_ : ndarray of shape (n_features, n_features)
        Σ, the covariance that maximises the likelihood (divided by n, not n − 1).
    weight_ : float
        The sum of the sample weights; the number of rows without `sample_weight`.
    whitener_ : ndarray of shape (n_features, n_features)
        F, lower triangular, with Σ⁻¹ = FᵀF: rows of F (x − μ) are uncorrelated, of variance one.
    log_det_ : float
        log |Σ|.
    is_singular_ : bool
        Whether Σ is singular to working precision, so that densities use it with its eigenvalues floored.
    history_ : dict of ndarray
        iteration, objective (the log-likelihood), changed (how far the mean lay from the origin, in σ) and seconds.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X had any.

    Notes
    -----
    A singular Σ (a constant column, columns that add up, fewer rows than columns) is kept as it is in `covariance_`.
    Densities then use it with its eigenvalues clipped at 1e-6 of the variances; a CollapsedComponentWarning is issued.

    Examples
    --------
    >>> from knoll import Gaussian, datasets
    >>> X = datasets.load("one_gaussian").X
    >>> model = Gaussian().fit(X)
    >>> model.covariance_.shape
    (2, 2)
    >>> bool(model.score(X) > Gaussian().fit(X + X**3).score(X))
    True

    References
    ----------
    docs/theory/01-gaussian.md; Bishop (2006), section 2.3.4.
    """

    _rules: ClassVar = {"n_jobs": N_JOBS, "random_state": RANDOM_STATE, "verbose": VERBOSE}
    _fitted: ClassVar = {
        "mean_": Array("d"),
        "covariance_": Array("d d", also=lambda _, matrix: no_variances(matrix)),
        "weight_": Real(0, strict=True),
        "whitener_": Array("d d", "float64", also=lambda _, matrix: no_factor(matrix)),
        "log_det_": Real(),
        "is_singular_": Boolean(),
        "history_": Columns(),
    }

    def __init__(self, *, n_jobs: int | None = None, random_state: Any = None, verbose: int = 0) -> None:
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---- fit -------------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit μ and Σ to the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        Gaussian
            The estimator itself.
        """
        self._check_parameters()
        if is_lazy(X):
            return fit_collection(self, X, sample_weight)
        points = check_points(X, estimator=self, finite=False)
        block = Block(points, check_weights(sample_weight, len(points), owner="Gaussian"))
        return self._fit(OneBlock(block, self._threads()))

    @all_or_nothing
    def fit_blocks(self, make_blocks: Callable[[], Iterable[Any]], *, engine: Any = None) -> Self:
        """Fit to data that comes in blocks, such as a file larger than memory.

        Parameters
        ----------
        make_blocks : callable
            Returns a fresh iterator over blocks of rows: arrays, or pairs (array, sample_weight). It is called more
            than once: for the first rows, and for each pass. The cuts do not change the result.
        engine : engine of `knoll.engines`, optional
            Who computes; None: this process, block by block. The result has the same bits.

        Returns
        -------
        Gaussian
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from knoll import Gaussian
        >>> X = np.random.default_rng(0).normal(size=(10_000, 3))
        >>> model = Gaussian().fit_blocks(lambda: np.array_split(X, 7))
        >>> bool((model.covariance_ == Gaussian().fit(X).covariance_).all())
        True
        """
        self._check_parameters()
        return self._fit(open_passes(make_blocks, self, self._threads(), engine))

    def _fit(self, passes: Passes) -> Self:
        """Pass over the blocks until μ and Σ are accurate, then keep them."""
        first, dtype = passes.first(), passes.dtype
        heaviest = 0.0 if first.weights is None else float(first.weights.max())
        scaling = Rescaling(weight_exponent=weight_exponent(heaviest))

        def step(state: steps.GaussianState) -> tuple[steps.GaussianState, StepReport]:
            nonlocal scaling
            while True:
                stats = passes.total(_moments, _Scaled(state, scaling))
                if scaling.weight_exponent == weight_exponent(stats.heaviest):
                    return steps.finish(stats.sums, state, passes.threads)
                # a later block has the heaviest row: the pass is made again, in the unit of all rows
                scaling = Rescaling(weight_exponent=weight_exponent(stats.heaviest))

        hook = live("Gaussian", self.verbose)
        state, history = iterate(step, steps.start(first), max_iter=_PASSES, stop=steps.settled, hook=hook)
        self._check_sums(state, passes)
        weight = float(scaling.from_units(state.mass, weight=1))
        if not np.isfinite(weight):
            raise BadData("Gaussian: the sum of the sample weights leaves float64. Divide them by their largest.")
        history["objective"] = scaling.from_units(history["objective"], weight=1)
        scale = np.sqrt(state.covariance.diagonal())
        full = Full().update(Moments(np.array([weight]), state.mean[None], state.covariance[None], scale))
        for _, column in full.floored:
            names = getattr(self, "feature_names_in_", range(len(state.mean)))
            warn_caller(
                f"Gaussian: the covariance is singular: column {names[column]!r} is constant, or a combination of the "
                f"columns before it. For densities its eigenvalues were floored at {FLOOR:g} of the variances. "
                "Drop such columns, or give more rows.",
                CollapsedComponentWarning,
            )
        self.mean_ = cast_in_range(state.mean, dtype)
        self.covariance_ = cast_in_range(state.covariance, dtype)
        self.weight_ = weight
        self.whitener_ = full.whiteners[0]
        self.log_det_ = float(full.log_dets[0])
        self.is_singular_ = bool(full.floored)
        self.history_ = history
        return self

    def _check_sums(self, state: steps.GaussianState, passes: Passes) -> None:
        """Refuse what shows in the sums: a NaN or an infinity in the data needs no pass of its own to be found."""
        if state.mass == 0:
            raise BadData("Gaussian: every sample_weight is zero, so no row counts. Give a row a weight > 0.")
        variance = state.covariance.diagonal()
        if np.isfinite(state.covariance).all() and (variance >= _SMALLEST).all():
            return
        refuse_not_finite_rows(passes, self)
        found = passes.total(_extent, None)
        low, high, lightest, heaviest = found.low, found.high, found.lightest, found.heaviest
        if not np.isfinite(state.covariance).all():
            largest = float(np.maximum(np.abs(low), np.abs(high)).max())
            raise BadData(
                f"Gaussian: the squares of X leave float64 (|X| goes up to {largest:.3g}). "
                "Divide the data by a power of two near its largest value first."
            )
        narrow = np.flatnonzero((variance < _SMALLEST) & (high > low))
        if len(narrow):
            extent = float(high[narrow[0]] - low[narrow[0]])
            if (
                lightest < heaviest and extent * extent / (2 * found.rows) >= _SMALLEST
            ):  # the least variance of equal weights
                raise BadData(
                    f"Gaussian: the sample weights go from {lightest:.3g} to {heaviest:.3g}: beside the heaviest rows "
                    "the others vanish from float64, and with them the covariance. Give weights of more similar size."
                )
            raise BadData(
                f"Gaussian: the squares of X leave float64 (column {narrow[0]} has a range of {extent:.3g} only). "
                "Multiply it by a power of two first."
            )

    def _cost(self, n: int, d: int) -> Cost:
        return linear_cost("moments", n, 0, float(n), 2e-10 * (d + 8) ** 2, (1, _PASSES), "fit_blocks")

    # ---- densities -------------------------------------------------------------------------------------------------

    @lazily
    def score_samples(self, X: ArrayLike) -> NDArray[Any]:
        """Compute log N(xᵢ | μ, Σ) for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.

        Returns
        -------
        ndarray of shape (n_samples,)
            The logarithm of the density at each point.
        """
        points = self._points(X)
        return as_dtype(self._log_density(points), points.dtype)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Compute the log-likelihood log p(X | μ, Σ) of all rows together (eq. 1.3).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.
        y : ignored

        Returns
        -------
        float
            The sum of `score_samples`.
        """
        return float(self._log_density(self._points(X)).sum())

    @lazily
    def mahalanobis(self, X: ArrayLike, *, squared: bool = False) -> NDArray[Any]:
        """Compute the Mahalanobis distance √((x − μ)ᵀ Σ⁻¹ (x − μ)) of each row: how many σ it is off (eq. 1.9).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.
        squared : bool, default=False
            Return the squares (what scikit-learn's method of that name returns).

        Returns
        -------
        ndarray of shape (n_samples,)
            The distances.
        """
        points = self._points(X)
        distances = self._full().mahalanobis2(points, 0, self._threads())
        if not squared:
            np.sqrt(distances, out=distances)
        return as_dtype(distances, points.dtype)

    # ---- samples and contours --------------------------------------------------------------------------------------

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw points from the fitted Gaussian.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState, Generator or None, default=None
            None takes the estimator's own. A longer sample from the same seed begins with the shorter one.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The points.
        """
        check_is_fitted(self)
        check_parameters(
            "Gaussian.sample",
            {"n_samples": n_samples, "random_state": random_state},
            {"n_samples": (Number(1, whole=True),), "random_state": RANDOM_STATE},
        )
        n, d = int(n_samples), len(self.mean_)
        seed = draw_seed(self.random_state if random_state is None else random_state)
        points = np.empty((n, d))
        _core.fill_normal(seed, _core.PURPOSE_SAMPLE, 0, points.reshape(-1), self._threads())
        _core.colour(points, np.asarray(self.mean_, dtype=np.float64), self._lower(), self._threads())
        return as_dtype(points, self.mean_.dtype)

    def ellipse(self, n_std: float = 3.0, axes: tuple[int, int] = (0, 1)) -> Ellipse:
        """Compute the contour at `n_std` standard deviations, seen in the plane of two columns (eq. 1.10).

        Parameters
        ----------
        n_std : float, default=3
            Mahalanobis distance of the contour.
        axes : pair of int, default=(0, 1)
            The columns. With more than two columns this is the shadow of the ellipsoid, the contour of the marginal.

        Returns
        -------
        Ellipse
            Center, width, height, angle; and `.points()` on it.
        """
        check_is_fitted(self)
        check_parameters("Gaussian.ellipse", {"n_std": n_std}, {"n_std": (Number(0, strict=True),)})
        d = len(self.mean_)
        if d < 2:
            raise BadData(
                "Gaussian.ellipse needs at least two columns; this Gaussian has 1. Its interval is mean_ ± n_std·σ."
            )
        pair = list(axes) if isinstance(axes, tuple | list) else []
        whole = all(isinstance(a, int | np.integer) and not isinstance(a, bool) for a in pair)
        if len(pair) != 2 or not whole or pair[0] == pair[1] or not all(0 <= a < d for a in pair):
            raise InvalidParameter(f"Gaussian.ellipse: axes must be two different columns of 0…{d - 1}, got {axes!r}.")
        return Ellipse.of(self.mean_[pair], self.covariance_[np.ix_(pair, pair)], n_std)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _points(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        return check_points(X, estimator=self, reset=False, n_jobs=self._threads())

    def _lower(self) -> Floats:
        """Return L with Σ = LLᵀ of `covariance_` itself, which may be singular: then by QR of its square root."""
        d = len(self.mean_)
        lower = np.empty((d, d))
        if not self.is_singular_:
            _core.invert_lower(self.whitener_, lower)
            return lower
        scale = np.sqrt(np.asarray(self.covariance_, dtype=np.float64).diagonal())
        unit = np.where(scale > 0, scale, 1.0)
        values, vectors = np.linalg.eigh(np.asarray(self.covariance_, dtype=np.float64) / np.outer(unit, unit))
        (triangle,) = scipy.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T, mode="r")
        return np.ascontiguousarray(scale[:, None] * triangle.T)

    def _full(self) -> Full:
        mean, covariance = (np.asarray(a, dtype=np.float64)[None] for a in (self.mean_, self.covariance_))
        return Full(mean, covariance, self.whitener_[None], np.array([self.log_det_]))

    def _log_density(self, points: NDArray[Any]) -> Floats:
        # In units of the deviations: the kernel brings rows beyond 2⁵⁰⁰ of them nearer, lest products leave float64.
        exponent = exponent_of(self.whitener_.diagonal().min())
        mean, scale = np.asarray(self.mean_, dtype=np.float64), float(times_power(1.0, exponent))
        density = self._full().moved(mean, scale).log_density(points, self._threads(), mean, scale)
        log_density: Floats = density[:, 0] + len(mean) * exponent * np.log(2.0)
        return log_density
