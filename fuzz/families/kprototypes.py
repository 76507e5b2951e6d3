"""KPrototypes: distances by exact fractions, an objective that never rises; orders and missing values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.exact import agrees
from fuzz.laws import (
    differs,
    exact_powers,
    exponent_range,
    finite,
    integer_weights,
    permuted,
    predict_is_labels,
    repeated,
    same_bits_of_any_form,
    same_bits_of_any_threads,
    survives_clone,
    survives_pickle,
    survives_saving,
)
from fuzz.mixed_tables import codes_of, draw_mixed_table, numeric_columns
from fuzz.tables import Table

ANSWERS = ("cluster_means_", "cluster_modes_", "labels_", "inertia_", "n_iter_", "gamma_")
_DOUBT = Fraction(1, 2**45)  # relative: of a sum of squares


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; γ is that of the data half of the time."""
    drawn: dict[str, Any] = {
        "n_clusters": int(rng.integers(1, min(len(table.X), 5) + 1)),
        "categorical_features": np.array(table.categorical, dtype=np.int64),
        "init": str(rng.choice(["k-means++", "random"])),
        "max_iter": int(rng.choice([1, 3, 100])),
        "random_state": int(rng.integers(1000)),
        "n_jobs": 1,
    }
    if rng.random() < 0.5:
        drawn["gamma"] = float(rng.choice([0.0, 1.0, 10.0 ** rng.uniform(-300, 300)]))
    return drawn


# ---- exact oracle --------------------------------------------------------------------------------------------------


def distances_are_exact(case: Case, model: Any) -> str | None:
    """Transform is Σ (x − m)² + γ·(differing categories) of the model's own prototypes, over what a row has.

    Of extreme numbers the model computes with unit_gamma_ and a power of two as unit.
    """
    sample = np.flatnonzero(case.present)[:8]
    found = model.transform(case.input())[sample]
    unit = Fraction(2) ** (2 * int(model.unit_exponent_))
    gamma = Fraction(float(model.unit_gamma_)) * unit
    numeric, codes = numeric_columns(case.table), codes_of(case.table)[sample]
    rows = case.X[sample][:, numeric].astype(np.float64).tolist()
    least = Fraction(1, 2**1000) * unit  # squares from 2^−1000 units on have all their digits
    for i, row in enumerate(rows):
        for c, mean in enumerate(model.cluster_means_.astype(np.float64).tolist()):
            exact = sum(((Fraction(x) - Fraction(m)) ** 2 for x, m in zip(row, mean) if x == x), Fraction(0))
            modes = zip(codes[i], model.cluster_modes_[c], model.categories_)
            exact += gamma * sum(bool(z >= 0 and not (len(levels) and m >= 0 and levels[m] == z))
                                 for z, m, levels in modes)  # fmt: skip
            value = float(found[i, c])
            if found.dtype == np.float32:
                if exact > Fraction(float(np.finfo(np.float32).max)) and value == float(np.finfo(np.float32).max):
                    continue
                if not agrees(value, exact, 2.0**-20, Fraction(float(np.finfo(np.float32).tiny))):
                    return f"distance of row {sample[i]} to {c} is {value!r}, exactly {float(exact):.17g}"
            elif not agrees(value, exact, float(_DOUBT), least):
                return f"distance of row {sample[i]} to {c} is {value!r}, exactly {_shown(exact)}"
    return None


def _shown(value: Fraction) -> str:
    try:
        return repr(float(value))
    except OverflowError:
        return "beyond float64"


def the_objective_is_what_is_reported(case: Case, model: Any) -> str | None:
    """inertia_ is the weighted sum of the least distances, and −score; the labels are the nearest prototypes.

    A distance is rounded to a multiple of 2^−1074, so the sum is known to Σ w 2^−1074.
    """
    if case.X.dtype == np.float32:
        return None
    distances = model.transform(case.input())
    if not np.isfinite(distances).all() or not math.isfinite(model.inertia_):
        return None
    labels = distances.argmin(axis=1)
    if model.unit_exponent_ == 0 and not np.array_equal(labels, model.labels_):
        return "a label is not the nearest prototype"
    exact = sum(
        (Fraction(float(w)) * Fraction(float(v)) for w, v in zip(case.mass, distances.min(axis=1))), Fraction(0)
    )
    least = Fraction(1, 2**1000) * Fraction(2) ** (2 * int(model.unit_exponent_)) + Fraction(1, 2**1074)
    slack = least * sum(map(Fraction, case.mass.tolist()))
    # a weight below 2^−1022 of the largest counts as that much
    slack += (
        Fraction(float(case.mass.max())) * Fraction(1, 2**1021) * sum(map(Fraction, distances.min(axis=1).tolist()))
    )
    if not agrees(model.inertia_, exact, 1e-9, slack):
        return f"inertia_ is {model.inertia_!r}, exactly {_shown(exact)}"
    score = -model.score(case.input(), sample_weight=case.weights)
    return None if agrees(score, exact, 1e-9, slack) else f"score is {-score!r}, exactly {_shown(-exact)}"


def the_objective_never_rises(case: Case, model: Any) -> str | None:
    """No step raises the objective, up to rounding."""
    objective = np.asarray(model.history_["objective"], dtype=float)
    if not case.ordinary or len(objective) < 2:
        return None
    rise = np.diff(objective) - 1e-10 * objective[:-1]
    return f"objective {objective.tolist()}" if (rise > 0).any() else None


def modes_are_levels(case: Case, model: Any) -> str | None:
    """Levels are those of the rows that are present; a mode is one of them, or −1 of a column without a value."""
    codes = codes_of(case.table)[case.present]
    for j, (column, levels) in enumerate(zip(codes.T, model.categories_)):
        if not np.array_equal(np.unique(column[column >= 0]), levels):
            return f"category {j} has the levels {levels}"
        low = -1 if not len(levels) else 0
        if model.cluster_modes_[:, j].min() < low or model.cluster_modes_[:, j].max() >= max(len(levels), low + 1):
            return f"category {j} has the modes {model.cluster_modes_[:, j]}"
    return None


# ---- the same problem in another guise -----------------------------------------------------------------------------


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give the bits of repeated rows."""
    if not integer_weights(case):
        return None
    other = case.fit(repeated(case), None)
    if not np.array_equal(np.repeat(model.labels_, case.mass.astype(int)), other.labels_):
        return "labels_ differ"
    return differs(model, other, ("cluster_means_", "cluster_modes_", "inertia_", "gamma_"))


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same bits; whole weights, whose sums no order changes."""
    if case.weight_sort not in ("none", "ones", "integers", "with zeros"):
        return None
    order, X, weights = permuted(case)
    other = case.fit(X, weights)
    if not np.array_equal(model.labels_[order], other.labels_):
        return "labels_ differ"
    return differs(model, other, ("cluster_means_", "cluster_modes_", "inertia_", "gamma_"))


def the_order_of_columns_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted columns have the same objective, to the bit, and the same labels.

    Where two columns can be exchanged and the table has the same rows again, these rows are distinguished by the
    numbers of their columns alone: then any labels with that objective are right.
    """
    order = case.rng(12).permutation(case.X.shape[1])
    moved = np.flatnonzero(np.isin(order, case.table.categorical))
    X = np.ascontiguousarray(case.X[:, order])
    other = case.fit(X, categorical_features=moved)
    if not np.array_equal(model.labels_, other.labels_) and not _has_mirror(case):
        return f"labels_ differ in the order {order.tolist()}"
    return differs(model, other, ("inertia_", "gamma_"))


def _has_mirror(case: Case) -> bool:
    """Whether two columns can be exchanged so that the weighted rows are the same in another order."""
    X = np.column_stack([np.nan_to_num(case.X.astype(np.float64), nan=0.5), np.isnan(case.X), case.mass])[case.present]
    d = case.X.shape[1]
    rows = X[np.lexsort(X.T)]
    for i, j in itertools.combinations(range(d), 2):
        if np.isin([i, j], case.table.categorical).sum() == 1:
            continue
        other = X.copy()
        other[:, [i, j, d + i, d + j]] = X[:, [j, i, d + j, d + i]]
        if np.array_equal(rows, other[np.lexsort(other.T)]):
            return True
    return False


def a_missing_value_changes_its_own_row(case: Case, model: Any) -> str | None:
    """A value that is taken out changes no distance of another row; without any value a row is at distance 0."""
    before = model.transform(case.input())
    X = case.X.copy()
    i = int(case.rng(13).integers(len(X)))
    X[i] = np.nan
    after = model.transform(case.formed(X))
    changed = set(np.flatnonzero((before != after).any(axis=1)).tolist()) - {i}
    if changed:
        return f"the distances of row {min(changed)} changed"
    label = model.predict(case.formed(X))[i]
    if after[i].any() or label != 0:
        return f"a row without a value is at the distances {after[i]}, and in cluster {label}"
    return None


def an_unknown_level_is_missing(case: Case, model: Any) -> str | None:
    """A level that the fit has not seen counts as a missing value."""
    if not case.table.categorical:
        return None
    X, other = case.X.copy(), case.X.copy()
    X[:, list(case.table.categorical)], other[:, list(case.table.categorical)] = np.nan, 99
    same = np.array_equal(model.transform(case.formed(X)), model.transform(case.formed(other)))
    return None if same else "an unknown level counts"


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X has the same labels where γ is that of the data.

    Starts are drawn by w d². Numbers within 2^±100 keep their unit, and differences are 2^−60 of the largest or more:
    w d² ≥ 2^−320 w leaves float64 where weights span more than 2^600. Means are rounded to multiples of 2^−1074, which
    is nothing beside differences of 2^−60 x where |x| ≥ 2^−960. Means of float32 rows are rounded to float32, those of
    the multiples, which are float64, are not.
    """
    numeric = numeric_columns(case.table)
    numbers = case.X[:, numeric].astype(np.float64)
    if "gamma" in case.parameters or not len(numeric) or exponent_range(numbers) > 60:
        return None
    if exponent_range(case.mass[case.present]) > 600 or case.X.dtype == np.float32:
        return None
    p = exact_powers(numbers, int(case.rng(3).choice([-450, -40, 3, 40, 450])))
    X = case.X.astype(np.float64)
    X[:, numeric] = np.ldexp(numbers, p)
    sizes = np.abs(np.append(numbers, X[:, numeric]))
    if (sizes[sizes > 0] < 2.0**-960).any():
        return None
    other = case.fit(X)
    return None if np.array_equal(model.labels_, other.labels_) else f"labels_ differ under 2^{p} X"


FAMILY = Family(
    name="kprototypes",
    estimator=knoll.KPrototypes,
    parameters=parameters,
    table=draw_mixed_table,
    most_rows=60,
    most_columns=6,
    laws=(
        finite("cluster_means_"),
        predict_is_labels,
        distances_are_exact,
        the_objective_is_what_is_reported,
        the_objective_never_rises,
        modes_are_levels,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        the_order_of_columns_does_not_matter,
        a_missing_value_changes_its_own_row,
        an_unknown_level_is_missing,
        powers_of_two_are_units,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "should be >= n_clusters", lambda case: case.mass.sum() < case.parameters["n_clusters"],
            "weights count as rows",
        ),
    ),
)  # fmt: skip
