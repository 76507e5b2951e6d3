"""Figures 1 and 14: five algorithms without and with the arrows between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from knoll.plots.style import BLUE, NOISE, PALETTE, RED
from knoll.report.picture import Panel, Picture

# node → centre; all in one frame of 12 × 12
_NODES = {
    "GMM": (2.1, 10.2),
    "k-means": (9.0, 10.2),
    "Spectral\nClustering": (9.0, 6.1),
    "DBSCAN": (9.0, 2.0),
    "Mean Shift": (2.1, 2.0),
}
_FAMILIES = {  # family → left, bottom, width, height, colour
    "model-based": (0.2, 8.9, 3.8, 2.7, PALETTE[0]),
    "centroid-based": (7.1, 8.9, 4.1, 2.7, PALETTE[1]),
    "graph-based": (6.5, 4.7, 4.7, 2.9, PALETTE[2]),
    "density-based": (0.2, 0.2, 11.0, 3.2, PALETTE[3]),
}
_SMALL = {  # stations of our own on the way
    "one\nGaussian": (2.1, 7.4),
    "kernel\nk-means": (5.2, 7.7),
    "normalized\ncut": (5.2, 5.2),
    "climbing\nDBSCAN": (5.4, 0.95),
    "single\nlinkage": (2.1, 4.6),
}
_HALF = {  # half the width and height of a box, where its arrows begin
    "GMM": (0.85, 0.55), "k-means": (1.25, 0.55), "Spectral\nClustering": (1.55, 0.9), "DBSCAN": (1.3, 0.55),
    "Mean Shift": (1.65, 0.55), "one\nGaussian": (1.0, 0.65), "kernel\nk-means": (0.95, 0.65),
    "normalized\ncut": (1.15, 0.65), "climbing\nDBSCAN": (1.0, 0.65), "single\nlinkage": (0.85, 0.65),
}  # fmt: skip


@dataclass(frozen=True)
class Arrow:
    """A relation on the map: a line between two stations, or a mark at one."""

    number: int
    relation: str
    source: str
    target: str
    at: tuple[float, float]  # where its number stands
    bend: float = 0.0


ARROWS = (
    Arrow(1, "gaussian-is-mixture-of-one", "one\nGaussian", "GMM", (1.6, 8.4)),
    Arrow(2, "mixture-to-kmeans", "GMM", "k-means", (4.9, 9.75)),
    Arrow(3, "mixture-distance", "GMM", "GMM", (0.8, 9.4)),
    Arrow(4, "kmeans-is-linear-kernel-kmeans", "k-means", "kernel\nk-means", (7.3, 8.45), 0.14),
    Arrow(5, "kernel-trick", "k-means", "kernel\nk-means", (6.35, 9.2), -0.14),
    Arrow(6, "trace-relaxation", "kernel\nk-means", "Spectral\nClustering", (6.3, 6.75)),
    Arrow(7, "spectral-kernel-is-graph", "Spectral\nClustering", "Spectral\nClustering", (10.7, 5.2)),
    Arrow(8, "normalized-cut-is-kernel-kmeans", "kernel\nk-means", "normalized\ncut", (4.7, 6.45)),
    Arrow(9, "spectral-is-dbscan", "Spectral\nClustering", "DBSCAN", (8.5, 4.3)),
    Arrow(10, "gaussian-to-heaviside", "Spectral\nClustering", "DBSCAN", (8.5, 3.65)),
    Arrow(11, "dbscan-graph-and-climb", "DBSCAN", "climbing\nDBSCAN", (7.3, 0.95)),
    Arrow(12, "climb-to-mean-shift", "climbing\nDBSCAN", "Mean Shift", (3.55, 0.95)),
    Arrow(13, "mean-shift-ascent", "Mean Shift", "Mean Shift", (0.8, 0.8)),
    Arrow(14, "dbscan-is-single-linkage", "DBSCAN", "single\nlinkage", (5.2, 3.75)),
)
_NAMED = (  # the paper's four: source, target, words, where
    ("GMM", "k-means", "Σ = εI,  ε → 0", (5.55, 10.65)),
    ("k-means", "Spectral\nClustering", "Gaussian kernel,\nweights", (9.2, 8.25)),
    ("Spectral\nClustering", "DBSCAN", "Heaviside kernel,\nfilter", (9.2, 4.05)),
    ("DBSCAN", "Mean Shift", "no level: to the peak", (5.55, 2.4)),
)
_SIZE = (5.2, 5.2)


def figure_1() -> Picture:
    """Draw the five algorithms in the frames of their families, and question marks between them."""

    def draw(ax: Any) -> None:
        _stations(ax, 2)
        for x, y in ((5.55, 10.2), (9.0, 8.25), (9.0, 4.05), (5.7, 2.0), (5.2, 6.1), (2.1, 6.1)):
            ax.text(x, y, "?", fontsize=22, ha="center", va="center", color=NOISE)

    return Picture(
        1,
        "Five algorithms: how are they related?",
        "They are taught as members of four families that have little to do with each other.",
        (
            Panel(
                "five algorithms in four families",
                "Five boxes: GMM in a frame model-based, k-means in centroid-based, Spectral Clustering in "
                "graph-based, DBSCAN and Mean Shift in density-based, with question marks between them.",
                draw,
                size=_SIZE,
            ),
        ),
    )


def figure_14() -> Picture:
    """Draw the same five with the paper's four arrows, and ours lighter, each linked to its certificate."""

    def draw(ax: Any) -> None:
        _stations(ax)
        for name, (x, y) in _SMALL.items():
            box = {"boxstyle": "round,pad=0.3", "facecolor": ax.get_facecolor(), "edgecolor": NOISE}
            ax.text(x, y, name, fontsize=10, ha="center", va="center", zorder=5, bbox=box)
        for arrow in ARROWS:
            named = any((arrow.source, arrow.target) == (a, b) for a, b, _, _ in _NAMED)
            if arrow.source != arrow.target and not named:
                _line(ax, arrow.source, arrow.target, NOISE, 1.2, arrow.bend, 1)
            ax.text(*arrow.at, str(arrow.number), fontsize=10, ha="center", va="center", zorder=6, color="#fefefe",
                    url=f"#certificate-{arrow.relation}",
                    bbox={"boxstyle": "circle,pad=0.25", "facecolor": BLUE, "edgecolor": "none",
                          "url": f"#certificate-{arrow.relation}"})  # fmt: skip
        for source, target, words, (x, y) in _NAMED:
            _line(ax, source, target, RED, 2.6, 0.0, 3)
            ax.text(x, y, words, fontsize=10, ha="left" if x > 8 else "center", va="center", zorder=6)

    return Picture(
        14,
        "The same five, related",
        "Four arrows lead through all five algorithms (red, as the paper names them); fourteen relations of ours "
        "(numbered) run along them and beside them. Each number has a certificate.",
        (
            Panel(
                "the map of relations",
                "The same five boxes. Red arrows: from GMM to k-means, covariances εI with ε falling to zero; from "
                "k-means to Spectral Clustering, a Gaussian kernel and weights; from Spectral Clustering to DBSCAN, a "
                "Heaviside kernel and a filter; from DBSCAN to Mean Shift, climbing on to the peak. Lighter arrows "
                "pass through one Gaussian, kernel k-means, the normalized cut, climbing DBSCAN and single linkage, "
                "and carry the numbers 1 to 14.",
                draw,
                size=_SIZE,
            ),
        ),
    )


def _stations(ax: Any, larger: float = 0.0) -> None:
    """Draw the five and their families; `larger` points are added to the letters where there is room."""
    from matplotlib.patches import FancyBboxPatch

    ax.set_xlim(0, 12)
    ax.set_ylim(0, 12)
    ax.axis("off")
    for family, (left, bottom, width, height, color) in _FAMILIES.items():
        style = "round,pad=0,rounding_size=0.25"
        frame = FancyBboxPatch((left, bottom), width, height, boxstyle=style, facecolor=color,
                             edgecolor=color, alpha=0.16, zorder=0)  # fmt: skip
        ax.add_patch(frame)
        ax.text(left + 0.15, bottom + height - 0.12, family, fontsize=10 + larger, va="top", style="italic", zorder=5)
    for name, (x, y) in _NODES.items():
        box = {"boxstyle": "round,pad=0.5", "facecolor": ax.get_facecolor(), "edgecolor": BLUE, "linewidth": 1.6}
        ax.text(x, y, name, fontsize=12 + larger, ha="center", va="center", zorder=5, weight="bold", bbox=box)


def _line(ax: Any, source: str, target: str, color: str, width: float, bend: float, layer: int) -> None:
    places = {**_NODES, **_SMALL}
    half = _HALF
    a, b = places[source], places[target]
    begin, end = _rim(a, b, half[source]), _rim(b, a, half[target])
    ax.annotate("", xy=end, xytext=begin, zorder=layer,
                arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": width, "shrinkA": 1, "shrinkB": 1,
                            "mutation_scale": 10 + 3 * width, "connectionstyle": f"arc3,rad={bend}"})  # fmt: skip


def _rim(a: tuple[float, float], b: tuple[float, float], half: tuple[float, float]) -> tuple[float, float]:
    """Return where the line from a to b leaves the box about a."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    t = min(half[0] / abs(dx) if dx else 9e9, half[1] / abs(dy) if dy else 9e9)
    return a[0] + t * dx, a[1] + t * dy
