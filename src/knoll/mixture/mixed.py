"""A mixture for tables of numbers and categories with missing values   (eq. 2.15).

The numbers of equations are those of docs/theory/02-gaussian-mixture.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from knoll import _core
from knoll._common.cost import Cost, linear_cost
from knoll._common.loop import History, StepReport, iterate, live
from knoll._common.mixed_estimator import MixedEstimator
from knoll._common.mixed_order import Canonical, canonical
from knoll._common.mixed_table import MixedTable
from knoll._common.rescale import as_dtype, cast_in_range, exponents_of, times_power, weight_exponent
from knoll._schema import Array, ArrayTuple, Boolean, Columns, Real, Text, Whole
from knoll._typing import Bools, Floats
from knoll.base import all_or_nothing, warn_caller
from knoll.exceptions import BadData, CollapsedComponentWarning, ConvergenceWarning
from knoll.gaussian.covariance import COVARIANCE_TYPES, Covariance, estimated_types
from knoll.gaussian.moments import FLOOR
from knoll.mixture import mixed_em as em
from knoll.mixture.estimator import GaussianMixture
from knoll.mixture.mixed_em import MixedRows, MixedState, Prior, Units
from knoll.mixture.mixed_init import indicator_rows, initial_shares, sample_rows
from knoll.validation import (
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    Choice,
    Number,
    check_parameters,
    draw_seed,
)

__all__ = ["MixedMixture"]

_TRIALS, _SHORT = 5, 10  # trials of a start, and steps of each on the sample
_BESIDE = 200  # powers of two that a unit may be below the root of reg_covar
_ROUNDING = 2e-6  # of shares that float32 has rounded
_COMPONENT, _LEVEL = 2, 6  # purposes of random numbers, numbered as in the core
_SHARED = (  # attributes that a fit of numbers alone takes over from GaussianMixture
    "weights_",
    "means_",
    "covariances_",
    "precisions_",
    "precisions_cholesky_",
    "labels_",
    "converged_",
    "n_iter_",
    "lower_bound_",
    "lower_bounds_",
    "history_",
    "covariance_type_",
    "column_exponents_",
    "scaled_means_",
    "scaled_precisions_cholesky_",
)
_SCALED = _SHARED[-3:]


def _shape_of(model: Any) -> type[Covariance]:
    return COVARIANCE_TYPES[model.covariance_type_]


def _sides(model: Any) -> str:
    return _shape_of(model).sides.replace("d", "p")


def _wrong_covariances(model: Any, array: NDArray[Any]) -> str:
    return _shape_of(model).covariance_fault(array)


def _wrong_factors(model: Any, array: NDArray[Any]) -> str:
    if getattr(model, "column_exponents_", None) is not None:
        return _wrong_covariances(model, array)
    return _shape_of(model).factor_fault(array) if np.isfinite(array).all() else "has entries that are not finite"


def _wrong_probabilities(model: Any, array: NDArray[Any]) -> str:
    sizes = np.array([len(levels) for levels in model.categories_], dtype=np.int64)
    if sizes.sum() != array.shape[1]:
        return f"has {array.shape[1]} columns, and there are {sizes.sum()} levels"
    if len(sizes) + model.means_.shape[1] != model.n_features_in_ or model.is_categorical_.sum() != len(sizes):
        return "does not fit the columns"
    ends = np.cumsum(sizes)
    sums = [array[:, end - size : end].sum(axis=1) for size, end in zip(sizes, ends, strict=True) if size]
    return "" if all((np.abs(total - 1) <= _ROUNDING).all() for total in sums) else "does not sum to 1"


@dataclass(frozen=True)
class _Fit:
    """What every start of a fit shares."""

    found: Canonical
    rows: MixedRows
    units: Units
    deviations: Floats  # (p,) pooled, in units of y
    reg: Floats  # (p,) reg_covar in units of y
    prior: Prior
    volume: float  # per unit of weight, what the log-likelihood of y has more than that of x
    threads: int


@dataclass(frozen=True)
class _Run:
    """One run of EM from one start."""

    state: MixedState
    history: History
    converged: bool

    @property
    def bound(self) -> float:
        """The last lower bound; −inf when no step was made."""
        objective = self.history["objective"]
        return float(objective[-1]) if len(objective) else -math.inf


class MixedMixture(DensityMixin, MixedEstimator):
    """A mixture for numeric and categorical columns with missing values, fitted by the EM algorithm.

    Within a component the numeric columns are Gaussian, and each categorical column has probabilities of its own,
    independent of the others: p(x) = Σ_c π_c N(x_num | μ_c, Σ_c) Π_j θ_cj(x_j). With categories alone this is latent
    class analysis, with numbers alone and ``covariance_type="diag"`` latent profile analysis. A missing value is
    integrated out: a row counts with the density of what it has, and nothing is imputed.

    Parameters
    ----------
    n_components : int, default=1
        k, the number of components.
    categorical_features : array-like of bool, int or str, optional
        The categorical columns: a mask, indices, or names of columns of a data frame. By default those columns of a
        data frame whose dtype is category, text, object or Boolean; of an array none.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        The Gaussian block: every Σ_c free; one Σ for all; diagonal; a multiple of I.
    tol : float, default=1e-3
        The loop ends when an iteration changes the objective per row by less than this.
    reg_covar : float, default=1e-6
        Added to the diagonal of every covariance. With 0 the objective never falls but by rounding.
    categorical_prior : float, default=1.0
        The strength of the Dirichlet prior of the level probabilities, in rows: so many rows are added in all, in equal
        shares to the components, distributed as the column itself is. It keeps probabilities above 0.
    max_iter : int, default=100
        At most so many iterations after the start; 0 returns the start.
    n_init : int, default=1
        So many starts; the one that ends with the largest lower bound is kept.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, default="kmeans"
        Where EM begins: k-means on standardized numbers and scaled indicators of the levels; rows far apart, or any
        rows, as centers; responsibilities by chance. Of five such trials the one that is best after ten steps on at
        most 5000 rows is taken.
    random_state : int, RandomState, Generator or None, default=None
        What the start and `sample` draw from.
    verbose : int, default=0
        Print the start and every `verbose_interval`-th iteration.
    verbose_interval : int, default=10
        See `verbose`.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        π.
    means_ : ndarray of shape (n_components, n_numeric)
        μ of the numeric columns, in their order.
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Σ, its inverse and the factor U of that, Σ⁻¹ = UUᵀ, shaped as in `GaussianMixture`.
    covariance_type_ : str
        The `covariance_type` of the fit.
    is_categorical_ : ndarray of shape (n_features,)
        Which columns are categorical.
    categories_ : tuple of ndarray
        The levels of each categorical column. Another level is treated as a missing value.
    level_probabilities_ : ndarray of shape (n_components, n_levels)
        θ of all categorical columns side by side; `category_probabilities_` has them column by column.
    labels_ : ndarray of shape (n_samples,)
        The component of each row; what `predict` answers.
    converged_ : bool
        Whether the last change was below `tol`.
    n_iter_ : int
        Iterations of the best start.
    lower_bound_ : float
        The objective per row at the last E step: log-likelihood and log-prior of the probabilities (eq. 2.20).
    lower_bounds_ : ndarray of shape (n_iter_,)
        The same at every E step.
    history_ : dict of ndarray
        iteration, objective (`lower_bounds_`), changed (the largest change of a parameter) and seconds.
    column_exponents_, scaled_means_, scaled_precisions_cholesky_ : ndarray
        Only set where the magnitudes of the data are extreme, as in `GaussianMixture`: the methods compute with these.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X had any.

    Notes
    -----
    The objective that never falls is the log-likelihood plus the logarithm of the Dirichlet prior; without categorical
    columns it is the log-likelihood. Of numbers without missing values this is `GaussianMixture`, to the bit.

    A row in which every value is missing has density 1, and the responsibilities π. A numeric column in which every
    value is missing has mean 0 and variance 1; a categorical one has no levels. A level that no row of the fit has is
    treated as missing.

    The order of rows and of columns, and weights instead of repeated rows, do not change the result.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll import MixedMixture
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(2, size=400)
    >>> X = np.column_stack([rng.normal(4 * group, 1), rng.random(400) < 0.2 + 0.6 * group])
    >>> X[rng.random(X.shape) < 0.1] = np.nan
    >>> model = MixedMixture(2, categorical_features=[1], random_state=0).fit(X)
    >>> model.means_.shape, model.category_probabilities_[0].shape
    ((2, 1), (2, 2))
    >>> bool(model.bic(X) < MixedMixture(1, categorical_features=[1]).fit(X).bic(X))
    True

    References
    ----------
    docs/theory/02-gaussian-mixture.md; Hunt and Jorgensen (2003) for mixed columns with missing values; Ghahramani and
    Jordan (1994) for EM with missing values.
    """

    _rules: ClassVar = {
        "n_components": (Number(1, whole=True),),
        "covariance_type": (Choice(estimated_types()),),
        "tol": (Number(0),),
        "reg_covar": (Number(0),),
        "categorical_prior": (Number(0, strict=True),),
        "max_iter": (Number(0, whole=True),),
        "n_init": (Number(1, whole=True),),
        "init_params": (Choice(("kmeans", "k-means++", "random", "random_from_data")),),
        "random_state": RANDOM_STATE,
        "verbose": VERBOSE,
        "verbose_interval": (Number(1, whole=True),),
        "n_jobs": N_JOBS,
    }
    _fitted: ClassVar = {
        "covariance_type_": Text(estimated_types()),
        "is_categorical_": Array("d", "bool"),
        "categories_": ArrayTuple(),
        "column_exponents_": Array("p", "int64", low=-4096, high=4096, missing=True),
        "means_": Array("k p"),
        "weights_": Array("k", low=0, high=1 + _ROUNDING),
        "covariances_": Array(_sides, finite=False, also=lambda model, array: _wrong_covariances(model, array)),
        "precisions_": Array(_sides, finite=False, also=lambda model, array: _wrong_covariances(model, array)),
        "precisions_cholesky_": Array(_sides, finite=False, also=lambda model, array: _wrong_factors(model, array)),
        "scaled_means_": Array("k p", "float64", missing=True),
        "scaled_precisions_cholesky_": Array(_sides, "float64", missing=True),
        "level_probabilities_": Array(
            "k levels", "float64", low=0, high=1 + _ROUNDING, also=lambda model, a: _wrong_probabilities(model, a)
        ),
        "labels_": Array("n", "int64", low=0, below="k"),
        "n_iter_": Whole(side="steps"),
        "lower_bounds_": Array("steps", "float64", finite=False),
        "lower_bound_": Real(finite=False),
        "converged_": Boolean(),
        "history_": Columns(),
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        categorical_features: ArrayLike | None = None,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        categorical_prior: float = 1.0,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        random_state: Any = None,
        verbose: int = 0,
        verbose_interval: int = 10,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.categorical_features = categorical_features
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.categorical_prior = categorical_prior
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.random_state = random_state
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.n_jobs = n_jobs

    # ---- fit -------------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the rows of X.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows; NaN and None are missing values.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        MixedMixture
            The estimator itself.
        """
        self._check_parameters()
        table, weights, dtype = self._read(X, sample_weight)
        seed = draw_seed(self.random_state)
        for name in _SCALED:
            self.__dict__.pop(name, None)  # of an earlier fit
        if not table.levels and not np.isnan(table.numeric).any():
            self._fit_gaussian(table.numeric.astype(dtype, copy=False), weights, seed)
            return self
        count = len(table) if weights is None else max(float(np.count_nonzero(weights)), float(weights.sum()))
        if count < self.n_components:
            raise BadData(
                f"MixedMixture: Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {count:g}. Take fewer components."
            )
        if weights is not None:
            weights = times_power(weights, -weight_exponent(float(weights.max())))
        fit = self._prepare(canonical(table, weights, self._threads()))
        best = self._best(fit, seed)
        self._keep(best, fit, dtype)
        self.labels_ = np.empty(len(table), dtype=np.int64)
        self._expect(table, labels=self.labels_)
        self._warn(best, fit)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[np.int64]:
        """Fit the mixture to the rows of X and return their labels.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        ndarray of shape (n_samples,)
            `labels_`.
        """
        return self.fit(X, sample_weight=sample_weight).labels_

    def estimate_cost(self, X: Any) -> Cost:
        """Estimate memory and processor time of a fit, before it runs.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            As in `fit`.

        Returns
        -------
        Cost
            How it is computed, memory beyond X at most, pairs in an iteration, seconds, and what would lower them.
        """
        self._check_parameters()
        table = self._peek(X)
        (n, p), q, k = table.numeric.shape, table.codes.shape[1], self.n_components
        if q == 0 and not np.isnan(table.numeric).any():
            return self._gaussian(None)._cost(n, p)
        matrices = COVARIANCE_TYPES[self.covariance_type].own_matrices
        pair = 1e-9 * (p * (p / 8 + 1 if matrices else 1) + q / 2 + 4)
        remedy = "fewer starts (n_init), covariance_type='diag', or a sample of the rows"
        row = 64 + 8 * (6 * p + 4 * q)
        return linear_cost(self.covariance_type, n, row, float(n) * k * self.n_init, pair, (10, self.max_iter), remedy)

    def _gaussian(self, seed: int | None) -> GaussianMixture:
        names = ("n_components", "covariance_type", "tol", "reg_covar", "max_iter", "n_init", "init_params")
        options = {name: getattr(self, name) for name in (*names, "verbose", "verbose_interval", "n_jobs")}
        return GaussianMixture(**options, random_state=seed)

    def _fit_gaussian(self, points: NDArray[Any], weights: Floats | None, seed: int) -> None:
        """Fit numbers without missing values: then it is a mixture of Gaussians, and no more."""
        model = self._gaussian(seed).fit(points, sample_weight=weights)
        self.__dict__.update({name: value for name, value in vars(model).items() if name in _SHARED})
        self.level_probabilities_ = np.zeros((self.n_components, 0))

    def _prepare(self, found: Canonical) -> _Fit:
        """Choose units, and bring the rows into them."""
        table, weights = found.table, found.weights
        observed = ~np.isnan(table.numeric)
        shape = COVARIANCE_TYPES[self.covariance_type]
        units, deviations = _units(table.numeric, observed, weights, shape.isotropic, float(self.reg_covar))
        rows = em.arrange(table, weights, units)
        marginals = _marginals(rows)
        share = np.ones(len(table)) if weights is None else weights
        volume = float(share @ units.log_volumes(observed) / share.sum())
        reg = np.asarray(times_power(np.full(table.numeric.shape[1], float(self.reg_covar)), -2 * units.exponents))
        prior = Prior.of(float(self.categorical_prior), self.n_components, marginals)
        return _Fit(found, rows, units, deviations, reg, prior, volume, self._threads())

    def _best(self, fit: _Fit, seed: int) -> _Run:
        """Run EM from each start, and keep the run with the largest lower bound."""
        table, weights = fit.found.table, fit.found.weights
        chosen = sample_rows(len(table), seed)
        if len(chosen) == len(table):
            sample = fit.rows
        else:
            sample = em.arrange(table.rows(chosen), None if weights is None else weights[chosen], fit.units)
        observed = np.repeat(sample.observed, np.diff(sample.starts), axis=0)  # (m, p)
        wide = indicator_rows(sample.y, observed, sample.codes, sample.offsets)
        best: _Run | None = None
        for restart in range(self.n_init):
            run = self._run(fit, self._start(fit, sample, observed, wide, seed, restart), restart)
            if best is None or run.bound > best.bound:
                best = run
        assert best is not None
        return best

    def _start(
        self, fit: _Fit, sample: MixedRows, observed: Bools, wide: Floats, seed: int, restart: int
    ) -> MixedState:
        """Return the best of a few starts after a few steps on a sample: likelihoods have many local maxima."""
        shape, options = COVARIANCE_TYPES[self.covariance_type], {"reg": fit.reg, "deviations": fit.deviations}
        best: tuple[float, MixedState] | None = None
        for trial in range(_TRIALS if self.n_components > 1 else 1):
            number = restart * _TRIALS + trial
            shares = initial_shares(
                self.init_params, wide, sample.weights, self.n_components, seed, number, fit.threads
            )
            state = em.from_shares(sample, observed, shares, shape.blank(), fit.deviations, fit.reg, fit.prior)
            bound = -math.inf
            for _ in range(_SHORT if self.n_components > 1 else 0):
                state, report = em.step(sample, state, fit.threads, **options, prior=fit.prior)
                bound = report.objective
            if best is None or bound > best[0]:
                best = bound, state
        assert best is not None
        return best[1]

    def _run(self, fit: _Fit, state: MixedState, restart: int) -> _Run:
        """Run EM from a start; without reg_covar it is made again with clipped components held above the floor.

        So every step is the exact maximiser among states that the one before belongs to (eq. 2.11).
        """
        while True:
            run, fallen = self._run_once(fit, state, restart)
            if not fallen or self.reg_covar > 0 or state.covariance is None:
                return run
            state = replace(state, covariance=state.covariance.with_floor(fallen, fit.deviations))

    def _run_once(self, fit: _Fit, state: MixedState, restart: int) -> tuple[_Run, tuple[int, ...]]:
        held = set() if state.covariance is None else set(state.covariance.held)
        newest = [state]

        def step(state: MixedState) -> tuple[MixedState, StepReport]:
            newest[0], report = em.step(
                fit.rows, state, fit.threads, reg=fit.reg, deviations=fit.deviations, prior=fit.prior
            )
            return newest[0], replace(report, objective=report.objective - fit.volume)

        def fallen(state: MixedState) -> tuple[int, ...]:
            now = () if state.covariance is None else state.covariance.held
            return tuple(sorted({c for c, _ in set(now) - held}))

        def settled(reports: list[StepReport]) -> bool:
            if self.reg_covar == 0 and fallen(newest[0]):
                return True
            before = reports[-2].objective if len(reports) > 1 else -math.inf
            return abs(reports[-1].objective - before) < self.tol  # eq. 2.10

        reports: list[StepReport] = []
        show = live(f"MixedMixture, start {restart}", int(self.verbose))

        def hook(iteration: int, report: StepReport) -> None:
            reports.append(report)
            if show is not None and iteration % self.verbose_interval == 0:
                show(iteration, report)

        state, history = iterate(step, state, max_iter=self.max_iter, stop=settled, hook=hook)
        return _Run(state, history, bool(reports) and settled(reports)), fallen(state)

    def _keep(self, best: _Run, fit: _Fit, dtype: Any) -> None:
        """Set the fitted attributes, in the units, the order and the dtype of the data."""
        state, k = best.state, self.n_components
        self.covariance_type_ = str(self.covariance_type)
        shape = _shape_of(self)
        p = len(fit.found.numeric)
        back = np.argsort(fit.found.numeric)
        with np.errstate(over="ignore", under="ignore"):
            self.weights_ = state.weights.astype(dtype)
            if state.covariance is None:
                self.means_ = np.zeros((k, 0), dtype=dtype)
                for name in ("covariances_", "precisions_", "precisions_cholesky_"):
                    setattr(self, name, np.ones(shape.shape_of(k, 0), dtype=dtype))
            else:
                means = fit.units.up(state.covariance.means)
                found = em.reordered(state.covariance, back, fit.deviations)
                powers = fit.units.exponents[back]
                pairs, factors = shape.covariance_powers(powers), shape.factor_powers(powers)
                self.means_ = cast_in_range(means[:, back], dtype)
                self.covariances_ = cast_in_range(times_power(found.covariances_, pairs), dtype)
                self.precisions_ = cast_in_range(times_power(found.precisions_, -pairs), dtype)
                self.precisions_cholesky_ = cast_in_range(times_power(found.precisions_cholesky_, -factors), dtype)
                widest = shape.diagonals(self.precisions_cholesky_)
                if not (np.isfinite(self.precisions_cholesky_).all() and (widest > 0).all()):
                    self.column_exponents_ = powers  # the methods compute with columns that are divided so
                    origin = times_power(fit.units.origin, -fit.units.after)[back]
                    self.scaled_means_ = np.ascontiguousarray(found.means + origin)
                    self.scaled_precisions_cholesky_ = np.ascontiguousarray(found.precisions_cholesky_)
        assert self.means_.shape == (k, p)
        sizes, ends = fit.found.table.sizes, fit.rows.offsets
        columns = [np.arange(ends[j], ends[j] + sizes[j]) for j in np.argsort(fit.found.categorical)]
        order = np.concatenate(columns).astype(np.int64) if columns else np.zeros(0, dtype=np.int64)
        self.level_probabilities_ = np.ascontiguousarray(state.probabilities[order].T)
        self.converged_ = best.converged
        self.n_iter_ = len(best.history["iteration"])
        self.lower_bounds_ = best.history["objective"].copy()
        self.lower_bound_ = best.bound
        self.history_ = best.history

    def _warn(self, best: _Run, fit: _Fit) -> None:
        state = best.state
        if not best.converged and self.max_iter > 0:
            warn_caller(
                "MixedMixture: Best performing initialization did not converge. Try different init parameters, or "
                "increase max_iter, tol, or check for degenerate data.",
                ConvergenceWarning,
            )
        for dead in np.flatnonzero(state.weights == 0):
            warn_caller(
                f"MixedMixture: component {dead} is dead: no row is left to it, and its weight is 0. "
                "Take fewer components, or another start.",
                CollapsedComponentWarning,
            )
        floored = () if state.covariance is None else state.covariance.floored
        for c in sorted({c for c, _ in floored}):
            who = f"component {c} has" if c >= 0 else "all components have"
            warn_caller(
                f"MixedMixture: {who} collapsed; the covariance was floored at {FLOOR:g} of the pooled variance.",
                CollapsedComponentWarning,
            )

    # ---- answers ---------------------------------------------------------------------------------------------------

    @property
    def category_probabilities_(self) -> list[Floats]:
        """θ of each categorical column: arrays of shape (n_components, number of its levels)."""
        check_is_fitted(self)
        ends = np.cumsum([len(levels) for levels in self.categories_]).astype(np.int64)
        return np.split(self.level_probabilities_, ends[:-1], axis=1) if len(ends) else []

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Find the most likely component of each row; ties go to the lowest number.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        table, _ = self._table(X)
        labels = np.empty(len(table), dtype=np.int64)
        self._expect(table, labels=labels)
        return labels

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Compute the responsibilities λ of the components for each row (eq. 2.5).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            They sum to one.
        """
        table, dtype = self._table(X)
        resp = np.empty((len(table), len(self.weights_)))
        self._expect(table, resp=resp)
        return resp.astype(dtype, copy=False)

    def score_samples(self, X: Any) -> NDArray[Any]:
        """Compute the logarithm of the density of what is observed, for each row (eq. 2.16).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            0 where every value is missing.
        """
        table, dtype = self._table(X)
        return as_dtype(self._log_prob(table), dtype)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Compute the log-likelihood per row: the mean of `score_samples`.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        float
            Σ w log p(x) / Σ w.
        """
        table, weights = self._weighted(X, sample_weight)
        return float(np.average(self._log_prob(table), weights=weights))

    def aic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Compute Akaike's criterion, −2ℓ + 2ν: the smaller the better (eq. 2.13).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        float
            The criterion.
        """
        table, weights = self._weighted(X, sample_weight)
        return -2 * _sum(self._log_prob(table), weights) + 2 * self._n_parameters()

    def bic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Compute the Bayesian information criterion, −2ℓ + ν log n: the smaller the better (eq. 2.13).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row, also in n.

        Returns
        -------
        float
            The criterion.
        """
        table, weights = self._weighted(X, sample_weight)
        return -2 * _sum(self._log_prob(table), weights) + self._penalty(table, weights)

    def icl(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Compute the integrated completed likelihood: BIC of the rows with their labels (eq. 2.14).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row, also in n.

        Returns
        -------
        float
            The criterion: the smaller the better, and never below `bic` but by rounding.
        """
        table, weights = self._weighted(X, sample_weight)
        resp = np.empty((len(table), len(self.weights_)))
        log_prob = np.empty(len(table))
        self._expect(table, resp=resp, log_prob=log_prob)
        best = log_prob + np.log(resp.max(axis=1))
        return -2 * _sum(best, weights) + self._penalty(table, weights)

    def impute(self, X: Any) -> Any:
        """Fill what is missing: conditional means of numbers, the most probable level of categories (eq. 2.18).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        data frame or ndarray of shape (n_samples, n_features)
            Of the type of X, with its missing values filled; the others are as they were. A value of a categorical
            column that the fit has not seen stays.

        Examples
        --------
        >>> import numpy as np
        >>> from knoll import MixedMixture
        >>> X = np.array([[0.0, 0], [0.2, 0], [9.0, 1], [9.4, 1], [9.2, np.nan], [np.nan, 0]])
        >>> model = MixedMixture(2, categorical_features=[1], categorical_prior=0.01, random_state=0).fit(X)
        >>> model.impute(X)[4:].round(1)
        array([[9.2, 1. ],
               [0.1, 0. ]])
        """
        table, dtype = self._table(X)
        filled = np.full(table.numeric.shape, np.nan)
        resp = np.empty((len(table), len(self.weights_)))
        self._expect(table, resp=resp, filled=filled)
        numeric = np.where(np.isnan(table.numeric), filled, table.numeric)
        columns: list[NDArray[Any]] = [numeric[:, j] for j in range(numeric.shape[1])]
        best = [(resp @ theta).argmax(axis=1) if theta.size else None for theta in self.category_probabilities_]
        if isinstance(X, MixedTable):
            codes = table.codes.copy()
            for j, likely in enumerate(best):
                codes[:, j] = table.codes[:, j] if likely is None else np.where(codes[:, j] < 0, likely, codes[:, j])
            return MixedTable(numeric, codes, self.categories_)
        pairs = zip(self.categories_, best, strict=True)
        found = [None if likely is None else values[likely] for values, likely in pairs]
        ordered = _interleaved(self.is_categorical_, columns, found)
        return _filled(X, self.is_categorical_, ordered, dtype)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Draw rows from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState, Generator or None, default=None
            None takes the estimator's own.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The rows, ordered by component; of dtype object where a level is text.
        y : ndarray of shape (n_samples,)
            Their components.
        """
        check_is_fitted(self)
        rules: dict[str, Any] = {"n_samples": (Number(1, whole=True),), "random_state": RANDOM_STATE}
        check_parameters("MixedMixture.sample", {"n_samples": n_samples, "random_state": random_state}, rules)
        seed = draw_seed(self.random_state if random_state is None else random_state)
        n, (k, p) = int(n_samples), self.means_.shape
        generator = np.random.Generator(np.random.Philox(key=[seed, _COMPONENT]))
        shares = np.asarray(self.weights_, dtype=np.float64)
        y = np.sort(generator.choice(k, size=n, p=shares / shares.sum())).astype(np.int64)
        numeric, threads = np.empty((n, p)), self._threads()
        if p:
            units, state = self._model()
            assert state.covariance is not None
            _core.fill_normal(seed, _core.PURPOSE_SAMPLE, 0, numeric.reshape(-1), threads)
            cuts = np.searchsorted(y, np.arange(k + 1))
            factors = state.covariance.precisions_cholesky_
            for c in range(k):
                chosen = numeric[cuts[c] : cuts[c + 1]]
                state.covariance.color(chosen, state.covariance.means, factors, c, threads)
            numeric = as_dtype(units.up(numeric), self.means_.dtype)
        draws = np.random.Generator(np.random.Philox(key=[seed, _LEVEL])).random((n, len(self.categories_)))
        columns = []
        for j, (levels, theta) in enumerate(zip(self.categories_, self.category_probabilities_, strict=True)):
            ends = np.cumsum(theta, axis=1)[y]  # (n, levels)
            number = (draws[:, j, None] * ends[:, -1:] >= ends[:, :-1]).sum(axis=1) if len(levels) else None
            columns.append(np.full(n, np.nan) if number is None else levels[number])
        ordered = _interleaved(self.is_categorical_, [numeric[:, j] for j in range(p)], columns)
        text = any(column.dtype == object for column in ordered)
        X = np.empty((n, len(ordered)), dtype=object if text else np.result_type(self.means_.dtype, np.float32))
        for j, column in enumerate(ordered):
            X[:, j] = column
        return X, y

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _log_prob(self, table: MixedTable) -> Floats:
        log_prob = np.empty(len(table))
        self._expect(table, log_prob=log_prob)
        return log_prob

    def _expect(self, table: MixedTable, **out: NDArray[Any]) -> None:
        """Fill the arrays. Without categories, complete rows are those of a mixture of Gaussians."""
        if self.categories_:
            self._expect_mixed(table, **out)
            return
        complete = ~np.isnan(table.numeric).any(axis=1)
        for chosen, fill in ((complete, self._expect_gaussian), (~complete, self._expect_mixed)):
            if chosen.all():
                fill(table, **out)
            elif chosen.any():
                part = {name: array[chosen] for name, array in out.items()}
                fill(table.rows(chosen), **part)
                for name, array in part.items():
                    out[name][chosen] = array

    def _expect_gaussian(self, table: MixedTable, **out: NDArray[Any]) -> None:
        names = {name: value for name, value in vars(self).items() if name in _SHARED}
        model = self._gaussian(None)
        no_noise = {"noise_weight_": 0.0, "noise_log_density_": -math.inf, "fixed_variance_": None}
        model.__dict__.update(names, n_features_in_=table.numeric.shape[1], **no_noise)
        out.pop("filled", None)
        points = table.numeric.astype(self.means_.dtype, copy=False) if self._is_exact(table) else table.numeric
        model._expect(points, self._threads(), **out)

    def _is_exact(self, table: MixedTable) -> bool:
        """Whether the numbers of a table are those of the dtype of the fit."""
        with np.errstate(over="ignore"):
            return bool((table.numeric.astype(self.means_.dtype) == table.numeric).all())

    def _expect_mixed(self, table: MixedTable, **out: NDArray[Any]) -> None:
        units, state = self._model()
        rows = em.arrange(table, None, units)
        em.expect(rows, state, self._threads(), **out)
        if "log_prob" in out:
            out["log_prob"] -= units.log_volumes(~np.isnan(table.numeric))
        if "filled" in out:
            out["filled"][:] = units.up(out["filled"])

    def _model(self) -> tuple[Units, MixedState]:
        """Return the mixture that the attributes describe, in units of its own."""
        weights = np.asarray(self.weights_, dtype=np.float64)
        probabilities = np.ascontiguousarray(self.level_probabilities_.T)
        k, p = self.means_.shape
        if p == 0:
            none = np.zeros(0, dtype=np.int64)
            return Units(none, np.zeros(0), none), MixedState(weights, None, probabilities)
        shape = _shape_of(self)
        exponents = getattr(self, "column_exponents_", np.zeros(p, dtype=np.int64))
        extreme = "column_exponents_" in vars(self)
        means, factors = (
            np.asarray(a, dtype=np.float64)
            for a in (
                (self.scaled_means_, self.scaled_precisions_cholesky_)
                if extreme
                else (self.means_, self.precisions_cholesky_)
            )
        )
        widths = np.broadcast_to(1.0 / shape.diagonals(factors), (k, p)).max(axis=0)
        sizes = np.maximum(np.abs(means).max(axis=0), widths)
        inner = Units.of(sizes, means.mean(axis=0), widths, shape.isotropic)
        powers = shape.factor_powers(inner.exponents)
        covariance = shape.from_precisions_cholesky(inner.down(means), np.asarray(times_power(factors, powers)))
        units = replace(inner, before=inner.before + exponents)
        return units, MixedState(weights, covariance, probabilities)

    def _n_parameters(self) -> int:
        """Count ν, the free numbers of the model."""
        k, p = self.means_.shape
        free = sum(max(len(levels) - 1, 0) for levels in self.categories_)
        return (_shape_of(self).n_parameters(k, p) if p else 0) + k * p + k - 1 + k * free

    def _penalty(self, table: MixedTable, weights: Floats | None) -> float:
        return self._n_parameters() * math.log(len(table) if weights is None else float(weights.sum()))


def _units(
    numeric: Floats, observed: Bools, weights: Floats | None, isotropic: bool, reg_covar: float
) -> tuple[Units, Floats]:
    """Choose units by the moments of what is observed; also return the pooled deviations in them, (p,)."""
    n = len(numeric)
    values = np.where(observed, numeric, 0.0)
    sizes = np.abs(values).max(axis=0, initial=0.0)
    small = np.asarray(times_power(values, -exponents_of(sizes))) if _is_extreme(sizes) else values
    share = np.ones(n) if weights is None else weights
    mass = share @ observed  # (p,)
    present = np.where(mass > 0, mass, 1.0)
    mean = share @ small / present
    deviation = np.sqrt(np.maximum(share @ np.square(np.where(observed, small - mean, 0.0)), 0.0) / present)
    if _is_extreme(sizes):
        mean, deviation = (np.asarray(times_power(a, exponents_of(sizes))) for a in (mean, deviation))
    least = float(times_power(math.sqrt(reg_covar), -_BESIDE))  # so that reg_covar is a number in these units
    units = Units.of(sizes, mean, np.maximum(deviation, least), isotropic)
    # a column without a value, or with one value only, is measured in 1
    in_units = np.asarray(times_power(deviation, -units.exponents))
    return units, np.where(mass > 0, in_units, 1.0)


def _is_extreme(sizes: Floats) -> bool:
    positive = sizes[sizes > 0]
    return bool(len(positive) and (positive.max() > 2.0**200 or positive.min() < 2.0**-200))


def _marginals(rows: MixedRows) -> Floats:
    """Return the share of each level among the rows that have one, (levels,)."""
    levels = int(rows.offsets[-1])
    counts = np.zeros(levels + 1)
    for j in range(rows.codes.shape[1]):
        counts += np.bincount(rows.codes[:, j], rows.weights, minlength=levels + 1)
    shares = counts[:levels]
    for begin, end in itertools.pairwise(rows.offsets):
        total = shares[begin:end].sum()
        shares[begin:end] /= total if total > 0 else 1.0
    return shares


def _sum(values: Floats, weights: Floats | None) -> float:
    return float(values.sum() if weights is None else values @ weights)


def _interleaved(is_categorical: Bools, numeric: list[Any], categorical: list[Any]) -> list[Any]:
    """Return the columns in the order of X."""
    columns = {False: iter(numeric), True: iter(categorical)}
    return [next(columns[bool(one)]) for one in is_categorical]


def _filled(X: Any, is_categorical: Bools, columns: list[Any], dtype: Any) -> Any:
    """Return X with its missing values replaced by those of the columns."""
    if hasattr(X, "iloc"):
        frame = X.copy()
        for j, values in enumerate(columns):
            column = X.iloc[:, j]
            missing = np.asarray(column.isna())
            if values is not None and missing.any():
                frame.isetitem(j, column.where(~missing, type(column)(values, index=column.index)))
        return frame
    array = np.array(X, dtype=object) if np.asarray(X).dtype == object else np.array(X, dtype=dtype)
    missing = array != array if array.dtype != object else np.array(array == None, dtype=np.bool_) | (array != array)  # noqa: E711 - entry by entry
    for j, values in enumerate(columns):
        if values is not None:
            array[missing[:, j], j] = values[missing[:, j]]
    return array
