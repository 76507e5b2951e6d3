"""DensityTree: every cut is DBSCAN, selections are those of the reference, neither order nor threads matter."""

from __future__ import annotations

from typing import Any

import numpy as np

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.laws import (
    differs,
    exponent_range,
    integer_weights,
    partitions_differ,
    permuted,
    repeated,
    same_bits_of_any_form,
    same_bits_of_any_threads,
    survives_clone,
)
from fuzz.tables import Table
from knoll.density.tree import DensityTree
from knoll.reference import hdbscan, run

ANSWERS = ("order_", "bars_", "core_distances_")
_RADII = 6  # cuts that are compared in a case


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; seldom another metric, seldom more rows than there are."""
    drawn: dict[str, Any] = {"min_samples": int(rng.choice([1, 2, 3, 4, 5, 8])), "n_jobs": 1}
    if rng.random() < 0.2:
        drawn["metric"] = str(rng.choice(["manhattan", "chebyshev", "minkowski", "cosine"]))
        if drawn["metric"] == "minkowski":
            drawn["p"] = float(rng.choice([1.0, 1.5, 2.0, 3.0]))
    return drawn


def _in_range(case: Case, model: Any) -> bool:
    """Whether heights are normal numbers and squares of all differences within one scale.

    A height h is rounded to a double, by at most 2^−1075: relatively that is 2^−53 where h > 2^−1022, more below it,
    while DBSCAN compares distances in units of ε and does not round them so. The tree has one scale for all pairs, in
    which the largest coordinate is near 2^490: squares of differences below 2^−1000 of it may vanish.
    """
    heights = np.concatenate([model.bars_[1:], model.core_distances_])
    heights = heights[heights > 0]
    normal = (heights > 1e-290) & np.isfinite(heights)
    return bool(normal.all()) and exponent_range(np.append(heights, np.abs(case.X).max())) <= 900


def heights_are_ordered(case: Case, model: Any) -> str | None:
    """Rows with a weight are listed once; a bar is no lower than the core distances beside it; the first is inf."""
    order, bars, core = model.order_, model.bars_, model.core_distances_
    if not np.array_equal(np.sort(order), np.arange(int(case.present.sum()))):
        return "order_ does not have every row once"
    if np.isnan(bars).any() or np.isnan(core).any() or not np.isposinf(bars[0]):
        return f"bars_ begin with {bars[0]!r}, or there are NaN"
    low = bars[1:] < np.maximum(core[order][1:], core[order][:-1])
    return f"bar {int(np.flatnonzero(low)[0]) + 1} is lower than a core distance at its side" if low.any() else None


def a_cut_is_dbscan(case: Case, model: Any) -> str | None:
    """cut(ε) has the labels of DBSCAN at heights of the tree and between them, with and without borders."""
    if not _in_range(case, model):
        return None
    for eps in _radii(case, model):
        for border in ("closest", "noise"):
            other = knoll.DBSCAN(float(eps), border=border, **case.parameters).fit(case.X, sample_weight=case.weights)
            found = model.cut(float(eps), border=border)
            if not np.array_equal(found, other.labels_):
                row = int(np.flatnonzero(found != other.labels_)[0])
                return f"eps {float(eps)!r}, border {border!r}, row {row}: {found[row]}, DBSCAN {other.labels_[row]}"
    return None


def _radii(case: Case, model: Any) -> Any:
    """Heights at which the tree changes, and radii between two of them."""
    heights = np.unique(np.concatenate([model.bars_[1:], model.core_distances_]))
    heights = heights[(heights > 0) & np.isfinite(heights)]
    if not len(heights):
        return [1.0]
    at = case.rng(1).integers(len(heights), size=_RADII // 2)
    between = heights[at] / 2 + heights[np.minimum(at + 1, len(heights) - 1)] / 2
    return np.concatenate([heights[at], between[between > 0]])


def selections_are_those_of_the_reference(case: Case, model: Any) -> str | None:
    """Excess of mass on ordinary small data without weights, by the definition."""
    if not case.ordinary or case.weights is not None or len(case.X) > 40 or case.X.dtype == np.float32:
        return None
    if case.parameters.get("metric", "euclidean") != "euclidean" or len(case.X) < 2:
        return None
    size = int(case.rng(2).integers(2, 9))
    last = run(hdbscan(case.X.astype(np.float64), model.min_samples, size))
    if _close_stabilities(last.stability):
        return None  # rounding decides between a cluster and its children
    return "eom labels differ" if not np.array_equal(model.eom(size), last.labels) else None


def _close_stabilities(stability: Any) -> bool:
    """Whether sums of some stabilities may be equal up to rounding: those of infinite level, or equal ones."""
    values = np.sort(np.asarray(stability, dtype=float))
    if not np.isfinite(values).all():
        return True
    return bool((np.diff(values) <= 1e-9 * np.abs(values).max(initial=0.0)).any())


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights have the core distances and cuts of repeated rows."""
    if not integer_weights(case) or not case.present.all() or not _in_range(case, model):
        return None
    counts = case.mass.astype(int)
    other = case.fit(repeated(case), None)
    first = np.cumsum(counts) - counts
    if not np.array_equal(model.core_distances_, other.core_distances_[first]):
        return "core_distances_ differ"
    for eps in _radii(case, model)[:3]:
        if not np.array_equal(model.cut(float(eps)), other.cut(float(eps))[first]):
            return f"cut({float(eps)!r}) differs"
    return None


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have permuted core distances, and the same clusters in every selection."""
    if not _in_range(case, model):
        return None
    order, X, weights = permuted(case)
    other = case.fit(X, weights)
    of_row = np.cumsum(case.present) - 1  # attributes are of rows of positive weight
    kept = order[case.present[order]]
    if not np.array_equal(model.core_distances_[of_row[kept]], other.core_distances_):
        return "core_distances_ differ"
    if not np.array_equal(np.sort(model.bars_), np.sort(other.bars_)):
        return "bars_ differ"
    for name in ("eom", "leaves"):
        if partitions_differ(getattr(model, name)(4)[order], getattr(other, name)(4)):
            return f"{name}(4) differs"
    return None if np.array_equal(model.outliers(4)[order], other.outliers(4)) else "outliers(4) differ"


def scores_are_between_0_and_1(case: Case, model: Any) -> str | None:
    """Outlier scores are in [0, 1]."""
    if not _in_range(case, model):
        return None
    scores = model.outliers(3)
    wrong = ~((scores >= 0) & (scores <= 1))
    return f"outliers(3) has {scores[wrong][0]}" if wrong.any() else None


def survives_copying(case: Case, model: Any) -> str | None:
    """A fit of the same table has the same bits."""
    return differs(model, case.fit(), ANSWERS)


FAMILY = Family(
    name="density_tree",
    estimator=DensityTree,
    parameters=parameters,
    laws=(
        heights_are_ordered,
        a_cut_is_dbscan,
        selections_are_those_of_the_reference,
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        scores_are_between_0_and_1,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        survives_copying,
        survives_clone,
    ),
    refusals=(
        Refusal(
            "else no row has a core distance",
            lambda case: case.mass.sum() < case.parameters["min_samples"],
            "too few rows",
        ),
        Refusal("cosine", lambda case: case.parameters.get("metric") == "cosine", "rows of length 0"),
    ),
)
