"""What ``knoll compare`` prints at its end: remarks, a short table, the recommendation, and where the files are."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import numpy as np

from knoll._format import plural, share, two_digits
from knoll.cli._compare_options import ALTERNATIVES
from knoll.cli._terminal import echo, visible
from knoll.comparison import Candidate, Comparison
from knoll.comparison.result import table_lines
from knoll.explanation import Explanation
from knoll.registry import METHODS, display_names, title


def print_result(found: Comparison, explanation: Explanation, out: Path, form: str) -> None:
    """Show the profile's remarks, a short table, the recommendation, the clusters, and where the files are."""
    for remark in (*found.profile.remarks, *found.notes):
        _print(remark if remark in found.profile.remarks else display_names(remark), "  ")
    echo()
    for line in table_lines(found, title):
        echo(line)
    if found.truth_scores is not None:
        echo("  truth: adjusted Rand index with the known classes, not used in any choice")
    advice = found.recommendation
    echo()
    answer = f"{METHODS[advice.method].title}, {_clusters(found.candidates[advice.method])}"
    _print(f"No clear clusters. The best division: {answer}" if advice.verdict == "none" else f"Recommended: {answer}")
    _print(f"{_LEVELS[advice.level]}: expected agreement with the true clusters {advice.confidence:.2f}.")
    for reason in advice.reasons:
        _print(display_names(reason), "  ")
    for name, other in zip(ALTERNATIVES, advice.alternatives, strict=False):
        one = other.candidate
        if other.defensible:
            answer = f"{METHODS[one.method].title}, {_clusters(one)}"
            near = f"adjusted Rand index {two_digits(other.agreement)} with the recommended one"
            _print(f"{_RELATIONS[other.relation]} ({name}): {answer}; expected agreement {one.expected:.2f}; {near}.")
    _print(advice.caution)
    echo()
    _print_clusters(explanation)
    echo()
    files = {"report.html": "HTML report",
             f"labels.{form}": "every row's cluster by each method",
             "models/": "for knoll predict", "summary.json": f"the same in numbers; {found.seconds:.1f} s"}  # fmt: skip
    width = max(len(name) for name in files)
    for name, what in files.items():
        echo(f"{out}/{name:{width}}  {what}")


def _print_clusters(explanation: Explanation) -> None:
    """Show what sets the largest clusters apart, a line or two each."""
    clusters = sorted(explanation.clusters, key=lambda one: (one.label < 0, -one.size, one.label))
    for cluster in clusters[:_CLUSTERS]:
        _print(str(cluster), "  ", "    ")
    if len(clusters) > _CLUSTERS:
        echo(f"  and {len(clusters) - _CLUSTERS} more, in the report")
    if explanation.depth:
        rules = plural(sum(len(cluster.rules) for cluster in explanation.clusters), "rule")
        _print(
            f"{rules} give {share(explanation.fidelity)} of the rows their cluster; see the report for SQL and Python.",
            "  ",
        )


def _print(text: str, indent: str = "", later: str | None = None) -> None:
    """Print a sentence in lines that fit; `later` indents those after the first."""
    width = min(110, max(40, shutil.get_terminal_size((100, 24)).columns))
    then = indent if later is None else later
    for line in textwrap.wrap(
        visible(text.replace("\u202f", "")), width, initial_indent=indent, subsequent_indent=then
    ) or [""]:
        echo(line)


_CLUSTERS = 8  # at the terminal
_LEVELS = {"clear": "Clear", "likely": "Likely", "a guess": "A guess"}
_RELATIONS = {"finer": "A finer answer", "coarser": "A coarser answer", "different": "Another answer"}


def _clusters(candidate: Candidate) -> str:
    sizes = sorted(np.unique(candidate.labels[candidate.labels >= 0], return_counts=True)[1].tolist(), reverse=True)
    shown = ", ".join(map(str, sizes[:8])) + (", …" if len(sizes) > 8 else "")
    noise = f", {100 * candidate.noise:.1f} % noise" if candidate.noise else ""
    return f"{plural(len(sizes), 'cluster')} ({shown} rows{noise})"
