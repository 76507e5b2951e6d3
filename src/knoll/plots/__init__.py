"""Pictures: functions (data or fitted estimator, ax=None) -> Axes, in one style and one colour-blind-safe palette."""

from knoll.plots.agreement import agreement
from knoll.plots.answers import decision_regions
from knoll.plots.cells import kmeans
from knoll.plots.choices import eps_curve, selection
from knoll.plots.climb import climb
from knoll.plots.frames import animate, frame
from knoll.plots.graph import similarity_graph
from knoll.plots.level import density
from knoll.plots.mixing import responsibilities
from knoll.plots.model import gaussian, gaussian_mixture
from knoll.plots.noise import dbscan
from knoll.plots.points import scatter
from knoll.plots.regions import kernel_kmeans
from knoll.plots.spectral import eigenvalues, embedding

__all__ = [
    "agreement",
    "animate",
    "climb",
    "dbscan",
    "decision_regions",
    "density",
    "eigenvalues",
    "embedding",
    "eps_curve",
    "frame",
    "gaussian",
    "gaussian_mixture",
    "kernel_kmeans",
    "kmeans",
    "responsibilities",
    "scatter",
    "selection",
    "similarity_graph",
]
