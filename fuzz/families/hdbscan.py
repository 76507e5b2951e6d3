"""HDBSCAN: labels of the reference and of scikit-learn, predict, memberships; neither order nor threads matter."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN as Peer

import knoll
from fuzz.case import Case, Family, Refusal, Rng
from fuzz.families.density_tree import _close_stabilities, _in_range
from fuzz.laws import (
    exact_powers,
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
from knoll.reference import hdbscan, run

ANSWERS = ("labels_", "probabilities_", "order_", "bars_", "core_distances_")


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw parameters; half of the time those that the reference has."""
    drawn: dict[str, Any] = {"min_cluster_size": int(rng.integers(2, 9)), "n_jobs": 1}
    if rng.random() < 0.7:
        drawn["min_samples"] = int(rng.choice([1, 2, 3, 5]))
    if rng.random() < 0.5:
        return drawn
    drawn["cluster_selection_method"] = str(rng.choice(["eom", "leaf"]))
    drawn["allow_single_cluster"] = bool(rng.random() < 0.3)
    drawn["noise"] = str(rng.choice(["keep", "keep", "nearest"]))
    if rng.random() < 0.2:
        drawn["alpha"] = float(rng.choice([0.5, 1.5]))
    if rng.random() < 0.2:
        with np.errstate(over="ignore"):
            drawn["cluster_selection_epsilon"] = float(np.ptp(table.X.astype(np.float64), axis=0).max() / 20)
    if rng.random() < 0.2:
        drawn["max_cluster_size"] = int(rng.integers(3, 30))
    if rng.random() < 0.2:
        drawn["metric"] = str(rng.choice(["manhattan", "chebyshev", "cosine"]))
    return drawn


def _is_plain(case: Case) -> bool:
    return set(case.parameters) <= {"min_cluster_size", "min_samples", "n_jobs"}


def labels_are_those_of_the_reference(case: Case, model: Any) -> str | None:
    """Excess of mass on ordinary small data without weights, by the definition."""
    if not case.ordinary or case.weights is not None or len(case.X) > 40 or case.X.dtype == np.float32:
        return None
    if not _is_plain(case) or len(case.X) < 2:
        return None
    last = run(hdbscan(case.X.astype(np.float64), int(model._level()), int(model.min_cluster_size)))
    if _close_stabilities(last.stability):
        return None  # rounding decides between a cluster and its children
    return "labels_ differ" if not np.array_equal(model.labels_, last.labels) else None


def scikit_learn_agrees(case: Case, model: Any) -> str | None:
    """scikit-learn's partition, where no three clusters merge at one height, so that its binary tree is this one."""
    if not case.ordinary or case.weights is not None or case.X.dtype != np.float64 or not _is_plain(case):
        return None
    if case.table.shape not in ("cloud", "blobs", "outliers") or len(case.X) < max(2, int(model._level())):
        return None
    heights = np.sort(model.bars_[1:])
    if len(heights) and (np.diff(heights) <= 1e-9 * heights.max()).any():
        return None
    if _close_stabilities(model.condensed_tree_.stability):
        return None
    with quiet():
        peer = Peer(min_cluster_size=model.min_cluster_size, min_samples=model.min_samples, copy=True).fit(case.X)
    return "labels_ differ from scikit-learn's" if partitions_differ(model.labels_, peer.labels_) else None


def probabilities_are_shares(case: Case, model: Any) -> str | None:
    """Probabilities are in [0, 1]; in every cluster one is 1; noise has 0."""
    found = model.probabilities_
    if not ((found >= 0) & (found <= 1)).all():
        return f"probabilities_ has {found[~((found >= 0) & (found <= 1))][0]}"
    if model.noise == "keep" and found[model.labels_ < 0].any():
        return "a row of noise has a probability above 0"
    scores = model.outlier_scores_
    return None if ((scores >= 0) & (scores <= 1)).all() else f"outlier_scores_ has {scores.min()} to {scores.max()}"


def clusters_are_large_and_numbered(case: Case, model: Any) -> str | None:
    """A cluster weighs at least min_cluster_size, and clusters are numbered by weight, the largest first.

    Rows of noise that join the nearest cluster do not change the numbers. All rows together may be a single cluster,
    where that is allowed, however few they are.
    """
    if model.noise == "nearest":
        return "a row is noise" if model.labels_.min() < 0 <= model.labels_.max() else None
    labels, mass = model.labels_[case.present], case.mass[case.present]
    for c in range(labels.max() + 1):
        total = float(np.minimum(mass[labels == c], model.min_cluster_size).sum())
        if total < model.min_cluster_size * (1 - 1e-12) and not (model.allow_single_cluster and labels.max() == 0):
            return f"cluster {c} weighs {total}, less than {model.min_cluster_size}"
    selection = model._selection()
    weights = selection.tree.weight[selection.clusters]
    return None if (np.diff(weights) <= 0).all() else f"clusters have the weights {weights}"


def a_weight_is_a_number_of_repetitions(case: Case, model: Any) -> str | None:
    """Whole weights have the labels of repeated rows."""
    if not integer_weights(case) or not case.present.all() or not _in_range(case, model):
        return None
    if _close_stabilities(model.condensed_tree_.relative_stability):
        return None  # w · s and s + … + s round differently
    other = case.fit(repeated(case), None)
    mine = np.repeat(model.labels_, case.mass.astype(int))
    return "labels_ differ" if not np.array_equal(mine, other.labels_) else None


def the_order_of_rows_does_not_matter(case: Case, model: Any) -> str | None:
    """Permuted rows have the same partition and probabilities."""
    if not _in_range(case, model):
        return None
    order, X, weights = permuted(case)
    other = case.fit(X, weights)
    if partitions_differ(model.labels_[order], other.labels_):
        return "labels_ differ"
    same = np.array_equal(model.probabilities_[order], other.probabilities_)
    return None if same else "probabilities_ differ"


def powers_of_two_are_units(case: Case, model: Any) -> str | None:
    """2^p X has the same labels and probabilities; ε of a selection is 2^p ε."""
    if not _in_range(case, model) or case.parameters.get("metric", "euclidean") == "cosine":
        return None
    epsilon = float(model.cluster_selection_epsilon)
    numbers = np.append(case.X.astype(np.float64), epsilon)
    heights = model.bars_[1:][model.bars_[1:] > 0]
    p = exact_powers(numbers, int(case.rng(3).choice([-300, -40, 3, 40, 300])))
    if len(heights) and not (np.ldexp(heights.min(), p) > 1e-290 and np.ldexp(heights.max(), p) < 1e290):
        return None
    other = case.fit(np.ldexp(case.X.astype(np.float64), p), cluster_selection_epsilon=float(np.ldexp(epsilon, p)))
    if not np.array_equal(model.labels_, other.labels_):
        return f"labels_ differ under 2^{p} X"
    return (
        None if np.array_equal(model.probabilities_, other.probabilities_) else f"probabilities_ differ under 2^{p} X"
    )


def memberships_are_shares(case: Case, model: Any) -> str | None:
    """Memberships are ≥ 0 and sum to 1, up to rows that leave a single cluster; those of X are those of the fit."""
    if model.labels_.max() < 0:
        return None
    found = model.membership_vectors().toarray()
    if not ((found >= 0) & (found <= 1 + 1e-12)).all() or (found.sum(axis=1) > 1 + 1e-9).any():
        return f"memberships have {found.min()} to {found.max()}, and sums up to {found.sum(axis=1).max()}"
    other = model.membership_vectors(case.input()).toarray()[case.present]
    return (
        None if np.allclose(found, other, rtol=0, atol=1e-12) else "membership_vectors(X) differ from those of the fit"
    )


FAMILY = Family(
    name="hdbscan",
    estimator=knoll.HDBSCAN,
    parameters=parameters,
    most_rows=60,
    laws=(
        predict_is_labels,
        labels_are_those_of_the_reference,
        scikit_learn_agrees,
        probabilities_are_shares,
        clusters_are_large_and_numbered,
        a_weight_is_a_number_of_repetitions,
        the_order_of_rows_does_not_matter,
        powers_of_two_are_units,
        memberships_are_shares,
        same_bits_of_any_form(*ANSWERS),
        same_bits_of_any_threads(*ANSWERS),
        survives_pickle,
        survives_clone,
        survives_saving,
    ),
    refusals=(
        Refusal(
            "else no row has a core distance",
            lambda case: case.mass.sum() < case.parameters.get("min_samples", case.parameters["min_cluster_size"]),
            "too few rows",
        ),
        Refusal("cosine", lambda case: case.parameters.get("metric") == "cosine", "rows of length 0"),
    ),
)
