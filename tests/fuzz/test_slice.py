"""A slice of the random search: the same cases each time, about a minute for all families together."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from fuzz.__main__ import FAMILIES  # noqa: E402
from fuzz.runner import describe, run  # noqa: E402

CASES = {
    "gaussian": 60,
    "mixture": 60,
    "kmeans": 80,
    "kernel_kmeans": 60,
    "spectral": 60,
    "dbscan": 60,
    "mean_shift": 80,
    "scales": 80,
    "metrics": 80,
    "tuning": 30,
    "compare": 3,
    "models": 60,
}
SEED = 0


@pytest.mark.parametrize("name", FAMILIES)
def test_a_slice_of_the_search_finds_nothing(name):
    family = importlib.import_module(f"fuzz.families.{name}").FAMILY
    tally = run(family, range(SEED, SEED + CASES[name]))
    assert tally.cases == CASES[name]
    assert not tally.failures, "\n\n".join(describe(failure) for failure in tally.failures[:2])
