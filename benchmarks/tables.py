"""Outcomes as a text table, as docs/benchmarks.json, and as docs/benchmarks.md made from the JSON.

A run of a few cases replaces only their entries, so each entry keeps its own date, machine and versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HEAD = ("case", "contestant", "seconds", "ratio", "target", "peak MB", "check")


def cells(outcome: dict[str, Any]) -> list[tuple[str, ...]]:
    """One tuple of HEAD per contestant; a ratio stands on the peer's row: how many times as fast ours is."""
    lines: list[tuple[str, ...]] = []
    verdict_of: dict[str, list[dict[str, Any]]] = {}
    for verdict in outcome["verdicts"]:
        verdict_of.setdefault(verdict["against"], []).append(verdict)
    for position, row in enumerate(outcome["rows"]):
        if row["seconds"] is None:
            lines.append((outcome["case"], row["contestant"], "–", "–", "–", "–", row["status"]))
            continue
        ratio = "worse" if row["worse_than_peer"] else "–" if row["ratio"] is None else f"{row['ratio']:.3g}"
        targets = [f"≥ {v['target']:g} {v['outcome']}" for v in verdict_of.get(row["contestant"], ())]
        peak = "–" if row["peak_mb"] is None else f"{row['peak_mb']:.1f}"
        if position == 0 and outcome["memory_limit"] is not None:
            targets.append(f"≤ {outcome['memory_limit']:g} MB")
        check = ", ".join(f"{key} {value:.3g}" for key, value in row["quality"].items()) or "–"
        seconds = f"{row['seconds']:.4g} ± {50 * row['spread']:.0f} %"
        lines.append((outcome["case"], row["contestant"], seconds, ratio, ", ".join(targets) or "–", peak, check))
    return lines


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell."""
    everything = [HEAD, *rows]
    width = [max(len(row[i]) for row in everything) for i in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, width)).rstrip() for row in everything]
    return "\n".join([lines[0], "  ".join("-" * w for w in width), *lines[1:]])


def write(outcomes: Iterable[dict[str, Any]], folder: Path) -> None:
    """Replace the entries of these cases in ``benchmarks.json`` and make ``benchmarks.md`` from all."""
    store = folder / "benchmarks.json"
    entries = json.loads(store.read_text(encoding="utf-8"))["cases"] if store.exists() else {}
    entries.update({outcome["case"]: outcome for outcome in outcomes})
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"cases": dict(sorted(entries.items()))}, indent=1, ensure_ascii=False)
    store.write_text(text + "\n", encoding="utf-8")
    (folder / "benchmarks.md").write_text(markdown(entries), encoding="utf-8")


def markdown(entries: dict[str, dict[str, Any]]) -> str:
    """The page: what is measured and how, a table per group, and the settings it refers to by letter."""
    settings: dict[str, str] = {}  # description -> letter
    body: list[str] = []
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in (entries[name] for name in sorted(entries)):
        groups.setdefault(entry["group"], []).append(entry)
    for group in sorted(groups):
        body += [f"## {group}", "", f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
        notes = []
        for entry in groups[group]:
            letter = settings.setdefault(_setting(entry), _letter(len(settings)))
            for line in cells(entry):
                body.append("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |")
            notes.append(f"- `{entry['case']}`: {entry['about']}; {_how(entry)}; {entry['date']}, setting {letter}")
        body += ["", *notes, ""]
    explained = [f"- **{letter}**: {setting}" for setting, letter in settings.items()]
    return "\n".join([_INTRODUCTION, *body, "## Settings", "", *explained, ""])


def _letter(position: int) -> str:
    return chr(ord("A") + position) if position < 26 else f"A{position - 25}"


def _setting(entry: dict[str, Any]) -> str:
    m = entry["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in sorted(entry["versions"].items()))
    computer = f"{m['cpu']}, {m['cores']} cores, {m['memory']}, {m['system']}"
    return f"{computer}; {entry['threads']} threads; {packages}"


def _how(entry: dict[str, Any]) -> str:
    calls = f", {entry['calls']} calls in each" if entry["calls"] > 1 else ""
    warmup = ", after a warm-up call" if entry["warmup"] else ""
    return f"median of {entry['repeats']} processes{calls}{warmup}"


_INTRODUCTION = """\
# Benchmarks

Made by `make bench`; `make bench CASES=gaussian*` renews some rows. Do not edit by hand.

Each timed run is a fresh process that loads the same stored data, with the same number of threads for
everybody; the contestants take turns, and medians are compared. *Seconds* are the median and half the range.
*Ratio* stands on the peer's row: how many times as fast knoll is. One evaluator in float64 judges every
answer (*check*), and where knoll's answer is worse the ratio is not shown; errors below a few roundings of the
data's own dtype (float32 in, float32 out) count as equal. A range beyond ± 30 % means that the machine was
busy, not how fast anybody is. *Peak MB* is memory beyond the loaded data.
"""
