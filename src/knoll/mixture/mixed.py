"""A mixture for tables of numbers and categories with missing values   (eq. 2.15).

The numbers of equations are those of docs/theory/02-gaussian-mixture.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from knoll._common.cost import Cost, linear_cost
from knoll._common.loop import StepReport
from knoll._common.mixed_estimator import MixedEstimator
from knoll._common.mixed_order import Canonical, canonical
from knoll._common.mixed_table import MixedTable
from knoll._common.rescale import as_dtype, times_power, weight_exponent
from knoll._schema import Array, ArrayTuple
from knoll._typing import Bools, Floats, Ints
from knoll.base import all_or_nothing
from knoll.gaussian.covariance import COVARIANCE_TYPES, estimated_types
from knoll.gaussian.moments import FLOOR
from knoll.mixture import mixed_em as em
from knoll.mixture.base import ROUNDING, Mixture, Run, best_run, fitted_attributes, fitted_shape, normal_rows
from knoll.mixture.estimator import GaussianMixture
from knoll.mixture.mixed_columns import (
    choose_units,
    draw_levels,
    fill_missing,
    interleave,
    level_order,
    level_shares,
)
from knoll.mixture.mixed_em import MixedRows, MixedState, Prior, Units
from knoll.mixture.mixed_init import indicator_rows, initial_shares, sample_rows
from knoll.validation import Choice, Number, draw_seed

__all__ = ["MixedMixture"]

_TRIALS, _SHORT = 5, 10  # trials of a start, and steps of each on the sample
_EQUAL = 1e-9  # nats a row: starts that are nearer differ by rounding, as in another unit, and the first one counts
_LEVEL = 6  # purpose of the random numbers that choose levels, numbered as in the core
_SHARED = (*fitted_attributes("p", ()), "labels_")  # what a fit of numbers alone takes over from GaussianMixture


def _wrong_shares(shares: NDArray[Any]) -> str:
    total = float(np.sum(shares, dtype=np.float64))
    return "" if abs(total - 1) <= ROUNDING else f"sum to {total:.9g}, and must sum to 1"


def _wrong_probabilities(model: Any, array: NDArray[Any]) -> str:
    sizes = np.array([len(levels) for levels in model.categories_], dtype=np.int64)
    if sizes.sum() != array.shape[1]:
        return f"has {array.shape[1]} columns, and there are {sizes.sum()} levels"
    if len(sizes) + model.means_.shape[1] != model.n_features_in_ or model.is_categorical_.sum() != len(sizes):
        return "does not fit the columns"
    ends = np.cumsum(sizes)
    sums = [array[:, end - size : end].sum(axis=1) for size, end in zip(sizes, ends, strict=True) if size]
    return "" if all((np.abs(total - 1) <= ROUNDING).all() for total in sums) else "does not sum to 1"


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


class MixedMixture(Mixture, MixedEstimator):
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
    covariance_type : str, default="full"
        The covariance of the numbers: one of the types of `GaussianMixture`, except "fixed".
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
        **Mixture._rules,
        "covariance_type": (Choice(estimated_types()),),
        "categorical_prior": (Number(0, strict=True),),
    }
    _fitted: ClassVar = {
        "is_categorical_": Array("d", "bool"),
        "categories_": ArrayTuple(),
        **fitted_attributes("p", estimated_types()),
        "weights_": Array("k", low=0, high=1 + ROUNDING, also=lambda _, shares: _wrong_shares(shares)),
        "level_probabilities_": Array(
            "k levels", "float64", low=0, high=1 + ROUNDING, also=lambda model, a: _wrong_probabilities(model, a)
        ),
        "labels_": Array("n", "int64", low=0, below="k"),
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
        self._forget_scaled()
        if not table.levels and not np.isnan(table.numeric).any():
            self._fit_gaussian(table.numeric.astype(dtype, copy=False), weights, seed)
            return self
        count = len(table) if weights is None else max(float(np.count_nonzero(weights)), float(weights.sum()))
        self._refuse_few(count)
        if weights is not None:
            scaled = times_power(weights, -weight_exponent(float(weights.max())))
            weights = np.where(weights > 0, np.maximum(scaled, np.finfo(np.float64).tiny), 0.0)  # no row is lost
        fit = self._prepare(canonical(table, weights, self._threads()))
        best = self._best(fit, seed)
        self._keep(best, fit, dtype)
        self.labels_ = np.empty(len(table), dtype=np.int64)
        self._expect(table, labels=self.labels_)
        self._warn_of(best, fit)
        return self

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
        units, deviations = choose_units(table.numeric, observed, weights, shape.isotropic, float(self.reg_covar))
        rows = em.arrange(table, weights, units)
        share = np.ones(len(table)) if weights is None else weights
        volume = float(share @ units.log_volumes(observed) / share.sum())
        reg = np.asarray(times_power(np.full(table.numeric.shape[1], float(self.reg_covar)), -2 * units.exponents))
        prior = Prior.of(float(self.categorical_prior), self.n_components, level_shares(rows))
        return _Fit(found, rows, units, deviations, reg, prior, volume, self._threads())

    def _best(self, fit: _Fit, seed: int) -> Run[MixedState]:
        """Run EM from each start, and keep the run with the largest lower bound."""
        table, weights = fit.found.table, fit.found.weights
        chosen = sample_rows(len(table), seed)
        if len(chosen) == len(table):
            sample = fit.rows
        else:
            sample = em.arrange(table.rows(chosen), None if weights is None else weights[chosen], fit.units)
        observed = np.repeat(sample.observed, np.diff(sample.starts), axis=0)  # (m, p)
        wide = indicator_rows(sample.y, observed, sample.codes, sample.offsets)

        def run(restart: int) -> Run[MixedState]:
            state = self._start(fit, sample, observed, wide, seed, restart)
            return self._run_em(step, state, fit.deviations, restart)

        def step(state: MixedState) -> tuple[MixedState, StepReport]:
            state, report = em.step(
                fit.rows, state, fit.threads, reg=fit.reg, deviations=fit.deviations, prior=fit.prior
            )
            return state, replace(report, objective=report.objective - fit.volume)

        return best_run(run(restart) for restart in range(self.n_init))

    def _start(
        self, fit: _Fit, sample: MixedRows, observed: Bools, wide: Floats, seed: int, restart: int
    ) -> MixedState:
        """Return the best of a few starts after a few steps on a sample: likelihoods have many local maxima."""
        shape, options = COVARIANCE_TYPES[self.covariance_type], {"reg": fit.reg, "deviations": fit.deviations}
        several = self.n_components > 1

        def trial(number: int) -> tuple[float, MixedState]:
            shares = initial_shares(
                self.init_params, wide, sample.weights, self.n_components, seed, number, fit.threads
            )
            state = em.from_shares(sample, observed, shares, shape.blank(), fit.deviations, fit.reg, fit.prior)
            bound = -math.inf
            for _ in range(_SHORT if several else 0):
                state, report = em.step(sample, state, fit.threads, **options, prior=fit.prior)
                bound = report.objective
            return bound, state

        first = restart * _TRIALS
        trials = (trial(number) for number in range(first, first + (_TRIALS if several else 1)))
        best, chosen = next(trials)
        for bound, state in trials:
            if bound > best + _EQUAL:
                best, chosen = bound, state
        return chosen

    def _keep(self, best: Run[MixedState], fit: _Fit, dtype: Any) -> None:
        """Set the fitted attributes, in the units, the order and the dtype of the data."""
        state, k = best.state, self.n_components
        self.covariance_type_ = str(self.covariance_type)
        shape = fitted_shape(self)
        p = len(fit.found.numeric)
        back = np.argsort(fit.found.numeric)
        self.weights_ = state.weights.astype(dtype)
        if state.covariance is None:
            self.means_ = np.zeros((k, 0), dtype=dtype)
            for name in ("covariances_", "precisions_", "precisions_cholesky_"):
                setattr(self, name, np.ones(shape.shape_of(k, 0), dtype=dtype))
        else:
            found, powers = em.reordered(state.covariance, back, fit.deviations), fit.units.exponents[back]
            self._keep_gaussians(found, fit.units.up(state.covariance.means)[:, back], powers, dtype)
            widest = shape.diagonals(self.precisions_cholesky_)
            if not (np.isfinite(self.precisions_cholesky_).all() and (widest > 0).all()):
                self.column_exponents_ = powers  # the methods compute with columns that are divided so
                origin = times_power(fit.units.origin, -fit.units.after)[back]
                self.scaled_means_ = np.ascontiguousarray(found.means + origin)
                self.scaled_precisions_cholesky_ = np.ascontiguousarray(found.precisions_cholesky_)
        assert self.means_.shape == (k, p)
        order = level_order(fit.rows.offsets, fit.found.table.sizes, np.argsort(fit.found.categorical))
        self.level_probabilities_ = np.ascontiguousarray(state.probabilities[order].T)
        self._keep_run(best)

    def _warn_of(self, best: Run[MixedState], fit: _Fit) -> None:
        state = best.state
        self._warn_unless_converged(best)
        self._warn_of_dead(state.weights, "row")
        floored = () if state.covariance is None else state.covariance.floored
        for c in sorted({c for c, _ in floored}):
            who = f"component {c} has" if c >= 0 else "all components have"
            self._warn(f"{who} collapsed; the covariance was floored at {FLOOR:g} of the pooled variance.")

    # ---- answers ---------------------------------------------------------------------------------------------------

    @property
    def category_probabilities_(self) -> list[Floats]:
        """θ of each categorical column: arrays of shape (n_components, number of its levels)."""
        check_is_fitted(self)
        ends = np.cumsum([len(levels) for levels in self.categories_]).astype(np.int64)
        return np.split(self.level_probabilities_, ends[:-1], axis=1) if len(ends) else []

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
        ordered = interleave(self.is_categorical_, columns, found)
        return fill_missing(X, self.is_categorical_, ordered, dtype)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[NDArray[Any], Ints]:
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
        shares = np.asarray(self.weights_, dtype=np.float64)
        y, seed, _ = self._draw_components(n_samples, random_state, shares)
        n, p = len(y), self.means_.shape[1]
        numeric = np.empty((n, 0))
        if p:
            units, state = self._model()
            assert state.covariance is not None
            factors = state.covariance.precisions_cholesky_
            numeric = normal_rows(state.covariance, state.covariance.means, factors, y, seed, self._threads())
            most = np.finfo(np.float64).max  # a row beyond it is drawn there
            numeric = as_dtype(np.clip(units.up(numeric), -most, most), self.means_.dtype)
        draws = np.random.Generator(np.random.Philox(key=[seed, _LEVEL])).random((n, len(self.categories_)))
        pairs = zip(self.categories_, self.category_probabilities_, strict=True)
        columns = [draw_levels(levels, theta, y, draws[:, j]) for j, (levels, theta) in enumerate(pairs)]
        ordered = interleave(self.is_categorical_, [numeric[:, j] for j in range(p)], columns)
        text = any(column.dtype == object for column in ordered)
        X = np.empty((n, len(ordered)), dtype=object if text else np.result_type(self.means_.dtype, np.float32))
        for j, column in enumerate(ordered):
            X[:, j] = column
        return X, y

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _rows(self, X: Any) -> tuple[MixedTable, Any]:
        return self._table(X)

    def _log_best(self, rows: MixedTable) -> Floats:
        resp, log_prob = np.empty((len(rows), len(self.weights_))), np.empty(len(rows))
        self._expect(rows, resp=resp, log_prob=log_prob)
        return np.asarray(log_prob + np.log(resp.max(axis=1)))

    def _expect(self, rows: MixedTable, **out: NDArray[Any]) -> None:
        """Fill the arrays. Without categories, complete rows are those of a mixture of Gaussians."""
        if self.categories_:
            self._expect_mixed(rows, **out)
            return
        complete = ~np.isnan(rows.numeric).any(axis=1)
        for chosen, fill in ((complete, self._expect_gaussian), (~complete, self._expect_mixed)):
            if chosen.all():
                fill(rows, **out)
            elif chosen.any():
                chunk = {name: array[chosen] for name, array in out.items()}
                fill(rows.rows(chosen), **chunk)
                for name, array in chunk.items():
                    out[name][chosen] = array

    def _expect_gaussian(self, table: MixedTable, **out: NDArray[Any]) -> None:
        names = {name: value for name, value in vars(self).items() if name in _SHARED}
        model = self._gaussian(None)
        no_noise = {"noise_weight_": 0.0, "noise_log_density_": -math.inf, "fixed_variance_": None}
        model.__dict__.update(names, n_features_in_=table.numeric.shape[1], **no_noise)
        out.pop("filled", None)
        points = table.numeric.astype(self.means_.dtype, copy=False) if self._is_exact(table) else table.numeric
        model._expect(points, **out)

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
        shape = fitted_shape(self)
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
        with np.errstate(over="ignore"):
            middle = means.mean(axis=0)
        if not np.isfinite(middle).all():  # their sum leaves float64
            middle = (means / k).sum(axis=0)
        inner = Units.of(sizes, middle, widths, shape.isotropic)
        powers = shape.factor_powers(inner.exponents)
        covariance = shape.from_precisions_cholesky(inner.down(means), np.asarray(times_power(factors, powers)))
        units = replace(inner, before=inner.before + exponents)
        return units, MixedState(weights, covariance, probabilities)

    def _n_parameters(self) -> int:
        """Count ν, the free numbers of the model."""
        k, p = self.means_.shape
        free = sum(max(len(levels) - 1, 0) for levels in self.categories_)
        return (fitted_shape(self).n_parameters(k, p) if p else 0) + k * p + k - 1 + k * free
