"""The whole way: table → scaled rows → a view → settings of each method → fits → judgement → recommendation."""

from __future__ import annotations

import math
import numbers as numbers_
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll._system import peak_memory
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.comparison.density_summary import DensitySummary, no_density, summarize_density
from knoll.comparison.fitting import Outcome, content_order, drawn_rows, fit_method
from knoll.comparison.methods import FIT_ERRORS, Subsample
from knoll.comparison.plan import Plan, make_plan
from knoll.comparison.profile import profile_of
from knoll.comparison.recommend import recommend
from knoll.comparison.result import Agreement, Candidate, Comparison, Event, Failure, Recommendation
from knoll.comparison.scores import agreement_of, known_labels, truth_scores
from knoll.exceptions import BadData, InvalidParameter, KnollError
from knoll.models import Preparation
from knoll.registry import METHODS, compared
from knoll.validation import N_JOBS, RANDOM_STATE, Number, check_parameters, check_points

__all__ = ["compare"]


def compare(
    X: ArrayLike,
    *,
    methods: Sequence[str] | None = None,
    k: Iterable[int] = range(1, 16),
    scale: str = "standard",
    truth: ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    budget: float = 120.0,
    exact: bool = False,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Callable[[Event], None] | None = None,
) -> Comparison:
    """Fit several methods to one table with parameters chosen from the data, and recommend one of their answers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The table: finite numbers.
    methods : sequence of str, default=None
        Names of `knoll.registry.compared()`: "gaussian-mixture", "kmeans", "kernel-kmeans", "spectral", "dbscan",
        "mean-shift". None is all.
    k : iterable of int, default=range(1, 16)
        Numbers of clusters to try. With 1 among them the outcome may be that there are no clusters; without 1 an answer
        with one of these numbers is recommended, whatever the density shows.
    scale : {"standard", "robust", "none"}, default="standard"
        How columns are put on one footing first.
    truth : array-like of shape (n_samples,), default=None
        Labels to compare the answers with. They are not looked at before everything is decided.
    columns : sequence of str, default=None
        Names of the columns; None takes those of a data frame, or numbers.
    seed : int, default=0
        Random seed of samples and starts.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.
    budget : float, default=120.0
        Seconds that the whole may take, about. Methods that would take longer are fitted on a sample, and say so.
    exact : bool, default=False
        Fit every method on every row, whatever that takes.
    parameters : mapping, default=None
        Parameters set by hand, such as {"dbscan": {"eps": 0.3}}.
    progress : callable, default=None
        Called with an `Event` now and then.

    Returns
    -------
    Comparison
        One candidate a method, their agreement, and the recommendation.

    Notes
    -----
    A KeyboardInterrupt ends the run; what was finished is judged and returned, with `interrupted` set.

    Examples
    --------
    >>> from knoll import datasets
    >>> from knoll.comparison import compare
    >>> found = compare(datasets.x1500().X, methods=["kmeans", "gaussian-mixture"])
    >>> found.recommendation.method, found.candidates["gaussian-mixture"].n_clusters
    ('gaussian-mixture', 3)
    """
    begun = time.perf_counter()
    names = _methods(methods)
    numbers, required = _numbers(k)
    given = _given(parameters, names)
    check_parameters(
        "compare",
        {"seed": seed, "n_jobs": n_jobs, "budget": budget},
        {"seed": RANDOM_STATE, "n_jobs": N_JOBS, "budget": (Number(0, strict=True),)},
    )
    points = check_points(X, n_jobs=n_jobs)
    if len(points) < 2:
        raise BadData(f"compare needs at least 2 rows, got {len(points)}.")
    _refuse_too_many(numbers, given, len(points))
    known = None if truth is None else known_labels(truth, len(points))
    headings = _columns(X, columns, points.shape[1])
    scaling = Preparation.fit(points, headings, scale=scale)
    order = content_order(points)
    table = profile_of(points, headings, order)
    scaled = scaling.apply(points)  # (n, d)
    _refuse_overflow(scaled, headings, scale)
    plan = make_plan(len(points), points.shape[1], names, float(budget), exact)
    watch = _Watch(progress, begun, plan)
    work = _Work(names, numbers, given, scaled, order, plan, seed, n_jobs, watch, required)
    with collect_warnings():  # each candidate has its own
        try:
            work.run()
            watch.tell("judge", "comparing the answers", 0.0)
            judged = work.judge(known)
            watch.tell("judge", "done", 1.0)
        except KeyboardInterrupt:
            work.interrupted = True
            judged = work.judge(known)  # takes little; a second Ctrl-C ends it for good
    agreement, advice, scored = judged
    candidates = {name: one.candidate for name, one in work.outcomes.items()}
    labels = np.zeros(len(points), np.int64) if advice.method is None else candidates[advice.method].labels
    seconds = time.perf_counter() - begun
    return Comparison(
        profile=table,
        scaling=scaling,
        candidates=candidates,
        failures=tuple(work.failures),
        agreement=agreement,
        recommendation=advice,
        truth_scores=scored,
        labels=labels,
        seed=seed,
        budget=float(budget),
        seconds=seconds,
        interrupted=work.interrupted,
        notes=_notes(plan, len(points), candidates, seconds, math.inf if exact else float(budget)),
    )


_OVER = 1.5  # times the budget: more is said


@dataclass
class _Work:
    """The methods one after the other; what is finished stays, whatever comes."""

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    given: Mapping[str, Mapping[str, Any]]
    scaled: Floats
    order: NDArray[np.intp]
    plan: Plan
    seed: int
    n_jobs: int | None
    watch: _Watch
    required: bool  # whether an answer must have one of the numbers
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False
    found: DensitySummary | None = None

    def run(self) -> None:
        """Look at the density, then fit every method."""
        rows = drawn_rows(self.order, self.plan.view, self.seed)
        points = self.scaled[rows]
        self.watch.tell("density", "mixtures", 0.0)
        self.found = self._survey(points)
        view = Subsample(points, len(self.scaled), self.numbers, self.found, self.seed, self.n_jobs, self.required)
        for name in self.names:
            if any(failure.method == name for failure in self.failures):
                continue
            started = time.perf_counter()
            try:
                self.watch.tell(name, "choosing parameters", 0.0)
                tell = partial(self.watch.tell, name, done=0.5)
                outcome = fit_method(name, view, self.given.get(name, {}), self.scaled, self.order, self.plan, tell)
                self.outcomes[name] = outcome
            except KeyboardInterrupt:
                self.failures.append(Failure(name, "interrupted", time.perf_counter() - started))
                raise
            except FIT_ERRORS as error:
                self.failures.append(Failure(name, _reason(error), time.perf_counter() - started))
                continue
            if outcome.interrupted:
                raise KeyboardInterrupt

    def _survey(self, points: Floats) -> DensitySummary:
        """Look at the density; mixtures with parameters by hand that cannot be fitted are a failure of that method."""

        def tick(stage: str, share: float) -> None:
            self.watch.tell("density", stage, share)

        by_hand = self.given.get("gaussian-mixture", {})
        started = time.perf_counter()
        try:
            return summarize_density(points, self.numbers, by_hand, self.seed, self.n_jobs, tick)
        except FIT_ERRORS as error:
            if not by_hand:
                raise
            self.failures.append(Failure("gaussian-mixture", _reason(error), time.perf_counter() - started))
        return summarize_density(points, self.numbers, {}, self.seed, self.n_jobs, tick)

    def judge(self, known: Ints | None) -> tuple[Agreement, Recommendation, Mapping[str, Mapping[str, float]] | None]:
        """Compare what is there, and recommend one of it."""
        found = self.found or no_density(self.plan.view, "the run was interrupted before the density was estimated")
        candidates = {name: one.candidate for name, one in self.outcomes.items()}
        rows = drawn_rows(self.order, self.plan.view, self.seed)
        agreement = agreement_of({name: one.labels[rows] for name, one in candidates.items()})
        density_ari = {name: one.density_ari for name, one in self.outcomes.items()}
        advice = recommend(candidates, density_ari, agreement, found, self.numbers if self.required else None)
        return agreement, advice, None if known is None else truth_scores(known, candidates)


def _reason(error: Exception) -> str:
    """Say why a method gave no answer; errors that are not ours bear their kind, since their words may mean little."""
    return str(error) if isinstance(error, KnollError) else f"it cannot be fitted to these rows ({error})"


def _notes(plan: Plan, n: int, candidates: Mapping[str, Candidate], seconds: float, budget: float) -> tuple[str, ...]:
    """Say what was sampled, what speaks for the answers all the same, and whether the budget was too small for that."""
    late: tuple[str, ...] = ()
    if seconds > _OVER * budget:
        least = (
            f"Choosing parameters on {plan.view} rows and labelling all {n} takes that long. Use methods= (--methods) "
            "to run fewer methods."
        )
        late = (f"It took {seconds:.2g} s, more than the budget of {budget:g} s. {least}",)
    if plan.view == n:
        return late
    looked = f"Parameters were chosen, and answers judged, on {plan.view} of {n} rows drawn at random."
    told = (
        f"{name}: {one.how if one.shortcut is None else one.shortcut}."
        for name, one in candidates.items()
        if one.fitted_rows < n
    )
    return (looked, *told, *late)


class _Watch:
    """Tells how far we are: each part of the work counts as what it is expected to take."""

    def __init__(self, progress: Callable[[Event], None] | None, begun: float, plan: Plan) -> None:
        self.progress, self.begun = progress, begun
        self.ends = list(accumulate(plan.parts.values()))
        self.parts = dict(zip(plan.parts, zip([0.0, *self.ends], self.ends)))

    def tell(self, method: str, stage: str, done: float) -> None:
        """Say that so much of a method's part is done, from 0 to 1."""
        if self.progress is None:
            return
        first, last = self.parts[method]
        fraction = min(1.0, (first + done * (last - first)) / self.ends[-1])
        spent = time.perf_counter() - self.begun
        left = spent * (1 - fraction) / fraction if fraction > 0 else None
        self.progress(Event(method, stage, fraction, left, peak_memory()))


# ---- the door ------------------------------------------------------------------------------------------------------


def _methods(methods: Sequence[str] | None) -> tuple[str, ...]:
    known = compared()
    requested = known if methods is None else (methods,) if isinstance(methods, str) else tuple(methods)
    for name in requested:
        if name not in known:
            raise InvalidParameter(f"methods: there is no {name!r}. Choose some of {', '.join(known)}.")
    if not requested:
        raise InvalidParameter(f"methods is empty. Choose some of {', '.join(known)}, or None for all.")
    return tuple(name for name in known if name in requested)


def _numbers(k: Iterable[int]) -> tuple[tuple[int, ...], bool]:
    """Return the numbers of clusters from 2 on, and whether one of them is required: "no clusters" counts as 1."""
    try:
        numbers = sorted({int(number) for number in k})
    except (TypeError, ValueError):
        raise InvalidParameter(f"k must be some whole numbers, got {k!r}. For one to fifteen: range(1, 16).") from None
    if not numbers or numbers[0] < 1 or numbers[-1] < 2:
        raise InvalidParameter(
            f"k must be whole numbers from 1 on with one above 1, got {k!r}. For one to fifteen: range(1, 16)."
        )
    return tuple(number for number in numbers if number > 1), numbers[0] > 1


_ASKED_ELSEWHERE = {"n_jobs": "n_jobs of the comparison", "random_state": "seed", "verbose": "progress"}


def _given(parameters: Mapping[str, Mapping[str, Any]] | None, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the parameters that are set by hand, each held against the rules of its estimator before any work."""
    given: dict[str, dict[str, Any]] = {}
    for name, values in (parameters or {}).items():
        if name not in compared():
            raise InvalidParameter(f"parameters: there is no method {name!r}. Choose some of {', '.join(compared())}.")
        if name not in names:
            raise InvalidParameter(f"parameters: {name} is not among the methods, which are {', '.join(names)}.")
        proposer = METHODS[name].make_proposer()
        known = proposer.estimator().get_params()
        for parameter in values:
            if parameter in _ASKED_ELSEWHERE:
                raise InvalidParameter(f"parameters: {parameter} of {name}: use {_ASKED_ELSEWHERE[parameter]} instead.")
            if parameter not in known:
                raise InvalidParameter(f"parameters: {name} has no {parameter!r}. It has {', '.join(sorted(known))}.")
        proposer.check(values)
        # None where None is the default leaves the choice to the data, as if nothing had been set
        given[name] = {key: value for key, value in values.items() if value is not None or known[key] is not None}
    return given


def _refuse_too_many(numbers: tuple[int, ...], given: Mapping[str, Mapping[str, Any]], n: int) -> None:
    """Refuse more clusters than there are rows."""
    if numbers[0] > n:
        raise InvalidParameter(f"k begins at {numbers[0]}, but there are {n} rows. Try fewer clusters.")
    for name, values in given.items():
        for parameter in ("n_clusters", "n_components"):
            value = values.get(parameter)
            if isinstance(value, numbers_.Integral) and int(value) > n:
                raise InvalidParameter(f"parameters: {parameter} of {name} is {value}, but there are {n} rows.")


def _refuse_overflow(scaled: Floats, columns: tuple[str, ...], scale: str) -> None:
    """Refuse a column that spans more than float64 can hold once it is scaled."""
    wide = np.flatnonzero(~np.isfinite(scaled).all(axis=0))
    if len(wide):
        other = "divide the column by 1024" if scale == "standard" else 'use scale="standard"'
        raise BadData(
            f"column {columns[wide[0]]!r} spans more than float64 can hold under scale={scale!r}. "
            f"Leave out the rows that are so far away, or {other}."
        )


def _columns(X: Any, columns: Sequence[str] | None, d: int) -> tuple[str, ...]:
    names = getattr(X, "columns", range(d)) if columns is None else columns
    names = tuple(str(name) for name in names)
    if len(names) != d:
        raise InvalidParameter(f"columns has {len(names)} names for {d} columns. Give one for each.")
    return names
