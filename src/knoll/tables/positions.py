"""Latitude and longitude as positions: recognised by name and range, put on a plane or a sphere in kilometres.

Rows within a region of the Earth go to a plane by Lambert's azimuthal equal-area projection about their centre c: the
distance from c to a point at the angle θ becomes the chord 2R sin(θ/2). At that point lengths are cos(θ/2) of the true
ones towards c and 1/cos(θ/2) across, so areas, and with them densities, are right. A cap and its image are convex, so
distances of rows within the angle θ of c are right up to the factor 1/cos(θ/2), `Position.distortion`. Where it exceeds
`MOST_DISTORTION`, rows are points of the sphere in space, whose distances are chords. Decision 0029 compares the two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from knoll._common.earth import EARTH_RADIUS
from knoll._typing import Floats

__all__ = ["FORMS", "Position", "in_radians", "is_latitude", "is_longitude", "pairs_of", "possible", "unwrapped"]

RADIUS = EARTH_RADIUS / 1000  # km
FORMS = ("plane", "sphere", "radians")
MOST_DISTORTION = 1.05  # of distances on the plane
_HALF_TURN = 180.0
_NAME = r"(?i)(?:.*[\s_.-])?{}(?:[\s_.-]?(?:deg|degs|degrees|dd|wgs84|\(deg\)|\[deg\]|\(°\)|\[°\]))?"
_LATITUDE = re.compile(_NAME.format("(?:lat|latitude|breitengrad|breite)"))
_LONGITUDE = re.compile(_NAME.format("(?:lon|lng|long|longitude|längengrad|laengengrad|länge)"))
_CAMEL = re.compile(r"(?<=[a-z])(?=(?:Lat|Latitude|Lon|Lng|Long|Longitude)$)")  # pickupLatitude


def is_latitude(name: str) -> bool:
    """Whether a column is called a latitude."""
    return _LATITUDE.fullmatch(_CAMEL.sub("_", name.strip())) is not None


def is_longitude(name: str) -> bool:
    """Whether a column is called a longitude."""
    return _LONGITUDE.fullmatch(_CAMEL.sub("_", name.strip())) is not None


def pairs_of(latitudes: Sequence[str], longitudes: Sequence[str]) -> list[tuple[str, str]]:
    """Pair columns: those whose names differ in that word only, then the others in their order.

    Examples
    --------
    >>> from knoll.tables.positions import pairs_of
    >>> pairs_of(["from_lat", "to_lat"], ["to_lon", "from_lon"])
    [('from_lat', 'from_lon'), ('to_lat', 'to_lon')]
    """
    left = list(longitudes)
    alike = {}
    for name in latitudes:
        match = next((other for other in left if _stem(other) == _stem(name)), None)
        if match is not None:
            alike[name] = match
            left.remove(match)
    for name in latitudes:
        if name not in alike and left:
            alike[name] = left.pop(0)
    return [(name, alike[name]) for name in latitudes if name in alike]


def _stem(name: str) -> str:
    other = re.sub(r"(?i)latitude|longitude|breitengrad|breite|längengrad|laengengrad|länge|lat|long|lng|lon", "", name)
    return other.lower()


def possible(latitude: Floats, longitude: Floats) -> bool:
    """Whether numbers may be degrees of latitude and longitude."""
    return _within(latitude, 90.0) and (_within(longitude, _HALF_TURN) or _between(longitude, 0.0, 360.0))


def in_radians(latitude: Floats, longitude: Floats) -> bool:
    """Whether numbers look like radians: they would be degrees of a few rows near the Gulf of Guinea."""
    return _within(latitude, math.pi / 2) and _within(longitude, math.pi)


def unwrapped(longitude: Floats) -> Floats:
    """Return longitudes without a jump at 180°, if there is a larger gap elsewhere; NaN stays.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.tables.positions import unwrapped
    >>> unwrapped(np.array([179.0, -178.0])).tolist(), unwrapped(np.array([-3.0, 13.0])).tolist()
    ([179.0, 182.0], [-3.0, 13.0])
    """
    turned = np.remainder(longitude + _HALF_TURN, 2 * _HALF_TURN) - _HALF_TURN
    known = np.unique(turned[np.isfinite(turned)])
    if len(known) < 2:
        return np.asarray(turned)
    gaps = np.diff(known)
    widest = int(gaps.argmax())
    if gaps[widest] <= 2 * _HALF_TURN - (known[-1] - known[0]):
        return np.asarray(turned)
    return np.where(turned <= known[widest], turned + 2 * _HALF_TURN, turned)


def _within(values: Floats, most: float) -> bool:
    return _between(values, -most, most)


def _between(values: Floats, low: float, high: float) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known) and low <= known.min() and known.max() <= high)


@dataclass(frozen=True)
class Position:
    """How a latitude and a longitude in degrees become coordinates.

    Attributes
    ----------
    latitude, longitude : int
        Their columns.
    form : {"plane", "sphere", "radians"}
        Kilometres to the east and to the north on a plane; kilometres in space; or radians, for the haversine metric.
    center : tuple of float
        Latitude and longitude of the centre of the plane, in degrees.
    distortion : float
        By how much distances on the plane are wrong at most, as a factor, for the rows of the fit; 1 elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.tables.positions import Position
    >>> degrees = np.array([[52.52, 13.40], [52.39, 13.06]])
    >>> at = Position(0, 1).fitted(degrees)
    >>> east, north = at.coordinates(degrees).T
    >>> at.form, round(float(np.hypot(east[1] - east[0], north[1] - north[0])), 2)
    ('plane', 27.2)
    """

    latitude: int
    longitude: int
    form: str = "plane"
    center: tuple[float, float] = (0.0, 0.0)
    distortion: float = 1.0

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return 3 if self.form == "sphere" else 2

    def fitted(self, X: Floats) -> Self:
        """Choose the form, and the centre, for rows of degrees; their order does not matter."""
        degrees = X[:, [self.latitude, self.longitude]]
        known = degrees[np.isfinite(degrees).all(axis=1)]
        if not len(known):
            return self
        points = _in_space(known)
        middle = np.array([math.fsum(column.tolist()) for column in points.T]) / len(points)
        size = float(np.sqrt((middle**2).sum()))
        if size < 1e-9:  # all round the Earth: there is no centre
            return replace(self, form="sphere", center=(0.0, 0.0))
        least = float((points @ (middle / size)).min())  # cos θ of the farthest row
        factor = 1 / math.sqrt(max((1 + least) / 2, 1e-12))
        if factor > MOST_DISTORTION:
            return replace(self, form="sphere", center=(0.0, 0.0))
        across = math.degrees(math.atan2(middle[1], middle[0]))
        up = math.degrees(math.asin(min(1.0, max(-1.0, middle[2] / size))))
        return replace(self, form="plane", center=(up, across), distortion=factor)

    def coordinates(self, X: Floats) -> Floats:
        """Return the coordinates of rows of degrees, NaN where one of the two is missing, (n, width)."""
        degrees = np.array(X[:, [self.latitude, self.longitude]], dtype=np.float64)
        degrees[~np.isfinite(degrees).all(axis=1)] = np.nan
        if self.form == "radians":
            return np.radians(degrees)
        if self.form == "sphere":
            return RADIUS * _in_space(degrees)
        return RADIUS * _on_plane(degrees, self.center)

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the coordinates."""
        latitude, longitude = columns[self.latitude], columns[self.longitude]
        if self.form == "radians":
            return f"{latitude} (radians)", f"{longitude} (radians)"
        if self.form == "plane":
            return f"km north ({latitude})", f"km east ({longitude})"
        return tuple(f"km along {axis} ({latitude}, {longitude})" for axis in "xyz")

    def text(self, columns: Sequence[str]) -> str:
        """Describe in a sentence what was made of them."""
        pair = f"{columns[self.latitude]}, {columns[self.longitude]}"
        if self.form == "radians":
            return f"{pair}: degrees, converted to radians for the haversine metric."
        if self.form == "sphere":
            return f"Positions by {pair}: distances are chords of the Earth, in km."
        error = 100 * (self.distortion - 1)
        digits = "under 0.01" if error < 0.01 else f"at most {error:.2g}"
        up, across = self.center
        middle = f"{abs(up):.4g}° {'N' if up >= 0 else 'S'}, {abs(across):.4g}° {'E' if across >= 0 else 'W'}"
        return f"Positions by {pair}: distances are in km on an equal-area map around {middle} (error {digits} %)."

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**vars(self), "center": list(self.center)}

    @classmethod
    def from_plain(cls, plain: Any, width: int) -> Self | None:
        """Read the result of `plain`, trusting nothing; None if it makes no sense."""
        match plain:
            case {
                "latitude": int(latitude), "longitude": int(longitude), "form": str(form),
                "center": [float(up), float(across)], "distortion": float(distortion),
            }:  # fmt: skip
                good = (
                    len(plain) == 5
                    and latitude != longitude
                    and 0 <= min(latitude, longitude) <= max(latitude, longitude) < width
                    and form in FORMS
                    and abs(up) <= 90
                    and abs(across) <= _HALF_TURN
                    and 1 <= distortion < math.inf
                )
                return cls(latitude, longitude, form, (up, across), distortion) if good else None
        return None


def _in_space(degrees: Floats) -> Floats:
    """Return points of the unit sphere, (n, 3)."""
    up, across = np.radians(degrees).T
    return np.column_stack([np.cos(up) * np.cos(across), np.cos(up) * np.sin(across), np.sin(up)])


def _on_plane(degrees: Floats, center: tuple[float, float]) -> Floats:
    """Return Lambert's azimuthal equal-area projection for the unit sphere: north, then east, as the columns are.

    The chord to the centre is taken from the haversine, which does not cancel for points that are near it.
    """
    up, across = np.radians(degrees).T
    up0, across0 = np.radians(center)
    turn = np.remainder(across - across0 + np.pi, 2 * np.pi) - np.pi
    east = np.cos(up) * np.sin(turn)
    north = np.sin(up - up0) + 2 * np.sin(up0) * np.cos(up) * np.sin(turn / 2) ** 2
    haversine = np.sin((up - up0) / 2) ** 2 + np.cos(up0) * np.cos(up) * np.sin(turn / 2) ** 2  # sin²(θ/2)
    factor = 1 / np.sqrt(np.maximum(1 - haversine, 1e-12))  # 1/cos(θ/2): the antipode of the centre goes far away
    return np.column_stack([north * factor, east * factor])
