"""Curves of evidence as plain geometry, for the template."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll._format import number
from knoll._typing import Floats

if TYPE_CHECKING:
    from knoll.comparison import Evidence

WIDTH, HEIGHT = 420, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 28, 42
_MAX_POINTS = 160  # of a curve
_ROWS = 24  # of the table below it
_MIN_RANGE = 2e-5  # of an axis, relative to its numbers: tick labels have no more digits


def chart(evidence: Evidence, *, log: bool = False, most: int = _MAX_POINTS) -> dict[str, Any]:
    """Return what the template needs: polylines, ticks, the chosen point, a description, and the table.

    With `log` the horizontal axis is logarithmic; curves of more than `most` points are thinned out.
    """
    x = np.asarray(evidence.x, dtype=np.float64)
    curves = {name: np.asarray(y, dtype=np.float64) for name, y in evidence.y.items()}
    finite = np.concatenate([y[np.isfinite(y)] for y in curves.values()] or [np.zeros(0)])
    if not len(x) or not len(finite):
        return {}
    scale: Callable[[float], float] = math.log10 if log else float
    ends = min(float(x.min()), evidence.chosen), max(float(x.max()), evidence.chosen)
    x0, x1 = _padded(scale(ends[0]), scale(ends[1]), 0.0 if log else 0.03)
    if len(x) == 1 and _whole(x):
        x0, x1 = float(x[0]) - 1, float(x[0]) + 1
    y0, y1 = _padded(float(finite.min()), float(finite.max()), 0.06)

    def across(value: float) -> float:
        return round(_LEFT + (scale(value) - x0) / (x1 - x0) * (WIDTH - _LEFT - _RIGHT), 1)

    def down(value: float) -> float:
        return round(HEIGHT - _BOTTOM - (value - y0) / (y1 - y0) * (HEIGHT - _TOP - _BOTTOM), 1)

    lines = []
    for number_, (name, y) in enumerate(curves.items()):
        pieces = [" ".join(f"{across(x[i])},{down(y[i])}" for i in piece) for piece in _pieces(y, most)]
        dots = [(across(x[i]), down(y[i])) for piece in _pieces(y, most) for i in piece] if len(x) <= 40 else []
        lines.append({"name": name, "number": number_ % 7, "pieces": pieces, "dots": dots})
    height = _height_at(evidence.chosen, x, curves)
    lowest, highest = float(finite.min()), float(finite.max())
    alt = (
        f"{evidence.name} against {evidence.x_label or evidence.parameter}: "
        f"from {number(lowest)} to {number(highest)}; chosen at {number(evidence.chosen)}."
    )
    return {
        "name": evidence.name,
        "parameter": evidence.parameter,
        "reason": evidence.reason,
        "alt": alt,
        "x_label": evidence.x_label or evidence.parameter,
        "y_label": evidence.y_label or evidence.name,
        "lines": lines,
        "x": [across(value) for value in x.tolist()],
        "x_ticks": [
            (across(value), text)
            for value, text in (log_ticks(10**x0, 10**x1) if log else _ticks(x0, x1, 8, whole=_whole(x)))
        ],
        "y_ticks": [(down(value), text) for value, text in _ticks(y0, y1, 4, whole=_whole(finite))],
        "chosen": across(evidence.chosen),
        "chosen_y": None if height is None else down(height),
        "plot": (_LEFT, _TOP, WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM),
        "table": _table(x, curves, evidence.chosen),
    }


def _padded(low: float, high: float, share: float) -> tuple[float, float]:
    wide = max(high - low, _MIN_RANGE * max(abs(low), abs(high))) if high > low else abs(low) or 1.0
    return low - share * wide, high + share * wide


def _pieces(y: Floats, most: int) -> list[list[int]]:
    """Split a curve at missing values, and thin it out if it has many points."""
    pieces: list[list[int]] = []
    at = range(len(y)) if len(y) <= most else sorted({round(i) for i in np.linspace(0, len(y) - 1, most)})
    for i in at:
        if not math.isfinite(y[i]):
            pieces.append([])
        elif pieces:
            pieces[-1].append(i)
        else:
            pieces.append([i])
    return [piece for piece in pieces if piece]


def _height_at(chosen: float, x: Floats, curves: dict[str, Floats]) -> float | None:
    """Return the value at the chosen point; of several curves the lowest one, since the minimum was chosen."""
    heights = []
    for y in curves.values():
        good = np.isfinite(y)
        if good.any() and x[good].min() <= chosen <= x[good].max():
            order = np.argsort(x[good], kind="stable")
            heights.append(float(np.interp(chosen, x[good][order], y[good][order])))
    return min(heights) if heights else None


def _whole(x: Floats) -> bool:
    return bool((x == np.rint(x)).all())


def _ticks(low: float, high: float, most: int, whole: bool = False) -> list[tuple[float, str]]:
    """Return round numbers, with as many digits as are needed to distinguish them."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(times for times in (1, 2, 5, 10) if (high - low) / (times * step) <= most)
    step = max(step, 1.0) if whole else step
    values = [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    digits = max(4, 1 + math.ceil(math.log10(max(abs(low), abs(high), step) / step)))
    return [(value, number(value, digits)) for value in values]


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return numbers such as 0.1, 0.2, 0.5 between two; powers of ten where there are many of them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    digits = (1, 2, 5) if last - first <= 3 else (1, 3) if last - first <= 5 else (1,)
    step = max(1, round((last - first) / 8))
    values = [digit * 10.0**power for power in range(first, last + 1, step) for digit in digits]
    return [(value, number(value, 3)) for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def _table(x: Floats, curves: dict[str, Floats], chosen: float) -> list[dict[str, Any]]:
    """Return some rows of the curve, with the one nearest to the chosen point."""
    nearest = int(np.abs(x - chosen).argmin())
    at = sorted({round(i) for i in np.linspace(0, len(x) - 1, min(len(x), _ROWS))} | {nearest})
    return [{"x": number(x[i]), "values": [number(y[i]) for y in curves.values()], "chosen": i == nearest} for i in at]
