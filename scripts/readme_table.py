"""README's table, drawn from docs/benchmarks.json, so that no figure is copied by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- benchmarks: made by scripts/readme_table.py -->", "<!-- end of benchmarks -->"

# The cases that stand for their families: what is done, to how much.
ROWS = {
    "mixture-full-1e6x2": ("Gaussian mixture, k = 3, 20 iterations", "10⁶ × 2"),
    "mixture-full-2e5x16": ("Gaussian mixture, k = 10, 20 iterations", "2·10⁵ × 16"),
    "mixture-full-5e4x64": ("Gaussian mixture, k = 10, 20 iterations", "5·10⁴ × 64"),
    "kmeans-1e6x2": ("k-means, k = 50", "10⁶ × 2"),
    "kmeans-2e5x16": ("k-means, k = 64", "2·10⁵ × 16"),
    "kmeans-5e4x128": ("k-means, k = 500", "5·10⁴ × 128"),
    "spectral-moons-5000": ("spectral clustering, Gaussian kernel", "5·10³ × 2"),
    "spectral-moons-20000": ("spectral clustering, Gaussian kernel", "2·10⁴ × 2"),
    "spectral-neighbors-20000": ("spectral clustering, nearest neighbours", "2·10⁴ × 2"),
    "dbscan-1e6x2": ("DBSCAN", "10⁶ × 2"),
    "dbscan-5e4x8": ("DBSCAN", "5·10⁴ × 8"),
    "dbscan-3e4x32": ("DBSCAN", "3·10⁴ × 32"),
    "density-tree-1e5x2-slow": ("HDBSCAN", "10⁵ × 2"),
    "density-tree-5e4x32-slow": ("HDBSCAN", "5·10⁴ × 32"),
    "density-tree-2e4x768": ("HDBSCAN, cosine", "2·10⁴ × 768"),
    "ward-2e4x8": ("Ward's method", "2·10⁴ × 8"),
    "optics-1e4x2": ("OPTICS", "10⁴ × 2"),
    "mean-shift-1e4x2": ("Mean Shift, every point a seed", "10⁴ × 2"),
    "mean-shift-5e3x8": ("Mean Shift, every point a seed", "5·10³ × 8"),
    "ami-5000": ("adjusted mutual information, 5000 labels", "10⁵"),
}


def table(cases: dict[str, Any]) -> str:
    """Return the table of the cases that were measured, and where and when they were."""
    lines = ["| | rows × columns | knoll | scikit-learn | times as fast | memory |", "|---|---|---|---|---|---|"]
    shown = [(*ROWS[name], cases[name]) for name in ROWS if name in cases]
    for what, data, case in shown:
        ours, *others = case["rows"]
        peers = [row for row in others if row["contestant"].split()[0] == "scikit-learn" and row["seconds"] is not None]
        if not peers or ours["seconds"] is None:
            continue
        best = min(peers, key=lambda row: row["seconds"])
        ratio = "–, its answer is better" if best["worse_than_peer"] else f"**{_short(best['ratio'])}**"
        memory = f"{_memory(ours)} for {_memory(best)}"
        lines.append(f"| {what} | {data} | {_time(ours)} | {_time(best)} | {ratio} | {memory} |")
    return "\n".join([*lines, "", _setting([case for _, _, case in shown])])


def _short(value: float) -> str:
    """Write two digits, or all of a larger whole number."""
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def _time(row: dict[str, Any]) -> str:
    seconds = float(row["seconds"])
    return f"{_short(seconds)} s" if seconds >= 0.0995 else f"{_short(1000 * seconds)} ms"


def _memory(row: dict[str, Any]) -> str:
    return "–" if row["peak_mb"] is None else f"{_short(row['peak_mb'])} MB"


def _setting(cases: list[dict[str, Any]]) -> str:
    dates = sorted({case["date"] for case in cases})
    machines = sorted({f"{case['machine']['cpu']}, {case['machine']['cores']} cores" for case in cases})
    versions = sorted({case["versions"]["scikit-learn"] for case in cases if "scikit-learn" in case["versions"]})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        "Medians, float64, the same starts, answers as good or better; memory beyond the data. "
        f"{'; '.join(machines)}; scikit-learn {', '.join(versions)}; {when}. "
        "[All figures](docs/benchmarks.md), other peers among them; `make bench` measures them on your machine."
    )


def redrawn(text: str, cases: dict[str, Any]) -> str:
    """Return README with the table of these cases."""
    head, _, after = text.partition(BEGIN)
    _, end, tail = after.partition(END)
    if not end:
        raise SystemExit(f"README.md has no marks for the table: {BEGIN} … {END}")
    return f"{head}{BEGIN}\n{table(cases)}\n{END}{tail}"


def cases() -> dict[str, Any]:
    """Return what was measured."""
    found: dict[str, Any] = json.loads((ROOT / "docs" / "benchmarks.json").read_text(encoding="utf-8"))["cases"]
    return found


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(redrawn(readme.read_text(encoding="utf-8"), cases()), encoding="utf-8")
