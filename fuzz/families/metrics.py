"""knoll.metrics: scikit-learn's figures, and those of their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sklearn.metrics as peer

from fuzz.case import Case, Family, Rng
from fuzz.laws import quiet
from fuzz.tables import Table
from knoll import metrics, reference, tuning

SCORES = (
    "adjusted_rand_score",
    "adjusted_mutual_info_score",
    "mutual_info_score",
    "normalized_mutual_info_score",
    "v_measure_score",
    "homogeneity_score",
    "completeness_score",
    "rand_score",
    "fowlkes_mallows_score",
)


def parameters(rng: Rng, table: Table) -> dict[str, Any]:
    """Draw two labellings, possibly with noise, and whole weights."""
    n = len(table.X)
    a = rng.integers(-int(rng.random() < 0.3), rng.integers(1, 7), size=n)
    b = a.copy() if rng.random() < 0.2 else rng.integers(-int(rng.random() < 0.3), rng.integers(1, 7), size=n)
    if rng.random() < 0.1:
        b = np.arange(n)
    return {"a": a, "b": b, "w": rng.integers(0, 4, size=n) if rng.random() < 0.4 else None}


def _repeated(case: Case) -> tuple[Any, Any]:
    a, b, w = (case.parameters[name] for name in ("a", "b", "w"))
    return (a, b) if w is None else (np.repeat(a, w), np.repeat(b, w))


def scores_are_those_of_scikit_learn(case: Case, model: Any) -> str | None:
    """ARI, AMI and MI of weighted rows are scikit-learn's of repeated rows."""
    a, b, w = (case.parameters[name] for name in ("a", "b", "w"))
    x, y = _repeated(case)
    if not len(x):
        return None
    for name in SCORES:
        found = getattr(metrics, name)(a, b, sample_weight=w)
        with quiet():
            expected = getattr(peer, name)(x, y)
        if name.startswith("adjusted") and (len(x) < 2 or len(set(zip(x, y))) == len(set(x)) == len(set(y))):
            if found != 1.0:
                return f"{name} of equal labellings is {found!r}"
            continue
        if not math.isclose(found, expected, rel_tol=1e-7, abs_tol=1e-9):
            return f"{name} is {found!r}, scikit-learn's {expected!r}"
    return None


def scores_are_symmetric_and_bounded(case: Case, model: Any) -> str | None:
    """Exchanging the labellings changes nothing; no score is above 1; every rule for noise gives a number."""
    a, b, w = (case.parameters[name] for name in ("a", "b", "w"))
    if w is not None and not w.any():
        return None
    for name in ("adjusted_rand_score", "adjusted_mutual_info_score"):
        score = getattr(metrics, name)
        for noise in ("cluster", "singletons"):
            one, two = score(a, b, sample_weight=w, noise=noise), score(b, a, sample_weight=w, noise=noise)
            if not math.isclose(one, two, rel_tol=1e-12, abs_tol=1e-12) or not one <= 1:
                return f"{name}, noise={noise!r}: {one!r} and {two!r}"
    return None


def silhouettes_follow_the_definition(case: Case, model: Any) -> str | None:
    """(b − a)/max(a, b) from all pairs, on ordinary data; 0 for a row that is alone in its cluster."""
    labels, X = case.parameters["a"], case.X.astype(np.float64)
    w = np.ones(len(X)) if case.parameters["w"] is None else case.parameters["w"].astype(float)
    names = np.unique(labels[w > 0])
    if not case.table.ordinary or len(names) < 2 or np.bincount(labels + 1, weights=w).max() <= 1:
        return None
    found = tuning.silhouette_samples(case.input(), labels, sample_weight=w, n_jobs=1)
    gaps = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    for i in np.flatnonzero(w > 0):
        own = (labels == labels[i]) * w
        others = [gaps[i] @ ((labels == c) * w) / w[labels == c].sum() for c in names if c != labels[i]]
        b, count = min(others), own.sum() - 1
        a = gaps[i] @ own / count if count > 0 else 0.0
        expected = (b - a) / max(a, b) if count > 0 and max(a, b) > 0 else 0.0
        if abs(found[i] - expected) > 1e-9:
            return f"row {i}: {found[i]!r}, by its definition {expected!r}"
    return None


def silhouettes_are_numbers(case: Case, model: Any) -> str | None:
    """Of any magnitude, silhouettes lie in [−1, 1]."""
    labels = case.parameters["a"]
    kept = labels[case.present]
    mass = np.ones(len(labels)) if case.weights is None else case.weights
    if len(np.unique(kept)) < 2 or np.bincount(labels + 1, weights=mass).max() <= 1:
        return None
    found = tuning.silhouette_samples(case.input(), labels, sample_weight=case.weights, n_jobs=1)
    return None if (np.abs(found) <= 1 + 1e-12).all() else f"silhouettes from {found.min()} to {found.max()}"


def scores_of_means_follow_their_definitions(case: Case, model: Any) -> str | None:
    """In extended precision, of repeated rows, on ordinary data whose clusters have means apart."""
    a, w = case.parameters["a"], case.parameters["w"]
    labels, X = a if w is None else np.repeat(a, w), case.X.astype(np.longdouble)
    X = X if w is None else np.repeat(X, w, axis=0)
    names = sorted(set(labels.tolist()))
    if not case.table.ordinary or not 1 < len(names) < len(labels):
        return None
    groups = [X[labels == c] for c in names]
    means = np.array([group.mean(axis=0) for group in groups])
    apart = np.sqrt(((means[:, None] - means) ** 2).sum(axis=2)) + np.diag(np.full(len(names), np.inf))
    if apart.min() < 1e-7 * np.abs(X).max():
        return None  # rounding decides how far such means are apart
    away = [np.sqrt(((group - mean) ** 2).sum(axis=1)) for group, mean in zip(groups, means)]
    spread = np.array([each.mean() for each in away])
    within = sum((each**2).sum() for each in away)
    between = sum(len(group) * ((mean - X.mean(axis=0)) ** 2).sum() for group, mean in zip(groups, means))
    flat = all((group == group[0]).all() for group in groups)  # means in extended precision are rounded, too
    expected = {
        "davies_bouldin_score": 0.0 if flat else float(((spread[:, None] + spread) / apart).max(axis=1).mean()),
        "calinski_harabasz_score": 1.0 if flat else float(between * (len(X) - len(names)) / within / (len(names) - 1)),
    }
    for name, value in expected.items():
        found = getattr(metrics, name)(case.input(), a, sample_weight=w, n_jobs=1)
        if not math.isclose(found, value, rel_tol=1e-6):
            return f"{name} is {found!r}, by its definition {value!r}"
    return None


def validity_follows_the_definition(case: Case, model: Any) -> str | None:
    """The tree is that of Kruskal's algorithm over all pairs, on ordinary data of few rows."""
    labels, w = case.parameters["a"], case.parameters["w"]
    sizes = np.bincount(labels + 1, weights=w)[1:]
    if not case.table.ordinary or len(labels) > 60 or (sizes > 1).sum() < 2:
        return None
    X, names = case.X.astype(np.float64), labels
    if w is not None:
        X, names = np.repeat(X, w, axis=0), np.repeat(labels, w)
    found = metrics.dbcv_score(case.input(), labels, sample_weight=w, n_jobs=1)
    expected = reference.dbcv(X, names)
    return None if math.isclose(found, expected, abs_tol=1e-9) else f"{found!r}, by its definition {expected!r}"


FAMILY = Family(
    name="metrics",
    estimator=None,
    parameters=parameters,
    laws=(
        scores_are_those_of_scikit_learn,
        scores_are_symmetric_and_bounded,
        silhouettes_follow_the_definition,
        silhouettes_are_numbers,
        scores_of_means_follow_their_definitions,
        validity_follows_the_definition,
    ),
)
