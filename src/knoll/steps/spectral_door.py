"""The door of a spectral clustering: data, weights and the number of clusters are checked once, here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll.exceptions import BadData, CostError, InvalidParameter
from knoll.kernel_matrix import check_matrix, refuse_negative
from knoll.steps.affinity import OWNER, Wish
from knoll.steps.sparse import is_sparse
from knoll.validation import check_points, check_weights

__all__ = ["clusters_of", "level_weights", "points_of", "scaling_for", "weights_of"]

_MOST_AUTO = 20  # clusters that n_clusters="auto" looks for
_DENSE_BYTES = 1 << 31  # of sparse rows that are made dense
_LEAST_WEIGHT = 2.0**-500  # of the largest: w_i d_i ≥ w_i² A_ii must stay within float64


def points_of(X: Any, wish: Wish, estimator: Any, threads: int, *, reset: bool) -> tuple[Any, Any]:
    """Take the data in, and its kind; points become float64 rows, which hold whatever float32 held."""
    points: Any = check_points(X, estimator=estimator, reset=reset, sparse=True, n_jobs=threads)
    kind = points.dtype
    if wish.given:
        if reset and points.shape[0] != points.shape[1]:
            raise BadData(f"{OWNER}: with affinity={wish.name!r} X must be square, got shape {points.shape}.")
        if wish.name == "precomputed" and reset:
            check_matrix(points, f"{OWNER}: the precomputed affinity", negative=False, symmetric=False)
        if not reset or wish.name != "precomputed":
            what = "affinities" if wish.name == "precomputed" else "distances"
            refuse_negative(points, f"{OWNER}: precomputed {what} must be >= 0")
        return points, kind
    if is_sparse(points):
        needed = 8 * points.shape[0] * points.shape[1]
        if needed > _DENSE_BYTES:
            raise CostError(
                f"{OWNER}: sparse rows are made dense, which takes {needed / 2**30:.1f} GB here. Reduce the columns "
                "first, or pass a graph with affinity='precomputed'."
            )
        points = points.toarray()
    return np.ascontiguousarray(points, dtype=np.float64), kind


def weights_of(sample_weight: Any, wish: Wish, n: int) -> NDArray[np.float64] | None:
    """Take weights in where a repetition has a meaning."""
    if sample_weight is None:
        return None
    for refused, why in (
        (wish.name == "nearest_neighbors", "repeated rows would crowd out each other's neighbours"),
        (wish.given, "a given graph says nothing of links between a row's copies"),
        (bool(wish.zero_diagonal), "copies of a row are linked, the row itself is not"),
    ):
        if refused:
            what = "zero_diagonal=True" if wish.zero_diagonal else f"affinity={wish.affinity!r}"
            raise InvalidParameter(
                f"{OWNER}: sample_weight has no meaning with {what}: {why}. Leave the weights out, or use "
                "affinity='rbf' with zero_diagonal=False."
            )
    return check_weights(sample_weight, n, owner=OWNER)


def level_weights(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Divide weights > 0 by a power of two, so that the largest is in [1, 2); also return the power.

    A common factor cancels in √(w/d), but w d is of the order of w². Scaling by a power of two is exact, so weights
    that differ by such a factor give the same bits.
    """
    power = int(np.frexp(weights.max())[1]) - 1
    with np.errstate(under="ignore"):
        return np.maximum(np.ldexp(weights, -power), _LEAST_WEIGHT), power


def scaling_for(row_scaling: str, wish: Wish) -> str:
    """Choose how rows of the embedding are scaled where that is left to the affinity (decision 0021)."""
    if row_scaling != "auto":
        return row_scaling
    return "degree" if wish.graph else "unit"


def clusters_of(wish: Any, n: int) -> int:
    """Take the number of clusters in; "auto" is the most that are looked for."""
    if wish == "auto":
        return min(_MOST_AUTO, n)
    if n < wish:
        raise BadData(f"n_samples={n} should be >= n_clusters={wish}. Give more rows, or ask for fewer clusters.")
    return int(wish)
