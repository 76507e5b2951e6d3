"""Odd fits, drawn from a seed: every estimator, every parameter variant, data and weights of strange sizes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

import knoll

NAMES = (
    "Gaussian",
    "GaussianMixture",
    "KMeans",
    "KernelKMeans",
    "SpectralClustering",
    "DBSCAN",
    "MeanShift",
    "HDBSCAN",
    "AgglomerativeClustering",
    "OPTICS",
    "MixedMixture",
    "KPrototypes",
)


class Draw:
    """Random choices of one case."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = np.random.default_rng([NAMES.index(name), seed])

    def one(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def points(self) -> np.ndarray:
        n, d = self.one(1, 2, 3, 4, 7, 20, 40), self.one(1, 1, 2, 3, 5)
        X = self.random.normal(size=(n, d)) + 5.0 * self.random.integers(0, 3, size=(n, 1))
        match self.one("plain", "plain", "grid", "equal", "few", "constant", "line", "far", "unlike"):
            case "grid":
                X = np.round(X)
            case "equal":
                X[:] = X[0]
            case "few":
                X = X[self.random.integers(0, min(n, 3), size=n)]
            case "constant":
                X[:, 0] = 3.25
            case "line":
                X[:] = X[:, :1]
            case "far":
                X = X + 1e7
            case "unlike":
                X = X * 10.0 ** self.random.integers(-8, 9, size=d)
        with np.errstate(all="ignore"):
            X = np.clip(X * self.one(1.0, 1.0, 1.0, 1.0, 1e-30, 1e30, 1e-120, 1e120, 1e-300, 1e300), -1e307, 1e307)
            single = X.astype(np.float32)
        if self.one(False, False, True) and np.isfinite(single).all():
            X = single
        return np.asfortranarray(X) if self.one(False, False, True) else X

    def weights(self, n: int) -> np.ndarray | None:
        w = None
        match self.one("none", "none", "ones", "one", "some", "whole", "light", "unlike"):
            case "ones":
                w = np.ones(n)
            case "one":
                w = np.zeros(n)
                w[self.random.integers(n)] = 1.0
            case "some":
                w = self.random.integers(0, 2, size=n) * self.random.random(n)
            case "whole":
                w = self.random.integers(0, 4, size=n) + 0.0
            case "light":
                w = self.random.random(n) * self.one(1e-200, 1e-30, 1e30, 1e200)
            case "unlike":
                w = 10.0 ** self.random.uniform(-12, 12, size=n)
        return w

    def width(self, X: np.ndarray) -> float:
        """A length that suits the data, or does not."""
        size = float(np.abs(X - X[0]).max()) or float(np.abs(X).max()) or 1.0
        return min(max(size * self.one(1e-3, 0.1, 0.3, 1.0, 30.0), 1e-307), 1e307)

    def labels(self, n: int, k: int) -> np.ndarray:
        return self.random.integers(0, k, size=n)


def _gaussian(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    return knoll.Gaussian(random_state=draw.one(None, 3)), X


def _with_categories(draw: Draw, X: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return the rows with missing values, and with a column of categories or without."""
    X = np.where(draw.random.random(X.shape) < draw.one(0.0, 0.1, 0.5, 1.0), np.nan, X)
    if draw.one(False, True):
        return X, []
    codes = draw.random.integers(0, 3, size=len(X)) * draw.one(1.0, np.nan)
    return np.column_stack([X, codes]), [X.shape[1]]


def _mixed_mixture(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    rows, categories = _with_categories(draw, X)
    return knoll.MixedMixture(
        min(draw.one(1, 2, 3, 5, len(X)), len(X)),
        categorical_features=categories,
        covariance_type=draw.one("full", "tied", "diag", "spherical"),
        reg_covar=draw.one(1e-6, 0.0, 1e-12, 1.0),
        categorical_prior=draw.one(1.0, 1e-6, 100.0),
        max_iter=draw.one(0, 1, 20, 50),
        tol=draw.one(1e-3, 0.0),
        init_params=draw.one("kmeans", "k-means++", "random", "random_from_data"),
        random_state=0,
    ), rows


def _k_prototypes(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    rows, categories = _with_categories(draw, X)
    return knoll.KPrototypes(
        min(draw.one(1, 2, 3, 5, len(X)), len(X)),
        categorical_features=categories,
        gamma=draw.one(None, None, 0.0, 1.0, 1e3),
        init=draw.one("k-means++", "random"),
        max_iter=draw.one(1, 20, 300),
        random_state=0,
    ), rows


def _mixture(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    k = min(draw.one(1, 2, 3, 5, len(X)), len(X))
    shape = draw.one("full", "tied", "diag", "spherical", "fixed")
    return knoll.GaussianMixture(
        k,
        covariance_type=shape,
        fixed_variance=min(draw.width(X), 1e150) ** 2 if shape == "fixed" else None,
        reg_covar=draw.one(1e-6, 0.0, 1e-12, 1.0),
        max_iter=draw.one(0, 1, 20, 50),
        tol=draw.one(1e-3, 0.0),
        n_init=draw.one(1, 2),
        noise=draw.one(False, False, True, 0.1, 1e-3),
        init_params=draw.one("kmeans", "k-means++", "random", "random_from_data"),
        means_init=draw.one(None, None, X[:k]),
        weights_init=draw.one(None, None, np.eye(k)[0], np.full(k, 1 / k)),
        stop=draw.one("likelihood", "parameters"),
        random_state=0,
    ), X


def _kmeans(draw: Draw, X: Any) -> tuple[Any, Any]:
    k = min(draw.one(1, 2, 3, 5, len(X)), len(X))
    return knoll.KMeans(
        k,
        init=draw.one("k-means++", "random", X[:k]),
        n_init=draw.one("auto", 1, 3),
        max_iter=draw.one(1, 2, 300),
        tol=draw.one(1e-4, 0.0),
        algorithm=draw.one("auto", "lloyd", "hamerly", "elkan"),
        empty_clusters=draw.one("relocate", "keep"),
        random_state=0,
    ), draw.one(X, X, scipy.sparse.csr_array(X), scipy.sparse.csr_matrix(X))


def _similar(X: np.ndarray, width: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        gaps = np.abs(X[:, None].astype(float) / width - X[None].astype(float) / width)
        return np.exp(-np.square(gaps).sum(axis=2) / 2)


def _kernel_kmeans(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    k = min(draw.one(1, 2, 3, 5, len(X)), len(X))
    kernel = draw.one("rbf", "rbf", "gaussian", "heaviside", "poly", "linear", "precomputed", "indefinite", "sparse")
    data: Any = X
    if kernel in ("precomputed", "indefinite", "sparse"):
        data = _similar(X, draw.width(X))
        if kernel == "indefinite":
            data = data - 0.6 * np.eye(len(X))
        if kernel == "sparse":
            data = scipy.sparse.csr_array(np.where(data > 0.1, data, 0.0))
    open_width = draw.one(True, False)
    return knoll.KernelKMeans(
        k,
        kernel="precomputed" if kernel in ("indefinite", "sparse") else kernel,
        sigma=draw.width(X) if kernel in ("rbf", "gaussian") and not open_width else None,
        eps=draw.width(X) if kernel == "heaviside" else None,
        degree=draw.one(1, 2, 3),
        coef0=draw.one(0.0, 1.0),
        init=draw.one("k-means++", "random", "spectral", draw.labels(len(X), k)),
        n_init=draw.one("auto", 2),
        max_iter=draw.one(1, 300),
        local_search=draw.one(False, True),
        empty_clusters=draw.one("relocate", "keep"),
        random_state=0,
    ), data


def _spectral(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    n = len(X)
    k = draw.one(1, 2, 3, 5, n, "auto")
    affinity = draw.one(
        "rbf", "rbf", "nearest_neighbors", "precomputed", "sparse", "precomputed_nearest_neighbors", "linear",
        "poly", "polynomial", "laplacian", "cosine", "sigmoid", "chi2",
    )  # fmt: skip
    data: Any = X
    if affinity in ("precomputed", "sparse"):
        data = _similar(X, draw.width(X))
        if affinity == "sparse":
            data = scipy.sparse.csr_array(np.where(data > 0.3, data, 0.0))
    elif affinity == "precomputed_nearest_neighbors":
        data = np.sqrt(-2 * np.log(np.maximum(_similar(X, draw.width(X)), 1e-300)))
        data = draw.one(data, scipy.sparse.csr_array(data))
    elif draw.one(False, False, False, True):
        data = scipy.sparse.csr_array(X)
    return knoll.SpectralClustering(
        k if k == "auto" else min(k, n),
        affinity="precomputed" if affinity == "sparse" else affinity,
        sigma=draw.width(X) if affinity == "rbf" and draw.one(True, False) else None,
        gamma=draw.one(None, 0.5) if affinity in ("poly", "laplacian", "sigmoid", "chi2") else None,
        n_neighbors=min(draw.one(1, 2, 5, 10), n),
        n_components=draw.one(None, None, 1, 3, n),
        assign_labels=draw.one("kmeans", "discretize", "cluster_qr"),
        row_scaling=draw.one("unit", "none", "degree"),
        zero_diagonal=draw.one(False, False, False, True),
        formulation=draw.one("kernel", "graph"),
        operator=draw.one("auto", "auto", "stored", "tiles", "truncated", "cholesky"),
        eigen_solver=draw.one(None, None, "block", "dense", "arpack", "lobpcg"),
        n_init=2,
        random_state=0,
    ), data


def _dbscan(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    metric = draw.one(
        "euclidean", "euclidean", "manhattan", "chebyshev", "minkowski", "cosine", "haversine", "precomputed", "graph",
        "canberra", "braycurtis",
    )  # fmt: skip
    eps = draw.width(X)
    data: Any = X
    if metric in ("precomputed", "graph"):
        data = np.sqrt(-2 * np.log(np.maximum(_similar(X, eps), 1e-300)))
        eps = draw.one(0.5, 1.0, 2.0)
        if metric == "graph":
            data = scipy.sparse.csr_array(np.where(data < 2, data, 0.0))
    elif metric == "haversine":
        data, eps = draw.random.uniform(-1.5, 1.5, size=(len(X), 2)), 0.5
    elif draw.one(False, False, True):
        data = draw.one(scipy.sparse.csr_array, scipy.sparse.csr_matrix)(X)
    return knoll.DBSCAN(
        eps,
        metric="precomputed" if metric == "graph" else metric,
        p=draw.one(None, 1.5, 1.0, 3.0) if metric == "minkowski" else None,
        metric_params=draw.one(None, {"p": 1.5}) if metric == "minkowski" else None,
        min_samples=draw.one(1, 2, 3, 5),
        formulation=draw.one("graph", "graph", "spectral", "climbing") if metric == "euclidean" else "graph",
        border=draw.one("closest", "first", "noise"),
    ), data


def _mean_shift(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    return knoll.MeanShift(
        bandwidth=draw.one(None, draw.width(X)),
        seeds=draw.one(None, None, None, X[::2]),
        bin_seeding=draw.one(False, False, False, True),
        min_bin_freq=draw.one(1, 2),
        cluster_all=draw.one(True, False),
        max_iter=draw.one(0, 1, 300),
        kernel=draw.one("flat", "gaussian"),
        assign=draw.one("climb", "nearest"),
    ), X


def _hdbscan(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    metric = draw.one("euclidean", "euclidean", "manhattan", "minkowski", "cosine", "canberra", "precomputed")
    data: Any = X
    if metric == "precomputed":
        data = np.sqrt(-2 * np.log(np.maximum(_similar(X, draw.width(X)), 1e-300)))
        data = (data + data.T) / 2
    elif draw.one(False, False, True):
        data = draw.one(scipy.sparse.csr_array, scipy.sparse.csr_matrix)(X)
    return knoll.HDBSCAN(
        draw.one(2, 3, 5),
        draw.one(None, 1, 2, 4),
        draw.one(0.0, 0.0, 1.0),
        draw.one(None, None, 10),
        metric=metric,
        metric_params={"p": draw.one(1.0, 1.5, 3.0)} if metric == "minkowski" else None,
        alpha=draw.one(1.0, 1.0, 0.7, 2.0),
        cluster_selection_method=draw.one("eom", "leaf"),
        allow_single_cluster=draw.one(False, True),
        store_centers=None if metric == "precomputed" else draw.one(None, "centroid", "medoid", "both"),
        n_clusters=draw.one(None, None, None, 1, 2),
        noise=draw.one("keep", "nearest"),
    ), data


def _agglomerative(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    linkage = draw.one("ward", "average", "complete", "single")
    threshold = draw.one(None, None, draw.width(X))
    return knoll.AgglomerativeClustering(
        None if threshold is not None else min(draw.one(1, 2, 3, len(X)), len(X)),
        distance_threshold=threshold,
        linkage=linkage,
        metric="euclidean" if linkage == "ward" else draw.one("euclidean", "manhattan", "cosine", "canberra"),
        connectivity=draw.one(None, None, None, np.ones((len(X), len(X)))),
        compute_distances=draw.one(False, True),
    ), X


def _optics(draw: Draw, X: np.ndarray) -> tuple[Any, Any]:
    return knoll.OPTICS(
        min_samples=draw.one(2, 3, 0.2),
        max_eps=draw.one(np.inf, np.inf, draw.width(X)),
        metric=draw.one("minkowski", "euclidean", "manhattan", "cosine"),
        cluster_method=draw.one("xi", "dbscan"),
        xi=draw.one(0.05, 0.3),
        predecessor_correction=draw.one(True, False),
        min_cluster_size=draw.one(None, 2, 0.5),
    ), X


MAKERS = (
    _gaussian, _mixture, _kmeans, _kernel_kmeans, _spectral, _dbscan, _mean_shift, _hdbscan, _agglomerative,
    _optics, _mixed_mixture, _k_prototypes,
)  # fmt: skip
MAKE = dict(zip(NAMES, MAKERS, strict=True))


def fit(name: str, seed: int) -> tuple[Any, Any] | None:
    """A fitted model and its data; None where the fit refuses the case."""
    draw = Draw(name, seed)
    model, X = MAKE[name](draw, draw.points())
    weights = draw.weights(X.shape[0])
    blocks = name in ("Gaussian", "GaussianMixture", "KMeans") and draw.one(False, False, False, True)
    batches = name == "KMeans" and draw.one(False, False, False, True)
    for w in (weights, None):  # where weights are refused, without
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if blocks:
                    model.fit_blocks(lambda w=w: iter([X if w is None else (X, w)]))
                elif batches:
                    model.partial_fit(X, sample_weight=w).partial_fit(X)
                else:
                    model.fit(X, **({} if w is None else {"sample_weight": w}))
            return model, X
        except Exception:  # what a fit refuses, and how, is the matter of other tests
            continue
    return None


def fits(name: str, count: int, first: int = 0) -> Iterator[tuple[int, Any, Any]]:
    """The fits of so many seeds."""
    for seed in range(first, first + count):
        found = fit(name, seed)
        if found is not None:
            yield seed, *found
