"""How good the judge's choices are on sets with known clusters: always with labels, with the verdict, best of three."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from battery.collect import Collected
from battery.generator import STRUCTURELESS, Floats
from knoll.comparison.judge import Judge, rank, shortlist

_BINS = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.01)  # of the confidence


@dataclass(frozen=True)
class Choice:
    """What the judge chose on one set."""

    kind: str
    structured: bool
    ari: float  # of the answer
    clusters: int
    best_of_three: float  # of the answer and the two next that differ
    best: float  # of all answers
    index: float  # predicted for the answer, not calibrated
    lead_of_one: float  # the score of one cluster less that of the answer


def choose(judge: Judge, one: Collected) -> Choice:
    """Let the judge choose among the answers of a set."""
    score, index = judge.scores(one.features)
    order = _ranked(one, score, None)
    shown = shortlist(one.between, order, 3)
    best = order[0]
    return Choice(
        kind=one.kind,
        structured=one.kind not in STRUCTURELESS,
        ari=float(one.ari[best]),
        clusters=int(one.clusters[best]),
        best_of_three=float(max(one.ari[i] for i in shown)),
        best=float(one.ari[1:].max()),
        index=float(index[best]),
        lead_of_one=float(score[0] - score[best]),
    )


def score_given_k(judge: Judge, one: Collected, numbers: Sequence[int]) -> float:
    """Return the index of the answer chosen among those with k clusters, the best over the numbers k."""
    score = judge.score_of_number(one.features)
    orders = [_ranked(one, score, [k]) for k in numbers]
    return max((float(one.ari[order[0]]) for order in orders if order), default=0.0)


def _ranked(one: Collected, score: Floats, allowed: Sequence[int] | None) -> list[int]:
    """Rank as a comparison does."""
    least = np.exp(one.features[:, one.names.index("least-size")]).round().astype(np.int64)
    rows = round(float(np.exp(one.features[0, one.names.index("rows")])))
    return rank(score, one.clusters, least, one.between, rows, allowed).tolist()


def report(name: str, choices: Sequence[Choice], judge: Judge) -> str:
    """Return the figures, the calibration, and the false alarms of each kind."""
    good = [c for c in choices if c.structured]
    bare = [c for c in choices if not c.structured]
    text = f"{name:<16}"
    if good:
        text += _of_structured(good, judge)
    if bare:
        text += _of_structureless(bare, judge)
    return text


def _of_structured(good: Sequence[Choice], judge: Judge) -> str:
    always = np.mean([c.ari for c in good])
    verdict = np.mean([0.0 if c.lead_of_one > judge.none_lead else c.ari for c in good])
    three, oracle = np.mean([c.best_of_three for c in good]), np.mean([c.best for c in good])
    confidence, real = judge.confidence(np.array([c.index for c in good])), np.array([c.ari for c in good])
    lines = [
        f"{len(good):>5} sets: labels always {always:.3f}, with the verdict {verdict:.3f}, "
        f"best of three {three:.3f}, oracle {oracle:.3f}, confidence {confidence.mean():.3f}"
    ]
    for low, high in itertools.pairwise(_BINS):
        inside = (confidence >= low) & (confidence < high)
        if inside.any():
            lines.append(
                f"  confidence {low:.2f} to {min(high, 1):.2f}: {inside.sum():>4} sets, "
                f"mean {confidence[inside].mean():.2f}, real {real[inside].mean():.2f}"
            )
    return "\n".join(lines)


def _of_structureless(bare: Sequence[Choice], judge: Judge) -> str:
    kinds = sorted({c.kind for c in bare})
    alarms = {kind: [c.lead_of_one <= judge.none_lead for c in bare if c.kind == kind] for kind in kinds}
    total = np.mean([c.lead_of_one <= judge.none_lead for c in bare])
    each = ", ".join(f"{kind} {sum(found)}/{len(found)}" for kind, found in alarms.items())
    return f"\n  {len(bare)} sets without clusters: false alarms {100 * total:.1f} % ({each})"
