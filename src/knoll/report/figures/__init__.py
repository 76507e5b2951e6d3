"""The paper's fourteen figures, drawn anew from the library's own fits, and two of its future work."""

from __future__ import annotations

from collections.abc import Callable

from knoll.report.figures.density import figure_11, figure_12, figure_13
from knoll.report.figures.gaussian import figure_2, figure_3
from knoll.report.figures.hierarchy import figure_15
from knoll.report.figures.kernels import figure_8, figure_9, figure_10
from knoll.report.figures.map import ARROWS, ARROWS_14, ARROWS_16, Arrow, figure_1, figure_14, figure_16
from knoll.report.figures.mixture import figure_4, figure_5, figure_6, figure_7
from knoll.report.picture import Picture

__all__ = ["ARROWS", "ARROWS_14", "ARROWS_16", "FIGURES", "Arrow"]

FIGURES: tuple[Callable[[], Picture], ...] = (
    figure_1,
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_11,
    figure_12,
    figure_13,
    figure_14,
    figure_15,
    figure_16,
)
