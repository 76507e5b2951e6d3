"""What the arrays of each class look like: those that do not fit together are refused before anything uses them.

The check sum of a file does not tell who wrote it. Each attribute that a method reads is declared here with its kind,
its sides by name (a name stands for one number throughout a model) and what its entries number, if they are indices.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from knoll.base import Estimator
from knoll.exceptions import KnollError
from knoll.models._format import Damage

__all__ = ["SHAPES", "check_shapes"]

_KINDS = {"f": "real numbers", "i": "whole numbers", "u": "names", "b": "true or false"}


class Must(NamedTuple):
    """What is asked of an attribute; None, or none at all, is for the class to judge."""

    sides: str  # names of its sides; "m+" is one more than m, "*" any number
    kind: str = "f"
    finite: bool = False
    below: str = ""  # the side that its entries are indices of


_MOST = np.finfo(np.float64).max
_SIDES = {"d": "n_features_in_", "k": "n_clusters_"}
_MATRICES = {"full": "k d d", "tied": "d d", "diag": "k d", "spherical": "k", "fixed": "k"}

SHAPES: dict[str, dict[str, Must]] = {
    "Gaussian": {"mean_": Must("d", finite=True), "covariance_": Must("d d"), "whitener_": Must("d d")},
    "GaussianMixture": {
        "weights_": Must("k", finite=True), "means_": Must("k d", finite=True), "noise_box_": Must("* d"),
        "labels_": Must("n", "i"),
    },
    "KMeans": {
        "cluster_centers_": Must("k d", finite=True), "cluster_weights_": Must("k", finite=True),
        "labels_": Must("n", "i"),
    },
    "KernelKMeans": {
        "labels_": Must("n", "i"), "present_": Must("p", "i", below="n"), "center_norms_": Must("k"),
        "center_errors_": Must("k"), "cluster_weights_": Must("k"), "center_labels_": Must("p", "i", below="k"),
        "fit_points_": Must("p d", finite=True), "fit_weights_": Must("p", finite=True), "row_names_": Must("p", "u"),
    },
    "SpectralClustering": {
        "labels_": Must("n", "i"), "present_rows_": Must("p", "i", below="n"), "eigenvalues_": Must("m", finite=True),
        "eigen_residual_": Must("m"), "embedding_": Must("n m"), "extension_": Must("p m+", finite=True),
        "fit_points_": Must("p d", finite=True), "radius_": Must("p", finite=True), "graph_": Must("p p", finite=True),
        "fit_labels_": Must("p", "i", below="k"), "links_": Must("* k"),
    },
    "DBSCAN": {
        "labels_": Must("n", "i"), "core_sample_indices_": Must("c", "i", below="n"),
        "components_": Must("c d", finite=True), "other_points_": Must("o d", finite=True),
        "fit_weights_": Must("n", finite=True), "climbed_": Must("e d"), "climbed_labels_": Must("e", "i"),
    },
    "MeanShift": {
        "labels_": Must("n", "i"), "points_": Must("p d", finite=True), "weights_": Must("p", finite=True),
        "peaks_": Must("q d", finite=True), "peak_labels_": Must("q", "i"),
        "cluster_centers_": Must("k d", finite=True), "climbed_": Must("s d", finite=True), "n_steps_": Must("s", "i"),
        "is_peak_": Must("s", "b"),
    },
}  # fmt: skip

# Numbers that a method reckons with: real, and where they measure something, within bounds. None is for the class.
NUMBERS: dict[str, tuple[float, float]] = {
    "bandwidth_": (0.0, _MOST), "sigma_": (0.0, _MOST), "cutoff_": (0.0, _MOST), "largest_": (0.0, _MOST),
    "shift_": (-_MOST, _MOST), "weight_power_": (-1100, 1100), "noise_weight_": (0.0, 1.0), "log_det_": (-_MOST, _MOST),
    "noise_log_density_": (-math.inf, _MOST), "fixed_variance_": (0.0, _MOST), "n_features_in_": (1, 2**40),
    "n_clusters_": (1, 2**40), "weight_": (0.0, _MOST),
    "affinity_power_": (-1100, 1100), "kernel_power_": (-1100, 1100), "level_shift_": (-_MOST, _MOST),
}  # fmt: skip


def check_shapes(estimator: Estimator) -> None:
    """Hold the parameters against their rules and the arrays against the table, and against each other."""
    try:
        estimator._check_parameters()
    except KnollError as error:
        raise Damage(str(error).rstrip(".")) from None
    _check_numbers(estimator)
    sides = {side: int(vars(estimator)[name]) for side, name in _SIDES.items() if vars(estimator).get(name)}
    wanted = dict(SHAPES[type(estimator).__name__])
    if type(estimator).__name__ == "GaussianMixture":
        matrices = _MATRICES.get(str(getattr(estimator, "covariance_type_", "")), "")
        wanted |= {name: Must(matrices) for name in ("covariances_", "precisions_", "precisions_cholesky_")}
    for name, must in wanted.items():
        value = getattr(estimator, name, None)
        if value is not None:
            _check(name, value, must, sides)
    for name, must in wanted.items():
        value = getattr(estimator, name, None)
        if value is not None and must.below:
            count = sides.get(must.below, 0)
            if not ((value >= 0) & (value < count)).all():
                raise Damage(f"{name} has entries outside 0 … {count - 1}")
    if sides.get("k", 1) > sides.get("p", sides.get("k", 1)):
        raise Damage(f"it has {sides['k']} clusters of {sides['p']} rows")


def _check_numbers(estimator: Any) -> None:
    for name, (low, high) in NUMBERS.items():
        value = vars(estimator).get(name)
        if value is None:
            continue
        whole = isinstance(low, int) and isinstance(high, int)
        real = isinstance(value, int | np.integer if whole else int | float | np.integer | np.floating)
        if not real or isinstance(value, bool) or not low <= value <= high:
            raise Damage(f"{name} is {value!r:.60}")


def _check(name: str, value: Any, must: Must, sides: dict[str, int]) -> None:
    if not isinstance(value, np.ndarray) and not scipy.sparse.issparse(value):
        raise Damage(f"{name} is no array")
    array: Any = value
    if array.dtype.kind != must.kind:
        raise Damage(f"{name} is of kind {array.dtype}, and must be {_KINDS[must.kind]}")
    asked = must.sides.split()
    good = len(asked) == array.ndim
    for side, count in zip(asked, array.shape, strict=good):
        if side != "*":
            count -= side.endswith("+")
            good = good and sides.setdefault(side.rstrip("+"), count) == count
    if not good:
        raise Damage(f"{name} has the shape {array.shape}, which does not fit the others")
    entries = array if isinstance(array, np.ndarray) else array.data
    if must.finite and not np.isfinite(entries).all():
        raise Damage(f"{name} has entries that are not finite")
