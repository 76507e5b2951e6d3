"""The records as a page: the figures first, then calibration, false alarms, and every set."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from battery.peers import PEERS
from battery.run import Record

__all__ = ["calibration", "false_alarms", "figures", "page"]

_BINS = (0.0, 0.5, 0.7, 0.85, 0.95, 1.01)  # of the confidence


def figures(records: Sequence[Record]) -> dict[str, float]:
    """Return the mean scores over the sets with clusters, and the share of false alarms on the others."""
    structured = [r for r in records if r.structured]
    bare = [r for r in records if not r.structured]
    out: dict[str, float] = {}
    if structured:
        out["knoll, not given k, labels always given"] = _mean(structured, lambda r: r.ari)
        out['knoll, not given k, "no clusters" counts as 0'] = _mean(structured, lambda r: r.with_verdict)
        out["knoll, best of the answers shown"] = _mean(structured, lambda r: r.best_of_three)
        known = [r for r in structured if r.given_k is not None]
        if known:
            out["knoll, given k"] = _mean(known, lambda r: r.given_k or 0.0)
        out["knoll, mean confidence"] = _mean(structured, lambda r: r.confidence)
        for peer in PEERS:
            if all(peer in r.peers for r in structured):
                how = "not given k" if peer == "HDBSCAN" else "given k"
                out[f"scikit-learn {peer}, {how}"] = _mean(structured, lambda r, peer=peer: r.peers[peer])
        out['"no clusters" where there are some, share'] = _mean(structured, lambda r: float(r.verdict == "none"))
    if bare:
        out["false alarms where there are none, share"] = _mean(bare, lambda r: float(r.verdict != "none"))
    return out


def _mean(records: Sequence[Record], figure: Callable[..., float]) -> float:
    return float(np.mean([figure(r) for r in records]))


def calibration(records: Sequence[Record]) -> list[tuple[str, int, float, float]]:
    """Return, by bins of the confidence on sets with clusters: their number, the mean confidence and the real index."""
    out = []
    for low, high in itertools.pairwise(_BINS):
        inside = [r for r in records if r.structured and low <= r.confidence < high]
        if inside:
            means = _mean(inside, lambda r: r.confidence), _mean(inside, lambda r: r.ari)
            out.append((f"{low:.2f} to {min(high, 1.0):.2f}", len(inside), *means))
    return out


def false_alarms(records: Sequence[Record]) -> dict[str, tuple[int, int]]:
    """Return by recipe without clusters: false alarms, and sets."""
    recipes = dict.fromkeys(r.name for r in records if not r.structured)
    of = {recipe: [r for r in records if r.name == recipe and not r.structured] for recipe in recipes}
    return {recipe: (sum(r.verdict != "none" for r in group), len(group)) for recipe, group in of.items()}


def page(groups: dict[str, Sequence[Record]], machine: str) -> str:
    """Write docs/battery.md."""
    every = {group: figures(records) for group, records in groups.items()}
    names = dict.fromkeys(itertools.chain.from_iterable(every.values()))
    lines = [
        "# How good is the recommendation?",
        "",
        "`make battery` runs `knoll.compare` on sets with known clusters: those of battery/sets.py, each from two "
        "seeds, and tables and generated sets of scikit-learn, whose classes need not be clusters. None of them was "
        "trained on. Scores are adjusted Rand indices over the sets with clusters, the best over the reference "
        "labelings. `knoll.compare` does not know the number of clusters unless the line states it. scikit-learn's "
        "methods see columns of unit variance. Rows of background noise are not scored; rows labelled as noise count "
        "as one more cluster. `python -m battery --data FOLDER` does the same for a folder of `*.data.gz` files with "
        "`*.labels0.gz` beside them. How the choice is made: "
        "[guide/how-compare-decides.md](guide/how-compare-decides.md).",
        "",
        machine,
        "",
        "| | " + " | ".join(groups) + " |",
        "|---|" + "---:|" * len(groups),
    ]
    for name in names:
        cells = [f"{found[name]:.3f}" if name in found else "" for found in every.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    records = list(itertools.chain.from_iterable(groups.values()))
    lines += ["", "## Confidence and real index", "", "| confidence | sets | mean confidence | real index |"]
    lines += ["|---|---:|---:|---:|"]
    lines += [f"| {name} | {count} | {mean:.2f} | {real:.2f} |" for name, count, mean, real in calibration(records)]
    for title, members in groups.items():
        lines += ["", f"## {title.capitalize()}", "", _header(), "|---|" + "---:|" * 3 + "---|---|" + "---:|" * 10]
        lines += [_row(r) for r in members]
    return "\n".join(lines) + "\n"


_SHORT = ("k-means", "mixture", "spectral", "spectral nn", "HDBSCAN")


def _header() -> str:
    own = "| set | rows | columns | k | found by | verdict | k found | confidence | ARI | of three | given k |"
    return own + " " + " | ".join(_SHORT) + " |"


def _row(r: Record) -> str:
    peers = [f"{r.peers[p]:.2f}" if p in r.peers else "" for p in PEERS]
    scores = [r.ari, r.best_of_three, r.given_k] if r.structured else [None] * 3
    k = " or ".join(map(str, r.clusters)) or "1"
    cells = [r.name, str(r.rows), str(r.columns), k, r.method, r.verdict, str(r.found), f"{r.confidence:.2f}"]
    return "| " + " | ".join(cells + ["" if x is None else f"{x:.2f}" for x in scores] + peers) + " |"
