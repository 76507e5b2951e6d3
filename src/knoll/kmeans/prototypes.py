"""k-prototypes: minimise J = Σᵢ wᵢ (Σⱼ (xᵢⱼ − m_cⱼ)² + γ Σⱼ [zᵢⱼ ≠ mode_cⱼ])   (docs/theory/03-kmeans.md, eq. 3.18).

Both sums are over what a row has: partial distances. With categories alone this is k-modes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from knoll import _core
from knoll._common.cost import Cost, linear_cost
from knoll._common.loop import History, StepReport, iterate, live
from knoll._common.mixed_estimator import MixedEstimator
from knoll._common.mixed_order import canonical
from knoll._common.mixed_table import MixedTable
from knoll._common.rescale import as_dtype, cast_in_range, extreme_exponent, times_power, weight_exponent
from knoll._schema import Array, ArrayTuple, Columns, Real, Whole
from knoll._typing import Codes, Floats, Ints
from knoll.base import FitPredictMixin, all_or_nothing, warn_caller
from knoll.engines import lazily
from knoll.exceptions import BadData, ConvergenceWarning
from knoll.validation import N_JOBS, RANDOM_STATE, VERBOSE, Choice, Number, draw_seed

__all__ = ["KPrototypes"]

_ORDINARY = 100  # numbers within 2^±100 keep their unit
_MOST = 2.0**400  # in units of the numbers, whose squares are nothing beside it
_START = 3  # purpose of the random numbers of a start, numbered as in the core


@dataclass(frozen=True)
class _Rows:
    """Rows as the core reads them, column by column; numbers have 0 where a value is missing, codes the last level."""

    y: Floats  # (p, n)
    observed: Floats  # (p, n) 1 or 0
    whole: NDArray[np.uint8]  # (p,) whether a column has every value
    codes: Codes  # (q, n) the number of levels: missing
    sizes: Ints  # (q,)
    gaps: Codes  # (n,) how many categories are missing
    weights: Floats  # (n,)
    threads: int

    @classmethod
    def of(cls, table: MixedTable, weights: Floats | None, exponent: int, threads: int) -> _Rows:
        missing = np.isnan(table.numeric)
        y = np.where(missing, 0.0, times_power(table.numeric, -exponent)).T
        codes = np.where(table.codes < 0, table.sizes, table.codes).T
        return cls(
            y=np.ascontiguousarray(y),
            observed=np.ascontiguousarray(~missing.T, dtype=np.float64),
            whole=np.asarray(~missing.any(axis=0), dtype=np.uint8),
            codes=np.ascontiguousarray(codes, np.int32),
            sizes=table.sizes,
            gaps=(table.codes < 0).sum(axis=1).astype(np.int32),
            weights=np.ones(len(table)) if weights is None else weights,
            threads=threads,
        )

    def __len__(self) -> int:
        return len(self.weights)

    def total(self, values: Floats) -> float:
        """Return Σ wᵢ vᵢ in the order of the rows, in which no library of linear algebra need add them."""
        return float((self.weights * values).sum())

    @property
    def center(self) -> Floats:
        """(p,) The value of a column that has a single one, so that its mean is exact; else 0."""
        low = np.where(self.observed > 0, self.y, np.inf).min(axis=1)
        high = np.where(self.observed > 0, self.y, -np.inf).max(axis=1)
        return np.asarray(np.where(low == high, low, 0.0))

    @property
    def arrays(self) -> tuple[Floats, Floats, NDArray[np.uint8], Codes, Codes]:
        """What the core takes."""
        return self.y, self.observed, self.whole, self.codes, self.gaps


@dataclass(frozen=True)
class _Prototypes:
    """k prototypes, and the rows' nearest ones."""

    means: Floats  # (k, p)
    modes: Codes  # (k, q)
    labels: Ints  # (n,) of the assignment that they were made from


@dataclass(frozen=True)
class _Run:
    prototypes: _Prototypes
    history: History
    converged: bool
    inertia: float


def costs(rows: _Rows, means: Floats, modes: Codes, gamma: float) -> Floats:
    """Return the partial distance of each row to each prototype, (k, n): columns are added one by one."""
    found = np.empty((len(means), len(rows)))
    _core.prototype_distances(*rows.arrays, means, modes, gamma, found, rows.threads)
    return found


def assign(rows: _Rows, means: Floats, modes: Codes, gamma: float) -> tuple[Ints, Floats]:
    """Return the nearest prototype of each row, ties to the lowest number, and its distance."""
    labels, least = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    _core.prototype_assign(*rows.arrays, means, modes, gamma, labels, least, rows.threads)
    return labels, least


def update(rows: _Rows, labels: Ints, means: Floats, modes: Codes) -> tuple[Floats, Codes]:
    """Return means and modes of what the rows of each cluster have; where they have nothing, the old ones."""
    k = len(means)
    new_means, new_modes = means.copy(), modes.copy()
    whole = np.bincount(labels, rows.weights, minlength=k)
    for j, values in enumerate(rows.y):
        counted = rows.weights if rows.whole[j] else rows.weights * rows.observed[j]
        mass = whole if rows.whole[j] else np.bincount(labels, counted, minlength=k)
        away = values - means[labels, j]  # about the old mean: equal values have themselves for a mean
        sums = np.bincount(labels, counted * away, minlength=k)
        new_means[:, j] += np.divide(sums, mass, where=mass > 0, out=np.zeros(k))
    for j, size in enumerate(rows.sizes.tolist()):
        counts = np.bincount(labels * (size + 1) + rows.codes[j], rows.weights, minlength=k * (size + 1))
        counts = counts.reshape(k, size + 1)[:, :size]
        if size:
            new_modes[:, j] = np.where(counts.any(axis=1), counts.argmax(axis=1), modes[:, j])
    return new_means, new_modes


class KPrototypes(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FitPredictMixin, ClusterMixin, MixedEstimator):
    """k-prototypes: k-means for numeric and categorical columns with missing values.

    A cluster is described by the means of its numbers and the most frequent levels of its categories. The distance of a
    row is the squared Euclidean one of the numbers plus `gamma` for each category that differs; what is missing is left
    out of both. With categories alone this is k-modes.

    Parameters
    ----------
    n_clusters : int, default=8
        k.
    categorical_features : array-like of bool, int or str, optional
        The categorical columns: a mask, indices, or names of columns of a data frame. By default those columns of a
        data frame whose dtype is category, text, object or Boolean; of an array none.
    gamma : float, optional
        What a category that differs costs, in squared units of the numbers. By default the mean variance of the numeric
        columns over the mean of 1 − Σ_l p_l² of the categorical ones, so that both contribute alike; 1 without numeric
        columns.
    init : {"k-means++", "random"}, default="k-means++"
        Where it begins: rows far apart, or any rows.
    n_init : int, default=1
        So many starts; the one with the least objective is kept.
    max_iter : int, default=300
        At most so many iterations.
    random_state : int, RandomState, Generator or None, default=None
        What the start draws from.
    verbose : int, default=0
        Print the progress.
    n_jobs : int or None, default=None
        Threads; None uses every CPU we may use. The result has the same bits for every number.

    Attributes
    ----------
    cluster_means_ : ndarray of shape (n_clusters, n_numeric)
        The means of the numeric columns, in their order.
    cluster_modes_ : ndarray of shape (n_clusters, n_categorical)
        The most frequent levels as indices into `categories_`, ties to the lowest; −1 of a column without a value.
    categories_ : tuple of ndarray
        The levels of each categorical column. Another level is treated as a missing value.
    is_categorical_ : ndarray of shape (n_features,)
        Which columns are categorical.
    gamma_ : float
        The `gamma` of the fit; 0 or inf where numbers are so extreme that it leaves float64.
    unit_exponent_, unit_gamma_ : int, float
        The methods compute with numbers divided by 2**unit_exponent_, 0 unless they are extreme, and with this gamma.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each row; what `predict` answers.
    inertia_ : float
        The objective: the sum of the distances of the rows to their prototypes, by weight.
    n_iter_ : int
        Iterations of the best start.
    history_ : dict of ndarray
        iteration, objective, changed (rows that changed their cluster) and seconds.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X had any.

    Notes
    -----
    The objective never rises. Numeric columns are taken as they are: standardize them first where their units differ.
    With indicator columns of length √(γ/2) for the levels, the distance is the squared Euclidean one, and the modes are
    the means of k-means rounded to a vertex. An empty cluster moves to the row that is farthest from its prototype. A
    row in which every value is missing is at distance 0 from all, and goes to cluster 0.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll import KPrototypes
    >>> X = np.array([[0.0, 0], [0.2, 0], [9.0, 1], [9.4, 1], [9.2, np.nan], [np.nan, 0]])
    >>> model = KPrototypes(2, categorical_features=[1], random_state=0).fit(X)
    >>> bool((model.labels_ == model.labels_[[0, 0, 2, 2, 2, 0]]).all())
    True

    References
    ----------
    docs/theory/03-kmeans.md; Huang (1998); Szepannek (2018) for `gamma`.
    """

    _rules: ClassVar = {
        "n_clusters": (Number(1, whole=True),),
        "gamma": (None, Number(0)),
        "init": (Choice(("k-means++", "random")),),
        "n_init": (Number(1, whole=True),),
        "max_iter": (Number(1, whole=True),),
        "random_state": RANDOM_STATE,
        "verbose": VERBOSE,
        "n_jobs": N_JOBS,
    }
    _fitted: ClassVar = {
        "is_categorical_": Array("d", "bool"),
        "categories_": ArrayTuple(),
        "cluster_means_": Array("k p"),
        "cluster_modes_": Array("k q", "int32", low=-1, also=lambda model, array: _wrong_modes(model, array)),
        "gamma_": Real(0, finite=False),
        "unit_exponent_": Whole(-1100, 1100),
        "unit_gamma_": Real(0),
        "labels_": Array("n", "int64", low=0, below="k"),
        "inertia_": Real(0, finite=False),
        "n_iter_": Whole(),
        "history_": Columns(),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        categorical_features: ArrayLike | None = None,
        gamma: float | None = None,
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        random_state: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.categorical_features = categorical_features
        self.gamma = gamma
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows; NaN and None are missing values.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of w counts like w repetitions of the row.

        Returns
        -------
        KPrototypes
            The estimator itself.
        """
        self._check_parameters()
        table, weights, dtype = self._read(X, sample_weight)
        seed, threads = draw_seed(self.random_state), self._threads()
        count = len(table) if weights is None else max(float(np.count_nonzero(weights)), float(weights.sum()))
        if count < self.n_clusters:
            raise BadData(
                f"KPrototypes: n_samples={count:g} should be >= n_clusters={self.n_clusters}. Take fewer clusters."
            )
        heavy = 0 if weights is None else weight_exponent(float(weights.max()))
        if weights is not None:
            scaled = times_power(weights, -heavy)
            weights = np.where(weights > 0, np.maximum(scaled, np.finfo(np.float64).tiny), 0.0)  # no row is lost
        found = canonical(table, weights, threads)
        exponent = _exponent(found.table.numeric)  # of the rows that count
        rows = _Rows.of(found.table, found.weights, exponent, threads)
        gamma = _balance(rows) if self.gamma is None else float(times_power(float(self.gamma), -2 * exponent))
        gamma = min(gamma, _MOST)
        best = self._best(rows, gamma, seed)
        back, levels_back = np.argsort(found.numeric), np.argsort(found.categorical)
        means = times_power(best.prototypes.means[:, back], exponent)
        self.cluster_means_ = cast_in_range(np.asarray(means), dtype)
        self.cluster_modes_ = np.ascontiguousarray(best.prototypes.modes[:, levels_back])
        self.gamma_ = float(times_power(gamma, 2 * exponent)) if self.gamma is None else float(self.gamma)
        self.unit_exponent_, self.unit_gamma_ = exponent, gamma
        self.history_ = {**best.history, "objective": times_power(best.history["objective"], 2 * exponent + heavy)}
        self.n_iter_ = len(best.history["iteration"])
        self.labels_ = self._assigned(table)[0]
        self.inertia_ = float(times_power(best.inertia, 2 * exponent + heavy))
        if not best.converged:
            warn_caller(
                f"KPrototypes: labels still changed in iteration {self.max_iter}. Increase max_iter.",
                ConvergenceWarning,
            )
        return self

    @lazily
    def predict(self, X: Any) -> Ints:
        """Find the nearest prototype of each row; ties go to the lowest number.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        return self._assigned(self._table(X)[0])[0]

    @lazily
    def transform(self, X: Any) -> NDArray[Any]:
        """Compute the partial distance of each row to each prototype; squared, as in the objective.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            The distances.
        """
        table, dtype = self._table(X)
        rows, means, gamma, exponent = self._in_units(table)
        found = np.ascontiguousarray(costs(rows, means, self.cluster_modes_, gamma).T)
        return as_dtype(np.asarray(times_power(found, 2 * exponent)), dtype)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Compute minus the objective for the rows of X.

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
            The larger the better.
        """
        table, weights = self._weighted(X, sample_weight)
        rows, means, gamma, exponent = self._in_units(table)
        least = assign(rows, means, self.cluster_modes_, gamma)[1]
        heavy = 0 if weights is None else weight_exponent(float(weights.max()))
        shares = 1.0 if weights is None else times_power(weights, -heavy)
        total = math.fsum((least * shares).tolist())  # no order changes a bit of it
        return -float(times_power(total, 2 * exponent + heavy))

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
        n, d = len(table), table.numeric.shape[1] + table.codes.shape[1]
        pairs, remedy = float(n) * self.n_clusters * self.n_init, "fewer starts (n_init), or a sample of the rows"
        return linear_cost("columns", n, 64 + 8 * 8 * d, pairs, 2e-9 * (d + 2), (10, self.max_iter), remedy)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_means_)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _best(self, rows: _Rows, gamma: float, seed: int) -> _Run:
        def run(restart: int) -> _Run:
            generator = np.random.Generator(np.random.Philox(key=[seed, _START], counter=[0, 0, 0, restart]))
            means, modes = _start(rows, gamma, self.n_clusters, self.init, generator)
            return self._run(rows, gamma, _Prototypes(means, modes, np.full(len(rows), -1)), restart)

        return min((run(restart) for restart in range(self.n_init)), key=lambda run: run.inertia)

    def _run(self, rows: _Rows, gamma: float, state: _Prototypes, restart: int) -> _Run:
        def step(state: _Prototypes) -> tuple[_Prototypes, StepReport]:
            labels, least = assign(rows, state.means, state.modes, gamma)
            changed = float(np.count_nonzero(labels != state.labels))
            report = StepReport(rows.total(least), changed)
            if changed == 0:
                return state, report  # a fixed point: the prototypes are those of these labels
            means, modes = update(rows, labels, state.means, state.modes)
            means, modes = _relocated(rows, labels, least, means, modes)
            return _Prototypes(means, modes, labels), report

        def settled(reports: list[StepReport]) -> bool:
            return reports[-1].changed == 0

        hook = live(f"KPrototypes, start {restart}", int(self.verbose))
        state, history = iterate(step, state, max_iter=self.max_iter, stop=settled, hook=hook)
        least = assign(rows, state.means, state.modes, gamma)[1]
        return _Run(state, history, bool(history["changed"][-1] == 0), rows.total(least))

    def _in_units(self, table: MixedTable) -> tuple[_Rows, Floats, float, int]:
        exponent = int(self.unit_exponent_)
        means = np.asarray(times_power(np.asarray(self.cluster_means_, dtype=np.float64), -exponent))
        return _Rows.of(table, None, exponent, self._threads()), means, float(self.unit_gamma_), exponent

    def _assigned(self, table: MixedTable) -> tuple[Ints, Floats]:
        rows, means, gamma, _ = self._in_units(table)
        return assign(rows, means, self.cluster_modes_, gamma)


def _wrong_modes(model: Any, modes: NDArray[Any]) -> str:
    sizes = np.array([len(levels) for levels in model.categories_], dtype=np.int64)
    fits = modes.shape[1] == len(sizes) and model.cluster_means_.shape[1] + len(sizes) == model.n_features_in_
    if not fits or int(model.is_categorical_.sum()) != len(sizes):
        return "does not fit the columns"
    return "" if (modes < np.maximum(sizes, 0)).all() else "has levels that do not exist"


def _exponent(numeric: Floats) -> int:
    """Return the power of two that extreme numbers are divided by; mostly 0."""
    largest = float(np.nanmax(np.abs(numeric), initial=0.0)) if numeric.size else 0.0
    return extreme_exponent(largest, _ORDINARY)


def _balance(rows: _Rows) -> float:
    """Return γ: the mean variance of the numeric columns over the mean heterogeneity 1 − Σ p² of the others."""
    if not len(rows.sizes):
        return 0.0
    mass = rows.observed @ rows.weights  # (p,)
    seen = mass > 0
    y = (rows.y - rows.center[:, None]) * rows.observed
    mean = np.divide(y @ rows.weights, mass, where=seen, out=np.zeros(len(mass)))
    squares = (np.square(y - mean[:, None]) * rows.observed) @ rows.weights
    variances = squares[seen] / mass[seen]
    if not len(variances) or not variances.mean() > 0:
        return 1.0
    columns = zip(rows.codes, rows.sizes.tolist(), strict=True)
    shares = [np.bincount(codes, rows.weights, minlength=size + 1)[:size] for codes, size in columns]
    mixed = [1.0 - float(np.square(counts / counts.sum()).sum()) for counts in shares if counts.sum() > 0]
    heterogeneity = float(np.mean(mixed)) if mixed else 0.0
    return float(variances.mean() / heterogeneity) if heterogeneity > 0 else 1.0


def _start(rows: _Rows, gamma: float, k: int, init: str, generator: np.random.Generator) -> tuple[Floats, Codes]:
    """Choose k rows, by greedy k-means++ or by weight; what they lack comes from the means and modes of all rows."""
    n, shares = len(rows), rows.weights / rows.weights.sum()
    mean, mode = update(rows, np.zeros(n, dtype=np.int64), rows.center[None, :], _no_modes(1, rows.sizes))
    if init == "random":
        drawn = generator.choice(n, size=min(k, n), replace=False, p=shares)
        return _as_prototypes(rows, np.resize(drawn, k), mean, mode)
    chosen = [int(generator.choice(n, p=shares))]
    least = assign(rows, *_as_prototypes(rows, chosen, mean, mode), gamma)[1]
    for _ in range(1, k):
        ends = np.cumsum(rows.weights * least)
        if not ends[-1] > 0:
            chosen.append(int(generator.integers(n)))
            continue
        drawn = np.searchsorted(ends, generator.random(2 + int(math.log(k))) * ends[-1], side="right")
        drawn = np.minimum(drawn, n - 1)
        trial = np.minimum(costs(rows, *_as_prototypes(rows, drawn, mean, mode), gamma), least)  # (trials, n)
        best = int((trial * rows.weights).sum(axis=1).argmin())
        least = trial[best]
        chosen.append(int(drawn[best]))
    return _as_prototypes(rows, chosen, mean, mode)


def _as_prototypes(rows: _Rows, chosen: Any, mean: Floats, mode: Codes) -> tuple[Floats, Codes]:
    """Return rows as prototypes; what they lack is that of `mean` and `mode`."""
    codes = rows.codes[:, chosen].T
    means = np.where(rows.observed[:, chosen].T > 0, rows.y[:, chosen].T, mean)
    return means, np.where(codes < rows.sizes, codes, mode).astype(np.int32)


def _no_modes(k: int, sizes: Ints) -> Codes:
    return np.full((k, len(sizes)), -1, dtype=np.int32)


def _relocated(rows: _Rows, labels: Ints, least: Floats, means: Floats, modes: Codes) -> tuple[Floats, Codes]:
    """Move the prototypes of empty clusters to the rows that are farthest from theirs: no distance rises by it."""
    empty = np.flatnonzero(np.bincount(labels, minlength=len(means)) == 0)
    if not len(empty):
        return means, modes
    farthest = np.argsort(-least * rows.weights, kind="stable")[: len(empty)]
    for c, row in zip(empty, farthest, strict=False):
        if least[row] > 0:
            own = labels[row]
            means[[c]], modes[[c]] = _as_prototypes(rows, [row], means[[own]], modes[[own]])
    return means, modes
