"""MeanShift: ends are fixed points by exact integers, clusters are components of ends, scikit-learn's own rule."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse.csgraph
from sklearn.cluster import MeanShift as Peer

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.exact import Row, integers, power, squared_distance
from fuzz.laws import (
    differs,
    exact_powers,
    exponent_range,
    finite,
    integer_weights,
    partitions_differ,
    permuted,
    predict_is_labels,
    quiet,
    repeated,
    same_bits_of_any_form,
    same_bits_of_any_threads,
    survives_clone,
    survives_pickle,
    survives_saving,
)
from fuzz.tables import Table

ANSWERS = ("cluster_centers_", "labels_", "climbed_", "n_steps_", "peaks_", "bandwidth_")
_ULP = Fraction(1, 2**52)


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; a bandwidth is estimated, near the distances of the table, or far from them."""
    drawn: dict[str, Any] = {"cluster_all": bool(rng.random() < 0.8), "n_jobs": 1}
    sort = rng.choice(["none", "near", "near", "near", "any"])
    if sort == "near":
        drawn["bandwidth"] = _near(rng, table.X.astype(np.float64))
    elif sort == "any":
        drawn["bandwidth"] = float(10.0 ** rng.uniform(-300, 308))
    drawn["assign"] = str(rng.choice(["climb", "climb", "nearest"]))
    drawn["kernel"] = str(rng.choice(["flat", "flat", "flat", "gaussian"]))
    if rng.random() < 0.1:
        drawn["bin_seeding"] = True
    return drawn


def _near(rng: Rng, X: Any) -> float:
    """Choose a positive distance of two rows, times a small factor; 1 where all rows are equal."""
    i, j = rng.integers(len(X), size=2)
    with np.errstate(all="ignore"):
        gap = float(np.abs(X[i] - X[j]).max() * rng.choice([0.5, 1.0, 1.0, 1.5, 3.0]))
    return gap if 0 < gap < np.inf else 1.0


# ---- exact oracles -------------------------------------------------------------------------------------------------


def ends_are_fixed_points(case: Case, model: Any) -> str | None:
    """The mean of the rows within the bandwidth of an end is that end, by exact integers.

    Only where no row is near the sphere: there rounding of the end decides. Ends of float32 data are rounded.
    """
    if _is_smooth(case, model) or model.bandwidth_ == 0 or case.X.dtype == np.float32:
        return None
    kept = case.present
    (rows, ends), exponent = integers(case.X[kept], np.unique(model.climbed_[kept], axis=0)[:12])
    weights = [Fraction(w) for w in case.mass[kept].tolist()]
    radius2 = Fraction(model.bandwidth_) ** 2 / power(2 * exponent)
    largest = max(abs(v) for row in rows for v in row)
    for end in ends:
        inside = _ball(end, rows, radius2, power(-1074 - exponent))
        if inside is None:
            continue
        if not inside:
            return f"no row is within the bandwidth of the end {_floats(end, exponent)}"
        mass = sum((weights[i] for i in inside), Fraction(0))
        for j in range(len(end)):
            mean = sum((weights[i] * rows[i][j] for i in inside), Fraction(0)) / mass
            size = max(abs(rows[i][j]) for i in inside)
            slack = 8 * _ULP * size + 2 * power(-1074 - exponent) + _underflow(largest, radius2)
            if abs(mean - end[j]) > slack:
                found = _floats(end, exponent)
                return f"end {found}, column {j}: the mean of its ball is {float(mean * power(exponent))!r}"
    return None


def _is_smooth(case: Case, model: Any) -> bool:
    """Whether paths end by a small step, not by a set that repeats."""
    return (
        model.assign == "nearest"
        or model.kernel == "gaussian"
        or bool(model.bin_seeding)
        or model.n_iter_ >= model.max_iter
    )


def _ball(end: Row, rows: list[Row], radius2: Fraction, least: Fraction) -> list[int] | None:
    """Return the rows within the radius of an end; None where one is so near the sphere that rounding decides."""
    inside = []
    for i, row in enumerate(rows):
        square = squared_distance(end, row)
        # rounding of the end (one unit of the largest coordinate, or the least number) moves the distance by as much
        reach = max(abs(v) for v in (*end, *row)) * 4 * _ULP + least
        blur = 2 * reach * (_root(radius2) + reach) * (len(end) + 2) + radius2 * 16 * _ULP
        if abs(square - radius2) <= blur:
            return None
        if square < radius2:
            inside.append(i)
    return inside


def _root(square: Fraction) -> int:
    """Return a bound from above for the root."""
    return math.isqrt(math.ceil(square)) + 1


def _underflow(largest: int, radius2: Fraction) -> Fraction:
    """Numbers below 2^−900 of the largest of data and bandwidth are rounded to the scale of the ascent."""
    return largest * power(-900)


def _floats(row: Row, exponent: int) -> list[float]:
    return [float(v * power(exponent)) for v in row]


def clusters_are_components_of_ends(case: Case, model: Any) -> str | None:
    """Rows whose ends lie within the bandwidth of each other, directly or through others, share a label."""
    if model.assign == "nearest" or model.bin_seeding or not case.ordinary or case.X.dtype == np.float32:
        return None
    ends, eps = model.climbed_, model.bandwidth_
    gaps = np.sqrt(((ends[:, None] - ends) ** 2).sum(axis=2))
    if (np.abs(gaps - eps) <= 1e-9 * (eps + np.abs(ends).max())).any() or not case.present.all():
        return None
    component = _components(gaps <= eps)
    labels = model.labels_
    if not model.cluster_all:
        kept = labels >= 0
        component, labels = component[kept], labels[kept]
    return "labels_ are not the components of the ends" if partitions_differ(component, labels) else None


def _components(near: Any) -> Any:
    return scipy.sparse.csgraph.connected_components(near)[1]


def centres_lie_in_the_box(case: Case, model: Any) -> str | None:
    """A mean of rows lies between the least and the largest of them, up to rounding.

    Magnitudes down to 1e-300 keep their digits; a subnormal coordinate times a tiny weight may round to 0.
    """
    rows = case.X[case.present].astype(np.float64)
    low, high = rows.min(axis=0), rows.max(axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    slack = size * (1e-6 if case.X.dtype == np.float32 else 1e-15) + size.max() * 2.0**-900 + 4 * 5e-324
    centers = model.cluster_centers_.astype(np.float64)
    if bool(model.bin_seeding) and model.n_iter_ == 0:
        return None
    with np.errstate(over="ignore"):
        outside = (centers < low - slack) | (centers > high + slack)
    if not outside.any():
        return None
    c, j = (int(i[0]) for i in np.nonzero(outside))
    return f"centre {c}, column {j}: {centers[c, j]!r} is outside of [{low[j]!r}, {high[j]!r}]"


# ---- the same problem in another guise -----------------------------------------------------------------------------


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give the answers of repeated rows; cluster_all=False counts weights as rows, too."""
    if not integer_weights(case) or model.bin_seeding:
        return None
    other = case.fit(repeated(case), None)
    if found := differs(model, other, ("bandwidth_",), relative=1e-14):
        return found
    if model.bandwidth_ != other.bandwidth_:
        return None  # an estimate is a mean of distances, rounded in another order
    if found := differs(model, other, ("cluster_centers_",), relative=0.0 if model.kernel == "flat" else 1e-9):
        return found
    mine = np.repeat(model.labels_, case.mass.astype(int))
    return None if np.array_equal(mine, other.labels_) else "labels_ differ"


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have permuted labels."""
    order, X, weights = permuted(case)
    other = case.fit(X, weights, bandwidth=model.bandwidth_) if model.bandwidth_ > 0 else case.fit(X, weights)
    if found := differs(model, other, ("cluster_centers_",)):
        return found
    return None if np.array_equal(model.labels_[order], other.labels_) else "labels_ differ"


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X with 2^p times the bandwidth, and 2^q w, have the same labels; centres of subnormal data are rounded."""
    if np.abs(case.X).max() < 2.0**-1000:
        return None
    if case.X.dtype == np.float32 or model.bandwidth_ == 0 or exponent_range(np.append(case.X, model.bandwidth_)) > 400:
        return None
    numbers = np.append(case.X.astype(np.float64), model.bandwidth_)
    p = exact_powers(numbers, int(case.rng(3).choice([-900, -300, -40, 3, 40, 300, 900])))
    q = 0
    if case.weights is not None and model.cluster_all:  # else a cluster of weight 1 is no cluster
        q = exact_powers(case.weights, int(case.rng(4).choice([-200, 0, 5, 200])))
    weights = None if case.weights is None else np.ldexp(case.weights, q)
    if model.bin_seeding and q:
        return None  # min_bin_freq counts weight
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), weights, bandwidth=float(np.ldexp(model.bandwidth_, p)))
    if not np.array_equal(model.labels_, other.labels_):
        return f"labels_ differ under 2^{p} X, 2^{q} w"
    with np.errstate(all="ignore"):
        mine, others = np.ldexp(model.cluster_centers_, min(p, 0)), np.ldexp(other.cluster_centers_, -max(p, 0))
    return None if (np.abs(mine - others) <= 5e-324).all() else f"cluster_centers_ differ under 2^{p} X, 2^{q} w"


def scikit_learn_agrees(case: Case, model: Any) -> str | None:
    """assign="nearest" is scikit-learn's algorithm: the same centres, unless two of them are equally near or dense."""
    if not case.ordinary or case.weights is not None or case.X.dtype != np.float64 or model.bandwidth_ < 1e-6:
        return None
    if len(case.X) < 2 or case.table.shape not in ("cloud", "blobs", "outliers"):
        return None  # on lattices rows lie exactly on the sphere, where a tree's rounding decides there
    gaps = np.sqrt(((case.X[:, None] - case.X) ** 2).sum(axis=2))
    if (np.abs(gaps - model.bandwidth_) <= 1e-9 * (model.bandwidth_ + np.abs(case.X).max())).any():
        return None  # the same, where the bandwidth is a distance of two rows
    mine = case.fit(case.X, kernel="flat", assign="nearest", bin_seeding=False, bandwidth=model.bandwidth_)
    with quiet():
        peer = Peer(bandwidth=model.bandwidth_, cluster_all=model.cluster_all).fit(case.X)
    if len(mine.cluster_centers_) != len(peer.cluster_centers_):
        return f"{len(mine.cluster_centers_)} centres, scikit-learn has {len(peer.cluster_centers_)}"
    size = np.abs(case.X).max()
    if np.abs(mine.cluster_centers_ - peer.cluster_centers_).max() > 1e-6 * size:
        return "cluster_centers_ differ from scikit-learn's"
    return None if np.array_equal(mine.labels_, peer.labels_) else "labels_ differ from scikit-learn's"


def a_given_bandwidth_is_above_0(case: Case, model: Any) -> str | None:
    """The bandwidth that was used is finite, and 0 only where it was estimated."""
    return None if np.isfinite(model.bandwidth_) and model.bandwidth_ >= 0 else f"bandwidth_ is {model.bandwidth_}"


FAMILY = Family(
    name="mean_shift",
    estimator=knoll.MeanShift,
    parameters=parameters,
    laws=(
        finite("cluster_centers_", "climbed_", "peaks_"),
        a_given_bandwidth_is_above_0,
        predict_is_labels,
        ends_are_fixed_points,
        centres_lie_in_the_box,
        clusters_are_components_of_ends,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        powers_of_two_are_units,
        scikit_learn_agrees,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "float64 cannot hold the squares",
            lambda case: case.parameters.get("bandwidth", 1.0) < 1e-100,
            "a tiny bandwidth",
        ),
        Refusal(
            "No point was within",
            lambda case: case.parameters.get("bandwidth", 1.0) < 1e-6 * float(np.abs(case.X).max()),
            "bins are numbered in float32, as in scikit-learn",
        ),
        Refusal(
            "No point was within",
            lambda case: bool(case.parameters.get("bin_seeding")) and case.X.shape[1] > 4,
            "a corner of a bin is √d/2 bandwidths away from its centre; scikit-learn refuses, too",
        ),
        Refusal("no bin of width", lambda case: case.weights is not None, "bins of weight below min_bin_freq"),
    ),
)
