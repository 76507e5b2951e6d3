"""One method on one table: a setting chosen on the view, fitted to the planned rows, the rest labelled, then judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._typing import Floats, Indices, Ints
from knoll.base import collect_warnings
from knoll.comparison.methods import FIT_ERRORS, Proposal, Proposer, Subsample
from knoll.comparison.plan import Plan
from knoll.comparison.result import Candidate, Shortcut
from knoll.comparison.scores import count_clusters, internal_scores
from knoll.comparison.stability import stability
from knoll.exceptions import BadData
from knoll.metrics import adjusted_rand_score
from knoll.models._relabeled import Relabeled, most_probable
from knoll.registry import METHODS

__all__ = ["Outcome", "content_order", "drawn_rows", "fit_method"]


_SECOND = 10  # times the view: a fit that certifies another takes no more rows


@dataclass(frozen=True)
class Outcome:
    """What one method gave."""

    candidate: Candidate
    density_ari: float  # adjusted Rand index with the partition that the density suggests
    interrupted: bool  # Ctrl-C came when the answer was there and not yet judged


def fit_method(
    name: str,
    view: Subsample,
    given: Mapping[str, Any],
    scaled: Floats,
    order: Indices,
    plan: Plan,
    tell: Callable[[str], None],
) -> Outcome:
    """Choose a setting on the view, fit it to the planned rows, label the rest; then judge what was found."""
    started = time.perf_counter()
    method, route = METHODS[name].make_proposer(), plan.routes[name]
    with collect_warnings() as caught:
        chosen = _choose(method, view, given, name)
    tell("fitting")
    model = chosen.model
    rows = drawn_rows(order, route.rows, view.seed)
    if route.rows > plan.view:
        with collect_warnings() as caught:
            model = method.fit(chosen, scaled[rows], view)
    answer = chosen.relabeled(model)
    probabilities = answer.predict_proba(scaled) if hasattr(answer, "predict_proba") else None
    labels = _labels(answer, probabilities, scaled, rows)
    seen = labels[drawn_rows(order, plan.view, view.seed)]
    interrupted = False
    scores: dict[str, float] = {}
    mean, spread, shortcut = None, None, None
    try:
        tell("stability")
        scores = internal_scores(method.scores, model, view.points, seen, view.n_jobs)
        shortcut = _shortcut(name, method, chosen, model, labels, scaled, order, plan, view)
        mean, spread = stability(method, chosen, view)
    except KeyboardInterrupt:  # the answer is there: it is kept, with as much of the judgement as there is
        interrupted = True
    found = Candidate(
        method=name,
        model=answer,
        labels=labels,
        probabilities=probabilities,
        parameters=_settled(chosen.parameters, model),
        evidence=chosen.evidence,
        n_clusters=count_clusters(labels),
        noise=float((labels < 0).mean()),
        scores=scores,
        stability=mean,
        stability_spread=spread,
        fitted_rows=route.rows,
        how=route.how,
        certificate=method.residual(model),
        seconds=time.perf_counter() - started,
        warnings=tuple(dict.fromkeys(map(str, caught))),
        groups=chosen.groups,
        shortcut=shortcut,
    )
    density_ari = float(adjusted_rand_score(view.density.labels, seen)) if view.density.count > 1 else 0.0
    return Outcome(found, density_ari, interrupted)


def _choose(method: Proposer, view: Subsample, given: Mapping[str, Any], name: str) -> Proposal:
    """Take the setting that density_ari the clusters of the density best: the earlier of equals, the first without any.

    Where a number of clusters is required, settings with such a number come before all others.
    """
    proposals = list(method.propose(view, given))
    if not proposals:
        raise BadData(f"{name} found no setting to try on these rows.")
    if view.required:
        proposals = [one for one in proposals if count_clusters(one.labels) in view.k] or proposals
    match = [
        adjusted_rand_score(view.density.labels, one.labels) if view.density.count > 1 else 0.0 for one in proposals
    ]
    return proposals[int(np.argmax(np.round(match, 2)))]


def _labels(model: Any, probabilities: Floats | None, scaled: Floats, rows: Indices) -> Ints:
    """Return what `predict` gives for all rows, from what is there already: probabilities, the labels of the fit."""
    if isinstance(model, Relabeled):
        return model.predict(scaled) if probabilities is None else most_probable(probabilities, model.n_clusters)
    labels = np.empty(len(scaled), np.int64)
    labels[rows] = model.labels_
    if len(rows) < len(scaled):
        left = np.ones(len(scaled), bool)
        left[rows] = False
        labels[left] = model.predict(scaled[left])
    return labels


def _shortcut(
    name: str,
    method: Proposer,
    chosen: Proposal,
    model: Any,
    labels: Ints,
    scaled: Floats,
    order: Indices,
    plan: Plan,
    view: Subsample,
) -> Shortcut | None:
    """Certify an answer that did not see every row: does a fit to other rows part the view alike?"""
    route, n = plan.routes[name], len(scaled)
    if route.rows == n:
        return None
    others = drawn_rows(order, min(route.rows, _SECOND * plan.view, n), view.seed, after=route.rows)
    judged = drawn_rows(order, plan.view, view.seed)
    with collect_warnings():
        try:
            again = chosen.relabeled(method.fit(chosen, scaled[others], view)).predict(scaled[judged])
        except FIT_ERRORS:  # the answer is there; it has no certificate
            return None
    agrees = adjusted_rand_score(labels[judged], again)
    return Shortcut(route.rows / n, len(others), float(agrees), method.residual(model))


def _settled(parameters: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Return the parameters as they are in the last fit: a scale may have followed the number of rows."""
    now = {name: getattr(model, name) for name in parameters}
    return {
        name: parameters[name] if isinstance(value, str) and value == "auto" else value for name, value in now.items()
    }


# ---- which rows ----------------------------------------------------------------------------------------------------


def content_order(points: NDArray[Any]) -> Indices:
    """Sort the rows by their contents, so that whatever is drawn or summed does not depend on their order.

    The first column decides nearly all; only rows that are equal there are sorted by the others.
    """
    order = np.argsort(points[:, 0], kind="stable")
    first = points[order, 0]
    equal = first[1:] == first[:-1]
    tied = np.flatnonzero(np.r_[equal, False] | np.r_[False, equal])
    some = order[tied]
    order[tied] = some[np.lexsort(points[some].T[::-1])]
    return order


def drawn_rows(order: Indices, size: int, seed: int, after: int = 0) -> Indices:
    """Draw so many rows, in order of content; smaller draws are part of larger ones.

    With `after` the draw begins where one of that size has ended, as far as there are so many rows.
    """
    n = len(order)
    if size >= n:
        return order
    after = min(after, n - size)
    ranks = np.random.default_rng(seed).permutation(n)
    return order[np.flatnonzero((ranks >= after) & (ranks < after + size))]
