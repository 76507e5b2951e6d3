"""The curve that an answer was chosen by: the best score of its method at each number of clusters."""

from __future__ import annotations

import numpy as np

from knoll.comparison.judge import Judgement
from knoll.comparison.methods import Partition
from knoll.comparison.result import Evidence

__all__ = ["scores_by_number"]


def scores_by_number(judged: Judgement, method: str, chosen: Partition) -> tuple[Evidence, ...]:
    """Return the expected index of the best answer of a method at each number of clusters it has answers for."""
    best: dict[int, float] = {}
    for at, members in enumerate(judged.pool.members):
        for one in members:
            if one.method == method:
                best[one.n_clusters] = max(best.get(one.n_clusters, 0.0), float(judged.expected[at]))
    if len(best) < 2:
        return ()
    x = np.array(sorted(best), dtype=np.float64)
    y = {"expected": np.array([best[int(k)] for k in x])}
    reason = f"{chosen.n_clusters} clusters have the best score of {len(best)} numbers of clusters."
    label = "expected adjusted Rand index"
    return (Evidence("score", "clusters", x, y, float(chosen.n_clusters), reason, "clusters", label),)
