"""An array whose mask hides something is refused wherever one can be given: what lies under a mask would count."""

from __future__ import annotations

import inspect

import matplotlib
import numpy as np
import pytest

import knoll
from knoll import kernels, metrics, plots, reference, scales, tuning
from knoll.exceptions import BadData
from tests.conformance.contract import PARAMETERS, UNWEIGHTED, data, public_estimators

X = data(60)
LABELS = np.repeat([0, 1, 2], 20)
CODES = np.repeat([[0], [1]], 30, axis=0)
K = np.exp(-0.1 * np.square(X[:, None] - X[None]).sum(axis=2))
ESTIMATORS = [pytest.param(cls, id=cls.__name__) for cls in public_estimators()]


def takes(cls, first, other=None):
    """The public methods of a class whose first argument has this name, and that take the other one."""
    for name in dir(cls):
        method = getattr(cls, name)
        if not name.startswith("_") and callable(method):
            parameters = list(inspect.signature(method).parameters)[1:]
            if parameters[:1] == [first] and (other is None or other in parameters):
                yield pytest.param(cls, name, id=f"{cls.__name__}-{name}")


def pairs(first, other=None):
    return [pair for cls in public_estimators() for pair in takes(cls, first, other)]


def made(cls, **parameters):
    seeded = {"random_state": 0} if "random_state" in cls().get_params() else {}
    return cls(**{**PARAMETERS.get(cls.__name__, {}), **seeded, **parameters})


def masked(array, count=3):
    """The array with some entries hidden, the last ones among them."""
    mask = np.zeros(np.shape(array), dtype=bool)
    mask.flat[[0, *range(mask.size - count + 1, mask.size)]] = True
    return np.ma.masked_array(array, mask=mask)


def refused(name="X", count=3):
    return pytest.raises(BadData, match=rf"{name} has {count} masked entries.*\.filled\(\.\.\.\)")


@pytest.mark.parametrize(("cls", "method"), pairs("X"))
def test_data_is_refused_by_every_method(cls, method):
    model = made(cls) if "fit" in method else made(cls).fit(X)
    for table in (masked(X), masked(X.astype(np.float32)), list(masked(X))):
        with refused():
            getattr(model, method)(table)


@pytest.mark.parametrize(("cls", "method"), pairs("X", "sample_weight"))
def test_weights_are_refused_by_every_method(cls, method):
    model = made(cls) if "fit" in method else made(cls).fit(X)
    with refused("sample_weight"):
        getattr(model, method)(X, sample_weight=masked(np.ones(60)))


@pytest.mark.parametrize(("cls", "method"), pairs("make_blocks"))
def test_blocks_are_refused(cls, method):
    with refused():
        getattr(made(cls), method)(lambda: iter([X, masked(X)]))
    with refused("sample_weight"):
        getattr(made(cls), method)(lambda: iter([(X, np.ones(60)), (X, masked(np.ones(60)))]))


def test_the_methods_are_found():
    found = {pair.id for pair in (*pairs("X"), *pairs("make_blocks"))}
    assert {"KMeans-partial_fit", "KMeans-transform", "DBSCAN-predict", "GaussianMixture-score_samples"} <= found
    assert {"KMeans-fit_blocks", "GaussianMixture-fit_blocks", "MeanShift-paths"} <= found


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_mask_that_hides_nothing_is_an_array(cls):
    whole = np.ma.masked_array(X, mask=np.zeros(X.shape, dtype=bool))
    weights = {} if cls.__name__ in UNWEIGHTED else {"sample_weight": np.ma.masked_array(np.ones(60))}
    model, plain = made(cls).fit(whole, **weights), made(cls).fit(X)
    for method in ("predict", "transform"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(model, method)(whole), getattr(plain, method)(X))
    made(cls).fit(np.ma.masked_array(X))


@pytest.mark.parametrize(
    ("model", "matrix"),
    [
        (knoll.KernelKMeans(3, kernel="precomputed"), K),
        (knoll.SpectralClustering(3, affinity="precomputed"), K),
        (knoll.DBSCAN(1.5, metric="precomputed"), 1 - K),
        (knoll.OPTICS(metric="precomputed"), 1 - K),
        (knoll.HDBSCAN(metric="precomputed"), 1 - K),
        (knoll.DensityTree(metric="precomputed"), 1 - K),
        (knoll.AgglomerativeClustering(3, metric="precomputed", linkage="average"), 1 - K),
    ],
)
def test_given_matrices_are_refused(model, matrix):
    with refused():
        model.fit(masked(matrix))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (knoll.KMeans(3, init=masked(X[:3])), "init"),
        (knoll.KMeans(3, init=lambda X, k, random_state: masked(X[:k])), "init"),
        (knoll.KernelKMeans(3, sigma=3.0, init=masked(LABELS)), "init"),
        (knoll.KernelKMeans(3, sigma=3.0, init=masked(np.arange(3))), "init"),
        (knoll.GaussianMixture(3, means_init=masked(X[:3])), "means"),
        (knoll.GaussianMixture(3, weights_init=masked(np.full(3, 1 / 3))), "weights"),
        (knoll.GaussianMixture(3, covariance_type="diag", precisions_init=masked(np.ones((3, 3)))), "diag precision"),
        (knoll.MeanShift(bandwidth=3.0, seeds=masked(X[:3])), "seeds"),
        (knoll.AgglomerativeClustering(3, connectivity=masked(K > 0.1)), "connectivity"),
        (knoll.AgglomerativeClustering(3, connectivity=lambda X: masked(K > 0.1)), "connectivity"),
    ],
)
def test_starts_are_refused(model, name):
    with refused(name):
        model.fit(X)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: knoll.kmeans_plusplus(masked(X), 2), "X"),
        (lambda: knoll.k_means(masked(X), 2), "X"),
        (lambda: knoll.dbscan(masked(X)), "X"),
        (lambda: scales.k_distances(masked(X), 2), "X"),
        (lambda: scales.k_distances(X, 2, sample_weight=masked(np.ones(60))), "sample_weight"),
        (lambda: scales.estimate_eps(masked(X)), "X"),
        (lambda: scales.estimate_eps(X, sample_weight=masked(np.ones(60))), "sample_weight"),
        (lambda: scales.estimate_bandwidth(masked(X)), "X"),
        (lambda: scales.estimate_bandwidth(X, sample_weight=masked(np.ones(60))), "sample_weight"),
        (lambda: scales.estimate_sigma(masked(X)), "X"),
        (lambda: scales.estimate_sigma(X, sample_weight=masked(np.ones(60))), "sample_weight"),
        (lambda: tuning.choose_n_clusters(masked(X), range(1, 4)), "X"),
        (lambda: tuning.choose_n_components(masked(X), range(1, 4)), "X"),
        (lambda: tuning.silhouette_samples(masked(X), LABELS), "X"),
        (lambda: tuning.silhouette_samples(X, masked(LABELS)), "labels"),
        (lambda: tuning.eigengap(masked(np.linspace(1, 0, 9))), "eigenvalues"),
        (lambda: metrics.silhouette_score(X, LABELS, sample_weight=masked(np.ones(60))), "sample_weight"),
        (lambda: metrics.davies_bouldin_score(masked(X), LABELS), "X"),
        (lambda: metrics.calinski_harabasz_score(X, masked(LABELS)), "labels"),
        (lambda: metrics.dbcv_score(masked(X), LABELS), "X"),
        (lambda: metrics.pair_confusion_matrix(LABELS, masked(LABELS)), "labels_pred"),
        (lambda: metrics.adjusted_rand_score(masked(LABELS), LABELS), "labels_true"),
        (lambda: metrics.adjusted_rand_score(LABELS, masked(LABELS)), "labels_pred"),
        (lambda: metrics.adjusted_mutual_info_score(LABELS, masked(LABELS)), "labels_pred"),
        (lambda: knoll.compare(masked(X)), "X"),
        (lambda: knoll.compare(X, truth=masked(LABELS)), "truth"),
        (lambda: knoll.kernels.normalized_cut(masked(K), LABELS), "A"),
        (lambda: knoll.kernels.normalized_cut(K, masked(LABELS)), "labels"),
        (lambda: knoll.kernels.Precomputed().operator(masked(K)), "K"),
        (lambda: metrics.contingency(masked(LABELS), LABELS), "labels_true"),
        (lambda: metrics.mutual_info_score(LABELS, masked(LABELS)), "labels_pred"),
        (lambda: metrics.entropy(masked(LABELS)), "labels_true"),
        (lambda: tuning.choose_n_clusters(X, range(1, 4), sample_weight=masked(np.ones(60))), "sample_weight"),
        (lambda: tuning.choose_n_components(X, range(1, 4), sample_weight=masked(np.ones(60))), "sample_weight"),
        (lambda: kernels.links(masked(K), [0], [1]), "A"),
        (lambda: kernels.links(K, masked(np.arange(9)), [1]), "a"),
        (lambda: kernels.normlinks(K, [0], masked(np.arange(9))), "b"),
        (lambda: plots.scatter(masked(X), LABELS), "X"),
        (lambda: plots.scatter(X, masked(LABELS)), "labels"),
        (lambda: plots.similarity_graph(X, masked(K)), "similarity"),
        (lambda: plots.agreement({"one": LABELS, "other": masked(LABELS)}), "labels_pred"),
    ],
)
def test_functions_refuse_them(call, name):
    matplotlib.use("Agg")
    with refused(name):
        call()


FUNCTION = kernels.Function(lambda x, y: float(x @ y))
KERNELS = [kernels.Gaussian(1.0), kernels.Heaviside(1.0), kernels.Linear(), kernels.Polynomial(), FUNCTION]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_every_method_of_a_kernel_refuses_them(kernel):
    for call in (
        lambda: kernel.tile(masked(X), X),
        lambda: kernel.diag(masked(X)),
        lambda: kernel.rows(masked(X), np.arange(2)),
        lambda: kernel.apply(masked(X), np.ones((60, 1))),
        lambda: kernel.operator(masked(X)),
    ):
        with pytest.raises(BadData, match=r"X has \d+ masked entries"):
            call()
    with refused("Y"):
        kernel.tile(X, masked(X))


REFERENCE = {
    "average_linkage": (),
    "complete_linkage": (),
    "single_linkage": (),
    "ward": (),
    "dbcv": (LABELS,),
    "silhouette": (LABELS,),
    "dbscan_climbing": (1.0, 3),
    "dbscan_graph": (1.0, 3),
    "dbscan_regions": (1.0, 3, [(0, 0.5)]),
    "dbscan_spectral": (1.0, 3),
    "density_tree": (3,),
    "em_mixed": (CODES, np.full(2, 0.5), X[:2], np.stack([np.eye(3)] * 2), [np.full((2, 2), 0.5)]),
    "em_gmm": (np.full(3, 1 / 3), X[:3], np.stack([np.eye(3)] * 3)),
    "gaussian_mle": (),
    "genie": (3, 0.3),
    "gower": (CODES,),
    "hdbscan": (3, 4),
    "kmeans": (X[:3],),
    "kprototypes": (CODES, X[:2], CODES[:2], 1.0),
    "mean_shift": (1.0,),
    "njw_spectral": (3, 1.0),
    "njw_spectral_graph": (3, 1.0),
    "tree_centers": (3, 2.0),
    "weighted_kernel_kmeans": (LABELS,),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_refuses_them(name):
    function = getattr(reference, name)
    data, what = (K, "K") if name == "weighted_kernel_kmeans" else (X, "X")
    with refused(what):
        function(masked(data), *REFERENCE[name])
    if name == "weighted_kernel_kmeans":
        with refused("labels"):
            function(K, masked(LABELS))
        with refused("w"):
            function(K, LABELS, masked(np.ones(60)))


def test_every_function_of_the_reference_is_in_the_table():
    functions = {name for name in reference.__all__ if name[0].islower()} - {"run", "counted"}
    functions -= {"column_type", "encode_mixed"}  # of texts, and of arrays that the reader of tables makes
    assert functions == set(REFERENCE)
