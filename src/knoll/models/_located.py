"""Rows before they are scaled: coordinates in place of degrees, lengths of one; and one factor for each position."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from knoll._typing import Floats
from knoll.tables.positions import Position
from knoll.tables.schema import Schema

__all__ = ["chosen_scale", "located", "of_length_one", "with_one_factor"]


def of_length_one(points: Floats) -> Floats:
    """Divide rows by their lengths; a row of zeros stays."""
    largest = np.abs(points).max(axis=1, initial=0.0)
    points = points / np.where(largest > 0, largest, 1.0)[:, None]  # squares stay within float64
    lengths = np.sqrt((points**2).sum(axis=1))
    return np.asarray(points / np.where(lengths > 0, lengths, 1.0)[:, None])


def located(X: Floats, positions: Sequence[Position], count: int | None = None) -> Floats:
    """Put coordinates in place of degrees; a third one goes behind the `count` numbers, by default the last column."""
    if not positions:
        return X
    out = np.array(X, dtype=np.float64)
    more: list[Floats] = []
    for each in positions:
        found = each.coordinates(X)
        out[:, each.latitude], out[:, each.longitude] = found[:, 0], found[:, 1]
        more += list(found.T[2:])
    end = X.shape[1] if count is None else count
    return np.insert(out, [end] * len(more), np.array(more).T, axis=1) if more else out


def chosen_scale(scale: str, schema: Schema) -> str:
    """Return what "auto" is for columns of different types: those of positions alone have one unit."""
    if scale != "auto" or schema.is_plain:
        return scale
    return "common" if 2 * len(schema.positions) == len(schema.used) else "standard"


def with_one_factor(
    columns: Sequence[Floats], deviations: Sequence[float], positions: Sequence[Position], count: int, scale: str
) -> tuple[float, ...]:
    """Scale the coordinates of a position by one factor: the root mean square of what two columns are divided by."""
    out = list(deviations)
    if scale in ("none", "common"):
        return tuple(out)
    for each in positions:
        own = [each.latitude, each.longitude, *range(count, count + each.width - 2)]
        count += each.width - 2
        square = sum(out[j] ** 2 for j in own if not _constant(columns[j])) / 2
        for j in own:
            out[j] = math.sqrt(square) or 1.0
    return tuple(out)


def _constant(column: Floats) -> bool:
    known = column[np.isfinite(column)]
    return not len(known) or bool((known == known[0]).all())
