"""A benchmark case is data: a seeded maker, contestants, one judge for all of them, and targets.

The least a case needs::

    register(
        Case(
            name="kmeans-1e6x2",
            group="k-means",
            about="k = 50, to convergence from the same start, float64",
            data=make_blobs_and_start,                        # () -> {"X": ..., "start": ...}
            ours=Contestant("knoll", fit_knoll, ("knoll",)),  # (data, threads) -> {"labels": ..., ...}
            peers=(Contestant("scikit-learn", fit_sklearn, ("sklearn.cluster",)),),
            judge=inertia,                                    # (data, result) -> {"inertia": ...}, in float64
            not_worse=no_larger("inertia", relative=1e-9),
            targets=(Target(15),),
        )
    )

Everything random, the start of an iteration included, is made by ``data`` and so is the same for all
contestants. ``needs`` are imported before the clock starts, so an import inside the function costs nothing.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

Data = Mapping[str, np.ndarray]
Quality = Mapping[str, float]


@dataclass(frozen=True)
class Contestant:
    """One method to do the work of a case, and the modules it needs."""

    name: str
    run: Callable[[Data, int], Any]  # (data, threads) -> result for the judge
    needs: tuple[str, ...]  # import names; a contestant whose needs are missing is shown as not installed


@dataclass(frozen=True)
class Target:
    """At least ``ratio`` times as fast as the fastest of ``against`` (all peers when empty)."""

    ratio: float
    against: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One comparison: see the head of this file."""

    name: str
    group: str
    about: str
    data: Callable[[], dict[str, np.ndarray]]
    ours: Contestant
    peers: tuple[Contestant, ...]
    judge: Callable[[Data, Any], Quality]  # the one evaluator, float64
    not_worse: Callable[[Quality, Quality], bool]  # (ours, peer)
    targets: tuple[Target, ...] = ()
    memory_limit: float | None = None  # megabytes beyond the data, for ours
    warmup: Callable[[Data], Data] | None = None  # smaller data for one untimed call first; stated in the table
    calls: int = 1  # timed calls in one process, the median counts: for work of less than a few milliseconds
    repeats: int = 5  # processes per contestant
    measures_memory: bool = True  # False where the work happens in a child process

    def __post_init__(self) -> None:
        names = [c.name for c in self.contestants]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: contestants must have different names, got {names}")
        for target in self.targets:
            unknown = set(target.against) - {p.name for p in self.peers}
            if unknown or not self.peers:
                raise ValueError(f"{self.name}: a target is against {sorted(unknown)}, which are no peers here")
        if self.calls < 1 or self.repeats < 1:
            raise ValueError(f"{self.name}: calls and repeats must be at least 1")

    @property
    def contestants(self) -> tuple[Contestant, ...]:
        return (self.ours, *self.peers)


def no_larger(*keys: str, relative: float = 0.0, floor: float | str = 0.0) -> Callable[[Quality, Quality], bool]:
    """Build a ``not_worse`` for numbers where smaller is better.

    ours ≤ max(peer + relative·|peer|, floor) in each of ``keys``. ``floor`` is the size below which a
    difference means nothing: a number, or the name of the quality number of ours that holds it. NaN is worse
    than everything, and nothing is worse than infinity.
    """

    def not_worse(ours: Quality, peer: Quality) -> bool:
        least = ours[floor] if isinstance(floor, str) else floor
        return all(
            ours[key] <= max(peer[key] + relative * abs(peer[key]), least)
            if math.isfinite(peer[key])  # relative·∞ would be NaN
            else ours[key] == ours[key]
            for key in keys
        )

    return not_worse


_CASES: dict[str, Case] = {}


def register(case: Case) -> Case:
    """Add a case under its name, which must be new."""
    if case.name in _CASES:
        raise ValueError(f"a case named {case.name!r} is registered already")
    _CASES[case.name] = case
    return case


def load(registry: str = "benchmarks.cases") -> dict[str, Case]:
    """Import every module of the package (or the one module) ``registry`` and return the cases by name."""
    package = importlib.import_module(registry)
    for found in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{registry}."):
        importlib.import_module(found.name)
    return dict(_CASES)


def select(cases: Mapping[str, Case], patterns: str) -> list[Case]:
    """Cases whose name matches one of the comma-separated globs, in the order of registration."""
    globs = [p.strip() for p in patterns.split(",") if p.strip()]
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in cases):
            raise ValueError(f"no case matches {glob!r}. --list shows the names.")
    return [case for name, case in cases.items() if any(fnmatchcase(name, glob) for glob in globs)]
