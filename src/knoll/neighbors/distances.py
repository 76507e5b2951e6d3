"""Distances of a metric that the core does not know, by scikit-learn's `pairwise_distances`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from knoll._typing import Floats
from knoll.exceptions import BadData, InvalidParameter

__all__ = ["metric_distances"]


def metric_distances(
    queries: Any,
    points: Any,
    metric: str | Callable[..., float],
    options: Mapping[str, Any],
    owner: str,
) -> Floats:
    """Return the distances of each query to each point, infinite where they leave float64.

    scikit-learn adds up all entries to see whether they are finite: sums of large float32 entries may overflow where no
    distance does, and NumPy's warnings of that are not for the user.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = pairwise_distances(queries, points, metric=metric, **options)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"{owner}: metric {metric!r} cannot be computed: {error}") from None
    distances = np.asarray(found, dtype=np.float64)
    if np.isnan(distances).any() or distances.min(initial=0.0) < 0:
        raise BadData(
            f"{owner}: metric {metric!r} gives distances that are NaN or < 0 for these rows. Rescale the columns, or "
            "take another metric."
        )
    return distances
