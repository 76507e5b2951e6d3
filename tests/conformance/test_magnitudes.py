"""Data and weights of any magnitude through every estimator: an answer or a KnollError, and no warning of NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

import knoll
from knoll.exceptions import BadData, KnollError

EXPONENTS = np.array([-323, -310, -300, -200, -160, -154, -100, -30, 0, 30, 100, 153, 160, 200, 300, 307])
MOST = np.finfo(np.float64).max
CALLS = (
    "predict", "predict_proba", "predict_kind", "transform", "score_samples", "score", "mahalanobis", "aic", "bic",
    "icl", "paths", "estimate_cost",
)  # fmt: skip
NAMES = (
    "Gaussian",
    "GaussianMixture",
    "KMeans",
    "KernelKMeans",
    "SpectralClustering",
    "DBSCAN",
    "MeanShift",
    "AgglomerativeClustering",
    "OPTICS",
)


class Draw:
    """A table, weights and an estimator from a seed."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = np.random.default_rng([NAMES.index(name), seed])
        self.name = name

    def one(self, *values):
        return values[int(self.random.integers(len(values)))]

    def size(self) -> float:
        return float(10.0 ** self.one(*EXPONENTS))

    def points(self) -> np.ndarray:
        n, d = self.one(2, 3, 5, 12, 40), self.one(1, 2, 3, 5)
        X = self.random.normal(size=(n, d)) + 5 * self.random.integers(0, 3, size=(n, 1))
        X /= np.abs(X).max()
        X = X * 10.0 ** self.random.choice(EXPONENTS, size=self.one((1, 1), (1, d), (n, 1)))
        if self.one(False, False, False, True):
            X[:, 0] = self.one(self.size(), MOST)
        narrow = np.clip(X, -3e38, 3e38).astype(np.float32)
        return narrow if self.one(False, False, True) else X

    def weights(self, n: int) -> np.ndarray | None:
        w = self.random.random(n) + 0.01
        return self.one(
            None,
            None,
            w * 10.0 ** self.random.uniform(-300, 300),
            w * 10.0 ** self.random.uniform(-300, 300, size=n),
            np.where(np.arange(n) % 3 == 1, 0.0, w),
        )

    def estimator(self, k: int):
        seeded = {"random_state": 0}
        match self.name:
            case "Gaussian":
                return knoll.Gaussian(**seeded)
            case "GaussianMixture":
                shape = self.one("full", "tied", "diag", "spherical")
                return knoll.GaussianMixture(
                    k, covariance_type=shape, reg_covar=self.one(0.0, 1e-6), noise=self.one(False, True), **seeded
                )
            case "KMeans":
                return knoll.KMeans(k, **seeded)
            case "KernelKMeans":
                kernel = self.one("rbf", "linear", "poly")
                return knoll.KernelKMeans(k, kernel=kernel, sigma=self.one(None, self.size()), **seeded)
            case "SpectralClustering":
                affinity = self.one("rbf", "nearest_neighbors", "cosine", "sigmoid", "poly", "laplacian")
                sigma = {"sigma": self.size()} if affinity == "rbf" and self.one(False, True) else {}
                return knoll.SpectralClustering(k, affinity=affinity, n_neighbors=2, **sigma, **seeded)
            case "DBSCAN":
                metric = self.one("euclidean", "manhattan", "chebyshev", "cosine", "sqeuclidean", "canberra")
                return knoll.DBSCAN(self.one(1.0, self.size()), min_samples=2, metric=metric)
            case "AgglomerativeClustering":
                linkage = self.one("ward", "average", "complete", "single")
                metric = "euclidean" if linkage == "ward" else self.one("euclidean", "manhattan", "cosine")
                return knoll.AgglomerativeClustering(k, linkage=linkage, metric=metric, compute_distances=True)
            case "OPTICS":
                metric = self.one("euclidean", "manhattan", "chebyshev", "minkowski")
                return knoll.OPTICS(min_samples=2, metric=metric, max_eps=self.one(np.inf, self.size()))
            case _:
                width = self.one(None, self.size())
                return knoll.MeanShift(bandwidth=width, kernel=self.one("flat", "gaussian"), max_iter=50)


@pytest.mark.parametrize("name", NAMES)
def test_no_warning_of_numpy(name):
    for seed in range(150):
        draw = Draw(name, seed)
        X = draw.points()
        model, weights = draw.estimator(min(len(X), draw.one(1, 2, 3))), draw.weights(len(X))
        other = np.full((1, X.shape[1]), min(draw.size(), 3e38 if X.dtype == np.float32 else MOST), X.dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            try:
                model.fit(X, **({} if name == "OPTICS" else {"sample_weight": weights}))
            except KnollError:
                continue
            for call in CALLS:
                for queries in (X, other) if hasattr(model, call) else ():
                    try:
                        getattr(model, call)(queries)
                    except KnollError:
                        pass
                    except Exception as error:
                        raise AssertionError(f"seed {seed}: {call} of {model!r} with {X!r}, {weights!r}") from error


TURNED = np.array([[1.0, 2.0], [1.5, 3.1], [9.0, 0.8], [9.5, 0.7], [0.0, 0.0]])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("power", [-1000, -600, 600, 1000])
@pytest.mark.parametrize("single", [False, True])
def test_the_angle_between_rows_does_not_depend_on_their_length(power, sparse, single):
    """Norms that left float64 made all rows alike."""
    container = scipy.sparse.csr_array if sparse else np.asarray
    X = TURNED.copy()
    model = knoll.DBSCAN(0.01, min_samples=1, metric="cosine").fit(container(X))
    X[:: 2 if single else 1] = np.ldexp(X[:: 2 if single else 1], power)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(
            knoll.DBSCAN(0.01, min_samples=1, metric="cosine").fit(container(X)).labels_, model.labels_
        )
        np.testing.assert_array_equal(model.predict(container(X)), model.labels_)


@pytest.mark.parametrize("power", [-1000, 600, 1000])
def test_the_cosine_affinity_does_not_depend_on_the_length_of_rows(power):
    X = TURNED[:4]
    small, large = (
        knoll.SpectralClustering(2, affinity="cosine", random_state=0).fit(rows) for rows in (X, np.ldexp(X, power))
    )
    np.testing.assert_array_equal(large.labels_, small.labels_)
    assert len(set(small.labels_)) == 2


@pytest.mark.parametrize("affinity", ["linear", "poly"])
def test_rows_whose_similarities_leave_float64_are_refused_by_predict(affinity):
    """Sums of infinities gave any label."""
    X = np.array([[1.0, 0.0], [2.0, 0.1], [0.1, 5.0], [0.0, 6.0]])
    model = knoll.SpectralClustering(2, affinity=affinity, random_state=0).fit(X)
    with pytest.raises(BadData, match=r"the similarities of row 1 to the rows of the fit leave float64\. Leave such"):
        model.predict([[1.0, 2.0], [1e308, 1e308]])


@pytest.mark.parametrize("kernel", ["flat", "gaussian"])
def test_a_mean_of_the_largest_doubles_is_finite(kernel):
    X = np.full((7, 1), MOST)
    model = knoll.MeanShift(bandwidth=1e300, kernel=kernel).fit(X, sample_weight=np.linspace(0.1, 0.7, 7))
    np.testing.assert_allclose(model.cluster_centers_, [[MOST]], rtol=1e-15)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


METRIC_MODELS = (
    knoll.DBSCAN(metric="canberra"),
    knoll.DensityTree(2, metric="canberra"),
    knoll.HDBSCAN(metric="canberra", min_cluster_size=2, min_samples=1),
    knoll.OPTICS(metric="canberra", min_samples=2),
    knoll.AgglomerativeClustering(metric="canberra", linkage="average"),
)


@pytest.mark.parametrize("model", METRIC_MODELS, ids=lambda model: type(model).__name__)
def test_a_metric_that_leaves_float64_is_named(model):
    """|x − y| / (|x| + |y|) of scikit-learn is ∞/∞ there."""
    X = np.array([[1.5e308], [-1.5e308], [1.0], [2.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(BadData, match=r"metric 'canberra' gives distances that are NaN or < 0 for these rows\. R"):
            model.fit(X)


@pytest.mark.parametrize("model", METRIC_MODELS, ids=lambda model: type(model).__name__)
def test_sums_of_large_float32_entries_cause_no_warning(model):
    X = np.array([[3e38], [-3e38], [3e38], [-3e38], [3e38], [-3e38], [1.0], [2.0]], dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(X)
