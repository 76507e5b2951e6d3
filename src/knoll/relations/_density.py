"""The scales of the density relations: parameters, or estimated from the data."""

from __future__ import annotations

from knoll._typing import Floats
from knoll.exceptions import BadData
from knoll.relations._common import quiet
from knoll.scales import estimate_bandwidth, estimate_eps


def density_scale(X: Floats, eps: float | None, min_samples: int | None) -> tuple[float, int]:
    """Return ε and minPts; by default 2·d rows and the knee of the k-distance curve."""
    level = 2 * X.shape[1] if min_samples is None else int(min_samples)
    level = min(level, len(X))
    if eps is None:
        with quiet():
            eps = float(estimate_eps(X, level))
    return float(eps), level


def bandwidth(X: Floats, value: float | None) -> float:
    """Return the bandwidth, by default estimated from the data."""
    if value is not None:
        return float(value)
    estimated = float(estimate_bandwidth(X))
    if estimated == 0:
        raise BadData(
            f"The estimated bandwidth of {len(X)} rows is 0: there are too few rows, or too many are equal. "
            "Set bandwidth > 0."
        )
    return estimated
