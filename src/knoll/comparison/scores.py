"""Scores of the answers: agreement of each pair, internal scores, agreement with known labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knoll._typing import Floats, Ints
from knoll.comparison.result import Agreement, Candidate
from knoll.exceptions import BadData
from knoll.metrics import adjusted_mutual_info_score, adjusted_rand_score, silhouette_score
from knoll.validation import refuse_masked


def count_clusters(labels: Ints) -> int:
    """Count the clusters, without noise."""
    return len(np.unique(labels[labels >= 0]))


def agreement_of(labels: Mapping[str, Ints]) -> Agreement:
    """Compare every pair of answers; noise counts as one more cluster."""
    names = tuple(labels)
    matrix = np.eye(len(names))
    for i, a in enumerate(names):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = adjusted_mutual_info_score(labels[a], labels[names[j]])
    return Agreement(names, matrix)


def internal_scores(
    of_family: Callable[[Any, Floats, Ints], dict[str, float]],
    model: Any,
    points: Floats,
    labels: Ints,
    n_jobs: int | None,
) -> dict[str, float]:
    """Score an answer on the subsample by its own objective, and by the silhouette if there are two clusters."""
    scores: dict[str, float] = {}
    kept = labels >= 0
    k, rows = count_clusters(labels), int(kept.sum())
    if k > 1 and rows > 2:  # where each row is a cluster, every silhouette is 0
        scores["silhouette"] = silhouette_score(points[kept], labels[kept], n_jobs=n_jobs) if k < rows else 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # squares of extreme, unscaled numbers: the score is omitted
        scores |= of_family(model, points, labels)
    return {key: value for key, value in scores.items() if np.isfinite(value)}


def known_labels(truth: ArrayLike, n: int) -> Ints:
    """Encode labels of any type, one for each of n rows, as integers."""
    refuse_masked(truth, "truth")
    names = np.asarray(truth)
    if names.shape != (n,):
        raise BadData(f"truth must have one label for each of {n} rows, got shape {names.shape}.")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def truth_scores(known: Ints, candidates: Mapping[str, Candidate]) -> dict[str, dict[str, float]]:
    """Compare every answer with known labels; noise counts as one more cluster."""
    return {
        name: {
            "ari": float(adjusted_rand_score(known, found.labels)),
            "ami": float(adjusted_mutual_info_score(known, found.labels)),
        }
        for name, found in candidates.items()
    }
