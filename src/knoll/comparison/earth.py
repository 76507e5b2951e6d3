"""Radii on the Earth that are set by hand: "50m", or radians with metric="haversine", in the unit of scaled rows.

In a comparison latitude and longitude are coordinates on a map, or on a sphere in space: Euclidean distances there are
distances on the Earth. So the haversine metric of a method becomes the Euclidean one, and its radius is converted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from knoll._common.earth import EARTH_RADIUS
from knoll.density.geography import radius_in_radians
from knoll.exceptions import InvalidParameter
from knoll.models import Preparation

__all__ = ["checked_radius", "on_the_earth"]

_RADII = ("eps", "max_eps", "bandwidth")


def on_the_earth(overrides: Mapping[str, Mapping[str, Any]], scaling: Preparation) -> dict[str, dict[str, Any]]:
    """Convert radii and metrics that are set by hand to those of the scaled rows."""
    return {name: _converted(name, values, scaling) for name, values in overrides.items()}


def checked_radius(values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return the values with a number for a radius that is a length, so that the class `owner` can check all others."""
    return {name: _radians(value, owner) if _is_length(name, value) else value for name, value in values.items()}


def _is_length(name: str, value: Any) -> bool:
    return name in _RADII and isinstance(value, str)


def _radians(value: Any, owner: str) -> float:
    return radius_in_radians(value, "haversine", owner)


def _converted(method: str, values: Mapping[str, Any], scaling: Preparation) -> dict[str, Any]:
    haversine = values.get("metric") == "haversine"
    if not haversine and not any(_is_length(name, value) for name, value in values.items()):
        return dict(values)
    if scaling.on_map is None and haversine and scaling.scale == "none":
        return dict(values)  # radians, as the estimator takes them
    if scaling.on_map is None:
        what = "metric=haversine" if haversine else next(f"{n}={v!r}" for n, v in values.items() if _is_length(n, v))
        raise InvalidParameter(
            f"parameters: {what} of {method} needs a table with a latitude and a longitude, in degrees, and nothing "
            "else. Name them by columns, or by types={'a': 'latitude', 'b': 'longitude'}."
        )
    unit = scaling.spread[0] if scaling.scale != "none" else 1.0  # km
    out = {name: value for name, value in values.items() if name != "metric" or not haversine}
    for name, value in out.items():
        if _is_length(name, value) or (haversine and name in _RADII and isinstance(value, int | float)):
            chord = 2 * math.sin(min(_radians(value, method), math.pi) / 2)
            out[name] = EARTH_RADIUS / 1000 * chord / unit
    return out
