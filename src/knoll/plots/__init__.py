"""Pictures: functions (data or fitted estimator, ax=None) -> Axes, in one style and one colour-blind-safe palette."""

from knoll.plots.agreement import agreement
from knoll.plots.animate import animate
from knoll.plots.climb import climb
from knoll.plots.condensed_tree import condensed_tree
from knoll.plots.cut_curves import cut_curves
from knoll.plots.dbscan import dbscan
from knoll.plots.decision_regions import decision_regions
from knoll.plots.dendrogram import dendrogram
from knoll.plots.density import density
from knoll.plots.eigenvalues import eigenvalues
from knoll.plots.embedding import embedding
from knoll.plots.eps_curve import eps_curve
from knoll.plots.frame import frame
from knoll.plots.gaussian import gaussian
from knoll.plots.gaussian_mixture import gaussian_mixture
from knoll.plots.kernel_kmeans import kernel_kmeans
from knoll.plots.kmeans import kmeans
from knoll.plots.reachability import reachability
from knoll.plots.responsibilities import responsibilities
from knoll.plots.scatter import scatter
from knoll.plots.selection import selection
from knoll.plots.similarity_graph import similarity_graph

__all__ = [
    "agreement",
    "animate",
    "climb",
    "condensed_tree",
    "cut_curves",
    "dbscan",
    "decision_regions",
    "dendrogram",
    "density",
    "eigenvalues",
    "embedding",
    "eps_curve",
    "frame",
    "gaussian",
    "gaussian_mixture",
    "kernel_kmeans",
    "kmeans",
    "reachability",
    "responsibilities",
    "scatter",
    "selection",
    "similarity_graph",
]
