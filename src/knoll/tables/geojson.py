"""Points of GeoJSON (RFC 7946), written piece by piece: one feature for each row, its values as properties."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from knoll._typing import Floats

if TYPE_CHECKING:
    from knoll.tables.schema import Schema
    from knoll.tables.table import Table

__all__ = ["WITHOUT", "PointsFile", "degrees_in", "degrees_of"]

WITHOUT = (
    "GeoJSON needs a table with a latitude and a longitude, in degrees; this one has none that is used. Columns with "
    "other names need their types, latitude and longitude."
)
_DECIMALS = 7  # of a degree: a centimetre
_ROWS = 1 << 14  # features made at a time


def degrees_in(schema: Schema | None, X: Floats) -> Floats | None:
    """Return longitude and latitude of encoded rows, (n, 2), by the first pair of their columns; None without one."""
    if schema is None or not schema.positions:
        return None
    first = schema.positions[0]
    return np.asarray(X[:, [first.longitude, first.latitude]], dtype=np.float64)


def degrees_of(table: Table) -> Floats | None:
    """Return longitude and latitude of a table's rows, NaN where one is missing."""
    return degrees_in(table.schema, table.X if table.mixed is None else table.mixed.numeric)


class PointsFile:
    """A feature collection that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._begun = file, False
        self.rows = 0

    def write(self, ids: Any, id_name: str, values: Mapping[str, Any], degrees: Floats) -> None:
        """Append rows: where they are, (n, 2) longitude and latitude; what identifies them; their other values."""
        properties = {id_name: _plain(ids), **{name: _plain(column) for name, column in values.items()}}
        longitude = np.remainder(degrees[:, 0] + 180.0, 360.0) - 180.0
        longitude = np.where(degrees[:, 0] == 180.0, 180.0, longitude)
        known = np.asarray(np.isfinite(degrees).all(axis=1))
        positions = np.round(np.column_stack([longitude, degrees[:, 1]]), _DECIMALS).tolist()
        for begin in range(0, len(positions), _ROWS):
            features = [
                json.dumps({
                    "type": "Feature",
                    "geometry": {"type": "Point", "coordinates": positions[i]} if known[i] else None,
                    "properties": {name: column[i] for name, column in properties.items()},
                }, ensure_ascii=False, allow_nan=False)
                for i in range(begin, min(begin + _ROWS, len(positions)))
            ]  # fmt: skip
            if features:
                self._put(",\n".join(features))
        self.rows += len(positions)

    def close(self) -> None:
        """End the collection."""
        if not self._begun:
            self._put("")
        self._file.write(b"\n]}\n")

    def _put(self, text: str) -> None:
        head = ",\n" if self._begun else '{"type": "FeatureCollection", "features": [\n'
        self._begun = True
        self._file.write((head + text).encode("utf-8", errors="replace"))


def _plain(column: Any) -> Sequence[Any]:
    """Return the values of a column as JSON has them."""
    if hasattr(column, "to_pylist"):
        column = column.to_pylist()
    return [_cell(value) for value in (column.tolist() if hasattr(column, "tolist") else column)]


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)
