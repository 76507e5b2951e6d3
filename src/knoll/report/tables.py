"""The paper's six tables: its statements, knoll's behaviour, and the results on the tour's data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from knoll import datasets
from knoll.density.dbscan import DBSCAN
from knoll.density.mean_shift import MeanShift
from knoll.kmeans.estimator import KMeans
from knoll.mixture.estimator import GaussianMixture
from knoll.report import fits
from knoll.spectral.estimator import SpectralClustering


@dataclass(frozen=True)
class Table:
    """A numbered table; the first cell of a row names it."""

    number: int
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


_PROPERTIES = ("Number of hyperparameters", "Hyperparameters", "Time complexity", "Outlier detection",
               "Type of assignment", "Distance or similarity")  # fmt: skip

# Tables 1 to 5: for each property what the paper states and what knoll does
_STATEMENTS = {
    "EM-GMM": (
        ("1", "1"),
        ("number of components k", "n_components; tuning.choose_n_components takes it from BIC"),
        ("O(nd²kT + d²·⁸⁰⁷kT)", "O(nd²kT + d³kT): one Cholesky factor per component"),
        ("no", "on request: noise=True adds a uniform component"),
        ("soft", "soft (predict_proba) and hard (predict)"),
        ("Mahalanobis", "M² + log |Σ| − 2 log π, which the largest responsibility minimises"),
    ),
    "k-means": (
        ("1", "1"),
        ("number of clusters k", "n_clusters; tuning.choose_n_clusters takes it from the data"),
        ("O(ndkT)", "O(ndkT) at most: bounds omit most distances, labels stay the same"),
        ("no", "no"),
        ("hard", "hard"),
        ("Euclidean", "Euclidean"),
    ),
    "Spectral clustering (Ng, Jordan and Weiss)": (
        ("2", "2, both with a rule that takes them from the data"),
        ("k, width σ", 'n_clusters ("auto": the eigengap), sigma (None: from the data)'),
        ("O(n²d)", "O(n²d + n²kT_eig): k ≪ d never holds in the plane, and the solver iterates"),
        ("no", "no"),
        ("hard", "hard"),
        ("Gaussian kernel", "Gaussian kernel, or any other, or a graph"),
    ),
    "DBSCAN": (
        ("2", "2"),
        ("radius ε, minPts", "eps (scales.estimate_eps suggests one), min_samples"),
        ("O(n²d)", "O(n²d) at worst; cells or a tree omit most pairs, memory is linear in n"),
        ("yes", "yes: label −1"),
        ("hard", "hard"),
        ("Heaviside kernel", "Heaviside kernel, ε inclusive"),
    ),
    "Mean Shift": (
        ("1", "1"),
        ("bandwidth ε", "bandwidth (None: scales.estimate_bandwidth)"),
        ("O(n²dT)", "O(n²dT) at worst; sums over cells, and paths that coincide are continued once"),
        ("yes", "on request: cluster_all=False marks rows that end alone"),
        ("hard", "hard"),
        ("Heaviside kernel", "Heaviside kernel, whose steps ascend the Epanechnikov density"),
    ),
}

# Table 6: the same in a few characters, paper above knoll
_SHORT = (
    ("1", "1", "2", "2", "1"), ("1", "1", "2", "2", "1"),
    ("k", "k", "k, σ", "ε, minPts", "ε"), ("k", "k", "k, σ", "ε, minPts", "ε"),
    ("O(nd²kT + d²·⁸⁰⁷kT)", "O(ndkT)", "O(n²d)", "O(n²d)", "O(n²dT)"),
    ("O(nd²kT + d³kT)", "O(ndkT)", "O(n²d + n²kT_eig)", "O(n²d)", "O(n²dT)"),
    ("no", "no", "no", "yes", "yes"), ("on request", "no", "no", "yes", "on request"),
    ("soft", "hard", "hard", "hard", "hard"), ("both", "hard", "hard", "hard", "hard"),
    ("Mahalanobis", "Euclidean", "Gaussian", "Heaviside", "Heaviside"),
    ("M² + log |Σ| − 2 log π", "Euclidean", "Gaussian", "Heaviside", "Heaviside"),
)  # fmt: skip


def _table(number: int, measured: Mapping[str, str | tuple[str, str]], note: str = "") -> Table:
    """Return the table of one algorithm: its statements, then the measurements (with the paper's, if it has any)."""
    algorithm, statements = list(_STATEMENTS.items())[number - 1]
    rows = [(name, *cells) for name, cells in zip(_PROPERTIES, statements, strict=True)]
    for name, value in measured.items():
        rows.append((name, *(("not stated", value) if isinstance(value, str) else value)))
    return Table(number, algorithm, ("", "in the paper", "in knoll"), tuple(rows), note)


def _scores(data: str, labels: Any) -> tuple[float, float]:
    classes = datasets.load(data).y
    assert classes is not None
    return fits.scores(classes, labels)


def table_1() -> Table:
    """Compare EM-GMM."""
    model = fits.x1500_mixture()
    ami, ari = _scores("x1500", model.labels_)
    measured = {"AMI on X1500": ("0.992", f"{ami:.3f}"), "ARI on X1500": ("0.996", f"{ari:.3f}")}
    return _table(1, {**measured, "T on X1500": f"{model.n_iter_} iterations"})


def table_2() -> Table:
    """Compare k-means."""
    model = fits.x1500_kmeans()
    ami, ari = _scores("x1500", model.labels_)
    iterations = f"{model.n_iter_} iterations of the best of 10 starts"
    return _table(2, {"AMI, ARI on X1500": f"{ami:.3f}, {ari:.3f}", "T on X1500": iterations})


def table_3() -> Table:
    """Compare spectral clustering."""
    model = fits.banana_spectral()
    ami, ari = _scores("banana", model.labels_)
    first, second = model.eigenvalues_[:2]
    values = f"{first:.6f}, {second:.6f}; residual {float(model.eigen_residual_.max()):.0e}"
    return _table(3, {"AMI, ARI on the bananas": f"{ami:.3f}, {ari:.3f}", "Eigenvalues on the bananas": values})


def table_4() -> Table:
    """Compare DBSCAN."""
    model = fits.banana_dbscan()
    ami, ari = _scores("banana", model.labels_)
    noise, core = int((model.labels_ < 0).sum()), len(model.core_sample_indices_)
    counts = f"{core} core points, {noise} noise, of {len(model.labels_)}"
    return _table(4, {"AMI, ARI on the bananas": f"{ami:.3f}, {ari:.3f}", "Core, noise on the bananas": counts})


def table_5() -> Table:
    """Compare Mean Shift."""
    model = fits.modes_mean_shift()
    sizes = np.bincount(model.labels_)
    clusters = f"{len(sizes)} at ε = {fits.ASCENT_EPS:g}, of {', '.join(str(int(size)) for size in sizes)} points"
    steps = f"{int(model.n_steps_.max())} steps of the longest path"
    note = f"{sizes.sum()} points; clusters beyond the three modes are small groups at the border with their own modes."
    return _table(
        5,
        {"T on the three modes": steps, "Clusters on the three modes": clusters},
        note if len(sizes) > 3 else "",
    )


def table_6() -> Table:
    """Compare all five, with the results of each."""
    names = ("GMM", "k-means", "SC", "DBSCAN", "MS")
    rows: list[tuple[str, ...]] = []
    for name, paper, ours in zip(_PROPERTIES, _SHORT[::2], _SHORT[1::2], strict=True):
        worst = ", at worst" if name == "Time complexity" else ""
        rows += [(f"{name}, paper", *paper), (f"… knoll{worst}", *ours)]
    for data, results in _comparison().items():
        rows.append((f"ARI on {data}, knoll", *(f"{round(results[name][0], 3) + 0.0:.3f}" for name in names)))
    seconds = {name: sum(results[name][1] for results in _comparison().values()) for name in names}
    rows.append(("Seconds for all four, knoll", *(f"{seconds[name]:.3f}" for name in names)))
    return Table(
        6,
        "The five compared",
        ("", *names),
        tuple(rows),
        "The complexity of climbing DBSCAN, which the paper omits, is that of Mean Shift: O(n²dT). ARI is the adjusted "
        "Rand index with the classes: 1 is perfect, 0 is chance. Seconds are of this run, for information.",
    )


# k, σ, ε, minPts and bandwidth for each data set
_PARAMETERS: dict[str, tuple[int, float, float, int, float]] = {
    "x1500": (3, 0.5, 0.6, 10, 1.8),
    "circles": (2, 0.1, 0.2, 5, 0.3),
    "banana": (2, 0.1, 0.16, 5, 0.5),
    "three_component_density": (3, 0.5, 0.5, 10, 1.2),
}
_NAMES = {"x1500": "X1500", "circles": "circles", "banana": "bananas", "three_component_density": "three modes"}


@lru_cache(maxsize=1)
def _comparison() -> dict[str, dict[str, tuple[float, float]]]:
    """Fit all five to four data sets: data → algorithm → ARI, seconds."""
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for name, (k, sigma, eps, min_pts, bandwidth) in _PARAMETERS.items():
        models: dict[str, Any] = {
            "GMM": GaussianMixture(k, n_init=5, random_state=0),
            "k-means": KMeans(k, n_init=10, random_state=0),
            "SC": SpectralClustering(k, sigma=sigma, random_state=0),
            "DBSCAN": DBSCAN(eps, min_samples=min_pts),
            "MS": MeanShift(bandwidth=bandwidth),
        }
        found = {}
        for algorithm, model in models.items():
            begun = time.perf_counter()
            labels = model.fit(datasets.load(name).X).labels_
            found[algorithm] = (_scores(name, labels)[1], time.perf_counter() - begun)
        out[_NAMES[name]] = found
    return out


TABLES: tuple[Callable[[], Table], ...] = (table_1, table_2, table_3, table_4, table_5, table_6)
