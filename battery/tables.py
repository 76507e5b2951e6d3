"""The records as a page: the figures first, then every set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from battery.peers import PEERS
from battery.run import Record
from battery.sets import STRUCTURED, STRUCTURELESS

__all__ = ["figures", "page"]


def figures(records: Sequence[Record]) -> dict[str, float]:
    """Return the mean scores over the sets with structure, and the two shares of "no clusters"."""
    structured = [r for r in records if r.name in STRUCTURED]
    without = [r for r in records if r.name in STRUCTURELESS]
    out: dict[str, float] = {}
    if structured:
        out["knoll, recommended, not told k"] = float(np.mean([r.ari for r in structured]))
        out["knoll, the best of its answers"] = float(np.mean([r.oracle for r in structured]))
        for peer in PEERS:
            if all(peer in r.peers for r in structured):
                told = "not told k" if peer == "HDBSCAN" else "told k"
                out[f"scikit-learn {peer}, {told}"] = float(np.mean([r.peers[peer] for r in structured]))
        out['"no clusters" where there are some'] = float(np.mean([r.method is None for r in structured]))
    if without:
        out['"no clusters" where there are none'] = float(np.mean([r.method is None for r in without]))
    return out


def page(halves: dict[str, Sequence[Record]], machine: str) -> str:
    """Write docs/battery.md."""
    lines = [
        "# How good is the recommendation?",
        "",
        f"`make battery` draws {len(STRUCTURED)} labelled sets and {len(STRUCTURELESS)} without structure "
        "(battery/sets.py), each from two seeds: the choice was made while looking at the development half only; the "
        "test half is for judging it. Scores are adjusted Rand indices over the sets with structure. `knoll.compare` "
        "does not know the number of clusters; scikit-learn's methods do, except HDBSCAN, which does not need it. All "
        "see columns of unit variance. Rows of background noise are not scored; rows labelled as noise count as "
        "one more cluster. A cluster is a connected mode of the density, so one ring or one bent band is a set without "
        "structure. How the choice is made: [guide/how-compare-decides.md](guide/how-compare-decides.md).",
        "",
        f"{machine}",
        "",
        "| | " + " | ".join(halves) + " |",
        "|---|" + "---:|" * len(halves),
    ]
    all_figures = {half: figures(records) for half, records in halves.items()}
    for name in next(iter(all_figures.values())):
        cells = [f"{all_figures[half].get(name, float('nan')):.3f}" for half in halves]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for half, records in halves.items():
        lines += ["", f"## {half.capitalize()} half", "", _header(), "|---|" + "---:|" * 4 + "---|" + "---:|" * 7]
        lines += [_row(r) for r in records]
    return "\n".join(lines) + "\n"


_SHORT = ("k-means", "mixture", "spectral", "spectral nn", "HDBSCAN")


def _header() -> str:
    return "| set | rows | columns | k | found | recommended | ARI | best of ours | " + " | ".join(_SHORT) + " |"


def _row(r: Record) -> str:
    peers = [f"{r.peers[p]:.2f}" if p in r.peers else "" for p in PEERS]
    scores = [f"{r.ari:.2f}", f"{r.oracle:.2f}" if r.name in STRUCTURED else ""]
    cells = [r.name, str(r.rows), str(r.columns), str(r.clusters), str(r.found), r.method or "no clusters", *scores]
    return "| " + " | ".join(cells + peers) + " |"
