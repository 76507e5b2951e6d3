"""Gaussian: mean, covariance, determinant and Mahalanobis distances by exact fractions."""

from __future__ import annotations

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
    finite,
    integer_weights,
    permuted,
    repeated,
    same_bits_of_any_form,
    same_bits_of_any_threads,
    survives_clone,
    survives_pickle,
    survives_saving,
)
from fuzz.tables import Table

ANSWERS = ("mean_", "covariance_", "weight_", "whitener_", "log_det_", "is_singular_")
Matrix = list[list[Fraction]]


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters: there are hardly any."""
    return {"random_state": int(rng.integers(1000)), "n_jobs": 1}


# ---- exact oracles -------------------------------------------------------------------------------------------------


def _moments(case: Case) -> tuple[list[Fraction], Matrix]:
    """Return the exact mean and covariance of the present rows."""
    rows = [[Fraction(v) for v in row] for row in case.X[case.present].astype(np.float64).tolist()]
    weights = [Fraction(w) for w in case.mass[case.present].tolist()]
    total, d = sum(weights, Fraction(0)), case.X.shape[1]
    mean = [sum((w * row[j] for w, row in zip(weights, rows)), Fraction(0)) / total for j in range(d)]
    about = [[v - m for v, m in zip(row, mean)] for row in rows]
    covariance = [
        [sum((w * row[i] * row[j] for w, row in zip(weights, about)), Fraction(0)) / total for j in range(d)]
        for i in range(d)
    ]
    return mean, covariance


def mean_and_covariance_are_exact(case: Case, model: Any) -> str | None:
    """μ to the last bits of the largest entry, Σ_ij to those of √(Σ_ii Σ_jj)."""
    mean, covariance = _moments(case)
    single = model.mean_.dtype == np.float32
    digits = 1e-6 if single else 1e-12
    sizes = [Fraction(float(v)) for v in np.abs(case.X[case.present].astype(np.float64)).max(axis=0)]
    least = Fraction(1e-44) if single else Fraction(5e-324)
    for j, value in enumerate(model.mean_.tolist()):
        if not agrees(value, mean[j], 0.0, sizes[j] * Fraction(1e-6 if single else 1e-14) + least):
            return f"mean_[{j}] is {value!r}, exactly {float(mean[j])!r}"
    for i, row in enumerate(model.covariance_.tolist()):
        for j, value in enumerate(row):
            scale = _root(covariance[i][i] * covariance[j][j])
            # differences of numbers near the mean are rounded as those numbers are
            blur = Fraction(2.0**-52) * (sizes[i] * _root(covariance[j][j]) + sizes[j] * _root(covariance[i][i]))
            if not agrees(value, covariance[i][j], 0.0, scale * Fraction(digits) + blur + least):
                return f"covariance_[{i}, {j}] is {value!r}, exactly {_float(covariance[i][j])!r}"
    return None


def _root(square: Fraction) -> Fraction:
    """Return a root from above, to about 30 digits."""
    if square == 0:
        return Fraction(0)
    shift = max(0, 200 - square.numerator.bit_length() + square.denominator.bit_length())
    shift += shift % 2
    return Fraction(math.isqrt(math.ceil(square * 2**shift)) + 1, 2 ** (shift // 2))


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def densities_are_exact(case: Case, model: Any) -> str | None:
    """log_det_ and Mahalanobis distances are those of the exact Σ, where it is well conditioned.

    Weights share one power of two: a row of w < 2^−900 max w counts as absent. Its term in Σ_jj is at most 2^−900 R²,
    with the range R of the column, so within the 2^−52 R σ_j by which Σ_jj may be off wherever R ≤ 2^848 σ_j.
    """
    if model.is_singular_ or model.mean_.dtype == np.float32:
        return None
    if case.mass[case.present].min() < 2.0**-900 * case.mass.max():
        return None
    mean, covariance = _moments(case)
    d = len(mean)
    variances = [covariance[j][j] for j in range(d)]
    if not all(variances):
        return "is_singular_ is False for a column that is constant"
    inverse, determinant = _inverse(covariance)
    if inverse is None:
        return None
    # the condition of the correlation matrix bounds what rounding does
    condition = max(_float(inverse[j][j] * variances[j]) for j in range(d))
    offset = max(_float(abs(mean[j]) / _root(variances[j])) for j in range(d))
    if condition > 1e6 or offset > 1e6:
        return None
    expected = _log(determinant)
    if abs(model.log_det_ - expected) > 1e-6 + 1e-9 * abs(expected):
        return f"log_det_ is {model.log_det_!r}, exactly {expected!r}"
    sample = slice(0, 5)
    found = model.mahalanobis(case.input(sample), squared=True)
    for i, row in enumerate(case.X[sample].astype(np.float64).tolist()):
        about = [Fraction(v) - m for v, m in zip(row, mean)]
        exact = sum((about[i] * inverse[i][j] * about[j] for i in range(d) for j in range(d)), Fraction(0))
        if found.dtype == np.float32 and exact > Fraction(float(np.finfo(np.float32).max)):
            continue  # the answer is of the dtype of the rows, and its largest number then
        if not agrees(float(found[i]), exact, 1e-6, Fraction(1e-9)):
            return f"mahalanobis² of row {i} is {found[i]!r}, exactly {_float(exact)!r}"
        density = -0.5 * (d * math.log(2 * math.pi) + expected + _float(exact))
        score = float(model.score_samples(case.input(sample))[i])
        if exact > Fraction(1e307):
            continue  # the density is 0 in float64 however its logarithm is rounded
        if not math.isclose(score, density, rel_tol=1e-6, abs_tol=1e-6):
            return f"score_samples of row {i} is {score!r}, exactly {density!r}"
    return None


def _inverse(matrix: Matrix) -> tuple[Matrix | None, Fraction]:
    """Invert by elimination; also return the determinant."""
    d = len(matrix)
    rows = [list(row) + [Fraction(int(i == j)) for j in range(d)] for i, row in enumerate(matrix)]
    determinant = Fraction(1)
    for c in range(d):
        at = next((r for r in range(c, d) if rows[r][c]), None)
        if at is None:
            return None, Fraction(0)
        if at != c:
            rows[c], rows[at], determinant = rows[at], rows[c], -determinant
        pivot = rows[c][c]
        determinant *= pivot
        rows[c] = [v / pivot for v in rows[c]]
        for r in range(d):
            if r != c and rows[r][c]:
                factor = rows[r][c]
                rows[r] = [v - factor * p for v, p in zip(rows[r], rows[c])]
    return [row[d:] for row in rows], determinant


def _log(value: Fraction) -> float:
    power = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log(value / Fraction(2) ** power) + power * math.log(2)


def answers_of_rows_are_finite(case: Case, model: Any) -> str | None:
    """Distances are ≥ 0, densities and samples are numbers."""
    distances, scores = model.mahalanobis(case.input()), model.score_samples(case.input())
    if not (distances[case.present] >= 0).all() or np.isnan(distances).any():
        return f"mahalanobis has {distances.min()}"
    if np.isnan(scores).any() or not np.isfinite(scores[case.present]).all():
        return f"score_samples has {scores[~np.isfinite(scores)][0]}"
    drawn = model.sample(20, random_state=0)
    return None if np.isfinite(drawn).all() else "sample is not finite"


# ---- the same problem in another guise -----------------------------------------------------------------------------


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give the answers of repeated rows."""
    if not integer_weights(case):
        return None
    return _moments_differ(case, model, case.fit(repeated(case), None))


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows give the same moments."""
    _, X, weights = permuted(case)
    return _moments_differ(case, model, case.fit(X, weights))


def _moments_differ(case: Case, model: Any, other: Any) -> str | None:
    """Compare moments; a mean that comes out near 0 among rows of either sign has the rounding of those rows."""
    sizes = np.abs(case.X[case.present].astype(np.float64)).max(axis=0)
    gap = np.abs(np.subtract(model.mean_, other.mean_, dtype=np.float64))
    single = model.mean_.dtype == np.float32
    means = np.maximum(np.abs(model.mean_), np.abs(other.mean_)).max()
    allowed = np.maximum(1e-13 * means, sizes * 2.0**-52 + (1e-44 if single else 5e-324))
    if (gap > allowed).any():
        return f"mean_ is {model.mean_.tolist()} and {other.mean_.tolist()}"
    # float32 may round numbers that differ in the last bit of float64 to two neighbours
    return differs(model, other, ("covariance_", "weight_"), relative=2.0**-23 if single else 1e-13)


def blocks_give_the_same_bits(case: Case, model: Any) -> str | None:
    """fit_blocks with any cuts is fit."""
    n = len(case.X)
    cuts = sorted(case.rng(5).integers(0, n + 1, size=2).tolist())
    chunks = [p for p in np.split(np.arange(n), cuts) if len(p)]
    blocks = [case.X[p] if case.weights is None else (case.X[p], case.weights[p]) for p in chunks]
    return differs(model, case.make().fit_blocks(lambda: iter(blocks)), ANSWERS)


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X and 2^q w have the mean 2^p μ and the covariance 2^2p Σ."""
    if case.X.dtype == np.float32 or not case.ordinary:
        return None
    p = exact_powers(case.X, int(case.rng(3).choice([-400, -40, 3, 40, 400])))
    q = 0 if case.weights is None else exact_powers(case.weights, int(case.rng(4).choice([-200, 0, 5, 200])))
    other = case.fit(
        np.ldexp(case.X.astype(np.float64), p), None if case.weights is None else np.ldexp(case.weights, q)
    )
    if not np.array_equal(other.mean_, np.ldexp(model.mean_, p)):
        return f"mean_ differs under 2^{p} X, 2^{q} w"
    same = np.array_equal(other.covariance_, np.ldexp(model.covariance_, 2 * p))
    return None if same else f"covariance_ differs under 2^{p} X, 2^{q} w"


FAMILY = Family(
    name="gaussian",
    estimator=knoll.Gaussian,
    parameters=parameters,
    laws=(
        finite("mean_", "covariance_", "weight_", "whitener_", "log_det_"),
        mean_and_covariance_are_exact,
        densities_are_exact,
        answers_of_rows_are_finite,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        blocks_give_the_same_bits,
        powers_of_two_are_units,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "the squares of X leave float64",
            lambda case: bool((np.ptp(case.X[case.present].astype(np.float64), axis=0) < 1e-150).any()),
            "a column that varies by neighbours of 0 alone",
        ),
    ),
)
