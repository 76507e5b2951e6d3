"""DBSCAN: core points, clusters and borders by exact integers, scikit-learn under border="first"."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.csgraph
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.cluster import DBSCAN as Peer

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.exact import integers, power, squared_distance
from fuzz.forms import FORMS
from fuzz.laws import (
    differs,
    exact_powers,
    exponent_range,
    integer_weights,
    partitions_differ,
    permuted,
    predict_is_labels,
    quiet,
    repeated,
    same_bits_of_any_threads,
    survives_clone,
    survives_pickle,
    survives_saving,
)
from fuzz.tables import Table
from knoll._common.blocks import BlockSource
from knoll.density.region_fit import RegionFit
from knoll.density.regions import Box, Cut

ANSWERS = ("labels_", "core_sample_indices_", "components_")
_DOUBT = Fraction(1, 2**48)  # relative: distances nearer to ε than that are decided by rounding


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; ε is a distance of the table, near one, or anything."""
    drawn: dict[str, Any] = {
        "eps": _radius(rng, table.X.astype(np.float64)),
        "min_samples": int(rng.choice([1, 2, 3, 4, 5, 8])),
        "border": str(rng.choice(["closest", "closest", "first", "noise"])),
        "n_jobs": 1,
    }
    if rng.random() < 0.15:
        drawn["formulation"] = str(rng.choice(["spectral", "climbing"]))
    elif rng.random() < 0.15:
        drawn["metric"] = str(rng.choice(["manhattan", "chebyshev", "minkowski", "cosine"]))
        if drawn["metric"] == "minkowski":
            drawn["p"] = float(rng.choice([1.0, 1.5, 2.0, 3.0]))
    return drawn


def _radius(rng: Rng, X: Any) -> float:
    if rng.random() < 0.07:
        return float(10.0 ** rng.uniform(-300, 308))
    i, j = rng.integers(len(X), size=2)
    with np.errstate(all="ignore"):
        scale = np.abs(X[i] - X[j]).max()
        gap = scale * np.sqrt((((X[i] - X[j]) / scale) ** 2).sum())
        gap = float(gap * rng.choice([1.0, 1.0, 0.5, 1.3]))
    return gap if 0 < gap < np.inf else float(np.clip(np.abs(X).max(), 1e-300, 1e300))


# ---- exact oracle --------------------------------------------------------------------------------------------------


def _within(case: Case) -> NDArray[np.bool_] | None:
    """Return which rows are within ε of each other, exactly; None where rounding decides one of them.

    A distance that is exactly ε is inside. Where entries are whole numbers times one power of two, and their
    squares are within float64, the one distance is not rounded, and so certain.
    """
    (rows,), exponent = integers(case.X.astype(np.float64))
    square = Fraction(case.parameters["eps"]) ** 2 / power(2 * exponent)
    rounded = _rounds_down_to(case.parameters["eps"]) ** 2 / power(2 * exponent)
    widest = max((abs(v) for row in rows for v in row), default=0)
    shift = _trailing(rows)
    plain = (widest >> shift).bit_length() <= 24  # differences and sums of squares have at most 53 bits
    n = len(rows)
    near = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(i, n):
            gap = squared_distance(rows[i], rows[j])
            if not plain and gap and abs(gap - square) <= square * _DOUBT:
                return None
            near[i, j] = near[j, i] = gap <= (rounded if plain else square)
    return near


def _trailing(rows: list[tuple[int, ...]]) -> int:
    zeros = [((abs(v) & -abs(v)).bit_length() - 1) for row in rows for v in row if v]
    return min(zeros, default=0)


def _rounds_down_to(eps: float) -> Fraction:
    """Return the end of the numbers that are rounded to ε or below: half a unit in its last place above it.

    Of 53 digits: the core scales by powers of two, so that no root is subnormal.
    """
    mantissa, exponent = math.frexp(eps)
    return (Fraction(mantissa) + Fraction(float(np.spacing(mantissa))) / 2) * power(exponent)


def answers_follow_the_definition(case: Case, model: Any) -> str | None:
    """Core points, their components, and borders by the rule; rows of weight 0 are labelled as `predict` would."""
    if model.formulation == "climbing" or case.parameters.get("metric", "euclidean") != "euclidean":
        return None
    near = _within(case)
    if near is None:
        return None
    mass, kept = case.mass, case.present
    core = np.array([kept[i] and _heavy(mass[near[i] & kept], model.min_samples) for i in range(len(near))])
    found = np.zeros(len(near), dtype=bool)
    found[model.core_sample_indices_] = True
    if not np.array_equal(core, found):
        row = int(np.flatnonzero(core != found)[0])
        return f"row {row} is {'' if core[row] else 'not '}core: {math.fsum(mass[near[row] & kept])} within eps"
    if partitions_differ(_components(near[np.ix_(core, core)]), model.labels_[core]):
        return "labels of core points are not the components of their graph"
    return _numbering(core, model) or _borders(case, model, near, core)


def _heavy(weights: Any, least: int) -> bool:
    """Whether a sum reaches min_samples, exactly."""
    return sum((Fraction(w) for w in weights.tolist()), Fraction(0)) >= least


def _components(near: Any) -> Any:
    return scipy.sparse.csgraph.connected_components(near)[1] if len(near) else np.zeros(0)


def _numbering(core: Any, model: Any) -> str | None:
    first = list(dict.fromkeys(model.labels_[core].tolist()))
    return None if first == list(range(len(first))) else "clusters are not numbered by their first core row"


def _borders(case: Case, model: Any, near: Any, core: Any) -> str | None:
    (rows,), _ = integers(case.X.astype(np.float64))
    for i in np.flatnonzero(~core).tolist():
        reached = np.flatnonzero(near[i] & core)
        label = int(model.labels_[i])
        if not len(reached):
            allowed = {-1}
        elif model.border == "noise":
            # an absent row is labelled as a new one: core where the others reach min_samples around it
            if not case.present[i] and _heavy(case.mass[near[i] & case.present], model.min_samples):
                allowed = set(model.labels_[_closest(rows, i, reached)].tolist())
            else:
                allowed = {-1}
        elif model.border == "first":
            allowed = {int(model.labels_[reached].min())}
        else:
            allowed = set(model.labels_[_closest(rows, i, reached)].tolist())
        if label not in allowed:
            return f"row {i} on a border has label {label}, expected {sorted(allowed)}"
    return None


def _closest(rows: Any, i: int, others: Any) -> list[int]:
    """The closest of these rows, with those that rounding cannot distinguish from it."""
    gaps = [squared_distance(rows[i], rows[j]) for j in others]
    limit = min(gaps) * (1 + _DOUBT)
    return [int(j) for j, gap in zip(others, gaps) if gap <= limit]


# ---- peers and guises ----------------------------------------------------------------------------------------------


def scikit_learn_agrees(case: Case, model: Any) -> str | None:
    """border="first" gives scikit-learn's labels, where no distance is near ε."""
    plain = case.ordinary and case.present.all() and case.X.dtype == np.float64
    if not plain or case.parameters.get("metric", "euclidean") != "euclidean" or model.formulation != "graph":
        return None
    if case.table.shape not in ("cloud", "blobs", "outliers"):
        return None
    X = case.X - case.X.mean(axis=0)
    gaps = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    if (np.abs(gaps - model.eps) <= 1e-7 * (model.eps + np.abs(X).max())).any():
        return None
    mine = case.fit(case.X, border="first")
    with quiet():
        peer = Peer(eps=model.eps, min_samples=model.min_samples).fit(X, sample_weight=case.weights)
    return None if np.array_equal(mine.labels_, peer.labels_) else "labels_ differ from scikit-learn's"


def formulations_agree(case: Case, model: Any) -> str | None:
    """The spectral formulation finds the clusters of the graph."""
    if model.formulation != "spectral":
        return None
    return differs(model, case.fit(formulation="graph"), ("labels_", "core_sample_indices_"))


def precomputed_distances_agree(case: Case, model: Any) -> str | None:
    """Precomputed distances find the same core points and clusters."""
    if not case.ordinary or model.formulation != "graph" or case.parameters.get("metric", "euclidean") != "euclidean":
        return None
    X = case.X.astype(np.float64)
    square = np.zeros((len(X), len(X)))
    for column in X.T:
        square += np.square(column[:, None] - column)
    if case.form.startswith("csr"):
        return None  # distances of sparse rows are sums over the columns that either has
    other = case.fit(np.sqrt(square), metric="precomputed", border="first")
    mine = case.fit(case.X, border="first")
    return differs(mine, other, ("labels_", "core_sample_indices_"))


def any_form_gives_the_same_bits(case: Case, model: Any) -> str | None:
    """Layouts and containers of the same numbers give the same labels; some distances of sparse rows are SciPy's."""
    own = case.parameters.get("metric", "euclidean") in ("euclidean", "cosine")
    if case.form == "C" or (case.form.startswith("csr") and not own):
        return None
    return differs(model, case.fit(case.X), ("labels_", "core_sample_indices_"))


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give the clusters of repeated rows."""
    if not integer_weights(case):
        return None
    other = case.fit(repeated(case), None)
    mine = np.repeat(model.labels_, case.mass.astype(int))
    return None if np.array_equal(mine, other.labels_) else "labels_ differ"


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same partition; under border="first" border points may differ."""
    order, X, weights = permuted(case)
    other = case.fit(X, weights)
    mine, others = model.labels_[order], other.labels_
    if model.border == "first":
        core = np.isin(order, model.core_sample_indices_)
        mine, others = mine[core], others[core]
    return "labels_ differ" if partitions_differ(mine, others) else None


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X with 2^p ε has the same labels."""
    numbers = np.append(case.X.astype(np.float64), model.eps)
    if (
        case.parameters.get("metric", "euclidean") != "euclidean"
        or exponent_range(numbers) > 400
        or case.form.startswith("csr")
    ):
        return None
    p = exact_powers(numbers, int(case.rng(3).choice([-900, -300, -40, 3, 40, 300, 900])))
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), eps=float(np.ldexp(model.eps, p)))
    return None if np.array_equal(model.labels_, other.labels_) else f"labels_ differ under 2^{p} X"


def float32_is_float64_of_the_same_numbers(case: Case, model: Any) -> str | None:
    """The same numbers in float64 have the same labels."""
    if case.X.dtype != np.float32 or case.parameters.get("metric", "euclidean") != "euclidean":
        return None
    return differs(model, case.fit(case.X.astype(np.float64)), ("labels_", "core_sample_indices_"))


def any_regions_give_the_same_bits(case: Case, model: Any) -> str | None:
    """Regions cut anywhere have the labels and the core rows of the whole."""
    metric = case.parameters.get("metric", "euclidean")
    if (
        case.form.startswith("csr")
        or model.formulation != "graph"
        or model.border == "first"
        or metric not in ("euclidean", "manhattan", "chebyshev")
    ):
        return None
    rng, reader = case.rng(11), clone(model)

    def cut(box: Box, depth: int) -> Cut | Box:
        axis = int(rng.integers(case.X.shape[1]))
        value = float(case.X[rng.integers(len(case.X)), axis])
        if depth == 0 or not box.low[axis] < value < box.high[axis]:
            return box
        below, above = box.cut(axis, value)
        return Cut(axis, value, cut(below, depth - 1), cut(above, depth - 1))

    with RegionFit(model._region_rule(), 10**9, Path(tempfile.gettempdir()), reader) as fit:
        fit.read(BlockSource(lambda: iter([(case.X, case.weights)]), reader)())
        fit.solve(cut(Box.everything(case.X.shape[1]), 4))
        found = list(fit.labels())
    labels, core = (np.concatenate(each) for each in zip(*found, strict=True))
    if not np.array_equal(labels, model.labels_):
        return "labels_ differ"
    return None if np.array_equal(np.flatnonzero(core), model.core_sample_indices_) else "core_sample_indices_ differ"


def predict_kind_is_the_type_of_row(case: Case, model: Any) -> str | None:
    """Rows of the fit are core exactly where they are in core_sample_indices_."""
    if model.formulation == "climbing" or not case.present.all():
        return None
    core = np.zeros(len(case.X), dtype=bool)
    core[model.core_sample_indices_] = True
    wrong = np.flatnonzero((model.predict_kind(case.input()) == "core") != core)
    return f"row {wrong[0]} is {model.predict_kind(case.input())[wrong[0]]}" if len(wrong) else None


FAMILY = Family(
    name="dbscan",
    estimator=knoll.DBSCAN,
    parameters=parameters,
    forms=tuple(FORMS),
    most_rows=60,
    laws=(
        predict_is_labels,
        answers_follow_the_definition,
        formulations_agree,
        precomputed_distances_agree,
        any_form_gives_the_same_bits,
        same_bits_of_any_threads(*ANSWERS),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        powers_of_two_are_units,
        float32_is_float64_of_the_same_numbers,
        any_regions_give_the_same_bits,
        predict_kind_is_the_type_of_row,
        scikit_learn_agrees,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal("takes dense rows", lambda case: case.form.startswith("csr"), "climbing needs means"),
        Refusal(
            "do not support sparse",
            lambda case: case.form.startswith("csr") and case.parameters.get("metric") in ("minkowski", "chebyshev"),
            "SciPy has no such distances of sparse rows",
        ),
        Refusal(
            "float64 cannot hold the squares",
            lambda case: case.parameters.get("formulation") == "climbing" and case.parameters["eps"] < 1e-100,
            "means within a tiny eps",
        ),
        Refusal(
            "cannot decide", lambda case: case.parameters.get("formulation") == "spectral", "eigenvectors of float64"
        ),
    ),
)
