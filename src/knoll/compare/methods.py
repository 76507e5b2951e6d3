"""The six methods: settings worth trying, the evidence for them, and a fit at one of them.

Each method is an object with the same two functions. `propose` looks at the view (some rows, in order of content) and
yields settings with labels of the view; `fit` takes one setting to as many rows as the plan allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from knoll import scales, tuning
from knoll.compare.result import Evidence
from knoll.dbscan import DBSCAN
from knoll.gaussian_mixture import GaussianMixture
from knoll.kernel_kmeans import KernelKMeans
from knoll.kmeans import KMeans
from knoll.mean_shift import MeanShift
from knoll.spectral import SpectralClustering

__all__ = ["ALL", "Method", "Proposal", "View"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

_STARTS = 4  # of each fit that depends on a start
_GIVE_UP = 4  # numbers of components in a row that do not better BIC, after which a covariance type is left
_EIGEN_TOL = 1e-4  # of residuals: labels and gaps need no more
_QUANTILES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3)  # shares of the rows within a bandwidth that are tried


@dataclass(frozen=True)
class View:
    """The rows that settings are chosen on."""

    points: Floats  # (m, d) scaled, in order of content
    k: tuple[int, ...]  # numbers of clusters to try
    hills: int  # how many the density has; 1: none but the whole
    seed: int
    n_jobs: int | None


@dataclass(frozen=True)
class Proposal:
    """A setting, its labels of the view, and why it was tried."""

    parameters: Mapping[str, Any]
    labels: Labels  # (m,)
    model: Any
    evidence: tuple[Evidence, ...]
    groups: tuple[int, ...] | None = None


class Method(Protocol):
    """What every method can do."""

    estimator: Any  # its class

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        """Yield a few settings, each fitted to the view."""

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        """Fit the chosen setting to more rows."""


# ---- Gaussian mixture ----------------------------------------------------------------------------------------------


class _Mixture:
    estimator = GaussianMixture

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        fits, evidence = mixtures(view, given)
        model = min(fits, key=lambda pair: pair[0])[1]
        chosen = {"n_components": int(model.n_components), "covariance_type": model.covariance_type}
        yield Proposal(chosen | dict(given), model.labels_.astype(np.int64), model, (evidence,))

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        old = chosen.model
        model = GaussianMixture(**old.get_params())
        return model.set_params(
            weights_init=old.weights_, means_init=old.means_, precisions_init=old.precisions_, n_init=1
        ).fit(points)


def mixtures(view: View, given: Mapping[str, Any]) -> tuple[list[tuple[float, Any]], Evidence]:
    """Fit mixtures of every covariance type and number of components: (BIC, model) of each, and the curve."""
    points = view.points
    n, d = points.shape
    types = (given["covariance_type"],) if "covariance_type" in given else ("full", "tied", "diag", "spherical")
    numbers = [int(given["n_components"])] if "n_components" in given else [1, *view.k]
    rest = {name: value for name, value in given.items() if name not in ("covariance_type", "n_components")}
    curve = {name: np.full(len(numbers), np.nan) for name in types}
    fits = []
    for name in types:
        best, worse = np.inf, 0
        for at, k in enumerate(numbers):
            if k > 1 and (k * (d + 1) > n / 2 if name == "full" else k > n / 4):
                break  # fewer than two rows for each direction of a component: nothing to estimate it from
            settings = {"n_init": _STARTS if k > 1 else 1, "random_state": view.seed, "n_jobs": view.n_jobs}
            model = GaussianMixture(n_components=k, covariance_type=name, **(settings | rest)).fit(points)
            curve[name][at] = bic = float(model.bic(points))
            fits.append((bic, model))
            best, worse = min(best, bic), 0 if bic < best else worse + 1
            if worse >= _GIVE_UP:
                break
    bic, model = min(fits, key=lambda pair: pair[0])
    k, name = int(model.n_components), model.covariance_type
    reason = f"BIC is smallest for {k} {name} component{'s' if k > 1 else ''} ({bic:.6g})"
    others = [value for value, other in fits if other is not model]
    if others:
        reason += f"; the next best is {min(others) - bic:.3g} higher"
    if k == max(numbers) and len(numbers) > 1:
        reason += f"; {k} is the largest number tried"
    shown = {label: values for label, values in curve.items() if not np.isnan(values).all()}
    x = np.array(numbers, dtype=np.float64)
    return fits, Evidence("BIC", "n_components", x, shown, float(k), reason + ".", "components", "BIC")


# ---- k-means -------------------------------------------------------------------------------------------------------


class _KMeans:
    estimator = KMeans

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        points = view.points
        rest = {name: value for name, value in given.items() if name != "n_clusters"}
        numbers = [int(given["n_clusters"])] if "n_clusters" in given else list(view.k)
        numbers = [k for k in numbers if k <= len(points)]
        models, silhouette = {}, np.full(len(numbers), np.nan)
        for at, k in enumerate(numbers):
            settings = {"n_init": _STARTS, "random_state": view.seed, "n_jobs": view.n_jobs}
            models[k] = KMeans(n_clusters=k, **(settings | rest)).fit(points)
            if len(np.unique(models[k].labels_)) > 1:
                values = tuning.silhouette_samples(points, models[k].labels_, n_jobs=view.n_jobs)
                silhouette[at] = float(values.mean())
        best = numbers[int(np.nanargmax(silhouette))] if not np.isnan(silhouette).all() else numbers[0]
        reason = f"the mean silhouette is largest for {best} clusters ({np.nanmax(silhouette):.3f})."
        x = np.array(numbers, dtype=np.float64)
        for k in dict.fromkeys((best, view.hills)):
            if k not in models:
                continue
            why = reason if k == best else f"the density has {k} hills; {reason}"
            curve = Evidence(
                "silhouette", "n_clusters", x, {"silhouette": silhouette}, float(k), why, "clusters", "mean silhouette"
            )
            yield Proposal({"n_clusters": k} | dict(given), models[k].labels_.astype(np.int64), models[k], (curve,))

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        old = chosen.model
        model = KMeans(**old.get_params())
        return model.set_params(init=old.cluster_centers_, n_init=1).fit(points)


# ---- spectral clustering -------------------------------------------------------------------------------------------


class _Spectral:
    estimator = SpectralClustering

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        settings: dict[str, Any] = {
            "n_init": _STARTS, "random_state": view.seed, "n_jobs": view.n_jobs, "eigen_tol": _EIGEN_TOL,
        }  # fmt: skip
        estimate = scales.estimate_sigma(view.points, n_jobs=view.n_jobs)
        sigma = float(given.get("sigma", estimate.sigma))
        curve = Evidence(
            "neighbour distances", "sigma", estimate.share, {"distance": estimate.curve}, 0.5,
            f"σ = {sigma:.4g}: {estimate.reason}.", "share of the rows", "distance",
        )  # fmt: skip
        first = {"sigma": sigma, "n_clusters": "auto"} | dict(given)
        if "affinity" in given or "gamma" in given:
            del first["sigma"]
        auto = SpectralClustering(**(settings | first)).fit(view.points)
        found = int(auto.n_clusters_)
        gap = Evidence(
            "eigengap", "n_clusters", np.arange(1.0, len(auto.eigenvalues_) + 1), {"eigenvalue": auto.eigenvalues_},
            float(found), f"{auto.n_clusters_reason_}.", "number", "eigenvalue",
        )  # fmt: skip
        yield Proposal(first | {"n_clusters": found}, auto.labels_.astype(np.int64), auto, (curve, gap))
        if "n_clusters" not in given and view.hills not in (1, found):
            second = first | {"n_clusters": view.hills}
            model = SpectralClustering(**(settings | second)).fit(view.points)
            yield Proposal(second, model.labels_.astype(np.int64), model, (curve, gap))

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        return SpectralClustering(**(chosen.model.get_params() | {"n_clusters": chosen.parameters["n_clusters"]})).fit(
            points
        )


# ---- kernel k-means ------------------------------------------------------------------------------------------------


class _KernelKMeans:
    estimator = KernelKMeans

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        settings: dict[str, Any] = {"n_init": _STARTS, "random_state": view.seed, "n_jobs": view.n_jobs}
        estimate = scales.estimate_sigma(view.points, n_jobs=view.n_jobs)
        curve = Evidence(
            "neighbour distances", "sigma", estimate.share, {"distance": estimate.curve}, 0.5,
            f"σ is from {estimate.sigma:.4g}: {estimate.reason}.", "share of the rows", "distance",
        )  # fmt: skip
        k = int(given.get("n_clusters", max(2, view.hills)))
        for times in (1.0,) if {"sigma", "gamma", "kernel"} & set(given) else (1.0, 3.0):
            chosen = {"n_clusters": k, "sigma": times * estimate.sigma} | dict(given)
            if "gamma" in given or "kernel" in given:
                del chosen["sigma"]
            model = KernelKMeans(**(settings | chosen)).fit(view.points)
            yield Proposal(chosen, model.labels_.astype(np.int64), model, (curve,))

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        return KernelKMeans(**chosen.model.get_params()).fit(points)


# ---- DBSCAN --------------------------------------------------------------------------------------------------------


class _DBSCAN:
    estimator = DBSCAN

    def propose(self, view: View, given: Mapping[str, Any]) -> Iterator[Proposal]:
        points = view.points
        level = int(given.get("min_samples", min(max(2, 2 * points.shape[1]), len(points))))
        estimate = scales.estimate_eps(points, level, n_jobs=view.n_jobs)
        eps = float(given.get("eps", estimate.eps))
        tried = (eps,) if "eps" in given else tuple(dict.fromkeys((eps, 0.8 * eps, 0.6 * eps)))
        for radius in tried:
            chosen = {"eps": radius, "min_samples": level} | dict(given)
            share = float(np.searchsorted(estimate.curve, radius, side="right")) / len(estimate.curve)
            curve = Evidence(
                f"{level}-distances", "eps", estimate.share, {"distance": estimate.curve}, share,
                f"{estimate.reason}; ε = {radius:.4g}.", "share of the rows", f"distance to {level} rows",
            )  # fmt: skip
            model = DBSCAN(n_jobs=view.n_jobs, **chosen).fit(points)
            yield Proposal(chosen, model.labels_.astype(np.int64), model, (curve,))

    def fit(self, chosen: Proposal, points: Floats, view: View) -> Any:
        eps, level = chosen.parameters["eps"], chosen.parameters["min_samples"]
        inside = scales.k_distances(view.points, level, n_jobs=view.n_jobs) <= eps
        # more rows stand closer: the ε that makes the same share of them core points
        radius = float(np.quantile(scales.k_distances(points, level, n_jobs=view.n_jobs), inside.mean()))
        return DBSCAN(**(chosen.model.get_params() | {"eps": radius})).fit(points)


# ---- Mean Shift ----------------------------------------------------------------------------------------------------


class _MeanShift:
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


ALL: dict[str, Method] = {
    "gaussian-mixture": _Mixture(),
    "kmeans": _KMeans(),
    "kernel-kmeans": _KernelKMeans(),
    "spectral": _Spectral(),
    "dbscan": _DBSCAN(),
    "mean-shift": _MeanShift(),
}
