"""Forged models: one field of a real one changed, its check sum right; run with a number of changes and a seed.

Every file must be refused by the reader, or be a model whose every method answers or raises knoll's own error. Prints
the counts as JSON; what went wrong is listed with its change.
"""

from __future__ import annotations

import collections
import importlib.util
import itertools
import json
import os
import re
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

import knoll
from knoll import models
from knoll.exceptions import KnollError

_spec = importlib.util.spec_from_file_location("files", Path(__file__).with_name("files.py"))
files = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(files)

ROWS = np.random.default_rng(5).normal(size=(30, 3)) + 6.0 * np.arange(3).repeat(10)[:, None]
WEIGHTS = np.arange(30) % 3 + 0.0  # every third row is absent
K = np.exp(-((ROWS[:, None] - ROWS[None]) ** 2).sum(axis=2) / 8)
NEAR = scipy.sparse.csr_array(np.where(K > 0.05, K, 0.0))
FAR = scipy.sparse.csr_array(np.where(K > 0.05, 1 - K, 0.0))
METHODS = (
    "predict", "predict_proba", "transform", "score_samples", "score", "mahalanobis", "predict_kind", "aic", "bic",
    "icl", "paths", "sample", "ellipse", "normalized_cut_", "objective_", "eigengap_", "affinity_matrix_",
    "get_feature_names_out", "partial_fit", "predict_strength", "predict_outliers", "membership_vectors",
    "outlier_scores_", "cluster_persistence_", "bands", "curves", "to_scipy", "layers", "attach",
)  # fmt: skip


def cases() -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, estimator, data, weights: the variants that keep other things than usual."""
    M, S, D = knoll.GaussianMixture, knoll.SpectralClustering, knoll.DBSCAN
    yield "gaussian", knoll.Gaussian(random_state=0), ROWS, WEIGHTS
    yield "gaussian-singular", knoll.Gaussian(random_state=0), np.c_[ROWS, ROWS[:, 0]], None
    for shape in ("full", "tied", "diag", "spherical"):
        yield f"mixture-{shape}", M(3, covariance_type=shape, random_state=0), ROWS, None
    yield "mixture-fixed", M(3, covariance_type="fixed", fixed_variance=1.0, random_state=0), ROWS, WEIGHTS
    yield "mixture-noise", M(2, noise=True, random_state=0), ROWS, None
    yield "mixture-names", M(2, random_state=0), pd.DataFrame(ROWS, columns=["a", "b", "c"]), None
    yield "kmeans", knoll.KMeans(3, random_state=0), ROWS, WEIGHTS
    yield "kmeans-float32", knoll.KMeans(3, random_state=0), ROWS.astype(np.float32), None
    mixed = np.column_stack([np.where(ROWS < -2, np.nan, ROWS), np.arange(len(ROWS)) % 3])
    table = pd.DataFrame(mixed[:, :3], columns=["a", "b", "c"]).assign(d=list("xyz") * 10)
    for shape in ("full", "tied", "diag", "spherical"):
        model = knoll.MixedMixture(2, categorical_features=[3], covariance_type=shape, random_state=0)
        yield f"mixed-{shape}", model, mixed, WEIGHTS
    yield "mixed-numbers", knoll.MixedMixture(2, random_state=0), ROWS, None
    yield "prototypes", knoll.KPrototypes(3, categorical_features=[3], random_state=0), mixed, WEIGHTS
    yield "kernel", knoll.KernelKMeans(3, sigma=2.0, random_state=0), ROWS, WEIGHTS
    yield "kernel-open", knoll.KernelKMeans(3, random_state=0), ROWS, None
    yield "kernel-heaviside", knoll.KernelKMeans(3, kernel="heaviside", eps=3.0, random_state=0), ROWS, None
    yield "kernel-poly", knoll.KernelKMeans(3, kernel="poly", random_state=0), ROWS, None
    yield "kernel-precomputed", knoll.KernelKMeans(3, kernel="precomputed", random_state=0), K, WEIGHTS
    yield (
        "kernel-indefinite",
        knoll.KernelKMeans(3, kernel="precomputed", random_state=0),
        NEAR - 0.6 * np.eye(30),
        None,
    )
    yield "spectral", S(3, sigma=2.0, random_state=0), ROWS, WEIGHTS
    yield "spectral-discretize", S(3, assign_labels="discretize", random_state=0), ROWS, None
    yield "spectral-qr", S(3, assign_labels="cluster_qr", operator="tiles", random_state=0), ROWS, None
    yield "spectral-neighbours", S(3, affinity="nearest_neighbors", n_neighbors=5, random_state=0), ROWS, None
    yield "spectral-precomputed", S(3, affinity="precomputed", random_state=0), K, None
    yield "spectral-sparse", S(3, affinity="precomputed", zero_diagonal=True, random_state=0), NEAR, None
    near = S(3, affinity="precomputed_nearest_neighbors", n_neighbors=5, random_state=0)
    yield "spectral-distances", near, 1 - K, None
    yield "spectral-sigmoid", S(3, affinity="laplacian", kernel_params={"gamma": 0.1}, random_state=0), ROWS, None
    yield "dbscan", D(1.5), ROWS, WEIGHTS
    yield "dbscan-first", D(1.5, border="first"), ROWS, None
    yield "dbscan-noise", D(1.5, border="noise"), ROWS, WEIGHTS
    yield "dbscan-sparse", D(1.5), scipy.sparse.csr_array(ROWS), None
    yield "dbscan-climbing", D(1.5, formulation="climbing"), ROWS, WEIGHTS
    yield "dbscan-minkowski", D(1.5, metric="minkowski", p=1.5), ROWS, None
    yield "dbscan-canberra", D(0.2, metric="canberra"), ROWS, None
    yield "dbscan-precomputed", D(0.5, metric="precomputed"), 1 - K, WEIGHTS
    yield "dbscan-graph", D(0.5, metric="precomputed"), FAR, None
    yield "dbscan-positions", D(0.1, metric="haversine"), ROWS[:, :2] / 20, WEIGHTS
    yield "dbscan-gower", D(0.2, metric="gower"), table, WEIGHTS
    yield "kernel-gower", knoll.KernelKMeans(3, kernel="gower", random_state=0), table, WEIGHTS
    yield "spectral-gower", S(3, affinity="gower", random_state=0), table, None
    H = knoll.HDBSCAN
    yield "hdbscan-gower", H(metric="gower"), table, WEIGHTS
    yield "hdbscan-cosine", H(metric="cosine"), ROWS, None
    yield "optics-gower", knoll.OPTICS(metric="gower"), table, None
    yield "agglomerative-gower", knoll.AgglomerativeClustering(3, metric="gower", linkage="average"), table, None
    yield "tree", knoll.DensityTree(min_samples=3), ROWS, WEIGHTS
    yield "tree-gower", knoll.DensityTree(min_samples=3, metric="gower"), table, None
    yield "hdbscan", H(min_samples=3, store_centers="both"), ROWS, WEIGHTS
    yield "hdbscan-nearest", H(noise="nearest", allow_single_cluster=True), ROWS, None
    yield "hdbscan-sparse", H(min_samples=2), scipy.sparse.csr_array(ROWS), None
    yield "hdbscan-canberra", H(metric="canberra"), ROWS, WEIGHTS
    yield "hdbscan-precomputed", H(metric="precomputed"), 1 - K, WEIGHTS
    yield "agglomerative", knoll.AgglomerativeClustering(3, compute_distances=True), ROWS, WEIGHTS
    yield "agglomerative-average", knoll.AgglomerativeClustering(3, linkage="average"), ROWS, None
    yield "optics", knoll.OPTICS(), ROWS, None
    yield "optics-dbscan", knoll.OPTICS(cluster_method="dbscan", eps=2.0), ROWS, None
    yield "mean-shift", knoll.MeanShift(bandwidth=3.0), ROWS, WEIGHTS
    yield "mean-shift-gaussian", knoll.MeanShift(bandwidth=3.0, kernel="gaussian", max_iter=20), ROWS, None
    yield "mean-shift-nearest", knoll.MeanShift(bandwidth=3.0, assign="nearest", cluster_all=False), ROWS, None


# ---- changes --------------------------------------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    -1, 0, 1, 3, 30, 10**6, 2**31, 2**62, 2**70, -(2**63), 1e308, 1e-308, 0.5, -0.5, True, None, "", "kmeans", "graph",
    "precomputed", "full", {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"list": [1, 2]}, {"mapping": {}},
    {"mapping": {"gamma": "wide", "p": "far"}}, {"mapping": {"nonsense": 1}}, {"mapping": {"gamma": {"float": "nan"}}},
)  # fmt: skip


def changes_of(array: np.ndarray, random: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """The same array, wrong: in type, shape, order, or an entry."""
    flat = np.ascontiguousarray(array).reshape(-1)
    for dtype in ("<f4", "<f2", "<f8", "<i8", "<i4", "|u1", "|b1", "<c16", "<U3"):
        if np.dtype(dtype) != array.dtype and array.dtype.kind != "U":
            with np.errstate(all="ignore"):
                yield dtype, array.astype(dtype)
    yield "flat", flat
    yield "empty", array[:0] if array.ndim else flat[:0]
    yield "halved", flat[: max(1, flat.size // 2)]
    yield "doubled", np.concatenate([flat, flat])
    yield "deeper", array[..., None]
    yield "transposed", array.T
    yield "columns first", np.asfortranarray(array)
    if array.ndim:
        yield "shorter", array[:-1]
        yield "longer", np.concatenate([array, array[:1]])
        yield "reversed", array[::-1]
        yield "permuted", array[random.permutation(len(array))]
    if array.ndim > 1:
        yield "narrower", array[..., :-1]
    entries: tuple[Any, ...] = ()
    if array.dtype.kind in "iu":
        top = np.iinfo(array.dtype)
        entries = (-1 if top.min < 0 else 0, 0, len(flat), 10**6, top.max, top.min)
    elif array.dtype.kind == "f":
        entries = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, 1e-308, 1e30)
    elif array.dtype.kind == "b":
        entries = (False, True)
    with np.errstate(all="ignore"):
        for entry in entries:
            yield f"all {entry}", np.full_like(array, entry)
            if flat.size:
                one = flat.copy()
                one[random.integers(flat.size)] = entry
                yield f"one {entry}", one.reshape(array.shape)


def lies(header: dict[str, Any], arrays: dict[str, Any], random: Any) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Every change of one field: (what, header, arrays)."""
    for name, array in arrays.items():
        for what, changed in changes_of(array, random):
            yield f"{name} {what}", header, {**arrays, name: changed}
    for section in ("parameters", "fitted"):
        for name in header[section]:
            without = {key: value for key, value in header[section].items() if key != name}
            used = {key for key in arrays if key != f"{section}.{name}" and not key.startswith(f"{section}.{name}.")}
            left = {key: array for key, array in arrays.items() if key in used}
            yield f"{name} deleted", {**header, section: without}, left
            for value in VALUES:
                yield f"{name} = {value!r}", {**header, section: {**header[section], name: value}}, left
    for first, second in itertools.combinations(arrays, 2):  # two arrays exchanged
        yield f"{first} <-> {second}", header, {**arrays, first: arrays[second], second: arrays[first]}


# ---- what a model answers -------------------------------------------------------------------------------------------


def answers(model: Any, X: Any, complain: Callable[[str, Exception], None]) -> None:
    """Call everything; report what is not knoll's own error."""
    queries = X[:6]
    for name in METHODS:
        if name.endswith("_") and not hasattr(type(model), name):
            continue  # a fitted attribute of another class
        if not hasattr(type(model), name):
            continue
        try:
            answer = getattr(model, name)
            if not callable(answer):
                continue
            if name == "sample":
                answer(5, random_state=0)
            elif name in ("get_feature_names_out", "ellipse", "bands", "curves", "to_scipy", "layers"):
                answer()
            else:
                answer(queries)
        except KnollError:
            pass
        except Exception as error:
            complain(name, error)
    try:
        models.save(model, "again.knoll")
    except KnollError:
        pass
    except Exception as error:
        complain("save", error)


def main(most: int, seed: int, only: str) -> None:
    """Try at most so many changes of each case."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if sys.platform == "linux":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30),) * 2)  # no lie may cost more memory than this
    counts: collections.Counter[str] = collections.Counter()
    faults: dict[str, list[str]] = {}
    random = np.random.default_rng(seed)
    for case, model, X, weights in cases():
        if not re.search(only, case):
            continue
        state = model.fit(X, **({} if weights is None else {"sample_weight": weights})).to_state()
        every = list(lies(*state, random))
        chosen = every if len(every) <= most else [every[i] for i in random.permutation(len(every))[:most]]
        for what, header, arrays in chosen:
            Path("lie.knoll").write_bytes(files.of_state(header, arrays))
            try:
                liar = models.read("lie.knoll").estimator
            except KnollError:
                counts["refused"] += 1
                continue
            except Exception as error:
                faults.setdefault(f"read: {type(error).__name__}: {error}"[:150], []).append(f"{case}: {what}")
                continue
            counts["read"] += 1

            def complain(method: str, error: Exception, what: str = what, case: str = case) -> None:
                key = f"{case.split('-')[0]} {method}: {type(error).__name__}: {error}"
                faults.setdefault(key[:150], []).append(f"{case}: {what}")

            answers(liar, X, complain)
    print(json.dumps({**counts, "faults": faults}, ensure_ascii=False, default=str))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
