"""Does an answer come back? The same setting fitted to random halves of the subsample, and how alike they label it.

An answer that depends on the particular rows is not a property of the data (Ben-Hur, Elisseeff and Guyon 2002; Lange,
Roth, Braun and Buhmann 2004). The adjusted Rand index corrects for the number of clusters.
"""

from __future__ import annotations

import numpy as np

from knoll.base import collect_warnings
from knoll.comparison.methods import FIT_ERRORS, Partition, Proposer
from knoll.comparison.subsample import Subsample
from knoll.metrics import adjusted_rand_score

__all__ = ["stability"]

_HALVES = 3


def stability(method: Proposer, chosen: Partition, subsample: Subsample) -> tuple[float, float] | tuple[None, None]:
    """Return the mean and the standard deviation of the agreement of refits on halves with the whole.

    Both are None where a half cannot be fitted. Warnings of a refit are about the half, not about the answer.
    """
    m, points = subsample.n, method.rows(subsample)
    found = []
    for number in range(_HALVES):
        half = np.sort(np.random.default_rng([subsample.seed, 17, number]).permutation(m)[: max(2, m // 2)])
        with collect_warnings():
            try:
                labels = chosen.with_groups(method.fit(chosen, points[half], subsample)).predict(points)
            except FIT_ERRORS:
                return None, None
        found.append(adjusted_rand_score(chosen.labels, labels))
    return float(np.mean(found)), float(np.std(found))
