"""Figures 2 and 3: one Gaussian, its contour and its samples (section 1 of the paper)."""

from __future__ import annotations

from typing import Any

from knoll import datasets, plots
from knoll.plots.style import RED
from knoll.report import fits
from knoll.report.figures._window import window
from knoll.report.picture import Panel, Picture


def figure_2() -> Picture:
    """Draw 500 points; the same with the fitted mean and the contour of three standard deviations."""
    X = datasets.load("one_gaussian").X
    model = fits.one_gaussian()
    fit = window(X, model.ellipse(3.0).points())
    outside = int((model.mahalanobis(X) > 3).sum())

    x, y = model.mean_
    return Picture(
        2,
        "One Gaussian fitted to 500 points",
        f"The mean is ({x:.2f}, {y:.2f}); {len(X) - outside} of {len(X)} points lie inside the contour of three "
        f"standard deviations, {100 * outside / len(X):.1f} % outside (a Gaussian in the plane has 1.1 % there).",
        (
            Panel(
                "500 points",
                "500 blue points in one long cloud that rises from left to right.",
                lambda ax: plots.scatter(X, ax=ax),
                fit,
            ),
            Panel(
                "mean and 3σ contour",
                "The same points with the fitted mean as a red dot in their middle and a red ellipse that encloses "
                "nearly all of them.",
                lambda ax: plots.gaussian(model, X, ax=ax),
                fit,
            ),
        ),
    )


def figure_3() -> Picture:
    """Draw 500 samples of the fitted Gaussian over the data."""
    X = datasets.load("one_gaussian").X
    model = fits.one_gaussian()
    samples = model.sample(500, random_state=1)
    far, share = fits.far_share(samples, X)
    fit = window(X, samples)

    def draw(ax: Any) -> None:
        plots.scatter(X, ax=ax)
        ax.scatter(*samples.T, color=RED, s=12, alpha=0.6, linewidths=0)
        ax.scatter(*samples[far].T, facecolors="none", edgecolors=RED, s=70, linewidths=1.2)

    return Picture(
        3,
        "Samples of the fitted Gaussian over the data",
        f"{100 * share:.1f} % of the 500 samples (ringed) are far from any data, that is further than 99 % of the data "
        "are from their nearest neighbour: the model covers what the data cover.",
        (
            Panel(
                "500 samples (red) and the data (blue)",
                "Red samples and blue data fill the same long cloud; only a few samples at its rim are ringed as far "
                "from any data.",
                draw,
                fit,
                size=(5.2, 5.2),
            ),
        ),
    )
