"""Figures 4 to 7: where one Gaussian fails, three fit, and k-means cannot follow (sections 2 and 3 of the paper)."""

from __future__ import annotations

from typing import Any

import numpy as np

from knoll import datasets, plots
from knoll.gaussian.estimator import Ellipse
from knoll.plots.style import PALETTE, RED
from knoll.report import fits
from knoll.report.comparison_view import same_colours
from knoll.report.figures._window import window
from knoll.report.picture import Panel, Picture


def figure_4() -> Picture:
    """Draw X₁₅₀₀, the one Gaussian fitted to it, and what that Gaussian samples."""
    X = datasets.load("x1500").X
    model = fits.x1500_gaussian()
    samples = model.sample(1500, random_state=1)
    _, share = fits.far_share(samples, X)
    fit = window(X, samples, model.ellipse(3.0).points())

    return Picture(
        4,
        "One Gaussian is not enough",
        f"{100 * share:.0f} % of the samples are far from any data: the model fills the empty space between the "
        "groups.",
        (
            Panel(
                "X1500: 1500 points",
                "Three long blue clouds, two side by side and one across above them.",
                lambda ax: plots.scatter(X, ax=ax),
                fit,
            ),
            Panel(
                "one Gaussian, 3σ",
                "One red ellipse around all three clouds, most of it empty.",
                lambda ax: plots.gaussian(model, X, ax=ax),
                fit,
            ),
            Panel(
                "1500 samples over the data",
                "Red samples cover the gaps between the three blue clouds as densely as the clouds themselves.",
                lambda ax: _over(ax, X, samples),
                fit,
            ),
        ),
    )


def figure_5() -> Picture:
    """Draw a mixture of three Gaussians and its samples."""
    X = datasets.load("x1500").X
    model = fits.x1500_mixture()
    samples, _ = model.sample(1500, random_state=1)
    _, share = fits.far_share(samples, X)
    fit = window(X, samples, *_contours())

    return Picture(
        5,
        "Three Gaussians fit",
        f"EM converged after {model.n_iter_} iterations; {100 * share:.1f} % of the samples are far from any data "
        "(one Gaussian: "
        f"{100 * fits.far_share(fits.x1500_gaussian().sample(1500, random_state=1), X)[1]:.0f} %).",
        (
            Panel(
                "three components, 3σ", "Each of the three blue clouds lies in a narrow red ellipse.", _ellipses, fit
            ),
            Panel(
                "1500 samples over the data",
                "Red samples cover the three clouds and leave the gaps empty.",
                lambda ax: _over(ax, X, samples),
                fit,
            ),
        ),
    )


def figure_6() -> Picture:
    """Draw the classes beside the mixture's clusters, in matched colours, what differs ringed."""
    data = datasets.load("x1500")
    X, classes = data.X, data.y
    assert classes is not None
    labels = same_colours(classes, fits.x1500_mixture().labels_)
    wrong = np.flatnonzero(labels != classes)
    ami, ari = fits.scores(classes, labels)
    fit = window(X)

    def draw(shown: Any) -> Any:
        def panel(ax: Any) -> None:
            plots.scatter(X, shown, ax=ax)
            ax.scatter(*X[wrong].T, c=[PALETTE[c] for c in shown[wrong]], s=22, linewidths=0, zorder=4)
            ax.scatter(*X[wrong].T, facecolors="none", edgecolors=RED, s=130, linewidths=1.6, zorder=4)

        return panel

    return Picture(
        6,
        "The classes and what the mixture found",
        f"{len(wrong)} of {len(X)} points (ringed) differ. AMI {ami:.3f} and ARI {ari:.3f}; the paper states 0.992 and "
        "0.996.",
        (
            Panel("classes", "The three clouds in three colours, as they were drawn.", draw(classes), fit),
            Panel(
                "clusters of the mixture",
                f"The same colours again: the clusters are the classes but for {len(wrong)} ringed points of the left "
                "cloud that lie in the upper one.",
                draw(labels),
                fit,
            ),
        ),
    )


def figure_7() -> Picture:
    """Draw the mixture's ellipses beside k-means with circles."""
    data = datasets.load("x1500")
    X = data.X
    assert data.y is not None
    model = fits.x1500_kmeans()
    circles = []
    for c, center in enumerate(model.cluster_centers_):
        variance = float(np.square(X[model.labels_ == c] - center).sum(axis=1).mean()) / 2
        circles.append(Ellipse.of(center, variance * np.eye(2), 3.0).points())
    fit = window(X, *_contours(), *circles)
    mixture, means = (fits.scores(data.y, labels)[1] for labels in (fits.x1500_mixture().labels_, model.labels_))

    def with_circles(ax: Any) -> None:
        plots.kmeans(model, ax=ax)
        fit(ax)
        plots.scatter(X, ax=ax)
        for circle in circles:
            ax.plot(*np.vstack([circle, circle[:1]]).T, color=RED, linewidth=1.8, linestyle=(0, (4, 3)))

    return Picture(
        7,
        "A mixture has shapes, k-means has none",
        f"The mixture agrees with the classes at ARI {mixture:.3f}, k-means at {means:.3f}: it cuts two of the clouds "
        "across their middle, because its distance has no direction. The circles are for illustration only: "
        "k-means has no covariances.",
        (
            Panel("mixture, 3σ", "Narrow ellipses along the three clouds.", _ellipses, fit),
            Panel(
                "k-means, circles for illustration only",
                "Dashed circles about three centres; a grey border between the centres runs across two of the clouds.",
                with_circles,
                fit,
            ),
        ),
    )


def _contours() -> list[Any]:
    model = fits.x1500_mixture()
    return [Ellipse.of(mean, cov, 3.0).points() for mean, cov in zip(model.means_, model.covariances_)]


def _ellipses(ax: Any) -> None:
    plots.scatter(datasets.load("x1500").X, ax=ax)
    for mean, contour in zip(fits.x1500_mixture().means_, _contours()):
        ax.plot(*np.vstack([contour, contour[:1]]).T, color=RED, linewidth=1.8)
        ax.plot(*mean, "o", color=RED, markersize=6)


def _over(ax: Any, X: Any, samples: Any) -> None:
    plots.scatter(X, ax=ax)
    ax.scatter(*samples.T, color=RED, s=4, alpha=0.5, linewidths=0)
