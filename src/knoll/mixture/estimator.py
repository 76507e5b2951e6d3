"""A mixture of Gaussians: maximise log p(X | π, μ, Σ) = Σᵢ log Σ_c π_c N(xᵢ | μ_c, Σ_c)   (eq. 2.6).

The numbers of equations are those of docs/theory/02-gaussian-mixture.md.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from knoll import _core
from knoll._common import seeding
from knoll._common.cost import Cost, linear_cost
from knoll._common.loop import StepReport
from knoll._common.rescale import Rescaling, as_dtype, cast_in_range, exponent_of, times_power
from knoll._schema import Array, Real
from knoll._typing import Floats, Ints
from knoll.base import all_or_nothing
from knoll.engines import fit_collection, open_passes
from knoll.exceptions import InvalidParameter, SuspiciousResultWarning
from knoll.gaussian.covariance import COVARIANCE_TYPES
from knoll.gaussian.moments import FLOOR, LEAST, NARROWEST, narrowest
from knoll.mixture import em
from knoll.mixture.base import ROUNDING, Mixture, Run, best_run, fitted_attributes, fitted_shape, normal_rows
from knoll.mixture.em import Centering, MixtureState, Noise
from knoll.mixture.init import Start, check_initial
from knoll.mixture.preprocess import MixtureRows, summarize, summarize_blocks
from knoll.validation import Choice, Flag, Number, check_points, check_weights, draw_seed, is_lazy

_ROWS = 16 * _core.GRAIN  # at a time, where something is stored for each row and component
_DIFFERENT = 400  # powers of two between lengths whose squares no one unit has
_LOSSY = 2.0**10  # beside a difference so many times as large, values lose three digits
_NARROW = 2.0**26  # a component so much narrower than its distance from the origin: 2⁻⁵³ of that is half its digits
_COARSE = 2.0**-960  # sums of weighted values below this lose digits: the numbers near them are few


def _wrong_shares(model: Any) -> str:
    total = float(np.sum(model.weights_, dtype=np.float64)) + float(model.noise_weight_)
    return "" if abs(total - 1) <= ROUNDING else f"and weights_ sum to {total:.9g}, and must sum to 1"


class GaussianMixture(Mixture):
    """A mixture of Gaussians, fitted by the EM algorithm.

    The density is p(x) = Σ_c π_c N(x | μ_c, Σ_c); EM increases its log-likelihood from a start.
    Parameters and attributes are those of scikit-learn's class of that name, and more.

    Parameters
    ----------
    n_components : int, default=1
        k, the number of Gaussians.
    covariance_type : {"full", "tied", "diag", "spherical", "fixed"}, default="full"
        Every Σ_c free; one Σ for all; diagonal; a multiple of I; or fixed at `fixed_variance` times I.
    tol : float, default=1e-3
        The loop ends when an iteration changes less than this: see `stop`.
    reg_covar : float, default=1e-6
        Added to the diagonal of every covariance. With 0 the likelihood never falls but by rounding.
    max_iter : int, default=100
        At most so many iterations; 0 returns the start.
    n_init : int, default=1
        So many starts; the one that ends with the largest lower bound is kept.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, default="kmeans"
        Where EM begins: labels of k-means; rows far apart, or any rows, as means; responsibilities by chance.
    init_size : int or None, default=None
        Draw a start by name from at most so many distinct rows, chosen by their contents, and those of much weight.
        None: from all rows in `fit`, from 20 000 in `fit_blocks` and for dask collections. With the same number all of
        them give the same bits.
    weights_init : array-like of shape (n_components,), optional
        π at the start.
    means_init : array-like of shape (n_components, n_features), optional
        μ at the start.
    precisions_init : array-like, optional
        The inverses of Σ at the start, shaped like `precisions_`.
    random_state : int, RandomState, Generator or None, default=None
        What the start and `sample` draw from.
    warm_start : bool, default=False
        Begin where the last fit ended.
    verbose : int, default=0
        Print the start and every `verbose_interval`-th iteration.
    verbose_interval : int, default=10
        See `verbose`.
    fixed_variance : float, optional
        ε of covariance_type="fixed".
    noise : bool or float, default=False
        True adds a component that is uniform over the bounding box of the data, for points that belong to no Gaussian;
        a number is its density instead. Its label is −1.
    stop : {"likelihood", "parameters"}, default="likelihood"
        What `tol` bounds: the change of the log-likelihood per row (eq. 2.10), or of any parameter, in the
        standard deviations and variances of its component.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        π. With noise they sum to 1 − `noise_weight_`. Arrays are of the data's dtype, float32 or float64.
    means_ : ndarray of shape (n_components, n_features)
        μ.
    covariances_ : ndarray
        Σ: (k, d, d) full, (d, d) tied, (k, d) diag, (k,) spherical and fixed. Of data beyond about 1e±150 its entries,
        or those of `precisions_`, may leave float64: they are inf or 0 then, and the methods do not read them.
    precisions_ : ndarray
        The inverses, in the same shape.
    precisions_cholesky_ : ndarray
        Their factors U, Σ⁻¹ = UUᵀ, upper triangular; of diagonal shapes the square roots.
    covariance_type_ : str
        The `covariance_type` it was fitted with: what the arrays mean, whatever the parameter is set to since.
    fixed_variance_ : float or None
        The ε of the fit; None unless that is "fixed". Where squared distances between rows over it would leave
        float64, `precisions_cholesky_` and the methods have the least one over which they do not.
    labels_ : ndarray of shape (n_samples,)
        The component of each row, −1 for noise; what `predict` answers. Not set by `fit_blocks`.
    noise_weight_ : float
        π₀, the share of the noise; 0 without.
    noise_log_density_ : float
        The logarithm of the noise's density; −inf without.
    noise_box_ : ndarray of shape (2, n_features)
        The corners of the box that noise is uniform over; empty without.
    converged_ : bool
        Whether the last change was below `tol`.
    n_iter_ : int
        Iterations of the best start.
    lower_bound_ : float
        The log-likelihood per row at the last E step.
    lower_bounds_ : ndarray of shape (n_iter_,)
        The same at every E step.
    history_ : dict of ndarray
        iteration, objective (`lower_bounds_`), changed (the largest change of a parameter) and seconds.
    column_exponents_ : ndarray of shape (n_features,)
        Only set where the magnitudes of the data are extreme (beyond about 1e±60): the methods compute with the columns
        of X divided by 2**column_exponents_.
    scaled_means_, scaled_precisions_cholesky_ : ndarray
        Set with `column_exponents_`: the parameters for columns so divided, which the methods read instead of `means_`
        and `precisions_cholesky_`.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X had any.

    Notes
    -----
    A component that collapses (onto duplicates, a constant column, too few points) is no error: reg_covar keeps its
    covariance from being singular. Where that is 0, or negligible beside the data, its eigenvalues are clipped at 1e-6
    of the pooled variances, and kept above that from then on. A CollapsedComponentWarning names it. With `reg_covar=0`
    the run is made again with the component clipped from the start, so that the likelihood never falls.

    Examples
    --------
    >>> from knoll import GaussianMixture, datasets
    >>> data = datasets.load("iris")
    >>> model = GaussianMixture(3, random_state=0).fit(data.X)
    >>> model.means_.shape, model.converged_
    ((3, 4), True)
    >>> bool(model.bic(data.X) < GaussianMixture(1).fit(data.X).bic(data.X))
    True

    References
    ----------
    docs/theory/02-gaussian-mixture.md; Bishop (2006), chapter 9; Biernacki, Celeux and Govaert (2000) for ICL.
    """

    _rules: ClassVar = {
        **Mixture._rules,
        "covariance_type": (Choice(COVARIANCE_TYPES),),
        "init_size": (None, Number(1, whole=True)),
        "warm_start": (Flag(),),
        "fixed_variance": (None, Number(0, strict=True)),
        "noise": (Flag(), Number(0, strict=True)),
        "stop": (Choice(("likelihood", "parameters")),),
    }
    _fitted: ClassVar = {
        **fitted_attributes("d", COVARIANCE_TYPES),
        "fixed_variance_": Real(0, strict=True, when=lambda model: fitted_shape(model).free_type is not None),
        "noise_log_density_": Real(high=sys.float_info.max, finite=False),  # −inf: no noise
        "noise_weight_": Real(0, 1 + ROUNDING, also=lambda model, _: _wrong_shares(model)),
        "noise_box_": Array(lambda model: "2 d" if model._has_noise else "0 d", "float64"),
        "labels_": Array("n", "int64", low=-1, below="k", missing=True),
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        init_size: int | None = None,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        precisions_init: ArrayLike | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        fixed_variance: float | None = None,
        noise: bool | float = False,
        stop: str = "likelihood",
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.init_size = init_size
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.fixed_variance = fixed_variance
        self.noise = noise
        self.stop = stop
        self.n_jobs = n_jobs

    # ---- fit -------------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points, at least `n_components`.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        GaussianMixture
            The estimator itself.
        """
        self._check_parameters()
        if is_lazy(X):
            return fit_collection(self, X, sample_weight)
        points = check_points(X, estimator=self, finite=False)
        weights = check_weights(sample_weight, len(points), owner="GaussianMixture")
        seed = draw_seed(self.random_state)
        rows = summarize(points, weights, seed=seed, **self._summary_parameters())
        state = self._fit(rows, seed)
        labels = np.empty(len(points), dtype=np.int64)
        self._expect(points, labels=labels)
        self.labels_ = labels
        self._warn_of_collapse(state, rows, points, labels if weights is None else np.where(weights > 0, labels, -2))
        return self

    @all_or_nothing
    def fit_blocks(self, make_blocks: Callable[[], Iterable[Any]], *, engine: Any = None) -> Self:
        """Fit to data that comes in blocks, such as a file larger than memory.

        Parameters
        ----------
        make_blocks : callable
            Returns a fresh iterator over blocks of rows: arrays, or pairs (array, sample_weight). It is called once for
            a summary of all rows and once an iteration. The cuts do not change the result, nor does it differ from
            `fit` from the same start. A start by name is drawn from at most `init_size` distinct rows, 20 000 if that
            is None, and those of much weight: which, depends on their contents and the seed, not on their order.
        engine : engine of `knoll.engines`, optional
            Who computes; None: this process, block by block. The result has the same bits.

        Returns
        -------
        GaussianMixture
            The estimator itself, without `labels_`: `predict` gives them block by block.

        Examples
        --------
        >>> import numpy as np
        >>> from knoll import GaussianMixture
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(size=(5_000, 2)), rng.normal(6, 1, size=(5_000, 2))])
        >>> model = GaussianMixture(2, random_state=0).fit_blocks(lambda: np.array_split(X, 7))
        >>> bool((model.means_ == GaussianMixture(2, random_state=0).fit(X).means_).all())
        True
        """
        self._check_parameters()
        seed, parameters = draw_seed(self.random_state), self._summary_parameters()
        passes = open_passes(make_blocks, self, parameters.pop("threads"), engine)
        rows = summarize_blocks(passes, seed=seed, **parameters)
        state = self._fit(rows, seed)
        if hasattr(self, "labels_"):
            del self.labels_  # of an earlier fit
        self._warn_of_collapse(state, rows, None, None)
        return self

    def _cost(self, n: int, d: int) -> Cost:
        k = self.n_components
        remedy = "fewer starts (n_init), covariance_type='diag', or fit_blocks, which reads the rows in blocks"
        matrices = COVARIANCE_TYPES[self.covariance_type].own_matrices
        pair = 5e-10 * (d + 8) * (d / 4 + 1 if matrices else 1)
        pairs = float(n) * k * self.n_init
        return linear_cost(self.covariance_type, n, 64 + 8 * d, pairs, pair, (10, self.max_iter), remedy)

    # ---- EM --------------------------------------------------------------------------------------------------------

    def _summary_parameters(self) -> dict[str, Any]:
        """Return the parameters of `summarize`."""
        shape = COVARIANCE_TYPES[self.covariance_type]
        if shape.free_type is not None and self.fixed_variance is None:
            raise InvalidParameter(
                f"GaussianMixture: covariance_type={self.covariance_type!r} needs fixed_variance, the variance ε > 0 "
                "that is fixed."
            )
        if shape.free_type is None and self.fixed_variance is not None:
            raise InvalidParameter(
                f"GaussianMixture: fixed_variance={self.fixed_variance!r} means nothing with covariance_type="
                f"{self.covariance_type!r}. Give covariance_type='fixed', or leave it out."
            )
        if shape.free_type is not None and self.precisions_init is not None:
            raise InvalidParameter(
                f"GaussianMixture: precisions_init means nothing with covariance_type={self.covariance_type!r}. "
                "Give fixed_variance alone."
            )
        variance = self.reg_covar if self.fixed_variance is None else self.fixed_variance
        box = self.noise is not False
        return {
            "estimator": self,
            "box": box,
            "unit": math.sqrt(variance),
            "one_unit": shape.isotropic,
            "matrix": shape.pooled_matrix,
            "threads": self._threads(),
            "init_size": self.init_size,
        }

    def _fit(self, rows: MixtureRows, seed: int) -> MixtureState:
        """Run EM from each start, and set the fitted attributes of the best; labels are the caller's."""
        k, d = self.n_components, len(rows.centering.origin)
        self._refuse_few(rows.count)
        initial = check_initial(k, d, self.covariance_type, self.weights_init, self.means_init, self.precisions_init)
        shape = COVARIANCE_TYPES[self.covariance_type]
        start = Start(self.init_params, k, shape, self.fixed_variance, self.noise, self.reg_covar, initial, seed)
        distinct = functools.cache(lambda: seeding.multiset(*rows.sample, rows.threads))
        step = functools.partial(em.step, rows.passes, reg_covar=rows.scaling.to_units(self.reg_covar, length=2))
        warm = bool(self.warm_start and hasattr(self, "converged_"))
        if warm:
            self._check_warm((k, d))
        before = self.lower_bound_ + rows.scaling.log_volume if warm else -math.inf

        def run(restart: int) -> Run[MixtureState]:
            state = self._warm_state(rows) if warm else start.state(rows, distinct, restart)
            return self._run_em(step, state, rows.centering.deviations, restart, before)

        best = best_run(run(restart) for restart in range(1 if warm else self.n_init))
        self._keep(best, rows, from_rows=not warm and self.means_init is None)
        self._warn_unless_converged(best)
        return best.state

    def _check_warm(self, shape: tuple[int, int]) -> None:
        """Refuse to go on from a model of another shape."""
        k, d = shape
        name, noisy = self.covariance_type_, self._has_noise
        if self.means_.shape == shape and name == self.covariance_type and noisy == (self.noise is not False):
            return
        raise InvalidParameter(
            f"GaussianMixture: warm_start cannot go on from {self.means_.shape[0]} {name} components in "
            f"{self.means_.shape[1]} columns{' with noise' if noisy else ''} to {k} {self.covariance_type} ones in {d}"
            f"{' with noise' if self.noise is not False else ''}. Set warm_start=False."
        )

    def _settled(self, last: StepReport, before: float) -> bool:
        if self.stop == "parameters":
            return bool(last.changed <= self.tol)
        return super()._settled(last, before)

    def _keep(self, best: Run[MixtureState], rows: MixtureRows, from_rows: bool) -> None:
        """Set the fitted attributes, in the units and the dtype of the data; `from_rows`: so are the initial means.

        Where the data was scaled, the scaled parameters are kept as well: they are what the methods compute with.
        """
        state, dtype, centering = best.state, rows.dtype, rows.centering
        moved = len(best.history["objective"]) > 0 or from_rows
        exponents = rows.scaling.columns(len(centering.origin)) - centering.exponent  # of one centered unit, (d,)
        means = rows.scaling.up(state.means)
        if len(rows.box) and moved:  # a mean of values that underflow, or are subnormal, lies in the box of the data
            coarse = np.minimum(np.abs(rows.box), np.abs(rows.scaling.down(rows.box))).max(axis=0) < _COARSE
            inside = coarse & (state.weights[:, None] > 0)  # (k, d)
            means = np.where(inside, np.clip(means, *rows.box), means)
        self.weights_ = state.weights.astype(dtype)
        self._keep_gaussians(state.covariance, means, exponents, dtype)
        if self.fixed_variance is not None:  # the requested value, not what two changes of units made of it
            with np.errstate(over="ignore", under="ignore"):
                self.covariances_ = cast_in_range(np.full(self.n_components, float(self.fixed_variance)), dtype)
        self._forget_scaled()
        if rows.scaling:
            self.column_exponents_ = exponents
            self.scaled_means_ = state.means * centering.scale
            self.scaled_precisions_cholesky_ = state.covariance.precisions_cholesky_.copy()
        self.covariance_type_ = str(self.covariance_type)
        self.fixed_variance_ = None if self.fixed_variance is None else float(self.fixed_variance)
        noise, volume = state.noise, rows.scaling.log_volume
        self.noise_weight_ = 0.0 if noise is None else noise.weight
        self.noise_log_density_ = -math.inf if noise is None else noise.log_density_in() - volume
        self.noise_box_ = rows.box if noise is not None else rows.box[:0]
        self._keep_run(best, volume)

    # ---- warnings --------------------------------------------------------------------------------------------------

    def _warn_of_collapse(
        self, state: MixtureState, rows: MixtureRows, points: NDArray[Any] | None, labels: Ints | None
    ) -> None:
        """Name the components that are dead, that were floored, and that reg_covar alone keeps from being singular."""
        centering, names = rows.centering, getattr(self, "feature_names_in_", None)
        reg_covar = rows.scaling.to_units(self.reg_covar, length=2) * centering.scale * centering.scale
        floored = dict(reversed(state.covariance.floored))  # component → its first column
        propped: dict[int, int] = {}
        pooled = centering.variances
        if pooled.any() and (pooled <= reg_covar).all():
            with np.errstate(over="ignore", under="ignore"):
                largest = rows.scaling.from_units(pooled / centering.scale / centering.scale, length=2).max()
            self._warn(
                f"reg_covar={self.reg_covar:g} is larger than the variance of every column (at most {largest:.3g}): "
                "it drowns the data. Give a smaller reg_covar, or 0.",
                SuspiciousResultWarning,
            )
        elif self.reg_covar > 0:
            propped = state.covariance.singular_without(reg_covar, pooled)
        self._warn_of_dead(state.weights, "point")
        for c, column in sorted({**propped, **floored}.items()):
            if c >= 0 and state.weights[c] == 0:
                continue
            remedy = (
                f"its covariance was floored at {FLOOR:g} of the pooled variance."
                if c in floored
                else f"only reg_covar={self.reg_covar:g} keeps its covariance from being singular."
            )
            count = 0
            if points is not None and labels is not None and c >= 0:
                own = points[labels == c]
                count = len(np.unique(own, axis=0)) if 0 < len(own) <= 10_000 else 0
            if 0 < count <= points.shape[1]:  # type: ignore[union-attr]
                self._warn(f"component {c} has collapsed onto {count} point{'s' if count > 1 else ''}; {remedy}")
            else:
                name = repr(str(names[column])) if names is not None else str(column)
                who = f"component {c} has" if c >= 0 else "all components have"
                self._warn(f"{who} collapsed ({state.covariance.collapse_reason(name)}); {remedy}")

    # ---- answers ---------------------------------------------------------------------------------------------------

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[NDArray[Any], Ints]:
        """Draw points from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState, Generator or None, default=None
            None takes the estimator's own.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The points, ordered by component; noise, uniform over the box of the data, comes last. What would leave the
            range of the data's dtype is its largest number.
        y : ndarray of shape (n_samples,)
            Their components, −1 for noise.
        """
        check_is_fitted(self)
        shares = np.append(np.asarray(self.weights_, dtype=np.float64), self.noise_weight_)
        y, seed, generator = self._draw_components(n_samples, random_state, shares)
        scaling, means, factors = self._scaled()
        points = normal_rows(fitted_shape(self), means, factors, y, seed, self._threads())
        k = len(means)
        noisy = y == k
        if noisy.any():
            low, high = scaling.down(self.noise_box_)
            points[noisy] = low + (high - low) * generator.random((np.count_nonzero(noisy), points.shape[1]))
        return as_dtype(scaling.up(points), self.means_.dtype), np.where(noisy, -1, y)

    # ---- inside ----------------------------------------------------------------------------------------------------

    @property
    def _has_noise(self) -> bool:  # a noise that has lost its last weight is still a component
        return bool(self.noise_log_density_ > -math.inf)

    def _rows(self, X: ArrayLike) -> tuple[NDArray[Any], Any]:
        check_is_fitted(self)
        points = check_points(X, estimator=self, reset=False, n_jobs=self._threads())
        return points, points.dtype

    def _expect(self, rows: NDArray[Any], **out: NDArray[Any]) -> None:
        scaling, state = self._model()
        em.expect(scaling.down(rows), state, self._threads(), **out)
        if "log_prob" in out:
            out["log_prob"] -= scaling.log_volume

    def _log_best(self, rows: NDArray[Any]) -> Floats:
        (scaling, state), threads, best = self._model(), self._threads(), np.empty(len(rows))
        for begin in range(0, len(rows), _ROWS):  # (n, k) is never stored
            chunk = slice(begin, begin + _ROWS)
            best[chunk] = em.log_joint(scaling.down(rows[chunk]), state, threads).max(axis=1)
        if state.noise is not None and state.noise.weight > 0:
            np.maximum(best, math.log(state.noise.weight) + state.noise.log_density_in(), out=best)
        best -= scaling.log_volume
        return best

    def _scaled(self) -> tuple[Rescaling, Floats, Floats]:
        """Return the units that the model computes in, and its means and factors in them: mostly those of the data."""
        check_is_fitted(self)
        exponents = getattr(self, "column_exponents_", None)
        if exponents is None:
            arrays, scaling = (self.means_, self.precisions_cholesky_), Rescaling()
        else:
            arrays, scaling = (self.scaled_means_, self.scaled_precisions_cholesky_), Rescaling(exponents)
        means, factors = (np.asarray(a, dtype=np.float64) for a in arrays)
        return scaling, means, factors

    def _model(self) -> tuple[Rescaling, MixtureState]:
        """Return the mixture that the attributes describe, centered by itself, for points that are scaled so."""
        scaling, means, factors = self._scaled()
        weights = np.asarray(self.weights_, dtype=np.float64)
        widths = 1.0 / fitted_shape(self).diagonals(factors)
        centering = _own_centering(weights, means, np.broadcast_to(widths, means.shape))
        least = 0.0
        if self.fixed_variance_ is not None:  # the factor has the variance where fixed_variance_ was too narrow
            rounding = 2.0**-20 if self.precisions_cholesky_.dtype == np.float32 else 2.0**-40
            with np.errstate(over="ignore", divide="ignore"):
                variance = float(np.square(centering.scale / factors.max()))
            least = variance * (1 - rounding) if math.isfinite(variance) else 0.0
        return scaling, self._state_in(centering, scaling, means, factors, self.fixed_variance_, least)

    def _warm_state(self, rows: MixtureRows) -> MixtureState:
        """Return the same, centered as data that a fit goes on with; `fixed_variance` may be another now."""
        scaling, means, factors = self._scaled()
        d = means.shape[1]
        exponents = scaling.columns(d) - rows.scaling.columns(d)
        means = Rescaling(-exponents).down(means)
        factors = times_power(factors, -fitted_shape(self).factor_powers(exponents))
        sizes = np.square(fitted_shape(self).diagonals(factors) / rows.centering.scale)
        if not (np.isfinite(sizes) & (sizes > LEAST)).all():
            raise InvalidParameter(
                "GaussianMixture: warm_start cannot go on from a model of data whose size is so unlike that of X that "
                "its variances leave float64. Set warm_start=False."
            )
        least = narrowest(rows.reach, d)
        return self._state_in(rows.centering, rows.scaling, means, factors, self.fixed_variance, least)

    def _state_in(
        self,
        centering: Centering,
        scaling: Rescaling,
        means: Floats,
        factors: Floats,
        fixed_variance: float | None,
        least: float,
    ) -> MixtureState:
        """Return the mixture for points that are scaled, as these means and factors are, then centered.

        `least` is the least fixed variance in centered units.
        """
        means, factors = (means - centering.origin) * centering.scale, factors / centering.scale
        noise = None
        if self._has_noise:
            noise = Noise(self.noise_weight_, self.noise_log_density_ + scaling.log_volume)
        variance = None
        if fixed_variance is not None:  # ε itself: the root of a square would round it
            with np.errstate(under="ignore"):
                variance = float(scaling.to_units(float(fixed_variance), length=2) * centering.scale * centering.scale)
        shape = fitted_shape(self).from_precisions_cholesky(means, factors, variance)
        shape = shape.at_least(max(least, NARROWEST))
        weights = np.asarray(self.weights_, dtype=np.float64)
        return MixtureState(weights, shape.prepared(direct=noise is not None), noise, centering)

    def _n_parameters(self) -> int:
        """Count ν, the free numbers of the model."""
        k, d = self.means_.shape
        return fitted_shape(self).n_parameters(k, d) + k * d + k - 1 + self._has_noise


def _own_centering(weights: Floats, means: Floats, widths: Floats) -> Centering:
    """Return a centering for a model without its data: about its mean, in a power of two near its extent.

    A column keeps its zero, so that nothing is rounded, where a component lies so far out that x − mean would lose
    digits of rows near another, or where one is so narrow that the rounding of x − mean counts.
    Where the extents of columns or components differ so much that squares would vanish, it lies amidst them.
    """
    total, d = weights.sum(), means.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        origin = weights @ means / total if total > 0 else means[0]
    same = (means == means[0]).all(axis=0)  # a constant column, which may be near the largest number
    origin = np.where(np.isfinite(origin) & ~same, origin, means[0])
    with np.errstate(over="ignore"):
        away = np.abs(means - origin)  # (k, d)
        lossy = (away > _LOSSY * np.maximum(widths, np.abs(means))) | (away > _NARROW * widths)
    origin = np.where(lossy[weights > 0].any(axis=0), 0.0, origin)
    extent, narrowest = max(float(widths.max()), float(np.abs(means - origin).max())), float(widths.min())
    if not 0 < extent < math.inf:
        return Centering(origin, 1.0, np.zeros(d), np.ones(d))
    exponent = exponent_of(extent)
    if narrowest > 0 and (below := exponent - exponent_of(narrowest)) > _DIFFERENT:
        exponent -= below // 2
    return Centering(origin, float(times_power(1.0, -max(exponent, -1000))), np.zeros(d), np.ones(d))
