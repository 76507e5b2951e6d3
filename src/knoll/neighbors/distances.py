"""Blocks of distances: Gower's by the core, others by scikit-learn's `pairwise_distances`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from knoll import _core
from knoll._typing import Floats
from knoll.exceptions import BadData, InvalidParameter
from knoll.neighbors.gower import GOWER_COLUMNS

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
    if metric == "gower":
        found = np.empty((len(queries), len(points)))
        _core.gower_distances(queries, points, options[GOWER_COLUMNS], found, 1)
        return found
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
