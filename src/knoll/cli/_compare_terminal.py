"""What ``knoll compare`` says at its end: remarks, a short table, the recommendation, and where the files are."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from knoll.cli._output import some
from knoll.cli._terminal import echo, visible
from knoll.comparison import Comparison
from knoll.comparison.plan import ALL
from knoll.registry import METHODS, display_names

__all__ = ["tell"]


def tell(found: Comparison, out: Path, form: str) -> None:
    """Show the profile's remarks, a short table, the recommendation, and where the files are."""
    for remark in (*found.profile.remarks, *found.notes):
        _say(remark if remark in found.profile.remarks else display_names(remark), "  ")
    echo()
    for line in _lines(found):
        echo(line)
    advice = found.recommendation
    echo()
    if advice.method is not None:
        _say(f"Recommended: {METHODS[advice.method].title}, {_clusters(found, advice.method)}")
    _say(display_names(advice.reasons[0]))
    for reason in advice.reasons[1:]:
        _say(display_names(reason), "  ")
    if advice.runner_up is not None:
        why = f" {advice.why_not}" if advice.why_not else ""
        _say(f"Runner-up: {METHODS[advice.runner_up].title}, {_clusters(found, advice.runner_up)}.{display_names(why)}")
    _say(advice.caution)
    echo()
    files = {"report.html": "HTML report",
             f"labels.{form}": "every row's cluster by each method",
             "models/": "for knoll predict", "summary.json": f"the same in numbers; {found.seconds:.1f} s"}  # fmt: skip
    width = max(len(name) for name in files)
    for name, what in files.items():
        echo(f"{out}/{name:{width}}  {what}")


def _say(text: str, indent: str = "") -> None:
    """Print a sentence in lines that fit."""
    width = min(110, max(40, shutil.get_terminal_size((100, 24)).columns))
    for line in textwrap.wrap(visible(text), width, initial_indent=indent, subsequent_indent=indent) or [""]:
        echo(line)


def _clusters(found: Comparison, method: str) -> str:
    candidate = found.candidates[method]
    sizes = sorted(np.unique(candidate.labels[candidate.labels >= 0], return_counts=True)[1].tolist(), reverse=True)
    shown = ", ".join(map(str, sizes[:8])) + (", …" if len(sizes) > 8 else "")
    noise = f", {100 * candidate.noise:.1f} % noise" if candidate.noise else ""
    return f"{some(len(sizes), 'cluster')} ({shown} rows{noise})"


def _lines(found: Comparison) -> Iterator[str]:
    truth = found.truth_scores
    sampled = any(candidate.how != ALL for candidate in found.candidates.values())
    told = f"{'truth':>7}" if truth is not None else ""
    fitted = "  fitted on" if sampled else ""
    yield f"  {'method':<20}{'clusters':>9}{'noise':>8}{'stable':>8}{told}{'seconds':>9}{fitted}"
    for name, candidate in found.candidates.items():
        mark = "→" if name == found.recommendation.method else " "
        stable = "–" if candidate.stability is None else f"{candidate.stability:.2f}"
        told = f"{truth[name]['ari']:>7.2f}" if truth is not None else ""
        yield (
            f"{mark} {METHODS[name].title:<20}{candidate.n_clusters:>9}{100 * candidate.noise:>6.1f} %{stable:>8}{told}"
            f"{candidate.seconds:>9.2f}{f'  {candidate.how}' if sampled else ''}"
        )
    for failure in found.failures:
        yield f"  {METHODS[failure.method].title:<20} no answer: {' '.join(failure.reason.split())}"
    if truth is not None:
        yield "  truth: adjusted Rand index with the known classes, which nothing was chosen by"
