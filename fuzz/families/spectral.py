"""SpectralClustering: eigenvalues by LAPACK, labels that no common factor of weights or units changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.csgraph

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.forms import FORMS
from fuzz.laws import (
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
from knoll.spectral.low_rank import fourier_grid

ANSWERS = ("labels_", "embedding_", "eigenvalues_", "n_clusters_", "inertia_")
_GAP = 1e-3  # between eigenvalues: below, the embedding is one of many


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; widths near the distances of the table, or left open."""
    X = table.X.astype(np.float64)
    n = len(X)
    drawn: dict[str, Any] = {
        "n_clusters": int(rng.integers(1, min(n, 6) + 1)),
        "row_scaling": str(rng.choice(["unit", "unit", "none", "degree"])),
        "assign_labels": str(rng.choice(["kmeans", "kmeans", "discretize", "cluster_qr"])),
        "operator": str(rng.choice(["auto", "auto", "auto", "stored", "tiles", "truncated", "cholesky", "finufft"])),
        "n_init": 2,
        "random_state": int(rng.integers(1000)),
        "n_jobs": 1,
    }
    if rng.random() < 0.1:
        drawn["n_clusters"] = "auto"
    if rng.random() < 0.2:
        drawn |= {
            "affinity": "nearest_neighbors",
            "n_neighbors": int(rng.integers(1, min(n, 8) + 1)),
            "operator": "auto",
        }
    elif rng.random() < 0.7:
        drawn["sigma"] = _width(rng, X)
    if rng.random() < 0.15:
        drawn["eigen_solver"] = str(rng.choice(["block", "dense", "arpack", "lobpcg"]))
    if rng.random() < 0.1:
        drawn["zero_diagonal"] = True
    if drawn["operator"] == "finufft" and (X.shape[1] > 3 or _has_large_grid(X, drawn.get("sigma"))):
        drawn["operator"] = "auto"
    return drawn


def _width(rng: Rng, X: Any) -> float:
    if rng.random() < 0.1:
        return float(10.0 ** rng.uniform(-150, 150))
    i, j = rng.integers(len(X), size=2)
    with np.errstate(all="ignore"):
        gap = float(np.abs(X[i] - X[j]).max() * rng.choice([0.3, 1.0, 2.0]))
    return gap if 0 < gap < np.inf else 1.0


def _has_large_grid(X: Any, sigma: float | None) -> bool:
    """Whether products by the FFT take seconds: legal, but many of them are no hang."""
    return sigma is not None and 2**16 < fourier_grid(X, sigma, 1e-10)[0] <= 2**24


def _plain(model: Any) -> bool:
    """Whether the affinity is the stored Gaussian of the rows, so that weights and units have a meaning."""
    return bool(model.affinity == "rbf" and not model.zero_diagonal)


# ---- oracle --------------------------------------------------------------------------------------------------------


def eigenvalues_are_those_of_lapack(case: Case, model: Any) -> str | None:
    """The leading eigenvalues of D^-½ A D^-½ with weights as repetitions, to 1e-7, on ordinary data."""
    if not case.ordinary or model.operator in ("cholesky", "finufft"):
        return None
    A = model.affinity_matrix_
    A = np.asarray(A.toarray() if hasattr(A, "toarray") else A, dtype=np.float64)
    w = case.mass[case.present]
    weighted = np.sqrt(w)[:, None] * A * np.sqrt(w)
    degrees = A @ w
    linked = degrees > 0
    if not linked.all():
        return None  # rows without links have no eigenvector
    M = weighted / np.sqrt(degrees)[:, None] / np.sqrt(degrees)
    exact = scipy.linalg.eigvalsh((M + M.T) / 2)[::-1][: len(model.eigenvalues_)]
    gap = np.abs(exact - model.eigenvalues_).max()
    return f"eigenvalues_ {model.eigenvalues_}, by LAPACK {exact}" if gap > 1e-6 else None


def labels_number_the_clusters(case: Case, model: Any) -> str | None:
    """Labels are 0 … k−1."""
    if model.labels_.min() < 0 or model.labels_.max() >= model.n_clusters_:
        return f"labels from {model.labels_.min()} to {model.labels_.max()} of {model.n_clusters_} clusters"
    return None


def disconnected_rows_are_apart(case: Case, model: Any) -> str | None:
    """Where affinities between groups of rows vanish and there are as many groups as clusters, groups are clusters.

    Rows of the embedding that are scaled by degrees have the range of the weights. The k-means of the last step has one
    scale for all of them: where max w > 2^400 min w, squares of the small rows are below 2^−800 of the largest, and
    those of their differences vanish (2^−1022 is the least normal number), which it warns of.
    """
    if (
        not case.table.ordinary
        or (model.row_scaling_ != "unit" and exponent_range(case.mass) > 400)
        or not _plain(model)
        or model.n_clusters_ == 1
        or model.operator in ("cholesky", "finufft")
    ):
        return None
    X = case.X[case.present].astype(np.float64)
    gaps = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2)) / model.sigma_
    _, groups = scipy.sparse.csgraph.connected_components(gaps < 60)  # exp(−1800) is 0
    near = scipy.sparse.csgraph.connected_components(gaps < 3)[1]
    if (
        len(np.unique(groups)) != model.n_clusters_
        or partitions_differ(groups, near)
        or case.parameters["n_clusters"] == "auto"
    ):
        return None
    return "rows without links share a cluster" if partitions_differ(groups, model.labels_[case.present]) else None


# ---- the same problem in another guise -----------------------------------------------------------------------------


def a_common_factor_of_weights_does_not_matter(case: Case, model: Any) -> str | None:
    """2^q w have the labels and eigenvalues of w."""
    if case.weights is None or not _plain(model):
        return None
    q = exact_powers(case.weights, int(case.rng(4).choice([-560, -200, 5, 200, 520])))
    other = case.fit(weights=np.ldexp(case.weights, q), sigma=model.sigma_)
    gap = np.abs(model.eigenvalues_ - other.eigenvalues_).max()
    if not gap <= 1e-6:
        return f"eigenvalues_ {model.eigenvalues_} and {other.eigenvalues_} under 2^{q} w"
    mine = case.fit(sigma=model.sigma_)
    return None if np.array_equal(mine.labels_, other.labels_) else f"labels_ differ under 2^{q} w"


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X with 2^p σ has the same labels."""
    if (
        not _plain(model)
        or model.sigma_ is None
        or case.X.dtype == np.float32
        or model.operator in ("cholesky", "finufft")
    ):
        return None
    numbers = np.append(case.X.astype(np.float64), model.sigma_)
    if exponent_range(numbers) > 200 or case.form.startswith("csr"):
        return None
    p = exact_powers(numbers, int(case.rng(3).choice([-450, -30, 3, 30, 450])))
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), sigma=float(np.ldexp(model.sigma_, p)))
    mine = case.fit(case.X.astype(np.float64), sigma=model.sigma_)
    return None if np.array_equal(mine.labels_, other.labels_) else f"labels_ differ under 2^{p} X"


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights have the eigenvalues of repeated rows, and their labels where the embedding is one."""
    if not integer_weights(case) or not _plain(model) or not case.ordinary or model.operator in ("cholesky", "finufft"):
        return None
    if np.count_nonzero(case.present) < model.n_clusters_:
        return None
    other = case.fit(repeated(case), None, sigma=model.sigma_, n_clusters=model.n_clusters_)
    mine = case.fit(sigma=model.sigma_, n_clusters=model.n_clusters_)
    m = min(len(mine.eigenvalues_), len(other.eigenvalues_))
    if np.abs(mine.eigenvalues_[:m] - other.eigenvalues_[:m]).max() > 1e-6:
        return f"eigenvalues_ {mine.eigenvalues_} and {other.eigenvalues_}"
    return None


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same eigenvalues, and permuted labels where the embedding is one."""
    if not case.ordinary or model.operator in ("cholesky", "finufft"):
        return None
    _, X, weights = permuted(case)
    other = case.fit(X, weights, **({"sigma": model.sigma_} if _plain(model) else {}))
    if np.abs(model.eigenvalues_ - other.eigenvalues_).max() > 1e-6:
        return f"eigenvalues_ {model.eigenvalues_} and {other.eigenvalues_}"
    return None


def cuts_are_numbers(case: Case, model: Any) -> str | None:
    """The normalized cut lies in [0, 1], the objective is finite."""
    cut, objective = model.normalized_cut_, model.objective_
    if not -1e-9 <= cut <= 1 + 1e-9 or not np.isfinite(objective):
        return f"normalized_cut_ {cut!r}, objective_ {objective!r}"
    return None


def new_rows_get_labels(case: Case, model: Any) -> str | None:
    """Rows near the data, and far from it, are labelled."""
    if not case.table.ordinary:
        return None
    rng = case.rng(7)
    queries = case.X[rng.integers(len(case.X), size=4)].astype(np.float64) + rng.choice([0.0, 0.1, 1e6], size=(4, 1))
    with quiet():
        labels = model.predict(queries)
    return None if ((labels >= 0) & (labels < model.n_clusters_)).all() else f"labels {labels}"


FAMILY = Family(
    name="spectral",
    estimator=knoll.SpectralClustering,
    parameters=parameters,
    forms=tuple(FORMS),
    most_rows=50,
    laws=(
        finite("embedding_", "eigenvalues_", "extension_"),
        predict_is_labels,
        labels_number_the_clusters,
        eigenvalues_are_those_of_lapack,
        disconnected_rows_are_apart,
        cuts_are_numbers,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        a_common_factor_of_weights_does_not_matter,
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        powers_of_two_are_units,
        new_rows_get_labels,
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "sample_weight has no meaning", lambda case: case.weights is not None, "repetition has no meaning there"
        ),
        Refusal(
            "n_samples=.* should be >=",
            lambda case: np.count_nonzero(case.present) < case.parameters["n_clusters"],
            "rows of weight 0 do not count",
        ),
        Refusal("operator", lambda case: case.parameters["operator"] in ("cholesky", "finufft"), "not for every table"),
    ),
)
