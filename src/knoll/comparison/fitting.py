"""An answer for the subsample as a model of the whole table: fitted to the planned rows, the others labelled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from knoll._common.cancel import CancelToken
from knoll._typing import Floats, Indices, Ints
from knoll.base import collect_warnings
from knoll.comparison.evidence import scores_by_number
from knoll.comparison.judge import Judgement
from knoll.comparison.methods import FIT_ERRORS, Partition, Proposer
from knoll.comparison.plan import Plan
from knoll.comparison.recommend import AGREES
from knoll.comparison.result import Candidate, Shortcut
from knoll.comparison.scores import count_clusters, internal_scores
from knoll.comparison.stability import stability
from knoll.comparison.subsample import MixedRows, Subsample
from knoll.exceptions import Cancelled
from knoll.metrics import adjusted_rand_score
from knoll.models._relabeled import Relabeled, most_probable
from knoll.neighbors import NearestRows
from knoll.neighbors.index import UniqueRowIndex
from knoll.registry import METHODS

__all__ = ["Table", "content_order", "drawn_rows", "fit_answer"]

T = TypeVar("T")


_SECOND = 10  # times the subsample: a fit that certifies another takes no more rows
_FAITHFUL = (
    0.95  # adjusted Rand index of the model and the answer on the subsample, else the nearest rows are the model
)


@dataclass(frozen=True)
class Table:
    """The scaled table, and which of its rows are seen."""

    scaled: Floats  # (n, d)
    order: Indices  # (n,) by content
    plan: Plan
    subsample: Subsample
    mixed: MixedRows | None = None  # the same rows with categories and missing values, if there are any

    def rows(self, proposer: Proposer) -> Floats:
        """Return the rows of the table that a method takes."""
        if not proposer.mixed:
            return self.scaled
        assert self.mixed is not None
        return self.mixed.values

    def other_subsample(self, rows: Indices) -> Subsample:
        """Return other rows than those that answers were judged on."""
        own = self.subsample
        mixed = None if self.mixed is None else self.mixed.take(rows)
        return Subsample(self.scaled[rows], own.seed, own.threads, mixed=mixed)

    @cached_property
    def subsample_rows(self) -> Indices:
        """(m,) the rows of the subsample."""
        return drawn_rows(self.order, self.plan.subsample, self.subsample.seed)

    @cached_property
    def nearest(self) -> Ints:
        """(n,) the row of the subsample that is nearest to each row of the table, as `NearestRows` finds it."""
        return UniqueRowIndex(self.subsample.points, np.inf, "euclidean", 2.0, self.subsample.threads).nearest(
            self.scaled
        )[0]


def fit_answer(table: Table, judged: Judgement, at: int, chosen: Partition, limit: float | None = None) -> Candidate:
    """Make the model of an answer, label every row, and score it.

    After `limit` seconds the nearest rows of the subsample are the model, and what is not measured yet is left out.
    """
    started, token = time.perf_counter(), CancelToken(limit)
    name, subsample = chosen.method, table.subsample
    proposer, route = METHODS[name].make_proposer(), table.plan.routes[name]
    with collect_warnings() as caught:
        found = _within(token, lambda: _labelled(*_model(proposer, chosen, table, route.rows), table, proposer))
        model, rows, probabilities, labels = found or _labelled(*_nearest_rows(chosen, table), table, proposer)
    seen = labels[table.subsample_rows]
    native = not isinstance(model, NearestRows)
    measured = native and _affordable(proposer, table, 3 * subsample.n)
    stable = _within(token, lambda: stability(proposer, chosen, subsample)) if measured else None
    mean, deviation = stable or (None, None)
    return Candidate(
        method=name,
        model=model,
        labels=labels,
        probabilities=probabilities,
        parameters=_settled(chosen.parameters, model),
        evidence=scores_by_number(judged, name, chosen),
        n_clusters=count_clusters(labels),
        noise=float((labels < 0).mean()),
        scores=internal_scores(
            _scorer(proposer, subsample, native), _bare(model), subsample.points, seen, subsample.threads
        ),
        stability=mean,
        stability_spread=deviation,
        fitted_rows=len(rows),
        how=route.how if len(rows) == route.rows else f"labels of the nearest of {len(rows)} rows",
        certificate=proposer.residual(model) if native else None,
        seconds=time.perf_counter() - started,
        warnings=tuple(dict.fromkeys(map(str, caught))),
        groups=chosen.groups if native else None,
        shortcut=_within(token, lambda: _shortcut(proposer, chosen, model, labels, table, len(rows))),
        expected=float(judged.expected[at]),
        sources=tuple(np.array(judged.pool.sources)[judged.pool.agreement[at] >= AGREES].tolist()),
        mixed=native and proposer.mixed,
    )


def _within(token: CancelToken, step: Callable[[], T]) -> T | None:
    """Do a step within a token; None if that is cancelled. Tokens of the caller are not caught."""
    try:
        with token:
            return step()
    except Cancelled:
        if token.cancelled:
            return None
        raise


def _scorer(proposer: Proposer, subsample: Subsample, native: bool) -> Callable[[Any, Floats, Ints], dict[str, float]]:
    """Return what scores a model of the method by its own objective; another model has none."""
    if not native:
        return lambda model, points, labels: {}
    return lambda model, points, labels: proposer.scores(model, proposer.rows(subsample), labels)


def _bare(model: Any) -> Any:
    return model.estimator if isinstance(model, Relabeled) else model


def _model(proposer: Proposer, chosen: Partition, table: Table, count: int) -> tuple[Any, Indices]:
    """Fit the estimator of the method; if it does not give the answer again, take the nearest rows of the subsample."""
    if _has_model(proposer, chosen) and (chosen.fixed or _affordable(proposer, table, len(table.scaled) - count)):
        rows = drawn_rows(table.order, count, table.subsample.seed)
        try:
            whole = len(rows) == len(table.subsample_rows) and chosen.model is not None
            model = chosen.with_groups(
                chosen.model if whole else proposer.fit(chosen, table.rows(proposer)[rows], table.subsample)
            )
            again = model.predict(proposer.rows(table.subsample))
        except FIT_ERRORS:
            pass
        else:
            if chosen.fixed or _faithful(chosen, again):
                return model, rows
    return _nearest_rows(chosen, table)


def _nearest_rows(chosen: Partition, table: Table) -> tuple[Any, Indices]:
    model = NearestRows(n_jobs=table.subsample.threads).fit(table.subsample.points, chosen.labels)
    return model, table.subsample_rows


def _labelled(model: Any, rows: Indices, table: Table, proposer: Proposer) -> tuple[Any, Indices, Floats | None, Ints]:
    """Return the model, the rows of its fit, and probabilities and labels of every row."""
    points = table.scaled if isinstance(model, NearestRows) else table.rows(proposer)
    probabilities = model.predict_proba(points) if hasattr(model, "predict_proba") else None
    return model, rows, probabilities, _labels(model, probabilities, table, rows, points)


def _faithful(chosen: Partition, again: Ints) -> bool:
    """Whether a model gives the answer again: the number of its clusters, and nearly the same rows in them."""
    same_number = count_clusters(again) == chosen.n_clusters
    return same_number and adjusted_rand_score(chosen.labels, again) >= _FAITHFUL


def _has_model(proposer: Proposer, chosen: Partition) -> bool:
    """Whether the estimator of the method can label other rows by this answer."""
    return hasattr(proposer.estimator, "predict") and proposer.estimator is not NearestRows and not chosen.filled


def _affordable(proposer: Proposer, table: Table, rows: int) -> bool:
    """Whether labelling so many rows fits the share of the budget."""
    return proposer.predict_seconds(rows, table.subsample.n, table.scaled.shape[1]) <= table.plan.share


def _labels(model: Any, probabilities: Floats | None, table: Table, rows: Indices, points: Floats) -> Ints:
    """Return what `predict` gives for all rows, from what is there already: probabilities, the labels of the fit."""
    if isinstance(model, NearestRows):
        return np.asarray(model.labels_[table.nearest])
    if isinstance(model, Relabeled):
        return model.predict(points) if probabilities is None else most_probable(probabilities, model.n_clusters)
    labels = np.empty(len(points), np.int64)
    labels[rows] = model.labels_
    if len(rows) < len(points):
        left = np.ones(len(points), bool)
        left[rows] = False
        labels[left] = model.predict(points[left])
    return labels


def _shortcut(
    proposer: Proposer, chosen: Partition, model: Any, labels: Ints, table: Table, count: int
) -> Shortcut | None:
    """Certify an answer that was not fitted to every row by a fit to other rows."""
    n, subsample = len(table.scaled), table.subsample
    if count == n:
        return None
    others = drawn_rows(table.order, min(count, _SECOND * subsample.n, n), subsample.seed, after=count)
    nearest = isinstance(model, NearestRows)
    with collect_warnings():
        try:
            if nearest:
                agrees = _found_again(proposer, chosen, table.other_subsample(others), labels[others])
            else:
                again = chosen.with_groups(proposer.fit(chosen, table.rows(proposer)[others], subsample)).predict(
                    proposer.rows(subsample)
                )
                agrees = adjusted_rand_score(labels[table.subsample_rows], again)
        except FIT_ERRORS:  # the answer is there; it has no certificate
            return None
    return Shortcut(count / n, len(others), float(agrees), None if nearest else proposer.residual(_bare(model)))


def _found_again(proposer: Proposer, chosen: Partition, subsample: Subsample, labels: Ints) -> float:
    """Return the agreement with the best answer of the same source for other rows, as many clusters; 0 if none."""
    found = proposer.propose(subsample, [chosen.n_clusters], {})
    alike = (one for one in found if one.source == chosen.source and one.filled == chosen.filled)
    return max(
        (adjusted_rand_score(one.labels, labels) for one in alike if one.n_clusters == chosen.n_clusters), default=0.0
    )


def _settled(parameters: Any, model: Any) -> dict[str, Any]:
    """Return the parameters as they are in the last fit: a scale may have followed the number of rows."""
    bare = _bare(model)
    return {name: getattr(bare, name, value) for name, value in parameters.items()}


# ---- which rows ----------------------------------------------------------------------------------------------------


def content_order(points: NDArray[Any]) -> Indices:
    """Sort the rows by their contents, so that whatever is drawn or summed does not depend on their order.

    The first column decides nearly all; only rows that are equal there are sorted by the others.
    """
    order = np.argsort(points[:, 0], kind="stable")
    first = points[order, 0]
    equal = first[1:] == first[:-1]
    tied = np.flatnonzero(np.r_[equal, False] | np.r_[False, equal])
    ties = order[tied]
    order[tied] = ties[np.lexsort(points[ties].T[::-1])]
    return order


def drawn_rows(order: Indices, size: int, seed: int, after: int = 0) -> Indices:
    """Draw so many rows, in order of content; smaller draws are subsets of larger ones.

    With `after` the draw begins where one of that size has ended, as far as there are so many rows.
    """
    n = len(order)
    if size >= n:
        return order
    after = min(after, n - size)
    ranks = np.random.default_rng(seed).permutation(n)
    return order[np.flatnonzero((ranks >= after) & (ranks < after + size))]
