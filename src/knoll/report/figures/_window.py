"""The same limits for every panel of a figure: equal units, and a square around the points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from knoll._typing import Floats


def window(*shown: Floats) -> Callable[[Any], None]:
    """Return a function that sets square limits around points."""
    points = np.concatenate(shown)
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, 0.55 * float((high - low).max())

    def fit(ax: Any) -> None:
        ax.set_aspect("equal", adjustable="box")
        ax.set_xlim(middle[0] - half, middle[0] + half)
        ax.set_ylim(middle[1] - half, middle[1] + half)
        ax.set_xlabel("")
        ax.set_ylabel("")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)

    return fit


def solid_window(ax: Any, elevation: float, azimuth: float) -> None:
    """Rotate three-dimensional axes, and remove their grid."""
    ax.view_init(elev=elevation, azim=azimuth)
    ax.tick_params(labelsize=8, pad=0)
    ax.grid(False)
