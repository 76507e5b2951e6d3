"""OPTICS: the ordering by the definition, cuts by the rule of Ankerst et al., scikit-learn where nothing ties."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import OPTICS as Peer

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.laws import (
    exact_powers,
    exponent_range,
    quiet,
    same_bits_of_any_form,
    same_bits_of_any_threads,
    survives_clone,
    survives_pickle,
    survives_saving,
)
from fuzz.tables import Table

ANSWERS = ("labels_", "ordering_", "reachability_", "core_distances_", "predecessor_")


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; max_eps is seldom finite, and then a distance of the table."""
    drawn: dict[str, Any] = {"min_samples": int(rng.choice([2, 3, 5, 8])), "n_jobs": 1}
    if rng.random() < 0.3:
        drawn["metric"] = str(rng.choice(["euclidean", "manhattan", "chebyshev", "canberra"]))
    if rng.random() < 0.25:
        reach = float(np.ptp(table.X.astype(np.float64) / 4, axis=0).max())
        drawn["max_eps"] = reach if 0 < reach < np.inf else 1.0
    if rng.random() < 0.3:
        drawn["cluster_method"] = "dbscan"
    if rng.random() < 0.3:
        drawn["xi"] = float(rng.choice([0.01, 0.2, 0.5]))
        drawn["predecessor_correction"] = bool(rng.random() < 0.5)
    return drawn


def _metric(case: Case) -> str:
    name = str(case.parameters.get("metric", "euclidean"))
    return "euclidean" if name == "minkowski" else name


def _distances(case: Case) -> Any:
    """The one distance, of all pairs; other metrics of the core likewise, in the order of the columns."""
    X = case.X.astype(np.float64)
    found = np.zeros((len(X), len(X)))
    for column in X.T:
        gap = np.abs(column[:, None] - column)
        if _metric(case) == "chebyshev":
            found = np.maximum(found, gap)
        else:
            found += gap if _metric(case) == "manhattan" else gap * gap
    return np.sqrt(found) if _metric(case) == "euclidean" else found


def the_ordering_follows_the_definition(case: Case, model: Any) -> str | None:
    """From each row in turn the others get max(c(p), d(p, o)); the least follows, of equal ones the lowest row."""
    if not case.ordinary or _metric(case) not in ("euclidean", "manhattan", "chebyshev"):
        return None
    distances, n, k = _distances(case), len(case.X), int(model.min_samples)
    core = np.sort(distances, axis=1)[:, k - 1] if k <= n else np.full(n, np.inf)
    core = np.where(core <= model.max_eps, core, np.inf)
    if not np.array_equal(core, model.core_distances_):
        return "core_distances_ differ"
    reach, before, left, order = np.full(n, np.inf), np.full(n, -1), np.ones(n, dtype=bool), []
    for _ in range(n):
        p = int(np.flatnonzero(left)[reach[left].argmin()])
        left[p] = False
        order.append(p)
        if np.isinf(core[p]):
            continue
        new = np.maximum(core[p], distances[p])
        better = left & (distances[p] <= model.max_eps) & (new < reach)
        reach[better], before[better] = new[better], p
    for name, found in (("ordering_", order), ("reachability_", reach), ("predecessor_", before)):
        if not np.array_equal(found, getattr(model, name)):
            return f"{name} differs"
    return None


def the_plot_is_whole(case: Case, model: Any) -> str | None:
    """Every row is in the ordering once; reachabilities are at least the core distance of the predecessor."""
    n = len(case.X)
    if not np.array_equal(np.sort(model.ordering_), np.arange(n)):
        return "ordering_ does not have every row once"
    reached = model.predecessor_ >= 0
    if not np.array_equal(reached, np.isfinite(model.reachability_)):
        return "rows without a predecessor are not those of infinite reachability"
    low = model.reachability_[reached] < model.core_distances_[model.predecessor_[reached]]
    return "a reachability is below the core distance of its predecessor" if low.any() else None


def a_cut_is_the_rule(case: Case, model: Any) -> str | None:
    """A row of reachability above ε is noise, or begins a cluster where its core distance is at most ε."""
    heights = np.unique(np.concatenate([model.reachability_, model.core_distances_]))
    heights = heights[np.isfinite(heights) & (heights > 0)]
    for eps in case.rng(1).choice(heights, size=min(3, len(heights)), replace=False).tolist():
        expected, at = np.full(len(case.X), -1), -1
        for row in model.ordering_.tolist():
            if model.reachability_[row] > eps:
                at += model.core_distances_[row] <= eps
                expected[row] = at if model.core_distances_[row] <= eps else -1
            else:
                expected[row] = at
        if not np.array_equal(model.cut(eps), expected):
            return f"cut({eps!r}) differs"
    return None


def scikit_learn_agrees(case: Case, model: Any) -> str | None:
    """scikit-learn's ordering and labels on the same distances, where no two of them are close.

    Rows nearer than the core distance c of the row p before them tie, max(c, d) = c, the row at c itself included. From
    points scikit-learn computes c and d by two formulas, so that by rounding this row may come later; from a
    matrix both are one number, and the lower row comes first, as here.
    """
    if not case.ordinary or case.X.dtype != np.float64 or case.table.shape not in ("cloud", "blobs"):
        return None
    if _metric(case) != "euclidean" or len(case.X) < int(model.min_samples):
        return None
    distances = _distances(case)
    gaps = np.sort(distances[np.triu_indices(len(distances), 1)])
    if (
        len(gaps) < 1
        or (np.diff(gaps) <= 1e-7 * gaps[-1]).any()
        or (np.abs(gaps - model.max_eps) <= 1e-7 * gaps[-1]).any()
    ):
        return None
    options = {name: value for name, value in case.parameters.items() if name != "n_jobs"}
    with quiet():
        peer = Peer(**(options | {"metric": "precomputed"})).fit(distances)
    if not np.allclose(model.core_distances_, peer.core_distances_, rtol=1e-9):
        return "core_distances_ differ from scikit-learn's"
    if not np.array_equal(model.ordering_, peer.ordering_):
        return "ordering_ differs from scikit-learn's"
    with np.errstate(all="ignore"):
        plot = model.reachability_[model.ordering_]
        steps = np.append(plot[:-1] / plot[1:], np.inf)
    steep = 1 - model.xi
    doubt = np.abs(steps - steep) <= 1e-6, np.abs(steps - 1 / steep) <= 1e-6, np.abs(steps - 1) <= 1e-9
    if any(marks[np.isfinite(steps)].any() for marks in doubt):
        return None  # rounding decides whether a step is steep
    return None if np.array_equal(model.labels_, peer.labels_) else "labels_ differ from scikit-learn's"


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X with 2^p max_eps has the same ordering and labels."""
    if _metric(case) == "canberra" or np.abs(case.X.astype(np.float64)).max() > 1e307:
        return None  # distances of up to 2 max |x|, times √d, may be infinite, and smaller ones of 2^p X are not
    limits = [model.max_eps] if np.isfinite(model.max_eps) else []
    heights = model.reachability_[np.isfinite(model.reachability_) & (model.reachability_ > 0)]
    numbers = np.concatenate([case.X.astype(np.float64).ravel(), limits])
    if exponent_range(np.concatenate([numbers, heights])) > 900:
        return None
    p = exact_powers(numbers, int(case.rng(3).choice([-300, -40, 3, 40, 300])))
    if len(heights) and not (np.ldexp(heights.min(), p) > 1e-290 and np.ldexp(heights.max(), p) < 1e290):
        return None
    if len(heights) and heights.min() < 1e-290:
        return None
    changes = {"max_eps": float(np.ldexp(model.max_eps, p))} if limits else {}
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), **changes)
    if not np.array_equal(model.ordering_, other.ordering_):
        return f"ordering_ differs under 2^{p} X"
    return None if np.array_equal(model.labels_, other.labels_) else f"labels_ differ under 2^{p} X"


def precomputed_distances_agree(case: Case, model: Any) -> str | None:
    """A matrix of the same distances has the same ordering."""
    if not case.ordinary or _metric(case) not in ("euclidean", "manhattan", "chebyshev") or len(case.X) < 2:
        return None
    other = case.fit(_distances(case), metric="precomputed")
    return None if np.array_equal(model.ordering_, other.ordering_) else "ordering_ differs"


FAMILY = Family(
    name="optics",
    estimator=knoll.OPTICS,
    parameters=parameters,
    weighted=False,
    most_rows=60,
    laws=(
        the_ordering_follows_the_definition,
        the_plot_is_whole,
        a_cut_is_the_rule,
        scikit_learn_agrees,
        precomputed_distances_agree,
        powers_of_two_are_units,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "min_samples|min_cluster_size",
            lambda case: len(case.X) < case.parameters["min_samples"],
            "too few rows",
        ),
    ),
)
