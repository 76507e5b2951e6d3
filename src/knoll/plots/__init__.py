"""Pictures: functions (data or fitted estimator, ax=None) -> Axes, in one style and one colour-blind-safe palette."""

from knoll.plots.cells import kmeans
from knoll.plots.choices import eps_curve, selection
from knoll.plots.climb import climb
from knoll.plots.density import dbscan
from knoll.plots.model import gaussian, gaussian_mixture
from knoll.plots.points import scatter
from knoll.plots.regions import kernel_kmeans
from knoll.plots.spectral import eigenvalues, embedding

__all__ = [
    "climb",
    "dbscan",
    "eigenvalues",
    "embedding",
    "eps_curve",
    "gaussian",
    "gaussian_mixture",
    "kernel_kmeans",
    "kmeans",
    "scatter",
    "selection",
]
