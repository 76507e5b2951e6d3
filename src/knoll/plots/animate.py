"""A path from one algorithm to the other, animated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knoll.plots.frame import frame
from knoll.plots.style import axes_or_new
from knoll.relations.path import Path
from knoll.validation import Number, check_parameters

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes


def animate(path: Path, ax: Axes | None = None, *, seconds: float = 8.0) -> FuncAnimation:
    """Animate a path from its first state to its last.

    Parameters
    ----------
    path : Path
        The result of `path(X)` of a relation.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    seconds : float, default=8
        The duration.

    Returns
    -------
    matplotlib.animation.FuncAnimation
        Its `save` writes a video, its `to_jshtml` a page.

    Examples
    --------
    >>> from knoll import datasets, plots, relations
    >>> path = relations.get("climb-to-mean-shift").path(datasets.load("banana").X, steps=4)
    >>> film = plots.animate(path).to_jshtml()  # save("climb.gif", writer="pillow") writes a file
    """
    from matplotlib.animation import FuncAnimation

    check_parameters("plots.animate", {"seconds": seconds}, {"seconds": (Number(0, strict=True),)})
    ax = axes_or_new(ax)

    def draw(i: int) -> Any:
        ax.clear()
        frame(path, i, ax)
        return []

    figure: Any = ax.figure
    return FuncAnimation(figure, draw, frames=len(path), interval=1000 * float(seconds) / len(path), init_func=list)
