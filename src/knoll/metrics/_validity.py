"""Density-based clustering validation: clusters of any shape, judged by the density inside and between them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knoll import _core
from knoll._system import resolve_threads
from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.metrics._points import Clusters, group_rows, read_clusters, without_units
from knoll.validation import N_JOBS, Choice, check_parameters, check_points

_MOST_WEIGHT = 2.0**53


def dbcv_score(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    metric: str = "euclidean",
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> float:
    """Compare the density inside of clusters with that between them (Moulavi et al. 2014); the label -1 is noise.

    With d columns, the core distance of a row x of a cluster C of n_C rows is, over the others of its cluster,

        c(x) = (Σ_{y ∈ C, y ≠ x} ‖x − y‖^−d / (n_C − 1))^(−1/d),

    and the mutual reachability of two rows m(x, y) = max(c(x), c(y), ‖x − y‖). In the minimum spanning tree of C over m
    the rows with two or more edges are *inside*, and so are edges between two such rows. Then

        DSC(C)     = the largest m of an edge inside of the tree of C,             its sparseness,
        DSPC(C)    = the least m of a row inside of C's tree and one inside of another's,   its separation,
        V(C)       = (DSPC(C) − DSC(C)) / max(DSPC(C), DSC(C)),
        DBCV       = Σ_C n_C V(C) / n,

    where n counts all rows, noise included: what is called noise adds nothing, and costs its share.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    labels : array-like of shape (n_samples,)
        Their clusters, at least two of two rows or more; -1 is noise.
    metric : {"euclidean", "sqeuclidean"}, default="euclidean"
        The distance ‖x − y‖: Euclidean, or its square, which the authors' program takes.
    sample_weight : array-like of shape (n_samples,), default=None
        Whole numbers: a weight of w counts as w rows. 0 leaves a row out.
    n_jobs : int or None, default=None
        Threads; the result has the same bits for every number.

    Returns
    -------
    float
        From −1 to 1, larger is better.

    Notes
    -----
    Where the paper leaves a choice: a row that occurs twice is infinitely dense, c = 0. A cluster of one row has no
    density; it counts as noise. Where a tree has no edge inside, as with two or three rows, all of its edges count;
    where it has no row inside, all of its rows. 0/0 is 0. Of several minimum spanning trees that one is taken whose
    edges come first by m, then by distance, then by the coordinates of their ends; so the score is the same for any
    order of the rows.

    All pairs of rows are compared, in memory linear in n.

    References
    ----------
    Moulavi, Jaskowiak, Campello, Zimek and Sander, Density-based clustering validation, SIAM International Conference
    on Data Mining (2014).

    Examples
    --------
    >>> from knoll.metrics import dbcv_score
    >>> X = [[0.0], [1.0], [2.0], [3.0], [20.0], [21.0], [22.0], [23.0]]
    >>> round(dbcv_score(X, [0, 0, 0, 0, 1, 1, 1, 1]), 4)
    0.9368
    >>> round(dbcv_score(X, [0, 0, 0, 0, 1, 1, 1, -1]), 4)
    0.8171
    """
    owner = "dbcv_score"
    check_parameters(
        owner,
        {"metric": metric, "n_jobs": n_jobs},
        {"metric": (Choice(("euclidean", "sqeuclidean")),), "n_jobs": N_JOBS},
    )
    points = check_points(X, n_jobs=n_jobs)
    clusters = _clusters(owner, labels, sample_weight, len(points))
    rows = without_units(points)
    grouped = group_rows(rows, clusters)
    n, k = len(grouped.rows), clusters.count
    core, inside = np.empty(n), np.empty(n, dtype=np.uint8)
    sparseness, separation = np.empty(k), np.empty(k)
    _core.cluster_validity(
        np.ascontiguousarray(rows[grouped.rows]), grouped.mass, grouped.starts, metric == "sqeuclidean",
        core, inside, sparseness, separation, resolve_threads(n_jobs),
    )  # fmt: skip
    larger = np.maximum(separation, sparseness)
    validity: Floats = np.divide(separation - sparseness, larger, out=np.zeros(k), where=larger > 0)
    masses = np.add.reduceat(grouped.mass, grouped.starts[:-1])
    return math.fsum((masses * validity).tolist()) / float(clusters.weights.sum())


def _clusters(owner: str, labels: Any, sample_weight: Any, n: int) -> Clusters:
    """Read the clusters of two rows or more; the rows of others are noise."""
    clusters = read_clusters(owner, labels, sample_weight, "drop", n)
    weights = clusters.weights
    fraction = np.flatnonzero(weights != np.floor(weights))
    if len(fraction):
        raise BadData(
            f"{owner}: sample_weight must be whole numbers, got {weights[fraction[0]]} at row {fraction[0]}. A weight "
            "counts repetitions of a row; scale fractions to whole numbers first."
        )
    if weights.sum() > _MOST_WEIGHT:
        raise BadData(f"{owner}: sample_weight must sum to at most 2**53, got {weights.sum()!r}. Divide the weights.")
    large = clusters.sizes() > 1
    if large.sum() < 2:
        raise BadData(
            f"{owner}: {int(large.sum())} of {clusters.count} clusters has two rows or more; the score needs two such "
            "clusters, to compare what is inside of them with what is between. Noise, -1, is no cluster."
        )
    numbers = np.append(np.where(large, np.cumsum(large) - 1, -1), -1)  # −1 stays −1
    return Clusters(
        numbers[clusters.codes], weights, weights, np.ones(int(large.sum())), clusters.noise, clusters.named
    )
