"""The curve that a parameter is dragged on: what every value of it would give, from the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from knoll import tuning
from knoll._typing import Floats
from knoll.base import collect_warnings
from knoll.density.mean_shift import MeanShift
from knoll.density.tree import DensityTree
from knoll.exceptions import InvalidParameter
from knoll.explorer.methods import method_of
from knoll.explorer.source import SAMPLE
from knoll.hierarchy.agglomerative import AgglomerativeClustering
from knoll.scales import estimate_bandwidth
from knoll.spectral.estimator import SpectralClustering

if TYPE_CHECKING:
    from knoll.explorer.session import Session

__all__ = ["curve"]

_POINTS = 256  # of a curve over ε
_NUMBERS = range(1, 13)  # of components
_CLUSTERS = range(2, 16)
_SIZES, _FEW_SIZES = 24, 10  # least sizes of a cluster that are tried; fewer for many rows
_MANY = 100_000
_BANDWIDTHS, _BANDWIDTH_ROWS = 16, 1000
_MERGES = 30

Found = tuple[dict[str, Any], dict[str, Floats]]


def curve(session: Session, method: str | None = None, parameter: str = "", parameters: Any = None) -> Found:
    """Return the curve of a parameter, given the others, and the value that it suggests."""
    found, values = session.fits.settings(method, dict(parameters or {}) | _without_estimate(method))
    make = _CURVES.get((found.name, parameter))
    if make is None:
        known = ", ".join(f"{name}.{one}" for name, one in _CURVES)
        raise InvalidParameter(f"there is no curve of {parameter!r:.60} for {found.name}. There are: {known}.")
    with collect_warnings():
        facts, x, y = make(session, values)
    usual = {
        "name": facts["y_label"],
        "parameter": parameter,
        "x_label": parameter,
        "log_x": False,
        "rows": len(session.source),
    }
    arrays = {"x": np.asarray(x, dtype=np.float64), "y": np.array([np.asarray(one, np.float64) for one in y.values()])}
    arrays["y"][~np.isfinite(arrays["y"])] = np.nan
    return usual | facts | {"curves": list(y)}, arrays


def _without_estimate(method: str | None) -> dict[str, Any]:
    return {"eps": 1.0} if method_of(method).name == "dbscan" else {}  # any, so that none is estimated


Curve = tuple[dict[str, Any], Any, dict[str, Any]]


def _eps(session: Session, values: Mapping[str, Any]) -> Curve:
    """The number of clusters and the share of rows that are not core at every ε, from the density tree of all rows."""
    tree = session.fits.tree(int(values["min_samples"]))
    assert tree is not None
    core = np.sort(tree.core_distances_)
    core = core[np.isfinite(core)]
    suggested = session.fits.suggested_eps(int(values["min_samples"]))
    positive = core[core > 0]
    low = float(positive[len(positive) // 100]) / 2 if len(positive) else suggested / 10
    high = max(4 * float(core[-1 - len(core) // 1000]) if len(core) else 0.0, 2 * suggested)
    x = np.geomspace(min(low, suggested / 2), high, _POINTS)
    steps = tree.curves()
    at = np.searchsorted(steps.eps, x, side="right") - 1
    before = at < 0
    y = {
        "clusters": np.where(before, 0, steps.clusters[at]),
        "share not core": 1.0 - np.searchsorted(core, x, side="right") / len(tree.core_distances_),
    }
    reason = f"{suggested:.3g} is the knee of the sorted distances to the {values['min_samples']}th row."
    y_label = "clusters, rows that are not core"
    return {"suggested": suggested, "reason": reason, "log_x": True, "y_label": y_label}, x, y


def _least_size(session: Session, values: Mapping[str, Any]) -> Curve:
    source = session.source
    n = len(source)
    tree = session.fits.tree(int(values["min_samples"] or values["min_cluster_size"]))
    assert tree is not None
    x = np.unique(np.geomspace(2, max(3, n // 4), _SIZES if n <= _MANY else _FEW_SIZES).astype(np.int64))
    found = [_of_size(tree, int(size)) for size in x]
    clusters, noise = np.array([one[0] for one in found]), np.array([one[1] for one in found])
    at = _longest_run(clusters)
    reason = f"{clusters[at]} clusters stay over the longest range of sizes."
    facts = {"suggested": int(x[at]), "reason": reason, "log_x": True, "y_label": "clusters and noise"}
    return facts, x, {"clusters": clusters, "noise": noise}


def _of_size(tree: DensityTree, size: int) -> tuple[int, float]:
    condensed = tree.condense(size)
    labels = condensed.select(condensed.eom()).labels
    return int(labels.max(initial=-1)) + 1, float((labels < 0).mean())


def _longest_run(clusters: Any) -> int:
    """Return the middle of the longest run of equal numbers above one, or of any."""
    best, at, begin = 0.0, 0, 0
    for end in range(1, len(clusters) + 1):
        if end == len(clusters) or clusters[end] != clusters[begin]:
            length = (end - begin) * (1 if clusters[begin] > 1 else 0.01)
            if length > best:
                best, at = length, (begin + end - 1) // 2
            begin = end
    return at


def _sample(session: Session, size: int = SAMPLE) -> Floats:
    source = session.source
    return np.ascontiguousarray(source.points[source.sample(size)])


def _components(session: Session, values: Mapping[str, Any]) -> Curve:
    points = _sample(session)
    options: dict[str, Any] = {
        "covariance_types": (values["covariance_type"],),
        "n_init": 1,
        "reg_covar": values["reg_covar"],
    }
    numbers = [k for k in _NUMBERS if k <= len(points)]
    found = tuning.choose_n_components(points, numbers, random_state=session.source.seed, **options)
    y = {f"BIC, {name}": one for name, one in found.curve.items()}
    return (
        {"suggested": int(found.best), "reason": found.reason, "y_label": "BIC", "rows": len(points)},
        found.candidates,
        y,
    )


def _clusters(session: Session, values: Mapping[str, Any]) -> Curve:
    points = _sample(session)
    numbers = [k for k in _CLUSTERS if k < len(points)]
    found = tuning.choose_n_clusters(points, numbers, n_init=2, random_state=session.source.seed)
    y = {"silhouette": found.curve["silhouette"]}
    facts = {"suggested": int(found.best), "reason": found.reason, "y_label": "silhouette", "rows": len(points)}
    return facts, found.candidates, y


def _eigengap(session: Session, values: Mapping[str, Any]) -> Curve:
    points = _sample(session)
    count = min(15, len(points) - 1)
    options = {name: values[name] for name in ("affinity", "sigma", "n_neighbors")}
    model = SpectralClustering(count, n_components=count, n_init=1, random_state=session.source.seed, **options).fit(
        points
    )
    found = tuning.eigengap(model.eigenvalues_, n_samples=len(points))
    x = np.arange(1, len(model.eigenvalues_) + 1)
    facts = {"suggested": int(found.best), "reason": found.reason, "y_label": "eigenvalue", "rows": len(points)}
    return facts, x, {"eigenvalue": model.eigenvalues_}


def _bandwidth(session: Session, values: Mapping[str, Any]) -> Curve:
    points = _sample(session, _BANDWIDTH_ROWS)
    middle = float(estimate_bandwidth(points)) or 1.0
    x = middle * np.geomspace(0.1, 4, _BANDWIDTHS)
    counts = [len(MeanShift(bandwidth=float(h), kernel=values["kernel"]).fit(points).cluster_centers_) for h in x]
    clusters = np.array(counts)
    at = _longest_run(clusters)
    reason = f"{clusters[at]} modes stay over the longest range of bandwidths."
    facts = {"suggested": float(x[at]), "reason": reason, "log_x": True, "y_label": "modes", "rows": len(points)}
    return facts, x, {"modes": clusters}


def _merges(session: Session, values: Mapping[str, Any]) -> Curve:
    points = _sample(session)
    model = AgglomerativeClustering(2, linkage=values["linkage"], compute_distances=True).fit(points)
    last = np.asarray(model.distances_)[::-1][: min(_MERGES, len(points) - 1)]  # of 2 → 1 clusters, of 3 → 2, …
    x = np.arange(2, len(last) + 2)
    jumps = last[:-1] - last[1:]
    at = int(np.argmax(jumps)) if len(jumps) else 0
    reason = f"the largest jump of the merges is that from {x[at]} clusters to {x[at] - 1}."
    facts = {"suggested": int(x[at]), "reason": reason, "y_label": "distance of the merge", "rows": len(points)}
    return facts, x, {"distance of the merge": last}


_CURVES: dict[tuple[str, str], Callable[[Session, Mapping[str, Any]], Curve]] = {
    ("dbscan", "eps"): _eps,
    ("hdbscan", "min_cluster_size"): _least_size,
    ("gaussian-mixture", "n_components"): _components,
    ("kmeans", "n_clusters"): _clusters,
    ("spectral", "n_clusters"): _eigengap,
    ("mean-shift", "bandwidth"): _bandwidth,
    ("agglomerative", "n_clusters"): _merges,
}
