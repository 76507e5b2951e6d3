"""The Heaviside kernel is a limit of Gaussian-like kernels: κ_p(r) = exp(−½ (r/ε)^{2p}) (errata item 28)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse.csgraph import connected_components

from knoll._typing import Floats, Ints, Labels
from knoll.kernels import Heaviside
from knoll.relations._common import quiet, squared_distances
from knoll.relations._density import density_scale
from knoll.relations.certificate import Certificate, Check
from knoll.relations.path import Frame, Path
from knoll.relations.relation import Limit
from knoll.spectral.estimator import SpectralClustering

_POWERS = tuple(2.0**i for i in range(11))


class GaussianToHeaviside(Limit):
    """p = 1 is the Gaussian with σ = ε; p → ∞ the Heaviside, except on the sphere."""

    name: ClassVar = "gaussian-to-heaviside"
    source: ClassVar = "spectral clustering"
    target: ClassVar = "DBSCAN"
    statement: ClassVar = (
        "κ_p(r) = exp(−½ (r/ε)^{2p}) goes from the Gaussian kernel to the Heaviside kernel at a known rate, except "
        "at r = ε, where it is e^{−½} for all p."
    )
    formula: ClassVar = "r < ε: 1 − κ_p ≤ ½ (r/ε)^{2p};  r > ε: κ_p = exp(−½ (r/ε)^{2p}) → 0"
    most_rows: ClassVar = 2_000
    _defaults: ClassVar = {"eps": None}

    def _certify(self, X: Floats, **parameters: Any) -> Certificate:
        eps, _ = density_scale(X, parameters["eps"], None)
        r = np.sqrt(squared_distances(X, X))[np.triu_indices(len(X), 1)] / eps
        heaviside = Heaviside(eps).tile(X, X)[np.triu_indices(len(X), 1)]
        off = r != 1
        near = float(np.abs(r[off] - 1).min(initial=1.0))  # the pair closest to the sphere
        excess, last = 0.0, 1.0
        rising = 0
        for p in _POWERS:
            with np.errstate(over="ignore", under="ignore"):
                power = r ** (2 * p)
                kernel = np.exp(-0.5 * power)
                limit = np.where(r < 1, np.minimum(0.5 * power, 1.0), kernel)
            apart = np.abs(kernel - heaviside)[off]
            excess = max(excess, float((apart - limit[off]).max(initial=0.0)))
            now = float(apart.mean()) if len(apart) else 0.0
            rising += now > last * (1 + 1e-12)
            last = now
        sphere = np.abs(np.exp(-0.5 * r[~off] ** 2.0) - np.exp(-0.5)).max(initial=0.0)
        return self._certificate(
            checks=(
                Check("distance from the Heaviside kernel over its bound", excess, 1e-12),
                Check("powers at which the mean distance rises", float(rising), 0.0),
                Check("pairs on the sphere: from e^{−½}", float(sphere), 1e-12),
            ),
            numbers={
                "ε": eps,
                "pairs": len(r),
                "pairs exactly at ε": int((~off).sum()),
                "powers": list(_POWERS),
                "mean distance at the last power": last,
                "closest to the sphere, |r/ε − 1|": near,
            },
        )

    def _path(self, X: Floats, steps: int, **parameters: Any) -> Path:
        eps, _ = density_scale(X, parameters["eps"], None)
        r = np.sqrt(squared_distances(X, X)) / eps
        A = Heaviside(eps).tile(X, X)
        with quiet():
            k, _ = connected_components(A, directed=False)
            frames = []
            grid = np.linspace(0, 2, 201)
            for p in np.geomspace(1, 64, steps):
                with np.errstate(over="ignore", under="ignore"):
                    K, curve = np.exp(-0.5 * r ** (2 * p)), np.exp(-0.5 * grid ** (2 * p))
                options: dict[str, Any] = {"affinity": "precomputed", "row_scaling": "unit", "random_state": 0}
                labels = _by_first_row(SpectralClustering(min(int(k), len(X)), **options).fit(K).labels_)
                arrays = {"similarities": K, "radii": grid * eps, "curve": curve}
                frames.append(Frame(float(p), f"p = {p:.3g}", labels, arrays))
        return Path(self.name, "p", X, tuple(frames))


def _by_first_row(labels: Labels) -> Ints:
    """Number clusters by their first rows, so that they keep their numbers from frame to frame."""
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which]
