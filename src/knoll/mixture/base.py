"""What the mixtures share: runs of EM from several starts, the attributes of a fit, and the answers of a fitted model.

The numbers of equations are those of docs/theory/02-gaussian-mixture.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from knoll import _core
from knoll._common.loop import History, StepReport, iterate, live
from knoll._common.rescale import as_dtype, cast_in_range, times_power, weight_exponent
from knoll._schema import Array, Attribute, Boolean, Columns, Real, Text, Whole
from knoll._typing import Floats, Ints
from knoll.base import Estimator, FitPredictMixin, warn_caller
from knoll.engines import lazily
from knoll.exceptions import BadData, CollapsedComponentWarning, ConvergenceWarning, InvalidParameter
from knoll.gaussian.covariance import COVARIANCE_TYPES, Covariance
from knoll.validation import N_JOBS, RANDOM_STATE, VERBOSE, Choice, Number, check_parameters, check_weights, draw_seed

__all__ = ["ROUNDING", "SCALED", "Mixture", "Run", "best_run", "fitted_attributes", "fitted_shape", "normal_rows"]

# Shares are rounded: float32 rounds each by 2⁻²⁴ of it, a start in float32 may be off by 1e-6 in all (`check_initial`),
# and sums of float64 by a few units of 2⁻⁵³.
ROUNDING = 2e-6
SCALED = ("column_exponents_", "scaled_means_", "scaled_precisions_cholesky_")  # only where the data is extreme

_COMPONENT = 2  # purpose of the random numbers that choose components, numbered as in the core

State = TypeVar("State", bound=Any)  # has `covariance`, a Covariance, or None without numeric columns


@dataclass(frozen=True)
class Run(Generic[State]):
    """One run of EM from one start."""

    state: State
    history: History
    converged: bool

    @property
    def bound(self) -> float:
        """The last lower bound; −inf when no step was made."""
        objective = self.history["objective"]
        return float(objective[-1]) if len(objective) else -math.inf


def best_run(runs: Iterable[Run[State]]) -> Run[State]:
    """Return the run with the largest lower bound, the first of equals."""
    return max(runs, key=lambda run: run.bound)


class Mixture(FitPredictMixin, DensityMixin, Estimator):
    """A mixture that is fitted by EM; a subclass reads rows, makes the steps, and evaluates its density.

    `_rows` reads X for a fitted model, `_expect` fills arrays for such rows.
    """

    _rules: ClassVar = {
        "n_components": (Number(1, whole=True),),
        "tol": (Number(0),),
        "reg_covar": (Number(0),),
        "max_iter": (Number(0, whole=True),),
        "n_init": (Number(1, whole=True),),
        "init_params": (Choice(("kmeans", "k-means++", "random", "random_from_data")),),
        "random_state": RANDOM_STATE,
        "verbose": VERBOSE,
        "verbose_interval": (Number(1, whole=True),),
        "n_jobs": N_JOBS,
    }

    @property
    def _has_noise(self) -> bool:
        """Whether the last column of the responsibilities is that of the noise."""
        return False

    @abstractmethod
    def _rows(self, X: Any) -> tuple[Any, Any]:
        """Read the rows for a fitted model; also return their dtype."""

    @abstractmethod
    def _expect(self, rows: Any, **out: NDArray[Any]) -> None:
        """Fill those of labels (n,), log_prob (n,) and resp (n, k) that are given."""

    @abstractmethod
    def _log_best(self, rows: Any) -> Floats:
        """Return the logarithm of the largest weighted density of a component, for each row."""

    @abstractmethod
    def _n_parameters(self) -> int:
        """Count ν, the free numbers of the model."""

    # ---- EM --------------------------------------------------------------------------------------------------------

    def _run_em(
        self,
        step: Callable[[State], tuple[State, StepReport]],
        state: State,
        deviations: Floats,
        restart: int,
        before: float = -math.inf,
    ) -> Run[State]:
        """Run EM from a start; `before` is the lower bound that the first iteration is compared with.

        A clipped component leaves a state that had it below the floor, so that step may lower the likelihood. Without
        reg_covar such a run is made again with the component kept above the floor all along: then every step is the
        exact maximiser among states that the one before belongs to (eq. 2.11).
        """
        while True:
            run, clipped = self._run_once(step, state, restart, before)
            if not clipped or self.reg_covar > 0:
                return run
            state = replace(state, covariance=state.covariance.with_floor(clipped, deviations))

    def _run_once(
        self, step: Callable[[State], tuple[State, StepReport]], state: State, restart: int, before: float
    ) -> tuple[Run[State], tuple[int, ...]]:
        """Run EM until it settles, or a component unconstrained at the start is clipped: also return those."""
        at_start = _constrained(state)
        newest = [state]
        reports: list[StepReport] = []

        def report_step(state: State) -> tuple[State, StepReport]:
            newest[0], report = step(state)
            reports.append(report)
            return newest[0], report

        def clipped(state: State) -> tuple[int, ...]:
            return tuple(sorted({c for c, _ in _constrained(state) - at_start}))

        def settled(reports: list[StepReport]) -> bool:
            if self.reg_covar == 0 and clipped(newest[0]):
                return True
            return self._settled(reports[-1], reports[-2].objective if len(reports) > 1 else before)

        hook = live(f"{type(self).__name__}, start {restart}", int(self.verbose), int(self.verbose_interval))
        state, history = iterate(report_step, state, max_iter=self.max_iter, stop=settled, hook=hook)
        return Run(state, history, bool(reports) and settled(reports)), clipped(state)

    def _settled(self, last: StepReport, before: float) -> bool:
        return bool(abs(last.objective - before) < self.tol)  # eq. 2.10

    # ---- what a fit keeps ------------------------------------------------------------------------------------------

    def _forget_scaled(self) -> None:
        """Drop what an earlier fit of extreme data has left."""
        for name in SCALED:
            self.__dict__.pop(name, None)

    def _keep_gaussians(self, covariance: Covariance, means: Floats, exponents: Ints, dtype: Any) -> None:
        """Set means in the units of the data, and the covariance, which is over 2^exponents of them."""
        pairs, factors = covariance.covariance_powers(exponents), covariance.factor_powers(exponents)
        with np.errstate(over="ignore", under="ignore"):
            self.means_ = cast_in_range(means, dtype)
            self.covariances_ = cast_in_range(times_power(covariance.covariances_, pairs), dtype)
            self.precisions_ = cast_in_range(times_power(covariance.precisions_, -pairs), dtype)
            self.precisions_cholesky_ = cast_in_range(times_power(covariance.precisions_cholesky_, -factors), dtype)

    def _keep_run(self, run: Run[Any], volume: float = 0.0) -> None:
        """Set what became of the loop; `volume` is what the log-likelihood has more than that of the data."""
        history = {**run.history, "objective": run.history["objective"] - volume}
        self.converged_ = run.converged
        self.n_iter_ = len(history["iteration"])
        self.lower_bounds_ = history["objective"].copy()
        self.lower_bound_ = run.bound - volume
        self.history_ = history

    def _refuse_few(self, count: float) -> None:
        if count < self.n_components:
            raise BadData(
                f"{type(self).__name__}: Expected n_samples >= n_components but got n_components = "
                f"{self.n_components}, n_samples = {count:g}. Take fewer components."
            )

    def _warn(self, sentence: str, category: type[Warning] = CollapsedComponentWarning) -> None:
        warn_caller(f"{type(self).__name__}: {sentence}", category)

    def _warn_unless_converged(self, run: Run[Any]) -> None:
        if not run.converged and self.max_iter > 0:
            self._warn(
                "Best performing initialization did not converge. Try different init parameters, or increase max_iter, "
                "tol, or check for degenerate data.",
                ConvergenceWarning,
            )

    def _warn_of_dead(self, weights: Floats, rows: str) -> None:
        for dead in np.flatnonzero(weights == 0):
            self._warn(
                f"component {dead} is dead: no {rows} is left to it, and its weight is 0. "
                "Take fewer components, or another start."
            )

    # ---- answers ---------------------------------------------------------------------------------------------------

    @lazily
    def predict(self, X: Any) -> Ints:
        """Find the most likely component of each row; ties go to the lowest number, noise is −1.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        rows, _ = self._rows(X)
        labels = np.empty(len(rows), dtype=np.int64)
        self._expect(rows, labels=labels)
        return labels

    @lazily
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Compute the responsibilities λ of the components for each row (eq. 2.5).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or one column more
            They sum to one. With noise the last column is the noise's.
        """
        rows, dtype = self._rows(X)
        resp = np.empty((len(rows), len(self.weights_) + self._has_noise))
        self._expect(rows, resp=resp)
        return resp.astype(dtype, copy=False)

    @lazily
    def score_samples(self, X: Any) -> NDArray[Any]:
        """Compute log p(xᵢ) for each row (the logarithm of eq. 2.1), or of what is observed of it (eq. 2.16).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The logarithm of the density at each row; 0 where every value is missing.
        """
        rows, dtype = self._rows(X)
        return as_dtype(self._log_prob(rows), dtype)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Compute the log-likelihood per row: the mean of `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        float
            Σ w log p(x) / Σ w.
        """
        rows, weights = self._weighted(X, sample_weight)
        if weights is not None:
            weights = times_power(weights, -weight_exponent(float(weights.max())))
        return _mean(self._log_prob(rows), weights)

    def aic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Compute Akaike's criterion, −2ℓ + 2ν: the smaller the better (eq. 2.13).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        float
            The criterion.
        """
        rows, weights = self._weighted(X, sample_weight)
        return -2 * self._total(self._log_prob(rows), weights) + 2 * self._n_parameters()

    def bic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Compute the Bayesian information criterion, −2ℓ + ν log n: the smaller the better (eq. 2.13).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row, also in n.

        Returns
        -------
        float
            The criterion.
        """
        rows, weights = self._weighted(X, sample_weight)
        return -2 * self._total(self._log_prob(rows), weights) + self._penalty(rows, weights)

    def icl(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Compute the integrated completed likelihood: BIC of the rows with their labels (eq. 2.14).

        Components that overlap cost something here, so it counts groups where BIC counts Gaussians.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row, also in n.

        Returns
        -------
        float
            The criterion: the smaller the better, and never below `bic` but by rounding.
        """
        rows, weights = self._weighted(X, sample_weight)
        return -2 * self._total(self._log_best(rows), weights) + self._penalty(rows, weights)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _weighted(self, X: Any, sample_weight: Any) -> tuple[Any, Floats | None]:
        rows, _ = self._rows(X)
        return rows, check_weights(sample_weight, len(rows), owner=type(self).__name__)

    def _log_prob(self, rows: Any) -> Floats:
        log_prob = np.empty(len(rows))
        self._expect(rows, log_prob=log_prob)
        return log_prob

    def _penalty(self, rows: Any, weights: Floats | None) -> float:
        if weights is None:
            return self._n_parameters() * math.log(len(rows))
        exponent = weight_exponent(float(weights.max()))
        return self._n_parameters() * (math.log(times_power(weights, -exponent).sum()) + exponent * math.log(2))

    def _total(self, values: Floats, weights: Floats | None) -> float:
        exponent = 0 if weights is None else weight_exponent(float(weights.max()))
        with np.errstate(over="ignore"):
            sums = values.sum() if weights is None else values @ times_power(weights, -exponent)
            total = float(times_power(sums, exponent))
        if math.isfinite(2.0 * total):  # the criteria are of twice it
            return total
        owner = type(self).__name__
        if weights is None:
            raise BadData(
                f"{owner}: the log-likelihood of {len(values)} rows leaves float64 (down to {values.min():.3g} for "
                "one): they lie too far from every component. Fit the model to data like X."
            )
        raise BadData(
            f"{owner}: the log-likelihood of rows with weights up to {weights.max():.3g} leaves float64. "
            "Divide the weights by their largest."
        )

    def _draw_components(
        self, n_samples: Any, random_state: Any, shares: Floats
    ) -> tuple[Ints, int, np.random.Generator]:
        """Draw the component of each of n_samples rows, in order; also return the seed and what goes on drawing."""
        check_is_fitted(self)
        rules: dict[str, Any] = {"n_samples": (Number(1, whole=True),), "random_state": RANDOM_STATE}
        parameters = {"n_samples": n_samples, "random_state": random_state}
        try:
            check_parameters(f"{type(self).__name__}.sample", parameters, rules)
        except InvalidParameter as error:
            if "n_samples" not in str(error):
                raise
            raise type(error)(f"Invalid value for 'n_samples': {error}") from None  # as scikit-learn's begins
        seed = draw_seed(self.random_state if random_state is None else random_state)
        generator = np.random.Generator(np.random.Philox(key=[seed, _COMPONENT]))
        chosen = generator.choice(len(shares), size=int(n_samples), p=shares / shares.sum())
        return np.sort(chosen).astype(np.int64), seed, generator


def _constrained(state: Any) -> set[tuple[int, int]]:
    return set() if state.covariance is None else set(state.covariance.constrained)


def normal_rows(shape: Any, means: Floats, factors: Floats, components: Ints, seed: int, threads: int) -> Floats:
    """Draw a row of N(μ_c, Σ_c) for each component c of a sorted array; those that do not exist get N(0, I)."""
    rows = np.empty((len(components), means.shape[1]))
    _core.fill_normal(seed, _core.PURPOSE_SAMPLE, 0, rows.reshape(-1), threads)
    cuts = np.searchsorted(components, np.arange(len(means) + 1))
    for c in range(len(means)):
        shape.color(rows[cuts[c] : cuts[c + 1]], means, factors, c, threads)
    return rows


def _mean(values: Floats, weights: Floats | None) -> float:
    with np.errstate(over="ignore"):
        mean = float(np.average(values, weights=weights))
    if math.isfinite(mean):
        return mean
    mean = np.average(times_power(values, -60), weights=weights)  # the sum leaves float64, not the mean
    return float(times_power(mean, 60))


# ---- rules of the fitted attributes ----------------------------------------------------------------------------------


def fitted_shape(model: Any) -> type[Covariance]:
    """Return the class of the covariance of a fitted model."""
    return COVARIANCE_TYPES[model.covariance_type_]


def fitted_attributes(columns: str, types: Collection[str]) -> dict[str, Attribute]:
    """Return the rules of the attributes that every mixture has; `columns` is the side of the numeric columns."""

    def sides(model: Any) -> str:
        return fitted_shape(model).sides.replace("d", columns)

    # squares of 1e160 are infinite, and their inverses 0: methods read the factors alone
    squares = Array(sides, finite=False, also=_wrong_covariances)
    return {
        "covariance_type_": Text(types),
        "column_exponents_": Array(columns, "int64", low=-4096, high=4096, missing=True),
        "means_": Array(f"k {columns}"),
        "weights_": Array("k", low=0, high=1 + ROUNDING),
        "covariances_": squares,
        "precisions_": squares,
        "precisions_cholesky_": Array(sides, finite=False, also=_wrong_user_factors),
        "scaled_means_": Array(f"k {columns}", "float64", when=_is_scaled, missing=True),
        "scaled_precisions_cholesky_": Array(sides, "float64", when=_is_scaled, missing=True, also=_wrong_factors),
        "n_iter_": Whole(side="steps"),
        "lower_bounds_": Array("steps", "float64", finite=False),
        "lower_bound_": Real(finite=False),
        "converged_": Boolean(),
        "history_": Columns(),
    }


def _is_scaled(model: Any) -> bool:
    return getattr(model, "column_exponents_", None) is not None


def _wrong_covariances(model: Any, array: NDArray[Any]) -> str:
    return fitted_shape(model).covariance_fault(array)


def _wrong_factors(model: Any, array: NDArray[Any]) -> str:
    return fitted_shape(model).factor_fault(array)


def _wrong_user_factors(model: Any, array: NDArray[Any]) -> str:
    """Factors in the units of X: where the scaled ones are read in their stead they may leave float64."""
    if _is_scaled(model):
        return _wrong_covariances(model, array)
    if found := [name for name in SCALED if name in vars(model)]:
        return f"comes with {found[0]}, and column_exponents_ is missing"
    return _wrong_factors(model, array) if np.isfinite(array).all() else "has entries that are not finite"
