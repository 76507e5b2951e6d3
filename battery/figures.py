"""How good the judge's choices are on sets with known clusters: always with labels, with the verdict, best of three."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from battery.collect import Collected
from battery.generator import STRUCTURELESS, TEST_ONLY, Floats
from knoll.comparison.judge import Judge, rank, shortlist

_LEADS = (0.0, 0.03, 0.1, 0.15, 0.2, 0.3, 0.5, np.inf)  # of the score over that of the next answer that differs
_BINS = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.01)  # of the confidence


@dataclass(frozen=True)
class Choice:
    """What the judge chose on one set."""

    recipe: str
    structured: bool
    ari: float  # of the answer
    clusters: int
    best_of_three: float  # of the answer and the two next that differ
    best: float  # of all answers
    second: float  # of the next answer that differs
    lead: float  # of the score over that of the second
    index: float  # predicted for the answer, not calibrated
    lead_of_one: float  # the score of one cluster less that of the answer


def choose(judge: Judge, one: Collected) -> Choice:
    """Let the judge choose among the answers of a set."""
    score, index = judge.scores(one.features)
    order = _ranked(one, score, None)
    shown = shortlist(one.between, order, 3)
    best, second = order[0], shown[min(1, len(shown) - 1)]
    return Choice(
        recipe=one.recipe,
        structured=one.recipe not in STRUCTURELESS,
        ari=float(one.ari[best]),
        clusters=int(one.clusters[best]),
        best_of_three=float(max(one.ari[i] for i in shown)),
        best=float(one.ari[1:].max()),
        second=float(one.ari[second]),
        lead=float(score[best] - score[second]),
        index=float(index[best]),
        lead_of_one=float(score[0] - score[best]),
    )


def score_given_k(judge: Judge, one: Collected, numbers: Sequence[int]) -> float:
    """Return the index of the answer chosen among those with k clusters, the best over the numbers k."""
    score, _ = judge.scores(one.features)
    orders = [_ranked(one, score, [k]) for k in numbers]
    return max((float(one.ari[order[0]]) for order in orders if order), default=0.0)


def _ranked(one: Collected, score: Floats, allowed: Sequence[int] | None) -> list[int]:
    """Rank as a comparison does."""
    least = np.exp(one.features[:, one.names.index("least-size")]).round().astype(np.int64)
    rows = round(float(np.exp(one.features[0, one.names.index("rows")])))
    return rank(score, one.clusters, least, one.between, rows, allowed).tolist()


def report(name: str, choices: Sequence[Choice], judge: Judge) -> str:
    """Return the figures, the calibration, and the false alarms of each recipe."""
    good = [c for c in choices if c.structured]
    bare = [c for c in choices if not c.structured]
    text = f"{name:<16}"
    if good:
        text += _of_structured(good, judge)
    if bare:
        text += _of_structureless(bare, judge)
    return text


def alarm_table(choices: Sequence[Choice], judge: Judge) -> str:
    """Return wrong verdicts on sets without clusters as a table, by recipe; a recipe for testing only has a star."""
    lines = ['| recipe | sets | "clusters" | "unclear" | wrong |', "|---|---:|---:|---:|---:|"]
    for recipe in [*sorted({c.recipe for c in choices}), None]:
        leads = np.array([c.lead_of_one for c in choices if recipe in (None, c.recipe)])
        clusters, wrong = int((leads <= judge.clear_lead).sum()), int((leads <= judge.none_lead).sum())
        name = "all" if recipe is None else f"{recipe}{'*' if recipe in TEST_ONLY else ''}"
        lines.append(f"| {name} | {len(leads)} | {clusters} | {wrong - clusters} | {100 * wrong / len(leads):.1f} % |")
    return "\n".join(lines)


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
    return "\n".join(lines + _of_leads(good))


def _of_leads(good: Sequence[Choice]) -> list[str]:
    """Report how often the second answer is the better one, by the lead of the first."""
    lines = []
    for low, high in itertools.pairwise(_LEADS):
        subset = [c for c in good if low <= c.lead < high]
        if subset:
            better, worse = np.mean([[c.second > c.ari + 0.05, c.ari > c.second + 0.05] for c in subset], axis=0)
            gain = np.mean([c.best_of_three - c.ari for c in subset])
            lines.append(
                f"  lead {low:.2f} to {high:.2f}: {len(subset):>4} sets, second better {100 * better:.0f} %, "
                f"first better {100 * worse:.0f} %, gain by three answers {gain:.3f}"
            )
    return lines


def _of_structureless(bare: Sequence[Choice], judge: Judge) -> str:
    recipes = sorted({c.recipe for c in bare})
    leads = {recipe: np.array([c.lead_of_one for c in bare if c.recipe == recipe]) for recipe in recipes}
    every = np.concatenate(list(leads.values()))
    each = ", ".join(
        f"{name} {(of <= judge.clear_lead).sum()}+{((of > judge.clear_lead) & (of <= judge.none_lead)).sum()}/{len(of)}"
        for name, of in leads.items()
    )
    return (
        f"\n  {len(every)} sets without clusters: called clusters {100 * np.mean(every <= judge.clear_lead):.1f} %, "
        f"clusters or unclear {100 * np.mean(every <= judge.none_lead):.1f} % ({each})"
    )
