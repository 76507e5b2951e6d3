"""The whole way: table → scaled rows → a view → settings of each method → fits → judgement → recommendation."""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from knoll.comparison.judge import agreement_of, count_clusters, internal_scores, known_labels, truth_scores
from knoll.comparison.methods import ALL, View, named
from knoll.comparison.plan import Plan, make_plan
from knoll.comparison.profile import profile_of
from knoll.comparison.recommend import recommend
from knoll.comparison.result import METHODS, Candidate, Comparison, Event, Failure
from knoll.comparison.scaling import Scaling
from knoll.comparison.stability import stability
from knoll.comparison.survey import nothing, survey
from knoll.exceptions import BadData, InvalidParameter, KnollError, KnollWarning
from knoll.metrics import adjusted_rand_score
from knoll.validation import N_JOBS, RANDOM_STATE, Number, check_parameters, check_points

__all__ = ["compare"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def compare(
    X: ArrayLike,
    *,
    methods: Sequence[str] | None = None,
    k: Iterable[int] = range(2, 16),
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
    """Fit six methods to one table with parameters chosen from the data, and recommend one of their answers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The table: finite numbers.
    methods : sequence of str, default=None
        Some of "gaussian-mixture", "kmeans", "kernel-kmeans", "spectral", "dbscan", "mean-shift"; None is all.
    k : iterable of int, default=range(2, 16)
        Numbers of clusters to try.
    scale : {"standard", "robust", "none"}, default="standard"
        How columns are put on one footing first.
    truth : array-like of shape (n_samples,), default=None
        Labels to compare the answers with. They are not looked at before everything is decided.
    columns : sequence of str, default=None
        Names of the columns; None takes those of a data frame, or numbers.
    seed : int, default=0
        What samples and starts are drawn from.
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
    numbers = _numbers(k)
    given = _given(parameters, names)
    check_parameters(
        "compare",
        {"seed": seed, "n_jobs": n_jobs, "budget": budget},
        {"seed": RANDOM_STATE, "n_jobs": N_JOBS, "budget": (Number(0, strict=True),)},
    )
    points = check_points(X, n_jobs=n_jobs)
    if len(points) < 2:
        raise BadData(f"compare needs at least 2 rows, got {len(points)}.")
    known = None if truth is None else known_labels(truth, len(points))
    order = content_order(points)
    table = profile_of(points, _columns(X, columns, points.shape[1]), order)
    scaling = Scaling.fit(points, scale, order)
    scaled = scaling.apply(points)  # (n, d)
    plan = make_plan(len(points), points.shape[1], names, float(budget), exact)
    watch = _Watch(progress, begun, len(names))

    rows = drawn_rows(order, plan.view, seed)
    candidates: dict[str, Candidate] = {}
    meets: dict[str, float] = {}
    failures: list[Failure] = []
    interrupted = False
    found = nothing(plan.view, "the run was interrupted before the density was looked at")
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():  # sums of BLAS depend on its threads
        warnings.simplefilter("ignore", KnollWarning)
        try:
            watch.tell("density", "mixtures", 0.0)
            found = survey(
                scaled[rows], numbers, given.get("gaussian-mixture", {}), seed, n_jobs,
                lambda stage, share: watch.tell("density", stage, share),
            )  # fmt: skip
            view = View(scaled[rows], len(points), numbers, found, seed, n_jobs)
            for at, name in enumerate(names, start=1):
                started = time.perf_counter()
                try:
                    watch.tell(name, "choosing parameters", at)
                    candidates[name], meets[name] = _run(
                        name,
                        view,
                        given.get(name, {}),
                        scaled,
                        order,
                        plan,
                        partial(watch.tell, name, done=at + 0.5),
                    )
                except KeyboardInterrupt:
                    failures.append(Failure(name, "interrupted", time.perf_counter() - started))
                    raise
                except (KnollError, ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
                    failures.append(Failure(name, str(error), time.perf_counter() - started))
        except KeyboardInterrupt:
            interrupted = True
        watch.tell("judge", "comparing the answers", len(names) + 1)
        agreement = agreement_of({name: one.labels[rows] for name, one in candidates.items()})
    advice = recommend(candidates, meets, agreement, found)
    labels = np.zeros(len(points), np.int64) if advice.method is None else candidates[advice.method].labels
    scored = None if known is None else truth_scores(known, candidates)
    watch.tell("judge", "done", len(names) + 2)
    return Comparison(
        profile=table,
        scaling=scaling,
        candidates=candidates,
        failures=tuple(failures),
        agreement=agreement,
        recommendation=advice,
        truth_scores=scored,
        labels=labels,
        seed=seed,
        budget=float(budget),
        seconds=time.perf_counter() - begun,
        interrupted=interrupted,
        notes=_notes(plan, len(points)),
    )


def _notes(plan: Plan, n: int) -> tuple[str, ...]:
    """Say what was sampled."""
    if plan.view == n:
        return ()
    looked = f"Parameters were chosen, and answers judged, on {plan.view} of {n} rows drawn at random."
    return (looked, *(f"{name}: {route.how}." for name, route in plan.routes.items() if route.rows < n))


# ---- one method ----------------------------------------------------------------------------------------------------


def _run(
    name: str,
    view: View,
    given: Mapping[str, Any],
    scaled: Floats,
    order: NDArray[np.intp],
    plan: Plan,
    tell: Callable[[str], None],
) -> tuple[Candidate, float]:
    """Choose a setting on the view, fit it to the planned rows, label the rest; also say how it meets the survey."""
    started = time.perf_counter()
    method, route = ALL[name], plan.routes[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        proposals = list(method.propose(view, given))
    if not proposals:
        raise BadData(f"{name} found no setting to try on these rows.")
    # the setting that meets the clusters of the density best, the earlier of equals; the first where there are none
    match = [adjusted_rand_score(view.survey.labels, one.labels) if view.survey.count > 1 else 0.0 for one in proposals]
    chosen = proposals[int(np.argmax(np.round(match, 2)))]
    tell("fitting")
    model = chosen.model
    rows = drawn_rows(order, route.rows, view.seed)
    if route.rows > plan.view:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = method.fit(chosen, scaled[rows], view)
    labels = np.empty(len(scaled), np.int64)
    labels[rows] = named(model.labels_, chosen.groups)
    if route.rows < len(scaled):
        left = np.ones(len(scaled), bool)
        left[rows] = False
        labels[left] = named(model.predict(scaled[left]), chosen.groups)
    tell("stability")
    mean, spread = stability(method, chosen, view)
    seen = labels[drawn_rows(order, plan.view, view.seed)]
    found = Candidate(
        method=name,
        model=model,
        labels=labels,
        probabilities=_probabilities(model, scaled, chosen.groups) if name == "gaussian-mixture" else None,
        parameters=_settled(chosen.parameters, model),
        evidence=chosen.evidence,
        n_clusters=count_clusters(labels),
        noise=float((labels < 0).mean()),
        scores=internal_scores(name, model, view.points, seen, view.n_jobs),
        stability=mean,
        stability_spread=spread,
        fitted_rows=route.rows,
        how=route.how,
        certificate=float(np.max(model.eigen_residual_)) if name == "spectral" else None,
        seconds=time.perf_counter() - started,
        warnings=tuple(dict.fromkeys(str(one.message) for one in caught)),
        groups=chosen.groups,
    )
    return found, float(adjusted_rand_score(view.survey.labels, seen)) if view.survey.count > 1 else 0.0


def _settled(parameters: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Return the parameters as they are in the last fit: a scale may have followed the number of rows."""
    now = {name: getattr(model, name) for name in parameters}
    return {
        name: parameters[name] if isinstance(value, str) and value == "auto" else value for name, value in now.items()
    }


def _probabilities(model: Any, scaled: Floats, groups: tuple[int, ...] | None) -> Floats:
    """Return the probability of each cluster: the sum over the components that were joined to it."""
    own = np.asarray(model.predict_proba(scaled), dtype=np.float64)  # (n, components)
    if groups is None:
        return own
    joined = np.zeros((len(own), max(groups) + 1))
    for component, group in enumerate(groups):
        joined[:, group] += own[:, component]
    return joined


def content_order(points: NDArray[Any]) -> NDArray[np.intp]:
    """Sort the rows by their contents, so that whatever is drawn or summed does not depend on their order."""
    return np.lexsort(points.T[::-1])


def drawn_rows(order: NDArray[np.intp], size: int, seed: int) -> NDArray[np.intp]:
    """Draw so many rows, in order of content; smaller draws are part of larger ones."""
    n = len(order)
    if size >= n:
        return order
    ranks = np.random.default_rng(seed).permutation(n)
    return order[np.flatnonzero(ranks < size)]


class _Watch:
    """Tells how far we are."""

    def __init__(self, progress: Callable[[Event], None] | None, begun: float, methods: int) -> None:
        self.progress, self.begun, self.whole = progress, begun, methods + 2

    def tell(self, method: str, stage: str, done: float) -> None:
        if self.progress is None:
            return
        fraction = min(1.0, done / self.whole)
        spent = time.perf_counter() - self.begun
        left = spent * (1 - fraction) / fraction if fraction > 0 else None
        self.progress(Event(method, stage, fraction, left, _memory()))


def _memory() -> int:
    """Return the bytes that the process holds, where the system tells; else the most it has held."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# ---- the door ------------------------------------------------------------------------------------------------------


def _methods(methods: Sequence[str] | None) -> tuple[str, ...]:
    asked = METHODS if methods is None else (methods,) if isinstance(methods, str) else tuple(methods)
    for name in asked:
        if name not in METHODS:
            raise InvalidParameter(f"methods: there is no {name!r}. Choose some of {', '.join(METHODS)}.")
    if not asked:
        raise InvalidParameter(f"methods is empty. Choose some of {', '.join(METHODS)}, or None for all.")
    return tuple(name for name in METHODS if name in asked)


def _numbers(k: Iterable[int]) -> tuple[int, ...]:
    try:
        numbers = sorted({int(number) for number in k})
    except (TypeError, ValueError):
        raise InvalidParameter(f"k must be some whole numbers, got {k!r}. For two to fifteen: range(2, 16).") from None
    if not numbers or numbers[0] < 2:
        raise InvalidParameter(f"k must be whole numbers from 2 on, got {k!r}. For two to fifteen: range(2, 16).")
    return tuple(numbers)


def _given(parameters: Mapping[str, Mapping[str, Any]] | None, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    given = {str(name): dict(values) for name, values in (parameters or {}).items()}
    for name, values in given.items():
        if name not in METHODS:
            raise InvalidParameter(f"parameters: there is no method {name!r}. Choose some of {', '.join(METHODS)}.")
        known = ALL[name].estimator().get_params()
        for parameter in values:
            if parameter not in known:
                raise InvalidParameter(f"parameters: {name} has no {parameter!r}. It has {', '.join(sorted(known))}.")
    return given


def _columns(X: Any, columns: Sequence[str] | None, d: int) -> tuple[str, ...]:
    names = getattr(X, "columns", range(d)) if columns is None else columns
    names = tuple(str(name) for name in names)
    if len(names) != d:
        raise InvalidParameter(f"columns has {len(names)} names for {d} columns. Give one for each.")
    return names
