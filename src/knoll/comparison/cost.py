"""The cost of every method before it runs: `estimate_cost` of its estimator, with settings like those to be chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knoll._common.cost import Cost, Seconds
from knoll._typing import Floats
from knoll.comparison.plan import SUBSAMPLE, Plan
from knoll.registry import METHODS

__all__ = ["estimate_costs"]


_COSTED = 20_000  # rows at most that an estimator estimates; beyond that pairs grow with the square


def estimate_costs(
    points: Floats, plan: Plan, numbers: tuple[int, ...], seed: int, n_jobs: int | None
) -> dict[str, Cost]:
    """Estimate each method of the plan on scaled rows; the middle of the numbers stands for the one to be chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.comparison.cost import estimate_costs
    >>> from knoll.comparison.plan import make_plan
    >>> points = np.random.default_rng(0).normal(size=(3000, 2))
    >>> costs = estimate_costs(points, make_plan(3000, 2, ("kmeans", "spectral"), 120.0, True), (2, 3), 0, None)
    >>> [(name, cost.memory > 0) for name, cost in costs.items()]
    [('kmeans', True), ('spectral', True)]
    """
    n = len(points)
    rng = np.random.default_rng([seed, 31])
    sample = points[np.sort(rng.permutation(n)[: min(n, SUBSAMPLE)])]
    drawn = points if n <= _COSTED else points[np.sort(rng.permutation(n)[:_COSTED])]
    k = min(numbers[len(numbers) // 2], len(sample))
    found = {}
    for name, route in plan.routes.items():
        method, rows = METHODS[name], drawn[: route.rows]
        cost = method.make_proposer().typical(sample, k, n_jobs).estimate_cost(rows)
        times = route.rows / len(rows)
        power = 1 if method.row_seconds else 2
        took = route.seconds if cost.seconds is None else cost.seconds.expected * times**power
        seconds = Seconds(took, took / 4, 4 * took)
        found[name] = replace(cost, memory=round(cost.memory * times), seconds=seconds)
    return found
