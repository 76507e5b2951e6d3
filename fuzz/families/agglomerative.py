"""AgglomerativeClustering: heights of SciPy's linkages, partitions of the reference, ties that no order decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.cluster.hierarchy
import scipy.spatial.distance

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.laws import (
    exact_powers,
    exponent_range,
    integer_weights,
    partitions_differ,
    permuted,
    quiet,
    repeated,
    same_bits_of_any_form,
    same_bits_of_any_threads,
    survives_clone,
    survives_pickle,
    survives_saving,
)
from fuzz.tables import Table
from knoll import reference

ANSWERS = ("labels_", "children_", "distances_", "n_clusters_")
_REFERENCE = {
    "ward": reference.ward,
    "average": reference.average_linkage,
    "complete": reference.complete_linkage,
    "single": reference.single_linkage,
}


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw a linkage, a metric, and a number of clusters or a threshold."""
    linkage = str(rng.choice(list(_REFERENCE)))
    drawn: dict[str, Any] = {"linkage": linkage, "compute_distances": True, "n_jobs": 1}
    if linkage != "ward" and rng.random() < 0.3:
        drawn["metric"] = str(rng.choice(["manhattan", "cosine", "chebyshev"]))
    if rng.random() < 0.8:
        drawn["n_clusters"] = int(rng.integers(1, min(6, len(table.X)) + 1))
    else:
        drawn["n_clusters"] = None
        reach = float(np.ptp(table.X.astype(np.float64) / 3, axis=0).max())
        drawn["distance_threshold"] = reach if 0 < reach < np.inf else 1.0
    return drawn


def _has_ties(heights: Any) -> bool:
    """Whether rounding, or a rule for ties, may decide which pair merges."""
    heights = np.sort(heights)
    with np.errstate(invalid="ignore"):  # heights beyond float64 are equal
        return len(heights) > 1 and not bool((np.diff(heights) > 1e-9 * heights.max()).all())


def the_tree_is_whole(case: Case, model: Any) -> str | None:
    """Every row of positive weight and every merge but the last is merged once; heights are ≥ 0 and ascend."""
    n, present = len(case.X), np.flatnonzero(case.present)
    merges = len(present) - 1
    if model.children_.shape != (merges, 2):
        return f"children_ has shape {model.children_.shape} for {len(present)} rows"
    expected = np.concatenate([present, n + np.arange(max(merges - 1, 0))])
    if merges and not np.array_equal(np.sort(model.children_.ravel()), expected):
        return "children_ does not have every cluster once"
    heights = model.distances_
    if np.isnan(heights).any() or (heights < 0).any():
        return "distances_ has NaN or negative heights"
    slack = 1e-12 * np.where(np.isfinite(heights), heights, 0.0).max(initial=0.0)
    if (heights[1:] < heights[:-1] - slack).any():
        return "distances_ descend"
    found = len(set(model.labels_[case.present].tolist()))
    return None if found == model.n_clusters_ else f"{found} labels, n_clusters_ is {model.n_clusters_}"


def heights_are_those_of_scipy(case: Case, model: Any) -> str | None:
    """Heights of SciPy's tree on ordinary rows, weights as repetitions; 2^−52 of the coordinates are rounding."""
    if not case.ordinary or not (case.weights is None or integer_weights(case)) or len(case.X) < 2:
        return None
    X = repeated(case).astype(np.float64) if case.weights is not None else case.X.astype(np.float64)
    if len(X) < 2:
        return None
    X = X - X.mean(axis=0) if case.parameters.get("metric") != "cosine" else X
    metric: Any = {"manhattan": "cityblock"}.get(str(model.metric), str(model.metric))
    with quiet():
        gaps = scipy.spatial.distance.pdist(X, metric)
        tree = scipy.cluster.hierarchy.linkage(np.maximum(gaps, 0.0), model.linkage)
    mine = np.zeros(len(X) - 1)
    mine[len(mine) - len(model.distances_) :] = model.distances_
    size = float(np.abs(case.X.astype(np.float64)).max()) if metric != "cosine" else 1.0
    if _has_ties(tree[:, 2]) and model.linkage in ("average", "complete"):
        return None  # which of two equal pairs merges changes the heights after it
    allowed = 1e-7 * np.sqrt(len(X)) * max(1.0, size) if model.linkage == "ward" else 1e-9 * max(size, 1e-300)
    if model.linkage == "ward" and _has_ties(tree[:, 2]):
        return None
    allowed = max(allowed, 1e-7 if metric == "cosine" else 0.0)
    wrong = np.abs(np.sort(mine) - np.sort(tree[:, 2])) > allowed + 1e-9 * np.abs(tree[:, 2])
    return (
        f"a height is {np.sort(mine)[wrong][0]!r}, SciPy's {np.sort(tree[:, 2])[wrong][0]!r}" if wrong.any() else None
    )


def partitions_are_those_of_the_reference(case: Case, model: Any) -> str | None:
    """The cut of the reference's tree at the same number of clusters, where no heights tie."""
    if not case.ordinary or case.weights is not None or len(case.X) > 25 or len(case.X) < 2:
        return None
    if case.parameters.get("metric", "euclidean") != "euclidean" or _has_ties(model.distances_):
        return None
    states = list(_REFERENCE[str(model.linkage)](case.X.astype(np.float64)))
    for state in states:
        if len(set(np.asarray(state.labels).tolist())) == model.n_clusters_:
            return "labels_ differ" if partitions_differ(model.labels_, state.labels) else None
    return None


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights have the partition of repeated rows, where no heights tie: sums of repeated rows are rounded."""
    if not integer_weights(case) or model.n_clusters is None or _has_ties(model.distances_):
        return None
    distinct = len(np.unique(case.X[case.present], axis=0))
    if model.n_clusters_ > distinct or not case.ordinary:
        return None  # copies of a row merge first: there are no more clusters than distinct rows
    other = case.fit(repeated(case), None)
    mine = np.repeat(model.labels_, case.mass.astype(int))
    return "labels_ differ" if partitions_differ(mine, other.labels_) else None


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same partition, ties included; equal rows may be exchanged."""
    order, X, weights = permuted(case)
    other = case.fit(X, weights)
    if not np.array_equal(model.distances_, other.distances_):
        return "distances_ differ"
    mine, others = model.labels_[order], other.labels_
    if model.n_clusters_ > len(np.unique(case.X[case.present], axis=0)):
        return None  # which of several equal rows is a cluster of its own
    return "labels_ differ" if partitions_differ(mine, others) else None


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X with a threshold 2^p has the same tree.

    Ward's heights are w d² with w the harmonic mean of two weights: beyond a ratio of weights of 2^400 the range of
    float64 has no room for both.
    """
    if model.linkage == "ward" and exponent_range(case.mass[case.present]) > 400:
        return None
    if case.parameters.get("metric") == "cosine" or exponent_range(case.X) > 60 or case.X.dtype == np.float32:
        return None
    threshold = case.parameters.get("distance_threshold")
    numbers = np.append(case.X.astype(np.float64), threshold or 0.0)
    p = exact_powers(numbers, int(case.rng(3).choice([-300, -40, 3, 40, 300])))
    heights = model.distances_[model.distances_ > 0]
    limits = (1e-290, 1e290)
    if len(heights) and not (
        limits[0] < np.ldexp(heights.min(), min(p, 0)) and np.ldexp(heights.max(), max(p, 0)) < limits[1]
    ):
        return None
    changes = {} if threshold is None else {"distance_threshold": float(np.ldexp(threshold, p))}
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), **changes)
    if not np.array_equal(other.children_, model.children_):
        return f"children_ differ under 2^{p} X"
    return None if np.array_equal(other.labels_, model.labels_) else f"labels_ differ under 2^{p} X"


def a_common_factor_of_the_weights_changes_nothing(case: Case, model: Any) -> str | None:
    """2^q w has the same tree; Ward's heights are multiplied by 2^(q/2)."""
    if case.weights is None:
        return None
    q = exact_powers(case.weights, 2 * int(case.rng(4).choice([-300, -3, 3, 300])))
    other = case.fit(case.X, np.ldexp(case.weights, q), n_clusters=model.n_clusters_, distance_threshold=None)
    return None if np.array_equal(other.children_, model.children_) else f"children_ differ under 2^{q} w"


FAMILY = Family(
    name="agglomerative",
    estimator=knoll.AgglomerativeClustering,
    parameters=parameters,
    most_rows=60,
    laws=(
        the_tree_is_whole,
        heights_are_those_of_scipy,
        partitions_are_those_of_the_reference,
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        powers_of_two_are_units,
        a_common_factor_of_the_weights_changes_nothing,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal("more clusters than samples", lambda case: not case.present.all(), "rows of weight 0"),
        Refusal("zero vectors", lambda case: case.parameters.get("metric") == "cosine", "rows of length 0"),
    ),
)
