"""Figures 1, 14 and 16: five algorithms without and with the arrows between them, and the hierarchies beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knoll import relations
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
_FAMILIES = {  # family → left, bottom, width, height, left of its name, colour
    "model-based": (0.2, 8.9, 3.8, 2.7, 0.35, PALETTE[0]),
    "centroid-based": (7.1, 8.9, 4.1, 2.7, 7.25, PALETTE[1]),
    "graph-based": (6.5, 4.7, 4.7, 2.9, 6.65, PALETTE[2]),
    "density-based": (0.2, 0.2, 11.0, 3.2, 2.5, PALETTE[3]),
}
_SMALL = {  # stations of our own on the way
    "one\nGaussian": (3.3, 6.2),
    "kernel\nk-means": (5.2, 7.75),
    "normalized\ncut": (5.2, 4.8),
    "climbing\nDBSCAN": (5.4, 0.95),
}
_HALF = {  # half the width and height of a box, where its arrows begin
    "GMM": (0.85, 0.55), "k-means": (1.25, 0.55), "Spectral\nClustering": (1.55, 0.9), "DBSCAN": (1.3, 0.55),
    "Mean Shift": (1.65, 0.55), "one\nGaussian": (1.0, 0.65), "kernel\nk-means": (0.95, 0.65),
    "normalized\ncut": (1.15, 0.65), "climbing\nDBSCAN": (1.0, 0.65),
}  # fmt: skip

# the stations of figure 16: three columns, the tree in the middle
_TREE = "density\ntree"
_HIERARCHIES = {
    "OPTICS": (1.7, 10.7), "HDBSCAN": (6.0, 10.7), "Spectral\nClustering": (10.1, 10.7),
    "DBSCAN": (1.7, 7.3), _TREE: (6.0, 7.3), "k-center": (10.1, 7.3),
    "single\nlinkage": (1.7, 4.1), "persistence": (6.0, 4.1), "k-means": (10.1, 4.1),
    "GMM": (1.7, 0.9), "Ward": (6.0, 0.9), "DP-means": (10.1, 0.9),
}  # fmt: skip
_LONE = ("average and complete\nlinkage: no arrow", (3.35, 2.5))
_HALF_16 = {
    "OPTICS": (1.1, 0.5), "HDBSCAN": (1.3, 0.5), "Spectral\nClustering": (1.55, 0.9), "DBSCAN": (1.3, 0.55),
    _TREE: (1.15, 0.9), "k-center": (1.15, 0.5), "single\nlinkage": (0.95, 0.7), "persistence": (1.45, 0.5),
    "k-means": (1.25, 0.55), "GMM": (0.85, 0.55), "Ward": (0.9, 0.5), "DP-means": (1.3, 0.5),
}  # fmt: skip
_OF_THE_FIVE = {*_NODES, _TREE}  # drawn larger than the other stations


@dataclass(frozen=True)
class Arrow:
    """A relation on the map: a line between two stations, or a mark at one."""

    relation: str
    source: str
    target: str
    at: tuple[float, float]  # where its number stands
    bend: float = 0.0

    @property
    def number(self) -> int:
        """The number of its certificate."""
        return 1 + [relation.name for relation in relations.all()].index(self.relation)


ARROWS_14 = (
    Arrow("gaussian-is-mixture-of-one", "one\nGaussian", "GMM", (3.2, 8.05)),
    Arrow("mixture-to-kmeans", "GMM", "k-means", (4.6, 9.75)),
    Arrow("annealing", "GMM", "k-means", (5.5, 9.75)),
    Arrow("mixture-distance", "GMM", "GMM", (0.8, 9.4)),
    Arrow("medoid-sandwich", "k-means", "k-means", (10.7, 9.4)),
    Arrow("kmeans-is-linear-kernel-kmeans", "k-means", "kernel\nk-means", (7.3, 8.45), 0.14),
    Arrow("kernel-trick", "k-means", "kernel\nk-means", (6.35, 9.2), -0.14),
    Arrow("trace-relaxation", "kernel\nk-means", "Spectral\nClustering", (6.35, 6.7)),
    Arrow("spectral-kernel-is-graph", "Spectral\nClustering", "Spectral\nClustering", (10.7, 5.2)),
    Arrow("normalized-cut-is-kernel-kmeans", "kernel\nk-means", "normalized\ncut", (5.65, 6.1)),
    Arrow("spectral-is-dbscan", "Spectral\nClustering", "DBSCAN", (8.45, 4.3)),
    Arrow("gaussian-to-heaviside", "Spectral\nClustering", "DBSCAN", (8.45, 3.6)),
    Arrow("dbscan-graph-and-climb", "DBSCAN", "climbing\nDBSCAN", (7.3, 0.95)),
    Arrow("climb-to-mean-shift", "climbing\nDBSCAN", "Mean Shift", (3.55, 0.95)),
    Arrow("mean-shift-ascent", "Mean Shift", "Mean Shift", (0.8, 0.8)),
    Arrow("mean-shift-is-em", "Mean Shift", "GMM", (1.6, 4.4)),
)
ARROWS_16 = (
    Arrow("dbscan-is-single-linkage", "DBSCAN", "single\nlinkage", (2.2, 5.85)),
    Arrow("dbscan-star-is-tree-cut", "DBSCAN", _TREE, (3.45, 7.75)),
    Arrow("every-eps-dbscan", "DBSCAN", _TREE, (4.25, 7.75)),
    Arrow("tree-is-order-free", _TREE, "HDBSCAN", (6.5, 9.3)),
    Arrow("optics-is-prim", "OPTICS", _TREE, (3.95, 9.35)),
    Arrow("spectral-on-the-tree", "Spectral\nClustering", _TREE, (8.15, 8.6)),
    Arrow("tree-is-k-center", _TREE, "k-center", (8.0, 7.65)),
    Arrow("k-means-on-the-tree", _TREE, "k-means", (8.35, 5.95)),
    Arrow("tree-is-persistence", _TREE, "persistence", (6.5, 5.5)),
    Arrow("ward-is-kmeans-by-merging", "Ward", "k-means", (7.65, 2.8)),
    Arrow("ward-is-dp-means-on-a-tree", "Ward", "DP-means", (7.9, 1.3)),
    Arrow("ward-is-gaussian-merging", "Ward", "GMM", (3.8, 0.55)),
)
ARROWS = tuple(sorted((*ARROWS_14, *ARROWS_16), key=lambda arrow: arrow.number))
_NAMED = (  # the paper's four: source, target, text, where
    ("GMM", "k-means", "Σ = εI,  ε → 0", (5.55, 10.65)),
    ("k-means", "Spectral\nClustering", "Gaussian kernel,\nweights", (9.2, 8.25)),
    ("Spectral\nClustering", "DBSCAN", "Heaviside kernel,\nfilter", (9.2, 4.05)),
    ("DBSCAN", "Mean Shift", "no level: to the peak", (5.55, 2.4)),
)
_CIRCLE = ("Mean Shift", "GMM", "Gaussian\nat each\nrow: EM", (0.1, 6.2))  # closes the chain
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
        for name, center in _SMALL.items():
            _small(ax, name, center)
        thick = [(a, b) for a, b, _, _ in (*_NAMED, _CIRCLE)]
        for arrow in ARROWS_14:
            if arrow.source != arrow.target and (arrow.source, arrow.target) not in thick:
                _line(ax, arrow.source, arrow.target, NOISE, 1.2, arrow.bend, 1)
            _number(ax, arrow)
        for source, target, text, (x, y) in _NAMED:
            _line(ax, source, target, RED, 2.6, 0.0, 3)
            ax.text(x, y, text, fontsize=10, ha="left" if x > 8 else "center", va="center", zorder=6)
        source, target, text, (x, y) = _CIRCLE
        _line(ax, source, target, BLUE, 2.6, 0.0, 3)
        ax.text(x, y, text, fontsize=10, ha="left", va="center", zorder=6)

    return Picture(
        14,
        "The same five, related",
        "Four arrows lead through all five algorithms (red, as the paper names them), and a fifth (blue) from the last "
        f"back to the first: the chain is a circle. {len(ARROWS_14)} relations (numbered) run along the arrows and "
        "beside them. Each number has a certificate.",
        (
            Panel(
                "the map of relations",
                "The same five boxes. Red arrows: from GMM to k-means, covariances εI with ε falling to zero; from "
                "k-means to Spectral Clustering, a Gaussian kernel and weights; from Spectral Clustering to DBSCAN, a "
                "Heaviside kernel and a filter; from DBSCAN to Mean Shift, climbing on to the peak. A blue arrow leads "
                "from Mean Shift to GMM: a Gaussian at each row, and EM. Lighter arrows pass through one Gaussian, "
                f"kernel k-means, the normalized cut and climbing DBSCAN. Numbers: {_listed(ARROWS_14)}.",
                draw,
                size=_SIZE,
            ),
        ),
    )


def figure_16() -> Picture:
    """Draw the hierarchies, the arrows to the five, and what has none."""

    def draw(ax: Any) -> None:
        _plane(ax)
        for name, center in _HIERARCHIES.items():
            if name in _OF_THE_FIVE:
                _large(ax, name, center)
            else:
                _small(ax, name, center, 1)
        for arrow in ARROWS_16:
            _line(ax, arrow.source, arrow.target, RED if _TREE in (arrow.source, arrow.target) else NOISE, 1.6,
                  arrow.bend, 1, _HIERARCHIES, _HALF_16)  # fmt: skip
            _number(ax, arrow)
        text, (x, y) = _LONE
        box = {"boxstyle": "round,pad=0.3", "facecolor": ax.get_facecolor(), "edgecolor": NOISE, "linestyle": "--"}
        ax.text(x, y, text, fontsize=10, ha="center", va="center", zorder=5, style="italic", bbox=box)

    return Picture(
        16,
        "Hierarchies, related",
        f"The paper's first item of future work, on the map: {len(ARROWS_16)} relations, each with a certificate. "
        "Arrows join the density tree (red) to DBSCAN, spectral clustering and k-means, and Ward's tree to k-means and "
        "GMM. Average and complete linkage have none.",
        (
            Panel(
                "the map of hierarchies",
                "The density tree in the middle. Arrows lead to it from DBSCAN, OPTICS and Spectral Clustering, and "
                "from it to HDBSCAN, k-center, k-means and persistence. DBSCAN leads to single linkage. Ward leads to "
                "GMM, k-means and DP-means. A dashed box without arrows: average and complete linkage. Numbers: "
                f"{_listed(ARROWS_16)}.",
                draw,
                size=_SIZE,
            ),
        ),
    )


def _listed(arrows: tuple[Arrow, ...]) -> str:
    return ", ".join(f"{arrow.number} {arrow.relation}" for arrow in arrows)


def _stations(ax: Any, larger: float = 0.0) -> None:
    """Draw the five and their families; `larger` points are added to the letters where there is room."""
    from matplotlib.patches import FancyBboxPatch

    _plane(ax)
    for family, (left, bottom, width, height, name_left, color) in _FAMILIES.items():
        style = "round,pad=0,rounding_size=0.25"
        frame = FancyBboxPatch((left, bottom), width, height, boxstyle=style, facecolor=color,
                             edgecolor=color, alpha=0.16, zorder=0)  # fmt: skip
        ax.add_patch(frame)
        ax.text(name_left, bottom + height - 0.12, family, fontsize=10 + larger, va="top", style="italic", zorder=5)
    for name, center in _NODES.items():
        _large(ax, name, center, larger)


def _plane(ax: Any) -> None:
    ax.set_xlim(0, 12)
    ax.set_ylim(0, 12)
    ax.axis("off")


def _large(ax: Any, name: str, center: tuple[float, float], larger: float = 0.0) -> None:
    box = {"boxstyle": "round,pad=0.5", "facecolor": ax.get_facecolor(), "edgecolor": BLUE, "linewidth": 1.6}
    ax.text(*center, name, fontsize=12 + larger, ha="center", va="center", zorder=5, weight="bold", bbox=box)


def _small(ax: Any, name: str, center: tuple[float, float], larger: float = 0.0) -> None:
    box = {"boxstyle": "round,pad=0.3", "facecolor": ax.get_facecolor(), "edgecolor": NOISE}
    ax.text(*center, name, fontsize=10 + larger, ha="center", va="center", zorder=5, bbox=box)


def _number(ax: Any, arrow: Arrow) -> None:
    """Draw the number of an arrow in a disc, both linked to the certificate."""
    link = f"#certificate-{arrow.relation}"
    box = {"boxstyle": "circle,pad=0.25", "facecolor": BLUE, "edgecolor": "none", "url": link}
    ax.text(*arrow.at, str(arrow.number), fontsize=10, ha="center", va="center", zorder=6, color="#fefefe", url=link,
            bbox=box)  # fmt: skip


def _line(
    ax: Any, source: str, target: str, color: str, width: float, bend: float, layer: int,
    at: Mapping[str, tuple[float, float]] = {**_NODES, **_SMALL}, half: Mapping[str, tuple[float, float]] = _HALF,
) -> None:  # fmt: skip
    a, b = at[source], at[target]
    begin, end = _rim(a, b, half[source]), _rim(b, a, half[target])
    ax.annotate("", xy=end, xytext=begin, zorder=layer,
                arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": width, "shrinkA": 1, "shrinkB": 1,
                            "mutation_scale": 10 + 3 * width, "connectionstyle": f"arc3,rad={bend}"})  # fmt: skip


def _rim(a: tuple[float, float], b: tuple[float, float], half: tuple[float, float]) -> tuple[float, float]:
    """Return where the line from a to b leaves the box about a."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    t = min(half[0] / abs(dx) if dx else 9e9, half[1] / abs(dy) if dy else 9e9)
    return a[0] + t * dx, a[1] + t * dy
