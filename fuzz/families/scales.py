"""knoll.scales: k-distances, ε, bandwidth and σ against sorted exact distances."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.cluster import estimate_bandwidth as peer_bandwidth

from fuzz.case import Case, Family, Rng
from fuzz.exact import as_float, integers, power, squared_distance
from fuzz.laws import exponent_range, integer_weights, permuted, quiet, repeated
from fuzz.tables import Table
from knoll import scales
from knoll.exceptions import BadData, KnollError


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters of the estimates."""
    return {
        "k": int(rng.integers(1, 8)),
        "quantile": float(rng.choice([0.0, 0.1, 0.3, 0.5, 1.0])),
        "n_neighbors": [None, 2, 3, 5][rng.integers(4)],
    }


def _roots_agree(found: float, square: Fraction, relative: float = 1e-13) -> bool:
    """Whether a float is the root of a fraction, up to rounding."""
    if math.isnan(found):
        return False
    if math.isinf(found):
        return square >= (Fraction(float(np.finfo(np.float64).max)) * (1 - Fraction(relative))) ** 2
    slack = 2 * Fraction(5e-324)
    low, high = (Fraction(found) * (1 + s * Fraction(relative)) + s * slack for s in (-1, 1))
    return max(Fraction(0), low) ** 2 <= square <= high**2


def k_distances_are_exact(case: Case, model: Any) -> str | None:
    """The least radius whose ball holds k rows, by exact integers; refused only where a distance leaves float64."""
    k = case.parameters["k"]
    (rows,), exponent = integers(case.X.astype(np.float64))
    try:
        found = scales.k_distances(case.input(), k, sample_weight=case.weights, n_jobs=1)
    except BadData as error:
        widest = max(squared_distance(a, b) for a in rows for b in rows) * power(2 * exponent)
        return None if _roots_agree(math.inf, widest) else f"refused: {error}"
    weights = [Fraction(w) for w in case.mass.tolist()]
    for i in range(min(len(rows), 8)):
        pairs = sorted((squared_distance(rows[i], row), w) for row, w in zip(rows, weights) if w)
        total, radius = Fraction(0), None
        for square, weight in pairs:
            total += weight
            if total >= k:
                radius = square
                break
        if radius is None:
            if found[i] != np.inf:
                return f"row {i}: {found[i]!r}, though the data does not hold {k} rows"
            continue
        if _near_level(pairs, k):
            continue
        if not _roots_agree(float(found[i]), radius * power(2 * exponent)):
            return f"row {i}: {found[i]!r}, not the root of {as_float(radius * power(2 * exponent)):.6g}"
    return None


def _near_level(pairs: list[tuple[int, Fraction]], k: int) -> bool:
    """Whether a sum of weights comes so near to k that rounding decides."""
    total = Fraction(0)
    for _, weight in pairs:
        total += weight
        if total != k and abs(total - k) < Fraction(1e-9) * k:
            return True
    return False


def estimates_are_positive_numbers(case: Case, model: Any) -> str | None:
    """ε and σ are finite and above 0, a bandwidth is finite and at least 0; refusals are knoll's own."""
    for name, estimate in (
        ("estimate_eps", lambda: float(scales.estimate_eps(case.input(), sample_weight=case.weights, n_jobs=1))),
        (
            "estimate_sigma",
            lambda: float(
                scales.estimate_sigma(
                    case.input(), case.parameters["n_neighbors"], sample_weight=case.weights, n_jobs=1
                )
            ),
        ),
    ):
        try:
            value = estimate()
        except KnollError as error:
            if case.ordinary and "fewer than min_samples" not in str(error):
                return f"{name} refuses ordinary data: {error}"
            continue
        if not 0 < value < math.inf:
            return f"{name} is {value!r}"
    width = _bandwidth(case)
    return None if width is None or 0 <= width < math.inf else f"estimate_bandwidth is {width!r}"


def _bandwidth(case: Case) -> float | None:
    try:
        return scales.estimate_bandwidth(
            case.input(), quantile=case.parameters["quantile"], sample_weight=case.weights, n_jobs=1
        )
    except KnollError:
        return None


def scikit_learn_has_the_same_bandwidth(case: Case, model: Any) -> str | None:
    """Without weights the estimate is scikit-learn's, where it takes whole neighbours."""
    n = len(case.X)
    if not case.ordinary or case.weights is not None or n < 2 or int(n * case.parameters["quantile"]) < 1:
        return None
    with quiet():
        expected = peer_bandwidth(case.X.astype(np.float64), quantile=case.parameters["quantile"])
    found = _bandwidth(case)
    return (
        None
        if found is not None and math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-6 * np.abs(case.X).max())
        else f"{found!r}, scikit-learn's {expected!r}"
    )


def bandwidth_is_at_most_the_diameter(case: Case, model: Any) -> str | None:
    """A mean of distances is not above the largest, nor 0 where no share of the rows is equal."""
    found = _bandwidth(case)
    if found is None or not case.present.any():
        return None
    (rows,), exponent = integers(case.X[case.present].astype(np.float64))
    widest = max(squared_distance(a, b) for a in rows for b in rows)
    largest = max(abs(v) for row in rows for v in row) * power(exponent)
    square = widest * power(2 * exponent)
    least = max(Fraction(found) - Fraction(5e-324), Fraction(0))  # a distance may have been rounded up to a subnormal
    above = least**2 > square * (1 + Fraction(1e-12)) + (largest * power(-480)) ** 2
    return f"estimate_bandwidth {found!r} is above the diameter" if above else None


def sigma_is_a_distance_of_the_data(case: Case, model: Any) -> str | None:
    """σ is a distance of two rows, or 1 where all are equal."""
    try:
        found = float(
            scales.estimate_sigma(case.input(), case.parameters["n_neighbors"], sample_weight=case.weights, n_jobs=1)
        )
    except KnollError:
        return None
    (rows,), exponent = integers(case.X[case.present].astype(np.float64))
    if len(set(rows)) == 1:
        return None if found == 1.0 else f"σ is {found!r} of equal rows"
    if not 0 < found < math.inf:
        return None  # reported by another law
    squares = {squared_distance(a, b) * power(2 * exponent) for a in rows for b in rows}
    return None if any(_roots_agree(found, s) for s in squares) else f"σ {found!r} is no distance of two rows"


def weights_are_repetitions_and_order_does_not_matter(case: Case, model: Any) -> str | None:
    """The estimates of repeated and of permuted rows are the same."""
    if not integer_weights(case):
        return None
    _, X, weights = permuted(case)
    tables = [(case.X, case.weights), (X, weights), (repeated(case), None)]
    for name, one in (
        ("estimate_sigma", lambda T, w: float(scales.estimate_sigma(T, sample_weight=w, n_jobs=1))),
        ("estimate_eps", lambda T, w: float(scales.estimate_eps(T, 2, sample_weight=w, n_jobs=1))),
        ("estimate_bandwidth", lambda T, w: scales.estimate_bandwidth(T, sample_weight=w, n_jobs=1)),
    ):
        try:
            values = [one(*table) for table in tables]
        except KnollError:
            continue
        if not np.allclose(values, values[0], rtol=1e-12, atol=0):
            return f"{name}: {values} of the rows, permuted, repeated"
    return None


def small_weights_have_no_unit(case: Case, model: Any) -> str | None:
    """σ is the same for 2^−p w and 2^−q w where both add up to less than the number of distinct rows.

    Where no weight becomes subnormal: 2^−900 (max w / min w) > 2^−1022.
    """
    if case.weights is None or exponent_range(case.mass[case.present]) > 100:
        return None
    weights = np.ldexp(case.weights, -int(np.frexp(case.weights.max())[1]) - 10)  # 80 of them are less than 1
    found = []
    for p in (0, 3, int(case.rng(4).integers(10, 890))):
        try:
            found.append(float(scales.estimate_sigma(case.input(), sample_weight=np.ldexp(weights, -p), n_jobs=1)))
        except KnollError:
            return None
    return None if len(set(found)) == 1 else f"σ {found} of multiples of the same weights"


FAMILY = Family(
    name="scales",
    estimator=None,
    parameters=parameters,
    most_rows=40,
    laws=(
        k_distances_are_exact,
        estimates_are_positive_numbers,
        scikit_learn_has_the_same_bandwidth,
        bandwidth_is_at_most_the_diameter,
        sigma_is_a_distance_of_the_data,
        weights_are_repetitions_and_order_does_not_matter,
        small_weights_have_no_unit,
    ),
)
