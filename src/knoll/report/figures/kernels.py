"""Figures 8 to 10: a feature map that separates circles, a similarity graph, two kernels (sections 4 and 5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from knoll import datasets, plots
from knoll.kernels import Gaussian, Heaviside
from knoll.kmeans.lloyd import lloyd
from knoll.plots.style import BLUE, RED
from knoll.report import fits
from knoll.report.figures._window import solid_window, window
from knoll.report.picture import Panel, Picture

_SKY = "#56B4E9"  # the inner circle: a blue that no colour-blindness takes for the other
_EDGES = 3000


def figure_8() -> Picture:
    """Draw two circles, lifted by their distance from the centre, and a plane between them."""
    data = datasets.load("circles")
    X, classes = data.X, data.y
    assert classes is not None
    lifted = np.column_stack([X, np.linalg.norm(X, axis=1)])  # φ(x) = [x, ‖x‖]
    inner, outer = lifted[classes == 1], lifted[classes == 0]
    low, high = float(inner[:, 2].max()), float(outer[:, 2].min())
    assert low < high, "the lifted circles lie in separate layers"
    start = np.stack([outer[0], inner[0]])
    found = lloyd(lifted, None, np.ascontiguousarray(start), max_iter=300, tol=0.0).labels
    assert found is not None
    ari = round(fits.scores(classes, found)[1], 2) + 0.0  # never −0.00
    fit = window(X)

    def flat(ax: Any) -> None:
        for circle, color in ((outer, BLUE), (inner, _SKY)):
            ax.scatter(*circle[:, :2].T, s=12, color=color, linewidths=0)

    def solid(plane: bool) -> Any:
        def draw(ax: Any) -> None:
            ax.scatter(*inner.T, s=8, color=_SKY, linewidths=0, depthshade=False)
            if plane:
                side = np.array([-1.1, 1.1])
                grid = np.meshgrid(side, side)
                ax.plot_surface(*grid, np.full((2, 2), (low + high) / 2), color=RED, alpha=0.35, linewidth=0)
            ax.scatter(*outer.T, s=8, color=BLUE, linewidths=0, depthshade=False)
            ax.set_zlim(0, 1.2)
            ax.set_box_aspect((2.2, 2.2, 1.5), zoom=1.25)
            solid_window(ax, 18, -60)

        return draw

    return Picture(
        8,
        "A lift that makes circles separable by a plane",
        f"With φ(x) = [x, ‖x‖] every height between {low:.2f} and {high:.2f} is a plane that separates the circles. "
        "k-means need not find it: from one point of each circle, k-means on the lifted points ends at ARI "
        f"{ari:.2f}.",
        (
            Panel("two circles", "A small circle of points inside a larger one; no line separates them.", flat, fit),
            Panel(
                "lifted by their length",
                "In three dimensions the small circle lies low and the large one high.",
                solid(False),
                solid=True,
            ),
            Panel("a plane separates them", "A level red plane lies between the two.", solid(True), solid=True),
        ),
    )


def figure_9() -> Picture:
    """Draw the bananas, and the strongest edges of their graph."""
    data = datasets.load("banana")
    X, classes = data.X, data.y
    assert classes is not None
    A = Gaussian(fits.BANANA_SIGMA).tile(X, X)
    upper = np.sort(A[np.triu_indices(len(X), 1)])[::-1]
    i, j = np.triu_indices(len(X), 1)
    drawn = np.argsort(-A[i, j], kind="stable")[:_EDGES]
    assert (classes[i[drawn]] == classes[j[drawn]]).all(), "no strong edge runs between the bananas"
    model = fits.banana_spectral()
    _, ari = fits.scores(classes, model.labels_)
    fit = window(X)

    return Picture(
        9,
        "Two bananas and their graph of similarities",
        f"The {_EDGES} strongest of {len(upper)} edges, σ = {fits.BANANA_SIGMA:g}; the graph is complete, and its "
        f"weakest edge is {upper[-1]:.0e}. None of those shown connects the two bananas. Spectral clustering separates "
        f"them with ARI {ari:.2f}.",
        (
            Panel(
                "500 points",
                "Two crescents of blue points, each reaching into the hollow of the other.",
                lambda ax: plots.scatter(X, ax=ax),
                fit,
            ),
            Panel(
                "its strongest edges (the graph is complete)",
                "Red edges run along each crescent and not between them.",
                lambda ax: plots.similarity_graph(X, A, ax=ax, n_edges=_EDGES),
                fit,
            ),
        ),
    )


def figure_10() -> Picture:
    """Draw both kernels against the distance."""
    eps = 1.0
    r = np.linspace(0, 3, 301)[:, None]
    origin = np.zeros((1, 1))
    smooth = Gaussian(eps).tile(r, origin)[:, 0]
    at, beyond = Heaviside(eps).tile(np.array([[eps], [np.nextafter(eps, 2)]]), origin)[:, 0]
    assert (at, beyond) == (1.0, 0.0), "a distance of ε is inside"

    def draw(ax: Any) -> None:
        ax.plot(r, smooth, color=BLUE, linewidth=2, label="Gaussian, σ = ε")
        ax.plot([0, eps], [1, 1], color=RED, linewidth=2, label="Heaviside")
        ax.plot([eps, 3], [0, 0], color=RED, linewidth=2)
        ax.plot(eps, 1, "o", color=RED, markersize=8)
        ax.plot(eps, 0, "o", color=ax.get_facecolor(), markeredgecolor=RED, markeredgewidth=2, markersize=8)
        ax.set_xticks([0, 1, 2, 3], ["0", "ε", "2ε", "3ε"])
        ax.set_yticks([0, 0.5, 1])
        ax.set_ylim(-0.06, 1.12)
        ax.set_xlabel("distance")
        ax.set_ylabel("similarity")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.93))

    return Picture(
        10,
        "Two kernels",
        f"The Gaussian kernel falls smoothly and never reaches zero ({smooth[-1]:.3f} at 3ε); the Heaviside kernel is "
        "one up to and including ε, and zero beyond.",
        (
            Panel(
                "similarity against distance",
                "A smooth bell falling from one, and a step from one down to zero at ε: a filled dot above, an open "
                "dot below.",
                draw,
                size=(5.2, 4.2),
            ),
        ),
    )
