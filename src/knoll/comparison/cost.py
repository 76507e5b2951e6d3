"""What every method will take, before it is run: seconds and memory.

Where an estimator can say so itself (`estimate_cost` of kernel k-means, spectral clustering and DBSCAN), it is asked,
with settings like those that will be chosen; the others go by what a row, or a pair of rows, has taken elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knoll._typing import Floats
from knoll.comparison.plan import VIEW, Plan
from knoll.registry import METHODS

__all__ = ["Cost", "estimate_costs"]


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
        model = METHODS[name].make_proposer().typical(some, k, n_jobs)
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
