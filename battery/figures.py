"""How good the judge's choices are on sets with known clusters: always with labels, with the verdict, best of three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from battery.collect import Collected
from battery.generator import STRUCTURELESS
from knoll.comparison.judge import Judge

_ALIKE = 0.75  # adjusted Rand index below which two answers differ


@dataclass(frozen=True)
class Choice:
    """What the judge chose on one set."""

    kind: str
    structured: bool
    ari: float  # of the answer
    clusters: int
    best_of_three: float  # of the answer and the two next that differ
    best: float  # of all answers
    confidence: float
    none: bool  # whether the verdict is that there are no clusters


def choose(judge: Judge, one: Collected) -> Choice:
    """Let the judge choose among the answers of a set."""
    score, expected = judge.score(one.features)
    order = [i for i in np.argsort(-score, kind="stable").tolist() if one.clusters[i] > 1]
    shown: list[int] = []
    for i in order:
        if len(shown) < 3 and all(one.between[i, j] < _ALIKE for j in shown):
            shown.append(i)
    best = order[0]
    return Choice(
        kind=one.kind,
        structured=one.kind not in STRUCTURELESS,
        ari=float(one.ari[best]),
        clusters=int(one.clusters[best]),
        best_of_three=float(max(one.ari[i] for i in shown)),
        best=float(one.ari[1:].max()),
        confidence=float(expected[best]),
        none=bool(score[0] > score[best]),
    )


def told(judge: Judge, one: Collected, numbers: Sequence[int]) -> float:
    """Return the index of the answer chosen among those with k clusters, the best over the numbers k."""
    score = judge.score(one.features)[0]
    found = [0.0]
    for k in numbers:
        allowed = np.flatnonzero(one.clusters == k)
        if len(allowed):
            found.append(float(one.ari[allowed[np.argmax(score[allowed])]]))
    return max(found)


def summary(name: str, judge: Judge, sets: Sequence[Collected]) -> str:
    """Return the figures in one line."""
    chosen = [choose(judge, one) for one in sets]
    good = [c for c in chosen if c.structured]
    bare = [c for c in chosen if not c.structured]
    text = f"{name:<16}"
    if good:
        always = np.mean([c.ari for c in good])
        verdict = np.mean([0.0 if c.none else c.ari for c in good])
        three, oracle = np.mean([c.best_of_three for c in good]), np.mean([c.best for c in good])
        confidence = np.mean([c.confidence for c in good])
        text += (
            f"{len(good):>5} sets: labels always {always:.3f}, with the verdict {verdict:.3f}, "
            f"best of three {three:.3f}, oracle {oracle:.3f}, confidence {confidence:.3f}"
        )
    if bare:
        alarms = np.mean([not c.none for c in bare])
        text += f"; {len(bare)} sets without clusters: false alarms {100 * alarms:.1f} %"
    return text
