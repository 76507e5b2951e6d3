"""Flat Mean Shift climbs the Epanechnikov density, by at least |N|·‖step‖² a step (eq. 6.2, errata items 11–13)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from knoll import _core
from knoll._typing import Floats
from knoll.density.ascent import KernelDensity
from knoll.relations._common import shifted_to_zero, squared_distances
from knoll.relations._density import bandwidth
from knoll.relations.certificate import Certificate, Check
from knoll.relations.relation import Relation

_STEPS = 2**31 - 1
_ROWS = 256  # evenly spaced, whose paths are checked step by step


class MeanShiftAscent(Relation):
    """A step to the mean of the neighbours is an ascent along the scaled gradient."""

    name: ClassVar = "mean-shift-ascent"
    source: ClassVar = "Mean Shift"
    target: ClassVar = "density peaks"
    statement: ClassVar = (
        "Every step increases f, the Epanechnikov sum, by at least |N|‖step‖²; the step is its gradient over 2|N|; an "
        "end point is a strict local maximum if, and only if, no row lies on its sphere."
    )
    formula: ClassVar = "f(y) = Σ_i (ε² − ‖y − x_i‖²)₊,  f(y⁺) ≥ f(y) + |N_ε(y)| ‖y⁺ − y‖²,  ∇f(y) = 2|N_ε(y)|(y⁺ − y)"
    _defaults: ClassVar = {"bandwidth": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps = bandwidth(X, parameters["bandwidth"])
        X = shifted_to_zero(X)  # positions far from zero are too coarse for differences
        density = KernelDensity(X, None, eps)
        rows = np.unique(np.linspace(0, len(X) - 1, min(_ROWS, len(X))).astype(np.int64))
        paths = density.paths(np.ascontiguousarray(X[rows]), _STEPS)
        shortfall, worst_gradient, tried, n_steps = 0.0, 0.0, 0, 0
        for path in paths:
            f, count = _epanechnikov(X, path, eps)  # (steps + 1,) each
            gain = f[1:] - f[:-1] - count[:-1] * np.square(np.diff(path, axis=0)).sum(axis=1)
            shortfall = max(shortfall, float((-gain / (len(X) * eps * eps)).max(initial=0.0)))
            n_steps += len(path) - 1
            for y, after, members in zip(path[:-1], path[1:], count[:-1]):
                error = _gradient_error(X, y, after, float(members), eps)
                if error is not None:
                    tried += 1
                    worst_gradient = max(worst_gradient, error)
        ends = np.unique(np.stack([path[-1] for path in paths]), axis=0)
        sphere = density.on_sphere(ends)
        higher = sum(_higher_nearby(X, end, eps) for end in ends[~sphere])
        stable = sum(not _rises_away(X, end, eps) for end in ends[sphere])
        return self._certificate(
            checks=(
                Check("f's shortfall in a step, relative to nε²", shortfall, 1e-12),
                Check("difference of the step and the numerical gradient, relative", worst_gradient, 1e-5),
                Check("end points without a row on their sphere that are no strict maximum", float(higher), 0.0),
                Check("end points with a row on their sphere that are a maximum", float(stable), 0.0),
            ),
            numbers={"ε": eps, "paths": len(paths), "steps": n_steps, "gradients compared": tried,
                     "end points": len(ends), "end points with a row on their sphere": int(sphere.sum())},
        )  # fmt: skip


def _epanechnikov(X: Floats, positions: Floats, eps: float) -> tuple[Floats, Floats]:
    """f and |N_ε| at each position."""
    square = squared_distances(positions, X)
    inside = np.sqrt(square) <= eps
    return np.where(inside, eps * eps - square, 0.0).sum(axis=1), inside.sum(axis=1).astype(np.float64)


def _gradient_error(X: Floats, y: Floats, after: Floats, members: float, eps: float) -> float | None:
    """Compare 2|N|(y⁺ − y) with central differences of f; None if a row is too close to the sphere."""
    h = 1e-5 * eps
    distance = np.sqrt(squared_distances(y[None], X)[0])
    if np.abs(distance - eps).min() <= 2 * h:
        return None
    steps = h * np.eye(len(y))
    up, _ = _epanechnikov(X, y + steps, eps)
    down, _ = _epanechnikov(X, y - steps, eps)
    gradient = (up - down) / (2 * h)
    return float(np.abs(gradient - 2 * members * (after - y)).max() / (members * eps))


def _higher_nearby(X: Floats, end: Floats, eps: float) -> bool:
    """Whether f is as large somewhere near an end point as at the end point."""
    distance = np.sqrt(squared_distances(end[None], X)[0])
    h = 0.25 * float(np.abs(distance - eps).min())  # within this radius no row crosses the sphere
    directions = np.empty(64 * len(end))
    _core.fill_normal(0, _core.PURPOSE_SAMPLE, 0, directions, 1)
    around = directions.reshape(64, len(end))
    around = h * around / np.sqrt(np.square(around).sum(axis=1, keepdims=True))
    inside = distance <= eps
    rise = -np.square(around).sum(axis=1) * inside.sum() + 2 * around @ (X[inside] - end).sum(axis=0)
    return bool((rise >= 0).any())  # f(end + u) − f(end), written out so that nothing cancels


def _rises_away(X: Floats, end: Floats, eps: float) -> bool:
    """Whether f increases away from a row on the sphere, which attracts without contributing."""
    distance = np.sqrt(squared_distances(end[None], X)[0])
    others = np.abs(distance[distance != eps] - eps).min(initial=eps)
    u = (end - X[int(np.flatnonzero(distance == eps)[0])]) / eps * 1e-3 * others
    stay = (distance < eps) | ((distance == eps) & ((X - end) @ u >= 0))
    return bool(-(u @ u) * stay.sum() + 2 * u @ (X[stay] - end).sum(axis=0) > 0)
