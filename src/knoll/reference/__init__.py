"""The paper, executable: each algorithm box as one generator of a few lines, in the paper's symbols.

A box yields its state after every step; ``run`` goes to the end and returns the last one. Starts are
arguments and nothing random is inside. The reference is the documentation, the oracle of the tests and the
source of step-by-step traces; it is never optimised. Where the paper slips, docs/theory/errata.md states what
is done instead. ``counted`` returns how many distances a box evaluates.

    box   function                 returns
    1     gaussian_mle             μ, Σ of one Gaussian
    2     em_gmm                   a Gaussian mixture
    3     kmeans                   means and a partition
    4     weighted_kernel_kmeans   a partition
    5     njw_spectral             a partition, from eigenvectors of the kernel matrix
    6     njw_spectral_graph       the same as a normalized cut
    7     dbscan_spectral          clusters and noise, from eigenvalues equal to one
    8     dbscan_graph             clusters and noise, from connected components
    9     dbscan_climbing          clusters and noise, by ascent to a level
    10    mean_shift               clusters, by ascent to the end of the path

The paper's future work has boxes of ours: density_tree (the components for every height), and on that tree hdbscan,
genie and tree_centers; ward, average_linkage, complete_linkage and single_linkage (merges of the two closest clusters).
``dbscan_regions`` is box 8 for a table in regions, larger than memory.
Two functions are about tables: column_type (the type of a column of texts) and encode_mixed (categories as numbers).
For tables of numbers and categories with missing values: em_mixed (a mixture) and kprototypes;
``gower`` is their distance. ``silhouette`` and ``dbcv`` score clusters by their points.
"""

from __future__ import annotations

from knoll.reference._common import run
from knoll.reference._count import counted
from knoll.reference._dbscan_climbing import ClimbingState, dbscan_climbing
from knoll.reference._dbscan_graph import DBSCANState, dbscan_graph
from knoll.reference._dbscan_regions import DBSCANRegionsState, dbscan_regions
from knoll.reference._dbscan_spectral import DBSCANSpectralState, dbscan_spectral
from knoll.reference._density_tree import DensityTreeState, density_tree
from knoll.reference._em_gmm import EMState, em_gmm
from knoll.reference._em_mixed import MixedEMState, em_mixed
from knoll.reference._gaussian_mle import GaussianState, gaussian_mle
from knoll.reference._genie import GenieState, genie
from knoll.reference._gower import gower
from knoll.reference._hdbscan import HDBSCANState, hdbscan
from knoll.reference._kmeans import KMeansState, kmeans
from knoll.reference._kprototypes import KPrototypesState, kprototypes
from knoll.reference._linkage import LinkageState, average_linkage, complete_linkage, single_linkage, ward
from knoll.reference._mean_shift import MeanShiftState, mean_shift
from knoll.reference._njw_spectral import SpectralState, njw_spectral
from knoll.reference._njw_spectral_graph import SpectralGraphState, njw_spectral_graph
from knoll.reference._scores import dbcv, silhouette
from knoll.reference._tables import column_type, encode_mixed
from knoll.reference._tree_centers import TreeCentersState, tree_centers
from knoll.reference._weighted_kernel_kmeans import KernelKMeansState, weighted_kernel_kmeans

__all__ = [
    "ClimbingState",
    "DBSCANRegionsState",
    "DBSCANSpectralState",
    "DBSCANState",
    "DensityTreeState",
    "EMState",
    "GaussianState",
    "GenieState",
    "HDBSCANState",
    "KMeansState",
    "KPrototypesState",
    "KernelKMeansState",
    "LinkageState",
    "MeanShiftState",
    "MixedEMState",
    "SpectralGraphState",
    "SpectralState",
    "TreeCentersState",
    "average_linkage",
    "column_type",
    "complete_linkage",
    "counted",
    "dbcv",
    "dbscan_climbing",
    "dbscan_graph",
    "dbscan_regions",
    "dbscan_spectral",
    "density_tree",
    "em_gmm",
    "em_mixed",
    "encode_mixed",
    "gaussian_mle",
    "genie",
    "gower",
    "hdbscan",
    "kmeans",
    "kprototypes",
    "mean_shift",
    "njw_spectral",
    "njw_spectral_graph",
    "run",
    "silhouette",
    "single_linkage",
    "tree_centers",
    "ward",
    "weighted_kernel_kmeans",
]
