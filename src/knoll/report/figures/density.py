"""Figures 11 to 13: a density with three hills, and one point climbing (sections 5 and 6 of the paper)."""

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

__all__ = ["figure_11", "figure_12", "figure_13"]


_LEVEL = 0.02


def figure_11() -> Picture:
    """Draw the sample of three components, the contours and surface of its density, and a level with three islands."""
    X = datasets.load("three_component_density").X
    model = fits.hill_mixture()
    x, y, height = density_grid(model, X, 160)
    islands = int(label(height > _LEVEL)[1])
    assert islands == 3, f"the plane at {_LEVEL} cuts {islands} islands"
    fit = window(X)

    def points(ax: Any) -> None:
        plots.scatter(X, ax=ax)
        fit(ax)

    def contours(ax: Any) -> None:
        plots.density(model, ax=ax, level=_LEVEL)
        fit(ax)

    def surface(ax: Any) -> None:
        _hill(ax, x, y, height, _LEVEL)
        ax.set_zticks([0, _LEVEL, 0.06])

    return Picture(
        11,
        "A sample, its density and a level",
        f"Above the plane at {_LEVEL:g} the fitted density has exactly {islands} islands: {islands} clusters.",
        (
            Panel("600 points", "Three blue clouds of different shape.", points),
            Panel(
                "contours of the fitted density",
                "Grey contours with three summits; the red contour of the level falls into three closed curves.",
                contours,
            ),
            Panel(
                "the density and a plane at the level",
                "Three hills of different height; a red plane cuts through all three, and only their tops stand above.",
                surface,
                solid=True,
            ),
        ),
    )


def figure_12() -> Picture:
    """Draw one point climbing to the level."""
    way = fits.climb()
    to, count = way.stop, int(way.counts[way.stop])
    return Picture(
        12,
        "A point climbs until it meets the level",
        f"The height is the number of points within ε = {fits.HILL_EPS:g}. The point starts with {way.counts[0]} of "
        f"them and moves to their mean; after {to} steps it has {count} ≥ minPts = {fits.HILL_LEVEL}, and climbing "
        "DBSCAN stops.",
        _climb_panels(to, f"A path of {to} red steps leads up the flank of a hill and ends where it pierces a plane."),
    )


def figure_13() -> Picture:
    """Draw the same point going on to the peak."""
    way = fits.climb()
    last = len(way.places) - 1
    return Picture(
        13,
        "The same point goes on to the peak",
        f"Mean Shift has no level: the same point takes the same first {way.stop} steps and {last - way.stop} more, to "
        f"where {way.counts[-1]} points are within ε and their mean is the place itself. On the way the number of "
        f"neighbours {'also falls: it' if (np.diff(way.counts) < 0).any() else 'never falls; it'} is the Epanechnikov "
        "altitude that never does.",
        _climb_panels(last, "The same red path goes on above the plane and ends near the top of the hill."),
    )


def _climb_panels(to: int, alt: str) -> tuple[Panel, ...]:
    X = datasets.load("three_component_density").X
    way = fits.climb()
    places, counts = way.places[: to + 1], way.counts[: to + 1]
    fit = window(X)

    def solid(ax: Any) -> None:
        x, y, height = _count_grid()
        _hill(ax, x, y, height, fits.HILL_LEVEL)
        ax.plot(*places.T, counts + 1.5, "-o", color=RED, markersize=3.5, linewidth=1.6, zorder=10)
        ax.plot(*places[:1].T, counts[:1] + 1.5, "o", color=RED, markerfacecolor="white", markersize=7, zorder=11)
        ax.plot(*places[-1:].T, counts[-1:] + 1.5, "o", color=RED, markersize=7, zorder=11)
        ax.set_zticks([0, fits.HILL_LEVEL, 100, 150])

    def above(ax: Any) -> None:
        x, y, height = _count_grid()
        plots.scatter(X, ax=ax)
        ax.contour(x, y, height, levels=[fits.HILL_LEVEL], colors=NOISE, linewidths=1.5)
        ax.plot(*places.T, "-o", color=RED, markersize=3.5, linewidth=1.4)
        ax.plot(*places[:1].T, "o", color=RED, markerfacecolor="white", markersize=7)
        ax.plot(*places[-1:].T, "o", color=RED, markersize=7)
        turn = np.linspace(0, 2 * np.pi, 200)
        ring = places[-1] + fits.HILL_EPS * np.column_stack([np.cos(turn), np.sin(turn)])
        ax.plot(*ring.T, color=RED, linewidth=1, linestyle=":")
        fit(ax)

    return (
        Panel("the hill, the level and the path", alt, solid, solid=True),
        Panel(
            "from above; dotted: the ball of radius ε",
            "The path seen from above over the blue points, with a dotted circle about its end; a grey line is the "
            "level.",
            above,
        ),
    )


@lru_cache(maxsize=1)
def _count_grid() -> tuple[Floats, Floats, Floats]:
    """Count the points within ε on a grid: (m,), (m,), (m, m)."""
    X = datasets.load("three_component_density").X
    low, high = X.min(axis=0) - 0.9, X.max(axis=0) + 0.9
    x, y = (np.linspace(low[i], high[i], 110) for i in range(2))
    places = np.ascontiguousarray(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
    return x, y, Heaviside(fits.HILL_EPS).tile(places, X).sum(axis=1).reshape(110, 110)


def _hill(ax: Any, x: Floats, y: Floats, height: Floats, level: float) -> None:
    """Draw a surface in two layers: what is below the level, the plane, and what stands above it."""
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
