"""Gower's distance: exact fractions, and every estimator that takes it; orders, repetition and missing values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import knoll
from fuzz.case import SAME, Case, Family, Refusal, Rng
from fuzz.laws import (
    differs,
    exact_powers,
    exponent_range,
    integer_weights,
    partitions_differ,
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
from knoll.neighbors import gower_distances

_TINY = float(np.finfo(np.float64).tiny)


class Estimators:
    """The estimators by name; each is made with Gower's distance."""

    def __init__(self) -> None:
        self.__name__ = "gower"

    def __call__(self, name: str, options: dict[str, Any], **parameters: Any) -> Any:
        """Make an estimator; `n_jobs` is the one parameter that laws change."""
        return getattr(knoll, name)(**options, **parameters)


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw an estimator, its parameters, and weights and ranges of the columns."""
    n, d = table.X.shape
    columns: dict[str, Any] = {"categorical_features": list(table.categorical)}
    if rng.random() < 0.3:
        columns["weights"] = rng.choice(
            [rng.uniform(0.1, 3.0, size=d), 10.0 ** rng.uniform(-200, 200, size=d)]
        ).tolist()
    if rng.random() < 0.15:
        columns["ranges"] = (10.0 ** rng.choice([rng.uniform(-3, 3, size=d), rng.uniform(-290, 290, size=d)])).tolist()
    if rng.random() < 0.7:
        name, drawn = _by_metric(rng, n)
        drawn |= {"metric": "gower", "metric_params": columns}
    else:
        kernel = rng.random() < 0.5
        name = "KernelKMeans" if kernel else "SpectralClustering"
        k = int(rng.integers(1, min(n, 4) + 1))
        drawn = {"n_clusters": k, "kernel" if kernel else "affinity": "gower", "kernel_params": columns}
        drawn["random_state"] = int(rng.integers(1000))
    return {"name": name, "options": drawn, "n_jobs": 1}


def _by_metric(rng: Rng, n: int) -> tuple[str, dict[str, Any]]:
    least = int(rng.choice([1, 2, 3, 5]))
    eps = float(rng.choice([0.05, 0.2, 0.5, 1.0, rng.uniform(0, 1)]))
    choices: list[tuple[str, dict[str, Any]]] = [
        ("DBSCAN", {"eps": eps, "min_samples": least, "border": str(rng.choice(["closest", "noise"]))}),
        ("DBSCAN", {"eps": eps, "min_samples": least, "noise": "nearest"}),
        ("HDBSCAN", {"min_cluster_size": int(rng.integers(2, 6)), "min_samples": least}),
        (
            "AgglomerativeClustering",
            {
                "n_clusters": int(rng.integers(1, min(n, 4) + 1)),
                "linkage": str(rng.choice(["single", "average", "complete"])),
            },
        ),
    ]
    return choices[rng.integers(4)]


def _columns(case: Case) -> dict[str, Any]:
    options = case.parameters["options"]
    found: dict[str, Any] = options.get("metric_params", options.get("kernel_params"))
    return found


def _distances(case: Case, X: Any = SAME, Y: Any = None, **changes: Any) -> Any:
    return gower_distances(case.X if X is SAME else X, Y, **{**_columns(case), **changes})


# ---- the distances -------------------------------------------------------------------------------------------------


def distances_are_exact(case: Case, model: Any) -> str | None:
    """Σ w |x − y| / range over Σ w, of the columns that both rows have, by fractions.

    x − low and its quotient are rounded first: an error of 2^−52 of the largest |x − low| / range, which is 1 where
    ranges are those of the table.
    """
    if "ranges" in _columns(case) or "weights" in _columns(case):
        return None
    found = _distances(case)
    numeric = numeric_columns(case.table)
    rows = case.X[:, numeric].astype(np.float64)
    exact: list[list[Fraction | None]] = []
    for column in rows.T:
        values = [None if np.isnan(x) else Fraction(float(x)) for x in column]
        seen = [v for v in values if v is not None]
        extent = max(seen) - min(seen) if seen else Fraction(0)
        if extent > Fraction(float(np.finfo(np.float64).max)):
            extent = Fraction(float(np.finfo(np.float64).max))  # the range is a float, and so at most that
        exact.append([None if v is None else (v / extent if extent else Fraction(0)) for v in values])
    codes = codes_of(case.table)
    for i in range(min(len(rows), 6)):
        for j in range(len(rows)):
            both = [(c[i], c[j]) for c in exact]
            terms = [abs(a - b) for a, b in both if a is not None and b is not None]
            terms += [Fraction(int(a != b)) for a, b in zip(codes[i], codes[j]) if a >= 0 and b >= 0]
            if not terms:
                empty = np.isnan(case.X[[i, j]].astype(float)).all()
                expected = Fraction(0) if empty else Fraction(1)
            else:
                expected = sum(terms, Fraction(0)) / len(terms)
            if abs(Fraction(float(found[i, j])) - expected) > Fraction(1, 2**48):
                return f"rows {i} and {j} are {found[i, j]!r} apart, exactly {float(expected)!r}"
    return None


def distances_are_shares(case: Case, model: Any) -> str | None:
    """Distances are symmetric, from 0 to 1 with the ranges of the table; equal rows are 0 apart.

    A range is at most the largest float64: where max − min is R above that, up to R / 1.797e308 ≤ 2.
    """
    found = _distances(case)
    if not np.array_equal(found, found.T):
        return "distances are not symmetric"
    if found.diagonal().any():
        return f"a row is {found.diagonal().max()!r} from itself"
    most = np.inf if "ranges" in _columns(case) else (1 + 1e-15) * max(1.0, _excess(case))
    if not ((found >= 0) & (found <= most)).all():
        return f"distances from {found.min()!r} to {found.max()!r}"
    return None if np.array_equal(found, _distances(case, n_jobs=3)) else "threads change the distances"


def _excess(case: Case) -> float:
    """Return the largest range of a column over the largest float64."""
    rows = case.X[:, numeric_columns(case.table)].astype(np.float64) / 4
    if not np.isfinite(rows).any():
        return 0.0
    seen = np.isfinite(rows)
    spans = np.where(seen, rows, -np.inf).max(axis=0) - np.where(seen, rows, np.inf).min(axis=0)
    return float(spans.max() / (np.finfo(np.float64).max / 4))


def distances_to_rows_are_those_of_the_table(case: Case, model: Any) -> str | None:
    """Rows given as Y have the same bits; an unknown level is missing; a missing value changes its own row only."""
    X, found = case.X, _distances(case)
    if not np.array_equal(found, _distances(case, Y=X)):
        return "Y = X has other distances"
    i = int(case.rng(13).integers(len(X)))
    other = X.copy()
    other[i] = np.nan
    after = _distances(case, Y=other)
    if not np.array_equal(np.delete(found, i, axis=1), np.delete(after, i, axis=1)):
        return "a missing value changes the distances of other rows"
    empty = np.isnan(X.astype(float)).all(axis=1)
    if not np.array_equal(after[:, i], np.where(empty, 0.0, 1.0)):
        return f"a row without a value is at {after[:, i]}"
    if case.table.categorical:
        blank, strange = X.copy(), X.copy()
        blank[:, list(case.table.categorical)], strange[:, list(case.table.categorical)] = np.nan, 99
        if not np.array_equal(_distances(case, Y=blank), _distances(case, Y=strange)):
            return "an unknown level counts"
    return None


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X has the same distances, to the bit; so do 2^q of the weights."""
    columns, numeric = _columns(case), numeric_columns(case.table)
    numbers = case.X[:, numeric].astype(np.float64)
    if "ranges" in columns or exponent_range(numbers) > 400:
        return None
    X = case.X.astype(np.float64)
    p = exact_powers(numbers, int(case.rng(3).choice([-900, -300, -40, 3, 40, 300, 900])))
    X[:, numeric] = np.ldexp(numbers, p)
    if len(numeric) and not _quotients_are_normal(numbers, X[:, numeric]):
        return None
    changes = {}
    if "weights" in columns and exponent_range(columns["weights"]) < 900:
        changes["weights"] = np.ldexp(columns["weights"], exact_powers(columns["weights"], 50))
    same = np.array_equal(_distances(case), _distances(case, X, **changes))
    return None if same else f"distances differ under 2^{p} X"


def _quotients_are_normal(*tables: Any) -> bool:
    """Whether differences and ranges have all their digits: subnormal ones are exact, but no range may overflow."""
    with np.errstate(all="ignore"):
        extents = [np.fmax.reduce(t, axis=0) - np.fmin.reduce(t, axis=0) for t in tables]
    return all(not (e == np.inf).any() for e in extents)


# ---- the estimators ------------------------------------------------------------------------------------------------


def labels_of_new_rows(case: Case, model: Any) -> str | None:
    """predict(X) == labels_, where the estimator has predict."""
    return predict_is_labels(case, model) if hasattr(model, "predict") else None


def the_matrix_has_the_same_answer(case: Case, model: Any) -> str | None:
    """The same estimator on the matrix of distances finds the same partition; ties of borders go by contents here."""
    name, options = case.parameters["name"], dict(case.parameters["options"])
    if name not in ("DBSCAN", "HDBSCAN") or case.weights is not None or options.get("noise") == "nearest":
        return None
    options |= {"metric": "precomputed", "metric_params": None}
    other = getattr(knoll, name)(**options, n_jobs=1).fit(_distances(case))
    if name == "DBSCAN":
        if not np.array_equal(model.core_sample_indices_, other.core_sample_indices_):
            return "core points differ from those of the matrix"
        core = model.core_sample_indices_
        return "clusters differ" if partitions_differ(model.labels_[core], other.labels_[core]) else None
    return "labels_ differ from those of the matrix" if partitions_differ(model.labels_, other.labels_) else None


def optics_orders_as_on_the_matrix(case: Case, model: Any) -> str | None:
    """OPTICS has the order and the reachability of the matrix of distances."""
    if case.seed % 4 or len(case.X) < 2:
        return None
    options: dict[str, Any] = {"min_samples": min(3, len(case.X)), "n_jobs": 1}
    mine = knoll.OPTICS(metric="gower", metric_params=_columns(case), **options).fit(case.X)
    other = knoll.OPTICS(metric="precomputed", **options).fit(_distances(case))
    return differs(mine, other, ("ordering_", "reachability_", "core_distances_", "labels_"))


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give the partition of repeated rows."""
    if not integer_weights(case) or case.parameters["name"] in ("SpectralClustering", "KernelKMeans"):
        return None  # sums of products, whose rounding may decide
    if case.parameters["name"] in ("HDBSCAN", "AgglomerativeClustering"):
        return None  # ties of equal distances, and sums of stabilities: laws of their own families
    other = case.fit(repeated(case), None)
    mine = np.repeat(model.labels_, case.mass.astype(int))
    return "labels_ differ" if partitions_differ(mine, other.labels_) else None


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same partition, unless more clusters are requested than there are distinct rows.

    Rows are equal that have the same distances to all rows, so that nothing distinguishes them.
    """
    if case.parameters["name"] in ("KernelKMeans", "SpectralClustering"):
        return None  # products are added in the order of the rows
    distances = _distances(case)[case.present]
    if case.parameters["options"].get("n_clusters", 0) > len(np.unique(distances, axis=0)):
        return None  # which of several equal rows is a cluster of its own
    order, X, weights = permuted(case)
    other = case.fit(X, weights)
    return "labels_ differ" if partitions_differ(model.labels_[order], other.labels_) else None


FAMILY = Family(
    name="gower",
    estimator=Estimators(),
    parameters=parameters,
    table=draw_mixed_table,
    most_rows=50,
    most_columns=6,
    laws=(
        distances_are_exact,
        distances_are_shares,
        distances_to_rows_are_those_of_the_table,
        powers_of_two_are_units,
        labels_of_new_rows,
        the_matrix_has_the_same_answer,
        optics_orders_as_on_the_matrix,
        same_bits_of_any_form("labels_"),
        same_bits_of_any_threads("labels_"),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "else no row has a core distance",
            lambda case: case.mass.sum() < case.parameters["options"].get("min_samples", 0),
            "too few rows",
        ),
        Refusal(
            "n_samples|rows|distinct|clusters",
            lambda case: len(np.unique(case.X[case.present], axis=0)) < 6,
            "few rows",
        ),
    ),
)
