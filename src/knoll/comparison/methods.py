"""Each method in a comparison: its answers at every number of clusters, and a model of one of them for more rows.

A method has a proposer, which `knoll.registry` names. `propose` yields answers for the subsample (in order of content);
what is shared between them, such as an eigenproblem or a tree, is computed once. `fit` fits one of the
answers to more rows. Where no estimator gives exactly that answer, `knoll.neighbors.NearestRows` is its model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from knoll import scales
from knoll._common.cancel import raise_if_cancelled
from knoll._common.rescale import times_power
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.comparison.subsample import Subsample
from knoll.comparison.tree_levels import labels_at, levels
from knoll.density.dbscan import DBSCAN
from knoll.density.hdbscan import HDBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.density.partitions import genie_hierarchy
from knoll.exceptions import BadData, InvalidParameter, KnollError
from knoll.gaussian.covariance import COVARIANCE_TYPES, compared_types
from knoll.hierarchy.agglomerative import AgglomerativeClustering
from knoll.hierarchy.linkages import tree_of
from knoll.hierarchy.merges import cut
from knoll.kernel_kmeans.estimator import KernelKMeans
from knoll.kernels.operators import SparseOperator
from knoll.kmeans.estimator import KMeans
from knoll.mixture.estimator import GaussianMixture
from knoll.models import Relabeled
from knoll.neighbors import NearestRows
from knoll.registry import METHODS
from knoll.spectral import embed
from knoll.spectral.estimator import SpectralClustering
from knoll.spectral.graph import sparse_components

__all__ = ["FIT_ERRORS", "Partition", "Proposer", "numbers_to_try", "propose_all"]

FIT_ERRORS = (KnollError, ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError)

_N_INIT = 2  # of k-means
_EM_STEPS = 25
_REG_COVAR = 1e-5  # of the variance of standardised columns
_MOST_RESTRICTED = 21  # components of mixtures of the poorer types
_DENSE_GRAPH = 700  # rows up to which all eigenpairs of the graph are computed
_EIGEN_TOL = 1e-3  # of residuals: labels need no more
_DIGITS = 9  # of eigenvectors: the last bits depend on the instruction set, and k-means draws its starts by all bits
_MOST_BY_HAND = 10  # clusters, of settings that share nothing
_SIGMA_FACTORS = (1.0, 3.0)  # tried by kernel k-means
_QUANTILES = (0.01, 0.03, 0.06, 0.1, 0.2, 0.3)  # shares of the rows within a bandwidth
_MANY_COLUMNS = 32  # of Mean Shift: with more of them, fewer bandwidths
_EVERY_LEVEL = 60  # clusters up to which DBSCAN has an answer for each number
_SMALL_SIZES = (0.25, 0.5)  # of the mean size of many small clusters, for HDBSCAN
_SIZES = (0.01, 0.02, 0.04, 0.08, 0.15)  # of the smallest cluster of HDBSCAN, as shares of the rows
_LEAST = 0.005  # of the rows: smaller clusters of Mean Shift are joined to their neighbours


@dataclass(frozen=True)
class Partition:
    """An answer for the rows of the subsample."""

    source: str  # the method, or the variant of it
    labels: Ints  # (m,) −1: noise
    parameters: Mapping[str, Any]
    model: Any = None  # fitted to the subsample, if it is there already
    groups: tuple[int, ...] | None = None  # the cluster of each component, if components were joined
    fixed: bool = False  # whether the user has set parameters
    filled: bool = False  # whether noise rows have the cluster of the nearest clustered row
    method: str = ""  # the name in the registry

    @property
    def n_clusters(self) -> int:
        """The number of clusters, without noise."""
        return int(self.labels.max(initial=-1)) + 1

    def with_groups(self, model: Any) -> Any:
        """Return a model at this setting with the clusters of this answer for its labels."""
        return model if self.groups is None else Relabeled(model, self.groups)


class Proposer(ABC):
    """A method in a comparison; the base class of all proposers. `overrides` are parameters set by the user."""

    estimator: ClassVar[Any]  # the class
    mixed: ClassVar[bool] = False  # whether it takes typed rows, with categories and missing values

    def check(self, overrides: Mapping[str, Any]) -> None:
        """Raise an error for values that are invalid for any data."""
        self.estimator(**overrides)._check_parameters()
        if overrides.get("sigma") is not None and overrides.get("gamma") is not None:
            raise InvalidParameter("sigma and gamma = 1/(2σ²) are the same parameter. Set one of them.")
        if all(isinstance(value, str | int | float | None) for value in overrides.values()):
            self._check_strings({name: value for name, value in overrides.items() if isinstance(value, str)})

    def _check_strings(self, values: Mapping[str, str]) -> None:
        """Fit a few rows with the values that are strings: only a fit shows whether a metric or init is known."""
        small = {name: 2 for name in ("n_clusters", "n_components") if name in self.estimator().get_params()}
        with collect_warnings():
            try:
                self.estimator(**(small | dict(values))).fit(np.eye(4))
            except InvalidParameter:
                raise
            except ValueError:  # caused by these rows, not by the values
                pass

    @abstractmethod
    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        """Yield answers for the subsample, with these numbers of clusters where the method takes a number."""

    def rows(self, subsample: Subsample) -> Floats:
        """Return the rows of a subsample that the method takes: scaled numbers, or typed rows."""
        return subsample.points

    def fit(self, chosen: Partition, points: Floats, subsample: Subsample) -> Any:
        """Fit the setting of an answer to other rows than the subsample."""
        return self.estimator(**(self.settings(subsample) | dict(chosen.parameters))).fit(points)

    def settings(self, subsample: Subsample) -> dict[str, Any]:
        """Return the parameters that every fit has."""
        usual = {"n_init": _N_INIT, "random_state": subsample.seed, "n_jobs": subsample.threads}
        return {name: value for name, value in usual.items() if name in self.estimator().get_params()}

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        """Score an answer by the objective of its own family."""
        return {}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        """Make an estimator with typical settings, to estimate its cost."""
        usual = {"n_clusters": k, "n_components": k, "n_init": _N_INIT, "bandwidth": 1.0, "n_jobs": n_jobs}
        return self.estimator(**{name: usual[name] for name in self.estimator().get_params() if name in usual})

    def residual(self, model: Any) -> float | None:
        """Return the largest residual of the model's certificate, if it has one."""
        return None

    def predict_seconds(self, rows: int, fitted: int, columns: int) -> float:
        """Estimate the time to label so many rows by a model of the fitted ones, where that is much."""
        return 0.0


def numbers_to_try(name: str, numbers: Sequence[int], overrides: Mapping[str, Any], rows: int) -> list[int]:
    """Return the numbers of clusters to try: the one that the user has set, or those that the rows allow."""
    if name not in overrides:
        return [k for k in numbers if k <= rows]
    k = int(overrides[name])
    if k > rows:
        raise BadData(
            f"{name}={k} exceeds the {rows} rows that parameters are chosen on. Reduce it, or increase the budget."
        )
    return [k]


# ---- Gaussian mixture ----------------------------------------------------------------------------------------------


class MixtureProposer(Proposer):
    """Mixtures of three covariance types, and the best of them by BIC with components joined one after the other."""

    estimator: ClassVar[Any] = GaussianMixture
    prefix: ClassVar[str] = "mixture"  # of its sources

    def types(self, subsample: Subsample) -> Sequence[str]:
        """Return the covariance types, from the richest on."""
        return compared_types("numbers")

    def joins(self, name: str, types: Sequence[str]) -> bool:
        """Whether components of the best mixture of a type are joined."""
        return name == types[0]

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        points = self.rows(subsample)
        types = (overrides["covariance_type"],) if "covariance_type" in overrides else self.types(subsample)
        tried = numbers_to_try("n_components", numbers, overrides, subsample.n)
        done: set[int] = set()
        for name in types:
            best, model = np.inf, None
            for k in self._numbers(name, types, tried, done, *points.shape):
                try:
                    fitted = self.estimator(**self._settings(subsample, name, k, overrides)).fit(points)
                except FIT_ERRORS:
                    if len(tried) == 1:
                        raise
                    continue
                yield self._partition(f"{self.prefix}-{name}", fitted, overrides)
                done.add(k)
                bic = float(fitted.bic(points))
                if bic < best:
                    best, model = bic, fitted
            if model is not None and self.joins(name, types) and "n_components" not in overrides:
                yield from self._joined(subsample, model, overrides)

    def _numbers(
        self, name: str, types: Sequence[str], tried: Sequence[int], done: set[int], n: int, d: int
    ) -> list[int]:
        """Return the numbers of components that the rows allow; the last type takes those that no other could."""
        most = max(tried) if name == types[0] else _MOST_RESTRICTED
        few = name == types[-1]
        return [
            k for k in tried if (k <= most and not _too_many(name, k, n, d)) or (few and k not in done and k <= most)
        ]

    def _settings(self, subsample: Subsample, name: str, k: int, overrides: Mapping[str, Any]) -> dict[str, Any]:
        usual = {"max_iter": _EM_STEPS, "reg_covar": _small_variance(subsample)}
        usual |= {"random_state": subsample.seed, "n_jobs": subsample.threads}
        return usual | dict(overrides) | {"n_components": k, "covariance_type": name}

    def _partition(self, source: str, model: Any, overrides: Mapping[str, Any], **more: Any) -> Partition:
        chosen = {"n_components": int(model.n_components), "covariance_type": model.covariance_type}
        labels = more.pop("labels", model.labels_)
        return Partition(source, labels.astype(np.int64), chosen | dict(overrides), model, **more)

    def _joined(self, subsample: Subsample, model: Any, overrides: Mapping[str, Any]) -> Iterator[Partition]:
        """Join the two components whose union lowers the entropy of the assignment most, and so on (Baudry 2010)."""
        shares = np.asarray(model.predict_proba(self.rows(subsample)), dtype=np.float64)[:, : int(model.n_components)]
        groups = np.arange(shares.shape[1])
        gain = _entropy_gains(shares)
        while shares.shape[1] > 2:
            raise_if_cancelled()
            a, b = (int(i) for i in np.unravel_index(int(np.argmax(gain)), gain.shape))
            shares[:, a] += shares[:, b]
            shares = np.delete(shares, b, axis=1)
            gain = np.delete(np.delete(gain, b, axis=0), b, axis=1)
            gain[a, a + 1 :], gain[:a, a] = _gains_of(shares, a)  # the others stay
            groups[groups == b] = a
            groups[groups > b] -= 1
            labels = np.where(model.labels_ < 0, -1, shares.argmax(axis=1))
            joined = tuple(int(group) for group in groups)
            yield self._partition(f"{self.prefix}-joined", model, overrides, labels=labels, groups=joined)

    def fit(self, chosen: Partition, points: Floats, subsample: Subsample) -> Any:
        old = chosen.model
        weights = old.weights_ / old.weights_.sum() if old.noise_weight_ > 0 else old.weights_
        init = {"weights_init": weights, "means_init": old.means_, "precisions_init": old.precisions_, "n_init": 1}
        return GaussianMixture(**(old.get_params() | init)).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"log_likelihood_per_row": float(model.score(points)), "bic": float(model.bic(points))}


def _small_variance(subsample: Subsample) -> float:
    """Return what mixtures add to variances: 1e-5, less where unscaled columns have a mean variance below ½.

    Then it is 1e-5 times the power of 4 nearest to that variance, so that small units do not blur the clusters.
    """
    variance = float(subsample.unit_points.var(axis=0).mean())
    if not variance > 0:
        return _REG_COVAR
    return float(times_power(_REG_COVAR, 2 * min(0, round(math.log2(variance) / 2) + subsample.power)))


def _too_many(covariance_type: str, k: int, n: int, d: int) -> bool:
    """Whether there are fewer than four rows for each direction of the parameters."""
    return COVARIANCE_TYPES[covariance_type].n_parameters(k, d) / d + k > n / 4


def _entropy_gains(shares: Floats) -> Floats:
    """Return by how much the entropy falls if two columns are added, for each pair (a, b) with a < b."""
    k = shares.shape[1]
    gain = np.full((k, k), -np.inf)
    for a in range(k - 1):
        raise_if_cancelled()
        gain[a, a + 1 :] = _gains_of(shares[:, a:], 0)[0]
    return gain


def _gains_of(shares: Floats, a: int) -> tuple[Floats, Floats]:
    """Return by how much the entropy falls if a column is added to each later one, and to each earlier one."""
    gain = _entropy(shares[:, a : a + 1]) + _entropy(shares) - _entropy(shares[:, a : a + 1] + shares)
    return gain[a + 1 :], gain[:a]


def _entropy(shares: Floats) -> Floats:
    return np.asarray(-(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=0))


# ---- k-means -------------------------------------------------------------------------------------------------------


class KMeansProposer(Proposer):
    """k-means for every number of clusters."""

    estimator = KMeans

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        for k in numbers_to_try("n_clusters", numbers, overrides, subsample.n):
            model = KMeans(**(self.settings(subsample) | dict(overrides) | {"n_clusters": k})).fit(subsample.points)
            yield Partition("kmeans", model.labels_.astype(np.int64), {"n_clusters": k} | dict(overrides), model)

    def fit(self, chosen: Partition, points: Floats, subsample: Subsample) -> Any:
        model = KMeans(**chosen.model.get_params())
        return model.set_params(init=chosen.model.cluster_centers_, n_init=1).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        total = _scatter(points, np.zeros(len(points), np.int64))
        return {"explained_variance": 1.0 - _scatter(points, labels) / total if total > 0 else 0.0}


def _scatter(points: Floats, labels: Ints) -> float:
    """Sum the squared distances to the means of the clusters."""
    return float(sum(((points[labels == c] - points[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)))


# ---- spectral clustering -------------------------------------------------------------------------------------------


class SpectralProposer(Proposer):
    """Spectral clustering of the graph of ten neighbours: one eigenproblem for every number of clusters."""

    estimator = SpectralClustering

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        tried = numbers_to_try("n_clusters", numbers, overrides, subsample.n)
        if overrides:
            yield from self._by_hand(subsample, tried, overrides)
            return
        vectors = spectral_vectors(subsample, max(tried))
        for k in tried:
            rows = vectors[:, :k]
            length = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = np.ascontiguousarray(np.round(rows / np.where(length > 0, length, 1.0), _DIGITS))
            model = KMeans(n_clusters=k, n_init=_N_INIT, random_state=subsample.seed, n_jobs=subsample.threads).fit(
                rows
            )
            chosen = {"n_clusters": k, "affinity": "nearest_neighbors"}
            yield Partition("spectral", model.labels_.astype(np.int64), chosen)

    def _by_hand(self, subsample: Subsample, tried: Sequence[int], overrides: Mapping[str, Any]) -> Iterator[Partition]:
        for k in tried:
            if k > _MOST_BY_HAND and len(tried) > 1:
                break
            chosen = {"n_clusters": k} | dict(overrides)
            model = SpectralClustering(**(self.settings(subsample) | chosen)).fit(subsample.points)
            yield Partition("spectral", model.labels_.astype(np.int64), chosen, model)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"eigengap": float(model.eigengap_)}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        return SpectralClustering(n_clusters=k, affinity="nearest_neighbors", n_init=_N_INIT, n_jobs=n_jobs)

    def residual(self, model: Any) -> float | None:
        return float(np.max(model.eigen_residual_))

    def predict_seconds(self, rows: int, fitted: int, columns: int) -> float:
        return 3e-9 * rows * fitted * columns  # several searches of neighbours, each of all distances at worst


def spectral_vectors(subsample: Subsample, count: int) -> Floats:
    """Return the first eigenvectors of the normalised graph, (m, count)."""
    graph, n = subsample.graph, subsample.n
    labels = sparse_components(graph)
    if n <= _DENSE_GRAPH:
        return embed.dense_spectrum(graph.toarray(), labels, np.ones(n), count, subsample.threads)[0].vectors
    operator = SparseOperator(graph, symmetric=True)
    options: dict[str, Any] = {"tol": _EIGEN_TOL, "max_applications": 10_000, "seed": subsample.seed}
    return embed.sparse_spectrum(operator, graph, labels, count, threads=subsample.threads, gap=False, **options)[
        0
    ].vectors


# ---- kernel k-means ------------------------------------------------------------------------------------------------


class KernelKMeansProposer(Proposer):
    """Kernel k-means with σ from neighbour distances, and a multiple of it."""

    estimator = KernelKMeans

    def check(self, overrides: Mapping[str, Any]) -> None:
        super().check(overrides)
        KernelKMeans(**overrides)._kernel(1.0)

    def settings(self, subsample: Subsample) -> dict[str, Any]:
        return super().settings(subsample) | {"n_init": 1}

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        by_hand = bool({"sigma", "gamma", "kernel"} & set(overrides))
        sigma = 0.0 if by_hand else scales.estimate_sigma(subsample.points, n_jobs=subsample.threads).sigma
        tried = numbers_to_try("n_clusters", numbers, overrides, subsample.n)
        for factor in (1.0,) if by_hand or not sigma > 0 else _SIGMA_FACTORS:
            scale = {"sigma": factor * sigma} if sigma > 0 else {}
            for k in tried:
                if k > _MOST_BY_HAND and len(tried) > 1:
                    break
                chosen = {"n_clusters": k} | scale | dict(overrides)
                model = KernelKMeans(**(self.settings(subsample) | chosen)).fit(subsample.points)
                yield Partition("kernel-kmeans", model.labels_.astype(np.int64), chosen, model)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"objective": float(model.objective_)}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        sigma = scales.estimate_sigma(points, n_jobs=n_jobs).sigma
        return KernelKMeans(n_clusters=k, sigma=sigma, n_init=1, n_jobs=n_jobs)


# ---- density -------------------------------------------------------------------------------------------------------


def _with_noise_filled(subsample: Subsample, one: Partition) -> Iterator[Partition]:
    """Yield an answer, and the same with noise rows in the cluster of the nearest clustered row."""
    yield one
    if (one.labels < 0).any() and (one.labels >= 0).any():
        labels = subsample.filled(one.labels)
        yield Partition(one.source, labels, {**one.parameters, "noise": "nearest"}, filled=True)


def _subset(found: dict[int, float], numbers: Sequence[int]) -> dict[int, float]:
    """Keep the levels with up to 60 clusters, and of more clusters those with a number that is tried."""
    return {k: eps for k, eps in found.items() if k <= _EVERY_LEVEL or k in numbers}


class DBSCANProposer(Proposer):
    """DBSCAN at the levels of its density trees: for each number of clusters the ε that keeps them longest."""

    estimator = DBSCAN

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        if overrides:
            yield from self._by_hand(subsample, overrides)
            return
        most = max(numbers)
        for min_samples, tree in subsample.trees.items():
            condensed = tree.condense(subsample.least_size)
            source = "single-linkage" if min_samples == 1 else "dbscan"
            for eps in _subset(levels(condensed, most), numbers).values():
                chosen = {"eps": eps, "min_samples": min_samples}
                yield from _with_noise_filled(subsample, Partition(source, labels_at(condensed, eps), chosen))

    def _by_hand(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Partition]:
        min_samples = int(overrides.get("min_samples", min(5, subsample.n)))
        eps = overrides.get("eps")
        if eps is None:
            eps = scales.estimate_eps(subsample.points, min_samples, n_jobs=subsample.threads).eps or 1.0
        chosen = {"eps": float(eps), "min_samples": min_samples} | dict(overrides)
        model = DBSCAN(**(self.settings(subsample) | chosen)).fit(subsample.points)
        yield Partition("dbscan", model.labels_.astype(np.int64), chosen, model)

    def fit(self, chosen: Partition, points: Floats, subsample: Subsample) -> Any:
        """Fit to more rows at the same density threshold: min_samples grows with their number."""
        settings = self.settings(subsample) | dict(chosen.parameters)
        settings["min_samples"] = max(1, round(settings["min_samples"] * len(points) / subsample.n))
        return DBSCAN(**settings).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"core_share": len(model.core_sample_indices_) / max(1, len(model.labels_))}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        min_samples = min(5, len(points))
        eps = scales.estimate_eps(points, min_samples, n_jobs=n_jobs).eps
        return DBSCAN(eps=eps if eps > 0 else 1.0, min_samples=min_samples, n_jobs=n_jobs)


def _sizes(subsample: Subsample) -> list[int]:
    """Return the least sizes of a cluster that HDBSCAN tries."""
    small = tuple(share / subsample.many for share in _SMALL_SIZES) if subsample.many else ()
    return list(dict.fromkeys(max(4, round(share * subsample.n)) for share in (*small, *_SIZES)))


class HDBSCANProposer(Proposer):
    """HDBSCAN for several sizes of the smallest cluster, from two density trees."""

    estimator = HDBSCAN

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        if overrides:
            yield from self._by_hand(subsample, overrides)
            return
        sizes = _sizes(subsample)
        for min_samples in (s for s in subsample.trees if s > 1):
            for size in sizes:
                condensed = subsample.trees[min_samples].condense(size)
                for how, chosen in (("eom", condensed.eom()), ("leaf", condensed.leaves())):
                    if how == "leaf" and min_samples > 5:
                        continue
                    labels = condensed.select(chosen).labels
                    setting = {"min_cluster_size": size, "min_samples": min_samples, "cluster_selection_method": how}
                    source = "hdbscan" if how == "eom" else "hdbscan-leaf"
                    yield from _with_noise_filled(subsample, Partition(source, labels, setting))

    def _by_hand(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Partition]:
        for size in _sizes(subsample):
            chosen = {"min_cluster_size": size, "min_samples": 5} | dict(overrides)
            model = HDBSCAN(**(self.settings(subsample) | chosen)).fit(subsample.points)
            yield Partition("hdbscan", model.labels_.astype(np.int64), chosen, model)
            if "min_cluster_size" in overrides:
                break

    def fit(self, chosen: Partition, points: Floats, subsample: Subsample) -> Any:
        """Fit to more rows: the least size grows with them. Lists of more neighbours would need too much memory."""
        settings = self.settings(subsample) | dict(chosen.parameters)
        settings["min_cluster_size"] = max(2, round(settings["min_cluster_size"] * len(points) / subsample.n))
        return HDBSCAN(**settings).fit(points)


class GenieProposer(Proposer):
    """Genie: single linkage that does not let clusters become too unequal, for every number of clusters."""

    estimator = NearestRows

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        for min_samples, thresholds in ((1, (0.1, 0.3, 0.5)), (5, (0.3,))):
            if min_samples not in subsample.trees:
                continue
            for threshold in thresholds:
                hierarchy = genie_hierarchy(subsample.trees[min_samples], threshold)
                for k in _up_to(numbers, len(hierarchy.order)):
                    setting = {"n_clusters": k, "gini": threshold, "min_samples": min_samples}
                    yield Partition("genie", hierarchy.labels(k), setting)


class LinkageProposer(Proposer):
    """Ward's and average linkage, cut at every number of clusters."""

    estimator = AgglomerativeClustering

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        tried = numbers_to_try("n_clusters", numbers, overrides, subsample.n)
        if set(overrides) - {"linkage", "n_clusters"}:
            yield from self._by_hand(subsample, tried, overrides)
            return
        for name in (overrides["linkage"],) if "linkage" in overrides else ("ward", "average"):
            tree = tree_of(subsample.points, None, name, "euclidean", subsample.threads)
            for k in tried:
                yield Partition(
                    name, cut(tree.children, subsample.n, subsample.n - k), {"n_clusters": k, "linkage": name}
                )

    def _by_hand(self, subsample: Subsample, tried: Sequence[int], overrides: Mapping[str, Any]) -> Iterator[Partition]:
        for k in tried:
            chosen = {"n_clusters": k} | dict(overrides)
            model = AgglomerativeClustering(**(self.settings(subsample) | chosen)).fit(subsample.points)
            yield Partition(str(model.linkage), model.labels_.astype(np.int64), chosen)


def _up_to(numbers: Sequence[int], most: int) -> list[int]:
    return [k for k in numbers if k <= most]


class MeanShiftProposer(Proposer):
    """Mean Shift with bandwidths by the share of rows within one."""

    estimator = MeanShift

    def propose(
        self, subsample: Subsample, numbers: Sequence[int], overrides: Mapping[str, Any]
    ) -> Iterator[Partition]:
        if "bandwidth" in overrides:
            yield self._partition(subsample, float(overrides["bandwidth"]), overrides, least=1)
            return
        shares = _QUANTILES if subsample.points.shape[1] <= _MANY_COLUMNS else _QUANTILES[-2:]
        widths = [
            float(scales.estimate_bandwidth(subsample.points, quantile=q, n_jobs=subsample.threads)) for q in shares
        ]
        if not max(widths) > 0:  # most rows are equal: half of the standard deviation
            widths = [0.5 * float(np.sqrt(subsample.points.var(axis=0).sum()))]
        for width in dict.fromkeys(width for width in widths if width > 0):
            yield self._partition(subsample, width, overrides, least=max(2, round(_LEAST * subsample.n)))

    def _partition(self, subsample: Subsample, width: float, overrides: Mapping[str, Any], least: int) -> Partition:
        chosen = {"bandwidth": width} | dict(overrides)
        model = MeanShift(**(self.settings(subsample) | chosen)).fit(subsample.points)
        labels = model.labels_.astype(np.int64)
        if (labels >= 0).any():
            small = np.bincount(labels[labels >= 0])[np.maximum(labels, 0)] < least
            kept = np.where((labels >= 0) & small, -1, labels)
            labels = subsample.filled(kept) if (kept >= 0).any() and least > 1 else labels
        return Partition("mean-shift", labels, chosen, model)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"peaks": float(len(model.cluster_centers_))}


def propose_all(subsample: Subsample, numbers: Sequence[int], names: Iterable[str]) -> list[Partition]:
    """Collect the answers of these methods; one that cannot be fitted to these rows has none."""
    found: list[Partition] = []
    with collect_warnings():
        for name in names:
            try:
                proposed = METHODS[name].make_proposer().propose(subsample, numbers, {})
                found += (replace(one, method=name) for one in proposed)
            except FIT_ERRORS:
                continue
    return found
