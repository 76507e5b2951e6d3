"""The recommendation: the best judged answer, whether there are clusters, how sure that is, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from knoll._format import number_word, plural
from knoll.comparison.features import GROUPS
from knoll.comparison.judge import Judge, Judgement
from knoll.comparison.result import Candidate

__all__ = ["AGREES", "caution_for", "level_of", "reasons_for", "relation_of", "verdict_of"]

CLEAR, LIKELY = 0.85, 0.5  # confidence from which an answer is called so
AGREES = 0.9  # adjusted Rand index from which two answers are about the same
_UNCLEAR = 0.1  # difference of the scores of one cluster and of the answer up to which the verdict is open
_MATTERS = 0.01  # a fact is given if the score would be lower by this without it
_REFINES = 0.95  # share of the pairs of rows of the finer answer that the coarser has together


def verdict_of(judged: Judgement, best: int) -> str:
    """Compare the answer with one cluster of all rows."""
    lead = judged.one - float(judged.score[best])
    return "none" if lead > 0 else "unclear" if lead > -_UNCLEAR else "clusters"


def level_of(confidence: float) -> str:
    """Return the confidence in words."""
    return "clear" if confidence >= CLEAR else "likely" if confidence >= LIKELY else "a guess"


def relation_of(judged: Judgement, best: int, other: int) -> str:
    """Whether another answer divides or joins the clusters of the best."""
    pool = judged.pool
    both = pool.together[best, other]
    finer, coarser = both / max(1.0, pool.together[other, other]), both / max(1.0, pool.together[best, best])
    k = pool.n_clusters
    if finer > _REFINES and k[other] > k[best]:
        return "finer"
    return "coarser" if coarser > _REFINES and k[other] < k[best] else "different"


def caution_for(verdict: str, level: str, alternatives: int, *, required: bool) -> str:
    """Return one sentence on how to use the answer."""
    if verdict == "none":
        return "The density does not drop between these clusters: they divide one continuous cloud."
    if level == "a guess":
        return "This is a guess. Compare it with the other answers, and with what you know of the rows."
    if alternatives:
        return "Several answers are defensible; they are listed with it."
    if required:
        return "The number of clusters was given; whether there are so many was not tested."
    return "Clusters are groups of similar rows, not proof of a cause."


def reasons_for(judge: Judge, judged: Judgement, best: int, found: Candidate) -> list[str]:
    """State what was measured on the answer, as far as its score depends on it."""
    pool, names = judged.pool, judge.names
    figure = dict(zip(names, judged.figures[best], strict=True))
    facts = {
        "agreement": _agreement(pool.agreement[best]),
        "density": _density(figure),
        "gap": _gap(figure),
        "inside": _inside(figure),
        "sizes": _sizes(found),
    }
    matters = _what_matters(judge, judged, best)
    kept = [
        text for name, text in facts.items() if text and (matters.get(name, 0.0) >= _MATTERS or name == "agreement")
    ]
    return [_summary(found), *kept]


def _what_matters(judge: Judge, judged: Judgement, best: int) -> dict[str, float]:
    """Return by how much the score falls if a group of figures is that of the median answer."""
    typical = np.median(judged.figures[1:], axis=0) if len(judged.figures) > 1 else judged.figures[0]
    rows = np.repeat(judged.figures[best][None, :], len(GROUPS), axis=0)
    for row, (_, members) in zip(rows, GROUPS.items(), strict=True):
        at = [judge.names.index(name) for name in members if name in judge.names]
        row[at] = typical[at]
    fall = judged.score[best] - judge.scores(rows)[0]
    return dict(zip(GROUPS, fall.tolist(), strict=True))


def _summary(found: Candidate) -> str:
    noise = f" and {100 * found.noise:.1f} % noise" if found.noise > 0 else ""
    return f"{number_word(found.n_clusters).capitalize()} clusters{noise}, found by {found.method}."


def _agreement(agreement: Sequence[float]) -> str:
    total, agreeing = len(agreement), int((np.asarray(agreement) >= AGREES).sum())
    if total < 2:
        return ""
    return (
        f"{agreeing} of {total} kinds of method find about the same clusters (adjusted Rand index at least {AGREES})."
    )


def _density(figure: dict[str, float]) -> str:
    drop = figure["drop-least"]
    if drop <= 0.1:
        return "The density hardly drops at the border of the least separated cluster."
    times = np.exp(drop)
    return (
        f"At the border of the least separated cluster, neighbours are {times:.1f} times as far apart as in its core."
    )


def _gap(figure: dict[str, float]) -> str:
    gap = np.exp(figure["gap-typical-least"])
    return (
        f"The narrowest gap between two clusters is {gap:.1f} times the typical distance of neighbours inside."
        if gap > 1.2
        else ""
    )


def _inside(figure: dict[str, float]) -> str:
    inner = figure["inner-mode-large"]
    if inner < 0.35:
        return "No cluster has a second dense region of its own."
    return f"One cluster has two dense regions, with neighbours {np.exp(inner):.1f} times as far apart between them."


def _sizes(found: Candidate) -> str:
    sizes = np.bincount(found.labels[found.labels >= 0])
    return (
        f"The smallest cluster has {plural(int(sizes.min()), 'row')}." if sizes.min() < 0.02 * len(found.labels) else ""
    )
