"""The cases of spectral clustering: their judge on answers that are known, and their contestants on few rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import operators  # noqa: E402
from benchmarks.case import load  # noqa: E402
from benchmarks.cases import spectral  # noqa: E402


def test_the_judge_counts_and_reports():
    data = {"truth": np.repeat([0, 1], 50), "k": np.array(2)}
    right = np.repeat([1, 0], 50)
    assert spectral.misplaced(data, (right, 1e-9)) == {"misplaced": 0.0, "residual": 1e-9}
    wrong = right.copy()
    wrong[:5] = 0
    assert spectral.misplaced(data, (wrong, None)) == {"misplaced": pytest.approx(0.05)}
    assert spectral.misplaced(data, (np.arange(100) % 10, None)) == {"misplaced": 1.0}  # ten clusters for two
    assert spectral.misplaced(data, (None, None)) == {}


def test_no_ratio_without_the_groups_or_the_certificate():
    good, bad, loose = ({"misplaced": m, "residual": r} for m, r in ((0.0, 1e-7), (0.1, 1e-7), (0.0, 1e-5)))
    assert spectral.same_groups(1e-6, good, {"misplaced": 0.0})
    assert spectral.same_groups(1e-6, good, {})
    assert not spectral.same_groups(1e-6, bad, {"misplaced": 0.0})
    assert not spectral.same_groups(1e-6, bad, {})
    assert not spectral.same_groups(1e-6, loose, {"misplaced": 0.0})


def test_every_contestant_runs_on_few_rows():
    cases = {name: case for name, case in load().items() if name.startswith("spectral-")}
    assert len(cases) == 7
    data = spectral.moons(400, 0.1) | {"X_fewer": spectral.moons(100, 0.1)["X"], "gamma": np.array(50.0)}
    small = spectral.few(data)
    assert small["X"].shape == (300, 2)
    for contestant in (*cases["spectral-moons-1e5"].contestants, *cases["spectral-moons-5000"].contestants):
        result = contestant.run(small, 1)
        assert result[0] is None or spectral.misplaced(small, result)["misplaced"] == 0


def test_subsets_of_the_map_keep_their_positions():
    """A page is read again, new rows replace old ones, and the text follows the numbers."""
    times = {name: operators.Time(1.0, 0.0) for name in ("stored", "tiles", "truncated")}
    slow = {**times, "tiles": operators.Time(3.0, 0.0)}
    rows = {
        (2, n, 0.1): operators.row(operators.GridPoint(n, 2, 0.1, taken, "tiles", "none"))
        for n, taken in ((50_000, times), (2_000, slow))
    }
    text = operators.page(rows)
    assert "takes 3.00 times as long" in text
    assert "in 1 of 2 grid points" in text
    again = operators.rows_of(text)
    assert again == rows
    assert [int(line.split("|")[1].replace(",", "")) for line in text.splitlines()[-2:]] == [2_000, 50_000]
