"""AgglomerativeClustering: every merge by the definition, heights of SciPy, ties that no order decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.cluster.hierarchy
import scipy.sparse.csgraph
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


def _scipy_metric(model: Any) -> str:
    return {"manhattan": "cityblock"}.get(str(model.metric), str(model.metric))


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


def every_merge_is_of_the_closest_pair(case: Case, model: Any) -> str | None:
    """Merge by merge, the two clusters are the closest ones but for rounding, and the height is their distance.

    Of single linkage `levels_are_components` is the law: rows at equal heights join at once, in the order of the tree.
    """
    metric = _scipy_metric(model)
    if not case.ordinary or metric == "cosine" or exponent_range(case.mass[case.present]) > 60:
        return None
    if model.linkage == "single":
        return None
    X = case.X[case.present].astype(np.float64)
    X = X - X.mean(axis=0)
    weights, nodes = (
        case.mass[case.present].copy(),
        {int(row): at for at, row in enumerate(np.flatnonzero(case.present))},
    )
    named: Any = metric  # the stubs have each name of a metric
    gaps = scipy.spatial.distance.cdist(X, X, named)
    np.fill_diagonal(gaps, np.inf)
    size = float(np.abs(case.X.astype(np.float64)).max())
    for t, (pair, height) in enumerate(zip(model.children_.tolist(), model.distances_.tolist(), strict=True)):
        a, b = (nodes.pop(cluster) for cluster in pair)
        alive = sorted([*nodes.values(), a, b])
        among = np.ix_(alive, alive)
        unit = np.sqrt(2 / (1 / weights[:, None] + 1 / weights)) if model.linkage == "ward" else np.ones_like(gaps)
        costs = gaps * unit  # eq. 7.9 of the means, or the distances themselves
        slack = 1e-9 * costs[a, b] + 1e-13 * size * unit[among].max()
        if abs(costs[a, b] - height) > slack:
            return f"merge {t} has the height {height!r}, and the distance is {costs[a, b]!r}"
        if costs[a, b] > costs[among].min() + slack:
            return f"merge {t} is at {costs[a, b]!r}, and there is a pair at {costs[among].min()!r}"
        share = weights[b] / (weights[a] + weights[b])
        if model.linkage == "ward":
            X[a] += share * (X[b] - X[a])
            gaps[a] = gaps[:, a] = np.sqrt(np.square(X - X[a]).sum(axis=1))
        elif model.linkage == "average":
            gaps[a] = gaps[:, a] = (1 - share) * gaps[a] + share * gaps[b]
        else:
            gaps[a] = gaps[:, a] = np.maximum(gaps[a], gaps[b])
        gaps[a, a] = np.inf
        weights[a] += weights[b]
        nodes[len(case.X) + t] = a
    return None


def levels_are_components(case: Case, model: Any) -> str | None:
    """Single linkage between two heights has the components of the graph of all pairs at most so far apart."""
    if model.linkage != "single" or not case.ordinary or _scipy_metric(model) == "cosine":
        return None
    present, heights = np.flatnonzero(case.present), model.distances_
    X = case.X[present].astype(np.float64)
    named: Any = _scipy_metric(model)
    gaps = scipy.spatial.distance.cdist(X, X, named)
    slack = 1e-13 * float(np.abs(X).max())
    between = [t for t in range(len(heights) - 1) if heights[t + 1] - heights[t] > 1e-9 * heights[t + 1] + 4 * slack]
    for t in case.rng(5).permutation(between)[:4]:
        expected = scipy.sparse.csgraph.connected_components(gaps <= heights[t] + 1e-12 * heights[t] + slack)[1]
        cluster = {int(row): [at] for at, row in enumerate(present)}
        for s, (a, b) in enumerate(model.children_[: t + 1].tolist()):
            cluster[len(case.X) + s] = cluster.pop(a) + cluster.pop(b)
        mine = np.empty(len(X), np.int64)
        for number, rows in cluster.items():
            mine[rows] = number
        if partitions_differ(mine, expected):
            return f"the clusters at {heights[t]!r} are no components"
    return None


def heights_are_those_of_scipy(case: Case, model: Any) -> str | None:
    """Heights of SciPy's tree on ordinary rows, weights as repetitions; 2^−52 of the coordinates are rounding.

    Which of two equal pairs merges changes the heights after it, equal or not; the law before holds there too.
    """
    if not case.ordinary or not (case.weights is None or integer_weights(case)) or len(case.X) < 2:
        return None
    X = repeated(case).astype(np.float64) if case.weights is not None else case.X.astype(np.float64)
    if len(X) < 2:
        return None
    X = X - X.mean(axis=0) if case.parameters.get("metric") != "cosine" else X
    metric: Any = _scipy_metric(model)
    with quiet():
        gaps = scipy.spatial.distance.pdist(X, metric)
        tree = scipy.cluster.hierarchy.linkage(np.maximum(gaps, 0.0), model.linkage)
    mine = np.zeros(len(X) - 1)
    mine[len(mine) - len(model.distances_) :] = model.distances_
    size = float(np.abs(case.X.astype(np.float64)).max()) if metric != "cosine" else 1.0
    if model.linkage != "single" and (_has_ties(tree[:, 2]) or _has_ties(gaps)):
        return None
    allowed = 1e-7 * np.sqrt(len(X)) * max(1.0, size) if model.linkage == "ward" else 1e-9 * max(size, 1e-300)
    allowed = max(allowed, 1e-7 if metric == "cosine" else 0.0)
    wrong = np.abs(np.sort(mine) - np.sort(tree[:, 2])) > allowed + 1e-9 * np.abs(tree[:, 2])
    return (
        f"a height is {np.sort(mine)[wrong][0]!r}, SciPy's {np.sort(tree[:, 2])[wrong][0]!r}" if wrong.any() else None
    )


def partitions_are_those_of_the_reference(case: Case, model: Any) -> str | None:
    """The cut of the reference's tree at the same number of clusters, where no heights tie, nor distances of rows.

    Of equal pairs the reference merges the first by numbers, the estimator by coordinates.
    """
    if not case.ordinary or case.weights is not None or len(case.X) > 25 or len(case.X) < 2:
        return None
    if case.parameters.get("metric", "euclidean") != "euclidean" or _has_ties(model.distances_):
        return None
    if _has_ties(scipy.spatial.distance.pdist(case.X.astype(np.float64))):
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
    widest = 60 if model.linkage == "ward" else 900
    if case.parameters.get("metric") == "cosine" or exponent_range(case.X) > widest or case.X.dtype == np.float32:
        return None
    threshold = case.parameters.get("distance_threshold")
    numbers = np.append(case.X.astype(np.float64), threshold or 0.0)
    p = exact_powers(numbers, int(case.rng(3).choice([-300, -40, 3, 40, 300])))
    heights = model.distances_[model.distances_ > 0]
    least, most = np.frexp([heights.min(), heights.max()])[1] if len(heights) else (0, 0)
    if least + min(p, 0) < -1000 or most + max(p, 0) > 1000:
        return None
    changes = {} if threshold is None else {"distance_threshold": float(np.ldexp(threshold, p))}
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), **changes)
    if not np.array_equal(other.children_, model.children_):
        return f"children_ differ under 2^{p} X"
    return None if np.array_equal(other.labels_, model.labels_) else f"labels_ differ under 2^{p} X"


def a_common_factor_of_the_weights_changes_nothing(case: Case, model: Any) -> str | None:
    """2^q w has the same tree; Ward's heights are multiplied by 2^(q/2). Far apart: as in the law before."""
    if case.weights is None or (model.linkage == "ward" and exponent_range(case.mass[case.present]) > 400):
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
        every_merge_is_of_the_closest_pair,
        levels_are_components,
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
