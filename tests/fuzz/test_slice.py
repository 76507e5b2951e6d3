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
    "gaussian": 200,
    "mixture": 200,
    "kmeans": 200,
    "kernel_kmeans": 200,
    "spectral": 200,
    "dbscan": 250,
    "density_tree": 200,
    "hdbscan": 150,
    "optics": 150,
    "agglomerative": 200,
    "mean_shift": 250,
    "scales": 200,
    "metrics": 200,
    "tuning": 150,
    "compare": 10,
    "mixed_mixture": 150,
    "kprototypes": 150,
    "gower": 150,
    "explain": 80,
    "models": 200,
}
SEED = 0


@pytest.mark.parametrize("name", FAMILIES)
def test_a_slice_of_the_search_finds_nothing(name):
    family = importlib.import_module(f"fuzz.families.{name}").FAMILY
    tally = run(family, range(SEED, SEED + CASES[name]))
    assert tally.cases == CASES[name]
    assert not tally.failures, "\n\n".join(describe(failure) for failure in tally.failures[:2])
