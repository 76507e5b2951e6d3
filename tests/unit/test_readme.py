"""README's figures are those of docs/benchmarks.json, drawn by a script and by nobody's hand."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("readme_table", ROOT / "scripts" / "readme_table.py")
script = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(script)

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_and_measurements_agree():
    assert script.redrawn(README, script.cases()) == README, "run: python scripts/readme_table.py"


def test_the_families_are_there():
    shown = README.partition(script.BEGIN)[2].partition(script.END)[0]
    for family in ("Gaussian mixture", "k-means", "spectral clustering", "DBSCAN"):
        assert f"| {family}" in shown
    assert len([line for line in shown.splitlines() if line.startswith("| ") and " × " in line]) >= 8


def test_a_changed_figure_is_seen():
    cases = copy.deepcopy(script.cases())
    row = cases["kmeans-1e6x2"]["rows"][0]
    row["seconds"] *= 2
    assert script.redrawn(README, cases) != README
    before = script.table(cases)
    row["spread"] = 9.0  # what is not shown does not count
    assert script.table(cases) == before


def test_what_a_row_reports():
    def row(contestant, seconds, ratio=None, worse=False, peak=1234.0):
        return {
            "contestant": contestant, "seconds": seconds, "ratio": ratio, "worse_than_peer": worse, "peak_mb": peak
        }  # fmt: skip

    case = {
        "rows": [row("knoll", 0.0123, peak=None), row("scikit-learn-intelex", 0.5, 40.0), row("faiss", 0.6, 50.0),
                 row("scikit-learn lloyd", 2.46, 200.4), row("scikit-learn elkan", 3.0, 244.0)],
        "date": "2026-01-02", "machine": {"cpu": "Z80", "cores": 1}, "versions": {"scikit-learn": "1.9"},
    }  # fmt: skip
    output = script.table({"kmeans-1e6x2": case})
    assert "| k-means, k = 50 | 10⁶ × 2 | 12 ms | 2.5 s | **200** | – for 1234 MB |\n" in output
    assert "Z80, 1 cores; scikit-learn 1.9; 2026-01-02." in output
    case["rows"][3]["worse_than_peer"] = True
    assert "| –, its answer is better |" in script.table({"kmeans-1e6x2": case})
    case["rows"] = case["rows"][:3]  # nothing of scikit-learn itself
    assert "k-means" not in script.table({"kmeans-1e6x2": case})


def test_a_readme_without_the_marks_is_refused():
    with pytest.raises(SystemExit, match=r"README.md has no marks for the table"):
        script.redrawn("# knoll\n", {})
