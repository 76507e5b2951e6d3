"""A figure of the tour: panels that are drawn side by side in one picture, or each as an image of its own.

On a page the panels wrap, so that each keeps its size on a narrow screen; in a file they stand in a row.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DARK", "LIGHT", "Panel", "Picture", "Theme", "png", "save"]


@dataclass(frozen=True)
class Theme:
    """What is not data in a picture: paper and ink."""

    paper: str
    ink: str
    faint: str


LIGHT = Theme("#ffffff", "#1d2129", "#d5d8de")
DARK = Theme("#171a20", "#e4e6ea", "#3c424d")


@dataclass(frozen=True)
class Panel:
    """One part of a figure.

    Attributes
    ----------
    title : str
        What is shown.
    alt : str
        What can be seen in it, for those who cannot.
    draw : callable
        Draws into the axes it is given.
    solid : bool
        Whether these axes are three-dimensional.
    size : (width, height)
        In inches.
    """

    title: str
    alt: str
    draw: Callable[[Any], None]
    solid: bool = False
    size: tuple[float, float] = (4.2, 4.2)

    def figure(self, theme: Theme = LIGHT) -> Figure:
        """Draw the panel alone, without its title."""
        with _dressed(theme):
            figure = _new_figure(self.size)
            self.draw(_axes(figure, 1, 1, self))
            return figure


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
        What is to be learnt from it, with the numbers of this run.
    panels : tuple of Panel
        Its parts, from left to right.
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
        with _dressed(theme):
            width = sum(panel.size[0] for panel in self.panels)
            figure = _new_figure((width, self.panels[0].size[1] + 0.3))
            for place, panel in enumerate(self.panels, 1):
                ax = _axes(figure, len(self.panels), place, panel)
                panel.draw(ax)
                letter = f"({'abc'[place - 1]}) " if len(self.panels) > 1 else ""
                ax.set_title(letter + panel.title, fontsize=11)
            return figure


def save(figure: Figure, target: Any, **options: Any) -> None:
    """Write a figure. matplotlib projects the unused corners of its polygons too, which hold any number there is."""
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
def _dressed(theme: Theme) -> Iterator[None]:
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


def _axes(figure: Figure, count: int, place: int, panel: Panel) -> Any:
    if panel.solid:
        return figure.add_subplot(1, count, place, projection="3d", computed_zorder=False)
    return figure.add_subplot(1, count, place)
