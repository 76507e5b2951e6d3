"""Each method in a comparison: the settings worth trying with the evidence for them, a fit at one of them, its scores.

A method has a proposer, which `knoll.registry` names. `propose` fits a few settings to the subsample (rows ordered by
content); `fit` fits one of them to as many rows as the plan allows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from knoll import scales, tuning
from knoll._typing import Floats, Ints
from knoll.base import collect_warnings
from knoll.comparison.density_summary import DensitySummary
from knoll.comparison.mixture_evidence import fit_mixtures
from knoll.comparison.result import Evidence
from knoll.comparison.scores import count_clusters
from knoll.comparison.spectrum import eigengap_evidence
from knoll.density.dbscan import DBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.exceptions import BadData, InvalidParameter, KnollError
from knoll.kernel_kmeans.estimator import KernelKMeans
from knoll.kmeans.estimator import KMeans
from knoll.mixture.estimator import GaussianMixture
from knoll.models import Relabeled
from knoll.spectral.estimator import SpectralClustering

FIT_ERRORS = (KnollError, ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError)

_N_INIT = 4  # of each fit with random initialisation
_N_NEIGHBORS = 10  # the default of SpectralClustering
_MAX_ROWS_NEIGHBORS = 100_000  # labelling a row by its neighbours takes 0.1 ms, by a kernel a twentieth of that
_EIGEN_TOL = 1e-4  # of residuals: labels and gaps need no more
_CORE_SHARES = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)  # shares of core points, from which ε is tried
_SMALLER_EPS = (0.9, 0.8, 0.7)  # factors of ε, tried where more rows merge clusters of the subsample
_SIGMA_FACTORS = (1.0, 2.0, 4.0)  # tried by kernel k-means
_QUANTILES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3)  # shares of the rows within a bandwidth that are tried


@dataclass(frozen=True)
class Subsample:
    """The rows that settings are chosen on."""

    points: Floats  # (m, d) scaled, ordered by content
    total: int  # rows of the whole table
    k: tuple[int, ...]  # numbers of clusters to try
    density: DensitySummary
    seed: int
    n_jobs: int | None
    required: bool = False  # whether an answer must have one of those numbers of clusters

    @property
    def suggested_k(self) -> int | None:
        """The number of clusters that the density suggests, if it is one to try."""
        return self.density.count if self.density.count in self.k else None

    @property
    def common_settings(self) -> dict[str, Any]:
        """The parameters of every estimator with random initialisation."""
        return {"n_init": _N_INIT, "random_state": self.seed, "n_jobs": self.n_jobs}


@dataclass(frozen=True)
class Proposal:
    """A setting, its labels of the subsample, and the evidence for it."""

    parameters: Mapping[str, Any]
    labels: Ints  # (m,)
    model: Any
    evidence: tuple[Evidence, ...]
    groups: tuple[int, ...] | None = None
    by_hand: bool = False  # whether scales were set by the user, and must not be adapted

    def relabeled(self, model: Any) -> Any:
        """Return a model at this setting with the clusters of this proposal for its labels."""
        return model if self.groups is None else Relabeled(model, self.groups)


def _proposal(model: Any, parameters: Mapping[str, Any], *evidence: Evidence, by_hand: bool = False) -> Proposal:
    return Proposal(parameters, model.labels_.astype(np.int64), model, evidence, by_hand=by_hand)


class Proposer(ABC):
    """A method in a comparison; the base class of all proposers. `overrides` are parameters set by the user."""

    estimator: ClassVar[Any]  # the class

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
    def propose(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Proposal]:
        """Yield a few settings, each fitted to the subsample."""

    def fit(self, chosen: Proposal, points: Floats, subsample: Subsample) -> Any:
        """Fit the chosen setting to more rows."""
        return self.estimator(**(chosen.model.get_params() | dict(chosen.parameters))).fit(points)

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


# ---- Gaussian mixture ----------------------------------------------------------------------------------------------


class MixtureProposer(Proposer):
    """Mixtures by BIC, with components merged as the density suggests."""

    estimator = GaussianMixture

    def propose(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Proposal]:
        density = subsample.density
        model, evidence = density.model, density.bic
        if model is None or evidence is None:  # the mixtures of the summary were not fitted to the table's columns
            model, evidence = self._mixture(subsample, overrides)
        components = tuple(range(int(model.n_components)))
        options: list[tuple[int, ...] | None] = [None]
        if "n_components" not in overrides and density.count > 1:
            options = [density.groups, _by_majority(model.labels_, density.labels, len(components)), None]
        counts = set()
        for groups in dict.fromkeys(None if groups == components else groups for groups in options):
            labels = model.labels_ if groups is None else Relabeled(model, groups).predict(subsample.points)
            counts.add(count_clusters(labels))
            parameters = self._parameters(model, overrides)
            yield Proposal(parameters, labels.astype(np.int64), model, (evidence,), groups)
        if subsample.required and "n_components" not in overrides and counts.isdisjoint(subsample.k):
            model, evidence = self._mixture(subsample, overrides, single=False)
            yield _proposal(model, self._parameters(model, overrides), evidence)

    def _mixture(self, subsample: Subsample, overrides: Mapping[str, Any], single: bool = True) -> tuple[Any, Evidence]:
        points, k, seed, n_jobs = subsample.points, subsample.k, subsample.seed, subsample.n_jobs
        return fit_mixtures(points, k, overrides, seed, n_jobs, single=single)

    def _parameters(self, model: Any, overrides: Mapping[str, Any]) -> dict[str, Any]:
        chosen = {"n_components": int(model.n_components), "covariance_type": model.covariance_type}
        return chosen | dict(overrides)

    def fit(self, chosen: Proposal, points: Floats, subsample: Subsample) -> Any:
        old = chosen.model
        weights = old.weights_ / old.weights_.sum() if old.noise_weight_ > 0 else old.weights_
        init = {"weights_init": weights, "means_init": old.means_, "precisions_init": old.precisions_, "n_init": 1}
        return GaussianMixture(**(old.get_params() | init)).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"log_likelihood_per_row": float(model.score(points)), "bic": float(model.bic(points))}


def _by_majority(components: NDArray[Any], labels: Ints, k: int) -> tuple[int, ...]:
    """Return the cluster of each component that most of its rows belong to; the first for an empty component."""
    groups = [int(np.bincount(labels[components == c], minlength=1).argmax()) for c in range(k)]
    return tuple(np.unique(groups, return_inverse=True)[1].tolist())


# ---- k-means -------------------------------------------------------------------------------------------------------


class KMeansProposer(Proposer):
    """Numbers of clusters by the mean silhouette and by the density."""

    estimator = KMeans

    def propose(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Proposal]:
        points = subsample.points
        requested = [int(overrides["n_clusters"])] if "n_clusters" in overrides else list(subsample.k)
        numbers = np.array([k for k in requested if k <= len(points)])
        if not len(numbers):
            raise BadData(
                f"n_clusters={requested[0]} exceeds the {len(points)} rows that parameters are chosen on. "
                "Reduce it, or increase the budget."
            )
        settings = subsample.common_settings | dict(overrides)
        models = {int(k): KMeans(**(settings | {"n_clusters": int(k)})).fit(points) for k in numbers}
        best, curve, reason = int(numbers[0]), {"silhouette": np.full(len(numbers), np.nan)}, "all rows are equal"
        if any(len(np.unique(model.labels_)) > 1 for model in models.values()):
            at, curve, reason = tuning._by_silhouette(
                points, None, numbers, list(models.values()), subsample.seed, subsample.n_jobs
            )
            best = int(numbers[at])
        for k in dict.fromkeys((best, subsample.suggested_k or best)):
            if k in models:
                why = f"{reason}." if k == best else f"The density suggests {k} clusters; {reason}."
                shown = Evidence(
                    "silhouette", "n_clusters", numbers.astype(float), curve, float(k), why, "clusters",
                    "mean silhouette",
                )  # fmt: skip
                yield _proposal(models[k], {"n_clusters": k} | dict(overrides), shown)

    def fit(self, chosen: Proposal, points: Floats, subsample: Subsample) -> Any:
        model = KMeans(**chosen.model.get_params())
        return model.set_params(init=chosen.model.cluster_centers_, n_init=1).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        total = _scatter(points, np.zeros(len(points), np.int64))
        return {"explained_variance": 1.0 - _scatter(points, labels) / total if total > 0 else 0.0}


def _scatter(points: Floats, labels: Ints) -> float:
    """Sum the squared distances to the means of the clusters."""
    return float(sum(((points[labels == c] - points[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)))


# ---- spectral clustering -------------------------------------------------------------------------------------------


def _sigma_evidence(estimate: scales.SigmaEstimate, sigma: float) -> Evidence:
    """Return the curve that σ is chosen from, with the reason for this value."""
    factor = sigma / estimate.sigma if estimate.sigma > 0 else 1.0
    if factor == 1:
        reason = f"σ = {sigma:.4g}: {estimate.reason}."
    elif factor in _SIGMA_FACTORS:
        reason = f"σ = {sigma:.4g}, {factor:.0f} times {estimate.sigma:.4g}: {estimate.reason}."
    else:
        reason = f"σ = {sigma:.4g} was set by hand; the estimate is {estimate.sigma:.4g}: {estimate.reason}."
    distances = {"distance": estimate.curve}
    return Evidence(
        "neighbour distances", "sigma", estimate.share, distances, 0.5, reason, "share of the rows", "distance"
    )


class SpectralProposer(Proposer):
    """σ from neighbour distances, k from the eigengap and the density."""

    estimator = SpectralClustering

    def propose(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Proposal]:
        settings = subsample.common_settings | {"eigen_tol": _EIGEN_TOL}
        estimate = scales.estimate_sigma(subsample.points, n_jobs=subsample.n_jobs)
        sigma = float(overrides.get("sigma", estimate.sigma))
        first = {"sigma": sigma, "n_clusters": "auto"} | dict(overrides)
        scale: tuple[Evidence, ...] = (_sigma_evidence(estimate, sigma),)
        if "affinity" in overrides or "gamma" in overrides:
            del first["sigma"]
            scale = ()
        auto = SpectralClustering(**(settings | first)).fit(subsample.points)
        found = int(auto.n_clusters_)
        k = subsample.suggested_k
        if (found == 1 and not subsample.required) or found in subsample.k or "n_clusters" in overrides:
            gap = eigengap_evidence(auto, found, auto, "widest gap")
            yield _proposal(auto, first | {"n_clusters": found}, *scale, gap)
        else:  # not one of the numbers to try: the largest gap among those
            gaps = auto.eigenvalues_[:-1] - auto.eigenvalues_[1:]
            allowed = [number for number in subsample.k if number <= len(gaps)]
            k = k or max(allowed, key=lambda number: float(gaps[number - 1]), default=subsample.k[0])
        if "n_clusters" in overrides or k is None:
            return
        for other in self._others(subsample, first | {"n_clusters": k}, overrides):
            if k == found and "affinity" not in other:
                continue  # it has been proposed
            model = SpectralClustering(**(settings | other)).fit(subsample.points)
            gap = eigengap_evidence(model, k, auto, "density" if k == subsample.suggested_k else "numbers to try")
            yield _proposal(model, other, *(scale if "sigma" in other else ()), gap)

    def _others(
        self, subsample: Subsample, first: dict[str, Any], overrides: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Yield the setting with this number of clusters, and one with a graph of nearest neighbours."""
        yield first
        if not {"sigma", "gamma", "affinity"} & set(overrides) and subsample.total <= _MAX_ROWS_NEIGHBORS:
            graph: dict[str, Any] = {name: value for name, value in first.items() if name != "sigma"}
            graph["affinity"] = "nearest_neighbors"
            if len(subsample.points) < 2 * _N_NEIGHBORS:  # halves of the rows must have as many, too
                graph["n_neighbors"] = max(2, len(subsample.points) // 2)
            yield graph

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"eigengap": float(model.eigengap_)}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        sigma = scales.estimate_sigma(points, n_jobs=n_jobs).sigma
        return SpectralClustering(n_clusters=k, sigma=sigma, n_init=_N_INIT, eigen_tol=_EIGEN_TOL, n_jobs=n_jobs)

    def residual(self, model: Any) -> float | None:
        return float(np.max(model.eigen_residual_))


# ---- kernel k-means ------------------------------------------------------------------------------------------------


class KernelKMeansProposer(Proposer):
    """σ from neighbour distances and multiples of it."""

    estimator = KernelKMeans

    def check(self, overrides: Mapping[str, Any]) -> None:
        super().check(overrides)
        KernelKMeans(**overrides)._kernel(1.0)

    def propose(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Proposal]:
        estimate = scales.estimate_sigma(subsample.points, n_jobs=subsample.n_jobs)
        k = int(overrides.get("n_clusters", subsample.suggested_k or subsample.k[0]))
        for factor in (1.0,) if {"sigma", "gamma", "kernel"} & set(overrides) else _SIGMA_FACTORS:
            chosen = {"n_clusters": k, "sigma": factor * estimate.sigma} | dict(overrides)
            shown: tuple[Evidence, ...] = (_sigma_evidence(estimate, float(chosen["sigma"])),)
            if "gamma" in overrides or "kernel" in overrides:
                del chosen["sigma"]
                shown = ()
            model = KernelKMeans(**(subsample.common_settings | chosen)).fit(subsample.points)
            yield _proposal(model, chosen, *shown)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"objective": float(model.objective_)}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        sigma = scales.estimate_sigma(points, n_jobs=n_jobs).sigma
        return KernelKMeans(n_clusters=k, sigma=sigma, n_init=_N_INIT, n_jobs=n_jobs)


# ---- DBSCAN --------------------------------------------------------------------------------------------------------


class DBSCANProposer(Proposer):
    """ε from the curve of k-distances."""

    estimator = DBSCAN

    def propose(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Proposal]:
        points = subsample.points
        min_samples = int(overrides.get("min_samples", _min_samples(points)))
        estimate = scales.estimate_eps(points, min_samples, n_jobs=subsample.n_jobs)
        tried = [float(overrides.get("eps", estimate.eps))]
        if "eps" not in overrides:
            tried += [float(np.quantile(estimate.curve, share)) for share in _CORE_SHARES]
        by_hand = bool({"eps", "min_samples"} & set(overrides))
        for eps in dict.fromkeys(eps for eps in tried if eps > 0):
            chosen = {"eps": eps, "min_samples": min_samples} | dict(overrides)
            share = float(np.searchsorted(estimate.curve, eps, side="right")) / len(estimate.curve)
            curve = Evidence(
                f"{min_samples}-distances", "eps", estimate.share, {"distance": estimate.curve}, share,
                f"{estimate.reason}; ε = {eps:.4g}.", "share of the rows", f"distance to {min_samples} rows",
            )  # fmt: skip
            model = DBSCAN(n_jobs=subsample.n_jobs, **chosen).fit(points)
            yield _proposal(model, chosen, curve, by_hand=by_hand)

    def fit(self, chosen: Proposal, points: Floats, subsample: Subsample) -> Any:
        if chosen.by_hand:
            return super().fit(chosen, points, subsample)
        # Keep the density threshold: min_samples grows with the number of rows. More rows may bridge the gaps between
        # clusters, so ε is reduced until there are as many clusters as in the subsample.
        settings = chosen.model.get_params()
        settings["min_samples"] = max(2, round(settings["min_samples"] * len(points) / len(subsample.points)))
        wanted, first = _large_clusters(chosen.labels), None
        for factor in (1.0, *_SMALLER_EPS) if len(points) > len(subsample.points) else (1.0,):
            model = DBSCAN(**(settings | {"eps": factor * settings["eps"]})).fit(points)
            first = first or model
            if _large_clusters(model.labels_) == wanted:
                return model
        return first

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"core_share": len(model.core_sample_indices_) / max(1, len(model.labels_))}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        min_samples = _min_samples(points)
        eps = scales.estimate_eps(points, min_samples, n_jobs=n_jobs).eps
        return DBSCAN(eps=eps if eps > 0 else 1.0, min_samples=min_samples, n_jobs=n_jobs)


def _min_samples(points: Floats) -> int:
    """Return twice the number of columns, where there are as many rows."""
    return min(max(2, 2 * points.shape[1]), len(points))


def _large_clusters(labels: NDArray[Any], min_rows: int = 1) -> int:
    """Count the clusters with at least 1 % of the rows."""
    return int((np.bincount(labels[labels >= 0], minlength=1) >= max(min_rows, 0.01 * len(labels))).sum())


# ---- Mean Shift ----------------------------------------------------------------------------------------------------


class MeanShiftProposer(Proposer):
    """Bandwidths by the share of rows within one."""

    estimator = MeanShift

    def propose(self, subsample: Subsample, overrides: Mapping[str, Any]) -> Iterator[Proposal]:
        if "bandwidth" in overrides:
            model = MeanShift(n_jobs=subsample.n_jobs, **overrides).fit(subsample.points)
            yield _proposal(model, dict(overrides))
            return
        reasons = self._bandwidths(subsample)
        models = [
            MeanShift(bandwidth=width, n_jobs=subsample.n_jobs, **overrides).fit(subsample.points) for width in reasons
        ]
        counts = np.array([float(_large_clusters(model.labels_, 2)) for model in models])
        x = np.array(list(reasons))
        for (width, reason), model, count in zip(reasons.items(), models, counts, strict=True):
            why = f"{reason}; {count:.0f} clusters have at least 1 % of the rows."
            curve = Evidence("clusters by bandwidth", "bandwidth", x, {"clusters": counts}, width, why, "bandwidth")
            yield _proposal(model, {"bandwidth": width} | dict(overrides), curve)

    def _bandwidths(self, subsample: Subsample) -> dict[float, str]:
        """Return the bandwidths to try, each with its reason."""
        points, n_jobs = subsample.points, subsample.n_jobs
        widths = {share: scales.estimate_bandwidth(points, quantile=share, n_jobs=n_jobs) for share in _QUANTILES}
        found = {
            float(width): f"a ball of radius {width:.4g} contains {100 * share:.0f} % of the rows on average"
            for share, width in widths.items()
            if width > 0
        }
        if found:
            return found
        width = 0.5 * scales.estimate_eps(points, min(2, len(points)), n_jobs=n_jobs).eps
        return {width: f"most rows have duplicates; {width:.4g} is half the distance to the nearest different row"}

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"peaks": float(len(model.cluster_centers_))}
