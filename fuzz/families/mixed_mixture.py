"""MixedMixture: log densities by Decimal over what a row has; orders, repetition and missing values."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import Any

import numpy as np

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.exact import DECIMAL, decimals
from fuzz.families.mixture import _Units, factors_are_finite
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
from knoll.gaussian.covariance import estimated_types

ANSWERS = ("weights_", "means_", "covariances_", "level_probabilities_", "labels_", "lower_bound_", "n_iter_")
_ORDER_FREE = ("weights_", "means_", "covariances_", "level_probabilities_", "lower_bounds_")
_TAU = Decimal("6.28318530717958647692528676655900576839433879875021164194989")


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters."""
    return {
        "n_components": int(rng.integers(1, min(len(table.X), 4) + 1)),
        "categorical_features": np.array(table.categorical, dtype=np.int64),
        "covariance_type": str(rng.choice(estimated_types())),
        "reg_covar": float(rng.choice([1e-6, 1e-6, 0.0, 1e-3, 10.0 ** rng.uniform(-300, 100)])),
        "categorical_prior": float(rng.choice([1.0, 1.0, 0.01, 10.0 ** rng.uniform(-200, 3)])),
        "max_iter": int(rng.choice([0, 1, 3, 20])),
        "tol": float(rng.choice([1e-3, 0.0])),
        "init_params": str(rng.choice(["kmeans", "k-means++", "random", "random_from_data"])),
        "random_state": int(rng.integers(1000)),
        "n_jobs": 1,
    }


def _complete(case: Case) -> bool:
    """Whether it is a mixture of Gaussians: numbers without missing values in the rows that count."""
    return not case.table.categorical and not np.isnan(case.X[case.present]).any()


# ---- exact oracle --------------------------------------------------------------------------------------------------


def log_densities_are_exact(case: Case, model: Any) -> str | None:
    """score_samples is log Σ_c π_c N(x_o | μ_o, Σ_oo) Π θ of the model's own parameters, o what the row has.

    Matrices of many columns are inverted, which costs digits by their condition: those of ordinary data in general
    position only.
    """
    numeric = numeric_columns(case.table)
    p = len(numeric)
    matrices = case.parameters["covariance_type"] in ("full", "tied") and p > 1
    steady = case.ordinary and case.table.shape in ("cloud", "blobs") and case.X.dtype == np.float64
    if matrices and not (steady and case.parameters["reg_covar"] >= 1e-7 and len(case.X) > 4 * p):
        return None
    sample = np.flatnonzero(case.present)[:6]
    found = model.score_samples(case.input())[sample]
    units, codes = _Units.of(model), codes_of(case.table)
    with decimal.localcontext(DECIMAL):
        covariances = [_covariance(model, units, c, p) for c in range(len(model.weights_))]
        for i, value in zip(sample.tolist(), found.tolist()):
            row = case.X[i, numeric].astype(np.float64)
            seen = np.flatnonzero(~np.isnan(row)).tolist()
            terms = []
            for c, weight in enumerate(model.weights_.astype(np.float64).tolist()):
                if weight > 0:
                    number = _number(units, c, row, seen, covariances[c])
                    terms.append((Decimal(weight).ln() + number[0] + _levels(model, c, codes[i]), number[1]))
            top = max(term for term, _ in terms)
            exact = top + sum(((term - top).exp() for term, _ in terms), Decimal(0)).ln()
            exact -= sum(units.exponents[j] for j in seen) * Decimal(2).ln()
            if exact < -(Decimal(2) ** 1009) or (
                found.dtype == np.float32 and exact < -Decimal(float(np.finfo(np.float32).max))
            ):
                continue
            doubt = max(doubt for term, doubt in terms if term >= top - 60)
            digits = Decimal("1e-5") if found.dtype == np.float32 else Decimal("1e-7" if matrices else "1e-9")
            if not math.isfinite(value) or abs(Decimal(value) - exact) > digits * (1 + abs(exact)) + doubt:
                return f"score_samples of row {i} is {value!r}, exactly {float(exact)!r}"
    return None


def _covariance(model: Any, units: _Units, c: int, p: int) -> list[list[Decimal]]:
    """Return Σ_c in the units of the model, from its factor: Σ = (U Uᵀ)⁻¹."""
    covariance_type = model.covariance_type_
    if p == 0:
        return []
    if covariance_type in ("diag", "spherical"):
        factors = decimals(np.broadcast_to(units.factors[c], p).tolist())
        return [[1 / f**2 if a == b else Decimal(0) for b in range(p)] for a, f in enumerate(factors)]
    upper = [decimals(row) for row in (units.factors if covariance_type == "tied" else units.factors[c]).tolist()]
    inverse = [[Decimal(0)] * p for _ in range(p)]  # of the upper triangular factor
    for j in range(p):
        inverse[j][j] = 1 / upper[j][j]
        for i in range(j - 1, -1, -1):
            inverse[i][j] = -sum((upper[i][k] * inverse[k][j] for k in range(i + 1, j + 1)), Decimal(0)) / upper[i][i]
    return [[sum((inverse[k][a] * inverse[k][b] for k in range(p)), Decimal(0)) for b in range(p)] for a in range(p)]


def _number(
    units: _Units, c: int, row: Any, seen: list[int], covariance: list[list[Decimal]]
) -> tuple[Decimal, Decimal]:
    """Return log N(x_o | μ_o, Σ_oo) in the units of the model, and how much of it rounding may cost."""
    if not seen:
        return Decimal(0), Decimal(0)
    powers = [units.exponents[j] for j in seen]
    scaled = _Units(powers, None, None).down(row[seen].tolist())
    means = decimals(units.means[c][seen].tolist())
    about = [x - m for x, m in zip(scaled, means)]
    lower: list[list[Decimal]] = []
    for a, j in enumerate(seen):
        lower.append([])
        for b in range(a + 1):
            left = covariance[j][seen[b]] - sum((lower[a][k] * lower[b][k] for k in range(b)), Decimal(0))
            lower[a].append(left.sqrt() if a == b else left / lower[b][b])
    solved: list[Decimal] = []
    for a in range(len(seen)):
        solved.append((about[a] - sum((lower[a][k] * solved[k] for k in range(a)), Decimal(0))) / lower[a][a])
    square = sum((v * v for v in solved), Decimal(0))
    log_det = sum((lower[a][a].ln() for a in range(len(seen))), Decimal(0))
    # x and m are rounded about the middle of all means: |δ(x − m)| ≤ 2^−52 (|x| + 2 max_c |m_c|) in each column
    middle = max(abs(Decimal(float(m))) for m in np.ravel(units.means[:, seen]))
    widest = max(middle, *(max(abs(x), abs(m)) for x, m in zip(scaled, means)))
    blur = max(1 / lower[a][a] for a in range(len(seen))) * widest * len(seen) * Decimal(2) ** -48
    return -square / 2 - log_det - len(seen) * _TAU.ln() / 2, blur * (square.sqrt() + blur)


def _levels(model: Any, c: int, codes: Any) -> Decimal:
    """Return Σ log θ of the categories that a row has."""
    total = Decimal(0)
    for code, levels, theta in zip(codes.tolist(), model.categories_, model.category_probabilities_):
        at = np.flatnonzero(levels == code)
        if code >= 0 and len(at):
            share = float(theta[c, at[0]])
            total += Decimal(share).ln() if share > 0 else Decimal(-(10**30))
    return total


# ---- what must hold of any model -----------------------------------------------------------------------------------


def answers_are_numbers(case: Case, model: Any) -> str | None:
    """No NaN in densities, probabilities, samples; imputed values but those of columns that the fit has not seen."""
    if np.isnan(model.score_samples(case.input())).any():
        return "score_samples has NaN"
    proba = model.predict_proba(case.input()).astype(np.float64)
    if not np.isfinite(proba).all() or (np.abs(proba.sum(axis=1) - 1) > 1e-5).any():
        return f"predict_proba has {proba[np.abs(proba.sum(axis=1) - 1).argmax()]}"
    own = proba[np.arange(len(proba)), model.labels_]
    if (own < proba.max(axis=1) - 1e-5).any():
        return "a label is not the largest responsibility"
    filled = np.asarray(model.impute(case.input()), dtype=float)
    empty = np.isnan(case.X[case.present]).all(axis=0)
    gaps = np.isnan(filled) & ~(empty & np.isin(np.arange(len(empty)), case.table.categorical))
    if gaps.any():
        return f"impute leaves {np.count_nonzero(gaps)} values missing"
    kept = ~np.isnan(case.X)
    if not np.array_equal(filled[kept], case.X[kept].astype(float)):
        return "impute changes a value"
    drawn = np.asarray(model.sample(20, random_state=0)[0], dtype=float)[:, ~(empty & _is_category(case))]
    return None if np.isfinite(drawn).all() else f"sample has {drawn[~np.isfinite(drawn)][0]}"


def _is_category(case: Case) -> Any:
    return np.isin(np.arange(case.X.shape[1]), case.table.categorical)


def shares_sum_to_one(case: Case, model: Any) -> str | None:
    """π and the level probabilities of each column lie in [0, 1] and sum to one."""
    slack = 1e-5 if case.X.dtype == np.float32 else 1e-12
    for name, shares in [("weights_", model.weights_[None]), *enumerate(model.category_probabilities_)]:
        if shares.shape[1] and (shares.min() < 0 or (np.abs(shares.astype(float).sum(axis=1) - 1) > slack).any()):
            return f"{name}: {shares}"
    return None


def means_lie_in_the_box(case: Case, model: Any) -> str | None:
    """A mean lies between the least and the largest value of its column: missing ones are conditional means.

    Those of correlated columns lie outside of the values, so with missing values only where covariances are diagonal.
    """
    numeric = numeric_columns(case.table)
    rows = case.X[case.present][:, numeric].astype(np.float64)
    if np.isnan(rows).any() and case.parameters["covariance_type"] in ("full", "tied"):
        return None
    means = model.means_.astype(np.float64)
    for j, column in enumerate(rows.T):
        values = column[~np.isnan(column)]
        if not len(values):
            continue
        slack = np.abs(values).max() * (1e-6 if case.X.dtype == np.float32 else 1e-14) + 2e-45
        with np.errstate(over="ignore"):
            outside = ((means[:, j] < values.min() - slack) | (means[:, j] > values.max() + slack)) & (
                model.weights_ > 0
            )
        if outside.any():
            return f"column {j}: mean {means[outside, j][0]!r} is outside of [{values.min()!r}, {values.max()!r}]"
    return None


def the_objective_never_falls(case: Case, model: Any) -> str | None:
    """With reg_covar=0 no step lowers the objective, up to rounding, where no component collapses."""
    bounds = model.lower_bounds_
    if model.reg_covar > 0 or len(bounds) < 2 or not case.ordinary or case.table.shape not in ("cloud", "blobs"):
        return None
    fall = -np.diff(bounds) - 1e-9 * np.maximum(1.0, np.abs(bounds[1:]))
    return f"lower_bounds_ {bounds.tolist()}" if (fall > 0).any() else None


def a_row_without_a_value_has_density_one(case: Case, model: Any) -> str | None:
    """Its log density is 0, its responsibilities are π; no other row changes."""
    X = case.X.copy()
    i = int(case.rng(13).integers(len(X)))
    X[i] = np.nan
    before, after = model.score_samples(case.input()), model.score_samples(case.formed(X))
    changed = set(np.flatnonzero(before != after).tolist()) - {i}
    if changed:
        return f"the density of row {min(changed)} changed"
    slack, proba = 1e-5 if case.X.dtype == np.float32 else 1e-12, model.predict_proba(case.formed(X))[i]
    if abs(after[i]) > slack or np.abs(proba - model.weights_).max() > slack:
        return f"log density {after[i]!r}, responsibilities {proba}"
    return None


def an_unknown_level_is_missing(case: Case, model: Any) -> str | None:
    """A level that the fit has not seen counts as a missing value."""
    if not case.table.categorical:
        return None
    X, other = case.X.copy(), case.X.copy()
    X[:, list(case.table.categorical)], other[:, list(case.table.categorical)] = np.nan, 99
    same = np.array_equal(model.score_samples(case.formed(X)), model.score_samples(case.formed(other)))
    return None if same else "an unknown level counts"


# ---- the same problem in another guise -----------------------------------------------------------------------------


def numbers_alone_are_a_mixture_of_gaussians(case: Case, model: Any) -> str | None:
    """Numbers without missing values are GaussianMixture, to the bit."""
    if not _complete(case) or np.isnan(case.X).any():  # which refuses missing values in rows of weight 0, too
        return None
    left = {name: case.parameters[name] for name in case.parameters if not name.startswith("categorical_")}
    other = knoll.GaussianMixture(**left).fit(case.input(), sample_weight=case.weights)
    if found := differs(model, other, ("weights_", "means_", "covariances_", "labels_", "lower_bound_")):
        return found
    same = np.array_equal(model.score_samples(case.input()), other.score_samples(case.input()))
    return None if same else "score_samples differs"


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give the bits of repeated rows."""
    if not integer_weights(case) or _complete(case):
        return None
    other = case.fit(repeated(case), None)
    if not np.array_equal(np.repeat(model.labels_, case.mass.astype(int)), other.labels_):
        return "labels_ differ"
    return differs(model, other, _ORDER_FREE)


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same bits; whole weights, whose sums no order changes."""
    if case.weight_sort not in ("none", "ones", "integers", "with zeros") or _complete(case):
        return None
    order, X, weights = permuted(case)
    other = case.fit(X, weights)
    if not np.array_equal(model.labels_[order], other.labels_):
        return "labels_ differ"
    return differs(model, other, _ORDER_FREE)


def the_order_of_columns_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted columns have the same bounds and shares, to the bit."""
    if _complete(case):
        return None
    order = case.rng(12).permutation(case.X.shape[1])
    moved = np.flatnonzero(np.isin(order, case.table.categorical))
    other = case.fit(np.ascontiguousarray(case.X[:, order]), categorical_features=moved)
    found = differs(model, other, ("weights_", "lower_bounds_"))
    return None if found is None else f"{found} in the order {order.tolist()}"


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X has the same labels where reg_covar is 0."""
    numeric = numeric_columns(case.table)
    numbers = case.X[:, numeric].astype(np.float64)
    if (
        case.parameters["reg_covar"] > 0
        or _complete(case)
        or not len(numeric)
        or not case.ordinary
        or case.X.dtype == np.float32
        or exponent_range(numbers) > 60
    ):
        return None
    p = exact_powers(numbers, int(case.rng(3).choice([-450, -40, 3, 40, 450])))
    X = case.X.astype(np.float64)
    X[:, numeric] = np.ldexp(numbers, p)
    other = case.fit(X)
    if not np.array_equal(model.labels_, other.labels_):
        return f"labels_ differ under 2^{p} X"
    return None if np.array_equal(np.ldexp(model.means_, p), other.means_) else f"means_ differ under 2^{p} X"


FAMILY = Family(
    name="mixed_mixture",
    estimator=knoll.MixedMixture,
    parameters=parameters,
    table=draw_mixed_table,
    most_rows=60,
    most_columns=6,
    laws=(
        finite("weights_", "means_", "level_probabilities_", "lower_bounds_"),
        factors_are_finite,
        predict_is_labels,
        log_densities_are_exact,
        answers_are_numbers,
        shares_sum_to_one,
        means_lie_in_the_box,
        the_objective_never_falls,
        a_row_without_a_value_has_density_one,
        an_unknown_level_is_missing,
        numbers_alone_are_a_mixture_of_gaussians,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        the_order_of_columns_does_not_matter,
        powers_of_two_are_units,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "n_samples >= n_components",
            lambda case: case.mass.sum() < case.parameters["n_components"],
            "weights count as rows",
        ),
    ),
)
