"""A figure of the tour: panels side by side in one picture, or each as an image.

On a page the panels wrap, so that each keeps its size on a narrow screen; in a file they form a row.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Theme:
    """Background and foreground colours."""

    paper: str
    ink: str
    faint: str


LIGHT = Theme("#ffffff", "#1d2129", "#d5d8de")
DARK = Theme("#171a20", "#e4e6ea", "#3c424d")


@dataclass(frozen=True)
class Panel:
    """One panel of a figure.

    Attributes
    ----------
    title : str
        What is shown.
    alt : str
        The alternative text.
    draw : callable
        Draws into the axes.
    window : callable, optional
        Sets the limits of the axes after drawing.
    solid : bool
        Whether the axes are three-dimensional.
    size : (width, height)
        In inches.
    """

    title: str
    alt: str
    draw: Callable[[Any], object]
    window: Callable[[Any], None] | None = None
    solid: bool = False
    size: tuple[float, float] = (4.2, 4.2)

    def figure(self, theme: Theme = LIGHT) -> Figure:
        """Draw the panel alone, without its title."""
        with _themed(theme):
            figure = _new_figure(self.size)
            self.draw_into(figure)
            return figure

    def draw_into(self, figure: Figure, columns: int = 1, column: int = 1) -> Any:
        """Draw the panel as one of the columns of a figure."""
        options: Any = {"projection": "3d", "computed_zorder": False} if self.solid else {}
        ax = figure.add_subplot(1, columns, column, **options)
        self.draw(ax)
        if self.window is not None:
            self.window(ax)
        return ax


@dataclass(frozen=True)
class Picture:
    """A numbered figure.

    Attributes
    ----------
    number : int
        As in the paper.
    title : str
        What it shows.
    finding : str
        The conclusion, with the numbers of this run.
    panels : tuple of Panel
        From left to right.
    """

    number: int
    title: str
    finding: str
    panels: tuple[Panel, ...]

    @property
    def alt(self) -> str:
        """The alternative texts of the panels and the finding, in a line."""
        return " ".join([f"Figure {self.number}.", *(panel.alt for panel in self.panels), self.finding])

    def figure(self, theme: Theme = LIGHT) -> Figure:
        """Draw all the panels in a row."""
        with _themed(theme):
            width = sum(panel.size[0] for panel in self.panels)
            figure = _new_figure((width, self.panels[0].size[1] + 0.3))
            for column, panel in enumerate(self.panels, 1):
                ax = panel.draw_into(figure, len(self.panels), column)
                letter = f"({'abc'[column - 1]}) " if len(self.panels) > 1 else ""
                ax.set_title(letter + panel.title, fontsize=11)
            return figure


def save(figure: Figure, target: Any, **options: Any) -> None:
    """Write a figure; matplotlib also projects unused, uninitialised corners of its polygons, so errors are ignored."""
    import numpy as np

    with np.errstate(all="ignore"):
        figure.savefig(target, **options)


def png(figure: Figure, dpi: int = 190) -> bytes:
    """Return a small PNG: 256 colours are enough for flat pictures."""
    import numpy as np
    from PIL import Image

    canvas: Any = figure.canvas
    figure.set_dpi(dpi)
    with np.errstate(all="ignore"):
        canvas.draw()
    raw = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    out = io.BytesIO()
    raw.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(out, format="PNG")
    return out.getvalue()


@contextmanager
def _themed(theme: Theme) -> Iterator[None]:
    import matplotlib as mpl

    settings: Any = {
        "figure.facecolor": theme.paper, "axes.facecolor": theme.paper, "savefig.facecolor": theme.paper,
        "text.color": theme.ink, "axes.labelcolor": theme.ink, "axes.edgecolor": theme.ink, "grid.color": theme.faint,
        "xtick.color": theme.ink, "ytick.color": theme.ink, "font.size": 10.0, "axes.titlesize": 11.0,
        "font.family": "DejaVu Sans", "svg.hashsalt": "knoll", "axes3d.xaxis.panecolor": theme.paper,
        "axes3d.yaxis.panecolor": theme.paper, "axes3d.zaxis.panecolor": theme.paper,
    }  # fmt: skip
    with mpl.rc_context(settings):
        yield


def _new_figure(size: tuple[float, float]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)  # no display, no window, nothing to close
    return figure
