"""The public names are a promise: what is listed here exists, is documented, and nothing else is public.

A name that appears or goes is a change of the interface: change the list here and the change log with it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import knoll

PUBLIC = {
    "knoll": """
        AgglomerativeClustering CancelToken DBSCAN DensityTree Gaussian GaussianMixture HDBSCAN KMeans
        KPrototypes KernelKMeans MeanShift MixedMixture OPTICS SpectralClustering __version__ blocks compare
        cluster_optics_dbscan comparison datasets dbscan estimate_bandwidth exceptions explain explanation explore
        explorer k_means kernels kmeans_plusplus linkage_tree load mean_shift metrics models plots
        reference relations save scales show_build spectral_clustering tuning ward_tree
    """,
    "knoll.blocks": "TableBlocks open",
    "knoll.comparison": """
        Agreement Alternative Candidate Comparison Event Evidence Failure Recommendation Shortcut compare
    """,
    "knoll.datasets": """
        Dataset Mixture banana breast_cancer circles diabetes digits iris linnerud load names one_gaussian
        three_component_density wine x1500
    """,
    "knoll.density": "DBSCAN DensityTree HDBSCAN MeanShift OPTICS",
    "knoll.exceptions": """
        ApproximationWarning BadData Cancelled CollapsedComponentWarning ConvergenceWarning CostError
        DisconnectedGraphWarning EngineError InvalidParameter InvalidType KnollError KnollWarning ModelFileError
        SuspiciousResultWarning
    """,
    "knoll.explanation": "Cluster ColumnProfile ExampleRow Explanation LevelShare Rule explain",
    "knoll.explorer": "Session explore",
    "knoll.gaussian": "Ellipse Gaussian",
    "knoll.hierarchy": "AgglomerativeClustering",
    "knoll.kernel_kmeans": "KernelKMeans",
    "knoll.kernels": """
        Function Gaussian Heaviside Kernel Linear Operator Polynomial Precomputed links make normalized_cut normlinks
    """,
    "knoll.kmeans": "KMeans KPrototypes",
    "knoll.metrics": """
        Contingency adjusted_mutual_info_score adjusted_rand_score calinski_harabasz_score completeness_score
        contingency contingency_matrix davies_bouldin_score dbcv_score entropy expected_mutual_info
        fowlkes_mallows_score homogeneity_completeness_v_measure homogeneity_score mutual_info_score
        normalized_mutual_info_score pair_confusion_matrix rand_score silhouette_samples silhouette_score
        v_measure_score
    """,
    "knoll.mixture": "GaussianMixture MixedMixture",
    "knoll.models": "Info Model Preparation Relabeled inspect load read save",
    "knoll.plots": """
        agreement animate climb condensed_tree cut_curves dbscan decision_regions dendrogram density eigenvalues
        embedding eps_curve frame gaussian gaussian_mixture kernel_kmeans kmeans reachability responsibilities scatter
        selection similarity_graph
    """,
    "knoll.reference": """
        ClimbingState DBSCANRegionsState DBSCANSpectralState DBSCANState DensityTreeState EMState GaussianState
        GenieState HDBSCANState KMeansState KPrototypesState KernelKMeansState LinkageState MeanShiftState MixedEMState
        SpectralGraphState SpectralState TreeCentersState average_linkage column_type complete_linkage counted
        dbcv dbscan_climbing dbscan_graph dbscan_regions dbscan_spectral density_tree em_gmm em_mixed encode_mixed
        gaussian_mle genie gower hdbscan kmeans kprototypes mean_shift njw_spectral njw_spectral_graph run silhouette
        single_linkage tree_centers ward weighted_kernel_kmeans
    """,
    "knoll.relations": """
        Annealing Certificate Check ClimbToMeanShift ComplexityTable DBSCANStarIsTreeCut EveryEpsDBSCAN Frame
        GaussianIsMixtureOfOne GaussianToHeaviside GraphAndClimb KMeansIsLinearKernel KMeansOnTree KernelAndGraph
        KernelTrick Limit MeanShiftAscent MeanShiftIsEM MedoidSandwich MixtureDistance MixtureToKMeans NormalizedCut
        OPTICSIsPrim Path Precondition Relation Relaxation SingleLinkage SpectralIsDBSCAN SpectralOnTree TreeIsKCenter
        TreeIsOrderFree TreeIsPersistence WardIsDPMeans WardIsGaussianMerging WardIsKMeans all get
    """,
    "knoll.scales": "EpsEstimate SigmaEstimate estimate_bandwidth estimate_eps estimate_sigma k_distances",
    "knoll.spectral": "SpectralClustering",
    "knoll.tuning": "Selection choose_n_clusters choose_n_components eigengap silhouette_samples",
}

# Modules for knoll's own use, free to change.
INNER = {
    "knoll.base",
    "knoll.cli",
    "knoll.engines",
    "knoll.explorer",
    "knoll.neighbors",
    "knoll.registry",
    "knoll.report",
    "knoll.tables",
    "knoll.validation",
}


def public_things() -> list[tuple[str, str]]:
    return [(module, name) for module, names in PUBLIC.items() for name in names.split() if name != "__version__"]


@pytest.mark.parametrize("module", PUBLIC)
def test_all_is_the_list_above_and_sorted(module):
    names = importlib.import_module(module).__all__
    assert list(names) == sorted(names)
    assert set(names) == set(PUBLIC[module].split())


def test_every_module_is_promised_or_inner():
    found = {m.name for m in pkgutil.iter_modules(knoll.__path__, "knoll.") if not m.name.startswith("knoll._")}
    assert found == (PUBLIC.keys() - {"knoll"}) | INNER


@pytest.mark.parametrize("module", PUBLIC)
def test_nothing_public_is_left_out_of_all(module):
    """A class or function that was written in the module, or gathered from its private files, is listed."""
    loaded = importlib.import_module(module)
    left_out = [
        name
        for name, thing in vars(loaded).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and (thing.__module__ == module or thing.__module__.startswith(f"{module}."))
        and name not in loaded.__all__
    ]
    assert left_out == []


def test_every_picture_is_in_the_file_of_its_name():
    for name in PUBLIC["knoll.plots"].split():
        assert getattr(knoll.plots, name).__module__ == f"knoll.plots.{name}"


def test_the_package_gives_what_it_lists_and_nothing_by_mistake():
    assert dir(knoll) == sorted(knoll.__all__)
    for name in knoll.__all__:
        assert getattr(knoll, name) is not None
    with pytest.raises(AttributeError, match="module 'knoll' has no attribute 'KMedians'"):
        _ = knoll.KMedians


@pytest.mark.parametrize(("module", "name"), public_things())
def test_everything_public_is_documented(module, name):
    thing = getattr(importlib.import_module(module), name)
    undocumented = [where for where, text in docstrings(thing, name) if not text or not text.strip()]
    assert undocumented == []


@pytest.mark.parametrize(("module", "name"), public_things())
def test_public_functions_show_an_example(module, name):
    thing = getattr(importlib.import_module(module), name)
    if inspect.isfunction(thing) and inspect.signature(thing).parameters:
        assert ">>> " in (inspect.getdoc(thing) or "")


def docstrings(thing: object, name: str) -> list[tuple[str, str | None]]:
    """The thing's own docstring and those of its public methods and properties, not inherited ones."""
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else inspect.getdoc(thing)
    if own and own.startswith(f"{name}("):  # what dataclass and namedtuple write when nobody else did
        own = None
    found = [(name, own)]
    if inspect.isclass(thing):
        for key, value in vars(thing).items():
            inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not key.startswith("_") and (inspect.isfunction(inner) or isinstance(inner, property)):
                found.append((f"{name}.{key}", inner.__doc__))
    return found


def test_a_missing_docstring_is_seen():
    class Bare:
        def method(self): ...

        @property
        def value(self): ...

        @classmethod
        def make(cls): ...

    assert [where for where, text in docstrings(Bare, "Bare") if not text] == [
        "Bare", "Bare.method", "Bare.value", "Bare.make",
    ]  # fmt: skip
