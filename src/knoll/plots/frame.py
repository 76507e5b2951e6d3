"""One state of a path from one algorithm to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from knoll.exceptions import InvalidParameter
from knoll.plots.plane import Plane
from knoll.plots.responsibilities import mixed_colors
from knoll.plots.scatter import scatter
from knoll.plots.similarity_graph import similarity_graph
from knoll.plots.style import BLUE, NOISE, RED, axes_or_new, style_axes
from knoll.relations.path import Path

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def frame(path: Path, i: int = 0, ax: Axes | None = None) -> Axes:
    """Draw one state of a path.

    Parameters
    ----------
    path : Path
        The result of `path(X)` of a relation.
    i : int, default=0
        Which frame; negative numbers count from the end.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn. The title is the frame's.

    Examples
    --------
    >>> from knoll import datasets, plots, relations
    >>> path = relations.get("climb-to-mean-shift").path(datasets.load("banana").X, steps=4)
    >>> plots.frame(path, 0).get_title()
    'level 1'
    """
    if not -len(path) <= i < len(path):
        raise InvalidParameter(f"i must lie between {-len(path)} and {len(path) - 1}, the frames of the path, got {i}.")
    ax = axes_or_new(ax)
    state = path[i]
    plane = Plane.of_points(path.points)
    xy = plane.points(path.points)
    arrays = state.arrays
    if "similarities" in arrays:
        similarity_graph(path.points, arrays["similarities"] * (arrays["similarities"] > 0.05), state.labels, ax)
    elif "responsibilities" in arrays:
        ax.scatter(xy[:, 0], xy[:, 1], c=mixed_colors(arrays["responsibilities"]), s=_size(len(xy)), linewidths=0)
        ax.plot(*plane.points(arrays["means"]).T, "o", color=RED, markersize=7, markeredgecolor="white")
        if path.points.shape[1] == 2:
            for mean in arrays["means"]:  # 3σ with σ = √ε
                turn = np.linspace(0, 2 * np.pi, 200)
                ax.plot(*(mean[:, None] + 3 * np.sqrt(state.value) * np.array([np.cos(turn), np.sin(turn)])), color=RED)
    elif "positions" in arrays:
        ends = plane.points(arrays["positions"])
        ax.scatter(xy[:, 0], xy[:, 1], color=NOISE, s=_size(len(xy)) / 2, linewidths=0, alpha=0.5)
        ax.scatter(ends[:, 0], ends[:, 1], color=BLUE, s=_size(len(xy)), linewidths=0)
    else:
        scatter(path.points, state.labels, ax=ax, plane=plane)
    style_axes(ax, plane.names)
    ax.set_aspect("equal", adjustable="box")  # every frame in the same window
    low, high = xy.min(axis=0), xy.max(axis=0)
    margin = 0.1 * float((high - low).max()) or 1.0
    ax.set_xlim(low[0] - margin, high[0] + margin)
    ax.set_ylim(low[1] - margin, high[1] + margin)
    ax.set_title(state.title, fontsize=10)
    return ax


def _size(n: int) -> float:
    return float(np.clip(6000 / n, 3, 18))
