"""What every method will take, before it is run: seconds and memory.

Where an estimator can say so itself (`estimate_cost` of kernel k-means, spectral clustering and DBSCAN), it is asked,
with settings like those that will be chosen; the others go by what a row, or a pair of rows, has taken elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll import scales
from knoll.comparison.plan import VIEW, Plan
from knoll.dbscan import DBSCAN
from knoll.kernel_kmeans import KernelKMeans
from knoll.spectral import SpectralClustering

__all__ = ["Cost", "estimate_costs"]

Floats = NDArray[np.float64]

_ASKED = 20_000  # rows at most that an estimator is asked about; beyond that pairs grow with the square


@dataclass(frozen=True)
class Cost:
    """What one method will take."""

    method: str
    rows: int
    seconds: float  # of processor time, about
    memory: int  # bytes beyond the data


def estimate_costs(
    points: Floats, plan: Plan, numbers: tuple[int, ...], seed: int, n_jobs: int | None
) -> tuple[Cost, ...]:
    """Estimate each method of the plan on scaled rows; the middle of the numbers stands for the one to be chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.comparison.cost import estimate_costs
    >>> from knoll.comparison.plan import make_plan
    >>> points = np.random.default_rng(0).normal(size=(3000, 2))
    >>> costs = estimate_costs(points, make_plan(3000, 2, ("kmeans", "spectral"), 120.0, True), (2, 3), 0, None)
    >>> [(cost.method, cost.rows, cost.memory > 0) for cost in costs]
    [('kmeans', 3000, True), ('spectral', 3000, True)]
    """
    n = len(points)
    rng = np.random.default_rng([seed, 31])
    some = points[np.sort(rng.permutation(n)[: min(n, VIEW)])]
    asked = points if n <= _ASKED else points[np.sort(rng.permutation(n)[:_ASKED])]
    k = min(numbers[len(numbers) // 2], len(some))
    found = []
    for name, route in plan.routes.items():
        model = _model(name, some, k, n_jobs)
        seconds, memory = route.seconds, route.memory
        if model is not None:
            rows = asked[: route.rows]
            times = route.rows / len(rows)
            told = model.estimate_cost(rows)
            memory = round(told.memory * times)
            if hasattr(told, "seconds"):
                seconds = told.seconds.expected * times**2
        found.append(Cost(name, route.rows, seconds, memory))
    return tuple(found)


def _model(name: str, some: Floats, k: int, n_jobs: int | None) -> Any:
    """Make an estimator with settings like those to be chosen, if it can estimate its cost."""
    match name:
        case "kernel-kmeans":
            sigma = scales.estimate_sigma(some, n_jobs=n_jobs).sigma
            return KernelKMeans(n_clusters=k, sigma=sigma, n_init=4, n_jobs=n_jobs)
        case "spectral":
            sigma = scales.estimate_sigma(some, n_jobs=n_jobs).sigma
            return SpectralClustering(n_clusters=k, sigma=sigma, n_init=4, eigen_tol=1e-4, n_jobs=n_jobs)
        case "dbscan":
            level = min(max(2, 2 * some.shape[1]), len(some))
            eps = scales.estimate_eps(some, level, n_jobs=n_jobs).eps
            return DBSCAN(eps=eps if eps > 0 else 1.0, min_samples=level, n_jobs=n_jobs)
        case _:
            return None
