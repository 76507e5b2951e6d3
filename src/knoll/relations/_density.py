"""The scale of a density relation: given, or from the data."""

from __future__ import annotations

from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.relations._common import quiet
from knoll.scales import estimate_bandwidth, estimate_eps

__all__ = ["bandwidth", "density_scale"]


def density_scale(X: Floats, eps: float | None, min_samples: int | None) -> tuple[float, int]:
    """Return ε and minPts: 2·d rows, and the bend of the k-distance curve, where they are not given."""
    level = 2 * X.shape[1] if min_samples is None else int(min_samples)
    level = min(level, len(X))
    if eps is None:
        with quiet():
            eps = float(estimate_eps(X, level))
    return float(eps), level


def bandwidth(X: Floats, given: float | None) -> float:
    """Return the given bandwidth, or that of the data."""
    if given is not None:
        return float(given)
    estimated = float(estimate_bandwidth(X))
    if estimated == 0:
        raise BadData(
            f"The bandwidth of these {len(X)} rows would be 0: they are too few, or too many are equal. "
            "Give one: bandwidth > 0."
        )
    return estimated
