"""Points on the Earth: latitude and longitude in radians, and radii with a unit of length."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from knoll._common.earth import EARTH_RADIUS
from knoll.exceptions import BadData, InvalidParameter

__all__ = ["EARTH_RADIUS", "check_coordinates", "radius_in_radians"]

_METRES = {"m": 1.0, "km": 1e3, "ft": 0.3048, "mi": 1609.344, "nmi": 1852.0}
_POLE = math.pi / 2 * (1 + 1e-9)  # conversion to radians may round beyond


def radius_in_radians(eps: float | str, metric: Any, owner: str) -> float:
    """Return the radius as a number; a length, such as "50m" or "1.5 km", is an angle for the haversine metric.

    Examples
    --------
    >>> from knoll.density.geography import radius_in_radians
    >>> round(6371.0088 * radius_in_radians("1.5 km", "haversine", "DBSCAN"), 12)
    1.5
    """
    if not isinstance(eps, str):
        return float(eps)
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]+)\s*", eps)
    if found is None or found[2] not in _METRES or not float(found[1]) > 0:
        raise InvalidParameter(
            f"{owner}: eps must be a number > 0 or a length in {', '.join(_METRES)}, such as '50m', got {eps!r}."
        )
    if metric != "haversine":
        raise InvalidParameter(f"{owner}: eps={eps!r} is a length on the Earth, which needs metric='haversine'.")
    return float(found[1]) * _METRES[found[2]] / EARTH_RADIUS


def check_coordinates(owner: str, metric: Any, points: Any) -> None:
    """Refuse what cannot be latitude and longitude in radians, such as degrees."""
    if metric != "haversine":
        return
    if points.shape[1] != 2:
        raise BadData(
            f"{owner}: metric='haversine' takes two columns, latitude and longitude in radians; "
            f"X has {points.shape[1]}."
        )
    latitude = np.asarray(points[:, 0])
    beyond = np.flatnonzero(np.abs(latitude) > _POLE)
    if len(beyond):
        raise BadData(
            f"{owner}: metric='haversine' takes latitudes in radians, from -π/2 to π/2; row {beyond[0]} has "
            f"{float(latitude[beyond[0]]):g}. Degrees become radians by numpy.radians(X); latitude is the first column."
        )
