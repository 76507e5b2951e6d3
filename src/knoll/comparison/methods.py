"""What each method brings to a comparison: settings worth trying, the evidence for them, a fit at one of them, scores.

A method has a proposer, which `knoll.registry` names. `propose` looks at the view (some rows, in order of content) and
yields settings with labels of the view; `fit` takes one setting to as many rows as the plan allows.
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
from knoll.comparison.judge import count_clusters
from knoll.comparison.mixture import fit_mixtures
from knoll.comparison.result import Evidence
from knoll.comparison.spectrum import eigengap_evidence
from knoll.comparison.survey import Survey
from knoll.density.dbscan import DBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.exceptions import BadData, InvalidParameter, KnollError
from knoll.kernel_kmeans.estimator import KernelKMeans
from knoll.kmeans.estimator import KMeans
from knoll.mixture.estimator import GaussianMixture
from knoll.models import Relabeled
from knoll.spectral.estimator import SpectralClustering

__all__ = [
    "FIT_ERRORS",
    "DBSCANProposer",
    "KMeansProposer",
    "KernelKMeansProposer",
    "MeanShiftProposer",
    "MixtureProposer",
    "Proposal",
    "Proposer",
    "SpectralProposer",
    "View",
]


FIT_ERRORS = (KnollError, ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError)

_STARTS = 4  # of each fit that depends on a start
_NEIGHBOURS = 10  # of SpectralClustering, unless it is told otherwise
_NEIGHBOURS_UP_TO = 100_000  # rows: to label one by its neighbours takes some 0.1 ms, by a kernel a twentieth of it
_EIGEN_TOL = 1e-4  # of residuals: labels and gaps need no more
_CORE_SHARES = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)  # of the rows that an ε makes core points
_LESS = (0.9, 0.8, 0.7)  # of ε, where a larger table joins what the view parts
_WIDER = (2.0, 4.0)  # times σ that kernel k-means tries, too
_QUANTILES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3)  # shares of the rows within a bandwidth that are tried


@dataclass(frozen=True)
class View:
    """The rows that settings are chosen on."""

    points: Floats  # (m, d) scaled, in order of content
    total: int  # rows of the whole table
    k: tuple[int, ...]  # numbers of clusters to try
    survey: Survey  # what the density says
    seed: int
    n_jobs: int | None
    required: bool = False  # whether an answer must have one of those numbers of clusters

    @property
    def asked(self) -> int | None:
        """The number of clusters that the density suggests, where it is one to try."""
        return self.survey.count if self.survey.count in self.k else None


@dataclass(frozen=True)
class Proposal:
    """A setting, its labels of the view, and why it was tried."""

    parameters: Mapping[str, Any]
    labels: Ints  # (m,)
    model: Any
    evidence: tuple[Evidence, ...]
    groups: tuple[int, ...] | None = None
    by_hand: bool = False  # whether scales were given, and must stay as they are

    def relabeled(self, model: Any) -> Any:
        """Return a model at this setting with the clusters of this proposal for its labels."""
        return model if self.groups is None else Relabeled(model, self.groups)


class Proposer(ABC):
    """What a method brings to a comparison; the base of all proposers."""

    estimator: ClassVar[Any]  # the class

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse values by hand that no data could be fitted with."""
        self.estimator(**given)._check_parameters()
        if given.get("sigma") is not None and given.get("gamma") is not None:
            raise InvalidParameter("sigma and gamma = 1/(2σ²) say the same. Give one of them.")
        if all(isinstance(value, str | int | float | None) for value in given.values()):
            self._check_words({name: value for name, value in given.items() if isinstance(value, str)})

    def _check_words(self, words: Mapping[str, str]) -> None:
        """Fit a few rows with those values that are words: only that tells whether such a metric or start is known."""
        small = {name: 2 for name in ("n_clusters", "n_components") if name in self.estimator().get_params()}
        with collect_warnings():
            try:
                self.estimator(**(small | dict(words))).fit(np.eye(4))
            except InvalidParameter:
                raise
            except ValueError:  # of these rows, and not of the words
                pass

    @abstractmethod
    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        """Yield a few settings, each fitted to the view."""

    @abstractmethod
    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        """Fit the chosen setting to more rows."""

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        """Score an answer by what its own family optimises."""
        return {}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        """Make an estimator with settings like those to be chosen, to ask for its cost."""
        usual = {"n_clusters": k, "n_components": k, "n_init": _STARTS, "bandwidth": 1.0, "n_jobs": n_jobs}
        return self.estimator(**{name: usual[name] for name in self.estimator().get_params() if name in usual})

    def residual(self, model: Any) -> float | None:
        """Return the largest residual of the model's certificate, where it has one."""
        return None


# ---- Gaussian mixture ----------------------------------------------------------------------------------------------


class MixtureProposer(Proposer):
    """Mixtures by BIC, with components joined as the density suggests."""

    estimator = GaussianMixture

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        found = view.survey
        model, evidence = found.model, found.bic
        if model is None or evidence is None:  # the survey could not look at the columns as they are
            model, evidence = fit_mixtures(view.points, view.k, given, view.seed, view.n_jobs)
        chosen = {"n_components": int(model.n_components), "covariance_type": model.covariance_type} | dict(given)
        whole = tuple(range(int(model.n_components)))
        options: list[tuple[int, ...] | None] = [None]
        if "n_components" not in given and found.count > 1:
            options = [found.groups, _by_majority(model.labels_, found.labels, len(whole)), None]
        counts = set()
        for groups in dict.fromkeys(None if groups == whole else groups for groups in options):
            labels = model.labels_ if groups is None else Relabeled(model, groups).predict(view.points)
            counts.add(count_clusters(labels))
            yield Proposal(chosen, labels.astype(np.int64), model, (evidence,), groups)
        if view.required and "n_components" not in given and counts.isdisjoint(view.k):
            model, evidence = fit_mixtures(view.points, view.k, given, view.seed, view.n_jobs, single=False)
            chosen |= {"n_components": int(model.n_components), "covariance_type": model.covariance_type}
            yield Proposal(chosen, model.labels_.astype(np.int64), model, (evidence,))

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        old = chosen.model
        begun = {
            "weights_init": old.weights_,
            "means_init": old.means_,
            "precisions_init": old.precisions_,
            "n_init": 1,
        }
        if old.noise_weight_ > 0:
            begun["weights_init"] = old.weights_ / old.weights_.sum()
        return GaussianMixture(**(old.get_params() | begun)).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"log_likelihood_per_row": float(model.score(points)), "bic": float(model.bic(points))}


def _by_majority(components: NDArray[Any], labels: Ints, k: int) -> tuple[int, ...]:
    """Give each component the cluster that most of its rows lie in; an empty one joins the first."""
    groups = [int(np.bincount(labels[components == c], minlength=1).argmax()) for c in range(k)]
    return tuple(np.unique(groups, return_inverse=True)[1].tolist())


# ---- k-means -------------------------------------------------------------------------------------------------------


class KMeansProposer(Proposer):
    """Numbers of clusters by the mean silhouette and by the density."""

    estimator = KMeans

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        points = view.points
        rest = {name: value for name, value in given.items() if name != "n_clusters"}
        numbers = [int(given["n_clusters"])] if "n_clusters" in given else list(view.k)
        numbers = [k for k in numbers if k <= len(points)] or _refuse(numbers[0], len(points))
        models, silhouette = {}, np.full(len(numbers), np.nan)
        for at, k in enumerate(numbers):
            settings = {"n_init": _STARTS, "random_state": view.seed, "n_jobs": view.n_jobs}
            models[k] = KMeans(n_clusters=k, **(settings | rest)).fit(points)
            if len(np.unique(models[k].labels_)) > 1:
                values = tuning.silhouette_samples(points, models[k].labels_, n_jobs=view.n_jobs)
                silhouette[at] = float(values.mean())
        best, reason = numbers[0], "no two clusters were found that a silhouette could compare."
        if not np.isnan(silhouette).all():
            best = numbers[int(np.nanargmax(silhouette))]
            reason = f"the mean silhouette is largest for {best} clusters ({np.nanmax(silhouette):.3f})."
        x = np.array(numbers, dtype=np.float64)
        for k in dict.fromkeys((best, view.asked or best)):
            if k not in models:
                continue
            why = reason if k == best else f"The density suggests {k} clusters; {reason}"
            curve = Evidence(
                "silhouette", "n_clusters", x, {"silhouette": silhouette}, float(k), why, "clusters", "mean silhouette"
            )
            yield Proposal({"n_clusters": k} | dict(given), models[k].labels_.astype(np.int64), models[k], (curve,))

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        old = chosen.model
        model = KMeans(**old.get_params())
        return model.set_params(init=old.cluster_centers_, n_init=1).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        total = _scatter(points, np.zeros(len(points), np.int64))
        return {"explained_variance": 1.0 - _scatter(points, labels) / total if total > 0 else 0.0}


def _scatter(points: Floats, labels: Ints) -> float:
    """Sum the squared distances to the means of the clusters."""
    return float(sum(((points[labels == c] - points[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)))


def _refuse(k: int, m: int) -> list[int]:
    raise BadData(
        f"{k} clusters are more than the {m} rows that parameters are chosen on. Try fewer, or a larger budget."
    )


# ---- spectral clustering -------------------------------------------------------------------------------------------


def _sigma_evidence(estimate: scales.SigmaEstimate, sigma: float) -> Evidence:
    """Show the curve that σ is read from, and say how this one came from it."""
    times = sigma / estimate.sigma if estimate.sigma > 0 else 1.0
    if times == 1:
        reason = f"σ = {sigma:.4g}: {estimate.reason}."
    elif times in _WIDER:
        reason = f"σ = {sigma:.4g}, {times:.0f} times {estimate.sigma:.4g}: {estimate.reason}."
    else:
        reason = f"σ = {sigma:.4g} was set by hand; {estimate.sigma:.4g} would be usual: {estimate.reason}."
    distances = {"distance": estimate.curve}
    return Evidence(
        "neighbour distances", "sigma", estimate.share, distances, 0.5, reason, "share of the rows", "distance"
    )


class SpectralProposer(Proposer):
    """σ from neighbour distances, k from the eigengap and the density."""

    estimator = SpectralClustering

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        settings: dict[str, Any] = {
            "n_init": _STARTS, "random_state": view.seed, "n_jobs": view.n_jobs, "eigen_tol": _EIGEN_TOL,
        }  # fmt: skip
        estimate = scales.estimate_sigma(view.points, n_jobs=view.n_jobs)
        sigma = float(given.get("sigma", estimate.sigma))
        first = {"sigma": sigma, "n_clusters": "auto"} | dict(given)
        if "affinity" in given or "gamma" in given:
            del first["sigma"]
        auto = SpectralClustering(**(settings | first)).fit(view.points)
        found = int(auto.n_clusters_)
        wanted = view.asked
        scale = () if "affinity" in given or "gamma" in given else (_sigma_evidence(estimate, sigma),)
        if (found == 1 and not view.required) or found in view.k or "n_clusters" in given:
            gap = eigengap_evidence(auto, found, auto, "widest gap")
            yield Proposal(first | {"n_clusters": found}, auto.labels_.astype(np.int64), auto, (*scale, gap))
        else:  # a number that was not to be tried: the largest gap of those that were
            gaps = auto.eigenvalues_[:-1] - auto.eigenvalues_[1:]
            allowed = [k for k in view.k if k <= len(gaps)]
            wanted = wanted or max(allowed, key=lambda k: float(gaps[k - 1]), default=view.k[0])
        if "n_clusters" in given or wanted is None:
            return
        others = [first | {"n_clusters": wanted}]
        if not {"sigma", "gamma", "affinity"} & set(given) and view.total <= _NEIGHBOURS_UP_TO:
            near = {"affinity": "nearest_neighbors", "n_clusters": wanted}
            if len(view.points) < 2 * _NEIGHBOURS:  # halves of the rows must have so many, too
                near["n_neighbors"] = max(2, len(view.points) // 2)
            others.append({name: value for name, value in first.items() if name != "sigma"} | near)
        for other in others:
            if other["n_clusters"] == found and "affinity" not in other:
                continue  # it has been proposed
            model = SpectralClustering(**(settings | other)).fit(view.points)
            gap = eigengap_evidence(model, wanted, auto, "density" if wanted == view.asked else "numbers to try")
            shown = (*scale, gap) if "sigma" in other else (gap,)
            yield Proposal(other, model.labels_.astype(np.int64), model, shown)

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        return SpectralClustering(**(chosen.model.get_params() | {"n_clusters": chosen.parameters["n_clusters"]})).fit(
            points
        )

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"eigengap": float(model.eigengap_)}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        sigma = scales.estimate_sigma(points, n_jobs=n_jobs).sigma
        return SpectralClustering(n_clusters=k, sigma=sigma, n_init=_STARTS, eigen_tol=_EIGEN_TOL, n_jobs=n_jobs)

    def residual(self, model: Any) -> float | None:
        return float(np.max(model.eigen_residual_))


# ---- kernel k-means ------------------------------------------------------------------------------------------------


class KernelKMeansProposer(Proposer):
    """σ from neighbour distances and multiples of it."""

    estimator = KernelKMeans

    def check(self, given: Mapping[str, Any]) -> None:
        super().check(given)
        KernelKMeans(**given)._kernel(1.0)

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        settings: dict[str, Any] = {"n_init": _STARTS, "random_state": view.seed, "n_jobs": view.n_jobs}
        estimate = scales.estimate_sigma(view.points, n_jobs=view.n_jobs)
        k = int(given.get("n_clusters", view.asked or view.k[0]))
        for times in (1.0,) if {"sigma", "gamma", "kernel"} & set(given) else (1.0, *_WIDER):
            chosen = {"n_clusters": k, "sigma": times * estimate.sigma} | dict(given)
            shown: tuple[Evidence, ...] = (_sigma_evidence(estimate, float(chosen["sigma"])),)
            if "gamma" in given or "kernel" in given:
                del chosen["sigma"]
                shown = ()
            model = KernelKMeans(**(settings | chosen)).fit(view.points)
            yield Proposal(chosen, model.labels_.astype(np.int64), model, shown)

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        return KernelKMeans(**chosen.model.get_params()).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"objective": float(model.objective_)}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        sigma = scales.estimate_sigma(points, n_jobs=n_jobs).sigma
        return KernelKMeans(n_clusters=k, sigma=sigma, n_init=_STARTS, n_jobs=n_jobs)


# ---- DBSCAN --------------------------------------------------------------------------------------------------------


class DBSCANProposer(Proposer):
    """ε from the curve of k-distances."""

    estimator = DBSCAN

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        points = view.points
        level = int(given.get("min_samples", min(max(2, 2 * points.shape[1]), len(points))))
        estimate = scales.estimate_eps(points, level, n_jobs=view.n_jobs)
        eps = float(given.get("eps", estimate.eps))
        tried = [eps]
        if "eps" not in given:
            tried += [float(np.quantile(estimate.curve, share)) for share in _CORE_SHARES]
        for radius in dict.fromkeys(tried):
            if not radius > 0:
                continue
            chosen = {"eps": radius, "min_samples": level} | dict(given)
            share = float(np.searchsorted(estimate.curve, radius, side="right")) / len(estimate.curve)
            curve = Evidence(
                f"{level}-distances", "eps", estimate.share, {"distance": estimate.curve}, share,
                f"{estimate.reason}; ε = {radius:.4g}.", "share of the rows", f"distance to {level} rows",
            )  # fmt: skip
            model = DBSCAN(n_jobs=view.n_jobs, **chosen).fit(points)
            by_hand = bool({"eps", "min_samples"} & set(given))
            yield Proposal(chosen, model.labels_.astype(np.int64), model, (curve,), by_hand=by_hand)

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        settings = chosen.model.get_params()
        if chosen.by_hand:
            return DBSCAN(**settings).fit(points)
        # The same density: as many more rows within ε as there are more rows. Thin places between clusters may fill
        # with rows, so take a smaller ε until there are as many clusters as there were in the view.
        settings["min_samples"] = max(2, round(settings["min_samples"] * len(points) / len(view.points)))
        wanted, first = _large_clusters(chosen.labels), None
        for less in (1.0, *_LESS) if len(points) > len(view.points) else (1.0,):
            model = DBSCAN(**(settings | {"eps": less * settings["eps"]})).fit(points)
            first = first or model
            if _large_clusters(model.labels_) == wanted:
                return model
        return first

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"core_share": len(model.core_sample_indices_) / max(1, len(model.labels_))}

    def typical(self, points: Floats, k: int, n_jobs: int | None) -> Any:
        level = min(max(2, 2 * points.shape[1]), len(points))
        eps = scales.estimate_eps(points, level, n_jobs=n_jobs).eps
        return DBSCAN(eps=eps if eps > 0 else 1.0, min_samples=level, n_jobs=n_jobs)


def _large_clusters(labels: NDArray[Any]) -> int:
    """Count the clusters that hold a hundredth of the rows."""
    return int((np.bincount(labels[labels >= 0], minlength=1) >= 0.01 * len(labels)).sum())


# ---- Mean Shift ----------------------------------------------------------------------------------------------------


class MeanShiftProposer(Proposer):
    """Bandwidths by the share of rows within one."""

    estimator = MeanShift

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        points = view.points
        if "bandwidth" in given:
            model = MeanShift(n_jobs=view.n_jobs, **given).fit(points)
            yield Proposal(dict(given), model.labels_.astype(np.int64), model, ())
            return
        widths, counts, models = [], [], []
        for quantile in _QUANTILES:
            width = scales.estimate_bandwidth(points, quantile=quantile, n_jobs=view.n_jobs)
            if not width > 0:
                continue
            model = MeanShift(bandwidth=width, n_jobs=view.n_jobs, **given).fit(points)
            sizes = np.bincount(model.labels_[model.labels_ >= 0], minlength=1)
            widths.append(width)
            counts.append(int((sizes >= max(2, 0.01 * len(points))).sum()))
            models.append(model)
        if not models:  # most rows have copies, so that every ball holds enough at once
            width = 0.5 * scales.estimate_eps(points, min(2, len(points)), n_jobs=view.n_jobs).eps
            model = MeanShift(bandwidth=width, n_jobs=view.n_jobs, **given).fit(points)
            reason = f"most rows have copies; {width:.4g} is half the distance to the next place."
            place = np.array([width])
            curve = Evidence(
                "clusters by bandwidth",
                "bandwidth",
                place,
                {"clusters": np.array([float(_large_clusters(model.labels_))])},
                width,
                reason,
            )
            yield Proposal({"bandwidth": width} | dict(given), model.labels_.astype(np.int64), model, (curve,))
        x, y = np.array(widths), np.array(counts, dtype=np.float64)
        for at in range(len(models)):
            reason = (
                f"a ball of {widths[at]:.4g} holds {100 * _QUANTILES[at]:.0f} % of the rows on average; "
                f"{counts[at]} clusters hold a hundredth of the rows or more."
            )
            curve = Evidence("clusters by bandwidth", "bandwidth", x, {"clusters": y}, widths[at], reason, "bandwidth")
            chosen = {"bandwidth": widths[at]} | dict(given)
            yield Proposal(chosen, models[at].labels_.astype(np.int64), models[at], (curve,))

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        return MeanShift(**chosen.model.get_params()).fit(points)

    def scores(self, model: Any, points: Floats, labels: Ints) -> dict[str, float]:
        return {"peaks": float(len(model.cluster_centers_))}
