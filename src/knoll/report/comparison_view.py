"""The rows and axes of the pictures of a comparison: at most 5 000 rows, the same axes for every method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from knoll._typing import Floats, Ints
from knoll.models import Preparation
from knoll.tables.positions import Position, unwrapped

MAX_POINTS = 5_000
_MAX_NAME = 24  # characters of a column's name
_NAMED = 3  # columns in the name of a principal axis
_MAX_WORK = 1_000_000_000  # multiplications for the principal axes
_DEGREES = (5, 10, 15, 20, 30, 45, 60, 90)  # steps between ticks of a map
_MOST_OBLONG = 2.5  # ratio of the sides of a map
_MAX_SPAN = 4.0  # times the span of the inner 98 % of the rows: beyond it, outliers are drawn at the border


@dataclass(frozen=True)
class Axis:
    """An axis of the pictures: its name, its limits, and the (position, text) of its ticks."""

    name: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Shown:
    """The rows that are drawn, their positions, and notes."""

    rows: Ints  # (m,)
    positions: Floats  # (m, 2) inside the limits
    axes: tuple[Axis, Axis]
    notes: tuple[str, ...]
    equal: bool = False  # whether both axes must have one unit


def shown_rows(scaled: Floats, scaling: Preparation, rows: Ints, n: int, cells: NDArray[Any] | None = None) -> Shown:
    """Lay out rows: one column as a strip, two columns as they are, more on their principal axes; positions as a map.

    `scaled` are the `rows` (of `n`) as the methods saw them, `cells` the same in the table, which a map needs;
    `scaling` has the units.
    """
    names = scaling.names
    m, d = scaled.shape
    few, all_ = (f"{count:,}".replace(",", "\u202f") for count in (m, n))
    notes = [] if m == n else [f"{few} of {all_} rows are drawn, chosen at random."]
    if scaling.on_map is not None and cells is not None:
        return _map(cells, scaling, scaling.on_map, rows, notes)
    if d == 1:
        positions = np.column_stack([scaled[:, 0], _strip(m)])
        labels = (names[0], "")
        notes.append("One column: the vertical position has no meaning and only separates points.")
    elif d == 2:
        positions, labels = scaled.copy(), (names[0], names[1])
    else:
        positions, labels = _principal(scaled, names)
        notes.append("Points are projected onto the first two principal components of the scaled rows.")
    axes, beyond = [], np.zeros(m, bool)
    for j in range(2):
        low, high = _window(positions[:, j])
        beyond |= (positions[:, j] < low) | (positions[:, j] > high)
        positions[:, j] = np.clip(positions[:, j], low, high)
        ticks = () if d == 1 and j == 1 else _ticks(low, high, *(scaling.units(j) if d <= 2 else (0.0, 1.0)))
        axes.append(Axis(labels[j], low, high, ticks))
    if beyond.any():
        notes.append(f"{int(beyond.sum())} outliers are drawn at the border of the pictures.")
    return Shown(rows, positions, (axes[0], axes[1]), tuple(notes))


def _map(cells: NDArray[Any], scaling: Preparation, position: Position, rows: Ints, notes: list[str]) -> Shown:
    """Draw longitude across and latitude up; a degree of longitude is as long as at the mean latitude."""
    up, across = cells[:, position.latitude], unwrapped(cells[:, position.longitude])
    known = np.isfinite(up) & np.isfinite(across)
    rows, up, across = rows[known], up[known], across[known]
    middle = float(up.mean()) if len(up) else 0.0
    shrink = max(0.05, math.cos(math.radians(middle)))
    positions = np.column_stack([across * shrink, up])
    if not known.all():
        notes.append(f"{int((~known).sum())} rows without a position are not drawn.")
    windows = [_window(positions[:, 0]), _window(positions[:, 1])]
    least = max(high - low for low, high in windows) / _MOST_OBLONG
    axes, beyond = [], np.zeros(len(rows), bool)
    for j, (low, high) in enumerate(windows):
        more = max(0.0, least - (high - low)) / 2
        low, high = low - more, high + more
        beyond |= (positions[:, j] < low) | (positions[:, j] > high)
        positions[:, j] = np.clip(positions[:, j], low, high)
        ticks = _degree_ticks(low, high, 1.0 if j else 1 / shrink)
        name = scaling.columns[position.latitude if j else position.longitude]
        axes.append(Axis(f"{name} (degrees)", low, high, tuple((at, f"{_turned(text)}°") for at, text in ticks)))
    if beyond.any():
        notes.append(f"{int(beyond.sum())} outliers are drawn at the border of the pictures.")
    return Shown(rows, positions, (axes[0], axes[1]), tuple(notes), equal=True)


def _degree_ticks(low: float, high: float, scale: float) -> tuple[tuple[float, str], ...]:
    """Return ticks in degrees; large steps divide the circle."""
    extent = (high - low) * scale
    step = next((each for each in _DEGREES if extent / each <= 4.5), None)
    if step is None or extent < 20:
        return _ticks(low, high, 0.0, scale)
    first, last = math.ceil(low * scale / step), math.floor(high * scale / step)
    return tuple((number * step / scale, f"{number * step}".replace("-", "−")) for number in range(first, last + 1))


def _turned(text: str) -> str:
    """Write a longitude beyond 180 as one to the west."""
    value = float(text.replace("−", "-"))
    return text if abs(value) <= 180 else f"{(value + 180) % 360 - 180:.6g}".replace("-", "−")


def _principal(scaled: Floats, names: tuple[str, ...]) -> tuple[Floats, tuple[str, str]]:
    """Project onto the first two principal axes, oriented by their largest coefficients."""
    centred = scaled - scaled.mean(axis=0)
    m, d = centred.shape
    count = (
        min(m, max(100, math.isqrt(_MAX_WORK // d))) if d > 200 else m
    )  # very wide tables: from a subset of the rows
    _, lengths, directions = np.linalg.svd(centred[np.linspace(0, m - 1, count).astype(int)], full_matrices=False)
    directions = directions[:2] * np.sign(directions[np.arange(2), np.abs(directions[:2]).argmax(axis=1)])[:, None]
    shares = lengths[:2] ** 2 / max(float((lengths**2).sum()), np.finfo(float).tiny)
    labels, short = [], _short(names)
    for number, (direction, share) in enumerate(zip(directions, shares), 1):
        first = np.argsort(-np.abs(direction), kind="stable")[:_NAMED]
        columns = ", ".join(f"{'+' if direction[j] > 0 else '−'}{short[j]}" for j in first)
        labels.append(f"axis {number}, {share:.0%} of the variance: {columns}")
    return centred @ directions.T, (labels[0], labels[1])


def _short(names: Sequence[str]) -> list[str]:
    """Shorten long names, without a long common prefix."""
    first, last = min(names), max(names)  # the prefix of these two is common to all
    shared = next((at for at, (a, b) in enumerate(zip(first, last)) if a != b), 0)
    shared = shared if shared > _MAX_NAME // 2 else 0
    whole = [name if len(name) <= _MAX_NAME else f"{'…' if shared else ''}{name[shared:]}" for name in names]
    return [name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…" for name in whole]


def _strip(m: int) -> Floats:
    """Return positions that fill a strip evenly: multiples of the golden ratio."""
    return np.asarray((np.arange(m) * 0.6180339887498949) % 1.0 * 0.6 - 0.3, dtype=np.float64)


def _window(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    inner_low, inner_high = (float(q) for q in np.quantile(values, [0.01, 0.99]))
    if inner_high > inner_low and high - low > _MAX_SPAN * (inner_high - inner_low):
        wide = inner_high - inner_low
        low, high = max(low, inner_low - wide), min(high, inner_high + wide)
    if high == low:
        low, high = low - 0.5, high + 0.5
    return low, high


def _ticks(low: float, high: float, center: float, scale: float) -> tuple[tuple[float, str], ...]:
    """Return three or four round numbers of the original units, at their scaled positions."""
    begin, end = low * scale + center, high * scale + center
    if not (math.isfinite(begin) and math.isfinite(end) and end > begin):
        return ()
    step = 10.0 ** math.floor(math.log10((end - begin) / 3))
    step *= next(times for times in (1, 2, 5, 10) if (end - begin) / (times * step) <= 4.5)
    first, last = math.ceil(begin / step), math.floor(end / step)
    numbers = [number * step for number in range(first, last + 1)][:6]
    return tuple(((value - center) / scale, f"{value:.6g}".replace("-", "−")) for value in numbers)


def same_colours(model: Ints, labels: Ints) -> Ints:
    """Renumber clusters to match those of `model` in as many points as possible; others come after, noise is −1."""
    kept = (model >= 0) & (labels >= 0)
    ours = np.unique(labels[labels >= 0])
    theirs = np.unique(model[model >= 0])
    out = np.full(len(labels), -1, dtype=np.int64)
    if not len(ours):
        return out
    shared = np.zeros((len(ours), max(len(theirs), 1)), dtype=np.int64)
    np.add.at(shared, (np.searchsorted(ours, labels[kept]), np.searchsorted(theirs, model[kept])), 1)
    rows, columns = linear_sum_assignment(-shared)
    number = np.full(len(ours), -1, dtype=np.int64)
    overlap = shared[rows, columns] > 0
    number[rows[overlap]] = theirs[columns[overlap]]
    spare = (int(theirs.max()) if len(theirs) else -1) + 1
    by_size = np.argsort(-np.bincount(np.searchsorted(ours, labels[labels >= 0])), kind="stable")
    for at in by_size:
        if number[at] < 0:
            number[at], spare = spare, spare + 1
    out[labels >= 0] = number[np.searchsorted(ours, labels[labels >= 0])]
    return out
