"""The cost of a fit before it runs: one record for every estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_BUFFERS = 1 << 21  # bytes that do not grow with the rows


@dataclass(frozen=True)
class Seconds:
    """Seconds of processor time: expected, and bounds."""

    expected: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"about {self.expected:.2g} s of processor time (from {self.least:.2g} to {self.most:.2g})"


@dataclass(frozen=True)
class Cost:
    """What `estimate_cost` of an estimator returns.

    Attributes
    ----------
    operator : str
        How the fit computes: the operator of a kernel method, the formulation of DBSCAN, the algorithm of k-means.
    memory : int
        Bytes beyond X, at most.
    pairs : float
        The unit of work: pairs of rows, or of a row and a cluster, in one iteration.
    seconds : Seconds or None
        Processor time, roughly; None where it is not estimated.
    remedy : str
        What to change where this is too much.
    details : mapping
        Further figures, by name: `neighbours` and `core_share` of DBSCAN, `first` and `step` of kernel k-means.
    """

    operator: str
    memory: int
    pairs: float
    seconds: Seconds | None
    remedy: str
    details: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        figures = [f"{self.operator}: up to {self.memory / 2**20:.0f} MB beyond the data"]
        figures += [] if self.seconds is None else [str(self.seconds)]
        figures += [f"{self.pairs:.3g} pairs in an iteration"]
        figures += [f"{name} {value:.3g}" for name, value in self.details.items()]
        return f"{'; '.join(figures)}. To lower it: {self.remedy}."


def linear_cost(
    operator: str, n: int, row_bytes: float, pairs: float, pair_seconds: float, iterations: tuple[int, int], remedy: str
) -> Cost:
    """Estimate a fit that takes iterations over n rows: as many as expected, and at most."""
    memory = int(n * row_bytes) + _BUFFERS
    once = pairs * pair_seconds
    expected, most = (0.001 + once * (1 + count) for count in iterations)
    return Cost(operator, memory, pairs, Seconds(expected, once / 2, 2 * most + 0.2), remedy)
