"""The pipeline: table → scaled rows → a subsample → answers of every method → judgement → models → recommendation."""

from __future__ import annotations

import math
import numbers as numbers_
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from knoll._common.cancel import CancelToken
from knoll._format import plural
from knoll._system import peak_memory, resolve_threads
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.blocks import TableBlocks
from knoll.comparison.earth import checked_radius, on_the_earth
from knoll.comparison.encoding import mixed_notes
from knoll.comparison.fitting import Table, drawn_rows, fit_answer
from knoll.comparison.judge import Judgement, beside, ranked, shortlist, the_judge
from knoll.comparison.likelihood import likelihood_gains, reason_for, with_likelihood
from knoll.comparison.methods import FIT_ERRORS, Partition
from knoll.comparison.numbering import match_numbers
from knoll.comparison.other_scales import scale_notes
from knoll.comparison.plan import PROBE, Plan, make_plan
from knoll.comparison.pool import join_answers, numbers_around, numbers_for
from knoll.comparison.profile import profile_of
from knoll.comparison.progress import shown
from knoll.comparison.recommend import STABLE, caution_for, level_of, reasons_for, relation_of, verdict_of
from knoll.comparison.result import Alternative, Candidate, Comparison, Event, Failure, Recommendation
from knoll.comparison.scaled import read_rows, scale_rows
from knoll.comparison.scores import agreement_of, known_labels, truth_scores
from knoll.comparison.streamed import note_of, sampled_table
from knoll.comparison.subsample import Subsample, count_small_clusters
from knoll.exceptions import BadData, Cancelled, InvalidParameter, KnollError
from knoll.metrics import adjusted_rand_score
from knoll.registry import METHODS, compared
from knoll.tables.table import Table as TypedTable
from knoll.validation import N_JOBS, RANDOM_STATE, Number, check_parameters

__all__ = ["compare"]

T = TypeVar("T")


def compare(
    X: Any,
    *,
    methods: Sequence[str] | None = None,
    k: Iterable[int] | None = None,
    scale: str = "auto",
    metric: str | None = None,
    truth: ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    log: Sequence[str] | str | None = None,
    ignore: Sequence[str] | None = None,
    missing: str | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    budget: float = 120.0,
    exact: bool = False,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Callable[[Event], None] | bool | None = None,
) -> Comparison:
    """Fit several methods to one table with parameters chosen from the data, and recommend one of their answers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), a table of pandas, polars or Arrow, or blocks
        Finite numbers, or a table with columns of any type: then numbers, dates, Booleans and categories are recognised
        and used, identifiers and free text are left out, as by ``knoll compare``. Of blocks of `knoll.blocks.open`
        at most 200 000 rows are drawn by their contents, and compared; `label` of the result labels all.
    methods : sequence of str, default=None
        Names of `knoll.registry.compared()`. None is all.
    k : iterable of int, default=None
        Numbers of clusters. An answer with one of them is recommended; with 1 among them the verdict may be that there
        are no clusters. None tries up to 60, more sparsely above 10.
    scale : {"auto", "standard", "robust", "common", "none"}, default="auto"
        How columns are scaled first: by mean and standard deviation, by median and quartiles, by one common factor, or
        not. "auto" takes a common factor for up to three columns of similar standard deviations, and for rows of
        length one, else "standard".
    metric : {"euclidean", "cosine"}, default=None
        "cosine" compares directions: rows are divided by their lengths, then all columns by one factor. None is
        "cosine" where every row has length one, as text embeddings do.
    truth : array-like of shape (n_samples,), default=None
        Labels to compare the answers with. They are not used before everything is decided.
    columns : sequence of str, default=None
        Names of the columns; None takes those of a data frame, or numbers. Of a data frame, the columns to use.
    types : mapping, default=None
        Types of columns that are not to be guessed: "number", "category", "boolean", "date", "date:FORMAT", "time",
        "latitude", "longitude" or "ignore".
    log : sequence of str, or "auto", default=None
        Columns whose logarithm is taken; "auto" takes that of skewed columns which are not skewed afterwards. None is
        "auto" for a table with categories or missing values, else no logarithm; () is none.
    ignore : sequence of str, default=None
        Columns that are left out.
    missing : {"model", "median", "drop", "error"}, default=None
        What to do about missing values: leave them to methods that model them (others take means), fill in the
        median or the most frequent category, leave out such rows, or stop. None is "model" for a data frame and
        "error" for an array.
    seed : int, default=0
        Random seed of samples and starts.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.
    budget : float, default=120.0
        Seconds that the whole may take, about. Methods that would take longer are fitted on a sample, and report it.
    exact : bool, default=False
        Fit every method on every row, whatever that takes.
    parameters : mapping, default=None
        Parameters set by hand, such as {"dbscan": {"eps": 0.3}}.
    progress : callable or bool, default=None
        Called with an `Event` now and then. None shows a line on terminals and in notebooks, if rich is installed;
        False shows nothing.

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
    requested = _methods(methods)
    numbers, required = _numbers(k)
    overrides = _overrides(parameters, requested)
    check_parameters(
        "compare",
        {"seed": seed, "n_jobs": n_jobs, "budget": budget},
        {"seed": RANDOM_STATE, "n_jobs": N_JOBS, "budget": (Number(0, strict=True),)},
    )
    streamed = None
    if isinstance(X, TableBlocks):
        options = {"types": types, "log": log, "ignore": ignore, "missing": missing}
        X, count = sampled_table(X, columns, seed, resolve_threads(n_jobs), **options)
        streamed = note_of(len(X.X), count)
    read = read_rows(X, columns=columns, types=types, log=log, ignore=ignore, missing=missing, n_jobs=n_jobs)
    points, table_rows, encoded = read.points, read.table, read.encoded
    if len(points) < 2:
        raise BadData(f"compare needs at least 2 rows, got {len(points)}.")
    if (points == points[:1]).all():
        raise BadData(f"all {len(points)} rows are equal: there is nothing to divide.")
    _refuse_too_many(numbers, overrides, len(points))
    known = None if truth is None else known_labels(_kept(truth, table_rows), len(points))
    names = _of_table(requested, methods is None, mixed=encoded is not None)
    made = scale_rows(read, scale=scale, metric=metric, missing=missing)
    order, scaling, scaled, mixed = made.order, made.scaling, made.points, made.mixed
    profile = profile_of(points, read.columns, order, () if scaling.schema is None else scaling.schema.blocks)
    threads = resolve_threads(n_jobs)
    many = 0 if exact else _small_clusters(scaled, order, seed, threads)
    plan = make_plan(len(points), scaled.shape[1], names, float(budget), exact, many)
    rows = drawn_rows(order, plan.subsample, seed)
    drawn = None if mixed is None else mixed.take(rows)
    subsample = Subsample(np.ascontiguousarray(scaled[rows]), seed, threads, many, drawn)
    table = Table(scaled, order, plan, subsample, mixed)
    overrides = on_the_earth({name: values for name, values in overrides.items() if name in names}, scaling)
    limit = _Limit(begun, math.inf if exact else float(budget))
    with shown(progress) as show:
        work = _Work(names, numbers, required, overrides, table, _Watch(show, begun, plan), limit)
        with collect_warnings():  # each candidate has its own
            found = work.run()
    work.candidates, found = work.finish(lambda: match_numbers(work.candidates, found))
    seen = {name: one.labels[rows] for name, one in work.candidates.items()}
    agreement = work.finish(lambda: agreement_of(seen))
    scores = None if known is None else work.finish(lambda: truth_scores(known, work.candidates))
    scales: tuple[str, ...] = ()
    plain = encoded is None and scaling.schema is None and not scaling.unit_rows
    if scale == "auto" and plain and not work.interrupted:
        labels = work.candidates[found.method].labels
        left = limit.for_other_scalings()
        scales = work.finish(lambda: scale_notes(points, read.columns, scaling, labels, rows, seed, threads, left))
    seconds = time.perf_counter() - begun
    return Comparison(
        profile=profile,
        scaling=scaling,
        candidates=work.candidates,
        failures=tuple(work.failures),
        agreement=agreement,
        recommendation=found,
        truth_scores=scores,
        labels=work.candidates[found.method].labels,
        seed=seed,
        budget=float(budget),
        seconds=seconds,
        interrupted=work.interrupted,
        notes=(
            *(() if streamed is None else (streamed,)),
            *(() if table_rows is None or (streamed is None and table_rows is X) else table_rows.notes),
            *scaling.notes(),
            *(() if encoded is None else mixed_notes(scaling, encoded[order])),
            *scales,
            *_notes(plan, len(points), work, seconds, limit.budget),
        ),
        table=table_rows,
        X=points,
        index=_index(X, table_rows),
    )


_OVER = 1.5  # times the budget: more is reported


_ANSWERS = 0.6  # of the budget, until the last method must have given its answers for the subsample
_OTHER_SCALINGS = 0.05  # of the budget, for answers under other scalings
_LEAST_SECONDS = 0.5  # of a method, however small the budget
_FEW_COLUMNS = 16  # up to which small clusters are counted: distances of more columns cost more
_SHOWN = 3  # answers at most: the recommended one and others that differ from it
_SMALL_LEAD = 0.15  # of the score, up to which another answer is defensible


def _small_clusters(scaled: Floats, order: Ints, seed: int, threads: int) -> int:
    """Count small clusters in a table that is large and has few columns, as far as there are many."""
    if len(scaled) <= PROBE or scaled.shape[1] > _FEW_COLUMNS:
        return 0
    return count_small_clusters(np.ascontiguousarray(scaled[drawn_rows(order, PROBE, seed)]), threads)


@dataclass
class _Work:
    """The methods one after the other; what is finished stays, whatever comes."""

    names: tuple[str, ...]
    numbers: tuple[int, ...] | None
    required: bool  # whether an answer must have one of the numbers, so that the verdict is not "none"
    overrides: Mapping[str, Mapping[str, Any]]
    table: Table
    watch: _Watch
    limit: _Limit
    stopped: dict[str, int] = field(default_factory=dict)  # answers of the methods that the budget stopped
    requested: list[str] = field(default_factory=list)  # the methods that were to give answers
    found: list[Partition] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    interrupted: bool = False
    gains: Floats | None = None  # of the likelihood of each answer, for a table with categories or missing values
    by_density: Judgement | None = None  # without the likelihood, for such a table

    def run(self) -> Recommendation:
        """Collect answers, judge them and fit models; after a Ctrl-C, of what is there. A second one ends the run."""
        try:
            self._propose()
        except KeyboardInterrupt:
            if not self.found:
                raise
            self.interrupted = True
        judged = self.finish(self._judge)
        order = ranked(judged)
        shown = shortlist(judged.pool.ari, order.tolist(), _SHOWN)
        judged = replace(judged, expected=beside(judged.expected, judged.pool.ari, shown[0]))
        before = self.interrupted
        best = self.finish(lambda: self._fit_best(judged, shown[0]))
        others: tuple[Alternative, ...] = ()
        if self.interrupted == before:  # else the Ctrl-C came during the fits: no more of them
            others = self._alternatives(judged, shown, self.candidates[best].labels)
            self._fit_methods(judged, order)
        self.watch.end()
        return self._recommendation(judged, shown[0], best, others)

    def finish(self, step: Callable[[], T]) -> T:
        """Do a short step, once more after a Ctrl-C: the result needs it."""
        try:
            return step()
        except KeyboardInterrupt:
            self.interrupted = True
            return step()

    def _propose(self) -> None:
        """Collect the answers of every method for the rows of the subsample."""
        subsample = self.table.subsample
        requested = (k for k in self.numbers or () if k <= subsample.n)
        usual = (*numbers_for(subsample.n), *numbers_around(subsample.many))
        numbers = sorted({*usual, *requested})  # all, to compare those requested with
        for name in sorted(self.names, key=lambda name: METHODS[name].answer_seconds):  # the quick ones first
            started, before = time.perf_counter(), len(self.found)
            self.requested.append(name)
            token = CancelToken(self.limit.for_answers(len(self.names) - len(self.requested) + 1))
            try:
                self.watch.begin(name, "answers", "answers for the subsample")
                with token:
                    self._propose_by(name, subsample, numbers)
            except KeyboardInterrupt:
                self.failures.append(Failure(name, "interrupted", time.perf_counter() - started))
                raise
            except Cancelled:
                if not token.cancelled:
                    raise
                self.stopped[name] = len(self.found) - before
            except FIT_ERRORS as error:
                self.failures.append(Failure(name, _reason(error), time.perf_counter() - started))
        if not self.found and self.stopped:  # one answer, whatever the budget
            self._propose_by(next(iter(self.stopped)), subsample, numbers[:1])

    def _propose_by(self, name: str, subsample: Subsample, numbers: Sequence[int]) -> None:
        for one in METHODS[name].make_proposer().propose(subsample, numbers, self.overrides.get(name, {})):
            self.found.append(replace(one, method=name, fixed=name in self.overrides))

    def _judge(self) -> Judgement:
        self.watch.begin("judge", "score", "scoring the answers")
        subsample = self.table.subsample
        pool = join_answers(subsample, sorted(self.found, key=lambda one: self.names.index(one.method)))
        if len(pool.partitions) < 2:  # the first is one cluster of all rows
            raise BadData(_no_answer(self.failures, self.found))
        judged = replace(the_judge().judge(subsample, pool), allowed=self.numbers)
        if subsample.mixed is None:
            return judged
        self.gains = likelihood_gains(subsample.mixed, pool.filled)
        self.by_density = judged
        return with_likelihood(judged, self.gains)

    def _member(self, judged: Judgement, at: int, method: str | None = None) -> Partition:
        """Return the first answer of a group of equals, or the first of a method."""
        return next(one for one in judged.pool.members[at] if method is None or one.method == method)

    def _fit(self, judged: Judgement, at: int, chosen: Partition) -> Candidate:
        self.watch.begin(chosen.method, "fit", "fitting")
        left = len(set(self.names) - set(self.candidates))
        return fit_answer(self.table, judged, at, chosen, self.limit.for_fit(left))

    def _fit_best(self, judged: Judgement, at: int) -> str:
        """Fit the best answer, and return whose it is: its first method whose refits on halves agree with it.

        The methods found the same clusters. A setting that finds others on halves of the rows will not keep them when
        rows are added, so it is taken only if no other method does better.
        """
        first, *others = dict.fromkeys(one.method for one in judged.pool.members[at])
        for name in (first, *others):
            if name not in self.candidates:
                self.candidates[name] = self._fit(judged, at, self._member(judged, at, name))
            stability = self.candidates[name].stability
            if stability is None and name == first:  # not measured: nothing speaks against it
                break
            if stability is not None and stability >= STABLE:
                return name
        return first

    def _fit_methods(self, judged: Judgement, order: Ints) -> None:
        """Make a candidate of the best answer of every other method, until a Ctrl-C."""
        position = {at: rank for rank, at in enumerate(order.tolist())}
        for name in self.names:
            of_method = [at for at in position if any(one.method == name for one in judged.pool.members[at])]
            if name in self.candidates:
                continue
            if not of_method:
                if name in self.requested and all(failure.method != name for failure in self.failures):
                    reason = "the budget ended first" if name in self.stopped else "it found fewer than two clusters"
                    self.failures.append(Failure(name, reason, 0.0))
                continue
            at = min(of_method, key=position.__getitem__)
            try:
                self.candidates[name] = self._fit(judged, at, self._member(judged, at, name))
            except KeyboardInterrupt:
                self.interrupted = True
                break
        self.candidates = {name: self.candidates[name] for name in self.names if name in self.candidates}

    def _alternatives(self, judged: Judgement, shown: list[int], labels: Ints) -> tuple[Alternative, ...]:
        """Fit the other answers that are shown, until a Ctrl-C, and list them by what is expected of them."""
        out: list[Alternative] = []
        for at in shown[1:]:
            try:
                other = self._fit(judged, at, self._member(judged, at))
            except KeyboardInterrupt:
                self.interrupted = True
                break
            agreement = float(adjusted_rand_score(labels, other.labels))
            near = bool(judged.score[shown[0]] - judged.score[at] <= _SMALL_LEAD)
            out.append(Alternative(other, near, relation_of(judged, shown[0], at), agreement))
        return tuple(sorted(out, key=lambda one: -one.candidate.expected))

    def _recommendation(
        self, judged: Judgement, best: int, method: str, alternatives: tuple[Alternative, ...]
    ) -> Recommendation:
        found, subsample = self.candidates[method], self.table.subsample
        judged = self.by_density or judged  # of one answer: the likelihood compares answers with each other
        verdict = "clusters" if self.required else verdict_of(judged, best, subsample.n)
        if self.gains is not None and not self.required and not self.gains.max() > 0:
            verdict = "none"
        level = level_of(found.expected)
        more = () if self.gains is None else (reason_for(self.gains, best),)
        return Recommendation(
            method=method,
            verdict=verdict,
            confidence=found.expected,
            level=level,
            reasons=(
                *reasons_for(the_judge(), judged, best, found, subsample, found.labels[self.table.subsample_rows]),
                *more,
            ),
            alternatives=alternatives,
            caution=caution_for(
                verdict, level, alternatives, subsample.n, required=self.required, stability=found.stability
            ),
        )


def _no_answer(failures: Sequence[Failure], found: Sequence[Partition]) -> str:
    """Report why no answer can be recommended: what failed, and how much of the others is noise."""
    reasons = [f"{failure.method}: {failure.reason.rstrip('.')}" for failure in failures]
    for name in dict.fromkeys(one.method for one in found):
        least = min((one for one in found if one.method == name), key=lambda one: (one.labels < 0).mean())
        share = float((least.labels < 0).mean())
        noise = f", {100 * share:.0f} % noise" if share > 0 else ""
        reasons.append(f"{name}: {plural(least.n_clusters, 'cluster')}{noise}")
    return f"no method found two clusters in most of the rows ({'; '.join(reasons)})."


def _reason(error: Exception) -> str:
    """Report why a method gave no answer; errors that are not ours with their type: the message may mean little."""
    return str(error) if isinstance(error, KnollError) else f"it cannot be fitted to these rows ({error})"


def _notes(plan: Plan, n: int, work: _Work, seconds: float, budget: float) -> tuple[str, ...]:
    """Report what was sampled, what supports the answers, and whether the budget was too small for that."""
    late = tuple(
        f"{name}: the budget ended after {plural(answers, 'answer')} for the subsample."
        for name, answers in work.stopped.items()
        if answers
    )
    if seconds > _OVER * budget:
        least = (
            f"Choosing parameters on {plan.subsample} rows and labelling all {n} takes that long. "
            "Use methods= (--methods) to run fewer methods."
        )
        late += (f"It took {seconds:.2g} s, more than the budget of {budget:g} s. {least}",)
    if plan.subsample == n:
        return late
    sampled = f"Parameters were chosen, and answers judged, on {plan.subsample} of {n} rows drawn at random."
    approximate = (
        f"{name}: {one.how if one.shortcut is None else one.shortcut}."
        for name, one in work.candidates.items()
        if one.fitted_rows < n
    )
    return (sampled, *approximate, *late)


@dataclass(frozen=True)
class _Limit:
    """The budget as deadlines: for the answers on the subsample, and for the fits to the table."""

    begun: float
    budget: float

    def for_answers(self, left: int) -> float | None:
        """Return the seconds that the next of `left` methods may take: half of what remains, the last one all of it."""
        return self._share(_ANSWERS, 2 if left > 1 else 1)

    def for_fit(self, left: int) -> float | None:
        """Return the seconds that the next fit may take, if so many methods are left."""
        return self._share(1.0, 2 if left > 1 else 1)

    def for_other_scalings(self) -> float | None:
        """Return the seconds that checks of the answer may take: a little of the budget, and of what remains."""
        remaining = self._share(1.0, 2)
        return None if remaining is None else min(remaining, _OTHER_SCALINGS * self.budget)

    def _share(self, fraction: float, among: int) -> float | None:
        if math.isinf(self.budget):
            return None
        remaining = self.begun + fraction * self.budget - time.perf_counter()
        return max(_LEAST_SECONDS, remaining / among)


class _Watch:
    """Reports progress: each task counts as what it is expected to take, in whichever order they come."""

    def __init__(self, progress: Callable[[Event], None] | None, begun: float, plan: Plan) -> None:
        self.progress, self.begun = progress, begun
        if progress is not None:
            progress(Event("plan", str(plan), 0.0, None, peak_memory()))
        self.tasks, self.total = plan.tasks, sum(plan.tasks.values())
        self.done, self.current = 0.0, 0.0

    def begin(self, method: str, task: str, stage: str) -> None:
        """Report that the last task is done and another one begins."""
        self.done += self.current
        self.current = self.tasks.pop((method, task), 0.0)
        self._report(method, stage, min(1.0, self.done / self.total))

    def end(self) -> None:
        """Report that all is done."""
        self._report("judge", "done", 1.0)

    def _report(self, method: str, stage: str, fraction: float) -> None:
        if self.progress is None:
            return
        spent = time.perf_counter() - self.begun
        left = spent * (1 - fraction) / fraction if fraction > 0 else None
        self.progress(Event(method, stage, fraction, left, peak_memory()))


# ---- parameters ------------------------------------------------------------------------------------------------------


def _methods(methods: Sequence[str] | None) -> tuple[str, ...]:
    known = compared(mixed=True)
    requested = known if methods is None else (methods,) if isinstance(methods, str) else tuple(methods)
    for name in requested:
        if name not in known:
            raise InvalidParameter(f"methods: unknown method {name!r}. Choose from: {', '.join(known)}.")
    if not requested:
        raise InvalidParameter(f"methods is empty. Choose from: {', '.join(known)}; None is all.")
    return tuple(name for name in known if name in requested)


def _of_table(requested: tuple[str, ...], every: bool, *, mixed: bool) -> tuple[str, ...]:
    """Return the methods for the table; those for mixed tables need categories or missing values."""
    found = tuple(name for name in requested if name in compared(mixed))
    if not every and len(found) < len(requested):
        other = next(name for name in requested if name not in found)
        raise InvalidParameter(
            f"methods: {other} is for tables with categories or missing values, and this one has neither. "
            f"Choose from: {', '.join(compared())}."
        )
    return found


def _numbers(k: Iterable[int] | None) -> tuple[tuple[int, ...] | None, bool]:
    """Return the numbers of clusters from 2 on, and whether one of them is required: "no clusters" counts as 1."""
    if k is None:
        return None, False
    try:
        numbers = sorted({int(number) for number in k})
    except (TypeError, ValueError):
        raise InvalidParameter(f"k must be some whole numbers, got {k!r}. For one to fifteen: range(1, 16).") from None
    if not numbers or numbers[0] < 1 or numbers[-1] < 2:
        raise InvalidParameter(
            f"k must be whole numbers from 1 on with one above 1, got {k!r}. For one to fifteen: range(1, 16)."
        )
    return tuple(number for number in numbers if number > 1), numbers[0] > 1


_REQUESTED_ELSEWHERE = {"n_jobs": "n_jobs of the comparison", "random_state": "seed", "verbose": "progress"}


def _overrides(parameters: Mapping[str, Mapping[str, Any]] | None, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the parameters that are set by hand, each checked against the rules of its estimator before any work."""
    overrides: dict[str, dict[str, Any]] = {}
    for name, values in (parameters or {}).items():
        if name not in compared(mixed=True):
            raise InvalidParameter(
                f"parameters: unknown method {name!r}. Choose from: {', '.join(compared(mixed=True))}."
            )
        if name not in names:
            raise InvalidParameter(f"parameters: {name} is not among the methods, which are {', '.join(names)}.")
        proposer = METHODS[name].make_proposer()
        known = proposer.estimator().get_params()
        for parameter in values:
            if parameter in _REQUESTED_ELSEWHERE:
                raise InvalidParameter(
                    f"parameters: {parameter} of {name}: use {_REQUESTED_ELSEWHERE[parameter]} instead."
                )
            if parameter not in known:
                raise InvalidParameter(f"parameters: {name} has no {parameter!r}. It has {', '.join(sorted(known))}.")
        proposer.check(checked_radius(values, proposer.estimator.__name__))
        # None where None is the default leaves the choice to the data, as if nothing had been set
        overrides[name] = {key: value for key, value in values.items() if value is not None or known[key] is not None}
    return overrides


def _refuse_too_many(numbers: tuple[int, ...] | None, overrides: Mapping[str, Mapping[str, Any]], n: int) -> None:
    """Refuse more clusters than there are rows."""
    if numbers is not None and numbers[0] > n:
        raise InvalidParameter(f"k begins at {numbers[0]}, but there are {n} rows. Try fewer clusters.")
    for name, values in overrides.items():
        for parameter in ("n_clusters", "n_components"):
            value = values.get(parameter)
            if isinstance(value, numbers_.Integral) and int(value) > n:
                raise InvalidParameter(f"parameters: {parameter} of {name} is {value}, but there are {n} rows.")


def _kept(truth: ArrayLike, rows: TypedTable | None) -> ArrayLike:
    """Return the known classes of the rows that are kept, where some were left out for missing values."""
    if rows is None or len(np.asarray(truth)) <= len(rows.X):
        return truth
    return np.asarray(truth)[rows.rows]


def _index(X: Any, rows: TypedTable | None) -> Any:
    """Return the index of the rows of a data frame that are kept."""
    index = getattr(X, "index", None) if hasattr(X, "iloc") else None
    return index if index is None or rows is None or len(rows.rows) == len(index) else index[rows.rows]
