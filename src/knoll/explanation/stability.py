"""Does a cluster come back? Refits to random halves of the rows, and the Jaccard index of each with its best match.

The Jaccard index of two sets is |A ∩ B| / |A ∪ B|, here over the rows of the half. Below about 0.6 a cluster depends on
the particular rows, above 0.85 it is highly stable (Hennig 2007, Cluster-wise assessment of cluster stability).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from knoll._typing import Floats, Ints

__all__ = ["cluster_stability", "merged_like", "refit_of", "row_subset"]


def cluster_stability(
    fit: Callable[[Ints], Ints | None], labels: Ints, order: Ints, resamples: int, seed: int, most: int
) -> tuple[dict[int, float], int]:
    """Return the mean Jaccard index of each cluster, and over how many refits; clusters that no half has are left out.

    A half has `most` rows at most. `fit` labels the given rows by a model that is fitted to them alone, or returns None
    if it cannot. `order` sorts the rows by content: then the halves do not depend on the order of rows.
    """
    n = len(labels)
    clusters = np.unique(labels[labels >= 0])
    found: dict[int, list[float]] = {int(cluster): [] for cluster in clusters}
    done = 0
    for number in range(resamples if n > 3 else 0):
        draw = np.random.default_rng([seed, 29, number]).permutation(n)[: min(n // 2, most)]
        half = np.asarray(order[np.sort(draw)], dtype=np.int64)
        again = fit(half)
        if again is None:
            break
        done += 1
        for cluster, index in _best_matches(labels[half], np.asarray(again)).items():
            found[cluster].append(index)
    return {cluster: float(np.mean(values)) for cluster, values in found.items() if values}, done


def _best_matches(before: Ints, after: Ints) -> dict[int, float]:
    """Return for each cluster the largest Jaccard index with a cluster of the other labels."""
    old, i = np.unique(before, return_inverse=True)
    new, j = np.unique(after, return_inverse=True)
    both: Floats = (
        np.bincount(i * len(new) + j, minlength=len(old) * len(new)).reshape(len(old), len(new)).astype(float)
    )
    union = both.sum(axis=1)[:, None] + both.sum(axis=0)[None, :] - both
    index = (both / union)[:, new >= 0]
    best = index.max(axis=1, initial=0.0)
    return {int(label): float(value) for label, value in zip(old, best, strict=True) if label >= 0}


def refit_of(model: Any, table: Any) -> Callable[[Ints], Any] | None:
    """Return a function that labels some rows by a copy of the model that is fitted to them; None if it has no fit."""
    from sklearn.base import clone

    bare = getattr(model, "estimator", None) if hasattr(model, "clusters") else model
    if bare is None or not (hasattr(bare, "fit") and hasattr(bare, "get_params")):
        return None
    groups = getattr(model, "clusters", None)

    def fit(rows: Ints) -> Any:
        try:
            again = clone(bare).fit(row_subset(table, rows))
        except (ValueError, FloatingPointError, ArithmeticError):
            return None
        labels = np.asarray(again.labels_)
        return labels if groups is None else merged_like(labels, np.asarray(model.predict(row_subset(table, rows))))

    return fit


def merged_like(labels: Ints, clusters: Ints) -> Ints:
    """Join components to clusters: each to that of most of its rows, since a refit numbers them anew."""
    out = np.full(len(labels), -1, dtype=np.int64)
    for component in np.unique(labels[labels >= 0]):
        rows = labels == component
        known = clusters[rows & (clusters >= 0)]
        out[rows] = np.bincount(known).argmax() if len(known) else -1
    return out


def row_subset(table: Any, rows: Ints) -> Any:
    """Return some rows of an array, a data frame or an Arrow table."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if hasattr(table, "take") and hasattr(table, "column_names"):
        return table.take(rows)
    return table[rows]
