"""What the pictures of a comparison show: at most 5 000 rows, on the same two axes for every method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from knoll._typing import Floats, Ints

__all__ = ["MOST_POINTS", "Axis", "Shown", "same_colours", "shown_rows"]

MOST_POINTS = 5_000
_LONG = 24  # letters of a column's name
_NAMED = 3  # columns that the name of a principal axis mentions
_WORK = 1_000_000_000  # multiplications for the principal axes
_FAR = 4.0  # times the span of the inner 98 % of the rows: a wider picture would show its outliers and nothing else


@dataclass(frozen=True)
class Axis:
    """One direction of the pictures: its name, its window, and (place, text) of its ticks."""

    name: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Shown:
    """The rows that are drawn, where, and what to say of that."""

    rows: Ints  # (m,)
    places: Floats  # (m, 2) inside the window
    axes: tuple[Axis, Axis]
    notes: tuple[str, ...]


def shown_rows(scaled: Floats, names: tuple[str, ...], centre: Floats, spread: Floats, rows: Ints, n: int) -> Shown:
    """Lay out rows: one column as a strip, two as they are, more on their principal axes.

    `scaled` holds the `rows` (of `n`) as the methods saw them; `centre` and `spread` lead back to the original units.
    """
    m, d = scaled.shape
    few, all_ = (f"{count:,}".replace(",", "\u202f") for count in (m, n))
    notes = [] if m == n else [f"{few} of {all_} rows are drawn, chosen at random."]
    if d == 1:
        places = np.column_stack([scaled[:, 0], _strip(m)])
        labels = (names[0], "")
        notes.append("One column: height means nothing and only keeps points apart.")
    elif d == 2:
        places, labels = scaled.copy(), (names[0], names[1])
    else:
        places, labels = _principal(scaled, names)
        notes.append("Points are drawn on the two directions in which the scaled rows spread most.")
    axes, beyond = [], np.zeros(m, bool)
    for j in range(2):
        low, high = _window(places[:, j])
        beyond |= (places[:, j] < low) | (places[:, j] > high)
        places[:, j] = np.clip(places[:, j], low, high)
        ticks = () if d == 1 and j == 1 else _ticks(low, high, *((centre[j], spread[j]) if d <= 2 else (0.0, 1.0)))
        axes.append(Axis(labels[j], low, high, ticks))
    if beyond.any():
        notes.append(f"{int(beyond.sum())} far points stand at the edge of the pictures.")
    return Shown(rows, places, (axes[0], axes[1]), tuple(notes))


def _principal(scaled: Floats, names: tuple[str, ...]) -> tuple[Floats, tuple[str, str]]:
    """Project onto the two principal axes, each pointing to where its largest column grows."""
    centred = scaled - scaled.mean(axis=0)
    m, d = centred.shape
    some = min(m, max(100, math.isqrt(_WORK // d))) if d > 200 else m  # very wide tables: the axes of some of the rows
    _, lengths, directions = np.linalg.svd(centred[np.linspace(0, m - 1, some).astype(int)], full_matrices=False)
    directions = directions[:2] * np.sign(directions[np.arange(2), np.abs(directions[:2]).argmax(axis=1)])[:, None]
    shares = lengths[:2] ** 2 / max(float((lengths**2).sum()), np.finfo(float).tiny)
    labels, short = [], _short(names)
    for number, (direction, share) in enumerate(zip(directions, shares), 1):
        first = np.argsort(-np.abs(direction), kind="stable")[:_NAMED]
        told = ", ".join(f"{'+' if direction[j] > 0 else '−'}{short[j]}" for j in first)
        labels.append(f"axis {number}, {share:.0%} of the variance: {told}")
    return centred @ directions.T, (labels[0], labels[1])


def _short(names: Sequence[str]) -> list[str]:
    """Cut long names to what tells them apart: a beginning that all share says nothing."""
    first, last = min(names), max(names)  # what these two share, all share
    shared = next((at for at, (a, b) in enumerate(zip(first, last)) if a != b), 0)
    shared = shared if shared > _LONG // 2 else 0
    whole = [name if len(name) <= _LONG else f"{'…' if shared else ''}{name[shared:]}" for name in names]
    return [name if len(name) <= _LONG else name[: _LONG - 1] + "…" for name in whole]


def _strip(m: int) -> Floats:
    """Heights that fill a strip evenly: the golden ratio's multiples."""
    return np.asarray((np.arange(m) * 0.6180339887498949) % 1.0 * 0.6 - 0.3, dtype=np.float64)


def _window(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    inner_low, inner_high = (float(q) for q in np.quantile(values, [0.01, 0.99]))
    if inner_high > inner_low and high - low > _FAR * (inner_high - inner_low):
        wide = inner_high - inner_low
        low, high = max(low, inner_low - wide), min(high, inner_high + wide)
    if high == low:
        low, high = low - 0.5, high + 0.5
    return low, high


def _ticks(low: float, high: float, centre: float, spread: float) -> tuple[tuple[float, str], ...]:
    """Three or four round numbers of the original units, at their places in the scaled ones."""
    begin, end = low * spread + centre, high * spread + centre
    if not (math.isfinite(begin) and math.isfinite(end) and end > begin):
        return ()
    step = 10.0 ** math.floor(math.log10((end - begin) / 3))
    step *= next(times for times in (1, 2, 5, 10) if (end - begin) / (times * step) <= 4.5)
    first, last = math.ceil(begin / step), math.floor(end / step)
    numbers = [number * step for number in range(first, last + 1)][:6]
    return tuple(((value - centre) / spread, f"{value:.6g}".replace("-", "−")) for value in numbers)


def same_colours(model: Ints, labels: Ints) -> Ints:
    """Number clusters so that most points have the number they have in `model`; the others come after, noise is −1."""
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
    meets = shared[rows, columns] > 0
    number[rows[meets]] = theirs[columns[meets]]
    spare = (int(theirs.max()) if len(theirs) else -1) + 1
    by_size = np.argsort(-np.bincount(np.searchsorted(ours, labels[labels >= 0])), kind="stable")
    for at in by_size:
        if number[at] < 0:
            number[at], spare = spare, spare + 1
    out[labels >= 0] = number[np.searchsorted(ours, labels[labels >= 0])]
    return out
