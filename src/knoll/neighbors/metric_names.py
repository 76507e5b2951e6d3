"""The names of metrics: which the core knows, and what it takes beside a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from knoll.neighbors.gower import GOWER_COLUMNS
from knoll.neighbors.index import CoreParameter

__all__ = ["CORE_METRICS", "Metric", "core_metric", "core_parameter", "minkowski_power"]

Metric = str | Callable[..., float]

# The names under which the core knows a metric; any other is computed in blocks.
_CORE_METRICS = {
    "euclidean": "euclidean",
    "l2": "euclidean",
    "manhattan": "manhattan",
    "cityblock": "manhattan",
    "l1": "manhattan",
    "chebyshev": "chebyshev",
    "minkowski": "minkowski",
    "cosine": "cosine",
    "haversine": "haversine",
    "gower": "gower",
}

CORE_METRICS = tuple(dict.fromkeys(_CORE_METRICS.values()))

_MAXIMUM_FROM = 2.0**60  # powers of Minkowski that round to the largest difference: docs/numerics/index.md, X5


def minkowski_power(metric_params: dict[str, Any] | None, p: float | None) -> float:
    """Return the power of the Minkowski metric: that of metric_params, else p, else 2."""
    power = (metric_params or {}).get("p", p)
    return 2.0 if power is None else float(power)


def core_metric(metric: Metric, metric_params: dict[str, Any] | None, p: float | None) -> str | None:
    """Return the name that the core has for the metric; None if it must be computed in blocks."""
    name = _CORE_METRICS.get(metric) if isinstance(metric, str) else None
    if name == "minkowski":
        if (metric_params or {}).keys() - {"p"}:
            return None
        power = minkowski_power(metric_params, p)
        special = {1.0: "manhattan", 2.0: "euclidean"}
        return "chebyshev" if power >= _MAXIMUM_FROM else special.get(power, "minkowski")
    return None if metric_params and name != "gower" else name


def core_parameter(name: str, metric_params: dict[str, Any] | None, p: float | None) -> CoreParameter:
    """Return what the core takes beside the name: the power of the Minkowski metric, or Gower's column weights."""
    return (metric_params or {})[GOWER_COLUMNS] if name == "gower" else minkowski_power(metric_params, p)
