"""Figures 11 to 13: a density with three modes, and the ascent of one point (sections 5 and 6 of the paper)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.ndimage import binary_dilation, label

from knoll import datasets, plots
from knoll._typing import Floats
from knoll.kernels import Heaviside
from knoll.plots.density import density_grid
from knoll.plots.style import BLUE, NOISE, RED
from knoll.report import fits
from knoll.report.figures._window import solid_window, window
from knoll.report.picture import Panel, Picture

_LEVEL = 0.02


def figure_11() -> Picture:
    """Draw the sample of three components, the contours and surface of its density, and a level set of three."""
    X = datasets.load("three_component_density").X
    model = fits.modes_mixture()
    x, y, height = density_grid(model, X, 160)
    count = int(label(height > _LEVEL)[1])
    assert count == 3, f"the level set at {_LEVEL} has {count} components"
    fit = window(X)

    def surface(ax: Any) -> None:
        _surface(ax, x, y, height, _LEVEL)
        ax.set_zticks([0, _LEVEL, 0.06])

    return Picture(
        11,
        "A sample, its density and a level",
        f"Above the level {_LEVEL:g} the fitted density has exactly {count} connected components: {count} clusters.",
        (
            Panel("600 points", "Three blue clouds of different shape.", lambda ax: plots.scatter(X, ax=ax), fit),
            Panel(
                "contours of the fitted density",
                "Grey contours with three modes; the red contour of the level consists of three closed curves.",
                lambda ax: plots.density(model, ax=ax, level=_LEVEL),
                fit,
            ),
            Panel(
                "the density and a plane at the level",
                "Three modes of different height; a red plane cuts all three, and only their tops are above it.",
                surface,
                solid=True,
            ),
        ),
    )


def figure_12() -> Picture:
    """Draw the ascent of one point to the level."""
    path = fits.ascent()
    to, count = path.stop, int(path.counts[path.stop])
    return Picture(
        12,
        "A point ascends until it reaches the level",
        f"The height is the number of points within ε = {fits.ASCENT_EPS:g}. The point starts with {path.counts[0]} of "
        f"them and moves to their mean; after {to} steps it has {count} ≥ minPts = {fits.ASCENT_LEVEL}, and climbing "
        "DBSCAN stops.",
        _ascent_panels(to, f"A path of {to} red steps ascends one mode and ends where it reaches a plane."),
    )


def figure_13() -> Picture:
    """Draw the ascent of the same point to the mode."""
    path = fits.ascent()
    last = len(path.positions) - 1
    return Picture(
        13,
        "The same point continues to the mode",
        f"Mean Shift has no level: the same point takes the same first {path.stop} steps and {last - path.stop} more, "
        f"to a fixed point with {path.counts[-1]} points within ε. Along the path the number of neighbours "
        f"{'also decreases' if (np.diff(path.counts) < 0).any() else 'never decreases'}; the Epanechnikov density "
        "never does.",
        _ascent_panels(last, "The same red path continues above the plane and ends near the top of the mode."),
    )


def _ascent_panels(to: int, alt: str) -> tuple[Panel, ...]:
    X = datasets.load("three_component_density").X
    path = fits.ascent()
    positions, counts = path.positions[: to + 1], path.counts[: to + 1]
    fit = window(X)

    def solid(ax: Any) -> None:
        x, y, height = _count_grid()
        _surface(ax, x, y, height, fits.ASCENT_LEVEL)
        ax.plot(*positions.T, counts + 1.5, "-o", color=RED, markersize=3.5, linewidth=1.6, zorder=10)
        ax.plot(*positions[:1].T, counts[:1] + 1.5, "o", color=RED, markerfacecolor="white", markersize=7, zorder=11)
        ax.plot(*positions[-1:].T, counts[-1:] + 1.5, "o", color=RED, markersize=7, zorder=11)
        ax.set_zticks([0, fits.ASCENT_LEVEL, 100, 150])

    def above(ax: Any) -> None:
        x, y, height = _count_grid()
        plots.scatter(X, ax=ax)
        ax.contour(x, y, height, levels=[fits.ASCENT_LEVEL], colors=NOISE, linewidths=1.5)
        ax.plot(*positions.T, "-o", color=RED, markersize=3.5, linewidth=1.4)
        ax.plot(*positions[:1].T, "o", color=RED, markerfacecolor="white", markersize=7)
        ax.plot(*positions[-1:].T, "o", color=RED, markersize=7)
        turn = np.linspace(0, 2 * np.pi, 200)
        ring = positions[-1] + fits.ASCENT_EPS * np.column_stack([np.cos(turn), np.sin(turn)])
        ax.plot(*ring.T, color=RED, linewidth=1, linestyle=":")

    return (
        Panel("the density, the level and the path", alt, solid, solid=True),
        Panel(
            "from above; dotted: the ball of radius ε",
            "The path seen from above over the blue points, with a dotted circle about its end; a grey line is the "
            "level.",
            above,
            fit,
        ),
    )


@lru_cache(maxsize=1)
def _count_grid() -> tuple[Floats, Floats, Floats]:
    """Count the points within ε on a grid: (m,), (m,), (m, m)."""
    X = datasets.load("three_component_density").X
    low, high = X.min(axis=0) - 0.9, X.max(axis=0) + 0.9
    x, y = (np.linspace(low[i], high[i], 110) for i in range(2))
    positions = np.ascontiguousarray(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
    return x, y, Heaviside(fits.ASCENT_EPS).tile(positions, X).sum(axis=1).reshape(110, 110)


def _surface(ax: Any, x: Floats, y: Floats, height: Floats, level: float) -> None:
    """Draw a surface in two layers: below the level, and above it; the plane of the level lies between them."""
    from matplotlib.colors import to_rgb

    gx, gy = np.meshgrid(x, y)
    light = {"linewidth": 0, "antialiased": True, "rcount": 90, "ccount": 90, "shade": True}
    ax.plot_surface(gx, gy, np.minimum(height, level), color=BLUE, alpha=0.55, zorder=1, **light)
    flat = np.array([[x[0], x[-1]], [x[0], x[-1]]]), np.array([[y[0], y[0]], [y[-1], y[-1]]])
    ax.plot_surface(*flat, np.full((2, 2), level), color=RED, alpha=0.22, linewidth=0, zorder=2)
    tops = np.zeros((*height.shape, 4))
    tops[..., :3], tops[..., 3] = to_rgb(BLUE), 0.85 * binary_dilation(height >= level)
    ax.plot_surface(gx, gy, np.maximum(height, level), facecolors=tops, zorder=3, **light)
    ax.contour(gx, gy, height, levels=[level], colors=RED, linewidths=1.5, zorder=4)
    ax.set_box_aspect((1.2, 1.2, 0.8), zoom=1.2)
    solid_window(ax, 34, -84)
