"""KernelKMeans: the objective from its definition, by fractions where the kernel is a polynomial."""

from __future__ import annotations

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
from fuzz.tables import Table
from knoll import kernels

ANSWERS = ("labels_", "objective_", "trace_objective_", "n_iter_", "cluster_weights_", "center_labels_", "shift_")


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; widths near the distances of the table, or left open."""
    X = table.X.astype(np.float64)
    n = len(X)
    k = int(rng.integers(1, min(n, 6) + 1))
    drawn: dict[str, Any] = {
        "n_clusters": k,
        "kernel": str(rng.choice(["rbf", "rbf", "rbf", "linear", "poly", "heaviside"])),
        "init": str(rng.choice(["k-means++", "random", "spectral"])),
        "n_init": int(rng.integers(1, 3)),
        "local_search": bool(rng.random() < 0.3),
        "empty_clusters": str(rng.choice(["relocate", "relocate", "keep"])),
        "random_state": int(rng.integers(1000)),
        "n_jobs": 1,
    }
    if rng.random() < 0.3:
        drawn["init"] = rng.integers(k, size=n)
    if drawn["kernel"] == "rbf" and rng.random() < 0.7:
        drawn["sigma"] = _width(rng, X)
    if drawn["kernel"] == "heaviside":
        drawn["eps"] = _width(rng, X)
    if drawn["kernel"] == "poly":
        drawn |= {"degree": int(rng.integers(1, 4)), "coef0": float(rng.choice([0.0, 1.0, 2.0]))}
    return drawn


def _width(rng: Rng, X: Any) -> float:
    if rng.random() < 0.1:
        return float(10.0 ** rng.uniform(-150, 150))
    i, j = rng.integers(len(X), size=2)
    with np.errstate(all="ignore"):
        gap = float(np.abs(X[i] - X[j]).max() * rng.choice([0.3, 1.0, 2.0]))
    return gap if 0 < gap < np.inf else 1.0


# ---- oracles -------------------------------------------------------------------------------------------------------


def answers_are_finite(case: Case, model: Any) -> str | None:
    """Objective, trace and shift are finite, unless the weights alone take sums of the kernel out of float64."""
    with np.errstate(all="ignore"):
        size = np.abs(model.largest_) * case.mass.sum()
    if not size < 1e300:
        return None
    for name in ("objective_", "trace_objective_", "shift_", "cluster_weights_"):
        if not np.isfinite(getattr(model, name)).all():
            return f"{name} is {getattr(model, name)}"
    return None


def the_objective_is_what_is_reported(case: Case, model: Any) -> str | None:
    """J = Σ w K_ii − Σ_c Σ_ij∈c w_i w_j K_ij / s_c of the labels, on ordinary data."""
    if (
        not case.ordinary
        or model.n_iter_ >= model.max_iter
        or not np.array_equal(_own(case, model), model.center_labels_)
    ):
        return None  # the means are of other labels than those that were found last
    X, w, labels = case.X[case.present].astype(np.float64), case.mass[case.present], _own(case, model)
    K = kernels.make(model.kernel, sigma=model.sigma_, eps=model.eps, degree=model.degree, coef0=model.coef0).tile(X, X)
    scale = float(w @ np.abs(np.diagonal(K)))
    total = float(w @ np.diagonal(K))
    for c in np.unique(labels):
        wc = w * (labels == c)
        total -= wc @ K @ wc / wc.sum()
    if abs(total - model.objective_) > 1e-9 * scale:
        return f"objective_ is {model.objective_!r}, {total!r} by its definition"
    return None


def _own(case: Case, model: Any) -> Any:
    return model.labels_[case.present]


def the_linear_objective_is_exact(case: Case, model: Any) -> str | None:
    """With the linear kernel J is the k-means objective, by fractions."""
    if model.kernel != "linear" or len(case.X) > 30 or not np.array_equal(_own(case, model), model.center_labels_):
        return None
    rows = [[Fraction(v) for v in row] for row in case.X[case.present].astype(np.float64).tolist()]
    weights, labels = [Fraction(w) for w in case.mass[case.present].tolist()], _own(case, model)
    total = scale = Fraction(0)
    for c in set(labels.tolist()):
        own = [i for i in range(len(rows)) if labels[i] == c]
        mass = sum((weights[i] for i in own), Fraction(0))
        for j in range(case.X.shape[1]):
            mean = sum((weights[i] * rows[i][j] for i in own), Fraction(0)) / mass
            total += sum((weights[i] * (rows[i][j] - mean) ** 2 for i in own), Fraction(0))
            scale += sum((weights[i] * rows[i][j] ** 2 for i in own), Fraction(0))
    if not agrees(model.objective_, total, 0.0, scale * Fraction(1e-11) + Fraction(1e-300) * sum(weights)):
        return f"objective_ is {model.objective_!r}, exactly {float(total)!r}"
    return None


def rows_are_with_the_nearest_mean(case: Case, model: Any) -> str | None:
    """At a fixed point no row is nearer to another mean in feature space, on ordinary data and definite kernels."""
    if not case.ordinary or model.kernel == "heaviside" or model.shift_ or model.n_iter_ >= model.max_iter:
        return None
    X, w, labels = case.X[case.present].astype(np.float64), case.mass[case.present], model.center_labels_
    K = kernels.make(model.kernel, sigma=model.sigma_, eps=model.eps, degree=model.degree, coef0=model.coef0).tile(X, X)
    squares = np.full((len(X), model.n_clusters), np.inf)
    for c in np.unique(labels):
        wc = w * (labels == c) / w[labels == c].sum()
        squares[:, c] = np.diagonal(K) - 2 * K @ wc + wc @ K @ wc
    slack = 1e-9 * np.abs(K).max()
    own = squares[np.arange(len(X)), _own(case, model)]
    wrong = np.flatnonzero(own > squares.min(axis=1) + slack)
    return (
        f"row {wrong[0]} has label {_own(case, model)[wrong[0]]}, squares {squares[wrong[0]]}" if len(wrong) else None
    )


def the_objective_never_rises(case: Case, model: Any) -> str | None:
    """J falls from step to step, up to rounding."""
    objective = model.history_["objective"]
    if not case.ordinary or len(objective) < 2:
        return None
    scale = abs(model.objective_) + abs(model.trace_objective_)
    rise = np.diff(objective)
    return (
        f"step {int(rise.argmax()) + 1}: {objective[rise.argmax()]!r} → {objective[rise.argmax() + 1]!r}"
        if (rise > 1e-10 * scale).any()
        else None
    )


# ---- the same problem in another guise -----------------------------------------------------------------------------


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights give the labels of repeated rows."""
    if not integer_weights(case) or not case.ordinary or case.X.dtype == np.float32:
        return None
    if np.count_nonzero(case.present) < model.n_clusters or not isinstance(case.parameters["init"], str):
        return None
    if case.parameters["init"] == "spectral":
        return None  # eigenvectors of another matrix, rounded differently
    other = case.fit(repeated(case), None, **({"sigma": model.sigma_} if model.sigma_ else {}))
    mine = np.repeat(model.labels_, case.mass.astype(int))
    return "labels_ differ" if partitions_differ(mine, other.labels_) else None


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have permuted labels."""
    if case.parameters["init"] == "spectral" if isinstance(case.parameters["init"], str) else True:
        return None
    order, X, weights = permuted(case)
    other = case.fit(X, weights, **({"sigma": model.sigma_} if model.sigma_ else {}))
    return "labels_ differ" if not np.array_equal(model.labels_[order], other.labels_) else None


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X with 2^p σ, and 2^q w, have the same labels."""
    q = 0 if case.weights is None else exact_powers(case.weights, int(case.rng(4).choice([-200, 0, 5, 200])))
    weights = None if case.weights is None else np.ldexp(case.weights, q)
    if (
        model.kernel != "rbf"
        or model.sigma_ is None
        or exponent_range(np.append(case.X, model.sigma_)) > 300
        or case.X.dtype == np.float32
    ):
        return differs(model, case.fit(weights=weights), ("labels_",)) if q and model.sigma_ is None else None
    numbers = np.append(case.X.astype(np.float64), model.sigma_)
    p = exact_powers(numbers, int(case.rng(3).choice([-450, -40, 3, 40, 450])))
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), weights, sigma=float(np.ldexp(model.sigma_, p)))
    return None if np.array_equal(model.labels_, other.labels_) else f"labels_ differ under 2^{p} X, 2^{q} w"


def a_precomputed_matrix_is_its_kernel(case: Case, model: Any) -> str | None:
    """kernel="precomputed" with K and the same initial labels takes the same steps.

    Where a cluster is empty and several rows are equally far from their means, the smallest coordinates decide which
    row it starts again from; a matrix has none. Rows of equal similarities, as x and −x under (xᵀy)², are one row of a
    matrix, whose copies move together. There empty clusters are kept in both fits, and no single row is moved.
    Of several single moves with the same gain, the row of smallest coordinates is moved, too. Where the gains of two
    rows are equal on the way, the two searches may end in different optima, and each must be an optimum of the other.
    """
    if not case.ordinary or model.kernel == "heaviside" or isinstance(case.parameters["init"], str):
        return None
    X = case.X.astype(np.float64)
    K = kernels.make(model.kernel, sigma=model.sigma_, eps=model.eps, degree=model.degree, coef0=model.coef0).tile(X, X)
    matrix = (K + K.T) / 2
    options: dict[str, Any] = {"kernel": "precomputed", "sigma": None, "eps": None}
    if _equally_far(case, matrix) or len(np.unique(X, axis=0)) > len(np.unique(matrix, axis=0)):
        plain = {"empty_clusters": "keep", "local_search": False}
        model = case.fit(**plain, **({"sigma": model.sigma_} if model.sigma_ else {}))
        options |= plain
    other = case.fit(matrix, **options)
    if not np.array_equal(other.predict(matrix), other.labels_):
        return "predict of the precomputed matrix differs from labels_"
    scale = abs(model.objective_) + abs(model.trace_objective_)
    equal = abs(other.objective_ - model.objective_) <= 1e-8 * scale
    if not equal and not model.ties_.size and not other.ties_.size and not _both_optima(case, matrix, model, other):
        return f"objective_ {model.objective_!r}, {other.objective_!r} of the precomputed matrix"
    return None


def _both_optima(case: Case, matrix: Any, model: Any, other: Any) -> bool:
    """Whether single moves of equal gain occurred, and no step improves the labels of one fit in the other."""
    if not model.local_search or not other.local_search or not _moves_tie(case, matrix, model):
        return False
    again = case.fit(init=other.labels_, **({"sigma": model.sigma_} if model.sigma_ else {}))
    matrix_again = case.fit(matrix, kernel="precomputed", sigma=None, eps=None, init=model.labels_)
    return np.array_equal(again.labels_, other.labels_) and np.array_equal(matrix_again.labels_, model.labels_)


def _moves_tie(case: Case, K: Any, model: Any) -> bool:
    """Follow the best single moves from where the alternation ends: whether the gains of two rows are ever equal."""
    widths = {"sigma": model.sigma_} if model.sigma_ else {}
    labels = case.fit(local_search=False, **widths).labels_[case.present]
    w, K = case.mass[case.present], K[np.ix_(case.present, case.present)]
    for _ in range(len(labels)):
        gains = _gains(labels, w, K, case.parameters["n_clusters"])  # (n, k)
        order = np.argsort(gains.max(axis=1))[::-1]
        best, second = (gains[i].max() if len(order) > at else -np.inf for at, i in enumerate(order[:2]))
        if best <= 1e-12 * np.abs(K).max() * w.sum():
            return False
        if best - second <= 1e-6 * best:
            return True
        labels = labels.copy()
        labels[order[0]] = int(gains[order[0]].argmax())
    return False


def _gains(labels: Any, w: Any, K: Any, k: int) -> Any:
    """Return by how much J falls where one row is moved to another cluster, from the definition, (n, k)."""

    def within(own: Any) -> float:
        return float(own @ K @ own / own.sum()) if own.any() else 0.0

    members = [w * (labels == c) for c in range(k)]
    now = [within(own) for own in members]
    gains = np.full((len(labels), k), -np.inf)
    for i, c in enumerate(labels.tolist()):
        one = np.zeros(len(w))
        one[i] = w[i]
        left = within(members[c] - one) - now[c]
        for other in range(k):
            if other != c and np.count_nonzero(members[c]) > 1:
                gains[i, other] = left + within(members[other] + one) - now[other]
    return gains


def _equally_far(case: Case, K: Any) -> bool:
    """Whether the start leaves clusters empty, and rounding decides which rows are farthest from their means."""
    kept = case.present
    labels, w, K = case.parameters["init"][kept], case.mass[kept], K[np.ix_(kept, kept)]
    empty = case.parameters["n_clusters"] - len(np.unique(labels))
    if not empty:
        return False
    squares = np.empty(len(labels))
    for c in np.unique(labels):
        wc = w * (labels == c) / w[labels == c].sum()
        squares[labels == c] = (np.diagonal(K) - 2 * K @ wc + wc @ K @ wc)[labels == c]
    far = np.sort(squares)[::-1][: empty + len(np.unique(labels)) + 1]  # each cluster may have to keep one of them
    return bool((np.diff(far) >= -1e-9 * np.abs(K).max()).any())


FAMILY = Family(
    name="kernel_kmeans",
    estimator=knoll.KernelKMeans,
    parameters=parameters,
    most_rows=60,
    laws=(
        answers_are_finite,
        predict_is_labels,
        the_objective_is_what_is_reported,
        the_linear_objective_is_exact,
        rows_are_with_the_nearest_mean,
        the_objective_never_rises,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        powers_of_two_are_units,
        a_precomputed_matrix_is_its_kernel,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "its values leave float64", lambda case: case.parameters["kernel"] in ("poly", "linear"), "large powers"
        ),
        Refusal("spectral", lambda case: case.parameters["init"] == "spectral", "the relaxed problem"),
    ),
)
