"""KMeans: nearest centres and inertia by exact integers, fixed points, scikit-learn from the same start."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.cluster import KMeans as Peer

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.exact import Row, agrees, integers, power, squared_distance
from fuzz.forms import FORMS
from fuzz.laws import (
    differs,
    exact_powers,
    exponent_range,
    finite,
    integer_weights,
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

ANSWERS = ("cluster_centers_", "labels_", "inertia_", "n_iter_", "cluster_weights_")
TOTALS = ("cluster_centers_", "inertia_", "n_iter_", "cluster_weights_")
_UNIT = 2.0**-53


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; a third of the starts are given."""
    n = len(table.X)
    k = int(rng.integers(1, min(n, 9) + 1))
    drawn: dict[str, Any] = {
        "n_clusters": k,
        "random_state": int(rng.integers(1000)),
        "algorithm": str(rng.choice(["auto", "lloyd", "hamerly", "elkan"])) if k > 1 else "auto",
        "empty_clusters": str(rng.choice(["relocate", "relocate", "keep"])),
        "tol": float(rng.choice([0.0, 0.0, 1e-4])),
        "n_jobs": 1,
    }
    start = rng.integers(3)
    if start == 0:
        drawn["init"] = table.X[rng.choice(n, k, replace=False)].astype(np.float64)
    else:
        drawn |= {"init": ["", "k-means++", "random"][start], "n_init": int(rng.integers(1, 4))}
    if rng.random() < 0.1:
        drawn["max_iter"] = int(rng.integers(1, 4))
    return drawn


# ---- exact oracles -------------------------------------------------------------------------------------------------


def labels_are_the_nearest_centres(case: Case, model: Any) -> str | None:
    """No centre is nearer than that of the label, by exact integers, beyond the rounding of the one distance."""
    (rows, centers), _ = integers(case.X, model.cluster_centers_)
    d = case.X.shape[1]
    for i, row in enumerate(rows):
        squares = [squared_distance(row, center) for center in centers]
        own, least = squares[model.labels_[i]], min(squares)
        # (d + 4) roundings, and squares below 2^−1000 of the largest coordinate's, which float64 does not hold
        largest = max(abs(v) for v in (*row, *(v for center in centers for v in center)))
        slack = Fraction((2 * d + 8) * _UNIT) * least + Fraction(largest * largest) * power(-1000)
        if own > least + slack:
            return f"row {i} has label {model.labels_[i]}, but centre {squares.index(least)} is nearer"
    return None


def ties_go_to_the_lowest_index(case: Case, model: Any) -> str | None:
    """On ordinary data labels are the first minimum of Σ_j (x_j − c_j)², added in order, to the bit."""
    if not case.ordinary:
        return None
    X, centers = case.X.astype(np.float64), model.cluster_centers_.astype(np.float64)
    squares = np.zeros((len(X), len(centers)))
    for j in range(X.shape[1]):
        squares += np.square(X[:, j, None] - centers[None, :, j])
    wrong = np.flatnonzero(squares.argmin(axis=1) != model.labels_)
    return f"row {wrong[0]}: label {model.labels_[wrong[0]]}, squares {squares[wrong[0]]}" if len(wrong) else None


def inertia_is_the_exact_sum(case: Case, model: Any) -> str | None:
    """inertia_ = Σ w ‖x − c‖², and score(X) = −inertia_ on the same rows."""
    (rows, centers), exponent = integers(case.X, model.cluster_centers_)
    weights = [Fraction(weight) for weight in case.mass.tolist()]
    pairs = list(zip(weights, rows, model.labels_))
    total = sum((w * squared_distance(row, centers[label]) for w, row, label in pairs), Fraction(0))
    middle = rows[next(i for i, w in enumerate(weights) if w)]
    about = sum((w * squared_distance(row, middle) for w, row, _ in pairs), Fraction(0))
    largest = max(w * max(max(map(abs, row)), max(map(abs, centers[label]))) ** 2 for w, row, label in pairs)
    unit = power(2 * exponent)
    # Sums are taken about a point of the data, and float32 centres are rounded after them.
    relative, digits = (1e-5, 1e-12) if case.X.dtype == np.float32 else (1e-12, 1e-14)
    absolute = (about * Fraction(digits) + largest * power(-1000)) * unit
    if not agrees(model.inertia_, total * unit, relative, absolute):
        return f"inertia_ {model.inertia_!r}, exactly {_show(total * unit)}"
    return None


def _show(value: Fraction) -> str:
    try:
        return repr(float(value))
    except OverflowError:
        return "beyond float64"


def centres_are_means_of_their_rows(case: Case, model: Any) -> str | None:
    """Where the last step moved nothing, each centre is the weighted mean of its rows.

    Not with tol > 0: the squares of tiny shifts vanish from `history_`, so that it cannot show it; nor can it at
    max_iter, where unchanged labels show it instead. float32 is rounded, and so are centres of subnormal data, before
    rows are assigned to them for the last time. Rows between two centres so close beside the largest entry
    that the squares of their distances vanish are not distinguished, which the fit warns of.
    """
    changed, relabelled = model.history_["changed"], model.history_["relabelled"]
    if model.tol > 0 or not len(changed) or changed[-1] != 0 or case.X.dtype == np.float32:
        return None
    if (model.n_iter_ >= model.max_iter and relabelled[-1]) or np.abs(case.X.astype(np.float64)).max() < 2.0**-1000:
        return None
    (rows, centers), exponent = integers(case.X, model.cluster_centers_)
    least = 2 * power(-1074 - exponent)  # where the numbers are subnormal
    weights = [Fraction(w) for w in case.mass.tolist()]
    heaviest, largest = max(weights), max(abs(v) for row in rows for v in row)
    for c, center in enumerate(centers):
        own = [i for i in range(len(rows)) if model.labels_[i] == c and weights[i] > 0]
        mass = sum((weights[i] for i in own), Fraction(0))
        if not own or mass < heaviest * Fraction(2.0**-900):
            continue
        if _has_close(center, centers, largest):
            continue
        for j, value in enumerate(center):
            mean = sum((weights[i] * rows[i][j] for i in own), Fraction(0)) / mass
            size = max(abs(rows[i][j]) for i in own)
            if abs(mean - value) > Fraction(1e-14) * size + largest * power(-1000) + least:
                return (
                    f"centre {c}, column {j}: {model.cluster_centers_[c, j]!r} is not the mean of its {len(own)} rows"
                )
    return None


def _has_close(center: Row, centers: list[Row], largest: int) -> bool:
    """Whether squares of distances to another centre vanish beside the largest entry: the fit warns of such centres."""
    gaps = [max(abs(a - b) for a, b in zip(center, other)) for other in centers]
    return any(0 < gap < largest * power(-449) for gap in gaps)


def objective_never_rises(case: Case, model: Any) -> str | None:
    """J falls from step to step, up to rounding."""
    objective = model.history_["objective"]
    if len(objective) < 2 or not np.isfinite(objective).all():
        return None
    rise = np.diff(objective) - 1e-10 * objective[0]
    return (
        f"step {int(rise.argmax()) + 1}: {objective[rise.argmax()]} → {objective[rise.argmax() + 1]}"
        if (rise > 0).any()
        else None
    )


def transform_is_the_exact_distance(case: Case, model: Any) -> str | None:
    """transform(X) are the distances to the centres."""
    sample = slice(0, 6)
    found = model.transform(case.input(sample))
    (rows, centers), exponent = integers(case.X[sample], model.cluster_centers_)
    single = case.X.dtype == np.float32
    relative, least = (1e-6, float(np.finfo(np.float32).smallest_subnormal)) if single else (1e-13, 5e-324)
    for i, row in enumerate(rows):
        largest = max(abs(v) for v in (*row, *(v for center in centers for v in center))) * power(exponent)
        slack = largest * power(-500) + 2 * Fraction(least)  # below that, squares leave float64 beside the others
        for c, center in enumerate(centers):
            square = Fraction(squared_distance(row, center)) * power(2 * exponent)
            if not _is_root(float(found[i, c]), square, relative, slack, found.dtype):
                return f"row {i}, centre {c}: {found[i, c]!r}"
    return None


def _is_root(found: float, square: Fraction, relative: float, slack: Fraction, dtype: Any) -> bool:
    if np.isnan(found):
        return False
    if np.isinf(found):
        return square >= (Fraction(float(np.finfo(dtype).max)) * (1 - Fraction(relative))) ** 2
    low, high = (Fraction(found) * (1 + s * Fraction(relative)) + s * slack for s in (-1, 1))
    return max(Fraction(0), low) ** 2 <= square <= high**2


# ---- the same problem in another guise -----------------------------------------------------------------------------


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give the bits of repeated rows."""
    if not integer_weights(case) or case.mass.sum() < case.parameters["n_clusters"]:
        return None
    if np.count_nonzero(case.mass) < case.parameters["n_clusters"]:
        return None  # fewer rows than clusters are refused when repeated by name of their number
    other = case.fit(repeated(case), None)
    if found := differs(model, other, TOTALS):
        return found
    return None if np.array_equal(np.repeat(model.labels_, case.mass.astype(int)), other.labels_) else "labels_ differ"


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows give the same bits, from a given start and from a seed."""
    order, X, weights = permuted(case)
    other = case.fit(X, weights)
    if found := differs(model, other, TOTALS):
        return found
    return None if np.array_equal(model.labels_[order], other.labels_) else "labels_ differ"


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X and 2^q w have the same labels and centres 2^p c.

    Drawn starts are compared on ordinary data without constant columns alone: those columns leave the data where it is
    scaled, which changes the contents that a start is drawn by; every answer is a fixed point all the same. Beside the
    largest entry those below 2^−900 of it are rounded to the scale of the fit, which depends on the unit. Centres of
    subnormal data are rounded before the last assignment. Rows between centres whose squared distance vanishes beside
    the largest entry are not distinguished, and where it vanishes depends on the unit.
    """
    has_start = isinstance(case.parameters["init"], np.ndarray)
    X = case.X.astype(np.float64)
    if case.X.dtype == np.float32 or (not has_start and (not case.ordinary or (X[0] == X).all(axis=0).any())):
        return None
    if exponent_range(X) > 900 or np.abs(X).max() < 2.0**-1000:
        return None
    (rows, centers), _ = integers(X, model.cluster_centers_)
    if any(_has_close(center, centers, max(abs(v) for row in rows for v in row)) for center in centers):
        return None
    wanted = int(case.rng(3).choice([-900, -300, -40, 3, 40, 300, 900]))
    p = exact_powers(np.r_[X, case.parameters["init"]] if has_start else X, wanted)
    q = 0 if case.weights is None else exact_powers(case.weights, int(case.rng(4).choice([-200, 0, 5, 200])))
    changes = {"init": np.ldexp(case.parameters["init"], p)} if has_start else {}
    other = case.fit(np.ldexp(X, p), None if case.weights is None else np.ldexp(case.weights, q), **changes)
    if not np.array_equal(model.labels_, other.labels_):
        return f"labels_ differ under 2^{p} X, 2^{q} w"
    with np.errstate(all="ignore"):  # in the smaller unit, where subnormal numbers may have been rounded twice
        mine = np.ldexp(model.cluster_centers_, min(p, 0))
        others = np.ldexp(other.cluster_centers_, -max(p, 0))
    return None if (np.abs(mine - others) <= 5e-324).all() else f"cluster_centers_ differ under 2^{p} X, 2^{q} w"


def blocks_give_the_same_bits(case: Case, model: Any) -> str | None:
    """fit_blocks with any cuts is fit."""
    n = len(case.X)
    cuts = sorted(case.rng(5).integers(0, n + 1, size=2).tolist())
    chunks = [p for p in np.split(np.arange(n), cuts) if len(p)]
    blocks = [case.X[p] if case.weights is None else (case.X[p], case.weights[p]) for p in chunks]
    return differs(model, case.make().fit_blocks(lambda: iter(blocks)), TOTALS)


def float32_is_float64_of_the_same_numbers(case: Case, model: Any) -> str | None:
    """The same numbers in float64 have the same centres up to the rounding of the answer."""
    if case.X.dtype != np.float32 or not case.ordinary:
        return None
    other = case.fit(case.X.astype(np.float64))
    gap = np.abs(model.cluster_centers_ - other.cluster_centers_).max()
    size = np.abs(case.X).max()
    return f"centres differ by {gap:.3g} where |X| goes up to {size:.3g}" if gap > 1e-6 * size else None


def scikit_learn_agrees(case: Case, model: Any) -> str | None:
    """From the same start scikit-learn goes the same steps, unless a cluster runs empty or a tie occurs."""
    start = case.parameters["init"]
    if not case.ordinary or not isinstance(start, np.ndarray) or case.X.dtype == np.float32 or case.weights is not None:
        return None
    if len(np.unique(start, axis=0)) < len(start) or case.parameters["empty_clusters"] == "keep":
        return None
    X = case.X.astype(np.float64)
    with quiet():
        peer = Peer(len(start), init=start, n_init=1, tol=0.0, algorithm="lloyd", max_iter=300).fit(X)
        mine = case.fit(X, tol=0.0, max_iter=300)
    if _has_ties(X, mine) or len(np.unique(mine.labels_)) < len(start):
        return None
    # equal up to ties on the way: both ends are fixed points, and one start has one path
    if np.isclose(peer.inertia_, mine.inertia_, rtol=1e-6) or _ties_on_the_path(X, start):
        return None
    return f"inertia_ {mine.inertia_!r}, scikit-learn's {peer.inertia_!r}"


def _has_ties(X: Any, model: Any) -> bool:
    squares = np.sort(((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2), axis=1)
    return squares.shape[1] > 1 and bool((squares[:, 1] - squares[:, 0] <= 1e-9 * (1 + squares[:, 1])).any())


def _ties_on_the_path(X: Any, centers: Any) -> bool:
    """Run the alternation by hand: whether a row was tied, or a cluster empty, at any step."""
    for _ in range(300):
        squares = ((X[:, None] - centers) ** 2).sum(axis=2)
        ordered = np.sort(squares, axis=1)
        if ordered.shape[1] > 1 and (ordered[:, 1] - ordered[:, 0] <= 1e-9 * (1 + ordered[:, 1])).any():
            return True
        labels = squares.argmin(axis=1)
        if len(np.unique(labels)) < len(centers):
            return True
        moved = np.array([X[labels == c].mean(axis=0) for c in range(len(centers))])
        if np.array_equal(moved, centers):
            return False
        centers = moved
    return True


def partial_fit_is_the_running_mean(case: Case, model: Any) -> str | None:
    """A batch moves each centre to the mean of all it was ever given (eq. 3.11)."""
    if not case.ordinary or case.X.dtype == np.float32 or len(case.X) < 2 or not case.mass[: len(case.X) // 2].any():
        return None
    half = len(case.X) // 2
    if not case.mass[half:].any():
        return None
    learner = case.fit(case.X, max_iter=1)
    before, counts = learner.cluster_centers_.copy(), learner.cluster_weights_.copy()
    batch, weights = case.X[half:].astype(np.float64), case.mass[half:]
    labels = learner.predict(batch)
    learner.partial_fit(batch, sample_weight=weights)
    for c in range(len(before)):
        own = labels == c
        mass = counts[c] + weights[own].sum()
        if not weights[own].any():
            expected = before[c]
        else:
            expected = (before[c] * counts[c] + weights[own] @ batch[own]) / mass
        size = max(np.abs(case.X).max(), 1e-300)
        if np.abs(learner.cluster_centers_[c] - expected).max() > 1e-12 * size:
            return f"centre {c}: {learner.cluster_centers_[c]}, expected {expected}"
    return None


FAMILY = Family(
    name="kmeans",
    estimator=knoll.KMeans,
    parameters=parameters,
    forms=tuple(FORMS),
    laws=(
        finite("cluster_centers_", "cluster_weights_"),
        predict_is_labels,
        labels_are_the_nearest_centres,
        ties_go_to_the_lowest_index,
        inertia_is_the_exact_sum,
        centres_are_means_of_their_rows,
        objective_never_rises,
        transform_is_the_exact_distance,
        same_bits_of_any_form("cluster_centers_", "labels_", "cluster_weights_"),
        same_bits_of_any_threads(*ANSWERS),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        powers_of_two_are_units,
        blocks_give_the_same_bits,
        float32_is_float64_of_the_same_numbers,
        partial_fit_is_the_running_mean,
        scikit_learn_agrees,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal("n_samples=.* should be >=", lambda case: len(case.X) < case.parameters["n_clusters"], "too few rows"),
    ),
)
