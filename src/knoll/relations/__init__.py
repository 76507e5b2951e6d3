"""The relations between the methods as objects: each has a statement and certifies it on your data.

>>> import knoll
>>> X = knoll.datasets.load("x1500").X
>>> certificate = knoll.relations.get("mixture-to-kmeans").certify(X, n_clusters=3)
>>> certificate.verdict
'holds'
"""

from __future__ import annotations

from knoll.exceptions import InvalidParameter
from knoll.relations.annealing import Annealing
from knoll.relations.certificate import Certificate, Check, Precondition
from knoll.relations.climb_to_mean_shift import ClimbToMeanShift
from knoll.relations.complexity import ComplexityTable
from knoll.relations.dbscan_and_tree import DBSCANStarIsTreeCut
from knoll.relations.every_eps import EveryEpsDBSCAN
from knoll.relations.gaussian_and_mixture import GaussianIsMixtureOfOne
from knoll.relations.gaussian_to_heaviside import GaussianToHeaviside
from knoll.relations.graph_and_climb import GraphAndClimb
from knoll.relations.kernel_and_graph import KernelAndGraph
from knoll.relations.kernel_trick import KernelTrick
from knoll.relations.kmeans_and_kernel import KMeansIsLinearKernel
from knoll.relations.mean_shift_and_em import MeanShiftIsEM
from knoll.relations.mean_shift_ascent import MeanShiftAscent
from knoll.relations.medoids import MedoidSandwich
from knoll.relations.mixture_distance import MixtureDistance
from knoll.relations.mixture_to_kmeans import MixtureToKMeans
from knoll.relations.normalized_cut import NormalizedCut
from knoll.relations.optics_and_tree import OPTICSIsPrim
from knoll.relations.path import Frame, Path
from knoll.relations.relation import Limit, Relation
from knoll.relations.relaxation import Relaxation
from knoll.relations.single_linkage import SingleLinkage
from knoll.relations.spectral_and_tree import SpectralOnTree
from knoll.relations.spectral_to_dbscan import SpectralIsDBSCAN
from knoll.relations.tree_and_k_center import TreeIsKCenter
from knoll.relations.tree_and_kmeans import KMeansOnTree
from knoll.relations.tree_order import TreeIsOrderFree
from knoll.relations.tree_persistence import TreeIsPersistence
from knoll.relations.ward_and_dp_means import WardIsDPMeans
from knoll.relations.ward_and_gaussians import WardIsGaussianMerging
from knoll.relations.ward_and_kmeans import WardIsKMeans

__all__ = [
    "Annealing",
    "Certificate",
    "Check",
    "ClimbToMeanShift",
    "ComplexityTable",
    "DBSCANStarIsTreeCut",
    "EveryEpsDBSCAN",
    "Frame",
    "GaussianIsMixtureOfOne",
    "GaussianToHeaviside",
    "GraphAndClimb",
    "KMeansIsLinearKernel",
    "KMeansOnTree",
    "KernelAndGraph",
    "KernelTrick",
    "Limit",
    "MeanShiftAscent",
    "MeanShiftIsEM",
    "MedoidSandwich",
    "MixtureDistance",
    "MixtureToKMeans",
    "NormalizedCut",
    "OPTICSIsPrim",
    "Path",
    "Precondition",
    "Relation",
    "Relaxation",
    "SingleLinkage",
    "SpectralIsDBSCAN",
    "SpectralOnTree",
    "TreeIsKCenter",
    "TreeIsOrderFree",
    "TreeIsPersistence",
    "WardIsDPMeans",
    "WardIsGaussianMerging",
    "WardIsKMeans",
    "all",
    "get",
]

_MAP: tuple[Relation, ...] = (
    GaussianIsMixtureOfOne(),
    MixtureToKMeans(),
    Annealing(),
    MixtureDistance(),
    MedoidSandwich(),
    KMeansIsLinearKernel(),
    KernelTrick(),
    Relaxation(),
    KernelAndGraph(),
    NormalizedCut(),
    SpectralIsDBSCAN(),
    GaussianToHeaviside(),
    GraphAndClimb(),
    ClimbToMeanShift(),
    MeanShiftAscent(),
    MeanShiftIsEM(),
    SingleLinkage(),
    DBSCANStarIsTreeCut(),
    EveryEpsDBSCAN(),
    TreeIsOrderFree(),
    OPTICSIsPrim(),
    SpectralOnTree(),
    TreeIsKCenter(),
    KMeansOnTree(),
    TreeIsPersistence(),
    WardIsKMeans(),
    WardIsDPMeans(),
    WardIsGaussianMerging(),
    ComplexityTable(),
)


def all() -> tuple[Relation, ...]:
    """Return every relation, in the order of the paper."""
    return _MAP


def get(name: str) -> Relation:
    """Return the relation of that name.

    Examples
    --------
    >>> from knoll import relations
    >>> relations.get("mixture-to-kmeans").formula
    'max_i (1 − max_c λ_ic) ≤ (k − 1) e^{−Δ/2ε},  Δ the smallest gap of two squared distances'
    """
    for relation in _MAP:
        if relation.name == name:
            return relation
    raise InvalidParameter(f"No relation is called {name!r}. There are: {', '.join(r.name for r in _MAP)}.")
