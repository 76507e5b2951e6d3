"""What each method is fitted on: all rows while that fits the budget, else a sample, the others by predict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from knoll.registry import METHODS

__all__ = ["ALL", "SUBSAMPLE", "Plan", "Route", "make_plan"]

ALL = "all rows"  # how a method was fitted that needed no sample
SUBSAMPLE = (
    2_000  # rows that parameters are chosen on and answers are judged on: some of that work grows with their square
)
_LEAST_SUBSAMPLE = 400  # rows, however small the budget
PROBE = 20_000  # rows in which small clusters are counted, of tables that are larger
_ROWS_OF_EACH = 40  # of small clusters
_PAIRS_SECONDS, _COLUMN_SECONDS = 4.0, 0.1  # of all answers for such a subsample, and of each column
_ANSWERS = 0.4  # of the budget, for the answers on the subsample
_FITS = 0.6  # of the budget, for fits to more rows

_NEARLY = 0.8  # of the rows: a sample that is larger saves less than a certificate for it costs


@dataclass(frozen=True)
class Route:
    """How one method gets to labels for every row."""

    rows: int  # fitted on so many
    seconds: float  # what that is expected to take
    how: str


@dataclass(frozen=True)
class Plan:
    """The subsample, and one route a method."""

    subsample: int
    routes: Mapping[str, Route]
    share: float = math.inf  # seconds that one method may take beyond its answers

    @property
    def seconds(self) -> float:
        """The whole, about."""
        return sum(route.seconds for route in self.routes.values())

    @property
    def tasks(self) -> dict[tuple[str, str], float]:
        """The work, each task with the seconds that it may take: answers of each method, the judge, fits."""
        of_subsample = 0.2 + 1e-7 * self.subsample**2
        answers = {(name, "answers"): 4 * METHODS[name].answer_seconds * of_subsample for name in self.routes}
        fits = {(name, "fit"): 0.1 * of_subsample + route.seconds for name, route in self.routes.items()}
        return answers | {("judge", "score"): of_subsample} | fits

    def __str__(self) -> str:
        fitted = dict.fromkeys(route.how for route in self.routes.values())
        methods = (
            f"{', '.join(name for name, route in self.routes.items() if route.how == how)}: {how}" for how in fitted
        )
        return "\n".join([f"parameters are chosen on {self.subsample} rows", *methods])


def make_plan(n: int, d: int, methods: tuple[str, ...], budget: float, exact: bool, many: int = 0) -> Plan:
    """Share the budget among the methods; a method that would take more than its share is fitted on fewer rows.

    With `exact` every method sees every row, and the figures show what that costs. If there are `many` small clusters,
    parameters are chosen on more rows.
    """
    whole = _PAIRS_SECONDS + _COLUMN_SECONDS * d
    size = 1.0 if exact else min(1.0, math.sqrt(_ANSWERS * budget / whole))  # the work grows with the square
    subsample = min(n, max(_LEAST_SUBSAMPLE, round(size * max(SUBSAMPLE, _ROWS_OF_EACH * many))))
    share = _FITS * budget / max(1, len(methods))
    routes = {}
    for name in methods:
        method, rows = METHODS[name], n
        if not exact:
            if method.row_seconds:
                rows = max(subsample, round(share / method.seconds(1, d)))
                rows = n if rows > _NEARLY * n else rows
            else:
                rows = subsample
        how = ALL if rows == n else f"sample of {rows}, the others by predict"
        routes[name] = Route(rows, method.seconds(rows, d), how)
    return Plan(subsample, routes, math.inf if exact else share)
